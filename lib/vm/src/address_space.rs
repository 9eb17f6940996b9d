//! What happens to a program's memory: faults, maps, protections, fork.
//!
//! Generic over [`Pages`], the few things that only the kernel can do, so that all decisions are tested on the host.
//! Invariants: [`PageRecord`] records what the tables hold. An entry allows writing only if its area does and no
//! other process can reach the page through its own entry (or the area is shared on purpose).

use crate::cut_pages::CutPages;
use crate::fault_around::{READAHEAD, SequentialDetector};
use crate::lazy_free::LazilyFreed;
use crate::page_record::{CHUNK_PAGES, COPY_ON_WRITE, FROM_FILE, PageRecord, SHARED, TOGETHER, entry, page_of};
use crate::vma::{AtFork, Backing, Protection, Vma, VmaList};
use crate::write_log::{Change, WriteLog};
use abi::page_table::{MapRow, PRESENT, WRITE};
use alloc::vec::Vec;
use core::ops::Range;
use linux_abi::address_map::{PAGE_MASK, PAGE_SIZE, PROGRAM_END, STACK_BYTES, STACK_MOST, page_up};
use linux_abi::errno::{Errno, Result};

/// What the kernel does for an address space.
pub trait PageOps {
    /// A fresh page, zeroed, on the account of this process.
    fn allocate(&mut self) -> Result<u64>;
    /// The same for each place, or for none.
    fn allocate_many(&mut self, places: &mut [u64]) -> Result<()>;
    /// Pages of this process that are at hand for a program that begins, with whatever was in them, in the first
    /// places: how many.
    fn take_used(&mut self, places: &mut [u64]) -> usize;
    /// Whether pages, which are mapped here, are this process's. Their maker may have died before they were.
    fn owns(&self, pages: &[u64]) -> bool;
    /// Fills pages with zeros that lie at addresses and may be written.
    fn clear_at(&mut self, addresses: &[u64]);
    /// Gives pages up: those on this process's account are freed, the others were only borrowed.
    fn release(&mut self, pages: &[u64]);
    /// Maps fresh pages in a row from an address on that lie in one table, whatever must be done with tables for it.
    /// Each begins with what is in the page that its entry names ([`ZEROS`](crate::fault_around::ZEROS): none), whose
    /// number it takes the place of. As many as there are pages for: how many.
    fn supply(&mut self, start: u64, entries: &mut [u64]) -> usize;
    /// Sets entries, whatever tables must be made or unshared for it. Addresses carry no key.
    fn map(&mut self, rows: &[MapRow]) -> Result<()>;
    /// The same for pages in a row from an address on that lie in one table, but for those whose entry is 0.
    fn map_run(&mut self, start: u64, entries: &[u64]) -> Result<()> {
        self.map(&run(start, entries).collect::<Vec<MapRow>>())
    }
    /// Fresh pages with the contents of others, mapped or not, in the places of these; or none, and then the places
    /// say nothing.
    fn allocate_copies(&mut self, places: &mut [u64]) -> Result<()>;
    /// Copies the contents of pages, mapped or not, to addresses where pages lie that may be written.
    fn copy_to(&mut self, copies: &[(u64, u64)]) -> Result<()>;
    /// Puts bytes at the beginning of a page, mapped or not.
    fn fill(&mut self, page: u64, contents: &[u8]) -> Result<()>;
    /// The contents of a page, mapped or not.
    fn read(&mut self, page: u64) -> Result<Vec<u8>>;
    /// Whether `page` is on this process's account and only one entry of a page table maps it.
    fn is_sole(&self, page: u64) -> bool;
    /// The pages of a file from index `first` on, as far as they are in memory, else 0. The page at index `wanted` is
    /// brought; `write` says whether this process will write it where it lies. False where that lies past the end.
    fn file_pages(&mut self, node: u64, wanted: u64, write: bool, first: u64, numbers: &mut [u64]) -> Result<bool>;
    /// Of the pages of a file from index `first` up to `end` those that programs touch and that are in memory, in
    /// ascending order: index and number.
    fn working_set(&mut self, node: u64, first: u64, end: u64) -> Result<Vec<(u64, u64)>>;
    /// How often pages may have left files, counted before they do. The number of a page is right while this is the
    /// same as before the question, and from then on as long as the page stays mapped.
    fn cuts(&self) -> u64;
    /// Makes the tables on the way to an address this process's own, so that counts of references are those of pages.
    fn prepare(&mut self, address: u64) -> Result<()>;
    /// In the middle of long work, which no other thread sees: gives the CPU away if the slice is over.
    fn give_way(&mut self) {}
    /// A handle to a file is kept as long as areas name it: one more, or one less.
    fn hold_file(&mut self, node: u64, hold: bool);
}

