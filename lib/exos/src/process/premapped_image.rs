//! A program beside the memory of a child that may execute it (doc/decision/0023).
//!
//! A process whose children execute the same program one after the other, each by itself, has that program mapped in the next
//! child's address space before the child begins: in a top-level slot of its own, where no program looks for anything. All that
//! ExOS places by itself lies in one slot, so that the child has the program by moving two links: its own memory to
//! `layout::OLD_MEMORY_SLOT`, the program to where that was. When the child is gone its parent moves both back: neither was taken
//! apart, and the next child finds them as this one did.
//!
//! Holds always: what stands beside is not written there, for the kernel makes a link that was moved one to read through; its own
//! pages hold what it begins with, and nothing of the last child's; and who becomes another user has nothing beside it any more.

use super::exec::LoadedLayout;
use super::exec_template::ExecTemplate;
use super::process_record::Process;
use super::retained_space;
use crate::address_map::{IMAGE_SLOT, OLD_MEMORY_SLOT};
use crate::errno::{Errno, Result};
use crate::hw::current::process;
use crate::hw::mapping::{Mapping, Mappings};
use crate::hw::page_tables::{PageTables, TableEditor};
use crate::vm::address_space::PageOps;
use crate::vm::root_scan::{RootState, find};
use crate::vm::table_scan;
use abi::page_table::MapRow;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use runtime::page::PageKind;
use runtime::{PageNumber, exposed};

/// The program.
#[derive(Clone, Debug)]
pub struct PremappedImage {
    template: Box<ExecTemplate>,
    /// What maps it, in the order of addresses.
    rows: Vec<MapRow>,
    tables: PageTables,
    /// What a child has unmapped of it.
    missing: Vec<u64>,
    /// A window onto its own pages, in the order of theirs.
    window: Mapping,
}

/// The one that a child has beside its memory, and its memory while it has that program.
#[derive(Debug, Default)]
pub struct AlternateSlots {
    program: Option<Box<PremappedImage>>,
    before: Option<PageTables>,
}

impl PremappedImage {
    /// A program, with pages of its own.
    ///
    /// # Errors
    /// The kernel's refusals.
    pub fn new(mut prepared: ExecTemplate, editor: &TableEditor) -> Result<Self> {
        let mut pages: Vec<PageNumber> = prepared.begins_as().collect();
        editor.tables.copy_many(editor.key, &mut pages)?;
        prepared.give(&pages, &mut 0);
        let window = process().mappings.lock().open_own(pages, editor.key, true)?;
        let rows = prepared.generation().1.rows();
        let (prepared, tables) = (Box::new(prepared), PageTables::default());
        Ok(Self { template: prepared, rows, tables, missing: Vec::new(), window })
    }

    /// Maps it in an address space that has no program, with `spare` pages for tables, and puts it beside.
    ///
    /// # Errors
    /// `EFAULT` where it does not lie in one slot; the kernel's refusals.
    pub fn put(&mut self, editor: &TableEditor, spare: &mut Vec<PageNumber>) -> Result<()> {
        self.tables.give_spare(core::mem::take(spare));
        let mapped = self.tables.edit(editor, &self.rows);
        *spare = self.tables.take_spare();
        mapped?;
        PageTables::move_slot(editor, 0, IMAGE_SLOT, self.table()?)
    }

    /// What it is.
    pub const fn prepared(&self) -> &ExecTemplate {
        &self.template
    }

    /// The same, to be looked at anew.
    pub const fn prepared_mut(&mut self) -> &mut ExecTemplate {
        &mut self.template
    }

    /// Its tables.
    pub const fn tables(&self) -> &PageTables {
        &self.tables
    }

    /// Its own pages.
    pub fn own(&self) -> &[PageNumber] {
        self.window.pages()
    }

    /// The uppermost of its tables.
    fn table(&self) -> Result<PageNumber> {
        self.tables.only().ok_or(Errno::EFAULT)
    }

    /// Takes out of one of its tables, which `words` are, what was not put there: it is in the place of the memory.
    pub fn clean(&mut self, editor: &TableEditor, table: PageNumber, words: &[AtomicU64], used: u8) -> Result<()> {
        let (base, level) = self.tables.place_of(table).ok_or(Errno::EFAULT)?;
        if level != 1 {
            return self.tables.unlink_others(editor, base, words, used);
        }
        let place = |address: u64| self.rows.partition_point(|row| row.address < address);
        let rows = &self.rows[place(base)..place(base + table_scan::SPAN)];
        let found = table_scan::compare_tables(words, used, base, rows, &(0..0));
        self.missing.extend(found.missing.iter().map(|index| rows[*index].address));
        retained_space::empty(editor, &found.others)
    }

    /// Maps again what a child has unmapped, in whose place it is.
    pub fn map_again(&mut self, editor: &TableEditor) -> Result<()> {
        let entry = |address: u64| self.template.generation().1.get(address);
        let missing = self.missing.drain(..).map(|address| MapRow { address, entry: entry(address) });
        let missing: Vec<MapRow> = missing.collect();
        self.tables.edit(editor, &missing)
    }

