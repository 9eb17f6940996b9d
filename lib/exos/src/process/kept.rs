//! What stays in the address space of an environment from one child to the next (doc/decision/0020).
//!
//! Windows, ExOS's own data and the program of the next child are mapped as those of the last one were, but for a few pages.
//! Tables of which the child has set entries are looked through where these are of the lowest level; where it has linked tables,
//! all go but the one that the area lies in. There are two programs: the one that a child of fork begins with, its maker's, and the one
//! that a child executes. One of them is in its place, and the other waits aside (`offer`); a child may have them change places.
//! Holds always, of an environment in which nobody runs any more, after [`Kept::mend`]
//! or [`Kept::clean`]: the tables map what stands here, and the kernel's area, and nothing else.

use crate::errno::{Errno, Result};
use crate::layout::{AREA_PRIVATE_PAGES, EXECUTOR_ASIDE, OFFER_ASIDE, PAGE_SIZE};
use crate::memory::difference::difference;
use crate::memory::frames::{COPY_ON_WRITE, FROM_FILE, Frames};
use crate::memory::leaf;
use crate::user_memory::birth;
use crate::user_memory::current::process;
use crate::user_memory::shared::{Shared, Windows};
use crate::user_memory::tables::{Editor, Tables, link_common};
use abi::memory_map::{LIBRARY_BASE, TOP_LEVEL_SLOT};
use abi::page_table::{MapRow, PAGE};
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;
use runtime::address_space::AddressSpace;
use runtime::page::PageKind;
use runtime::{PageNumber, area, exposed, layout};

/// A program that is laid out.
#[derive(Clone, Debug, Default)]
struct Program {
    /// Its tables.
    tables: Tables,
    /// What they map. What is not there any more has no entry.
    rows: Vec<MapRow>,
    /// Which edition it is of a program that was prepared; 0: another one.
    edition: u64,
}

/// Which of the two programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Which {
    /// That of who makes the child.
    #[default]
    Forked,
    /// The one that it executes.
    Executed,
}

impl Which {
    const fn other(self) -> Self {
        match self {
            Self::Forked => Self::Executed,
            Self::Executed => Self::Forked,
        }
    }

    /// Where it waits.
    const fn aside(self) -> u64 {
        match self {
            Self::Forked => EXECUTOR_ASIDE,
            Self::Executed => OFFER_ASIDE,
        }
    }
}

/// What is there.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    /// The root, and the tables for the area.
    way: Vec<PageNumber>,
    /// The two programs.
    programs: [Program; 2],
    /// Which of them is in its place.
    front: Which,
    /// What maps windows, and behind them the pages for ExOS's data, both in order. What is not there any more has no entry.
    rows: Vec<MapRow>,
    /// How many of these map windows.
    windows: usize,
    /// What maps pages that go with the child.
    passing: Vec<MapRow>,
    /// Whether the image is linked.
    has_image: bool,
    /// Whether the program's tables are its parent's.
    is_shared: bool,
    /// Each table, and how often entries of it had been set when the child began.
    edits: Vec<(PageNumber, (u64, u64))>,
    /// Windows onto tables that were looked through, to be read.
    views: Vec<Shared>,
}

/// Where an area lies, for whose pages the kernel vouches.
const AREA: Range<u64> = layout::AREA..layout::AREA + (1 + AREA_PRIVATE_PAGES as u64) * PAGE_SIZE;
/// The first address that the table translates that it lies in.
const NEAR: u64 = layout::AREA & !(leaf::SPAN - 1);

impl Kept {
    /// That of an address space that has nothing but its area, and whose tables are under a list of their own.
    pub fn of_fresh(list: PageNumber) -> Self {
        let own = exposed::environment(area::number()).into_iter().flat_map(|info| info.pages());
        let count = exposed::page(list).map_or(0, |info| info.links()) as usize;
        let under_list =
            own.filter_map(|page| Some((page, exposed::page(page)?))).filter(|(_, info)| info.access() == list);
        // What was charged last comes first: there is no need to look through all pages of this environment.
        let tables = under_list.take(count).filter(|(_, info)| info.kind() == PageKind::PageTable);
        Self { way: tables.map(|(page, _)| page).collect(), ..Self::default() }
    }

