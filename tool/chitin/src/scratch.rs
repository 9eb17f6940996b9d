//! Temporary folders, all inside one that bears this process's number, so that
//! nothing is left behind when the command is interrupted.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use crate::failure::{Context, Result};

/// A fresh folder, removed when this is dropped.
///
/// # Errors
/// When it cannot be made.
pub fn folder() -> Result<TempDir> {
    fs::create_dir_all(all()).context("cannot create a temporary folder")?;
    tempfile::tempdir_in(all()).context("cannot create a temporary folder")
}

/// Removes every folder: the command is about to end.
pub fn remove_all() {
    // That there is none is the usual case.
    let _ = fs::remove_dir_all(all());
}

fn all() -> PathBuf {
    std::env::temp_dir().join(format!("chitin-{}", std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_differ_and_vanish() {
        let (one, other) = (folder().unwrap(), folder().unwrap());
        assert_ne!(one.path(), other.path());
        let path = one.path().to_owned();
        assert!(path.is_dir());
        drop(one);
        assert!(!path.exists() && other.path().exists());
    }
}
