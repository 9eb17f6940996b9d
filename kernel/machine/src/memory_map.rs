//! The physical memory as a sorted list of disjoint page ranges: the use of each page after boot.
//!
//! Built from the loader's map, which is not trusted: entries may overlap, wrap around, repeat or
//! claim absurd sizes. Where entries disagree, "not RAM" wins. What always holds: ranges are
//! sorted, disjoint, not empty, and lie below `PHYSICAL_LIMIT`; neighbours of one use are merged.

use crate::layout::{PAGE_SIZE, PHYSICAL_LIMIT, align_down, align_up};

/// Most ranges a map can hold.
pub const MAXIMUM_RANGES: usize = 128;

/// What a range of RAM is used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// Unowned: the exokernel hands it out.
    Free,
    /// The kernel's for ever: image, page tables, stacks, tables fixed at boot.
    Kernel,
    /// The boot archive (PVH module 0).
    Archive,
}

/// A run of physical pages with one use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryRange {
    /// Physical address of the first byte; a multiple of the page size.
    pub start: u64,
    /// Physical address after the last byte; a multiple of the page size.
    pub end: u64,
    /// Its owner.
    pub used: Use,
}

impl MemoryRange {
    /// Number of pages.
    pub fn pages(&self) -> u64 {
        (self.end - self.start) / PAGE_SIZE
    }
}

/// Why a memory map was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapError {
    /// More than `MAXIMUM_RANGES` ranges.
    TooManyRanges,
    /// A range that the kernel needs (its image, the boot archive) is not free RAM.
    NotRam,
}

/// The list of ranges.
#[derive(Clone)]
pub struct MemoryMap {
    ranges: [MemoryRange; MAXIMUM_RANGES],
    count: usize,
}

const EMPTY: MemoryRange = MemoryRange { start: 0, end: 0, used: Use::Free };

impl MemoryMap {
    /// A map of no memory.
    pub const fn new() -> Self {
        Self { ranges: [EMPTY; MAXIMUM_RANGES], count: 0 }
    }

    /// The ranges, sorted by address.
    pub fn ranges(&self) -> &[MemoryRange] {
        &self.ranges[..self.count]
    }

    /// Pages of RAM, whatever they are used for.
    pub fn pages(&self) -> u64 {
        self.ranges().iter().map(MemoryRange::pages).sum()
    }

    /// Adds `size` bytes of RAM at `start` as free: the whole pages among them that are not known yet.
    pub fn add_ram(&mut self, start: u64, size: u64) -> Result<(), MapError> {
        let end = align_down(start.saturating_add(size).min(PHYSICAL_LIMIT), PAGE_SIZE);
        let Some(mut start) = align_up(start, PAGE_SIZE) else { return Ok(()) };
        while start < end {
            let next = self.first_ending_after(start);
            let known = self.ranges().get(next).copied();
            let gap_end = known.map_or(end, |range| range.start.min(end));
            if start < gap_end {
                self.insert(next, MemoryRange { start, end: gap_end, used: Use::Free })?;
            }
            start = known.map_or(end, |range| range.end.max(gap_end));
        }
        self.merge();
        Ok(())
    }

    /// Takes out every page that `size` bytes at `start` touch: they are not RAM.
    pub fn remove(&mut self, start: u64, size: u64) -> Result<(), MapError> {
        let end = align_up(start.saturating_add(size), PAGE_SIZE).unwrap_or(u64::MAX);
        let start = align_down(start, PAGE_SIZE);
        let mut index = self.first_ending_after(start);
        while index < self.count && self.ranges[index].start < end {
            let range = self.ranges[index];
            self.delete(index);
            if range.end > end {
                self.insert(index, MemoryRange { start: end, ..range })?;
            }
            if range.start < start {
                self.insert(index, MemoryRange { end: start, ..range })?;
                index += 1;
            }
            if range.end > end {
                break;
            }
        }
        Ok(())
    }

    /// Gives the pages that `size` bytes at `start` touch, all of which must be free, another use.
    pub fn assign(&mut self, start: u64, size: u64, used: Use) -> Result<(), MapError> {
        let end = start.checked_add(size).and_then(|end| align_up(end, PAGE_SIZE)).ok_or(MapError::NotRam)?;
        let start = align_down(start, PAGE_SIZE);
        if start == end {
            return Ok(());
        }
        let index = self.first_ending_after(start);
        let range = *self.ranges().get(index).ok_or(MapError::NotRam)?;
        if range.used != Use::Free || range.start > start || range.end < end {
            return Err(MapError::NotRam);
        }
        self.remove(start, end - start)?;
        let index = self.first_ending_after(start);
        self.insert(index, MemoryRange { start, end, used })?;
        self.merge();
        Ok(())
    }

