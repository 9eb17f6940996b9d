//! A seal of what cargo built: its length and checksum in a file next to it. Cargo does not notice when its output is
//! damaged later, and a machine that starts from damaged output can do anything.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use walkdir::WalkDir;

use crate::cargo::Executable;
use crate::failure::{Context, Failure, Result};

/// Held while something is built and sealed, so that no process sees one without the other. A build that failed or was
/// interrupted leaves its mark: what it had built bears the seals of what was there before, and the next one breaks
/// them.
#[derive(Debug)]
pub struct Turn {
    _lock: File,
    mark: PathBuf,
}

impl Turn {
    /// Waits until no other process builds into `target`.
    ///
    /// # Errors
    /// When nothing can be written there.
    pub fn take(target: &Path) -> Result<Self> {
        let what = || format!("cannot build into {} (CARGO_TARGET_DIR can name another folder)", target.display());
        fs::create_dir_all(target).context(what())?;
        let lock = File::options().append(true).create(true).open(target.join(".chitin-lock")).context(what())?;
        flock(&lock, FlockOperation::LockExclusive).context(what())?;
        let mark = target.join(".chitin-unsealed");
        if mark.exists() {
            break_seals(target);
        }
        fs::write(&mark, "").context(what())?;
        Ok(Self { _lock: lock, mark })
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
        fs::remove_file(&self.mark).context(self.mark.display())
    }
}

/// Takes every seal away below a folder: whatever has none is sealed as it is.
fn break_seals(folder: &Path) {
    let files = WalkDir::new(folder).into_iter().filter_map(core::result::Result::ok);
    let seals = files.filter(|file| file.path().extension().is_some_and(|extension| extension == "seal"));
    seals.for_each(|seal| drop(fs::remove_file(seal.path())));
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
        let turn = || Turn::take(folder.path()).unwrap();
        let whole: Vec<u8> = (0..5000_u32).map(|index| index as u8).collect();
        fs::write(&file, &whole).unwrap();
        assert!(check(&whole, &file).is_ok(), "it was never sealed");
        turn().seal(&[built(&file, true)]).unwrap();
        assert!(check(&whole, &file).is_ok());
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << (at % 8);
            assert!(check(&damaged, &file).is_err(), "byte {at}");
            assert!(check(&whole[..at], &file).is_err(), "cut off after {at}");
        }
        fs::write(&file, "other").unwrap();
        turn().seal(&[built(&file, true)]).unwrap();
        assert!(check(b"other", &file).is_err(), "what cargo did not build keeps its seal");
        turn().seal(&[built(&file, false)]).unwrap();
        assert!(check(b"other", &file).is_ok());
    }

    #[test]
    fn what_an_interrupted_build_had_built_is_not_taken_for_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("release/image");
        fs::create_dir(folder.path().join("release")).unwrap();
        fs::write(&file, "before").unwrap();
        Turn::take(folder.path()).unwrap().seal(&[built(&file, false)]).unwrap();
        drop(Turn::take(folder.path()).unwrap());
        fs::write(&file, "after").unwrap();
        assert!(check(b"after", &file).is_err(), "its build did not come to the sealing");
        Turn::take(folder.path()).unwrap().seal(&[built(&file, true)]).unwrap();
        assert!(check(b"after", &file).is_ok());
        Turn::take(folder.path()).unwrap().seal(&[built(&file, true)]).unwrap();
        fs::write(&file, "damaged").unwrap();
        assert!(check(b"damaged", &file).is_err(), "the seal stays through a build that ends well");
    }

    #[test]
    fn where_nothing_can_be_built_is_said() {
        let told = Turn::take(Path::new("/proc/nothing")).unwrap_err().to_string();
        assert!(told.contains("cannot build into /proc/nothing") && told.contains("CARGO_TARGET_DIR"), "{told}");
    }
}
