//! A level-1 table that is found once for many changes of its entries.

use super::leaf::{Grant, count_reference, note_bound, note_dirty, note_left, note_shown};
use super::used::{EIGHTH, eighth_of, note_used, note_used_eighths};
use super::walk::walk;
use super::{ENTRIES, Slot, index, page_of, table};
use crate::exposed;
use crate::layout::{PAGE_SIZE, direct};
use crate::map_few::{self, REGION_BITS};
use crate::memory::{self, Memory, Numbered, Uses, note_edit, state};
use abi::PageNumber;
use abi::memory_map::USER_END;
use abi::page::PageInfo;
use abi::page_table::{ALLOWED, DIRTY, LARGE, MapRow, PAGE, PRESENT, USER, WRITE};
use core::sync::atomic::{AtomicU64, Ordering};

/// Where the level-1 table for an address was found, as long as no link between tables changed since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastLeaf {
    root: PageNumber,
    first: u64,
    table: PageNumber,
}

impl LastLeaf {
    /// Nothing was looked for.
    pub(crate) const NONE: Self = Self { root: PageNumber::NONE, first: 0, table: PageNumber::NONE };
}

/// A place in a table for a fresh page, as long as no entry of the table is changed otherwise.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    index: usize,
    /// The record of the page that is mapped there.
    left: Option<&'static PageInfo>,
}

impl Opening {
    /// Whether a page is mapped there, so that TLBs have to know when it is gone.
    #[inline(always)]
    pub fn is_mapped(&self) -> bool {
        self.left.is_some()
    }
}

/// A level-1 table that was found once for many changes. While it is borrowed, no table is made, linked or dissolved.
#[derive(Debug)]
pub struct LeafTable<'memory> {
    entries: &'static [AtomicU64; ENTRIES],
    table: PageNumber,
    info: &'static PageInfo,
    first: u64,
    memory: &'memory mut Memory,
}

