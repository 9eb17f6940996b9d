//! Protected control transfers: calls into another environment (exokernel-sosp95 §5.5, §6.1).
//!
//! The registers are the message. A caller saves what it wants to keep, declares itself ready to be entered, transfers,
//! and is entered again by the callee's answer ([`call`]). A callee declares a function and waits ([`serve`]). Both hold
//! a critical section from the moment they are ready until they are entered: the end of a slice in between would leave
//! them with two continuations.

extern crate alloc;

use crate::area::{Area, LIBRARY, LibraryWords};
use crate::predicate::{Operator, Predicate, clock, word};
use crate::{critical_section, exposed, syscall, time_slice, vector};
use abi::area::PrivateWords;
use abi::syscall::{ASYNCHRONOUS, SYNCHRONOUS, number};
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

/// Shifted down and up again by this, the word that a transfer came with is its [`Kind`].
const KIND_SHIFT: u32 = ASYNCHRONOUS.trailing_zeros();
const READY: usize = offset_of!(PrivateWords, ready);
const CALLER: usize = offset_of!(PrivateWords, caller);
const TRANSFER_STACK: u64 = LIBRARY + offset_of!(LibraryWords, transfer_stack) as u64;
const TRANSFER_CALLEE: u64 = LIBRARY + offset_of!(LibraryWords, transfer_callee) as u64;
const SERVICE_STACK: u64 = LIBRARY + offset_of!(LibraryWords, service_stack) as u64;

/// Calls another environment and waits for its answer, which replaces the message. Nothing of the own registers but the
/// message reaches the callee, but for the base of FS, which is not what it was afterwards: who uses FS keeps it.
///
/// # Errors
/// `NoSuchEnvironment` where the callee does not live, or dies before it answers; `Busy` where it cannot be entered now.
pub fn call(kind: Kind, callee: EnvironmentId, message: &mut Message) -> Result<(), Failure> {
    let private = Area::current().private();
    let _vectors = vector::keep();
    let _section = critical_section::enter();
    private.synchronous_entry.store(answer_entry as *const () as u64, Relaxed);
    private.asynchronous_entry.store(answer_entry as *const () as u64, Relaxed);
    let detail = callee.0;
    let error = exchange(message, callee.0, kind as u64);
    private.ready.store(0, SeqCst);
    syscall::result(error, detail)
}

