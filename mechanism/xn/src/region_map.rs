//! Region maps: two bits a block, one page for each loaded region of 16,384 blocks.
//!
//! Without its map nothing in a region is allocated or freed. On disk only "free or not" remains.

use crate::error::{Error, Result};
use crate::format::{Block, REGION_BLOCKS, Superblock, bit, set_bit};

/// Words of a region map.
pub const MAP_WORDS: usize = 512;

/// State of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// No tree owns it and no pointer on disk leads to it.
    Free = 0,
    /// Owned; what the disk holds is good, or nothing reads it (`RESERVED`).
    Used = 1,
    /// Owned; the disk holds nothing of it. The first bind gets zeros.
    Fresh = 2,
    /// Freed, but a pointer on disk, or a transfer, may be left. In recovery: owned and not visited yet.
    Held = 3,
}

/// The loaded region maps.
pub struct Maps<'a> {
    /// The maps.
    pub pages: &'a mut [[u64; MAP_WORDS]],
    /// Index + 1 of each region's map; 0 for a region that is not loaded.
    pub directory: &'a mut [u32],
}

impl Maps<'_> {
    /// The state of a block; `Absent` without its map.
    pub fn get(&self, block: u64) -> Result<Use> {
        let page = self.page_of(block)?;
        let (word, shift) = place(block);
        Ok(match self.pages[page][word] >> shift & 3 {
            0 => Use::Free,
            1 => Use::Used,
            2 => Use::Fresh,
            _ => Use::Held,
        })
    }

    fn page_of(&self, block: u64) -> Result<usize> {
        let entry = self.directory.get((block / REGION_BLOCKS) as usize).copied().unwrap_or(0);
        (entry as usize).checked_sub(1).ok_or(Error::Absent(block))
    }

    /// Changes the state of a block whose map is loaded.
    pub fn set(&mut self, block: u64, state: Use) {
        if let Ok(page) = self.page_of(block) {
            let (word, shift) = place(block);
            let value = &mut self.pages[page][word];
            *value = *value & !(3 << shift) | (state as u64) << shift;
        }
    }

    /// Makes page `index` the map of `region`: from the verified block of the disk, or for recovery without one.
    pub fn load(&mut self, superblock: &Superblock, region: u64, index: usize, disk: Option<&Block>) -> Result<()> {
        let taken = self.directory.contains(&(index as u32 + 1));
        let entry = self.directory.get_mut(region as usize).ok_or(Error::BadArgument)?;
        if *entry != 0 || taken {
            return Err(Error::NotFree(region));
        }
        self.pages.get_mut(index).ok_or(Error::BadArgument)?.fill(0);
        *entry = index as u32 + 1;
        for offset in 0..REGION_BLOCKS {
            let block = region * REGION_BLOCKS + offset;
            let fixed = block >= superblock.blocks || superblock.is_fixed(block);
            if fixed || disk.is_some_and(|bytes| bit(bytes, offset)) {
                self.set(block, Use::Used);
            }
        }
        Ok(())
    }

    /// Writes the map of a loaded region in the form of the disk, without checksums.
    pub fn encode(&self, region: u64, bytes: &mut Block) -> Result<()> {
        bytes.fill(0);
        for offset in 0..REGION_BLOCKS {
            if self.get(region * REGION_BLOCKS + offset)? != Use::Free {
                set_bit(bytes, offset);
            }
        }
        Ok(())
    }
}

/// Word and shift of a block in its map.
fn place(block: u64) -> (usize, u32) {
    let offset = block % REGION_BLOCKS;
    ((offset / 32) as usize, (offset % 32 * 2) as u32)
}
