//! Which page lies at which address: the library's own record of the page-table entries it asked for.
//!
//! Pure. The kernel's tables are the truth that the CPU sees; this record says the same and needs no mapping of the
//! tables. Entries are as in `abi::page_table`; the software bits tell how a page is held.

use abi::page_table::{self, MapRow};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use linux_abi::address_map::PAGE_SIZE;

/// Software bit of an entry: private, but others may see the page: copy it before it is written.
pub const COPY_ON_WRITE: u64 = 1 << 9;
/// Software bit of an entry: shared on purpose; fork hands it on as it is.
pub const SHARED: u64 = 1 << 10;

/// Software bit of an entry: the page is a file's, as the area says: a process that lacks it finds it again.
pub const FROM_FILE: u64 = 1 << 11;

/// Pages of a file that are handed on to children together: those of an aligned range.
pub const TOGETHER: u64 = 4;

pub(crate) const CHUNK_PAGES: u64 = 64;
const CHUNK_BYTES: u64 = CHUNK_PAGES * PAGE_SIZE;

/// The entries of an address space.
#[derive(Clone, Debug, Default)]
pub struct PageRecord {
    chunks: BTreeMap<u64, Box<Chunk>>,
    present: usize,
    of_files: usize,
    peak: usize,
    /// How often something has changed.
    generation: u64,
}

/// The entries of some pages in a row. Invariants: bit n of `present` is set where entry n is not 0; bit n of
/// `of_files` where it has [`FROM_FILE`], too.
#[derive(Clone, Debug)]
struct Chunk {
    entries: [u64; CHUNK_PAGES as usize],
    present: u64,
    of_files: u64,
}

/// The places of the bits that are set, in ascending order.
struct Bits(u64);

impl Iterator for Bits {
    type Item = usize;
    #[inline]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let place = self.0.trailing_zeros();
        self.0 &= self.0 - 1;
        Some(place as usize)
    }
}

impl Chunk {
    fn empty() -> Box<Self> {
        Box::new(Self { entries: [0; CHUNK_PAGES as usize], present: 0, of_files: 0 })
    }

    #[inline]
    fn set(&mut self, index: usize, entry: u64) -> u64 {
        let bit = |is_set: bool| u64::from(is_set) << index;
        self.present = self.present & !bit(true) | bit(entry != 0);
        self.of_files = self.of_files & !bit(true) | bit(entry & FROM_FILE != 0);
        core::mem::replace(&mut self.entries[index], entry)
    }

    /// Sets the entries from an index on, but for those that are 0; how many more are there then, and of them the
    /// pages of files.
    fn set_many(&mut self, index: usize, entries: &[u64]) -> [isize; 2] {
        let (mut set, mut of_files, mut bit) = (0, 0, 1 << index);
        for (place, entry) in self.entries[index..].iter_mut().zip(entries) {
            if *entry != 0 {
                *place = *entry;
                set |= bit;
                of_files |= if entry & FROM_FILE != 0 { bit } else { 0 };
            }
            bit <<= 1;
        }
        self.note_set(set, of_files)
    }

    /// Sets the entries of the first rows, as long as they lie in this chunk: how many these are; and as
    /// [`Self::set_many`].
    #[inline]
    fn set_rows(&mut self, key: u64, rows: &[MapRow]) -> (usize, [isize; 2]) {
        let (first, mut set, mut of_files) = (key * CHUNK_BYTES, 0, 0);
        let beyond = rows.iter().position(|row| {
            let distance = row.address.wrapping_sub(first);
            if distance >= CHUNK_BYTES {
                return true;
            }
            let index = (distance / PAGE_SIZE) as usize;
            self.entries[index] = row.entry;
            set |= 1 << index;
            of_files |= u64::from(row.entry & FROM_FILE != 0) << index;
            false
        });
        (beyond.unwrap_or(rows.len()), self.note_set(set, of_files))
    }

    /// Notes that entries are set, those whose bits are; how many more are there then, and of them the pages of files.
    #[inline]
    fn note_set(&mut self, set: u64, of_files: u64) -> [isize; 2] {
        let (fresh, were_files) = (set & !self.present, set & self.of_files);
        let more = fresh.count_ones() as isize;
        self.present |= set;
        if were_files | of_files == 0 {
            return [more, 0];
        }
        self.of_files = self.of_files & !set | of_files;
        if were_files == 0 && of_files == fresh {
            return [more, more];
        }
        [more, of_files.count_ones() as isize - were_files.count_ones() as isize]
    }

    /// Takes out those whose bits are set.
    fn clear(&mut self, bits: u64) {
        Bits(bits & self.present).for_each(|index| self.entries[index] = 0);
        self.present &= !bits;
        self.of_files &= !bits;
    }
}

