//! Time slices as a resource: allocation by position, and giving the CPU away (exokernel-sosp95 §5.1.1).

use crate::budget;
use crate::environment::Environment;
use crate::kernel::{Kernel, Locked, Outcome, lock, refuse};
use crate::predicate::Wakeup;
use crate::scheduler::{self, Claimed, start_plainly};
use abi::budget::Resource;
use abi::capability::Rights;
use abi::limits::SLICES_PER_CPU;
use abi::time_slice::{ANY_POSITION, SliceInfo};
use abi::{EnvironmentId, Error, Failure, KeyIndex};
use core::sync::atomic::Ordering;
use machine::context::{self, Context};
use machine::entry::{self, Frame, SyscallFrame};
use machine::{clock, cpu_control, exposed};

/// A slice that exists.
fn slice(cpu: u64, position: u64) -> Result<(usize, usize, &'static SliceInfo), Failure> {
    if cpu >= exposed::cpu_count() as u64 {
        return Err(Error::NoSuchSlice.about(cpu));
    }
    if position >= SLICES_PER_CPU as u64 {
        return Err(Error::NoSuchSlice.about(position));
    }
    let (cpu, position) = (cpu as usize, position as usize);
    Ok((cpu, position, &exposed::slices(cpu)[position]))
}

impl Kernel {
    /// Allocates a position (see `abi::syscall`).
    pub(crate) fn allocate_slice(&mut self, key: KeyIndex, to: EnvironmentId, cpu: u64, position: u64) -> Outcome<u64> {
        let environment = self.living(to)?;
        if environment != self.caller() {
            self.require(key, &environment.name(), Rights::OWN)?;
        }
        let wanted = if position == ANY_POSITION { 0 } else { position };
        let (cpu, wanted, _) = slice(cpu, wanted)?;
        let position = match position {
            ANY_POSITION => self.processors[cpu].vector.any_free(),
            _ => Some(wanted).filter(|position| !self.processors[cpu].vector.is_allocated(*position)),
        };
        let Some(position) = position else {
            let owner = exposed::slices(cpu)[wanted].owner.load(Ordering::Relaxed);
            return refuse(Error::NotFree, owner);
        };
        budget::check(environment, Resource::Slice, 1)?;
        budget::charge(environment, Resource::Slice, 1);
        let info = &exposed::slices(cpu)[position];
        info.owner.store(to.0, Ordering::Release);
        info.runner.store(to.0, Ordering::Release);
        self.processors[cpu].vector.allocate(position);
        self.secrets_mut(environment).homes |= 1 << cpu;
        crate::interrupt::wake(cpu);
        Ok(position as u64)
    }

    /// Gives a position up (see `abi::syscall`).
    pub(crate) fn free_slice(&mut self, key: KeyIndex, cpu: u64, position: u64) -> Outcome<()> {
        let (cpu, position, info) = slice(cpu, position)?;
        let Some(owner) = self.slice_owner(info) else { return refuse(Error::NoSuchSlice, position as u64) };
        if owner == self.caller() {
            self.release_slice(owner, cpu, position);
        } else if self.is_runner(info) {
            self.return_slice(info, cpu);
        } else {
            self.require(key, &owner.name(), Rights::OWN)?;
            self.release_slice(owner, cpu, position);
        }
        Ok(())
    }

    /// Whether the caller runs in a position. Transfers in this slice may not have been recorded yet.
    fn is_runner(&mut self, info: &SliceInfo) -> bool {
        let caller = self.caller();
        if let Some(slice) = self.processor().moved_on(caller) {
            self.tell_slice(slice, caller);
        }
        info.runner.load(Ordering::Relaxed) == caller.number().0
    }

    /// Gives a position that the caller runs in back to its owner, whose CPU may be idle.
    fn return_slice(&mut self, info: &SliceInfo, cpu: usize) {
        let (caller, context) = (self.caller(), self.callers_context());
        info.runner.store(info.owner.load(Ordering::Relaxed), Ordering::Release);
        self.processor().note_position(caller, context);
        crate::interrupt::wake(cpu);
    }

    fn slice_owner(&self, info: &SliceInfo) -> Option<Environment> {
        self.known(EnvironmentId(info.owner.load(Ordering::Relaxed)))
    }

