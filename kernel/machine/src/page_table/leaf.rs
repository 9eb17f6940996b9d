//! Entries that map pages: which are safe, by which right a page may be mapped, and the count of those that map it.

use super::used::{drain, note_used};
use super::{LARGE_PAGES, Slot, page_of};
use crate::exposed;
use crate::layout::PAGE_SIZE;
use crate::memory::{self, Memory, Uses, note_edit, state};
use abi::PageNumber;
use abi::page::{PageInfo, PageKind};
use abi::page_table::{ALLOWED, DIRTY, LARGE, MapRow, PAGE, PRESENT, USER, WRITE};
use core::sync::atomic::Ordering;

/// Whether a page of this kind may be mapped at all, and writable.
const fn mappable(kind: PageKind) -> (bool, bool) {
    match kind {
        PageKind::Ordinary | PageKind::EnvironmentPublic | PageKind::EnvironmentPrivate => (true, true),
        PageKind::PageTable | PageKind::Archive => (true, false),
        _ => (false, false),
    }
}

/// The records of the pages that an entry maps, if all are memory that it can map.
fn mapped(entry: u64) -> Option<&'static [PageInfo]> {
    let pages = if entry & LARGE != 0 { LARGE_PAGES } else { 1 };
    let first = page_of(entry).0;
    let records = exposed::pages().get(first as usize..(first + pages) as usize)?;
    first.is_multiple_of(pages).then_some(records)
}

/// Whether the kernel can allow this leaf entry for the sake of its own safety. A large one maps ordinary pages only.
pub fn is_safe_leaf(entry: u64) -> bool {
    if entry & PRESENT == 0 {
        return true;
    }
    match mapped(entry) {
        None => false,
        Some([info]) => {
            let (seen, written) = mappable(state(info).kind);
            seen && (written || entry & WRITE == 0)
        }
        Some(records) => {
            records.iter().all(|info| info.state.load(Ordering::Relaxed) as u8 == PageKind::Ordinary as u8)
        }
    }
}

/// Whether all pages of an entry have the access list of the first.
pub fn has_one_access_list(entry: u64) -> bool {
    let list = |info: &PageInfo| info.access.load(Ordering::Relaxed) as u32;
    mapped(entry).is_some_and(|records| records.iter().all(|info| list(info) == list(&records[0])))
}

/// Reading, and perhaps writing, was granted through a key to the pages of an access list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Index of the key.
    pub key: u64,
    /// Page of the list.
    pub list: PageNumber,
    /// Whether writing was granted, too.
    pub write: bool,
}

impl Grant {
    /// None: no row has this key.
    pub const NONE: Self = Self { key: u64::MAX, list: PageNumber::NONE, write: false };

