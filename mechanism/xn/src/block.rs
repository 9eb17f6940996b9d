//! `BlockInfo`: what the registry exposes of a cached block, 64 bytes, at the index of the block's page.

use core::mem::size_of;

/// Contents are valid and may be mapped.
pub const RESIDENT: u32 = 1;
/// The page differs from the disk, or may.
pub const DIRTY: u32 = 2;
/// A leaf is mapped for writing: it counts as dirty until [`crate::volume::Volume::close_mapping`].
pub const OPEN: u32 = 4;
/// The device writes into the page.
pub const IN: u32 = 8;
/// The device reads from the page.
pub const OUT: u32 = 16;
/// The block was ready when its write was submitted.
pub const READY: u32 = 32;
/// The last write failed; cleared by the next one that succeeds.
pub const ERROR: u32 = 64;
/// The block was freed while in transit; the entry leaves the registry at completion.
pub const ORPHAN: u32 = 128;
/// Sectors whose checksums are not those of their content: bit 8 + n is sector n. A leaf has no checksums.
pub const UNSEALED: u32 = 0xff << UNSEALED_SHIFT;
/// The bit of sector 0.
pub const UNSEALED_SHIFT: u32 = 8;

/// One cached block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct BlockInfo {
    /// Volume (bits 56 on) and block + 1; 0 for a page that caches none.
    pub name: u64,
    /// State bits.
    pub state: u32,
    /// Template slot.
    pub template: u8,
    /// Sectors of which owns has said, since their last change, that they own nothing: bit n is sector n.
    pub empty: u8,
    /// Tree number when the block was bound; [`crate::tree::Trees::resolve`] follows it.
    pub tree: u16,
    /// Parent block << 3 | sector; 0 for the root of a tree without parent.
    pub parent: u64,
    /// Children that are not good on disk.
    pub unready: u32,
    /// Children in core.
    pub children: u32,
    /// Number of the flush that must have completed before the block may be written.
    pub ready_at: u64,
    /// Counts changes; odd while one is made.
    pub version: u64,
    /// Sequence number of the last completed write; 0 for none in this mount.
    pub written: u64,
    /// Number of the flush that makes that write durable.
    pub durable_at: u64,
}

const _: () = assert!(size_of::<BlockInfo>() == 64);

impl BlockInfo {
    /// The block number.
    #[inline]
    pub fn block(&self) -> u64 {
        (self.name & (1 << 56) - 1).wrapping_sub(1)
    }

    /// Whether a state bit is set.
    #[inline]
    pub fn is(&self, bits: u32) -> bool {
        self.state & bits != 0
    }

    /// Block of the parent; 0 for none.
    #[inline]
    pub fn parent_block(&self) -> u64 {
        self.parent >> 3
    }
}