    /// Frees a position of an environment; it counts against an open revocation.
    pub(crate) fn release_slice(&mut self, owner: Environment, cpu: usize, position: usize) {
        if self.processors[cpu].position == position {
            self.processors[cpu].slice = None;
        }
        let info = &exposed::slices(cpu)[position];
        info.owner.store(0, Ordering::Release);
        info.runner.store(0, Ordering::Release);
        self.processors[cpu].vector.free(position);
        budget::discharge(owner, Resource::Slice, 1);
        self.note_returned(owner, Resource::Slice, 1);
    }
}

/// Yields (see `abi::syscall`). Returns only after a refusal.
///
/// The fast way is for a target that lives, waits for nothing and resumes from RIP, RSP and flags alone. It is told
/// nothing but that its slice starts; the timer is set already. Whatever needs a call is looked at first.
#[inline(always)]
pub(crate) fn give_way(frame: &mut SyscallFrame) -> Outcome<()> {
    let (mut kernel, to) = (lock(), EnvironmentId(frame.arguments[0]));
    let from = kernel.callers_context();
    let caller = Environment::of(from);
    if kernel.passed_over != 0 || cpu_control::keys_are_on() {
        return give_way_slowly(kernel, frame, to);
    }
    let processor = kernel.processor();
    let runner = processor.runner();
    if entry::has_position() && runner != caller.number() {
        return give_way_slowly(kernel, frame, to);
    }
    let Some(simple) = context::published(to).claim_simply(to) else { return give_way_slowly(kernel, frame, to) };
    let context = simple.context();
    let target = Claimed { environment: Environment::of(context), context };
    let Some(program) = start_plainly(context) else { enter_slowly(kernel, frame, target) };
    let now = clock::now();
    processor.charge(now);
    processor.note_entered(target, runner, now);
    forgive_excess(caller);
    entry::exchange(from, frame, simple);
    drop(kernel);
    entry::go_on(program)
}

#[inline(never)]
fn give_way_slowly(mut kernel: Locked, frame: &SyscallFrame, to: EnvironmentId) -> Outcome<()> {
    if to == EnvironmentId::NONE || to == kernel.caller().number() {
        kernel.leave_caller(frame);
        scheduler::schedule_with(kernel)
    }
    let target = kernel.claim_target(to)?;
    enter_slowly(kernel, frame, target)
}

/// Enters a claimed environment in the caller's slice.
#[inline(never)]
fn enter_slowly(mut kernel: Locked, frame: &SyscallFrame, target: Claimed) -> ! {
    let now = kernel.leave_caller(frame);
    kernel.run(target, now)
}

/// Takes one excess off the count of an environment that gives the CPU up by itself. The slice that was cancelled for
/// it stays lost; only who never gives way comes to the threshold.
fn forgive_excess(environment: Environment) {
    let excess = &environment.info().excess;
    if let Some(rest) = time_slice::forgive_excess(excess.load(Ordering::Relaxed)) {
        excess.store(rest, Ordering::Release);
    }
}

impl Kernel {
    /// Takes the caller, which gives the CPU up by itself, off it: it resumes as the frame says. Returns the time.
    #[inline(always)]
    pub(crate) fn leave_caller(&mut self, frame: &SyscallFrame) -> u64 {
        let (context, caller) = (self.callers_context(), self.caller());
        context.set_program(frame.program());
        entry::leave(context);
        context.release();
        let now = clock::now();
        self.note_left(caller, now);
        forgive_excess(caller);
        now
    }

    /// Claims an environment that is to run in the caller's slice.
    fn claim_target(&mut self, to: EnvironmentId) -> Outcome<Claimed> {
        let environment = self.living(to)?;
        let context = self.context_of(environment);
        let slept = context.is_waiting();
        let can_run =
            self.may_begin(environment, context) && self.wakeup(environment, context) == Wakeup::Now && context.claim();
        if slept && !context.is_waiting() {
            self.note_roused(environment);
        }
        if can_run { Ok(Claimed { environment, context }) } else { refuse(Error::Busy, to.0) }
    }

    /// Whether time that the caller gives may be an environment's first: one that has never run may not be whole yet,
    /// and would die of it. Only its maker, or an environment that gave it a slice, lets it begin.
    fn may_begin(&self, environment: Environment, context: &Context) -> bool {
        let info = environment.info();
        !context.is_fresh()
            || info.slices.load(Ordering::Relaxed) != 0
            || info.creator.load(Ordering::Relaxed) == self.caller().number().0
    }
}
