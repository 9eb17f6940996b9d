//! Retained address space: page tables of a dead child that stay for the next one (doc/decision/0020).
//!
//! The parent records what it mapped, and each table's edit counter of the kernel. A table whose counter is the same
//! stays as it is. A table of the lowest level that the child edited is scanned, and entries of the child go. Where the
//! child edited any other table, all tables go but the one that maps the area.
//!
//! Invariant, after [`RetainedSpace::repair`] or [`RetainedSpace::reset`] of an environment whose child is gone: the
//! tables map what is recorded here, and the kernel's area, and nothing else.
//!
//! Gain: fork 109,000 to 64,000 instructions (decision 0020).

use crate::hw::current::process;
use crate::hw::env_create;
use crate::hw::mapping::{Mapping, Mappings};
use crate::hw::page_tables::{PageTables, TableEditor, link_common};
use abi::limits::MAP_ROWS;
use abi::memory_map::LIBRARY_BASE;
use abi::page_table::{MapRow, PAGE};
use alloc::vec::Vec;
use core::ops::Range;
use linux_abi::address_map::{AREA_PRIVATE_PAGES, PAGE_MASK, PAGE_SIZE};
use linux_abi::errno::{Errno, Result};
use runtime::address_space::AddressSpace;
use runtime::page::PageKind;
use runtime::{PageNumber, area, exposed, layout};
use vm::map_diff::difference;
use vm::page_record::PageRecord;
use vm::table_scan;

/// What is there.
#[derive(Clone, Debug, Default)]
pub(super) struct RetainedSpace {
    /// The root, and the tables for the area.
    way: Vec<PageNumber>,
    /// The tables for a program.
    tables: PageTables,
    /// What maps its maker's windows, then its own window to the server, then the pages for ExOS's data, all in order.
    /// What is not there any more has no entry.
    rows: Vec<MapRow>,
    /// How many of these map its maker's windows, and how many map any.
    common: usize,
    windows: usize,
    /// Which generation its maker's windows are, all of which are there (see `Mappings::generation`); 0: it is not
    /// known.
    edition_of_windows: u64,
    /// What maps the program. What is not there any more has no entry.
    program: Vec<MapRow>,
    /// Which generation that is of a program that was prepared; 0: another one.
    generation: u64,
    /// The same of a copy of its maker's memory, all of which is there.
    copy: Option<Copy>,
    /// Whether the image is linked.
    has_image: bool,
    /// Whether the program's tables are its parent's.
    is_shared: bool,
    /// Each table, and how often entries of it had been set when the child began.
    edits: Vec<(PageNumber, (u64, u64))>,
    /// How often its maker's windows map a page, as was asked last.
    mapped: Option<(PageNumber, u64)>,
    /// Windows onto tables that were looked through, to be read.
    views: Vec<Mapping>,
}

/// A copy of its maker's memory.
#[derive(Clone, Debug)]
struct Copy {
    /// Of which generation of that (see `Space::generation`).
    generation: u64,
    /// Pages that are copies: address, and entry in the table.
    pages: Vec<(u64, u64)>,
}

/// What is not there any more, when what the child put there has been taken out.
#[derive(Debug, Default)]
pub(super) struct Reclaimed {
    /// Pages of the program that are not mapped.
    pub pages: Vec<PageNumber>,
    /// Pages that tables were made of.
    pub tables: Vec<PageNumber>,
}

/// What is done with what a child leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cleanup {
    /// All goes but the table of the area ([`RetainedSpace::reset`]).
    Clean,
    /// The tables are repaired ([`RetainedSpace::repair`]).
    Mend,
    /// The same, before its pages are freed, because tables are freed with it: orphan pages are freed one by one.
    MendEarly,
}

impl Reclaimed {
    /// That has gone, too.
    pub(super) fn add(&mut self, more: Self) {
        self.pages.extend(more.pages);
        self.tables.extend(more.tables);
    }
}

