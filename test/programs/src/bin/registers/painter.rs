//! Painters: environments that fill every register that they can reach, and let go of the CPU in every way.

use crate::PATTERN;
use crate::bases::set_protection_keys;
use abi::feature;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use runtime::area::Area;
use runtime::environment::Child;
use runtime::{context, exposed};
use test_programs::child::{eventually, spawn, status};
use test_programs::{Outcome, World, check, granted};

/// Paints every general and vector register, and yields or spins, by its argument.
extern "C" fn paint(mode: u64) {
    let _ = context::set_vector(true);
    let private = Area::current().private();
    for round in 1.. {
        Area::current().status(1).store(round, Relaxed);
        paint_vectors();
        if mode == 1 {
            // Until it spins: the entry goes back to who called `paint_and_spin`.
            private.critical_section.store(1, SeqCst);
            private.slice_end_entry.store(yield_painted as *const () as u64, SeqCst);
            paint_and_spin();
        } else {
            paint_and_yield();
        }
    }
}

pub(crate) fn paint_vectors() {
    // SAFETY: this program keeps nothing in vector registers.
    unsafe {
        core::arch::asm!(
            "mov rax, {pattern}", "movq xmm0, rax", "punpcklqdq xmm0, xmm0",
            "movdqa xmm1, xmm0", "movdqa xmm2, xmm0", "movdqa xmm3, xmm0", "movdqa xmm4, xmm0", "movdqa xmm5, xmm0",
            "movdqa xmm6, xmm0", "movdqa xmm7, xmm0", "movdqa xmm8, xmm0", "movdqa xmm9, xmm0", "movdqa xmm10, xmm0",
            "movdqa xmm11, xmm0", "movdqa xmm12, xmm0", "movdqa xmm13, xmm0", "movdqa xmm14, xmm0", "movdqa xmm15, xmm0",
            "fninit", "fldpi", "fldpi", "push 0x5f80", "ldmxcsr [rsp]", "pop rax",
            pattern = const PATTERN as i64, out("rax") _
        );
    }
    if exposed::has(feature::AVX) {
        // SAFETY: as above; the CPU has AVX and the kernel enabled it.
        unsafe {
            core::arch::asm!(
                "vinsertf128 ymm0, ymm0, xmm0, 1",
                "vinsertf128 ymm1, ymm1, xmm1, 1",
                "vinsertf128 ymm2, ymm2, xmm2, 1",
                "vinsertf128 ymm4, ymm4, xmm4, 1",
                "vinsertf128 ymm5, ymm5, xmm5, 1",
                "vinsertf128 ymm6, ymm6, xmm6, 1",
                "vinsertf128 ymm7, ymm7, xmm7, 1",
                "vinsertf128 ymm8, ymm8, xmm8, 1",
                "vinsertf128 ymm9, ymm9, xmm9, 1",
                "vinsertf128 ymm10, ymm10, xmm10, 1",
                "vinsertf128 ymm11, ymm11, xmm11, 1",
                "vinsertf128 ymm13, ymm13, xmm13, 1",
                "vinsertf128 ymm14, ymm14, xmm14, 1",
                "vinsertf128 ymm15, ymm15, xmm15, 1",
                "vpcmpeqd ymm3, ymm3, ymm3",
                "vpcmpeqd ymm12, ymm12, ymm12"
            )
        };
    }
}

/// Yields with the pattern in every register.
#[unsafe(naked)]
extern "C" fn paint_and_yield() {
    core::arch::naked_asm!(
        "push rbx; push rbp; push r12; push r13; push r14; push r15",
        "mov rbx, {pattern}",
        "mov rcx, rbx; mov rdx, rbx; mov rsi, rbx; mov rbp, rbx; mov r8, rbx; mov r9, rbx; mov r10, rbx",
        "mov r11, rbx; mov r12, rbx; mov r13, rbx; mov r14, rbx; mov r15, rbx",
        "mov eax, {number}", "xor edi, edi", "syscall",
        "pop r15; pop r14; pop r13; pop r12; pop rbp; pop rbx",
        "ret",
        pattern = const PATTERN as i64, number = const abi::syscall::number::time_slice_yield,
    )
}

