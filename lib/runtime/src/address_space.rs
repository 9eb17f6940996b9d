//! Address spaces: which page lies where. The tables are pages like any other, linked when they are needed.
//!
//! The own address space holds the memory of the program's own objects, so that to change it anywhere is unsafe.
//! [`AddressSpace::apply`] is the safe way, which refuses to touch what the runtime and the image use.

use crate::page::{self, Allocator};
use crate::window::Window;
use crate::{area, syscall};
use abi::limits::{MAP_ROWS, PAGE_SIZE};
use abi::memory_map::LIBRARY_END;
pub use abi::page_table::{self as entry, MapRow};
use abi::{Error, Failure, KeyIndex, PageNumber, UserAddress};
use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;

/// Rows up to which no room for all rows of a call is filled.
const FEW: usize = 4;
const SOME: usize = 16;

/// Levels of page tables, and entries of each.
const LEVELS: u32 = 4;
const TABLE_ENTRIES: usize = 512;

/// How a page is mapped: bits of [`entry`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access(pub u64);

impl Access {
    /// Read only.
    pub const READ: Self = Self(entry::PRESENT | entry::NO_EXECUTE);
    /// Read and write.
    pub const WRITE: Self = Self(entry::PRESENT | entry::WRITE | entry::NO_EXECUTE);
    /// Read and execute.
    pub const EXECUTE: Self = Self(entry::PRESENT);
}

/// An address space, with the key that gives access to it and to the pages that are mapped in it.
#[derive(Clone, Copy, Debug)]
pub struct AddressSpace {
    /// Page of its root.
    pub root: PageNumber,
    /// Key with the right to write the root, and to the pages.
    pub key: KeyIndex,
    /// Where its page tables come from.
    pub tables: Allocator,
}

/// The one that this runs in.
pub fn own() -> AddressSpace {
    AddressSpace { root: area::root(), key: KeyIndex::FIRST, tables: Allocator::own() }
}

impl AddressSpace {
    /// A new, empty one: its root and its tables are pages of `pages`.
    ///
    /// # Errors
    /// The kernel's refusals of `page_allocate` and `page_become`.
    pub fn create(pages: Allocator) -> Result<Self, Failure> {
        let root = pages.allocate()?;
        match page::become_root(pages.key, root) {
            Ok(()) => Ok(Self { root, key: pages.key, tables: pages }),
            Err(failure) => {
                let _ = pages.free(root);
                Err(failure)
            }
        }
    }

    /// Edits entries; links the tables that are missing on the way. On an error the rows before the one in the detail
    /// are done.
    ///
    /// # Errors
    /// The kernel's refusals of `page_map`, `page_table_link` and `page_allocate`.
    ///
    /// # Safety
    /// If this is the own address space: no live object of the program changes place, disappears, or becomes one that
    /// others write.
    pub unsafe fn edit(&self, rows: &[MapRow]) -> Result<(), Failure> {
        let (mut done, mut linked) = (0, None);
        while done < rows.len() {
            let some = &rows[done..rows.len().min(done + MAP_ROWS)];
            // SAFETY: the rows are as many as we say; the caller answers for what they change.
            let outcome =
                unsafe { syscall::page_map(self.key, self.root, UserAddress(some.as_ptr() as u64), some.len() as u64) };
            crate::critical_section::give_way();
            match outcome {
                Ok(_) => done += some.len(),
                Err(Failure { error: Error::Again, detail }) => done += detail as usize,
                Err(Failure { error: Error::NotMapped, detail }) if linked != Some(done + detail as usize) => {
                    done += detail as usize;
                    if rows[done].entry == 0 {
                        done += 1;
                        continue;
                    }
                    self.link_tables(rows[done].address & !(PAGE_SIZE - 1), rows[done].entry & entry::LARGE != 0)?;
                    linked = Some(done);
                }
                Err(Failure { error, detail }) => return Err(error.about(done as u64 + detail)),
            }
        }
        Ok(())
    }

    /// Edits entries as [`Self::edit`] does, but nowhere near the own image, heap, stacks, windows, areas and archive.
    ///
    /// # Errors
    /// As for `edit`; `BadAddress` with the address of the first row that lies in the program's own memory.
    pub fn apply(&self, rows: &[MapRow]) -> Result<(), Failure> {
        let is_own = self.root == area::root();
        if let Some(row) = rows.iter().find(|row| is_own && changes_the_programs(row)) {
            return Err(Error::BadAddress.about(row.address));
        }
        // SAFETY: the rows lie outside all memory that objects of the program live in.
        unsafe { self.edit(rows) }
    }

    /// Maps `pages` one after the other from `address` on.
    ///
    /// # Errors
    /// As for [`Self::edit`].
    ///
    /// # Safety
    /// As for [`Self::edit`].
    pub unsafe fn map(&self, address: u64, pages: &[PageNumber], access: Access) -> Result<(), Failure> {
        let entry = |index: usize| pages[index].address() | access.0;
        // SAFETY: as the caller says.
        unsafe { self.edit_range(address, pages.len(), entry) }
    }

    /// Removes `count` mappings from `address` on; where there are none, nothing happens.
    ///
    /// # Errors
    /// As for [`Self::edit`].
    ///
    /// # Safety
    /// As for [`Self::edit`].
    pub unsafe fn unmap(&self, address: u64, count: u64) -> Result<(), Failure> {
        // SAFETY: as the caller says.
        unsafe { self.edit_range(address, count as usize, |_| 0) }
    }