/// Windows that are to be shown.
#[derive(Debug, Default)]
pub struct SharedMappings {
    /// Which generation of them; 0: one that never comes again.
    pub generation: u64,
    /// What maps them, in the order of their addresses.
    pub rows: Vec<MapRow>,
}

/// Where an area lies, for whose pages the kernel vouches.
const AREA: Range<u64> = layout::AREA..layout::AREA + (1 + AREA_PRIVATE_PAGES as u64) * PAGE_SIZE;
/// The first address that the table translates that it lies in.
const NEAR: u64 = layout::AREA & !(table_scan::SPAN - 1);

impl RetainedSpace {
    /// That of an address space that has nothing but its area, and whose tables are under a list of their own.
    pub(super) fn of_fresh(list: PageNumber) -> Self {
        let own = exposed::environment(area::number()).into_iter().flat_map(|info| info.pages());
        let count = exposed::page(list).map_or(0, |info| info.links()) as usize;
        let under_list =
            own.filter_map(|page| Some((page, exposed::page(page)?))).filter(|(_, info)| info.access() == list);
        // What was charged last comes first: there is no need to look through all pages of this environment.
        let tables = under_list.take(count).filter(|(_, info)| info.kind() == PageKind::PageTable);
        Self { way: tables.map(|(page, _)| page).collect(), ..Self::default() }
    }

    /// How many tables there are for a program.
    pub(super) fn pages(&self) -> usize {
        self.tables.pages().count()
    }

    /// How often pages for ExOS's data are mapped here.
    pub(super) fn mapped(&self, data: &[PageNumber]) -> u64 {
        let here = self.rows[self.windows..].iter().map(|row| row.entry & PAGE);
        u64::from(here.eq(data.iter().map(|page| page.address())))
    }

    /// How often a page is mapped by windows that are its maker's.
    pub(super) fn maps(&mut self, page: PageNumber) -> u64 {
        let common = &self.rows[..self.common];
        let count = || common.iter().filter(|row| row.entry & PAGE == page.address()).count() as u64;
        let known = self.mapped.filter(|(asked, _)| *asked == page).unwrap_or_else(|| (page, count()));
        self.mapped = Some(known);
        known.1
    }

    /// Links the image, if that is not done.
    ///
    /// # Errors
    /// The kernel's refusals.
    pub(super) fn link_image(&mut self, editor: &TableEditor, table: PageNumber) -> Result<()> {
        if !self.has_image {
            link_common(editor, LIBRARY_BASE, 3, table)?;
            self.has_image = true;
        }
        Ok(())
    }

    /// Whether the windows of this generation are there.
    pub(super) const fn shows(&self, generation: u64) -> bool {
        self.edition_of_windows == generation
    }

    /// Maps windows, if there are others, then an `own` one, and the pages for ExOS's data, in the place of those
    /// before.
    ///
    /// # Errors
    /// The kernel's refusals.
    pub(super) fn map_memory(
        &mut self,
        editor: &TableEditor,
        windows: Option<SharedMappings>,
        own: Vec<MapRow>,
        data: impl Iterator<Item = MapRow>,
    ) -> Result<()> {
        let (kept, SharedMappings { generation, rows: mut new }) = match windows {
            Some(shown) => (0, shown),
            None => (self.common, SharedMappings { generation: self.edition_of_windows, rows: Vec::new() }),
        };
        let common = kept + new.len();
        new.extend(own);
        let windows = kept + new.len();
        new.extend(data);
        // After a refusal the contents of the tables are unknown.
        self.edition_of_windows = 0;
        if kept == 0 {
            self.mapped = None;
        }
        map_rows(editor, &difference(&self.rows[kept..], &new))?;
        self.rows.truncate(kept);
        self.rows.append(&mut new);
        (self.common, self.windows, self.edition_of_windows) = (common, windows, generation);
        Ok(())
    }

