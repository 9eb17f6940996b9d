//! Where the kernel's half of every address space puts what: the picture and its constants.
//!
//! ```text
//! ffff_8000_0000_0000  direct map: physical address p is at DIRECT_MAP + p, never executable
//! ffff_c000_0000_0000  exposed structures, readable by all             (`exposed`)
//! ffff_d000_0000_0000  the records of pages once more, writable        (PAGE_RECORDS)
//! ffff_e000_0000_0000  the code arena to execute, where there is a network (CODE_ARENA)
//! ffff_e000_4000_0000  the code arena of storage, where there is a disk (STORAGE_ARENA)
//! ffff_ff80_0000_0000  kernel stacks, each below an unmapped guard page   (STACKS)
//! ffff_ffff_8000_0000  kernel image: physical address p is at IMAGE + p   (IMAGE)
//! ```
//! The top-level entries of all of these are made at boot and never change after it. So every address space can share
//! them by copying the upper half of the kernel's root table.

/// Bytes of the smallest page.
pub const PAGE_SIZE: u64 = abi::limits::PAGE_SIZE;
/// Bytes of a page mapped by a page directory entry.
pub const LARGE_PAGE_SIZE: u64 = 2 << 20;
/// Bytes of a page mapped by a page directory pointer entry.
pub const HUGE_PAGE_SIZE: u64 = 1 << 30;

/// First virtual address of the direct map.
pub const DIRECT_MAP: u64 = abi::memory_map::DIRECT_MAP;
/// Highest physical address (exclusive) the direct map has room for: 64 TiB.
pub const PHYSICAL_LIMIT: u64 = 1 << 46;
/// First virtual address of the kernel's own alias of the exposed records of pages.
pub const PAGE_RECORDS: u64 = 0xffff_d000_0000_0000;
/// First virtual address of the code arena.
pub const CODE_ARENA: u64 = 0xffff_e000_0000_0000;
/// First virtual address of the code arena of storage.
pub const STORAGE_ARENA: u64 = CODE_ARENA + (1 << 30);
/// First virtual address of the kernel stacks.
pub const STACKS: u64 = 0xffff_ff80_0000_0000;
/// Virtual address of physical address zero as the linker sees it.
pub const IMAGE: u64 = abi::memory_map::KERNEL_IMAGE;

/// Virtual address of a physical address in the direct map.
#[cfg(target_os = "none")]
pub const fn direct(physical: u64) -> u64 {
    assert!(physical < PHYSICAL_LIMIT);
    DIRECT_MAP + physical
}

#[cfg(not(target_os = "none"))]
pub use crate::host_machine::direct;

/// Largest multiple of `alignment` (a power of two) not above `address`.
pub const fn align_down(address: u64, alignment: u64) -> u64 {
    address & !(alignment - 1)
}

/// Smallest multiple of `alignment` (a power of two) not below `address`; none if it overflows.
pub const fn align_up(address: u64, alignment: u64) -> Option<u64> {
    match address.checked_add(alignment - 1) {
        Some(sum) => Some(align_down(sum, alignment)),
        None => None,
    }
}
