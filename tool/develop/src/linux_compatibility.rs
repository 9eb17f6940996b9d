//! Renders `doc/linux-compatibility.md`. The parity tests yield the scripts, the topic of each, and which do not pass
//! yet. ExOS's table of calls and the list of Linux's yield which calls are there.

use std::collections::BTreeSet;
use std::fmt::Write;

/// Where the rendered page stands, from the root of the checkout.
pub const FILE: &str = "doc/linux-compatibility.md";
/// Where the scripts are, those of large programs, and those that do not pass yet, or not with their files on a disk.
const SCRIPTS: &str = "test/parity/script/";
const LARGE: &str = "test/parity/large/";
const NOT_YET: &str = "test/parity/not-yet";

/// Linux's calls: number, name, and for one that does less than on Linux what it does.
const CALLS: &str = "test/parity/linux-calls";
/// ExOS's table of calls.
const TABLE: &str = "lib/exos/src/syscalls/table.rs";

const INTRODUCTION: &str = "\
# What runs as on Linux

Made from `test/parity` by `./chitin tidy --write`; a rule of `./chitin tidy` holds the two together.

Each script runs with the same Debian binaries on the Linux host and under ExOS; its output and exit status are the same, byte
for byte: `./chitin test parity::`. Those of large programs run with `--full` only.
";

const CALLS_INTRODUCTION: &str = "\
Made from ExOS's table of calls (`lib/exos/src/syscalls/table.rs`) and the list of Linux's (`test/parity/linux-calls`). A call that is
not there gives `ENOSYS`, and `./chitin run --syscall-summary` counts it.
";

/// The whole page, from the files of the checkout: path and text.
pub fn render<'f>(files: impl Iterator<Item = (&'f str, &'f str)>) -> String {
    let mut passing = String::from("\n## The same\n\n| script | about |\n|---|---|\n");
    let mut waiting = String::from("\n## Not yet\n\n| script | about | why |\n|---|---|---|\n");
    let files: Vec<(&str, &str)> = files.collect();
    let not_yet = files.iter().find(|(path, _)| *path == NOT_YET).map_or("", |(_, text)| text);
    let reason = |name: &str| not_yet.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let mut large = String::from("\n## The same, in full runs\n\n| script | about |\n|---|---|\n");
    for (path, text) in &files {
        let is_large = path.starts_with(LARGE);
        let Some(name) = path.strip_prefix(SCRIPTS).or(path.strip_prefix(LARGE)) else { continue };
        let name = name.trim_end_matches(".c");
        let about = about(text);
        // Writing into a string cannot fail.
        let _ = match reason(name) {
            None if is_large => writeln!(large, "| `{name}` | {about} |"),
            None => writeln!(passing, "| `{name}` | {about} |"),
            Some(reason) => writeln!(waiting, "| `{name}` | {about} | {reason} |"),
        };
        let on_disk = format!("on-disk::{name}");
        let _ = reason(&on_disk).map(|reason| writeln!(waiting, "| `{on_disk}` | {about} | {reason} |"));
    }
    let waiting = if not_yet.trim().is_empty() { "" } else { &waiting };
    [INTRODUCTION, &passing, &large, waiting, &calls(&files)].concat()
}

/// What a script says of itself: the comment that it begins with, without the line that says what runs it.
fn about(text: &str) -> String {
    const IN_C: &str = "A program in C, compiled by the host's compiler, and the same on both sides.";
    let said = |line: &str| {
        let said = ["# ", "// ", "-- ", "/*", " *"].iter().find_map(|mark| line.strip_prefix(mark))?;
        Some(said.trim_end_matches("*/").trim().to_owned())
    };
    let comment = text.lines().skip_while(|line| line.starts_with("#!")).map_while(said);
    comment.filter(|line| !line.is_empty() && line != IN_C).collect::<Vec<String>>().join(" ").replace('|', "\\|")
}

/// The calls of Linux by what becomes of them.
fn calls(files: &[(&str, &str)]) -> String {
    let text = |wanted: &str| files.iter().find(|(path, _)| *path == wanted).map_or("", |(_, text)| text);
    let table: BTreeSet<&str> =
        text(TABLE).lines().filter_map(|line| Some(line.trim().strip_prefix("__NR_")?.split_once(" =>")?.0)).collect();
    let (mut there, mut absent, mut partly) = (Vec::new(), Vec::new(), String::new());
    for line in text(CALLS).lines() {
        let mut parts = line.splitn(3, ' ').skip(1);
        match (parts.next().unwrap_or_default(), parts.next()) {
            (name, None) if table.contains(name) => there.push(name),
            // Writing into a string cannot fail.
            (name, Some(note)) if table.contains(name) => drop(writeln!(partly, "| `{name}` | {note} |")),
            (name, _) => absent.push(name),
        }
    }
    format!(
        "\n## Calls\n\n{CALLS_INTRODUCTION}\nThere, {}:\n\n{}\nThere in part, or without effect:\n\n\
         | call | what it does |\n|---|---|\n{partly}\nNot there, {}:\n\n{}",
        there.len(),
        listed(&there),
        absent.len(),
        listed(&absent)
    )
}

/// Names in lines that a page can hold.
fn listed(names: &[&str]) -> String {
    const WIDTH: usize = 128;
    let mut lines = vec![String::new()];
    for name in names {
        let line = &lines[lines.len() - 1];
        if line.len() + name.len() + 3 > WIDTH {
            lines.push(String::new());
        }
        let line = lines.last_mut().expect("there is a first line");
        *line += &format!("{}`{name}`", if line.is_empty() { "" } else { " " });
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_stand_where_they_belong() {
        let files = [
            ("test/parity/not-yet", "later it needs more\non-disk::now a disk is slow\n"),
            ("test/parity/script/later", "#!/bin/sh\n# Much.\n"),
            ("test/parity/script/now", "#!/bin/sh\n# Little.\nexit\n"),
            (
                "test/parity/script/compiled.c",
                "// A program in C, compiled by the host's compiler, and the same on both sides.\n// What\n// it does.\n#define X\n// Later.\n",
            ),
            ("elsewhere", "text"),
        ];
        let page = render(files.into_iter());
        assert!(page.contains("| `compiled` | What it does. |\n"));
        assert!(page.contains("| `now` | Little. |\n") && page.contains("| `later` | Much. | it needs more |\n"));
        assert!(page.contains("| `on-disk::now` | Little. | a disk is slow |\n"));
        assert!(!page.contains("elsewhere"));
    }

    #[test]
    fn calls_are_there_in_part_or_absent() {
        let files = [
            ("lib/exos/src/syscalls/table.rs", "    __NR_read => file::read,\n    __NR_futex => futex::futex,\n"),
            ("test/parity/linux-calls", "0 read\n1 write\n202 futex not all of it\n9 mmap never told\n"),
        ];
        let page = render(files.into_iter());
        assert!(page.contains("There, 1:\n\n`read`\n") && page.contains("| `futex` | not all of it |\n"), "{page}");
        assert!(page.ends_with("Not there, 2:\n\n`write` `mmap`\n"), "{page}");
    }
}
