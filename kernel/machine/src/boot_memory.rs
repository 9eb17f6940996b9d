//! The boot-time allocator: takes pages off the front of free ranges, and only at boot.
//!
//! After boot the kernel allocates nothing: what was taken is in the memory map as `Kernel`, the
//! rest is handed to the exokernel as `Free`. Pages are taken below 4 GiB first (the boot map
//! reaches no further), above 1 MiB (the first processors' trampolines live below).

use crate::layout::{self, PAGE_SIZE};
use crate::memory_map::{MemoryMap, MemoryRange, Use};

const LOWEST: u64 = 1 << 20;
const LOW_END: u64 = 0xa_0000;

/// Hands out pages of the memory map it borrows.
pub struct BootMemory<'a> {
    map: &'a mut MemoryMap,
}

impl<'a> BootMemory<'a> {
    /// Allocates from the free ranges of `map`.
    pub fn new(map: &'a mut MemoryMap) -> Self {
        Self { map }
    }

    /// Physical address of `pages` neighbouring pages, not zeroed; none when no range is long enough.
    pub fn allocate(&mut self, pages: u64) -> Option<u64> {
        let size = pages.checked_mul(PAGE_SIZE)?;
        let fits =
            |range: &&MemoryRange| range.used == Use::Free && range.start >= LOWEST && range.end - range.start >= size;
        let start = self.map.ranges().iter().find(fits)?.start;
        self.map.assign(start, size, Use::Kernel).ok()?;
        Some(start)
    }

    /// One page below 1 MiB (and its end below 640 KiB, where video memory begins), for a processor's first instructions.
    pub fn allocate_low(&mut self) -> Option<u64> {
        let fits = |range: &&MemoryRange| range.used == Use::Free && range.start + PAGE_SIZE <= LOW_END;
        let start = self.map.ranges().iter().find(fits)?.start;
        self.map.assign(start, PAGE_SIZE, Use::Kernel).ok()?;
        Some(start)
    }

    /// Like `allocate`, filled with zeroes through the direct map.
    pub fn allocate_zeroed(&mut self, pages: u64) -> Option<u64> {
        let start = self.allocate(pages)?;
        // SAFETY: the pages were free RAM until just now and belong to the caller alone; the direct
        // map (or, before it, the boot map, which covers the low ranges used first) maps them writable.
        unsafe {
            core::arch::asm!(
                "rep stosq",
                inout("rcx") pages * (PAGE_SIZE / 8) => _,
                inout("rdi") layout::direct(start) => _,
                in("rax") 0,
                options(nostack, preserves_flags),
            );
        }
        Some(start)
    }
}
