//! Vector state: kept while another environment has the CPU, but only while it is live.
//!
//! Code for this target uses no vector registers, so that most library code has none to save. A program that runs code
//! that does (an unmodified program, a hand-written loop) declares the state live for as long. The kernel loads the
//! initial state when the CPU comes back. So wherever the runtime gives the CPU away, of its own accord or at the end
//! of a slice, it keeps the registers in memory meanwhile.
//!
//! [`LibraryWords::vector_state`](crate::area::LibraryWords::vector_state) names the memory while the registers hold
//! the living state, and is 0 while the memory does: so it is never saved twice, nor saved over.

extern crate alloc;

use crate::area::Area;
use crate::critical_section;
use crate::exposed;
use abi::{Error, Failure, feature};
use alloc::alloc::{Layout, alloc_zeroed, dealloc};
use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;

/// Room for the vector state of one thread.
#[derive(Debug)]
pub struct State {
    memory: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the state owns its memory, which no thread but the one that has the state reads or writes.
unsafe impl Send for State {}

/// Size of the legacy area, which FXSAVE writes and XSAVE begins with.
const LEGACY_BYTES: usize = 512;
/// Offset and value of MXCSR in the initial state.
const MXCSR: (usize, u32) = (24, 0x1f80);
/// Offset and value of the x87 control word in the initial state.
const CONTROL_WORD: (usize, u16) = (0, 0x037f);

/// What FXRSTOR takes, and XRSTOR with the header behind it, of which the rest is for components that are not in it.
#[repr(C, align(64))]
struct Initial([u32; (LEGACY_BYTES + 64) / 4]);

/// The initial state: an area whose header names no component.
static INITIAL: Initial = Initial({
    let mut words = [0; (LEGACY_BYTES + 64) / 4];
    words[CONTROL_WORD.0 / 4] = CONTROL_WORD.1 as u32;
    words[MXCSR.0 / 4] = MXCSR.1;
    words
});

/// Sets the registers to their initial state.
///
/// # Safety
/// No code around this call keeps anything in vector registers.
pub unsafe fn initialise() {
    // SAFETY: the area is aligned, and is the initial state; the caller answers for the registers.
    unsafe { restore(word_of(core::ptr::from_ref(&INITIAL).cast())) };
}

/// The word that the entries understand: the address of an area, and bit 0 where the CPU has no XSAVE.
fn word_of(area: *const u8) -> u64 {
    area as u64 | u64::from(!exposed::has(feature::XSAVE))
}

impl State {
    /// The initial state.
    ///
    /// # Errors
    /// `Exhausted` without memory.
    pub fn new() -> Result<Self, Failure> {
        let bytes = (exposed::kernel().vector_state_bytes.load(Relaxed) as usize).max(LEGACY_BYTES + 64);
        let layout = Layout::from_size_align(bytes, 64).map_err(|_| Error::Exhausted.about(0))?;
        // SAFETY: the size is not zero.
        let memory = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(Error::Exhausted.about(0))?;
        // SAFETY: both fields lie in the legacy area, at multiples of their sizes.
        unsafe {
            memory.byte_add(MXCSR.0).cast::<u32>().write(MXCSR.1);
            memory.byte_add(CONTROL_WORD.0).cast::<u16>().write(CONTROL_WORD.1);
        }
        Ok(Self { memory, layout })
    }

    fn word(&self) -> u64 {
        word_of(self.memory.as_ptr())
    }

    /// What was saved, in the layout of XSAVE (or FXSAVE).
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the memory is as large as its layout, and initialised since `new`.
        unsafe { core::slice::from_raw_parts(self.memory.as_ptr(), self.layout.size()) }
    }

    /// Takes bytes of the same layout from an untrusted source: what the CPU would refuse to load is cleared.
    pub fn set_bytes(&mut self, bytes: &[u8]) {
        const FEATURES: core::ops::Range<usize> = 512..520;
        const RESERVED: core::ops::Range<usize> = 520..576;
        const MXCSR_BITS: u32 = 0xffff;
        let length = bytes.len().min(self.layout.size());
        // SAFETY: as for `bytes`; the state is borrowed for as long as the slice lives.
        let memory = unsafe { core::slice::from_raw_parts_mut(self.memory.as_ptr(), self.layout.size()) };
        memory[..length].copy_from_slice(&bytes[..length]);
        let enabled = exposed::kernel().vector_state_mask.load(Relaxed).to_le_bytes();
        memory[FEATURES].iter_mut().zip(enabled).for_each(|(byte, enabled)| *byte &= enabled);
        memory[RESERVED].fill(0);
        let control = u32::from_le_bytes(core::array::from_fn(|index| memory[MXCSR.0 + index])) & MXCSR_BITS;
        memory[MXCSR.0..MXCSR.0 + 4].copy_from_slice(&control.to_le_bytes());
    }

