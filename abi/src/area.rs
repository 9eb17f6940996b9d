//! The environment area: what an environment and the kernel say to each other (DESIGN.md §4).
//!
//! Layout in the address space, at the address declared when the environment was created:
//!
//! ```text
//! +0x0000  public page    written by its owner, readable by all
//! +0x1000  private page   PrivateWords, then the repossession vector and the list of pages to take first
//! +0x2000  upcall stack   the other private pages, one stack, growing down from the end
//! ```
//!
//! The kernel trusts no word in it: each is checked when it is used, and the kernel uses its own alias of the page.

use crate::limits::{REPOSSESSION_ENTRIES, TAKE_FIRST_ENTRIES};
use crate::revocation::Repossessed;
use core::sync::atomic::AtomicU64;

/// Offset in the public page of the words that the library operating system keeps for others to read.
pub const PUBLIC_LIBRARY: u64 = 2048;
/// Offset in the public page of the status words that predicates of others may watch.
pub const PUBLIC_STATUS: u64 = 256;
/// Offset of the private part in the environment area.
pub const PRIVATE: u64 = 0x1000;
/// Offset of the upcall stack in the environment area.
pub const UPCALL_STACK: u64 = 0x2000;

/// Value of [`PrivateWords::ready`] of a service that waits for calls alone, and needs no predicate for that.
pub const READY_ASLEEP: u64 = 2;

/// Bit of [`PrivateWords::pending`]: a slice has begun.
pub const PENDING_SLICE_START: u64 = 1 << 0;
/// Bit of [`PrivateWords::pending`]: the slice has ended; yield as soon as the critical section is left.
pub const PENDING_SLICE_END: u64 = 1 << 1;
/// Bit of [`PrivateWords::pending`]: event bits were raised.
pub const PENDING_EVENT: u64 = 1 << 2;
/// Bit of [`PrivateWords::pending`]: a revocation was asked.
pub const PENDING_REVOCATION: u64 = 1 << 3;
/// Bit of [`PrivateWords::pending`]: the repossession vector has grown.
pub const PENDING_REPOSSESSION: u64 = 1 << 4;
/// Bit of [`PrivateWords::pending`]: an emergency revocation was asked.
pub const PENDING_EMERGENCY: u64 = 1 << 5;

/// The first private page. An entry of 0 is not declared: its upcalls wait as in a critical section. Exceptions,
/// reflected calls and the first start cannot wait, and the environment dies. Unless it says otherwise, the environment
/// writes a word and the kernel reads it.
#[repr(C)]
#[derive(Debug)]
pub struct PrivateWords {
    /// Entry for hardware exceptions.
    pub exception_entry: AtomicU64,
    /// Entry for the start of a slice; where the environment begins.
    pub slice_start_entry: AtomicU64,
    /// Entry for the end of a slice.
    pub slice_end_entry: AtomicU64,
    /// Entry for events, revocation, repossession and emergency.
    pub event_entry: AtomicU64,
    /// Entry for reflected system calls.
    pub reflection_entry: AtomicU64,
    /// Entry of a synchronous protected control transfer.
    pub synchronous_entry: AtomicU64,
    /// Entry of an asynchronous protected control transfer.
    pub asynchronous_entry: AtomicU64,
    /// PKRU while an upcall or a transfer runs; looked at where protection keys are on.
    pub upcall_pkru: AtomicU64,
    /// Not zero: in a critical section, upcalls that it defers stay pending.
    pub critical_section: AtomicU64,
    /// Set by the kernel: `PENDING_*` bits; who leaves a critical section looks at them and clears them.
    pub pending: AtomicU64,
    /// First address of the code that may make kernel calls.
    pub gate_start: AtomicU64,
    /// First address after it; 0 means that any code may.
    pub gate_end: AtomicU64,
    /// PKRU that must hold at a kernel call; looked at when `gate_pkru_checked` is not zero and protection keys are on.
    pub gate_pkru: AtomicU64,
    /// Not zero: `gate_pkru` must hold.
    pub gate_pkru_checked: AtomicU64,
    /// Not zero: may be entered by a protected control transfer. Cleared by the entry code. [`READY_ASLEEP`]: no slice
    /// of its own begins meanwhile, until it has something pending.
    pub ready: AtomicU64,
    /// Written by the kernel: number of the environment that made the last transfer to this one.
    pub caller: AtomicU64,
    /// Written by the kernel: which product of the wakeup predicate was true (counted from 0), or [`FIRED_GONE`].
    pub fired: AtomicU64,
    /// Event bits that any environment may raise.
    pub events_accepted: AtomicU64,
    /// Written by the kernel: event bits raised and not yet delivered; cleared by it on delivery.
    pub events: AtomicU64,
    /// Slot of the key ring in which a key is accepted from `key_sender`, plus one; 0: none. Cleared by the kernel.
    pub key_inbox: AtomicU64,
    /// Number of the environment that may put a key into the inbox.
    pub key_sender: AtomicU64,
    /// Written by the kernel: repossessions recorded since the beginning; the vector is a ring.
    pub repossessed: AtomicU64,
    /// Entries in use in `take_first`.
    pub take_first_count: AtomicU64,
    /// Written by the kernel at creation: the number of this environment.
    pub number: AtomicU64,
    /// Written by the kernel whenever the environment is entered by a slice: the CPU it runs on. The upper half is 0
    /// from then on, until the library writes something else there: so it learns that a slice has begun since.
    pub cpu: AtomicU64,
    /// The sign bit set: synchronous transfers are let through from anywhere, gate or no gate, and are two instructions
    /// shorter.
    pub ungated_transfers: AtomicU64,
    /// Slot of the key ring by which pages of `take_first` are saved: it reads the one page and writes the other.
    pub save_key: AtomicU64,
    /// Not used.
    pub unused: [AtomicU64; 37],
    /// Written by the kernel: what was taken by force, the n-th at index n modulo the length.
    pub repossession: [Repossessed; REPOSSESSION_ENTRIES],
    /// Pages by number (bits 0 to 31), the first to be taken first. Bits 32 to 63 name another page that the
    /// environment pays for, into which the kernel saves the contents as it takes the page; 0: none.
    pub take_first: [AtomicU64; TAKE_FIRST_ENTRIES],
}

/// Value of [`PrivateWords::fired`]: a page that the predicate watched was freed or taken.
pub const FIRED_GONE: u64 = u64::MAX;
/// Value of [`PrivateWords::fired`]: an upcall was waiting and has been delivered; wait again.
pub const FIRED_UPCALL: u64 = u64::MAX - 1;

const _: () = assert!(core::mem::offset_of!(PrivateWords, repossession) == 512);
const _: () = assert!(size_of::<PrivateWords>() <= 4096);
