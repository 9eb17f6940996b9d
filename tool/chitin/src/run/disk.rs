//! Disks of `./chitin run --disk FILE[:SIZE]`: raw files, made where they are missing, each locked for one run.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Seek, SeekFrom};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};
use rustix::io::Errno;

use crate::answer;
use crate::failure::{Context, Failure, Result};
use crate::qemu::Disk;
use crate::size;

use super::disk_content::{Content, look};

/// Bytes of a sector: a disk consists of whole ones.
const SECTOR: u64 = 512;
/// MiB of a disk that is made without a size.
const DEFAULT: u64 = 256;

/// What a user names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    file: PathBuf,
    /// MiB, if it is made.
    size: Option<u64>,
}

/// A file that is locked as long as this lives.
#[derive(Debug)]
pub struct Locked {
    pub disk: Disk,
    pub file: File,
    /// Whether this made it.
    pub is_new: bool,
    /// Bytes.
    pub bytes: u64,
}

/// `FILE` or `FILE:SIZE`. A digit behind the last colon begins a size, unless a file has the whole name.
pub fn parse(text: &str) -> std::result::Result<Wanted, String> {
    let (file, size) = match text.rsplit_once(':').map(|(file, size)| (file, size, size::mebibytes(size))) {
        Some((file, _, Ok(mebibytes))) => (file, Some(mebibytes)),
        Some((_, size, Err(why)))
            if size.starts_with(|first: char| first.is_ascii_digit()) && !Path::new(text).exists() =>
        {
            return Err(why);
        }
        _ => (text, None),
    };
    if file.is_empty() {
        Err("a disk is given as FILE or FILE:SIZE".into())
    } else {
        Ok(Wanted { file: file.into(), size })
    }
}

/// Opens, makes and locks every disk, and looks at what each holds. Remarks on a disk that ExOS will not mount.
///
/// # Errors
/// One line about the first that cannot be used.
pub fn open_all(wanted: &[Wanted]) -> Result<Vec<(Locked, Content)>> {
    wanted
        .iter()
        .enumerate()
        .map(|(number, wanted)| {
            let locked = open(wanted, "--disk ")?;
            let content = content(&locked, number)?;
            Ok((locked, content))
        })
        .collect()
}

/// Removes the disks that this run has made.
pub fn remove_new(disks: &[(Locked, Content)]) {
    for (locked, _) in disks.iter().filter(|(locked, _)| locked.is_new) {
        // What is told is why the run ends.
        let _ = std::fs::remove_file(&locked.disk.file);
    }
}

/// What ExOS is told of the disks: a letter for each, `r` for a first one that has the root.
pub fn option(disks: &[(Locked, Content)], has_root: bool) -> String {
    disks.iter().enumerate().fold("disks=".to_owned(), |mut all, (number, (_, content))| {
        all.push(if has_root && number == 0 { 'r' } else { content.letter() });
        all
    })
}

fn content(locked: &Locked, number: usize) -> Result<Content> {
    let name = locked.disk.file.display();
    let make = format!("`./chitin fs make --force {name}` makes an empty file system there");
    let content = match look(&locked.file, &locked.disk.file, locked.bytes) {
        Ok(content) => content,
        Err(failure) => return Err(Failure::new(format!("--disk {name}: {failure}; {make}"))),
    };
    if let Content::Other(what) = content {
        let letter = (b'a' + number as u8) as char;
        let place = if number == 0 { String::new() } else { (number + 1).to_string() };
        answer::remark(format_args!(
            "chitin: --disk {name}: it holds {what} and no file system of Chitin: it is /dev/vd{letter}, and nothing is \
             mounted at /disk{place}; {make}\n"
        ));
    }
    Ok(content)
}

/// Opens, makes and locks a disk; `option` stands before its name in error lines.
///
/// # Errors
/// One line if it cannot be used.
pub fn open(wanted: &Wanted, option: &str) -> Result<Locked> {
    let path = &wanted.file;
    let what = || format!("{option}{}", path.display());
    let refuse = |why: String| Failure::new(format!("{}: {why}", what()));
    let (mut file, is_new) = match OpenOptions::new().read(true).write(true).open(path) {
        Ok(file) => (file, false),
        Err(error) if error.kind() == ErrorKind::NotFound => (create(path).context(what())?, true),
        Err(error) => return Err(refuse(explain(&error))),
    };
    let metadata = file.metadata().context(what())?;
    let is_device = metadata.file_type().is_block_device();
    if !metadata.is_file() && !is_device {
        return Err(refuse("neither a file nor a disk of this machine".into()));
    }
    if !is_device && metadata.permissions().readonly() {
        return Err(refuse("the file is read-only".into()));
    }
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Err(refuse("another run uses it; wait for its end, or copy the file".into()));
    }
    if is_new {
        let mebibytes = wanted.size.unwrap_or(DEFAULT);
        reserve(&file, mebibytes).map_err(|error| {
            // What could not be made is not left behind.
            let _ = std::fs::remove_file(path);
            refuse(format!("{mebibytes} MiB cannot be reserved: {error}; name less, as in {}:64M", path.display()))
        })?;
    }
    let bytes = file.seek(SeekFrom::End(0)).context(what())?;
    check_size(bytes, wanted.size.filter(|_| !is_new)).map_err(refuse)?;
    Ok(Locked { disk: Disk { file: path.clone(), ..Disk::default() }, file, is_new, bytes })
}

fn create(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).open(path)
}

fn explain(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => "the file is read-only".into(),
        ErrorKind::IsADirectory => "a directory; name a file in it".into(),
        _ => error.to_string(),
    }
}

/// Reserves room, so that a disk of the host that is full is known at once.
fn reserve(file: &File, mebibytes: u64) -> std::result::Result<(), Errno> {
    let bytes = mebibytes << 20;
    match fallocate(file, FallocateFlags::empty(), 0, bytes) {
        Err(Errno::OPNOTSUPP) => rustix::fs::ftruncate(file, bytes),
        done => done,
    }
}

/// Fails unless it is a size that a disk can have; `wanted` is what the user named for a file that is there already.
fn check_size(bytes: u64, wanted: Option<u64>) -> std::result::Result<(), String> {
    if bytes == 0 {
        return Err("the file is empty; remove it, and a disk is made".into());
    }
    if !bytes.is_multiple_of(SECTOR) {
        return Err(format!("{bytes} bytes are no whole sectors of {SECTOR}: the file was cut off, or is no disk"));
    }
    match wanted {
        Some(mebibytes) if mebibytes << 20 != bytes => {
            Err(format!("the file has {bytes} bytes, not {mebibytes} MiB; name it without a size"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_stands_behind_the_last_colon() {
        let wanted = |file: &str, size| Ok(Wanted { file: file.into(), size });
        assert_eq!(parse("a"), wanted("a", None));
        assert_eq!(parse("a:64M"), wanted("a", Some(64)));
        assert_eq!(parse("a:b:1G"), wanted("a:b", Some(1024)));
        assert_eq!(parse("a:b"), wanted("a:b", None));
        assert!(parse("").is_err() && parse(":64M").is_err());
        for wrong in ["a:4K", "a:0", "a:1.5G"] {
            assert!(parse(wrong).unwrap_err().contains("is no size"), "{wrong}");
        }
    }

    #[test]
    fn sizes_are_whole_sectors() {
        assert!(check_size(512, None).is_ok() && check_size(1 << 20, Some(1)).is_ok());
        for (bytes, wanted) in [(0, None), (1000, None), (512, Some(1))] {
            assert!(check_size(bytes, wanted).is_err(), "{bytes}");
        }
    }
}