    /// Copies the registers into memory.
    pub fn save(&mut self) {
        // SAFETY: the word is that of this state.
        unsafe { save(self.word()) };
    }

    /// Copies memory into the registers.
    ///
    /// # Safety
    /// No code around this call keeps anything in vector registers.
    pub unsafe fn restore(&self) {
        // SAFETY: the word is that of this state; the caller answers for the registers.
        unsafe { restore(self.word()) };
    }

    /// Until the result is dropped, the vector registers are kept here whenever the CPU is given away.
    pub fn live(&mut self) -> Live<'_> {
        Area::current().library().vector_state.store(self.word(), Relaxed);
        Live { _state: self }
    }

    /// As [`Self::live`], for the state that is in memory now: it is loaded first.
    ///
    /// # Safety
    /// As for [`Self::restore`].
    pub unsafe fn load(&mut self) -> Live<'_> {
        drop(Kept { word: self.word() });
        Live { _state: self }
    }
}

/// Copies the registers to where a word of [`State::word`] says.
///
/// # Safety
/// The word is that of a state that exists.
unsafe fn save(word: u64) {
    let memory = word & !1;
    // SAFETY: the memory is large enough for every enabled component, and aligned to 64 bytes.
    unsafe {
        if word & 1 == 0 {
            core::arch::asm!("xsave64 [{}]", in(reg) memory, in("eax") -1, in("edx") -1, options(nostack));
        } else {
            core::arch::asm!("fxsave64 [{}]", in(reg) memory, options(nostack));
        }
    }
}

/// The reverse of [`save`].
///
/// # Safety
/// As for [`save`], and no code around this call keeps anything in vector registers.
unsafe fn restore(word: u64) {
    let memory = word & !1;
    // SAFETY: the memory was written by `save` or is the initial state; the caller answers for the registers.
    unsafe {
        if word & 1 == 0 {
            core::arch::asm!("xrstor64 [{}]", in(reg) memory, in("eax") -1, in("edx") -1, options(nostack));
        } else {
            core::arch::asm!("fxrstor64 [{}]", in(reg) memory, options(nostack));
        }
    }
}

/// The living state is in memory, and the registers hold nothing, until this is dropped.
#[derive(Debug)]
#[must_use = "the registers are restored when this is dropped"]
pub struct Kept {
    /// As [`State::word`]; 0: nothing lived, or it was in memory already.
    word: u64,
}

/// Brings the living state into memory. Keepings nest: only the outermost one has anything to do.
#[inline]
pub fn keep() -> Kept {
    let state = &Area::current().library().vector_state;
    let word = state.load(Relaxed);
    if word != 0 {
        // The end of a slice after the save finds the word still there, and saves the same once more.
        // SAFETY: the word names a state as long as somebody declares it live.
        unsafe { save(word) };
        state.store(0, Relaxed);
    }
    Kept { word }
}

impl Drop for Kept {
    #[inline]
    fn drop(&mut self) {
        if self.word != 0 {
            reload(self.word);
        }
    }
}

/// Loads what a word names, and lets it live.
fn reload(word: u64) {
    // The end of a slice in between would find the word and save registers that are not loaded yet.
    let _section = critical_section::enter();
    Area::current().library().vector_state.store(word, Relaxed);
    // SAFETY: the word is that of a state that lives; code for this target keeps nothing in vector registers.
    unsafe { restore(word) };
}

impl Drop for State {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and freed once.
        unsafe { dealloc(self.memory.as_ptr(), self.layout) };
    }
}

/// The vector registers hold something.
#[derive(Debug)]
#[must_use = "the state is live until this is dropped"]
pub struct Live<'a> {
    _state: &'a mut State,
}

impl Drop for Live<'_> {
    fn drop(&mut self) {
        Area::current().library().vector_state.store(0, Relaxed);
    }
}
