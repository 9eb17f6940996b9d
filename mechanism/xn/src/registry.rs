//! Registry of cached blocks (SOSP 1997, section 4.3.3): `BlockInfo` by page and an open-addressing hash by block.
//!
//! Invariants: a block has at most one page; the hash has a slot for each entry and at least as many empty ones.

use crate::block::BlockInfo;
use crate::error::{Error, Result};

/// The registry, in memory that the caller gives. It may be shared by volumes.
pub struct Registry<'a> {
    /// One entry a page.
    pub blocks: &'a mut [BlockInfo],
    /// Page + 1 by hash of the name, linear probing; a power of two of at least two slots a page.
    pub slots: &'a mut [u32],
}

/// The name of a block of a volume.
pub fn name(volume: u8, block: u64) -> u64 {
    u64::from(volume) << 56 | (block + 1)
}

impl Registry<'_> {
    /// Whether the memory has the sizes that the invariants need.
    pub fn is_sound(&self) -> bool {
        self.slots.len().is_power_of_two() && self.slots.len() >= 2 * self.blocks.len()
    }

    fn home(&self, name: u64) -> usize {
        (name.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20) as usize & (self.slots.len() - 1)
    }

    fn next(&self, slot: usize) -> usize {
        (slot + 1) & (self.slots.len() - 1)
    }

    /// The slot with `name`, or the empty one where it would stand.
    fn probe(&self, name: u64) -> usize {
        let mut slot = self.home(name);
        while self.slots[slot] != 0 && self.blocks[self.slots[slot] as usize - 1].name != name {
            slot = self.next(slot);
        }
        slot
    }

    /// The page that caches a block.
    pub fn find(&self, name: u64) -> Option<usize> {
        let entry = self.slots[self.probe(name)];
        (entry != 0).then(|| entry as usize - 1)
    }

    /// Enters a block. Refused if the page is used or the block has a page.
    pub fn insert(&mut self, page: usize, info: BlockInfo) -> Result<()> {
        let old = self.blocks.get(page).ok_or(Error::BadArgument)?;
        if old.name != 0 {
            return Err(Error::NotFree(page as u64));
        }
        let slot = self.probe(info.name);
        if self.slots[slot] != 0 {
            return Err(Error::NotFree(info.block()));
        }
        self.slots[slot] = page as u32 + 1;
        self.blocks[page] = info;
        Ok(())
    }

    /// Removes the entry of a page, and closes the gap in the hash.
    pub fn remove(&mut self, page: usize) {
        let mut gap = self.probe(self.blocks[page].name);
        self.blocks[page] = BlockInfo::default();
        self.slots[gap] = 0;
        let mut slot = self.next(gap);
        while self.slots[slot] != 0 {
            let home = self.home(self.blocks[self.slots[slot] as usize - 1].name);
            let mask = self.slots.len() - 1;
            if (slot.wrapping_sub(home) & mask) >= (slot.wrapping_sub(gap) & mask) {
                self.slots[gap] = self.slots[slot];
                self.slots[slot] = 0;
                gap = slot;
            }
            slot = self.next(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_a_map_through_insertions_and_removals() {
        let (mut blocks, mut slots) = ([BlockInfo::default(); 64], [0; 128]);
        let mut registry = Registry { blocks: &mut blocks, slots: &mut slots };
        assert!(registry.is_sound());
        let mut model = std::collections::BTreeMap::new();
        let mut seed = 1_u64;
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (page, block) = ((seed >> 40) as usize % 64, (seed >> 50) % 90);
            let taken = model.contains_key(&block) || model.values().any(|used| *used == page);
            let info = BlockInfo { name: name(3, block), ..BlockInfo::default() };
            if registry.insert(page, info).is_ok() {
                assert!(!taken);
                model.insert(block, page);
            } else {
                assert!(taken);
                if let Some((block, page)) = model.pop_first() {
                    assert_eq!(registry.blocks[page].block(), block);
                    registry.remove(page);
                }
            }
            assert!((0..90).all(|block| registry.find(name(3, block)) == model.get(&block).copied()));
        }
    }
}
