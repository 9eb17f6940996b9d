//! Calling a function of the program because of a signal, and coming back.

use super::Taken;
use super::frame::{self, Rest};
use super::set::bit;
use crate::errno::{Errno, Result};
use crate::loader::vdso;
use crate::process::status::Status;
use crate::user_memory::copy;
use crate::user_memory::current::thread;
use crate::user_memory::signal_frame::{self, Parts};
use linux_raw_sys::general as linux;
use runtime::upcall::Context;

/// Flags of the CPU in which a handler begins: interrupts on.
const FLAGS: u64 = 0x202;

/// Changes `context` so that the program goes on in the handler; where the stack does not hold the frame, it ends.
#[inline]
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

/// Writes the frame, each word once. As on Linux there is no information where the program did not ask for it.
#[inline]
fn put_frame(context: &Context, taken: &Taken, fault: [u64; 3]) -> Option<u64> {
    let (thread, action) = (thread(), taken.action);
    let stack = context.frame.rsp;
    let alternate = thread.alternate(stack);
    let frame::Layout { frame, vectors, end } = lay_out(stack, alternate, action.has(linux::SA_ONSTACK))?;
    let rest = Rest { alternate, fault, by_xsave: u32::from(signal_frame::has_xsave()) };
    let parts = Parts { context, blocked: thread.take_saved_mask(), restorer: action.restorer, rest: &rest };
    signal_frame::put([frame, vectors, end], parts).ok()?;
    if action.has(linux::SA_SIGINFO) {
        let [signal, code, detail, value] = frame::information_words(&taken.information);
        let words = [signal, code, detail, value, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        copy::write_words(frame::information_at(frame), &words).ok()?;
    }
    Some(frame)
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
    let returned = signal_frame::take(context, context.frame.rsp)?;
    if returned.rip > crate::layout::PROGRAM_END && !vdso::range().contains(&returned.rip) {
        return Err(Errno::EFAULT);
    }
    let thread = thread();
    if returned.vectors != 0 {
        signal_frame::load_vectors(returned.vectors, thread.vector_bytes)?;
    }
    thread.set_blocked(returned.blocked);
    (context.frame.rsp, context.frame.rip) = (returned.rsp, returned.rip);
    context.frame.rflags = frame::fit_flags(returned.rflags);
    Ok(())
}
