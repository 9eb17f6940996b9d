//! Virtual memory by a library: exokernel-sosp95 Table 10, after Appel and Li, with the two page tables of Table 13. The
//! library's table counts; the hardware's is told by `page_map`, and faults are upcalls.
//!
//! The linear table suits dense memory: it is indexed by page. The inverted one has an entry for each page of memory that
//! there is, found by hashing, and suits sparse memory: its pages lie far apart here.
#![no_std]
#![no_main]

extern crate alloc;

use abi::page_table::MapRow;
use abi::upcall::kind;
use abi::{KeyIndex, PageNumber};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use bench_guest::{begin, measure, measure_after};
use core::cell::UnsafeCell;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use runtime::address_space::{self, Access};
use runtime::page::Allocator;
use runtime::upcall::{Context, set_handler};
use runtime::{clock, memory, predicate};

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

/// What is known of a virtual page: its entry of the hardware's table as it should be, and the page it stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Mapping {
    /// The virtual page, counted from [`MEMORY`].
    number: u64,
    /// Page and rights; 0 where there is no mapping.
    entry: u64,
    dirty: bool,
}

/// A page table: virtual pages to mappings.
enum PageTable {
    /// One mapping for each virtual page, in their order.
    Linear(Vec<Mapping>),
    /// One mapping for each physical page, at the hash of its virtual page or the next free place; as many as a power of 2.
    Inverted(Vec<Mapping>),
}

impl PageTable {
    /// Where the mapping of a page stands, or would.
    #[inline(always)]
    fn place(&mut self, number: u64) -> &mut Mapping {
        match self {
            Self::Linear(mappings) => &mut mappings[number as usize],
            Self::Inverted(mappings) => {
                let mask = mappings.len() - 1;
                let mut place = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize & mask;
                while mappings[place].entry != 0 && mappings[place].number != number {
                    place = (place + 1) & mask;
                }
                &mut mappings[place]
            }
        }
    }
}

/// The one table. Faults come where the program touches memory that is protected, and it holds no reference into the table
/// there: so each use has it alone.
struct Table(UnsafeCell<PageTable>);

// SAFETY: the program has one environment, and so one thread of control at a time.
unsafe impl Sync for Table {}

static TABLE: Table = Table(UnsafeCell::new(PageTable::Linear(Vec::new())));
/// Pages between two of the memory that is in use, and the page that the next fault protects, if any.
static STRIDE: AtomicU64 = AtomicU64::new(1);
static VICTIM: AtomicU64 = AtomicU64::new(u64::MAX);
/// The next page that comes from nothing.
static NEXT_FRESH: AtomicU64 = AtomicU64::new(FRESH);

#[inline(always)]
fn with<T>(body: impl FnOnce(&mut PageTable) -> T) -> T {
    // SAFETY: bodies touch no memory that the table describes, so that no fault comes between.
    body(unsafe { &mut *TABLE.0.get() })
}

fn number(index: u64) -> u64 {
    index * STRIDE.load(Relaxed)
}

fn address(number: u64) -> u64 {
    MEMORY + number * PAGE
}

/// Changes the protection of a page in the library's table; the row tells the hardware's.
#[inline(always)]
fn change(table: &mut PageTable, number: u64, writable: bool) -> MapRow {
    let mapping = table.place(number);
    let access = if writable { Access::WRITE } else { Access::READ };
    mapping.entry = mapping.entry & !(PAGE - 1) & !abi::page_table::NO_EXECUTE | access.0;
    MapRow { address: address(number) | KeyIndex::FIRST.0, entry: mapping.entry }
}

/// Tells the hardware's table.
#[inline(always)]
fn apply(rows: &[MapRow]) {
    // SAFETY: the rows concern addresses that only the measurements use.
    unsafe { address_space::own().edit(rows) }.expect("the pages are ours");
}

fn protect_one(index: u64, writable: bool) {
    apply(&[with(|table| change(table, number(index), writable))]);
}

fn protect_all(writable: bool) {
    let mut rows = [MapRow::default(); PAGES as usize];
    let stride = STRIDE.load(Relaxed);
    with(|table| rows.iter_mut().zip(0..).for_each(|(row, index)| *row = change(table, index * stride, writable)));
    apply(&rows);
}

/// The page that was written becomes writable; another is protected with the same call where one is named.
extern "C" fn page_fault(context: &mut Context) {
    let place = context.frame.detail;
    if place >= FRESH {
        return fresh_page(place);
    }
    let faulting = (place - MEMORY) / PAGE;
    let victim = VICTIM.load(Relaxed);
    let row = with(|table| change(table, faulting, true));
    if victim == u64::MAX {
        apply(&[row]);
    } else {
        apply(&[row, with(|table| change(table, victim, false))]);
    }
}

fn fresh_page(place: u64) {
    let page = Allocator::own().allocate().expect("there is memory");
    apply(&[MapRow { address: place & !(PAGE - 1) | KeyIndex::FIRST.0, entry: page.address() | Access::WRITE.0 }]);
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

/// Makes `table` the one that counts, with `pages` behind its memory.
fn install(mut table: PageTable, stride: u64, pages: &[PageNumber]) {
    STRIDE.store(stride, Relaxed);
    for (page, index) in pages.iter().zip(0..) {
        let entry = page.address() | Access::WRITE.0;
        *table.place(number(index)) = Mapping { number: number(index), entry, dirty: index % 2 == 0 };
    }
    with(|old| *old = table);
    // The tables of the hardware are linked where they are missing.
    let rows: Vec<MapRow> = (0..PAGES).map(|index| with(|table| change(table, number(index), true))).collect();
    address_space::own().apply(&rows).expect("there is memory for tables");
}

/// All benchmarks on one table.
fn try_table(name: &str) {
    let order = shuffled();
    let write_all = || order.iter().for_each(|index| memory::store(address(number(*index)), *index));
    measure(&format!("{name}-dirty"), SINGLES, || {
        let is_dirty = |index: &&u64| with(|table| table.place(number(**index)).dirty);
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
    measure_after("fresh-page-zeroed", SINGLES, rest, touch);
    measure_after("fresh-page", SINGLES, || (), touch);
}

fn main() -> u32 {
    set_handler(kind::PAGE_FAULT, page_fault);
    begin();
    let mut pages = vec![PageNumber::NONE; PAGES as usize];
    Allocator::own().allocate_many(&mut pages).expect("there is memory");
    install(PageTable::Linear(vec![Mapping::default(); PAGES as usize]), 1, &pages);
    try_table("linear");
    install(PageTable::Inverted(vec![Mapping::default(); 256]), SPARSE, &pages);
    try_table("inverted");
    fresh_pages();
    0
}
