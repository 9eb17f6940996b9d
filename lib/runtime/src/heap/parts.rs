//! A heap in parts, from which freed memory goes back wherever it lies: for an environment that lives long, and has
//! much to remember now and then.
//!
//! - Each large block has pages of its own. They have places: [`PLACES`] of each size, and sizes are powers of two. Of
//!   a large place, the pages that its block reaches into are mapped, and nothing else.
//! - All others lie in small arenas, so that a block which stays keeps the pages below it in its own arena alone.
//!
//! What finds neither place nor arena lies in the one arena of every heap. `fork` copies that one alone.

use super::arena::Arena;
use crate::layout::{HEAP_PARTS, HEAP_PARTS_BYTES};
use abi::limits::PAGE_SIZE;
use core::alloc::Layout;

/// Blocks from this size on are large, in bytes.
const SMALLEST: usize = 32 << 10;
/// Sizes of places; the largest holds [`SMALLEST`] `<< (SIZES - 1)` bytes.
const SIZES: usize = 15;
/// Of so many sizes, the smallest ones, the block that was freed last keeps its pages for the next one: these are
/// buffers, which come again at once. Such a place has all its pages.
const KEPT_SIZES: usize = 4;
/// Places of each size.
const PLACES: u32 = u32::BITS;
/// Bytes of an arena.
const ARENA_BYTES: u64 = 64 << 10;
/// Arenas.
const ARENAS: usize = 512;

/// Where the arenas begin: behind all places.
const FIRST_ARENA: u64 = HEAP_PARTS + place_offset(SIZES, 0);
const _: () = assert!(FIRST_ARENA + ARENAS as u64 * ARENA_BYTES <= HEAP_PARTS + HEAP_PARTS_BYTES);

/// What a heap in parts knows of them.
#[derive(Debug)]
pub(super) struct Parts {
    /// Which places are taken, as bits.
    taken: [u32; SIZES],
    /// Places without a block that have their pages, one of each of these sizes; 0: none has.
    kept: [u64; KEPT_SIZES],
    pub(super) arenas: [Arena; ARENAS],
}

/// Where the places of a size begin, behind all those of the smaller ones, and in them the one with this index.
const fn place_offset(size: usize, index: u64) -> u64 {
    (SMALLEST as u64 * PLACES as u64) * ((1 << size) - 1) + index * ((SMALLEST as u64) << size)
}

/// The index of the size of place that a layout gets, if it is a large block.
fn size_of_place(layout: Layout) -> Option<usize> {
    let is_large = layout.size() >= SMALLEST && layout.align() as u64 <= PAGE_SIZE;
    let size = layout.size().div_ceil(SMALLEST).checked_next_power_of_two()?.trailing_zeros() as usize;
    (is_large && size < SIZES).then_some(size)
}

/// Whether a block lies in a place of its own.
pub(super) fn has_place(block: *mut u8) -> bool {
    (HEAP_PARTS..FIRST_ARENA).contains(&(block as u64))
}

/// The pages that a large block takes.
pub(super) fn pages_of(layout: Layout) -> u64 {
    match size_of_place(layout) {
        Some(size @ ..KEPT_SIZES) => pages_of_kept(size),
        _ => (layout.size() as u64).div_ceil(PAGE_SIZE),
    }
}

const fn pages_of_kept(size: usize) -> u64 {
    ((SMALLEST as u64) << size) / PAGE_SIZE
}

impl Parts {
    /// Makes the record where it lies: it is large for a stack.
    ///
    /// # Safety
    /// The memory is a fresh block of this layout.
    pub(super) unsafe fn make_at(record: *mut Self) {
        let start = |index: usize| FIRST_ARENA + index as u64 * ARENA_BYTES;
        // SAFETY: by the contract; every field is written.
        unsafe {
            (&raw mut (*record).taken).write([0; SIZES]);
            (&raw mut (*record).kept).write([0; KEPT_SIZES]);
            for index in 0..ARENAS {
                (&raw mut (*record).arenas[index]).write(Arena::new(start(index), start(index + 1)));
            }
        }
    }

    /// Takes a place for a large block: its address, from which on nothing is mapped.
    pub(super) fn take_place(&mut self, layout: Layout) -> Option<u64> {
        let size = size_of_place(layout)?;
        let index = self.taken[size].trailing_ones();
        if index == PLACES {
            return None;
        }
        self.taken[size] |= 1 << index;
        Some(HEAP_PARTS + place_offset(size, u64::from(index)))
    }

    /// Gives back the place that begins at an address, from which on nothing is mapped any more.
    pub(super) fn give_place_back(&mut self, address: u64, layout: Layout) {
        if let Some(size) = size_of_place(layout) {
            self.free_place(address, size);
        }
    }

