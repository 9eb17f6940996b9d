//! The address space of a Linux process under ExOS.
//!
//! ```text
//! 0x7e80_0000_0000  the library's top-level slot (abi::memory_map::LIBRARY_BASE): processes share its tables
//!     +0 GiB            the ExOS image: text and constants, one copy for all processes
//!     +1 GiB            what the server shows to all of them
//!     +32 GiB           shared windows of the server, which lives in the session's address space
//!     +64 GiB           pages of files, as the server sees them
//! 0x7d80_0000_0000  what a process has for itself: area, windows and heap of the runtime (runtime::layout)
//!     +512 KiB          shared windows that children get, too: pipes, file offsets, mailboxes
//!     +832 KiB          windows of its own: what its children are made of, its parent's mailbox, messages to servers
//!     +127 GiB          what a new process is told at its birth
//!     +128 GiB          more shared windows
//!     +160 GiB          more windows of its own
//! 0x7d7e_0000_0000  areas of further threads, from above
//! 0x7d00_0000_0000  end of what a program may have: from above, what it wishes for and what has no room below
//! 0x0080_0000_0000  end of what ExOS gives out by itself: one top-level slot, so that fork links one table
//!     stack, growing down
//!     mmap, growing down from below the stack
//!     brk, growing up behind the program
//! 0x0000_0001_0000  smallest address that mmap gives out
//! ```

use abi::boot::AREA;
use abi::memory_map::{LIBRARY_BASE, TOP_LEVEL_SLOT};

/// Bytes in a page.
pub const PAGE_SIZE: u64 = abi::limits::PAGE_SIZE;
/// Clears the offset in a page.
pub const PAGE_MASK: u64 = !(PAGE_SIZE - 1);

/// End of the addresses that a program may ask for.
pub const PROGRAM_END: u64 = 0x0000_7d00_0000_0000;
/// End of the addresses that ExOS chooses by itself, as long as there is room below.
pub const CHOSEN_END: u64 = TOP_LEVEL_SLOT;
/// Smallest address that `mmap` gives out.
pub const LEAST_ADDRESS: u64 = 0x1_0000;
/// Where a movable program without an interpreter, or with one, is put.
pub const MOVABLE_BASE: u64 = 0x0000_0055_5555_0000;
/// Top of the first stack.
pub const STACK_TOP: u64 = CHOSEN_END - 0x1_0000;
/// Bytes that the stack may grow to (the usual RLIMIT_STACK).
pub const STACK_BYTES: u64 = 8 << 20;
/// Bytes that it may grow to whatever its limit.
pub const STACK_MOST: u64 = STACK_BYTES + (256 << 20);
/// `mmap` gives out addresses below this one, downwards.
pub const MMAP_TOP: u64 = STACK_TOP - STACK_MOST;

/// The ExOS image.
pub const IMAGE: u64 = LIBRARY_BASE;
/// End of the room for the image.
pub const IMAGE_END: u64 = LIBRARY_BASE + GIB;
/// What the server shows to all processes, in the tables of the image: its notice page, then the catalogue of names and
/// nodes.
pub const SHOWN: u64 = IMAGE_END;
/// Where a new process finds what it is told.
pub const BIRTH: u64 = AREA + 127 * GIB;
/// Shared windows, next to the area of the process: the tables for them are there.
pub const NEAR_WINDOWS: u64 = AREA + (512 << 10);
/// End of the room for them. Here is the mailbox of the parent in each process that a fork made.
pub const PARENT_MAILBOX: u64 = NEAR_WINDOWS + (320 << 10);
/// Windows of a process's own.
pub const NEAR_OWN_WINDOWS: u64 = PARENT_MAILBOX + PAGE_SIZE;
/// End of the room for them.
pub const NEAR_WINDOWS_END: u64 = AREA + (1 << 20);
/// More shared windows.
pub const WINDOWS: u64 = AREA + 128 * GIB;
/// More of a process's own, and the end of the room for those that are shared.
pub const OWN_WINDOWS: u64 = AREA + 160 * GIB;
/// End of the room for windows.
pub const WINDOWS_END: u64 = AREA + 192 * GIB;
/// Shared windows of the server.
pub const SERVER_WINDOWS: u64 = LIBRARY_BASE + 32 * GIB;
/// End of the room for them.
pub const SERVER_WINDOWS_END: u64 = LIBRARY_BASE + 64 * GIB;
/// Where the server has the pages of files.
pub const FILES: u64 = LIBRARY_BASE + 64 * GIB;
/// End of the room for them.
pub const FILES_END: u64 = LIBRARY_BASE + 256 * GIB;
/// Private pages of an environment area: one page of words, one that is not mapped (`runtime::layout::UPCALL_GUARD`),
/// and the stack that ExOS runs on.
pub const AREA_PRIVATE_PAGES: usize = 14;

const GIB: u64 = 1 << 30;

const _: () = assert!(AREA_PRIVATE_PAGES <= abi::limits::PRIVATE_PAGES);

/// `address` rounded up to a page; `None` past the end.
pub const fn page_up(address: u64) -> Option<u64> {
    match address.checked_add(PAGE_SIZE - 1) {
        Some(sum) => Some(sum & PAGE_MASK),
        None => None,
    }
}
