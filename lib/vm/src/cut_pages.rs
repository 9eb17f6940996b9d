//! Pages that `mremap` cut from shared anonymous memory. Linux keeps them in the object behind the mapping. Pure.
//!
//! ExOS has no such object. It knows the memory by the page before the cut, which no other memory has. Invariants:
//! - the pages are on the account of the process, or borrowed, and mapped nowhere;
//! - they go when the page before the cut is no longer mapped;
//! - a child of fork knows nothing of them.

use crate::address_space::{AddressSpace, PageOps, entry_for};
use crate::page_record::{SHARED, page_of};
use crate::vma::{Backing, Vma};
use abi::page_table::MapRow;
use alloc::vec::Vec;
use linux_abi::address_map::{PAGE_SIZE, PROGRAM_END};
use linux_abi::errno::Result;

/// Pages behind the end of a mapping that was cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutPages {
    /// The last page that the mapping kept.
    before: u64,
    /// The pages that followed it, in order.
    pages: Vec<u64>,
}

impl AddressSpace {
    /// Takes the pages from `start` to `end` out of shared anonymous memory, and keeps them for the mapping that ends
    /// at `start`. Of other memory nothing is kept.
    pub(crate) fn keep_cut(&mut self, pages: &mut impl PageOps, area: &Vma, start: u64, end: u64) -> Result<()> {
        let is_shared_memory = area.shared && area.backing == Backing::Anonymous;
        if !is_shared_memory || start <= area.start || end <= start {
            return Ok(());
        }
        let last = start - PAGE_SIZE;
        self.fill_whole(pages, &Vma { start: last, end, ..*area })?;
        let mut cut = self.cut_behind(end - PAGE_SIZE).unwrap_or_default();
        let rows: Vec<MapRow> =
            self.frames.within(start, end).map(|(address, _)| MapRow { address, entry: 0 }).collect();
        pages.map(&rows)?;
        let taken = self.frames.take(start, end);
        cut.splice(0..0, taken.into_iter().map(|(_, entry)| page_of(entry)));
        self.cut.push(CutPages { before: page_of(self.frames.get(last)), pages: cut });
        Ok(())
    }

    /// Maps what was cut from the memory that ends at `area.end` there again, up to `end`. The end of what is there
    /// now.
    pub(crate) fn restore_cut(&mut self, pages: &mut impl PageOps, area: &Vma, end: u64) -> Result<u64> {
        let Some(mut cut) = self.cut_behind(area.end - PAGE_SIZE) else { return Ok(area.end) };
        let rest = cut.split_off((((end - area.end) / PAGE_SIZE) as usize).min(cut.len()));
        let whole = Vma { end: area.end + cut.len() as u64 * PAGE_SIZE, ..*area };
        if let (Some(before), false) = (cut.last(), rest.is_empty()) {
            self.cut.push(CutPages { before: *before, pages: rest });
        }
        self.areas.insert(whole);
        let row = |(index, page): (u64, &u64)| MapRow {
            address: area.end + index * PAGE_SIZE,
            entry: entry_for(&whole, *page, SHARED),
        };
        let rows: Vec<MapRow> = (0..).zip(&cut).map(row).collect();
        pages.map(&rows)?;
        self.frames.set_rows(&rows);
        Ok(whole.end)
    }

    /// Takes what was cut behind a page out of the list.
    fn cut_behind(&mut self, last: u64) -> Option<Vec<u64>> {
        let before = page_of(self.frames.get(last));
        let place = self.cut.iter().position(|cut| cut.before == before && before != 0)?;
        Some(self.cut.swap_remove(place).pages)
    }

    /// Releases the pages whose mapping is gone.
    pub(crate) fn drop_cut(&mut self, pages: &mut impl PageOps) {
        let frames = &self.frames;
        let is_there = |cut: &CutPages| frames.within(0, PROGRAM_END).any(|(_, entry)| page_of(entry) == cut.before);
        for cut in self.cut.extract_if(.., |cut| !is_there(cut)) {
            pages.release(&cut.pages);
        }
    }
}
