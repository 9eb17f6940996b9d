//! Virtual memory by a library: exokernel-sosp95 Table 10, after Appel and Li, with the two page tables of Table 13. The
//! library's table counts; the hardware's is told by `page_map`, and faults are upcalls.
//!
//! The linear table suits dense memory: it is indexed by page. The inverted one has an entry for each page of memory that
//! there is, found by hashing, and suits sparse memory: its pages lie far apart here.
#![no_std]
#![no_main]

extern crate alloc;

use abi::page_table::{MapRow, WRITE};
use abi::upcall::kind;
use abi::{KeyIndex, PageNumber, UserAddress};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use bench_guest::{begin, measure, measure_after};
use core::cell::UnsafeCell;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use runtime::address_space::{self, Access, AddressSpace};
use runtime::page::Allocator;
use runtime::upcall::{Context, set_handler};
use runtime::{clock, memory, predicate, syscall};

runtime::entry!(main);

/// Where virtual memory begins.
const MEMORY: u64 = 0x1_0000_0000;
/// Where pages come from nothing.
const FRESH: u64 = 0x3_0000_0000;
const PAGE: u64 = 4096;
const PAGES: u64 = 100;
/// Pages that are protected one by one, and that come from nothing, in a sample.
const SINGLES: u64 = 16;
/// Pages between two of the sparse memory.
const SPARSE: u64 = 977;

/// A page table: what the library knows of each page, in the very form in which the kernel is told.
struct PageTable {
    /// A row for each page; the linear table has them in the order of virtual pages, the inverted one as they came.
    rows: Vec<MapRow>,
    dirty: Vec<bool>,
    /// The inverted table's: for each hash, or the next free place, one more than the index of a row; as many as a power of 2.
    places: Vec<u8>,
    space: AddressSpace,
    allocator: Allocator,
}

impl PageTable {
    fn new(inverted: bool) -> Self {
        let places = if inverted { vec![0; 256] } else { Vec::new() };
        Self { rows: Vec::new(), dirty: Vec::new(), places, space: address_space::own(), allocator: Allocator::own() }
    }

    /// The index of a page's row.
    #[inline(always)]
    fn index(&self, number: u64) -> usize {
        if self.places.is_empty() {
            return number as usize;
        }
        let mut place = hash(number);
        loop {
            let index = usize::from(self.places[place]).wrapping_sub(1);
            if self.rows[index].address & !(PAGE - 1) == address(number) {
                return index;
            }
            place = (place + 1) & 0xff;
        }
    }

    /// Adds the next page: of a linear table, the one behind the last.
    fn add(&mut self, number: u64, page: PageNumber) {
        if !self.places.is_empty() {
            let mut place = hash(number);
            while self.places[place] != 0 {
                place = (place + 1) & 0xff;
            }
            self.places[place] = self.rows.len() as u8 + 1;
        }
        self.dirty.push(number.is_multiple_of(2));
        self.rows
            .push(MapRow { address: address(number) | KeyIndex::FIRST.0, entry: page.address() | Access::WRITE.0 });
    }

    /// Changes the protection of a page; the result tells the hardware's table.
    #[inline(always)]
    fn change(&mut self, number: u64, writable: bool) -> MapRow {
        let index = self.index(number);
        let row = &mut self.rows[index];
        row.entry = if writable { row.entry | WRITE } else { row.entry & !WRITE };
        *row
    }

    /// Changes the protection of [`PAGES`] pages from the first on. In a linear table their rows stand in a row.
    fn change_all(&mut self, writable: bool) {
        if self.places.is_empty() {
            for row in &mut self.rows {
                row.entry = if writable { row.entry | WRITE } else { row.entry & !WRITE };
            }
            self.apply(&self.rows);
        } else {
            let rows: [MapRow; PAGES as usize] =
                core::array::from_fn(|index| self.change(index as u64 * SPARSE, writable));
            self.apply(&rows);
        }
    }

    /// Tells the hardware's table.
    #[inline(always)]
    fn apply(&self, rows: &[MapRow]) {
        let place = UserAddress(rows.as_ptr() as u64);
        // SAFETY: the rows are as many as we say, and concern addresses that only the measurements use.
        let outcome = unsafe { syscall::page_map(self.space.key, self.space.root, place, rows.len() as u64) };
        if outcome.is_err() {
            self.space.apply(rows).expect("the pages are ours");
        }
    }
}

#[inline(always)]
fn hash(number: u64) -> usize {
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize
}

/// The one table. Faults come where the program touches memory that is protected, and it holds no reference into the table
/// there: so each use has it alone.
struct Table(UnsafeCell<Option<PageTable>>);

// SAFETY: the program has one environment, and so one thread of control at a time.
unsafe impl Sync for Table {}

static TABLE: Table = Table(UnsafeCell::new(None));
/// Pages between two of the memory that is in use, and the page that the next fault protects, if any.
static STRIDE: AtomicU64 = AtomicU64::new(1);
static VICTIM: AtomicU64 = AtomicU64::new(u64::MAX);
/// The next page that comes from nothing.
static NEXT_FRESH: AtomicU64 = AtomicU64::new(FRESH);