/// What was tried at an address that faulted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A load.
    Read,
    /// A store.
    Write,
    /// An instruction fetch.
    Execute,
}

impl Access {
    const fn needs(self) -> Protection {
        match self {
            Self::Read => Protection(7),
            Self::Write => Protection::WRITE,
            Self::Execute => Protection::EXECUTE,
        }
    }
}

/// Bytes that stay free below what grows down, so that it does not grow into what lies there.
const STACK_GAP: u64 = 256 * PAGE_SIZE;
/// Pages that are taken out at once where many go: the rows for them lie on the heap, of which there may be no more.
const DROPPED_AT_ONCE: usize = 4096;
/// Areas that one piece of work changes, at most: some 100 microseconds of it. Work on tens of thousands of areas takes
/// longer than the kernel lets a process keep its CPU.
const AREAS_AT_ONCE: usize = 256;
/// Areas at most that a program may have (`/proc/sys/vm/max_map_count`).
pub const MOST_AREAS: usize = 65530;
/// Pages at most that a child gets copies of when it is made.
pub const COPIED_AT_FORK: usize = 6;
/// Ranges of the pages of files at most that a child gets when it is made, if it does not get all.
pub const TOUCHED_AT_FORK: usize = 16;

/// Why a fault cannot be resolved: what Linux would make a signal of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultError {
    /// Nothing is mapped there: SIGSEGV, SEGV_MAPERR.
    NotMapped,
    /// The area does not allow it: SIGSEGV, SEGV_ACCERR.
    NotAllowed,
    /// Past the end of the file: SIGBUS, BUS_ADRERR.
    PastEnd,
    /// No memory: Linux would kill.
    OutOfMemory,
}

/// How much memory a program may have, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimits {
    /// In all areas.
    pub all: u64,
    /// In those that are its own to write.
    pub data: u64,
    /// In its stack.
    pub stack: u64,
    /// In memory of its own to write that it asks for at once: the machine has no more.
    pub at_once: u64,
}

impl Default for MemoryLimits {
    fn default() -> Self {
        Self { all: u64::MAX, data: u64::MAX, stack: STACK_BYTES, at_once: u64::MAX }
    }
}

/// The memory of one program.
#[derive(Clone, Debug, Default)]
pub struct AddressSpace {
    /// What each address means.
    pub areas: VmaList,
    /// Which page lies where.
    pub frames: PageRecord,
    /// Where the heap of `brk` begins, and where it ends now.
    pub brk: (u64, u64),
    /// How much there may be.
    pub room: MemoryLimits,
    /// What it adds to the generations of its parts.
    generation: u64,
    /// Pages that were shared by a fork and written then, the last first.
    written: Vec<u64>,
    /// Where pages of files were touched after a fork: ranges of [`TOGETHER`] pages, the last first.
    touched: Vec<u64>,
    /// Stubs of rewritten calls that are not used yet: first address, and first address after the last.
    stubs: Vec<(u64, u64)>,
    /// Journal of what a child writes, where its memory will become its parent's; none where it is the child's own.
    journal: Option<WriteLog>,
    /// Where fresh pages were touched last.
    pub(crate) walk: SequentialDetector,
    /// Where pages that others may see were written last.
    pub(crate) copied: SequentialDetector,
    /// Where files are mapped whose working set is there, the latest last.
    pub(crate) warm: Vec<Range<u64>>,
    /// A copy of another space that lacks the pages of files: it is not known which of them it needs.
    pub(crate) is_copy: bool,
    /// Zeros come a page at a time, for a replaced page policy that counts them.
    pub one_at_a_time: bool,
    /// What is mapped from now on is locked.
    pub locks_new: bool,
    /// Some areas are locked, or not for a child as they are.
    pub(crate) has_marks: bool,
    /// Files that are held for the areas that are going to show them.
    pub held: Vec<u64>,
    /// What the program gave up by `MADV_FREE`.
    pub(crate) lazily_freed: LazilyFreed,
    /// Pages that `mremap` cut from shared memory.
    pub cut: Vec<CutPages>,
}