    /// The record of the page of a row that maps a small one, one of all `pages`, if the row may map it by this.
    #[inline(always)]
    pub(super) fn bindable(self, row: &MapRow, pages: &'static [PageInfo]) -> Option<&'static PageInfo> {
        if row.address % PAGE_SIZE == self.key { self.opens(row.entry, pages).map(|(info, _)| info) } else { None }
    }

    /// The record of the page of an entry that maps a small one, one of all `pages`, and the word of its state.
    /// Nothing if the holder of the key may not map it so.
    #[inline(always)]
    pub(super) fn opens(self, entry: u64, pages: &'static [PageInfo]) -> Option<(&'static PageInfo, u64)> {
        let refused = LARGE | !ALLOWED | if self.write { 0 } else { WRITE };
        if entry & (PRESENT | refused) == PRESENT { self.covering_page(entry, pages) } else { None }
    }

    /// The record of the page of a row, one of all `pages`, if the row may map it by this.
    #[inline(always)]
    pub(super) fn covered(self, row: &MapRow, pages: &'static [PageInfo]) -> Option<&'static PageInfo> {
        if self.write || row.entry & WRITE == 0 { self.covering(row, pages) } else { None }
    }

    /// The same, for reading or for writing.
    #[inline(always)]
    fn covering(self, row: &MapRow, pages: &'static [PageInfo]) -> Option<&'static PageInfo> {
        if row.address % PAGE_SIZE == self.key {
            self.covering_page(row.entry, pages).map(|(info, _)| info)
        } else {
            None
        }
    }

    /// The same for the holder of the key; and the word of the page's state.
    #[inline(always)]
    fn covering_page(self, entry: u64, pages: &'static [PageInfo]) -> Option<(&'static PageInfo, u64)> {
        let page = page_of(entry).0 as usize;
        if page >= pages.len() {
            return None;
        }
        let info = &pages[page];
        if info.access.load(Ordering::Relaxed) as u32 != self.list.0 as u32 {
            return None;
        }
        let state = info.state.load(Ordering::Relaxed);
        if state as u8 == PageKind::Ordinary as u8 { Some((info, state)) } else { None }
    }
}

impl Memory {
    /// Puts a leaf entry into a slot, which returns what was there with what the CPU had noted in it. TLBs are the
    /// caller's affair.
    pub fn set_leaf(&mut self, slot: Slot, entry: u64) -> u64 {
        assert!(is_safe_leaf(entry), "leaf entry {entry:#x} would let a program break the kernel");
        let mut new = entry & ALLOWED & self.entry_bits;
        if new & PRESENT != 0 {
            new |= USER;
        }
        slot.note_edit();
        if new != 0 {
            note_used(memory::info(slot.table).expect("a table has a record"), slot.index);
        }
        let old = slot.word().swap(new, Ordering::AcqRel);
        if (old ^ new) & (PAGE | PRESENT | LARGE) != 0 {
            count_leaf(new, 1);
            count_leaf(old, -1);
        }
        if old & PRESENT != 0 && old & DIRTY != 0 {
            note_dirty(old);
        }
        old
    }

    /// Unmaps the pages of a level-1 table, `limit` at most, up to the first that is freed by it. Returns how many
    /// are unmapped, and the index that it came to; none: the table is empty.
    pub fn unmap_run(&mut self, page: PageNumber, limit: usize) -> (usize, Option<usize>) {
        let (pages, mut left, mut uses) = (exposed::pages(), limit, Uses::begin());
        let came_to = drain(page, |word, old| {
            if old & PRESENT == 0 {
                word.store(0, Ordering::Release);
                return true;
            }
            let info = &pages[page_of(old).0 as usize];
            if left == 0 || state(info).flags & abi::page::ORPHAN != 0 {
                return false;
            }
            left -= 1;
            uses.note(info);
            note_gone(info, word.swap(0, Ordering::AcqRel));
            true
        });
        uses.end();
        note_edit(memory::info(page).expect("a table has a record"));
        (limit - left, came_to)
    }

    /// The page under a leaf entry will not be what was written through it.
    pub fn forget_written(&mut self, slot: Slot) {
        slot.word().fetch_and(!DIRTY, Ordering::AcqRel);
    }
}

/// Counts a small entry that came.
#[inline(always)]
pub(super) fn note_bound(info: &PageInfo) {
    memory::note_use(info);
    note_shown(info);
}

/// The same where the use is noted already.
#[inline(always)]
pub(super) fn note_shown(info: &PageInfo) {
    memory::forget_zeroed(info);
    count_reference(info, 1);
}

/// Counts a small entry that is gone, in the record of its page.
#[inline(always)]
pub(super) fn note_left(info: &PageInfo, old: u64) {
    memory::note_use(info);
    note_gone(info, old);
}

/// The same where the use is noted already.
#[inline(always)]
fn note_gone(info: &PageInfo, old: u64) {
    count_reference(info, -1);
    if old & DIRTY != 0 && state(info).flags & abi::page::DIRTY == 0 {
        memory::set_flags(info, abi::page::DIRTY, 0);
    }
}

/// Counts a leaf entry that came (1) or went (-1): a binding event.
fn count_leaf(entry: u64, change: i64) {
    if entry & PRESENT == 0 {
        return;
    }
    let records = mapped(entry).expect("a mapped page has a record");
    memory::note_use(&records[0]);
    for info in records {
        count_reference(info, change);
        memory::forget_zeroed(info);
    }
}

/// Counts an entry that maps a page.
#[inline(always)]
pub(super) fn count_reference(info: &PageInfo, change: i64) {
    let word = info.access.load(Ordering::Relaxed);
    info.access.store(word.wrapping_add((change as u64) << 32), Ordering::Release);
}

/// Notes in the record of a page that it was written through a mapping.
#[cold]
pub(super) fn note_dirty(entry: u64) {
    for info in mapped(entry).expect("a mapped page has a record") {
        if state(info).flags & abi::page::DIRTY == 0 {
            memory::set_flags(info, abi::page::DIRTY, 0);
        }
    }
}
