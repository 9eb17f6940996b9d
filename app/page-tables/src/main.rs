//! Linear and inverted page tables in user space (exokernel-sosp95 §7.2): the hardware's table is only a cache of them,
//! with room for a few pages, which page-fault upcalls fill.
//!
//! The linear table suits dense memory: it is indexed by page. The inverted one has an entry for each page of
//! memory that there is, found by hashing, and suits sparse memory. Which one a program has is its own choice; here
//! it tries both.

#![no_std]
#![no_main]
#![forbid(unsafe_code)]

extern crate alloc;

use abi::page_table::MapRow;
use abi::upcall::kind;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use runtime::address_space::{self, Access};
use runtime::lock::Lock;
use runtime::page::Allocator;
use runtime::upcall::{Context, set_handler};
use runtime::{Failure, KeyIndex, PageNumber, clock, entry, error_line, memory, println};

entry!(main);

/// Where virtual memory begins.
const MEMORY: u64 = 0x1_0000_0000;
/// Virtual pages that are in use.
const PAGES: u64 = 192;
/// Pages that the hardware's table holds at a time.
const CACHED: usize = 64;
/// Bit of a page fault's error code: the access was a write.
const WRITE_FAULT: u64 = 2;

/// What is known of a virtual page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mapping {
    /// The virtual page, counted from [`MEMORY`].
    number: u64,
    page: PageNumber,
    writable: bool,
    dirty: bool,
}

/// A page table: virtual pages to mappings.
trait PageTable: Send {
    fn lookup(&mut self, number: u64) -> Option<&mut Mapping>;
    fn insert(&mut self, mapping: Mapping);
}

/// One entry for each virtual page, in their order.
struct Linear(Vec<Option<Mapping>>);

impl PageTable for Linear {
    fn lookup(&mut self, number: u64) -> Option<&mut Mapping> {
        self.0.get_mut(number as usize)?.as_mut()
    }
    fn insert(&mut self, mapping: Mapping) {
        let index = mapping.number as usize;
        self.0.resize(self.0.len().max(index + 1), None);
        self.0[index] = Some(mapping);
    }
}

/// One entry for each physical page, at the hash of its virtual page or the next free place.
struct Inverted(Vec<Option<Mapping>>);

impl Inverted {
    fn place(&self, number: u64) -> usize {
        let size = self.0.len();
        let hash = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize;
        let mut places = (0..size).map(|step| (hash + step) % size);
        let fits = |place: &usize| self.0[*place].is_none_or(|mapping| mapping.number == number);
        places.find(fits).unwrap_or(hash % size)
    }
}

impl PageTable for Inverted {
    fn lookup(&mut self, number: u64) -> Option<&mut Mapping> {
        let place = self.place(number);
        self.0[place].as_mut()
    }
    fn insert(&mut self, mapping: Mapping) {
        let place = self.place(mapping.number);
        self.0[place] = Some(mapping);
    }
}

/// Virtual memory: the table that counts, and what of it the hardware's table holds, the oldest first.
struct VirtualMemory {
    table: Box<dyn PageTable>,
    cached: VecDeque<u64>,
    misses: u64,
    writes_refused: u64,
}

static VIRTUAL_MEMORY: Lock<Option<VirtualMemory>> = Lock::new(None);

fn address(number: u64) -> u64 {
    MEMORY + number * abi::limits::PAGE_SIZE
}

fn row(number: u64, entry: u64) -> MapRow {
    MapRow { address: address(number) | KeyIndex::FIRST.0, entry }
}

impl VirtualMemory {
    /// Brings a page into the hardware's table, writable once it has been written.
    fn fill(&mut self, number: u64, write: bool) -> Result<(), Failure> {
        let mapping = self.table.lookup(number).ok_or(runtime::Error::NotMapped.about(number))?;
        if write && !mapping.writable {
            // As a garbage collector would: it notes the write, and lets it pass.
            (mapping.writable, self.writes_refused) = (true, self.writes_refused + 1);
        }
        mapping.dirty |= write;
        let access = if mapping.dirty && mapping.writable { Access::WRITE } else { Access::READ };
        let fill = row(number, mapping.page.address() | access.0);
        match self.make_room(number) {
            Some(oldest) => address_space::own().apply(&[row(oldest, 0), fill]),
            None => address_space::own().apply(&[fill]),
        }
    }

    /// Counts a page among those that the hardware's table holds; the result is the one that has to go for it.
    fn make_room(&mut self, number: u64) -> Option<u64> {
        if self.cached.contains(&number) {
            return None;
        }
        self.misses += 1;
        let oldest = if self.cached.len() == CACHED { self.cached.pop_front() } else { None };
        self.cached.push_back(number);
        oldest
    }

    /// Forbids writing to pages: in the table, and in the hardware's where it holds them.
    fn protect(&mut self, numbers: impl Iterator<Item = u64>) -> Result<(), Failure> {
        let mut rows = Vec::new();
        for number in numbers {
            let Some(mapping) = self.table.lookup(number) else { continue };
            (mapping.writable, mapping.dirty) = (false, false);
            let page = mapping.page;
            if self.cached.contains(&number) {
                rows.push(row(number, page.address() | Access::READ.0));
            }
        }
        address_space::own().apply(&rows)
    }

