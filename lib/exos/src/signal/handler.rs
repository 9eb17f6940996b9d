//! Calling a function of the program because of a signal, and coming back.

use super::Action;
use super::deliver::{ends_by_fault, take_action};
use super::signal_state::SignalState;
use super::thread_signals::{ThreadSignals, thread_signals};
use crate::hw::fpu;
use crate::hw::signal_frame::{self, Parts};
use crate::hw::usercopy;
use crate::loader::vdso;
use crate::upcalls::upcalls;
use core::sync::atomic::Ordering::Relaxed;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use runtime::upcall::Context;
use unix_core::process::exit_status::Status;
use unix_core::signal::frame::{self, Information};
use unix_core::signal::set::bit;

/// Flags of the CPU in which a handler begins: interrupts on.
const FLAGS: u64 = 0x202;

/// Changes `context` so that the program resumes in the handler of `signal`; where the stack does not hold the frame,
/// in that of SIGSEGV. `one` is the set of that signal alone. `blocked` is the mask that will be restored, given with
/// error code, trap number and address where a fault raised the signal. What came with the signal is looked up only
/// where the program asks for it (SA_SIGINFO): as on Linux nothing stands there else.
#[inline]
pub(super) fn call(
    context: &mut Context,
    (state, thread): (&SignalState, &ThreadSignals),
    (signal, one): (u32, u64),
    action: &Action,
    (blocked, fault): (u64, Option<[u64; 3]>),
    information: impl FnOnce() -> Information,
) {
    let at = put_frame(context, thread, action, (blocked, fault));
    let at = at.filter(|at| !action.has(linux::SA_SIGINFO) || put_information(*at, &information()).is_ok());
    let Some(at) = at else { return call_for_want_of_stack(context, (state, thread), signal, blocked) };
    // As on Linux a handler begins with the vector and x87 registers of a new program; the frame holds the others.
    fpu::clear();
    let registers = &mut context.registers;
    (registers.rdi, registers.rax) = (u64::from(signal), 0);
    (registers.rsi, registers.rdx) = (frame::information_at(at), frame::context_at(at));
    (context.frame.rip, context.frame.rsp) = (action.handler, at);
    context.frame.rflags = FLAGS;
    let own = if action.has(linux::SA_NODEFER) { 0 } else { one };
    thread.set_blocked(thread.blocked() | action.mask | own);
}

/// The frame of a signal found no place: that is a fault, which cannot wait. The signal itself is lost.
#[cold]
fn call_for_want_of_stack(
    context: &mut Context,
    (state, thread): (&SignalState, &ThreadSignals),
    signal: u32,
    blocked: u64,
) {
    const FAULT: u32 = linux::SIGSEGV;
    if signal == FAULT || ends_by_fault(FAULT) {
        (upcalls().end)(Status::Killed(FAULT));
    }
    let told = Information { signal: FAULT, code: linux::SI_KERNEL as i32, ..Information::default() };
    let action = take_action(state, FAULT);
    call(context, (state, thread), (FAULT, bit(FAULT)), &action, (blocked, None), || told);
}

/// Writes the frame, each word once but for those on a fault.
#[inline(always)]
fn put_frame(
    context: &Context,
    thread: &ThreadSignals,
    action: &Action,
    (blocked, fault): (u64, Option<[u64; 3]>),
) -> Option<u64> {
    let stack = context.frame.rsp;
    let [_, _, size] = thread.alternate_words();
    let has_alternate = size.load(Relaxed) != 0;
    let layout = match has_alternate {
        false => frame::lay_out(stack, false, thread.vector_bytes)?,
        true => lay_out(thread, stack, action.has(linux::SA_ONSTACK))?,
    };
    let parts = Parts { context, blocked, restorer: action.restorer, alternate: thread.alternate_words() };
    signal_frame::put(layout, parts).ok()?;
    if has_alternate {
        thread.disarm_alternate();
    }
    if let Some([error, trap, address]) = fault {
        usercopy::write_words(frame::fault_at(layout.frame()), &[error, trap, blocked, address]).ok()?;
    }
    Some(layout.frame())
}

#[inline(never)]
fn put_information(frame: u64, information: &Information) -> Result<()> {
    let [signal, code, detail, value] = frame::information_words(information);
    let words = [signal, code, detail, value, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    usercopy::write_words(frame::information_at(frame), &words)
}

/// The place for a frame where there is an alternate stack: on it, or on the other one; none where it does not fit
/// there.
#[inline(never)]
fn lay_out(thread: &ThreadSignals, stack: u64, asked: bool) -> Option<frame::Layout> {
    let [base, flags, size] = thread.alternate(stack);
    let usable = flags & u64::from(linux::SS_DISABLE | linux::SS_ONSTACK) == 0;
    let switched = asked && usable;
    let top = if switched { base.checked_add(size)? } else { stack };
    let layout = frame::lay_out(top, switched, thread.vector_bytes)?;
    let overflows = |low: u64, high: u64| layout.frame() < low && stack <= high;
    if switched && layout.frame() < base
        || flags & u64::from(linux::SS_ONSTACK) != 0 && overflows(base, base.saturating_add(size))
    {
        return None;
    }
    Some(layout)
}

/// `rt_sigreturn`: resumes the code that the handler interrupted. The frame lies where the handler's return left the
/// stack.
pub fn return_from_handler(context: &mut Context) -> Result<()> {
    let from = begin_return(context, thread_signals())?;
    signal_frame::take_registers(&mut context.registers, from)
}

/// The same but for the registers that the frame of an upcall does not hold: they lie in the user context at the
/// address that is given back. `thread` is that of the running thread.
#[inline(always)]
pub fn begin_return(context: &mut Context, thread: &ThreadSignals) -> Result<u64> {
    let from = context.frame.rsp;
    let returned = signal_frame::take(from)?;
    if returned.rip > linux_abi::address_map::PROGRAM_END && !vdso::range().contains(&returned.rip) {
        return Err(Errno::EFAULT);
    }
    (context.frame.rsp, context.frame.rip) = (returned.rsp, returned.rip);
    context.frame.rflags = frame::fit_flags(returned.rflags);
    thread.set_blocked(returned.blocked);
    let [_, _, size] = thread.alternate_words();
    if size.load(Relaxed) | returned.alternate_bytes != 0 {
        restore_alternate(thread, from, returned.rsp)?;
    }
    if returned.vectors != 0 {
        signal_frame::load_vectors(returned.vectors, thread.vector_bytes)?;
    }
    Ok(from)
}

/// The alternate stack is what the frame says, as far as it can be set while the program runs at `stack`.
#[inline(never)]
fn restore_alternate(thread: &ThreadSignals, from: u64, stack: u64) -> Result<()> {
    let wanted = usercopy::read_words::<3>(frame::alternate_at(from))?;
    let _ = thread.change_alternate(stack, wanted);
    Ok(())
}