    /// Sets the entries of `count` pages from `address` on, as `entry` says for each by its index.
    ///
    /// # Safety
    /// As for [`Self::edit`].
    unsafe fn edit_range(&self, address: u64, count: usize, entry: impl Fn(usize) -> u64) -> Result<(), Failure> {
        for from in (0..count).step_by(MAP_ROWS) {
            let until = count.min(from + MAP_ROWS);
            // SAFETY: as the caller says.
            unsafe {
                match until - from {
                    ..=FEW => self.edit_some::<FEW>(address, from..until, &entry),
                    ..=SOME => self.edit_some::<SOME>(address, from..until, &entry),
                    _ => self.edit_some::<MAP_ROWS>(address, from..until, &entry),
                }
            }?;
        }
        Ok(())
    }

    /// # Safety
    /// As for [`Self::edit`].
    unsafe fn edit_some<const ROWS: usize>(
        &self,
        address: u64,
        range: Range<usize>,
        entry: impl Fn(usize) -> u64,
    ) -> Result<(), Failure> {
        let mut rows = [MapRow::default(); ROWS];
        let count = range.len();
        for (row, index) in rows.iter_mut().zip(range) {
            *row = MapRow { address: (address + index as u64 * PAGE_SIZE) | self.key.0, entry: entry(index) };
        }
        // SAFETY: as the caller says.
        unsafe { self.edit(&rows[..count]) }
    }

    /// Puts `count` fresh pages from `address` on, writable. They come from where the tables come from.
    ///
    /// # Errors
    /// As for [`Self::edit`] and `page_allocate`; what was done before the error stays.
    ///
    /// # Safety
    /// As for [`Self::edit`].
    pub unsafe fn back_with_fresh_pages(&self, address: u64, count: u64) -> Result<(), Failure> {
        let mut pages = [PageNumber::NONE; MAP_ROWS];
        let mut done = 0;
        while done < count {
            let some = &mut pages[..(count - done).min(MAP_ROWS as u64) as usize];
            self.tables.allocate_many(some)?;
            // SAFETY: as the caller says.
            unsafe { self.map(address + done * PAGE_SIZE, some, Access::WRITE) }?;
            done += some.len() as u64;
        }
        Ok(())
    }

    /// The pages that are mapped in a row from an address on, in one table of the lowest level; whether all were found.
    /// It reads the tables through windows.
    pub fn pages_at(&self, address: u64, pages: &mut [PageNumber]) -> bool {
        let mut table = self.root;
        for level in (2..=LEVELS).rev() {
            let Ok(view) = Window::open(&[table], self.key, Access::READ) else { return false };
            let found = view.words()[index_in_table(address, level)].load(Relaxed);
            if found & (entry::PRESENT | entry::LARGE) != entry::PRESENT {
                return false;
            }
            table = page_in(found);
        }
        let Ok(view) = Window::open(&[table], self.key, Access::READ) else { return false };
        let entries = view.words()[index_in_table(address, 1)..].iter().map(|word| word.load(Relaxed));
        let found = pages.iter_mut().zip(entries).take_while(|(_, found)| found & entry::PRESENT != 0);
        found.map(|(page, found)| *page = page_in(found)).count() == pages.len()
    }

    /// Links the tables that are missing on the way to an address: down to level 1, or to level 2 for a large page.
    ///
    /// # Errors
    /// The kernel's refusals of `page_allocate` and `page_table_link`.
    pub fn link_tables(&self, address: u64, large: bool) -> Result<(), Failure> {
        let lowest = if large { 2 } else { 1 };
        let mut level = lowest;
        let mut page = self.tables.allocate()?;
        let mut rising = true;
        loop {
            match self.link(address, level, page) {
                Ok(()) if level == lowest => return Ok(()),
                Ok(()) => {
                    (level, rising) = (level - 1, false);
                    page = self.tables.allocate()?;
                }
                Err(Failure { error: Error::NotMapped, .. }) if rising && level < 3 => level += 1,
                // A table is there; what is missing lies below it. A large page is no table.
                Err(Failure { error: Error::NotFree, .. }) if rising && level > lowest => {
                    (level, rising) = (level - 1, false);
                }
                Err(failure) => {
                    let _ = self.tables.free(page);
                    return if failure.error == Error::NotFree { Ok(()) } else { Err(failure) };
                }
            }
        }
    }

    fn link(&self, address: u64, level: u64, page: PageNumber) -> Result<(), Failure> {
        // SAFETY: a new table is empty: nothing appears at any address.
        unsafe { syscall::page_table_link(self.key, self.root, UserAddress(address), level, page, self.tables.key) }
    }
}

/// Where an address is translated in a table of a level.
const fn index_in_table(address: u64, level: u32) -> usize {
    (address >> (12 + 9 * (level - 1))) as usize % TABLE_ENTRIES
}

/// The page that an entry names.
const fn page_in(found: u64) -> PageNumber {
    PageNumber((found & entry::PAGE) / PAGE_SIZE)
}

/// Whether a row would change memory that the program itself lives in.
fn changes_the_programs(row: &MapRow) -> bool {
    let bytes = if row.entry & entry::LARGE != 0 { 2 << 20 } else { PAGE_SIZE };
    is_the_programs(row.address & !(PAGE_SIZE - 1), bytes)
}

/// Whether a range meets memory that the program itself lives in: its image, and all that the layout keeps.
#[inline]
pub(crate) fn is_the_programs(address: u64, bytes: u64) -> bool {
    let touches = |start: u64, end: u64| address < end && start < address.saturating_add(bytes);
    let (image_start, image_end) = crate::image::own_range();
    touches(image_start, image_end) || touches(abi::boot::ARCHIVE, LIBRARY_END)
}
