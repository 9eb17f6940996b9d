//! The program's vector registers. ExOS never touches them; but where it gives the CPU away of its own accord the
//! kernel loads the initial state on the way back, so that they are kept in memory meanwhile.

use super::current::{is_adopted, thread};
use runtime::vector::State;

/// The registers, saved; they are restored when this is dropped.
#[derive(Debug)]
#[must_use = "the registers are restored when this is dropped"]
pub struct Kept(());

/// Saves the registers until the result is dropped.
pub fn keep() -> Kept {
    if is_adopted() {
        thread().vectors.lock().save();
    }
    Kept(())
}

/// Sets the registers to their initial state, for a program that begins.
pub fn clear() {
    if let Ok(initial) = State::new() {
        // SAFETY: ExOS is built without vector registers.
        unsafe { initial.restore() };
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if is_adopted() {
            // SAFETY: ExOS is built without vector registers.
            unsafe { thread().vectors.lock().restore() };
        }
    }
}

/// Loads what the process's record holds.
pub fn load() {
    drop(Kept(()));
}

/// Says that the registers hold something from now on: the end of a slice saves them.
pub fn declare_live() {
    core::mem::forget(thread().live_vectors.lock().live());
}