/// Spins with the pattern in every register until the slice ends.
#[unsafe(naked)]
extern "C" fn paint_and_spin() {
    core::arch::naked_asm!(
        "push rbx; push rbp; push r12; push r13; push r14; push r15",
        "mov gs:[{stack}], rsp",
        "mov qword ptr gs:[{section}], 0",
        "mov rbx, {pattern}",
        "mov rax, rbx; mov rcx, rbx; mov rdx, rbx; mov rsi, rbx; mov rbp, rbx; mov rdi, rbx; mov r8, rbx; mov r9, rbx",
        "mov r10, rbx; mov r11, rbx; mov r12, rbx; mov r13, rbx; mov r14, rbx; mov r15, rbx",
        "2:", "pause", "jmp 2b",
        pattern = const PATTERN as i64, stack = const test_programs::attempt::free_word(8), section = const SECTION,
    )
}

/// Offset from GS base of the critical-section word.
const SECTION: usize = core::mem::offset_of!(abi::area::PrivateWords, critical_section);

/// Slice end entry of the spinning painter: yields with the pattern, and goes back to who called `paint_and_spin`.
#[unsafe(naked)]
extern "C" fn yield_painted() {
    core::arch::naked_asm!(
        "mov qword ptr gs:[{section}], 1",
        "mov eax, {number}", "xor edi, edi", "syscall",
        "mov rsp, gs:[{stack}]",
        "pop r15; pop r14; pop r13; pop r12; pop rbp; pop rbx",
        "ret",
        number = const abi::syscall::number::time_slice_yield, stack = const test_programs::attempt::free_word(8),
        section = const SECTION,
    )
}

/// Spins with the pattern in every register but the stack pointer, for ever. It stands at many places. A forced switch
/// where it was told that its slice has ended, with the same registers, may have given it no time at all, and is not
/// counted.
#[unsafe(naked)]
extern "C" fn paint_and_stay() {
    core::arch::naked_asm!(
        "mov rbx, {pattern}",
        "mov rax, rbx; mov rcx, rbx; mov rdx, rbx; mov rsi, rbx; mov rbp, rbx; mov rdi, rbx; mov r8, rbx; mov r9, rbx",
        "mov r10, rbx; mov r11, rbx; mov r12, rbx; mov r13, rbx; mov r14, rbx; mov r15, rbx",
        "2:", ".rept 64", "pause", ".endr", "jmp 2b",
        pattern = const PATTERN as i64,
    )
}

/// Ways in which a painter leaves the CPU: switched out whole, so with its vector unit off, and else of its own will.
pub(crate) mod leaving {
    pub(crate) const WHOLE: u64 = 0;
    pub(crate) const WITHOUT_VECTORS: u64 = 2;
    pub(crate) const WAYS: u64 = 3;
}

/// Fills whatever it can reach, and leaves the CPU in one of the ways of [`leaving`].
pub(crate) extern "C" fn paint_everything(way: u64) {
    let area = Area::current();
    paint_vectors();
    if way == leaving::WITHOUT_VECTORS {
        let _ = context::set_vector(false);
    }
    // SAFETY: nothing of this program uses FS.
    let _ = unsafe { context::set_fs_base(0x6666_0000) };
    if exposed::has(feature::PKU) && context::set_protection_keys(true).is_ok() {
        set_protection_keys(0xffff_fff0);
    }
    while way != leaving::WHOLE {
        area.status(1).store(1, SeqCst);
        paint_and_yield();
    }
    area.private().critical_section.store(1, SeqCst);
    // SAFETY: nothing goes by GS from here on: upcalls, whose handlers do, wait for ever.
    let _ = unsafe { context::set_gs_base(0x6666_1000) };
    area.status(1).store(1, SeqCst);
    paint_and_stay();
}

fn painters(world: &World) -> Result<[Child; 2], alloc::string::String> {
    let painters = [spawn(world, paint, 0)?, spawn(world, paint, 1)?];
    check!(eventually(|| painters.iter().all(|painter| status(painter, 1) > 2)), "a painter does not run");
    Ok(painters)
}

pub(crate) fn with_painters(world: &World, look: impl Fn(usize) -> Outcome) -> Outcome {
    let painters = painters(world)?;
    let outcome = (0..200).try_for_each(look);
    for painter in painters {
        check!(painter.alive(), "a painter died: {}", test_programs::child::death(&painter));
        granted!(painter.destroy());
    }
    outcome
}
