//! Where a table holds entries: the eighths that may hold some, and the entries in them.

use super::{ENTRIES, Slot, table};
use crate::memory::{self, Memory};
use abi::PageNumber;
use abi::page::{EIGHTHS_SHIFT, PageInfo};
use abi::page_table::PRESENT;
use core::sync::atomic::{AtomicU64, Ordering};

/// Entries of an eighth of a table.
pub(super) const EIGHTH: usize = ENTRIES / 8;
/// Entries that are looked at together.
const TOGETHER: usize = 8;
const _: () = assert!(TOGETHER == 8);

/// Records that a table may hold an entry at an index from now on. Tables are mostly empty: a search looks only at
/// the eighths that may hold entries.
#[inline(always)]
pub(super) fn note_used(info: &PageInfo, index: usize) {
    let (word, bit) = (info.state.load(Ordering::Relaxed), 1 << (EIGHTHS_SHIFT as usize + index / EIGHTH));
    if word & bit == 0 {
        info.state.store(word | bit, Ordering::Release);
    }
}

/// Notes that of many entries, which lie in eighths that are given as bits.
#[inline(always)]
pub(super) fn note_used_eighths(info: &PageInfo, eighths: u8) {
    info.state.fetch_or(u64::from(eighths) << EIGHTHS_SHIFT, Ordering::AcqRel);
}

/// The eighth that an entry lies in, as a bit.
#[inline(always)]
pub(super) const fn eighth_of(index: usize) -> u8 {
    1 << (index / EIGHTH % 8)
}

/// The eighths of a table that may hold entries, as bits.
fn eighths(info: &PageInfo) -> u8 {
    (info.state.load(Ordering::Relaxed) >> EIGHTHS_SHIFT) as u8
}

/// The index of the first entry of a table from one on that is not 0; that of the end where there is none. Of a root
/// only the user's half counts.
pub(super) fn next_used(page: PageNumber, from: usize) -> usize {
    let info = memory::info(page).expect("a table has a record");
    let entries = table(page);
    let mut index = from;
    while index < ENTRIES {
        let left = u32::from(eighths(info)) >> (index / EIGHTH);
        if left == 0 {
            return ENTRIES;
        }
        if left & 1 == 0 {
            index = (index / EIGHTH + left.trailing_zeros() as usize) * EIGHTH;
        }
        let end = (index / EIGHTH + 1) * EIGHTH;
        if let Some(found) = first_not_zero(&entries[index..end]) {
            return index + found;
        }
        if index.is_multiple_of(EIGHTH) {
            info.state.fetch_and(!(1 << (EIGHTHS_SHIFT as usize + index / EIGHTH)), Ordering::AcqRel);
        }
        index = end;
    }
    ENTRIES
}

/// Has `take` take the entries of a table that are not 0, one after the other. The result is the index of the first
/// that it does not take; none: the table is empty. Eighths that are empty then are not looked at any more.
#[inline(always)]
pub(super) fn drain(page: PageNumber, mut take: impl FnMut(&AtomicU64, u64) -> bool) -> Option<usize> {
    let info = memory::info(page).expect("a table has a record");
    let chunks = table(page).as_chunks::<TOGETHER>().0;
    let mut left = eighths(info);
    while left != 0 {
        let eighth = left.trailing_zeros() as usize;
        let first = eighth * EIGHTH / TOGETHER;
        for (chunk, entries) in (first..).zip(&chunks[first..first + EIGHTH / TOGETHER]) {
            if bits_in(entries) == 0 {
                continue;
            }
            for (at, entry) in entries.iter().enumerate() {
                let old = entry.load(Ordering::Relaxed);
                if old != 0 && !take(entry, old) {
                    return Some(chunk * TOGETHER + at);
                }
            }
        }
        info.state.fetch_and(!(1 << (EIGHTHS_SHIFT as usize + eighth)), Ordering::AcqRel);
        left &= left - 1;
    }
    None
}

