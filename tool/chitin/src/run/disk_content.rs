//! What the file of a disk holds, found before a machine gets it: zeros, a file system of Chitin, or other data.
//!
//! The whole file is looked at, but for its holes, which `SEEK_DATA` skips. ExOS makes a file system only on a disk
//! of which this module has said that it holds zeros.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use cffs::mount::inspect;
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use xn::format::MAGIC;

use crate::failure::{Context, Failure, Result};
use crate::fs::image::Image;
use crate::fs::trouble::words;

/// Bytes that are read at once.
const PIECE: usize = 1 << 20;
/// Bytes in which volumes, partition tables and file systems are recognised.
const HEAD: usize = 64 << 10;

/// What a disk holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Zeros, or nothing at all.
    Blank,
    /// A volume with C-FFS that this Chitin can mount.
    Volume,
    /// Something else, in words.
    Other(&'static str),
}

impl Content {
    /// The letter by which ExOS is told of it.
    pub const fn letter(self) -> char {
        match self {
            Self::Blank => 'b',
            Self::Volume => 'v',
            Self::Other(_) => 'o',
        }
    }
}

/// Looks at a file or a disk of the host of this size.
///
/// # Errors
/// Where it cannot be read, and where it holds a volume that cannot be mounted: cut off, damaged, or of another
/// version.
pub fn look(file: &File, path: &Path, bytes: u64) -> Result<Content> {
    let mut head = vec![0; HEAD.min(bytes as usize)];
    file.read_exact_at(&mut head, 0).context(path.display())?;
    if head.starts_with(&MAGIC) {
        let mut image = Image::new(file.try_clone().context(path.display())?, path)?;
        return inspect(&mut image).map(|()| Content::Volume).map_err(|error| Failure::new(words(error)));
    }
    if let Some(name) = known(&head) {
        return Ok(Content::Other(name));
    }
    let is_blank = holds_zeros(file, bytes).context(path.display())?;
    Ok(if is_blank { Content::Blank } else { Content::Other("data") })
}

/// The kind of what begins so, by the numbers that its format has at fixed places.
fn known(head: &[u8]) -> Option<&'static str> {
    const KINDS: [(usize, &[u8], &str); 9] = [
        (512, b"EFI PART", "a partition table"),
        (1080, &[0x53, 0xef], "a file system of the ext family"),
        (0, b"XFSB", "an XFS file system"),
        (0, b"hsqs", "a squashfs file system"),
        (257, b"ustar", "a tar archive"),
        (0, b"QFI\xfb", "a qcow2 image"),
        (4086, b"SWAPSPACE2", "a swap area"),
        (32769, b"CD001", "an ISO 9660 file system"),
        (510, &[0x55, 0xaa], "a partition table"),
    ];
    let is_there = |at: usize, bytes: &[u8]| head.get(at..at + bytes.len()) == Some(bytes);
    KINDS.iter().find(|(at, bytes, _)| is_there(*at, bytes)).map(|(.., name)| *name)
}

fn holds_zeros(file: &File, end: u64) -> io::Result<bool> {
    let mut bytes = vec![0; PIECE];
    let mut at = 0;
    while at < end {
        at = match seek(file, SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(Errno::NXIO) => return Ok(true),
            // Not every file system of the host knows its holes.
            Err(Errno::INVAL) => at,
            Err(error) => return Err(error.into()),
        };
        let piece = &mut bytes[..(end.saturating_sub(at)).min(PIECE as u64) as usize];
        file.read_exact_at(piece, at)?;
        if piece.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        at += piece.len() as u64;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(lines: &str, bytes: u64) -> Content {
        let folder = tempfile::tempdir().expect("room");
        let path = folder.path().join("d");
        let script = format!("truncate -s {bytes} $0; {lines}");
        let status = std::process::Command::new("sh").arg("-c").arg(script).arg(&path).status().expect("a shell");
        assert!(status.success());
        look(&File::open(&path).expect("made"), &path, bytes).expect("readable")
    }

    #[test]
    fn a_byte_anywhere_is_data_and_holes_cost_nothing() {
        assert_eq!(content("true", 1 << 40), Content::Blank);
        let put = |at: u64| content(&format!("printf x | dd of=$0 bs=1 seek={at} conv=notrunc status=none"), 1 << 40);
        for at in [0, 1, 4095, 131_072, 5 << 20, (1 << 39) + 77, (1 << 40) - 1] {
            assert_eq!(put(at), Content::Other("data"), "{at}");
        }
        assert_eq!(content("dd if=/dev/zero of=$0 bs=1M count=3 conv=notrunc status=none", 4 << 20), Content::Blank);
    }

    #[test]
    fn common_formats_have_names() {
        let put = |at: u64, bytes: &str| {
            content(&format!("printf '{bytes}' | dd of=$0 bs=1 seek={at} conv=notrunc status=none"), 1 << 20)
        };
        assert_eq!(put(510, "\\125\\252"), Content::Other("a partition table"));
        assert_eq!(put(1080, "\\123\\357"), Content::Other("a file system of the ext family"));
        assert_eq!(put(257, "ustar"), Content::Other("a tar archive"));
    }
}
