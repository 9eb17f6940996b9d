//! Interrupts while a program runs: the clock, requests of other CPUs, devices.
//!
//! The end of a slice is an upcall, followed by a save window. An environment that lets the window run out is switched
//! out whole and pays with its next slice, and past a threshold dies (exokernel-sosp95 §5.1.1).

use crate::device;
use crate::environment::Environment;
use crate::kernel::{Kernel, Locked, lock};
use crate::processor::{Phase, Told};
use crate::scheduler::{self, Claimed};
use abi::area::PENDING_SLICE_END;
use abi::environment::{DeathReason, State};
use abi::exposed::CpuState;
use abi::limits::CRITICAL_SECTION_GRACE;
use abi::upcall::kind;
use core::sync::atomic::Ordering;
use machine::context::{Context, Entry, Program, Undeliverable, Upcall};
use machine::entry::{self, Frame, TrapFrame};
use machine::exposed;
use machine::{apic, clock, tlb};
use time_slice::Verdict;

/// An interrupt came while a program ran on this CPU.
pub(crate) fn while_running(frame: &mut TrapFrame) {
    acknowledge(frame.vector);
    let mut kernel = lock();
    if is_device(frame.vector) {
        device::interrupted(&mut kernel, frame.vector);
    } else if frame.vector == u64::from(apic::TIMER_VECTOR) {
        device::check_time(&mut kernel);
    }
    let caller = kernel.caller();
    if !caller.is(State::Alive) {
        kernel.abandon(caller);
        scheduler::schedule_with(kernel);
    }
    if kernel.processors[entry::cpu()].slice_end_passed(clock::now()) {
        slice_ended(kernel, frame, caller);
    } else {
        deliver_waiting(kernel, frame, caller);
    }
}

/// An interrupt came while this CPU was idle.
pub(crate) fn while_idle(vector: u64) {
    acknowledge(vector);
    if is_device(vector) {
        device::interrupted(&mut lock(), vector);
    } else if vector == u64::from(apic::TIMER_VECTOR) {
        device::check_time_while_idle();
    }
}

/// Whether a device sent the interrupt, or has its turn again; not the clock or another CPU.
fn is_device(vector: u64) -> bool {
    (u64::from(apic::REST_VECTOR)..u64::from(apic::TIMER_VECTOR)).contains(&vector)
}

fn acknowledge(vector: u64) {
    if vector == u64::from(tlb::VECTOR) {
        tlb::answer();
    }
    apic::acknowledge(vector);
}

/// Makes a CPU look at what waits, if it is idle.
pub(crate) fn wake(cpu: usize) {
    let info = &exposed::cpus()[cpu];
    if cpu != entry::cpu() && info.state.load(Ordering::SeqCst) == CpuState::Idle as u64 {
        exposed::add(&info.kicks, 1);
        kick(cpu);
    }
}

/// Makes every idle CPU look again.
#[inline]
pub(crate) fn wake_all_idle() {
    // A CPU that runs this has no other one to wake where it is the only one.
    if exposed::cpu_count() > 1 {
        (0..exposed::cpu_count()).for_each(wake);
    }
}

/// Interrupts another CPU.
pub(crate) fn kick(cpu: usize) {
    if cpu != entry::cpu() {
        exposed::add(&exposed::cpus()[cpu].requests, 1);
        apic::send(cpu, apic::WAKE_VECTOR);
    }
}

/// Upcalls that wait for the program that runs go out now.
fn deliver_waiting(mut kernel: Locked, frame: &mut TrapFrame, caller: Environment) {
    let context = kernel.context_of(caller);
    device::set_timer(kernel.processors[entry::cpu()].deadline());
    let before = frame.program();
    match kernel.push_waiting(Claimed { environment: caller, context }, before, true) {
        Ok(program) if program != before => frame.set_program(program),
        Ok(_) => {}
        Err(failure) => die(kernel, caller, failure, kind::EVENT, before),
    }
}

/// The slice, the save window or the grace has run out.
fn slice_ended(mut kernel: Locked, frame: &mut TrapFrame, caller: Environment) {
    let context = kernel.context_of(caller);
    match kernel.processors[entry::cpu()].phase {
        Phase::Idle => unreachable!("a program runs on an idle CPU"),
        // On a machine whose host had no time for this CPU: the slice is over before its first instruction. It begins
        // again, without another frame.
        Phase::Running if context.stands_at(Entry::SliceStart, frame.program()) => switch_out(kernel, frame, caller),
        Phase::Running if defers_slice_end(context) => {
            context.private_words().pending.fetch_or(PENDING_SLICE_END, Ordering::AcqRel);
            kernel.allow(Phase::Grace, CRITICAL_SECTION_GRACE, Told::now(caller.number(), frame));
        }
        // Slices that others cut short add no frames to a stack that is half full.
        Phase::Running if !context.has_room(frame.program(), scheduler::HALF) => switch_out(kernel, frame, caller),
        Phase::Running => {
            let before = frame.program();
            let end = Upcall { entry: Entry::SliceEnd, kind: kind::SLICE_END, error: 0, detail: 0 };
            if !context.stands_at(Entry::SliceEnd, before) {
                match context.push_upcall(before, end) {
                    Ok(program) => frame.set_program(program),
                    Err(failure) => die(kernel, caller, failure, kind::SLICE_END, before),
                }
            }
            let window = exposed::kernel().save_window.load(Ordering::Relaxed);
            kernel.allow(Phase::SaveWindow, window, Told::now(caller.number(), frame));
        }
        Phase::SaveWindow | Phase::Grace => force_out(kernel, frame, caller),
    }
}

