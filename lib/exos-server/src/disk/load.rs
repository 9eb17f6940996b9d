//! Read-ahead: reads of file pages, straight from the disk into the pages of the files.
//!
//! C-FFS says in which blocks a part of a file lies. The disk fills pages of the store, several transfers at a time.
//! These pages become the file's, for all processes that map it. What C-FFS has in its cache is copied.
//!
//! Invariants:
//! - C-FFS writes and frees nothing while a read is under way: the keeper does both.
//! - no page is a file's, or a process's, before its transfer has ended: it may have the contents of another file.

use super::adapter::BLOCK;
use super::keeper::{State, Volume, make_room};
use alloc::vec;
use alloc::vec::Vec;
use cffs::device::RUN;
use cffs::error::Error;
use cffs::extent::Place;
use core::sync::atomic::Ordering::{Acquire, SeqCst};
use exos::hw::disk;
use exos::hw::mapping::{Mapping, Mappings};
use exos::wait;
use linux_abi::address_map::PAGE_SIZE;
use linux_abi::errno::Result as Outcome;
use runtime::page::Allocator;
use runtime::predicate::{Operator, word};
use runtime::{KeyIndex, PageNumber};
use vfs::file_data::PageStorage;
use vfs::inode::NodeId;
use vfs::persistent::FIRST_DISK_VOLUME;

/// Pages that a read brings where it does not follow the one before.
const FIRST: u64 = 16;
/// Most pages that a read brings: it doubles while a file is read from front to back.
const MOST: u64 = 128;

/// The read-ahead of the keeper.
pub(super) struct Loader {
    /// A page of status words.
    status: Mapping,
    /// File and page behind the read before, and how many pages that was to bring.
    last: (NodeId, u64, u64),
}

/// Blocks of the disk for pages of the store.
struct Transfer<'a> {
    block: u64,
    pages: &'a [PageNumber],
}

impl Loader {
    /// One that has read nothing yet.
    pub(super) fn new(windows: &mut Mappings) -> Outcome<Self> {
        let page = Allocator::own().allocate()?;
        Ok(Self { status: windows.open(vec![page], KeyIndex::FIRST, true)?, last: (0, 0, 0) })
    }

    /// Reads what a client waits for; false where none does.
    pub(super) fn load_next(&mut self, state: &'static State, volumes: &mut [Volume]) -> bool {
        let wanted = {
            let mut server = state.lock();
            let Some((id, index)) = server.server.keeper.wanted.pop_front() else { return false };
            let volume = server.server.tree.node(id).map(|node| node.volume);
            volume.ok().map(|volume| (id, index, volume))
        };
        let Some((id, index, number)) = wanted else { return true };
        let Some(at) = volumes.iter().position(|volume| volume.id == number) else { return true };
        let ahead = if self.last.0 == id && self.last.1 == index { (2 * self.last.2).min(MOST) } else { FIRST };
        let count = state.lock().server.tree.count_missing(id, index, ahead);
        if count == 0 {
            return true;
        }
        self.last = (id, index + count, ahead);
        if self.load(state, volumes, at, (id, index, count)).is_err() {
            state.lock().server.keeper.lost.push_back((id, index));
        }
        true
    }

