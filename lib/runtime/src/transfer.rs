//! Protected control transfers: calls into another environment (exokernel-sosp95 §5.5, §6.1).
//!
//! The registers are the message. A caller saves what it wants to keep, declares itself ready to be entered, transfers,
//! and is entered again by the callee's answer ([`syscalls`]). A callee declares a function and waits ([`serve`]). Both
//! hold a critical section from the moment they are ready until they are entered: the end of a slice in between would
//! leave them with two continuations.
//!
//! A position that came with a synchronous call goes back with the answer. A service that was resumed in another slice
//! meanwhile must not give that one. It returns the lent position to its owner, and answers with the slice alone. A
//! caller that waits for an answer gives the slices of its own positions to the callee, so that a chain of callers
//! makes progress in them.

extern crate alloc;

use crate::area::{Area, LIBRARY, LibraryWords};
use crate::predicate::{Operator, Predicate, clock, wait_for, word};
use crate::{critical_section, exposed, syscall, time_slice, vector};
use abi::area::{PrivateWords, READY_ASLEEP};
use abi::syscall::{ASYNCHRONOUS, SYNCHRONOUS};
use abi::{EnvironmentId, Error, Failure};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::arch::naked_asm;
use core::mem::offset_of;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};

/// What travels: rdi, rsi, rdx, r10, r8, r9.
pub type Message = [u64; 6];

/// Serves a call: gets the caller's number, which cannot be forged, and the message, and leaves the answer in it.
pub type Service = extern "C" fn(EnvironmentId, &mut Message);

/// What happens to the time slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Kind {
    /// The callee gets the rest of it.
    Asynchronous = ASYNCHRONOUS,
    /// The callee gets this position in every round, until it transfers back.
    Synchronous = SYNCHRONOUS,
}

// The answer of a service makes `ready` of these.
const _: () = assert!(SYNCHRONOUS == 1 << 63 && READY_ASLEEP == 2);
/// Shifted down and up again by this, the word that a transfer came with is its [`Kind`].
const KIND_SHIFT: u32 = ASYNCHRONOUS.trailing_zeros();
const READY: usize = offset_of!(PrivateWords, ready);
const CALLER: usize = offset_of!(PrivateWords, caller);
const TRANSFER_STACK: u64 = LIBRARY + offset_of!(LibraryWords, transfer_stack) as u64;
const TRANSFER_CALLEE: u64 = LIBRARY + offset_of!(LibraryWords, transfer_callee) as u64;
/// The upper half of the word that says which CPU this is: the kernel makes it 0 whenever a slice begins.
const SLICE_MARK: usize = offset_of!(PrivateWords, cpu) + 4;
const SERVICE_KINDS: u64 = LIBRARY + offset_of!(LibraryWords, service_kinds) as u64;
const SERVICE_STACK: u64 = LIBRARY + offset_of!(LibraryWords, service_stack) as u64;

/// Calls another environment and waits for its answer, which replaces the message. Nothing of the own registers but the
/// message reaches the callee, but for the base of FS, which is not what it was afterwards: who uses FS keeps it.
///
/// # Errors
/// `NoSuchEnvironment` where the callee does not live, or dies before it answers; `Busy` where it cannot be entered now.
pub fn call(kind: Kind, callee: EnvironmentId, message: &mut Message) -> Result<(), Failure> {
    let _vectors = vector::keep();
    let _section = critical_section::enter();
    let error = answered_at(answer_entry as *const () as u64, || exchange(message, callee.0, kind as u64));
    syscall::result(error, callee.0)
}

/// Makes a call whose answer comes in at an entry. A service that makes calls can be called again after that.
#[inline]
fn answered_at(entry: u64, exchange: impl FnOnce() -> u64) -> u64 {
    declare(entry);
    let error = exchange();
    let service = Area::current().library().service_entry.load(Relaxed);
    if service != 0 {
        declare(service);
    }
    error
}

/// Declares where transfers come in.
#[inline]
fn declare(entry: u64) {
    let private = Area::current().private();
    private.synchronous_entry.store(entry, Relaxed);
    private.asynchronous_entry.store(entry, Relaxed);
}

