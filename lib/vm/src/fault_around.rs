//! How a page that is missing comes: the one that was touched, and others that will be, for one fault.
//!
//! A fault costs as much as mapping some twenty pages. The first touch of a private mapping of a file brings those of
//! its pages that programs touched before (`vfs::prefault_set`), and those of adjacent parts of that file. Any other
//! touch brings adjacent pages that are in memory already, fewer where that set is there. Zeros come several at a
//! time where the program goes from page to page. Nothing comes that the program could not have touched by itself;
//! what is in the tables is in [`PageRecord`](crate::page_record::PageRecord), whatever fails.

use crate::address_space::{AddressSpace, FaultError, PageOps, entry_for, run};
use crate::exec_prefault::Plan;
use crate::page_record::{CHUNK_PAGES, COPY_ON_WRITE, FROM_FILE, SHARED, page_of};
use crate::vma::{Backing, Vma};
use abi::page_table::{MapRow, PRESENT};
use alloc::vec::Vec;
use core::ops::Range;
use linux_abi::address_map::PAGE_SIZE;

/// Pages of a file that come together: those of an aligned range as large.
pub const FAULT_AROUND: u64 = 16;
/// The same where those that programs touch are there already.
const AROUND_WARM: u64 = 4;
/// Mappings of files that are remembered to have theirs.
const WARM: usize = 64;
/// Parts of a file that are looked for on each side of one.
const PARTS: usize = 4;
/// Pages of zeros that come together at most.
pub const READAHEAD: usize = 8;
/// The number of no page: a fresh one begins with zeros.
pub const ZEROS: u64 = abi::PageNumber::NONE.0;

/// A program that goes from one page to the next.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SequentialDetector {
    /// The page that it touches next, if it continues.
    next: u64,
    /// Faults in a row.
    faults: u32,
}

impl SequentialDetector {
    /// A fault at a page; how many pages from it on are worth bringing.
    pub(crate) fn step(&mut self, page: u64) -> usize {
        self.faults = if page == self.next { self.faults + 1 } else { 0 };
        // The first two in a row may be all.
        READAHEAD.min(1 << self.faults.saturating_sub(1).min(READAHEAD.ilog2()))
    }

    /// The page that was not brought, if the walk continues.
    pub(crate) fn goes_on_at(&mut self, page: u64) {
        self.next = page;
    }
}

type Filled = Result<(), FaultError>;

impl AddressSpace {
    /// Brings the page at an address, the first of so many where none is.
    pub(crate) fn fill(
        &mut self,
        pages: &mut impl PageOps,
        area: &Vma,
        address: u64,
        write: bool,
        missing: usize,
    ) -> Filled {
        match area.backing {
            Backing::File { .. } if area.shared => self.fill_from_shared_file(pages, area, address),
            Backing::File { node, .. } => {
                if self.is_copy {
                    self.note_touched(address);
                }
                let around = if self.warm_up(pages, area, (node, write)) { AROUND_WARM } else { FAULT_AROUND };
                if self.frames.get(address) == 0 {
                    self.fill_around(pages, area, address, around)?;
                }
                let is_shown = self.frames.get(address) & COPY_ON_WRITE != 0;
                if write && is_shown { self.take_copy(pages, area, address) } else { Ok(()) }
            }
            Backing::Nothing => Err(FaultError::PastEnd),
            _ if area.shared => self.fill_shared_page(pages, area, address),
            _ => self.fill_ahead(pages, area, address, missing),
        }
    }

    /// A page of zeros that others are to see, whether the program may read it or not.
    fn fill_shared_page(&mut self, pages: &mut impl PageOps, area: &Vma, address: u64) -> Filled {
        match entry_for(area, ZEROS, SHARED) {
            entry if entry & PRESENT != 0 => self.supply(pages, address, &mut [entry]).map(drop),
            _ => {
                let page = pages.allocate().map_err(|_| FaultError::OutOfMemory)?;
                self.put(pages, address, entry_for(area, page, SHARED))
            }
        }
    }

    /// A page of zeros, and more behind it where the program walks over its memory.
    fn fill_ahead(&mut self, pages: &mut impl PageOps, area: &Vma, address: u64, missing: usize) -> Filled {
        let wanted = if self.one_at_a_time || self.keeps_journal() { 1 } else { self.walk.step(address) };
        let in_area = (area.end - address) / PAGE_SIZE;
        let count = wanted.min(missing).min(in_area as usize);
        self.walk.goes_on_at(address + count as u64 * PAGE_SIZE);
        self.supply(pages, address, &mut [entry_for(area, ZEROS, 0); READAHEAD][..count]).map(drop)
    }