impl AddressSpace {
    /// Resolves a fault, or says why it cannot.
    pub fn fault(
        &mut self,
        pages: &mut impl PageOps,
        address: u64,
        access: Access,
    ) -> core::result::Result<(), FaultError> {
        let area = match self.areas.find(address) {
            Some(area) => *area,
            None => self.grow_stack(address).ok_or(FaultError::NotMapped)?,
        };
        if area.protection.0 & access.needs().0 == 0 {
            return Err(FaultError::NotAllowed);
        }
        let page_address = address & PAGE_MASK;
        if access == Access::Write && !area.shared {
            self.note_in_journal(pages, &area, page_address);
        }
        match self.frames.scan(page_address, READAHEAD) {
            (0, missing) => self.fill(pages, &area, page_address, access == Access::Write, missing),
            (old, _) if is_of_file_and_hidden(&area, old) => {
                self.frames.set(page_address, 0);
                self.fill(pages, &area, page_address, access == Access::Write, 1)
            }
            (old, _) if access == Access::Write && old & COPY_ON_WRITE != 0 => {
                self.unshare(pages, &area, page_address, old)
            }
            (old, _) => self.put(pages, page_address, old),
        }
    }

    /// Forgets the pages of files, in the copy for a child, but for those that [`Self::files_for_child`] gave it:
    /// they come again when they are wanted.
    pub fn forget_files(&mut self) {
        self.frames.forget_files(&self.touched);
        self.is_copy = true;
    }

    /// The pages of files that a child is given when it is made: all, or those that children before it touched.
    pub fn files_for_child(&self, all: bool) -> impl Iterator<Item = MapRow> {
        const EVERYTHING: [(u64, u64); 1] = [(0, u64::MAX >> 1)];
        let touched = self.touched.iter().map(|range| (*range, *range + TOGETHER * PAGE_SIZE));
        let ranges = EVERYTHING.into_iter().filter(move |_| all).chain(touched.filter(move |_| !all));
        let found = ranges.flat_map(|(start, end)| self.frames.of_files_within(start, end));
        found.filter(|(_, entry)| entry & PRESENT != 0).map(|(address, entry)| MapRow { address, entry })
    }

    /// From now on it is noted what is written, or no longer.
    pub fn keep_journal(&mut self, keep: bool) {
        self.journal = keep.then(WriteLog::default);
    }

    pub(crate) const fn keeps_journal(&self) -> bool {
        self.journal.is_some()
    }

    /// What has been written since the journal began; it ends here.
    pub fn end_journal(&mut self, pages: &mut impl PageOps) -> Vec<Change> {
        let Some(journal) = self.journal.take() else { return Vec::new() };
        let there = |page: &u64| Some((*page, self.frames.get(*page))).filter(|(_, entry)| *entry != 0);
        let written: Vec<(u64, u64)> = journal.pages().iter().filter_map(there).collect();
        let mut changed = |(page, entry)| pages.read(page_of(entry)).map(|now| journal.changes(page, &now));
        written.into_iter().filter_map(|one| changed(one).ok()).flatten().collect()
    }

    /// Before the first write to a page.
    fn note_in_journal(&mut self, pages: &mut impl PageOps, area: &Vma, page_address: u64) {
        if self.journal.as_ref().is_none_or(|journal| journal.has(page_address)) {
            return;
        }
        if self.frames.get(page_address) == 0 && matches!(area.backing, Backing::File { .. }) {
            // What the file has there is mapped first: only then does it stay.
            let _ = self.fill(pages, area, page_address, false, 1);
        }
        let entry = self.frames.get(page_address);
        let page = (entry != 0).then(|| page_of(entry));
        let contents = page.map_or(Ok(Vec::new()), |page| pages.read(page));
        if let (Some(journal), Ok(contents)) = (&mut self.journal, contents) {
            journal.note(page_address, contents);
        }
    }

