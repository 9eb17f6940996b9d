//! Scripts: the first line of a file that begins with `#!` (execve(2), "Interpreter scripts").

use linux_abi::errno::{Errno, Result};

/// Bytes of a file in which its first line counts; behind the end of a shorter one there are zeros.
const LINE: usize = 256;

/// What the first line of a script names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Script<'a> {
    /// The interpreter.
    pub interpreter: &'a [u8],
    /// The rest of the line as one argument, where there is any.
    pub argument: Option<&'a [u8]>,
}

/// Reads the first bytes of a file. `None`: it is no script; `ENOEXEC`: it is one without an interpreter, or whose
/// interpreter's name may be longer than what counts.
pub fn parse(head: &[u8]) -> Option<Result<Script<'_>>> {
    head.strip_prefix(b"#!")?;
    Some(split(head).ok_or(Errno::ENOEXEC))
}

fn split(head: &[u8]) -> Option<Script<'_>> {
    let mut line = [0; LINE];
    let there = head.len().min(LINE);
    line[..there].copy_from_slice(&head[..there]);
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let is_end = |byte: &u8| is_blank(byte) || *byte == 0;
    let text = line.iter().position(|byte| *byte == 0).unwrap_or(LINE);
    let end = match line[..text].iter().position(|byte| *byte == b'\n') {
        Some(end) => end,
        None => {
            let name = 2 + line[2..].iter().position(|byte| !is_blank(byte))?;
            line[name..].iter().position(is_end)?;
            LINE - 1
        }
    };
    let blanks = line[2..end].iter().rev().take_while(|byte| is_blank(byte)).count();
    let line = &line[..end - blanks];
    let name = 2 + line.get(2..)?.iter().position(|byte| !is_blank(byte))?;
    let name_end = name + line[name..].iter().position(is_end).unwrap_or(line.len() - name);
    let rest = line[name_end..].iter().position(|byte| !is_blank(byte)).map(|blanks| name_end + blanks);
    let argument = rest.filter(|_| line[name_end] != 0);
    // The end of the file is one of a string, too.
    let string = |start: usize| {
        let length = line[start..].iter().position(|byte| *byte == 0).unwrap_or(line.len() - start);
        head.get(start..start + length).unwrap_or_default()
    };
    Some(Script { interpreter: head.get(name..name_end).unwrap_or_default(), argument: argument.map(string) })
}