    /// Puts fresh pages in a row from an address on that lie in one table. They begin with what is in the pages that
    /// the entries name. There are as many as there are pages for, the first at least. How many.
    #[inline]
    pub(crate) fn supply(
        &mut self,
        pages: &mut impl PageOps,
        start: u64,
        entries: &mut [u64],
    ) -> Result<usize, FaultError> {
        let done = pages.supply(start, entries);
        if done == 0 {
            return Err(FaultError::OutOfMemory);
        }
        self.frames.set_many(start, &entries[..done]);
        Ok(done)
    }

    /// Brings those pages of a private mapping of a file that programs touch, once, as copies where the program
    /// `writes` first; whether any are known. Where parts of the file lie side by side it is a library: those of all
    /// parts come, as for a program that begins.
    #[inline(never)]
    fn warm_up(&mut self, pages: &mut impl PageOps, area: &Vma, (node, writes): (u64, bool)) -> bool {
        if self.is_copy || self.warm.iter().any(|place| place.contains(&area.start)) {
            return !self.is_copy;
        }
        let place = self.areas.beside(area, PARTS, |other| shows(other, node).is_some());
        let is_library = place != (area.start..area.end);
        let parts: Vec<Vma> = self.areas.parts(place.start, place.end).collect();
        let (mut first, mut end) = (u64::MAX, 0);
        for part in &parts {
            let offset = shows(part, node).unwrap_or(0);
            (first, end) = (offset.min(first), end.max(offset + part.bytes()));
        }
        let cuts = pages.cuts();
        let set = pages.working_set(node, first / PAGE_SIZE, end.div_ceil(PAGE_SIZE)).unwrap_or_default();
        if set.is_empty() {
            return false;
        }
        self.note_warm(place);
        let writes = (writes || is_library) && !self.keeps_journal();
        let mut plan = Plan::of(set.len(), cuts);
        for part in &parts {
            self.plan_pages(&mut plan, part, (shows(part, node).unwrap_or(0), writes), &set);
        }
        self.carry_out(pages, plan);
        true
    }

    /// What programs touch of the files that are mapped there is there.
    pub(crate) fn note_warm(&mut self, place: Range<u64>) {
        if self.warm.len() == WARM {
            self.warm.remove(0);
        }
        self.warm.push(place);
    }

    /// What is mapped between two addresses is gone.
    pub(crate) fn forget_warm(&mut self, start: u64, end: u64) {
        if self.warm.iter().all(|place| place.end <= start || end <= place.start) {
            return;
        }
        let around = |place: &Range<u64>| [place.start..place.end.min(start), place.start.max(end)..place.end];
        let pieces = self.warm.iter().flat_map(around).filter(|place| !place.is_empty());
        self.warm = pieces.take(WARM).collect();
    }

    /// The page of a file that this process writes where it lies.
    fn fill_from_shared_file(&mut self, pages: &mut impl PageOps, area: &Vma, address: u64) -> Filled {
        let (cuts, mut entry) = (pages.cuts(), [0]);
        ask(pages, area, (address, 0), &mut entry)?;
        let outcome = self.put(pages, address, entry[0]);
        if pages.cuts() == cuts { outcome } else { self.confirm(pages, area, (address, 0), &mut entry) }
    }

    /// The page of a private mapping of a file, with its neighbours: those of an aligned range of `around` pages.
    fn fill_around(&mut self, pages: &mut impl PageOps, area: &Vma, address: u64, around: u64) -> Filled {
        let base = address & !(around * PAGE_SIZE - 1);
        let (start, end) = (base.max(area.start), area.end.min(base + around * PAGE_SIZE));
        let mut entries = [0; FAULT_AROUND as usize];
        let entries = &mut entries[..((end - start) / PAGE_SIZE) as usize];
        let wanted = ((address - start) / PAGE_SIZE) as usize;
        let cuts = pages.cuts();
        ask(pages, area, (start, wanted), entries)?;
        for (entry, there) in entries.iter_mut().zip(self.frames.chunk_of(start)) {
            *entry = if *there == 0 { *entry } else { 0 };
        }
        let mut outcome = self.put_many(pages, start, entries);
        if outcome.is_err() {
            // One of the neighbours may have left the file meanwhile.
            entries.iter_mut().enumerate().filter(|(index, _)| *index != wanted).for_each(|(_, entry)| *entry = 0);
            outcome = self.put(pages, address, entries[wanted]);
        }
        if pages.cuts() == cuts { outcome } else { self.confirm(pages, area, (start, wanted), entries) }
    }

