//! Protected control transfer (exokernel-sosp95 §5.5; DESIGN.md §4): the callee is entered with the caller's registers.
//!
//! Asynchronous: the callee gets the rest of this slice. Synchronous: it gets this position in every later round too,
//! until it is transferred back. The kernel keeps no chain: only who runs in which position. The callee must not run, must
//! have said that it is ready, and the kernel must hold no forced-out context of it.

use crate::environment::Environment;
use crate::kernel::{Kernel, Outcome, lock, refuse};
use crate::scheduler::Claimed;
use abi::{EnvironmentId, Error};
use core::sync::atomic::Ordering;
use machine::context::{Entry, Program};
use machine::entry::{self, Frame, SyscallFrame};
use machine::exposed;

/// Transfers control; the registers of the frame go on in the callee.
#[inline(never)]
pub(crate) fn transfer(frame: &mut SyscallFrame, entry_point: Entry) -> Outcome<()> {
    let mut kernel = lock();
    let callee = kernel.claim_callee(EnvironmentId(frame.rax >> 32))?;
    let caller = kernel.caller();
    kernel.note_runner(caller);
    let to = kernel.context_of(callee);
    let Ok(program) = to.enter(frame.program(), entry_point) else {
        to.release();
        return refuse(Error::Busy, callee.number().0);
    };
    // Whatever it waited for, it is entered now.
    kernel.drop_predicate(callee);
    to.private_words().caller.store(caller.number().0, Ordering::Relaxed);
    if entry_point == Entry::Synchronous {
        kernel.move_position(caller, callee);
    }
    hand_over(&mut kernel, frame, Claimed { environment: callee, context: to }, program);
    Ok(())
}

fn hand_over(kernel: &mut Kernel, frame: &mut SyscallFrame, callee: Claimed, program: Program) {
    let (from, to) = (kernel.callers_context(), callee.context);
    let vector_passes = from.vector_on() && to.vector_on();
    from.keep_voluntary(frame.program());
    entry::leave(from);
    from.release();
    kernel.processor().note_position(callee.environment.number(), to);
    exposed::own_cpu().environment.store(callee.environment.number().0, Ordering::Release);
    to.private_words().cpu.store(entry::cpu() as u64, Ordering::Relaxed);
    to.keep_voluntary(program);
    entry::enter_with_registers(to, frame, program, vector_passes);
}

impl Kernel {
    /// Claims an environment that can be entered.
    fn claim_callee(&mut self, number: EnvironmentId) -> Outcome<Environment> {
        let callee = self.living(number)?;
        let context = self.context_of(callee);
        if callee == self.caller() || !context.claim() {
            return refuse(Error::Busy, number.0);
        }
        if context.is_forced() || context.private_words().ready.load(Ordering::Acquire) == 0 {
            context.release();
            return refuse(Error::Busy, number.0);
        }
        Ok(callee)
    }

    /// Gives the position that runs to the callee for later rounds, if it is the caller's to give.
    fn move_position(&mut self, caller: Environment, callee: Environment) {
        let cpu = entry::cpu();
        let slice = &exposed::slices(cpu)[self.processors[cpu].position];
        if slice.runner.load(Ordering::Relaxed) == caller.number().0 {
            slice.runner.store(callee.number().0, Ordering::Release);
        }
    }
}
