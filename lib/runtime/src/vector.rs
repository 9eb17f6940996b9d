//! Vector state: kept across the end of a slice only while it lives.
//!
//! Code for this target uses no vector registers, so that most library code has none to save. Who runs code that does
//! (an unmodified program, a hand-written loop) declares the state live for as long; the end of a slice then saves it.

extern crate alloc;

use crate::area::Area;
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

/// Size of the legacy area, which FXSAVE writes and XSAVE begins with.
const LEGACY_BYTES: usize = 512;
/// Offset and value of MXCSR in the initial state.
const MXCSR: (usize, u32) = (24, 0x1f80);
/// Offset and value of the x87 control word in the initial state.
const CONTROL_WORD: (usize, u16) = (0, 0x037f);

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

    /// The word that the entries understand: the address, and bit 0 where the CPU has no XSAVE.
    fn word(&self) -> u64 {
        self.memory.as_ptr() as u64 | u64::from(!exposed::has(feature::XSAVE))
    }

    /// What was saved, in the layout of XSAVE (or FXSAVE).
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the memory is as large as its layout, and initialised since `new`.
        unsafe { core::slice::from_raw_parts(self.memory.as_ptr(), self.layout.size()) }
    }

    /// Takes bytes of the same layout from somebody who is not trusted: what the CPU would refuse to load is cleared.
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
        let memory = self.memory.as_ptr();
        // SAFETY: the memory is large enough for every enabled component, and aligned to 64 bytes.
        unsafe {
            if exposed::has(feature::XSAVE) {
                core::arch::asm!("xsave64 [{}]", in(reg) memory, in("eax") -1, in("edx") -1, options(nostack));
            } else {
                core::arch::asm!("fxsave64 [{}]", in(reg) memory, options(nostack));
            }
        }
    }

    /// Copies memory into the registers.
    ///
    /// # Safety
    /// No code around this call keeps anything in vector registers.
    pub unsafe fn restore(&self) {
        let memory = self.memory.as_ptr();
        // SAFETY: the memory was written by `save` or is the initial state; the caller answers for the registers.
        unsafe {
            if exposed::has(feature::XSAVE) {
                core::arch::asm!("xrstor64 [{}]", in(reg) memory, in("eax") -1, in("edx") -1, options(nostack));
            } else {
                core::arch::asm!("fxrstor64 [{}]", in(reg) memory, options(nostack));
            }
        }
    }

    /// Until the result is dropped, the end of a slice saves the vector registers here, and its start restores them.
    pub fn live(&mut self) -> Live<'_> {
        Area::current().library().vector_state.store(self.word(), Relaxed);
        Live { _state: self }
    }
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
