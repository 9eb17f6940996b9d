//! Mount and unmount: superblock, templates, catalogue, recovery if the volume was not closed.

use crate::arena::{Arena, Pages};
use crate::cache::Cache;
use crate::device::{Change as Offered, Device};
use crate::error::{Error, Result};
use crate::file_system::{CALLER, Counts, FileSystem, Pending};
use crate::make::{MAGIC, Options, ROOT_NAME, ROOT_SLOT, root_sector};
use crate::recovery::Repairs;
use crate::template::{self, Guard, Native, ROOT};
use alloc::collections::BTreeMap;
use xn::binding::Bound;
use xn::format::{BLOCK_SIZE, Block, MAGIC as VOLUME_MAGIC, State, Superblock, VERSION};
use xn::frames::Frames;
use xn::transaction::{Change, Transaction};
use xn::volume::{Phase, Volume, Work};

/// How to mount.
#[derive(Clone, Copy, Debug)]
pub struct Mount {
    /// Nothing is written. A volume that was not closed is walked but not repaired.
    pub read_only: bool,
    /// The time, in nanoseconds since 1970. It also seeds the generations of inodes.
    pub now: i64,
}

/// The superblock, or what the device holds instead.
pub(crate) fn superblock<D: Device>(device: &mut D) -> Result<Superblock> {
    let mut bytes: Block = [0; BLOCK_SIZE];
    if device.blocks() == 0 {
        return Err(Error::NotChitin);
    }
    device.read(0, &mut bytes).map_err(|_| Error::Io)?;
    if !bytes.starts_with(&VOLUME_MAGIC) {
        return Err(Error::NotChitin);
    }
    if bytes[8..12] != VERSION.to_le_bytes() {
        return Err(Error::Foreign);
    }
    let found = Superblock::decode(&bytes, 0).map_err(|_| Error::Damaged(0))?;
    if found.blocks > device.blocks() { Err(Error::Truncated(found.blocks)) } else { Ok(found) }
}

/// Whether the volume of a device was closed: if not, a mount recovers it first.
pub fn is_closed<D: Device>(device: &mut D) -> Result<bool> {
    Ok(superblock(device)?.state == State::Clean)
}

/// Fails unless a device holds a file system that this library can mount, as far as superblock and templates say.
pub fn inspect<D: Device>(device: &mut D) -> Result<()> {
    guard(device).map(|_| ())
}

/// Whom the volume of a device permits to use it.
pub fn guard<D: Device>(device: &mut D) -> Result<Guard> {
    let found = superblock(device)?;
    let read = |block, bytes: &mut Block| device.read(block, bytes).map_err(|_| Error::Io);
    template::guard_of(&found.volume, read)?.ok_or(Error::Foreign)
}

impl Arena {
    /// Mounts the file system of a device. Gives what recovery repaired.
    pub fn mount<D: Device>(&mut self, mut device: D, how: Mount) -> Result<(FileSystem<'_, D>, Repairs)> {
        let found = superblock(&mut device)?;
        guard(&mut device)?;
        let clean = found.state == State::Clean;
        let xn = self.open_volume(&mut device, found)?;
        let mut system = FileSystem::over(xn, device, how);
        let walk = if clean { None } else { Some(system.traverse()?) };
        system.open_root()?;
        let mut repairs = Repairs::default();
        if !how.read_only {
            system.drive(false)?;
            if let Some(walk) = walk {
                repairs = system.repair(walk)?;
            }
        }
        Ok((system, repairs))
    }

