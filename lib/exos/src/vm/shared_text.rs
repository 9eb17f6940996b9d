//! Libraries whose text and constants a process has by a page table that others have, too (xok-exos-sosp97 §5.2: page tables can be shared).
//!
//! What a large library has that nobody writes is mapped in the same way in every process. Where it is alone in what one table of
//! the lowest level translates, a span, the server makes that table once for all, and to map the library takes a link in the place of an
//! entry for each page. It is placed so that this can be ([`Space::find_place_for_library`]). Pure.
//!
//! Holds always: of a span that is noted in `libraries` nothing is in [`Frames`](super::frames::Frames); and before anything in it becomes
//! different the link goes, and its pages come as those of any other file.

use super::address_space::{AddressSpace, PageOps};
use super::fault_around::shows;
use super::table_scan::SPAN;
use super::vma::{Protection, Vma};
use crate::address_map::PAGE_SIZE;
use crate::errno::Result;
use alloc::vec::Vec;
use core::ops::Range;

/// Parts of a library in one span at most.
pub const PARTS: usize = 4;
/// Pages that are worth a table.
const LEAST: u64 = 64;
/// Spans of a library that are looked at.
const MOST: usize = 32;
/// Bytes of a library from which on it is placed with its text apart from its data: that may take one table more.
pub const LARGE: u64 = 1 << 20;

/// A part of a library: pages in a row, of the file and of the span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The first of them, counted from the beginning of the span.
    pub place: u64,
    /// How many.
    pub pages: u64,
    /// The first of them in the file.
    pub index: u64,
    /// Whether they may be executed. They may be read, and not written.
    pub executable: bool,
}

impl Part {
    const PLACE_BITS: u32 = 9;
    const PAGES_BITS: u32 = 10;
    const INDEX_AT: u32 = Self::PLACE_BITS + Self::PAGES_BITS + 1;

    /// As one word, which is not 0; nothing where the file is too large.
    pub const fn to_word(self) -> Option<u64> {
        if self.index >> 32 != 0 {
            return None;
        }
        let execute = (self.executable as u64) << (Self::INDEX_AT - 1);
        Some(self.place | self.pages << Self::PLACE_BITS | execute | self.index << Self::INDEX_AT)
    }

    /// From a word; nothing where it does not lie in a span.
    pub fn from_word(word: u64) -> Option<Self> {
        let part = Self {
            place: word & ((1 << Self::PLACE_BITS) - 1),
            pages: word >> Self::PLACE_BITS & ((1 << Self::PAGES_BITS) - 1),
            index: word >> Self::INDEX_AT & 0xffff_ffff,
            executable: word >> (Self::INDEX_AT - 1) & 1 != 0,
        };
        let fits = part.pages > 0 && part.place + part.pages <= SPAN / PAGE_SIZE;
        Some(part).filter(|part| fits && part.to_word() == Some(word))
    }
}

/// A span that such a table is linked in, or was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedTable {
    /// Where it begins.
    pub base: u64,
    /// The page of the table.
    pub table: u64,
}

/// Where a span begins.
const fn base_of(address: u64) -> u64 {
    address & !(SPAN - 1)
}

impl AddressSpace {
    /// Links the tables for those spans of a library in which nothing lies but parts of it that are not to be written; whether there is
    /// one.
    pub(super) fn link_libraries(&mut self, pages: &mut impl PageOps, node: u64, place: &Range<u64>) -> bool {
        let before = self.libraries.len();
        let is_text = |part: Vma| part.protection.allows(Protection::EXECUTE);
        if !self.areas.parts(place.start, place.end).any(is_text) {
            return false;
        }
        for base in (base_of(place.start)..place.end).step_by(SPAN as usize).take(MOST) {
            let Some(parts) = self.parts_of_library(node, base) else { continue };
            let Some(table) = pages.link_library(node, base, parts) else { break };
            self.libraries.push(SharedTable { base, table });
        }
        self.libraries.len() > before
    }

    /// Whether an address lies in such a span.
    #[inline]
    pub(super) fn has_library(&self, address: u64) -> bool {
        self.libraries.iter().any(|linked| linked.base == base_of(address))
    }

