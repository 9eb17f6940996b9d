//! `./chitin fs cp` into a file system: trees of this machine with modes, owners, times, links and holes.

use std::collections::HashMap;
use std::fs::{self, File, Metadata};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cffs::device::Device;
use cffs::error::Error;
use cffs::file_system::FileSystem;
use cffs::layout::Number;
use cffs::layout::inode::{DIRECTORY, FILE, LINK};
use cffs::name::New;
use rustix::fs::{SeekFrom, major, minor, seek};
use rustix::io::Errno;

use crate::failure::{Context, Failure, Result};

use super::name::Place;
use super::trouble::words;
use super::{image, path};

/// Bits of a minor number in the device number of an inode.
pub const MINOR_BITS: u32 = 20;
/// Bytes written at a time.
const CHUNK: usize = 1 << 20;

/// Copies into the file system on `file`.
pub fn run(sources: &[Place], file: &Path, at: &str) -> Result<ExitCode> {
    image::write(file, |image, system| {
        let directory = match path::find(system, at.as_bytes(), true) {
            Ok(number) if system.attributes(number).is_ok_and(|inode| inode.is_directory()) => Some(number),
            Ok(_) | Err(Error::NotFound) => None,
            Err(error) => return Err(image.failure_at(at, error)),
        };
        let mut copy = Copy { system, links: HashMap::new() };
        for source in sources {
            let Place::Host(source) = source else { continue };
            if let Some(number) = directory {
                // `cp DIR/. FILE:/` copies what DIR holds.
                if source.as_os_str().as_bytes().ends_with(b"/.") || source.file_name().is_none() {
                    copy.children(source, number)?;
                } else {
                    let name = source.file_name().unwrap_or_default().as_bytes();
                    copy.entry(source, number, name)?;
                }
            } else {
                let (above, name) = path::split(at).ok_or_else(|| image.failure_at(at, Error::NotFound))?;
                let number = path::find(copy.system, above.as_bytes(), true);
                copy.entry(source, number.map_err(|error| image.failure_at(above, error))?, name.as_bytes())?;
                if sources.len() > 1 {
                    return Err(image.failure_at(at, Error::NotDirectory));
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// A copy in progress.
pub struct Copy<'s, 'a, D: Device> {
    pub system: &'s mut FileSystem<'a, D>,
    /// Files with several names: device and inode of this machine, and the inode here.
    pub links: HashMap<(u64, u64), Number>,
}

fn refused(source: &Path) -> impl Fn(Error) -> Failure {
    move |error| Failure::new(format!("{}: {}", source.display(), words(error)))
}

fn nanoseconds(seconds: i64, rest: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}

impl<D: Device> Copy<'_, '_, D> {
    /// Copies what a directory holds, in the order of names.
    pub fn children(&mut self, source: &Path, directory: Number) -> Result<()> {
        let list = fs::read_dir(source).context(source.display())?;
        let mut paths = list.map(|entry| entry.map(|entry| entry.path())).collect::<std::io::Result<Vec<PathBuf>>>();
        let paths = paths.as_mut().map_err(|error| Failure::new(format!("{}: {error}", source.display())))?;
        paths.sort();
        for path in paths {
            self.entry(path, directory, path.file_name().unwrap_or_default().as_bytes())?;
        }
        Ok(())
    }

    /// Copies one file or tree to a name in a directory.
    fn entry(&mut self, source: &Path, directory: Number, name: &[u8]) -> Result<()> {
        let metadata = fs::symlink_metadata(source).context(source.display())?;
        let key = (metadata.dev(), metadata.ino());
        let has_links = !metadata.is_dir() && metadata.nlink() > 1;
        let there = match self.system.lookup(directory, name) {
            Ok(number) => Some(number),
            Err(Error::NotFound) => None,
            Err(error) => return Err(refused(source)(error)),
        };
        if let Some(number) = self.links.get(&key).copied().filter(|_| has_links) {
            return self.link(source, number, directory, name, there);
        }
        let number = self.target(source, &metadata, directory, name, there)?;
        if has_links {
            self.links.insert(key, number);
        }
        if metadata.is_file() {
            self.content(source, number, metadata.len())?;
        } else if metadata.is_dir() {
            self.children(source, number)?;
        }
        self.attributes(number, &metadata).map_err(refused(source))
    }

    fn link(
        &mut self,
        source: &Path,
        number: Number,
        directory: Number,
        name: &[u8],
        there: Option<Number>,
    ) -> Result<()> {
        if there == Some(number) {
            return Ok(());
        }
        if there.is_some() {
            self.system.unlink(directory, name).map_err(refused(source))?;
        }
        self.system.link(number, directory, name).map_err(refused(source))
    }

    /// The inode to fill: what has the name already, if it is of the same kind, or a new one.
    fn target(
        &mut self,
        source: &Path,
        metadata: &Metadata,
        directory: Number,
        name: &[u8],
        there: Option<Number>,
    ) -> Result<Number> {
        if let Some(number) = there {
            let inode = self.system.attributes(number).map_err(refused(source))?;
            match (inode.is_directory(), metadata.is_dir()) {
                (true, true) => return Ok(number),
                (true, false) => return Err(refused(source)(Error::IsDirectory)),
                (false, true) => return Err(refused(source)(Error::NotDirectory)),
                (false, false) => self.system.unlink(directory, name).map_err(refused(source))?,
            }
        }
        let kind = metadata.file_type();
        let text = if kind.is_symlink() { Some(fs::read_link(source).context(source.display())?) } else { None };
        let target = text.as_ref().map_or(&[][..], |text| text.as_os_str().as_bytes());
        let mode = (metadata.mode() & 0o177_777) as u16;
        let is_device = matches!(mode >> 12, 2 | 6);
        // As ExOS stores it: the host's own form depends on the host.
        let number = u64::from(major(metadata.rdev())) << MINOR_BITS | u64::from(minor(metadata.rdev()));
        let device = if is_device { number } else { 0 };
        let new = New { mode, uid: metadata.uid(), gid: metadata.gid(), device, target };
        debug_assert!(matches!(mode >> 12, 1 | 2 | 6 | 12) || mode & !0o7777 & (DIRECTORY | FILE | LINK) != 0);
        self.system.create(directory, name, &new).map_err(refused(source))
    }

    /// Writes the parts of a file that are no holes.
    fn content(&mut self, source: &Path, number: Number, length: u64) -> Result<()> {
        let file = File::open(source).context(source.display())?;
        let (mut bytes, mut at) = (vec![0; CHUNK], 0);
        loop {
            let start = match seek(&file, SeekFrom::Data(at)) {
                Ok(start) => start,
                Err(Errno::NXIO) => break,
                Err(error) => return Err(Failure::new(format!("{}: {error}", source.display()))),
            };
            let end = seek(&file, SeekFrom::Hole(start)).context(source.display())?;
            seek(&file, SeekFrom::Start(start)).context(source.display())?;
            at = start;
            while at < end {
                let part = (end - at).min(CHUNK as u64) as usize;
                let count = (&file).read(&mut bytes[..part]).context(source.display())?;
                if count == 0 {
                    break;
                }
                self.write(source, number, at, &bytes[..count])?;
                at += count as u64;
            }
            at = at.max(end);
        }
        if length > self.system.attributes(number).map_err(refused(source))?.size {
            self.system.truncate(number, length).map_err(refused(source))?;
        }
        Ok(())
    }

    fn write(&mut self, source: &Path, number: Number, at: u64, bytes: &[u8]) -> Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            let count = self.system.write(number, at + done as u64, &bytes[done..]).map_err(refused(source))?;
            done += count;
        }
        Ok(())
    }

    fn attributes(&mut self, number: Number, metadata: &Metadata) -> cffs::error::Result<()> {
        self.system.set_owner(number, metadata.uid(), metadata.gid())?;
        self.system.set_mode(number, (metadata.mode() & 0o7777) as u16)?;
        let access = nanoseconds(metadata.atime(), metadata.atime_nsec());
        let data = nanoseconds(metadata.mtime(), metadata.mtime_nsec());
        self.system.set_times(number, Some(access), Some(data))
    }
}
