//! Windows: looking into pages that lie nowhere in the address space, a few at a time.
//!
//! Others may write the same pages, so that their contents are copied, never borrowed.

use crate::address_space::{self, Access};
use crate::area::Area;
use crate::layout::{WINDOW_BYTES, WINDOWS};
use abi::limits::PAGE_SIZE;
use abi::{Error, Failure, KeyIndex, PageNumber};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};

/// Pages that one window can show.
pub const WINDOW_PAGES: usize = 64;
/// Pages of the room for windows that one bit stands for.
const UNIT_PAGES: usize = 2;
const UNIT_BYTES: u64 = UNIT_PAGES as u64 * PAGE_SIZE;
const UNITS: u32 = (WINDOW_BYTES / UNIT_BYTES) as u32;
const _: () = assert!(UNITS < u64::BITS && WINDOW_BYTES.is_multiple_of(UNIT_BYTES));

/// Pages mapped for a while; dropped, they are mapped no more.
#[derive(Debug)]
pub struct Window {
    /// The bits of its units.
    units: u64,
    address: u64,
    pages: usize,
}

impl Window {
    /// Maps up to [`WINDOW_PAGES`] pages with the right that `key` gives.
    ///
    /// # Errors
    /// The kernel's refusals of `page_map`; `TooMany` where the pages do not fit, or other windows leave no room.
    pub fn open(pages: &[PageNumber], key: KeyIndex, access: Access) -> Result<Self, Failure> {
        if pages.len() > WINDOW_PAGES {
            return Err(Error::TooMany.about(WINDOW_PAGES as u64));
        }
        let units = reserve(pages.len().div_ceil(UNIT_PAGES).max(1))?;
        let address = Area::current().address() + WINDOWS + u64::from(units.trailing_zeros()) * UNIT_BYTES;
        let window = Self { units, address, pages: pages.len() };
        let space = address_space::AddressSpace { key, ..address_space::own() };
        // SAFETY: the layout keeps this range for windows, and the slot was free.
        unsafe { space.map(address, pages, access) }?;
        Ok(window)
    }

    /// Where it lies.
    pub const fn address(&self) -> u64 {
        self.address
    }

    /// Its words.
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the pages stay mapped as long as the window is there; atomics may change under us.
        unsafe { core::slice::from_raw_parts(self.address as *const AtomicU64, self.pages * (PAGE_SIZE as usize / 8)) }
    }

    /// Copies bytes out. Panics where they do not lie in the window.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) {
        self.check(offset, bytes.len());
        // SAFETY: the range lies in the window, by the check; a volatile copy may meet a writer.
        unsafe { copy(bytes.as_mut_ptr(), (self.address as usize + offset) as *const u8, bytes.len()) };
    }

    /// Copies bytes in. Panics where they do not lie in the window.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        self.check(offset, bytes.len());
        // SAFETY: as for `read`.
        unsafe { copy((self.address as usize + offset) as *mut u8, bytes.as_ptr(), bytes.len()) };
    }

    fn check(&self, offset: usize, bytes: usize) {
        let end = offset.checked_add(bytes);
        assert!(end.is_some_and(|end| end <= self.pages * PAGE_SIZE as usize), "the bytes do not lie in the window");
    }
}

/// A copy that the compiler knows nothing about: words, then the bytes that are left.
///
/// # Safety
/// Both ranges are mapped; the target may be written.
unsafe fn copy(to: *mut u8, from: *const u8, bytes: usize) {
    // SAFETY: as the caller says; only the named registers change, and DF is clear.
    unsafe {
        core::arch::asm!(
            "rep movsq",
            "mov rcx, {rest}",
            "rep movsb",
            rest = in(reg) bytes % 8,
            inout("rdi") to => _, inout("rsi") from => _, inout("rcx") bytes / 8 => _,
            options(nostack, preserves_flags)
        );
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: nothing borrows from the window any more.
        let _ = unsafe { address_space::own().unmap(self.address, self.pages as u64) };
        Area::current().library().windows.fetch_and(!self.units, SeqCst);
    }
}

/// Takes so many units in a row: their bits.
fn reserve(count: usize) -> Result<u64, Failure> {
    let windows = &Area::current().library().windows;
    loop {
        let used = windows.load(Relaxed);
        let wanted = (1u64 << count) - 1;
        let free = |at: &u32| used & wanted << at == 0;
        let Some(at) = (0..=UNITS - count as u32).find(free) else {
            return Err(Error::TooMany.about(u64::from(UNITS)));
        };
        if windows.compare_exchange(used, used | wanted << at, SeqCst, Relaxed).is_ok() {
            return Ok(wanted << at);
        }
    }
}
