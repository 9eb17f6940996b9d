//! Editing the entries of an address space, many at once (exokernel-sosp95 §5.4, §6.2; DESIGN.md §4, "Page").
//!
//! Rights are checked when an entry is made or widened, never after. An entry that keeps its page and widens nothing
//! needs no key. Translations are dropped on every CPU before the call returns: one by one for up to
//! [`SINGLE_DROPS`] rows, else all at once.

use crate::cost;
use crate::kernel::{Kernel, Outcome, copied, refuse};
use crate::key::permit;
use abi::capability::Rights;
use abi::limits::MAP_ROWS;
use abi::memory_map::in_user_half;
use abi::page::PageKind;
use abi::page_table::{ALLOWED, LARGE, MapRow, NO_EXECUTE, PAGE, PRESENT, SOFTWARE, USER, WRITE};
use abi::{Error, Failure, KeyIndex, PageNumber, UserAddress};
use core::mem::MaybeUninit;
use machine::map_few::Editor;
use machine::page_table::{
    Grant, LARGE_PAGES, Slot, WalkError, has_one_access_list, is_safe_leaf, page_of, span, walk,
};
use machine::tlb::{self, Extent};
use machine::{memory, user};

/// Rows up to which each translation is dropped by itself.
const SINGLE_DROPS: usize = 32;
/// The rights that a writable mapping takes.
pub(crate) const READ_WRITE: Rights = Rights::READ.either(Rights::WRITE);
/// Bits of an address below its page, where a row keeps its key.
pub(crate) const IN_PAGE: u64 = 0xfff;

/// The rows of one call.
struct Edit<'rows> {
    editor: Editor<'rows>,
    rows: &'rows [MapRow],
    /// Rows that are done.
    done: usize,
    /// Whether any of them changed what TLBs may hold.
    changed: bool,
}

/// The slot for an address at a level, if nothing on the way is shared.
pub(crate) fn editable(root: PageNumber, address: u64, level: u8) -> Result<Slot, Failure> {
    match walk(root, address, level) {
        Ok(found) => match found.shared {
            None => Ok(found.slot),
            Some(table) => Err(Error::Shared.about(table.0)),
        },
        Err(WalkError::Missing(level) | WalkError::Large(level)) => Err(Error::NotMapped.about(u64::from(level))),
    }
}

/// Whether the new entry allows something that the old one did not, for the same page.
fn widens(old: u64, new: u64) -> bool {
    (old & PRESENT == 0) || (old ^ new) & (PAGE | LARGE) != 0 || (new & WRITE != 0 && old & WRITE == 0)
}

impl Kernel {
    /// Edits entries (see `abi::syscall`).
    #[inline(always)]
    pub(crate) fn map_pages(&mut self, key: KeyIndex, root: PageNumber, rows: UserAddress, count: u64) -> Outcome<u64> {
        self.root(key, root, Rights::WRITE)?;
        let editor = Editor { context: self.callers_context(), key, root };
        if count == 1 { self.map_page(editor, rows) } else { self.map_many(editor, rows, count) }
    }

    /// One row. The short way is for one that keeps its page and gains no right: a page that is protected, or protected
    /// otherwise (exokernel-sosp95, Table 10, `prot1`). Where there is one CPU, the next such row may not come here any
    /// more: `entry.s` does it, by what is remembered (`machine::map_few`).
    #[inline(always)]
    fn map_page(&mut self, editor: Editor<'_>, place: UserAddress) -> Outcome<u64> {
        let (row, root) = (copied(user::read_row(place), place)?, editor.root);
        if let Some(table) = self.memory.leaf_table(root, row.address)
            && table.change_kept(&row)
        {
            table.remember(editor, &row, Grant::NONE);
            drop_translations(root, &[row], true);
            return Ok(1);
        }
        self.bind_page(editor, row)
    }

    /// One row that maps a page where none was, or allows more (Table 10, `appel1` and `appel2`), or any other row.
    #[inline(never)]
    fn bind_page(&mut self, editor: Editor<'_>, row: MapRow) -> Outcome<u64> {
        let (root, grant) = (editor.root, self.granted_for(&row));
        let Some(mut table) = self.memory.leaf_table(root, row.address) else { return self.map_rows(editor, &[row]) };
        if table.bind(&row, grant) {
            table.remember(editor, &row, grant);
            return Ok(1);
        }
        match table.change(&[row], grant) {
            (1, changed) => {
                table.remember(editor, &row, grant);
                drop_translations(root, &[row], changed);
            }
            _ => return self.map_rows(editor, &[row]),
        }
        Ok(1)
    }