    /// Puts an area in; what lay there goes. The file behind it is held.
    pub fn map(&mut self, pages: &mut impl PageOps, area: Vma) -> Result<()> {
        let node = area.node();
        // A library's parts are mapped over the whole of it: its file is held all the time.
        let unheld = node.filter(|node| !self.names(*node));
        if !self.areas.is_free(area.start, area.end) {
            self.take_away(pages, area.start..area.end, node)?;
        }
        if let Some(node) = unheld {
            match self.held.iter().position(|held| *held == node) {
                Some(place) => drop(self.held.swap_remove(place)),
                None => pages.hold_file(node, true),
            }
        }
        self.has_marks |= area.locked || area.at_fork != AtFork::default();
        self.areas.insert(area);
        Ok(())
    }

    /// An unused place of `bytes` bytes for a stub within `reach` of `address`.
    pub fn take_stub(&mut self, pages: &mut impl PageOps, address: u64, reach: u64, bytes: u64) -> Result<u64> {
        let near = |(next, end): &&mut (u64, u64)| next.abs_diff(address) < reach - PAGE_SIZE && *end - *next >= bytes;
        if let Some((next, _)) = self.stubs.iter_mut().find(near) {
            *next += bytes;
            return Ok(*next - bytes);
        }
        let start = self.areas.find_near(address, PAGE_SIZE, reach).ok_or(Errno::ENOMEM)?;
        let readable = Protection(Protection::READ.0 | Protection::EXECUTE.0);
        let area = Vma { backing: Backing::Library, ..Vma::anonymous(start, start + PAGE_SIZE, readable) };
        let page = pages.allocate()?;
        self.put(pages, start, entry_for(&area, page, 0)).map_err(|_| Errno::ENOMEM)?;
        self.areas.insert(area);
        self.stubs.push((start + bytes, start + PAGE_SIZE));
        Ok(start)
    }

    /// Puts other contents into a page of the program, whatever the program may do with it: a fresh copy, in place by
    /// one remap.
    pub fn replace_page(&mut self, pages: &mut impl PageOps, address: u64, contents: &[u8]) -> Result<()> {
        let area = *self.areas.find(address).ok_or(Errno::EFAULT)?;
        let old = self.frames.get(address);
        let copy = pages.allocate()?;
        pages.fill(copy, contents)?;
        self.put(pages, address, entry_for(&area, copy, 0)).map_err(|_| Errno::ENOMEM)?;
        if old != 0 {
            pages.release(&[page_of(old)]);
        }
        Ok(())
    }

    /// Changes bytes of a page that belongs to the library.
    pub fn replace_bytes(&mut self, pages: &mut impl PageOps, address: u64, bytes: &[u8]) -> Result<()> {
        let page = address & PAGE_MASK;
        let mut contents = pages.read(page_of(self.frames.get(page)))?;
        let at = (address - page) as usize;
        contents[at..at + bytes.len()].copy_from_slice(bytes);
        self.replace_page(pages, page, &contents)
    }

    /// Takes everything between two addresses away.
    pub fn unmap(&mut self, pages: &mut impl PageOps, start: u64, end: u64) -> Result<()> {
        if self.areas.is_free(start, end) {
            return Ok(());
        }
        self.take_away(pages, start..end, None)?;
        if !self.cut.is_empty() {
            self.drop_cut(pages);
        }
        Ok(())
    }

    /// Takes areas away with what lies there. Files that no area shows then are no longer held, but for `kept`.
    fn take_away(&mut self, pages: &mut impl PageOps, range: Range<u64>, kept: Option<u64>) -> Result<()> {
        self.by_parts(pages, range, |space, pages, start, end| {
            let gone = space.vacate(pages, start, end, kept)?;
            space.areas.remove(start, end);
            gone.into_iter().for_each(|node| pages.hold_file(node, false));
            Ok(())
        })
    }

