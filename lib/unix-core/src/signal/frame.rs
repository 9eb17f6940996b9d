//! What a handler finds on the stack, and what `rt_sigreturn` reads back (x86-64 Linux: `struct rt_sigframe`).
//!
//! Pure. From low to high: return address, `ucontext`, `siginfo`, then the vector state at a multiple of 64. Nothing of
//! a frame that comes back is trusted: segments are those of user code, flags are masked. `hw::signal_frame`
//! writes and reads it.

use super::set::{FAULTS, bit};
use alloc::vec::Vec;
use core::mem::offset_of;
use linux_raw_sys::general as linux;

/// Bytes below the stack pointer that the program may use without saying so.
const RED_ZONE: u64 = 128;
/// Flags of the CPU that a frame may set.
const FLAGS: u64 = 0x0005_0dd5;
/// Flags that are always set: interrupts on, and bit 1.
const FLAGS_SET: u64 = 0x202;
/// `uc_flags`: the vector state is an XSAVE area; the saved SS is meant, strictly.
pub const USER_CONTEXT_FLAGS: u64 = 1 | 2 | 4;
/// CS and SS of user code, as they stand in a frame.
pub const SEGMENTS: u64 = 0x33 | 0x2b << 48;

/// `si_code` of timers.
const SI_TIMER: i32 = linux::SI_TIMER;

/// The fixed part of what a handler finds.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// Where the handler returns to.
    pub restorer: u64,
    /// `uc_flags`: here `ucontext` begins.
    pub flags: u64,
    /// `uc_link`.
    pub link: u64,
    /// Alternate stack: address, flags, size.
    pub stack: [u64; 3],
    /// General registers: r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, flags.
    pub registers: [u64; 18],
    /// CS, GS, FS, SS.
    pub segments: u64,
    /// Error code of a fault.
    pub error: u64,
    /// Its trap number.
    pub trap: u64,
    /// Signals that were blocked, once more.
    pub old_mask: u64,
    /// Address of the fault.
    pub address: u64,
    /// Where the vector state lies.
    pub vectors: u64,
    /// Linux does not write here either.
    pub reserved: [u64; 8],
    /// Signals that were blocked.
    pub mask: u64,
    /// `siginfo`, where the program asked for it.
    pub information: [u64; 16],
}

/// Where `ucontext` begins in a frame.
pub const LINUX_CONTEXT: usize = offset_of!(Frame, flags);

/// Bytes of the fixed part: return address, `ucontext` (304), `siginfo` (128).
pub const FIXED: u64 = size_of::<Frame>() as u64;
const _: () = assert!(FIXED == 8 + 304 + 128);

/// Why a signal came: `siginfo`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Information {
    /// The signal.
    pub signal: u32,
    /// `si_code`.
    pub code: i32,
    /// Address of a fault; else sender's number (0..32) and user (32..64).
    pub detail: u64,
    /// Status of a child.
    pub value: u64,
}

/// Where a frame goes. Invariant: the parts lie in this order, with room for each, and the vector state at a multiple
/// of 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    frame: u64,
    vectors: u64,
    end: u64,
}

impl Layout {
    /// Address of the frame: the new RSP.
    #[inline]
    pub const fn frame(&self) -> u64 {
        self.frame
    }

    /// Address of the vector state.
    #[inline]
    pub const fn vectors(&self) -> u64 {
        self.vectors
    }

    /// Where all of it ends.
    #[inline]
    pub const fn end(&self) -> u64 {
        self.end
    }
}

/// Finds the place for a frame with `vector_bytes` of vector state below `stack`; `alternate`: at the top of an
/// alternate stack, where there is no red zone. `None` where it does not fit below the address.
#[inline]
pub fn lay_out(stack: u64, alternate: bool, vector_bytes: u64) -> Option<Layout> {
    const ALIGNMENTS: u64 = 63 + 15 + 8;
    let below = if alternate { stack } else { stack.checked_sub(RED_ZONE)? };
    below.checked_sub(vector_bytes.wrapping_add(FIXED + ALIGNMENTS))?;
    let vectors = below.wrapping_sub(vector_bytes) & !63;
    let frame = (vectors.wrapping_sub(FIXED) & !15).wrapping_sub(8);
    Some(Layout { frame, vectors, end: below })
}

/// `struct siginfo`: 128 bytes.
pub fn information_bytes(information: &Information) -> Vec<u8> {
    let mut words = information_words(information).to_vec();
    words.resize(16, 0);
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Bytes of `struct signalfd_siginfo`.
pub const DESCRIPTOR_BYTES: u64 = 128;

/// `struct signalfd_siginfo`: the same, with a place of its own for everything.
pub fn descriptor_bytes(information: &Information) -> Vec<u8> {
    let Information { signal, code, detail, value } = *information;
    let [low, high] = [detail as u32, (detail >> 32) as u32];
    let mut halves = [0u32; DESCRIPTOR_BYTES as usize / 4];
    (halves[0], halves[2]) = (signal, code as u32);
    match code {
        SI_TIMER => (halves[6], halves[8]) = (low, high),
        _ if code > 0 && bit(signal) & FAULTS != 0 => (halves[18], halves[19]) = (low, high),
        _ => (halves[3], halves[4]) = (low, high),
    }
    if code < 0 {
        (halves[11], halves[12], halves[13]) = (value as u32, value as u32, (value >> 32) as u32);
    } else if signal == linux::SIGCHLD {
        halves[10] = value as u32;
    }
    halves.iter().flat_map(|half| half.to_le_bytes()).collect()
}

/// The words of `struct siginfo` that say something: the first ones.
pub fn information_words(information: &Information) -> [u64; 4] {
    let code = u64::from(information.code as u32);
    [u64::from(information.signal), code, information.detail, information.value]
}

/// What a frame restores in addition to the registers of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Returned {
    /// Stack pointer.
    pub rsp: u64,
    /// Instruction pointer.
    pub rip: u64,
    /// Flags, as they stand there: see [`fit_flags`].
    pub rflags: u64,
    /// Signals to block.
    pub blocked: u64,
    /// Bytes of the alternate stack.
    pub alternate_bytes: u64,
    /// Address of the vector state; 0: the initial one.
    pub vectors: u64,
}

/// Flags that are fit for user mode.
pub const fn fit_flags(flags: u64) -> u64 {
    flags & FLAGS | FLAGS_SET
}

/// Address of the information in a frame.
pub const fn information_at(frame: u64) -> u64 {
    frame.wrapping_add(offset_of!(Frame, information) as u64)
}

/// Address of the words on a fault in a frame: error code, trap number, the mask once more, address.
pub const fn fault_at(frame: u64) -> u64 {
    frame.wrapping_add(offset_of!(Frame, error) as u64)
}

/// Address of the alternate stack's words in a frame, by that of the user context.
pub const fn alternate_at(context: u64) -> u64 {
    context.wrapping_add((offset_of!(Frame, stack) - LINUX_CONTEXT) as u64)
}

/// Address of the context in a frame.
pub const fn context_at(frame: u64) -> u64 {
    frame.wrapping_add(LINUX_CONTEXT as u64)
}
