//! Address space of a child in which no program runs, as its parent edits and reads it (`vm::spawn_cache`).

use crate::hw::env_create;
use crate::hw::mapping::{Mapping, Mappings};
use crate::hw::page_tables::{PageTables, TableEditor, link_common};
use crate::process::current::process;
use abi::limits::MAP_ROWS;
use abi::memory_map::LIBRARY_BASE;
use abi::page_table::MapRow;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::AtomicU64;
use linux_abi::address_map::{AREA_PRIVATE_PAGES, PAGE_SIZE};
use linux_abi::errno::Result;
use runtime::address_space::AddressSpace;
use runtime::page::PageKind;
use runtime::{PageNumber, area, exposed, layout};
use vm::spawn_cache::{ChildSpace, ProgramTables, RetainedSpace};

/// Windows onto tables of a child that were scanned, to be read.
#[derive(Clone, Debug, Default)]
pub(in crate::process) struct TableViews(Vec<Mapping>);

/// The address space.
#[derive(Debug)]
pub(in crate::process) struct SpareSpace<'a> {
    /// How its tables are edited.
    pub editor: TableEditor,
    /// Windows onto these.
    pub views: &'a mut TableViews,
}

impl TableViews {
    /// Whether there are none.
    pub(in crate::process) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Closes all of them, when the environment is gone.
    pub(in crate::process) fn close(&mut self, windows: &mut Mappings) {
        self.0.drain(..).for_each(|view| windows.close(&view));
    }

    /// Closes those onto tables of a program.
    pub(in crate::process) fn close_program(&mut self, space: &RetainedSpace<PageTables>, windows: &mut Mappings) {
        let is_in_way = |view: &Mapping| space.is_in_way(view.pages()[0]);
        self.0.iter().filter(|view| !is_in_way(view)).for_each(|view| windows.close(view));
        self.0.retain(is_in_way);
    }
}

impl ProgramTables for PageTables {
    fn pages(&self) -> impl Iterator<Item = PageNumber> {
        Self::pages(self)
    }

    fn base_of(&self, table: PageNumber) -> Option<u64> {
        Self::base_of(self, table)
    }
}

impl ChildSpace for SpareSpace<'_> {
    type Tables = PageTables;
    const AREA: Range<u64> = layout::AREA..layout::AREA + (1 + AREA_PRIVATE_PAGES as u64) * PAGE_SIZE;

    fn level(&self, table: PageNumber) -> u64 {
        exposed::page(table).filter(|info| info.kind() == PageKind::PageTable).map_or(0, |info| info.level())
    }

    fn used(&self, table: PageNumber) -> u8 {
        exposed::page(table).map_or(0, |info| info.used_eighths())
    }

    fn edits(&self, table: PageNumber) -> (u64, u64) {
        exposed::page(table).map_or((0, 0), |info| {
            let (generation, count) = info.edits();
            (generation << 32 | info.links(), count)
        })
    }

    fn words(&mut self, table: PageNumber) -> Result<&[AtomicU64]> {
        if let Some(view) = self.views.0.iter().find(|view| view.pages()[0] == table) {
            return Ok(view.words());
        }
        let view = process().mappings.lock().open_own(vec![table], self.editor.key, false)?;
        let words = view.words();
        self.views.0.push(view);
        Ok(words)
    }

    fn map(&mut self, rows: &[MapRow]) -> Result<()> {
        let TableEditor { root, key, tables } = self.editor;
        if rows.is_empty() { Ok(()) } else { env_create::map(&AddressSpace { root, key, tables }, rows) }
    }

    fn edit(&mut self, tables: &mut PageTables, spare: &mut Vec<PageNumber>, rows: &[MapRow]) -> Result<()> {
        tables.give_spare(core::mem::take(spare));
        let outcome = tables.edit(&self.editor, rows);
        *spare = tables.take_spare();
        outcome
    }

    fn unlink_all(&mut self, tables: &mut PageTables) -> Result<Vec<PageNumber>> {
        Ok(tables.unlink_all(&self.editor)?.into_iter().map(PageNumber).collect())
    }

    fn link_image(&mut self, table: PageNumber) -> Result<()> {
        link_common(&self.editor, LIBRARY_BASE, 3, table)
    }
}

/// The tables of an address space that has nothing but its area, and whose tables are under a list of their own.
pub(in crate::process) fn fresh_tables(list: PageNumber) -> Vec<PageNumber> {
    // What was charged last comes first: there is no need to look through all pages of this environment.
    let count = exposed::page(list).map_or(0, |info| info.links()) as usize;
    let own = exposed::environment(area::number());
    let mut found = own.map_or(Vec::new(), |own| own.charged(count, |_, info| info.access() == list));
    found.retain(|page| exposed::page(*page).is_some_and(|info| info.kind() == PageKind::PageTable));
    found
}

/// Maps pages that go with the address space, a few at a time.
///
/// # Errors
/// The kernel's refusals.
pub(in crate::process) fn give(space: &mut SpareSpace<'_>, mut own: impl Iterator<Item = MapRow>) -> Result<()> {
    let mut rows = Vec::with_capacity(MAP_ROWS);
    loop {
        rows.clear();
        rows.extend(own.by_ref().take(MAP_ROWS));
        if rows.is_empty() {
            return Ok(());
        }
        space.map(&rows)?;
    }
}
