//! Breaking the bindings of a page by force (DESIGN.md §4, "Page"; exokernel-sosp95 §3.4).
//!
//! The owner of a page, given up or not, can end every use of it: entries that map it, links to it if it is a table,
//! its ring. So an owner is not charged for longer than it wants for what others keep. A call looks through one table;
//! every entry there is can be found from those tables that nothing leads to: roots, and copies that were not
//! completed.

use crate::cost;
use crate::kernel::{Kernel, Outcome, refuse};
use abi::memory_map::USER_END;
use abi::page::{PageInfo, PageKind};
use abi::page_table::{LARGE, PRESENT};
use abi::{Error, KeyIndex, PageNumber, UserAddress};
use machine::memory;
use machine::page_table::{ENTRIES, LARGE_PAGES, ROOT_LEVEL, Slot, index, links, page_of, span};
use machine::tlb;

/// Entries that one search for a table looks at.
const ENTRIES_PER_SEARCH: usize = 48;

/// How a bounded search ended; where something was found, the first address that it is for.
enum Found {
    /// A level-1 table.
    Table(u64, PageNumber),
    /// A large entry.
    Large(u64, Slot),
    /// A link to the page.
    Link(u64, Slot),
    /// Nothing up to this address.
    NotYet(u64),
    /// Nothing.
    Nothing,
}

/// Where to go on, if not at an end, and whether a binding was broken.
pub(crate) type Step = (Option<u64>, bool);

/// Uses of a page that can be broken here.
fn uses(info: &PageInfo) -> u32 {
    let state = memory::state(info);
    let is_linked = state.kind == PageKind::PageTable && state.level < ROOT_LEVEL;
    memory::references(info) + if is_linked { links(info) } else { 0 }
}

/// Goes from address to address under a table, from `from` on, to the next place where a page can be in use.
fn search(top: PageNumber, page: PageNumber, from: u64) -> Found {
    let highest = memory::info(top).map_or(0, |info| memory::state(info).level);
    let end = if highest == ROOT_LEVEL { USER_END } else { span(highest + 1) };
    let mut address = from & !(span(2) - 1);
    for _ in 0..ENTRIES_PER_SEARCH {
        if address >= end {
            return Found::Nothing;
        }
        let (mut table, mut level) = (top, highest);
        while level > 1 {
            let slot = Slot { table, index: index(address, level) };
            match slot.entry() {
                entry if entry & PRESENT == 0 => break,
                entry if entry & LARGE != 0 => return Found::Large(address, slot),
                entry if page_of(entry) == page => return Found::Link(address, slot),
                entry => table = page_of(entry),
            }
            level -= 1;
        }
        if level == 1 {
            return Found::Table(address, table);
        }
        address = (address & !(span(level) - 1)).saturating_add(span(level));
    }
    Found::NotYet(address)
}

/// Nanoseconds of its slice that a caller pays for each CPU that it makes drop its translations.
const DROP: u64 = 5_000;

impl Kernel {
    /// Drops all translations of programs on every CPU. The caller pays for the others with its own slice.
    pub(crate) fn drop_all(&mut self) {
        tlb::drop_all();
        let others = machine::exposed::cpu_count() as u64 - 1;
        if others > 0 {
            self.pay(others * DROP);
        }
    }

    /// Breaks the bindings of a page under a table (see `abi::syscall`).
    pub(crate) fn unbind_page(
        &mut self,
        key: KeyIndex,
        page: PageNumber,
        top: PageNumber,
        cursor: UserAddress,
    ) -> Outcome<()> {
        let info = self.page(page)?;
        self.permit_release(key, info)?;
        match memory::info(top).map(|info| memory::state(info).kind) {
            None => return refuse(Error::NoSuchPage, top.0),
            Some(PageKind::PageTable) => {}
            Some(kind) => return refuse(Error::WrongKind, kind as u64),
        }
        self.end_ring_and_watches(page, info);
        let (next, found) = self.unbind_step(page, info, top, cursor.0);
        if found {
            // The table may be reached from other roots too.
            self.drop_all();
        }
        match next {
            Some(next) if uses(info) != 0 => refuse(Error::Again, next),
            _ => Ok(()),
        }
    }

    /// Looks through the next table at or after `cursor`.
    pub(crate) fn unbind_step(&mut self, page: PageNumber, info: &PageInfo, top: PageNumber, cursor: u64) -> Step {
        if uses(info) == 0 {
            return (None, false);
        }
        self.spend(cost::TABLE_SEARCH);
        match search(top, page, cursor) {
            Found::Table(first, table) => self.unbind_in(page, table, first, cursor),
            Found::Large(first, slot) => (Some(first + span(2)), self.unbind_large(page, slot)),
            Found::Link(first, slot) => {
                self.unlink_by_force(page, info, slot);
                (Some(first), true)
            }
            Found::NotYet(next) => (Some(next), false),
            Found::Nothing => (None, false),
        }
    }

    /// Breaks the bindings in a level-1 table that covers what begins at `first`, from `cursor` on, until the entry is
    /// spent.
    fn unbind_in(&mut self, page: PageNumber, table: PageNumber, first: u64, cursor: u64) -> Step {
        let begin = if cursor > first { index(cursor, 1) } else { 0 };
        let mut found = false;
        for index in begin..ENTRIES {
            if self.is_spent() {
                return (Some(first + index as u64 * span(1)), found);
            }
            let leaf = Slot { table, index };
            let entry = leaf.entry();
            if entry & PRESENT != 0 && page_of(entry) == page {
                self.put_leaf(leaf, 0);
                found = true;
            }
        }
        (Some(first + span(2)), found)
    }

    /// Removes a large entry if the page is one of those that it maps.
    fn unbind_large(&mut self, page: PageNumber, slot: Slot) -> bool {
        let first = page_of(slot.entry());
        let maps = (first.0..first.0 + LARGE_PAGES).contains(&page.0);
        if maps {
            self.put_leaf(slot, 0);
        }
        maps
    }

    /// Removes a link. Where it is the last, the table is emptied first, as far as this entry may.
    pub(crate) fn unlink_by_force(&mut self, page: PageNumber, info: &PageInfo, slot: Slot) {
        let is_last = links(info) == 1;
        if is_last && !self.empty_table(page, memory::state(info).level) {
            return;
        }
        self.memory.unlink(slot);
        if is_last {
            self.dissolve_table(page);
            self.settle(page);
        }
    }
}