    /// Fills its own pages with what the program begins with: the child is gone for good that could write them, whether it had the
    /// program or not.
    ///
    /// # Errors
    /// `EBUSY` where they are not what they were, or somebody has one of them.
    pub fn fill(&mut self, editor: &TableEditor) -> Result<()> {
        let Self { template: prepared, window, .. } = self;
        let is_alone = |page: &PageNumber| {
            exposed::page(*page).is_some_and(|info| {
                let is_ours = info.access() == editor.tables.list && info.kind() == PageKind::Ordinary;
                is_ours && !info.is_orphan() && info.references() == 2
            })
        };
        if !window.pages().iter().all(is_alone) {
            return Err(Errno::EBUSY);
        }
        prepared.fill(window.pages().len(), Some(window.address()), editor.key)
    }

    /// Where it and the memory that it stands beside are found in the root of an address space, in which nothing else lies than what
    /// `others` say: slots, and tables. Nothing where they are not found in any of the ways that there are.
    pub fn find(
        &self,
        (root, used): (&[AtomicU64], u8),
        memory: Option<PageNumber>,
        others: &[(u64, Option<PageNumber>)],
    ) -> Option<RootState> {
        find((root, used), (self.tables.only()?, memory?), others)
    }

    /// Puts both where they were made, and the memory where it can be written, if it is there.
    pub fn put_back(&self, editor: &TableEditor, places: RootState, memory: Option<PageNumber>) -> Result<()> {
        PageTables::move_slot(editor, 0, IMAGE_SLOT, self.table()?)?;
        if places == RootState::Changed {
            PageTables::move_slot(editor, OLD_MEMORY_SLOT, 0, memory.ok_or(Errno::EFAULT)?)?;
            PageTables::make_writable(editor, 0)?;
        }
        Ok(())
    }

    /// Takes it out of an address space. The result is the pages of its tables.
    pub fn remove(&self, editor: &TableEditor) -> Result<Vec<u64>> {
        PageTables::make_writable(editor, IMAGE_SLOT)?;
        self.tables.moved_by(IMAGE_SLOT).unlink_all(editor)
    }

    /// Closes its windows. The result is its own pages.
    pub fn close(mut self, windows: &mut Mappings) -> Vec<PageNumber> {
        self.template.look_away(windows);
        windows.close(&self.window);
        self.window.pages().to_vec()
    }
}

impl AlternateSlots {
    /// Notes the program that a child has beside its memory.
    pub fn of_child(program: Option<Box<PremappedImage>>) -> Self {
        Self { program, before: None }
    }

    /// That program.
    pub(super) fn program(&self) -> Option<&ExecTemplate> {
        self.program.as_ref().map(|beside| &*beside.template)
    }

    /// The same, if it is what is to be executed: it is not for anything else any more.
    pub fn take_if(&mut self, is_it: impl FnOnce(&ExecTemplate) -> bool) -> Option<Box<PremappedImage>> {
        self.program.take().filter(|beside| is_it(&beside.template))
    }
}

impl Process {
    /// The running program gives way to the one beside it: the result is where everything lies. Where somebody may have written its
    /// files (`was_written`), what it begins with is copied anew.
    ///
    /// # Errors
    /// The kernel's refusals.
    pub fn swap_image(&self, beside: PremappedImage, was_written: bool) -> Result<LoadedLayout> {
        let table = beside.table()?;
        let copies = if was_written { beside.template.copies() } else { Vec::new() };
        let PremappedImage { template: prepared, tables, .. } = beside;
        let ExecTemplate { space, layout, .. } = *prepared;
        let before = self.with_memory(|there, pages| {
            let editor = pages.editor();
            PageTables::move_slot(&editor, 0, OLD_MEMORY_SLOT, pages.tables.only().ok_or(Errno::EFAULT)?)?;
            PageTables::move_slot(&editor, IMAGE_SLOT, 0, table)?;
            PageTables::make_writable(&editor, 0)?;
            let before = core::mem::replace(pages.tables, tables);
            let room = there.room;
            *there = *space;
            there.room = room;
            if was_written {
                pages.copy_to(&copies)?;
            }
            Result::Ok(before)
        })?;
        self.alternate_slots.lock().before = Some(before);
        Ok(layout)
    }

    /// Whether its memory can stand beside a program: no relative has any of its tables, and it is nothing that others of its user may
    /// not look into.
    pub fn can_change_places(&self) -> bool {
        let memory = self.memory.lock();
        memory.tables.only().is_some() && memory.tables.are_own_and_few() && self.attributes.lock().dumpable != 0
    }

    /// Gives up the memory that it had before its program: its parent's pages would stay for it.
    pub fn forget_memory_before(&self) {
        let before = self.alternate_slots.lock().before.take();
        let Some(before) = before else { return };
        // What is refused goes with the process.
        let _ = self.with_memory(|_, pages| {
            let editor = pages.editor();
            PageTables::make_writable(&editor, OLD_MEMORY_SLOT)?;
            before.moved_by(OLD_MEMORY_SLOT).unlink_all(&editor)
        });
    }

    /// Gives up all that stands beside its memory.
    pub fn forget_neighbours(&self) {
        self.forget_memory_before();
        let program = self.alternate_slots.lock().program.take();
        if let Some(program) = program {
            let _ = self.with_memory(|_, pages| program.remove(&pages.editor()));
        }
    }
}
