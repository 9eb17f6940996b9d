//! Renders `doc/linux-compatibility.md` from the parity tests: the scripts, what
//! each is about, and which do not pass yet.

use std::fmt::Write;

/// Where the rendered page stands, from the root of the checkout.
pub const FILE: &str = "doc/linux-compatibility.md";
/// Where the scripts are, and those that do not pass yet.
const SCRIPTS: &str = "test/parity/script/";
const NOT_YET: &str = "test/parity/not-yet";

const INTRODUCTION: &str = "\
# What runs as on Linux

Made from `test/parity` by `./chitin tidy --write`; a rule of `./chitin tidy` holds the two together.

Each script runs with the same Debian binaries on the Linux host and under ExOS; its output and exit status are the same, byte
for byte: `./chitin test parity::`. The calls that ExOS has are those of its table (`lib/exos/src/call/table.rs`); any other gives
`ENOSYS`, and `./chitin run --syscall-summary` counts it.
";

/// The whole page, from the files of the checkout: path and text.
pub fn render<'f>(files: impl Iterator<Item = (&'f str, &'f str)>) -> String {
    let mut passing = String::from("\n## The same\n\n| script | about |\n|---|---|\n");
    let mut waiting = String::from("\n## Not yet\n\n| script | about | why |\n|---|---|---|\n");
    let files: Vec<(&str, &str)> = files.collect();
    let not_yet = files.iter().find(|(path, _)| *path == NOT_YET).map_or("", |(_, text)| text);
    let reason = |name: &str| not_yet.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    for (name, text) in files.iter().filter_map(|(path, text)| Some((path.strip_prefix(SCRIPTS)?, text))) {
        let about = text.lines().nth(1).unwrap_or_default().trim_start_matches(['#', ' ']);
        // Writing into a string cannot fail.
        let _ = match reason(name) {
            None => writeln!(passing, "| `{name}` | {about} |"),
            Some(reason) => writeln!(waiting, "| `{name}` | {about} | {reason} |"),
        };
    }
    let waiting = if not_yet.trim().is_empty() { "" } else { &waiting };
    [INTRODUCTION, &passing, waiting].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_stand_where_they_belong() {
        let files = [
            ("test/parity/not-yet", "later it needs more\n"),
            ("test/parity/script/later", "#!/bin/sh\n# Much.\n"),
            ("test/parity/script/now", "#!/bin/sh\n# Little.\nexit\n"),
            ("elsewhere", "text"),
        ];
        let page = render(files.into_iter());
        assert!(page.contains("| `now` | Little. |\n") && page.contains("| `later` | Much. | it needs more |\n"));
        assert!(!page.contains("elsewhere"));
    }
}
