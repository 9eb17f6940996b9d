//! A page of its own for whoever writes one that others may see (xok-exos-sosp97 §5.2: copy-on-write is the library's affair).
//!
//! A page that nobody else maps any more is written where it lies. Where a program writes one page after the other, the next
//! ones come along, as zeros do (`fill`): what is found out and asked for then serves several. Holds always: an entry allows
//! writing only once the page behind it is this process's alone, with its contents.

use super::area::Area;
use super::fill::AHEAD;
use super::frames::{COPY_ON_WRITE, FROM_FILE, entry, page_of};
use super::space::{Pages, Space, Violation, entry_for, run};
use crate::errno::{Errno, Result};
use crate::layout::PAGE_SIZE;
use abi::page_table::{MapRow, PRESENT};
use alloc::vec::Vec;

/// What is to be done for the pages of a run.
#[derive(Default)]
struct Run {
    /// The entry of one that nobody else maps; 0 for one to be copied.
    entries: [u64; AHEAD],
    /// Those to be copied.
    old: [u64; AHEAD],
    copied: usize,
}

impl Space {
    /// Gives this process a page of its own in place of one that others may see.
    pub(super) fn unshare(
        &mut self,
        pages: &mut impl Pages,
        area: &Area,
        address: u64,
        old: u64,
    ) -> core::result::Result<(), Violation> {
        if old & FROM_FILE != 0 {
            return self.take_copy(pages, area, address);
        }
        self.note_written(address);
        pages.prepare(address).map_err(|_| Violation::OutOfMemory)?;
        let count = self.shared_in_a_row(area, address);
        self.copied.goes_on_at(address + count as u64 * PAGE_SIZE);
        // Where there is too little for all, the one that was written comes.
        if count > 1 && self.unshare_many(pages, area, address, count).is_ok() {
            return Ok(());
        }
        let shared = page_of(old);
        if pages.is_sole(shared) {
            return self.put(pages, address, entry_for(area, shared, 0));
        }
        self.take_copy(pages, area, address)?;
        pages.release(&[shared]);
        Ok(())
    }

    /// How many pages from the one on that is written are worth having, and others may see all of them.
    fn shared_in_a_row(&mut self, area: &Area, address: u64) -> usize {
        let wanted = if self.one_at_a_time || self.keeps_journal() { 1 } else { self.copied.step(address) };
        if wanted == 1 {
            return 1;
        }
        let in_area = ((area.end - address) / PAGE_SIZE) as usize;
        let is_shared = |entry: &&u64| **entry & (PRESENT | COPY_ON_WRITE | FROM_FILE) == PRESENT | COPY_ON_WRITE;
        self.frames.chunk_of(address).iter().take(wanted.min(in_area)).take_while(is_shared).count()
    }

    /// The same for several pages in a row, in one table: all or none.
    fn unshare_many(&mut self, pages: &mut impl Pages, area: &Area, address: u64, count: usize) -> Result<()> {
        let Run { mut entries, old, copied } = self.plan_run(pages, area, address, count);
        let (entries, old) = (&mut entries[..count], &old[..copied]);
        let mut copies = [0; AHEAD];
        let copies = &mut copies[..copied];
        copies.copy_from_slice(old);
        pages.allocate_copies(copies)?;
        let to_copy = entries.iter_mut().filter(|entry| **entry == 0);
        to_copy.zip(&*copies).for_each(|(entry, copy)| *entry = entry_for(area, *copy, 0));
        if pages.map_run(address, entries).is_err() {
            let before = |row: MapRow| MapRow { entry: self.frames.get(row.address), ..row };
            let rows: Vec<MapRow> = run(address, entries).map(before).collect();
            let _ = pages.map(&rows);
            pages.release(copies);
            return Err(Errno::ENOMEM);
        }
        self.frames.set_many(address, entries);
        pages.release(old);
        Ok(())
    }

    /// What is to be done for each page of a run.
    fn plan_run(&self, pages: &impl Pages, area: &Area, address: u64, count: usize) -> Run {
        let mut run = Run::default();
        for (place, entry) in run.entries.iter_mut().zip(self.frames.chunk_of(address)).take(count) {
            let page = page_of(*entry);
            if pages.is_sole(page) {
                *place = entry_for(area, page, 0);
            } else {
                run.old[run.copied] = page;
                run.copied += 1;
            }
        }
        run
    }

    /// A borrowed page that is about to be unmapped, while its contents are still needed, is copied: its owner may free
    /// it. The result is the entry that stands for it.
    pub(super) fn own(&mut self, pages: &mut impl Pages, address: u64, old: u64) -> Result<u64> {
        if old & COPY_ON_WRITE == 0 || old & PRESENT == 0 {
            return Ok(old);
        }
        let mut copy = [page_of(old)];
        pages.allocate_copies(&mut copy)?;
        let entry = entry(copy[0], false, false, 0);
        pages.map(&[MapRow { address, entry }])?;
        self.frames.set(address, entry);
        pages.release(&[page_of(old)]);
        Ok(entry)
    }
}
