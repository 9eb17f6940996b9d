//! Address spaces: roots, page tables and the links between them (DESIGN.md §4, "Page").
//!
//! A table that more than one link leads to is immutable, and read-only through every link; an environment that faults
//! on it copies it. Linking a second time narrows what the first link allowed, so every CPU drops its translations
//! before the call returns.

use crate::cost;
use crate::kernel::{Kernel, Outcome, refuse};
use crate::key::permit;
use crate::page::wake_watchers;
use crate::page_map::{READ_WRITE, editable};
use abi::capability::Rights;
use abi::memory_map::in_user_half;
use abi::page::{PRIVATE, PageInfo, PageKind};
use abi::page_table::{LARGE, PRESENT};
use abi::{Error, Failure, KeyIndex, PageNumber, UserAddress};
use core::sync::atomic::Ordering;
use machine::page_table::{ROOT_LEVEL, Slot, links, only_parent, page_of};
use machine::tlb::{self, Extent};
use machine::{cpu_control, memory};

impl Kernel {
    /// Fails unless a page is a root that a key opens with this right.
    #[inline(always)]
    pub(crate) fn root(&self, key: KeyIndex, root: PageNumber, right: Rights) -> Result<(), Failure> {
        match self.remembered(&self.last_root, key, root) {
            Some(rights) if rights.contains(right) => Ok(()),
            _ => self.find_root(key, root, right),
        }
    }

    #[inline(never)]
    fn find_root(&self, key: KeyIndex, root: PageNumber, right: Rights) -> Result<(), Failure> {
        let info = self.page(root)?;
        let rights = self.rights_on_page(key, info)?;
        permit(rights, right)?;
        let state = memory::state(info);
        if (state.kind, state.level) != (PageKind::PageTable, ROOT_LEVEL) {
            return Err(Error::WrongKind.about(state.kind as u64));
        }
        self.remember(&self.last_root, key, root, rights);
        Ok(())
    }

    /// Makes a page the root of a new address space.
    pub(crate) fn create_address_space(&mut self, key: KeyIndex, page: PageNumber) -> Outcome<()> {
        self.donatable(key, page)?;
        self.memory.create_table(page, ROOT_LEVEL);
        Ok(())
    }

    /// Switches the caller to a root (see `abi::syscall`).
    pub(crate) fn switch_address_space(&mut self, key: KeyIndex, root: PageNumber) -> Outcome<()> {
        self.root(key, root, Rights::WRITE)?;
        let caller = self.caller();
        let context = self.context_of(caller);
        self.memory.count_root(root, 1);
        self.memory.count_root(context.root(), -1);
        context.set_root(root);
        caller.change(|info| info.root.store(root.0, Ordering::Release));
        cpu_control::load_address_space(root.address());
        Ok(())
    }

    /// Links a table (see `abi::syscall`).
    pub(crate) fn link_page_table(
        &mut self,
        key: KeyIndex,
        root: PageNumber,
        address: UserAddress,
        level: u64,
        table: PageNumber,
        table_key: KeyIndex,
    ) -> Outcome<()> {
        self.root(key, root, Rights::WRITE)?;
        let level = checked_level(address, level)?;
        let slot = editable(root, address.0, level + 1)?;
        if slot.entry() & PRESENT != 0 {
            return refuse(Error::NotFree, page_of(slot.entry()).0);
        }
        let info = self.page(table)?;
        let state = memory::state(info);
        if state.kind == PageKind::PageTable {
            permit(self.rights_on_page(table_key, info)?, right_to_link(info))?;
            if state.level != level || table == root {
                return refuse(Error::WrongKind, u64::from(state.level));
            }
            // Its owner's upcall stack would become read-only, and its private words another's to read.
            if state.flags & PRIVATE != 0 {
                return refuse(Error::NotPermitted, 0);
            }
        } else {
            self.donatable(table_key, table)?;
            self.memory.create_table(table, level);
        }
        let narrowed = (links(info) == 1).then(|| root_above(table));
        self.memory.link(slot, table);
        memory::note_use(info);
        match narrowed {
            Some(Some(root)) => tlb::drop_everywhere(root, Extent::All),
            Some(None) => self.drop_all(),
            None => {}
        }
        Ok(())
    }

    /// Removes a link (see `abi::syscall`).
    pub(crate) fn unlink_page_table(
        &mut self,
        key: KeyIndex,
        root: PageNumber,
        address: UserAddress,
        level: u64,
    ) -> Outcome<PageNumber> {
        self.root(key, root, Rights::WRITE)?;
        let level = checked_level(address, level)?;
        let slot = linked_slot(root, address, level)?;
        let table = page_of(slot.entry());
        let last = links(memory::info(table).expect("a linked table has a record")) == 1;
        if last && level > 1 && self.memory.first_present(table).is_some() {
            return refuse(Error::InUse, table.0);
        }
        if last && level == 1 && !self.clear_table(table) {
            tlb::drop_everywhere(root, Extent::All);
            return refuse(Error::Again, 0);
        }
        self.memory.unlink(slot);
        tlb::drop_everywhere(root, Extent::All);
        if last {
            self.dissolve_table(table);
            self.settle(table);
        }
        Ok(table)
    }

