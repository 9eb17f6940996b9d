//! A mounted file system: its state in core.
//!
//! Invariant: what this structure remembers beyond the cache serves crash safety and open files only. After a sync its
//! lists are empty but for open files.

use crate::arena::Pages;
use crate::cache::Cache;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::layout::inode::{DYING, Inode};
use crate::layout::node::{has_inode, inode_place};
use crate::layout::{Content, Number, place};
use crate::template::Native;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use xn::access::Caller;
use xn::format::{CONTENT, SECTOR_SIZE};
use xn::volume::Volume;

/// What access programs see of this library: it acts for the server, which holds the volume.
pub(crate) const CALLER: Caller = Caller { credentials: [0; 4], clock: 0 };

/// An entry that a rename left in place until the new one is durable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaving {
    pub(crate) directory: Number,
    /// Block of the node.
    pub(crate) block: u64,
    pub(crate) sector: usize,
    pub(crate) offset: usize,
    pub(crate) target: Number,
}

/// Names that were removed since the last sync: their directories, their hashes, and the sectors that they stood in.
/// The disk may have such a sector as it was, so that the same name in another one would be there twice.
#[derive(Default)]
pub(crate) struct Erased(BTreeMap<(Number, u64), Option<(u64, usize)>>);

/// Names that are remembered. After more of them any name may be one that was removed.
const MOST_ERASED: usize = 2_048;

impl Erased {
    /// A name was removed from a sector of a block.
    pub(crate) fn insert(&mut self, directory: Number, hash: u64, place: (u64, usize)) {
        if self.0.len() < MOST_ERASED {
            // Another name may have the same hash.
            let known = self.0.entry((directory, hash)).or_insert(Some(place));
            *known = known.filter(|before| *before == place);
        }
    }

    /// Where a name was removed, if it may have been: in one place, or in some.
    pub(crate) fn place(&self, directory: Number, hash: u64) -> Option<Option<(u64, usize)>> {
        if self.0.len() < MOST_ERASED { self.0.get(&(directory, hash)).copied() } else { Some(None) }
    }

    /// All is durable.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

/// What a crash could still tear apart, since the last sync.
#[derive(Default)]
pub(crate) struct Pending {
    /// Inodes that no fsync has made durable.
    pub(crate) young: BTreeSet<Number>,
    /// Inodes of which more than the times changed since the last fsync.
    pub(crate) changed: BTreeSet<Number>,
    /// Inodes with a new name outside their own sector.
    pub(crate) unsettled: BTreeSet<Number>,
    /// Inodes that lost one of several names, outside their own sector.
    pub(crate) lessened: BTreeSet<Number>,
    /// Old entries of renames.
    pub(crate) leaving: Vec<Leaving>,
    /// Orphans that a rename replaced: they are freed when the new entry is durable.
    pub(crate) doomed: Vec<Number>,
    /// A directory changed its parent.
    pub(crate) directory_moved: bool,
    /// Where names were removed.
    pub(crate) erased: Erased,
}

/// Numbers of what the file system did, for tests and `fs check`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Blocks read from the device.
    pub reads: u64,
    /// Blocks written to the device.
    pub writes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Directory nodes visited.
    pub nodes: u64,
    /// Transactions.
    pub transactions: u64,
}

/// A mounted file system.
pub struct FileSystem<'a, D: Device> {
    pub(crate) xn: Volume<'a, Pages, Native>,
    pub(crate) device: D,
    pub(crate) cache: Cache,
    pub(crate) pending: Pending,
    /// How often each inode is open.
    pub(crate) opens: BTreeMap<Number, u32>,
    pub(crate) root: Number,
    pub(crate) now: i64,
    pub(crate) next_generation: u32,
    pub(crate) read_only: bool,
    /// The device has writes that no flush covers.
    pub(crate) unflushed: bool,
    /// Free and held blocks, while they are counted.
    pub(crate) free_blocks: Option<u64>,
    /// Next block at which the search for a free group begins.
    pub(crate) cursor: u64,
    pub(crate) counts: Counts,
}

impl<D: Device> FileSystem<'_, D> {
    /// Inode of the root directory.
    pub fn root(&self) -> Number {
        self.root
    }

    /// Sets the clock for what follows, in nanoseconds since 1970.
    pub fn set_time(&mut self, now: i64) {
        self.now = now;
    }

    /// What was done since the mount.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Gives up the file system without writing anything, as a crash does; returns the device.
    pub fn into_device(self) -> D {
        self.device
    }

    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.read_only { Err(Error::ReadOnly) } else { Ok(()) }
    }

    /// The content of one sector of a page.
    pub(crate) fn sector(&self, page: usize, sector: usize) -> &Content {
        let start = sector * SECTOR_SIZE;
        self.xn.frames.blocks[page][start..start + CONTENT].first_chunk().expect("a sector has its content")
    }

    /// Page, sector and slot of a living inode.
    pub(crate) fn find_inode(&mut self, number: Number) -> Result<(usize, usize, usize)> {
        let (block, sector, slot) = place(number);
        let page = self.block_page(block)?;
        let used = has_inode(self.sector(page, sector), slot);
        if used { Ok((page, sector, slot)) } else { Err(Error::Stale) }
    }

    /// A living inode.
    pub(crate) fn inode(&mut self, number: Number) -> Result<Inode> {
        let (page, sector, slot) = self.find_inode(number)?;
        let inode = Inode::decode(&self.sector(page, sector)[inode_place(slot)..]);
        if inode.state == DYING { Err(Error::Stale) } else { Ok(inode) }
    }

    /// A directory that was not removed.
    pub(crate) fn directory(&mut self, number: Number) -> Result<Inode> {
        let inode = self.inode(number)?;
        match inode.is_directory() {
            true if inode.nlink == 0 => Err(Error::NotFound),
            true => Ok(inode),
            false => Err(Error::NotDirectory),
        }
    }
}
