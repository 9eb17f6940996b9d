//! The pages of the memory file system, as the server holds them: mapped writable for it alone, and read-only for
//! processes that map a file.

use super::page_quota::PageQuota;
use abi::page_table::MapRow;
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;
use linux_abi::address_map::{FILES, FILES_END, PAGE_SIZE};
use linux_abi::errno::{Errno, Result};
use runtime::address_space::{self, Access, AddressSpace};
use runtime::page::Allocator;
use runtime::{KeyIndex, PageNumber, exposed, syscall};
use vfs::file_data::PageStorage;

/// Pages that stay for the next files when others are removed, and as many more at times.
const AT_HAND: usize = 512;
/// Pages that are allocated together.
const AT_ONCE: usize = 16;

/// Pages by index: the n-th lies at `FILES + n * 4096`.
#[derive(Debug)]
pub struct PageStore {
    pages: Vec<PageNumber>,
    /// Places whose pages no file has, those that were given back last behind, and places without a page.
    at_hand: Vec<u32>,
    /// Places with pages of zeros that no file has had.
    fresh: Vec<u32>,
    empty: Vec<u32>,
    /// What it may have.
    pub quota: PageQuota,
    from: Allocator,
    /// Those that others may write, because they are mapped shared.
    shared: BTreeSet<u32>,
    archive: &'static [u8],
    /// A page was given up that another process maps.
    stale_mappings: bool,
}

impl PageStore {
    /// An empty one over the boot archive, whose pages come from `from`.
    pub fn new(from: Allocator, archive: &'static [u8]) -> Self {
        let [at_hand, fresh, empty] = [Vec::new(), Vec::new(), Vec::new()];
        let (pages, shared, allowance) = (Vec::new(), BTreeSet::new(), PageQuota::UNLIMITED);
        Self { pages, at_hand, fresh, empty, quota: allowance, from, shared, archive, stale_mappings: false }
    }

    /// The key that opens its pages.
    pub const fn key(&self) -> KeyIndex {
        self.from.key
    }

    /// Pages that it may hold in all.
    pub const fn capacity(&self) -> u64 {
        self.quota.most()
    }

    fn address(page: u32) -> u64 {
        FILES + u64::from(page) * PAGE_SIZE
    }

    /// Allocates so many fresh pages, which files may have beyond their share; or none.
    fn fill(&mut self, count: usize, beyond: u64) -> Result<()> {
        let mut places = Vec::with_capacity(count);
        let mut pages = vec![PageNumber::NONE; count];
        let outcome = self.fill_places(&mut places, &mut pages, beyond);
        match outcome {
            Ok(()) => self.fresh.append(&mut places),
            Err(_) => self.empty.append(&mut places),
        }
        outcome
    }

    /// Takes empty places and maps fresh pages there.
    fn fill_places(&mut self, places: &mut Vec<u32>, pages: &mut [PageNumber], beyond: u64) -> Result<()> {
        for _ in 0..pages.len() {
            let place = match self.empty.pop() {
                Some(place) => place,
                None => self.add_place()?,
            };
            places.push(place);
        }
        let is_within = places.iter().all(|place| Self::address(*place) < FILES_END);
        if !is_within || !self.quota.has_room_for(places.len() as u64, beyond) {
            return Err(Errno::ENOSPC);
        }
        self.from.allocate_many(pages).map_err(|_| Errno::ENOSPC)?;
        let entries = pages.iter().map(|page| page.address() | Access::WRITE.0);
        if self.map(places, entries).is_err() {
            let _ = self.map(places, core::iter::repeat(0));
            self.from.free_many(pages);
            return Err(Errno::ENOSPC);
        }
        places.iter().zip(pages).for_each(|(place, page)| self.pages[*place as usize] = *page);
        Ok(())
    }

    /// Sets the entries of some places, in which no file has a page.
    fn map(&self, places: &[u32], entries: impl Iterator<Item = u64>) -> Result<()> {
        let row = |(place, entry): (&u32, u64)| MapRow { address: Self::address(*place) | self.from.key.0, entry };
        let rows: Vec<MapRow> = places.iter().zip(entries).map(row).collect();
        // SAFETY: the layout keeps these addresses for the store, and no code borrows from the pages.
        Ok(unsafe { self.space().edit(&rows) }?)
    }

