//! What the shortest way of `page_map` remembers: a few rows that keep their pages, or map pages where nothing was
//! (exokernel-sosp95, Table 10, `prot1`, `appel1` and `appel2`).
//!
//! The kernel proper answers questions at length: does this key open this root, which tables lie under it, may the
//! key's holder write what is under this list? As long as the answers hold, `entry.s` changes entries by itself,
//! without the lock. Invariants: there is one CPU, else nothing is remembered. Every operation that takes a right
//! away, changes a link or dissolves a table or a context forgets all of it. So the answer to the same question, of
//! the same environment, is still the same.

use crate::context::Context;
use crate::layout::PAGE_SIZE;
use crate::page_table::{ENTRIES, Grant, kept};
use abi::page::PageInfo;
use abi::page_table::{ALLOWED, LARGE, MapRow};
use abi::{KeyIndex, PageNumber};
use core::sync::atomic::{AtomicU64, Ordering};

/// Rows up to which a call goes this way.
pub(crate) const FEW: u64 = 8;
/// Rows from which on a call goes a way of the same kind that drops all translations at once.
pub(crate) const MANY: u64 = 33;
/// Bits of an address that one level-1 table translates.
pub(crate) const REGION_BITS: u32 = 21;
/// Tables that are remembered, each in the place that its addresses say: as many as sparse memory of some hundred
/// pages has.
pub(crate) const TABLES: usize = 256;
/// What is added to [`LastMap::generation`]: above every [`Table::region`].
pub(crate) const GENERATION: u64 = 1 << 32;

/// What is remembered; `entry.s` reads it.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct LastMap {
    /// Handle of the [`Context`] whose answers these are; 0: none are known.
    pub(crate) context: AtomicU64,
    /// The key that opened the root for writing.
    pub(crate) key: AtomicU64,
    /// The root.
    pub(crate) root: AtomicU64,
    /// The bits in which a new entry must be as the old one.
    pub(crate) kept: AtomicU64,
    /// The bits that no entry may have for a page that is mapped anew.
    pub(crate) refused: AtomicU64,
    /// The key by whose right pages of the list are mapped writable; `u64::MAX`: none is known.
    pub(crate) writer: AtomicU64,
    /// The list.
    pub(crate) list: AtomicU64,
    /// Tables of an earlier one are forgotten.
    pub(crate) generation: AtomicU64,
    /// Level-1 tables under the root.
    pub(crate) tables: [Table; TABLES],
}

/// A level-1 table.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Table {
    /// The addresses that it translates, without the lower [`REGION_BITS`] bits, and the generation above; 0: none.
    pub(crate) region: AtomicU64,
    /// Its entries, in the direct map.
    pub(crate) entries: AtomicU64,
    /// Its record.
    pub(crate) record: AtomicU64,
    _rest: u64,
}

impl Table {
    const NONE: Self =
        Self { region: AtomicU64::new(0), entries: AtomicU64::new(0), record: AtomicU64::new(0), _rest: 0 };
}

/// A level-1 table that a row was found in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// Its entries.
    pub(crate) entries: &'static [AtomicU64; ENTRIES],
    /// Its record.
    pub(crate) record: &'static PageInfo,
}

/// No key has this index.
const NOBODY: u64 = u64::MAX;

// `entry.s` goes from an address to the place of its table, and from the address of a page to its record, by shifts.
const _: () = assert!(size_of::<Table>() == 1 << 5 && TABLES.is_power_of_two());
const _: () = assert!(size_of::<PageInfo>() == (PAGE_SIZE >> 6) as usize);

#[unsafe(no_mangle)]
static chitin_last_map: LastMap = LastMap {
    context: AtomicU64::new(0),
    key: AtomicU64::new(0),
    root: AtomicU64::new(0),
    kept: AtomicU64::new(0),
    refused: AtomicU64::new(0),
    writer: AtomicU64::new(NOBODY),
    list: AtomicU64::new(0),
    generation: AtomicU64::new(GENERATION),
    tables: [const { Table::NONE }; TABLES],
};

/// Address of the record of page 0, and bytes of all.
#[unsafe(no_mangle)]
static chitin_page_records: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
/// Address of the count of binding events.
#[unsafe(no_mangle)]
static chitin_binding_events: AtomicU64 = AtomicU64::new(0);

/// The structures are exposed: where the records of pages lie, and the count of binding events.
pub(crate) fn set_records(pages: &'static [PageInfo], events: &'static AtomicU64) {
    chitin_page_records[0].store(pages.as_ptr() as u64, Ordering::Relaxed);
    chitin_page_records[1].store(size_of_val(pages) as u64, Ordering::Relaxed);
    chitin_binding_events.store(core::ptr::from_ref(events) as u64, Ordering::Relaxed);
}

/// Nothing is known any more; the environment that is remembered next begins another generation.
#[inline(always)]
pub fn forget() {
    chitin_last_map.context.store(0, Ordering::Relaxed);
}

/// The caller, and the grant by which it edits a root.
#[derive(Clone, Copy, Debug)]
pub struct Editor<'context> {
    /// The context of the caller.
    pub context: &'context Context,
    /// Its key.
    pub key: KeyIndex,
    /// The root that the key opens for writing.
    pub root: PageNumber,
}

/// Remembers where a row was changed, and what is granted for pages of its list. `known` are the bits of an entry that
/// CPUs know.
pub(crate) fn remember(editor: Editor<'_>, row: &MapRow, found: Found, known: u64, grant: Grant) {
    if crate::exposed::cpu_count() != 1 {
        return;
    }
    let last = &chitin_last_map;
    begin(last, editor, known);
    if grant.write {
        last.writer.store(grant.key, Ordering::Relaxed);
        last.list.store(grant.list.0, Ordering::Relaxed);
    }
    let region = row.address >> REGION_BITS;
    let table = &last.tables[region as usize % TABLES];
    table.region.store(region + last.generation.load(Ordering::Relaxed), Ordering::Relaxed);
    table.entries.store(found.entries.as_ptr() as u64, Ordering::Relaxed);
    table.record.store(core::ptr::from_ref(found.record) as u64, Ordering::Relaxed);
}

/// Empties it for another editor.
fn begin(last: &LastMap, editor: Editor<'_>, known: u64) {
    let words = [(&last.context, editor.context.handle()), (&last.key, editor.key.0), (&last.root, editor.root.0)];
    if words.iter().all(|(word, value)| word.load(Ordering::Relaxed) == *value) {
        return;
    }
    words.iter().for_each(|(word, value)| word.store(*value, Ordering::Relaxed));
    last.kept.store(kept(known), Ordering::Relaxed);
    last.refused.store(LARGE | !(ALLOWED & known), Ordering::Relaxed);
    last.writer.store(NOBODY, Ordering::Relaxed);
    let (generation, wrapped) = last.generation.load(Ordering::Relaxed).overflowing_add(GENERATION);
    if wrapped {
        // What has lain here for all generations must not become true again.
        last.tables.iter().for_each(|table| table.region.store(0, Ordering::Relaxed));
    }
    last.generation.store(if wrapped { GENERATION } else { generation }, Ordering::Relaxed);
}
