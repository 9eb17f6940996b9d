//! Allocating physical pages, by number, under an access list (DESIGN.md §4, Page).

use crate::area;
use crate::critical_section;
use crate::exposed;
use crate::syscall::{self, BatchRow, number};
use abi::limits::{BATCH_ROWS, MAP_ROWS, PAGE_SIZE};
pub use abi::page::{PageInfo, PageKind};
use abi::page_table::{MapRow, PAGE};
use abi::{Error, Failure, KeyIndex, PageNumber, UserAddress};
use core::mem::MaybeUninit;
use core::sync::atomic::Ordering::Relaxed;

/// Pages that are supplied together at most by [`Allocator::supply_run`].
pub const FEW: usize = 8;

/// Where pages come from: who asks, and the access list that the pages are put under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocator {
    /// Key with the right to own what is under the list.
    pub key: KeyIndex,
    /// The access list.
    pub list: PageNumber,
}

/// The page number in an entry.
const fn page_of(entry: u64) -> PageNumber {
    PageNumber((entry & PAGE) >> 12)
}

/// Calls for a page that is short before the caller yields.
const CALLS_A_YIELD: u32 = 32;

/// The kernel asked an environment for pages, and that one needs the CPU to give them back. Past the deadline each call
/// is a step of taking by force, and a page takes some fifteen. So the caller does not yield after each: where others
/// compute, a step would cost a round of slices.
#[cold]
#[inline(never)]
fn let_give_back(calls: &mut u32) {
    *calls += 1;
    if calls.is_multiple_of(CALLS_A_YIELD) {
        crate::time_slice::yield_now();
    }
}

/// Makes an unmapped page an access list whose first entry is the name of `source`, with all rights.
///
/// # Errors
/// The kernel's refusals of `page_become`.
pub fn become_list(key: KeyIndex, page: PageNumber, source: KeyIndex) -> Result<(), Failure> {
    become_object(key, page, PageKind::AccessList, source.0)
}

/// Makes an unmapped page the root of a new, empty address space.
///
/// # Errors
/// The kernel's refusals of `page_become`.
pub fn become_root(key: KeyIndex, page: PageNumber) -> Result<(), Failure> {
    become_object(key, page, PageKind::PageTable, ROOT_LEVEL)
}

/// Makes an unmapped page one of software regions, empty and nameless.
///
/// # Errors
/// The kernel's refusals of `page_become`.
pub fn become_regions(key: KeyIndex, page: PageNumber) -> Result<(), Failure> {
    become_object(key, page, PageKind::Region, 0)
}

/// Level of a root.
const ROOT_LEVEL: u64 = 4;

fn become_object(key: KeyIndex, page: PageNumber, kind: PageKind, argument: u64) -> Result<(), Failure> {
    // SAFETY: for these kinds the kernel reads no memory, and the page is mapped nowhere.
    unsafe { syscall::page_become(key, page, kind as u64, argument) }
}

/// One call of the kernel's: any page ([`PageNumber::NONE`]) or this very one, zeroed.
///
/// # Errors
/// The kernel's refusals of `page_allocate`.
#[inline]
pub fn allocate_one(key: KeyIndex, list: PageNumber, page: PageNumber) -> Result<PageNumber, Failure> {
    let wanted = if page == PageNumber::NONE { 0 } else { page.0 << 12 };
    let mut row = MapRow { address: wanted, entry: PageNumber::NONE.address() };
    let at = UserAddress(&raw mut row as u64);
    // SAFETY: the kernel reads and writes one row, and maps nothing.
    unsafe { syscall::page_allocate(key, list, KeyIndex::WELL_KNOWN, PageNumber::NONE, at, 1) }?;
    Ok(page_of(row.entry))
}

impl Allocator {
    /// Pages under the access list of the running environment.
    pub fn own() -> Self {
        Self { key: KeyIndex::FIRST, list: area::access_list() }
    }

    /// Any page, zeroed.
    ///
    /// # Errors
    /// The kernel's refusals of `page_allocate`.
    pub fn allocate(self) -> Result<PageNumber, Failure> {
        self.allocate_this(PageNumber::NONE)
    }

    /// This very page, zeroed.
    ///
    /// # Errors
    /// The kernel's refusals of `page_allocate`.
    pub fn allocate_this(self, page: PageNumber) -> Result<PageNumber, Failure> {
        let mut calls = 0;
        loop {
            match allocate_one(self.key, self.list, page) {
                Err(Failure { error: Error::Again, .. }) => let_give_back(&mut calls),
                done => return done,
            }
        }
    }

    /// As many pages as `pages` has places, or none.
    ///
    /// # Errors
    /// The refusal of the first page that could not be had; those before it are free again.
    pub fn allocate_many(self, pages: &mut [PageNumber]) -> Result<(), Failure> {
        pages.fill(PageNumber::NONE);
        self.copy_many(self.key, pages)
    }