    /// An XN volume with templates and root catalogue.
    pub(crate) fn open_volume<D: Device>(
        &mut self,
        device: &mut D,
        superblock: Superblock,
    ) -> Result<Volume<'_, Pages, Native>> {
        let mut xn = self.volume(superblock)?;
        xn.frames.sealed = !device.seals();
        for slot in 0..template::COUNT as u8 {
            xn.memory.templates.load(slot, template::record(slot), &Native)?;
        }
        xn.open_catalogue(0)?;
        let mut bytes: Block = [0; BLOCK_SIZE];
        let read = device.read(xn::format::ROOTS, &mut bytes);
        xn.frames.store(0, 0, &bytes);
        xn.read_done(0, read.is_ok())?;
        Ok(xn)
    }

    /// Makes the root of an empty volume.
    pub(crate) fn make_root<D: Device>(&mut self, device: &mut D, options: &Options) -> Result<()> {
        let found = superblock(device)?;
        let xn = self.open_volume(device, found)?;
        let mut system = FileSystem::over(xn, device, Mount { read_only: false, now: options.now });
        system.drive(false)?;
        let block = system.choose(found.map_block(0) + 1)?;
        let tree = system.xn.tree_create(block, ROOT, false)?;
        let page = system.free_page()?;
        system.xn.bind_root(&CALLER, tree, page)?;
        system.cache.mark_dirty(page);
        let content = root_sector(block, options);
        for part in [0..256, 256..content.len()] {
            let changes = [Change { page, offset: part.start, bytes: &content[part] }];
            system.xn.modify(&CALLER, &Transaction { shown: &[], changes: &changes, declared: &[] })?;
        }
        system.write_page(page)?;
        system.flush()?;
        let mut name = [0; 48];
        name[..ROOT_NAME.len()].copy_from_slice(ROOT_NAME);
        system.xn.root_set(ROOT_SLOT, name, tree)?;
        system.cache.mark_dirty(0);
        system.unmount().map(|_| ())
    }
}

impl<'a, D: Device> FileSystem<'a, D> {
    pub(crate) fn over(xn: Volume<'a, Pages, Native>, device: D, how: Mount) -> Self {
        let pages = xn.memory.registry.blocks.len();
        let next_generation = (how.now as u64 ^ how.now as u64 >> 32) as u32;
        Self {
            xn,
            device,
            cache: Cache::new(pages),
            pending: Pending::default(),
            opens: BTreeMap::new(),
            root: 0,
            now: how.now,
            next_generation,
            read_only: how.read_only,
            unflushed: false,
            free_blocks: None,
            cursor: 0,
            counts: Counts::default(),
        }
    }

    /// Binds the root block and checks that it is one.
    pub(crate) fn open_root(&mut self) -> Result<()> {
        let root = self.xn.root(ROOT_SLOT)?.ok_or(Error::NoFileSystem)?;
        if !root.name.starts_with(ROOT_NAME) || root.template != ROOT {
            return Err(Error::NoFileSystem);
        }
        self.root = root.block << 5;
        if self.xn.find(root.block).is_none() {
            self.bind_root_block()?;
        }
        let page = self.block_page(root.block)?;
        if self.sector(page, 0)[..8] != MAGIC { Err(Error::Foreign) } else { Ok(()) }
    }

    pub(crate) fn bind_root_block(&mut self) -> Result<usize> {
        let tree = self.xn.root_mount(ROOT_SLOT)?;
        let page = self.free_page()?;
        let root = self.xn.root(ROOT_SLOT)?.ok_or(Error::NoFileSystem)?;
        self.device.permit(&Offered::Bind { parent: None, block: root.block, page })?;
        let bound: Bound = self.xn.bind_root(&CALLER, tree, page)?;
        self.cache.mark_dirty(page);
        self.fill(page, bound, self.root)
    }

    /// Drives XN's start or stop to its end.
    fn drive(&mut self, stop: bool) -> Result<()> {
        let mut buffer: Block = [0; BLOCK_SIZE];
        loop {
            let work = if stop { self.xn.stop(&mut buffer)? } else { self.xn.start(&mut buffer)? };
            match work {
                Work::Seal(block) => {
                    xn::format::seal(&self.xn.superblock().volume, block, &mut buffer);
                    self.counts.writes += 1;
                    self.device.write(block, &buffer).map_err(|_| Error::Io)?;
                }
                Work::Flush => {
                    self.counts.flushes += 1;
                    self.device.flush().map_err(|_| Error::Io)?;
                }
                Work::Again => (),
                Work::Done => return Ok(()),
            }
        }
    }

    /// Makes everything durable and the volume clean. Orphans that are still open are freed.
    pub fn unmount(mut self) -> Result<D> {
        if self.read_only {
            return Ok(self.device);
        }
        if !matches!(self.xn.phase(), Phase::Open) {
            return Err(Error::Io);
        }
        let open: alloc::vec::Vec<u64> = core::mem::take(&mut self.opens).into_keys().collect();
        for number in open {
            self.step();
            if self.is_used(number) && self.raw_inode(number)?.nlink == 0 && !self.pending.doomed.contains(&number) {
                self.reap(number)?;
            }
        }
        // What a sync frees is on disk with the next one; held blocks are free after one more flush.
        for _ in 0..3 {
            self.sync()?;
        }
        self.drive(true)?;
        Ok(self.device)
    }
}
