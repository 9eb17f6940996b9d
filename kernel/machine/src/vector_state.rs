//! Vector state: no environment ever sees another's (DESIGN.md §4; FAULTS row 30).
//!
//! The registers hold the initial state whenever an environment begins that did not bring its own. Either that state
//! was loaded, or no environment with the vector unit on has run since it was.

use crate::context::VectorState;
use crate::exposed;
use crate::per_cpu::entry_state;
use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering};

/// MXCSR after reset: every exception masked.
const INITIAL_MXCSR: u64 = 0x1f80;
/// x87 control word after FNINIT.
const INITIAL_CONTROL_WORD: u64 = 0x037f;

/// The initial state: an XSAVE area with an empty header, which FXRSTOR takes too.
static INITIAL: VectorState = VectorState({
    let mut words = [const { AtomicU64::new(0) }; crate::context::VECTOR_BYTES / 8];
    words[0] = AtomicU64::new(INITIAL_CONTROL_WORD);
    words[3] = AtomicU64::new(INITIAL_MXCSR);
    words
});

/// The components that XSAVE and XRSTOR shall touch; none on a CPU that has only FXSAVE and FXRSTOR.
#[inline(always)]
fn components() -> Option<(u32, u32)> {
    let mask = exposed::kernel().vector_state_mask.load(Ordering::Relaxed);
    (mask != 0).then_some((mask as u32, (mask >> 32) as u32))
}

/// Keeps the vector registers of this CPU.
pub(crate) fn save(state: &VectorState) {
    let area = core::ptr::from_ref(state) as u64;
    // SAFETY: the area is aligned to 64 and at least as large as the enabled components (checked at boot); it is made
    // of atomics, so writing through a shared reference is allowed. CR0.TS is clear: the context had its vector unit
    // on.
    unsafe {
        if let Some((low, high)) = components() {
            asm!("xsave64 [{}]", in(reg) area, in("eax") low, in("edx") high, options(nostack, preserves_flags));
        } else {
            asm!("fxsave64 [{}]", in(reg) area, options(nostack, preserves_flags));
        }
    }
}

#[inline(always)]
fn load(state: &VectorState) {
    let area = core::ptr::from_ref(state) as u64;
    // SAFETY: the area was written by `save` or is the initial state, so no reserved bit is set; CR0.TS is clear.
    unsafe {
        if let Some((low, high)) = components() {
            asm!("xrstor64 [{}]", in(reg) area, in("eax") low, in("edx") high, options(nostack, preserves_flags));
        } else {
            asm!("fxrstor64 [{}]", in(reg) area, options(nostack, preserves_flags));
        }
    }
}

/// Prepares the vector unit for a context: its own state, else the initial one; off if it wants it off.
#[inline(always)]
pub(crate) fn switch_to(own: Option<&VectorState>, on: bool) {
    let dirty = &entry_state().vector_dirty;
    let was_dirty = dirty.load(Ordering::Relaxed) != 0;
    if on && was_dirty && own.is_none() {
        // From one that had it on to another one: nothing traps, and that stays so.
        return load(&INITIAL);
    }
    if own.is_some() || was_dirty {
        set_trap(false);
        load(own.unwrap_or(&INITIAL));
    }
    dirty.store(u64::from(on), Ordering::Relaxed);
    set_trap(!on);
}

/// Switches the vector unit of the running context on or off; off, its state is gone.
pub(crate) fn set(on: bool) {
    switch_to(None, on);
}

/// Sets or clears CR0.TS, unless it is so already.
#[inline(always)]
fn set_trap(trap: bool) {
    if entry_state().vector_trap.load(Ordering::Relaxed) != u64::from(trap) {
        change_trap(trap);
    }
}

#[cold]
fn change_trap(trap: bool) {
    let state = &entry_state().vector_trap;
    state.store(u64::from(trap), Ordering::Relaxed);
    // SAFETY: CR0.TS only decides whether vector instructions raise #NM; the kernel has none but those above.
    unsafe {
        if trap {
            asm!("mov {0}, cr0", "or {0}, 8", "mov cr0, {0}", out(reg) _, options(nostack));
        } else {
            asm!("clts", options(nostack, preserves_flags));
        }
    }
}
