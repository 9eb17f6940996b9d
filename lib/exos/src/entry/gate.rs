//! The two ways into ExOS, and the handlers of exceptions and events.
//!
//! By the gate: the kernel reflects a `syscall` that comes from outside ExOS's image. By a stub: a rewritten site jumps
//! here with the way back in rcx. Both build the same [`Context`] on ExOS's stack. `getpid` is answered at the door.

use super::crash;
use super::legacy_calls;
use crate::hw::current::word;
use crate::hw::signal_frame;
use crate::hw::usercopy;
use crate::process::call::CallTable;
use crate::process::current::{process, thread};
use crate::process::sched::priority;
use crate::process::{Process, revocation};
use crate::signal;
use crate::syscalls;
use crate::wait::cpu_placement;
use abi::area::PrivateWords;
use abi::upcall::{USER_CODE, USER_DATA, UpcallFrame, kind};
use core::arch::naked_asm;
use core::mem::offset_of;
use core::sync::atomic::Ordering::Relaxed;
use linux_raw_sys::general as linux;
use program::patch_site::{MOVE_BYTES, MOVE_TO_EAX, SYSCALL_BYTES};
use runtime::area::{self, Area, LIBRARY, LibraryWords, free_offset};
use runtime::upcall::{self, Context, Registers};
use vm::address_space::{Access, FaultError};

const GETPID: u32 = linux::__NR_getpid;
const PROCESS: u64 = free_offset(word::PROCESS);
const NUMBER: u64 = free_offset(word::NUMBER);
const STACK_END: u64 = LIBRARY + offset_of!(LibraryWords, upcall_stack_end) as u64;
const PKRU: u64 = offset_of!(PrivateWords, upcall_pkru) as u64;
const RIP: usize = offset_of!(UpcallFrame, rip);
const RFLAGS: usize = offset_of!(UpcallFrame, rflags);

/// Bits of an address that are all zero only in the first bytes of a page.
const IN_PAGE: u32 = 0xff8;
/// From the opcode of the move to the end of the `syscall` behind it.
const BEFORE: u32 = (MOVE_BYTES + SYSCALL_BYTES) as u32;

/// Offset from GS base of the word where a stub finds its way into ExOS.
pub const STUB_ENTRY: u64 = free_offset(word::STUB_ENTRY);

/// Entered by the kernel with a reflected call: RSP is at the frame. `getpid` is answered here only where the site
/// cannot be rewritten, as far as one look tells: the others go the long way once. The return from a handler, which
/// comes by the gate always, because unwinders know its bytes, saves no registers, where ExOS's own operation
/// performs it.
#[unsafe(naked)]
pub extern "C" fn reflection_entry() {
    naked_asm!(
        "cmp eax, {sigreturn}",
        "je 3f",
        "cmp eax, {getpid}",
        "jne {call}",
        "mov rcx, [rsp + {rip}]",
        "test ecx, {in_page}",
        "jz 2f",
        "cmp byte ptr [rcx - {before}], {move_to_eax}",
        "je {call}",
        "2:",
        "mov rax, gs:[{number}]",
        "mov r11, [rsp + {rflags}]",
        "add rsp, 32",
        "iretq",
        "3:",
        "mov r11, gs:[{process}]",
        "cmp dword ptr [r11 + {returns}], 0",
        "je {call}",
        "sub rsp, {registers}",
        "cld",
        "mov rdi, rsp",
        "call {return_by_gate}",
        "cmp eax, {from_frame}",
        "je {resume_from_frame}",
        "jmp {rest}",
        sigreturn = const linux::__NR_rt_sigreturn, process = const PROCESS,
        returns = const offset_of!(Process, calls) + CallTable::RETURNS, registers = const size_of::<Registers>(),
        return_by_gate = sym return_by_gate, rest = sym rest, from_frame = const left::FROM_FRAME,
        resume_from_frame = sym signal_frame::exos_resume_from_frame,
        getpid = const GETPID, call = sym call_entry, number = const NUMBER,
        rip = const RIP, rflags = const RFLAGS, in_page = const IN_PAGE, before = const BEFORE,
        move_to_eax = const MOVE_TO_EAX,
    )
}

/// Saves the registers that Rust's functions do not keep below the frame that RSP is at, and has a function perform
/// the call. Those that they keep are not saved, and stay where they are. Only where the function says that there is
/// more to do the path leads through [`rest`], which saves them first. Behind this RSP is at the frame again.
macro_rules! call_quickly {
    () => {
        concat!(
            "push rax; push rax; push rcx; push rdx; push rsi; push rdi; push r8; push r9; push r10; push r11
             sub rsp, {kept}\n",
            runtime::unwind_begin!(),
            "cld
             mov rdi, rsp
             call {call}
             test eax, eax
             jnz {rest}\n",
            runtime::unwind_end!(200, keep),
            "\nadd rsp, {kept}
             pop r11; pop r10; pop r9; pop r8; pop rdi; pop rsi; pop rdx; pop rcx; pop rax"
        )
    };
}

