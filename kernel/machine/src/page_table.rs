//! Page tables of programs: walking them and changing one entry at a time (SDM volume 3, chapter 4).
//!
//! Owns the count of references to each mapped page and of links to each table. What holds always:
//!
//! - a present entry at level 1 (or a large one at level 2) maps only pages that programs may see, and maps writable only
//!   ordinary pages and the pages of environment areas;
//! - a present entry above level 1 leads to a page of kind page table whose level is one less;
//! - `references` of a page is the number of entries that map it, `links` of a table the number of entries that lead to it.
//!
//! Who may do what is decided by the kernel proper; what is decided here is only what could break the kernel itself.

use crate::exposed;
use crate::layout::{PAGE_SIZE, direct};
use crate::map_few::{self, REGION_BITS};
use crate::memory::{self, Memory, Numbered, PageState, note_edit, set_state, state};
use abi::PageNumber;
use abi::memory_map::USER_END;
use abi::page::{EIGHTHS_SHIFT, PageInfo, PageKind};
use abi::page_table::{ALLOWED, DIRTY, LARGE, MapRow, PAGE, PRESENT, USER, WRITE};
use core::sync::atomic::{AtomicU64, Ordering};

/// Entries of a table.
pub const ENTRIES: usize = 512;
/// Level of a root.
pub const ROOT_LEVEL: u8 = 4;
/// Pages that a large entry maps.
pub const LARGE_PAGES: u64 = 512;

/// A place for an entry: a table and an index in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The table.
    pub table: PageNumber,
    /// The index, below 512.
    pub index: usize,
}

/// Where a walk came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walk {
    /// The slot at the level asked for.
    pub slot: Slot,
    /// The first table on the way that more than one link leads to; everything from it on is immutable.
    pub shared: Option<PageNumber>,
}

/// Why a walk ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkError {
    /// No table at this level.
    Missing(u8),
    /// A large entry at this level.
    Large(u8),
}

/// The table in a page. The page must be a table.
#[inline]
fn table(page: PageNumber) -> &'static [AtomicU64; ENTRIES] {
    assert!(
        memory::info(page).is_some_and(|info| state(info).kind == PageKind::PageTable),
        "no page table in the page"
    );
    // SAFETY: the page is a table: 512 words that the CPUs and this module read and write whole.
    unsafe { &*(direct(page.address()) as *const [AtomicU64; ENTRIES]) }
}

/// The index of an address in a table of a level.
pub const fn index(address: u64, level: u8) -> usize {
    (address >> (12 + 9 * (level - 1) as u32)) as usize & (ENTRIES - 1)
}

/// Bytes that one entry of a level covers.
pub const fn span(level: u8) -> u64 {
    PAGE_SIZE << (9 * (level - 1) as u32)
}

/// How many links lead to a table; for a root, how many environments have it.
pub fn links(info: &PageInfo) -> u32 {
    (info.holds.load(Ordering::Relaxed) >> 32) as u32
}

fn set_links(info: &PageInfo, links: u32) {
    let pins = info.holds.load(Ordering::Relaxed) & 0xffff_ffff;
    info.holds.store(u64::from(links) << 32 | pins, Ordering::Release);
}

/// Walks from a root to the slot for `address` at `level`.
pub fn walk(root: PageNumber, address: u64, level: u8) -> Result<Walk, WalkError> {
    let mut at = root;
    let mut shared = None;
    for above in (level + 1..=ROOT_LEVEL).rev() {
        let entry = table(at)[index(address, above)].load(Ordering::Relaxed);
        if entry & PRESENT == 0 {
            return Err(WalkError::Missing(above - 1));
        }
        if entry & LARGE != 0 {
            return Err(WalkError::Large(above));
        }
        at = page_of(entry);
        if shared.is_none() && links(memory::info(at).expect("a linked table has a record")) > 1 {
            shared = Some(at);
        }
    }
    Ok(Walk { slot: Slot { table: at, index: index(address, level) }, shared })
}

/// The entry that translates an address under a root, and the bytes that it covers; none where nothing is mapped.
pub fn translate(root: PageNumber, address: u64) -> Option<(u64, u64)> {
    let mut at = root;
    for level in (1..=ROOT_LEVEL).rev() {
        let entry = table(at)[index(address, level)].load(Ordering::Relaxed);
        if entry & PRESENT == 0 {
            return None;
        }
        if level == 1 || entry & LARGE != 0 {
            return Some((entry, span(level)));
        }
        at = page_of(entry);
    }
    None
}

