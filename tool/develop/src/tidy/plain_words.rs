//! Rule: comments and pages are in plain words.
//!
//! A sentence has at most 30 words and names its actor; a line of prose has at most 120 columns. Pages that are made
//! from data, tables, headings and examples are left out.
//! Commit subjects since the rule came have at most 72 characters.

use std::path::Path;
use std::process::Command;

use super::leftovers::contains_word;
use super::tree::SourceFile;
use super::{Finding, Subject};

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

pub fn check(subject: &Subject) -> Vec<Finding> {
    let files = subject.tree.files.iter();
    let mut findings: Vec<Finding> = files.flat_map(|file| faults(&file.path, &prose(file))).collect();
    findings.extend(long_subjects(Path::new(&subject.tree.root)));
    findings
}

/// A line of prose.
struct Line {
    number: usize,
    text: String,
    is_long: bool,
}

/// The prose of a file: paragraphs, each a list of lines.
type Prose = Vec<Vec<Line>>;

fn prose(file: &SourceFile) -> Prose {
    match file.path.rsplit('.').next() {
        Some("rs") => comments(file),
        Some("md") if !GENERATED.contains(&file.path.as_str()) => page(&file.source),
        _ => Prose::new(),
    }
}

/// Comments of a Rust source; an empty comment line, code or a fenced example ends a paragraph.
fn comments(file: &SourceFile) -> Prose {
    let lines = file.lines.iter().zip(file.source.lines()).map(|(line, source)| {
        let comment = line.comment.trim_start_matches(['/', '!']).trim();
        let is_after_code = line.is_code() && !comment.is_empty();
        (comment.to_owned(), if is_after_code { comment } else { source }.chars().count())
    });
    paragraphs(lines)
}

/// Paragraphs of a page; headings and tables are none.
fn page(source: &str) -> Prose {
    paragraphs(source.lines().map(|line| (line.trim().to_owned(), line.chars().count())))
}

/// Takes lines, each as text and with its columns in the file, apart into paragraphs.
fn paragraphs(lines: impl Iterator<Item = (String, usize)>) -> Prose {
    let (mut prose, mut paragraph, mut fenced) = (Prose::new(), Vec::new(), false);
    for (index, (text, columns)) in lines.enumerate() {
        if text.starts_with("```") {
            fenced = !fenced;
        }
        let is_prose = !fenced && !text.is_empty() && !text.starts_with(['|', '#', '`']) && !text.starts_with("SAFETY");
        if !is_prose || text.starts_with("- ") {
            prose.push(std::mem::take(&mut paragraph));
        }
        if is_prose {
            paragraph.push(Line { number: index + 1, text, is_long: columns > COLUMNS });
        }
    }
    prose.push(paragraph);
    prose.retain(|paragraph| !paragraph.is_empty());
    prose
}

fn faults(path: &str, prose: &Prose) -> Vec<Finding> {
    let mut findings = Vec::new();
    for paragraph in prose {
        let mut find =
            |number: usize, message: String| findings.push(Finding::new(format!("{path}:{number}"), message));
        for line in paragraph.iter().filter(|line| line.is_long) {
            find(line.number, format!("a line of prose has more than {COLUMNS} columns"));
        }
        for (number, sentence) in sentences(paragraph) {
            let lower = sentence.to_lowercase();
            let words = WORDS.iter().filter(|word| contains_word(&lower, word)).copied();
            for word in words.chain(sentence.starts_with(OPENING).then_some(OPENING)) {
                find(number, format!("\"{}\" names no actor: {sentence}", word.trim()));
            }
            let count = sentence.split_whitespace().count();
            if count > SENTENCE_WORDS {
                find(number, format!("a sentence has {count} words, at most {SENTENCE_WORDS}: {sentence}"));
            }
        }
    }
    findings
}

/// Sentences, each with the line it begins in. One ends with a full stop, a question mark or an exclamation mark
/// before a blank.
fn sentences(paragraph: &[Line]) -> Vec<(usize, String)> {
    let (mut found, mut sentence, mut begins) = (Vec::new(), Vec::new(), 0);
    let words = paragraph.iter().flat_map(|line| line.text.split_whitespace().map(|word| (line.number, word)));
    for (number, word) in words {
        if sentence.is_empty() {
            begins = number;
        }
        sentence.push(word);
        if word.ends_with(['.', '?', '!']) {
            found.push((begins, std::mem::take(&mut sentence).join(" ")));
        }
    }
    if !sentence.is_empty() {
        found.push((begins, sentence.join(" ")));
    }
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

    fn found(path: &str, source: &str) -> Vec<Finding> {
        let subject = Subject::planted(vec![(path, source)]);
        subject.tree.files.iter().flat_map(|file| faults(&file.path, &prose(file))).collect()
    }

    #[test]
    fn words_without_an_actor_are_found_in_comments_and_pages() {
        for word in WORDS {
            assert_eq!(found("abi/src/lib.rs", &format!("//! It is {word} here.\n")).len(), 1, "{word}");
            assert_eq!(found("doc/page.md", &format!("It is {word} here.\n")).len(), 1, "{word}");
            assert_eq!(found(GENERATED[0], &format!("It is {word} here.\n")), Vec::new(), "{word}");
            assert_eq!(found("abi/src/lib.rs", &format!("let text = \"{word}\";\n")), Vec::new(), "{word}");
        }
        assert_eq!(found("abi/src/lib.rs", "// One. Who ends asks. And who knows.\n").len(), 1);
    }

    #[test]
    fn long_sentences_and_lines_are_found_across_lines_but_not_in_tables_and_examples() {
        let long = "word ".repeat(31);
        assert_eq!(found("doc/page.md", &format!("{long}.\n")).len(), 2);
        let halves = format!("\n/// Short. {}\n/// {}.\n", "word ".repeat(16), "word ".repeat(15));
        assert_eq!(found("abi/src/lib.rs", &halves).len(), 1);
        assert_eq!(found("abi/src/lib.rs", &halves)[0].place, "abi/src/lib.rs:2");
        assert_eq!(found("doc/page.md", &format!("| {long} |\n```\n{long}\n```\n")), Vec::new());
        assert_eq!(found("abi/src/lib.rs", "/// Of 1.5 words. Of two.\n"), Vec::new());
    }
}
