//! Scripts: the first line of a file that begins with `#!` (execve(2), "Interpreter scripts").

use crate::errno::{Errno, Result};

/// Bytes of a first line that count.
pub const LINE: usize = 256;

/// What the first line of a script names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Script<'a> {
    /// The interpreter.
    pub interpreter: &'a [u8],
    /// The rest of the line as one argument, where there is any.
    pub argument: Option<&'a [u8]>,
}

/// Reads the first bytes of a file. `None`: it is no script; `ENOEXEC`: it is one without an interpreter.
pub fn parse(head: &[u8]) -> Option<Result<Script<'_>>> {
    let line = head.strip_prefix(b"#!")?;
    let line = &line[..line.len().min(LINE - 2)];
    let end = line.iter().position(|byte| *byte == b'\n').unwrap_or(line.len());
    let line = line[..end].trim_ascii();
    let blank = |byte: &u8| *byte == b' ' || *byte == b'\t';
    let split = line.iter().position(blank).unwrap_or(line.len());
    let (interpreter, argument) = line.split_at(split);
    let argument = argument.trim_ascii();
    if interpreter.is_empty() || interpreter.contains(&0) {
        return Some(Err(Errno::ENOEXEC));
    }
    Some(Ok(Script { interpreter, argument: (!argument.is_empty()).then_some(argument) }))
}