/// Transfers with the message in the registers; comes back by [`answer_entry`], or with the error.
#[unsafe(naked)]
extern "C" fn exchange(_message: &mut Message, _callee: u64, _number: u64) -> u64 {
    naked_asm!(
        "push rbp; push rbx; push r12; push r13; push r14; push r15; push rdi",
        "mov gs:[{transfer_stack}], rsp",
        "mov rax, rsi",
        "mov gs:[{transfer_callee}], rax",
        "or rax, rdx",
        "mov rcx, rdi",
        "mov rdi, [rcx]; mov rsi, [rcx + 8]; mov rdx, [rcx + 16]",
        "mov r10, [rcx + 24]; mov r8, [rcx + 32]; mov r9, [rcx + 40]",
        "xor ebx, ebx; xor ebp, ebp; xor r12d, r12d; xor r13d, r13d; xor r14d, r14d; xor r15d, r15d",
        "mov qword ptr gs:[{ready}], 1",
        "syscall",
        // Refused, or a slice of our own began before the answer came.
        "test rax, rax",
        "jnz 2f",
        "call {wait}",
        "2:",
        "mov qword ptr gs:[{ready}], 0",
        "add rsp, 8",
        "pop r15; pop r14; pop r13; pop r12; pop rbx; pop rbp",
        "ret",
        transfer_stack = const TRANSFER_STACK, transfer_callee = const TRANSFER_CALLEE, ready = const READY,
        wait = sym wait_for_answer,
    )
}

/// The last callee.
fn called() -> EnvironmentId {
    EnvironmentId(Area::current().library().transfer_callee.load(Relaxed))
}

/// A slice of our own began before the answer came. A callee that has it still, because it could not enter us, is asked
/// for it; one that works gets the slice. Where it runs on another CPU, the answer must find us giving way, not
/// running. Comes back only with the error, when the callee is gone: the answer enters elsewhere, and takes the stack
/// back to where the call began.
extern "C" fn wait_for_answer() -> u64 {
    let callee = called();
    while ask_for_answer(callee.0 | ASYNCHRONOUS) != Error::NoSuchEnvironment as u64 {
        give_way_to(callee);
    }
    Error::NoSuchEnvironment as u64
}

/// How long who waits for another sleeps before it looks again, in nanoseconds.
const A_WHILE: u64 = 1_000_000;

/// Gives the rest of the slice to the environment that we wait for: a callee that has not answered yet, or a caller
/// that cannot be entered. Where that one runs on another CPU, any environment gets the slice for a while.
fn give_way_to(other: EnvironmentId) {
    if time_slice::yield_to(other).is_err() {
        let later = Predicate::new().or(&[clock(crate::clock::now() + A_WHILE)]);
        if later.is_ok_and(|later| later.wait_once().is_err()) {
            time_slice::yield_now();
        }
    }
}

/// A transfer by which the callee is asked for an answer that it kept: r12 says so. The result is the error, or 0 where
/// a slice of our own began again.
#[unsafe(naked)]
extern "C" fn ask_for_answer(_callee_and_number: u64) -> u64 {
    naked_asm!(
        "push rbp; push rbx; push r12; push r13; push r14; push r15",
        "mov rax, rdi",
        "xor edi, edi; xor esi, esi; xor edx, edx; xor r10d, r10d; xor r8d, r8d; xor r9d, r9d",
        "xor ebx, ebx; xor ebp, ebp; mov r12d, 1; xor r13d, r13d; xor r14d, r14d; xor r15d, r15d",
        "syscall",
        "pop r15; pop r14; pop r13; pop r12; pop rbx; pop rbp",
        "ret",
    )
}

/// Entered by the answer to a call. Any other caller gets an empty answer at once: all ones in rdx. A caller that asks
/// for an answer of ours, which depends on the one that we wait for, gets none yet, and we get the slice.
#[unsafe(naked)]
extern "C" fn answer_entry() {
    naked_asm!(
        "mov qword ptr gs:[{ready}], 0",
        "mov rsp, gs:[{transfer_stack}]",
        "mov rcx, gs:[{caller}]",
        "cmp rcx, gs:[{transfer_callee}]",
        "jne 2f",
        "pop rcx",
        "mov [rcx], rdi; mov [rcx + 8], rsi; mov [rcx + 16], rdx",
        "mov [rcx + 24], r10; mov [rcx + 32], r8; mov [rcx + 40], r9",
        "pop r15; pop r14; pop r13; pop r12; pop rbx; pop rbp",
        "xor eax, eax",
        "ret",
        "2:",
        "cmp r12d, 1",
        "je 3f",
        "shr rax, {kind_shift}",
        "shl rax, {kind_shift}",
        "or rax, rcx",
        "or rdx, -1",
        "mov qword ptr gs:[{ready}], 1",
        "syscall",
        // Back here the stranger could not be entered, or a slice of our own began: we still wait for our answer.
        "3:",
        "mov qword ptr gs:[{ready}], 1",
        "call {wait}",
        "mov qword ptr gs:[{ready}], 0",
        "add rsp, 8",
        "pop r15; pop r14; pop r13; pop r12; pop rbx; pop rbp",
        "ret",
        transfer_stack = const TRANSFER_STACK, transfer_callee = const TRANSFER_CALLEE,
        ready = const READY, caller = const CALLER, wait = sym wait_for_answer, kind_shift = const KIND_SHIFT,
    )
}

