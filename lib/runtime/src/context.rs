//! Execution context of this environment: its vector unit, its protection keys, its segment bases.

use crate::syscall::context_set;
use abi::Failure;
use abi::environment::ContextPart;

/// Switches the vector unit on or off.
///
/// # Errors
/// None that the kernel has.
#[inline]
pub fn set_vector(on: bool) -> Result<(), Failure> {
    set(ContextPart::Vector, on)
}

/// Switches the protection keys on or off.
///
/// # Errors
/// This machine has none.
#[inline]
pub fn set_protection_keys(on: bool) -> Result<(), Failure> {
    set(ContextPart::ProtectionKeys, on)
}

fn set(part: ContextPart, on: bool) -> Result<(), Failure> {
    // SAFETY: neither part changes what lies at an address.
    unsafe { context_set(part as u64, u64::from(on)) }
}

/// Sets the base of FS, where the CPU has no instruction for it.
///
/// # Errors
/// The address is not in the user half.
///
/// # Safety
/// The program finds at the new base what it looks for through FS.
#[inline]
pub unsafe fn set_fs_base(base: u64) -> Result<(), Failure> {
    // SAFETY: the caller answers for the base.
    unsafe { context_set(ContextPart::FsBase as u64, base) }
}

/// Sets the base of GS, where the CPU has no instruction for it.
///
/// # Errors
/// The address is not in the user half.
///
/// # Safety
/// The runtime finds its private page at the new base whenever it runs.
#[inline]
pub unsafe fn set_gs_base(base: u64) -> Result<(), Failure> {
    // SAFETY: the caller answers for the base.
    unsafe { context_set(ContextPart::GsBase as u64, base) }
}