fn first_not_zero(entries: &[AtomicU64]) -> Option<usize> {
    let is_used = |entry: &AtomicU64| entry.load(Ordering::Relaxed) != 0;
    let (begun, whole) = entries.split_at(entries.len() % TOGETHER);
    begun.iter().position(is_used).or_else(|| {
        let chunk = whole.as_chunks::<TOGETHER>().0.iter().position(|some| bits_in(some) != 0)?;
        whole[chunk * TOGETHER..].iter().position(is_used).map(|at| begun.len() + chunk * TOGETHER + at)
    })
}

/// All bits that are set in any of the entries.
#[inline]
fn bits_in(entries: &[AtomicU64; TOGETHER]) -> u64 {
    let bits: u64;
    // SAFETY: the words are read, each whole, as the CPU reads them to translate; the compiler does not join loads of
    // atomics with what is done with them.
    unsafe {
        core::arch::asm!(
            "mov {bits}, [{at}]",
            "or {bits}, [{at} + 8]",
            "or {bits}, [{at} + 16]",
            "or {bits}, [{at} + 24]",
            "or {bits}, [{at} + 32]",
            "or {bits}, [{at} + 40]",
            "or {bits}, [{at} + 48]",
            "or {bits}, [{at} + 56]",
            at = in(reg) entries.as_ptr(), bits = out(reg) bits,
            options(nostack, readonly),
        );
    }
    bits
}

/// All bits that are set in any entry of a table; of a root only the user's half counts.
pub(super) fn bits_of(page: PageNumber) -> u64 {
    let eighths = eighths(memory::info(page).expect("a table has a record"));
    let chunks = table(page).as_chunks::<TOGETHER>().0.chunks(EIGHTH / TOGETHER).enumerate();
    let used = chunks.filter(|(eighth, _)| eighths & 1 << eighth != 0);
    used.flat_map(|(_, chunks)| chunks).fold(0, |bits, chunk| bits | bits_in(chunk))
}

impl Memory {
    /// The first slot of a table that holds a present entry.
    pub fn first_present(&self, page: PageNumber) -> Option<Slot> {
        self.first_present_from(page, 0)
    }

    /// The same from an index on.
    pub fn first_present_from(&self, page: PageNumber, from: usize) -> Option<Slot> {
        let mut slot = self.first_used(page, from)?;
        while slot.entry() & PRESENT == 0 {
            slot = self.first_used(page, slot.index + 1)?;
        }
        Some(slot)
    }

    /// The first slot of a table from an index on that is not empty; of a root only the user's half counts.
    pub fn first_used(&self, page: PageNumber, from: usize) -> Option<Slot> {
        let index = next_used(page, from);
        (index < ENTRIES).then_some(Slot { table: page, index })
    }

    /// The first slot of a table that is left to copy: not empty, where the slot of the other table is empty. The
    /// other table is filled from its beginning on. So the slot lies in the last eighth that the other one has used,
    /// or behind it.
    pub fn first_left(&self, page: PageNumber, other: PageNumber) -> Option<Slot> {
        let begun = eighths(memory::info(other).expect("a table has a record"));
        let last = begun.checked_ilog2().unwrap_or(0) as usize;
        self.first_missing(page, other, last * EIGHTH)
    }

    /// The first slot of a table from an index on that is not empty, where that of another table is.
    pub fn first_missing(&self, page: PageNumber, other: PageNumber, from: usize) -> Option<Slot> {
        let used = eighths(memory::info(page).expect("a table has a record"));
        let (entries, others) = (table(page), table(other));
        let is_missing =
            |index: &usize| entries[*index].load(Ordering::Relaxed) != 0 && others[*index].load(Ordering::Relaxed) == 0;
        let some = (from / EIGHTH..8).filter(|eighth| used >> eighth & 1 != 0);
        let mut found = some.filter_map(|eighth| (from.max(eighth * EIGHTH)..(eighth + 1) * EIGHTH).find(is_missing));
        found.next().map(|index| Slot { table: page, index })
    }
}