    /// Does something to all areas of a range, from its beginning on, and gives way in between.
    pub(crate) fn by_parts<P: PageOps>(
        &mut self,
        pages: &mut P,
        range: Range<u64>,
        mut action: impl FnMut(&mut Self, &mut P, u64, u64) -> Result<()>,
    ) -> Result<()> {
        let mut start = range.start;
        loop {
            // As many pages have no more areas.
            let is_short = range.end - start <= AREAS_AT_ONCE as u64 * PAGE_SIZE;
            let next = if is_short { None } else { self.areas.parts(start, range.end).nth(AREAS_AT_ONCE) };
            let end = next.map_or(range.end, |area| area.start);
            action(self, pages, start, end)?;
            if end == range.end {
                return Ok(());
            }
            pages.give_way();
            start = end;
        }
    }

    /// Takes what lies between two addresses away, but for the areas, which go next. The files, but `kept`, that no
    /// area shows then.
    fn vacate(&mut self, pages: &mut impl PageOps, start: u64, end: u64, kept: Option<u64>) -> Result<Vec<u64>> {
        self.lazily_freed.forget(start, end);
        if self.frames.has_any(start, end) {
            self.drop_pages(pages, start, end)?;
        }
        self.forget_warm(start, end);
        self.stubs.retain(|(_, stub_end)| *stub_end <= start || *stub_end > end);
        let reaches_out = |area: &Vma| area.start < start || end < area.end;
        let is_elsewhere = |node| self.areas.iter().any(|area| area.node() == Some(node) && reaches_out(area));
        let mut shown = each_once(self.areas.parts(start, end).filter_map(|part| part.node()));
        shown.retain(|node| kept != Some(*node) && !is_elsewhere(*node));
        Ok(shown)
    }

    /// Takes the pages away and leaves the areas: their contents are as at the beginning.
    pub fn drop_pages(&mut self, pages: &mut impl PageOps, start: u64, end: u64) -> Result<()> {
        // By parts, so that it takes little memory however much goes.
        loop {
            let some = self.frames.within(start, end).take(DROPPED_AT_ONCE);
            let rows: Vec<MapRow> = some.map(|(address, _)| MapRow { address, entry: 0 }).collect();
            let Some(last) = rows.last() else { return Ok(()) };
            // To change tables that relatives share takes memory: what is still recorded when there is none comes
            // back with a fault.
            pages.map(&rows).inspect_err(|_| self.hide_files(&rows))?;
            let gone = self.frames.take(start, last.address + PAGE_SIZE);
            let gone: Vec<u64> = gone.into_iter().map(|(_, entry)| page_of(entry)).collect();
            pages.release(&gone);
            pages.give_way();
        }
    }

    /// Records that pages of files may not be mapped: some of these rows were changed, and then there was no memory.
    pub(crate) fn hide_files(&mut self, rows: &[MapRow]) {
        for address in rows.iter().map(|row| row.address) {
            let entry = self.frames.get(address) & !PRESENT;
            if self.areas.find(address).is_some_and(|area| is_of_file_and_hidden(area, entry)) {
                self.frames.set(address, entry);
            }
        }
    }

    /// Changes what may be done, up to the first gap and up to the first area that may not have it.
    pub fn protect(&mut self, pages: &mut impl PageOps, start: u64, end: u64, protection: Protection) -> Result<()> {
        self.by_parts(pages, start..end, |space, pages, start, end| space.protect_part(pages, start, end, protection))
    }

    fn protect_part(&mut self, pages: &mut impl PageOps, start: u64, end: u64, protection: Protection) -> Result<()> {
        let mut room = self.room.data.saturating_sub(self.data_bytes());
        let outcome = self.areas.change(start, end, |area| {
            area.check(protection)?;
            let becomes_data = !area.is_data() && Vma { protection, ..*area }.is_data();
            if becomes_data {
                room = room.checked_sub(area.bytes()).ok_or(Errno::ENOMEM)?;
            }
            area.protection = protection;
            Ok(())
        });
        if protection == Protection::NONE {
            self.own_hidden(pages, start, end)?;
        }
        let mut rows = Vec::with_capacity(((end - start) / PAGE_SIZE).min(CHUNK_PAGES) as usize);
        for area in self.areas.parts(start, end) {
            let there = self.frames.within(area.start, area.end);
            for (address, old) in there.filter(|(_, old)| !is_of_file_and_hidden(&area, *old)) {
                let entry = entry_for(&area, page_of(old), old & (COPY_ON_WRITE | SHARED | FROM_FILE));
                if entry != old {
                    rows.push(MapRow { address, entry });
                }
            }
        }
        pages.map(&rows)?;
        self.frames.set_rows(&rows);
        outcome
    }

