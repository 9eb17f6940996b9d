//! I/O ports: one instruction each.

use core::arch::asm;

/// Writes a byte.
///
/// # Safety
/// What the device behind the port does with the value is the caller's responsibility.
pub(crate) unsafe fn write_u8(port: u16, value: u8) {
    // SAFETY: the caller vouches for the device.
    unsafe { asm!("out dx, al", in("dx") port, in("al") value, options(nostack, preserves_flags)) };
}

/// Reads a byte.
///
/// # Safety
/// As for [`write_u8`]: reading can have effects.
pub(crate) unsafe fn read_u8(port: u16) -> u8 {
    let value;
    // SAFETY: the caller vouches for the device.
    unsafe { asm!("in al, dx", in("dx") port, out("al") value, options(nostack, preserves_flags)) };
    value
}

/// Writes four bytes.
///
/// # Safety
/// As for [`write_u8`].
pub(crate) unsafe fn write_u32(port: u16, value: u32) {
    // SAFETY: the caller vouches for the device.
    unsafe { asm!("out dx, eax", in("dx") port, in("eax") value, options(nostack, preserves_flags)) };
}

/// Reads four bytes.
///
/// # Safety
/// As for [`write_u8`].
pub(crate) unsafe fn read_u32(port: u16) -> u32 {
    let value;
    // SAFETY: the caller vouches for the device.
    unsafe { asm!("in eax, dx", in("dx") port, out("eax") value, options(nostack, preserves_flags)) };
    value
}