/// Bytes that the registers take that functions keep.
const KEPT: usize = offset_of!(Registers, r11);
/// Bytes of padding that lie before the frame when registers are restored.
const PADDING: usize = 8;

/// Entered by a stub: rax holds the number, rcx the way back, RSP is the program's. The way back is a jump.
#[unsafe(naked)]
pub extern "C" fn stub_entry() {
    naked_asm!(
        "mov r11, rsp",
        "mov rsp, gs:[{stack_end}]",
        "push 0",
        "push {user_data}",
        "push r11",
        "pushfq",
        "cmp eax, {getpid}",
        "je 2f",
        "push {user_code}",
        "push rcx",
        "push gs:[{pkru}]",
        "push 0",
        "push 0",
        "push {reflection}",
        call_quickly!(),
        "add rsp, {rflags}",
        "popfq",
        "pop rsp",
        "jmp rcx",
        "2:",
        "mov rax, gs:[{number}]",
        "popfq",
        "pop rsp",
        "jmp rcx",
        stack_end = const STACK_END, getpid = const GETPID, number = const NUMBER, pkru = const PKRU,
        user_data = const USER_DATA, user_code = const USER_CODE,
        reflection = const kind::REFLECTION, rflags = const PADDING + RFLAGS,
        call = sym call_by_stub, rest = sym rest, kept = const KEPT,
    )
}

/// The same by the gate, whose frame RSP is at. The way back is `iretq`.
#[unsafe(naked)]
extern "C" fn call_entry() {
    naked_asm!(
        call_quickly!(),
        "add rsp, {rip}",
        "iretq",
        rip = const PADDING + RIP, call = sym call_by_gate, rest = sym rest, kept = const KEPT,
    )
}

/// What is left of a call (eax): RSP is at the context.
#[unsafe(naked)]
extern "C" fn rest() {
    naked_asm!(
        "cmp eax, {registers}",
        "je {resume}",
        "mov [rsp], r15",
        "mov [rsp + 8], r14",
        "mov [rsp + 16], r13",
        "mov [rsp + 24], r12",
        "mov [rsp + 32], rbp",
        "mov [rsp + 40], rbx",
        runtime::unwind_begin!(),
        "mov rdi, rsp",
        "cmp eax, {signals}",
        "ja 3f",
        "je 2f",
        "call {deliver_sent}",
        "jmp {resume}",
        "2:",
        "call {deliver}",
        "jmp {resume}",
        "3:",
        "call {whole}",
        "jmp {resume}",
        runtime::unwind_end!(200, all),
        registers = const left::REGISTERS, deliver_sent = sym deliver_sent,
        signals = const left::SIGNALS, deliver = sym deliver, whole = sym whole, resume = sym upcall::resume,
    )
}

/// Declares the entries and handlers of a process.
pub fn install() {
    upcall::set_exception_handlers(exception);
    upcall::set_handler(kind::EVENT, event);
    upcall::set_handler(kind::REVOCATION, revocation::revoked);
    upcall::set_handler(kind::SLICE_END, slice_end);
    upcall::set_entry(kind::REFLECTION, reflection_entry as *const () as u64);
}

/// What is left to do for a call once its quick way is over.
mod left {
    /// Nothing: the program resumes with all registers but those that are saved.
    pub(super) const NOTHING: u32 = 0;
    /// Look at a signal that the call sent to its own thread.
    pub(super) const SENT: u32 = 1;
    /// Signals are to be looked at.
    pub(super) const SIGNALS: u32 = 2;
    /// The call itself: it has to do with every register of the program.
    pub(super) const ALL: u32 = 3;
    /// All registers are to be taken from the context, where the call put them.
    pub(super) const REGISTERS: u32 = 4;
    /// The same from the frame of a signal, on the program's stack.
    pub(super) const FROM_FRAME: u32 = 5;
}

/// What is left to do for a return from a handler, and the address of the user context in the frame.
#[repr(C)]
struct Returning {
    left: u64,
    from: u64,
}

extern "C" fn call_by_stub(context: &mut Context) -> u32 {
    call_quickly(context)
}

