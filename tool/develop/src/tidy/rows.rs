//! Rule: the table of system calls has at most so many rows, by decisions 0027, 0042 and 0044. The page of costs says
//! of each row what it takes at its worst.

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

/// The page with a table line for each row: `| `name` | instructions |`.
const COSTS: &str = "doc/costs.md";

pub fn check(subject: &Subject) -> Vec<Finding> {
    let names: Vec<&str> = TABLE.iter().map(|row| row.name).collect();
    let costs = subject.tree.files.iter().find(|file| file.path == COSTS).map_or("", |file| &file.source);
    let mut all = findings(&names);
    all.extend(without_cost(&names, costs));
    all
}

fn without_cost(names: &[&str], costs: &str) -> Vec<Finding> {
    let has_line = |name: &str| costs.lines().any(|line| line.starts_with(&format!("| `{name}`")));
    let missing = names.iter().filter(|name| !has_line(name));
    missing.map(|name| Finding::new(COSTS, format!("no line says what `{name}` takes at its worst"))).collect()
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

    #[test]
    fn a_row_without_its_cost_is_found() {
        let costs = "| `page_map` | 1,407 |\n| `block_read`, 4 KiB | 6,289 |\n";
        assert_eq!(without_cost(&["page_map", "block_read"], costs), []);
        assert_eq!(without_cost(&["page_map", "block"], costs).len(), 1);
    }
}
