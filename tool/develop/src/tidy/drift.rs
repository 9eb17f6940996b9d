//! Rule: the pages that are made from data say what the data say.

use crate::{kernel_interface, kernel_rows, linux_compatibility, memory_map};

use super::tree::Tree;
use super::{Finding, Subject};

pub fn check(subject: &Subject) -> Vec<Finding> {
    let pages = [
        (kernel_interface::FILE, kernel_interface::render(), "the table of system calls says"),
        (kernel_rows::FILE, kernel_rows::render(), "the table of system calls says"),
        (linux_compatibility::FILE, compatibility(&subject.tree), "the parity tests say"),
        (memory_map::FILE, memory_map(&subject.tree), "the constants say"),
    ];
    pages.into_iter().filter_map(|(path, right, source)| finding(subject, path, &right, source)).collect()
}

/// The page on compatibility, as the checkout has it.
pub fn compatibility(tree: &Tree) -> String {
    linux_compatibility::render(tree.files.iter().map(|file| (file.path.as_str(), file.source.as_str())))
}

/// The memory map, as the checkout has it.
pub fn memory_map(tree: &Tree) -> String {
    memory_map::render(tree.files.iter().map(|file| (file.path.as_str(), file.source.as_str())))
}

fn finding(subject: &Subject, path: &str, right: &str, source: &str) -> Option<Finding> {
    let wrong = match subject.tree.files.iter().find(|file| file.path == path) {
        None => "is missing".to_owned(),
        Some(page) if page.source != right => format!("is not what {source}"),
        Some(_) => return None,
    };
    Some(Finding::new(path, format!("{wrong}: ./chitin tidy --write makes it")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_drifted_is_found() {
        let right = kernel_interface::render();
        let wrong = right.replace("key_drop", "key_drip");
        let header = kernel_rows::render();
        let header = (kernel_rows::FILE, header.as_str());
        let found = |files| check(&Subject::planted(files)).len();
        let other = linux_compatibility::render(std::iter::empty());
        let other = (linux_compatibility::FILE, other.as_str());
        let map = memory_map::render(std::iter::empty());
        let map = (memory_map::FILE, map.as_str());
        assert_eq!(found(vec![(kernel_interface::FILE, right.as_str()), header, other, map]), 0);
        assert_eq!(found(vec![(kernel_interface::FILE, wrong.as_str()), header, other, map]), 1);
        assert_eq!(found(vec![(kernel_interface::FILE, right.as_str())]), 3);
        assert_eq!(found(vec![header, other, map]), 1);
    }
}