    /// Pages may have left the file since it was asked for these, which are mapped. Those stay that the file has still:
    /// a page that is mapped when it is told stays the file's. The page that is wanted comes again if need be.
    #[cold]
    fn confirm(
        &mut self,
        pages: &mut impl PageOps,
        area: &Vma,
        (start, wanted): (u64, usize),
        mapped: &mut [u64],
    ) -> Filled {
        loop {
            pages.give_way();
            let cuts = pages.cuts();
            let mut told = [0; FAULT_AROUND as usize];
            let found = ask(pages, area, (start, wanted), &mut told[..mapped.len()]);
            for ((mapped, told), address) in mapped.iter().zip(told).zip((start..).step_by(PAGE_SIZE as usize)) {
                if *mapped != 0 && *mapped != told {
                    pages.map(&[MapRow { address, entry: 0 }]).map_err(|_| FaultError::OutOfMemory)?;
                    self.frames.set(address, 0);
                }
            }
            found?;
            if mapped[wanted] == told[wanted] {
                return Ok(());
            }
            mapped.fill(0);
            mapped[wanted] = told[wanted];
            let outcome = self.put(pages, start + wanted as u64 * PAGE_SIZE, told[wanted]);
            if pages.cuts() == cuts {
                return outcome;
            }
            if outcome.is_err() {
                mapped[wanted] = 0;
            }
        }
    }

    /// Gives the process a page of its own in place of the one that lies at the address, with the same contents. The
    /// old one is not written as long as others may see it.
    pub(crate) fn take_copy(&mut self, pages: &mut impl PageOps, area: &Vma, address: u64) -> Filled {
        let from = page_of(self.frames.get(address));
        self.supply(pages, address, &mut [entry_for(area, from, 0)]).map(drop)
    }

    /// Sets the entries of pages in a row, but for those that are 0: all or none.
    fn put_many(&mut self, pages: &mut impl PageOps, start: u64, entries: &[u64]) -> Filled {
        if pages.map_run(start, entries).is_err() {
            let rows: Vec<MapRow> = run(start, entries).map(|row| MapRow { entry: 0, ..row }).collect();
            let _ = pages.map(&rows);
            return Err(FaultError::OutOfMemory);
        }
        self.frames.set_many(start, entries);
        Ok(())
    }
}

/// From which byte on an area shows a file, if it is a private mapping of it.
pub(crate) const fn shows(area: &Vma, wanted: u64) -> Option<u64> {
    match area.backing {
        Backing::File { node, offset, .. } if node == wanted && !area.shared => Some(offset),
        _ => None,
    }
}

/// The entries for pages of the file that an area shows, from `start` on, as far as they are in memory, else 0. The one
/// at index `wanted` is brought, to be written where it lies if the area is shared.
#[inline]
fn ask(pages: &mut impl PageOps, area: &Vma, (start, wanted): (u64, usize), entries: &mut [u64]) -> Filled {
    let Backing::File { node, offset, writable } = area.backing else { return Err(FaultError::PastEnd) };
    let first = (offset + (start - area.start)) / PAGE_SIZE;
    match pages.file_pages(node, first + wanted as u64, writable && area.shared, first, entries) {
        Ok(true) => {}
        Ok(false) => return Err(FaultError::PastEnd),
        Err(_) => return Err(FaultError::OutOfMemory),
    }
    let plain = entry_for(area, 0, if area.shared { SHARED } else { COPY_ON_WRITE | FROM_FILE });
    for entry in entries.iter_mut().filter(|entry| **entry != 0) {
        *entry = plain | *entry << PAGE_SIZE.trailing_zeros();
    }
    Ok(())
}

// An aligned range of a file's pages lies in one chunk of the record.
const _: () = assert!(CHUNK_PAGES % FAULT_AROUND == 0 && READAHEAD as u64 <= FAULT_AROUND);
