//! Windows onto pages that several processes write: words are atomics, bytes are copied, nothing is borrowed.

use super::key_slots::BORROWED_SLOT;
use super::usercopy;
use abi::page_table::MapRow;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use linux_abi::address_map::{
    NEAR_OWN_WINDOWS, NEAR_WINDOWS, NEAR_WINDOWS_END, OWN_WINDOWS, PAGE_SIZE, PARENT_MAILBOX, SERVER_WINDOWS,
    SERVER_WINDOWS_END, WINDOWS, WINDOWS_END,
};
use linux_abi::errno::{Errno, Result};
use runtime::address_space::{self, Access, AddressSpace};
use runtime::exposed::PageStamp;
use runtime::lock::OwnerLock;
use runtime::{KeyIndex, PageNumber, layout};

/// The runtime keeps this room for us.
const _: () = assert!(NEAR_WINDOWS == layout::AREA + layout::LIBRARY && NEAR_WINDOWS_END == layout::HEAP);

/// Words of a page.
pub const PAGE_WORDS: usize = PAGE_SIZE as usize / 8;

/// Pages, one at least, at a fixed place in the library's slot; the same place in every process that inherits them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    address: u64,
    pages: Arc<[PageNumber]>,
    writable: bool,
}

impl Mapping {
    /// Its words.
    pub fn words(&self) -> &'static [AtomicU64] {
        // SAFETY: the pages are mapped here until `Mappings::close`, whose callers have dropped what points here;
        // atomics may change under us. Words of a read-only window are only read.
        unsafe {
            core::slice::from_raw_parts(self.address as *const AtomicU64, self.pages.len() * PAGE_SIZE as usize / 8)
        }
    }

    /// The words of its first page.
    #[inline]
    pub const fn first_page(&self) -> &'static [AtomicU64; PAGE_WORDS] {
        // SAFETY: as for `words`: no window is opened without a page, which is as long as this.
        unsafe { &*(self.address as *const [AtomicU64; PAGE_WORDS]) }
    }

    /// Where it lies.
    pub const fn address(&self) -> u64 {
        self.address
    }

    /// Whether it may be written through.
    pub const fn is_writable(&self) -> bool {
        self.writable
    }

    /// The pages.
    pub fn pages(&self) -> &[PageNumber] {
        &self.pages
    }

    /// Copies from the program's memory into the window.
    pub fn copy_from_user(&self, offset: u64, from: u64, bytes: u64) -> Result<()> {
        usercopy::read_to_address(from, self.at(offset, bytes)?, bytes)
    }

    /// Copies from the window into the program's memory.
    pub fn copy_to_user(&self, offset: u64, to: u64, bytes: u64) -> Result<()> {
        usercopy::write_from_address(to, self.at(offset, bytes)?, bytes)
    }

    /// Copies bytes of ExOS into the window.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        usercopy::copy_addresses(self.at(offset, bytes.len() as u64)?, bytes.as_ptr() as u64, bytes.len() as u64);
        Ok(())
    }

    /// Copies bytes of the window to ExOS.
    pub fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        usercopy::copy_addresses(bytes.as_mut_ptr() as u64, self.at(offset, bytes.len() as u64)?, bytes.len() as u64);
        Ok(())
    }

    /// A path that lies there, copied: no other process can change it any more. `EINVAL` where it has a NUL.
    #[inline]
    pub fn path(&self, offset: u64, length: usize) -> Result<usercopy::Path> {
        usercopy::Path::filled(length, |bytes| self.read(offset, bytes))
    }

    /// Fills some of its words with zeros.
    #[inline]
    pub fn clear(&self, words: Range<usize>) {
        self.words()[words].iter().for_each(|word| word.store(0, Relaxed));
    }

    /// What may be done with it.
    pub const fn access(&self) -> Access {
        if self.writable { Access::WRITE } else { Access::READ }
    }

    fn at(&self, offset: u64, bytes: u64) -> Result<u64> {
        let size = (self.pages.len() as u64) << PAGE_SIZE.ilog2();
        let fits = offset.checked_add(bytes).is_some_and(|end| end <= size);
        if fits { Ok(self.address.wrapping_add(offset)) } else { Err(Errno::EIO) }
    }
}

/// The lock in the first word of a window.
pub fn lock_in(shared: &Mapping) -> &'static OwnerLock {
    // SAFETY: the window is mapped as for `words`; the lock is one aligned atomic word, whatever its contents.
    unsafe { &*(shared.address as *const OwnerLock) }
}

