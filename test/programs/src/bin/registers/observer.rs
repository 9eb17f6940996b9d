//! The state of the CPU that an environment finds: its general registers when it begins or resumes, and its vector
//! unit.

use abi::area::PUBLIC_LIBRARY;
use runtime::layout::AREA_ALIGNMENT;

const MASK: i64 = -(AREA_ALIGNMENT as i64);

/// Notes all general registers in the library's half of the public page, and keeps them; RSP is at a frame.
macro_rules! dump {
    () => {
        "push rax
         push rcx
         mov rax, rsp
         and rax, {mask}
         lea rax, [rax + {place}]
         mov [rax + 8], rbx; mov [rax + 16], rcx; mov [rax + 24], rdx; mov [rax + 32], rsi; mov [rax + 40], rdi
         mov [rax + 48], rbp; mov [rax + 56], r8; mov [rax + 64], r9; mov [rax + 72], r10; mov [rax + 80], r11
         mov [rax + 88], r12; mov [rax + 96], r13; mov [rax + 104], r14; mov [rax + 112], r15
         mov rcx, [rsp + 8]
         mov [rax], rcx
         pop rcx
         pop rax"
    };
}

/// Slice start entry of the observer.
#[unsafe(naked)]
pub(crate) extern "C" fn note_and_resume() {
    core::arch::naked_asm!(
        dump!(), "add rsp, 32", "iretq",
        mask = const MASK, place = const PUBLIC_LIBRARY,
    )
}

/// Beginning of an environment whose first registers are to be seen.
#[unsafe(naked)]
pub(crate) extern "C" fn note_and_start() {
    core::arch::naked_asm!(
        dump!(), "jmp {start}",
        mask = const MASK, place = const PUBLIC_LIBRARY, start = sym runtime::entry::_start,
    )
}

/// What FXSAVE stores: control and status of the x87 unit, the place of its last instruction, MXCSR, its registers, and
/// the lower halves of the vector registers.
#[repr(C, align(64))]
pub(crate) struct Legacy(pub(crate) [u64; 64]);

/// The words of [`Legacy`] in the initial state, but for the mask of MXCSR, which the CPU gives, and what is left to
/// software.
pub(crate) const CONTROL: u64 = 0x037f;
pub(crate) const MXCSR: u64 = 0x1f80;
pub(crate) const MXCSR_WORD: usize = 3;
pub(crate) const LEGACY_WORDS: usize = 52;

pub(crate) fn legacy() -> Legacy {
    let mut found = Legacy([0; 64]);
    // SAFETY: the area is aligned and large enough; nothing changes by it.
    unsafe { core::arch::asm!("fxsave64 [{}]", in(reg) &raw mut found, options(nostack)) };
    found
}

/// The upper halves of the wide registers, two words of each.
pub(crate) fn upper_halves() -> [u64; 32] {
    let mut found = [0u64; 32];
    // SAFETY: the registers are read only, and the array has room for all; the caller has checked that the CPU has AVX.
    unsafe {
        core::arch::asm!(
            "vextractf128 [{at}], ymm0, 1", "vextractf128 [{at} + 16], ymm1, 1", "vextractf128 [{at} + 32], ymm2, 1",
            "vextractf128 [{at} + 48], ymm3, 1", "vextractf128 [{at} + 64], ymm4, 1", "vextractf128 [{at} + 80], ymm5, 1",
            "vextractf128 [{at} + 96], ymm6, 1", "vextractf128 [{at} + 112], ymm7, 1", "vextractf128 [{at} + 128], ymm8, 1",
            "vextractf128 [{at} + 144], ymm9, 1", "vextractf128 [{at} + 160], ymm10, 1",
            "vextractf128 [{at} + 176], ymm11, 1", "vextractf128 [{at} + 192], ymm12, 1",
            "vextractf128 [{at} + 208], ymm13, 1", "vextractf128 [{at} + 224], ymm14, 1",
            "vextractf128 [{at} + 240], ymm15, 1",
            at = in(reg) found.as_mut_ptr()
        );
    }
    found
}

/// What the vector registers hold: the low words of all sixteen, then MXCSR.
pub(crate) fn vectors() -> [u64; 17] {
    let mut found = [0u64; 17];
    // SAFETY: the registers are read only; the array has room for what is stored.
    unsafe {
        core::arch::asm!(
            "movq [{at}], xmm0", "movq [{at} + 8], xmm1", "movq [{at} + 16], xmm2", "movq [{at} + 24], xmm3",
            "movq [{at} + 32], xmm4", "movq [{at} + 40], xmm5", "movq [{at} + 48], xmm6", "movq [{at} + 56], xmm7",
            "movq [{at} + 64], xmm8", "movq [{at} + 72], xmm9", "movq [{at} + 80], xmm10", "movq [{at} + 88], xmm11",
            "movq [{at} + 96], xmm12", "movq [{at} + 104], xmm13", "movq [{at} + 112], xmm14", "movq [{at} + 120], xmm15",
            "stmxcsr [{at} + 128]",
            at = in(reg) found.as_mut_ptr()
        );
    }
    found
}
