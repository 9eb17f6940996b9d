//! Upcalls: the entries that the kernel jumps to, in assembly, and the table of handlers behind them.
//!
//! The general entry ([`upcall_entry`]) saves all registers and calls the handler of the kind as a Rust function; the
//! slice entries do no more than the default policy needs. A program that wants its own (for a faster path, or to keep
//! other state) declares any address in the private page instead: see [`set_entry`]. Every entry ends the same way: it
//! skips the first four words of the frame, and `iretq` resumes what was interrupted, without the kernel.

use crate::area::{Area, LIBRARY, LibraryWords};
use crate::critical_section;
use crate::layout::AREA_ALIGNMENT;
use abi::area::{PRIVATE, PrivateWords};
use abi::syscall::SYNCHRONOUS;
use abi::upcall::{FRAME_ALIGNMENT, UpcallFrame, kind};
use core::arch::naked_asm;
use core::mem::offset_of;
use core::sync::atomic::Ordering::Relaxed;

/// The general registers of interrupted code, as [`upcall_entry`] saves them.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[expect(missing_docs, reason = "the fields bear the names of the registers")]
pub struct Registers {
    pub r15: u64,
    pub r14: u64,
    pub r13: u64,
    pub r12: u64,
    pub rbp: u64,
    pub rbx: u64,
    pub r11: u64,
    pub r10: u64,
    pub r9: u64,
    pub r8: u64,
    pub rdi: u64,
    pub rsi: u64,
    pub rdx: u64,
    pub rcx: u64,
    pub rax: u64,
    /// Keeps what follows at a multiple of 16.
    pub padding: u64,
}

/// Interrupted code, whole: what a handler may look at and change.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Context {
    /// The registers that the frame does not hold.
    pub registers: Registers,
    /// What the kernel pushed.
    pub frame: UpcallFrame,
}

/// Handles one kind of upcall, on the upcall stack. The code resumes with the context as the handler leaves it.
pub type Handler = extern "C" fn(&mut Context);

const FRAME: usize = offset_of!(Context, frame);
const KIND: usize = FRAME + offset_of!(UpcallFrame, kind);
const PKRU: usize = FRAME + offset_of!(UpcallFrame, pkru);
const HANDLERS: u64 = PRIVATE + LIBRARY + offset_of!(LibraryWords, handlers) as u64;
const UPCALL_PKRU: u64 = PRIVATE + offset_of!(PrivateWords, upcall_pkru) as u64;
const AREA_MASK: i64 = -(AREA_ALIGNMENT as i64);

/// Saves every general register below the frame: RSP is then a [`Context`]. Touches the frame first: where it lies in
/// the guard page ([`crate::layout::UPCALL_GUARD`]) that faults, down to the last frame that fits.
macro_rules! save {
    () => {
        "test [rsp], eax
         push rax; push rax; push rcx; push rdx; push rsi; push rdi; push r8; push r9; push r10; push r11
         push rbx; push rbp; push r12; push r13; push r14; push r15"
    };
}

/// Restores the registers, frees the frame and resumes. RBX holds the area. Another PKRU takes the longer way.
/// The unwind rule of the entry ends in it.
macro_rules! resume {
    () => {
        concat!(
            "mov eax, [rsp + {pkru}]
             cmp eax, [rbx + {upcall_pkru}]
             jne {resume_under_keys}\n",
            crate::unwind_end!(200, all),
            "
             pop r15; pop r14; pop r13; pop r12; pop rbp; pop rbx; pop r11; pop r10; pop r9; pop r8
             pop rdi; pop rsi; pop rdx; pop rcx; pop rax
             add rsp, 40
             iretq"
        )
    };
}

/// The general entry: saves all registers, calls the handler of the kind, restores them, resumes.
#[unsafe(naked)]
pub extern "C" fn upcall_entry() {
    naked_asm!(
        save!(),
        crate::unwind_begin!(),
        "cld",
        "mov rdi, rsp",
        "mov rbx, rsp",
        "and rbx, {mask}",
        "mov rax, [rsp + {kind}]",
        "call [rbx + rax * 8 + {handlers}]",
        resume!(),
        mask = const AREA_MASK, kind = const KIND, handlers = const HANDLERS, resume_under_keys = sym resume_under_keys,
        pkru = const PKRU, upcall_pkru = const UPCALL_PKRU,
    )
}

