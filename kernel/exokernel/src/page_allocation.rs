//! Allocation of pages: taken, filled and mapped in one call, which is all that a fault of a program takes
//! (xok-exos-sosp97 §5.2; DESIGN.md §4, "Page"; decision 0021).
//!
//! Invariants:
//! - a row is done whole or not at all: every check comes before a page is taken;
//! - no environment sees a page before the page holds what its row says;
//! - a row maps nothing that `page_map` would refuse.

use crate::budget;
use crate::cost;
use crate::environment::Environment;
use crate::kernel::{Kernel, Outcome, Stop, copied, refuse};
use crate::key::permit;
use crate::page::{Taking, access_list};
use crate::page_map::{IN_PAGE, READ_WRITE, drop_translations};
use abi::budget::Resource;
use abi::capability::Rights;
use abi::limits::{MAP_ROWS, PAGE_SIZE};
use abi::memory_map::in_user_half;
use abi::page::PageKind;
use abi::page_table::{ALLOWED, LARGE, MapRow, PAGE, PRESENT, WRITE};
use abi::{Error, Failure, KeyIndex, PageNumber, UserAddress};
use core::mem::MaybeUninit;
use machine::memory::{self, Numbered};
use machine::page_table::{Grant, page_of};
use machine::user;

/// What the rows of a call have in common.
struct Supply {
    /// The environment that gets the pages.
    caller: Environment,
    /// Their access list.
    list: PageNumber,
    /// Where they are mapped; none: nowhere.
    root: Option<PageNumber>,
    /// What the key of the last row may do with pages of the list.
    grant: Grant,
}

impl Kernel {
    /// Allocates pages (see `abi::syscall`).
    pub(crate) fn allocate_pages(
        &mut self,
        (key, list): (KeyIndex, PageNumber),
        (root_key, root): (KeyIndex, PageNumber),
        rows: UserAddress,
        count: u64,
    ) -> Outcome<u64> {
        let rights = self.rights_on_list(key, list)?;
        permit(rights, Rights::OWN)?;
        let root = Some(root).filter(|root| *root != PageNumber::NONE);
        if let Some(root) = root {
            self.root(root_key, root, Rights::WRITE)?;
        }
        if count > MAP_ROWS as u64 {
            return refuse(Error::TooMany, MAP_ROWS as u64);
        }
        let mut copy = [const { MaybeUninit::uninit() }; MAP_ROWS];
        let copy: &mut [MapRow] = copied(user::copy_rows_in(&mut copy[..count as usize], rows), rows)?;
        // The numbers go out at the end: where they cannot, the call is refused before it has changed anything.
        copied(user::copy_out(rows, copy), rows)?;
        let grant = granted(key.0, list, rights).unwrap_or(Grant::NONE);
        let (done, ended) = self.supply_rows(Supply { caller: self.caller(), list, root, grant }, copy);
        copied(user::copy_out(rows, &copy[..done]), rows)?;
        match ended {
            Err(Stop::Refused(Failure { error, .. })) => refuse(error, done as u64),
            ended => ended.map(|()| count),
        }
    }

    /// How many rows are done, and what was wrong with the one behind them.
    #[inline(always)]
    fn supply_rows(&mut self, mut supply: Supply, rows: &mut [MapRow]) -> (usize, Outcome<()>) {
        let mut done = 0;
        loop {
            done += self.supply_run(&mut supply, &mut rows[done..]);
            let Some(row) = rows.get_mut(done) else { return (done, Ok(())) };
            if let Err(stop) = self.supply_row(&mut supply, row) {
                return (done, Err(stop));
            }
            done += 1;
        }
    }

    /// The first rows, as long as each is like the first: under the same key, in the same table, with a source under
    /// the same list; and nothing comes free. What was found out for the first holds for all then, and they are counted
    /// together: the way of faults. How many.
    #[inline(always)]
    fn supply_run(&mut self, supply: &mut Supply, rows: &mut [MapRow]) -> usize {
        let (Some(first), Some(root)) = (rows.first(), supply.root) else { return 0 };
        let key = first.address & IN_PAGE;
        if self.short_until != 0 || !self.is_granted(supply, key) {
            return 0;
        }
        let sources = self.readable_list(supply, key, page_of(first.entry));
        let most = budget::left(supply.caller, Resource::Page)
            .min(u64::from(self.work_left() / (cost::PAGE_TAKE + cost::SUPPLY_ROW)));
        let Some(mut table) = self.memory.leaf_table(root, first.address) else { return 0 };
        let refused = if supply.grant.write { LARGE | !ALLOWED } else { LARGE | WRITE | !ALLOWED };
        let mut taking = Taking::begin(supply.caller, supply.list);
        let mut changed = false;
        for row in rows.iter_mut().take(most as usize) {
            let Some(source) = copied_from(page_of(row.entry), sources) else { break };
            if row.address & IN_PAGE != key || row.entry & (refused | PRESENT) != PRESENT {
                break;
            }
            let Some(opening) = table.opening(row.address) else { break };
            let Some(page) = taking.next() else { break };
            row.entry = table.supply(opening, row.entry, page, source);
            taking.take(page);
            changed |= opening.is_mapped();
        }
        let done = taking.end();
        table.note_supplied(done);
        self.spend(done as u32 * (cost::PAGE_TAKE + cost::SUPPLY_ROW));
        drop_translations(root, &rows[..done], changed);
        done
    }

