//! Retained address space: page tables of a dead child that stay for the next one (doc/decision/0020).
//!
//! The parent records what it mapped, and each table's edit counter of the kernel. A table whose counter is the same
//! stays as it is. A leaf table that the child edited is scanned, and entries of the child go. Where the child edited
//! any other table, all tables go but the one that maps the area.
//!
//! Invariant, after [`RetainedSpace::clear_leaves`] or [`RetainedSpace::drop_all`]: the tables map what is recorded
//! here, and the kernel's area, and nothing else.
//!
//! Gain: fork 109,000 to 64,000 instructions (decision 0020).

use crate::map_diff::difference;
use crate::page_record::PageRecord;
use crate::table_scan::{SPAN, compare_tables};
use abi::PageNumber;
use abi::page_table::{MapRow, PAGE};
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::AtomicU64;
use linux_abi::address_map::{PAGE_MASK, PAGE_SIZE};
use linux_abi::errno::{Errno, Result};

/// Record of the tables of a program, below a root.
pub trait ProgramTables: Clone + Default {
    /// Every table.
    fn pages(&self) -> impl Iterator<Item = PageNumber>;
    /// The first address that a table translates.
    fn base_of(&self, table: PageNumber) -> Option<u64>;
}

/// An address space in which no program runs: what the kernel exposes of its tables, and how its parent edits them.
pub trait ChildSpace {
    /// Record of a program's tables.
    type Tables: ProgramTables;
    /// Where the environment area lies, for whose pages the kernel vouches.
    const AREA: Range<u64>;
    /// Level of a table; 0: the page is none.
    fn level(&self, table: PageNumber) -> u64;
    /// Which eighths of a table may hold entries.
    fn used(&self, table: PageNumber) -> u8;
    /// How often entries of a table were set, and how many links lead to it.
    fn edits(&self, table: PageNumber) -> (u64, u64);
    /// The entries of a table.
    ///
    /// # Errors
    /// Where the table cannot be mapped.
    fn words(&mut self, table: PageNumber) -> Result<&[AtomicU64]>;
    /// Sets entries.
    ///
    /// # Errors
    /// The kernel's refusals.
    fn map(&mut self, rows: &[MapRow]) -> Result<()>;
    /// Sets entries of a program, with `spare` pages for tables that are missing.
    ///
    /// # Errors
    /// The kernel's refusals.
    fn edit(&mut self, tables: &mut Self::Tables, spare: &mut Vec<PageNumber>, rows: &[MapRow]) -> Result<()>;
    /// Unlinks all tables of a program; the result is their pages.
    ///
    /// # Errors
    /// The kernel's refusals.
    fn unlink_all(&mut self, tables: &mut Self::Tables) -> Result<Vec<PageNumber>>;
    /// Links the table that maps the image.
    ///
    /// # Errors
    /// The kernel's refusals.
    fn link_image(&mut self, table: PageNumber) -> Result<()>;
}

/// What is there.
#[derive(Clone, Debug, Default)]
pub struct RetainedSpace<T> {
    /// The root, and the tables for the area.
    way: Vec<PageNumber>,
    /// The tables for a program.
    tables: T,
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
}

/// A copy of its maker's memory.
#[derive(Clone, Debug)]
struct Copy {
    /// Of which generation of that (see `AddressSpace::generation`).
    generation: u64,
    /// Pages that are copies: address, and entry in the table.
    pages: Vec<(u64, u64)>,
}

/// Windows that are to be mapped.
#[derive(Debug, Default)]
pub struct SharedMappings {
    /// Which generation of them; 0: one that never comes again.
    pub generation: u64,
    /// What maps them, in the order of their addresses.
    pub rows: Vec<MapRow>,
}

impl<T: ProgramTables> RetainedSpace<T> {
    /// That of an address space that has nothing but its area: its root, and the tables for the area.
    #[must_use]
    pub fn of_fresh(way: Vec<PageNumber>) -> Self {
        Self { way, ..Self::default() }
    }

    /// How many tables there are for a program.
    pub fn tables(&self) -> usize {
        self.tables.pages().count()
    }

    /// How often pages for ExOS's data are mapped here.
    pub fn mapped(&self, data: &[PageNumber]) -> u64 {
        let here = self.rows[self.windows..].iter().map(|row| row.entry & PAGE);
        u64::from(here.eq(data.iter().map(|page| page.address())))
    }

