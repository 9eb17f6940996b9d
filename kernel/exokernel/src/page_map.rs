//! Editing the entries of an address space, many at once (exokernel-sosp95 §5.4, §6.2; DESIGN.md §4, "Page").
//!
//! Rights are checked when an entry is made or widened, never after. An entry that keeps its page and widens nothing
//! needs no key. Translations are dropped on every CPU before the call returns: one by one for up to
//! [`SINGLE_DROPS`] narrowed entries, else all at once.

use crate::kernel::{Kernel, Outcome, copied, refuse};
use crate::key::permit;
use crate::page::{access_list, note_use};
use abi::capability::Rights;
use abi::limits::MAP_ROWS;
use abi::memory_map::in_user_half;
use abi::page::PageKind;
use abi::page_table::{ALLOWED, LARGE, MapRow, NO_EXECUTE, PAGE, PRESENT, SOFTWARE, WRITE};
use abi::{Error, Failure, KeyIndex, PageNumber, UserAddress};
use core::mem::MaybeUninit;
use core::sync::atomic::Ordering;
use machine::page_table::{LARGE_PAGES, Slot, WalkError, is_safe_leaf, page_of, walk};
use machine::tlb::{self, Extent};
use machine::{exposed, memory, user};

/// Narrowed entries up to which each translation is dropped by itself.
const SINGLE_DROPS: u32 = 32;
/// Units of work of mapping or unmapping 2 MiB.
const LARGE_WORK: u32 = 150;
/// Bits of an address below its page, where a row keeps its key.
const IN_PAGE: u64 = 0xfff;
const _: () = assert!(MAP_ROWS <= 128, "a bit a row");

/// The table that the last row's entry lay in, so that neighbours need no walk.
struct LastTable {
    first: u64,
    slot: Option<Slot>,
}

impl LastTable {
    fn slot(&mut self, root: PageNumber, address: u64, level: u8) -> Result<Slot, Failure> {
        let span = machine::page_table::span(level + 1);
        let index = machine::page_table::index(address, level);
        let first = (address & !(span - 1)) | u64::from(level);
        if let Some(slot) = self.slot.filter(|_| self.first == first) {
            return Ok(Slot { index, ..slot });
        }
        let slot = editable(root, address, level)?;
        *self = Self { first, slot: Some(slot) };
        Ok(slot)
    }
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

/// Whether some access that the old entry allowed, or the page it led to, is gone: TLBs have to know.
fn narrows(old: u64, new: u64) -> bool {
    old & PRESENT != 0 && (old ^ new) & (ALLOWED & !SOFTWARE) != 0
}

impl Kernel {
    /// Edits entries (see `abi::syscall`).
    pub(crate) fn map_pages(&mut self, key: KeyIndex, root: PageNumber, rows: UserAddress, count: u64) -> Outcome<u64> {
        self.root(key, root, Rights::WRITE)?;
        if count > MAP_ROWS as u64 {
            return refuse(Error::TooMany, MAP_ROWS as u64);
        }
        let mut copy = [const { MaybeUninit::uninit() }; MAP_ROWS];
        let copy: &[MapRow] = copied(user::copy_rows_in(&mut copy[..count as usize], rows), rows)?;
        let mut narrowed = 0;
        let mut last = LastTable { first: u64::MAX, slot: None };
        let nx = exposed::kernel().features.load(Ordering::Relaxed) & abi::feature::NX != 0;
        let mut done = Ok(count);
        for (index, row) in copy.iter().enumerate() {
            self.spend(1);
            let result = match self.is_spent() {
                true => Err(Error::Again.about(0)),
                false => self.map_row(root, row, &mut last, nx),
            };
            match result {
                Ok(narrows) => narrowed |= u128::from(narrows) << index,
                Err(failure) => {
                    done = refuse(failure.error, index as u64);
                    break;
                }
            }
        }
        drop_translations(root, copy, narrowed);
        done
    }

    /// Carries out one row; tells whether TLBs have to know.
    fn map_row(&mut self, root: PageNumber, row: &MapRow, last: &mut LastTable, nx: bool) -> Result<bool, Failure> {
        let (address, key) = (row.address & !IN_PAGE, KeyIndex(row.address & IN_PAGE));
        let level = if row.entry & LARGE != 0 { 2 } else { 1 };
        check_row(address, row.entry)?;
        let slot = last.slot(root, address, level)?;
        let old = slot.entry();
        if level == 2 && old & PRESENT != 0 && old & LARGE == 0 {
            return Err(Error::NotFree.about(page_of(old).0));
        }
        if row.entry & PRESENT != 0 && widens(old, row.entry) {
            self.check_leaf(key, row.entry)?;
        }
        self.put_leaf(slot, row.entry, nx);
        Ok(narrows(old, row.entry))
    }

