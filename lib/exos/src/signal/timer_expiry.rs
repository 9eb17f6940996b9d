//! When timers are looked at: at every call, at the end of a slice, and when a wait ends, which they end.

use super::process_clock::ran;
use super::signal_state::signal_state;
use super::thread_signals::thread_signals;
use crate::hw::current::{Holds, Word, record, word};
use crate::hw::domain::domain;
use crate::upcalls::upcalls;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, SeqCst};
use linux_abi::errno::Result;
use runtime::lock::Lock;
use runtime::predicate::Term;
use runtime::{EnvironmentId, clock};
use unix_core::signal::frame::Information;
use unix_core::signal::set::bit;
use unix_core::signal::timer::{Timers, Whose};

/// A descriptor that is watched: what `descriptor::async_io` compares.
#[derive(Clone, Copy, Debug)]
pub struct AsyncWatch {
    /// The descriptor by which the flag was set, and the number of its description.
    pub(crate) key: (u64, u64),
    /// Stamps at the last look: readable, writable.
    pub(crate) stamps: [u64; 2],
    /// It could be written at the last look.
    pub(crate) was_writable: bool,
    /// The urgent byte that had come at the last look.
    pub(crate) urgent: u64,
}

/// The timers of a process. When a thread has to look at them stands in [`SignalState`](super::SignalState).
#[derive(Debug, Default)]
pub struct ExpiryTimers {
    /// The timers.
    pub timers: Lock<Timers>,
    /// Descriptors whose owner gets a signal (`O_ASYNC`).
    pub watches: Lock<Vec<AsyncWatch>>,
}

impl Holds for Word<{ word::TIMERS }> {
    type Record = ExpiryTimers;
}

/// The timers of the running process.
#[inline]
pub fn timers() -> &'static ExpiryTimers {
    record::<{ word::TIMERS }>()
}

impl ExpiryTimers {
    /// Changes the timers.
    pub fn change<T>(&self, action: impl FnOnce(&mut Timers) -> T) -> T {
        let mut timers = self.timers.lock();
        let result = action(&mut timers);
        self.set_next(&timers);
        result
    }

    fn set_next(&self, timers: &Timers) {
        let looks_always = timers.counts_time() || !self.watches.lock().is_empty();
        signal_state().next_timer.store(if looks_always { 1 } else { timers.earliest() }, SeqCst);
    }

    /// What ends a wait because of a watched descriptor.
    pub fn watch_terms(&self) -> Vec<Term> {
        if signal_state().next_timer.load(Acquire) != 1 {
            return Vec::new();
        }
        let watches = self.watches.lock();
        if watches.is_empty() { Vec::new() } else { (upcalls().watch_terms)(&watches) }
    }

    /// When a wait has to end because of a timer.
    pub fn next(&self) -> Option<u64> {
        match signal_state().next_timer.load(Acquire) {
            0 => None,
            // A waiter does not run, so that only real time counts.
            1 => Some(self.timers.lock().earliest()).filter(|time| *time != 0),
            time => Some(time),
        }
    }
}

/// Sends the signals of timers that have expired.
#[inline]
pub fn expire() {
    if signal_state().is_timer_due() {
        expire_due();
    }
}

#[cold]
fn expire_due() {
    look_at_watches();
    let due = timers().change(|timers| timers.expire(clock::now(), (upcalls().process_time)(), ran));
    for (whose, information) in due {
        let _ = match whose {
            Whose::Process => super::send_own(&information),
            Whose::Runner if thread_signals().blocked() & bit(information.signal) == 0 => {
                thread_signals().post().put(&information)
            }
            Whose::Runner => super::send_own(&information),
            Whose::Thread(number) => send_to(number, &information),
        };
    }
}

/// The watches are taken out for the look: what sends signals may take other locks.
fn look_at_watches() {
    let mut watches = core::mem::take(&mut *timers().watches.lock());
    if !watches.is_empty() {
        (upcalls().look_at_watches)(&mut watches);
        timers().watches.lock().extend(watches);
    }
}

/// To the process, where the thread is no more.
fn send_to(number: u64, information: &Information) -> Result<()> {
    match super::find_thread(|thread| thread.number() == number) {
        Some((_, signals)) => {
            signals.post().put(information)?;
            super::ring(domain().session_key, EnvironmentId(number))
        }
        None => super::send_own(information),
    }
}