    /// How often a page is mapped by windows that are its maker's.
    pub fn maps(&mut self, page: PageNumber) -> u64 {
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
    pub fn link_image(&mut self, space: &mut impl ChildSpace<Tables = T>, table: PageNumber) -> Result<()> {
        if !self.has_image {
            space.link_image(table)?;
            self.has_image = true;
        }
        Ok(())
    }

    /// Whether the windows of this generation are there.
    pub const fn shows(&self, generation: u64) -> bool {
        self.edition_of_windows == generation
    }

    /// Maps windows, if there are others, then an `own` one, and the pages for ExOS's data, in the place of those
    /// before.
    ///
    /// # Errors
    /// The kernel's refusals.
    pub fn map_memory(
        &mut self,
        space: &mut impl ChildSpace<Tables = T>,
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
        space.map(&difference(&self.rows[kept..], &new))?;
        self.rows.truncate(kept);
        self.rows.append(&mut new);
        (self.common, self.windows, self.edition_of_windows) = (common, windows, generation);
        Ok(())
    }

    /// The page that its own window maps at an address; none where there is no such window.
    pub fn shown_at(&self, address: u64) -> PageNumber {
        let own = &self.rows[self.common..self.windows];
        let is_there = |row: &&MapRow| row.address & PAGE_MASK == address;
        own.iter().find(is_there).map_or(PageNumber::NONE, page)
    }

    /// Takes out the pages for ExOS's data.
    ///
    /// # Errors
    /// The kernel's refusals.
    pub fn drop_data(&mut self, space: &mut impl ChildSpace<Tables = T>) -> Result<()> {
        let rows: Vec<MapRow> = self.rows.drain(self.windows..).map(|row| MapRow { entry: 0, ..row }).collect();
        space.map(&rows)
    }

    /// Maps a program in the place of the one before, with `spare` pages for tables that are missing. The result is its
    /// tables.
    ///
    /// # Errors
    /// The kernel's refusals.
    pub fn map(
        &mut self,
        space: &mut impl ChildSpace<Tables = T>,
        spare: &mut Vec<PageNumber>,
        program: Vec<MapRow>,
    ) -> Result<T> {
        let before = core::mem::replace(&mut self.program, program);
        (self.generation, self.copy) = (0, None);
        let rows = difference(&before, &self.program);
        space.edit(&mut self.tables, spare, &rows)?;
        Ok(self.tables.clone())
    }

    /// The same of a program that was prepared: of a `generation` that is here already what is missing.
    ///
    /// # Errors
    /// The kernel's refusals.
    pub fn map_prepared(
        &mut self,
        space: &mut impl ChildSpace<Tables = T>,
        spare: &mut Vec<PageNumber>,
        (generation, frames): (u64, &PageRecord),
    ) -> Result<T> {
        if self.generation != generation {
            let tables = self.map(space, spare, frames.rows());
            self.generation = generation;
            return tables;
        }
        let mut missing = Vec::new();
        for row in self.program.iter_mut().filter(|row| row.entry == 0) {
            row.entry = frames.get(row.address);
            missing.push(*row);
        }
        space.edit(&mut self.tables, spare, &missing)?;
        Ok(self.tables.clone())
    }

    /// Records that the program is a copy of its maker's memory of a generation, with these pages for itself.
    pub fn record_copy(&mut self, generation: u64, pages: &[(u64, u64)]) {
        self.copy = Some(Copy { generation, pages: pages.to_vec() });
    }

    /// The tables of a copy of its maker's memory, and its own pages, if all that is there and of this generation.
    pub fn copy_of(&self, generation: u64) -> Option<(&T, &[(u64, u64)])> {
        self.copy.as_ref().filter(|copy| copy.generation == generation).map(|copy| (&self.tables, &*copy.pages))
    }

    /// Unlinks the tables of a program. The result is their pages.
    ///
    /// # Errors
    /// The kernel's refusals.
    pub fn drop_program(&mut self, space: &mut impl ChildSpace<Tables = T>) -> Result<Vec<PageNumber>> {
        (self.program, self.generation, self.copy) = (Vec::new(), 0, None);
        space.unlink_all(&mut self.tables)
    }

    /// There will be tables of its parent, too, which do not stay.
    pub const fn share(&mut self) {
        self.is_shared = true;
    }

    /// Whether a table maps the area, or leads to the table that does.
    pub fn is_in_way(&self, table: PageNumber) -> bool {
        self.way.contains(&table)
    }

    /// Records the state of the tables, before a program runs there.
    pub(super) fn note(&mut self, space: &impl ChildSpace<Tables = T>) {
        let Self { way, tables, edits: noted, .. } = self;
        noted.clear();
        // One after the other: a loop over all of them in a row takes three times as long.
        let mut note = |table: PageNumber| noted.push((table, space.edits(table)));
        way.iter().copied().for_each(&mut note);
        tables.pages().for_each(&mut note);
    }

    /// Whether no table but leaves was changed since.
    pub(super) fn has_expected_tables(&self, space: &impl ChildSpace<Tables = T>) -> bool {
        self.edited_leaves(space).is_some()
    }

    /// The leaf tables that have had an entry set since. Nothing where another table had, or where some are not this
    /// environment's own.
    fn edited_leaves(&self, space: &impl ChildSpace<Tables = T>) -> Option<Vec<PageNumber>> {
        let is_edited = |(table, noted): &&(PageNumber, (u64, u64))| space.edits(*table) != *noted;
        let mut edited = Vec::new();
        for (table, _) in self.edits.iter().filter(is_edited) {
            edited.push(Some(*table).filter(|table| space.level(*table) == 1)?);
        }
        (!self.is_shared).then_some(edited)
    }

    /// Takes out of leaf tables that were edited, all others being as they were, what was not put there. The result is
    /// the pages of the program that are not mapped any more.
    ///
    /// # Errors
    /// `EFAULT` where another table was edited; the kernel's refusals.
    pub(super) fn clear_leaves(&mut self, space: &mut impl ChildSpace<Tables = T>) -> Result<Vec<PageNumber>> {
        let edited = self.edited_leaves(space).ok_or(Errno::EFAULT)?;
        let mut unmapped = Vec::new();
        for table in edited {
            match self.tables.base_of(table) {
                Some(base) => self.clear_program(space, (table, base), &mut unmapped)?,
                None => self.clear_area(space, table)?,
            }
        }
        Ok(unmapped)
    }

    /// Everything but the table that the area lies in is gone: takes out of it what was not put there. The result is
    /// the pages that the program's tables were made of.
    ///
    /// # Errors
    /// The kernel's refusals.
    pub(super) fn drop_all<S: ChildSpace<Tables = T>>(&mut self, space: &mut S) -> Result<Vec<PageNumber>> {
        (self.has_image, self.is_shared) = (false, false);
        (self.program, self.generation, self.copy) = (Vec::new(), 0, None);
        let tables = core::mem::take(&mut self.tables).pages().collect();
        let leaf = self.way.iter().copied().find(|table| space.level(*table) == 1).ok_or(Errno::EFAULT)?;
        let is_near = |row: &MapRow| row.address & !(SPAN - 1) == near::<S>();
        let is_as_noted = self.edits.contains(&(leaf, space.edits(leaf))) && self.rows.iter().all(is_near);
        if !is_as_noted {
            self.clear_area(space, leaf)?;
        }
        Ok(tables)
    }

    /// Takes out of the table that the area lies in what was not put there.
    fn clear_area<S: ChildSpace<Tables = T>>(&mut self, space: &mut S, table: PageNumber) -> Result<()> {
        let used = space.used(table);
        let found = compare_tables(space.words(table)?, used, near::<S>(), &self.rows, &S::AREA);
        found.missing.iter().for_each(|index| self.rows[*index].entry = 0);
        if !found.missing.is_empty() {
            (self.edition_of_windows, self.mapped) = (0, None);
        }
        empty(space, &found.others)
    }

    /// The same of a table of the program. The pages that it does not map any more go into `unmapped`.
    fn clear_program(
        &mut self,
        space: &mut impl ChildSpace<Tables = T>,
        (table, base): (PageNumber, u64),
        unmapped: &mut Vec<PageNumber>,
    ) -> Result<()> {
        if !self.program.is_sorted_by_key(|row| row.address) {
            self.program.sort_unstable_by_key(|row| row.address);
        }
        let place = |address: u64| self.program.partition_point(|row| row.address < address);
        let here = place(base)..place(base + SPAN);
        let rows = &mut self.program[here];
        let used = space.used(table);
        let found = compare_tables(space.words(table)?, used, base, rows, &(0..0));
        for index in found.missing {
            unmapped.push(page(&rows[index]));
            rows[index].entry = 0;
            self.copy = None;
        }
        empty(space, &found.others)
    }
}

/// The first address that the table translates that the area lies in.
const fn near<S: ChildSpace>() -> u64 {
    S::AREA.start & !(SPAN - 1)
}

/// Takes out what is mapped at addresses.
fn empty(space: &mut impl ChildSpace, addresses: &[u64]) -> Result<()> {
    let rows: Vec<MapRow> = addresses.iter().map(|address| MapRow { address: *address, entry: 0 }).collect();
    space.map(&rows)
}

/// The page that a row maps.
const fn page(row: &MapRow) -> PageNumber {
    PageNumber((row.entry & PAGE) / PAGE_SIZE)
}