extern "C" fn call_by_gate(context: &mut Context) -> u32 {
    // Where the gate finds another PKRU, the way back is the one that puts it back.
    if context.frame.pkru != area::upcall_pkru() {
        return left::ALL;
    }
    thread().cpu_time.count_upcall();
    let (site, number) = (context.frame.rip, context.registers.rax);
    let left = call_quickly(context);
    if left < left::ALL {
        super::patch::note_trap(site, number);
    }
    left
}

/// Performs a call on its quick way. Of the context the registers from r11 on and the frame are there.
#[inline(always)]
fn call_quickly(context: &mut Context) -> u32 {
    context.registers.rcx = context.frame.rip;
    context.registers.r11 = context.frame.rflags;
    let process = process();
    let Some(operation) = process.calls.quick(context.registers.rax) else { return left::ALL };
    let thread = thread();
    thread.cpu_time.enter_library();
    syscalls::perform_quickly(context, (process, thread), operation);
    match signal::left(&process.signal, &thread.signals) {
        signal::PendingWork::Nothing => {}
        signal::PendingWork::Sent => return left::SENT,
        signal::PendingWork::Anything => return left::SIGNALS,
    }
    thread.cpu_time.leave_library();
    left::NOTHING
}

/// The return from a handler. Of the context only the frame is there; all registers come from the program's stack.
extern "C" fn return_by_gate(context: &mut Context) -> Returning {
    let leave = |left: u32, from| Returning { left: left.into(), from };
    if context.frame.pkru != area::upcall_pkru() {
        context.registers = Registers { rax: linux::__NR_rt_sigreturn.into(), ..Registers::default() };
        return leave(left::ALL, 0);
    }
    let thread = thread();
    thread.cpu_time.enter_library();
    let returned = signal::begin_return(context, &thread.signals);
    let Ok(from) = returned else { return leave(refuse_return(context), 0) };
    if signal::left(&process().signal, &thread.signals) == signal::PendingWork::Nothing {
        thread.cpu_time.leave_library();
        return leave(left::FROM_FRAME, from);
    }
    if signal_frame::take_registers(&mut context.registers, from).is_err() {
        return leave(refuse_return(context), 0);
    }
    signal::deliver(context);
    thread.cpu_time.leave_library();
    leave(left::REGISTERS, 0)
}

/// A handler returns to a frame that cannot be read, or that says what cannot be.
extern "C" fn refuse_return(context: &mut Context) -> u32 {
    thread().cpu_time.enter_library();
    context.registers = Registers::default();
    signal::raise_here(linux::SIGSEGV);
    left::SIGNALS
}

/// Entered by way of the image's header, with RSP at the context where the registers of a frame could not be read in
/// the end.
#[unsafe(naked)]
pub extern "C" fn return_failed() {
    naked_asm!("mov rdi, rsp", "call {refuse}", "jmp {rest}", refuse = sym refuse_return, rest = sym rest)
}

/// The rest of the way of a call that has to do with every register: they are all in the context.
extern "C" fn whole(context: &mut Context) {
    thread().cpu_time.enter_library();
    syscalls::perform(context);
    signal::deliver_pending(context);
    thread().cpu_time.leave_library();
}

/// The rest of the way of a call that sent a signal to its own thread.
extern "C" fn deliver_sent(context: &mut Context) {
    let thread = thread();
    signal::deliver_sent(context, (&process().signal, &thread.signals));
    thread.cpu_time.leave_library();
}

/// The rest of the way of a call that finds signals to look at, or that had no room to answer a revocation.
extern "C" fn deliver(context: &mut Context) {
    revocation::answer_open();
    signal::deliver(context);
    thread().cpu_time.leave_library();
}

/// An event was raised, to the first thread where it is for the process. Signals are delivered here if it was the
/// program that was interrupted; else ExOS looks at them before it goes back.
extern "C" fn event(context: &mut Context) {
    thread().cpu_time.count_upcall();
    if process().is_first(thread()) {
        signal::pass_on();
    }
    if is_program(context.frame.rip) && !is_on_own_stack(context.frame.rsp) {
        signal::deliver_pending(context);
    }
}

/// Events that came while the CPU was given away are looked at here, where the program's registers are at hand.
extern "C" fn slice_end(context: &mut Context) {
    cpu_placement::yield_cpu();
    revocation::answer_open();
    event(context);
    // A thread in the library may have what others wait for.
    while is_program(context.frame.rip) && priority::leaves_slice() {
        cpu_placement::yield_cpu();
        event(context);
    }
}