/// Which windows are open.
#[derive(Clone, Debug)]
pub struct Mappings {
    /// Those that children get, too.
    common: Room,
    /// Those of the process's own.
    own: Room,
    /// Those that show what other windows have grown by, by the addresses of those. The last one is the current one: a
    /// thread may still copy through one before it.
    beyond: BTreeMap<u64, Vec<Mapping>>,
    /// How many holders a window has beyond the first, by its address.
    more_holders: BTreeMap<u64, u32>,
    /// How often one that children get has come or gone.
    generation: u64,
}

/// Where windows may lie; the first place is filled first.
#[derive(Clone, Debug)]
struct Room {
    /// By address.
    open: BTreeMap<u64, Mapping>,
    places: [Range<u64>; 2],
    /// In each place, no page before this address is free: a process of 10,000 sockets does not scan its windows.
    full_until: [u64; 2],
}

impl Default for Mappings {
    fn default() -> Self {
        Self::within([NEAR_WINDOWS..PARENT_MAILBOX, WINDOWS..OWN_WINDOWS])
    }
}

impl Mappings {
    /// None open, in the room that is the server's: it shares its address space with the session.
    pub fn of_server() -> Self {
        Self::within([0..0, SERVER_WINDOWS..SERVER_WINDOWS_END])
    }

    fn within(places: [Range<u64>; 2]) -> Self {
        let own = [NEAR_OWN_WINDOWS..NEAR_WINDOWS_END, OWN_WINDOWS..WINDOWS_END];
        let empty = |places| Room { open: BTreeMap::new(), places, full_until: [0; 2] };
        let (beyond, more_holders) = (BTreeMap::new(), BTreeMap::new());
        Self { common: empty(places), own: empty(own), beyond, more_holders, generation: 1 }
    }

    /// Opens a window onto pages, with what `key` allows.
    pub fn open(&mut self, pages: Vec<PageNumber>, key: KeyIndex, writable: bool) -> Result<Mapping> {
        self.generation += 1;
        self.common.open(pages, key, writable)
    }

    /// The same of one that children do not get.
    pub fn open_own(&mut self, pages: Vec<PageNumber>, key: KeyIndex, writable: bool) -> Result<Mapping> {
        self.own.open(pages, key, writable)
    }

    /// The same as [`Self::open`] with a key that opens pages of others only: the own key opens the own tables.
    pub fn open_of_others(&mut self, pages: Vec<PageNumber>, key: KeyIndex, writable: bool) -> Result<Mapping> {
        self.generation += 1;
        self.common.open_of_others(pages, key, writable)
    }

    /// Opens a window onto pages that were found noted in memory.
    ///
    /// # Errors
    /// `EIO`: one of them was given up since, and may be any other's now.
    pub fn open_noted(&mut self, pages: &[PageStamp], key: KeyIndex, writable: bool) -> Result<Mapping> {
        let window = self.open(pages.iter().map(|page| page.page()).collect(), key, writable)?;
        if pages.iter().all(|page| page.is_current()) {
            return Ok(window);
        }
        self.close(&window);
        Err(Errno::EIO)
    }

    /// Opens a window onto what another one has grown by. The one before stays mapped until the other window is closed.
    pub fn extend(&mut self, shared: &Mapping, pages: &[PageStamp], key: KeyIndex) -> Result<Mapping> {
        let beyond = self.open_noted(pages, key, shared.writable)?;
        self.beyond.entry(shared.address).or_default().push(beyond.clone());
        Ok(beyond)
    }

    /// That window.
    pub fn beyond(&self, shared: &Mapping) -> Option<&Mapping> {
        self.beyond.get(&shared.address)?.last()
    }

    /// A window has one holder more, who closes it, too.
    pub fn hold_once_more(&mut self, shared: &Mapping) {
        *self.more_holders.entry(shared.address).or_default() += 1;
    }

    /// Whether a window has one holder, so that a close will close it.
    pub fn has_one_holder(&self, shared: &Mapping) -> bool {
        !self.more_holders.contains_key(&shared.address)
    }

