//! Rule: the kernel protects and manages nothing, so its sources have no word
//! for what only a library operating system knows.

use super::leftovers::contains_word;
use super::{Finding, Subject};

/// Not to be a part of any name, and not to be said in any string.
const WORDS: [&str; 7] = ["pid", "fd", "signal", "path", "pathname", "socket", "inode"];
/// Not to be said anywhere, comments included.
const PHRASES: [&str; 2] = ["process id", "file descriptor"];
/// Words that comments may use, because they are plain English too.
const ENGLISH: [&str; 2] = ["signal", "path"];

pub fn check(subject: &Subject) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in subject.tree.rust().filter(|file| file.path.starts_with("kernel/")) {
        for (index, line) in file.lines.iter().enumerate() {
            let names = words(&line.code).chain(words(&line.text));
            let said = words(&line.comment).filter(|word| !ENGLISH.contains(&word.as_str()));
            let mut bad: Vec<String> = names.chain(said).filter(|word| WORDS.contains(&word.as_str())).collect();
            let all = format!("{} {}", line.text, line.comment).to_lowercase();
            bad.extend(PHRASES.iter().filter(|p| contains_word(&all, p)).map(|p| (*p).to_owned()));
            bad.dedup();
            let place = format!("{}:{}", file.path, index + 1);
            findings.extend(
                bad.iter().map(|word| Finding::new(&place, format!("\"{word}\" is no business of the kernel"))),
            );
        }
    }
    findings
}

/// The words that names and sentences are made of, in lower case:
/// `open_socketPath` is open, socket and path.
fn words(text: &str) -> impl Iterator<Item = String> {
    let mut words = vec![String::new()];
    let mut after_lower = false;
    for letter in text.chars() {
        if !letter.is_alphabetic() || (after_lower && letter.is_uppercase()) {
            words.push(String::new());
        }
        if letter.is_alphabetic() {
            words.last_mut().into_iter().for_each(|word| word.extend(letter.to_lowercase()));
        }
        after_lower = letter.is_lowercase();
    }
    words.into_iter().filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, source: &str) -> usize {
        check(&Subject::planted(vec![(path, source)])).len()
    }

    #[test]
    fn each_word_is_found_in_names_strings_and_comments() {
        let inside = "kernel/exokernel/src/page.rs";
        for word in WORDS {
            assert_eq!(found(inside, &format!("fn {word}_of() {{}}")), 1, "{word}");
            assert_eq!(found(inside, &format!("let a = \"the {word}\";")), 1, "{word}");
        }
        assert_eq!(found(inside, "struct OpenSocket;"), 1);
        assert_eq!(found(inside, "/// Gives the inode.\n"), 1);
        assert_eq!(found(inside, "// No process id here.\n"), 1);
        assert_eq!(found(inside, "// One file descriptor.\n"), 1);
    }

    #[test]
    fn english_in_comments_and_words_elsewhere_are_fine() {
        assert_eq!(found("kernel/machine/src/trap.rs", "// The fast path.\nlet rapid = 1;"), 0);
        assert_eq!(found("lib/exos/src/file.rs", "let fd = open(path);"), 0);
    }
}
