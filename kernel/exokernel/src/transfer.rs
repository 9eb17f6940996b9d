//! Protected control transfer (exokernel-sosp95 §5.5; DESIGN.md §4): the callee is entered with the caller's registers.
//!
//! Asynchronous: the callee gets the rest of this slice. Synchronous: it gets this position in every later round too,
//! until it is transferred back. The kernel keeps no chain: only which environment runs in which position. A callee
//! that was resumed in another slice meanwhile gives back the position that it was lent by name,
//! with `time_slice_free`. The callee must not run, must have said that it is ready, and the kernel must hold no
//! forced-out context of it.

use crate::environment::Environment;
use crate::kernel::{Kernel, Outcome, lock, refuse};
use crate::scheduler::Claimed;
use abi::syscall::CALLEE;
use abi::time_slice::SliceInfo;
use abi::{EnvironmentId, Error};
use core::sync::atomic::Ordering;
use machine::context::{Entry, Program};
use machine::entry::{self, Frame, SyscallFrame};
use machine::{cpu_control, exposed};

/// Transfers control; the registers of the frame go on in the callee.
#[inline(never)]
pub(crate) fn transfer(frame: &mut SyscallFrame, entry_point: Entry) -> Outcome<()> {
    let mut kernel = lock();
    let callee = kernel.claim_callee(EnvironmentId(frame.rax & CALLEE))?;
    let caller = kernel.caller();
    if let Some(slice) = kernel.processor().moved_on(caller) {
        kernel.tell_slice(slice, caller);
    }
    let to = kernel.context_of(callee);
    let Ok(program) = to.enter(frame.program(), entry_point) else {
        to.release();
        return refuse(Error::Busy, callee.number().0);
    };
    // Whatever it waited for, it is entered now.
    if to.is_waiting() {
        kernel.drop_predicate(callee);
        kernel.note_roused(callee);
    }
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
    // FS base passes as the registers do, unless the library is without an instruction to load another.
    let base = cpu_control::read_fs_base();
    let passes = cpu_control::has(abi::feature::FSGSBASE);
    entry::leave(from);
    from.keep_transferring(frame.program(), (!passes).then_some(base));
    from.release();
    kernel.processor().note_position(callee.environment, to);
    exposed::show_runner(callee.environment.number());
    to.private_words().cpu.store(entry::cpu() as u64, Ordering::Relaxed);
    to.keep_voluntary(program);
    if passes {
        to.set_fs_base(base);
    }
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

    /// Gives the position that runs to the callee for later rounds, if it is the caller's to give. If not, no call
    /// passes it on in this slice: the callee's answer would, were it the callee's own.
    fn move_position(&mut self, caller: Environment, callee: Environment) {
        match self.processor().slice {
            Some(slice) if slice.runner.load(Ordering::Relaxed) == caller.number().0 => self.set_runner(slice, callee),
            _ => self.processor().slice = None,
        }
    }

    /// Transfers by the fast way gave the position that runs to an environment, or back to it: the slice is told now.
    #[cold]
    pub(crate) fn tell_slice(&mut self, slice: &SliceInfo, environment: Environment) {
        self.set_runner(slice, environment);
        let context = self.context_of(environment);
        self.processor().note_position(environment, context);
    }

    /// Says who runs in a position of this CPU from now on.
    fn set_runner(&mut self, slice: &SliceInfo, runner: Environment) {
        slice.runner.store(runner.number().0, Ordering::Release);
        self.secrets_mut(runner).homes |= 1 << entry::cpu();
    }
}