/// Entries of an eighth of a table.
const EIGHTH: usize = ENTRIES / 8;
/// Entries that are looked at together.
const TOGETHER: usize = 8;

/// Notes that a table may hold an entry at an index from now on. Tables are mostly empty: who looks for entries looks at
/// the eighths that may hold some.
#[inline(always)]
fn note_used(info: &PageInfo, index: usize) {
    let (word, bit) = (info.state.load(Ordering::Relaxed), 1 << (EIGHTHS_SHIFT as usize + index / EIGHTH));
    if word & bit == 0 {
        info.state.store(word | bit, Ordering::Release);
    }
}

/// The eighths of a table that may hold entries, as bits.
fn eighths(info: &PageInfo) -> u8 {
    (info.state.load(Ordering::Relaxed) >> EIGHTHS_SHIFT) as u8
}

/// The index of the first entry of a table from one on that is not 0; that of the end where there is none. Of a root only
/// the user's half counts.
fn next_used(page: PageNumber, from: usize) -> usize {
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

const _: () = assert!(TOGETHER == 8);

/// All bits that are set in any entry of a table; of a root only the user's half counts.
fn bits_of(page: PageNumber) -> u64 {
    let eighths = eighths(memory::info(page).expect("a table has a record"));
    let chunks = table(page).as_chunks::<TOGETHER>().0.chunks(EIGHTH / TOGETHER).enumerate();
    let used = chunks.filter(|(eighth, _)| eighths & 1 << eighth != 0);
    used.flat_map(|(_, chunks)| chunks).fold(0, |bits, chunk| bits | bits_in(chunk))
}

/// The page that an entry names.
pub const fn page_of(entry: u64) -> PageNumber {
    PageNumber((entry & PAGE) >> 12)
}

impl Slot {
    /// The entry in it.
    pub fn entry(self) -> u64 {
        table(self.table)[self.index].load(Ordering::Relaxed)
    }

    fn word(self) -> &'static AtomicU64 {
        &table(self.table)[self.index]
    }

    fn note_edit(self) {
        note_edit(memory::info(self.table).expect("a table has a record"));
    }
}

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

    /// Edits the entries of rows and returns how many are done, and whether TLBs have to know. A row keeps the page that is
    /// mapped, maps one where none was, or unmaps one. Ends before a row of another kind, or whose address lies outside of
    /// the table, or that allows what neither the old entry does nor `grant`, or that would free its page.
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
            // What is in a table has none of the bits that nobody may set.
            if old == 0 && entry & PRESENT != 0 {
                if !bind(self.info, word, row, known, grant) {
                    break;
                }
            } else if (old ^ entry) & kept != 0 || entry & PRESENT == 0 {
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

    /// Where a fresh page can be mapped without anything coming free: where nothing is, or a page that stays when it is gone.
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

    /// Takes a free page for a program, filled with zeros or with what lies in an ordinary page, and maps it in an opening of
    /// this table. The result is the entry: as the one that is given, with its number.
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

/// The bits in which an entry that keeps its page stays as it is: what is mapped, and what nobody may set, of those that
/// CPUs know.
#[inline(always)]
pub(crate) const fn kept(known: u64) -> u64 {
    PAGE | PRESENT | LARGE | !(ALLOWED & known)
}

/// Replaces an entry by one that maps the same page. What the CPU noted in the old one since anybody looked is in what the
/// exchange gives.
#[inline(always)]
fn replace(word: &AtomicU64, new: u64) {
    let old = word.swap(new, Ordering::AcqRel);
    if old & DIRTY != 0 {
        note_dirty(old);
    }
}

/// The rows of [`LeafTable::change`] that bind a page, unbind one, or put one in the place of another; whether TLBs have to
/// know.
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
    let bound = grant.bindable(row)?;
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
    let Some(info) = grant.bindable(row) else { return false };
    note_used(table, index(row.address, 1));
    word.store((row.entry | USER) & known, Ordering::Release);
    note_bound(info);
    true
}

