//! Free space: explicit grouping, region maps, held blocks.
//!
//! A group is 16 neighbouring blocks. A directory takes its nodes and the first blocks of its files from its group
//! while that has room, then from the next free group. Data follows its predecessor.

use crate::device::{Change, Device};
use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use xn::error::Error as Xn;
use xn::format::{BLOCK_SIZE, REGION_BLOCKS};
use xn::region_map::Use;

/// Blocks of a group.
pub(crate) const GROUP: u64 = 16;

impl<D: Device> FileSystem<'_, D> {
    /// Reads the map of a region, if it is not loaded.
    pub(crate) fn load_map(&mut self, region: u64) -> Result<()> {
        if self.xn.memory.maps.directory.get(region as usize).is_none_or(|entry| *entry != 0) {
            return Ok(());
        }
        let mut bytes = [0; BLOCK_SIZE];
        self.read_device(self.xn.superblock().map_block(region), &mut bytes)?;
        Ok(self.xn.load_map(region, region as usize, Some(&bytes))?)
    }

    pub(crate) fn is_free(&mut self, block: u64) -> Result<bool> {
        if block >= self.xn.superblock().blocks {
            return Ok(false);
        }
        match self.xn.memory.maps.get(block) {
            Err(Xn::Absent(_)) => {
                self.load_map(block / REGION_BLOCKS)?;
                Ok(self.xn.memory.maps.get(block) == Ok(Use::Free))
            }
            other => Ok(other == Ok(Use::Free)),
        }
    }

    /// A free block near `goal`; the caller allocates it.
    pub(crate) fn choose(&mut self, goal: u64) -> Result<u64> {
        if let Some(block) = self.near(goal)? {
            return Ok(block);
        }
        // Held blocks are free once what leads to them is overwritten.
        if self.xn.memory.ledger.iter().any(|record| record.count > 0) {
            self.write_back()?;
            self.reclaim();
        }
        self.near(goal)?.ok_or(Error::NoSpace)
    }

    fn near(&mut self, goal: u64) -> Result<Option<u64>> {
        let group_end = (goal / GROUP + 1) * GROUP;
        for block in (goal..group_end).chain(group_end - GROUP..goal) {
            if self.is_free(block)? {
                return Ok(Some(block));
            }
        }
        if let Some(block) = self.free_group(self.cursor)? {
            self.cursor = block;
            return Ok(Some(block));
        }
        self.any_free()
    }

    /// The first block of a wholly free group at or after `from`, and around.
    fn free_group(&mut self, from: u64) -> Result<Option<u64>> {
        let groups = self.xn.superblock().blocks.div_ceil(GROUP);
        for step in 0..groups {
            let group = (from / GROUP + step) % groups;
            self.load_map(group * GROUP / REGION_BLOCKS)?;
            let maps = &self.xn.memory.maps;
            let free = |block: u64| maps.get(block) == Ok(Use::Free);
            if (group * GROUP..(group + 1) * GROUP).all(free) {
                return Ok(Some(group * GROUP));
            }
        }
        Ok(None)
    }

    fn any_free(&mut self) -> Result<Option<u64>> {
        for region in 0..self.xn.superblock().regions() {
            self.load_map(region)?;
            let first = region * REGION_BLOCKS;
            let maps = &self.xn.memory.maps;
            let last = (first + REGION_BLOCKS).min(self.xn.superblock().blocks);
            if let Some(block) = (first..last).find(|block| maps.get(*block) == Ok(Use::Free)) {
                return Ok(Some(block));
            }
        }
        Ok(None)
    }

    /// A block for a new directory's first node: the beginning of a free group, if there is one.
    pub(crate) fn choose_group(&mut self, goal: u64) -> Result<u64> {
        match self.free_group(self.cursor)? {
            Some(block) => {
                self.cursor = block + GROUP;
                Ok(block)
            }
            None => self.choose(goal),
        }
    }

    /// Frees the held blocks to which nothing on disk leads any more. What a freed block pointed to follows in the next
    /// round.
    pub(crate) fn reclaim(&mut self) {
        let held = |system: &Self| system.xn.memory.ledger.iter().filter(|record| record.count > 0).count();
        let (mut before, mut now) = (usize::MAX, held(self));
        while now < before && now > 0 {
            self.free_blocks = None;
            // The device refuses nothing here: what it frees later, it refuses to allocate.
            let _ = self.device.permit(&Change::Reclaim);
            let mut cursor = 0;
            while let Err(Xn::Again(next)) = self.xn.reclaim(cursor) {
                cursor = next;
            }
            (before, now) = (now, held(self));
        }
    }

    /// Blocks of the volume, and how many are free or held. Counting takes 20 instructions a word of the maps, so the
    /// result is cached until blocks are allocated or freed.
    pub fn space(&mut self) -> Result<(u64, u64)> {
        let blocks = self.xn.superblock().blocks;
        if let Some(free) = self.free_blocks {
            return Ok((blocks, free));
        }
        let mut free = 0;
        for region in 0..self.xn.superblock().regions() {
            self.load_map(region)?;
            free += self.xn.memory.maps.room(region)?;
        }
        self.free_blocks = Some(free);
        Ok((blocks, free))
    }
}
