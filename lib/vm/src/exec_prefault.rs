//! What a program that begins touches first comes together, when its file is mapped: each page would be a fault of
//! its own.
//!
//! Those are the pages of the file that programs touched before (`vfs::prefault_set`), of data that it may write as
//! copies, and the zeros behind it where they are few. Nothing comes that the program could not have touched by
//! itself, and what cannot be brought now comes when it is touched.

use crate::address_space::{AddressSpace, PageOps, entry_for};
use crate::fault_around::{READAHEAD, ZEROS as NO_PAGE, shows};
use crate::page_record::{COPY_ON_WRITE, FROM_FILE};
use crate::table_scan::SPAN;
use crate::vma::{Backing, Protection, Vma};
use abi::page_table::MapRow;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use linux_abi::address_map::PAGE_SIZE;
use linux_abi::errno::{Errno, Result};

/// Pages of data that are copied at most.
const COPIES: usize = 16;
/// Pages up to which zeros that belong together come at once.
const ZEROS: u64 = 8;

/// What is to come.
#[derive(Default)]
pub(crate) struct Plan {
    /// Pages of the file.
    rows: Vec<MapRow>,
    /// Fresh pages: address, and entry without a page.
    fresh: Vec<(u64, u64)>,
    /// What the first of these begin with: page of the file, and address.
    copies: Vec<(u64, u64)>,
    /// How often pages may have left files when these were asked for.
    cuts: u64,
}

impl Plan {
    /// Nothing yet, with room for so many pages.
    pub(crate) fn of(pages: usize, cuts: u64) -> Self {
        Self { rows: Vec::with_capacity(pages), cuts, ..Self::default() }
    }
}

impl AddressSpace {
    /// Brings what is known to be touched of a file that was just mapped into `place` for a program that begins.
    /// `set` are the pages that programs touch, index and number.
    pub fn fill_for_start(&mut self, pages: &mut impl PageOps, node: u64, set: &[(u64, u64)], place: Range<u64>) {
        let areas = self.areas.within(place.start, place.end);
        let mut plan = Plan::of(set.len() + ZEROS as usize, pages.cuts());
        if !set.is_empty() {
            self.note_warm(place);
            for area in &areas {
                if let Some(offset) = shows(area, node) {
                    self.plan_pages(&mut plan, area, (offset, true), set);
                }
            }
        }
        for area in areas.iter().filter(|area| area.backing == Backing::Anonymous && !area.shared) {
            self.plan_zeros(&mut plan, area);
        }
        self.carry_out(pages, plan);
    }

    /// Brings zeros where a program that begins is going to write.
    pub fn fill_with_few_zeros(&mut self, pages: &mut impl PageOps, place: Range<u64>) {
        let mut plan = Plan::of(0, pages.cuts());
        self.areas.within(place.start, place.end).iter().for_each(|area| self.plan_zeros(&mut plan, area));
        self.carry_out(pages, plan);
    }

    /// Those of a file's pages, with their indices there in ascending order, that lie in an area that shows the file
    /// from `offset` on. They come as copies where the program is going to write and may.
    pub(crate) fn plan_pages(&self, plan: &mut Plan, area: &Vma, (offset, writes): (u64, bool), set: &[(u64, u64)]) {
        let writable = writes && area.protection.allows(Protection::WRITE);
        let entry = entry_for(area, 0, COPY_ON_WRITE | FROM_FILE);
        let first = offset / PAGE_SIZE;
        let place = |index: u64| set.partition_point(|(other, _)| *other < index);
        let here = &set[place(first)..place(first + (area.end - area.start) / PAGE_SIZE)];
        let is_empty = !self.frames.has_any(area.start, area.end);
        let start_of_file = area.start.wrapping_sub(offset);
        let address = |index: u64| start_of_file.wrapping_add(index << PAGE_SIZE.trailing_zeros());
        let is_missing = |(index, _): &&(u64, u64)| is_empty || self.frames.get(address(*index)) == 0;
        let copied = if writable { here.len().min(COPIES.saturating_sub(plan.copies.len())) } else { 0 };
        let (copied, shown) = here.split_at(copied);
        plan.fresh.reserve(copied.len());
        plan.copies.reserve(copied.len());
        for (index, page) in copied.iter().filter(is_missing) {
            plan.fresh.push((address(*index), entry_for(area, 0, 0)));
            plan.copies.push((*page, address(*index)));
        }
        let row = |(index, page): &(u64, u64)| MapRow {
            address: address(*index),
            entry: entry | page << PAGE_SIZE.trailing_zeros(),
        };
        if is_empty {
            plan.rows.extend(shown.iter().map(row));
        } else {
            plan.rows.extend(shown.iter().filter(is_missing).map(row));
        }
    }