    #[inline(never)]
    fn map_many(&mut self, editor: Editor<'_>, rows: UserAddress, count: u64) -> Outcome<u64> {
        if count > MAP_ROWS as u64 {
            return refuse(Error::TooMany, MAP_ROWS as u64);
        }
        let mut copy = [const { MaybeUninit::uninit() }; MAP_ROWS];
        let rows: &[MapRow] = copied(user::copy_rows_in(&mut copy[..count as usize], rows), rows)?;
        self.map_rows(editor, rows)
    }

    #[inline(never)]
    fn map_rows(&mut self, editor: Editor<'_>, rows: &[MapRow]) -> Outcome<u64> {
        let mut edit = Edit { editor, rows, done: 0, changed: false };
        self.change_runs(&mut edit);
        let ended = if edit.done == rows.len() { Ok(()) } else { self.edit_rows(&mut edit) };
        drop_translations(editor.root, &rows[..edit.done], edit.changed);
        match ended {
            Ok(()) => Ok(rows.len() as u64),
            Err(failure) => refuse(failure.error, edit.done as u64),
        }
    }

    /// Rows of every kind.
    #[inline(never)]
    fn edit_rows(&mut self, edit: &mut Edit<'_>) -> Result<(), Failure> {
        while edit.done < edit.rows.len() {
            if self.is_spent() {
                return Err(Error::Again.about(0));
            }
            self.edit_row(edit)?;
            self.change_runs(edit);
        }
        Ok(())
    }

    /// The next rows, a run in one table after the other, up to the first that is of another kind.
    #[inline(always)]
    fn change_runs(&mut self, edit: &mut Edit<'_>) {
        while edit.done < edit.rows.len() {
            let (done, changed) = self.change_run(edit.editor, &edit.rows[edit.done..]);
            (edit.done, edit.changed) = (edit.done + done, edit.changed | changed);
            if done == 0 {
                return;
            }
        }
    }

    /// The first rows, as long as each lies in the same table and needs no right but the one granted last. That is the
    /// way of callers that protect or map many pages (exokernel-sosp95, Table 10). Returns how many, and whether TLBs
    /// have to know.
    #[inline(always)]
    fn change_run(&mut self, editor: Editor<'_>, rows: &[MapRow]) -> (usize, bool) {
        let Some(first) = rows.first() else { return (0, false) };
        let grant = self.granted_for(first);
        let rows = &rows[..rows.len().min((self.work_left() / cost::MAP_ROW_RUN) as usize)];
        let Some(mut table) = self.memory.leaf_table(editor.root, first.address) else { return (0, false) };
        let (done, changed) = table.change(rows, grant);
        if done > 0 {
            table.remember(editor, first, grant);
        }
        self.spend(done as u32 * cost::MAP_ROW_RUN);
        (done, changed)
    }

    /// What was granted to the caller by the key of a row, as far as it is remembered.
    fn granted_for(&self, row: &MapRow) -> Grant {
        self.granted(KeyIndex(row.address & IN_PAGE), row.entry)
    }

    /// What was granted to the caller, as far as it is remembered, for the pages of one list: that of an entry's page.
    pub(crate) fn granted(&self, key: KeyIndex, entry: u64) -> Grant {
        let Some(info) = memory::info(page_of(entry)) else { return Grant::NONE };
        let list = crate::page::access_list(info);
        match self.remembered(self.last_rights_of(key, list), key, list) {
            Some(rights) if rights.contains(Rights::READ) => {
                Grant { key: key.0, list, write: rights.contains(READ_WRITE) }
            }
            _ => Grant::NONE,
        }
    }

    /// Carries out the next row.
    fn edit_row(&mut self, edit: &mut Edit<'_>) -> Result<(), Failure> {
        let MapRow { address, entry } = edit.rows[edit.done];
        let (address, key) = (address & !IN_PAGE, KeyIndex(address & IN_PAGE));
        let level = if entry & LARGE != 0 { 2 } else { 1 };
        check_row(address, entry)?;
        let slot = match level {
            1 => self.leaf_slot(edit.editor.root, address)?,
            _ => editable(edit.editor.root, address, level)?,
        };
        let old = slot.entry();
        if level == 2 && old & PRESENT != 0 && old & LARGE == 0 {
            return Err(Error::NotFree.about(page_of(old).0));
        }
        if entry & PRESENT != 0 && widens(old, entry) {
            self.check_leaf(key, entry)?;
        }
        self.spend(cost::MAP_ROW);
        let old = self.put_leaf(slot, entry);
        if entry & PRESENT != 0 && is_private(page_of(entry)) {
            self.memory.note_private(edit.editor.root, address);
        }
        if old & PRESENT != 0 {
            edit.changed |= (old ^ (entry | USER)) & (ALLOWED & !SOFTWARE) != 0;
        }
        edit.done += 1;
        Ok(())
    }

