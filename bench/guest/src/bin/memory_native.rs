//! Virtual memory by a library: exokernel-sosp95 Table 10, after Appel and Li, with the two page tables of
//! Table 13. The library's table counts; the hardware's is told by `page_map`, and faults are upcalls.
//!
//! The linear table suits dense memory: it is indexed by page. The inverted one has an entry for each page of
//! memory that there is, found by hashing, and suits sparse memory: its pages lie far apart here.
#![no_std]
#![no_main]

extern crate alloc;

use abi::page_table::{MapRow, WRITE};
use abi::upcall::{UpcallFrame, kind};
use abi::{KeyIndex, PageNumber, UserAddress};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use bench_guest::{begin, measure, measure_after};
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use runtime::address_space::{self, Access, AddressSpace};
use runtime::frame_handler::{FrameHandler, set_frame_handler};
use runtime::page::Allocator;
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
    /// The inverted table's: for each hash, or the next free place, one more than the index of a row; as many as a
    /// power of 2.
    places: Vec<u8>,
    space: AddressSpace,
    allocator: Allocator,
}

impl PageTable {
    fn new(inverted: bool) -> Self {
        let places = if inverted { vec![0; 256] } else { Vec::new() };
        Self { rows: Vec::new(), dirty: Vec::new(), places, space: address_space::own(), allocator: Allocator::own() }
    }