/// The entries of a chunk whose bits are set, with their addresses.
fn entries(key: u64, chunk: &Chunk, bits: u64) -> impl Iterator<Item = (u64, u64)> {
    Bits(bits).map(move |index| (key * CHUNK_BYTES + index as u64 * PAGE_SIZE, chunk.entries[index]))
}

/// The bits of a chunk's pages that lie in `start..end`.
fn bits_within(key: u64, start: u64, end: u64) -> u64 {
    let pages = |address: u64| address.saturating_sub(key * CHUNK_BYTES).div_ceil(PAGE_SIZE).min(CHUNK_PAGES) as u32;
    let below = |pages: u32| 1u64.checked_shl(pages).map_or(u64::MAX, |bit| bit - 1);
    below(pages(end)) & !below(pages(start))
}

impl PageRecord {
    /// The entry for the page of `address`; 0: none.
    pub fn get(&self, address: u64) -> u64 {
        self.chunks.get(&(address / CHUNK_BYTES)).map_or(0, |chunk| chunk.entries[index(address)])
    }

    /// Sets the entry for the page of `address`; 0 removes it. The result is what it was.
    pub fn set(&mut self, address: u64, entry: u64) -> u64 {
        let key = address / CHUNK_BYTES;
        let chunk = match self.chunks.get_mut(&key) {
            Some(chunk) => chunk,
            None if entry == 0 => return 0,
            None => self.chunks.entry(key).or_insert_with(Chunk::empty),
        };
        let old = chunk.set(index(address), entry);
        if chunk.present == 0 {
            self.chunks.remove(&key);
        }
        let change = |is: bool, was: bool| isize::from(is) - isize::from(was);
        self.add(change(entry != 0, old != 0), change(entry & FROM_FILE != 0, old & FROM_FILE != 0));
        old
    }

    /// So many more, or less, are present, and of them so many the pages of files.
    fn add(&mut self, present: isize, of_files: isize) {
        self.generation += 1;
        self.present = self.present.wrapping_add_signed(present);
        self.of_files = self.of_files.wrapping_add_signed(of_files);
        if self.present > self.peak {
            self.peak = self.present;
        }
    }

    /// The entries of the pages from `start` on that are kept together with its own; those missing are 0.
    #[inline]
    pub fn chunk_of(&self, start: u64) -> &[u64] {
        const NONE: [u64; CHUNK_PAGES as usize] = [0; CHUNK_PAGES as usize];
        &self.chunks.get(&(start / CHUNK_BYTES)).map_or(&NONE, |chunk| &chunk.entries)[index(start)..]
    }

    /// The entry for the page of `address`, and how many pages from it on have none, `most` at most, of those kept
    /// together with it.
    #[inline]
    pub fn scan(&self, address: u64, most: usize) -> (u64, usize) {
        match self.chunk_of(address) {
            [0, rest @ ..] => (0, 1 + rest.iter().take(most - 1).take_while(|entry| **entry == 0).count()),
            here => (here[0], 0),
        }
    }

    /// Sets the entries of the pages from `start` on, but for those that are 0.
    pub fn set_many(&mut self, start: u64, entries: &[u64]) {
        let (here, beyond) = entries.split_at(entries.len().min(CHUNK_PAGES as usize - index(start)));
        let key = start / CHUNK_BYTES;
        let [present, of_files] = match self.chunks.get_mut(&key) {
            Some(chunk) => chunk.set_many(index(start), here),
            None => self.chunks.entry(key).or_insert_with(Chunk::empty).set_many(index(start), here),
        };
        self.add(present, of_files);
        if !beyond.is_empty() {
            self.set_many(start + here.len() as u64 * PAGE_SIZE, beyond);
        }
    }

    /// Sets the entries of rows, none of which is 0, in any order; quicker where neighbours stand together.
    pub fn set_rows(&mut self, rows: &[MapRow]) {
        if let [row] = rows {
            self.set(row.address, row.entry);
            return;
        }
        let mut left = rows;
        while let [first, ..] = left {
            let key = first.address / CHUNK_BYTES;
            let chunk = self.chunks.entry(key).or_insert_with(Chunk::empty);
            let (count, [present, of_files]) = chunk.set_rows(key, left);
            self.add(present, of_files);
            left = &left[count..];
        }
    }

    /// Whether there are entries in `start..end`.
    pub fn has_any(&self, start: u64, end: u64) -> bool {
        let mut chunks = self.chunks.range(start / CHUNK_BYTES..end.div_ceil(CHUNK_BYTES));
        chunks.any(|(key, chunk)| chunk.present & bits_within(*key, start, end) != 0)
    }