    fn first_ending_after(&self, address: u64) -> usize {
        self.ranges().partition_point(|range| range.end <= address)
    }

    fn insert(&mut self, index: usize, range: MemoryRange) -> Result<(), MapError> {
        if self.count == MAXIMUM_RANGES {
            return Err(MapError::TooManyRanges);
        }
        self.ranges.copy_within(index..self.count, index + 1);
        self.ranges[index] = range;
        self.count += 1;
        Ok(())
    }

    fn delete(&mut self, index: usize) {
        self.ranges.copy_within(index + 1..self.count, index);
        self.count -= 1;
    }

    fn merge(&mut self) {
        let mut index = 1;
        while index < self.count {
            let (before, range) = (self.ranges[index - 1], self.ranges[index]);
            if before.end == range.start && before.used == range.used {
                self.ranges[index - 1].end = range.end;
                self.delete(index);
            } else {
                index += 1;
            }
        }
    }
}

impl Default for MemoryMap {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    const PAGES: u64 = 64;

    /// A small seeded generator (xorshift64), so that a failure repeats.
    struct Random(u64);

    impl Random {
        fn below(&mut self, bound: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % bound
        }
    }

    fn expand(map: &MemoryMap) -> Vec<Option<Use>> {
        let mut pages = std::vec![None; PAGES as usize];
        let mut last = 0;
        for range in map.ranges() {
            assert!(range.start < range.end && range.start >= last, "{:?}", map.ranges());
            last = range.end;
            for page in range.start / PAGE_SIZE..range.end / PAGE_SIZE {
                pages[page as usize] = Some(range.used);
            }
        }
        pages
    }

    #[test]
    fn fault_93_random_overlapping_entries_agree_with_a_page_by_page_model() {
        for seed in 1..2000 {
            let mut random = Random(seed);
            let mut map = MemoryMap::new();
            let mut model = std::vec![None; PAGES as usize];
            for _ in 0..12 {
                let start = random.below(PAGES * PAGE_SIZE);
                let size = random.below(PAGES * PAGE_SIZE - start);
                let inner = start.div_ceil(PAGE_SIZE)..(start + size) / PAGE_SIZE;
                let outer = start / PAGE_SIZE..(start + size).div_ceil(PAGE_SIZE);
                match random.below(3) {
                    0 => {
                        map.add_ram(start, size).unwrap();
                        inner.for_each(|page| model[page as usize] = model[page as usize].or(Some(Use::Free)));
                    }
                    1 if size > 0 => {
                        map.remove(start, size).unwrap();
                        outer.for_each(|page| model[page as usize] = None);
                    }
                    2 if size > 0 => {
                        let free = outer.clone().all(|page| model[page as usize] == Some(Use::Free));
                        assert_eq!(map.assign(start, size, Use::Kernel).is_ok(), free, "seed {seed}");
                        if free {
                            outer.for_each(|page| model[page as usize] = Some(Use::Kernel));
                        }
                    }
                    _ => {}
                }
                assert_eq!(expand(&map), model, "seed {seed}");
            }
        }
    }

    #[test]
    fn fault_93_wrapping_and_absurd_entries_are_clipped() {
        let mut map = MemoryMap::new();
        map.add_ram(u64::MAX - 10, u64::MAX).unwrap();
        assert_eq!(map.pages(), 0);
        map.add_ram(0, u64::MAX).unwrap();
        assert_eq!(map.pages(), PHYSICAL_LIMIT / PAGE_SIZE);
        map.remove(PAGE_SIZE, u64::MAX).unwrap();
        assert_eq!(map.pages(), 1);
    }

    #[test]
    fn fault_93_too_many_ranges_is_an_error() {
        let mut map = MemoryMap::new();
        let error = (0..1000).find_map(|n| map.add_ram(n * 2 * PAGE_SIZE, PAGE_SIZE).err());
        assert_eq!(error, Some(MapError::TooManyRanges));
    }
}