/// Resumes code under another PKRU than that of upcalls. RSP is at the [`Context`]. It is copied below the red zone of
/// the interrupted stack before PKRU is restored. From then on the next frame lies at the top of the upcall stack.
/// Where the interrupted stack cannot be written the copy faults, with the context still in its place.
#[unsafe(naked)]
extern "C" fn resume_under_keys() {
    naked_asm!(
        "cld",
        "mov rsi, rsp",
        "mov rdi, [rsp + {frame_rsp}]",
        "sub rdi, {red_zone} + {bytes}",
        "and rdi, -16",
        "mov rbx, rdi",
        "mov ecx, {bytes} / 8",
        "rep movsq",
        "mov eax, [rsp + {pkru}]",
        "mov rsp, rbx",
        "xor ecx, ecx",
        "xor edx, edx",
        "wrpkru",
        "pop r15; pop r14; pop r13; pop r12; pop rbp; pop rbx; pop r11; pop r10; pop r9; pop r8",
        "pop rdi; pop rsi; pop rdx; pop rcx; pop rax",
        "add rsp, 40",
        "iretq",
        frame_rsp = const FRAME + offset_of!(UpcallFrame, rsp), red_zone = const 128,
        bytes = const size_of::<Context>(), pkru = const PKRU,
    )
}

/// The same where RSP is at the frame and every register is the interrupted code's.
#[unsafe(naked)]
pub(crate) extern "C" fn resume_frame_under_keys() {
    naked_asm!(save!(), "jmp {resume_under_keys}", resume_under_keys = sym resume_under_keys)
}

/// The end of every entry that has saved all registers: RSP is at the [`Context`] to resume. Jumped to, not called.
#[unsafe(naked)]
pub extern "C" fn resume() {
    naked_asm!(
        crate::unwind_begin!(),
        "mov rbx, rsp",
        "and rbx, {mask}",
        resume!(),
        mask = const AREA_MASK, pkru = const PKRU, upcall_pkru = const UPCALL_PKRU,
        resume_under_keys = sym resume_under_keys,
    )
}

/// Default entry for the end of a slice: saves the general registers, gives way, and takes all up again.
#[unsafe(naked)]
pub extern "C" fn slice_end_entry() {
    naked_asm!(
        save!(),
        crate::unwind_begin!(),
        "cld",
        "call {give_way}",
        "mov rbx, rsp",
        "and rbx, {mask}",
        resume!(),
        give_way = sym give_way, mask = const AREA_MASK, pkru = const PKRU, upcall_pkru = const UPCALL_PKRU,
        resume_under_keys = sym resume_under_keys,
    )
}

/// Gives the CPU away, and comes back when a slice begins. A slice that ends before its first instruction ends here and
/// not in one more frame on the stack. That happens on a host that has not the time for its virtual CPUs.
pub extern "C" fn give_way() {
    let _section = critical_section::enter();
    loop {
        crate::time_slice::yield_now();
        if !critical_section::take_slice_end() {
            break;
        }
    }
}

/// Default entry for the start of a slice: resumes the environment where it stopped.
#[unsafe(naked)]
pub extern "C" fn slice_start_entry() {
    naked_asm!(
        "test [rsp], eax",
        "push rax",
        "mov rax, rsp",
        "and rax, {mask}",
        "mov eax, [rax + {upcall_pkru}]",
        "cmp eax, [rsp + 8 + {frame_pkru}]",
        "jne 2f",
        "pop rax",
        "add rsp, 32",
        "iretq",
        "2:",
        "pop rax",
        "jmp {resume_frame_under_keys}",
        mask = const AREA_MASK, upcall_pkru = const UPCALL_PKRU, frame_pkru = const offset_of!(UpcallFrame, pkru),
        resume_frame_under_keys = sym resume_frame_under_keys,
    )
}

/// Enters `entry` (rcx) as the kernel would, with a frame of `kind` (rdi), `error` (rsi) and `detail` (rdx). The stack
/// ends at `top` (r8), or below RSP where that is 0; `pkru` is in r9. Comes back when the entry resumes.
#[unsafe(naked)]
extern "C" fn enter(_kind: u64, _error: u64, _detail: u64, _entry: u64, _top: u64, _pkru: u64) {
    naked_asm!(
        "mov rax, rsp",
        "test r8, r8",
        "cmovnz rsp, r8",
        "and rsp, -{alignment}",
        "sub rsp, {padding}",
        "push {user_data}",
        "push rax",
        "pushfq",
        "push {user_code}",
        "lea rax, [rip + 2f]",
        "push rax",
        "push r9",
        "push rdx",
        "push rsi",
        "push rdi",
        "jmp rcx",
        "2:",
        "ret",
        alignment = const FRAME_ALIGNMENT, padding = const FRAME_ALIGNMENT - size_of::<UpcallFrame>() as u64,
        user_data = const abi::upcall::USER_DATA, user_code = const abi::upcall::USER_CODE,
    )
}

