//! Calls into objects that were preloaded, and their calls into ExOS: `link/preload.h` in Rust.
//!
//! An object is part of the library of its process, by the process's own choice. What it is given it can spoil; that
//! harms its own process only, as any other scribbling over ExOS does.

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

/// A call as an object sees it.
pub trait PreloadedCall {
    /// Its number.
    fn number(&self) -> u64;
    /// Its arguments.
    fn arguments(&self) -> [u64; 6];
    /// From now on the function at this address performs the calls of this number.
    ///
    /// # Errors
    /// `ENOSYS` where there is no such call.
    fn replace(number: u64, function: u64) -> Result<(), Errno>;
    /// Performs another call in its place.
    ///
    /// # Errors
    /// Those of the call.
    fn perform(&mut self, number: u64, arguments: [u64; 6]) -> Result<u64, Errno>;
}

/// Calls the entry of an object that is mapped.
pub fn begin<C: PreloadedCall>(entry: u64) -> Result<(), Errno> {
    // SAFETY: the process asked for the object, whose file names this address as its entry.
    let entry: extern "C" fn(&'static Interface) -> i64 = unsafe { core::mem::transmute(entry as usize) };
    let interface = const { &Interface { replace: replace::<C>, perform: perform::<C> } };
    Errno::from_register(entry(interface) as u64).map_or(Ok(()), Err)
}

/// Has a function of an object perform a call.
pub fn operate<C: PreloadedCall>(function: u64, call: &mut C) -> Result<u64, Errno> {
    // SAFETY: the object gave the address of its function to `replace`, and stays mapped for as long as that holds.
    let function: extern "C" fn(*mut ForeignCall) -> i64 = unsafe { core::mem::transmute(function as usize) };
    let state = core::ptr::from_mut(call).cast();
    let mut foreign = ForeignCall { number: call.number(), arguments: call.arguments(), state };
    let result = function(&mut foreign) as u64;
    Errno::from_register(result).map_or(Ok(result), Err)
}

extern "C" fn replace<C: PreloadedCall>(number: u64, function: u64) -> i64 {
    C::replace(number, function).map_or_else(|error| error.to_register() as i64, |()| 0)
}

/// # Safety
/// `call` is what [`operate`] made, or a copy of it, while that waits for the function of the object. `C` is the type
/// that both work with.
unsafe extern "C" fn perform<C: PreloadedCall>(call: *mut ForeignCall) -> i64 {
    // SAFETY: by the condition above; `operate` lends its `C` to the object until the function returns.
    let (foreign, call) = unsafe { (&*call, &mut *(*call).state.cast::<C>()) };
    call.perform(foreign.number, foreign.arguments).unwrap_or_else(Errno::to_register) as i64
}
