//! Time slices as a resource: allocation by position, and giving the CPU away (exokernel-sosp95 §5.1.1).

use crate::budget;
use crate::environment::Environment;
use crate::kernel::{Kernel, Locked, Outcome, refuse};
use crate::predicate::Wakeup;
use crate::scheduler;
use abi::budget::Resource;
use abi::capability::Rights;
use abi::limits::SLICES_PER_CPU;
use abi::time_slice::{ANY_POSITION, SliceInfo};
use abi::{EnvironmentId, Error, Failure, KeyIndex};
use core::sync::atomic::Ordering;
use machine::entry::{self, Frame, SyscallFrame};
use machine::exposed;

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
        crate::interrupt::wake(cpu);
        Ok(position as u64)
    }

    /// Gives a position up (see `abi::syscall`).
    pub(crate) fn free_slice(&mut self, key: KeyIndex, cpu: u64, position: u64) -> Outcome<()> {
        let (cpu, position, info) = slice(cpu, position)?;
        let Some(owner) = self.slice_owner(info) else { return refuse(Error::NoSuchSlice, position as u64) };
        if owner != self.caller() {
            self.require(key, &owner.name(), Rights::OWN)?;
        }
        self.release_slice(owner, cpu, position);
        Ok(())
    }

    fn slice_owner(&self, info: &SliceInfo) -> Option<Environment> {
        self.known(EnvironmentId(info.owner.load(Ordering::Relaxed)))
    }

    /// Frees a position of an environment; it counts against an open revocation.
    pub(crate) fn release_slice(&mut self, owner: Environment, cpu: usize, position: usize) {
        self.release_slice_quietly(owner, cpu, position);
        self.note_returned(owner, Resource::Slice);
    }

    /// Frees a position of an environment.
    pub(crate) fn release_slice_quietly(&mut self, owner: Environment, cpu: usize, position: usize) {
        if self.processors[cpu].position == position {
            self.processors[cpu].position_lost = true;
        }
        let info = &exposed::slices(cpu)[position];
        info.owner.store(0, Ordering::Release);
        info.runner.store(0, Ordering::Release);
        self.processors[cpu].vector.free(position);
        budget::discharge(owner, Resource::Slice, 1);
    }
}

/// Yields (see `abi::syscall`). Returns only after a refusal.
pub(crate) fn give_way(mut kernel: Locked, frame: &mut SyscallFrame, to: EnvironmentId) -> Outcome<()> {
    let caller = kernel.caller();
    let target = match to {
        EnvironmentId::NONE => None,
        to if to == caller.number() => None,
        to => Some(kernel.claim_target(to)?),
    };
    let context = kernel.context_of(caller);
    frame.rax = 0;
    context.keep_voluntary(frame.program());
    entry::leave(context);
    context.release();
    kernel.note_left(caller);
    forgive_excess(caller);
    match target {
        Some(target) => kernel.run(target),
        None => scheduler::schedule_with(kernel),
    }
}

/// Takes one excess off the count of an environment that gives the CPU up by itself. The slice that was cancelled for it
/// stays lost; only who never gives way comes to the threshold.
pub(crate) fn forgive_excess(environment: Environment) {
    let excess = &environment.info().excess;
    if let Some(rest) = time_slice::forgive_excess(excess.load(Ordering::Relaxed)) {
        excess.store(rest, Ordering::Release);
    }
}

impl Kernel {
    /// Claims an environment that is to run in the caller's slice.
    fn claim_target(&mut self, to: EnvironmentId) -> Outcome<Environment> {
        let target = self.living(to)?;
        let can_run = matches!(self.wakeup(target), Wakeup::Now(_));
        if can_run && self.context_of(target).claim() { Ok(target) } else { refuse(Error::Busy, to.0) }
    }
}
