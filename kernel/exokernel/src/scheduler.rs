//! Who runs next: the slice vector of this CPU, round robin (exokernel-sosp95 §5.1.1; DESIGN.md §4, "Time slice").
//!
//! There is no policy here: positions come in order; a position is passed over while its runner cannot run (it runs
//! elsewhere, its predicate is false, it pays for an excess, it is dying). A search looks at a bounded number of positions
//! in one kernel entry and then lets interrupts in. A CPU that found nothing says that it is idle, looks once more, and
//! halts until the earliest time that any predicate waits for.

use crate::environment::Environment;
use crate::event::Waiting;
use crate::interrupt;
use crate::kernel::{Kernel, Locked, lock};
use crate::predicate::Wakeup;
use crate::processor::Phase;
use abi::EnvironmentId;
use abi::exposed::CpuState;
use abi::limits::SLICES_PER_CPU;
use abi::upcall::kind;
use core::sync::atomic::{Ordering, fence};
use machine::context::{Context, Entry, Program, Undeliverable, Upcall};
use machine::exposed::{self, add};
use machine::{clock, cpu_control, entry};

/// Positions that one kernel entry looks at.
const POSITIONS_PER_ENTRY: usize = 48;

/// How a look at the vector ended.
enum Found {
    /// This environment runs now, at this position.
    Runner(Environment),
    /// Nobody can run; the earliest time at which somebody may.
    Nobody(Option<u64>),
    /// The bound was reached; go on from here in a new entry.
    More,
}

/// Gives the CPU to whoever comes next. Nobody runs on this CPU any more.
pub(crate) fn schedule() -> ! {
    schedule_with(lock())
}

extern "C" fn schedule_again() -> ! {
    schedule()
}

/// The same, with the lock held.
pub(crate) fn schedule_with(mut kernel: Locked) -> ! {
    let cpu = entry::cpu();
    let processor = &mut kernel.processors[cpu];
    if processor.phase == Phase::Idle {
        let now = clock::now();
        add(&exposed::cpus()[cpu].idle_time, now.saturating_sub(processor.entered));
        processor.entered = now;
    }
    exposed::cpus()[cpu].state.store(CpuState::Running as u64, Ordering::Release);
    match kernel.next_runner(cpu) {
        Found::Runner(environment) => begin(kernel, environment, entry_of_next_slice()),
        Found::More => go_on(kernel),
        Found::Nobody(_) => idle(kernel, cpu),
    }
}

/// Ends this entry and goes on searching in the next. No program's address space stays loaded: its root may be freed as soon
/// as the lock is let go.
fn go_on(kernel: Locked) -> ! {
    cpu_control::load_kernel_address_space();
    drop(kernel);
    machine::entry::breathe(schedule_again)
}

fn entry_of_next_slice() -> u64 {
    exposed::kernel().quantum.load(Ordering::Relaxed)
}

/// Halts until something happens. Says so first and looks once more, so that whoever changes a watched word after this
/// look sees the CPU idle and kicks it.
fn idle(mut kernel: Locked, cpu: usize) -> ! {
    let info = &exposed::cpus()[cpu];
    info.state.store(CpuState::Idle as u64, Ordering::SeqCst);
    info.environment.store(0, Ordering::Release);
    fence(Ordering::SeqCst);
    if kernel.processors[cpu].phase != Phase::Idle {
        kernel.processors[cpu].phase = Phase::Idle;
        kernel.processors[cpu].entered = clock::now();
    }
    match kernel.next_runner(cpu) {
        Found::Runner(environment) => {
            info.state.store(CpuState::Running as u64, Ordering::Release);
            begin(kernel, environment, entry_of_next_slice())
        }
        Found::More => go_on(kernel),
        Found::Nobody(_) if kernel.zero_ahead() => go_on(kernel),
        Found::Nobody(earliest) => {
            cpu_control::load_kernel_address_space();
            drop(kernel);
            match earliest {
                Some(time) => clock::set_timer(time),
                None => clock::stop_timer(),
            }
            machine::entry::halt(schedule_again)
        }
    }
}

/// Starts a slice for an environment that this CPU has claimed.
fn begin(mut kernel: Locked, environment: Environment, length: u64) -> ! {
    let now = clock::now();
    let end = now + length;
    let cpu = entry::cpu();
    let processor = &mut kernel.processors[cpu];
    (processor.phase, processor.slice_end, processor.position_lost) = (Phase::Running, end, false);
    exposed::cpus()[cpu].position.store(processor.position as u64, Ordering::Release);
    exposed::cpus()[cpu].slice_end.store(end, Ordering::Release);
    add(&environment.info().slices, 1);
    kernel.run(environment)
}

impl Kernel {
    /// Looks for the next runner from the position after the last one, and claims it.
    fn next_runner(&mut self, cpu: usize) -> Found {
        let start = self.processors[cpu].position;
        let mut position = start;
        let mut earliest = None;
        for _ in 0..POSITIONS_PER_ENTRY {
            let Some(next) = self.processors[cpu].vector.after(position) else { return Found::Nobody(None) };
            position = next.position;
            if next.wrapped {
                add(&exposed::cpus()[cpu].rounds, 1);
            }
            match self.try_position(cpu, position) {
                Wakeup::Now(environment) => {
                    self.processors[cpu].position = position;
                    return Found::Runner(environment);
                }
                Wakeup::At(time) => earliest = Some(earliest.map_or(time, |other: u64| other.min(time))),
                Wakeup::Never => {}
            }
            if position == start {
                return Found::Nobody(earliest);
            }
        }
        self.processors[cpu].position = position;
        Found::More
    }