    /// Brings pages of a file; an error where the first one cannot be had.
    fn load(
        &mut self,
        state: &'static State,
        volumes: &mut [Volume],
        at: usize,
        (id, first, count): (NodeId, u64, u64),
    ) -> Result<(), Error> {
        let number = volumes[at].numbers.get(&id).copied().ok_or(Error::Stale)?;
        let system = volumes[at].system.as_mut().ok_or(Error::Stale)?;
        let (mut places, size) = system.places(number, first, first + count)?;
        if places.is_empty() {
            // What a crash cut off reads as zeros.
            places.push(Place::Hole);
        }
        let (pages, numbers, key) = allocate(state, volumes, places.len());
        places.truncate(pages.len());
        let system = volumes[at].system.as_mut().ok_or(Error::Stale)?;
        let disk = u64::from(volumes[at].id - FIRST_DISK_VOLUME);
        let mut is_there = self.read(disk, &places, &numbers, key);
        for (index, place) in places.iter().enumerate().filter(|(_, place)| !matches!(place, Place::Device(_))) {
            let mut bytes = [0; BLOCK];
            if *place == Place::Cached {
                is_there[index] = system.copy_block(number, first + index as u64, &mut bytes).is_ok();
            }
            state.lock().server.tree.store.bytes_mut(pages[index]).copy_from_slice(&bytes);
        }
        let mut server = state.lock();
        let tree = &mut server.server.tree;
        // A crash may have left bytes behind the end of the file.
        let last = size / PAGE_SIZE;
        if let Some(page) = last.checked_sub(first).and_then(|place| pages.get(place as usize)) {
            tree.store.bytes_mut(*page)[(size % PAGE_SIZE) as usize..].fill(0);
        }
        let (here, lost): (Vec<_>, Vec<_>) = (first..).zip(pages).zip(&is_there).partition(|(_, is_there)| **is_there);
        tree.put_loaded(id, here.into_iter().map(|(page, _)| page));
        lost.into_iter().for_each(|((_, page), _)| tree.store.free(page));
        if is_there.first() == Some(&true) { Ok(()) } else { Err(Error::Io) }
    }

    /// Fills pages from the disk; for each whether it has what it should have.
    fn read(&self, disk: u64, places: &[Place], numbers: &[PageNumber], key: KeyIndex) -> Vec<bool> {
        let mut is_there = vec![true; places.len()];
        let mut submitted = Vec::new();
        let mut at = 0;
        while let Some(place) = places.get(at) {
            let Place::Device(block) = *place else {
                at += 1;
                continue;
            };
            let continues = |(index, place): &(u64, &Place)| **place == Place::Device(block + index);
            let count = (0..).zip(&places[at..]).take(RUN).take_while(continues).count();
            let transfer = Transfer { block, pages: &numbers[at..at + count] };
            if self.submit(disk, &transfer, key, submitted.len()) {
                submitted.push((at, count));
            } else {
                is_there[at..at + count].fill(false);
            }
            at += count;
        }
        // The last one probably ends last: then there is one wait.
        for (index, (at, count)) in submitted.iter().enumerate().rev() {
            if !self.await_end(index) {
                is_there[*at..at + count].fill(false);
            }
        }
        is_there
    }

    /// Submits a transfer with the status word of a number; those before it are awaited where there is no room.
    fn submit(&self, disk: u64, transfer: &Transfer<'_>, key: KeyIndex, number: usize) -> bool {
        let words = self.status.words();
        words[number].store(0, SeqCst);
        let status = (self.status.pages()[0], number as u64);
        let submit = || disk::read_pages(disk, transfer.block * PAGE_SIZE, (transfer.pages, key), status).is_ok();
        (0..number).rev().any(|before| {
            let is_done = submit();
            if !is_done {
                self.await_end(before);
            }
            is_done
        }) || submit()
    }

    /// Waits for the end of a transfer; whether it was carried out.
    fn await_end(&self, number: usize) -> bool {
        let outcome = &self.status.words()[number];
        while outcome.load(Acquire) == 0 {
            wait::wait_plainly(&mut [word(outcome, Operator::NotEqual, 0)]);
        }
        outcome.load(Acquire) == abi::device::status::DONE
    }
}

/// Pages of the store, as many as there are of so many; their numbers, and the key that opens them.
fn allocate(state: &'static State, volumes: &[Volume], count: usize) -> (Vec<u32>, Vec<PageNumber>, KeyIndex) {
    let mut server = state.lock();
    make_room(&mut server.server, volumes, count as u64);
    let tree = &mut server.server.tree;
    let pages = tree.store.allocate_unfilled(count);
    let numbers = pages.iter().map(|page| PageNumber(tree.store.number(*page))).collect();
    (pages, numbers, tree.store.key())
}
