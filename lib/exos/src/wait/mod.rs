//! Blocking: always a wakeup predicate, always ended by a signal that calls a function of the program.

pub(crate) mod bells;
pub mod cpu_placement;
mod wait_state;

use crate::hw::current::is_adopted;
use crate::hw::domain::domain;
pub use crate::hw::plain_wait::wait_plainly;
use crate::hw::thread_context::thread_context;
use crate::signal;
use crate::upcalls::upcalls;
use abi::exposed::{CpuInfo, CpuState};
use core::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use core::sync::atomic::{AtomicU64, fence};
use linux_abi::errno::{Errno, Result};
use runtime::predicate::{self, Operator, Predicate, Term, word, word_masked};
use runtime::time_slice::{self, Position};
use runtime::{EnvironmentId, clock, exposed, syscall};
use unix_core::process::public_page as public;
pub use wait_state::{WaitState, ring_pending, wait_state};

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeReason {
    /// One of the conditions may hold now: look again.
    Condition,
    /// The time has come.
    TimedOut,
}

/// Terms that a wait has room for in its predicate, with those for signals and time.
pub const MOST_TERMS: usize = abi::limits::PREDICATE_TERMS - 9;

/// Waits until one of the terms is true, a time in nanoseconds since boot has come, or a signal calls a function of the
/// program: then `EINTR`. Signals that stop the process are obeyed here, and the wait continues. More terms than the
/// kernel takes are looked at again after a millisecond.
///
/// A signal is no error yet when it is met first: what is waited for may have come with it, and then counts. The caller
/// looks, and is told when it comes to wait once more.
pub fn wait(terms: &[Term], deadline: Option<u64>) -> Result<WakeReason> {
    wait_for(|| terms, deadline)
}

/// The same for terms that are made only where the thread sleeps on them.
pub fn wait_for<T: AsRef<[Term]>>(terms: impl FnOnce() -> T, deadline: Option<u64>) -> Result<WakeReason> {
    ring_pending(wait_state());
    if !directed_yield() && !meets_signal()? {
        sleep_until_any(terms().as_ref(), deadline)?;
    }
    // The thread that got the CPU may have sent a signal: the caller looks again, and has it before it sleeps.
    let late = deadline.is_some_and(|deadline| clock::now() >= deadline);
    Ok(if late { WakeReason::TimedOut } else { WakeReason::Condition })
}

/// Whether a signal keeps the running thread from sleeping: an error where it has looked once more since.
#[inline(never)]
fn meets_signal() -> Result<bool> {
    let met = signal::handle_non_handler_signals();
    let before = wait_state().signalled.load(Relaxed);
    wait_state().signalled.store(met, Relaxed);
    if met && before { Err(Errno::EINTR) } else { Ok(met) }
}

/// The running thread has just given `number` what it waits for.
#[inline]
pub fn set_yield_target(number: u64) {
    if number != 0 && number != runtime::area::number().0 && is_adopted() {
        wait_state().awakened.store(number, Relaxed);
    }
}

/// Directed yield: before blocking, donate the rest of the slice to the thread that we woke most recently; it usually
/// produces what we wait for. Request/response pairs then need neither a predicate nor the scheduler (exokernel-sosp95
/// §6.1). Says whether that was done: then the caller has the CPU again and looks. The target is only a hint: a wrong
/// number wastes one slice.
fn directed_yield() -> bool {
    let waits = wait_state();
    let awakened = waits.awakened.load(Relaxed);
    if awakened == 0 {
        return false;
    }
    waits.awakened.store(0, Relaxed);
    let since = clock::ticks();
    let yielded = time_slice::yield_to(EnvironmentId(awakened)).is_ok();
    thread_context().cpu_time.note_wait(since);
    yielded
}

/// Sleeps until a term is true, the time has come, or a signal wants to be looked at.
fn sleep_until_any(terms: &[Term], deadline: Option<u64>) -> Result<()> {
    const ALMOST_ALL: usize = MOST_TERMS;
    const MILLISECOND: u64 = 1_000_000;
    (upcalls().trim)();
    let mut predicate = Predicate::new();
    add_signals(&mut predicate)?;
    for term in terms.iter().take(ALMOST_ALL) {
        predicate.add(&[*term])?;
    }
    let watched = signal::timers().watch_terms();
    for term in watched.iter().take(ALMOST_ALL.saturating_sub(terms.len())) {
        predicate.add(&[*term])?;
    }
    if terms.len() + watched.len() > ALMOST_ALL {
        predicate.add(&[predicate::clock(clock::now() + MILLISECOND)])?;
    }
    if let Some(time) = deadline.into_iter().chain(signal::timers().next()).min() {
        predicate.add(&[predicate::clock(time)])?;
    }
    sleep(&predicate);
    if wait_state().watches_since.load(Relaxed) != 0 {
        (upcalls().end_watches)();
    }
    Ok(())
}

