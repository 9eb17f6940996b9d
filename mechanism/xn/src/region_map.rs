//! Region maps: two bits a block, one page for each loaded region of 16,384 blocks.
//!
//! Without its map nothing in a region is allocated or freed. On disk only "free or not" remains.

use crate::error::{Error, Result};
use crate::format::{BITS_A_SECTOR, Block, REGION_BLOCKS, SECTOR_SIZE, Superblock};

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

    /// How many blocks of a region are free or held, 32 at a time.
    pub fn room(&self, region: u64) -> Result<u64> {
        let words = &self.pages[self.page_of(region * REGION_BLOCKS)?];
        // The two bits of a block that is used or fresh differ.
        let taken = words.iter().map(|word| u64::from(((word ^ word >> 1) & ALL_USED).count_ones()));
        Ok(REGION_BLOCKS - taken.sum::<u64>())
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
        if let Some(bytes) = disk {
            let words = self.pages[index].chunks_exact_mut(WORDS_A_SECTOR);
            for (words, sector) in words.zip(bytes.chunks_exact(SECTOR_SIZE)) {
                let (halves, _) = sector.as_chunks::<4>();
                words.iter_mut().zip(halves).for_each(|(word, half)| *word = spread(u32::from_le_bytes(*half)));
            }
        }
        self.mark_fixed(superblock, region);
        Ok(())
    }

    /// Marks the blocks that belong to no tree, and those behind the end of the volume.
    fn mark_fixed(&mut self, superblock: &Superblock, region: u64) {
        let (first, map) = (region * REGION_BLOCKS, superblock.map_block(region));
        let begin = if region == 0 { 0 } else { map };
        (begin..=map).for_each(|block| self.set(block, Use::Used));
        // The superblock's copy is the last block.
        let mut block = (superblock.blocks - 1).max(first);
        while block < first + REGION_BLOCKS {
            let whole = block.is_multiple_of(BLOCKS_A_WORD);
            match self.page_of(block) {
                Ok(page) if whole => self.pages[page][place(block).0] = ALL_USED,
                _ => self.set(block, Use::Used),
            }
            block += if whole { BLOCKS_A_WORD } else { 1 };
        }
    }

    /// Writes the map of a loaded region in the form of the disk, without checksums.
    pub fn encode(&self, region: u64, bytes: &mut Block) -> Result<()> {
        bytes.fill(0);
        let page = self.page_of(region * REGION_BLOCKS)?;
        let words = self.pages[page].chunks_exact(WORDS_A_SECTOR);
        for (words, sector) in words.zip(bytes.chunks_exact_mut(SECTOR_SIZE)) {
            let (halves, _) = sector.as_chunks_mut::<4>();
            halves.iter_mut().zip(words).for_each(|(half, word)| *half = gather(word | word >> 1).to_le_bytes());
        }
        Ok(())
    }
}

/// Blocks of a word, and the word whose blocks are all used.
const BLOCKS_A_WORD: u64 = 32;
const ALL_USED: u64 = 0x5555_5555_5555_5555;

const WORDS_A_SECTOR: usize = (BITS_A_SECTOR / BLOCKS_A_WORD) as usize;

/// Each bit becomes the low bit of two.
fn spread(half: u32) -> u64 {
    let word = u64::from(half);
    let word = (word | word << 16) & 0x0000_FFFF_0000_FFFF;
    let word = (word | word << 8) & 0x00FF_00FF_00FF_00FF;
    let word = (word | word << 4) & 0x0F0F_0F0F_0F0F_0F0F;
    let word = (word | word << 2) & 0x3333_3333_3333_3333;
    (word | word << 1) & ALL_USED
}

/// The even bits.
fn gather(word: u64) -> u32 {
    let word = word & ALL_USED;
    let word = (word | word >> 1) & 0x3333_3333_3333_3333;
    let word = (word | word >> 2) & 0x0F0F_0F0F_0F0F_0F0F;
    let word = (word | word >> 4) & 0x00FF_00FF_00FF_00FF;
    let word = (word | word >> 8) & 0x0000_FFFF_0000_FFFF;
    (word | word >> 16) as u32
}

/// Word and shift of a block in its map.
fn place(block: u64) -> (usize, u32) {
    let offset = block % REGION_BLOCKS;
    ((offset / 32) as usize, (offset % 32 * 2) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{BLOCK_SIZE, State, bit, set_bit};

    #[test]
    fn words_say_what_bits_say() {
        let superblock = Superblock { state: State::Clean, blocks: 40_003, volume: [9; 16], mounts: 3 };
        for region in 0..superblock.regions() {
            let mut disk = [0; BLOCK_SIZE];
            (0..REGION_BLOCKS).filter(|at| at * at % 7 < 3).for_each(|at| set_bit(&mut disk, at));
            let (mut pages, mut directory) = ([[0; MAP_WORDS]; 1], [0; 3]);
            let mut maps = Maps { pages: &mut pages, directory: &mut directory };
            assert_eq!(maps.load(&superblock, region, 0, Some(&disk)), Ok(()));
            let mut encoded = [0; BLOCK_SIZE];
            assert_eq!(maps.encode(region, &mut encoded), Ok(()));
            for at in 0..REGION_BLOCKS {
                let block = region * REGION_BLOCKS + at;
                let used = block >= superblock.blocks || superblock.is_fixed(block) || bit(&disk, at);
                assert_eq!(maps.get(block) == Ok(Use::Used), used, "block {block}");
                assert_eq!(bit(&encoded, at), used, "block {block} on disk");
            }
        }
    }
}
