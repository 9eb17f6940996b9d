//! The host command: runs programs on Chitin and makes what they need. Reads the command line and hands over to the
//! module of the subcommand.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use chitin::command_line::{self, Command};
use chitin::failure::{Failure, Result};
use chitin::workspace::Workspace;
use chitin::{clean, doctor, fs, package, run};

fn main() -> ExitCode {
    command_line::carry_out(execute)
}

fn execute(command: &Command, workspace: &Workspace) -> Result<ExitCode> {
    match command {
        Command::Completions { shell } => command_line::print_completions(*shell),
        Command::Clean(options) => clean::run(workspace, options),
        Command::Doctor => doctor::run(workspace),
        Command::Run(options) => run::run(workspace, options),
        Command::Root(options) => package::run(workspace, options),
        Command::Fs(command) => fs::run(command),
        Command::Bench(_) | Command::Code(_) | Command::Test(_) | Command::Tidy(_) | Command::Wire(_) => {
            Err(Failure::new("this program does not measure or test: ./chitin finds the one for this command"))
        }
    }
}
