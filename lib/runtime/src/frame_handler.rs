//! Exceptions whose handler needs only the frame of the interrupted code. An example is a page fault that is served by
//! address, as in the user-level virtual memory of exokernel-sosp95 section 6.2 (`appel1`, `appel2`).
//!
//! The entry saves the registers that a function may change and no others, and calls its handler by name. It takes 32
//! instructions where [`crate::upcall::upcall_entry`] takes 43 and a table of handlers. Exceptions share one declared
//! entry: every kind but the handler's own continues at the general entry, before anything was saved.

use crate::layout::AREA_ALIGNMENT;
use crate::upcall::{resume_frame_under_keys, set_entry, upcall_entry};
use abi::area::{PRIVATE, PrivateWords};
use abi::upcall::UpcallFrame;
use core::arch::naked_asm;
use core::mem::offset_of;

/// Handles the exceptions of one kind by their frames.
pub trait FrameHandler {
    /// The vector of the exception; a page fault's is [`abi::upcall::kind::PAGE_FAULT`].
    const KIND: u64;

    /// Called on the upcall stack. The code resumes with the frame as the handler leaves it: to step over the
    /// instruction it changes RIP.
    extern "C" fn handle(frame: &mut UpcallFrame);
}

/// Declares a handler for the exceptions of one kind; those of every other kind go to [`upcall_entry`] and its
/// handlers. One kind of exception has such a handler at a time.
pub fn set_frame_handler<H: FrameHandler>() {
    set_entry(H::KIND, enter::<H> as *const () as u64);
}

/// Bytes of the registers that are saved, and of the padding that keeps the stack at a multiple of 16.
const SAVED: usize = 10 * 8;

/// Compares the kind in the frame first: where the frame lies in the guard page of the upcall stack that faults, down
/// to the last one that fits.
#[unsafe(naked)]
extern "C" fn enter<H: FrameHandler>() {
    naked_asm!(
        "cmp qword ptr [rsp + {kind}], {handled}",
        "jne {general}",
        "push rax; push rax; push rcx; push rdx; push rsi; push rdi; push r8; push r9; push r10; push r11",
        crate::unwind_begin!(),
        "cld",
        "lea rdi, [rsp + {frame}]",
        "call {handle}",
        "mov rcx, rsp",
        crate::unwind_end!(152, keep),
        "and rcx, {mask}",
        "mov eax, [rsp + {pkru}]",
        "cmp eax, [rcx + {upcall_pkru}]",
        "jne 2f",
        "pop r11; pop r10; pop r9; pop r8; pop rdi; pop rsi; pop rdx; pop rcx; pop rax; pop rax",
        "add rsp, 32",
        "iretq",
        "2:",
        "pop r11; pop r10; pop r9; pop r8; pop rdi; pop rsi; pop rdx; pop rcx; pop rax; pop rax",
        "jmp {resume_frame_under_keys}",
        handled = const H::KIND, general = sym upcall_entry, handle = sym H::handle,
        kind = const offset_of!(UpcallFrame, kind), pkru = const SAVED + offset_of!(UpcallFrame, pkru), frame = const SAVED,
        resume_frame_under_keys = sym resume_frame_under_keys,
        mask = const -(AREA_ALIGNMENT as i64), upcall_pkru = const PRIVATE + offset_of!(PrivateWords, upcall_pkru) as u64,
    )
}