/// Counts a small entry that came.
#[inline(always)]
fn note_bound(info: &PageInfo) {
    memory::note_use(info);
    memory::forget_zeroed(info);
    count_reference(info, 1);
}

/// Counts a small entry that is gone, in the record of its page.
#[inline(always)]
fn note_left(info: &PageInfo, old: u64) {
    memory::note_use(info);
    count_reference(info, -1);
    if old & DIRTY != 0 && state(info).flags & abi::page::DIRTY == 0 {
        memory::set_flags(info, abi::page::DIRTY, 0);
    }
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

    /// The record of the page of a row that maps a small one, if the row may map it by this.
    #[inline(always)]
    fn bindable(self, row: &MapRow) -> Option<&'static PageInfo> {
        let is_small = row.entry & (PRESENT | LARGE | !ALLOWED) == PRESENT;
        if is_small { self.covered(row, exposed::pages()) } else { None }
    }

    /// The record of the page of a row, one of all `pages`, if the row may map it by this.
    #[inline(always)]
    fn covered(self, row: &MapRow, pages: &'static [PageInfo]) -> Option<&'static PageInfo> {
        let page = page_of(row.entry).0 as usize;
        if page >= pages.len() {
            return None;
        }
        let info = &pages[page];
        let may = row.address % PAGE_SIZE == self.key
            && (self.write || row.entry & WRITE == 0)
            && info.access.load(Ordering::Relaxed) as u32 == self.list.0 as u32
            && info.state.load(Ordering::Relaxed) as u8 == PageKind::Ordinary as u8;
        may.then_some(info)
    }
}

impl Memory {
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
    fn forget_leaf_table(&mut self) {
        self.last_leaf = LastLeaf::NONE;
        map_few::forget();
    }

    #[inline(never)]
    fn find_leaf_table(&mut self, root: PageNumber, first: u64) -> Option<()> {
        let found = walk(root, first, 1).ok().filter(|found| found.shared.is_none())?;
        self.last_leaf = LastLeaf { root, first, table: found.slot.table };
        Some(())
    }

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

    /// Unmaps the pages of a level-1 table from an index on, `limit` at most, up to the first that is freed by it. Returns
    /// the index that it came to and how many pages are unmapped.
    pub fn unmap_run(&mut self, page: PageNumber, from: usize, limit: usize) -> (usize, usize) {
        let words = table(page);
        let (mut done, mut index) = (0, next_used(page, from));
        while index < ENTRIES {
            let old = words[index].load(Ordering::Relaxed);
            if done == limit || old & PRESENT == 0 {
                break;
            }
            let info = memory::info(page_of(old)).expect("a mapped page has a record");
            if state(info).flags & abi::page::ORPHAN != 0 {
                break;
            }
            note_left(info, words[index].swap(0, Ordering::AcqRel));
            done += 1;
            index += 1;
            if words.get(index).is_none_or(|next| next.load(Ordering::Relaxed) == 0) {
                index = next_used(page, index);
            }
        }
        if done > 0 {
            note_edit(memory::info(page).expect("a table has a record"));
        }
        (index, done)
    }

