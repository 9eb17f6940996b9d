//! What cargo built bears a seal, its length and checksum in a file beside it: cargo does not notice when what it built is
//! damaged later, and a machine that starts from it can do anything.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::cargo::Executable;
use crate::failure::{Context, Failure, Result};

/// Held while something is built and sealed, so that nobody sees one without the other.
#[derive(Debug)]
pub struct Turn {
    _lock: File,
}

impl Turn {
    /// Waits until nobody else builds into `target`.
    ///
    /// # Errors
    /// When nothing can be written there.
    pub fn take(target: &Path) -> Result<Self> {
        let what = || format!("cannot build into {} (CARGO_TARGET_DIR can name another folder)", target.display());
        fs::create_dir_all(target).context(what())?;
        let lock = File::options().append(true).create(true).open(target.join(".chitin-lock")).context(what())?;
        flock(&lock, FlockOperation::LockExclusive).context(what())?;
        Ok(Self { _lock: lock })
    }

    /// Seals what was built just now, and what has no seal yet.
    ///
    /// # Errors
    /// When a file cannot be read or a seal not written.
    pub fn seal(&self, built: &[Executable]) -> Result<()> {
        for file in built.iter().filter(|built| !built.fresh || !place(&built.file).exists()).map(|built| &built.file) {
            let bytes = fs::read(file).context(file.display())?;
            fs::write(place(file), seal(&bytes)).context(place(file).display())?;
        }
        Ok(())
    }
}

/// # Errors
/// When these are not the bytes of `file` as it was built.
pub fn check(bytes: &[u8], file: &Path) -> Result<()> {
    match fs::read_to_string(place(file)) {
        Ok(sealed) if sealed != seal(bytes) => Err(Failure::new(format!(
            "{} is damaged: it is not what was built; delete its folder to build it anew",
            file.display()
        ))),
        // One that was built before there were seals has none.
        _ => Ok(()),
    }
}

fn place(file: &Path) -> PathBuf {
    let mut name: OsString = file.into();
    name.push(".seal");
    name.into()
}

fn seal(bytes: &[u8]) -> String {
    format!("{} {:08x}\n", bytes.len(), crc32fast::hash(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(file: &Path, fresh: bool) -> Executable {
        let name = || "image".to_owned();
        let (package, target, folder) = (name(), name(), PathBuf::new());
        Executable { package, target, file: file.to_owned(), folder, is_test: false, is_library: false, fresh }
    }

    #[test]
    fn damage_anywhere_is_noticed_and_building_anew_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("image");
        let turn = Turn::take(folder.path()).unwrap();
        let whole: Vec<u8> = (0..5000_u32).map(|index| index as u8).collect();
        fs::write(&file, &whole).unwrap();
        assert!(check(&whole, &file).is_ok(), "it was never sealed");
        turn.seal(&[built(&file, true)]).unwrap();
        assert!(check(&whole, &file).is_ok());
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << (at % 8);
            assert!(check(&damaged, &file).is_err(), "byte {at}");
            assert!(check(&whole[..at], &file).is_err(), "cut off after {at}");
        }
        fs::write(&file, "other").unwrap();
        turn.seal(&[built(&file, true)]).unwrap();
        assert!(check(b"other", &file).is_err(), "what cargo did not build keeps its seal");
        turn.seal(&[built(&file, false)]).unwrap();
        assert!(check(b"other", &file).is_ok());
    }

    #[test]
    fn where_nothing_can_be_built_is_said() {
        let told = Turn::take(Path::new("/proc/nothing")).unwrap_err().to_string();
        assert!(told.contains("cannot build into /proc/nothing") && told.contains("CARGO_TARGET_DIR"), "{told}");
    }
}
