//! On-disk format of C-FFS: inodes, sectors of directory nodes, indirect blocks, hash of names.
//!
//! All numbers are little-endian. A sector has 508 bytes of content. Everything is found by place: an inode number is
//! block × 32 + sector × 4 + slot.

pub mod hash;
pub mod indirect;
pub mod inode;
pub mod node;

use xn::format::CONTENT;

/// The content of one sector.
pub type Content = [u8; CONTENT];
/// Number of an inode: its place.
pub type Number = u64;
/// Bits of a pointer that are the block.
pub const BLOCK_BITS: u64 = 0xFF_FFFF_FFFF;
/// Bit of a pointer to a reserved block: owned, never read, zeros for readers.
pub const RESERVED_BIT: u64 = 1 << 63;

/// The number in `size` bytes at `at`; 0 outside the bytes.
#[inline]
pub(crate) fn get(bytes: &[u8], at: usize, size: usize) -> u64 {
    // Nearly always eight bytes are there: one load.
    if let Some(eight) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let unused = 64 - 8 * size.clamp(1, 8);
        return u64::from_le_bytes(*eight) << unused >> unused;
    }
    let part = bytes.get(at..at + size).unwrap_or_default();
    part.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// Writes the low `size` bytes of a number.
pub(crate) fn put(bytes: &mut [u8], at: usize, size: usize, value: u64) {
    if let Some(part) = bytes.get_mut(at..at + size) {
        part.copy_from_slice(&value.to_le_bytes()[..size]);
    }
}

/// Block, sector and slot of an inode number.
pub(crate) fn place(number: Number) -> (u64, usize, usize) {
    (number >> 5, (number >> 2 & 7) as usize, (number & 3) as usize)
}
