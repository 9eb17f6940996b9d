//! Calling a function of the program because of a signal, and coming back.

use super::frame::{self, Information, Interrupted, place};
use super::set::{UNSTOPPABLE, bit};
use super::{Action, ForThread};
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
pub(super) fn call(context: &mut Context, action: Action, information: Information, for_thread: ForThread) {
    let thread = thread();
    let signal = information.signal;
    let is_fault = for_thread && super::set::FAULTS & bit(signal) != 0;
    let fault = if is_fault { thread.fault.lock().take() } else { None };
    let interrupted = Interrupted {
        registers: to_linux(context),
        blocked: thread.take_saved_mask(),
        alternate: thread.alternate(context.frame.rsp),
        fault: fault.unwrap_or_default(),
    };
    let Some(at) = put_frame(&interrupted, &information, action) else {
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

#[inline]
fn put_frame(interrupted: &Interrupted, information: &Information, action: Action) -> Option<u64> {
    let vector_bytes = thread().vector_bytes;
    let stack = interrupted.registers[place::RSP];
    let [base, flags, size] = interrupted.alternate;
    let usable = flags & u64::from(linux::SS_DISABLE | linux::SS_ONSTACK) == 0;
    let switched = action.has(linux::SA_ONSTACK) && usable;
    let top = if switched { base.checked_add(size)? } else { stack };
    let layout = frame::lay_out(top, switched, vector_bytes)?;
    let overflows = |low: u64, high: u64| layout.frame < low && stack <= high;
    if switched && layout.frame < base || flags & u64::from(linux::SS_ONSTACK) != 0 && overflows(base, base + size) {
        return None;
    }
    copy::save_vectors(layout.vectors, vector_bytes).ok()?;
    copy::write_words(layout.frame, &frame::build(layout, action.restorer, interrupted, information)).ok()?;
    Some(layout.frame)
}

/// `rt_sigreturn`: goes on where a handler interrupted. The frame lies where the handler's return left the stack.
pub fn return_from_handler(context: &mut Context) -> Result<()> {
    let words = copy::read_words(context.frame.rsp)?;
    let returned = frame::read(&words);
    let rip = returned.registers[place::RIP];
    if rip > crate::layout::PROGRAM_END && !vdso::range().contains(&rip) {
        return Err(Errno::EFAULT);
    }
    let thread = thread();
    if returned.vectors != 0 {
        copy::load_vectors(returned.vectors, thread.vector_bytes)?;
    }
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
