//! The next environment to run: the slice vector of this CPU, round robin (exokernel-sosp95 §5.1.1; DESIGN.md §4, "Time
//! slice").
//!
//! There is no policy here: positions come in order. A position is passed over while its runner cannot run (it runs
//! elsewhere, its predicate is false, it pays for an excess, it is dying). A look around the vector does a bounded
//! amount of work in one kernel entry, then lets interrupts in and continues. A CPU that found no runner announces that
//! it is idle and looks around once more, from the beginning whenever an interrupt came in between. Then it halts until
//! the earliest time that any predicate waits for.

use crate::cost;
use crate::device;
use crate::environment::Environment;
use crate::event::{self, Waiting};
use crate::interrupt;
use crate::kernel::{Kernel, Locked, lock};
use crate::predicate::Wakeup;
use crate::processor::{Phase, Processor};
use abi::EnvironmentId;
use abi::exposed::CpuState;
use abi::limits::CPUS;
use abi::time_slice::SliceInfo;
use abi::upcall::kind;
use core::sync::atomic::{Ordering, fence};
use machine::context::{Context, Entry, Program, Undeliverable, Upcall};
use machine::exposed::{self, add};
use machine::{clock, cpu_control, entry};

/// An environment that this CPU has claimed to run it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claimed {
    /// Who.
    pub(crate) environment: Environment,
    /// Its context.
    pub(crate) context: &'static Context,
}

/// Quarters of the upcall stack that must be free for the start and the end of a slice: directed yields cut slices
/// short, and each cut may leave a frame. Without such a frame an environment resumes, or is switched out whole.
pub(crate) const HALF: u64 = 2;
/// The same for events that others raise.
const QUARTER: u64 = 1;

/// What an environment is told first in a slice.
const START: Upcall = Upcall { entry: Entry::SliceStart, kind: kind::SLICE_START, error: 0, detail: 0 };

/// How a look at the vector ended.
enum Found {
    /// This environment runs now, at this position.
    Runner(Claimed),
    /// No environment can run; the earliest time at which one may.
    Nobody(Option<u64>),
    /// This entry has done enough; go on from here in a new one.
    More,
}

/// Gives the CPU to the next environment in turn. No environment runs on this CPU any more.
pub(crate) fn schedule() -> ! {
    schedule_with(lock())
}

extern "C" fn schedule_again() -> ! {
    schedule()
}

/// The same after a halt. The look begins with the position that ran last: its environment was the last to sleep, and
/// probably waits for what ended the halt.
extern "C" fn schedule_after_halt() -> ! {
    let mut kernel = lock();
    kernel.processor().step_back();
    schedule_with(kernel)
}

/// Continues a look. An interrupt may have come to a CPU that said that it is idle because something changed that was
/// looked at already.
extern "C" fn search_on() -> ! {
    let kernel = lock();
    if entry::breathed_undisturbed() { search(kernel) } else { schedule_with(kernel) }
}

/// The same, with the lock held.
pub(crate) fn schedule_with(mut kernel: Locked) -> ! {
    let info = exposed::own_cpu();
    info.environment.store(0, Ordering::Release);
    info.state.store(CpuState::Running as u64, Ordering::Release);
    let processor = kernel.processor();
    processor.note_idle_time();
    processor.look_around(false);
    search(kernel)
}

/// Continues the look, and runs the environment it finds; where two looks find none, or one on the only CPU, halts.
fn search(mut kernel: Locked) -> ! {
    loop {
        match kernel.next_runner() {
            Found::Runner(claimed) => begin(kernel, claimed, length_of_next_slice()),
            Found::More => go_on(kernel, search_on),
            Found::Nobody(earliest) if kernel.processor().announced => idle(kernel, earliest),
            Found::Nobody(earliest) => {
                kernel.announce_idle();
                // No other CPU changes a word between the look and the halt.
                if exposed::cpu_count() == 1 {
                    idle(kernel, earliest);
                }
            }
        }
    }
}