    /// The page that its own window maps at an address; none where there is no such window.
    pub(super) fn shown_at(&self, address: u64) -> PageNumber {
        let own = &self.rows[self.common..self.windows];
        let is_there = |row: &&MapRow| row.address & PAGE_MASK == address;
        own.iter().find(is_there).map_or(PageNumber::NONE, page)
    }

    /// Takes out the pages for ExOS's data.
    ///
    /// # Errors
    /// The kernel's refusals.
    pub(super) fn drop_data(&mut self, editor: &TableEditor) -> Result<()> {
        let rows: Vec<MapRow> = self.rows.drain(self.windows..).map(|row| MapRow { entry: 0, ..row }).collect();
        map_rows(editor, &rows)
    }

    /// Maps a program in the place of the one before, with `spare` pages for tables that are missing. The result is its
    /// tables.
    ///
    /// # Errors
    /// The kernel's refusals.
    pub(super) fn map(
        &mut self,
        editor: &TableEditor,
        spare: &mut Vec<PageNumber>,
        program: Vec<MapRow>,
    ) -> Result<PageTables> {
        let before = core::mem::replace(&mut self.program, program);
        (self.generation, self.copy) = (0, None);
        let rows = difference(&before, &self.program);
        edit(&mut self.tables, editor, spare, &rows)
    }

    /// The same of a program that was prepared: of an `generation` that is here already what is missing.
    ///
    /// # Errors
    /// The kernel's refusals.
    pub(super) fn map_prepared(
        &mut self,
        editor: &TableEditor,
        spare: &mut Vec<PageNumber>,
        (generation, frames): (u64, &PageRecord),
    ) -> Result<PageTables> {
        if self.generation != generation {
            let tables = self.map(editor, spare, frames.rows());
            self.generation = generation;
            return tables;
        }
        let mut missing = Vec::new();
        for row in self.program.iter_mut().filter(|row| row.entry == 0) {
            row.entry = frames.get(row.address);
            missing.push(*row);
        }
        edit(&mut self.tables, editor, spare, &missing)
    }

    /// Notes that the program is a copy of its maker's memory of an generation, with these pages for itself.
    pub(super) fn note_copy(&mut self, generation: u64, pages: &[(u64, u64)]) {
        self.copy = Some(Copy { generation, pages: pages.to_vec() });
    }

    /// The tables of a copy of its maker's memory, and its own pages, if all that is there and of this generation.
    pub(super) fn copy_of(&self, generation: u64) -> Option<(&PageTables, &[(u64, u64)])> {
        self.copy.as_ref().filter(|copy| copy.generation == generation).map(|copy| (&self.tables, &*copy.pages))
    }

    /// Unlinks the tables of a program. The result is their pages.
    ///
    /// # Errors
    /// The kernel's refusals.
    pub(super) fn drop_program(&mut self, editor: &TableEditor, windows: &mut Mappings) -> Result<Vec<PageNumber>> {
        (self.program, self.generation, self.copy) = (Vec::new(), 0, None);
        self.look_away(windows);
        let pages = self.tables.unlink_all(editor)?;
        Ok(pages.into_iter().map(PageNumber).collect())
    }

    /// Closes the windows onto tables of a program.
    fn look_away(&mut self, windows: &mut Mappings) {
        let is_in_way = |view: &Mapping| self.way.contains(&view.pages()[0]);
        self.views.iter().filter(|view| !is_in_way(view)).for_each(|view| windows.close(view));
        self.views.retain(is_in_way);
    }

    /// There will be tables of others, too, which do not stay.
    pub(super) fn share(&mut self) {
        self.is_shared = true;
    }

    /// Records the state of the tables, before a program runs there.
    pub(super) fn note(&mut self) {
        let Self { way, tables, edits: noted, .. } = self;
        noted.clear();
        // One after the other: a loop over all of them in a row takes three times as long.
        let mut note = |table: PageNumber| noted.push((table, edits(table)));
        way.iter().copied().for_each(&mut note);
        tables.pages().for_each(&mut note);
    }