    /// How many tables there are for programs.
    pub fn tables(&self) -> usize {
        self.programs.iter().map(|program| program.tables.pages().count()).sum()
    }

    const fn program(&mut self, which: Which) -> &mut Program {
        &mut self.programs[which as usize]
    }

    /// Has one of the two in its place, and the other one wait.
    fn bring(&mut self, editor: &Editor, which: Which) -> Result<()> {
        if self.front != which {
            self.program(which.other()).tables.step_aside(editor, which.other().aside())?;
            self.program(which).tables.step_forward(editor, which.aside())?;
            self.front = which;
        }
        Ok(())
    }

    /// How often pages for ExOS's data are mapped here.
    pub fn mapped(&self, data: &[PageNumber]) -> u64 {
        let here = self.rows[self.windows..].iter().map(|row| row.entry & PAGE);
        u64::from(here.eq(data.iter().map(|page| page.address())))
    }

    /// How often a page is mapped by a window.
    pub fn maps(&self, page: PageNumber) -> u64 {
        self.rows[..self.windows].iter().filter(|row| row.entry & PAGE == page.address()).count() as u64
    }

    /// Links the image, if that is not done.
    ///
    /// # Errors
    /// The kernel's refusals.
    pub fn link_image(&mut self, editor: &Editor, table: PageNumber) -> Result<()> {
        if !self.has_image {
            link_common(editor, LIBRARY_BASE, 3, table)?;
            self.has_image = true;
        }
        Ok(())
    }

    /// Maps windows, which are in order, then the pages for ExOS's data, in the place of those before, and `passing` pages for this child only.
    ///
    /// # Errors
    /// The kernel's refusals.
    pub fn show(
        &mut self,
        editor: &Editor,
        (mut windows, passing): (Vec<MapRow>, Vec<MapRow>),
        data: impl Iterator<Item = MapRow>,
    ) -> Result<()> {
        self.windows = windows.len();
        windows.extend(data);
        let mut rows = difference(&self.rows, &windows).into_owned();
        rows.extend_from_slice(&passing);
        show(editor, &rows)?;
        (self.rows, self.passing) = (windows, passing);
        Ok(())
    }

    /// Takes out the pages for ExOS's data.
    ///
    /// # Errors
    /// The kernel's refusals.
    pub fn drop_data(&mut self, editor: &Editor) -> Result<()> {
        let rows: Vec<MapRow> = self.rows.drain(self.windows..).map(|row| MapRow { entry: 0, ..row }).collect();
        show(editor, &rows)
    }

    /// Takes out what was mapped for one child only.
    ///
    /// # Errors
    /// The kernel's refusals.
    pub fn take_out_passing(&mut self, editor: &Editor) -> Result<()> {
        if self.passing.is_empty() {
            return Ok(());
        }
        let rows: Vec<MapRow> = self.passing.drain(..).map(|row| MapRow { entry: 0, ..row }).collect();
        show(editor, &rows)
    }

    /// Maps the program of who makes the child, with `spare` pages for tables that are missing; the other one, if it is `offered`, waits
    /// aside, and else goes. The result is its tables.
    ///
    /// # Errors
    /// The kernel's refusals.
    pub fn map(
        &mut self,
        editor: &Editor,
        spare: &mut Vec<PageNumber>,
        (rows, offered): (Vec<MapRow>, bool),
    ) -> Result<Tables> {
        if !offered {
            spare.extend(self.unlink(editor, Which::Executed)?);
        }
        self.bring(editor, Which::Forked)?;
        self.program(Which::Forked).map(editor, spare, rows)
    }

    /// Maps a program that was prepared, of an `edition` that is here already what is missing, for a child that begins with it.
    ///
    /// # Errors
    /// The kernel's refusals.
    pub fn map_prepared(
        &mut self,
        editor: &Editor,
        spare: &mut Vec<PageNumber>,
        prepared: (u64, &Frames),
    ) -> Result<Tables> {
        if !self.program(Which::Forked).rows.is_empty() {
            self.bring(editor, Which::Forked)?;
            self.program(Which::Forked).map(editor, spare, Vec::new())?;
        }
        self.bring(editor, Which::Executed)?;
        self.program(Which::Executed).map_prepared(editor, spare, prepared)
    }

