//! The heap: `talc` over pages that are mapped when they are needed. One an address space; who shares it, locks it.
//! Small blocks come in sizes of [`CLASS_BYTES`] apart. Of each size, those that were freed last are given out first,
//! without a search: most allocations live as long as one call.
//!
//! It lies in one arena, which `fork` copies. A heap that lies [`in_parts`] gives back what was freed anywhere in it.
//!
//! A handler of exceptions must not allocate: the exception may have come from within the allocator.

mod arena;
mod mapping;
mod parts;

use self::arena::{Arena, Blocks, GROWTH_PAGES};
use self::mapping::Provider;
use self::parts::Parts;
use crate::area::Area;
use crate::critical_section::{self, CriticalSection};
use crate::layout::{AREA_COUNT, HEAP, HEAP_BYTES};
use crate::lock::{Held, OwnerLock};
use abi::limits::PAGE_SIZE;
use abi::{Error, Failure};
use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ptr::null_mut;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use talc::base::Talc;
use talc::source::Manual;

/// Bytes that are left free at the end, at least, when it is made shorter.
const MARGIN: u64 = PAGE_SIZE / 2;

/// Lies in the first page of the heap itself.
struct Heap {
    lock: OwnerLock,
    state: UnsafeCell<State>,
    /// Places for environment areas in this address space that are taken, as bits.
    areas: [AtomicU64; AREA_COUNT as usize / 64],
}

/// Bytes of freed blocks after which the ends of arenas are looked at: what is free there goes back. Larger blocks than
/// SMALL do not count: they are buffers, and come again at once.
const FREED: usize = 1 << 20;
const SMALL: usize = 1 << 10;

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
    talc: Blocks,
    /// The arena of every heap.
    arena: Arena,
    /// See [`provide_by`].
    provider: Provider,
    /// Bytes of small blocks freed since the ends of arenas were looked at.
    freed: usize,
    /// See [`in_parts`].
    parts: Option<&'static mut Parts>,
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
    unsafe { (*heap.state.get()).give_up(memory, class_of(layout).map_or(layout, layout_of)) };
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
    let (mut talc, mut arena) = (Talc::new(Manual), Arena::mapped(start, HEAP + bytes, HEAP + HEAP_BYTES));
    // SAFETY: the memory behind the record was just mapped and belongs to nobody else.
    if !unsafe { arena.grow(&mut talc, 0, None) } {
        return None;
    }
    let state = State { recent: [Recent::NONE; CLASSES], talc, arena, provider: None, freed: 0, parts: None };
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
        if let Some(parts) = &mut self.parts {
            if let Some(place) = parts.take_kept(layout) {
                return place as *mut u8;
            }
            if let Some(place) = parts.take_place(layout) {
                return self.fill_place(place, layout);
            }
        }
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

    /// A large block in its place; null where there are no pages for it.
    fn fill_place(&mut self, place: u64, layout: Layout) -> *mut u8 {
        // SAFETY: the place was free, so that nothing is mapped there.
        if unsafe { mapping::map(place, parts::pages_of(layout), self.provider) } {
            return place as *mut u8;
        }
        self.give_place_back(place, layout);
        null_mut()
    }

    fn give_place_back(&mut self, place: u64, layout: Layout) {
        if let Some(parts) = &mut self.parts {
            parts.give_place_back(place, layout);
        }
    }

    /// Gives up a block.
    ///
    /// # Safety
    /// `search` made it of this layout, and no code uses it.
    unsafe fn give_up(&mut self, block: *mut u8, layout: Layout) {
        if parts::has_place(block) {
            // SAFETY: by the contract.
            return unsafe { self.give_up_place(block as u64, layout) };
        }
        // SAFETY: by the contract.
        unsafe { self.talc.deallocate(block, layout) };
        if layout.size() <= SMALL {
            self.freed += layout.size();
            if self.freed >= FREED {
                self.release_ends();
            }
        }
    }

    /// Gives up the block of a place.
    ///
    /// # Safety
    /// As for [`Self::give_up`].
    unsafe fn give_up_place(&mut self, place: u64, layout: Layout) {
        if !self.parts.as_mut().is_some_and(|parts| parts.keep(place, layout)) {
            // SAFETY: the place has the pages of its block, and nothing else.
            unsafe { mapping::free(place, parts::pages_of(layout)) };
            self.give_place_back(place, layout);
        }
    }

    /// Has room for at least `bytes` more: what is mapped and not in use, or further pages.
    fn grow(&mut self, bytes: usize) -> bool {
        let arena = self.parts.as_mut().and_then(|parts| parts.arena_for(bytes)).unwrap_or(&mut self.arena);
        // SAFETY: the lock is held.
        unsafe { arena.grow(&mut self.talc, bytes, self.provider) }
    }

    /// Takes the pages at the end from `talc` of which nothing is in use, but for some room.
    fn make_shorter(&mut self) {
        // SAFETY: the lock is held.
        unsafe { self.arena.make_shorter(&mut self.talc, MARGIN) };
    }

    /// Frees the pages at the ends of all arenas in which nothing is in use: how many. Kept places go back, too.
    fn release_ends(&mut self) -> u64 {
        self.freed = 0;
        while let Some((place, pages)) = self.parts.as_mut().and_then(|parts| parts.give_kept_back()) {
            // SAFETY: no block lies there.
            unsafe { mapping::free(place, pages) };
        }
        self.release_kept();
        self.make_shorter();
        let mut freed = self.arena.free_end(self.parts.is_some());
        for arena in self.parts.iter_mut().flat_map(|parts| &mut parts.arenas) {
            // SAFETY: the lock is held.
            unsafe { arena.make_shorter(&mut self.talc, 0) };
            freed += arena.free_end(true);
        }
        freed
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

/// From now on the heap lies in parts: what is freed goes back wherever it lies. It is for environments that live long,
/// may free each other's pages, and are never copied by `fork`.
pub fn in_parts() {
    let Some(heap) = heap() else { return };
    let _held = heap.lock.acquire();
    // SAFETY: the lock is held.
    let state = unsafe { &mut *heap.state.get() };
    let record: *mut Parts = state.search(Layout::new::<Parts>()).cast();
    if state.parts.is_none() && !record.is_null() {
        // SAFETY: a fresh block of this layout, which is never given up.
        state.parts = Some(unsafe {
            Parts::make_at(record);
            &mut *record
        });
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
        state.arena.begin_copy();
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
        ((state.arena.used_end() - HEAP) / PAGE_SIZE) as usize
    })
}

/// Frees the pages at the end of the heap in which nothing is in use: how many. Where another environment is at the
/// heap, none.
pub fn release_end() -> u64 {
    let Some(heap) = made() else { return 0 };
    let Some(_held) = heap.lock.try_acquire() else { return 0 };
    // SAFETY: the lock is held.
    unsafe { (*heap.state.get()).release_ends() }
}

/// What is in use of the heap of this address space, in whole pages.
pub fn range() -> (u64, u64) {
    range_of_held(&hold())
}

/// The same for the holder of the heap, who copies it.
pub fn range_of_held(_held: &Option<Held<'static>>) -> (u64, u64) {
    // SAFETY: the lock is held.
    heap().map_or((HEAP, HEAP), |heap| (HEAP, unsafe { (*heap.state.get()).arena.used_end() }))
}

/// Makes sure that there is a heap, and says where: an environment that comes to share the address space is given it.
pub fn address() -> u64 {
    heap().map_or(0, |_| Area::current().library().heap.load(Relaxed))
}