/// Transfers with the message in the registers; comes back by [`answer_entry`], or with the error.
#[unsafe(naked)]
extern "C" fn exchange(_message: &mut Message, _callee: u64, _number: u64) -> u64 {
    naked_asm!(
        "push rbp; push rbx; push r12; push r13; push r14; push r15; push rdi",
        "mov gs:[{transfer_stack}], rsp",
        "mov eax, esi",
        "or rax, rdx",
        "mov gs:[{transfer_callee}], rax",
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

/// Who was called last, and the word that it was called with.
fn called() -> (EnvironmentId, u64) {
    let word = Area::current().library().transfer_callee.load(Relaxed);
    (EnvironmentId(word & 0xffff_ffff), word)
}

/// A slice of our own began before the answer came. A callee that has it still, because it could not enter us, is asked for
/// it as it was called; one that works gets the slice; and where it runs on another CPU, the answer must find us giving way,
/// not running.
/// Comes back only with the error, when the callee is gone: the answer enters elsewhere, and takes the stack back to where
/// the call began.
extern "C" fn wait_for_answer() -> u64 {
    let (callee, word) = called();
    while ask_for_answer(word) != Error::NoSuchEnvironment as u64 {
        give_way_to(callee);
    }
    Error::NoSuchEnvironment as u64
}

/// How long who waits for another sleeps before it looks again, in nanoseconds.
const A_WHILE: u64 = 1_000_000;

/// Gives the rest of the slice to a callee that has not answered yet, or, where it runs on another CPU, to anybody for a
/// while.
fn give_way_to(callee: EnvironmentId) {
    if time_slice::yield_to(callee).is_err() {
        let later = Predicate::new().or(&[clock(crate::clock::now() + A_WHILE)]);
        if later.is_ok_and(|later| later.wait_once().is_err()) {
            time_slice::yield_now();
        }
    }
}

/// A transfer by which the callee is asked for an answer that it kept: r12 says so. The result is the error, or 0 where a
/// slice of our own began again.
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

/// Entered by the answer to a call. Whoever else comes in gets an empty answer at once: all ones in rdx.
#[unsafe(naked)]
extern "C" fn answer_entry() {
    naked_asm!(
        "mov qword ptr gs:[{ready}], 0",
        "mov rsp, gs:[{transfer_stack}]",
        "mov rcx, gs:[{caller}]",
        "cmp ecx, gs:[{transfer_callee}]",
        "jne 2f",
        "pop rcx",
        "mov [rcx], rdi; mov [rcx + 8], rsi; mov [rcx + 16], rdx",
        "mov [rcx + 24], r10; mov [rcx + 32], r8; mov [rcx + 40], r9",
        "pop r15; pop r14; pop r13; pop r12; pop rbx; pop rbp",
        "xor eax, eax",
        "ret",
        "2:",
        "shr rax, {kind_shift}",
        "shl rax, {kind_shift}",
        "or rax, rcx",
        "or rdx, -1",
        "mov qword ptr gs:[{ready}], 1",
        "syscall",
        // Back here the stranger could not be entered, or a slice of our own began: we still wait for our answer.
        "call {wait}",
        "mov qword ptr gs:[{ready}], 0",
        "add rsp, 8",
        "pop r15; pop r14; pop r13; pop r12; pop rbx; pop rbp",
        "ret",
        transfer_stack = const TRANSFER_STACK, transfer_callee = const TRANSFER_CALLEE,
        ready = const READY, caller = const CALLER, wait = sym wait_for_answer, kind_shift = const KIND_SHIFT,
    )
}

/// Calls another environment that is trusted to keep the callee-saved registers, as a procedure does: they are not saved,
/// and go with the message (exokernel-sosp95 §7.1). The callee serves with [`serve_trusted`].
///
/// # Errors
/// `NoSuchEnvironment` or `Busy` where it cannot be entered. If it dies before it answers, so does the caller, whose
/// registers it had.
pub fn call_trusting(kind: Kind, callee: EnvironmentId, message: &mut Message) -> Result<(), Failure> {
    let private = Area::current().private();
    let _vectors = vector::keep();
    let _section = critical_section::enter();
    private.synchronous_entry.store(trusting_answer_entry as *const () as u64, Relaxed);
    private.asynchronous_entry.store(trusting_answer_entry as *const () as u64, Relaxed);
    let detail = callee.0;
    let error = exchange_trusting(message, callee.0, kind as u64);
    syscall::result(error, detail)
}

/// As [`exchange`], but every register goes as it is.
#[unsafe(naked)]
extern "C" fn exchange_trusting(_message: &mut Message, _callee: u64, _number: u64) -> u64 {
    naked_asm!(
        "push rdi",
        "mov gs:[{transfer_stack}], rsp",
        "mov eax, esi",
        "or rax, rdx",
        "mov gs:[{transfer_callee}], rax",
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
        "cmp ecx, gs:[{transfer_callee}]",
        "jne 2f",
        "pop rcx",
        "mov [rcx], rdi; mov [rcx + 8], rsi; mov [rcx + 16], rdx",
        "mov [rcx + 24], r10; mov [rcx + 32], r8; mov [rcx + 40], r9",
        "xor eax, eax",
        "ret",
        // A stranger: it gets an empty answer. Our registers are still with the callee.
        "2:",
        "shr rax, {kind_shift}",
        "shl rax, {kind_shift}",
        "or rax, rcx",
        "or rdx, -1",
        "mov qword ptr gs:[{ready}], 1",
        "syscall",
        "call {wait}",
        "ud2",
        transfer_stack = const TRANSFER_STACK, transfer_callee = const TRANSFER_CALLEE, ready = const READY,
        caller = const CALLER, wait = sym wait_trusting, kind_shift = const KIND_SHIFT,
    )
}

/// As [`wait_for_answer`], but the callee keeps nothing: it tries until the answer is taken. The registers that a dead
/// callee was trusted with are lost.
extern "C" fn wait_trusting() -> ! {
    let (callee, _) = called();
    while exposed::lives(callee) {
        give_way_to(callee);
    }
    crate::error_line!("the environment that was trusted with our registers is gone");
    crate::entry::exit(crate::entry::FAULT_STATUS)
}

/// Serves calls for ever, one at a time, on the stack that this is called on.
pub fn serve(service: Service) -> ! {
    serve_by(service, service_entry as *const () as u64)
}

/// Serves calls of [`call_trusting`]: what the callee-saved registers hold goes back as it came.
pub fn serve_trusted(service: Service) -> ! {
    serve_by(service, trusted_service_entry as *const () as u64)
}

fn serve_by(service: Service, entry: u64) -> ! {
    let area = Area::current();
    area.library().service_function.store(service as usize as u64, Relaxed);
    for word in [&area.private().synchronous_entry, &area.private().asynchronous_entry] {
        word.store(entry, Relaxed);
    }
    settle()
}

/// As [`service_entry`], but the callee-saved registers go back as they came.
#[unsafe(naked)]
extern "C" fn trusted_service_entry() {
    naked_asm!(
        "mov qword ptr gs:[{ready}], 0",
        "mov rsp, gs:[{service_stack}]",
        "push rbx; push r12",
        "push r9; push r8; push r10; push rdx; push rsi; push rdi",
        "mov rbx, rax",
        "mov rdi, gs:[{caller}]",
        "mov r12, rdi",
        "mov rsi, rsp",
        "xor edx, edx",
        "call {serve_one}",
        "pop rdi; pop rsi; pop rdx; pop r10; pop r8; pop r9",
        "shr rbx, {kind_shift}",
        "shl rbx, {kind_shift}",
        "lea rax, [rbx + r12]",
        "pop r12; pop rbx",
        // The registers are the answer: nothing else keeps them while a caller that runs is tried again.
        "2:",
        "push rdx; push rax",
        "mov qword ptr gs:[{ready}], 1",
        "syscall",
        "mov qword ptr gs:[{ready}], 0",
        "cmp eax, {busy}",
        "pop rax; pop rdx",
        "je 2b",
        "mov rsp, gs:[{service_stack}]",
        "call {leave}",
        "call {idle}",
        "ud2",
        ready = const READY, caller = const CALLER, service_stack = const SERVICE_STACK,
        busy = const Error::Busy as u64, serve_one = sym serve_one, leave = sym leave, idle = sym idle,
        kind_shift = const KIND_SHIFT,
    )
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

/// Waits to be entered; upcalls that came meanwhile are delivered between two waits.
extern "C" fn idle() -> ! {
    let private = Area::current().private();
    loop {
        let section = critical_section::enter();
        private.ready.store(1, SeqCst);
        let waited = match lender() {
            Some(caller) => give_back_time(caller),
            None => sleep(None),
        };
        private.ready.store(0, SeqCst);
        drop(section);
        if waited.is_err() {
            time_slice::yield_now();
        }
    }
}

/// Sleeps until an upcall waits or, if that is sooner, the time has come.
fn sleep(until: Option<u64>) -> Result<(), Failure> {
    let mut waking = Predicate::new().or(&[word(&Area::current().private().pending, Operator::NotEqual, 0)])?;
    if let Some(time) = until {
        waking.add(&[clock(time)])?;
    }
    waking.wait().map(|_| ())
}

/// A caller whose answer was kept and whose position came with the call. It may have no other, and could never ask for its
/// answer while we sleep in that one.
fn lender() -> Option<EnvironmentId> {
    if Area::current().library().service_answers.load(Relaxed) == 0 {
        return None;
    }
    let kept = kept_answers().iter();
    kept.filter(|kept| kept.kind == Kind::Synchronous as u64).map(|kept| kept.caller).find(|one| exposed::lives(*one))
}

/// Slices of the position that a caller lent are the caller's, until it has its answer; our own are not.
fn give_back_time(caller: EnvironmentId) -> Result<(), Failure> {
    let cpu = crate::area::cpu();
    let position = exposed::cpu(cpu).map_or(0, |cpu| cpu.position.load(Relaxed));
    let is_its_own =
        exposed::slices(cpu).get(position as usize).is_some_and(|slice| slice.owner.load(Relaxed) == caller.0);
    if is_its_own && time_slice::yield_to(caller).is_ok() {
        return Ok(());
    }
    sleep(Some(crate::clock::now() + A_WHILE))
}

/// Entered by a call: runs the service on its own stack and transfers back the way the call came. A caller that runs just
/// then, to see that no answer has come, is tried again a few times; then the answer is kept until it asks for it.
#[unsafe(naked)]
extern "C" fn service_entry() {
    naked_asm!(
        "mov qword ptr gs:[{ready}], 0",
        "mov rsp, gs:[{service_stack}]",
        "push r9; push r8; push r10; push rdx; push rsi; push rdi",
        "shr rax, {kind_shift}",
        "shl rax, {kind_shift}",
        "mov rdi, gs:[{caller}]",
        "push rdi",
        "push rax",
        "push {tries}",
        "push 0",
        "lea rsi, [rsp + 32]",
        "mov edx, r12d",
        "call {serve_one}",
        "2:",
        "mov rax, [rsp + 24]",
        "or rax, [rsp + 16]",
        "mov rdi, [rsp + 32]; mov rsi, [rsp + 40]; mov rdx, [rsp + 48]",
        "mov r10, [rsp + 56]; mov r8, [rsp + 64]; mov r9, [rsp + 72]",
        "xor ebx, ebx; xor ebp, ebp; xor r12d, r12d; xor r13d, r13d; xor r14d, r14d; xor r15d, r15d",
        "mov qword ptr gs:[{ready}], 1",
        "syscall",
        "mov qword ptr gs:[{ready}], 0",
        "cmp eax, {busy}",
        "jne 3f",
        "mov eax, {yield_number}",
        "xor edi, edi",
        "syscall",
        "dec qword ptr [rsp + 8]",
        "jnz 2b",
        "mov rdi, [rsp + 24]",
        "lea rsi, [rsp + 32]",
        "mov rdx, [rsp + 16]",
        "call {keep}",
        // Refused, or a slice of our own began: nobody waits for us.
        "3:",
        "mov rsp, gs:[{service_stack}]",
        "call {leave}",
        "call {idle}",
        "ud2",
        ready = const READY, caller = const CALLER, service_stack = const SERVICE_STACK, tries = const ANSWER_TRIES,
        busy = const Error::Busy as u64, yield_number = const number::time_slice_yield,
        serve_one = sym serve_one, keep = sym keep_answer, leave = sym leave, idle = sym idle,
        kind_shift = const KIND_SHIFT,
    )
}

/// How often an answer is tried to a caller that runs.
const ANSWER_TRIES: u64 = 16;

/// An answer that could not be delivered.
struct Kept {
    caller: EnvironmentId,
    /// The [`Kind`] of the call, as a number.
    kind: u64,
    message: Message,
}

/// Those of the running environment.
fn kept_answers() -> &'static mut Vec<Kept> {
    let word = &Area::current().library().service_answers;
    if word.load(Relaxed) == 0 {
        word.store(core::ptr::from_mut(Box::leak(Box::<Vec<Kept>>::default())) as u64, Relaxed);
    }
    // SAFETY: the word holds the address of a leaked list, which only this environment knows, in the three functions below
    // and above, of which none calls another.
    unsafe { &mut *(word.load(Relaxed) as *mut Vec<Kept>) }
}

/// Keeps an answer until its caller asks for it. A caller waits for one answer at a time: there are never more than callers.
extern "C" fn keep_answer(caller: EnvironmentId, message: &Message, kind: u64) {
    let kept = kept_answers();
    kept.retain(|other| other.caller != caller && exposed::lives(other.caller));
    kept.push(Kept { caller, kind, message: *message });
}

/// The answer that was kept for a caller; who has none waiting asked for nothing.
fn kept_answer(caller: EnvironmentId) -> Message {
    let kept = kept_answers();
    let place = kept.iter().position(|other| other.caller == caller);
    place.map_or([u64::MAX; 6], |place| kept.swap_remove(place).message)
}

/// Upcalls that can wait may come while the service runs; before the answer goes out they must not.
extern "C" fn serve_one(caller: EnvironmentId, message: &mut Message, asks_again: u32) {
    if asks_again == 1 {
        *message = kept_answer(caller);
        return;
    }
    critical_section::leave();
    let function = Area::current().library().service_function.load(Relaxed);
    // SAFETY: `serve` put a function of this type there, and nobody else writes the word.
    let service: Service = unsafe { core::mem::transmute(function as usize) };
    service(caller, message);
    core::mem::forget(critical_section::enter());
}

/// Closes the critical section that was open while the environment waited.
extern "C" fn leave() {
    critical_section::leave();
}