    /// A page for each, with its contents, whose number takes its place; or none, and then the numbers say
    /// nothing. `key` may read them. [`PageNumber::NONE`] stands for zeros.
    ///
    /// # Errors
    /// As for [`Self::allocate_many`].
    pub fn copy_many(self, key: KeyIndex, pages: &mut [PageNumber]) -> Result<(), Failure> {
        let mut done = 0;
        while done < pages.len() {
            let mut rows = Rows::<MapRow, BATCH_ROWS>::new();
            let rows = rows.fill(pages[done..].iter().map(|page| MapRow { address: key.0, entry: page.address() }));
            // SAFETY: nothing is mapped.
            let (count, ended) = unsafe { self.supply(None, rows) };
            let places = pages[done..].iter_mut().zip(&rows[..count]);
            places.for_each(|(page, row)| *page = page_of(row.entry));
            done += count;
            if let Err(failure) = ended {
                self.free_many(&pages[..done]);
                return Err(failure);
            }
            // A caller that takes a hundred thousand pages in one critical section would be taken for one that keeps
            // the CPU.
            critical_section::give_way();
        }
        Ok(())
    }

    /// A page with the contents of another that `key` may read.
    ///
    /// # Errors
    /// The kernel's refusals of `page_allocate`.
    pub fn copy(self, key: KeyIndex, page: PageNumber) -> Result<PageNumber, Failure> {
        let mut copy = [page];
        self.copy_many(key, &mut copy)?;
        Ok(copy[0])
    }

    /// A fresh page for each row, which begins with what is in the page that the row names, or with zeros, and whose
    /// number takes the place of that one's. Each is mapped as its row says in an address space, which is opened by a
    /// key. How many rows were done, and what was wrong with the next one.
    ///
    /// # Safety
    /// No live object of the running program changes place, disappears, or becomes one that others write.
    #[inline(always)]
    pub unsafe fn supply(
        self,
        space: Option<(KeyIndex, PageNumber)>,
        rows: &mut [MapRow],
    ) -> (usize, Result<(), Failure>) {
        // SAFETY: as the caller says.
        match unsafe { self.supply_some(space, rows) } {
            Ok(done) if done == rows.len() => (done, Ok(())),
            // SAFETY: as the caller says.
            some => unsafe { self.supply_rest(space, rows, some) },
        }
    }

    /// One call of the kernel's.
    ///
    /// # Safety
    /// As for [`Self::supply`].
    #[inline(always)]
    unsafe fn supply_some(self, space: Option<(KeyIndex, PageNumber)>, rows: &mut [MapRow]) -> Result<usize, Failure> {
        let (root_key, root) = space.unwrap_or((KeyIndex::WELL_KNOWN, PageNumber::NONE));
        let (at, count) = (UserAddress(rows.as_mut_ptr() as u64), rows.len().min(MAP_ROWS) as u64);
        // SAFETY: the rows are ours alone, as many as we say, and the caller answers for what is mapped.
        unsafe { syscall::page_allocate(self.key, self.list, root_key, root, at, count) }.map(|done| done as usize)
    }

    /// The rows that are left after a first call.
    ///
    /// # Safety
    /// As for [`Self::supply`].
    #[cold]
    unsafe fn supply_rest(
        self,
        space: Option<(KeyIndex, PageNumber)>,
        rows: &mut [MapRow],
        first: Result<usize, Failure>,
    ) -> (usize, Result<(), Failure>) {
        let (mut done, mut outcome, mut calls) = (0, first, 0);
        loop {
            match outcome {
                Ok(more) => done += more,
                Err(Failure { error: Error::Again, detail: 0 }) => let_give_back(&mut calls),
                Err(Failure { error: Error::Again, detail }) => done += detail as usize,
                Err(Failure { error, detail }) => return (done + detail as usize, Err(error.about(detail))),
            }
            if done == rows.len() {
                return (done, Ok(()));
            }
            // SAFETY: as the caller says.
            outcome = unsafe { self.supply_some(space, &mut rows[done..]) };
        }
    }

    /// The same for pages in a row from an address on, a few, with `entries` in the place of rows. The key of each is
    /// the space's.
    ///
    /// # Safety
    /// As for [`Self::supply`].
    #[inline(always)]
    pub unsafe fn supply_run(
        self,
        (key, root): (KeyIndex, PageNumber),
        start: u64,
        entries: &mut [u64],
    ) -> (usize, Result<(), Failure>) {
        let mut rows = Rows::<MapRow, FEW>::new();
        let addresses = (start | key.0..).step_by(PAGE_SIZE as usize);
        let rows = rows.fill(addresses.zip(&*entries).map(|(address, entry)| MapRow { address, entry: *entry }));
        // SAFETY: as the caller says.
        let (done, ended) = unsafe { self.supply(Some((key, root)), rows) };
        entries.iter_mut().zip(&rows[..done]).for_each(|(entry, row)| *entry = row.entry);
        (done, ended)
    }

    /// Gives a page up. A table that nothing leads to is emptied in several steps of the kernel's.
    ///
    /// # Errors
    /// The kernel's refusals of `page_free`.
    pub fn free(self, page: PageNumber) -> Result<(), Failure> {
        loop {
            match syscall::page_free(self.key, page) {
                Err(Failure { error: Error::Again, .. }) => {}
                done => return done,
            }
        }
    }

