//! The frame of a signal on the program's stack, written and read word for word where it lies. General registers pass
//! between the context of an upcall and the frame, vector registers between the CPU and the frame.
//!
//! Invariant: what a program finds is the layout of [`Frame`]; words that Linux leaves as they are stay as they are.
//! A fault in the middle resumes at the end of the function, as in [`super::usercopy`].

use super::header::Header;
use super::usercopy::{check, outcome};
use abi::exposed::KernelInfo;
use abi::feature;
use abi::memory_map::EXPOSED_KERNEL;
use core::arch::asm;
use core::mem::offset_of;
use core::sync::atomic::AtomicU64;
use linux_abi::address_map::PROGRAM_END;
use linux_abi::errno::{Errno, Result};
use runtime::upcall::{Context, Registers};
use unix_core::signal::frame::{Frame, LINUX_CONTEXT, Layout, Returned, SEGMENTS, USER_CONTEXT_FLAGS};

/// Offsets in a frame.
const REGISTERS: usize = offset_of!(Frame, registers);
/// The same from the user context on, where RSP is when a handler has returned.
const RETURNED: usize = REGISTERS - LINUX_CONTEXT;

core::arch::global_asm!(
    ".pushsection .text.exos_signal_frame, \"ax\", @progbits",
    // rdi: the frame; rsi: the context; rdx: the mask; rcx: where the vector registers go; r8: the restorer; r9: the
    // alternate stack.
    ".global exos_put_frame",
    "exos_put_frame:",
    "mov [rdi], r8",
    "mov qword ptr [rdi + {flags}], {context_flags}",
    "mov qword ptr [rdi + {link}], 0",
    "mov [rdi + {old_mask}], rdx",
    "mov [rdi + {mask}], rdx",
    "mov [rdi + {vectors}], rcx",
    "mov rax, {segments}",
    "mov [rdi + {segment_word}], rax",
    ".irp place, 0, 8, 16",
    "mov rax, [r9 + \\place]",
    "mov [rdi + {stack} + \\place], rax",
    ".endr",
    "mov qword ptr [rdi + {error}], 0",
    "mov qword ptr [rdi + {trap}], 0",
    "mov qword ptr [rdi + {address}], 0",
    // Pairs of places: in the frame, and in the context.
    ".macro exos_put_register to, from",
    "mov rax, [rsi + \\from]",
    "mov [rdi + {registers} + 8 * \\to], rax",
    ".endm",
    "exos_put_register 0, {r8}",
    "exos_put_register 1, {r9}",
    "exos_put_register 2, {r10}",
    "exos_put_register 3, {r11}",
    "exos_put_register 4, {r12}",
    "exos_put_register 5, {r13}",
    "exos_put_register 6, {r14}",
    "exos_put_register 7, {r15}",
    "exos_put_register 8, {rdi}",
    "exos_put_register 9, {rsi}",
    "exos_put_register 10, {rbp}",
    "exos_put_register 11, {rbx}",
    "exos_put_register 12, {rdx}",
    "exos_put_register 13, {rax}",
    "exos_put_register 14, {rcx}",
    "exos_put_register 15, {rsp}",
    "exos_put_register 16, {rip}",
    "exos_put_register 17, {rflags}",
    "mov eax, -1",
    "mov edx, -1",
    "movabs rsi, {features}",
    "test dword ptr [rsi], {by_xsave}",
    "jz 2f",
    // XSAVE reads and writes the first word of the header behind the legacy area; XRSTOR refuses what stands in the
    // next two.
    "mov qword ptr [rcx + 512], 0",
    "mov qword ptr [rcx + 520], 0",
    "mov qword ptr [rcx + 528], 0",
    "xsave64 [rcx]",
    "xor eax, eax",
    "ret",
    "2:",
    "fxsave64 [rcx]",
    "xor eax, eax",
    "ret",
    ".global exos_put_frame_end",
    "exos_put_frame_end:",
    "mov eax, 1",
    "ret",
    // rsi: the user context. What it says other than registers comes back in the registers that [`take`] names; RSP,
    // RIP and flags come last of those in the frame.
    ".global exos_take_frame",
    "exos_take_frame:",
    "mov rdx, [rsi + {returned} + 8 * 15]",
    "mov rcx, [rsi + {returned} + 8 * 16]",
    "mov r8, [rsi + {returned} + 8 * 17]",
    "mov r9, [rsi + {mask} - {context}]",
    "mov r10, [rsi + {stack} + 16 - {context}]",
    "mov r11, [rsi + {vectors} - {context}]",
    "xor eax, eax",
    "ret",
    // rdi: the registers; rsi: the user context.
    ".global exos_take_registers",
    "exos_take_registers:",
    ".macro exos_take_word to, from",
    "mov rax, [rsi + \\from]",
    "mov [rdi + \\to], rax",
    ".endm",
    "exos_take_word {r8}, {returned}",
    "exos_take_word {r9}, {returned}+8",
    "exos_take_word {r10}, {returned}+16",
    "exos_take_word {r11}, {returned}+24",
    "exos_take_word {r12}, {returned}+32",
    "exos_take_word {r13}, {returned}+40",
    "exos_take_word {r14}, {returned}+48",
    "exos_take_word {r15}, {returned}+56",
    "exos_take_word {rdi}, {returned}+64",
    "exos_take_word {rsi}, {returned}+72",
    "exos_take_word {rbp}, {returned}+80",
    "exos_take_word {rbx}, {returned}+88",
    "exos_take_word {rdx}, {returned}+96",
    "exos_take_word {rax}, {returned}+104",
    "exos_take_word {rcx}, {returned}+112",
    "xor eax, eax",
    "ret",
    ".global exos_take_frame_end",
    "exos_take_frame_end:",
    "mov eax, 1",
    "ret",
    // The vector registers out of the program's memory: the CPU itself refuses what it would not load.
    ".global exos_load_vectors",
    "exos_load_vectors:",
    "mov eax, -1",
    "mov edx, -1",
    "movabs rsi, {features}",
    "test dword ptr [rsi], {by_xsave}",
    "jz 2f",
    "xrstor64 [rdi]",
    "xor eax, eax",
    "ret",
    "2:",
    "fxrstor64 [rdi]",
    "xor eax, eax",
    "ret",
    ".global exos_load_vectors_end",
    "exos_load_vectors_end:",
    "mov eax, 1",
    "ret",
    // rdx: the user context. RSP is at a context whose frame is final: its registers come from there, at once.
    ".global exos_resume_from_frame",
    "exos_resume_from_frame:",
    "mov r8, [rdx + {returned}]",
    "mov r9, [rdx + {returned} + 8]",
    "mov r10, [rdx + {returned} + 16]",
    "mov r11, [rdx + {returned} + 24]",
    "mov r12, [rdx + {returned} + 32]",
    "mov r13, [rdx + {returned} + 40]",
    "mov r14, [rdx + {returned} + 48]",
    "mov r15, [rdx + {returned} + 56]",
    "mov rdi, [rdx + {returned} + 64]",
    "mov rsi, [rdx + {returned} + 72]",
    "mov rbp, [rdx + {returned} + 80]",
    "mov rbx, [rdx + {returned} + 88]",
    "mov rax, [rdx + {returned} + 104]",
    "mov rcx, [rdx + {returned} + 112]",
    "mov rdx, [rdx + {returned} + 96]",
    "add rsp, {rip}",
    "iretq",
    ".global exos_resume_from_frame_end",
    "exos_resume_from_frame_end:",
    // The header of the image names the gate. RSP alone counts there.
    "movabs rax, {failed}",
    "jmp qword ptr [rax]",
    ".popsection",
    failed = const Header::RETURN_FAILED,
    flags = const offset_of!(Frame, flags), context_flags = const USER_CONTEXT_FLAGS,
    link = const offset_of!(Frame, link), old_mask = const offset_of!(Frame, old_mask),
    mask = const offset_of!(Frame, mask), vectors = const offset_of!(Frame, vectors),
    segments = const SEGMENTS, segment_word = const offset_of!(Frame, segments),
    stack = const offset_of!(Frame, stack), error = const offset_of!(Frame, error),
    trap = const offset_of!(Frame, trap), address = const offset_of!(Frame, address),
    registers = const REGISTERS, returned = const RETURNED, context = const LINUX_CONTEXT,
    features = const EXPOSED_KERNEL + offset_of!(KernelInfo, features) as u64, by_xsave = const feature::XSAVE,
    r8 = const offset_of!(Registers, r8), r9 = const offset_of!(Registers, r9), r10 = const offset_of!(Registers, r10),
    r11 = const offset_of!(Registers, r11), r12 = const offset_of!(Registers, r12),
    r13 = const offset_of!(Registers, r13), r14 = const offset_of!(Registers, r14),
    r15 = const offset_of!(Registers, r15), rdi = const offset_of!(Registers, rdi),
    rsi = const offset_of!(Registers, rsi), rbp = const offset_of!(Registers, rbp),
    rbx = const offset_of!(Registers, rbx), rdx = const offset_of!(Registers, rdx),
    rax = const offset_of!(Registers, rax), rcx = const offset_of!(Registers, rcx),
    rsp = const offset_of!(Context, frame.rsp), rip = const offset_of!(Context, frame.rip),
    rflags = const offset_of!(Context, frame.rflags),
);

