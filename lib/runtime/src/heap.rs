//! The heap: `talc` over pages that are mapped when they are needed. One an address space; who shares it, locks it.
//!
//! A handler of exceptions must not allocate: the exception may have come from within the allocator.

use crate::area::Area;
use crate::layout::{AREA_COUNT, HEAP, HEAP_BYTES};
use crate::lock::{Held, OwnerLock};
use abi::limits::PAGE_SIZE;
use abi::{Error, Failure};
use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use talc::DefaultBinning;
use talc::base::Talc;
use talc::source::Manual;

/// Pages that the heap begins with, and grows by at least.
const GROWTH_PAGES: u64 = 8;
/// Pages of page tables that growing may take.
const TABLES: u64 = 4;

/// Lies in the first page of the heap itself.
struct Heap {
    lock: OwnerLock,
    state: UnsafeCell<State>,
    /// Places for environment areas in this address space that are taken, as bits.
    areas: [AtomicU64; AREA_COUNT as usize / 64],
}

struct State {
    talc: Talc<Manual, DefaultBinning>,
    /// End of what `talc` was given.
    end: NonNull<u8>,
    /// End of what is mapped.
    mapped_end: u64,
    /// See [`provide_by`].
    provider: Option<fn(u64)>,
}

/// The allocator of every program: finds the heap by the environment area.
#[derive(Debug)]
pub struct Allocator;

#[cfg(target_os = "none")]
#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

// SAFETY: `talc` keeps to the contract; each address space has one heap, and its lock lets one caller in at a time.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(heap) = heap() else { return null_mut() };
        let _held = heap.lock.acquire();
        // SAFETY: the lock is held. The size is not zero, by the contract of `alloc`.
        let (state, size) = unsafe { (&mut *heap.state.get(), layout.size()) };
        loop {
            // SAFETY: as above.
            if let Some(memory) = unsafe { state.talc.try_allocate(layout) } {
                return memory.as_ptr();
            }
            if !state.grow(size + layout.align()) {
                return null_mut();
            }
        }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        let Some(heap) = heap() else { return };
        let _held = heap.lock.acquire();
        // SAFETY: the lock is held; the memory came from `alloc` with this layout, by the contract of `dealloc`.
        unsafe { (*heap.state.get()).talc.deallocate(memory, layout) };
    }
}

/// The heap of this address space; made when it is first asked for.
fn heap() -> Option<&'static Heap> {
    let word = &Area::current().library().heap;
    let address = match word.load(Acquire) {
        0 => create().inspect(|address| word.store(*address, Release))?,
        address => address,
    };
    // SAFETY: the word is either 0 or the address of a heap that was made by `create` and never goes away.
    Some(unsafe { &*(address as *const Heap) })
}

/// Maps the first pages and puts the heap's own record at their beginning.
fn create() -> Option<u64> {
    let bytes = GROWTH_PAGES * PAGE_SIZE;
    // SAFETY: the layout keeps this range for the heap, and there is none yet.
    unsafe { crate::address_space::own().back_with_fresh_pages(HEAP, GROWTH_PAGES) }.ok()?;
    let start = HEAP + (size_of::<Heap>() as u64).next_multiple_of(64);
    let mut talc = Talc::new(Manual);
    // SAFETY: the memory behind the record was just mapped and belongs to nobody else.
    let end = unsafe { talc.claim(start as *mut u8, (HEAP + bytes - start) as usize) }?;
    let state = State { talc, end, mapped_end: HEAP + bytes, provider: None };
    let heap = Heap { lock: OwnerLock::new(), state: UnsafeCell::new(state), areas: [const { AtomicU64::new(0) }; _] };
    heap.areas[0].store(1, Relaxed);
    // SAFETY: as above; the record fits before `start`.
    unsafe { (HEAP as *mut Heap).write(heap) };
    Some(HEAP)
}

impl State {
    /// Maps at least `bytes` more.
    fn grow(&mut self, bytes: usize) -> bool {
        let pages = (bytes as u64).div_ceil(PAGE_SIZE).saturating_add(1).max(GROWTH_PAGES);
        let room = (HEAP + HEAP_BYTES - self.mapped_end) / PAGE_SIZE;
        if pages > room {
            return false;
        }
        if let Some(provide) = self.provider {
            provide(pages + TABLES);
        }
        // SAFETY: the range lies behind what is mapped, in what the layout keeps for the heap.
        let grown = unsafe { crate::address_space::own().back_with_fresh_pages(self.mapped_end, pages) };
        if grown.is_err() {
            return false;
        }
        self.mapped_end += pages * PAGE_SIZE;
        // SAFETY: `end` is the end of the heap that `talc` was given; the memory up to the new end is mapped and free.
        self.end = unsafe { self.talc.extend(self.end, self.mapped_end as *mut u8) };
        true
    }
}

/// From now on `provider` is called with the number of pages that the heap is about to take: where budgets are filled from
/// elsewhere, it sees that so many can be had. It must not use the heap.
pub fn provide_by(provider: fn(u64)) {
    if let Some(heap) = heap() {
        let _held = heap.lock.acquire();
        // SAFETY: the lock is held.
        unsafe { (*heap.state.get()).provider = Some(provider) };
    }
}

/// Takes a place for another environment area in this address space; the result is its index.
///
/// # Errors
/// `TooMany` where all are taken, `Exhausted` without a heap.
pub fn reserve_area() -> Result<u64, Failure> {
    let areas = &heap().ok_or(Error::Exhausted.about(0))?.areas;
    for (index, word) in areas.iter().enumerate() {
        let bit = word.load(Relaxed).trailing_ones();
        if bit < u64::BITS && word.fetch_or(1 << bit, SeqCst) & 1 << bit == 0 {
            return Ok(index as u64 * 64 + u64::from(bit));
        }
    }
    Err(Error::TooMany.about(AREA_COUNT))
}

/// Gives a place back.
pub fn release_area(index: u64) {
    if let Some(heap) = heap() {
        heap.areas[index as usize / 64].fetch_and(!(1 << (index % 64)), SeqCst);
    }
}

/// Keeps everybody from the heap: its holder copies it, and asks for no memory meanwhile.
pub fn hold() -> Option<Held<'static>> {
    heap().map(|heap| heap.lock.acquire())
}

/// The heap is a copy, made while it was held elsewhere, for one environment whose area has this index.
pub fn begin_copy(area: u64) {
    if let Some(heap) = heap() {
        heap.lock.free_copy();
        for (index, word) in heap.areas.iter().enumerate() {
            word.store(if index as u64 == area / 64 { 1 << (area % 64) } else { 0 }, Relaxed);
        }
    }
}

/// What is mapped of the heap of this address space: who copies it, with nobody else at it, copies the heap.
pub fn range() -> (u64, u64) {
    heap().map_or((HEAP, HEAP), |heap| {
        let _held = heap.lock.acquire();
        // SAFETY: the lock is held.
        (HEAP, unsafe { (*heap.state.get()).mapped_end })
    })
}

/// Makes sure that there is a heap, and says where: an environment that comes to share the address space is given it.
pub fn address() -> u64 {
    heap().map_or(0, |_| Area::current().library().heap.load(Relaxed))
}
