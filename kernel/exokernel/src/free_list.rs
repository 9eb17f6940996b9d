//! Lists of pages through `PageInfo::neighbours`: the free list, and the list of the pages charged to each environment.
//!
//! What holds always: a page is in exactly one list, the one of its owner, or the free list if it is free; the list is
//! doubly linked, so that any page can be taken out at once (a caller may name the page it wants).

use abi::PageNumber;
use abi::page::PageInfo;
use core::sync::atomic::{AtomicU64, Ordering};
use machine::memory;

const NONE: u64 = PageNumber::NONE.0;

fn record(page: u64) -> &'static PageInfo {
    memory::info(PageNumber(page)).expect("a page in a list has a record")
}

fn neighbours(page: u64) -> (u64, u64) {
    let word = record(page).neighbours.load(Ordering::Relaxed);
    (word & NONE, word >> 32)
}

fn set_neighbours(page: u64, next: u64, previous: u64) {
    record(page).neighbours.store(previous << 32 | next, Ordering::Release);
}

/// Puts a page at the front of the list that begins at `head`.
pub(crate) fn push(head: &AtomicU64, page: PageNumber) {
    let first = head.load(Ordering::Relaxed);
    set_neighbours(page.0, first, NONE);
    if first != NONE {
        set_neighbours(first, neighbours(first).0, page.0);
    }
    head.store(page.0, Ordering::Release);
}

/// Takes a page out of the list that begins at `head`, in which it is.
pub(crate) fn remove(head: &AtomicU64, page: PageNumber) {
    let (next, previous) = neighbours(page.0);
    match previous {
        NONE => head.store(next, Ordering::Release),
        previous => set_neighbours(previous, next, neighbours(previous).1),
    }
    if next != NONE {
        set_neighbours(next, neighbours(next).0, previous);
    }
    set_neighbours(page.0, NONE, NONE);
}

/// The first page of a list.
pub(crate) fn first(head: &AtomicU64) -> Option<PageNumber> {
    let page = head.load(Ordering::Relaxed);
    (page != NONE).then_some(PageNumber(page))
}

/// The page after this one in its list.
pub(crate) fn next(page: PageNumber) -> Option<PageNumber> {
    let (next, _) = neighbours(page.0);
    (next != NONE).then_some(PageNumber(next))
}
