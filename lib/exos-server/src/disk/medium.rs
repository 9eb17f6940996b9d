//! What lies under the C-FFS of a disk: the volume in the kernel's XN, or the raw disk.
//!
//! The kernel has one open volume. Other disks stay raw, where the server's own XN alone protects them. So does a first
//! disk whose volume the kernel cannot open; then the machine says why in one line.

use super::adapter::Adapter;
use super::kernel_volume::KernelVolume;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use cffs::arena::{Arena, MIN_PAGES};
use cffs::device::{Change, Device, Failed, Whole};
use cffs::error::Error;
use cffs::file_system::FileSystem;
use cffs::guarded::Guarded;
use cffs::mount::{Mount, guard, is_closed};
use cffs::template::{COUNT, Guard};
use exos::hw::volume;
use xn::format::Block;

/// The disk whose volume is in the kernel.
const FIRST: u64 = 0;
/// Ledger records of each file system.
pub const RECORDS: usize = 1024;

/// A disk under C-FFS.
#[derive(Debug)]
pub enum Medium {
    /// The server's XN protects it.
    Raw(Adapter),
    /// The kernel's XN protects it.
    Kernel(Box<Guarded<KernelVolume>>),
}

impl Medium {
    /// Opens the volume in the kernel, if it may be there; else the raw disk, and why. The volume is closed.
    fn open(mut adapter: Adapter) -> Result<(Self, Option<String>), Error> {
        let (frames, number) = (volume::frames().len(), adapter.number());
        if number != FIRST {
            return Ok((Self::Raw(adapter), None));
        }
        let mut superblock = [0; xn::format::BLOCK_SIZE];
        adapter.read(0, &mut superblock).map_err(|_| Error::Io)?;
        let why = if frames < MIN_PAGES {
            Some(format!("the kernel has {frames} frames of {MIN_PAGES}; give the machine more memory"))
        } else if guard(&mut adapter)? != Guard::Own {
            Some(String::from("its volume is of an older Chitin; copy its files to a new one with ./chitin fs cp"))
        } else {
            volume::open(number, COUNT as u8).err().map(|failure| format!("{:?}", failure.error))
        };
        if why.is_some() {
            return Ok((Self::Raw(adapter), why));
        }
        Ok((Self::Kernel(Box::new(Guarded::new(KernelVolume::new(adapter), frames, &superblock))), None))
    }

    /// Closes the volume.
    fn close(&mut self) -> Result<(), Error> {
        match self {
            Self::Raw(_) => Ok(()),
            Self::Kernel(device) => {
                device.finish().map_err(|_| Error::Io)?;
                device.rows.close()
            }
        }
    }

    fn device(&mut self) -> &mut dyn Device {
        match self {
            Self::Raw(adapter) => adapter,
            Self::Kernel(device) => &mut **device,
        }
    }

    /// Blocks that a cache has: as many as the kernel has frames.
    fn cache(&self, most: usize) -> usize {
        match self {
            Self::Raw(_) => most,
            Self::Kernel(_) => volume::frames().len(),
        }
    }
}

impl Device for Medium {
    fn blocks(&self) -> u64 {
        match self {
            Self::Raw(adapter) => adapter.blocks(),
            Self::Kernel(device) => device.blocks(),
        }
    }

    fn read(&mut self, block: u64, bytes: &mut Block) -> Result<(), Failed> {
        self.device().read(block, bytes)
    }

    fn write(&mut self, block: u64, bytes: &Block) -> Result<(), Failed> {
        self.device().write(block, bytes)
    }

    fn flush(&mut self) -> Result<(), Failed> {
        self.device().flush()
    }

    fn read_run(&mut self, first: u64, blocks: &mut [Block]) -> Result<(), Failed> {
        self.device().read_run(first, blocks)
    }

    fn write_all(&mut self, blocks: &[(u64, &Block)]) -> Result<(), Failed> {
        self.device().write_all(blocks)
    }

    fn write_whole(&mut self, blocks: &[Whole<'_>]) -> Result<(), Failed> {
        self.device().write_whole(blocks)
    }

    fn seals(&self) -> bool {
        matches!(self, Self::Kernel(_))
    }

    fn permit(&mut self, change: &Change<'_>) -> xn::error::Result<()> {
        self.device().permit(change)
    }
}

/// A mounted file system, and why the kernel does not hold a volume that it should hold.
pub type Mounted = (FileSystem<'static, Medium>, Option<String>);

/// Mounts the volume of a disk, with a cache of at most so many blocks. One that was not closed is recovered first.
pub fn mount(mut adapter: Adapter, cache: usize, now: i64) -> Result<Mounted, Error> {
    let how = Mount { read_only: false, now };
    if guard(&mut adapter)? == Guard::Own && !is_closed(&mut adapter)? {
        let mut arena = Arena::new(cache, RECORDS);
        adapter = arena.mount(adapter, how)?.0.unmount()?;
    }
    let (medium, why) = Medium::open(adapter)?;
    let arena = Box::leak(Box::new(Arena::new(medium.cache(cache), RECORDS)));
    arena.mount(medium, how).map(|(system, _)| (system, why))
}

/// Closes a file system and its volume.
pub fn unmount(system: FileSystem<'static, Medium>) -> Result<(), Error> {
    system.unmount()?.close()
}
