//! Plain memory: words at addresses that a program manages itself, outside everything that its own objects live in.
//!
//! Nothing need be mapped there: an access that meets no page is a page-fault upcall, whose handler may map one.

use crate::address_space::is_the_programs;
use abi::memory_map::in_user_half;

/// The word at an address.
///
/// # Panics
/// Where the address is no multiple of 8, not in the user half, or in the program's own memory.
#[inline]
pub fn load(address: u64) -> u64 {
    check(address);
    // SAFETY: no object of the program lies there; if nothing does, the access is a fault upcall.
    unsafe { (address as *const u64).read_volatile() }
}

/// Changes the word at an address.
///
/// # Panics
/// As for [`load`].
#[inline]
pub fn store(address: u64, value: u64) {
    check(address);
    // SAFETY: as for `load`.
    unsafe { (address as *mut u64).write_volatile(value) };
}

#[inline]
fn check(address: u64) {
    let good = address.is_multiple_of(8) && in_user_half(address, 8) && !is_the_programs(address, 8);
    assert!(good, "the word at {address:#x} is not plain memory");
}