    /// Removes leaf entries of a level-1 table until the entry is spent; true when none is left.
    pub(crate) fn clear_table(&mut self, table: PageNumber) -> bool {
        self.spend(cost::TABLE_LOOK);
        loop {
            let (done, came_to) = self.memory.unmap_run(table, (self.work_left() * cost::UNMAPPED_PER_UNIT) as usize);
            self.spend((done as u32).div_ceil(cost::UNMAPPED_PER_UNIT));
            let Some(index) = came_to else { return true };
            if self.is_spent() {
                return false;
            }
            self.spend(cost::UNMAP_FREEING);
            self.put_leaf(Slot { table, index }, 0);
        }
    }

    /// Ends the sharing of a table (see `abi::syscall`).
    pub(crate) fn copy_page_table(
        &mut self,
        key: KeyIndex,
        root: PageNumber,
        address: UserAddress,
        level: u64,
        fresh: PageNumber,
        page_key: KeyIndex,
    ) -> Outcome<u64> {
        self.root(key, root, Rights::WRITE)?;
        let level = checked_level(address, level)?;
        let slot = linked_slot(root, address, level)?;
        let table = page_of(slot.entry());
        if links(memory::info(table).expect("a linked table has a record")) == 1 {
            self.memory.unshare(slot);
            return Ok(0);
        }
        let begun = self.begun_copy(page_key, fresh, level)?;
        if !begun {
            self.donatable(page_key, fresh)?;
            self.memory.create_table(fresh, level);
        }
        if let Err(failure) = self.copy_entries(page_key, table, fresh, level) {
            if failure.error != Error::Again {
                self.abandon_copy(fresh, level);
            }
            return Err(failure.into());
        }
        self.memory.unlink(slot);
        self.memory.link(slot, fresh);
        tlb::drop_everywhere(root, Extent::All);
        Ok(1)
    }

    /// Whether `fresh` is a copy that an earlier step has begun.
    fn begun_copy(&self, key: KeyIndex, fresh: PageNumber, level: u8) -> Result<bool, Failure> {
        let info = self.page(fresh)?;
        let state = memory::state(info);
        if state.kind != PageKind::PageTable || state.level != level || links(info) != 0 {
            return Ok(false);
        }
        permit(self.rights_on_page(key, info)?, Rights::OWN)?;
        Ok(true)
    }

    /// Copies entries that are not copied yet, each checked against the copier's own key.
    fn copy_entries(&mut self, key: KeyIndex, from: PageNumber, to: PageNumber, level: u8) -> Result<(), Failure> {
        if level == 1 {
            return self.copy_leaves(key, from, to);
        }
        self.spend(cost::TABLE_COMPARE);
        let mut next = self.memory.first_missing(from, to, 0);
        while let Some(source) = next {
            if self.is_spent() {
                return Err(Error::Again.about(source.index as u64));
            }
            self.copy_entry(key, source.entry(), Slot { table: to, ..source }, level)?;
            next = self.memory.first_missing(from, to, source.index + 1);
        }
        Ok(())
    }

    /// The entries of a level-1 table, in their order. They go in a run as long as they need no right but the one
    /// granted last, as nearly all pages of a program do.
    fn copy_leaves(&mut self, key: KeyIndex, from: PageNumber, to: PageNumber) -> Result<(), Failure> {
        self.spend(cost::TABLE_LOOK);
        let mut next = self.memory.first_left(from, to);
        while let Some(source) = next {
            if self.is_spent() {
                return Err(Error::Again.about(source.index as u64));
            }
            let grant = self.granted(key, source.entry());
            let (index, done) = self.memory.copy_run(source, to, self.work_left() as usize, grant);
            self.spend(done as u32);
            if done == 0 {
                self.copy_entry(key, source.entry(), Slot { table: to, ..source }, 1)?;
            }
            next = self.memory.first_used(from, if done == 0 { source.index + 1 } else { index });
        }
        Ok(())
    }

    fn copy_entry(&mut self, key: KeyIndex, entry: u64, slot: Slot, level: u8) -> Result<(), Failure> {
        if entry & PRESENT == 0 || level == 1 || entry & LARGE != 0 {
            self.spend(cost::ENTRY_COPY);
            if entry & PRESENT != 0 {
                self.check_leaf(key, entry)?;
            }
            self.put_leaf(slot, entry);
            return Ok(());
        }
        self.spend(cost::LINK_COPY);
        let info = self.page(page_of(entry))?;
        permit(self.rights_on_page(key, info)?, Rights::READ)?;
        self.memory.link(slot, page_of(entry));
        Ok(())
    }

