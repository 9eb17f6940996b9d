//! Where the runtime keeps things in an address space, by its own choice alone.
//!
//! ```text
//! 0x0000_0000_0040_0000  a program that stands on the runtime (link/program.ld)
//! 0x0000_7d80_0000_0000  AREA     environment areas, from here on down one every 2 MiB, so that an area is found from any
//!                                 address in it, and with each:
//!     +128 KiB               windows of this environment
//!     +512 KiB               for the library OS
//! AREA + 1 MiB           HEAP     one heap an address space, of at most 64 GiB
//! HEAP + 64 GiB          the parts of a heap in parts
//! LIBRARY_BASE + 320 GiB STACKS   one stack of at most 16 MiB every 16 MiB, an unmapped page below it
//! ```
//!
//! Environments that share an address space have areas at different addresses. The index of the area gives each its own
//! stack and its own windows, so that none of it needs a word that all of them write. One table of the lowest level
//! covers all that an environment needs which is alone in its address space and has a small heap: making it is cheap.

use abi::memory_map::LIBRARY_BASE;

/// Areas lie at multiples of this: the low bits of any address in an area lead to its beginning.
pub const AREA_ALIGNMENT: u64 = 2 << 20;
/// The area of the first environment in an address space; those of others lie below it.
pub const AREA: u64 = abi::boot::AREA;
/// Offset of an environment's windows from its area.
pub const WINDOWS: u64 = 0x2_0000;
/// Bytes of one environment's windows.
pub const WINDOW_BYTES: u64 = LIBRARY - WINDOWS;
/// Offset from the first area of what the library OS may use, up to the heap.
pub const LIBRARY: u64 = 512 << 10;
/// Where the heap begins.
pub const HEAP: u64 = AREA + (1 << 20);
/// Bytes that it can grow to.
pub const HEAP_BYTES: u64 = 64 << 30;
/// Where the parts of a heap in parts lie.
pub const HEAP_PARTS: u64 = HEAP + HEAP_BYTES;
/// Bytes of all parts.
pub const HEAP_PARTS_BYTES: u64 = 33 << 30;
/// Where stacks begin.
pub const STACKS: u64 = LIBRARY_BASE + (320 << 30);
/// Bytes that one stack can grow to.
pub const STACK_BYTES: u64 = 16 << 20;
/// Offset in an area of the lowest page of the upcall stack, which is not mapped. The kernel, which has its own alias,
/// can still push a frame there. An entry that touches the frame faults, again and again, until a frame does not fit.
/// So an overflow ends the environment, and never runs into the words below.
pub const UPCALL_GUARD: u64 = abi::area::UPCALL_STACK;
/// Areas that one address space can hold.
pub const AREA_COUNT: u64 = 4096;

/// The beginning of the area that `address` lies in.
pub const fn area_of(address: u64) -> u64 {
    address & !(AREA_ALIGNMENT - 1)
}

/// Which area of its address space lies at `area`.
pub const fn area_index(area: u64) -> u64 {
    (AREA - area) / AREA_ALIGNMENT % AREA_COUNT
}

/// Where the area with this index lies.
pub const fn area_at(index: u64) -> u64 {
    AREA - index * AREA_ALIGNMENT
}

/// End of the stack that goes with an area: the first address after it.
pub const fn stack_end(area: u64) -> u64 {
    STACKS + (area_index(area) + 1) * STACK_BYTES
}

const AREA_BYTES: u64 = (1 + abi::limits::PRIVATE_PAGES as u64) * abi::limits::PAGE_SIZE;
const _: () = assert!(AREA_BYTES <= WINDOWS && WINDOWS < LIBRARY && AREA + LIBRARY < HEAP);
const _: () = assert!(HEAP < AREA + AREA_ALIGNMENT && AREA.is_multiple_of(AREA_ALIGNMENT));
const _: () = assert!(HEAP_PARTS + HEAP_PARTS_BYTES + (95 << 30) <= LIBRARY_BASE);
const _: () = assert!(STACKS + AREA_COUNT * STACK_BYTES <= abi::memory_map::LIBRARY_END);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_of_an_area_leads_to_its_beginning() {
        for index in [0, 1, 7, AREA_COUNT - 1] {
            let area = area_at(index);
            for offset in [0, 8, 0x1000, 0x2000, AREA_BYTES - 1] {
                assert_eq!(area_of(area + offset), area);
            }
            assert_eq!(area_index(area), index);
        }
    }

    #[test]
    fn stacks_of_two_areas_do_not_meet() {
        assert_eq!(stack_end(area_at(1)) - stack_end(area_at(0)), STACK_BYTES);
        assert!(stack_end(AREA) - STACK_BYTES >= STACKS);
    }
}