impl LeafTable<'_> {
    /// The slot of an address that the table covers.
    pub fn slot(&self, address: u64) -> Slot {
        Slot { table: self.table, index: index(address, 1) }
    }

    /// Edits the entries of rows and returns how many are done, and whether TLBs have to know. A row keeps the page
    /// that is mapped, maps one where none was, or unmaps one. Ends before a row of another kind, a row whose address
    /// lies outside of the table, or one that would free its page. It also ends before a row that allows what neither
    /// the old entry does nor `grant`.
    #[inline(never)]
    pub fn change(&mut self, rows: &[MapRow], grant: Grant) -> (usize, bool) {
        let (known, pages) = (self.memory.entry_bits, exposed::pages());
        // A bit that this CPU does not know is ignored: such a row takes the longer way.
        let kept = kept(known);
        let protected = self.protect(rows, kept);
        let mut changed = protected > 0;
        let mut left = &rows[protected..];
        while let [row, rest @ ..] = left {
            let Some(word) = self.word(row.address) else { break };
            let (entry, old) = (row.entry, word.load(Ordering::Relaxed));
            // What is in a table has none of the bits that no caller may set.
            if old == 0 && entry & PRESENT != 0 {
                let bound = self.bind_run(left, grant);
                if bound == 0 {
                    break;
                }
                left = &left[bound..];
                continue;
            }
            if (old ^ entry) & kept != 0 || entry & PRESENT == 0 {
                match exchange(self.info, word, row, known, grant) {
                    Some(narrowed) => changed |= narrowed,
                    None => break,
                }
            } else if entry & WRITE != 0 && old & WRITE == 0 && grant.covered(row, pages).is_none() {
                break;
            } else {
                replace(word, entry | USER);
                changed = true;
            }
            left = rest;
        }
        let done = rows.len() - left.len();
        if done > 0 {
            note_edit(self.info);
        }
        (done, changed)
    }

    /// The rows up to the first that does not keep a page or is writable; how many.
    #[inline(always)]
    fn protect(&self, rows: &[MapRow], kept: u64) -> usize {
        let done = rows.iter().position(|row| {
            let Some(word) = self.word(row.address) else { return true };
            let gained = (word.load(Ordering::Relaxed) ^ row.entry) & kept | (row.entry ^ PRESENT) & (PRESENT | WRITE);
            if gained == 0 {
                replace(word, row.entry | USER);
            }
            gained != 0
        });
        done.unwrap_or(rows.len())
    }

    /// The rows up to the first that does not map a page where nothing was, as `grant` allows; how many.
    #[inline(never)]
    fn bind_run(&self, rows: &[MapRow], grant: Grant) -> usize {
        if grant.key >= PAGE_SIZE {
            return 0;
        }
        let (pages, known) = (exposed::pages(), self.memory.entry_bits);
        let (keyed, mut used, mut uses) = (self.first + grant.key, 0, Uses::begin());
        let bound = rows.iter().position(|row| {
            // Too large for an address elsewhere, or with another key.
            let index = row.address.wrapping_sub(keyed).rotate_right(PAGE_SIZE.trailing_zeros()) as usize;
            let Some(word) = self.entries.get(index).filter(|word| word.load(Ordering::Relaxed) == 0) else {
                return true;
            };
            let Some((info, state)) = grant.opens(row.entry, pages) else { return true };
            used |= 1_u64 << (index / EIGHTH);
            word.store((row.entry | USER) & known, Ordering::Release);
            uses.note(info);
            memory::forget_zeroed_as(info, state);
            count_reference(info, 1);
            false
        });
        uses.end();
        note_used_eighths(self.info, used as u8);
        bound.unwrap_or(rows.len())
    }

    /// Remembers what made it possible to change a row.
    pub fn remember(&self, editor: map_few::Editor<'_>, row: &MapRow, grant: Grant) {
        let table = map_few::Found { entries: self.entries, record: self.info };
        map_few::remember(editor, row, table, self.memory.entry_bits, grant);
    }

    /// The same for one row that keeps its page and gains no right; whether it is one.
    #[inline(always)]
    pub fn change_kept(&self, row: &MapRow) -> bool {
        let (entry, word) = (row.entry, &self.entries[index(row.address, 1)]);
        let old = word.load(Ordering::Relaxed);
        let gained = (old ^ entry) & kept(self.memory.entry_bits) | entry & !old & WRITE;
        if gained != 0 || entry & PRESENT == 0 {
            return false;
        }
        note_edit(self.info);
        replace(word, entry | USER);
        true
    }

    /// The same for one row that maps a page where none was; whether it is one.
    #[inline(always)]
    pub fn bind(&self, row: &MapRow, grant: Grant) -> bool {
        let info = self.info;
        let is_bound = bind(info, &self.entries[index(row.address, 1)], row, self.memory.entry_bits, grant);
        if is_bound {
            note_edit(info);
        }
        is_bound
    }

    /// Where a fresh page can be mapped without anything coming free: where nothing is, or a page that stays when it
    /// is gone.
    #[inline(always)]
    pub fn opening(&self, address: u64) -> Option<Opening> {
        let index = (address.wrapping_sub(self.first) >> PAGE_SIZE.trailing_zeros()) as usize;
        let old = self.entries.get(index)?.load(Ordering::Relaxed);
        if old & PRESENT == 0 {
            return Some(Opening { index, left: None });
        }
        let left = memory::info(page_of(old))?;
        let stays = old & LARGE == 0 && state(left).flags & abi::page::ORPHAN == 0;
        stays.then_some(Opening { index, left: Some(left) })
    }

    /// Takes a free page for a program, filled with zeros or with what lies in an ordinary page, and maps it in an
    /// opening of this table. The result is the entry: as the one that is given, with its number.
    #[inline(always)]
    pub fn supply(&mut self, opening: Opening, entry: u64, page: Numbered, source: Option<Numbered>) -> u64 {
        assert!(entry & (PRESENT | LARGE | !ALLOWED) == PRESENT, "entry {entry:#x} is none of a small page");
        self.memory.take_free_to_map(page, source);
        let entry = entry & !PAGE | page.number().address();
        let index = opening.index % ENTRIES;
        note_used(self.info, index);
        let old = self.entries[index].swap((entry | USER) & self.memory.entry_bits, Ordering::AcqRel);
        if let Some(left) = opening.left {
            note_left(left, old);
        }
        count_reference(page.info(), 1);
        entry
    }

    /// Notes that so many entries were set by [`Self::supply`].
    #[inline(always)]
    pub fn note_supplied(&self, count: usize) {
        exposed::add(&self.info.block, count as u64);
    }

    #[inline(always)]
    fn word(&self, address: u64) -> Option<&'static AtomicU64> {
        self.entries.get((address.wrapping_sub(self.first) >> PAGE_SIZE.trailing_zeros()) as usize)
    }
}

