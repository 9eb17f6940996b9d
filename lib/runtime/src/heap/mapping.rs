//! Pages of a heap: mapped all together or not at all, and freed where nothing is in use.

use crate::address_space;
use abi::PageNumber;
use abi::limits::PAGE_SIZE;

/// See [`super::provide_by`].
pub(super) type Provider = Option<fn(u64) -> bool>;

/// Pages of page tables that growing may take in addition to one for so many pages.
const TABLES: u64 = 4;
/// Pages that one table maps.
pub(super) const IN_A_TABLE: u64 = 512;
/// Pages that are given back at once.
pub(super) const GIVEN_AT_ONCE: u64 = 32;
/// More pages than there can be.
const TOO_MANY: u64 = u64::MAX >> 1;

/// Puts so many fresh pages at an address, or none: whether it did.
///
/// # Safety
/// Nothing is mapped there, and the layout keeps the range for the heap.
pub(super) unsafe fn map(address: u64, pages: u64, provider: Provider) -> bool {
    if provider.is_some_and(|provide| !provide(pages + pages / IN_A_TABLE + TABLES)) {
        return false;
    }
    // SAFETY: by the contract.
    let mapped = unsafe { address_space::own().back_with_fresh_pages(address, pages) };
    if mapped.is_err() {
        // SAFETY: what was mapped before the refusal holds nothing.
        unsafe { free(address, pages) };
        // They could be had, and are not there: the provider hears that it is so.
        let _ = provider.map(|provide| provide(TOO_MANY));
    }
    mapped.is_ok()
}

/// Unmaps and frees so many pages from an address on, as far as there are any.
///
/// # Safety
/// No object lies there.
pub(super) unsafe fn free(address: u64, pages: u64) {
    let (space, mut start, end) = (address_space::own(), address, address + pages * PAGE_SIZE);
    while start < end {
        // All of them in one table: only these are found together.
        let border = (start + 1).next_multiple_of(IN_A_TABLE * PAGE_SIZE);
        let count = ((end.min(border) - start) / PAGE_SIZE).min(GIVEN_AT_ONCE);
        let mut some = [PageNumber::NONE; GIVEN_AT_ONCE as usize];
        let some = &mut some[..count as usize];
        // Those that are not there stay `NONE`.
        space.pages_at(start, some);
        // SAFETY: by the contract.
        if unsafe { space.unmap(start, count) }.is_ok() {
            space.tables.free_each(some.iter().copied().filter(|page| *page != PageNumber::NONE));
        }
        start += count * PAGE_SIZE;
    }
}
