//! Callees of control transfers that several guests call, and a caller that makes itself ready to be entered by hand.

use crate::child::{prepare, settle};
use crate::{World, granted};
use abi::area::PrivateWords;
use abi::budget::Resource;
use alloc::string::String;
use core::mem::offset_of;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::SeqCst;
use runtime::area::{self, Area};
use runtime::environment::Child;
use runtime::transfer::{Message, serve};
use runtime::{EnvironmentId, clock, exposed, time_slice};

/// A child that has no slice of its own, and may have one.
///
/// # Errors
/// Why the kernel refused.
pub fn without_slice(world: &World, function: extern "C" fn(u64), argument: u64) -> Result<Child, String> {
    let mut builder = prepare(world, function, argument)?;
    builder.budget(Resource::Slice, 1);
    Ok(granted!(builder.create()))
}

extern "C" fn add_up(caller: EnvironmentId, message: &mut Message) {
    let sum = message.iter().fold(0u64, |sum, word| sum.wrapping_mul(31).wrapping_add(*word));
    *message = [sum, caller.0, message[0], message[1], message[2], message[3]];
    Area::current().status(2).fetch_add(1, SeqCst);
}

/// Answers each call with a sum over its words, the caller as it was told, and the first four words; counts them.
pub extern "C" fn serve_sums(_: u64) {
    Area::current().status(1).store(1, SeqCst);
    serve(add_up)
}

/// One that serves sums and waits to be called.
///
/// # Errors
/// Why the kernel refused, or that it does not come there.
pub fn callee(world: &World) -> Result<Child, String> {
    let child = without_slice(world, serve_sums, 0)?;
    settle(&child)?;
    Ok(child)
}

/// Answers after so many milliseconds, which are more than one slice.
extern "C" fn think_long(_: EnvironmentId, message: &mut Message) {
    let end = clock::now() + message[0] * 1_000_000;
    while clock::now() < end {
        core::hint::spin_loop();
    }
    message[1] = exposed::cpu(area::cpu()).map_or(0, |cpu| cpu.position.load(SeqCst));
}

/// Answers each call after as many milliseconds as its first word says, with the position that it runs in then.
pub extern "C" fn serve_long(_: u64) {
    Area::current().status(1).store(1, SeqCst);
    serve(think_long)
}

/// Runs, and is never ready to be entered.
pub extern "C" fn spin_unready(_: u64) {
    Area::current().status(1).store(1, SeqCst);
    loop {
        time_slice::yield_now();
    }
}

/// The stack of [`leave_ready`].
static LEFT_AT: AtomicU64 = AtomicU64::new(0);
/// What [`leave_ready`] returns when it is entered by a transfer.
pub const ENTERED: u64 = 0x100;

/// Makes a call that gives the CPU away, ready to be entered meanwhile: returns [`ENTERED`], or what the call did.
#[unsafe(naked)]
pub extern "C" fn leave_ready(_word: u64, _first: u64, _second: u64) -> u64 {
    core::arch::naked_asm!(
        "push rbp; push rbx; push r12; push r13; push r14; push r15",
        "mov [rip + {left_at}], rsp",
        "mov rax, rdi",
        "mov rdi, rsi",
        "mov rsi, rdx",
        // To a service this is a call, and not a question for an answer that it kept.
        "xor r12d, r12d",
        "mov qword ptr gs:[{ready}], 1",
        "syscall",
        "mov qword ptr gs:[{ready}], 0",
        "pop r15; pop r14; pop r13; pop r12; pop rbx; pop rbp",
        "ret",
        left_at = sym LEFT_AT, ready = const offset_of!(PrivateWords, ready),
    )
}

/// The entry of transfers of who calls [`leave_ready`].
#[unsafe(naked)]
pub extern "C" fn entered() {
    core::arch::naked_asm!(
        "mov qword ptr gs:[{ready}], 0",
        "mov rsp, [rip + {left_at}]",
        "mov eax, {entered}",
        "pop r15; pop r14; pop r13; pop r12; pop rbx; pop rbp",
        "ret",
        left_at = sym LEFT_AT, ready = const offset_of!(PrivateWords, ready), entered = const ENTERED,
    )
}
