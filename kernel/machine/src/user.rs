//! Copies between the kernel and the memory of the environment that called it, through the user's own address, once,
//! under the user's PKRU. The models are hubris `umem.rs` and xv6's `copyin`.
//!
//! A fault inside a copy lands at a fix-up (`entry.s`) and comes back as [`UserFault`]; nothing of the kernel is torn,
//! because callers copy in before they change anything. Bytes of data in a buffer for devices are the exception.

use crate::dma::DeviceBuffer;
use crate::per_cpu::entry_state;
use abi::UserAddress;
use abi::memory_map::in_user_half;
use abi::page_table::MapRow;
use core::mem::MaybeUninit;
use core::sync::atomic::Ordering;

/// The page fault that a copy ran into, as an upcall tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserFault {
    /// CR2.
    pub address: u64,
    /// Error code, as if user code had made the access.
    pub error: u64,
}

/// Why a copy failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyError {
    /// The range is not in the user half.
    OutOfRange,
    /// The memory is not there, or not writable.
    Fault(UserFault),
}

/// Plain data: any bytes are a value.
///
/// # Safety
/// The type has no padding and every bit pattern is valid.
pub unsafe trait Plain: Copy {}

// SAFETY: integers and arrays of them, `repr(C)`, without padding.
unsafe impl Plain for u8 {}
// SAFETY: as above.
unsafe impl Plain for u64 {}
// SAFETY: two u64.
unsafe impl Plain for MapRow {}
// SAFETY: four u64.
unsafe impl Plain for abi::predicate::Term {}
// SAFETY: four u64.
unsafe impl Plain for abi::device::TransferRow {}
// SAFETY: four bytes and four u32.
unsafe impl Plain for abi::packet_filter::Atom {}
// SAFETY: 25 u64.
unsafe impl Plain for abi::packet_filter::FilterSpecification {}
// SAFETY: three u64.
unsafe impl Plain for abi::packet_ring::RingSpecification {}
// SAFETY: eight u64.
unsafe impl Plain for abi::syscall::BatchRow {}
// SAFETY: u32, arrays of them, of bytes, and of rows of u16, u32 and u64; 784 bytes are the sum of these.
unsafe impl Plain for abi::storage::TransactionSpecification {}
// SAFETY: u64 and an array of u64.
unsafe impl Plain for abi::environment::Specification {}

unsafe extern "C" {
    fn chitin_copy(to: u64, from: u64, bytes: u64) -> u64;
    fn chitin_copy_pair(to: u64, from: u64) -> u64;
}

/// Copies values in from the caller's memory.
pub fn copy_in<T: Plain>(to: &mut [T], from: UserAddress) -> Result<(), CopyError> {
    let bytes = size_of_val(to) as u64;
    check(from, bytes)?;
    // SAFETY: `to` is exclusively ours and `bytes` long, any bytes are values of T; the source is in the user half,
    // where a fault is caught by the fix-up.
    done(unsafe { chitin_copy(to.as_mut_ptr() as u64, from.0, bytes) })
}

/// Copies rows in to memory that holds nothing yet, without filling it first.
pub fn copy_rows_in<T: Plain>(to: &mut [MaybeUninit<T>], from: UserAddress) -> Result<&mut [T], CopyError> {
    let bytes = size_of_val(to) as u64;
    check(from, bytes)?;
    // SAFETY: as in `copy_in`; the destination need not hold values, because it is only written.
    done(unsafe { chitin_copy(to.as_mut_ptr() as u64, from.0, bytes) })?;
    // SAFETY: every byte was written, and any bytes are values of T.
    Ok(unsafe { &mut *(core::ptr::from_mut(to) as *mut [T]) })
}

/// Copies bytes in to a buffer for devices. After an error it may hold some of them.
pub fn copy_to_buffer(to: &DeviceBuffer, offset: usize, from: UserAddress, bytes: usize) -> Result<(), CopyError> {
    check(from, bytes as u64)?;
    // SAFETY: the destination lies in the buffer, which no Rust reference covers; the source is in the user half, where
    // a fault is caught by the fix-up.
    done(unsafe { chitin_copy(to.address(offset, bytes), from.0, bytes as u64) })
}

/// Copies one row of two words in.
#[inline(always)]
pub fn read_row(from: UserAddress) -> Result<MapRow, CopyError> {
    check(from, size_of::<MapRow>() as u64)?;
    let mut row = MaybeUninit::<MapRow>::uninit();
    const { assert!(size_of::<MapRow>() == 16) };
    // SAFETY: as in `copy_rows_in`.
    done(unsafe { chitin_copy_pair(row.as_mut_ptr() as u64, from.0) })?;
    // SAFETY: both words were written, and any bytes are a row.
    Ok(unsafe { row.assume_init() })
}

/// Copies one value in.
pub fn read<T: Plain + Default>(from: UserAddress) -> Result<T, CopyError> {
    let mut value = [T::default()];
    copy_in(&mut value, from)?;
    Ok(value[0])
}

/// Copies values out to the caller's memory.
pub fn copy_out<T: Plain>(to: UserAddress, from: &[T]) -> Result<(), CopyError> {
    let bytes = size_of_val(from) as u64;
    check(to, bytes)?;
    // SAFETY: `from` is `bytes` long and has no padding; the destination is in the user half, where a fault is caught
    // by the fix-up, and nothing of the kernel lies there.
    done(unsafe { chitin_copy(to.0, from.as_ptr() as u64, bytes) })
}

#[inline(always)]
fn check(address: UserAddress, bytes: u64) -> Result<(), CopyError> {
    if in_user_half(address.0, bytes) { Ok(()) } else { Err(CopyError::OutOfRange) }
}

#[inline(always)]
fn done(left: u64) -> Result<(), CopyError> {
    if left == 0 { Ok(()) } else { Err(last_fault()) }
}

#[cold]
fn last_fault() -> CopyError {
    let state = entry_state();
    CopyError::Fault(UserFault {
        address: state.fault_address.load(Ordering::Relaxed),
        // The access was made by the kernel on the user's behalf: bit 2 says user.
        error: state.fault_error.load(Ordering::Relaxed) | 4,
    })
}
