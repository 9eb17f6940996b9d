//! The root file system that ExOS starts with: from a directory, a tar, or
//! built in.

mod built_in;
pub mod debian;
mod directory;
mod resolve;
mod tar_file;
mod tree;

use std::path::Path;

use crate::failure::{Context, Failure, Result};
use crate::workspace::Workspace;

pub use directory::load as load_folder;
pub use tree::{Contents, Kind, Node, Tree};

/// Reads the root file system at `path`, or makes the built-in one.
///
/// # Errors
/// When there is none, it is of an unknown kind, or cannot be read.
pub fn load(workspace: &Workspace, path: Option<&Path>) -> Result<Tree> {
    match path {
        None => built_in::load(&workspace.cache()),
        Some(path) if path.is_dir() => directory::load(path),
        Some(path) if path.is_file() => tar_file::load(path),
        Some(path) => {
            let what = format!("--root {}", path.display());
            path.metadata().context(&what)?;
            Err(Failure::new(format!("{what}: neither a directory nor a file")))
        }
    }
}