    /// Undoes as much of a refused copy as one entry can; `page_free` does the rest.
    fn abandon_copy(&mut self, fresh: PageNumber, level: u8) {
        if self.empty_table(fresh, level) {
            self.dissolve_table(fresh);
        }
    }

    /// Empties a table that nothing leads to, until the entry is spent; true when nothing is left in it.
    pub(crate) fn empty_table(&mut self, table: PageNumber, level: u8) -> bool {
        while level > 1 {
            if self.is_spent() || self.work_left() < cost::TABLE_UNLINK {
                return false;
            }
            if !self.release_piece(table, level) {
                break;
            }
        }
        if level == ROOT_LEVEL {
            // Its upper half, which is the kernel's, goes when it is filled with zeros.
            let there_is_room = self.work_left() >= cost::TABLE_CLEAR;
            self.spend(cost::TABLE_CLEAR);
            return there_is_room;
        }
        self.clear_table(table)
    }

    /// Takes the first piece out of what a table leads to, and as much behind it under the same entry as there is room
    /// for. A table that nothing leads to any more is an ordinary page. False where there was nothing.
    pub(crate) fn release_piece(&mut self, top: PageNumber, level: u8) -> bool {
        let Some(first) = self.memory.first_present(top) else { return false };
        self.release_under(first, level);
        true
    }

    /// Takes out what the entry in a slot of a table at `level` leads to, as much as there is room for. The entry goes
    /// with the last of it; true when it is gone. A table that others have as well is only unlinked.
    pub(crate) fn release_under(&mut self, slot: Slot, level: u8) -> bool {
        self.spend(cost::TABLE_UNLINK);
        let table = page_of(slot.entry());
        if slot.entry() & LARGE != 0 {
            let there_is_room = self.work_left() >= cost::LARGE_UNMAP_LEFT;
            if there_is_room {
                self.put_leaf(slot, 0);
            }
            return there_is_room;
        }
        if links(memory::info(table).expect("a linked table has a record")) > 1 {
            self.memory.unlink(slot);
            return true;
        }
        // As deep as there are levels.
        let is_empty = if level == 2 { self.clear_table(table) } else { self.release_all(table, level - 1) };
        if is_empty {
            self.release_table(slot);
        }
        is_empty
    }

    /// The same for every entry of a table at `level` above 1.
    fn release_all(&mut self, table: PageNumber, level: u8) -> bool {
        let mut from = 0;
        while let Some(slot) = self.memory.first_present_from(table, from) {
            if self.work_left() < cost::TABLE_UNLINK || !self.release_under(slot, level) {
                return false;
            }
            from = slot.index + 1;
        }
        true
    }

    /// Makes an empty table without links an ordinary page again. Sleepers over an entry of it are told.
    pub(crate) fn dissolve_table(&mut self, table: PageNumber) {
        wake_watchers(memory::info(table).expect("a table has a record"));
        self.memory.dissolve_table(table);
    }

    /// Takes the only link to an empty table out.
    fn release_table(&mut self, slot: Slot) {
        let table = self.memory.unlink(slot);
        self.dissolve_table(table);
        self.settle(table);
    }

    /// Makes a table without users an ordinary page again.
    pub(crate) fn dissolve_free_table(&mut self, page: PageNumber, info: &PageInfo) -> Outcome<()> {
        if links(info) != 0 {
            return refuse(Error::InUse, u64::from(links(info)));
        }
        if !self.empty_table(page, memory::state(info).level) {
            return refuse(Error::Again, 0);
        }
        self.dissolve_table(page);
        // The page is no root any more: the right to edit it ends.
        self.forget();
        Ok(())
    }
}

/// The only root that leads to a table, where its links say so.
fn root_above(table: PageNumber) -> Option<PageNumber> {
    let mut at = table;
    for _ in 1..ROOT_LEVEL {
        let info = memory::info(at)?;
        if memory::state(info).level == ROOT_LEVEL {
            break;
        }
        at = only_parent(info)?;
    }
    memory::info(at).filter(|info| memory::state(info).level == ROOT_LEVEL).map(|_| at)
}

/// The rights that linking a table takes: the link that makes it shared takes from its owner that it can be edited.
fn right_to_link(table: &PageInfo) -> Rights {
    if links(table) > 1 { Rights::READ } else { READ_WRITE }
}

/// A level from an argument, for an address in the user half.
fn checked_level(address: UserAddress, level: u64) -> Outcome<u8> {
    if !in_user_half(address.0, 1) {
        return refuse(Error::BadAddress, address.0);
    }
    match level {
        1..=3 => Ok(level as u8),
        _ => refuse(Error::BadArgument, 3),
    }
}

/// The slot of a link to a table of this level.
fn linked_slot(root: PageNumber, address: UserAddress, level: u8) -> Result<Slot, Failure> {
    let slot = editable(root, address.0, level + 1)?;
    match slot.entry() {
        entry if entry & PRESENT != 0 && entry & LARGE == 0 => Ok(slot),
        _ => Err(Error::NotMapped.about(u64::from(level))),
    }
}
