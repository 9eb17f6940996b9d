//! The heap: `talc` over pages that are mapped when they are needed. One an address space; who shares it, locks it.
//! Small blocks come in sizes of [`CLASS_BYTES`] apart. Of each size, those that were freed last are given out first,
//! without a search: most allocations live as long as one call.
//!
//! A handler of exceptions must not allocate: the exception may have come from within the allocator.

use crate::area::{self, Area};
use crate::critical_section::{self, CriticalSection};
use crate::exposed;
use crate::layout::{AREA_COUNT, HEAP, HEAP_BYTES};
use crate::lock::{Held, OwnerLock};
use abi::limits::PAGE_SIZE;
use abi::{Error, Failure, PageNumber};
use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use talc::DefaultBinning;
use talc::base::Talc;
use talc::source::Manual;

/// Pages that the heap begins with, and grows by at least.
const GROWTH_PAGES: u64 = 2;
/// Bytes that are left free at the end, at least, when it is made shorter.
const MARGIN: u64 = PAGE_SIZE / 2;
/// Pages of page tables that growing may take in addition to one for so many pages.
const TABLES: u64 = 4;
const IN_A_TABLE: u64 = 512;
/// Pages that are given back at once.
const GIVEN_AT_ONCE: u64 = 32;
/// More pages than there can be.
const TOO_MANY: u64 = u64::MAX >> 1;

/// Lies in the first page of the heap itself.
struct Heap {
    lock: OwnerLock,
    state: UnsafeCell<State>,
    /// Places for environment areas in this address space that are taken, as bits.
    areas: [AtomicU64; AREA_COUNT as usize / 64],
}

/// Sizes of small blocks are multiples of this.
const CLASS_BYTES: usize = 32;
/// How many such sizes there are: the largest holds what ExOS notes of 64 pages.
const CLASSES: usize = 17;
/// Blocks of a size that are kept.
const KEPT: usize = 8;
/// Alignment of small blocks.
const CLASS_ALIGNMENT: usize = 16;

/// Free blocks of one size: each begins with the address of the next.
#[derive(Clone, Copy)]
struct Recent {
    first: *mut Free,
    /// How many more may be kept.
    room: usize,
}

/// A block that is kept.
struct Free {
    next: *mut Self,
}

impl Recent {
    const NONE: Self = Self { first: null_mut(), room: KEPT };

    /// The block that was kept last; null: none is.
    #[inline]
    fn take(&mut self) -> *mut u8 {
        let block = self.first;
        if !block.is_null() {
            // SAFETY: a kept block is nobody's, and begins with this, as `keep` wrote it.
            self.first = unsafe { (*block).next };
            self.room = self.room.wrapping_add(1);
        }
        block.cast()
    }

    /// Keeps a block, if there is room.
    ///
    /// # Safety
    /// It is one of this size, which no code uses.
    #[inline]
    unsafe fn keep(&mut self, block: *mut u8) -> bool {
        let Some(room) = self.room.checked_sub(1) else { return false };
        let block: *mut Free = block.cast();
        // SAFETY: by the contract; every size has room for this word, and every block is aligned for it.
        unsafe { block.write(Free { next: self.first }) };
        (self.first, self.room) = (block, room);
        true
    }
}

struct State {
    recent: [Recent; CLASSES],
    talc: Talc<Manual, DefaultBinning>,
    /// End of what `talc` was given.
    end: NonNull<u8>,
    /// End of what is mapped, which may be behind that.
    mapped_end: u64,
    /// See [`provide_by`].
    provider: Option<fn(u64) -> bool>,
}

/// The allocator of every program: finds the heap by the environment area.
#[derive(Debug)]
pub struct Allocator;

#[cfg(target_os = "none")]
#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

