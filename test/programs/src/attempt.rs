//! Attempts: instructions that should raise an exception, and what came of them.
//!
//! [`attempt!`] runs assembly under a handler that records the upcall frame and resumes behind the assembly.

use abi::upcall::UpcallFrame;
use core::sync::atomic::Ordering::Relaxed;
use runtime::area::{Area, LIBRARY, LibraryWords};
use runtime::upcall::{Context, set_handler};

/// Free word of the area: where to go on; 0: no attempt is under way.
const RECOVERY: usize = 0;
/// Free word: stack pointer to go on with.
const STACK: usize = 1;
/// First of the free words with the frame that was noted.
const NOTED: usize = 2;
/// Kinds of upcall that an attempt may raise: hardware exceptions and reflection.
const CAUGHT: [u64; 10] = [0, 1, 3, 6, 7, 13, 14, 16, 17, 38];

/// Offset of a free word from GS base.
pub const fn free_word(index: usize) -> u64 {
    LIBRARY + core::mem::offset_of!(LibraryWords, free) as u64 + index as u64 * 8
}

/// Offset from GS base of the word that says where to go on.
pub const RECOVERY_WORD: u64 = free_word(RECOVERY);
/// Offset from GS base of the stack pointer to go on with.
pub const STACK_WORD: u64 = free_word(STACK);

/// Declares the handlers: once in each environment, before the first attempt.
pub fn watch() {
    for kind in CAUGHT {
        set_handler(kind, note);
    }
    set_handler(abi::upcall::kind::SIMD_FLOATING_POINT, note);
}

extern "C" fn note(context: &mut Context) {
    let words = &Area::current().library().free;
    let recovery = words[RECOVERY].swap(0, Relaxed);
    let frame = context.frame;
    if recovery == 0 {
        runtime::error_line!(
            "unexpected {} at {:#x}, address {:#x}",
            runtime::upcall::name(frame.kind),
            frame.rip,
            frame.detail
        );
        runtime::entry::exit(runtime::entry::FAULT_STATUS);
    }
    for (word, value) in
        words[NOTED..].iter().zip([frame.kind, frame.error, frame.detail, frame.rip, frame.rflags, frame.rsp])
    {
        word.store(value, Relaxed);
    }
    context.frame.rip = recovery;
    context.frame.rsp = words[STACK].load(Relaxed);
    context.frame.rflags = 0x202;
}

/// The upcall that the last attempt raised, if it raised one. Called by [`attempt!`].
pub fn noted() -> Option<UpcallFrame> {
    let words = &Area::current().library().free;
    if words[RECOVERY].swap(0, Relaxed) != 0 {
        return None;
    }
    let [kind, error, detail, rip, rflags, rsp] = core::array::from_fn(|index| words[NOTED + index].load(Relaxed));
    Some(UpcallFrame { kind, error, detail, rip, rflags, rsp, ..UpcallFrame::default() })
}

/// Runs assembly (Intel syntax) with operands, and gives the upcall that it raised, if any. All registers may be lost.
#[macro_export]
macro_rules! attempt {
    ([$($text:literal),+ $(,)?] $(, $register:tt = $value:expr)* $(,)?) => {{
        // SAFETY: what the assembly does to memory is the test's affair; every register is declared lost but rbx and
        // rbp, which are kept on the stack; a handler comes back to the label with the stack pointer as it was.
        unsafe {
            core::arch::asm!(
                "push rbx",
                "push rbp",
                "mov gs:[{stack}], rsp",
                "lea rbp, [rip + 77f]",
                "mov gs:[{recovery}], rbp",
                $($text,)+
                "77:",
                "mov rsp, gs:[{stack}]",
                "pop rbp",
                "pop rbx",
                stack = const $crate::attempt::STACK_WORD,
                recovery = const $crate::attempt::RECOVERY_WORD,
                $(in($register) $value,)*
                clobber_abi("sysv64"),
                lateout("r12") _, lateout("r13") _, lateout("r14") _, lateout("r15") _,
            );
        }
        $crate::attempt::noted()
    }};
}
