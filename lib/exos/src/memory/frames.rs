//! Which page lies at which address: the library's own record of the page-table entries it asked for.
//!
//! Pure. The kernel's tables are the truth that the CPU sees; this record says the same and needs no mapping of the
//! tables. Entries are as in `abi::page_table`; the software bits tell how a page is held.

use crate::layout::PAGE_SIZE;
use abi::page_table;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Software bit of an entry: private, but others may see the page: copy it before it is written.
pub const COPY_ON_WRITE: u64 = 1 << 9;
/// Software bit of an entry: shared on purpose; fork hands it on as it is.
pub const SHARED: u64 = 1 << 10;

/// Software bit of an entry: the page is a file's, as the area says: who lacks it finds it again.
pub const FROM_FILE: u64 = 1 << 11;

pub(super) const CHUNK_PAGES: u64 = 64;
const CHUNK_BYTES: u64 = CHUNK_PAGES * PAGE_SIZE;

/// The entries of an address space.
#[derive(Clone, Debug, Default)]
pub struct Frames {
    chunks: BTreeMap<u64, Box<Chunk>>,
    present: usize,
    peak: usize,
}

#[derive(Clone, Debug)]
struct Chunk {
    entries: [u64; CHUNK_PAGES as usize],
    used: u32,
}

impl Frames {
    /// The entry for the page of `address`; 0: none.
    pub fn get(&self, address: u64) -> u64 {
        self.chunks.get(&(address / CHUNK_BYTES)).map_or(0, |chunk| chunk.entries[index(address)])
    }

    /// Sets the entry for the page of `address`; 0 removes it. The result is what it was.
    pub fn set(&mut self, address: u64, entry: u64) -> u64 {
        let key = address / CHUNK_BYTES;
        if entry == 0 && !self.chunks.contains_key(&key) {
            return 0;
        }
        let empty = || Box::new(Chunk { entries: [0; CHUNK_PAGES as usize], used: 0 });
        let chunk = self.chunks.entry(key).or_insert_with(empty);
        let old = core::mem::replace(&mut chunk.entries[index(address)], entry);
        let change = i32::from(entry != 0) - i32::from(old != 0);
        chunk.used = chunk.used.wrapping_add_signed(change);
        self.present = self.present.wrapping_add_signed(change as isize);
        self.peak = self.peak.max(self.present);
        if chunk.used == 0 {
            self.chunks.remove(&key);
        }
        old
    }

    /// The entries of the pages from `start` on that are kept together with its own; those missing are 0.
    pub fn chunk_of(&self, start: u64) -> &[u64] {
        const NONE: [u64; CHUNK_PAGES as usize] = [0; CHUNK_PAGES as usize];
        &self.chunks.get(&(start / CHUNK_BYTES)).map_or(&NONE, |chunk| &chunk.entries)[index(start)..]
    }

    /// How many pages from `start` on have no entry, `most` at most, in the chunk of the first.
    pub fn missing(&self, start: u64, most: usize) -> usize {
        self.chunk_of(start).iter().take(most).take_while(|entry| **entry == 0).count()
    }

    /// Sets the entries of the pages from `start` on, but for those that are 0.
    pub fn set_many(&mut self, start: u64, entries: &[u64]) {
        let (here, beyond) = entries.split_at(entries.len().min(CHUNK_PAGES as usize - index(start)));
        let empty = || Box::new(Chunk { entries: [0; CHUNK_PAGES as usize], used: 0 });
        let chunk = self.chunks.entry(start / CHUNK_BYTES).or_insert_with(empty);
        let mut added = 0;
        for (old, entry) in chunk.entries[index(start)..].iter_mut().zip(here).filter(|(_, entry)| **entry != 0) {
            added += u32::from(*old == 0);
            *old = *entry;
        }
        chunk.used += added;
        self.present += added as usize;
        self.peak = self.peak.max(self.present);
        if !beyond.is_empty() {
            self.set_many(start + here.len() as u64 * PAGE_SIZE, beyond);
        }
    }

    /// The entries in `start..end`, with their addresses, in ascending order.
    pub fn within(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64)> {
        let chunks = start / CHUNK_BYTES..end.div_ceil(CHUNK_BYTES);
        self.chunks
            .range(chunks)
            .flat_map(|(key, chunk)| {
                let base = key * CHUNK_BYTES;
                chunk.entries.iter().enumerate().map(move |(index, entry)| (base + index as u64 * PAGE_SIZE, *entry))
            })
            .filter(move |(address, entry)| *entry != 0 && *address >= start && *address < end)
    }

    /// All entries, with their addresses, in ascending order.
    pub fn all(&self) -> Vec<(u64, u64)> {
        let mut all = Vec::with_capacity(self.present);
        for (key, chunk) in &self.chunks {
            let addresses = (key * CHUNK_BYTES..).step_by(PAGE_SIZE as usize);
            let entries = addresses.zip(chunk.entries);
            entries.filter(|(_, entry)| *entry != 0).for_each(|entry| all.push(entry));
        }
        all
    }

    /// Calls a function for each entry, in ascending order of addresses, which may change it but not take it out.
    pub fn for_each(&mut self, mut action: impl FnMut(u64, &mut u64)) {
        for (key, chunk) in &mut self.chunks {
            let addresses = (key * CHUNK_BYTES..).step_by(PAGE_SIZE as usize);
            for (entry, address) in chunk.entries.iter_mut().zip(addresses).filter(|(entry, _)| **entry != 0) {
                action(address, entry);
            }
        }
    }

    /// Takes out the entries for which `keep` is false.
    pub fn retain(&mut self, keep: impl Fn(u64) -> bool) {
        let mut gone = 0;
        self.chunks.retain(|_, chunk| {
            let dropped = chunk.entries.iter_mut().filter(|entry| **entry != 0 && !keep(**entry));
            let count = dropped.map(|entry| *entry = 0).count();
            chunk.used -= count as u32;
            gone += count;
            chunk.used > 0
        });
        self.present -= gone;
    }

    /// How many entries there are for which `is_meant` is true.
    pub fn count(&self, is_meant: impl Fn(u64) -> bool) -> usize {
        let entries = self.chunks.values().flat_map(|chunk| chunk.entries);
        entries.filter(|entry| *entry != 0 && is_meant(*entry)).count()
    }

    /// The entries in `start..end`, taken out.
    pub fn take(&mut self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let taken: Vec<(u64, u64)> = self.within(start, end).collect();
        for (address, _) in &taken {
            self.set(*address, 0);
        }
        taken
    }

    /// How many pages are there.
    pub fn len(&self) -> usize {
        self.present
    }

    /// How many there were at most.
    pub fn peak(&self) -> usize {
        self.peak
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.present == 0
    }
}

fn index(address: u64) -> usize {
    (address % CHUNK_BYTES / PAGE_SIZE) as usize
}

/// The page number in an entry.
pub const fn page_of(entry: u64) -> u64 {
    (entry & page_table::PAGE) >> 12
}

/// The entry for a page: its number, what may be done, and how it is held.
pub const fn entry(page: u64, write: bool, execute: bool, held: u64) -> u64 {
    let write = if write { page_table::WRITE } else { 0 };
    let execute = if execute { 0 } else { page_table::NO_EXECUTE };
    page << 12 | page_table::PRESENT | page_table::USER | write | execute | held
}
