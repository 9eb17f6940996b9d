//! Renders `doc/kernel-interface.md` from the table of system calls.

use std::fmt::Write;

use abi::Error;
use abi::syscall::{Row, TABLE};

/// Where the rendered page stands, from the root of the checkout.
pub const FILE: &str = "doc/kernel-interface.md";

const INTRODUCTION: &str = "\
# The kernel's interface

Made from the table in `abi/src/syscall.rs` by `./chitin tidy --write`; a rule of `./chitin tidy` holds the two together.

The number of a call goes in `rax`, its arguments in `rdi`, `rsi`, `rdx`, `r10`, `r8` and `r9`. Back come the error in `rax`
(0: done) and the result in `rdx`, or, after a refusal, its detail. `rcx` and `r11` are lost; all other registers stay. A
refused call has changed nothing. Every call can also be refused with *UnknownCall*, when its number is not in the table.

## Protected control transfers

A transfer is no row of the table. Bit 63 (synchronous) or bit 62 (asynchronous) of `rax` asks for it. The bits
below hold the callee's number. No key is needed: the callee says when it is ready to be entered. All registers pass
but `rcx`, `r11` and the flags.

- *Asynchronous*: the callee gets the rest of this slice.
- *Synchronous*: the callee gets this position, in every round, until it transfers it back or returns it. The position
  stays where it is when it is not the caller's to give. It also stays when the caller was switched out whole in a
  critical section and has not been told of this slice.

Errors: `NoSuchEnvironment`, `Busy`.
";

/// The whole page.
pub fn render() -> String {
    let mut page = String::from(INTRODUCTION);
    page.push_str("\n## Calls\n\n| number | call | right needed |\n|---|---|---|\n");
    for row in TABLE {
        let (number, name, right) = (row.number, row.name, row.right);
        // Writing into a string cannot fail, here and below.
        let _ = writeln!(page, "| {number} | [`{name}`](#{name}) | {right} |");
    }
    TABLE.iter().for_each(|row| call(&mut page, row));
    page.push_str("\n## Errors\n\n| number | error | meaning |\n|---|---|---|\n");
    for error in Error::ALL {
        let _ = writeln!(page, "| {} | `{error:?}` | {} |", *error as u64, error.text());
    }
    page
}

fn call(page: &mut String, row: &Row) {
    let arguments: Vec<String> = row.arguments.iter().map(|(name, kind)| format!("{name}: {kind}")).collect();
    let result = if row.result == "()" { String::new() } else { format!(" -> {}", row.result) };
    let _ = writeln!(page, "\n### {}\n\n`{} {}({}){result}`\n", row.name, row.number, row.name, arguments.join(", "));
    let _ = writeln!(page, "{}\n", prose(row.doc));
    let errors: Vec<String> = row.errors.iter().map(|error| format!("`{error:?}`")).collect();
    let errors = if errors.is_empty() { "none".to_owned() } else { errors.join(", ") };
    let _ = writeln!(page, "Right needed: {}. Errors: {errors}.", row.right);
}

/// Documentation lines as one paragraph, without links into the source:
/// [`BatchRow`](crate::syscall::BatchRow) becomes `BatchRow`.
fn prose(lines: &[&str]) -> String {
    let text = lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
    let mut page = String::new();
    let mut rest = text.as_str();
    while let Some((before, link)) = rest.split_once("[`") {
        page.push_str(before);
        let (name, after) = link.split_once("`]").unwrap_or((link, ""));
        let _ = write!(page, "`{name}`");
        let target = after.strip_prefix("(crate::").and_then(|after| after.split_once(')'));
        rest = target.map_or(after, |(_, after)| after);
    }
    page + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_and_every_error_is_on_the_page() {
        let page = render();
        for row in TABLE {
            assert!(page.contains(&format!("\n### {}\n", row.name)), "{}", row.name);
        }
        for error in Error::ALL {
            assert!(page.contains(error.text()));
        }
        assert!(!page.contains("crate::"));
    }

    #[test]
    fn links_into_the_source_become_names() {
        assert_eq!(prose(&[" Rows of [`Row`](crate::syscall::Row)s,", " or [`Term`]."]), "Rows of `Row`s, or `Term`.");
        assert_eq!(prose(&["Plain (see below)."]), "Plain (see below).");
    }
}