/// Makes an upcall without the kernel: to the declared entry, with the same frame as the kernel would push. That is how
/// what stayed pending is delivered, and how a thread lets the thread scheduler of its own environment choose another.
pub fn deliver(upcall: u64, error: u64, detail: u64) {
    let area = Area::current();
    let private = area.private();
    let entry = match upcall {
        kind::SLICE_START => &private.slice_start_entry,
        kind::SLICE_END => &private.slice_end_entry,
        _ => &private.event_entry,
    };
    let marker = 0u8;
    let on_upcall_stack = crate::layout::area_of(&raw const marker as u64) == area.address();
    let top = if on_upcall_stack { 0 } else { upcall_stack_end(area) };
    enter(upcall, error, detail, entry.load(Relaxed), top, private.upcall_pkru.load(Relaxed));
}

/// The first address after the upcall stack of the running environment.
fn upcall_stack_end(area: Area) -> u64 {
    area.library().upcall_stack_end.load(Relaxed)
}

/// Declares the handler of one kind and returns the one before it. The kind goes through [`upcall_entry`] from then on.
pub fn set_handler(upcall: u64, handler: Handler) -> u64 {
    let area = Area::current();
    let before = area.library().handlers[upcall as usize].swap(handler as usize as u64, Relaxed);
    set_entry(upcall, upcall_entry as *const () as u64);
    before
}

/// Declares the handler of every exception.
pub fn set_exception_handlers(handler: Handler) {
    let handlers = &Area::current().library().handlers[..kind::SLICE_START as usize];
    handlers.iter().for_each(|place| place.store(handler as usize as u64, Relaxed));
    set_entry(0, upcall_entry as *const () as u64);
}

/// Declares the address that the kernel enters for a kind: code that keeps to the conventions of this module.
/// Exceptions share one entry, and so do event, revocation, repossession and emergency.
pub fn set_entry(upcall: u64, entry: u64) {
    let private = Area::current().private();
    let word = match upcall {
        kind::SLICE_START => &private.slice_start_entry,
        kind::SLICE_END => &private.slice_end_entry,
        kind::REFLECTION => &private.reflection_entry,
        kind::EVENT..=kind::EMERGENCY => &private.event_entry,
        _ => &private.exception_entry,
    };
    word.store(entry, Relaxed);
}

/// Fills in every entry and handler with the defaults.
pub(crate) fn install(area: Area) {
    let (private, general) = (area.private(), upcall_entry as *const () as u64);
    for word in [&private.exception_entry, &private.event_entry, &private.reflection_entry] {
        word.store(general, Relaxed);
    }
    private.slice_start_entry.store(slice_start_entry as *const () as u64, Relaxed);
    if private.gate_end.load(Relaxed) == 0 {
        private.ungated_transfers.store(SYNCHRONOUS, Relaxed);
    }
    private.slice_end_entry.store(slice_end_entry as *const () as u64, Relaxed);
    for (number, handler) in area.library().handlers.iter().enumerate() {
        let default: Handler = match number as u64 {
            kind::REVOCATION => give_back,
            kind::SLICE_START..=kind::EMERGENCY => ignore,
            _ => unhandled,
        };
        handler.store(default as usize as u64, Relaxed);
    }
}

/// Default for what can be ignored.
extern "C" fn ignore(_: &mut Context) {}

/// Default for a request of pages: gives back the free end of the heap.
extern "C" fn give_back(context: &mut Context) {
    if context.frame.error == abi::budget::Resource::Page as u64 {
        crate::heap::release_end();
    }
}

/// Default for exceptions and reflected calls: says what happened, and ends the environment.
extern "C" fn unhandled(context: &mut Context) {
    let frame = &context.frame;
    crate::error_line!(
        "environment {}: {} at {:#x}, error {:#x}, address {:#x}",
        crate::area::number().0,
        name(frame.kind),
        frame.rip,
        frame.error,
        frame.detail
    );
    crate::entry::exit(crate::entry::FAULT_STATUS)
}

/// What an upcall is called.
pub const fn name(upcall: u64) -> &'static str {
    match upcall {
        kind::DIVIDE_ERROR => "divide error",
        kind::DEBUG => "debug exception",
        kind::BREAKPOINT => "breakpoint",
        kind::INVALID_OPCODE => "invalid opcode",
        kind::DEVICE_NOT_AVAILABLE => "vector unit off",
        kind::GENERAL_PROTECTION => "general protection fault",
        kind::PAGE_FAULT => "page fault",
        kind::ALIGNMENT_CHECK => "alignment check",
        kind::FLOATING_POINT | kind::SIMD_FLOATING_POINT => "floating-point exception",
        kind::SLICE_START => "slice start",
        kind::SLICE_END => "slice end",
        kind::EVENT => "event",
        kind::REVOCATION => "revocation",
        kind::REPOSSESSION => "repossession",
        kind::EMERGENCY => "emergency",
        kind::REFLECTION => "reflected system call",
        _ => "exception",
    }
}