    /// The entries in `start..end`, with their addresses, in ascending order.
    #[inline]
    pub fn within(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64)> {
        let (first, behind) = (start / CHUNK_BYTES, end.div_ceil(CHUNK_BYTES));
        // Mostly it is one chunk, which is found quicker than the first of several.
        let mut next = self.chunks.get(&first).map(|chunk| (first, &**chunk));
        let mut rest = None;
        let mut here: Option<(u64, &Chunk, Bits)> = None;
        core::iter::from_fn(move || {
            loop {
                if let Some((key, chunk, bits)) = &mut here
                    && let Some(index) = bits.next()
                {
                    return Some((*key * CHUNK_BYTES + index as u64 * PAGE_SIZE, chunk.entries[index]));
                }
                if next.is_none() && first + 1 < behind {
                    let rest = rest.get_or_insert_with(|| self.chunks.range(first + 1..behind));
                    next = rest.next().map(|(key, chunk)| (*key, &**chunk));
                }
                let (key, chunk) = next.take()?;
                here = Some((key, chunk, Bits(chunk.present & bits_within(key, start, end))));
            }
        })
    }

    /// All entries, with their addresses, in ascending order.
    pub fn all(&self) -> Vec<(u64, u64)> {
        let mut all = Vec::with_capacity(self.present);
        for (key, chunk) in &self.chunks {
            all.extend(entries(*key, chunk, chunk.present));
        }
        all
    }

    /// What maps all that may be used, in ascending order.
    pub fn rows(&self) -> Vec<MapRow> {
        let mut rows = Vec::with_capacity(self.present);
        for (key, chunk) in &self.chunks {
            let here = entries(*key, chunk, chunk.present).filter(|(_, entry)| entry & page_table::PRESENT != 0);
            rows.extend(here.map(|(address, entry)| MapRow { address, entry }));
        }
        rows
    }

    /// The pages of files among them in `start..end`.
    pub fn of_files_within(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64)> {
        let chunks = self.chunks.range(start / CHUNK_BYTES..end.div_ceil(CHUNK_BYTES));
        chunks.flat_map(move |(key, chunk)| entries(*key, chunk, chunk.of_files & bits_within(*key, start, end)))
    }

    /// Calls a function for each entry but those of the pages of files, in ascending order of addresses. It may
    /// change how the page is held, but not take it out, nor say that it is a file's.
    pub fn for_each_own(&mut self, mut action: impl FnMut(u64, &mut u64)) {
        self.generation += 1;
        for (key, chunk) in &mut self.chunks {
            for index in Bits(chunk.present & !chunk.of_files) {
                action(key * CHUNK_BYTES + index as u64 * PAGE_SIZE, &mut chunk.entries[index]);
            }
        }
    }

    /// Takes out the pages of files, but for those in aligned ranges of [`TOGETHER`] pages that begin at addresses in
    /// `kept`.
    pub fn forget_files(&mut self, kept: &[u64]) {
        const RANGE: u64 = (1 << TOGETHER) - 1;
        // The bits of those that stay, by chunk: there are a few.
        let mut staying: Vec<(u64, u64)> = Vec::with_capacity(kept.len());
        for range in kept {
            let (key, bits) = (range / CHUNK_BYTES, RANGE << index(*range));
            match staying.iter_mut().find(|(other, _)| *other == key) {
                Some((_, all)) => *all |= bits,
                None => staying.push((key, bits)),
            }
        }
        let mut gone = 0;
        self.chunks.retain(|key, chunk| {
            let here = staying.iter().find(|(other, _)| other == key).map_or(0, |(_, bits)| *bits);
            let dropped = chunk.of_files & !here;
            gone += dropped.count_ones() as isize;
            if dropped == chunk.present {
                return false;
            }
            chunk.clear(dropped);
            true
        });
        self.add(-gone, -gone);
    }

    /// The entries in `start..end`, taken out.
    pub fn take(&mut self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let taken: Vec<(u64, u64)> = self.within(start, end).collect();
        let mut of_files = 0;
        let mut emptied = Vec::new();
        for (key, chunk) in self.chunks.range_mut(start / CHUNK_BYTES..end.div_ceil(CHUNK_BYTES)) {
            let bits = bits_within(*key, start, end);
            of_files += (chunk.of_files & bits).count_ones() as isize;
            chunk.clear(bits);
            if chunk.present == 0 {
                emptied.push(*key);
            }
        }
        emptied.iter().for_each(|key| _ = self.chunks.remove(key));
        self.add(-(taken.len() as isize), -of_files);
        taken
    }

    /// A number that is larger after every change.
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// How many pages are there.
    pub fn len(&self) -> usize {
        self.present
    }

    /// How many of them are the pages of files.
    pub fn of_files(&self) -> usize {
        self.of_files
    }

    /// How many there were at most.
    pub fn peak(&self) -> usize {
        self.peak
    }

    /// The peak is what is there now.
    pub fn reset_peak(&mut self) {
        self.peak = self.present;
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