    /// The same for a child that may execute it: [`Self::map`] then has it wait.
    ///
    /// # Errors
    /// The kernel's refusals.
    pub fn offer(&mut self, editor: &Editor, spare: &mut Vec<PageNumber>, prepared: (u64, &Frames)) -> Result<Tables> {
        let program = self.program(Which::Executed);
        if program.edition == prepared.0 && program.rows.iter().all(|row| row.entry != 0) {
            return Ok(program.tables.clone());
        }
        self.bring(editor, Which::Executed)?;
        self.program(Which::Executed).map_prepared(editor, spare, prepared)
    }

    /// Unlinks the tables of both programs. The result is their pages.
    ///
    /// # Errors
    /// The kernel's refusals.
    pub fn drop_programs(&mut self, editor: &Editor, windows: &mut Windows) -> Result<Vec<PageNumber>> {
        self.look_away(windows);
        let mut pages = self.unlink(editor, Which::Forked)?;
        pages.extend(self.unlink(editor, Which::Executed)?);
        Ok(pages)
    }

    /// Unlinks one of them. The result is the pages of its tables.
    fn unlink(&mut self, editor: &Editor, which: Which) -> Result<Vec<PageNumber>> {
        let aside = if self.front == which { 0 } else { which.aside() };
        let program = self.program(which);
        (program.rows, program.edition) = (Vec::new(), 0);
        Ok(program.tables.unlink_aside(editor, aside)?.into_iter().map(PageNumber).collect())
    }

    /// Closes the windows onto tables of programs.
    fn look_away(&mut self, windows: &mut Windows) {
        let is_in_way = |view: &Shared| self.way.contains(&view.pages()[0]);
        self.views.iter().filter(|view| !is_in_way(view)).for_each(|view| windows.close(view));
        self.views.retain(is_in_way);
    }

    /// There will be tables of others, too, which do not stay.
    pub fn share(&mut self) {
        self.is_shared = true;
    }

    /// Notes what the tables are like, before anybody runs there.
    pub fn note(&mut self) {
        self.edits.clear();
        let tables = self.programs.iter().flat_map(|program| program.tables.pages());
        self.edits.extend(self.way.iter().copied().chain(tables).map(|table| (table, edits(table))));
    }

    /// Whether it may be that what is there can be made what it was.
    pub fn can_be_mended(&self, editor: &Editor) -> bool {
        let is_as_it_should = |(table, noted): &(PageNumber, (u64, u64))| {
            edits(*table) == *noted || *table == editor.root || is_lowest(*table)
        };
        !self.is_shared && self.edits.iter().all(is_as_it_should)
    }

    /// The tables of which somebody has set an entry since, but for the root, where the programs may have changed places. Nothing where
    /// another one of them is not of the lowest level, or some are not this environment's own.
    pub fn edited(&mut self, editor: &Editor) -> Option<Vec<PageNumber>> {
        if self.is_shared {
            return None;
        }
        let is_edited = |(table, noted): &(PageNumber, (u64, u64))| (edits(*table) != *noted).then_some(*table);
        let mut edited: Vec<PageNumber> = self.edits.iter().filter_map(is_edited).collect();
        if edited.contains(&editor.root) {
            edited.retain(|table| *table != editor.root);
            self.front = self.found_in_place(editor)?;
        }
        edited.iter().all(|table| is_lowest(*table)).then_some(edited)
    }

