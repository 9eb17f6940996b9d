//! The command line, as `./chitin --help` shows it, and the way from it to an exit status and at most one line of
//! complaint.

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

use crate::failure::{Failure, Result};
use crate::workspace::Workspace;
use crate::{answer, clean, developer, fs, interrupt, package, run, scratch, version};

/// An exokernel operating system: build it, run programs on it, test it.
#[derive(Debug, Parser)]
#[command(name = "chitin", bin_name = "./chitin", version = version::text(), max_term_width = 100)]
pub struct CommandLine {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Boot, run PROGRAM under ExOS with this terminal, exit with its status
    Run(run::Options),
    /// Make a root file system of Debian packages
    Root(package::Options),
    /// Run the tests; without an option, those that continuous integration runs
    Test(developer::TestOptions),
    /// Measure side by side with Linux on the same virtual machine
    Bench(developer::BenchOptions),
    /// Check style and structure
    Tidy(developer::TidyOptions),
    /// Say what the kernel makes of a program of downloaded code
    #[command(subcommand)]
    Code(developer::Code),
    /// Make, read, fill and check file systems of Chitin on files
    #[command(subcommand)]
    Fs(fs::Command),
    /// Join the network cards of machines, with faults and with a peer that serves them
    Wire(developer::wire::WireOptions),
    /// Remove cached packages, roots and layers, and say what that freed
    Clean(clean::Options),
    /// Say what is wrong with this machine, and what to install for what
    Doctor,
    /// Print what completes these commands in a shell: eval "$(./chitin completions bash)"
    Completions {
        #[arg(value_enum)]
        shell: Shell,
    },
}

/// What a program of the host command does: has `execute` carry out the command of its command line, and turns the
/// answer into an exit status.
pub fn carry_out(execute: impl FnOnce(&Command, &Workspace) -> Result<ExitCode>) -> ExitCode {
    let result = parse().and_then(|line| {
        interrupt::watch()?;
        execute(&line.command, &Workspace::find()?)
    });
    scratch::remove_all();
    result.unwrap_or_else(|failure| {
        answer::remark(format_args!("chitin: {failure}\n"));
        ExitCode::from(failure.status)
    })
}

/// Prints the completions for a shell.
///
/// # Errors
/// When they cannot be written.
pub fn print_completions(shell: Shell) -> Result<ExitCode> {
    let mut bytes = Vec::new();
    clap_complete::generate(shell, &mut CommandLine::command(), "./chitin", &mut bytes);
    answer::print(&String::from_utf8_lossy(&bytes))?;
    Ok(ExitCode::SUCCESS)
}

/// The status of a command line that makes no sense, as clap has it.
const USAGE: u8 = 2;

/// Reads the command line; prints help and ends where that is asked for.
///
/// # Errors
/// One line on what is wrong with it.
pub fn parse() -> Result<CommandLine> {
    let error = match CommandLine::try_parse() {
        Ok(line) => return Ok(line),
        Err(error) => error,
    };
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            answer::written(error.print())?;
            std::process::exit(0)
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => error.exit(),
        _ => Err(Failure::with_status(USAGE, complaint(&error.to_string()))),
    }
}

/// The sentence in clap's report, without its tips and usage.
fn complaint(report: &str) -> String {
    let first = report.split("\n\n").next().unwrap_or_default();
    let line = first.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{} (see ./chitin --help)", line.trim_start_matches("error: "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_holds_together() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn what_is_wrong_fits_one_line() {
        for (arguments, expected) in [
            (vec!["chitin", "run", "--bogus"], "unexpected argument '--bogus' found"),
            (vec!["chitin", "fly"], "unrecognized subcommand 'fly'"),
            (vec!["chitin", "run", "-m", "much"], "\"much\" is no size"),
            (vec!["chitin", "test", "--quick", "--full"], "cannot be used with"),
        ] {
            let said = complaint(&CommandLine::try_parse_from(arguments).unwrap_err().to_string());
            assert!(said.contains(expected) && !said.contains('\n'), "{said}");
        }
    }
}
