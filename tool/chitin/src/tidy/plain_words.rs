//! Rule: comments and pages are in plain words.
//!
//! It counts, for each area of the tree, the words and openings without a named actor, the sentences of more than 30
//! words, and prose lines over 120 columns. The list of counts may only shrink: one more is a finding, and one less
//! must be written down (`./chitin tidy --write`). Commit subjects since the rule came have at most 72 characters.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;

use crate::failure::{Context, Result};

use super::leftovers::contains_word;
use super::tree::{SourceFile, Tree};
use super::{Finding, Subject};

/// Where the counts stand.
pub const FILE: &str = "tool/chitin/plain-words.toml";
/// Words that hide the actor, spelled so that this file is free of them.
const WORDS: [&str; 8] = [
    concat!("some", "body"),
    concat!("no", "body"),
    concat!("any", "body"),
    concat!("who", "ever"),
    concat!("holds ", "always"),
    concat!("goes ", "on"),
    concat!("is to ", "be"),
    concat!("be", "side"),
];
/// A sentence does not begin with this.
const OPENING: &str = "Who ";
/// Words of a sentence, at most.
const SENTENCE_WORDS: usize = 30;
/// Columns of a line of prose, at most.
const COLUMNS: usize = 120;
/// Characters of a commit subject, at most.
const SUBJECT: usize = 72;
/// The time after which commit subjects are held to that.
const SINCE: &str = "2026-11-27T00:00:00Z";
/// Pages that are made from data.
const GENERATED: [&str; 4] =
    ["doc/kernel-interface.md", "doc/linux-compatibility.md", "doc/benchmarks.md", "doc/memory-map.md"];

/// The faults of an area, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Words and openings without an actor.
    words: usize,
    /// Sentences that are too long.
    sentences: usize,
    /// Lines that are too long.
    lines: usize,
}

impl Counts {
    fn add(&mut self, other: Self) {
        self.words += other.words;
        self.sentences += other.sentences;
        self.lines += other.lines;
    }

