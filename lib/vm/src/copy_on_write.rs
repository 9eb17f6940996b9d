//! Copy-on-write: a page of its own for a process that writes one that others may see. In an exokernel it is the
//! library's task (xok-exos-sosp97 §5.2).
//!
//! A page that no other process maps any more is written where it lies. Where a program writes one page after the
//! other, the next ones come along, as zeros do (`fault_around`): what is found out and asked for then serves
//! several. Invariant: an entry allows writing only once the page behind it is this process's alone, with its
//! contents.

use crate::address_space::{AddressSpace, FaultError, PageOps, entry_for, run};
use crate::fault_around::READAHEAD;
use crate::page_record::{COPY_ON_WRITE, FROM_FILE, entry, page_of};
use crate::vma::Vma;
use abi::page_table::{MapRow, PAGE, PRESENT};
use alloc::vec::Vec;
use linux_abi::address_map::PAGE_SIZE;
use linux_abi::errno::Result;

type Unshared<T> = core::result::Result<T, FaultError>;

impl AddressSpace {
    /// Gives this process a page of its own in place of one that others may see.
    pub(crate) fn unshare(&mut self, pages: &mut impl PageOps, area: &Vma, address: u64, old: u64) -> Unshared<()> {
        if old & FROM_FILE != 0 {
            return self.take_copy(pages, area, address);
        }
        self.note_written(address);
        let mut shared = [old; READAHEAD];
        let count = self.shared_in_a_row(area, address, &mut shared);
        self.copied.goes_on_at(address + count as u64 * PAGE_SIZE);
        let mut done = self.unshare_run(pages, area, address, &mut shared[..count])?;
        // The one that was written is there; the others come as far as they can.
        while done < count {
            match self.unshare_run(pages, area, address + done as u64 * PAGE_SIZE, &mut shared[done..count]) {
                Ok(more) => done += more,
                Err(_) => break,
            }
        }
        Ok(())
    }

    /// How many pages from the one on that is written are worth having, and others may see all of them: their entries.
    fn shared_in_a_row(&mut self, area: &Vma, address: u64, shared: &mut [u64; READAHEAD]) -> usize {
        let wanted = if self.one_at_a_time || self.keeps_journal() { 1 } else { self.copied.step(address) };
        if wanted == 1 {
            return 1;
        }
        let in_area = ((area.end - address) / PAGE_SIZE) as usize;
        let mut count = 0;
        for (place, entry) in shared.iter_mut().zip(self.frames.chunk_of(address)).take(wanted.min(in_area)) {
            if entry & (PRESENT | COPY_ON_WRITE | FROM_FILE) != PRESENT | COPY_ON_WRITE {
                break;
            }
            *place = *entry;
            count += 1;
        }
        count
    }

    /// The same for the first of pages that have these entries, and those behind it that are like it. They are
    /// written where they lie because no other process has them any more, or copied. How many, of whose entries only
    /// the page numbers are left.
    fn unshare_run(&mut self, pages: &mut impl PageOps, area: &Vma, start: u64, shared: &mut [u64]) -> Unshared<usize> {
        let is_sole = is_sole_in_own_table(pages, start, page_of(shared[0]))?;
        let is_other = |entry: &u64| pages.is_sole(page_of(*entry)) != is_sole;
        let count = shared[1..].iter().position(is_other).map_or(shared.len(), |other| other + 1);
        let (mut entries, plain) = ([0; READAHEAD], entry_for(area, 0, 0));
        for (entry, shared) in entries.iter_mut().zip(&mut shared[..count]) {
            *entry = plain | *shared & PAGE;
            *shared = page_of(*shared);
        }
        let entries = &mut entries[..count];
        if is_sole {
            return self.keep_run(pages, start, entries);
        }
        let done = self.supply(pages, start, entries)?;
        pages.release(&shared[..done]);
        Ok(done)
    }

    /// Pages that no other process has are written where they lie: all, or the first.
    fn keep_run(&mut self, pages: &mut impl PageOps, start: u64, entries: &[u64]) -> Unshared<usize> {
        if pages.map_run(start, entries).is_ok() {
            self.frames.set_many(start, entries);
            return Ok(entries.len());
        }
        let before = |row: MapRow| MapRow { entry: self.frames.get(row.address), ..row };
        let rows: Vec<MapRow> = run(start, entries).map(before).collect();
        let _ = pages.map(&rows);
        self.put(pages, start, entries[0]).map(|()| 1)
    }

    /// A borrowed page that is about to be unmapped, while its contents are still needed, is copied: its owner may free
    /// it. The result is the entry that stands for it.
    pub(crate) fn own(&mut self, pages: &mut impl PageOps, address: u64, old: u64) -> Result<u64> {
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

/// Whether no other process has a page that is written. That is known once the table is this process's own.
fn is_sole_in_own_table(pages: &mut impl PageOps, address: u64, page: u64) -> Unshared<bool> {
    if !pages.is_sole(page) {
        return Ok(false);
    }
    pages.prepare(address).map_err(|_| FaultError::OutOfMemory)?;
    Ok(pages.is_sole(page))
}
