//! Rule: the table of system calls has at most so many rows, by decisions 0027, 0042 and 0044.

use abi::syscall::TABLE;

use super::{Finding, Subject};

/// A part of the table: its name, the beginnings of the names of its rows, and how many rows it may have.
struct Part {
    name: &'static str,
    beginnings: &'static [&'static str],
    most: usize,
}

/// All rows of no other part are the kernel's.
const KERNEL: Part = Part { name: "kernel and devices", beginnings: &[], most: 35 };

const PARTS: [Part; 2] = [
    Part { name: "network", beginnings: &["network_", "filter_", "packet_", "page_become"], most: 6 },
    Part { name: "storage", beginnings: &["volume_", "block_", "root_", "template_"], most: 14 },
];

pub fn check(_: &Subject) -> Vec<Finding> {
    findings(&TABLE.iter().map(|row| row.name).collect::<Vec<_>>())
}

fn findings(names: &[&str]) -> Vec<Finding> {
    let is_of = |part: &Part, name: &str| part.beginnings.iter().any(|beginning| name.starts_with(beginning));
    let kernel = names.iter().filter(|name| !PARTS.iter().any(|part| is_of(part, name))).count();
    let others = PARTS.iter().map(|part| (part, names.iter().filter(|name| is_of(part, name)).count()));
    others
        .chain([(&KERNEL, kernel)])
        .filter(|(part, count)| *count > part.most)
        .map(|(part, count)| {
            let message = format!("{count} rows for {}, at most {} by decision 0042", part.name, part.most);
            Finding::new("abi/src/syscall.rs", message)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_too_many_is_found() {
        let mut names = vec!["page_map"; 35];
        names.extend(["packet_send"; 6]);
        assert_eq!(findings(&names).len(), 0);
        names.push("page_map");
        assert_eq!(findings(&names).len(), 1);
        names.push("filter_insert");
        assert_eq!(findings(&names).len(), 2);
    }
}
