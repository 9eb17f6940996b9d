//! The program's vector registers. ExOS never touches them: they are declared live for as long as a program runs, and
//! the runtime keeps them wherever the CPU is given away ([`runtime::vector`]).

use super::domain::domain;
use super::thread_context::thread_context;
use alloc::vec::Vec;
use linux_abi::errno::Result;
use runtime::vector::State;

/// Sets the registers to their initial state, for a program that begins.
pub fn clear() {
    // SAFETY: ExOS is built without vector registers.
    unsafe { runtime::vector::initialise() };
}

/// What the registers hold, to be put back.
///
/// # Errors
/// `ENOMEM` without room for it.
pub fn keep() -> Result<State> {
    let spare = domain().spare_vectors.lock().take();
    let mut kept = spare.map_or_else(State::new, Ok)?;
    kept.save();
    Ok(kept)
}

/// Sets the registers to what they held, for a program that resumes.
pub fn put_back(kept: State) {
    // SAFETY: ExOS is built without vector registers.
    unsafe { kept.restore() };
    *domain().spare_vectors.lock() = Some(kept);
}

/// Says that the registers hold something from now on.
pub fn declare_live() {
    core::mem::forget(thread_context().vectors.lock().live());
}

/// Loads what the thread's record holds: from now on the registers live.
pub fn load() {
    let mut vectors = thread_context().vectors.lock();
    // SAFETY: ExOS is built without vector registers.
    let live = unsafe { vectors.load() };
    core::mem::forget(live);
}

/// What the registers hold.
pub fn copy() -> Vec<u8> {
    let mut vectors = thread_context().vectors.lock();
    vectors.save();
    vectors.bytes().to_vec()
}