    /// It is not to be used again: only what shows of it here is still known.
    pub(super) fn forget(&mut self) {
        *self = Self { views: core::mem::take(&mut self.views), ..Self::default() };
    }

    /// Whether there are windows onto it.
    pub(super) const fn shows_here(&self) -> bool {
        !self.views.is_empty()
    }

    /// Closes the windows onto it, when the environment is gone.
    pub(super) fn close(&mut self, windows: &mut Mappings) {
        self.views.drain(..).for_each(|view| windows.close(&view));
    }

    /// The cleanup for what a child leaves that has `executed` a program by itself, if it has. Until it is gone for
    /// good this may change.
    pub(super) fn remedy(&self, executed: bool) -> Cleanup {
        match self.dirty_tables() {
            Some(edited) if !executed && edited.iter().all(|table| level(*table) == 1) => Cleanup::Mend,
            Some(_) if !executed => Cleanup::MendEarly,
            _ => Cleanup::Clean,
        }
    }

    /// The tables that have had an entry set since. Nothing where it is one in whose place only the same tables may be
    /// linked, or some are not this environment's own.
    fn dirty_tables(&self) -> Option<Vec<PageNumber>> {
        if self.is_shared {
            return None;
        }
        let mut edited = Vec::new();
        for (table, noted) in &self.edits {
            if edits(*table) != *noted {
                let may_be = match level(*table) {
                    1 => true,
                    2 => !self.way.contains(table),
                    _ => false,
                };
                edited.push(Some(*table).filter(|_| may_be)?);
            }
        }
        Some(edited)
    }

    /// Takes out of tables that were edited, all others being as they were, what was not put there.
    ///
    /// # Errors
    /// `EFAULT` where that cannot be; the kernel's refusals.
    pub(super) fn repair(&mut self, editor: &TableEditor) -> Result<Reclaimed> {
        let edited = self.dirty_tables().ok_or(Errno::EFAULT)?;
        let mut gone = Reclaimed::default();
        for table in edited {
            match self.tables.base_of(table) {
                Some(base) if level(table) == 1 => self.mend_program(editor, (table, base), &mut gone.pages)?,
                Some(base) => {
                    let view = self.view(editor, table)?;
                    self.tables.unlink_others(editor, base, view.words(), used(table))?;
                }
                None if self.way.contains(&table) && level(table) == 1 => self.mend_area(editor, table)?,
                None => return Err(Errno::EFAULT),
            }
        }
        Ok(gone)
    }

    /// Everything but the table that the area lies in is gone: takes out of it what was not put there.
    ///
    /// # Errors
    /// The kernel's refusals.
    pub(super) fn reset(&mut self, editor: &TableEditor) -> Result<Reclaimed> {
        (self.has_image, self.is_shared) = (false, false);
        (self.program, self.generation, self.copy) = (Vec::new(), 0, None);
        let mut windows = process().mappings.lock();
        self.look_away(&mut windows);
        let tables: Vec<PageNumber> = core::mem::take(&mut self.tables).pages().collect();
        drop(windows);
        let leaf = self.way.iter().copied().find(|table| level(*table) == 1).ok_or(Errno::EFAULT)?;
        let is_near = |row: &MapRow| row.address & !(table_scan::SPAN - 1) == NEAR;
        let is_as_noted = self.edits.contains(&(leaf, edits(leaf))) && self.rows.iter().all(is_near);
        if !is_as_noted {
            self.mend_area(editor, leaf)?;
        }
        Ok(Reclaimed { tables, ..Reclaimed::default() })
    }

    /// Takes out of the table that the area lies in what was not put there.
    fn mend_area(&mut self, editor: &TableEditor, table: PageNumber) -> Result<()> {
        let found = table_scan::compare_tables(self.view(editor, table)?.words(), used(table), NEAR, &self.rows, &AREA);
        found.missing.iter().for_each(|index| self.rows[*index].entry = 0);
        if !found.missing.is_empty() {
            (self.edition_of_windows, self.mapped) = (0, None);
        }
        empty(editor, &found.others)
    }