unsafe extern "C" {
    fn exos_put_frame(
        to: u64,
        context: &Context,
        blocked: u64,
        vectors: u64,
        restorer: u64,
        alternate: &[AtomicU64; 3],
    ) -> u32;
    static exos_put_frame_end: u8;
    fn exos_take_frame();
    fn exos_take_registers(to: &mut Registers, from: u64) -> u32;
    static exos_take_frame_end: u8;
    fn exos_load_vectors(from: u64) -> u32;
    static exos_load_vectors_end: u8;
    /// Jumped to with RSP at a context whose frame is final, and in RDX the address of a user context that was
    /// checked ([`take`]). The program resumes with its registers; where they cannot be read any more, the gate
    /// refuses.
    pub fn exos_resume_from_frame();
    static exos_resume_from_frame_end: u8;
}

/// Where these functions lie, each with its way out.
pub(super) fn ranges() -> [(u64, u64); 4] {
    [
        (exos_put_frame as *const () as u64, &raw const exos_put_frame_end as u64),
        (exos_take_frame as *const () as u64, &raw const exos_take_frame_end as u64),
        (exos_load_vectors as *const () as u64, &raw const exos_load_vectors_end as u64),
        (exos_resume_from_frame as *const () as u64, &raw const exos_resume_from_frame_end as u64),
    ]
}

