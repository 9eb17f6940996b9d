//! Allocating physical pages, by number, under an access list (DESIGN.md §4, Page).

use crate::area;
use crate::critical_section;
use crate::exposed;
use crate::syscall::{self, BatchRow, number};
use abi::limits::BATCH_ROWS;
pub use abi::page::{PageInfo, PageKind};
use abi::{Error, Failure, KeyIndex, PageNumber, UserAddress};
use core::sync::atomic::Ordering::Relaxed;

/// Rows of a batch that is not worth making all rows for.
const FEW: usize = 16;

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
        let mut done = 0;
        while done < pages.len() {
            let many = BATCH_ROWS.min(pages.len() - done);
            let some = &mut pages[done..done + many];
            let (count, outcome) =
                if many > FEW { self.allocate_batch::<BATCH_ROWS>(some) } else { self.allocate_batch::<FEW>(some) };
            done += count;
            match outcome {
                Ok(()) | Err(Failure { error: Error::Again, .. }) => {}
                Err(failure) => {
                    self.free_many(&pages[..done]);
                    return Err(failure);
                }
            }
        }
        Ok(())
    }

    /// One call for at most `ROWS` pages: how many were had, and why no more.
    fn allocate_batch<const ROWS: usize>(self, pages: &mut [PageNumber]) -> (usize, Result<(), Failure>) {
        let row = [self.key.0, self.list.0, PageNumber::NONE.0, 0, 0, 0];
        let mut rows = [BatchRow { number: number::page_allocate, arguments: row, unused: 0 }; ROWS];
        let outcome = batch(&mut rows[..pages.len()]);
        let count = outcome.err().map_or(pages.len(), |(row, _)| row);
        for (page, row) in pages[..count].iter_mut().zip(&rows) {
            *page = PageNumber(row.arguments[0]);
        }
        (count, outcome.map_err(|(_, failure)| failure))
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
        let free_some = |some: &[PageNumber]| match some {
            [page] => usize::from(self.free(*page).is_ok()),
            some if some.len() <= FEW => self.free_batch::<FEW>(some),
            some => self.free_batch::<BATCH_ROWS>(some),
        };
        pages.chunks(BATCH_ROWS).map(free_some).sum()
    }

    /// The same for at most `ROWS` pages.
    fn free_batch<const ROWS: usize>(self, pages: &[PageNumber]) -> usize {
        let row_for = |page: PageNumber| BatchRow {
            number: number::page_free,
            arguments: [self.key.0, page.0, 0, 0, 0, 0],
            unused: 0,
        };
        let mut rows = [BatchRow::default(); ROWS];
        for (row, page) in rows.iter_mut().zip(pages) {
            *row = row_for(*page);
        }
        let (mut freed, mut start) = (0, 0);
        while start < pages.len() {
            let outcome = batch(&mut rows[start..pages.len()]);
            let count = outcome.err().map_or(pages.len() - start, |(row, _)| row);
            let again = outcome.is_err_and(|(_, failure)| failure.error == Error::Again);
            freed += count;
            start += count + usize::from(!again);
            if again {
                rows[start] = row_for(pages[start]);
            }
        }
        freed
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
