//! Rule: the pages that are made from data say what the data say.

use crate::kernel_interface;

use super::{Finding, Subject};

pub fn check(subject: &Subject) -> Vec<Finding> {
    let page = subject.tree.files.iter().find(|file| file.path == kernel_interface::FILE);
    let wrong = match page {
        None => "is missing",
        Some(page) if page.source != kernel_interface::render() => "is not what the table of system calls says",
        Some(_) => return Vec::new(),
    };
    vec![Finding::new(kernel_interface::FILE, format!("{wrong}: ./chitin tidy --write makes it"))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_drifted_is_found() {
        let right = kernel_interface::render();
        let wrong = right.replace("key_drop", "key_drip");
        let found = |files| check(&Subject::planted(files)).len();
        assert_eq!(found(vec![(kernel_interface::FILE, right.as_str())]), 0);
        assert_eq!(found(vec![(kernel_interface::FILE, wrong.as_str())]), 1);
        assert_eq!(found(vec![]), 1);
    }
}