/// Whether the end of the slice has to wait: in a critical section, or before its entry is declared.
fn defers_slice_end(context: &Context) -> bool {
    context.private_words().critical_section.load(Ordering::Relaxed) != 0 || !context.declares(Entry::SliceEnd)
}

/// Switches an environment out whole. The environment that was told of the slice's end pays with its next slice: that
/// may be another one, which gave away what was left of its window. It counts as an excess, unless not one instruction
/// was executed since: then the host of this machine had no time for it.
fn force_out(mut kernel: Locked, frame: &TrapFrame, caller: Environment) -> ! {
    let told = kernel.processors[entry::cpu()].told;
    if let Ok(told_one) = kernel.living(told.environment) {
        exposed::add(&told_one.info().owed, exposed::kernel().quantum.load(Ordering::Relaxed));
        if told != Told::now(caller.number(), frame) {
            kernel.count_excess(told_one, frame.rip);
        }
    }
    if caller.is(State::Alive) {
        switch_out(kernel, frame, caller);
    }
    kernel.abandon(caller);
    scheduler::schedule_with(kernel)
}

/// Switches an environment out whole.
fn switch_out(mut kernel: Locked, frame: &TrapFrame, caller: Environment) -> ! {
    let context = kernel.context_of(caller);
    entry::leave_whole(context, frame);
    context.release();
    kernel.note_left(caller, clock::now());
    scheduler::schedule_with(kernel)
}

/// An upcall could not be delivered to the program that runs: it dies.
fn die(mut kernel: Locked, caller: Environment, failure: Undeliverable, kind: u64, program: Program) -> ! {
    kernel.condemn_for(caller, failure, kind, program);
    kernel.abandon(caller);
    scheduler::schedule_with(kernel)
}

/// The fast path of an exception could not deliver its upcall.
pub(crate) fn upcall_failed(frame: &mut TrapFrame) -> ! {
    let kernel = lock();
    let caller = kernel.caller();
    let context = kernel.context_of(caller);
    let program = frame.program();
    let entry = if frame.vector == kind::REFLECTION { Entry::Reflection } else { Entry::Exception };
    let upcall = Upcall { entry, kind: frame.vector, error: frame.error, detail: 0 };
    let failure = match context.push_upcall(program, upcall) {
        Err(failure) => failure,
        // Only an entry that is not canonical fails in the fast path and not here; it changed in between.
        Ok(_) => Undeliverable::BadEntry(program.rip),
    };
    die(kernel, caller, failure, frame.vector, program)
}

impl Kernel {
    /// One more excess of an environment; past the threshold it dies.
    fn count_excess(&mut self, environment: Environment, rip: u64) {
        let excess = &environment.info().excess;
        let limit = exposed::kernel().excess_limit.load(Ordering::Relaxed);
        match time_slice::count_excess(excess.load(Ordering::Relaxed), limit) {
            Verdict::Counted(more) => excess.store(more, Ordering::Release),
            Verdict::Destroy => self.condemn(environment, DeathReason::ExcessTime, [0, 0, rip], environment),
        }
    }

    fn allow(&mut self, phase: Phase, time: u64, told: Told) {
        let processor = &mut self.processors[entry::cpu()];
        (processor.phase, processor.told) = (phase, told);
        processor.ended = clock::now();
        processor.slice_end = processor.ended + time;
        device::set_timer(processor.slice_end);
    }

    /// Shortens the slice that runs: the runner pays for what it made others do.
    pub(crate) fn pay(&mut self, time: u64) {
        let processor = &mut self.processors[entry::cpu()];
        processor.slice_end = processor.slice_end.saturating_sub(time);
        device::set_timer(processor.slice_end);
    }

    /// Takes a dying environment off this CPU.
    pub(crate) fn abandon(&mut self, environment: Environment) {
        let context = self.context_of(environment);
        entry::leave(context);
        context.condemn_own();
        self.note_left(environment, clock::now());
    }
}

impl crate::processor::Processor {
    fn slice_end_passed(&self, now: u64) -> bool {
        now >= self.slice_end
    }

    fn deadline(&self) -> u64 {
        self.slice_end
    }
}