    /// Whether a key may read pages of the list at least.
    #[inline(always)]
    fn is_granted(&self, supply: &mut Supply, key: u64) -> bool {
        supply.grant.key == key || self.find_grant(supply, key).is_ok()
    }

    /// Finds out what a key may do with pages of the list.
    #[inline(never)]
    fn find_grant(&self, supply: &mut Supply, key: u64) -> Result<(), Failure> {
        let rights = self.rights_on_list(KeyIndex(key), supply.list)?;
        supply.grant = granted(key, supply.list, rights).ok_or(Error::NotPermitted.about(u64::from(rights.0)))?;
        Ok(())
    }

    /// The list of a source, if a key may read what is under it; else the list of the fresh pages, which it may read.
    #[inline(always)]
    fn readable_list(&self, supply: &Supply, key: u64, source: PageNumber) -> PageNumber {
        let Some(list) = memory::info(source).map(access_list).filter(|list| *list != supply.list) else {
            return supply.list;
        };
        match self.rights_on_list(KeyIndex(key), list) {
            Ok(rights) if rights.contains(Rights::READ) => list,
            _ => supply.list,
        }
    }

    /// Any row: checked first, then done.
    #[inline(never)]
    fn supply_row(&mut self, supply: &mut Supply, row: &mut MapRow) -> Outcome<()> {
        if self.is_spent() {
            return refuse(Error::Again, 0);
        }
        let source = page_of(row.entry);
        match supply.root {
            Some(root) => self.check_target(supply, root, row)?,
            None if row.entry & !PAGE == 0 => {}
            None => return refuse(Error::BadArgument, 4),
        }
        if source != PageNumber::NONE {
            self.readable(KeyIndex(row.address & IN_PAGE), source)?;
        }
        self.check_allocation(supply.caller)?;
        let page = match (supply.root, row.address & !IN_PAGE) {
            (None, wanted) if wanted != 0 => self.this_free_page(page_at(wanted))?,
            _ => self.any_free_page(supply.caller)?,
        };
        self.spend(cost::SUPPLY_ROW);
        self.give(page, source, supply.caller, supply.list);
        row.entry = row.entry & !PAGE | page.address();
        if let Some(root) = supply.root {
            let slot = self.leaf_slot(root, row.address).expect("it was found before");
            let old = self.put_leaf(slot, row.entry);
            // The page that was mapped there may be the next that is taken.
            drop_translations(root, core::slice::from_ref(row), old & PRESENT != 0);
        }
        Ok(())
    }

    /// Fails unless the entry of a row can be set, by what its key may do with pages of the list.
    #[inline(always)]
    fn check_target(&mut self, supply: &mut Supply, root: PageNumber, row: &MapRow) -> Result<(), Failure> {
        let (address, key) = (row.address & !IN_PAGE, row.address & IN_PAGE);
        if row.entry & (PRESENT | LARGE | !ALLOWED) != PRESENT {
            return Err(Error::BadArgument.about(4));
        }
        if !in_user_half(address, PAGE_SIZE) {
            return Err(Error::BadAddress.about(address));
        }
        if supply.grant.key != key {
            self.find_grant(supply, key)?;
        }
        if row.entry & WRITE != 0 && !supply.grant.write {
            return Err(Error::NotPermitted.about(u64::from(Rights::READ.0)));
        }
        self.leaf_slot(root, address).map(|_| ())
    }
}

/// The page at a physical address.
const fn page_at(address: u64) -> PageNumber {
    PageNumber(address / PAGE_SIZE)
}

/// What these rights on a list let a key do with its pages, if it may read them.
fn granted(key: u64, list: PageNumber, rights: Rights) -> Option<Grant> {
    rights.contains(Rights::READ).then(|| Grant { key, list, write: rights.contains(READ_WRITE) })
}

/// What a page is filled with, for a source that is an ordinary page under a list, or none: zeros.
#[inline(always)]
fn copied_from(source: PageNumber, list: PageNumber) -> Option<Option<Numbered>> {
    if source == PageNumber::NONE {
        return Some(None);
    }
    let is_ordinary = |source: &Numbered| memory::state(source.info()).kind == PageKind::Ordinary;
    memory::numbered(source).filter(|source| access_list(source.info()) == list && is_ordinary(source)).map(Some)
}