/// Calls another environment that is trusted to keep the callee-saved registers, as a procedure does: they are not
/// saved, and go with the message (exokernel-sosp95 §7.1). The callee serves with [`serve_trusted`].
///
/// # Errors
/// `NoSuchEnvironment` or `Busy` where it cannot be entered. If it dies before it answers, so does the caller, whose
/// registers it had.
pub fn call_trusting(kind: Kind, callee: EnvironmentId, message: &mut Message) -> Result<(), Failure> {
    let _vectors = vector::keep();
    let _section = critical_section::enter();
    let entry = trusting_answer_entry as *const () as u64;
    let error = answered_at(entry, || exchange_trusting(message, callee.0, kind as u64));
    syscall::result(error, callee.0)
}

/// As [`exchange`], but every register goes as it is.
#[unsafe(naked)]
extern "C" fn exchange_trusting(_message: &mut Message, _callee: u64, _number: u64) -> u64 {
    naked_asm!(
        "push rdi",
        "mov gs:[{transfer_stack}], rsp",
        "mov rax, rsi",
        "mov gs:[{transfer_callee}], rax",
        "or rax, rdx",
        "mov rcx, rdi",
        "mov rdi, [rcx]; mov rsi, [rcx + 8]; mov rdx, [rcx + 16]",
        "mov r10, [rcx + 24]; mov r8, [rcx + 32]; mov r9, [rcx + 40]",
        "mov qword ptr gs:[{ready}], 1",
        "syscall",
        "test rax, rax",
        "jnz 2f",
        "call {wait}",
        "2:",
        "mov qword ptr gs:[{ready}], 0",
        "add rsp, 8",
        "ret",
        transfer_stack = const TRANSFER_STACK, transfer_callee = const TRANSFER_CALLEE, ready = const READY,
        wait = sym wait_trusting,
    )
}

/// Entered by the answer to a trusting call: the callee-saved registers are back with it.
#[unsafe(naked)]
extern "C" fn trusting_answer_entry() {
    naked_asm!(
        "mov qword ptr gs:[{ready}], 0",
        "mov rsp, gs:[{transfer_stack}]",
        "mov rcx, gs:[{caller}]",
        "cmp rcx, gs:[{transfer_callee}]",
        "jne 2f",
        "pop rcx",
        "mov [rcx], rdi; mov [rcx + 8], rsi; mov [rcx + 16], rdx",
        "mov [rcx + 24], r10; mov [rcx + 32], r8; mov [rcx + 40], r9",
        "xor eax, eax",
        "ret",
        // A stranger: it gets an empty answer. Our registers are still with the callee.
        "2:",
        "cmp r12d, 1",
        "je 3f",
        "shr rax, {kind_shift}",
        "shl rax, {kind_shift}",
        "or rax, rcx",
        "or rdx, -1",
        "mov qword ptr gs:[{ready}], 1",
        "syscall",
        "3:",
        "mov qword ptr gs:[{ready}], 1",
        "call {wait}",
        "ud2",
        transfer_stack = const TRANSFER_STACK, transfer_callee = const TRANSFER_CALLEE, ready = const READY,
        caller = const CALLER, wait = sym wait_trusting, kind_shift = const KIND_SHIFT,
    )
}

/// As [`wait_for_answer`], but the callee keeps nothing: it tries until the answer is taken. The registers that a dead
/// callee was trusted with are lost.
extern "C" fn wait_trusting() -> ! {
    let callee = called();
    while exposed::lives(callee) {
        give_way_to(callee);
    }
    crate::error_line!("the environment that was trusted with our registers is gone");
    crate::entry::exit(crate::entry::FAULT_STATUS)
}

/// Serves calls for ever, one at a time, on the stack that this is called on.
pub fn serve(service: Service) -> ! {
    serve_by(service, untrusted_entry as *const () as u64)
}

/// Serves calls of [`call_trusting`]: what the callee-saved registers hold goes back as it came.
pub fn serve_trusted(service: Service) -> ! {
    serve_by(service, trusted_entry as *const () as u64)
}

