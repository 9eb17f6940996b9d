//! Writes the boot archive: a newc cpio, the form that `abi::boot` describes.
//!
//! Names are bytes, as in any Unix file system. Names of one file (hard links) share an inode number. The first of them
//! carries the contents and the others have length 0, so that one pass from the start can link what is there already.

use std::io::{self, Read, Write};

/// What stands before the contents of a file, and is all there is of the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    pub name: Vec<u8>,
    pub inode: u32,
    /// Type and permission bits, as `stat` gives them.
    pub mode: u32,
    pub user: u32,
    pub group: u32,
    /// How many names the file has.
    pub links: u32,
    /// Seconds since 1970.
    pub modified: u32,
    /// Major and minor number of a device node.
    pub device: (u32, u32),
    /// Bytes of contents; for a symbolic link, of its target.
    pub size: u32,
}

pub const DIRECTORY: u32 = 0o040_000;
pub const REGULAR: u32 = 0o100_000;
pub const SYMBOLIC_LINK: u32 = 0o120_000;
pub const CHARACTER: u32 = 0o020_000;
pub const BLOCK: u32 = 0o060_000;

const TRAILER: &[u8] = b"TRAILER!!!";

/// An archive under construction.
pub struct Writer<W: Write> {
    inner: W,
}

impl<W: Write> Writer<W> {
    pub fn new(inner: W) -> Self {
        Self { inner }
    }

    /// Adds an entry with exactly `header.size` bytes from `contents`.
    ///
    /// # Errors
    /// When writing fails, or `contents` end early: the file shrank meanwhile.
    pub fn add(&mut self, header: &Header, contents: impl Read) -> io::Result<()> {
        self.inner.write_all(&encode(header))?;
        let copied = io::copy(&mut contents.take(u64::from(header.size)), &mut self.inner)?;
        if copied != u64::from(header.size) {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a file became shorter while it was read"));
        }
        self.pad(copied)
    }

    /// Adds a plain file that all may read and run.
    ///
    /// # Errors
    /// When writing fails, or it is 4 GiB or larger.
    pub fn add_file(&mut self, name: &str, contents: &[u8]) -> io::Result<()> {
        let size = u32::try_from(contents.len())
            .map_err(|_| io::Error::new(io::ErrorKind::FileTooLarge, "4 GiB or larger"))?;
        let mode = REGULAR | 0o755;
        self.add(&Header { name: name.into(), mode, links: 1, size, ..Header::default() }, contents)
    }

    /// Ends the archive.
    ///
    /// # Errors
    /// When writing fails.
    pub fn finish(mut self) -> io::Result<W> {
        self.add(&Header { name: TRAILER.into(), links: 1, ..Header::default() }, io::empty())?;
        self.inner.flush()?;
        Ok(self.inner)
    }

    fn pad(&mut self, written: u64) -> io::Result<()> {
        let over = usize::try_from(written % 4).unwrap_or(0);
        if over == 0 { Ok(()) } else { self.inner.write_all(&[0; 3][..4 - over]) }
    }
}

/// The magic, thirteen numbers in hexadecimal, the name, padded to four bytes.
fn encode(header: &Header) -> Vec<u8> {
    let name_length = u32::try_from(header.name.len() + 1).unwrap_or(u32::MAX);
    let (major, minor) = header.device;
    let numbers = [
        header.inode,
        header.mode,
        header.user,
        header.group,
        header.links,
        header.modified,
        header.size,
        0,
        0,
        major,
        minor,
        name_length,
        0,
    ];
    let mut bytes = b"070701".to_vec();
    for number in numbers {
        bytes.extend_from_slice(format!("{number:08x}").as_bytes());
    }
    bytes.extend_from_slice(&header.name);
    bytes.push(0);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reader is another project's: it knows the format, not this writer.
    #[test]
    fn another_reader_reads_what_was_written() {
        let mut writer = Writer::new(Vec::new());
        let files: Vec<(String, Vec<u8>)> =
            (0..9).map(|length| (format!("file{}", "x".repeat(length)), vec![length as u8; length])).collect();
        for (name, contents) in &files {
            writer.add_file(name, contents).unwrap();
        }
        let bytes = writer.finish().unwrap();
        assert_eq!(bytes.len() % 4, 0);

        let mut rest = bytes.as_slice();
        for (name, contents) in &files {
            let mut entry = cpio::NewcReader::new(rest).unwrap();
            assert_eq!(entry.entry().name(), name);
            assert_eq!(entry.entry().mode(), REGULAR | 0o755);
            let mut read = Vec::new();
            entry.read_to_end(&mut read).unwrap();
            assert_eq!(&read, contents);
            rest = entry.finish().unwrap();
        }
        assert!(cpio::NewcReader::new(rest).unwrap().entry().is_trailer());
    }

    #[test]
    fn every_number_stands_in_its_place() {
        let header = Header {
            name: b"dev/x".to_vec(),
            inode: 7,
            mode: 0o020_640,
            user: 1,
            group: 2,
            links: 3,
            modified: 4,
            device: (5, 6),
            size: 0,
        };
        let mut writer = Writer::new(Vec::new());
        writer.add(&header, io::empty()).unwrap();
        let bytes = writer.finish().unwrap();
        let reader = cpio::NewcReader::new(bytes.as_slice()).unwrap();
        let read = reader.entry();
        assert_eq!((read.ino(), read.mode(), read.uid(), read.gid()), (7, 0o020_640, 1, 2));
        assert_eq!((read.nlink(), read.mtime(), read.rdev_major(), read.rdev_minor()), (3, 4, 5, 6));
    }

    #[test]
    fn a_file_that_became_shorter_is_an_error() {
        let header = Header { name: b"a".to_vec(), size: 10, ..Header::default() };
        assert!(Writer::new(Vec::new()).add(&header, &b"short"[..]).is_err());
    }
}
