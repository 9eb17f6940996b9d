//! Rule: a source file says in its first lines what it owns.

use super::{Finding, Subject};

pub fn check(subject: &Subject) -> Vec<Finding> {
    let missing = subject.tree.rust().filter(|file| !file.source.starts_with("//! "));
    missing.map(|file| Finding::new(&file.path, "starts without a //! header")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_header_is_found() {
        let subject = Subject::planted(vec![
            ("abi/src/lib.rs", "use core::fmt;\n//! Late.\n"),
            ("abi/src/page.rs", "//! Pages.\n"),
        ]);
        assert_eq!(check(&subject), [Finding::new("abi/src/lib.rs", "starts without a //! header")]);
    }
}
