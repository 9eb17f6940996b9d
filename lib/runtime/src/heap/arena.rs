//! An arena of a heap: addresses of which the pages from the beginning on are mapped, and `talc` has these as far as it
//! needs. The end goes back to the kernel when nothing in it is in use.

use super::mapping::{self, GIVEN_AT_ONCE, IN_A_TABLE, Provider};
use crate::area;
use crate::exposed;
use abi::PageNumber;
use abi::limits::PAGE_SIZE;
use core::ptr::NonNull;
use talc::DefaultBinning;
use talc::base::Talc;
use talc::source::Manual;

/// The allocator of what is not large.
pub(super) type Blocks = Talc<Manual, DefaultBinning>;

/// Pages that an arena grows by at least.
pub(super) const GROWTH_PAGES: u64 = 2;

/// The addresses from `start` to `limit`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arena {
    start: u64,
    limit: u64,
    /// End of what `talc` was given; none: it has nothing here.
    end: Option<NonNull<u8>>,
    /// End of what is mapped, which may be behind that.
    mapped_end: u64,
}

impl Arena {
    /// One of which nothing is mapped yet.
    pub(super) const fn new(start: u64, limit: u64) -> Self {
        Self { start, limit, end: None, mapped_end: start }
    }

    /// One whose first pages are mapped.
    pub(super) const fn mapped(start: u64, mapped_end: u64, limit: u64) -> Self {
        Self { start, limit, end: None, mapped_end }
    }

    /// Where the pages end that `talc` was given.
    pub(super) fn used_end(&self) -> u64 {
        self.end.map_or(self.start, |end| (end.as_ptr() as u64).next_multiple_of(PAGE_SIZE))
    }

    /// Whether it can grow by so many bytes, wherever `talc` puts them.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        pages_for(bytes) <= (self.limit - self.used_end()) / PAGE_SIZE
    }

    /// Gives `talc` what is mapped and what it has not; if there is nothing, so many bytes are mapped first: whether
    /// there is more now.
    ///
    /// # Safety
    /// `talc` is the heap's, and the lock of the heap is held.
    pub(super) unsafe fn grow(&mut self, talc: &mut Blocks, bytes: usize, provider: Provider) -> bool {
        if self.used_end() >= self.mapped_end && !self.map_more(bytes, provider) {
            return false;
        }
        // SAFETY: `end` is the end of the arena that `talc` was given; the memory up to the new end is mapped and free.
        self.end = unsafe {
            match self.end {
                Some(end) => Some(talc.extend(end, self.mapped_end as *mut u8)),
                None => talc.claim(self.start as *mut u8, (self.mapped_end - self.start) as usize),
            }
        };
        self.end.is_some()
    }

    /// Maps at least `bytes` more.
    fn map_more(&mut self, bytes: usize, provider: Provider) -> bool {
        let pages = pages_for(bytes).max(GROWTH_PAGES);
        // SAFETY: the range lies behind what is mapped, in what the layout keeps for the heap.
        if pages > (self.limit - self.mapped_end) / PAGE_SIZE
            || !unsafe { mapping::map(self.mapped_end, pages, provider) }
        {
            return false;
        }
        self.mapped_end += pages * PAGE_SIZE;
        true
    }

    /// Takes the pages at the end from `talc` of which nothing is in use, but for some room.
    ///
    /// # Safety
    /// As for [`Self::grow`].
    pub(super) unsafe fn make_shorter(&mut self, talc: &mut Blocks, margin: u64) {
        let Some(end) = self.end else { return };
        // SAFETY: `end` is the end of the arena that `talc` was given.
        let reserved = unsafe { talc.reserved(end) };
        let last = if reserved.any { reserved.up_to.as_ptr() as u64 + margin } else { self.start };
        let wanted = last.next_multiple_of(PAGE_SIZE);
        if wanted < self.used_end() {
            // SAFETY: as above.
            self.end = unsafe { talc.truncate(end, wanted as *mut u8) };
        }
    }

    /// The heap is a copy: nothing behind what `talc` has was copied.
    pub(super) fn begin_copy(&mut self) {
        self.mapped_end = self.used_end();
    }

    /// Frees the pages behind what `talc` has: how many. Unless all environments that share the heap have the right to
    /// free each other's pages in it, it stops at a page that is another environment's.
    pub(super) fn free_end(&mut self, frees_all: bool) -> u64 {
        let (space, mut freed) = (crate::address_space::own(), 0);
        while self.used_end() < self.mapped_end {
            // All of them in one table.
            let from = self.used_end().max((self.mapped_end - 1) & !(IN_A_TABLE * PAGE_SIZE - 1));
            let count = ((self.mapped_end - from) / PAGE_SIZE).min(GIVEN_AT_ONCE);
            let (start, mut pages) = (self.mapped_end - count * PAGE_SIZE, [PageNumber::NONE; GIVEN_AT_ONCE as usize]);
            let pages = &mut pages[..count as usize];
            let is_own = |page: &PageNumber| exposed::page(*page).is_some_and(|info| info.owner() == area::number());
            // SAFETY: nothing lies behind what `talc` has, and the lock is held.
            if !space.pages_at(start, pages)
                || !(frees_all || pages.iter().all(is_own))
                || unsafe { space.unmap(start, count) }.is_err()
            {
                break;
            }
            self.mapped_end = start;
            freed += space.tables.free_many(pages) as u64;
        }
        freed
    }
}

/// Pages in which so many bytes find room, wherever they begin.
const fn pages_for(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(PAGE_SIZE).saturating_add(1)
}