/// Ends this entry and continues in the next. No program's address space stays loaded: its root may be freed as soon as
/// the lock is let go.
fn go_on(kernel: Locked, then: extern "C" fn() -> !) -> ! {
    cpu_control::load_kernel_address_space();
    drop(kernel);
    machine::entry::breathe(then)
}

fn length_of_next_slice() -> u64 {
    exposed::kernel().quantum.load(Ordering::Relaxed)
}

/// Whether an environment owes a whole slice, which is paid by this.
fn pays_whole_slice(environment: Environment) -> bool {
    let (owed, quantum) = (&environment.info().owed, length_of_next_slice());
    match owed.load(Ordering::Relaxed).checked_sub(quantum) {
        Some(rest) => {
            owed.store(rest, Ordering::Release);
            true
        }
        None => false,
    }
}

/// Halts until something happens, or fills pages with zeros.
fn idle(mut kernel: Locked, earliest: Option<u64>) -> ! {
    if kernel.zero_ahead() {
        go_on(kernel, schedule_again);
    }
    cpu_control::load_kernel_address_space();
    drop(kernel);
    match earliest.unwrap_or(u64::MAX).min(device::deadline()) {
        u64::MAX => clock::stop_timer(),
        time => clock::set_timer(time),
    }
    machine::entry::halt(schedule_after_halt)
}

/// Starts a slice for an environment that this CPU has claimed.
#[inline(never)]
fn begin(mut kernel: Locked, claimed: Claimed, length: u64) -> ! {
    let now = clock::now();
    let owed = claimed.environment.info().owed.swap(0, Ordering::AcqRel);
    let end = now + length.saturating_sub(owed);
    let processor = kernel.processor();
    processor.note_idle_time();
    processor.ended = u64::MAX;
    (processor.phase, processor.slice_end) = (Phase::Running, end);
    processor.slice = Some(&exposed::slices(entry::cpu())[processor.position]);
    processor.ran = processor.position;
    let info = exposed::own_cpu();
    info.state.store(CpuState::Running as u64, Ordering::Release);
    info.position.store(processor.position as u64, Ordering::Release);
    info.slice_end.store(end, Ordering::Release);
    add(&claimed.environment.info().slices, 1);
    device::set_timer(end);
    kernel.run(claimed, now)
}

impl Kernel {
    /// This CPU.
    #[inline(always)]
    pub(crate) fn processor(&mut self) -> &mut Processor {
        &mut self.processors[entry::cpu() % CPUS]
    }

