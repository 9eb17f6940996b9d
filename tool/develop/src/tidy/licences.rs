//! Rule: everything that is built in comes under a licence on the list.

use super::{Finding, Subject};

const ALLOWED: [&str; 7] = ["MIT", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "0BSD", "Zlib", "ISC"];
/// Data that the standard derive macros carry and that reaches no binary of
/// ours: the Unicode tables, under the licence of the Unicode consortium.
const DATA: [(&str, &str); 1] = [("unicode-ident", "Unicode-3.0")];

pub fn check(subject: &Subject) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &subject.metadata.packages {
        let place = format!("{} {}", package.name, package.version);
        let Some(expression) = &package.license else {
            findings.push(Finding::new(place, "names no licence"));
            continue;
        };
        let allowed = |licence: &str| ALLOWED.contains(&licence) || DATA.contains(&(package.name.as_str(), licence));
        if !satisfied(expression, &allowed) {
            findings.push(Finding::new(place, format!("licence {expression} is not on the list")));
        }
    }
    findings
}

/// Whether an SPDX expression can be met with allowed licences alone.
fn satisfied(expression: &str, allowed: &dyn Fn(&str) -> bool) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    any(&mut rest, allowed) == Some(true) && rest.is_empty()
}

/// `all OR all …`; `None` is a broken expression, here and below.
fn any(words: &mut &[&str], allowed: &dyn Fn(&str) -> bool) -> Option<bool> {
    let mut met = all(words, allowed)?;
    while words.first() == Some(&"OR") {
        *words = &words[1..];
        met |= all(words, allowed)?;
    }
    Some(met)
}

/// `one AND one …`
fn all(words: &mut &[&str], allowed: &dyn Fn(&str) -> bool) -> Option<bool> {
    let mut met = one(words, allowed)?;
    while words.first() == Some(&"AND") {
        *words = &words[1..];
        met &= one(words, allowed)?;
    }
    Some(met)
}

/// A licence, perhaps WITH an exception (which only grants more), or `( any )`.
fn one(words: &mut &[&str], allowed: &dyn Fn(&str) -> bool) -> Option<bool> {
    let (first, rest) = words.split_first()?;
    *words = rest;
    if *first == "(" {
        let met = any(words, allowed)?;
        let (_, rest) = words.split_first().filter(|(closing, _)| **closing == ")")?;
        *words = rest;
        return Some(met);
    }
    if words.first() == Some(&"WITH") {
        *words = words.get(2..)?;
    }
    Some(allowed(first))
}

#[cfg(test)]
mod tests {
    use super::super::planted;
    use super::*;

    fn is_allowed(expression: &str) -> bool {
        let mut subject = Subject::planted(vec![]);
        subject.metadata = planted::metadata(&[("abi", &[])]);
        subject.metadata.packages[0].license = Some(expression.into());
        check(&subject).is_empty()
    }

    #[test]
    fn a_licence_that_is_not_on_the_list_is_found() {
        for bad in ["GPL-3.0", "MIT AND GPL-2.0", "(MIT OR ISC) AND MPL-2.0", "MIT OR", "(MIT", ""] {
            assert!(!is_allowed(bad), "{bad}");
        }
    }

    #[test]
    fn choices_and_exceptions_are_understood() {
        let llvm = "Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT";
        for good in ["MIT OR LGPL-2.1-or-later", "Unlicense/MIT", llvm, "GPL-2.0 OR (MIT AND ISC)"] {
            assert!(is_allowed(good), "{good}");
        }
    }

    #[test]
    fn a_package_without_a_licence_is_found() {
        let mut subject = Subject::planted(vec![]);
        subject.metadata = planted::metadata(&[("abi", &[])]);
        subject.metadata.packages[0].license = None;
        assert_eq!(check(&subject)[0].message, "names no licence");
    }
}