    /// The index of a page's row in a table of this kind.
    #[inline(always)]
    fn index<const INVERTED: bool>(&self, number: u64) -> usize {
        if !INVERTED {
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

    /// Changes the protection of a page in this table; the caller passes the row on to the hardware's.
    #[inline(always)]
    fn change<const INVERTED: bool>(&mut self, number: u64, writable: bool) -> &mut MapRow {
        let index = self.index::<INVERTED>(number);
        let row = &mut self.rows[index];
        row.entry = if writable { row.entry | WRITE } else { row.entry & !WRITE };
        row
    }

    /// Changes the protection of a page.
    #[inline(always)]
    fn protect<const INVERTED: bool>(&mut self, number: u64, writable: bool) {
        let (key, root) = (self.space.key, self.space.root);
        tell(key, root, core::slice::from_ref(self.change::<INVERTED>(number, writable)));
    }

    /// Makes one page writable and protects another, with one call.
    #[inline(always)]
    fn exchange<const INVERTED: bool>(&mut self, writable: u64, protected: u64) {
        let rows = [*self.change::<INVERTED>(writable, true), *self.change::<INVERTED>(protected, false)];
        tell(self.space.key, self.space.root, &rows);
    }

    /// Changes the protection of [`PAGES`] pages from the first on. In a linear table their rows stand in a row.
    fn change_all<const INVERTED: bool>(&mut self, writable: bool) {
        if INVERTED {
            let rows: [MapRow; PAGES as usize] =
                core::array::from_fn(|index| *self.change::<INVERTED>(index as u64 * SPARSE, writable));
            return tell(self.space.key, self.space.root, &rows);
        }
        for row in &mut self.rows {
            row.entry = if writable { row.entry | WRITE } else { row.entry & !WRITE };
        }
        tell(self.space.key, self.space.root, &self.rows);
    }
}

/// Tells the hardware's table.
#[inline(always)]
fn tell(key: KeyIndex, root: PageNumber, rows: &[MapRow]) {
    let place = UserAddress(rows.as_ptr() as u64);
    // SAFETY: the rows are as many as we say, and concern addresses that only the measurements use.
    let outcome = unsafe { syscall::page_map(key, root, place, rows.len() as u64) };
    if outcome.is_err() {
        tell_at_length(rows);
    }
}

/// The same where tables are missing.
#[cold]
fn tell_at_length(rows: &[MapRow]) {
    address_space::own().apply(rows).expect("the pages are ours");
}

#[inline(always)]
fn hash(number: u64) -> usize {
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize
}

/// The one table. Faults come where the program touches memory that is protected, and it holds no reference into
/// the table there: so each use has it alone.
struct Table(UnsafeCell<MaybeUninit<PageTable>>);

// SAFETY: the program has one environment, and so one thread of control at a time.
unsafe impl Sync for Table {}

static TABLE: Table = Table(UnsafeCell::new(MaybeUninit::uninit()));
/// Pages between two of the memory that is in use, and the page that the next fault protects.
static STRIDE: AtomicU64 = AtomicU64::new(1);
static VICTIM: AtomicU64 = AtomicU64::new(0);
/// The next page that comes from nothing.
static NEXT_FRESH: AtomicU64 = AtomicU64::new(FRESH);

#[inline(always)]
fn with<T>(body: impl FnOnce(&mut PageTable) -> T) -> T {
    // SAFETY: there is a table before anything is measured. Bodies touch no memory that it describes, so that no fault
    // comes between.
    body(unsafe { (*TABLE.0.get()).assume_init_mut() })
}

fn number(index: u64) -> u64 {
    index * STRIDE.load(Relaxed)
}

#[inline(always)]
fn address(number: u64) -> u64 {
    MEMORY + number * PAGE
}

/// Writes into a page of the memory, by its address.
#[inline(always)]
fn write(place: u64) {
    // SAFETY: the memory that begins at MEMORY is the measurements' own, and no reference points into it.
    unsafe { (place as *mut u64).write_volatile(place) };
}

/// The number of the page of the memory in which a fault came.
#[inline(always)]
const fn written(frame: &UpcallFrame) -> u64 {
    frame.detail.wrapping_sub(MEMORY) / PAGE
}

fn protect_one<const INVERTED: bool>(index: u64, writable: bool) {
    with(|table| table.protect::<INVERTED>(number(index), writable));
}

fn protect_all<const INVERTED: bool>(writable: bool) {
    with(|table| table.change_all::<INVERTED>(writable));
}

/// The page that was written becomes writable.
struct Unprotect<const INVERTED: bool>;

impl<const INVERTED: bool> FrameHandler for Unprotect<INVERTED> {
    const KIND: u64 = kind::PAGE_FAULT;

    extern "C" fn handle(frame: &mut UpcallFrame) {
        with(|table| table.protect::<INVERTED>(written(frame), true));
    }
}

/// The page that was written becomes writable, and the victim protected.
struct Exchange<const INVERTED: bool>;

impl<const INVERTED: bool> FrameHandler for Exchange<INVERTED> {
    const KIND: u64 = kind::PAGE_FAULT;

    extern "C" fn handle(frame: &mut UpcallFrame) {
        with(|table| table.exchange::<INVERTED>(written(frame), VICTIM.load(Relaxed)));
    }
}

/// A fresh page comes where one was written.
struct Bind;

impl FrameHandler for Bind {
    const KIND: u64 = kind::PAGE_FAULT;

    extern "C" fn handle(frame: &mut UpcallFrame) {
        with(|table| {
            let page = table.allocator.allocate().expect("there is memory");
            let row = MapRow {
                address: frame.detail & !(PAGE - 1) | KeyIndex::FIRST.0,
                entry: page.address() | Access::WRITE.0,
            };
            tell(table.space.key, table.space.root, &[row]);
        });
    }
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
fn install<const INVERTED: bool>(pages: &[PageNumber]) {
    STRIDE.store(if INVERTED { SPARSE } else { 1 }, Relaxed);
    let mut table = PageTable::new(INVERTED);
    pages.iter().zip(0..).for_each(|(page, index)| table.add(number(index), *page));
    // The tables of the hardware are linked where they are missing.
    table.space.apply(&table.rows).expect("there is memory for tables");
    // SAFETY: no code has a reference into the table.
    unsafe { *TABLE.0.get() = MaybeUninit::new(table) };
}

/// All benchmarks on one table.
fn try_table<const INVERTED: bool>(name: &str) {
    let order = shuffled();
    measure(&format!("{name}-dirty"), SINGLES, || {
        let is_dirty = |index: &&u64| with(|table| table.dirty[table.index::<INVERTED>(number(**index))]);
        core::hint::black_box(order.iter().take(SINGLES as usize).filter(is_dirty).count());
    });
    let (protect_all, protect_one) = (protect_all::<INVERTED>, protect_one::<INVERTED>);
    let singles = |writable| (0..SINGLES).for_each(|index| protect_one(index, writable));
    measure_after(&format!("{name}-prot1"), SINGLES, || singles(true), || singles(false));
    measure_after(&format!("{name}-prot100"), 1, || protect_all(true), || protect_all(false));
    measure_after(&format!("{name}-unprot100"), 1, || protect_all(false), || protect_all(true));
    let pages = order.map(|index| address(number(index)));
    let last = order.len() - 1;
    let exchange = || {
        let mut victim = number(order[last]);
        for &page in &pages {
            VICTIM.store(victim, Relaxed);
            write(page);
            victim = (page - MEMORY) / PAGE;
        }
    };
    let all_but_last_protected = || {
        protect_all(false);
        protect_one(order[last], true);
    };
    set_frame_handler::<Exchange<INVERTED>>();
    measure_after(&format!("{name}-appel1"), PAGES, all_but_last_protected, exchange);
    let protect_and_write_all = || {
        protect_all(false);
        pages.iter().for_each(|page| write(*page));
    };
    set_frame_handler::<Unprotect<INVERTED>>();
    measure_after(&format!("{name}-appel2"), PAGES, || protect_all(true), protect_and_write_all);
}

/// Writes to pages that are not there.
fn fresh_pages() {
    let touch = || {
        for _ in 0..SINGLES {
            memory::store(NEXT_FRESH.fetch_add(PAGE, Relaxed), 1);
        }
    };
    set_frame_handler::<Bind>();
    address_space::own().link_tables(FRESH, false).expect("there is memory for tables");
    // An idle CPU fills free pages with zeros.
    let rest = || drop(predicate::wait_any(&[], Some(clock::now() + 20_000_000)));
    measure_after("fresh-page", SINGLES, rest, touch);
}

fn main() -> u32 {
    begin();
    let mut pages = vec![PageNumber::NONE; PAGES as usize];
    Allocator::own().allocate_many(&mut pages).expect("there is memory");
    install::<false>(&pages);
    try_table::<false>("linear");
    install::<true>(&pages);
    try_table::<true>("inverted");
    fresh_pages();
    0
}