#[inline(always)]
fn with<T>(body: impl FnOnce(&mut PageTable) -> T) -> T {
    // SAFETY: bodies touch no memory that the table describes, so that no fault comes between.
    let table = unsafe { &mut *TABLE.0.get() };
    body(table.as_mut().expect("there is a table"))
}

fn number(index: u64) -> u64 {
    index * STRIDE.load(Relaxed)
}

#[inline(always)]
fn address(number: u64) -> u64 {
    MEMORY + number * PAGE
}

fn protect_one(index: u64, writable: bool) {
    with(|table| {
        let row = table.change(number(index), writable);
        table.apply(&[row]);
    });
}

fn protect_all(writable: bool) {
    with(|table| table.change_all(writable));
}

/// The page that was written becomes writable; another is protected with the same call where one is named.
extern "C" fn page_fault(context: &mut Context) {
    let place = context.frame.detail;
    if place >= FRESH {
        return fresh_page(place);
    }
    let victim = VICTIM.load(Relaxed);
    with(|table| {
        let row = table.change((place - MEMORY) / PAGE, true);
        if victim == u64::MAX {
            table.apply(&[row]);
        } else {
            let other = table.change(victim, false);
            table.apply(&[row, other]);
        }
    });
}

fn fresh_page(place: u64) {
    with(|table| {
        let page = table.allocator.allocate().expect("there is memory");
        table.apply(&[MapRow {
            address: place & !(PAGE - 1) | KeyIndex::FIRST.0,
            entry: page.address() | Access::WRITE.0,
        }]);
    });
}

/// The pages in a random order, the same each time.
fn shuffled() -> [u64; PAGES as usize] {
    let mut order: [u64; PAGES as usize] = core::array::from_fn(|index| index as u64);
    let mut state: u64 = 1;
    for index in (1..order.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        order.swap(index, (state >> 33) as usize % (index + 1));
    }
    order
}

/// Makes a table the one that counts, with `pages` behind its memory.
fn install(inverted: bool, pages: &[PageNumber]) {
    STRIDE.store(if inverted { SPARSE } else { 1 }, Relaxed);
    let mut table = PageTable::new(inverted);
    pages.iter().zip(0..).for_each(|(page, index)| table.add(number(index), *page));
    // The tables of the hardware are linked where they are missing.
    table.space.apply(&table.rows).expect("there is memory for tables");
    // SAFETY: nobody has a reference into the table.
    unsafe { *TABLE.0.get() = Some(table) };
}

/// All benchmarks on one table.
fn try_table(name: &str) {
    let order = shuffled();
    let write_all = || order.iter().for_each(|index| memory::store(address(number(*index)), *index));
    measure(&format!("{name}-dirty"), SINGLES, || {
        let is_dirty = |index: &&u64| with(|table| table.dirty[table.index(number(**index))]);
        core::hint::black_box(order.iter().take(SINGLES as usize).filter(is_dirty).count());
    });
    let singles = |writable| (0..SINGLES).for_each(|index| protect_one(index, writable));
    measure_after(&format!("{name}-prot1"), SINGLES, || singles(true), || singles(false));
    measure_after(&format!("{name}-prot100"), 1, || protect_all(true), || protect_all(false));
    measure_after(&format!("{name}-unprot100"), 1, || protect_all(false), || protect_all(true));
    let exchange = || {
        for (turn, index) in order.iter().enumerate() {
            VICTIM.store(number(order[(turn + order.len() - 1) % order.len()]), Relaxed);
            memory::store(address(number(*index)), *index);
        }
        VICTIM.store(u64::MAX, Relaxed);
    };
    let all_but_last_protected = || {
        protect_all(false);
        protect_one(order[order.len() - 1], true);
    };
    measure_after(&format!("{name}-appel1"), PAGES, all_but_last_protected, exchange);
    measure_after(
        &format!("{name}-appel2"),
        PAGES,
        || protect_all(true),
        || {
            protect_all(false);
            write_all();
        },
    );
}

/// Writes to pages that are not there.
fn fresh_pages() {
    let touch = || {
        for _ in 0..SINGLES {
            memory::store(NEXT_FRESH.fetch_add(PAGE, Relaxed), 1);
        }
    };
    address_space::own().link_tables(FRESH, false).expect("there is memory for tables");
    // An idle CPU fills free pages with zeros.
    let rest = || drop(predicate::wait_any(&[], Some(clock::now() + 20_000_000)));
    measure_after("fresh-page", SINGLES, rest, touch);
}

fn main() -> u32 {
    set_handler(kind::PAGE_FAULT, page_fault);
    begin();
    let mut pages = vec![PageNumber::NONE; PAGES as usize];
    Allocator::own().allocate_many(&mut pages).expect("there is memory");
    install(false, &pages);
    try_table("linear");
    install(true, &pages);
    try_table("inverted");
    fresh_pages();
    0
}