    /// The areas, or parts of some, between two addresses that no such table maps.
    pub(super) fn parts_without_libraries(&self, place: &Range<u64>) -> Vec<Vma> {
        if self.libraries.is_empty() {
            return self.areas.parts(place.start, place.end).collect();
        }
        let spans = (base_of(place.start)..place.end).step_by(SPAN as usize);
        let others = spans.filter(|base| !self.has_library(*base));
        let parts = others.flat_map(|base| self.areas.parts(base.max(place.start), (base + SPAN).min(place.end)));
        parts.collect()
    }

    fn parts_of_library(&self, node: u64, base: u64) -> Option<[u64; PARTS]> {
        if self.frames.has_any(base, base + SPAN) {
            return None;
        }
        let (mut words, mut count, mut all) = ([0; PARTS], 0, 0);
        for area in self.areas.parts(base, base + SPAN) {
            let offset = shows(&area, node).filter(|_| !area.protection.allows(Protection::WRITE) && !area.locked)?;
            if area.protection == Protection::NONE {
                continue;
            }
            let part = Part {
                place: (area.start - base) / PAGE_SIZE,
                pages: area.bytes() / PAGE_SIZE,
                index: offset / PAGE_SIZE,
                executable: area.protection.allows(Protection::EXECUTE),
            };
            *words.get_mut(count)? = part.to_word()?;
            count += 1;
            all += part.pages;
        }
        (all >= LEAST).then_some(words)
    }

    /// Before anything between two addresses becomes different: no shared table maps any of it any more. Whether one did.
    ///
    /// # Errors
    /// The kernel's refusals, where tables have to be copied first.
    #[inline]
    pub(super) fn unshare_text(&mut self, pages: &mut impl PageOps, start: u64, end: u64) -> Result<bool> {
        if self.libraries.is_empty() { Ok(false) } else { self.leave_some(pages, start, end) }
    }

    fn leave_some(&mut self, pages: &mut impl PageOps, start: u64, end: u64) -> Result<bool> {
        let mut left = false;
        while let Some(place) = self.libraries.iter().position(|linked| linked.base < end && start < linked.base + SPAN)
        {
            let base = self.libraries[place].base;
            pages.unlink_library(base)?;
            self.libraries.swap_remove(place);
            self.forget_warm(base, base + SPAN);
            left = true;
        }
        Ok(left)
    }

    /// The same of all.
    ///
    /// # Errors
    /// As [`Self::leave_libraries`].
    pub fn leave_all_libraries(&mut self, pages: &mut impl PageOps) -> Result<()> {
        self.unshare_text(pages, 0, u64::MAX).map(drop)
    }

    /// The tables of libraries that map something between two addresses, and how many pages.
    pub fn shared_text(&self, start: u64, end: u64) -> impl Iterator<Item = (SharedTable, u64)> {
        let within = self.libraries.iter().filter(move |linked| linked.base < end && start < linked.base + SPAN);
        within.map(move |linked| {
            let Range { start, end } = start.max(linked.base)..end.min(linked.base + SPAN);
            let readable = self.areas.parts(start, end).filter(|part| part.protection != Protection::NONE);
            (*linked, readable.map(|part| part.bytes()).sum::<u64>() / PAGE_SIZE)
        })
    }

    /// A free place for something that the program does not care where: not in the span of a library.
    ///
    /// # Errors
    /// `ENOMEM` where there is none.
    pub fn find_place(&self, bytes: u64) -> Result<u64> {
        let place = self.areas.find_place(bytes)?;
        let taken = |place: u64| {
            self.libraries.iter().find(move |linked| linked.base < place + bytes && place < linked.base + SPAN)
        };
        let mut best = Ok(place);
        while let Ok(place) = best
            && let Some(linked) = taken(place)
        {
            best = self.areas.find_place_below(linked.base, bytes);
        }
        Ok(best.unwrap_or(place))
    }

    /// A free place for a library of so many bytes whose data begins `data` bytes behind its beginning: where a span begins, if it is
    /// large, so that no table maps of both.
    ///
    /// # Errors
    /// As [`Self::find_place`].
    pub fn find_place_for_library(&self, bytes: u64, data: u64) -> Result<u64> {
        if bytes < LARGE || data < LEAST * PAGE_SIZE || data >= bytes {
            return self.find_place(bytes);
        }
        let Ok(lowest) = self.find_place(bytes + 2 * SPAN) else { return self.find_place(bytes) };
        // Below its text there is nothing else in the span.
        Ok(base_of(lowest + 2 * SPAN + data) - data)
    }
}
