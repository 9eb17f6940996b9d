//! The boot-time allocator: takes pages off the front of free ranges, and only at boot.
//!
//! After boot the kernel allocates nothing: what was taken is in the memory map as `Kernel`, the
//! rest is handed to the exokernel as `Free`. Pages are taken below 4 GiB first (the boot map
//! reaches no further), above 1 MiB (the first processors' trampolines live below).

use crate::layout::{self, PAGE_SIZE, align_up};
use crate::memory_map::{MemoryMap, MemoryRange, Use};
use core::ops::{ControlFlow, Range};

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
        self.allocate_aligned(pages, PAGE_SIZE)
    }

    /// The same at a multiple of `alignment`, a power of two.
    pub fn allocate_aligned(&mut self, pages: u64, alignment: u64) -> Option<u64> {
        let size = pages.checked_mul(PAGE_SIZE)?;
        let place = |range: &MemoryRange| {
            let start = align_up(range.start, alignment)?;
            let fits = start.checked_add(size).is_some_and(|end| end <= range.end);
            (range.used == Use::Free && range.start >= LOWEST && fits).then_some(start)
        };
        let start = self.map.ranges().iter().find_map(place)?;
        self.map.assign(start, size, Use::Kernel).ok()?;
        Some(start)
    }

    /// One page below 1 MiB (and its end below 640 KiB, where video memory begins), for a processor's first
    /// instructions.
    pub fn allocate_low(&mut self) -> Option<u64> {
        let fits = |range: &&MemoryRange| range.used == Use::Free && range.start + PAGE_SIZE <= LOW_END;
        let start = self.map.ranges().iter().find(fits)?.start;
        self.map.assign(start, PAGE_SIZE, Use::Kernel).ok()?;
        Some(start)
    }

    /// Memory from an address on, whatever it is used for, up to the first hole of so many bytes.
    pub fn memory_from(&self, address: u64, hole: u64) -> Option<Range<u64>> {
        let mut later = self.map.ranges().iter().skip_while(|range| range.end <= address);
        let first = later.next()?;
        let end = later.try_fold(first.end, |end, range| {
            if range.start - end < hole { ControlFlow::Continue(range.end) } else { ControlFlow::Break(end) }
        });
        let (ControlFlow::Continue(end) | ControlFlow::Break(end)) = end;
        Some(first.start.max(address)..end)
    }

    /// Like `allocate`, filled with zeroes through the direct map.
    pub fn allocate_zeroed(&mut self, pages: u64) -> Option<u64> {
        self.allocate_zeroed_aligned(pages, PAGE_SIZE)
    }

    /// Memory for `count` values, each made by `make`, for ever.
    pub fn slice<T>(&mut self, count: usize, mut make: impl FnMut() -> T) -> Option<&'static mut [T]> {
        const { assert!(align_of::<T>() as u64 <= PAGE_SIZE && size_of::<T>() > 0) };
        let bytes = (count as u64).checked_mul(size_of::<T>() as u64)?;
        let first = layout::direct(self.allocate(bytes.div_ceil(PAGE_SIZE))?) as *mut T;
        // SAFETY: the pages were free RAM until just now and belong to the result alone; the direct map maps them
        // writable, aligned to a page; each value is written before the slice is made.
        unsafe {
            (0..count).for_each(|index| first.add(index).write(make()));
            Some(core::slice::from_raw_parts_mut(first, count))
        }
    }

    /// Like `allocate_aligned`, filled with zeroes through the direct map.
    pub fn allocate_zeroed_aligned(&mut self, pages: u64, alignment: u64) -> Option<u64> {
        let start = self.allocate_aligned(pages, alignment)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_goes_on_over_small_holes_and_ends_at_large_ones() {
        let mut map = MemoryMap::new();
        for (start, size) in [(0x1000, 0x1000), (0x4000, 0x4000), (0x10000, 0x1000)] {
            map.add_ram(start, size).expect("there is room");
        }
        map.assign(0x5000, 0x1000, Use::Kernel).expect("it is free");
        let memory = BootMemory::new(&mut map);
        assert_eq!(memory.memory_from(0, 0x3000), Some(0x1000..0x8000));
        assert_eq!(memory.memory_from(0, 0x2000), Some(0x1000..0x2000));
        assert_eq!(memory.memory_from(0x6000, 0x2000), Some(0x6000..0x8000));
        assert_eq!(memory.memory_from(0x8000, 0x9000), Some(0x10000..0x11000));
        assert_eq!(memory.memory_from(0x11000, 0x1000), None);
    }

    #[test]
    fn aligned_memory_lies_where_it_is_aligned_and_fits() {
        let mut map = MemoryMap::new();
        map.add_ram(LOWEST + 0x1000, 0x8000).expect("there is room");
        map.add_ram(LOWEST + 0x20000, 0x20000).expect("there is room");
        let mut memory = BootMemory::new(&mut map);
        assert_eq!(memory.allocate_aligned(2, 0x4000), Some(LOWEST + 0x4000));
        assert_eq!(memory.allocate_aligned(2, 0x4000), Some(LOWEST + 0x20000));
        assert_eq!(memory.allocate(2), Some(LOWEST + 0x1000));
        assert_eq!(memory.allocate_aligned(64, 0x4000), None);
    }
}
