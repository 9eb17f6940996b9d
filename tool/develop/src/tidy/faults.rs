//! Rule: the matrix of attacks and faults in `doc/testing.md` names tests,
//! guests and scripts that there are, and misses no row.

use std::collections::BTreeSet;

use super::{Finding, Subject};

/// The page with the matrix: lines of `| row | tests |`.
const PAGE: &str = "doc/testing.md";
/// Rows that this far have a mechanism.
const ROWS: [std::ops::RangeInclusive<u32>; 9] =
    [1..=44, 46..=49, 50..=57, 61..=66, 68..=74, 78..=86, 91..=96, 98..=99, 151..=162];
/// Guests are listed there, and the scripts are files here.
const GUESTS: &str = "test/programs/guests.toml";
const SCRIPTS: &str = "test/parity/script/";
/// Stands for what is left out of a name, at its beginning or its end.
const CUT: char = '…';

pub fn check(subject: &Subject) -> Vec<Finding> {
    let Some(page) = subject.tree.files.iter().find(|file| file.path == PAGE) else {
        return vec![Finding::new(PAGE, "is missing")];
    };
    let sources: Vec<&str> = subject.tree.rust().map(|file| file.source.as_str()).collect();
    let known: BTreeSet<&str> = sources.iter().flat_map(|source| words(source)).collect();
    let programs = programs(subject);
    let mut rows = BTreeSet::new();
    let mut findings = Vec::new();
    for (index, line) in page.source.lines().enumerate() {
        let Some((row, tests)) = row(line) else { continue };
        rows.insert(row);
        for name in tests.split(|letter: char| !is_of_a_name(letter)).filter(|name| is_test(name)) {
            if !known.iter().any(|word| fits(name, word)) {
                findings.push(Finding::new(format!("{PAGE}:{}", index + 1), format!("no test is called {name}")));
            }
        }
        for name in tests.split('`').skip(1).step_by(2).filter(|name| is_program(name) && !programs.contains(name)) {
            let told = format!("no guest or script is called {name}");
            findings.push(Finding::new(format!("{PAGE}:{}", index + 1), told));
        }
    }
    let missing = ROWS.into_iter().flatten().filter(|row| !rows.contains(row));
    findings.extend(missing.map(|row| Finding::new(PAGE, format!("row {row} of the matrix is missing"))));
    findings
}

/// Number and tests of a row.
fn row(line: &str) -> Option<(u32, &str)> {
    let (number, tests) = line.strip_prefix("| ")?.split_once(" | ")?;
    Some((number.parse().ok()?, tests))
}

/// The names of guests and of parity scripts.
fn programs(subject: &Subject) -> BTreeSet<&str> {
    let files = &subject.tree.files;
    let lists = files.iter().filter(|file| file.path == GUESTS).flat_map(|file| file.source.lines());
    let guests = lists.filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
    let scripts = files.iter().filter_map(|file| file.path.strip_prefix(SCRIPTS));
    guests.chain(scripts.map(|name| name.strip_suffix(".c").unwrap_or(name))).collect()
}

/// Whether what stands as code may be a guest or a script; else it is a word of some source, or of the line of a
/// command.
fn is_program(code: &str) -> bool {
    code.starts_with(|letter: char| letter.is_ascii_lowercase())
        && code.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-')
}

fn is_of_a_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_' || letter == CUT
}

fn is_test(name: &str) -> bool {
    name.starts_with("fault_") || name.strip_prefix(CUT).is_some_and(|rest| rest.starts_with('_'))
}

fn words(source: &str) -> impl Iterator<Item = &str> {
    source.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_')).filter(|word| !word.is_empty())
}

fn fits(name: &str, word: &str) -> bool {
    match (name.strip_prefix(CUT), name.strip_suffix(CUT)) {
        (Some(end), _) => word.starts_with("fault_") && word.ends_with(end),
        (None, Some(beginning)) => word.starts_with(beginning),
        (None, None) => word == name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(extra: &str) -> Vec<String> {
        let rows: String =
            ROWS.into_iter().flatten().map(|row| format!("| {row} | `a`: fault_01_b, …_c, fault_0…\n")).collect();
        let page = format!("{rows}{extra}");
        let files = [("a.rs", "fn fault_01_b() {}\nHere fault_01_b_c;\n"), (GUESTS, "[[guest]]\nname = \"a\"\n")];
        let script = [("test/parity/script/b-c.c", ""), (PAGE, &page)];
        let subject = Subject::planted(files.into_iter().chain(script).collect());
        check(&subject).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn a_row_that_names_no_test_is_found() {
        assert_eq!(found(""), Vec::<String>::new());
        assert_eq!(found("| 97 | fault_97_x, …_d |\n"), ["no test is called fault_97_x", "no test is called …_d"]);
    }

    #[test]
    fn a_row_that_names_no_guest_is_found() {
        assert_eq!(found("| 97 | `a`, `b-c`, `Some::word`, `--quick`: fault_01_b |\n"), Vec::<String>::new());
        assert_eq!(
            found("| 97 | `b`: fault_01_b, `c-d` |\n"),
            ["no guest or script is called b", "no guest or script is called c-d"]
        );
    }

    /// What this row wants is a statement, not a mechanism: that nothing is promised, as long as nothing is.
    #[test]
    fn fault_91_covert_channels_are_stated_to_be_out_of_scope() {
        let caveats = include_str!("../../../../doc/caveats.md");
        let protection = caveats.split("\n## ").find(|section| section.starts_with("Protection")).expect("a section");
        let statement = protection.split("\n- ").find(|item| item.contains("covert channels")).expect("a statement");
        for channel in ["slices", "caches", "order of allocation", "out of scope"] {
            assert!(statement.contains(channel), "{channel}: {statement}");
        }
    }

    #[test]
    fn a_row_that_is_missing_is_found() {
        let subject = Subject::planted(vec![(PAGE, "| 1 | fault_1… |\n"), ("a.rs", "fn fault_1x() {}\n")]);
        assert_eq!(check(&subject).len(), ROWS.into_iter().flatten().count() - 1);
        assert_eq!(check(&Subject::planted(vec![])).len(), 1);
    }
}
