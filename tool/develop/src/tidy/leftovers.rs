//! Rule: nothing is left lying about: no marks of unfinished work, no
//! debugging output, no paths of a developer's machine.

use super::tree::SourceFile;
use super::{Finding, Subject};

/// Marks of unfinished work, spelled so that this file is free of them.
const MARKS: [&str; 6] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("to", "do!"),
    concat!("unimple", "mented!"),
    concat!("db", "g!"),
];

/// Where people keep their files.
const HOMES: [&str; 2] = [concat!("/ho", "me/"), concat!("/Us", "ers/")];

pub fn check(subject: &Subject) -> Vec<Finding> {
    subject.tree.files.iter().flat_map(|file| in_file(file, &subject.tree.root)).collect()
}

fn in_file(file: &SourceFile, root: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in file.source.lines().enumerate() {
        let place = format!("{}:{}", file.path, index + 1);
        for mark in MARKS.iter().filter(|mark| contains_word(line, mark)) {
            findings.push(Finding::new(&place, format!("{mark} is left")));
        }
        if HOMES.iter().any(|home| names_a_folder_in(line, home)) || names_checkout(line, root) {
            findings.push(Finding::new(&place, "a path of a developer's machine"));
        }
    }
    findings
}

/// Whether `word` stands in `line` with no letter, digit or underscore next to it.
pub fn contains_word(line: &str, word: &str) -> bool {
    let in_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    line.match_indices(word)
        .any(|(at, _)| !line[..at].ends_with(in_word) && !line[at + word.len()..].starts_with(in_word))
}

fn names_a_folder_in(line: &str, home: &str) -> bool {
    line.match_indices(home).any(|(at, _)| {
        line[at + home.len()..].starts_with(char::is_alphanumeric) && !line[..at].ends_with(char::is_alphanumeric)
    })
}

fn names_checkout(line: &str, root: &str) -> bool {
    root.len() > 1
        && line.match_indices(root).any(|(at, _)| !line[at + root.len()..].starts_with(char::is_alphanumeric))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(source: &str) -> Vec<String> {
        let mut subject = Subject::planted(vec![("lib/exos/src/a.rs", source)]);
        subject.tree.root = "/srv/checkout".into();
        check(&subject).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn each_mark_is_found() {
        for mark in MARKS {
            assert_eq!(found(&format!("//! A.\n// {mark} later\n")), [format!("{mark} is left")]);
        }
    }

    #[test]
    fn words_that_only_look_like_marks_are_not() {
        let letters = concat!("XX", "XX");
        assert_eq!(found(&format!("let mkdtemp = \"a{letters}\";")), Vec::<String>::new());
    }

    #[test]
    fn paths_of_a_machine_are_found() {
        let home = format!("{}anna/chitin", HOMES[0]);
        assert_eq!(found(&home), ["a path of a developer's machine"]);
        assert_eq!(found("cd /srv/checkout/abi"), ["a path of a developer's machine"]);
        assert_eq!(found("cd /srv/checkouts and see HOME in /home"), Vec::<String>::new());
    }
}