    fn plan_zeros(&self, plan: &mut Plan, area: &Vma) {
        if area.end - area.start > ZEROS * PAGE_SIZE || !area.protection.allows(Protection::WRITE) {
            return;
        }
        let addresses = (area.start..area.end).step_by(PAGE_SIZE as usize);
        let missing = addresses.filter(|address| self.frames.get(*address) == 0);
        plan.fresh.extend(missing.map(|address| (address, entry_for(area, 0, 0))));
    }

    /// All that pages are at hand for, or nothing; then fresh ones, as far as there are any. Where pages may have left
    /// the files meanwhile nothing stays: all of it comes again when it is touched.
    pub(crate) fn carry_out(&mut self, pages: &mut impl PageOps, plan: Plan) {
        let Plan { mut rows, fresh, copies, cuts } = plan;
        let mut numbers = vec![0; fresh.len()];
        let used = pages.take_used(&mut numbers);
        let (at_hand, missing) = fresh.split_at(used);
        let (copies, other_copies) = copies.split_at(copies.len().min(used));
        let with = |entry: u64, page: u64| entry | page << PAGE_SIZE.trailing_zeros();
        let placed = at_hand.iter().zip(&numbers);
        rows.extend(placed.map(|((address, entry), page)| MapRow { address: *address, entry: with(*entry, *page) }));
        if map_and_copy(pages, &rows, &numbers[..used], copies).is_err() {
            // A page may have left the file meanwhile, or what was at hand have gone with its maker.
            rows.iter_mut().for_each(|row| row.entry = 0);
            let _ = pages.map(&rows);
            return pages.release(&numbers[..used]);
        }
        let to_clear: Vec<u64> = at_hand.iter().skip(copies.len()).map(|(address, _)| *address).collect();
        pages.clear_at(&to_clear);
        self.frames.set_rows(&rows);
        let first = other_copies.iter().map(|(page, _)| *page).chain(core::iter::repeat(NO_PAGE));
        let missing = missing.iter().zip(first);
        self.supply_all(pages, missing.map(|((address, entry), page)| (*address, with(*entry, page))).collect());
        if pages.cuts() != cuts {
            let planned = rows.iter().map(|row| row.address).chain(fresh.iter().map(|(address, _)| *address));
            planned.for_each(|address| _ = self.drop_pages(pages, address, address + PAGE_SIZE));
        }
    }

    /// Brings fresh pages, each at an address and with what is in the page that its entry names, those in a row
    /// together.
    fn supply_all(&mut self, pages: &mut impl PageOps, mut fresh: Vec<(u64, u64)>) {
        fresh.sort_unstable();
        let are_in_a_row = |one: &(u64, u64), next: &(u64, u64)| next.0 == one.0 + PAGE_SIZE && next.0 % SPAN != 0;
        for some in fresh.chunk_by(are_in_a_row).flat_map(|row| row.chunks(READAHEAD)) {
            let mut entries = [0; READAHEAD];
            entries.iter_mut().zip(some).for_each(|(entry, (_, wanted))| *entry = *wanted);
            if self.supply(pages, some[0].0, &mut entries[..some.len()]).is_err() {
                return;
            }
        }
    }
}

fn map_and_copy(pages: &mut impl PageOps, rows: &[MapRow], used: &[u64], copies: &[(u64, u64)]) -> Result<()> {
    pages.map(rows)?;
    // From here on they stay whose they are.
    if !pages.owns(used) {
        return Err(Errno::ENOMEM);
    }
    if copies.is_empty() { Ok(()) } else { pages.copy_to(copies) }
}
