//! What a handler finds on the stack, and what `rt_sigreturn` reads back (x86-64 Linux: `struct rt_sigframe`).
//!
//! Pure: bytes in, bytes out. From low to high: return address, `ucontext`, `siginfo`, then the vector state at a
//! multiple of 64. Nothing of a frame that comes back is trusted: segments are those of user code, flags are masked.

use super::set::{FAULTS, bit};
use alloc::vec::Vec;
use linux_raw_sys::general as linux;

/// Bytes below the stack pointer that the program may use without saying so.
const RED_ZONE: u64 = 128;
/// Bytes of the fixed part: return address, `ucontext` (304), `siginfo` (128).
pub const FIXED: u64 = 8 + UCONTEXT + 128;
const UCONTEXT: u64 = 304;
/// Words of the fixed part.
pub const WORDS: usize = FIXED as usize / 8;
/// Flags of the CPU that a frame may set.
const FLAGS: u64 = 0x0005_0dd5;
/// Flags that are always set: interrupts on, and bit 1.
const FLAGS_SET: u64 = 0x202;
/// Bit of `uc_flags`: the vector state is an XSAVE area.
const EXTENDED: u64 = 1;
/// Bits of `uc_flags`: the saved SS is meant, strictly.
const STACK_SEGMENT: u64 = 2 | 4;

/// `si_code` of timers.
const SI_TIMER: i32 = linux::SI_TIMER;

/// General registers in the order of Linux's `sigcontext`: r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, flags.
pub type Registers = [u64; 18];

/// Places in [`Registers`].
pub mod place {
    /// Stack pointer.
    pub const RSP: usize = 15;
    /// Instruction pointer.
    pub const RIP: usize = 16;
    /// Flags.
    pub const RFLAGS: usize = 17;
}

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

/// What was interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted {
    /// Registers.
    pub registers: Registers,
    /// Signals that were blocked.
    pub blocked: u64,
    /// Alternate stack: address, flags, size.
    pub alternate: [u64; 3],
    /// Error code, trap number and address of a fault.
    pub fault: [u64; 3],
}

/// Where a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Address of the frame: what RSP is to be.
    pub frame: u64,
    /// Address of the vector state.
    pub vectors: u64,
}

/// Finds the place for a frame with `vector_bytes` of vector state below `stack`; `alternate`: at the top of an
/// alternate stack, where there is no red zone. `None` where it does not fit below the address.
pub fn lay_out(stack: u64, alternate: bool, vector_bytes: u64) -> Option<Layout> {
    let below = if alternate { stack } else { stack.checked_sub(RED_ZONE)? };
    let vectors = below.checked_sub(vector_bytes)? & !63;
    let frame = (vectors.checked_sub(FIXED)? & !15).checked_sub(8)?;
    Some(Layout { frame, vectors })
}

/// The fixed part of a frame. One expression: each word is written once.
#[inline]
#[rustfmt::skip]
pub fn build(layout: Layout, restorer: u64, interrupted: &Interrupted, information: &Information) -> [u64; WORDS] {
    const SEGMENTS: u64 = 0x33 | 0x2b << 48;
    const CONTEXT_FLAGS: u64 = EXTENDED | STACK_SEGMENT;
    let Interrupted { registers, blocked, alternate: [base, flags, size], fault: [error, trap, address] } = *interrupted;
    let [r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, rflags] = registers;
    let [signal, code, detail, value] = information_words(information);
    [
        restorer,
        // uc_flags, uc_link, uc_stack
        CONTEXT_FLAGS, 0, base, flags, size,
        // uc_mcontext
        r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, rflags,
        SEGMENTS, error, trap, blocked, address, layout.vectors, 0, 0, 0, 0, 0, 0, 0, 0,
        // uc_sigmask
        blocked,
        // siginfo
        signal, code, detail, value, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ]
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

fn information_words(information: &Information) -> [u64; 4] {
    let code = u64::from(information.code as u32);
    [u64::from(information.signal), code, information.detail, information.value]
}

/// What a frame says to go on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Returned {
    /// Registers; the flags are fit for user mode.
    pub registers: Registers,
    /// Signals to block.
    pub blocked: u64,
    /// Address of the vector state; 0: the initial one.
    pub vectors: u64,
}

/// Address of the information in a frame.
pub const fn information_at(frame: u64) -> u64 {
    frame + 8 + UCONTEXT
}

/// Address of the context in a frame.
pub const fn context_at(frame: u64) -> u64 {
    frame + 8
}

/// Reads the words of a frame, from the `ucontext` on.
#[inline]
pub fn read(words: &[u64; UCONTEXT as usize / 8]) -> Returned {
    let mut registers = [0; 18];
    registers.copy_from_slice(&words[5..23]);
    registers[place::RFLAGS] = registers[place::RFLAGS] & FLAGS | FLAGS_SET;
    Returned { registers, blocked: words[37], vectors: words[28] }
}

/// Words that [`read`] needs.
pub const CONTEXT_WORDS: usize = UCONTEXT as usize / 8;
