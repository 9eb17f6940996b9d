//! Allocating physical pages, by number, under an access list (DESIGN.md §4, Page).

use crate::area;
use crate::critical_section;
use crate::exposed;
use crate::syscall::{self, BatchRow, number};
use abi::limits::BATCH_ROWS;
pub use abi::page::{PageInfo, PageKind};
use abi::{Error, Failure, KeyIndex, PageNumber, UserAddress};
use core::mem::MaybeUninit;
use core::sync::atomic::Ordering::Relaxed;

/// Where pages come from: who asks, and the access list that the pages are put under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocator {
    /// Key with the right to own what is under the list.
    pub key: KeyIndex,
    /// The access list.
    pub list: PageNumber,
}

/// Somebody was asked for pages, and needs the CPU to give them back.
#[cold]
#[inline(never)]
fn let_give_back() {
    crate::time_slice::yield_now();
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
        loop {
            match syscall::page_allocate(self.key, self.list, page) {
                Err(Failure { error: Error::Again, .. }) => let_give_back(),
                done => return done,
            }
        }
    }

    /// As many pages as `pages` has places, or none.
    ///
    /// # Errors
    /// The refusal of the first page that could not be had; those before it are free again.
    pub fn allocate_many(self, pages: &mut [PageNumber]) -> Result<(), Failure> {
        let row = [self.key.0, self.list.0, PageNumber::NONE.0, 0, 0, 0];
        self.take_many(pages, number::page_allocate, |_| row)
    }

    /// A page for each, with its contents, whose number takes its place; or none, and then the numbers say nothing. `key` may
    /// read them.
    ///
    /// # Errors
    /// As for [`Self::allocate_many`], for the refusals of `page_copy`.
    pub fn copy_many(self, key: KeyIndex, pages: &mut [PageNumber]) -> Result<(), Failure> {
        self.take_many(pages, number::page_copy, |page| [self.key.0, self.list.0, key.0, page.0, 0, 0])
    }

    /// A page with the contents of another that `key` may read.
    ///
    /// # Errors
    /// The kernel's refusals of `page_copy`.
    pub fn copy(self, key: KeyIndex, page: PageNumber) -> Result<PageNumber, Failure> {
        loop {
            match syscall::page_copy(self.key, self.list, key, page) {
                Err(Failure { error: Error::Again, .. }) => let_give_back(),
                done => return done,
            }
        }
    }

    /// Puts what a call gives in the place of each number.
    fn take_many(
        self,
        pages: &mut [PageNumber],
        number: u64,
        arguments: impl Fn(PageNumber) -> [u64; 6],
    ) -> Result<(), Failure> {
        let mut done = 0;
        while done < pages.len() {
            let some = &mut pages[done..];
            let mut rows = Rows::new();
            let rows = rows.fill(some.iter().map(|page| BatchRow { number, arguments: arguments(*page), unused: 0 }));
            let outcome = batch(rows);
            let count = outcome.err().map_or(rows.len(), |(row, _)| row);
            some.iter_mut().zip(&rows[..count]).for_each(|(page, row)| *page = PageNumber(row.arguments[0]));
            done += count;
            match outcome {
                Ok(()) | Err((_, Failure { error: Error::Again, .. })) => {}
                Err((_, failure)) => {
                    self.free_many(&pages[..done]);
                    return Err(failure);
                }
            }
        }
        Ok(())
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

    /// Gives a page up and ends every use of it, whoever has it, so that nobody is charged for what others keep. The first to
    /// do is to take them off the access list: who may map the page may map it again meanwhile.
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
        if let [page] = pages {
            return usize::from(self.free(*page).is_ok());
        }
        let row_for = |page: &PageNumber| BatchRow {
            number: number::page_free,
            arguments: [self.key.0, page.0, 0, 0, 0, 0],
            unused: 0,
        };
        let (mut freed, mut start) = (0, 0);
        while start < pages.len() {
            let mut rows = Rows::new();
            let rows = rows.fill(pages[start..].iter().map(row_for));
            let outcome = batch(rows);
            let count = outcome.err().map_or(rows.len(), |(row, _)| row);
            let refused = outcome.is_err_and(|(_, failure)| failure.error != Error::Again);
            freed += count;
            start += count + usize::from(refused);
        }
        freed
    }
}

/// Room for the rows of a batch, of which only those are written that there are.
struct Rows([MaybeUninit<BatchRow>; BATCH_ROWS]);

impl Rows {
    #[inline(always)]
    const fn new() -> Self {
        Self([const { MaybeUninit::uninit() }; BATCH_ROWS])
    }

    /// The first of these rows, as many as one batch may have.
    #[inline(always)]
    fn fill(&mut self, rows: impl Iterator<Item = BatchRow>) -> &mut [BatchRow] {
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
    // SAFETY: the rows are ours alone, as many as we say; both callers put only page calls into them, which change no
    // memory at an address.
    let outcome = unsafe { syscall::batch(abi::UserAddress(rows.as_mut_ptr() as u64), rows.len() as u64) };
    // Who gives up a hundred thousand pages in one critical section would be taken for one that keeps the CPU.
    critical_section::give_way();
    outcome.map(|_| ()).map_err(|failure| {
        let row = failure.detail as usize;
        let detail = rows.get(row).map_or(0, |row| row.arguments[0]);
        (row, Failure { error: failure.error, detail })
    })
}