    /// What is borrowed and may not be read from now on is this process's own.
    fn own_hidden(&mut self, pages: &mut impl PageOps, start: u64, end: u64) -> Result<()> {
        let hidden = self.areas.parts(start, end).filter(|area| area.protection == Protection::NONE);
        let entries: Vec<(u64, u64)> = hidden.flat_map(|area| self.frames.within(area.start, area.end)).collect();
        entries.into_iter().try_for_each(|(address, old)| self.own(pages, address, old).map(|_| ()))
    }

    /// Bytes that the program has for itself to write; 0 where they are not limited.
    fn data_bytes(&self) -> u64 {
        match self.room.data {
            u64::MAX => 0,
            _ => self.areas.iter().filter(|area| area.is_data()).map(Vma::bytes).sum(),
        }
    }

    /// Makes every private page that may be written a copy-on-write page, so that a child can have it too, but for
    /// those in `kept`, of which the child gets copies. `tell` is told of every page then that is not a file's.
    pub fn share_for_fork(
        &mut self,
        pages: &mut impl PageOps,
        kept: &[u64],
        mut tell: impl FnMut(u64, u64),
    ) -> Result<()> {
        self.fill_shared(pages)?;
        self.lazily_freed.clear();
        let mut rows = Vec::new();
        // Those of files are as they are to be.
        self.frames.for_each_own(|address, entry| {
            let old = *entry;
            if old & SHARED == 0 && !kept.contains(&address) {
                *entry = old & !WRITE | COPY_ON_WRITE;
                // What cannot be written needs no edit, only the note that it is shared from now on.
                if old & WRITE != 0 {
                    rows.push(MapRow { address, entry: *entry });
                }
            }
            tell(address, *entry);
        });
        pages.map(&rows).inspect_err(|_| {
            for row in &rows {
                self.frames.set(row.address, row.entry & !COPY_ON_WRITE | WRITE);
            }
        })
    }

    /// Pages of its own that it may write now, those that it borrows among them.
    pub fn writable(&self) -> Vec<u64> {
        let all = self.frames.all().into_iter();
        let is_writable = |(_, entry): &(u64, u64)| entry & (PRESENT | WRITE | SHARED) == PRESENT | WRITE;
        all.filter(is_writable).map(|(address, _)| address).collect()
    }

    /// Pages that were written soon after a fork, by this process or by a child of it. Only pages that are its own
    /// and that it may write count: they will be written soon again. They are copied when a child is made. What is a
    /// file's still a child finds there, if it gets it at all.
    pub fn written_after_fork(&self) -> Vec<u64> {
        let may_write = |page: &u64| {
            let area = self.areas.find(*page);
            area.is_some_and(|area| !area.shared && area.protection.allows(Protection::WRITE))
        };
        let is_there = |page: &u64| self.frames.get(*page) & (PRESENT | FROM_FILE) == PRESENT;
        self.written.iter().copied().filter(|page| may_write(page) && is_there(page)).collect()
    }

    /// Pages that a fork had shared and that were written since, the last first.
    pub fn written(&self) -> &[u64] {
        &self.written
    }

    /// Ranges of the pages of files that were touched since a fork that had left them out, the last first.
    pub fn touched(&self) -> &[u64] {
        &self.touched
    }

    /// Memory that is shared on purpose and has no file behind it: its pages must be there before a child sees it.
    fn fill_shared(&mut self, pages: &mut impl PageOps) -> Result<()> {
        let shared = |area: &&Vma| area.shared && area.backing == Backing::Anonymous;
        let areas: Vec<Vma> = self.areas.iter().filter(shared).copied().collect();
        for area in areas {
            for address in (area.start..area.end).step_by(PAGE_SIZE as usize) {
                if self.frames.get(address) == 0 {
                    self.fill(pages, &area, address, true, 1).map_err(|_| Errno::ENOMEM)?;
                }
                pages.give_way();
            }
        }
        Ok(())
    }