    /// Takes everything out of the hardware's table.
    fn empty(&mut self) -> Result<(), Failure> {
        let rows: Vec<MapRow> = self.cached.drain(..).map(|number| row(number, 0)).collect();
        address_space::own().apply(&rows)
    }
}

/// Calls `body` with the virtual memory. It must touch none of it: faults need the lock.
fn with<T>(body: impl FnOnce(&mut VirtualMemory) -> Result<T, Failure>) -> Result<T, String> {
    let mut guard = VIRTUAL_MEMORY.lock();
    let memory = guard.as_mut().ok_or("there is no virtual memory")?;
    body(memory).map_err(|failure| format!("{failure:?}"))
}

extern "C" fn page_fault(context: &mut Context) {
    let number = context.frame.detail.wrapping_sub(MEMORY) / abi::limits::PAGE_SIZE;
    let filled = with(|memory| memory.fill(number, context.frame.error & WRITE_FAULT != 0));
    if let Err(why) = filled {
        println!("failed: no memory at {:#x}: {why}", context.frame.detail);
        entry::exit(entry::FAULT_STATUS);
    }
}

fn main() -> u32 {
    set_handler(kind::PAGE_FAULT, page_fault);
    let linear = || try_table("linear", Box::new(Linear(Vec::new())), 1);
    let inverted = || try_table("inverted", Box::new(Inverted(vec![None; 2 * PAGES as usize])), 977);
    entry::status_of(linear().and_then(|()| inverted()))
}

/// Fills memory whose pages lie `stride` apart, and works with it.
fn try_table(name: &str, mut table: Box<dyn PageTable>, stride: u64) -> Result<(), String> {
    let mut pages = vec![PageNumber::NONE; PAGES as usize];
    Allocator::own().allocate_many(&mut pages).map_err(|failure| format!("{failure:?}"))?;
    for (number, page) in (0..).step_by(stride as usize).zip(&pages) {
        table.insert(Mapping { number, page: *page, writable: true, dirty: false });
    }
    let memory = VirtualMemory { table, cached: VecDeque::with_capacity(CACHED), misses: 0, writes_refused: 0 };
    *VIRTUAL_MEMORY.lock() = Some(memory);
    check_contents(stride)?;
    measure(name, stride)?;
    with(VirtualMemory::empty)?;
    let misses = with(|memory| Ok(memory.misses))?;
    *VIRTUAL_MEMORY.lock() = None;
    if Allocator::own().free_many(&pages) != pages.len() || misses < 6 * PAGES {
        return Err(format!("{misses} misses: the hardware's table held more than it should"));
    }
    println!("{name}: {PAGES} pages through {CACHED} entries, every word right");
    Ok(())
}

/// Three rounds of writing and reading over more pages than the hardware's table holds.
fn check_contents(stride: u64) -> Result<(), String> {
    for round in 1..=3 {
        (0..PAGES).for_each(|index| memory::store(address(index * stride), round * 1000 + index));
        let wrong = (0..PAGES).filter(|index| memory::load(address(index * stride)) != round * 1000 + index).count();
        if wrong > 0 {
            return Err(format!("{wrong} words are wrong in round {round}"));
        }
    }
    Ok(())
}

/// Benchmarks of virtual memory as in §6.2, in ticks an operation.
fn measure(name: &str, stride: u64) -> Result<(), String> {
    let numbers = |count: u64| (0..count).map(move |index| index * stride);
    let dirty = timed(PAGES, || {
        let is_dirty = |memory: &mut VirtualMemory, number| memory.table.lookup(number).is_some_and(|it| it.dirty);
        let count = with(|memory| Ok(numbers(PAGES).filter(|number| is_dirty(memory, *number)).count()))?;
        if count == PAGES as usize { Ok(()) } else { Err(format!("{count} pages are dirty")) }
    })?;
    let one = |number| with(|memory| memory.protect(core::iter::once(number)));
    let prot1 = timed(50, || numbers(50).try_for_each(one))?;
    let prot100 = timed(1, || with(|memory| memory.protect(numbers(100))))?;
    let appel2 = timed(100, || {
        with(|memory| memory.protect(numbers(100)))?;
        numbers(100).for_each(|number| memory::store(address(number), number));
        Ok(())
    })?;
    let refused = with(|memory| Ok(memory.writes_refused))?;
    error_line!("{name}: dirty {dirty}, prot1 {prot1}, prot100 {prot100}, appel2 {appel2} ticks");
    if refused == 100 { Ok(()) } else { Err(format!("{refused} writes to protected pages were noticed, not 100")) }
}

/// Ticks for each of `count` operations.
fn timed(count: u64, body: impl FnOnce() -> Result<(), String>) -> Result<u64, String> {
    let begun = clock::ticks();
    body()?;
    Ok((clock::ticks() - begun) / count)
}
