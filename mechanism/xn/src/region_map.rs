//! Region maps: two bits a block, one page for each loaded region of 16,384 blocks.
//!
//! Without its map nothing in a region is allocated or freed. On disk only "free or not" remains.

use crate::error::{Error, Result};
use crate::format::{BITS_A_SECTOR, Block, REGION_BLOCKS, SECTOR_SIZE, SECTORS, Superblock};

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
        let Some(bytes) = disk else {
            self.check_unloaded(region, index)?.fill(0);
            return self.enter(superblock, region, index);
        };
        (0..LOAD_PARTS).try_for_each(|part| self.load_part(superblock, region, index, bytes, part))
    }

    /// Part `part` of [`LOAD_PARTS`] of a load from the disk. The parts are loaded in order, from the same block. The
    /// map is there after the last.
    pub fn load_part(
        &mut self,
        superblock: &Superblock,
        region: u64,
        index: usize,
        disk: &Block,
        part: usize,
    ) -> Result<()> {
        let page = self.check_unloaded(region, index)?;
        let sectors = page.chunks_exact_mut(WORDS_A_SECTOR).zip(disk.chunks_exact(SECTOR_SIZE));
        for (words, sector) in sectors.skip(part * SECTORS_A_PART).take(SECTORS_A_PART) {
            let (halves, _) = sector.as_chunks::<4>();
            words.iter_mut().zip(halves).for_each(|(word, half)| *word = spread(u32::from_le_bytes(*half)));
        }
        if part + 1 == LOAD_PARTS { self.enter(superblock, region, index) } else { Ok(()) }
    }

    /// The page, if neither it nor the region has been loaded.
    fn check_unloaded(&mut self, region: u64, index: usize) -> Result<&mut [u64; MAP_WORDS]> {
        let taken = self.directory.contains(&(index as u32 + 1));
        let entry = self.directory.get(region as usize).ok_or(Error::BadArgument)?;
        if *entry != 0 || taken {
            return Err(Error::NotFree(region));
        }
        self.pages.get_mut(index).ok_or(Error::BadArgument)
    }

    /// Marks the blocks that belong to no tree, and those behind the end of the volume. The map is loaded.
    fn enter(&mut self, superblock: &Superblock, region: u64, index: usize) -> Result<()> {
        let (page, first) = (&mut self.pages[index], region * REGION_BLOCKS);
        let map = superblock.map_block(region) - first;
        use_range(page, if region == 0 { 0 } else { map }, map + 1);
        // The superblock's copy is the last block.
        use_range(page, (superblock.blocks - 1).saturating_sub(first).min(REGION_BLOCKS), REGION_BLOCKS);
        self.directory[region as usize] = index as u32 + 1;
        Ok(())
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
/// Parts of a load from the disk: a kernel does one an entry.
pub const LOAD_PARTS: usize = 2;
const SECTORS_A_PART: usize = SECTORS / LOAD_PARTS;

/// Marks a range of the blocks of a region as used: whole words, and parts of the first and the last.
fn use_range(words: &mut [u64; MAP_WORDS], from: u64, to: u64) {
    let (first, last) = (from.div_ceil(BLOCKS_A_WORD), to / BLOCKS_A_WORD);
    if let Some(whole) = words.get_mut(first as usize..last as usize) {
        whole.fill(ALL_USED);
    }
    let edges = (from..to.min(first * BLOCKS_A_WORD)).chain(from.max(last * BLOCKS_A_WORD)..to);
    for block in edges {
        let (word, shift) = place(block);
        words[word] = words[word] & !(3 << shift) | (Use::Used as u64) << shift;
    }
}

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
            for part in 0..LOAD_PARTS {
                assert_eq!(maps.get(region * REGION_BLOCKS), Err(Error::Absent(region * REGION_BLOCKS)));
                assert_eq!(maps.load_part(&superblock, region, 0, &disk, part), Ok(()));
            }
            assert_eq!(maps.load(&superblock, region, 0, Some(&disk)), Err(Error::NotFree(region)));
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