    /// Whether the program may have `bytes` more bytes like those of an area.
    ///
    /// # Errors
    /// `ENOMEM` where that is too much.
    pub fn check_room(&self, area: &Vma, bytes: u64) -> Result<()> {
        let exceeds = |most: u64, there: u64| most != u64::MAX && there.saturating_add(bytes) > most;
        let too_much = self.room.all != u64::MAX && exceeds(self.room.all, self.areas.bytes())
            || area.is_data() && exceeds(self.room.data, self.data_bytes())
            || self.areas.count() >= MOST_AREAS;
        if too_much { Err(Errno::ENOMEM) } else { Ok(()) }
    }

    /// Whether there could be so many more bytes of an area's, if it is memory of its own.
    ///
    /// # Errors
    /// `ENOMEM` where no machine has as many.
    pub const fn check_commitment(&self, area: &Vma, more: u64) -> Result<()> {
        if area.is_data() && more > self.room.at_once { Err(Errno::ENOMEM) } else { Ok(()) }
    }

    /// `brk`: moves the end of the heap; the result is where it is afterwards.
    pub fn move_brk(&mut self, pages: &mut impl PageOps, wanted: u64) -> u64 {
        let (start, end) = self.brk;
        let (Some(old_top), Some(new_top)) = (page_up(end), page_up(wanted)) else { return end };
        if wanted < start || wanted > linux_abi::address_map::MMAP_TOP {
            return end;
        }
        if new_top > old_top {
            if !self.areas.is_free(old_top, new_top + PAGE_SIZE) {
                return end;
            }
            let locked = self.locks_new;
            let area = Vma { locked, ..Vma::anonymous(old_top, new_top, Protection::READ_WRITE) };
            if self.check_room(&area, area.bytes()).and(self.check_commitment(&area, area.bytes())).is_err() {
                return end;
            }
            self.areas.insert(area);
            if locked {
                self.has_marks = true;
                let _ = self.bring_locked(pages, old_top, new_top);
            }
        } else if new_top < old_top && self.unmap(pages, new_top, old_top).is_err() {
            return end;
        }
        self.brk.1 = wanted;
        wanted
    }

    /// Copies what the process has for itself of pages that `is_foreign` says are another process's.
    pub fn own_all(&mut self, pages: &mut impl PageOps, is_foreign: impl Fn(u64) -> bool) -> Result<()> {
        let all: Vec<(u64, u64)> = self.frames.within(0, u64::MAX >> 1).collect();
        let private = all.into_iter().filter(|(_, entry)| entry & (SHARED | FROM_FILE) == 0);
        for (address, old) in private.filter(|(_, entry)| is_foreign(page_of(*entry))) {
            let Some(area) = self.areas.find(address).copied() else { continue };
            let mut copy = [page_of(old)];
            pages.allocate_copies(&mut copy)?;
            let entry = entry_for(&area, copy[0], 0);
            pages.map(&[MapRow { address, entry }])?;
            self.frames.set(address, entry);
            pages.release(&[page_of(old)]);
        }
        Ok(())
    }

    /// Takes out the pages of files: they come again when they are wanted.
    pub fn let_go_of_files(&mut self, pages: &mut impl PageOps) -> Result<()> {
        let is_file = |address: u64, entry: u64| {
            let is_shown = |area: &Vma| matches!(area.backing, Backing::File { .. });
            entry & FROM_FILE != 0 || entry & SHARED != 0 && self.areas.find(address).is_some_and(is_shown)
        };
        let all = self.frames.within(0, u64::MAX >> 1).filter(|(address, entry)| is_file(*address, *entry));
        let rows: Vec<MapRow> = all.map(|(address, _)| MapRow { address, entry: 0 }).collect();
        pages.map(&rows)?;
        rows.iter().for_each(|row| _ = self.frames.set(row.address, 0));
        Ok(())
    }

    /// Entries of pages that are shared on purpose.
    pub fn shared_frames(&self) -> impl Iterator<Item = u64> {
        self.frames.within(0, u64::MAX >> 1).map(|(_, entry)| entry).filter(|entry| entry & SHARED != 0)
    }

    /// The files that areas show, each once.
    pub fn files(&self) -> Vec<u64> {
        each_once(self.areas.iter().filter_map(Vma::node))
    }

