//! Going (back) into the program: registers, segment bases, and what the CPU says of itself.

use crate::hw::thread_context::thread_context;
use core::arch::asm;
use core::sync::atomic::Ordering::Relaxed;
use runtime::area::Area;
use runtime::upcall::Context;
use runtime::{context, exposed};

/// Resumes the program at `context`; ExOS's stack is empty from then on.
pub fn resume(context: &Context) -> ! {
    let top = Area::current().library().upcall_stack_end.load(Relaxed);
    let place = top - (size_of::<Context>() as u64).next_multiple_of(16);
    let words = size_of::<Context>() / 8;
    // SAFETY: the place is the top of ExOS's own stack, above everything that lives (`create::ROOM_ABOVE`, or the frame
    // of the call that is left for ever); the copy ends before RSP moves there, and `iretq` takes the program's
    // registers, whose segments are those of user code.
    unsafe {
        asm!(
            "mov rdx, rdi",
            "rep movsq",
            "mov rsp, rdx",
            "pop r15; pop r14; pop r13; pop r12; pop rbp; pop rbx; pop r11; pop r10; pop r9; pop r8",
            "pop rdi; pop rsi; pop rdx; pop rcx; pop rax",
            "add rsp, 40",
            "iretq",
            in("rdi") place, in("rsi") core::ptr::from_ref(context), in("rcx") words,
            options(noreturn)
        );
    }
}

/// Sets the base of FS: the program's thread pointer.
pub fn set_segment_base(base: u64) {
    if exposed::has(abi::feature::FSGSBASE) {
        // SAFETY: the kernel says that user code may use the instruction; FS is the program's, ExOS does not use it.
        unsafe { asm!("wrfsbase {}", in(reg) base, options(nostack, preserves_flags)) };
    } else {
        // SAFETY: as above, by the call that serves where the instruction is missing.
        let _ = unsafe { context::set_fs_base(base) };
    }
    thread_context().segment_base.store(base, Relaxed);
}

/// The base of FS, as the program may have set it itself.
pub fn segment_base() -> u64 {
    if !exposed::has(abi::feature::FSGSBASE) {
        return thread_context().segment_base.load(Relaxed);
    }
    let base: u64;
    // SAFETY: as for `set_segment_base`.
    unsafe { asm!("rdfsbase {}", out(reg) base, options(nostack, preserves_flags)) };
    base
}

/// Does what transfers control to another environment, with which the base of FS goes: it is the program's, and is
/// put back.
pub fn keep_segment_base<T>(transfer: impl FnOnce() -> T) -> T {
    if !exposed::has(abi::feature::FSGSBASE) {
        return transfer();
    }
    let base = segment_base();
    let outcome = transfer();
    // SAFETY: as for `set_segment_base`.
    unsafe { asm!("wrfsbase {}", in(reg) base, options(nostack, preserves_flags)) };
    outcome
}

/// 64 random bits from the CPU's own source (RDRAND, SDM volume 1, section 7.3.17); nothing where it has none, or
/// gives none now.
pub fn random() -> Option<u64> {
    if !exposed::has(abi::feature::RDRAND) {
        return None;
    }
    let (value, valid): (u64, u8);
    // SAFETY: the kernel says that the CPU has the instruction.
    unsafe { asm!("rdrand {}", "setc {}", out(reg) value, out(reg_byte) valid, options(nomem, nostack)) };
    (valid != 0).then_some(value)
}

/// AT_HWCAP: register edx of CPUID leaf 1.
pub fn hardware_capabilities() -> u64 {
    u64::from(core::arch::x86_64::__cpuid(1).edx)
}
