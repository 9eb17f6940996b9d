//! Page tables of programs: walking them and changing one entry at a time (SDM volume 3, chapter 4).
//!
//! Owns the count of references to each mapped page and of links to each table. Invariants:
//!
//! - a present entry at level 1 (or a large one at level 2) maps only pages that programs may see. It maps writable
//!   only ordinary pages and the pages of environment areas;
//! - a present entry above level 1 leads to a page of kind page table whose level is one less;
//! - `references` of a page is the number of entries that map it, `links` of a table the number of entries that lead
//!   to it.
//!
//! `walk` finds the slot of an address, and `used` the entries of a table; `leaf` is about entries that map pages and
//! what may be mapped by which right, `leaf_table` about many of them in one table; `link` makes tables and links
//! them.
//!
//! The kernel proper decides which environment may do what; this module decides only what could break the kernel
//! itself.

mod leaf;
mod leaf_table;
mod link;
mod used;
mod walk;

pub(crate) use leaf_table::{LastLeaf, kept};

pub use leaf::{Grant, has_one_access_list, is_safe_leaf};
pub use leaf_table::{LeafTable, Opening};
pub use link::{links, only_parent};
pub use walk::{Walk, WalkError, translate, walk};

use crate::layout::{PAGE_SIZE, direct};
use crate::memory::{self, note_edit, state};
use abi::PageNumber;
use abi::memory_map::USER_END;
use abi::page::PageKind;
use abi::page_table::PAGE;
use core::sync::atomic::{AtomicU64, Ordering};

/// Entries of a table.
pub const ENTRIES: usize = 512;
/// Level of a root.
pub const ROOT_LEVEL: u8 = 4;
/// Pages that a large entry maps.
pub const LARGE_PAGES: u64 = 512;

const _: () = assert!(USER_END <= span(ROOT_LEVEL) * ENTRIES as u64 / 2);

/// A place for an entry: a table and an index in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The table.
    pub table: PageNumber,
    /// The index, below 512.
    pub index: usize,
}

impl Slot {
    /// The entry in it.
    pub fn entry(self) -> u64 {
        table(self.table)[self.index].load(Ordering::Relaxed)
    }

    /// The entries in so many slots from it on, of the same table.
    #[inline(always)]
    pub fn entries(self, count: usize) -> impl DoubleEndedIterator<Item = u64> + ExactSizeIterator {
        table(self.table)[self.index..self.index + count].iter().map(|word| word.load(Ordering::Relaxed))
    }

    fn word(self) -> &'static AtomicU64 {
        &table(self.table)[self.index]
    }

    fn note_edit(self) {
        note_edit(memory::info(self.table).expect("a table has a record"));
    }
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

/// The page that an entry names.
pub const fn page_of(entry: u64) -> PageNumber {
    PageNumber((entry & PAGE) >> 12)
}