    /// A holder closes a window. The last one closes what shows beyond it, too: nothing may look through it any more.
    pub fn close(&mut self, shared: &Mapping) {
        if let Some(holders) = self.more_holders.get_mut(&shared.address) {
            *holders -= 1;
            if *holders == 0 {
                self.more_holders.remove(&shared.address);
            }
            return;
        }
        for beyond in self.beyond.remove(&shared.address).into_iter().flatten() {
            self.close(&beyond);
        }
        let was_common = self.common.open.remove(&shared.address).is_some();
        self.generation += u64::from(was_common);
        let is_open = was_common || self.own.open.remove(&shared.address).is_some();
        let room = if was_common { &mut self.common } else { &mut self.own };
        room.full_until = room.full_until.map(|end| end.min(shared.address));
        if is_open {
            // SAFETY: the window was open, and its users have gone.
            let _ = unsafe { address_space::own().unmap(shared.address, shared.pages.len() as u64) };
        }
    }

    /// Closes every window that begins with a page, and has one holder each. Nothing may look through them any more.
    pub fn close_showing(&mut self, page: PageNumber) {
        let shows = |window: &&Mapping| window.pages.first() == Some(&page);
        let found: Vec<Mapping> = self.common.open.values().filter(shows).cloned().collect();
        found.iter().for_each(|window| self.close(window));
    }

    /// Forgets windows of its parent's own, which are not mapped here, in a process that just began.
    pub fn forget_own(&mut self) {
        self.own.open.clear();
        self.own.full_until = [0; 2];
    }

    /// Notes which pages lie in a window's place, to be written, in a process that just began.
    pub fn note(&mut self, address: u64, pages: impl Into<Arc<[PageNumber]>>) -> Mapping {
        self.generation += 1;
        self.common.note(address, pages)
    }

    /// The same of a window of its own.
    pub fn note_own(&mut self, address: u64, pages: impl Into<Arc<[PageNumber]>>) -> Mapping {
        self.own.note(address, pages)
    }

    /// Every open window that children get, in the order of their addresses.
    pub fn common(&self) -> impl Iterator<Item = &Mapping> {
        self.common.open.values()
    }

    /// Every open window.
    pub fn iter(&self) -> impl Iterator<Item = &Mapping> {
        self.common().chain(self.own.open.values())
    }

    /// A number that is another one when other windows are open of those that children get. It is not 0.
    pub const fn generation(&self) -> u64 {
        self.generation
    }
}

impl Room {
    fn open(&mut self, pages: Vec<PageNumber>, key: KeyIndex, writable: bool) -> Result<Mapping> {
        if pages.is_empty() {
            return Err(Errno::EIO);
        }
        if key == BORROWED_SLOT {
            return self.open_of_others(pages, key, writable);
        }
        let shared = Mapping { address: self.find_place(pages.len() as u64)?, pages: pages.into(), writable };
        let own = AddressSpace { key, ..address_space::own() };
        // SAFETY: the place is kept for this window.
        unsafe { own.map(shared.address, &shared.pages, shared.access()) }?;
        self.open.insert(shared.address, shared.clone());
        Ok(shared)
    }

    fn open_of_others(&mut self, pages: Vec<PageNumber>, key: KeyIndex, writable: bool) -> Result<Mapping> {
        let shared = Mapping { address: self.find_place(pages.len() as u64)?, pages: pages.into(), writable };
        let row = |(address, page): (u64, &PageNumber)| MapRow {
            address: address | key.0,
            entry: page.address() | shared.access().0,
        };
        let addresses = (shared.address..).step_by(PAGE_SIZE as usize);
        let rows: Vec<MapRow> = addresses.zip(shared.pages.iter()).map(row).collect();
        // SAFETY: the place is kept for this window.
        unsafe { address_space::own().edit(&rows) }?;
        self.open.insert(shared.address, shared.clone());
        Ok(shared)
    }

    fn note(&mut self, address: u64, pages: impl Into<Arc<[PageNumber]>>) -> Mapping {
        let noted = Mapping { address, pages: pages.into(), writable: true };
        self.open.insert(address, noted.clone());
        noted
    }

    fn find_place(&mut self, pages: u64) -> Result<u64> {
        let bytes = pages * PAGE_SIZE;
        (0..self.places.len()).find_map(|at| self.find_place_in(at, bytes)).ok_or(Errno::ENOMEM)
    }

    fn find_place_in(&mut self, at: usize, bytes: u64) -> Option<u64> {
        let Range { start, end } = self.places[at];
        let start = start.max(self.full_until[at]).min(end);
        let (mut place, mut is_full) = (start, true);
        for (address, shared) in self.open.range(start..end) {
            if place + bytes <= *address {
                break;
            }
            is_full &= place == *address;
            place = address + shared.pages.len() as u64 * PAGE_SIZE;
            if is_full {
                self.full_until[at] = place;
            }
        }
        (place + bytes <= end).then_some(place)
    }
}
