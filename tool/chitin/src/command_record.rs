//! The file `command` of the boot archive: what ExOS is to run, as records of
//! `abi::boot::Record`, each a byte for its kind, the value, and a NUL.

use abi::boot::Record;

use crate::failure::{Failure, Result};

/// A program to run and what it finds around itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramCommand {
    /// The program's file and its arguments.
    pub arguments: Vec<String>,
    /// `NAME=VALUE`
    pub environment: Vec<String>,
    pub working_directory: String,
    /// Whether it has a terminal rather than three pipes.
    pub terminal: bool,
    /// Options for ExOS itself.
    pub options: Vec<String>,
}

impl ProgramCommand {
    /// # Errors
    /// When a value holds a NUL, which no Unix argument can.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut add = |kind: Record, value: &str| {
            if value.contains('\0') {
                return Err(Failure::new("an argument holds a NUL byte"));
            }
            bytes.push(kind as u8);
            bytes.extend_from_slice(value.as_bytes());
            bytes.push(0);
            Ok(())
        };
        self.arguments.iter().try_for_each(|value| add(Record::Argument, value))?;
        self.environment.iter().try_for_each(|value| add(Record::Environment, value))?;
        add(Record::WorkingDirectory, &self.working_directory)?;
        add(Record::Terminal, if self.terminal { "1" } else { "0" })?;
        self.options.iter().try_for_each(|value| add(Record::Option, value))?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_stand_one_after_the_other() {
        let command = ProgramCommand {
            arguments: vec!["/bin/echo".into(), String::new(), "a b".into()],
            environment: vec!["A=b=c".into()],
            working_directory: "/".into(),
            terminal: false,
            options: vec!["syscall-summary".into()],
        };
        let expected = b"a/bin/echo\0a\0aa b\0eA=b=c\0w/\0t0\0osyscall-summary\0";
        assert_eq!(command.to_bytes().unwrap(), expected);
    }

    #[test]
    fn a_nul_inside_is_refused() {
        let command = ProgramCommand { arguments: vec!["a\0b".into()], ..ProgramCommand::default() };
        assert!(command.to_bytes().is_err());
    }
}
