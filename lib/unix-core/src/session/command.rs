//! What to run: the records of the archive's `command` file (`abi::boot::Record`).

use abi::boot::Record;
use alloc::vec::Vec;

/// What the host asked for. The strings are bytes without NUL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command<'a> {
    /// The program and its arguments.
    pub arguments: Vec<&'a [u8]>,
    /// The environment, `NAME=VALUE`.
    pub environment: Vec<&'a [u8]>,
    /// The working directory; `/` where none was given.
    pub directory: &'a [u8],
    /// Whether input, output and error are one terminal.
    pub terminal: bool,
    /// Options for ExOS.
    pub options: Vec<&'a [u8]>,
}

/// Reads the file; the error says what is wrong with it.
pub fn parse(file: &[u8]) -> Result<Command<'_>, &'static str> {
    let mut command = Command { directory: b"/", ..Command::default() };
    let mut rest = file;
    while !rest.is_empty() {
        let end = rest.iter().position(|byte| *byte == 0).ok_or("the command file does not end in NUL")?;
        let (record, after) = rest.split_at(end);
        rest = &after[1..];
        let (kind, value) = record.split_first().ok_or("the command file has an empty record")?;
        add(&mut command, *kind, value)?;
    }
    if command.arguments.is_empty() {
        return Err("the command file names no program");
    }
    Ok(command)
}

fn add<'a>(command: &mut Command<'a>, kind: u8, value: &'a [u8]) -> Result<(), &'static str> {
    const ARGUMENT: u8 = Record::Argument as u8;
    const ENVIRONMENT: u8 = Record::Environment as u8;
    const DIRECTORY: u8 = Record::WorkingDirectory as u8;
    const TERMINAL: u8 = Record::Terminal as u8;
    const OPTION: u8 = Record::Option as u8;
    match kind {
        ARGUMENT => command.arguments.push(value),
        ENVIRONMENT => command.environment.push(value),
        DIRECTORY => command.directory = value,
        TERMINAL => command.terminal = value == b"1",
        OPTION => command.options.push(value),
        _ => return Err("the command file has a record of an unknown kind"),
    }
    Ok(())
}
