//! `./chitin fs`: makes C-FFS file systems on files, reads and fills them, and checks them, with the crate that ExOS
//! uses. Reading never writes to the file: a volume that was not closed is recovered in memory.

mod check;
mod copy_in;
mod copy_out;
pub mod image;
mod listing;
pub mod make;
mod name;
pub mod path;
#[cfg(test)]
mod tests;
pub mod trouble;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;

use crate::failure::{Failure, Result};
use crate::run::disk::{self, Wanted};

use name::Place;

#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Make an empty file system on FILE, which is made with SIZE (default: 256M) where it is missing
    Make {
        #[arg(value_name = "FILE[:SIZE]", value_parser = disk::parse)]
        file: Wanted,
        /// Overwrite what FILE holds
        #[arg(long)]
        force: bool,
    },
    /// List a directory, or one file, like `ls -la`
    Ls {
        file: PathBuf,
        #[arg(default_value = "/")]
        path: String,
    },
    /// Write a file to standard output
    Cat { file: PathBuf, path: String },
    /// Copy files and directories in (`cp DIR FILE:/path`) or out (`cp FILE:/path DIR`), with modes, owners, times,
    /// links and holes
    Cp {
        /// What is copied, then the destination: a directory that is there, or a new name
        #[arg(required = true, num_args = 2.., value_name = "SOURCE… DESTINATION")]
        places: Vec<String>,
    },
    /// Report each damage by block and name: status 0 if there is none, 1 if the next mount repairs it, 4 otherwise
    Check { file: PathBuf },
}

/// Runs the subcommand.
///
/// # Errors
/// One line on the file, the path or the operation that failed.
pub fn run(command: &Command) -> Result<ExitCode> {
    match command {
        Command::Make { file, force } => make::run(file, *force),
        Command::Ls { file, path } => listing::list(file, path),
        Command::Cat { file, path } => listing::cat(file, path),
        Command::Cp { places } => copy(places),
        Command::Check { file } => check::run(file),
    }
}

fn copy(places: &[String]) -> Result<ExitCode> {
    let [sources @ .., destination] = places else { return Err(Failure::new("cp: name a source and a destination")) };
    let sources: Vec<Place> = sources.iter().map(|text| Place::parse(text)).collect();
    let is_host = |place: &Place| matches!(place, Place::Host(_));
    match Place::parse(destination) {
        Place::Image(file, path) if sources.iter().all(is_host) => copy_in::run(&sources, &file, &path),
        Place::Host(folder) if !sources.iter().any(is_host) => copy_out::run(&sources, &folder),
        _ => Err(Failure::new("cp: one side is a path of this machine, the other FILE:/path")),
    }
}
