//! Lists of pages through `PageInfo::neighbours`: the free list, and the list of the pages charged to each environment.
//!
//! Invariants: a page is in exactly one list, that of its owner, or the free list if it is free. The list is doubly
//! linked, so that any page can be taken out at once (a caller may name the page it wants).

use abi::PageNumber;
use abi::page::PageInfo;
use core::sync::atomic::{AtomicU64, Ordering};
use machine::memory;

const NONE: u64 = PageNumber::NONE.0;

#[inline(always)]
fn record(page: u64) -> &'static PageInfo {
    memory::info(PageNumber(page)).expect("a page in a list has a record")
}

/// Writes one half of the neighbours of a page and keeps the other.
#[inline(always)]
fn set_next(page: u64, next: u64) {
    let word = &record(page).neighbours;
    word.store(word.load(Ordering::Relaxed) & !NONE | next, Ordering::Release);
}

#[inline(always)]
fn set_previous(page: u64, previous: u64) {
    let word = &record(page).neighbours;
    word.store(word.load(Ordering::Relaxed) & NONE | previous << 32, Ordering::Release);
}

/// Puts a page, whose record this is, at the front of the list that begins at `head`.
#[inline(always)]
pub(crate) fn push(head: &AtomicU64, page: PageNumber, info: &PageInfo) {
    let first = head.load(Ordering::Relaxed);
    info.neighbours.store(NONE << 32 | first, Ordering::Release);
    if first != NONE {
        set_previous(first, page.0);
    }
    head.store(page.0, Ordering::Release);
}

/// Takes a page, whose record this is, out of the list that begins at `head`, in which it is. Its own neighbours are
/// for the next list to set.
#[inline(always)]
pub(crate) fn remove(head: &AtomicU64, info: &PageInfo) {
    let word = info.neighbours.load(Ordering::Relaxed);
    let (next, previous) = (word & NONE, word >> 32);
    match previous {
        NONE => head.store(next, Ordering::Release),
        previous => set_next(previous, next),
    }
    if next != NONE {
        set_previous(next, previous);
    }
}

/// Takes the first page, whose record this is, out of the list that begins at `head`.
#[inline(always)]
pub(crate) fn remove_first(head: &AtomicU64, info: &PageInfo) {
    let next = info.neighbours.load(Ordering::Relaxed) & NONE;
    head.store(next, Ordering::Release);
    if next != NONE {
        set_previous(next, NONE);
    }
}

/// Puts the first pages of a list, up to `last`, at the front of another one.
pub(crate) fn move_first(from: &AtomicU64, to: &AtomicU64, last: PageNumber) {
    let (first, rest, others) = (from.load(Ordering::Relaxed), next(last), to.load(Ordering::Relaxed));
    from.store(rest.map_or(NONE, |page| page.0), Ordering::Release);
    if let Some(page) = rest {
        set_previous(page.0, NONE);
    }
    set_next(last.0, others);
    if others != NONE {
        set_previous(others, last.0);
    }
    to.store(first, Ordering::Release);
}

/// The first page of a list.
pub(crate) fn first(head: &AtomicU64) -> Option<PageNumber> {
    let page = head.load(Ordering::Relaxed);
    (page != NONE).then_some(PageNumber(page))
}

/// The page after this one in its list.
pub(crate) fn next(page: PageNumber) -> Option<PageNumber> {
    let next = record(page.0).neighbours.load(Ordering::Relaxed) & NONE;
    (next != NONE).then_some(PageNumber(next))
}
