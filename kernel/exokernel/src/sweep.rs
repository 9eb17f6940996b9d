//! Sweep: breaks every use of the orphans of an environment, in all page tables of the machine (exokernel-sosp95
//! §3.4).
//!
//! A page that was taken is an orphan while other address spaces map it. One sweep reads the records of all pages,
//! some a step. It removes the entries of tables that map orphans of the environment and the links that lead to its
//! tables. It ends the rings that its orphans are in. The owner of a table from which an entry was removed finds the
//! page in its own repossession vector.

use crate::cost;
use crate::environment::Environment;
use crate::kernel::Kernel;
use abi::PageNumber;
use abi::budget::Resource;
use abi::environment::State;
use abi::page::{ORPHAN, PageInfo, PageKind};
use abi::page_table::{LARGE, PRESENT};
use core::sync::atomic::Ordering;
use machine::dma::device_pins;
use machine::page_table::{ENTRIES, LARGE_PAGES, ROOT_LEVEL, Slot, page_of};
use machine::{exposed, memory};

/// Entries that are looked at together, and units of work of that.
const CHUNK: usize = 32;
/// Records of pages that are looked at together, and units of work of that.
const RECORDS: usize = 64;

/// Where a sweep has come to: a page, and an index in it if it is a table.
#[derive(Clone, Copy, Debug)]
struct Place {
    page: PageNumber,
    index: usize,
}

impl Place {
    const fn from_cursor(cursor: u64) -> Self {
        Self { page: PageNumber(cursor / ENTRIES as u64), index: cursor as usize % ENTRIES }
    }

    const fn cursor(self) -> u64 {
        self.page.0 * ENTRIES as u64 + self.index as u64
    }
}

/// Whether a page is an orphan that is charged to an environment.
fn is_orphan_of(info: &PageInfo, environment: Environment) -> bool {
    memory::state(info).flags & ORPHAN != 0 && info.owner.load(Ordering::Relaxed) == environment.number().0
}

/// Whether a page is a table, or may be an orphan in a ring.
fn may_hold(info: &PageInfo) -> bool {
    let word = info.state.load(Ordering::Relaxed);
    word as u8 == PageKind::PageTable as u8 || word >> 8 & u64::from(ORPHAN) != 0
}

impl Kernel {
    /// Breaks what uses the orphans of an environment in the tables from a place on, until the entry is spent. The
    /// result is the next place; none at the end.
    pub(crate) fn sweep(&mut self, environment: Environment, cursor: u64) -> Option<u64> {
        let mut from = Place::from_cursor(cursor);
        let (mut broken, mut left) = (false, None);
        while (from.page.0 as usize) < exposed::pages().len() {
            if self.is_spent() {
                left = Some(from);
                break;
            }
            self.spend(cost::SWEEP_RECORDS);
            let records = exposed::pages()[from.page.0 as usize..].iter().take(RECORDS);
            let count = records.len() as u64;
            let Some(at) = records.into_iter().position(may_hold) else {
                from = Place { page: PageNumber(from.page.0 + count), index: 0 };
                continue;
            };
            if at != 0 {
                from = Place { page: PageNumber(from.page.0 + at as u64), index: 0 };
            }
            let info = memory::info(from.page).expect("its record was found");
            if memory::state(info).kind == PageKind::PageTable {
                left = self.sweep_table(environment, from, &mut broken);
            } else if is_orphan_of(info, environment) {
                self.end_ring_and_watches(from.page, info);
                if device_pins(info) != 0 {
                    self.wait_for_device(environment, from.page);
                }
            }
            if left.is_some() {
                break;
            }
            from = Place { page: PageNumber(from.page.0 + 1), index: 0 };
        }
        if broken {
            self.drop_all();
        }
        left.map(Place::cursor)
    }

    /// The same for one table, from an index on.
    fn sweep_table(&mut self, environment: Environment, from: Place, broken: &mut bool) -> Option<Place> {
        let level = memory::info(from.page).map_or(1, |info| memory::state(info).level);
        // The upper half of a root is the kernel's.
        let end = if level == ROOT_LEVEL { ENTRIES / 2 } else { ENTRIES };
        let mut slot = Slot { table: from.page, index: from.index };
        while slot.index < end {
            let stopped = Some(Place { page: slot.table, index: slot.index });
            if self.is_spent() {
                return stopped;
            }
            self.spend(cost::SWEEP_ENTRIES);
            let count = CHUNK.min(end - slot.index);
            let found = slot.entries(count).position(|entry| may_use_orphan(entry, level, environment));
            let Some(at) = found else {
                slot.index += count;
                continue;
            };
            slot.index += at;
            if !self.break_use(environment, slot, level, broken) {
                return Some(Place { page: slot.table, index: slot.index });
            }
            slot.index += 1;
        }
        None
    }

    /// Removes an entry that maps an orphan of an environment or leads to one. False: this kernel entry has no room
    /// for that.
    fn break_use(&mut self, environment: Environment, slot: Slot, level: u8, broken: &mut bool) -> bool {
        let (entry, first) = (slot.entry(), page_of(slot.entry()).0);
        let is_large = level > 1 && entry & LARGE != 0;
        if self.is_spent() || (is_large && self.work_left() < cost::SWEEP_LARGE_LEFT) {
            return false;
        }
        if is_large {
            self.spend(cost::SWEEP_LARGE);
        }
        let pages = if is_large { LARGE_PAGES } else { 1 };
        let is_one = |page: &u64| memory::info(PageNumber(*page)).is_some_and(|info| is_orphan_of(info, environment));
        let Some(page) = (first..first + pages).find(is_one).map(PageNumber) else { return true };
        let info = memory::info(page).expect("an orphan has a record");
        let holder = memory::info(slot.table).map(|info| self.owner(info));
        *broken = true;
        if level == 1 || is_large {
            self.put_leaf(slot, 0);
        } else {
            self.unlink_by_force(page, info, slot);
        }
        if slot.entry() & PRESENT != 0 {
            return false;
        }
        if let Some(holder) = holder.filter(|holder| *holder != environment && holder.is(State::Alive)) {
            self.record_taken(holder, Resource::Page, page.0);
        }
        true
    }
}

/// Whether an entry maps an orphan of an environment, leads to one, or is large: those have many pages to look at.
fn may_use_orphan(entry: u64, level: u8, environment: Environment) -> bool {
    if entry & PRESENT == 0 {
        return false;
    }
    (level > 1 && entry & LARGE != 0)
        || memory::info(page_of(entry)).is_some_and(|info| is_orphan_of(info, environment))
}
