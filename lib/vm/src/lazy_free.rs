//! Lazily freed memory (`MADV_FREE`): contents that the program gave up, discarded when the machine asks for pages.
//!
//! Such pages become copy-on-write, so that the next write to one takes it out: an entry that is no longer
//! copy-on-write was written since. The write costs a fault, and no copy.
//!
//! Invariants:
//! - A discarded page lies in a range that the program gave up, and was not written since.
//! - A fork, a new mapping and an unmapping forget the ranges they touch: there the mark may mean something else.

use crate::address_space::{AddressSpace, PageOps};
use crate::page_record::{COPY_ON_WRITE, FROM_FILE, SHARED, page_of};
use crate::vma::Vma;
use abi::page_table::{MapRow, PRESENT, WRITE};
use alloc::vec::Vec;
use linux_abi::errno::Result;

/// Pages that are discarded at once: their rows lie on the heap.
const AT_ONCE: usize = 64;
/// Ranges that are remembered: more are forgotten, the oldest first.
const RANGES: usize = 256;

/// The ranges of one address space, the oldest first; they do not overlap.
#[derive(Clone, Debug, Default)]
pub(crate) struct LazilyFreed(Vec<(u64, u64)>);

impl LazilyFreed {
    fn add(&mut self, start: u64, end: u64) {
        self.forget(start, end);
        match self.0.last_mut() {
            Some(last) if last.1 == start => last.1 = end,
            _ => self.0.push((start, end)),
        }
        if self.0.len() > RANGES {
            self.0.remove(0);
        }
    }

    /// Forgets every range that touches this one.
    pub(crate) fn forget(&mut self, start: u64, end: u64) {
        if !self.0.is_empty() {
            self.0.retain(|range| range.1 <= start || end <= range.0);
        }
    }

    /// Forgets all of them.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

impl AddressSpace {
    /// Marks the pages of a part of an area: their contents may go.
    pub(crate) fn free_lazily(&mut self, pages: &mut impl PageOps, part: &Vma) -> Result<()> {
        let candidates = self.frames.within(part.start, part.end);
        let rows: Vec<MapRow> = candidates
            .filter(|(_, entry)| entry & (PRESENT | COPY_ON_WRITE | SHARED | FROM_FILE) == PRESENT)
            .map(|(address, entry)| MapRow { address, entry: entry & !WRITE | COPY_ON_WRITE })
            .collect();
        pages.map(&rows)?;
        self.frames.set_rows(&rows);
        self.lazily_freed.add(part.start, part.end);
        Ok(())
    }

    /// Discards up to `most` lazily freed pages; how many. They read as zeros from then on.
    pub fn discard(&mut self, pages: &mut impl PageOps, most: usize) -> usize {
        let mut gone = 0;
        while gone < most && !self.keeps_journal() {
            let Some((start, end)) = self.lazily_freed.0.first().copied() else { break };
            let rows = self.discardable(start, end, AT_ONCE.min(most - gone));
            if rows.is_empty() {
                self.lazily_freed.0.remove(0);
                continue;
            }
            let entries: Vec<u64> = rows.iter().map(|row| page_of(self.frames.get(row.address))).collect();
            if pages.map(&rows).is_err() {
                break;
            }
            rows.iter().for_each(|row| drop(self.frames.take(row.address, row.address + 1)));
            pages.release(&entries);
            gone += rows.len();
        }
        gone
    }

    /// Rows that unmap some pages of a range that were not written since it was given up.
    fn discardable(&self, start: u64, end: u64, most: usize) -> Vec<MapRow> {
        let may_go = |address: u64| self.areas.find(address).is_some_and(|area| !area.locked && !area.shared);
        let unwritten = |entry: u64| entry & (PRESENT | COPY_ON_WRITE | FROM_FILE) == PRESENT | COPY_ON_WRITE;
        let found = self.frames.within(start, end).filter(|(address, entry)| unwritten(*entry) && may_go(*address));
        found.take(most).map(|(address, _)| MapRow { address, entry: 0 }).collect()
    }
}
