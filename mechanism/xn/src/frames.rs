//! Contents of pages, as XN sees them, and their checksums.
//!
//! A kernel has no slices of pages that programs can write, so XN copies in and out of its own workspace.

use crate::format::SECTORS;

/// The pages of the registry, by index. Every offset and length lies in a page.
pub trait Frames {
    /// Copies bytes out of a page.
    fn load(&self, page: usize, offset: usize, into: &mut [u8]);
    /// Copies bytes into a page.
    fn store(&mut self, page: usize, offset: usize, from: &[u8]);
    /// Whether what is written needs checksums. Pages of a library whose device has an XN of its own need none.
    fn are_sealed(&self) -> bool {
        true
    }
    /// How many sectors one entry seals at most. More are left to the next one, which continues.
    fn sectors_at_once() -> usize {
        SECTORS
    }
    /// CRC32C of `bytes`, continued from `crc`. A machine whose CPU has an instruction for it puts its own here.
    fn crc32c(crc: u32, bytes: &[u8]) -> u32 {
        crate::checksum::crc32c(crc, bytes)
    }
}