    /// Which program is in its place, by a root of which nothing is known. Nothing where it leads anywhere else.
    fn found_in_place(&mut self, editor: &Editor) -> Option<Which> {
        const USERS: usize = 256;
        let slot = |address: u64| (address / TOP_LEVEL_SLOT) as usize;
        let words = self.view(editor, editor.root).ok()?.words();
        let leads_to = |place: usize| PageNumber((words[place].load(Relaxed) & PAGE) / PAGE_SIZE);
        let mut used = Vec::with_capacity(4);
        for (first, some) in words[..USERS].as_chunks::<8>().0.iter().enumerate() {
            if some.iter().fold(0, |all, word| all | word.load(Relaxed)) != 0 {
                let present = some.iter().enumerate().filter(|(_, word)| word.load(Relaxed) != 0);
                used.extend(present.map(|(place, _)| first * 8 + place));
            }
        }
        let top = |which: Which| self.programs[which as usize].tables.uppermost().next().map(|(_, table)| table);
        [Which::Forked, Which::Executed].into_iter().find(|front| {
            let places = [(slot(0), top(*front)), (slot(front.other().aside()), top(front.other()))];
            let places = places.into_iter().filter_map(|(place, table)| Some((place, table?)));
            let others = [slot(NEAR), slot(LIBRARY_BASE)];
            let known = |place: &usize| {
                others.contains(place) || places.clone().any(|(at, table)| at == *place && leads_to(at) == table)
            };
            let is_image = leads_to(slot(LIBRARY_BASE)) == process().image_table;
            is_image && used.iter().all(known) && used.len() == places.clone().count() + others.len()
        })
    }

    /// The windows that show tables.
    pub fn views(&self) -> impl Iterator<Item = &Shared> {
        self.views.iter()
    }

    /// Takes out of tables that were `edited`, all others being as they were, what was not put there. The result is the pages of the
    /// program that are not mapped any more.
    ///
    /// # Errors
    /// The kernel's refusals.
    pub fn mend(&mut self, editor: &Editor, edited: Vec<PageNumber>) -> Result<Vec<PageNumber>> {
        let mut gone = Vec::new();
        let mut is_passing_out = false;
        for table in edited {
            if self.way.contains(&table) {
                self.mend_area(editor, table)?;
                is_passing_out = true;
            } else {
                let front = self.front;
                for which in [front, front.other()] {
                    let Some(base) = self.program(which).tables.base_of(table) else { continue };
                    let aside = if which == front { 0 } else { which.aside() };
                    let view = self.view(editor, table)?;
                    self.program(which).mend(editor, (view, used(table)), (base, aside), &mut gone)?;
                }
            }
        }
        if !is_passing_out {
            self.take_out_passing(editor)?;
        }
        Ok(gone)
    }

    /// Everything but the table that the area lies in is gone: takes out of it what was not put there. The result is the pages that
    /// the program's tables were made of.
    ///
    /// # Errors
    /// The kernel's refusals.
    pub fn clean(&mut self, editor: &Editor) -> Result<Vec<PageNumber>> {
        (self.has_image, self.is_shared) = (false, false);
        self.look_away(&mut process().windows.lock());
        self.front = Which::Forked;
        let programs = core::mem::take(&mut self.programs);
        let pages = programs.iter().flat_map(|program| program.tables.pages()).collect();
        let leaf = self.way.iter().copied().find(|page| is_lowest(*page)).ok_or(Errno::EFAULT)?;
        let is_near = |row: &MapRow| row.address & !(leaf::SPAN - 1) == NEAR;
        let is_as_noted = self.edits.contains(&(leaf, edits(leaf))) && self.rows.iter().all(is_near);
        if is_as_noted {
            self.take_out_passing(editor)?
        } else {
            self.mend_area(editor, leaf)?
        }
        Ok(pages)
    }

    /// Takes out of the table that the area lies in what was not put there.
    fn mend_area(&mut self, editor: &Editor, table: PageNumber) -> Result<()> {
        self.passing.clear();
        let found = leaf::look(self.view(editor, table)?.words(), used(table), NEAR, &self.rows, &AREA);
        found.missing.iter().for_each(|index| self.rows[*index].entry = 0);
        empty(editor, &found.others)
    }

    /// A window onto a table.
    fn view(&mut self, editor: &Editor, table: PageNumber) -> Result<Shared> {
        if let Some(view) = self.views.iter().find(|view| view.pages()[0] == table) {
            return Ok(view.clone());
        }
        let view = process().windows.lock().open(alloc::vec![table], editor.key, false)?;
        self.views.push(view.clone());
        Ok(view)
    }
}

