//! Temporary folders, which leave nothing behind. An interrupt removes those of this process. Each is locked as long as
//! its process lives. An unlocked one, left by a process that was killed, goes when the next one is made.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once, PoisonError};

use rustix::fs::{FlockOperation, flock};
use tempfile::{Builder, TempDir};

use crate::failure::{Context, Result};

/// What the names of all these folders begin with.
const NAME: &str = "chitin-scratch-";

/// Every folder that this process made, gone ones too.
static MADE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
static SWEPT: Once = Once::new();

/// A temporary folder, removed when this is dropped.
#[derive(Debug)]
pub struct Folder {
    place: TempDir,
    /// Locked while a process uses the folder.
    _lock: File,
}

impl Folder {
    pub fn path(&self) -> &Path {
        self.place.path()
    }
}

/// A fresh folder where the system keeps temporary files.
///
/// # Errors
/// When it cannot be made.
pub fn folder() -> Result<Folder> {
    let parent = std::env::temp_dir();
    SWEPT.call_once(|| sweep(&parent));
    folder_in(&parent)
}

/// A fresh folder in `parent`, for files that will be moved within that file system.
///
/// # Errors
/// When it cannot be made.
pub fn folder_in(parent: &Path) -> Result<Folder> {
    loop {
        let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
        let what = format!("cannot create a temporary folder in {}", parent.display());
        let place = Builder::new().prefix(NAME).tempdir_in(parent).context(what)?;
        made.push(place.path().to_owned());
        let lock = lock(place.path());
        // Another process may have taken it for one that was left behind.
        if let Some(lock) = lock.filter(|_| place.path().exists()) {
            return Ok(Folder { place, _lock: lock });
        }
    }
}

/// The folder, locked; `None` where it is gone, another's, or in use.
fn lock(folder: &Path) -> Option<File> {
    let file = File::open(folder).ok()?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(file)
}

/// Removes what processes that were killed have left behind.
fn sweep(parent: &Path) {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(NAME));
    for folder in ours.map(|entry| entry.path()) {
        if let Some(_lock) = lock(&folder) {
            // Whatever cannot be removed is no worse than before.
            let _ = fs::remove_dir_all(folder);
        }
    }
}

/// Removes every folder: the command is about to end, and makes no more.
pub fn remove_all() {
    let made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    for folder in made.iter().filter(|folder| folder.exists()) {
        // A second time for what another thread wrote there meanwhile.
        let _ = fs::remove_dir_all(folder).or_else(|_| fs::remove_dir_all(folder));
    }
    std::mem::forget(made);
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

    #[test]
    fn what_the_dead_left_behind_goes_and_what_is_in_use_stays() {
        let parent = tempfile::tempdir().unwrap();
        let used = folder_in(parent.path()).unwrap();
        let (left, strange) = (parent.path().join(format!("{NAME}left")), parent.path().join("chitin"));
        fs::create_dir_all(left.join("inside")).unwrap();
        fs::create_dir(&strange).unwrap();
        sweep(parent.path());
        assert!(used.path().is_dir() && strange.is_dir() && !left.exists());
    }

    #[test]
    fn where_no_folder_can_be_made_is_said() {
        let told = folder_in(Path::new("/nonexistent")).unwrap_err().to_string();
        assert!(
            told.starts_with("cannot create a temporary folder in /nonexistent: No such file or directory"),
            "{told}"
        );
    }
}