    fn free_place(&mut self, address: u64, size: usize) {
        let index = (address - HEAP_PARTS - place_offset(size, 0)) / ((SMALLEST as u64) << size);
        self.taken[size] &= !(1 << index);
    }

    /// A place that has its pages, for a large block.
    pub(super) fn take_kept(&mut self, layout: Layout) -> Option<u64> {
        let kept = self.kept.get_mut(size_of_place(layout)?)?;
        Some(core::mem::take(kept)).filter(|place| *place != 0)
    }

    /// Keeps a place with its pages, whose block is gone, if none of its size is kept.
    pub(super) fn keep(&mut self, address: u64, layout: Layout) -> bool {
        let kept = size_of_place(layout).and_then(|size| self.kept.get_mut(size)).filter(|kept| **kept == 0);
        kept.map(|kept| *kept = address).is_some()
    }

    /// Gives back a place that was kept: its address and its pages, which are to be freed.
    pub(super) fn give_kept_back(&mut self) -> Option<(u64, u64)> {
        let size = self.kept.iter().position(|kept| *kept != 0)?;
        let address = core::mem::take(&mut self.kept[size]);
        self.free_place(address, size);
        Some((address, pages_of_kept(size)))
    }

    /// The first arena that can grow by so many bytes.
    pub(super) fn arena_for(&mut self, bytes: usize) -> Option<&mut Arena> {
        self.arenas.iter_mut().find(|arena| arena.has_room(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts() -> Box<Parts> {
        let mut record = Box::new_uninit();
        // SAFETY: a fresh block, of which every field is written.
        unsafe {
            Parts::make_at(record.as_mut_ptr());
            record.assume_init()
        }
    }

    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes, 16).unwrap()
    }

    #[test]
    fn small_blocks_and_far_too_large_ones_get_no_place() {
        let mut parts = parts();
        for bytes in [1, SMALLEST - 1, (SMALLEST << (SIZES - 1)) + 1, isize::MAX as usize - 15] {
            assert_eq!(parts.take_place(layout(bytes)), None);
        }
        assert_eq!(parts.take_place(Layout::from_size_align(SMALLEST, 2 * PAGE_SIZE as usize).unwrap()), None);
    }

    #[test]
    fn places_lie_apart_and_are_taken_again() {
        let mut parts = parts();
        let mut taken: Vec<(u64, Layout)> = Vec::new();
        for size in 0..SIZES {
            for less in 0..PLACES as usize {
                let layout = layout((SMALLEST << size) - if size == 0 { 0 } else { less });
                taken.push((parts.take_place(layout).unwrap(), layout));
            }
            assert_eq!(parts.take_place(layout(SMALLEST << size)), None);
        }
        taken.sort_by_key(|(address, _)| *address);
        let end = |(address, layout): &(u64, Layout)| address + pages_of(*layout) * PAGE_SIZE;
        assert!(taken.windows(2).all(|pair| end(&pair[0]) <= pair[1].0));
        assert!(taken.iter().all(|block| has_place(block.0 as *mut u8) && has_place((end(block) - 1) as *mut u8)));
        for (address, layout) in taken.iter().rev() {
            parts.give_place_back(*address, *layout);
            assert_eq!(parts.take_place(*layout), Some(*address));
        }
    }

    #[test]
    fn one_place_of_each_small_size_is_kept() {
        let (mut parts, layouts) = (parts(), [layout(SMALLEST + 1), layout(2 * SMALLEST), layout(16 * SMALLEST)]);
        let places = layouts.map(|layout| parts.take_place(layout).unwrap());
        assert_eq!(parts.take_kept(layouts[0]), None);
        assert_eq!(places.map(|place| parts.keep(place, layouts[0])), [true, false, false]);
        assert!(!parts.keep(places[2], layouts[2]));
        assert_eq!((parts.take_kept(layouts[2]), parts.take_kept(layouts[1])), (None, Some(places[0])));
        assert!(parts.keep(places[0], layouts[0]));
        assert_eq!(parts.give_kept_back(), Some((places[0], pages_of(layouts[0]))));
        assert_eq!((parts.give_kept_back(), parts.take_place(layouts[1])), (None, Some(places[0])));
    }

    #[test]
    fn what_is_too_long_for_an_arena_finds_none() {
        let mut parts = parts();
        assert!(parts.arena_for(ARENA_BYTES as usize - PAGE_SIZE as usize).is_some());
        assert!(parts.arena_for(ARENA_BYTES as usize).is_none());
    }
}