    /// Each kind with its name.
    fn kinds(self) -> [(&'static str, usize); 3] {
        [
            ("words without an actor", self.words),
            ("sentences of more than 30 words", self.sentences),
            ("lines of prose over 120 columns", self.lines),
        ]
    }
}

type Areas = BTreeMap<String, Counts>;

pub fn check(subject: &Subject) -> Vec<Finding> {
    let root = Path::new(&subject.tree.root);
    let allowed = match read(root) {
        Ok(allowed) => allowed,
        Err(failure) => return vec![Finding::new(FILE, failure.to_string())],
    };
    let mut findings = compare(&count(&subject.tree), &allowed);
    findings.extend(long_subjects(root));
    findings
}

/// Writes the present counts down where they are smaller than those in the list; a larger one stays a finding.
///
/// # Errors
/// When the list cannot be read or written.
pub fn write(tree: &Tree) -> Result<()> {
    let root = Path::new(&tree.root);
    let (mut allowed, found) = (read(root)?, count(tree));
    let is_new = allowed.is_empty();
    allowed.retain(|area, _| found.contains_key(area));
    for (area, counts) in found {
        let entry = allowed.entry(area).or_insert(if is_new { counts } else { Counts::default() });
        entry.words = entry.words.min(counts.words);
        entry.sentences = entry.sentences.min(counts.sentences);
        entry.lines = entry.lines.min(counts.lines);
    }
    allowed.retain(|_, counts| *counts != Counts::default());
    let head = "# What is left of words, sentences and lines that are not plain, by area: ./chitin tidy counts them. This list may\n\
                # only shrink; ./chitin tidy --write lowers it.\n\n";
    let rows = allowed.iter().map(|(area, Counts { words, sentences, lines })| {
        format!("\"{area}\" = {{ words = {words}, sentences = {sentences}, lines = {lines} }}\n")
    });
    fs::write(root.join(FILE), head.to_owned() + &rows.collect::<String>()).context(FILE)
}

fn read(root: &Path) -> Result<Areas> {
    let file = root.join(FILE);
    if !file.exists() {
        return Ok(Areas::new());
    }
    toml::from_str(&fs::read_to_string(&file).context(FILE)?).context(FILE)
}

fn compare(found: &Areas, allowed: &Areas) -> Vec<Finding> {
    let mut findings = Vec::new();
    let areas: BTreeSet<&String> = found.keys().chain(allowed.keys()).collect();
    for area in areas {
        let (now, may) =
            (*found.get(area).unwrap_or(&Counts::default()), *allowed.get(area).unwrap_or(&Counts::default()));
        for ((kind, now), (_, may)) in now.kinds().into_iter().zip(may.kinds()) {
            match now.cmp(&may) {
                Ordering::Greater => findings.push(Finding::new(area, format!("{now} {kind}, the list has {may}"))),
                Ordering::Less => {
                    findings
                        .push(Finding::new(area, format!("{now} {kind}, the list has {may}: ./chitin tidy --write")));
                }
                Ordering::Equal => {}
            }
        }
    }
    findings
}

fn count(tree: &Tree) -> Areas {
    let mut areas = Areas::new();
    for file in &tree.files {
        let prose = match file.path.rsplit('.').next() {
            Some("rs") => comments(file),
            Some("md") if !GENERATED.contains(&file.path.as_str()) => page(&file.source),
            _ => continue,
        };
        areas.entry(area_of(&file.path)).or_default().add(faults(&prose));
    }
    areas.retain(|_, counts| *counts != Counts::default());
    areas
}

/// The folder that a path is counted under: a crate, or a folder of the root.
fn area_of(path: &str) -> String {
    let mut parts = path.split('/');
    let first = parts.next().unwrap_or_default();
    match (first, parts.next()) {
        ("lib" | "kernel" | "mechanism" | "app" | "tool" | "test" | "bench", Some(second)) => {
            format!("{first}/{second}")
        }
        (first, Some(_)) => first.to_owned(),
        _ => "pages of the root".to_owned(),
    }
}

/// The prose of a file: paragraphs, each a list of lines.
type Prose = Vec<Vec<String>>;

/// Comments of a Rust source; an empty comment line, code or a fenced example ends a paragraph.
fn comments(file: &SourceFile) -> Prose {
    let lines = file.lines.iter().zip(file.source.lines()).map(|(line, source)| {
        let comment = line.comment.trim_start_matches(['/', '!']).trim();
        if line.is_code() && !comment.is_empty() {
            (comment.to_owned(), comment.to_owned())
        } else {
            (comment.to_owned(), source.to_owned())
        }
    });
    paragraphs(lines)
}

/// Paragraphs of a page; headings and tables are none.
fn page(source: &str) -> Prose {
    paragraphs(source.lines().map(|line| (line.trim().to_owned(), line.to_owned())))
}

/// Takes lines, each as text and as it stands in the file, apart into paragraphs.
fn paragraphs(lines: impl Iterator<Item = (String, String)>) -> Prose {
    let (mut prose, mut paragraph, mut fenced) = (Prose::new(), Vec::new(), false);
    for (text, whole) in lines {
        if text.starts_with("```") {
            fenced = !fenced;
        }
        let is_prose = !fenced && !text.is_empty() && !text.starts_with(['|', '#', '`']) && !text.starts_with("SAFETY");
        if !is_prose || text.starts_with("- ") {
            prose.push(std::mem::take(&mut paragraph));
        }
        if is_prose {
            paragraph.push(if whole.chars().count() > COLUMNS { format!("{text}\u{0}") } else { text });
        }
    }
    prose.push(paragraph);
    prose.retain(|paragraph| !paragraph.is_empty());
    prose
}

fn faults(prose: &Prose) -> Counts {
    let mut counts = Counts::default();
    for paragraph in prose {
        counts.lines += paragraph.iter().filter(|line| line.ends_with('\u{0}')).count();
        let text = paragraph.join(" ").replace('\u{0}', "");
        for sentence in sentences(&text) {
            let lower = sentence.to_lowercase();
            counts.words += WORDS.iter().filter(|word| contains_word(&lower, word)).count();
            counts.words += usize::from(sentence.starts_with(OPENING));
            counts.sentences += usize::from(sentence.split_whitespace().count() > SENTENCE_WORDS);
        }
    }
    counts
}

/// Sentences end with a full stop, a question mark or an exclamation mark before a blank.
fn sentences(text: &str) -> Vec<&str> {
    let (mut found, mut start) = (Vec::new(), 0);
    for (at, _) in text.match_indices([' ']) {
        if text[start..at].ends_with(['.', '?', '!']) {
            found.push(text[start..at].trim());
            start = at;
        }
    }
    found.push(text[start..].trim());
    found
}

/// Commit subjects that are too long. A checkout without history has none.
fn long_subjects(root: &Path) -> Vec<Finding> {
    let log = Command::new("git")
        .args(["log", "--no-merges", "--format=%h %s"])
        .arg(format!("--since={SINCE}"))
        .current_dir(root)
        .output();
    let Ok(log) = log else { return Vec::new() };
    let lines = String::from_utf8_lossy(&log.stdout).into_owned();
    let subjects = lines.lines().filter_map(|line| line.split_once(' '));
    subjects
        .filter(|(_, subject)| subject.chars().count() > SUBJECT)
        .map(|(commit, subject)| {
            Finding::new(commit, format!("the subject has {} characters: {subject}", subject.chars().count()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(path: &str, source: &str) -> Counts {
        let subject = Subject::planted(vec![(path, source)]);
        count(&subject.tree).into_values().next().unwrap_or_default()
    }

    #[test]
    fn words_without_an_actor_are_counted_in_comments_and_pages() {
        for word in WORDS {
            assert_eq!(counted("abi/src/lib.rs", &format!("//! It is {word} here.\n")).words, 1, "{word}");
            assert_eq!(counted("doc/page.md", &format!("It is {word} here.\n")).words, 1, "{word}");
            assert_eq!(counted("abi/src/lib.rs", &format!("let text = \"{word}\";\n")).words, 0, "{word}");
        }
        assert_eq!(counted("abi/src/lib.rs", "// One. Who ends asks. And who knows.\n").words, 1);
    }

    #[test]
    fn long_sentences_and_lines_are_counted_across_lines_but_not_in_tables_and_examples() {
        let long = "word ".repeat(31);
        assert_eq!(counted("doc/page.md", &format!("{long}.\n")), Counts { words: 0, sentences: 1, lines: 1 });
        let halves = format!("/// {}\n/// {}.\n", "word ".repeat(16), "word ".repeat(15));
        assert_eq!(counted("abi/src/lib.rs", &halves), Counts { words: 0, sentences: 1, lines: 0 });
        assert_eq!(counted("doc/page.md", &format!("| {long} |\n```\n{long}\n```\n")), Counts::default());
        assert_eq!(counted("abi/src/lib.rs", "/// Of 1.5 words. Of two.\n"), Counts::default());
    }

    #[test]
    fn the_list_may_only_shrink() {
        let with = |words| Areas::from([("abi".to_owned(), Counts { words, ..Counts::default() })]);
        assert!(compare(&with(3), &with(3)).is_empty());
        assert_eq!(compare(&with(4), &with(3)).len(), 1);
        assert_eq!(compare(&with(2), &with(3)).len(), 1);
        assert_eq!(compare(&with(1), &Areas::new()).len(), 1);
        assert_eq!(compare(&Areas::new(), &with(1)).len(), 1);
    }
}