    /// Gives a page up and ends every use of it by any environment, so that none is charged for what others keep. The
    /// first to do is to take them off the access list: who may map the page may map it again meanwhile.
    ///
    /// # Errors
    /// The kernel's refusals of `page_free` and `page_unbind`; `InUse` when it is in use again at the end.
    ///
    /// # Safety
    /// No object of the program lies in the page.
    pub unsafe fn free_by_force(self, page: PageNumber) -> Result<(), Failure> {
        let is_left = || exposed::page(page).is_some_and(|info| info.is_orphan() && info.access() == self.list);
        if !is_left() {
            self.free(page)?;
        }
        // Whatever leads to an entry is reached from a table that nothing leads to.
        let is_top = |table: &PageNumber| {
            exposed::page(*table)
                .is_some_and(|info| info.kind() == PageKind::PageTable && (info.level() == 4 || info.links() == 0))
        };
        for table in (0..exposed::kernel().pages.load(Relaxed)).map(PageNumber).filter(is_top) {
            let mut cursor = 0;
            while is_left() {
                // SAFETY: as the caller says.
                match unsafe { syscall::page_unbind(self.key, page, table, UserAddress(cursor)) } {
                    Err(Failure { error: Error::Again, detail }) => cursor = detail,
                    Ok(()) => break,
                    Err(_) if !is_left() || !is_top(&table) => break,
                    refused => return refused,
                }
            }
        }
        if is_left() { Err(Error::InUse.about(page.0)) } else { Ok(()) }
    }

    /// Gives pages up, as far as the kernel lets it; returns how many were freed.
    pub fn free_many(self, pages: &[PageNumber]) -> usize {
        // The rows of a batch take a page of the stack.
        if pages.is_empty() { 0 } else { self.free_each(pages.iter().copied()) }
    }

    /// The same for pages that are found one after the other.
    #[inline(never)]
    pub fn free_each(self, mut pages: impl Iterator<Item = PageNumber>) -> usize {
        let row_for = |page: PageNumber| BatchRow {
            number: number::page_free,
            arguments: [self.key.0, page.0, 0, 0, 0, 0],
            unused: 0,
        };
        let mut freed = 0;
        loop {
            let mut rows = Rows::<BatchRow, BATCH_ROWS>::new();
            let rows = rows.fill(pages.by_ref().map(row_for));
            match rows {
                [] => return freed,
                // A call of its own takes less than a batch.
                [row] => freed += usize::from(self.free(PageNumber(row.arguments[1])).is_ok()),
                rows => freed += self.free_rows(rows),
            }
        }
    }

    /// Gives up the pages that rows name, as far as the kernel lets it; how many were freed.
    #[inline(never)]
    fn free_rows(self, rows: &mut [BatchRow]) -> usize {
        let (mut freed, mut start) = (0, 0);
        while start < rows.len() {
            let left = &mut rows[start..];
            match batch(left) {
                Ok(()) => return freed + left.len(),
                // The row says why it was not done, and must be repeated.
                Err((row, Failure { error: Error::Again, .. })) => {
                    (left[row].number, left[row].arguments[0]) = (number::page_free, self.key.0);
                    (freed, start) = (freed + row, start + row);
                }
                Err((row, _)) => (freed, start) = (freed + row, start + row + 1),
            }
        }
        freed
    }
}

/// Room for the rows of a call, of which only those are written that there are.
#[derive(Debug)]
pub struct Rows<T, const ROWS: usize>([MaybeUninit<T>; ROWS]);

impl<T, const ROWS: usize> Default for Rows<T, ROWS> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, const ROWS: usize> Rows<T, ROWS> {
    /// None yet.
    #[inline(always)]
    pub const fn new() -> Self {
        Self([const { MaybeUninit::uninit() }; ROWS])
    }

    /// The first of these rows, as many as there is room for.
    #[inline(always)]
    pub fn fill(&mut self, rows: impl Iterator<Item = T>) -> &mut [T] {
        let mut count = 0;
        for (place, row) in self.0.iter_mut().zip(rows) {
            place.write(row);
            count += 1;
        }
        // SAFETY: each of these was just written.
        unsafe { self.0[..count].assume_init_mut() }
    }
}

/// Runs rows of system calls that touch no memory at an address: after an error, which row, and why.
///
/// # Errors
/// The index of the row that was refused, and its refusal; rows before it are done, rows after it are not.
pub(crate) fn batch(rows: &mut [BatchRow]) -> Result<(), (usize, Failure)> {
    // SAFETY: the rows are ours alone, as many as we say; the caller puts only `page_free` into them, which changes no
    // memory at an address.
    let outcome = unsafe { syscall::batch(abi::UserAddress(rows.as_mut_ptr() as u64), rows.len() as u64) };
    // A caller that gives up a hundred thousand pages in one critical section would be taken for one that keeps the
    // CPU.
    critical_section::give_way();
    outcome.map(|_| ()).map_err(|failure| {
        let row = failure.detail as usize;
        let detail = rows.get(row).map_or(0, |row| row.arguments[0]);
        (row, Failure { error: failure.error, detail })
    })
}
