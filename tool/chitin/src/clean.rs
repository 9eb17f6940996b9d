//! `./chitin clean`: removes what can be downloaded or made again, and says how much room that frees.
//!
//! Nothing outside of the cache and of Chitin's own build folders is touched.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use walkdir::WalkDir;

use crate::answer;
use crate::failure::{Context, Failure, Result};
use crate::workspace::Workspace;

/// Folders of the cache that grow with what was tried: packages, roots made of them, layers of images.
const GROWING: [&str; 3] = ["package", "root", "layer"];
/// Bytes in a block as `stat` counts them.
const BLOCK: u64 = 512;

#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Remove the whole cache, the built kernel and programs too: the next run downloads and builds them again
    #[arg(long)]
    all: bool,
}

/// Removes, and answers a line for each folder and one for all.
///
/// # Errors
/// When a folder cannot be removed.
pub fn run(workspace: &Workspace, options: &Options) -> Result<ExitCode> {
    let mut freed = 0;
    for folder in folders(workspace, options.all) {
        let size = size(&folder);
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            // What is no folder was put there by the user.
            Err(error) if error.kind() == ErrorKind::NotADirectory => {
                return Err(Failure::new(format!("{}: is no folder, so it stays", folder.display())));
            }
            result => result.context(folder.display())?,
        }
        freed += size;
        answer::print(&format!("{:>8} {}\n", mebibytes(size), folder.display()))?;
    }
    answer::print(&format!("{:>8} freed\n", mebibytes(freed)))?;
    Ok(ExitCode::SUCCESS)
}

fn folders(workspace: &Workspace, all: bool) -> Vec<PathBuf> {
    let cache = workspace.cache();
    if all {
        return vec![cache, workspace.kernel_target(), workspace.guest_target(), workspace.test_results()];
    }
    GROWING.iter().map(|name| cache.join(name)).collect()
}

/// Bytes that the folder takes on its disk.
fn size(folder: &Path) -> u64 {
    let entries = WalkDir::new(folder).into_iter().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.blocks() * BLOCK).sum()
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_made_again_goes() {
        let workspace = Workspace::at(Path::new("/w"));
        let some = folders(&workspace, false);
        assert_eq!(some.len(), 3);
        assert!(some.iter().all(|folder| folder.parent() == Some(&workspace.cache())));
        assert!(folders(&workspace, true).iter().all(|folder| folder != Path::new("/w")));
    }

    #[test]
    fn a_hole_takes_no_room() {
        let folder = tempfile::tempdir().unwrap();
        fs::File::create(folder.path().join("hole")).unwrap().set_len(1 << 30).unwrap();
        fs::write(folder.path().join("data"), vec![1; 1 << 20]).unwrap();
        assert!((1 << 20..2 << 20).contains(&size(folder.path())));
    }
}