// SAFETY: `talc` keeps to the contract; each address space has one heap, and its lock lets one caller in at a time.
unsafe impl GlobalAlloc for Allocator {
    // Both are short where a block is kept, or there is room for one, and no other thread is at the heap. They end with
    // calls for all other cases, so that no register need be saved.
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (Some(class), Some(heap)) = (class_of(layout), made()) else { return search(layout, None) };
        let section = critical_section::enter();
        if !heap.lock.take_free() {
            return search(layout, Some(section));
        }
        // SAFETY: the lock is held.
        let block = unsafe { (*heap.state.get()).recent[class].take() };
        heap.lock.give_back();
        if block.is_null() {
            return search(layout, Some(section));
        }
        if section.close() { delivered(block) } else { block }
    }

    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if let (Some(class), Some(heap)) = (class_of(layout), made()) {
            let section = critical_section::enter();
            if !heap.lock.take_free() {
                // SAFETY: by the contract of `dealloc`.
                return unsafe { give_back(memory, layout, Some(section)) };
            }
            // SAFETY: the lock is held; the block is of this size, and its user gives it up.
            let is_kept = unsafe { (*heap.state.get()).recent[class].keep(memory) };
            heap.lock.give_back();
            if !is_kept {
                // SAFETY: as above.
                unsafe { give_back(memory, layout, Some(section)) };
            } else if section.close() {
                critical_section::deliver_pending();
            }
            return;
        }
        // SAFETY: as above.
        unsafe { give_back(memory, layout, None) };
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: by the contract of `realloc`, the new size is good with the old alignment.
        let new_layout = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        let class = class_of(layout);
        if class.is_some() && class == class_of(new_layout) {
            return memory;
        }
        // SAFETY: as for the default of this method: the block is copied, as far as both reach, into a fresh one.
        unsafe {
            let new = self.alloc(new_layout);
            if !new.is_null() {
                core::ptr::copy_nonoverlapping(memory, new, layout.size().min(new_size));
                self.dealloc(memory, layout);
            }
            new
        }
    }
}

/// The size of small blocks that a layout gets, if it gets one; the size is not zero.
const fn class_of(layout: Layout) -> Option<usize> {
    let class = layout.size().wrapping_sub(1) / CLASS_BYTES;
    if class < CLASSES && layout.align() <= CLASS_ALIGNMENT { Some(class) } else { None }
}

/// What is allocated for a size of small blocks.
const fn layout_of(class: usize) -> Layout {
    // SAFETY: the alignment is a power of two, and the size small.
    unsafe { Layout::from_size_align_unchecked((class + 1) * CLASS_BYTES, CLASS_ALIGNMENT) }
}

/// A block of which none is kept; null where there is none.
#[cold]
#[inline(never)]
fn search(layout: Layout, section: Option<CriticalSection>) -> *mut u8 {
    drop(section);
    let Some(heap) = heap() else { return null_mut() };
    let _held = heap.lock.acquire();
    // SAFETY: the lock is held.
    unsafe { (*heap.state.get()).search(class_of(layout).map_or(layout, layout_of)) }
}

/// A block that is given out when what is pending has been delivered.
#[cold]
#[inline(never)]
fn delivered(block: *mut u8) -> *mut u8 {
    critical_section::deliver_pending();
    block
}

/// Gives up a block that is not kept.
///
/// # Safety
/// As for `dealloc`.
#[cold]
#[inline(never)]
unsafe fn give_back(memory: *mut u8, layout: Layout, section: Option<CriticalSection>) {
    drop(section);
    let Some(heap) = heap() else { return };
    let _held = heap.lock.acquire();
    // SAFETY: the lock is held, and `search` made the block of this layout.
    unsafe { (*heap.state.get()).talc.deallocate(memory, class_of(layout).map_or(layout, layout_of)) };
}

/// The heap of this address space; made when it is first asked for.
#[inline]
fn heap() -> Option<&'static Heap> {
    made().or_else(create)
}

/// The heap of this address space, if it was asked for.
#[inline]
fn made() -> Option<&'static Heap> {
    // SAFETY: the word is either 0 or the address of a heap that was made by `create` and never goes away.
    unsafe { (Area::current().library().heap.load(Acquire) as *const Heap).as_ref() }
}