/// What a frame is written of.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    /// What was interrupted.
    pub context: &'a Context,
    /// Signals that were blocked.
    pub blocked: u64,
    /// Where the handler returns to.
    pub restorer: u64,
    /// Alternate stack: address, flags, size.
    pub alternate: &'a [AtomicU64; 3],
}

/// Writes a frame, and the vector registers in the layout of XSAVE (or FXSAVE).
#[inline]
pub fn put(layout: Layout, parts: Parts<'_>) -> Result<()> {
    if layout.end() > PROGRAM_END {
        return Err(Errno::EFAULT);
    }
    let Parts { context, blocked, restorer, alternate } = parts;
    // SAFETY: the target ends in the program's range, where a fault is fixed up; the layout has room for a frame and,
    // at a multiple of 64 above it, for as many bytes of vector registers as its maker asked for: all enabled
    // components.
    outcome(unsafe { exos_put_frame(layout.frame(), context, blocked, layout.vectors(), restorer, alternate) })
}

/// Reads what the frame says other than general registers; its user context begins at `from`.
#[inline]
pub fn take(from: u64) -> Result<Returned> {
    check(from, (size_of::<Frame>() - LINUX_CONTEXT) as u64)?;
    let faulted: u32;
    let (rsp, rip, rflags, blocked, alternate_bytes, vectors): (u64, u64, u64, u64, u64, u64);
    // SAFETY: the source lies in the program's range, where a fault is fixed up: then these registers hold anything,
    // which is no harm. No other is touched.
    unsafe {
        asm!(
            "call {take}", take = sym exos_take_frame, in("rsi") from, lateout("eax") faulted,
            lateout("rdx") rsp, lateout("rcx") rip, lateout("r8") rflags, lateout("r9") blocked,
            lateout("r10") alternate_bytes, lateout("r11") vectors, options(readonly),
        );
    }
    outcome(faulted).map(|()| Returned { rsp, rip, rflags, blocked, alternate_bytes, vectors })
}

/// Reads the general registers out of it. Where that fails some of them may have been read.
pub fn take_registers(registers: &mut Registers, from: u64) -> Result<()> {
    check(from, (size_of::<Frame>() - LINUX_CONTEXT) as u64)?;
    // SAFETY: the source lies in the program's range, where a fault is fixed up.
    outcome(unsafe { exos_take_registers(registers, from) })
}

/// Loads the vector registers from `bytes` bytes, which any process may have written. What the CPU does not take is
/// `EFAULT`, and leaves them as they may be.
#[inline]
pub fn load_vectors(from: u64, bytes: u64) -> Result<()> {
    check(from, bytes)?;
    if from % 64 != 0 {
        return Err(Errno::EFAULT);
    }
    // SAFETY: the source lies in the program's range, where a fault is fixed up. ExOS is built without vector
    // registers, so that what they hold is the program's.
    outcome(unsafe { exos_load_vectors(from) })
}
