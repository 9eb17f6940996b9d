//! `./chitin fs cp` out of a file system. The names and links in it may be hostile: nothing is written outside the
//! destination, and no symbolic link is followed.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cffs::device::Device;
use cffs::error::Error;
use cffs::file_system::FileSystem;
use cffs::layout::Number;
use cffs::layout::inode::{FILE, Inode, LINK, SOCKET};
use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, chmodat, chownat, makedev, mknodat, utimensat};
use rustix::process::geteuid;

use crate::answer;
use crate::failure::{Context, Failure, Result};

use super::copy_in::MINOR_BITS;
use super::listing::{entries, printable};
use super::name::Place;
use super::trouble::words;
use super::{image, path};

/// Bytes read at a time.
const CHUNK: usize = 1 << 20;

/// Copies to a directory of this machine, or to a new name.
pub fn run(sources: &[Place], destination: &Path) -> Result<ExitCode> {
    let into = destination.is_dir();
    if !into && sources.len() > 1 {
        return Err(Failure::new(format!("{}: is no directory", destination.display())));
    }
    for source in sources {
        let Place::Image(file, at) = source else { continue };
        image::read(file, |image, system| {
            let number = path::find(system, at.as_bytes(), false).map_err(|error| image.failure_at(at, error))?;
            let mut copy = Copy { system, links: HashMap::new(), entered: HashSet::new() };
            match path::split(at) {
                Some((_, ".")) | None if into => copy.children(number, destination),
                Some((_, name)) if into => copy.entry(number, &destination.join(name)),
                _ => copy.entry(number, destination),
            }
        })?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A copy in progress.
pub struct Copy<'s, 'a, D: Device> {
    pub system: &'s mut FileSystem<'a, D>,
    /// Where the first name of a file with several names was made.
    pub links: HashMap<Number, PathBuf>,
    /// Directories that were entered: each has one name.
    pub entered: HashSet<Number>,
}

fn refused(path: &Path) -> impl Fn(Error) -> Failure {
    move |error| Failure::new(format!("{}: {}", path.display(), words(error)))
}

impl<D: Device> Copy<'_, '_, D> {
    /// Copies what a directory holds.
    pub fn children(&mut self, directory: Number, path: &Path) -> Result<()> {
        if !self.entered.insert(directory) {
            return Err(Failure::new(format!("{}: the directory has two names; it is damaged", path.display())));
        }
        let mut names = entries(self.system, directory).map_err(refused(path))?;
        names.sort();
        for (name, number) in names {
            if name.is_empty() || name == b"." || name == b".." || name.iter().any(|byte| matches!(byte, 0 | b'/')) {
                return Err(Failure::new(format!("{}: {:?} is no name", path.display(), printable(&name))));
            }
            self.entry(number, &path.join(OsStr::from_bytes(&name)))?;
        }
        Ok(())
    }

    /// Copies one file or tree to a path.
    fn entry(&mut self, number: Number, path: &Path) -> Result<()> {
        let inode = self.system.attributes(number).map_err(refused(path))?;
        let there = fs::symlink_metadata(path).ok();
        if inode.is_directory() {
            match there {
                Some(found) if found.is_dir() => (),
                Some(_) => return Err(refused(path)(Error::NotDirectory)),
                None => fs::create_dir(path).context(path.display())?,
            }
            self.children(number, path)?;
            return attributes(&inode, path);
        }
        if there.is_some() {
            fs::remove_file(path).context(path.display())?;
        }
        if let Some(first) = self.links.get(&number) {
            return fs::hard_link(first, path).context(path.display());
        }
        match inode.kind() {
            FILE => self.content(number, &inode, path)?,
            LINK => {
                let text = self.system.read_link(number).map_err(refused(path))?;
                symlink(OsStr::from_bytes(&text), path).context(path.display())?;
            }
            SOCKET => {
                answer::remark(format_args!("chitin: {}: a socket is not copied\n", path.display()));
                return Ok(());
            }
            _ => special(&inode, path)?,
        }
        if inode.nlink > 1 {
            self.links.insert(number, path.into());
        }
        attributes(&inode, path)
    }

    /// Writes the parts of a file that are no holes.
    fn content(&mut self, number: Number, inode: &Inode, path: &Path) -> Result<()> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).context(path.display())?;
        file.set_len(inode.size).context(path.display())?;
        let mut at = 0;
        while let Some(start) = self.system.next_data(number, at).map_err(refused(path))? {
            let end = self.system.next_hole(number, start).map_err(refused(path))?.unwrap_or(inode.size);
            at = self.range(number, start, end.min(inode.size), &file, path)?.max(start + 1);
        }
        Ok(())
    }

    fn range(&mut self, number: Number, start: u64, end: u64, file: &File, path: &Path) -> Result<u64> {
        let (mut bytes, mut at) = (vec![0; CHUNK.min((end - start) as usize)], start);
        while at < end {
            let part = (end - at).min(bytes.len() as u64) as usize;
            let count = self.system.read(number, at, &mut bytes[..part]).map_err(refused(path))?;
            if count == 0 {
                return Err(refused(path)(Error::Io));
            }
            file.write_all_at(&bytes[..count], at).context(path.display())?;
            at += count as u64;
        }
        Ok(at)
    }
}

/// A FIFO or a device node.
fn special(inode: &Inode, path: &Path) -> Result<()> {
    let kind = FileType::from_raw_mode(inode.kind().into());
    let number = makedev((inode.parent >> MINOR_BITS) as u32, (inode.parent & ((1 << MINOR_BITS) - 1)) as u32);
    let device = if inode.is_device() { number } else { 0 };
    mknodat(CWD, path, kind, Mode::from_raw_mode(0o600), device).context(path.display())
}

/// Owner (for root alone), mode and times.
fn attributes(inode: &Inode, path: &Path) -> Result<()> {
    if geteuid().is_root() {
        let owner = (rustix::fs::Uid::from_raw(inode.uid), rustix::fs::Gid::from_raw(inode.gid));
        chownat(CWD, path, Some(owner.0), Some(owner.1), AtFlags::SYMLINK_NOFOLLOW).context(path.display())?;
    }
    if inode.kind() != LINK {
        let mode = Mode::from_raw_mode(u32::from(inode.mode & 0o7777));
        chmodat(CWD, path, mode, AtFlags::empty()).context(path.display())?;
    }
    let moment =
        |time: i64| Timespec { tv_sec: time.div_euclid(1_000_000_000), tv_nsec: time.rem_euclid(1_000_000_000) };
    let times = Timestamps { last_access: moment(inode.times[0]), last_modification: moment(inode.times[1]) };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).context(path.display())
}