/// Maps the first pages and puts the heap's own record at their beginning.
#[cold]
fn create() -> Option<&'static Heap> {
    let bytes = GROWTH_PAGES * PAGE_SIZE;
    // SAFETY: the layout keeps this range for the heap, and there is none yet.
    unsafe { crate::address_space::own().back_with_fresh_pages(HEAP, GROWTH_PAGES) }.ok()?;
    let start = HEAP + (size_of::<Heap>() as u64).next_multiple_of(64);
    let mut talc = Talc::new(Manual);
    // SAFETY: the memory behind the record was just mapped and belongs to nobody else.
    let end = unsafe { talc.claim(start as *mut u8, (HEAP + bytes - start) as usize) }?;
    let state = State { recent: [Recent::NONE; CLASSES], talc, end, mapped_end: HEAP + bytes, provider: None };
    let heap = Heap { lock: OwnerLock::new(), state: UnsafeCell::new(state), areas: [const { AtomicU64::new(0) }; _] };
    heap.areas[0].store(1, Relaxed);
    // SAFETY: as above; the record fits before `start`.
    unsafe { (HEAP as *mut Heap).write(heap) };
    Area::current().library().heap.store(HEAP, Release);
    made()
}

impl State {
    /// A fresh block. The size is not zero, by the contract of `alloc`.
    fn search(&mut self, layout: Layout) -> *mut u8 {
        loop {
            // SAFETY: the size is not zero.
            if let Some(memory) = unsafe { self.talc.try_allocate(layout) } {
                return memory.as_ptr();
            }
            if !self.grow(layout.size() + layout.align()) {
                return null_mut();
            }
        }
    }

    /// Has room for at least `bytes` more: what is mapped and not in use, or further pages.
    fn grow(&mut self, bytes: usize) -> bool {
        if self.used_end() >= self.mapped_end && !self.map_more(bytes) {
            return false;
        }
        // SAFETY: `end` is the end of the heap that `talc` was given; the memory up to the new end is mapped and free.
        self.end = unsafe { self.talc.extend(self.end, self.mapped_end as *mut u8) };
        true
    }

    /// Where the pages end that `talc` was given.
    fn used_end(&self) -> u64 {
        (self.end.as_ptr() as u64).next_multiple_of(PAGE_SIZE)
    }

    /// Takes the pages at the end from `talc` of which nothing is in use, but for some room.
    fn make_shorter(&mut self) {
        // SAFETY: `end` is the end of the heap that `talc` was given.
        let reserved = unsafe { self.talc.reserved(self.end) }.up_to.as_ptr() as u64;
        let wanted = (reserved + MARGIN).next_multiple_of(PAGE_SIZE);
        if wanted < self.used_end() {
            // SAFETY: as above. There is more than nothing left.
            self.end = unsafe { self.talc.truncate(self.end, wanted as *mut u8) }.unwrap_or(self.end);
        }
    }

    /// Gives the kept blocks back to `talc`, which can then take them together with their neighbours.
    fn release_kept(&mut self) {
        for class in 0..CLASSES {
            loop {
                let block = self.recent[class].take();
                if block.is_null() {
                    break;
                }
                // SAFETY: a kept block was allocated with the layout of its class, and is not in use.
                unsafe { self.talc.deallocate(block, layout_of(class)) };
            }
        }
    }

