//! Durability: write-back, fsync, sync.
//!
//! XN says which page may be written and what must be written or flushed before. The guarantee: what fsync or sync
//! acknowledged is there after a crash, byte for byte. Any other file is in some state since its last fsync, with zeros
//! where blocks were not there yet. A renamed file has exactly one of its names.

use crate::device::{Device, MANY, Whole};
use crate::edit::Edit;
use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::layout::Number;
use crate::layout::node::{self, State};
use alloc::vec;
use alloc::vec::Vec;
use xn::block::{DIRTY, OPEN};
use xn::error::Error as Xn;
use xn::format::Block;
use xn::volume::Phase;

/// Submitted pages, with their blocks.
type Batch = Vec<(u64, usize)>;

impl<D: Device> FileSystem<'_, D> {
    /// Makes completed writes durable, and what waited for that free.
    pub(crate) fn flush(&mut self) -> Result<()> {
        let number = self.xn.flush_start();
        self.counts.flushes += 1;
        let done = self.device.flush().is_ok();
        self.xn.flush_done(number, done);
        self.unflushed &= !done;
        if done { Ok(()) } else { Err(Error::Io) }
    }

    /// After a failed flush nothing is known to be durable until the next recovery: every later call fails, also one
    /// that has nothing left to write.
    fn check_durable(&self) -> Result<()> {
        if self.xn.phase() == Phase::Failed { Err(Error::Io) } else { Ok(()) }
    }

    fn is_dirty(&self, page: usize) -> bool {
        let info = &self.xn.memory.registry.blocks[page];
        info.name != 0 && info.is(DIRTY | OPEN)
    }

    /// Submits a page, if XN permits that now, and awaits the write.
    fn submit(&mut self, page: usize) -> Result<()> {
        let block = self.xn.submit(page)?;
        self.await_batch(&mut vec![(block, page)])
    }

    /// Writes a batch of submitted pages, which is empty then.
    fn await_batch(&mut self, batch: &mut Batch) -> Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        self.counts.writes += batch.len() as u64;
        let blocks: Vec<(u64, &Block)> =
            batch.iter().map(|(block, page)| (*block, &self.xn.frames.blocks[*page])).collect();
        let done = self.device.write_all(&blocks).is_ok();
        self.unflushed = true;
        for (_, page) in batch.drain(..) {
            self.xn.write_done(page, done)?;
        }
        if done { Ok(()) } else { Err(Error::Io) }
    }

    /// Writes blocks of data that no page caches, unless the search for pages has cached one: that one is stored.
    pub(crate) fn write_to_device(&mut self, number: Number, blocks: &[Whole<'_>]) -> Result<()> {
        let (cached, direct): (Vec<Whole<'_>>, Vec<Whole<'_>>) =
            blocks.iter().partition(|whole| self.xn.find(whole.block).is_some());
        for whole in cached {
            let page = self.cached(whole.block).ok_or(Error::Damaged(whole.block))?;
            self.store(page, 0, whole.bytes)?;
        }
        if direct.is_empty() {
            return Ok(());
        }
        self.counts.writes += direct.len() as u64;
        let done = self.device.write_whole(&direct);
        self.unflushed = true;
        for whole in direct {
            let (parent, sector) = whole.parent;
            if done.is_ok() {
                self.xn.leaf_written(parent, whole.block)?;
            } else {
                // It is written again, and reported, with what is dirty.
                let page = self.bind(parent, sector, whole.block, whole.page, number)?;
                self.store(page, 0, whole.bytes)?;
            }
        }
        Ok(())
    }

    /// Submits pages in the order of their blocks; a page that waits for others, if there is one.
    fn submit_all(&mut self, dirty: &mut Vec<usize>) -> Result<Option<usize>> {
        dirty.sort_unstable_by_key(|page| self.xn.memory.registry.blocks[*page].block());
        dirty.dedup();
        let (mut waits, mut batch, mut outcome) = (None, Batch::new(), Ok(()));
        for page in dirty {
            match self.xn.submit(*page) {
                Ok(block) => batch.push((block, *page)),
                Err(Xn::Unready(_) | Xn::Unflushed(_)) => waits = Some(*page),
                Err(error) => outcome = Err(error.into()),
            }
            if batch.len() == MANY {
                outcome = outcome.and(self.await_batch(&mut batch));
            }
            if outcome.is_err() {
                break;
            }
        }
        let last = self.await_batch(&mut batch);
        outcome.and(last).map(|()| waits)
    }

    /// Writes a page after everything that it waits for.
    pub(crate) fn write_page(&mut self, page: usize) -> Result<()> {
        let mut pending = vec![page];
        while let Some(page) = pending.last().copied() {
            if !self.is_dirty(page) {
                pending.pop();
                continue;
            }
            match self.submit(page) {
                Err(Error::Refused(Xn::Unready(block))) => match self.xn.find(block) {
                    Some(child) if child != page => pending.push(child),
                    Some(_) => return Err(Error::Damaged(block)),
                    None => pending.push(self.bind_fresh(page, block)?),
                },
                Err(Error::Refused(Xn::Unflushed(_))) => self.flush()?,
                other => {
                    other?;
                    pending.pop();
                }
            }
        }
        Ok(())
    }

    /// Writes all dirty pages, level by level, and flushes.
    pub(crate) fn write_back(&mut self) -> Result<()> {
        if self.read_only {
            return Ok(());
        }
        loop {
            let dirty = self.dirty_pages();
            if dirty.is_empty() {
                break;
            }
            self.write_pages(&dirty)?;
        }
        if self.unflushed { self.flush() } else { Ok(()) }
    }

    /// Writes the dirty ones of these pages, many at a time, each after everything that it waits for.
    fn write_pages(&mut self, pages: &[usize]) -> Result<()> {
        loop {
            let mut dirty: Vec<usize> = pages.iter().copied().filter(|page| self.is_dirty(*page)).collect();
            if dirty.is_empty() {
                return Ok(());
            }
            match self.submit_all(&mut dirty)? {
                Some(_) if self.unflushed => self.flush()?,
                Some(page) => self.write_page(page)?,
                None => (),
            }
        }
    }

    /// Makes a file or directory durable, with the way to it. `data_only` leaves out what is not needed to read it.
    pub fn fsync(&mut self, number: Number, data_only: bool) -> Result<()> {
        self.check_writable()?;
        self.check_durable()?;
        self.step();
        let inode = self.inode(number)?;
        let torn = self.pending.unsettled.contains(&number)
            || self.pending.lessened.contains(&number)
            || self.pending.leaving.iter().any(|old| old.directory == number || old.target == number)
            || inode.is_directory() && !self.pending.unsettled.is_empty();
        if torn {
            return self.sync();
        }
        let mut pages = self.dirty_pages();
        pages.retain(|page| self.cache.owner[*page] == number);
        let young = self.pending.young.contains(&number);
        // An overwrite changes only times in the inode: fdatasync leaves them out.
        let needs_inode = !data_only || young || self.pending.changed.contains(&number);
        if needs_inode {
            self.add_way(number, &mut pages)?;
        }
        self.write_pages(&pages)?;
        if self.unflushed {
            self.flush()?;
        }
        if needs_inode {
            self.pending.changed.remove(&number);
        }
        self.pending.young.remove(&number);
        Ok(())
    }

    /// Adds the inode's page and the pages above it.
    fn add_way(&mut self, number: Number, pages: &mut Vec<usize>) -> Result<()> {
        let (mut page, ..) = self.find_inode(number)?;
        loop {
            pages.push(page);
            let parent = self.xn.info(page)?.parent_block();
            match self.xn.find(parent) {
                Some(above) if parent > xn::format::ROOTS => page = above,
                _ => return Ok(()),
            }
        }
    }

    /// Makes everything durable, ends renames, and frees what they replaced.
    pub fn sync(&mut self) -> Result<()> {
        if self.read_only {
            return Ok(());
        }
        self.check_durable()?;
        self.write_back()?;
        let leaving = core::mem::take(&mut self.pending.leaving);
        if !leaving.is_empty() {
            for old in &leaving {
                self.step();
                self.erase(old.block, old.sector, old.offset, old.target)?;
            }
            self.write_back()?;
        }
        self.pending.young.clear();
        self.pending.changed.clear();
        self.pending.unsettled.clear();
        self.pending.lessened.clear();
        self.pending.directory_moved = false;
        self.pending.erased.clear();
        self.reclaim();
        for number in core::mem::take(&mut self.pending.doomed) {
            self.step();
            if self.is_used(number) {
                self.reap(number)?;
            }
        }
        Ok(())
    }

    /// Removes the old entry of a rename, if it still is that.
    fn erase(&mut self, block: u64, sector: usize, offset: usize, target: Number) -> Result<()> {
        let Some(page) = self.cached(block) else {
            // The node was written and replaced: it is found again by what it says of itself.
            let page = self.block_page(block)?;
            return self.erase_in(page, sector, offset, target);
        };
        self.erase_in(page, sector, offset, target)
    }

    fn erase_in(&mut self, page: usize, sector: usize, offset: usize, target: Number) -> Result<()> {
        let found = node::entry_at(self.sector(page, sector), offset);
        let is_old = found.is_some_and(|old| old.entry.state == State::Leaving && old.entry.number == target);
        if !is_old {
            return Ok(());
        }
        let (mut edit, block) = (Edit::default(), self.xn.info(page)?.block());
        node::remove(self.edit(&mut edit, page, sector), offset);
        self.commit(&edit)?;
        self.prune(block)
    }
}
