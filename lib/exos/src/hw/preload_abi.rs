//! Calls into objects that were preloaded, and their calls into ExOS: `link/preload.h` in Rust.
//!
//! An object is part of the library of its process, by the process's own choice. What it is given it can spoil; that
//! harms its own process only, as any other scribbling over ExOS does.

use crate::syscalls::{Call, interposed};
use core::ffi::c_void;
use linux_abi::errno::Errno;

/// `struct exos_call`.
#[repr(C)]
struct ForeignCall {
    number: u64,
    arguments: [u64; 6],
    state: *mut c_void,
}

/// `struct exos_interface`.
#[repr(C)]
struct Interface {
    replace: extern "C" fn(u64, u64) -> i64,
    perform: unsafe extern "C" fn(*mut ForeignCall) -> i64,
}

static INTERFACE: Interface = Interface { replace, perform };

/// Calls the entry of an object that is mapped.
pub fn begin(entry: u64) -> Result<(), Errno> {
    // SAFETY: the process asked for the object, whose file names this address as its entry.
    let entry: extern "C" fn(&'static Interface) -> i64 = unsafe { core::mem::transmute(entry as usize) };
    Errno::from_register(entry(&INTERFACE) as u64).map_or(Ok(()), Err)
}

/// Has a function of an object perform a call.
pub fn operate(function: u64, call: &mut Call<'_>) -> Result<u64, Errno> {
    // SAFETY: the object gave the address of its function to `replace`, and stays mapped for as long as that holds.
    let function: extern "C" fn(*mut ForeignCall) -> i64 = unsafe { core::mem::transmute(function as usize) };
    let state = core::ptr::from_mut(call).cast();
    let mut foreign = ForeignCall { number: call.number(), arguments: call.arguments(), state };
    let result = function(&mut foreign) as u64;
    Errno::from_register(result).map_or(Ok(result), Err)
}

extern "C" fn replace(number: u64, function: u64) -> i64 {
    interposed::replace(number, function).map_or_else(|error| error.to_register() as i64, |()| 0)
}

/// # Safety
/// `syscalls` is what [`operate`] made, or a copy of it, while that waits for the function of the object.
unsafe extern "C" fn perform(call: *mut ForeignCall) -> i64 {
    // SAFETY: by the condition above; `operate` lends its `Call` to the object until the function returns.
    let (foreign, call) = unsafe { (&*call, &mut *(*call).state.cast::<Call<'_>>()) };
    interposed::perform(call, foreign.number, foreign.arguments).unwrap_or_else(Errno::to_register) as i64
}