    /// Makes a donated page an empty table of a level; a root gets the kernel's half.
    pub fn create_table(&mut self, page: PageNumber, level: u8) {
        assert!(self.is_donatable(page) && (1..=ROOT_LEVEL).contains(&level), "a table is made of a donated page");
        let info = memory::info(page).expect("checked");
        Self::make_zero(page);
        set_state(info, PageState { level, ..PageState::of(PageKind::PageTable) });
        set_links(info, 0);
        set_parent(info, None);
        self.forget_leaf_table();
        if level == ROOT_LEVEL {
            let kernel = &kernel_half()[ENTRIES / 2..];
            for (entry, common) in table(page)[ENTRIES / 2..].iter().zip(kernel) {
                entry.store(common.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        }
    }

    /// Makes a table without links and entries an ordinary page again.
    pub fn dissolve_table(&mut self, page: PageNumber) {
        let info = memory::info(page).expect("a table has a record");
        assert_eq!(links(info), 0, "a linked table is not dissolved");
        self.forget_leaf_table();
        let left = bits_of(page);
        assert_eq!(left & PRESENT, 0, "the table is not empty");
        if left != 0 || state(info).level == ROOT_LEVEL {
            Self::zero(page);
        }
        info.block.store(0, Ordering::Release);
        memory::set_zeroed(info);
    }

    /// Links a table into a slot that holds no present entry. A second link makes every link to it read-only.
    pub fn link(&mut self, slot: Slot, child: PageNumber) {
        let info = memory::info(child).expect("a table has a record");
        let above = state(memory::info(slot.table).expect("a table has a record")).level;
        assert!(
            state(info).kind == PageKind::PageTable && state(info).level + 1 == above,
            "a link leads one level down"
        );
        assert_eq!(slot.entry() & PRESENT, 0, "the slot is taken");
        self.forget_leaf_table();
        let writable = if links(info) == 0 { WRITE } else { 0 };
        if let Some(first) = parent(info) {
            first.note_edit();
            first.word().fetch_and(!WRITE, Ordering::AcqRel);
        }
        set_links(info, links(info) + 1);
        set_parent(info, (links(info) == 1).then_some(slot));
        slot.note_edit();
        note_used(memory::info(slot.table).expect("checked"), slot.index);
        slot.word().store(child.address() | PRESENT | USER | writable, Ordering::Release);
    }

    /// Removes the link in a slot; returns the table.
    pub fn unlink(&mut self, slot: Slot) -> PageNumber {
        self.forget_leaf_table();
        slot.note_edit();
        let old = slot.word().swap(0, Ordering::AcqRel);
        assert!(old & PRESENT != 0 && old & LARGE == 0, "no link in the slot");
        let child = page_of(old);
        let info = memory::info(child).expect("a table has a record");
        set_links(info, links(info) - 1);
        set_parent(info, None);
        child
    }

    /// Makes the only link that is left to a table writable again.
    pub fn unshare(&mut self, slot: Slot) {
        let info = memory::info(page_of(slot.entry())).expect("a table has a record");
        assert_eq!(links(info), 1, "only the last link is made writable");
        set_parent(info, Some(slot));
        if slot.entry() & WRITE == 0 {
            slot.note_edit();
            slot.word().fetch_or(WRITE, Ordering::AcqRel);
        }
    }

    /// The page under a leaf entry will not be what was written through it.
    pub fn forget_written(&mut self, slot: Slot) {
        slot.word().fetch_and(!DIRTY, Ordering::AcqRel);
    }

    /// Counts an environment that has a root, or has it no more.
    pub fn count_root(&mut self, root: PageNumber, change: i32) {
        let info = memory::info(root).expect("a root has a record");
        assert_eq!((state(info).kind, state(info).level), (PageKind::PageTable, ROOT_LEVEL));
        set_links(info, links(info).checked_add_signed(change).expect("environments of a root went below zero"));
    }
}

/// The kernel's own root table.
fn kernel_half() -> &'static [AtomicU64; ENTRIES] {
    // SAFETY: the kernel's root was made at boot, lies in the direct map, and its upper half never changes after it.
    unsafe { &*(direct(crate::kernel_map::root_address()) as *const [AtomicU64; ENTRIES]) }
}

/// The slot of the only link to a table, where that link is writable.
fn parent(info: &PageInfo) -> Option<Slot> {
    let word = info.parent.load(Ordering::Relaxed);
    let table = PageNumber(word & 0xffff_ffff);
    (table != PageNumber::NONE).then_some(Slot { table, index: (word >> 32) as usize & (ENTRIES - 1) })
}

fn set_parent(info: &PageInfo, slot: Option<Slot>) {
    let word = slot.map_or(PageNumber::NONE.0, |slot| slot.table.0 | (slot.index as u64) << 32);
    info.parent.store(word, Ordering::Release);
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
fn count_reference(info: &PageInfo, change: i64) {
    let word = info.access.load(Ordering::Relaxed);
    info.access.store(word.wrapping_add((change as u64) << 32), Ordering::Release);
}

/// Notes in the record of a page that it was written through a mapping.
#[cold]
fn note_dirty(entry: u64) {
    for info in mapped(entry).expect("a mapped page has a record") {
        if state(info).flags & abi::page::DIRTY == 0 {
            memory::set_flags(info, abi::page::DIRTY, 0);
        }
    }
}

const _: () = assert!(USER_END <= span(ROOT_LEVEL) * ENTRIES as u64 / 2);