fn serve_by(service: Service, entry: u64) -> ! {
    let library = Area::current().library();
    library.service_function.store(service as usize as u64, Relaxed);
    library.service_entry.store(entry, Relaxed);
    declare(entry);
    settle()
}

/// Takes what lies below the caller as the stack of the service.
#[unsafe(naked)]
extern "C" fn settle() -> ! {
    naked_asm!(
        "and rsp, -16",
        "mov gs:[{service_stack}], rsp",
        "call {idle}",
        "ud2",
        service_stack = const SERVICE_STACK, idle = sym idle,
    )
}

/// Waits to be entered; upcalls that came meanwhile are delivered between two waits. It sleeps in no position of
/// another environment.
extern "C" fn idle() -> ! {
    let area = Area::current();
    let private = area.private();
    loop {
        let section = critical_section::enter();
        if area.library().service_kinds.swap(0, Relaxed) & SYNCHRONOUS != 0 {
            time_slice::give_back();
        }
        private.ready.store(1, SeqCst);
        let waited = sleep();
        private.ready.store(0, SeqCst);
        drop(section);
        if waited.is_err() {
            time_slice::yield_now();
        }
    }
}

/// Sleeps until an upcall waits.
fn sleep() -> Result<(), Failure> {
    wait_for(&mut [word(&Area::current().private().pending, Operator::NotEqual, 0)]).map(|_| ())
}

/// A call that is served, on the stack of the service.
#[repr(C)]
struct Call {
    padding: u64,
    /// How often the answer is tried.
    tries: u64,
    /// The [`Kind`] of the answer, as a number.
    kind: u64,
    caller: EnvironmentId,
    message: Message,
}

const CALL_KIND: usize = offset_of!(Call, kind);
const CALL_CALLER: usize = offset_of!(Call, caller);
const CALL_MESSAGE: usize = offset_of!(Call, message);
const _: () = assert!(size_of::<Call>().is_multiple_of(16));

