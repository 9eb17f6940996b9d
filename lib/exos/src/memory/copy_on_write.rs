//! A page of its own for whoever writes one that others may see (xok-exos-sosp97 §5.2: copy-on-write is the library's affair).
//!
//! A page that nobody else maps any more is written where it lies. Where a program writes one page after the other, the next
//! ones come along, as zeros do (`fill`): what is found out and asked for then serves several. Holds always: an entry allows
//! writing only once the page behind it is this process's alone, with its contents.

use super::area::Area;
use super::fill::AHEAD;
use super::frames::{COPY_ON_WRITE, FROM_FILE, entry, page_of};
use super::space::{Pages, Space, Violation, entry_for};
use crate::errno::{Errno, Result};
use crate::layout::PAGE_SIZE;
use abi::page_table::{MapRow, PRESENT};

/// Pages of a run that are copied: address, and number of the copy.
#[derive(Default)]
struct Run {
    rows: [MapRow; AHEAD],
    copies: [(u64, u64); AHEAD],
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
        let copy = pages.allocate().map_err(|_| Violation::OutOfMemory)?;
        let entry = entry_for(area, copy, 0);
        pages.replace_with_copy(address, entry).map_err(|_| Violation::OutOfMemory)?;
        self.frames.set(address, entry);
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
        let mut run = self.plan_run(pages, area, address, count);
        let Run { rows, copies, old, copied } = &mut run;
        let (rows, copies) = (&mut rows[..count], &mut copies[..*copied]);
        let mut fresh = [0; AHEAD];
        let fresh = &mut fresh[..*copied];
        pages.allocate_many(fresh)?;
        copies.iter_mut().zip(&*fresh).for_each(|(copy, page)| copy.1 = *page);
        let mut next = copies.iter();
        for row in rows.iter_mut().filter(|row| row.entry == 0) {
            row.entry = entry_for(area, next.next().map_or(0, |copy| copy.1), 0);
        }
        let outcome = pages.copy(copies).and_then(|()| pages.map(rows));
        if outcome.is_err() {
            rows.iter_mut().for_each(|row| row.entry = self.frames.get(row.address));
            let _ = pages.map(rows);
            pages.release(fresh);
            return Err(Errno::ENOMEM);
        }
        rows.iter().for_each(|row| _ = self.frames.set(row.address, row.entry));
        pages.release(&old[..*copied]);
        Ok(())
    }

    /// What is to be done for each page of a run: the entry of one that nobody else maps, and 0 for one to be copied.
    fn plan_run(&self, pages: &impl Pages, area: &Area, address: u64, count: usize) -> Run {
        let mut run = Run::default();
        let addresses = (address..).step_by(PAGE_SIZE as usize);
        for ((row, address), entry) in run.rows.iter_mut().zip(addresses).zip(self.frames.chunk_of(address)).take(count)
        {
            let page = page_of(*entry);
            row.address = address;
            if pages.is_sole(page) {
                row.entry = entry_for(area, page, 0);
            } else {
                (run.copies[run.copied], run.old[run.copied]) = ((address, 0), page);
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
        let copy = pages.allocate()?;
        pages.copy(&[(address, copy)])?;
        let entry = entry(copy, false, false, 0);
        pages.map(&[MapRow { address, entry }])?;
        self.frames.set(address, entry);
        pages.release(&[page_of(old)]);
        Ok(entry)
    }
}