    /// Whether a key gives the access that an entry would. The pages of a large entry must have one access list.
    pub(crate) fn check_leaf(&self, key: KeyIndex, entry: u64) -> Result<(), Failure> {
        let right = if entry & WRITE != 0 { Rights::READ.either(Rights::WRITE) } else { Rights::READ };
        let page = page_of(entry);
        let info = self.page(page)?;
        match memory::state(info).kind {
            PageKind::EnvironmentPrivate => self.check_private(page)?,
            // Readable by all; written by its owner, who holds the key of its access list.
            PageKind::EnvironmentPublic if entry & WRITE == 0 => {}
            _ => permit(self.rights_on_page(key, info)?, right)?,
        }
        if entry & LARGE != 0 {
            self.check_large(page, access_list(info))?;
        }
        if is_safe_leaf(entry) {
            return Ok(());
        }
        Err(Error::WrongKind.about(memory::state(info).kind as u64))
    }

    /// The other pages of a large entry: memory of the same kind under the same list.
    fn check_large(&self, first: PageNumber, list: PageNumber) -> Result<(), Failure> {
        self.spend(LARGE_WORK);
        for page in first.0..first.0 + LARGE_PAGES {
            let info = self.page(PageNumber(page))?;
            if memory::state(info).kind != PageKind::Ordinary {
                return Err(Error::WrongKind.about(memory::state(info).kind as u64));
            }
            if access_list(info) != list {
                return Err(Error::NotPermitted.about(0));
            }
        }
        Ok(())
    }

    /// A private page is mapped only by the environment whose it is.
    fn check_private(&self, page: PageNumber) -> Result<(), Failure> {
        let secrets = self.secrets(self.caller());
        let own = secrets.private[..secrets.private_count].contains(&(page.0 as u32));
        if own { Ok(()) } else { Err(Error::NotPermitted.about(0)) }
    }

    /// Puts a checked entry into a slot and settles what it releases.
    pub(crate) fn put_leaf(&mut self, slot: Slot, entry: u64, nx: bool) {
        let old = self.memory.set_leaf(slot, entry, nx);
        if (old ^ entry) & (PAGE | PRESENT | LARGE) == 0 {
            return;
        }
        self.spend(1);
        if old & PRESENT != 0 {
            self.note_released(old);
        }
        if entry & PRESENT != 0 {
            note_use(memory::info(page_of(entry)).expect("a mapped page has a record"));
        }
    }

    fn note_released(&mut self, old: u64) {
        let first = page_of(old);
        note_use(memory::info(first).expect("a mapped page has a record"));
        let pages = if old & LARGE != 0 { LARGE_PAGES } else { 1 };
        if old & LARGE != 0 {
            self.spend(LARGE_WORK);
        }
        for page in first.0..first.0 + pages {
            self.settle(PageNumber(page));
        }
    }
}

/// Drops the translations of the narrowed rows on every CPU.
fn drop_translations(root: PageNumber, rows: &[MapRow], narrowed: u128) {
    match narrowed.count_ones() {
        0 => {}
        count if count > SINGLE_DROPS => tlb::drop_everywhere(root, Extent::All),
        _ => {
            for (_, row) in rows.iter().enumerate().filter(|(index, _)| narrowed >> index & 1 != 0) {
                tlb::drop_everywhere(root, Extent::Address(row.address & !IN_PAGE));
            }
        }
    }
}

/// What can be wrong with a row by itself.
fn check_row(address: u64, entry: u64) -> Result<(), Failure> {
    let span = if entry & LARGE != 0 { machine::page_table::span(2) } else { machine::page_table::span(1) };
    if !address.is_multiple_of(span) || !in_user_half(address, span) {
        return Err(Error::BadAddress.about(address));
    }
    let absent = entry & PRESENT == 0 && entry & !(SOFTWARE | LARGE) != 0;
    if entry & !ALLOWED != 0 || absent || (entry & PRESENT == 0 && entry & NO_EXECUTE != 0) {
        return Err(Error::BadArgument.about(2));
    }
    Ok(())
}