/// An entry for calls: runs the service on its own stack and transfers back.
macro_rules! service_entry {
    ($(#[$doc:meta])* $name:ident, asks_again: $asks_again:literal, hide: $hide:literal, on_busy: $try_again:ident) => {
        $(#[$doc])*
        #[unsafe(naked)]
        extern "C" fn $name() {
            naked_asm!(
                "mov qword ptr gs:[{ready}], 0",
                "mov dword ptr gs:[{slice_mark}], 1",
                "mov rsp, gs:[{service_stack}]",
                "push r9; push r8; push r10; push rdx; push rsi; push rdi",
                "shr rax, {kind_shift}",
                "shl rax, {kind_shift}",
                "push gs:[{caller}]",
                "push rax",
                "or gs:[{kinds}], rax",
                "push {tries}",
                "push 0",
                "mov rdi, rsp",
                $asks_again,
                "call {serve_one}",
                "cmp dword ptr gs:[{slice_mark}], 0",
                "je 5f",
                "2:",
                "mov rax, [rsp + {call_caller}]",
                "or rax, [rsp + {kind}]",
                "mov rdi, [rsp + {message}]; mov rsi, [rsp + {message} + 8]; mov rdx, [rsp + {message} + 16]",
                "mov r10, [rsp + {message} + 24]; mov r8, [rsp + {message} + 32]; mov r9, [rsp + {message} + 40]",
                $hide,
                // Asleep, unless a position was lent to us, which goes back in a slice of our own.
                "mov rcx, gs:[{kinds}]",
                "sar rcx, 63",
                "add rcx, {asleep}",
                "mov gs:[{ready}], rcx",
                "syscall",
                "mov qword ptr gs:[{ready}], 0",
                "cmp eax, {busy}",
                "jne 3f",
                "mov rdi, rsp",
                "call {try_again}",
                "test eax, eax",
                "jnz 2b",
                // Refused, or a slice of our own began: no caller waits for us.
                "3:",
                "mov rsp, gs:[{service_stack}]",
                "call {leave}",
                "call {idle}",
                "ud2",
                "4:",
                "call {kept_answer}",
                "jmp 2b",
                "5:",
                "mov rdi, rsp",
                "call {give_no_other_position}",
                "jmp 2b",
                ready = const READY, caller = const CALLER, service_stack = const SERVICE_STACK,
                kind_shift = const KIND_SHIFT, slice_mark = const SLICE_MARK, kinds = const SERVICE_KINDS, tries = const ANSWER_TRIES,
                kind = const CALL_KIND, call_caller = const CALL_CALLER, message = const CALL_MESSAGE,
                busy = const Error::Busy as u64, asleep = const READY_ASLEEP, serve_one = sym serve_one, try_again = sym $try_again,
                leave = sym leave, idle = sym idle, kept_answer = sym kept_answer,
                give_no_other_position = sym give_no_other_position,
            )
        }
    };
}

service_entry! {
    /// For callers without trust: they are shown no register but the message.
    untrusted_entry,
    asks_again: "cmp r12d, 1; je 4f",
    hide: "xor ebx, ebx; xor ebp, ebp; xor r12d, r12d; xor r13d, r13d; xor r14d, r14d; xor r15d, r15d",
    on_busy: try_again
}

service_entry! {
    /// For callers whose callee-saved registers go back as they came.
    trusted_entry,
    asks_again: "",
    hide: "",
    on_busy: try_until_taken
}

/// How often an answer is tried to a caller that cannot be entered, because it runs just then to see that none has
/// come.
const ANSWER_TRIES: u64 = 16;
/// The same once it does not run: it may have stopped between the try and the look.
const LAST_TRIES: u64 = 2;
/// How long a service pauses before the next try: all tries together are some ten thousand instructions.
const PAUSES: u32 = 256;

/// Serves a call. Upcalls that can wait may come while the service runs; before the answer goes out they must not.
extern "C" fn serve_one(call: &mut Call) {
    critical_section::leave();
    let function = Area::current().library().service_function.load(Relaxed);
    // SAFETY: `serve` put a function of this type there, and nobody else writes the word.
    let service: Service = unsafe { core::mem::transmute(function as usize) };
    service(call.caller, &mut call.message);
    core::mem::forget(critical_section::enter());
}

/// Slices have begun since the call came. If this one is not of a position that was lent to us, it is not the caller's.
/// The lent position goes back by itself, and the answer goes out with the slice alone.
extern "C" fn give_no_other_position(call: &mut Call) {
    if call.kind == Kind::Synchronous as u64 && !time_slice::position().is_lent() {
        time_slice::give_back();
        call.kind = Kind::Asynchronous as u64;
    }
}

/// The caller cannot be entered: whether to try the answer once more. A caller that runs on another CPU looks for the
/// answer there, and can be entered soon. Any other one asks for a kept answer when it runs again: the service waits
/// for no caller, which may be hostile and never be ready.
extern "C" fn try_again(call: &mut Call) -> u32 {
    call.tries = if exposed::runs(call.caller) { call.tries } else { call.tries.min(LAST_TRIES) } - 1;
    if call.tries == 0 {
        keep_answer(call.caller, &call.message);
        return 0;
    }
    (0..PAUSES).for_each(|_| core::hint::spin_loop());
    give_no_other_position(call);
    1
}

/// The same where the registers are the answer, and nothing else keeps them: the caller gets the slice until it can be
/// entered.
extern "C" fn try_until_taken(call: &mut Call) -> u32 {
    give_way_to(call.caller);
    give_no_other_position(call);
    1
}

/// An answer that could not be delivered.
struct Kept {
    caller: EnvironmentId,
    message: Message,
}

/// Those of the running environment.
fn kept_answers() -> &'static mut Vec<Kept> {
    let word = &Area::current().library().service_answers;
    if word.load(Relaxed) == 0 {
        word.store(core::ptr::from_mut(Box::leak(Box::<Vec<Kept>>::default())) as u64, Relaxed);
    }
    // SAFETY: the word holds the address of a leaked list, which only this environment knows, in the two functions below, of
    // which none calls the other.
    unsafe { &mut *(word.load(Relaxed) as *mut Vec<Kept>) }
}

/// Keeps an answer until its caller asks for it. A caller waits for one answer at a time: there are never more than
/// callers.
fn keep_answer(caller: EnvironmentId, message: &Message) {
    let kept = kept_answers();
    kept.retain(|other| other.caller != caller && exposed::lives(other.caller));
    kept.push(Kept { caller, message: *message });
}

/// The caller asks for an answer that was kept; one without such an answer gets all ones.
extern "C" fn kept_answer(call: &mut Call) {
    let kept = kept_answers();
    let place = kept.iter().position(|other| other.caller == call.caller);
    call.message = place.map_or([u64::MAX; 6], |place| kept.swap_remove(place).message);
}

/// Closes the critical section that was open while the environment waited.
extern "C" fn leave() {
    critical_section::leave();
}