    /// Whether an area shows a file.
    fn names(&self, wanted: u64) -> bool {
        self.areas.iter().any(|area| area.node() == Some(wanted))
    }

    /// The stack, grown down to `address`, if that is where it grows.
    fn grow_stack(&mut self, address: u64) -> Option<Vma> {
        let next = *self.areas.iter().find(|area| area.start > address)?;
        let start = address & PAGE_MASK;
        let too_large =
            next.end - start > self.room.stack.min(STACK_MOST) || self.check_room(&next, next.start - start).is_err();
        let below = self.areas.last_below(next.start);
        let too_close = below.is_some_and(|area| {
            let is_guard = area.protection == Protection::NONE || area.grows;
            area.end > start || !is_guard && start - area.end < STACK_GAP
        });
        if !next.grows || too_large || too_close {
            return None;
        }
        self.areas.grow_down(next.start, start);
        self.areas.find(address).copied()
    }

    /// A number that is another one when a child would begin with other pages, or hold them otherwise.
    pub const fn generation(&self) -> u64 {
        self.generation + self.areas.generation() + self.frames.generation()
    }

    /// What follows in its process, with nothing in it yet.
    pub fn successor(&self) -> Self {
        Self { generation: self.generation() + 1, ..Self::default() }
    }

    /// A page was written that a fork had shared.
    pub fn note_written(&mut self, address: u64) {
        self.generation += u64::from(note(&mut self.written, address, COPIED_AT_FORK));
    }

    /// A page of a file was touched that a fork had left out, or a neighbour of one. The child that reports it may
    /// lie.
    pub fn note_touched(&mut self, address: u64) {
        if address < PROGRAM_END {
            let range = address & !(TOGETHER * PAGE_SIZE - 1);
            self.generation += u64::from(note(&mut self.touched, range, TOUCHED_AT_FORK));
        }
    }

    pub(crate) fn put(
        &mut self,
        pages: &mut impl PageOps,
        address: u64,
        entry: u64,
    ) -> core::result::Result<(), FaultError> {
        pages.map(&[MapRow { address, entry }]).map_err(|_| FaultError::OutOfMemory)?;
        self.frames.set(address, entry);
        Ok(())
    }
}

/// The rows for pages in a row from an address on, but for those whose entry is 0.
#[inline]
pub fn run(start: u64, entries: &[u64]) -> impl Iterator<Item = MapRow> {
    let rows = (start..).step_by(PAGE_SIZE as usize).zip(entries);
    rows.filter(|(_, entry)| **entry != 0).map(|(address, entry)| MapRow { address, entry: *entry })
}

/// Files, each once.
fn each_once(nodes: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut nodes: Vec<u64> = nodes.collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

/// Puts an address at the beginning of a list of so many at most; whether it was not there.
fn note(list: &mut Vec<u64>, address: u64, most: usize) -> bool {
    let mut before = address;
    for place in &mut *list {
        before = core::mem::replace(place, before);
        if before == address {
            return false;
        }
    }
    if list.len() < most {
        list.push(before);
    }
    true
}

/// Whether an entry is that of a file's page which may not be mapped. Such a page may have left its file.
const fn is_of_file_and_hidden(area: &Vma, entry: u64) -> bool {
    matches!(area.backing, Backing::File { .. }) && entry & (FROM_FILE | SHARED) != 0 && entry & PRESENT == 0
}

/// The entry for a page in an area.
pub(crate) fn entry_for(area: &Vma, page: u64, held: u64) -> u64 {
    let write = area.protection.allows(Protection::WRITE) && held & COPY_ON_WRITE == 0;
    let readable = area.protection != Protection::NONE;
    let entry = entry(page, write, area.protection.allows(Protection::EXECUTE), held);
    // What may not even be read stays recorded, with its page number, but is not present.
    if readable { entry } else { entry & !PRESENT }
}

/// The bytes of a `mmap`, rounded up: `EINVAL` for none, `ENOMEM` for too many.
pub fn rounded(bytes: u64) -> Result<u64> {
    if bytes == 0 {
        return Err(Errno::EINVAL);
    }
    page_up(bytes).filter(|bytes| *bytes <= linux_abi::address_map::PROGRAM_END).ok_or(Errno::ENOMEM)
}