    /// Pages for contents that are about to come, up to so many. Those that files gave back have old contents.
    pub fn allocate_unfilled(&mut self, count: usize) -> Vec<u32> {
        let mut pages = self.at_hand.split_off(self.at_hand.len().saturating_sub(count));
        let missing = (count - pages.len()).saturating_sub(self.fresh.len());
        if missing > 0 {
            // Where that many are not there, they are allocated one by one.
            let _ = self.fill(missing, 0);
        }
        pages.extend((pages.len()..count).map_while(|_| self.allocate().ok()));
        pages
    }

    /// Puts a page back under the list that all pages begin with; whether it is there.
    fn reclaim(&self, number: PageNumber) -> bool {
        let Allocator { key, list } = self.from;
        let is_there = exposed::page(number).is_some_and(|info| info.access() == list);
        is_there || syscall::page_claim(key, number, key, list).is_ok()
    }

    /// A page of zeros, one of so many more than files may have.
    fn allocate_beyond(&mut self, beyond: u64) -> Result<u32> {
        if let Some(index) = self.at_hand.pop() {
            self.bytes_mut(index).fill(0);
            return Ok(index);
        }
        if self.fresh.is_empty() && self.fill(AT_ONCE, beyond).is_err() {
            self.fill(1, beyond)?;
        }
        self.fresh.pop().ok_or(Errno::ENOSPC)
    }

    /// A place in which no page was before.
    fn add_place(&mut self) -> Result<u32> {
        // So many places are doubled at once that there may be no memory for it.
        self.pages.try_reserve(1).map_err(|_| Errno::ENOSPC)?;
        self.pages.push(PageNumber::NONE);
        Ok(self.pages.len() as u32 - 1)
    }

    /// Gives up the pages in some places, which no file has.
    fn give_up(&mut self, places: &[u32]) {
        let _ = self.map(places, core::iter::repeat(0));
        for place in places {
            let _ = self.from.free(core::mem::replace(&mut self.pages[*place as usize], PageNumber::NONE));
        }
        self.empty.extend_from_slice(places);
    }

    fn space(&self) -> AddressSpace {
        AddressSpace { key: self.from.key, tables: self.from, ..address_space::own() }
    }
}

impl PageStorage for PageStore {
    fn allocate(&mut self) -> Result<u32> {
        self.allocate_beyond(0)
    }

    fn allocate_for_archive(&mut self) -> Result<u32> {
        self.allocate_beyond(self.archive.len() as u64 / PAGE_SIZE)
    }

    fn room(&self) -> u64 {
        let free = exposed::kernel().free_pages.load(core::sync::atomic::Ordering::Relaxed);
        // The keeper's pages are charged to the keeper and count all the same.
        let held = (self.pages.len() - self.empty.len()) as u64;
        self.quota.room().min(free).min(self.capacity().saturating_sub(held))
            + (self.at_hand.len() + self.fresh.len()) as u64
    }

    fn make_room_for(&mut self, bytes: usize) {
        self.quota.make_room_for(bytes);
    }

    /// A page that others still map is given up, so that they do not see what comes into its place. It stays under
    /// its list: a process that copies a page table that maps it needs the right to it.
    fn free(&mut self, page: u32) {
        let number = self.pages[page as usize];
        self.shared.remove(&page);
        let is_mapped = || exposed::page(number).is_none_or(|info| info.references() > 1);
        if is_mapped() || !self.reclaim(number) || is_mapped() {
            self.give_up(&[page]);
            self.stale_mappings |= exposed::page(number).is_some_and(|info| info.references() > 0);
            return;
        }
        self.at_hand.push(page);
        if self.at_hand.len() > 2 * AT_HAND {
            let oldest: Vec<u32> = self.at_hand.drain(..AT_HAND).collect();
            self.give_up(&oldest);
            self.quota.give_back();
        }
    }

    fn is_idle(&self, page: u32) -> bool {
        exposed::page(self.pages[page as usize]).is_some_and(|info| info.references() == 1)
    }

    fn left_pages_mapped(&mut self) -> bool {
        core::mem::take(&mut self.stale_mappings)
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

    fn has_shared(&self) -> bool {
        !self.shared.is_empty()
    }

    fn unshare(&mut self, page: u32) -> bool {
        let is_done = self.is_idle(page) && self.reclaim(self.pages[page as usize]) && self.is_idle(page);
        if is_done {
            self.shared.remove(&page);
        }
        is_done
    }

    fn archive(&self) -> &[u8] {
        self.archive
    }

    fn copy_from_archive(&mut self, page: u32, start: usize, length: usize) {
        let archive = self.archive;
        self.bytes_mut(page)[..length].copy_from_slice(&archive[start..start + length]);
    }
}