    /// The same of a table of the program. The pages that it does not map any more go into `gone`.
    fn mend_program(
        &mut self,
        editor: &TableEditor,
        (table, base): (PageNumber, u64),
        gone: &mut Vec<PageNumber>,
    ) -> Result<()> {
        let view = self.view(editor, table)?;
        if !self.program.is_sorted_by_key(|row| row.address) {
            self.program.sort_unstable_by_key(|row| row.address);
        }
        let place = |address: u64| self.program.partition_point(|row| row.address < address);
        let here = place(base)..place(base + table_scan::SPAN);
        let rows = &mut self.program[here];
        let found = table_scan::compare_tables(view.words(), used(table), base, rows, &(0..0));
        for index in found.missing {
            gone.push(page(&rows[index]));
            rows[index].entry = 0;
            self.copy = None;
        }
        empty(editor, &found.others)
    }

    /// A window onto a table.
    fn view(&mut self, editor: &TableEditor, table: PageNumber) -> Result<Mapping> {
        if let Some(view) = self.views.iter().find(|view| view.pages()[0] == table) {
            return Ok(view.clone());
        }
        let view = process().mappings.lock().open_own(alloc::vec![table], editor.key, false)?;
        self.views.push(view.clone());
        Ok(view)
    }
}

/// Maps pages that go with the address space, a few at a time.
///
/// # Errors
/// The kernel's refusals.
pub(super) fn give(editor: &TableEditor, mut own: impl Iterator<Item = MapRow>) -> Result<()> {
    let mut rows = Vec::with_capacity(MAP_ROWS);
    loop {
        rows.clear();
        rows.extend(own.by_ref().take(MAP_ROWS));
        if rows.is_empty() {
            return Ok(());
        }
        map_rows(editor, &rows)?;
    }
}

/// Edits a program's tables, with `spare` pages for those that are missing. The result is all of them.
fn edit(
    tables: &mut PageTables,
    editor: &TableEditor,
    spare: &mut Vec<PageNumber>,
    rows: &[MapRow],
) -> Result<PageTables> {
    tables.give_spare(core::mem::take(spare));
    let outcome = tables.edit(editor, rows);
    *spare = tables.take_spare();
    outcome.map(|()| tables.clone())
}

/// Takes out what is mapped at addresses.
pub(super) fn empty(editor: &TableEditor, addresses: &[u64]) -> Result<()> {
    let rows: Vec<MapRow> = addresses.iter().map(|address| MapRow { address: *address, entry: 0 }).collect();
    map_rows(editor, &rows)
}

/// The page that a row maps.
const fn page(row: &MapRow) -> PageNumber {
    PageNumber((row.entry & PAGE) / PAGE_SIZE)
}

/// Of which level a table is; 0: it is none.
fn level(table: PageNumber) -> u64 {
    exposed::page(table).filter(|info| info.kind() == PageKind::PageTable).map_or(0, |info| info.level())
}

/// Which eighths of a table may hold entries.
fn used(table: PageNumber) -> u8 {
    exposed::page(table).map_or(0, |info| info.used_eighths())
}

fn map_rows(editor: &TableEditor, rows: &[MapRow]) -> Result<()> {
    let TableEditor { root, key, tables } = *editor;
    if rows.is_empty() { Ok(()) } else { env_create::map(&AddressSpace { root, key, tables }, rows) }
}

/// How often entries of a table were set, and how many links lead to it; something else where the page is another table
/// or none.
fn edits(table: PageNumber) -> (u64, u64) {
    exposed::page(table).map_or((0, 0), |info| {
        let (generation, count) = info.edits();
        (generation << 32 | info.links(), count)
    })
}