    /// The slot for an address at level 1, if nothing on the way is shared.
    #[inline(always)]
    pub(crate) fn leaf_slot(&mut self, root: PageNumber, address: u64) -> Result<Slot, Failure> {
        match self.memory.leaf_table(root, address) {
            Some(table) => Ok(table.slot(address)),
            None => editable(root, address, 1),
        }
    }

    /// Whether a key gives the access that an entry would. The pages of a large entry must have one access list.
    pub(crate) fn check_leaf(&self, key: KeyIndex, entry: u64) -> Result<(), Failure> {
        let right = if entry & WRITE != 0 { READ_WRITE } else { Rights::READ };
        let page = page_of(entry);
        let info = self.page(page)?;
        match memory::state(info).kind {
            PageKind::EnvironmentPrivate => self.check_private(page)?,
            // Readable by all; written by its owner, who holds the key of its access list.
            PageKind::EnvironmentPublic if entry & WRITE == 0 => {}
            _ => permit(self.rights_on_page(key, info)?, right)?,
        }
        if entry & LARGE != 0 {
            self.spend(cost::LARGE_BIND);
        }
        if !is_safe_leaf(entry) {
            return Err(Error::WrongKind.about(memory::state(info).kind as u64));
        }
        if entry & LARGE == 0 || has_one_access_list(entry) {
            return Ok(());
        }
        Err(Error::NotPermitted.about(0))
    }

    /// A private page is mapped only by the environment whose it is.
    fn check_private(&self, page: PageNumber) -> Result<(), Failure> {
        let secrets = self.secrets(self.caller());
        let own = secrets.private[..usize::from(secrets.private_count)].contains(&(page.0 as u32));
        if own { Ok(()) } else { Err(Error::NotPermitted.about(0)) }
    }

    /// Puts a checked entry into a slot and settles what it releases; returns what was there.
    pub(crate) fn put_leaf(&mut self, slot: Slot, entry: u64) -> u64 {
        let old = self.memory.set_leaf(slot, entry);
        if (old ^ entry) & (PAGE | PRESENT | LARGE) != 0 {
            self.spend(cost::PAGE_BIND);
            if old & PRESENT != 0 {
                self.note_released(old);
            }
        }
        old
    }

    fn note_released(&mut self, old: u64) {
        let first = page_of(old);
        let pages = if old & LARGE != 0 { LARGE_PAGES } else { 1 };
        if old & LARGE != 0 {
            self.spend(cost::LARGE_BIND);
        }
        for page in first.0..first.0 + pages {
            self.settle(PageNumber(page));
        }
    }
}

/// Drops on every CPU what TLBs may hold of rows that changed an entry, where it matters to them.
#[inline(always)]
pub(crate) fn drop_translations(root: PageNumber, rows: &[MapRow], changed: bool) {
    if !changed {
        return;
    }
    if rows.len() > SINGLE_DROPS {
        return tlb::drop_everywhere(root, Extent::All);
    }
    for row in rows {
        tlb::drop_everywhere(root, Extent::Address(row.address & !IN_PAGE));
    }
}

/// Whether a page is a private one of an environment area.
fn is_private(page: PageNumber) -> bool {
    memory::info(page).is_some_and(|info| memory::state(info).kind == PageKind::EnvironmentPrivate)
}

/// What can be wrong with a row by itself.
fn check_row(address: u64, entry: u64) -> Result<(), Failure> {
    let span = if entry & LARGE != 0 { span(2) } else { span(1) };
    if !address.is_multiple_of(span) || !in_user_half(address, span) {
        return Err(Error::BadAddress.about(address));
    }
    let absent = entry & PRESENT == 0 && entry & !(SOFTWARE | LARGE) != 0;
    if entry & !ALLOWED != 0 || absent || (entry & PRESENT == 0 && entry & NO_EXECUTE != 0) {
        return Err(Error::BadArgument.about(2));
    }
    Ok(())
}