    /// Announces that this CPU is idle, and begins another look: an environment that changes a watched word after that
    /// sees the CPU idle and kicks it.
    fn announce_idle(&mut self) {
        exposed::own_cpu().state.store(CpuState::Idle as u64, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let processor = self.processor();
        if processor.phase != Phase::Idle {
            (processor.phase, processor.entered) = (Phase::Idle, clock::now());
        }
        processor.look_around(true);
    }

    /// Looks on for the next runner, and claims it.
    fn next_runner(&mut self) -> Found {
        let cpu = entry::cpu();
        while !self.is_spent() {
            self.spend(cost::POSITION_LOOK);
            let Some((next, is_last)) = self.processor().next_position() else {
                return Found::Nobody(self.processor().earliest);
            };
            if next.wrapped {
                add(&exposed::own_cpu().rounds, 1);
            }
            match self.try_position(cpu, next.position) {
                Ok(claimed) => return Found::Runner(claimed),
                Err(Wakeup::At(time)) => self.processor().note_later(time),
                Err(Wakeup::Now | Wakeup::Never) => {}
            }
            if is_last {
                return Found::Nobody(self.processor().earliest);
            }
        }
        Found::More
    }

    /// The runner of a position, claimed, or when it can run.
    fn try_position(&mut self, cpu: usize, position: usize) -> Result<Claimed, Wakeup> {
        let slice = &exposed::slices(cpu)[position];
        let owner = EnvironmentId(slice.owner.load(Ordering::Relaxed));
        let runner = EnvironmentId(slice.runner.load(Ordering::Relaxed));
        let environment = match self.living(runner) {
            Ok(runner) => runner,
            // The runner died: the position goes back to whom it was allocated to.
            Err(_) => match self.living(owner) {
                Ok(owner) => {
                    slice.runner.store(owner.number().0, Ordering::Release);
                    owner
                }
                Err(_) => return Err(Wakeup::Never),
            },
        };
        let context = self.context_of(environment);
        match self.wakeup(environment, context) {
            Wakeup::Now => {}
            later => return Err(later),
        }
        if pays_whole_slice(environment) {
            return Err(Wakeup::At(clock::now() + length_of_next_slice()));
        }
        if context.claim() {
            return Ok(Claimed { environment, context });
        }
        // It runs on another CPU, and may stop there by a fast transfer, which the scheduler does not see.
        self.passed_over |= 1 << cpu;
        Err(Wakeup::At(clock::now() + length_of_next_slice()))
    }

    /// A sleeper is run on this CPU, outside its position. The CPUs that found it asleep there, and may have halted for
    /// good, look again when an environment stops running.
    pub(crate) fn note_roused(&mut self, environment: Environment) {
        self.passed_over |= u64::from(self.secrets(environment).homes) & !(1 << entry::cpu());
    }

    /// An environment stops running on this CPU, and its position may be one that another CPU passed over.
    #[cold]
    fn wake_who_passed_over(&mut self) {
        let mut cpus = core::mem::take(&mut self.passed_over);
        while cpus != 0 {
            interrupt::wake(cpus.trailing_zeros() as usize);
            cpus &= cpus - 1;
        }
    }

    /// How a claimed environment resumes in the slice that runs, above the upcalls that come first; none if it dies of
    /// them.
    #[inline(always)]
    fn program_of(&mut self, claimed: Claimed) -> Option<Program> {
        let plain = if claimed.context.is_voluntary() { start_plainly(claimed.context) } else { None };
        if plain.is_some() { plain } else { self.program_above_upcalls(claimed) }
    }

    /// The same in every case: in a critical section, switched out whole, never entered, or with other upcalls waiting.
    #[inline(never)]
    fn program_above_upcalls(&mut self, claimed: Claimed) -> Option<Program> {
        claimed.context.private_words().cpu.store(entry::cpu() as u64, Ordering::Relaxed);
        match self.push_upcalls(claimed) {
            Ok(program) => Some(program),
            Err(failure) => {
                self.condemn_for(claimed.environment, failure, kind::SLICE_START, claimed.context.program());
                // This CPU has claimed it and will not enter it.
                claimed.context.condemn_own();
                None
            }
        }
    }

    fn push_upcalls(&mut self, claimed: Claimed) -> Result<Program, Undeliverable> {
        let context = claimed.context;
        let (words, program) = (context.private_words(), context.program());
        // One that yielded by itself may be waiting for just such an upcall.
        let is_bounded = !context.is_voluntary();
        let in_section = words.critical_section.load(Ordering::Relaxed) != 0 && !context.is_fresh();
        if in_section || !context.has_room(program, HALF) {
            words.pending.fetch_or(abi::area::PENDING_SLICE_START, Ordering::AcqRel);
            if context.is_forced() {
                // It may stand before a transfer that is to give another position.
                self.processor().slice = None;
            }
            return if in_section { Ok(program) } else { self.push_waiting(claimed, program, is_bounded) };
        }
        // What was pushed for the last slice has not begun: it counts for this one.
        let told = context.is_forced() && context.stands_at(Entry::SliceStart, program);
        let program = if told { program } else { context.push_upcall(program, START)? };
        self.push_waiting(claimed, program, is_bounded)
    }

    /// The upcalls that wait for an environment, above `program`: bounded ones as long as a quarter of the upcall stack
    /// is free.
    pub(crate) fn push_waiting(
        &mut self,
        Claimed { environment, context }: Claimed,
        mut program: Program,
        is_bounded: bool,
    ) -> Result<Program, Undeliverable> {
        while !is_bounded || context.has_room(program, QUARTER) {
            let Some(Waiting(upcall)) = self.take_waiting(context, environment) else { break };
            program = context.push_upcall(program, upcall)?;
        }
        Ok(program)
    }

    /// Notes that an environment stops running on this CPU.
    #[inline(always)]
    pub(crate) fn note_left(&mut self, environment: Environment, now: u64) {
        if self.passed_over != 0 {
            self.wake_who_passed_over();
        }
        let processor = self.processor();
        processor.charge(now);
        processor.entered = now;
        if let Some(slice) = processor.moved_on(environment) {
            self.tell_slice(slice, environment);
        }
    }
}

impl Processor {
    /// Counts the time since the last look as idle, if no environment ran.
    fn note_idle_time(&mut self) {
        if self.phase == Phase::Idle {
            let now = clock::now();
            add(&exposed::own_cpu().idle_time, now.saturating_sub(self.entered));
            self.entered = now;
        }
    }

