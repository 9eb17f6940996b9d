//! Ordered writes by counters (SOSP 1997, section 4.3.2, rule 2), and completion of transfers.
//!
//! A parent waits for its children and ownership is a tree, so no cycle can arise and some leaf can always be written.
//! Invariants:
//! - a block whose map says *used* is good on disk. So is all that its version on disk leads to.
//! - `unready` counts the children whose map says *fresh*.
//! - a block in transit does not change.

use crate::block::{BlockInfo, DIRTY, ERROR, IN, OPEN, ORPHAN, OUT, READY, RESIDENT, UNSEALED, UNSEALED_SHIFT};
use crate::checksum::of_sector;
use crate::error::{Error, Result};
use crate::format::{CONTENT, SECTOR_SIZE, SECTORS, verify_sectors};
use crate::frames::Frames;
use crate::region_map::Use;
use crate::template::Programs;
use crate::tree::Standing;
use crate::volume::{Phase, Volume};

impl<F: Frames, P: Programs> Volume<'_, F, P> {
    /// Permits the write of a page to its block and seals it. The caller transfers the page and reports with
    /// [`Volume::write_done`]. Any caller may submit any dirty block. `Again` where sectors are left to seal.
    pub fn submit(&mut self, page: usize) -> Result<u64> {
        self.check_open()?;
        let info = self.info(page)?;
        let block = info.block();
        if info.is(IN | OUT | ORPHAN) {
            return Err(Error::Busy(block));
        }
        // A fresh block is written again once it is ready, even if it did not change since it was written early.
        if !info.is(DIRTY) && self.memory.maps.get(block) != Ok(Use::Fresh) {
            return Err(Error::BadArgument);
        }
        let ready = self.check_ready(page, &info);
        if ready.is_err() && !self.may_write_unready(&info) {
            return ready.map(|()| block);
        }
        if self.memory.templates.is_metadata(info.template) && self.frames.are_sealed() {
            self.seal_page(page, &info)?;
        }
        let entry = self.entry(page);
        entry.state |= OUT;
        entry.state &= !(UNSEALED | READY | if info.is(OPEN) { 0 } else { DIRTY });
        entry.state |= if ready.is_ok() { READY } else { 0 };
        Ok(block)
    }

    /// Whether all children are good on disk, durably.
    fn check_ready(&mut self, page: usize, info: &BlockInfo) -> Result<()> {
        if info.unready > 0 {
            return Err(Error::Unready(self.unready_child(page, info)));
        }
        if self.flushes_done < info.ready_at {
            return Err(Error::Unflushed(info.ready_at));
        }
        Ok(())
    }

    /// A fresh block of a tree that no root leads to may be written early; it stays fresh, so its parent waits on.
    fn may_write_unready(&self, info: &BlockInfo) -> bool {
        let loose = matches!(self.memory.trees.get(info.tree).standing, Standing::Unattached | Standing::Temporary);
        loose && self.memory.maps.get(info.block()) == Ok(Use::Fresh)
    }

    /// The first fresh child of a metadata page. The search ends with the block itself after
    /// as many children as the limits say.
    fn unready_child(&mut self, page: usize, info: &BlockInfo) -> u64 {
        let mut left = self.limits.search;
        for sector in 0..SECTORS {
            if self.claims_of(page, info.template, sector).is_err() {
                continue;
            }
            let ranges = self.memory.workspace.before.ranges();
            let mut blocks = ranges.iter().flat_map(|claim| claim.first..claim.end()).take(left);
            left -= ranges.iter().map(|claim| claim.count as usize).sum::<usize>().min(left);
            let fresh = blocks.find(|block| self.memory.maps.get(*block) == Ok(Use::Fresh));
            if let Some(block) = fresh {
                return block;
            }
        }
        info.block()
    }

    /// Writes the checksums of the sectors that changed since they were sealed or read, as many as one entry may.
    fn seal_page(&mut self, page: usize, info: &BlockInfo) -> Result<()> {
        self.memo.forget(page);
        let mut content = [0; CONTENT];
        let mut unsealed = (0..SECTORS).filter(|sector| info.is(1 << (UNSEALED_SHIFT + *sector as u32)));
        for sector in unsealed.by_ref().take(F::sectors_at_once()) {
            self.frames.load(page, sector * SECTOR_SIZE, &mut content);
            let sum = of_sector(F::crc32c, &self.superblock.volume, info.block(), sector, &content);
            self.frames.store(page, sector * SECTOR_SIZE + CONTENT, &sum.to_le_bytes());
            self.entry(page).state &= !(1 << (UNSEALED_SHIFT + sector as u32));
        }
        unsealed.next().map_or(Ok(()), |_| Err(Error::Again(info.block())))
    }

    /// A write completed. If it failed, the page stays dirty.
    pub fn write_done(&mut self, page: usize, succeeded: bool) -> Result<()> {
        let info = self.info(page)?;
        if !info.is(OUT) {
            return Err(Error::BadArgument);
        }
        if info.is(ORPHAN) {
            self.memory.registry.remove(page);
            return Ok(());
        }
        self.sequence += u64::from(succeeded);
        let (sequence, durable_at) = (self.sequence, self.flushes_started + 1);
        let entry = self.entry(page);
        entry.state &= !OUT;
        if !succeeded {
            entry.state |= DIRTY | ERROR;
            return Ok(());
        }
        entry.state &= !ERROR;
        (entry.written, entry.durable_at) = (sequence, durable_at);
        if info.is(READY) && self.memory.maps.get(info.block()) == Ok(Use::Fresh) {
            self.memory.maps.set(info.block(), Use::Used);
            self.child_is_good(info.parent_block(), durable_at);
        }
        Ok(())
    }

    /// A leaf that no page caches was written whole. A library that has its content elsewhere reports that to its own
    /// volume.
    pub fn leaf_written(&mut self, parent: usize, block: u64) -> Result<()> {
        let owner = self.info(parent)?.block();
        if self.find(block).is_some() {
            return Err(Error::InUse(block));
        }
        self.sequence += 1;
        if self.memory.maps.get(block) == Ok(Use::Fresh) {
            self.memory.maps.set(block, Use::Used);
            self.child_is_good(owner, self.flushes_started + 1);
        }
        Ok(())
    }

    /// One child of `parent` became good on disk; flush `durable_at` makes it durable.
    fn child_is_good(&mut self, parent: u64, durable_at: u64) {
        if let Some(parent) = self.find(parent).filter(|_| parent != 0) {
            let entry = self.entry(parent);
            entry.unready = entry.unready.saturating_sub(1);
            entry.ready_at = entry.ready_at.max(durable_at);
        }
    }

    /// A read completed. Metadata is verified; a block that fails leaves the registry.
    pub fn read_done(&mut self, page: usize, succeeded: bool) -> Result<()> {
        let info = self.info(page)?;
        let block = info.block();
        if !info.is(IN) {
            return Err(Error::BadArgument);
        }
        self.entry(page).state &= !IN;
        if info.is(ORPHAN) {
            self.memory.registry.remove(page);
            return Ok(());
        }
        let mut verdict = if succeeded { Ok(()) } else { Err(Error::Failed(block)) };
        if succeeded && self.memory.templates.is_metadata(info.template) {
            let bytes = &mut self.memory.workspace.block;
            self.frames.load(page, 0, bytes);
            verdict = verify_sectors(F::crc32c, &self.superblock.volume, block, 0..SECTORS, bytes);
        }
        match verdict {
            Ok(()) => self.entry(page).state |= RESIDENT,
            Err(_) => self.forget(page),
        }
        verdict
    }

    /// A flush is about to be issued. It covers all writes that have completed; its number says what waits for it.
    pub fn flush_start(&mut self) -> u64 {
        self.flushes_started += 1;
        self.flushes_started
    }

    /// Flush `number` completed. After a failed one the state of the disk is unknown: the volume needs recovery.
    pub fn flush_done(&mut self, number: u64, succeeded: bool) {
        if succeeded {
            self.flushes_done = self.flushes_done.max(number.min(self.flushes_started));
        } else {
            self.phase = Phase::Failed;
        }
    }

    /// Removes a page from the registry and from its parent's count.
    pub(crate) fn forget(&mut self, page: usize) {
        let parent = self.memory.registry.blocks[page].parent_block();
        self.memory.registry.remove(page);
        if let Some(parent) = self.find(parent).filter(|_| parent != 0) {
            let entry = self.entry(parent);
            entry.children = entry.children.saturating_sub(1);
        }
    }
}