    /// Whether the runner of a position can run now; if so this CPU has claimed it.
    fn try_position(&mut self, cpu: usize, position: usize) -> Wakeup {
        let slice = &exposed::slices(cpu)[position];
        let owner = EnvironmentId(slice.owner.load(Ordering::Relaxed));
        let runner = EnvironmentId(slice.runner.load(Ordering::Relaxed));
        let environment = match (self.living(runner), self.living(owner)) {
            (Ok(runner), _) => runner,
            // The runner died: the position goes back to whom it was allocated to.
            (Err(_), Ok(owner)) => {
                slice.runner.store(owner.number().0, Ordering::Release);
                owner
            }
            (Err(_), Err(_)) => return Wakeup::Never,
        };
        let wakeup = self.wakeup(environment);
        if !matches!(wakeup, Wakeup::Now(_)) {
            return wakeup;
        }
        if core::mem::take(&mut self.secrets_mut(environment).owes_slice) {
            return Wakeup::At(clock::now() + entry_of_next_slice());
        }
        if self.context_of(environment).claim() {
            return wakeup;
        }
        // It runs on another CPU, and may stop there by a fast transfer, of which nobody is told.
        self.passed_over |= 1 << cpu;
        Wakeup::At(clock::now() + entry_of_next_slice())
    }

    /// Somebody stops running on this CPU, and its position may be one that another CPU passed over.
    fn wake_who_passed_over(&mut self) {
        let mut cpus = core::mem::take(&mut self.passed_over);
        while cpus != 0 {
            interrupt::wake(cpus.trailing_zeros() as usize);
            cpus &= cpus - 1;
        }
    }

    /// Enters a claimed environment in the slice that runs; never returns. The lock is let go.
    fn run_claimed(&mut self, environment: Environment) -> Option<&'static Context> {
        let context = self.context_of(environment);
        let words = context.private_words();
        words.cpu.store(entry::cpu() as u64, Ordering::Relaxed);
        let program = if words.critical_section.load(Ordering::Relaxed) != 0 && !context.is_fresh() {
            words.pending.fetch_or(abi::area::PENDING_SLICE_START, Ordering::AcqRel);
            Ok(context.program())
        } else if context.is_forced() && context.stands_at(Entry::SliceStart, context.program()) {
            self.push_waiting(context, environment, context.program())
        } else {
            let start = Upcall { entry: Entry::SliceStart, kind: kind::SLICE_START, error: 0, detail: 0 };
            context
                .push_upcall(context.program(), start)
                .and_then(|program| self.push_waiting(context, environment, program))
        };
        match program {
            Ok(program) => {
                context.set_program(program);
                Some(context)
            }
            Err(failure) => {
                self.condemn_for(environment, failure, kind::SLICE_START, context.program());
                // This CPU has claimed it and will not enter it.
                context.condemn_own();
                None
            }
        }
    }

    /// The upcalls that wait for an environment, above `program`.
    pub(crate) fn push_waiting(
        &mut self,
        context: &Context,
        environment: Environment,
        mut program: Program,
    ) -> Result<Program, Undeliverable> {
        while let Some(Waiting(upcall)) = self.take_waiting(context, environment) {
            program = context.push_upcall(program, upcall)?;
        }
        Ok(program)
    }

    /// If transfers by the fast way gave this position away, or back, the slice is told now.
    pub(crate) fn note_runner(&mut self, environment: Environment) {
        let cpu = entry::cpu();
        let processor = &self.processors[cpu];
        if entry::has_position() && !processor.position_lost {
            exposed::slices(cpu)[processor.position].runner.store(environment.number().0, Ordering::Release);
        }
    }

    /// Tells the fast way of transfers whether the environment that is entered is the runner of this position.
    pub(crate) fn note_position(&mut self, environment: Environment) {
        let cpu = entry::cpu();
        let runner = exposed::slices(cpu)[self.processors[cpu].position].runner.load(Ordering::Relaxed);
        let has = runner == environment.number().0 && !self.processors[cpu].position_lost;
        entry::set_has_position(self.context_of(environment), has);
    }

    /// Notes that an environment stops running on this CPU.
    pub(crate) fn note_left(&mut self, environment: Environment) {
        let now = clock::now();
        self.note_runner(environment);
        self.wake_who_passed_over();
        let processor = &mut self.processors[entry::cpu()];
        let (payer, spent) = (processor.payer, now.saturating_sub(processor.entered));
        processor.entered = now;
        if let Some(payer) = self.known(payer) {
            add(&payer.info().time, spent);
        }
        exposed::cpus()[entry::cpu()].environment.store(0, Ordering::Release);
    }

    /// Notes that an environment begins to run on this CPU.
    pub(crate) fn note_entered(&mut self, environment: Environment) {
        let cpu = entry::cpu();
        (self.processors[cpu].entered, self.processors[cpu].payer) = (clock::now(), environment.number());
        self.note_position(environment);
        exposed::cpus()[cpu].environment.store(environment.number().0, Ordering::Release);
        if core::mem::replace(&mut self.processors[cpu].last, environment.number().0) != environment.number().0 {
            add(&exposed::cpus()[cpu].switches, 1);
        }
    }
}

impl Locked {
    /// Enters a claimed environment in the slice that runs.
    pub(crate) fn run(mut self, environment: Environment) -> ! {
        let Some(context) = self.run_claimed(environment) else { schedule_with(self) };
        self.note_entered(environment);
        clock::set_timer(self.processors[entry::cpu()].slice_end);
        drop(self);
        entry::enter(context)
    }
}

const _: () = assert!(POSITIONS_PER_ENTRY < SLICES_PER_CPU);
