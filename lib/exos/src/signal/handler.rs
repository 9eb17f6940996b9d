//! Calling a function of the program because of a signal, and coming back.

use super::Taken;
use super::frame::{self, Interrupted, place};
use super::set::{UNSTOPPABLE, bit};
use crate::errno::{Errno, Result};
use crate::loader::vdso;
use crate::process::status::Status;
use crate::user_memory::copy;
use crate::user_memory::current::thread;
use linux_raw_sys::general as linux;
use runtime::upcall::{Context, Registers};

/// Flags of the CPU in which a handler begins: interrupts on.
const FLAGS: u64 = 0x202;

/// Changes `context` so that the program goes on in the handler; where the stack does not hold the frame, it ends.
pub(super) fn call(context: &mut Context, taken: &Taken) {
    let thread = thread();
    let Taken { action, information, for_thread } = taken;
    let signal = information.signal;
    let is_fault = *for_thread && super::set::FAULTS & bit(signal) != 0;
    let fault = if is_fault { thread.fault.lock().take() } else { None };
    let Some(at) = put_frame(context, taken, fault.unwrap_or_default()) else {
        crate::process::exit::end(Status::Killed(linux::SIGSEGV));
    };
    let registers = &mut context.registers;
    (registers.rdi, registers.rax) = (u64::from(signal), 0);
    (registers.rsi, registers.rdx) = (frame::information_at(at), frame::context_at(at));
    (context.frame.rip, context.frame.rsp) = (action.handler, at);
    context.frame.rflags = FLAGS;
    let own = if action.has(linux::SA_NODEFER) { 0 } else { bit(signal) };
    thread.set_blocked(thread.blocked() | action.mask | own);
}

/// Writes the frame: first the vector registers, then all the rest, each word once.
#[inline]
fn put_frame(context: &Context, taken: &Taken, fault: [u64; 3]) -> Option<u64> {
    let (thread, action) = (thread(), taken.action);
    let stack = context.frame.rsp;
    let alternate = thread.alternate(stack);
    let layout = lay_out(stack, alternate, action.has(linux::SA_ONSTACK))?;
    copy::save_vectors(layout.vectors, thread.vector_bytes).ok()?;
    let blocked = thread.take_saved_mask();
    let interrupted = Interrupted { registers: to_linux(context), blocked, alternate, fault };
    let words = frame::build(layout, action.restorer, &interrupted, &taken.information);
    copy::write_words(layout.frame, &words).ok()?;
    Some(layout.frame)
}

/// The place for a frame, on the stack or on the alternate one; none where it does not fit there.
#[inline]
fn lay_out(stack: u64, [base, flags, size]: [u64; 3], asked: bool) -> Option<frame::Layout> {
    let usable = flags & u64::from(linux::SS_DISABLE | linux::SS_ONSTACK) == 0;
    let switched = asked && usable;
    let top = if switched { base.checked_add(size)? } else { stack };
    let layout = frame::lay_out(top, switched, thread().vector_bytes)?;
    let overflows = |low: u64, high: u64| layout.frame < low && stack <= high;
    if switched && layout.frame < base
        || flags & u64::from(linux::SS_ONSTACK) != 0 && overflows(base, base.saturating_add(size))
    {
        return None;
    }
    Some(layout)
}

/// `rt_sigreturn`: goes on where a handler interrupted. The frame lies where the handler's return left the stack.
pub fn return_from_handler(context: &mut Context) -> Result<()> {
    let words = copy::read_words(context.frame.rsp)?;
    let rip = frame::read(&words).registers[place::RIP];
    if rip > crate::layout::PROGRAM_END && !vdso::range().contains(&rip) {
        return Err(Errno::EFAULT);
    }
    let thread = thread();
    let vectors = frame::read(&words).vectors;
    if vectors != 0 {
        copy::load_vectors(vectors, thread.vector_bytes)?;
    }
    let returned = frame::read(&words);
    thread.set_blocked(returned.blocked & !UNSTOPPABLE);
    from_linux(context, &returned.registers);
    Ok(())
}

#[inline]
fn to_linux(context: &Context) -> frame::Registers {
    let (registers, frame) = (&context.registers, &context.frame);
    let Registers { r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, .. } = *registers;
    [r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, frame.rsp, frame.rip, frame.rflags]
}

#[inline]
fn from_linux(context: &mut Context, linux: &frame::Registers) {
    let [r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, rflags] = *linux;
    let padding = context.registers.padding;
    context.registers = Registers { r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rdi, rsi, rdx, rcx, rax, padding };
    (context.frame.rsp, context.frame.rip, context.frame.rflags) = (rsp, rip, rflags);
}