    /// The runner of the position, as far as it was told; none where it was lost.
    #[inline(always)]
    pub(crate) fn runner(&self) -> EnvironmentId {
        EnvironmentId(self.slice.map_or(0, |slice| slice.runner.load(Ordering::Relaxed)))
    }

    /// The position that runs, if transfers by the fast way have given it to this environment and the scheduler was not
    /// told yet.
    pub(crate) fn moved_on(&self, environment: Environment) -> Option<&'static SliceInfo> {
        self.slice.filter(|_| entry::has_position() && self.runner() != environment.number())
    }

    /// Tells the fast way of transfers whether the environment that is entered is the runner of this position.
    pub(crate) fn note_position(&self, environment: Environment, context: &Context) {
        entry::set_has_position(context, self.runner() == environment.number());
    }

    /// Charges the time since the last look to its payer.
    #[inline(always)]
    pub(crate) fn charge(&mut self, now: u64) {
        let spent = now.saturating_sub(self.entered);
        let (payer, number) = self.payer;
        if payer.number() == number {
            add(&payer.info().time, spent);
            if now > self.ended {
                self.charge_overrun(now);
            }
        }
    }

    /// Time in a save window or a grace is lent: it comes off the next slices of the payer. Time beyond the window is
    /// the host's doing.
    #[cold]
    fn charge_overrun(&mut self, now: u64) {
        let used = now.min(self.slice_end).saturating_sub(self.entered.max(self.ended));
        add(&self.payer.0.info().owed, used);
    }

    /// Notes that an environment begins to run on this CPU, in the position of `runner`.
    #[inline(always)]
    pub(crate) fn note_entered(&mut self, claimed: Claimed, runner: EnvironmentId, now: u64) {
        let number = claimed.environment.number();
        (self.entered, self.payer) = (now, (claimed.environment, number));
        entry::set_has_position(claimed.context, runner == number);
        let info = exposed::own_cpu();
        exposed::show_runner(number);
        if core::mem::replace(&mut self.last, number.0) != number.0 {
            add(&info.switches, 1);
        }
    }
}

/// How a context that resumes from RIP, RSP and flags alone begins a slice, if the start is all there is to report.
#[inline(always)]
pub(crate) fn start_plainly(context: &Context) -> Option<Program> {
    let words = context.private_words();
    words.cpu.store(entry::cpu() as u64, Ordering::Relaxed);
    if words.critical_section.load(Ordering::Relaxed) | event::waiting(words) != 0 || context.keys_on() {
        return None;
    }
    context.push_frame(context.program_without_keys(), START).ok()
}

impl Locked {
    /// Enters a claimed environment in the slice that runs; the timer is set to its end.
    #[inline(always)]
    pub(crate) fn run(mut self, claimed: Claimed, now: u64) -> ! {
        let Some(program) = self.program_of(claimed) else { schedule_with(self) };
        let runner = self.processor().runner();
        self.processor().note_entered(claimed, runner, now);
        drop(self);
        entry::enter(claimed.context, program)
    }
}