impl Program {
    /// Maps other pages in the place of those before.
    fn map(&mut self, editor: &Editor, spare: &mut Vec<PageNumber>, rows: Vec<MapRow>) -> Result<Tables> {
        let before = core::mem::replace(&mut self.rows, rows);
        self.edition = 0;
        let rows = difference(&before, &self.rows);
        edit(&mut self.tables, editor, spare, &rows)
    }

    fn map_prepared(
        &mut self,
        editor: &Editor,
        spare: &mut Vec<PageNumber>,
        (edition, frames): (u64, &Frames),
    ) -> Result<Tables> {
        if self.edition != edition {
            let tables = self.map(editor, spare, frames.rows());
            self.edition = edition;
            return tables;
        }
        let mut missing = Vec::new();
        for row in self.rows.iter_mut().filter(|row| row.entry == 0) {
            row.entry = frames.get(row.address);
            missing.push(*row);
        }
        edit(&mut self.tables, editor, spare, &missing)
    }

    /// Takes out what is not what stands here, of a table that translates the addresses from `base` on, and is `aside` by so much. The
    /// pages that it does not map any more go into `gone`.
    fn mend(
        &mut self,
        editor: &Editor,
        (view, used): (Shared, u8),
        (base, aside): (u64, u64),
        gone: &mut Vec<PageNumber>,
    ) -> Result<()> {
        let in_table = base..base + leaf::SPAN;
        if leaf::is_empty(view.words(), used) {
            let rows = self.rows.iter_mut().filter(|row| in_table.contains(&row.address));
            rows.for_each(|row| take_out(row, gone));
            return Ok(());
        }
        if !self.rows.is_sorted_by_key(|row| row.address) {
            self.rows.sort_unstable_by_key(|row| row.address);
        }
        let place = |address: u64| self.rows.partition_point(|row| row.address < address);
        let here = place(in_table.start)..place(in_table.end);
        let rows = &mut self.rows[here];
        let found = leaf::look(view.words(), used, base, rows, &(0..0));
        for index in found.missing {
            take_out(&mut rows[index], gone);
        }
        let others: Vec<u64> = found.others.iter().map(|address| address + aside).collect();
        empty(editor, &others)
    }
}

/// Edits a program's tables, with `spare` pages for those that are missing. The result is all of them.
fn edit(tables: &mut Tables, editor: &Editor, spare: &mut Vec<PageNumber>, rows: &[MapRow]) -> Result<Tables> {
    tables.give_spare(core::mem::take(spare));
    let outcome = tables.edit(editor, rows);
    *spare = tables.take_spare();
    outcome.map(|()| tables.clone())
}

/// Takes out what is mapped at addresses.
fn empty(editor: &Editor, addresses: &[u64]) -> Result<()> {
    let rows: Vec<MapRow> = addresses.iter().map(|address| MapRow { address: *address, entry: 0 }).collect();
    show(editor, &rows)
}

/// A row is not mapped any more. Its page goes into `gone` if the program was given it: all others are files', or its parent's.
fn take_out(row: &mut MapRow, gone: &mut Vec<PageNumber>) {
    if row.entry != 0 && row.entry & (FROM_FILE | COPY_ON_WRITE) == 0 {
        gone.push(PageNumber((row.entry & PAGE) / PAGE_SIZE));
    }
    row.entry = 0;
}

fn is_lowest(table: PageNumber) -> bool {
    exposed::page(table).is_some_and(|info| info.kind() == PageKind::PageTable && info.level() == 1)
}

/// Which eighths of a table may hold entries.
fn used(table: PageNumber) -> u8 {
    exposed::page(table).map_or(0, |info| info.used_eighths())
}

fn show(editor: &Editor, rows: &[MapRow]) -> Result<()> {
    let Editor { root, key, tables } = *editor;
    if rows.is_empty() { Ok(()) } else { birth::show(&AddressSpace { root, key, tables }, rows) }
}

/// How often entries of a table were set, and how many links lead to it; something else where the page is another table or none.
fn edits(table: PageNumber) -> (u64, u64) {
    exposed::page(table).map_or((0, 0), |info| {
        let (generation, count) = info.edits();
        (generation << 32 | info.links(), count)
    })
}
