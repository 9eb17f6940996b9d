//! Indirect block: 8 sectors of 62 pointers. Each sector repeats whose it is: inode number 496 (u48), level 502 (u8),
//! base 504 (u32: first file block). A zeroed sector has level 0 and owns nothing.

use super::{Content, Number, get, put};

/// Pointers of a sector.
pub const SECTOR_POINTERS: u64 = 62;
/// Pointers of a block.
pub const BLOCK_POINTERS: u64 = 496;
/// Pointers in an inode that lead to data.
pub const DIRECT: u64 = 4;
/// Blocks of the largest file.
pub const MAX_BLOCKS: u64 =
    DIRECT + BLOCK_POINTERS + BLOCK_POINTERS * BLOCK_POINTERS + BLOCK_POINTERS * BLOCK_POINTERS * BLOCK_POINTERS;

/// File blocks below one pointer of an indirect block of `level`.
pub fn span(level: u32) -> u64 {
    BLOCK_POINTERS.pow(level - 1)
}

/// Blocks of a file of so many blocks without a hole: these, and the indirect blocks above them.
pub fn blocks_of_whole(blocks: u64) -> u64 {
    let (mut all, mut left) = (blocks, blocks.saturating_sub(DIRECT));
    for level in 1..=3 {
        let here = left.min(span(level) * BLOCK_POINTERS);
        all += (1..=level).map(|above| here.div_ceil(span(above) * BLOCK_POINTERS)).sum::<u64>();
        left -= here;
    }
    all
}

/// The level of the tree that holds file block `index`, its pointer in the inode, and its first file block. Level 0:
/// the inode points to the data.
pub fn tree_of(index: u64) -> Option<(u32, usize, u64)> {
    if index < DIRECT {
        return Some((0, index as usize, index));
    }
    let mut base = DIRECT;
    for level in 1..=3 {
        let end = base + span(level) * BLOCK_POINTERS;
        if index < end {
            return Some((level, 3 + level as usize, base));
        }
        base = end;
    }
    None
}

/// The level of a sector.
pub fn level(content: &Content) -> u32 {
    u32::from(content[502])
}

/// The inode that a sector says it belongs to.
pub fn owner(content: &Content) -> Number {
    get(content, 496, 6)
}

/// Writes a sector's header.
pub fn set_header(content: &mut Content, owner: Number, level: u32, base: u64) {
    put(content, 496, 6, owner);
    put(content, 502, 1, level.into());
    put(content, 504, 4, base);
}
