//! The command line, as `./chitin --help` shows it.

use clap::{Parser, Subcommand};

use crate::{run, test};

/// An exokernel operating system: build it, run programs on it, test it.
#[derive(Debug, Parser)]
#[command(name = "chitin", bin_name = "./chitin", version, max_term_width = 100)]
pub struct CommandLine {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Boot, run PROGRAM under ExOS with this terminal, exit with its status
    Run(run::Options),
    /// Run the tests; without an option, those that continuous integration runs
    Test(test::Options),
    /// Check style and structure
    Tidy,
}
