//! A file with a file system: the block device over it, and how it is mounted.

use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

use cffs::arena::Arena;
use cffs::device::{Device, Failed, Overlay};
use cffs::error::Error;
use cffs::file_system::FileSystem;
use cffs::mount::{Mount, is_closed};
use rustix::fs::{FlockOperation, OFlags, flock};
use xn::format::{BLOCK_SIZE, Block};

use crate::failure::{Context, Failure, Result};

use super::trouble::words;

/// Most blocks that a command caches: 32 MiB.
const PAGES: u64 = 8192;
/// Ranges of blocks that wait for a flush before they are free.
const RECORDS: usize = 4096;

/// A file as a block device. Clones share it.
#[derive(Clone)]
pub struct Image {
    file: Rc<File>,
    path: PathBuf,
    blocks: u64,
    trouble: Rc<RefCell<Option<io::Error>>>,
}

/// A mounted file system that is not written.
pub type Reader<'a, 'b, D> = FileSystem<'a, &'b mut Overlay<D>>;
/// A mounted file system.
pub type Writer<'a> = FileSystem<'a, Image>;

/// The time, in nanoseconds since 1970.
pub fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// Tables for one command on a device.
pub fn arena<D: Device>(device: &D) -> Arena {
    Arena::new(device.blocks().min(PAGES) as usize, RECORDS)
}

impl Image {
    /// A device over an open file.
    pub fn new(file: File, path: &Path) -> Result<Self> {
        let bytes = io::Seek::seek(&mut &file, io::SeekFrom::End(0)).context(path.display())?;
        let blocks = bytes / BLOCK_SIZE as u64;
        Ok(Self { file: file.into(), path: path.into(), blocks, trouble: Rc::default() })
    }

    /// Opens and locks a file: for one writer or several readers.
    pub fn open(path: &Path, writes: bool) -> Result<Self> {
        let refuse = |why: &str| Failure::new(format!("{}: {why}", path.display()));
        // A FIFO is opened without a wait for its writer, and refused below.
        let mut options = OpenOptions::new();
        options.read(true).write(writes).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
        let file = options.open(path).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem if writes => {
                refuse("the file is read-only")
            }
            io::ErrorKind::NotFound => refuse("no such file; `./chitin fs make` makes one"),
            io::ErrorKind::IsADirectory => refuse("a directory; name a file with a file system"),
            _ => refuse(&error.to_string()),
        })?;
        let kind = file.metadata().context(path.display())?.file_type();
        if kind.is_dir() {
            return Err(refuse("a directory; name a file with a file system"));
        }
        if !kind.is_file() && !kind.is_block_device() {
            return Err(refuse("neither a file nor a disk of this machine"));
        }
        let lock =
            if writes { FlockOperation::NonBlockingLockExclusive } else { FlockOperation::NonBlockingLockShared };
        flock(&file, lock).map_err(|_| refuse("another run uses it; wait for its end, or copy the file"))?;
        Self::new(file, path)
    }

    /// The refusal of an operation on the whole file. An error of this machine explains a failed transfer.
    pub fn failure(&self, error: Error) -> Failure {
        match (error, self.trouble.borrow_mut().take()) {
            (Error::Io, Some(trouble)) => Failure::new(format!("{}: {trouble}", self.path.display())),
            (error, _) => Failure::new(format!("{}: {}", self.path.display(), words(error))),
        }
    }

    /// The refusal of an operation on a path in the file system.
    pub fn failure_at(&self, path: &str, error: Error) -> Failure {
        match error {
            Error::Io | Error::NoSpace | Error::NotChitin => self.failure(error),
            error => Failure::new(format!("{}:{path}: {}", self.path.display(), words(error))),
        }
    }

    fn outcome(&self, result: io::Result<()>) -> std::result::Result<(), Failed> {
        result.map_err(|error| {
            self.trouble.replace(Some(error));
            Failed
        })
    }
}

impl Device for Image {
    fn blocks(&self) -> u64 {
        self.blocks
    }

    fn read(&mut self, block: u64, bytes: &mut Block) -> std::result::Result<(), Failed> {
        self.outcome(self.file.read_exact_at(bytes, block * BLOCK_SIZE as u64))
    }

    fn write(&mut self, block: u64, bytes: &Block) -> std::result::Result<(), Failed> {
        self.outcome(self.file.write_all_at(bytes, block * BLOCK_SIZE as u64))
    }

    fn flush(&mut self) -> std::result::Result<(), Failed> {
        self.outcome(self.file.sync_data())
    }
}

/// Mounts a file read-only for `work`.
pub fn read<T>(path: &Path, work: impl FnOnce(&Image, &mut Reader<'_, '_, Image>) -> Result<T>) -> Result<T> {
    let image = Image::open(path, false)?;
    read_device(image.clone(), |system| work(&image, system)).map_err(|error| image.failure(error))?
}

/// Mounts a device read-only for `work`. A volume that was not closed is recovered in memory first.
pub fn read_device<D: Device, T>(
    mut device: D,
    work: impl FnOnce(&mut Reader<'_, '_, D>) -> T,
) -> std::result::Result<T, Error> {
    let (mut arena, now) = (arena(&device), now());
    let closed = is_closed(&mut device)?;
    let mut overlay = Overlay::new(device);
    if !closed {
        arena.mount(&mut overlay, Mount { read_only: false, now })?.0.unmount()?;
    }
    let (mut system, _) = arena.mount(&mut overlay, Mount { read_only: true, now })?;
    Ok(work(&mut system))
}

/// Mounts a file for `work`, and closes it whether or not that succeeded.
pub fn write<T>(path: &Path, work: impl FnOnce(&Image, &mut Writer<'_>) -> Result<T>) -> Result<T> {
    write_to(Image::open(path, true)?, work)
}

/// The same for an image that is open and locked.
pub fn write_to<T>(image: Image, work: impl FnOnce(&Image, &mut Writer<'_>) -> Result<T>) -> Result<T> {
    let mut arena = arena(&image);
    let mounted = arena.mount(image.clone(), Mount { read_only: false, now: now() });
    let (mut system, _) = mounted.map_err(|error| image.failure(error))?;
    let done = work(&image, &mut system);
    let closed = system.unmount().map_err(|error| image.failure(error));
    done.and_then(|value| closed.map(|_| value))
}