extern "C" fn exception(context: &mut Context) {
    let frame = context.frame;
    let in_program = is_program(frame.rip);
    if !in_program && usercopy::fix_up(frame.rip).is_none() {
        give_up(&frame);
    }
    thread().cpu_time.count_upcall();
    if in_program {
        thread().cpu_time.enter_library();
    }
    let outcome = mend(&frame);
    if in_program {
        thread().cpu_time.leave_library();
    }
    let Some((signal, code, address)) = outcome else { return thread().cpu_time.note_fault() };
    if let Some(way_out) = usercopy::fix_up(frame.rip) {
        thread().fault_under_lock.store(process().memory_is_mine(), Relaxed);
        context.frame.rip = way_out;
        return;
    }
    if crate::process::fork::vfork_deferred::begin_at_fault(context) {
        return;
    }
    if in_program && legacy_calls::perform(context) {
        return signal::deliver_pending(context);
    }
    if signal::ends_by_fault(signal) {
        crash::report(context, signal);
    }
    signal::raise_fault(signal, code, address, [frame.error, frame.kind, frame.detail]);
    signal::deliver_pending(context);
}

/// Mends a page fault; for everything that cannot be mended the signal, its code and its address.
fn mend(frame: &UpcallFrame) -> Option<(u32, i32, u64)> {
    const WRITE: u64 = 2;
    const FETCH: u64 = 16;
    /// #NP, and #SS: what a stack pointer that no address can be brings.
    const SEGMENT_NOT_PRESENT: u64 = 11;
    const STACK_FAULT: u64 = 12;
    const SI_KERNEL: i32 = 0x80;
    let at = frame.rip;
    match frame.kind {
        kind::PAGE_FAULT => {
            let access = match frame.error {
                error if error & FETCH != 0 => Access::Execute,
                error if error & WRITE != 0 => Access::Write,
                _ => Access::Read,
            };
            let address = frame.detail;
            let inside = usercopy::check(address, 1).is_ok();
            let outcome = if !inside || process().memory_is_mine() {
                Err(FaultError::NotMapped)
            } else {
                process().with_memory_inline(|space, pages| {
                    (process().calls.image().tables.fault)(space, pages, address, access)
                })
            };
            match outcome {
                Err(FaultError::OutOfMemory) if process().discard_some() => None,
                outcome => outcome.err().map(|violation| signal_of(violation, address)),
            }
        }
        kind::DIVIDE_ERROR => Some((linux::SIGFPE, 1, at)),
        kind::DEBUG => Some((linux::SIGTRAP, 2, at)),
        kind::BREAKPOINT => Some((linux::SIGTRAP, SI_KERNEL, 0)),
        kind::INVALID_OPCODE => Some((linux::SIGILL, 2, at)),
        kind::FLOATING_POINT | kind::SIMD_FLOATING_POINT => Some((linux::SIGFPE, 8, at)),
        kind::ALIGNMENT_CHECK => Some((linux::SIGBUS, 1, 0)),
        SEGMENT_NOT_PRESENT | STACK_FAULT => Some((linux::SIGBUS, SI_KERNEL, 0)),
        _ => Some((linux::SIGSEGV, SI_KERNEL, 0)),
    }
}

/// A process that finds no page is killed, also where its library was about to copy something there.
#[cold]
fn signal_of(violation: FaultError, address: u64) -> (u32, i32, u64) {
    if violation == FaultError::OutOfMemory {
        crate::process::exit::oom::kill();
    }
    match violation {
        FaultError::NotMapped => (linux::SIGSEGV, 1, address),
        FaultError::NotAllowed => (linux::SIGSEGV, 2, address),
        FaultError::PastEnd => (linux::SIGBUS, 2, address),
        FaultError::OutOfMemory => (linux::SIGKILL, 0, address),
    }
}

/// A fault in ExOS itself: its bug, or the program's scribbling over it. Only this process ends.
fn give_up(frame: &UpcallFrame) -> ! {
    runtime::error_line!(
        "process {}: {} in ExOS at {:#x}, error {:#x}, address {:#x}",
        runtime::area::number().0,
        upcall::name(frame.kind),
        frame.rip,
        frame.error,
        frame.detail
    );
    // What is damaged may be what the end needs.
    if Area::current().library().free[word::GIVEN_UP].swap(1, Relaxed) != 0 {
        crate::process::exit::die();
    }
    crate::process::exit::abandon(unix_core::process::exit_status::Status::Killed(linux::SIGSEGV))
}

/// Whether an address is the program's, not ExOS's.
fn is_program(rip: u64) -> bool {
    let (start, end) = runtime::image::own_range();
    !(start..end).contains(&rip)
}

fn is_on_own_stack(rsp: u64) -> bool {
    let area = Area::current().address();
    let end = Area::current().library().upcall_stack_end.load(Relaxed);
    rsp > area && rsp <= end
}