    /// Frees the pages behind what `talc` has: how many. It stops at a page that is another environment's.
    fn free_end(&mut self) -> u64 {
        let (space, mut freed) = (crate::address_space::own(), 0);
        while self.used_end() < self.mapped_end {
            // All of them in one table.
            let from = self.used_end().max((self.mapped_end - 1) & !(IN_A_TABLE * PAGE_SIZE - 1));
            let count = ((self.mapped_end - from) / PAGE_SIZE).min(GIVEN_AT_ONCE);
            let (start, mut pages) = (self.mapped_end - count * PAGE_SIZE, [PageNumber::NONE; GIVEN_AT_ONCE as usize]);
            let pages = &mut pages[..count as usize];
            let is_own = |page: &PageNumber| exposed::page(*page).is_some_and(|info| info.owner() == area::number());
            // SAFETY: nothing lies behind what `talc` has, and the lock is held.
            if !space.pages_at(start, pages)
                || !pages.iter().all(is_own)
                || unsafe { space.unmap(start, count) }.is_err()
            {
                break;
            }
            self.mapped_end = start;
            freed += pages.iter().filter(|page| space.tables.free(**page).is_ok()).count() as u64;
        }
        freed
    }

    /// Maps at least `bytes` more.
    fn map_more(&mut self, bytes: usize) -> bool {
        let pages = (bytes as u64).div_ceil(PAGE_SIZE).saturating_add(1).max(GROWTH_PAGES);
        let room = (HEAP + HEAP_BYTES - self.mapped_end) / PAGE_SIZE;
        if pages > room {
            return false;
        }
        if self.provider.is_some_and(|provide| !provide(pages + pages / IN_A_TABLE + TABLES)) {
            return false;
        }
        // SAFETY: the range lies behind what is mapped, in what the layout keeps for the heap.
        let grown = unsafe { crate::address_space::own().back_with_fresh_pages(self.mapped_end, pages) };
        if grown.is_err() {
            // They could be had, and are not there: who provides hears that it is so.
            let _ = self.provider.map(|provide| provide(TOO_MANY));
            return false;
        }
        self.mapped_end += pages * PAGE_SIZE;
        true
    }
}

/// From now on `provider` is called with the number of pages that the heap is about to take. Where budgets are filled
/// from elsewhere, it ensures that so many can be had, and says whether they can. It must not use the heap, which is
/// locked.
pub fn provide_by(provider: fn(u64) -> bool) {
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
        let areas = core::ptr::from_ref(&heap.areas).cast_mut();
        // SAFETY: words of the heap's own page, changed as atomics are; nobody else is in this address space yet.
        unsafe { areas.write_bytes(0, 1) };
        heap.areas[area as usize / 64].store(1 << (area % 64), Relaxed);
        // SAFETY: nobody else is in this address space yet.
        let state = unsafe { &mut *heap.state.get() };
        state.mapped_end = state.used_end();
    }
}

/// Makes the used part shorter, for a caller that is about to copy it; the pages behind it stay here. The result is how
/// many pages are in use.
pub fn make_shorter() -> usize {
    heap().map_or(0, |heap| {
        let _held = heap.lock.acquire();
        // SAFETY: the lock is held.
        let state = unsafe { &mut *heap.state.get() };
        state.make_shorter();
        ((state.used_end() - HEAP) / PAGE_SIZE) as usize
    })
}

/// Frees the pages at the end of the heap in which nothing is in use: how many. Where another environment is at the
/// heap, none.
pub fn release_end() -> u64 {
    let Some(heap) = made() else { return 0 };
    let Some(_held) = heap.lock.try_acquire() else { return 0 };
    // SAFETY: the lock is held.
    let state = unsafe { &mut *heap.state.get() };
    state.release_kept();
    state.make_shorter();
    state.free_end()
}

/// What is in use of the heap of this address space, in whole pages.
pub fn range() -> (u64, u64) {
    range_of_held(&hold())
}

/// The same for the holder of the heap, who copies it.
pub fn range_of_held(_held: &Option<Held<'static>>) -> (u64, u64) {
    // SAFETY: the lock is held.
    heap().map_or((HEAP, HEAP), |heap| (HEAP, unsafe { (*heap.state.get()).used_end() }))
}

/// Makes sure that there is a heap, and says where: an environment that comes to share the address space is given it.
pub fn address() -> u64 {
    heap().map_or(0, |_| Area::current().library().heap.load(Relaxed))
}
