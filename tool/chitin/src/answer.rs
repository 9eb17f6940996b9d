//! What a command answers, on standard output: whole, or told of. A reader that
//! has seen enough and left (`./chitin code disasm FILE | head`) is no failure.
//! Its remarks go to standard error, where a failed write cannot be reported.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

use crate::failure::{Context, Result};

/// Writes `text` to standard error, as far as that takes it.
pub fn remark(text: impl Display) {
    let _ = io::stderr().lock().write_all(text.to_string().as_bytes());
}

/// Writes `text` to standard output.
///
/// # Errors
/// When it cannot be written, and not because the reader has left.
pub fn print(text: &str) -> Result<()> {
    write(io::stdout().lock(), text)
}

fn write(mut output: impl Write, text: &str) -> Result<()> {
    written(output.write_all(text.as_bytes()).and_then(|()| output.flush()))
}

/// What became of an answer.
///
/// # Errors
/// As for [`print`].
pub fn written(result: io::Result<()>) -> Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to standard output"),
    }
}

#[cfg(test)]
mod tests {
    use super::write;

    #[test]
    fn a_reader_who_left_is_no_failure_and_a_full_disk_is() {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        assert!(write(writer, "much").is_ok());
        let full = std::fs::File::options().write(true).open("/dev/full").expect("Linux has it");
        assert!(write(full, "much").expect_err("no space").to_string().contains("No space left"));
    }
}