impl Memory {
    /// Copies entries of a level-1 table from one on into another table that nothing leads to, `limit` at most. It
    /// copies those that map pages by what is granted, up to the first that is of another kind or that the other
    /// table has. The result is the index that it came to, and how many are copied.
    #[inline(never)]
    pub fn copy_run(&mut self, from: Slot, to: PageNumber, limit: usize, grant: Grant) -> (usize, usize) {
        let (info, pages, known) = (memory::info(to).expect("a table has a record"), exposed::pages(), self.entry_bits);
        let (entries, copies) = (&table(from.table)[from.index..], &table(to)[from.index..]);
        let (mut used, mut uses, mut done) = (0, Uses::begin(), 0);
        let stopped = entries.iter().zip(copies).enumerate().position(|(index, (entry, copy))| {
            let row = MapRow { address: grant.key, entry: entry.load(Ordering::Relaxed) & ALLOWED };
            if row.entry == 0 {
                return false;
            }
            if done == limit || copy.load(Ordering::Relaxed) != 0 {
                return true;
            }
            let Some(page) = grant.bindable(&row, pages) else { return true };
            used |= eighth_of(from.index + index);
            copy.store((row.entry | USER) & known, Ordering::Release);
            uses.note(page);
            note_shown(page);
            done += 1;
            false
        });
        uses.end();
        note_used_eighths(info, used);
        note_edit(info);
        (stopped.map_or(ENTRIES, |index| from.index + index), done)
    }

    /// The level-1 table for an address under a root, if the way to it exists, nothing on it is shared, and all that it
    /// translates is the user's.
    #[inline(always)]
    pub fn leaf_table(&mut self, root: PageNumber, address: u64) -> Option<LeafTable<'_>> {
        let first = address >> REGION_BITS << REGION_BITS;
        if first >= USER_END >> REGION_BITS << REGION_BITS {
            return None;
        }
        if (self.last_leaf.root, self.last_leaf.first) != (root, first) {
            self.find_leaf_table(root, first)?;
        }
        let table = self.last_leaf.table;
        // SAFETY: `walk` found a table in the page, and it is one still: whatever changes a link or dissolves a table
        // forgets what was found last.
        let entries = unsafe { &*(direct(table.address()) as *const [AtomicU64; ENTRIES]) };
        let info = memory::info(table).expect("a table has a record");
        Some(LeafTable { entries, table, info, first, memory: self })
    }

    /// A link is another, or a table is dissolved: what was found last may be wrong.
    pub(super) fn forget_leaf_table(&mut self) {
        self.last_leaf = LastLeaf::NONE;
        map_few::forget();
    }

    #[inline(never)]
    fn find_leaf_table(&mut self, root: PageNumber, first: u64) -> Option<()> {
        let found = walk(root, first, 1).ok().filter(|found| found.shared.is_none())?;
        self.last_leaf = LastLeaf { root, first, table: found.slot.table };
        Some(())
    }
}

/// The bits in which an entry that keeps its page stays as it is: what is mapped, and what no caller may set, of
/// those that CPUs know.
#[inline(always)]
pub(crate) const fn kept(known: u64) -> u64 {
    PAGE | PRESENT | LARGE | !(ALLOWED & known)
}

/// Replaces an entry by one that maps the same page. What the CPU set in the old one since the last look is in what
/// the exchange gives.
#[inline(always)]
fn replace(word: &AtomicU64, new: u64) {
    let old = word.swap(new, Ordering::AcqRel);
    if old & DIRTY != 0 {
        note_dirty(old);
    }
}

/// The rows of [`LeafTable::change`] that bind a page, unbind one, or put one in the place of another; whether TLBs
/// have to know.
#[inline(never)]
fn exchange(table: &PageInfo, word: &AtomicU64, row: &MapRow, known: u64, grant: Grant) -> Option<bool> {
    let old = word.load(Ordering::Relaxed);
    if old & PRESENT == 0 {
        return bind(table, word, row, known, grant).then_some(false);
    }
    let left = memory::info(page_of(old))?;
    let is_last = state(left).flags & abi::page::ORPHAN != 0;
    if old & LARGE != 0 || is_last {
        return None;
    }
    if row.entry == 0 {
        note_left(left, word.swap(0, Ordering::AcqRel));
        return Some(true);
    }
    let bound = grant.bindable(row, exposed::pages())?;
    note_left(left, word.swap((row.entry | USER) & known, Ordering::AcqRel));
    note_bound(bound);
    Some(true)
}

/// Maps the page of a row where none was, if `grant` allows it; `table` is the record of its table.
#[inline(always)]
fn bind(table: &PageInfo, word: &AtomicU64, row: &MapRow, known: u64, grant: Grant) -> bool {
    if word.load(Ordering::Relaxed) & PRESENT != 0 {
        return false;
    }
    let Some(info) = grant.bindable(row, exposed::pages()) else { return false };
    note_used(table, index(row.address, 1));
    word.store((row.entry | USER) & known, Ordering::Release);
    note_bound(info);
    true
}
