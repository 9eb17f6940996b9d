//! The pages of the memory file system, as the guardian holds them: mapped writable for it alone, and read-only for
//! whoever maps a file.

use crate::errno::{Errno, Result};
use crate::file_system::contents::Store;
use crate::layout::{FILES, FILES_END, PAGE_SIZE};
use abi::budget::Resource;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use runtime::address_space::{self, Access, AddressSpace};
use runtime::page::Allocator;
use runtime::{PageNumber, area, exposed, syscall};

/// Pages by index: the n-th lies at `FILES + n * 4096`.
#[derive(Debug)]
pub struct PageStore {
    pages: Vec<PageNumber>,
    free: Vec<u32>,
    from: Allocator,
    /// Those that others may write, because they are mapped shared.
    shared: BTreeSet<u32>,
    archive: &'static [u8],
    /// A page was given up that somebody else maps.
    left_mapped: bool,
}

impl PageStore {
    /// An empty one over the boot archive, whose pages come from `from`.
    pub fn new(from: Allocator, archive: &'static [u8]) -> Self {
        Self { pages: Vec::new(), free: Vec::new(), from, shared: BTreeSet::new(), archive, left_mapped: false }
    }

    /// Pages that it could hold in all.
    pub fn capacity(&self) -> u64 {
        (self.pages.len() - self.free.len()) as u64 + self.room()
    }

    fn address(page: u32) -> u64 {
        FILES + u64::from(page) * PAGE_SIZE
    }

    /// Puts a fresh page at an index: nothing lies there.
    fn fill(&mut self, index: u32) -> Result<()> {
        if Self::address(index) >= FILES_END {
            return Err(Errno::ENOSPC);
        }
        let page = self.from.allocate().map_err(|_| Errno::ENOSPC)?;
        // SAFETY: the layout keeps this range for the store, and nothing lies at this index.
        let mapped = unsafe { self.space().map(Self::address(index), &[page], Access::WRITE) };
        if mapped.is_err() {
            let _ = self.from.free(page);
            return Err(Errno::ENOSPC);
        }
        self.pages[index as usize] = page;
        Ok(())
    }

    /// Puts a page back under the list that all pages begin with; whether it is there.
    fn take_back(&self, number: PageNumber) -> bool {
        let Allocator { key, list } = self.from;
        let is_there = exposed::page(number).is_some_and(|info| info.access() == list);
        is_there || syscall::page_claim(key, number, key, list).is_ok()
    }

    fn space(&self) -> AddressSpace {
        AddressSpace { key: self.from.key, tables: self.from, ..address_space::own() }
    }
}

impl Store for PageStore {
    fn allocate(&mut self) -> Result<u32> {
        let index = self.free.pop().unwrap_or_else(|| {
            self.pages.push(PageNumber::NONE);
            self.pages.len() as u32 - 1
        });
        if self.pages[index as usize] != PageNumber::NONE {
            self.bytes_mut(index).fill(0);
        } else if let Err(error) = self.fill(index) {
            self.free.push(index);
            return Err(error);
        }
        Ok(index)
    }

    fn room(&self) -> u64 {
        let spare = crate::budget::spare_of(area::number(), Resource::Page);
        spare.min(exposed::kernel().free_pages.load(core::sync::atomic::Ordering::Relaxed)) + self.free.len() as u64
    }

    /// A page that others still map is given up, so that they do not see what comes into its place. Who could map it no more can.
    fn free(&mut self, page: u32) {
        let number = self.pages[page as usize];
        self.shared.remove(&page);
        if !self.take_back(number) || exposed::page(number).is_none_or(|info| info.references() > 1) {
            // SAFETY: nobody borrows from the page: the store is borrowed.
            let _ = unsafe { self.space().unmap(Self::address(page), 1) };
            self.left_mapped |= exposed::page(number).is_some_and(|info| info.references() > 0);
            let _ = self.from.free(number);
            self.pages[page as usize] = PageNumber::NONE;
        }
        self.free.push(page);
    }

    fn left_pages_mapped(&mut self) -> bool {
        core::mem::take(&mut self.left_mapped)
    }

    fn is_shared(&self, page: u32) -> bool {
        self.shared.contains(&page)
    }

    fn bytes(&self, page: u32) -> &[u8] {
        assert!(self.pages.get(page as usize).is_some_and(|page| *page != PageNumber::NONE), "no page of the store");
        // SAFETY: the page is mapped at this address since `add`, and only this store writes it.
        unsafe { core::slice::from_raw_parts(Self::address(page) as *const u8, PAGE_SIZE as usize) }
    }

    fn bytes_mut(&mut self, page: u32) -> &mut [u8] {
        assert!(self.pages.get(page as usize).is_some_and(|page| *page != PageNumber::NONE), "no page of the store");
        // SAFETY: as for `bytes`; the store is borrowed for as long as the slice lives.
        unsafe { core::slice::from_raw_parts_mut(Self::address(page) as *mut u8, PAGE_SIZE as usize) }
    }

    fn number(&self, page: u32) -> u64 {
        self.pages[page as usize].0
    }

    fn share(&mut self, page: u32) {
        self.shared.insert(page);
    }

    fn archive(&self) -> &[u8] {
        self.archive
    }

    fn copy_from_archive(&mut self, page: u32, start: usize, length: usize) {
        let archive = self.archive;
        self.bytes_mut(page)[..length].copy_from_slice(&archive[start..start + length]);
    }
}