/// What becomes true when a signal comes that is this thread's, when others ask something, when the process
/// stops or ends, or when something is closed that this thread watches.
fn add_signals(predicate: &mut Predicate) -> Result<()> {
    let (state, thread) = (signal::signal_state(), signal::thread_signals());
    let come = |words, wanted| word_masked(words, wanted, Operator::NotEqual, 0);
    let (common, blocked_by_first) = (state.page.signals(), domain().public_word(public::BLOCKED));
    let seen = blocked_by_first.load(Acquire);
    predicate.add(&[come(common, signal::taken_here())])?;
    predicate.add(&[come(thread.pending(), !thread.blocked())])?;
    predicate.add(&[word(state.page.questions(), Operator::NotEqual, 0)])?;
    predicate.add(&[word(&state.stopped, Operator::NotEqual, 0)])?;
    let since = wait_state().watches_since.load(Relaxed);
    if since != 0 {
        predicate.add(&[word(&state.watched_closes, Operator::NotEqual, since - 1)])?;
    }
    if !domain().is_first(thread_context()) {
        // Any thread may take the signals of the first thread once that blocks them.
        predicate.add(&[come(common, !thread.blocked()), word(blocked_by_first, Operator::NotEqual, seen)])?;
    }
    Ok(())
}

/// Gives the CPU away until the predicate is true, or an upcall came.
fn sleep(predicate: &Predicate) {
    let since = clock::ticks();
    cpu_placement::wait(|| {
        if predicate.wait().is_err() {
            time_slice::yield_now();
        }
    });
    thread_context().cpu_time.note_wait(since);
}

/// Gives the rest of the slice away.
pub fn yield_now() {
    if !is_adopted() {
        return time_slice::yield_now();
    }
    let since = clock::ticks();
    time_slice::yield_now();
    thread_context().cpu_time.note_wait(since);
}

/// Where a thread gets slices of its own and wakes up, as far as that is known: CPU (32..64) and position (0..32) of
/// the slice, plus one. It is 0 where that is not known. It is only a hint: a slice that is the thread's no more says
/// nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuHint(pub u64);

impl CpuHint {
    /// That of the running thread: known where the slice that runs is its own, and not a donated one.
    fn of_running() -> Self {
        let position = time_slice::position();
        let is_own = position.owner() == runtime::area::number();
        if is_own { Self((position.cpu << 32 | position.at) + 1) } else { Self::default() }
    }

    /// After a change of a word that one thread alone watches, whose home this is: its CPU looks again, if it is idle.
    pub fn wake_idle_cpus(self, thread: u64) {
        let place = self.0.wrapping_sub(1);
        let position = Position { cpu: place >> 32, at: place & 0xffff_ffff };
        match exposed::cpu(position.cpu) {
            Some(cpu) if position.owner().0 == thread => kick_if_idle(position.cpu, cpu),
            _ => kick_idle(),
        }
    }
}

/// Where a thread can run that others may wake: of no account on the only CPU.
#[derive(Debug, Default)]
pub struct LastCpu(AtomicU64);

impl LastCpu {
    /// The running thread, whose home this is, is going to wait.
    #[inline]
    pub fn note(&self) {
        if !is_only_cpu() {
            self.note_running();
        }
    }

    #[inline(never)]
    fn note_running(&self) {
        let now = CpuHint::of_running();
        if now != CpuHint::default() {
            self.0.store(now.0, Relaxed);
        }
    }

    /// What is known of it.
    pub fn get(&self) -> CpuHint {
        CpuHint(self.0.load(Relaxed))
    }

    /// See [`CpuHint::wake_idle_cpus`].
    #[inline]
    pub fn kick_idle(&self, thread: u64) {
        if !is_only_cpu() {
            self.get().wake_idle_cpus(thread);
        }
    }
}

/// No other CPU runs anything.
#[inline]
fn is_only_cpu() -> bool {
    exposed::kernel().cpus.load(Relaxed) == 1
}

fn kick_if_idle(number: u64, cpu: &CpuInfo) {
    fence(SeqCst);
    if cpu.state.load(Acquire) == CpuState::Idle as u64 {
        let _ = syscall::cpu_kick(number);
    }
}

/// After a change of a word that others may watch: idle CPUs look again.
#[inline]
pub fn kick_idle() {
    if !is_only_cpu() {
        kick_others();
    }
}

fn kick_others() {
    (0..).zip(exposed::cpus()).for_each(|(number, cpu)| kick_if_idle(number, cpu));
}

/// Waits whatever signals come: a stopped process.
pub fn wait_stopped(terms: &mut [Term]) {
    let since = clock::ticks();
    wait_plainly(terms);
    thread_context().cpu_time.note_wait(since);
}
