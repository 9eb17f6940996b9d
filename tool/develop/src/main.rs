//! The half of the host command that only those need who change Chitin or measure it: `./chitin bench`, `code`, `test`,
//! `tidy` and `wire`. It is built at their first use, so that a first `./chitin run` waits for none of what they link.
//! Options are with those of the other half (`chitin::developer`), so that one help shows all.

#![forbid(unsafe_code)]
#![allow(unreachable_pub, reason = "a program exports nothing: pub here means for other modules")]

mod bench;
mod code;
mod kernel_interface;
mod kernel_rows;
mod linux_compatibility;
mod memory_map;
mod test;
mod tidy;
mod wire;

use std::process::ExitCode;

use chitin::command_line::{self, Command};
use chitin::failure::{Failure, Result};
use chitin::workspace::Workspace;

fn main() -> ExitCode {
    command_line::carry_out(execute)
}

fn execute(command: &Command, workspace: &Workspace) -> Result<ExitCode> {
    match command {
        Command::Bench(options) => bench::run(workspace, options),
        Command::Code(code) => code::run(code),
        Command::Test(options) => test::run(workspace, options),
        Command::Tidy(options) => tidy::run(workspace, options),
        Command::Wire(options) => wire::run(options),
        _ => Err(Failure::new("this program does not run programs: ./chitin finds the one for this command")),
    }
}
