//! When timers are looked at: at every call, at the end of a slice, and when a wait ends, which they end.

use super::async_io::{self, AsyncWatch};
use super::process_clock::{own_time, ran};
use crate::descriptor::open_file::OpenFile;
use crate::hw::current::{process, thread};
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, SeqCst};
use linux_abi::errno::Result;
use runtime::lock::Lock;
use runtime::predicate::Term;
use runtime::{EnvironmentId, clock};
use unix_core::signal::frame::Information;
use unix_core::signal::set::bit;
use unix_core::signal::timer::{Timers, Whose};

/// The timers of a process, and when a thread has to look at them.
#[derive(Debug, Default)]
pub struct ExpiryTimers {
    /// The timers.
    pub timers: Lock<Timers>,
    /// When the next expires, on the clock since boot; 1 where one goes by the time that the program runs; 0: never.
    next: AtomicU64,
    /// Descriptors whose owner gets a signal (`O_ASYNC`).
    pub watches: Lock<Vec<AsyncWatch>>,
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
        self.next.store(if looks_always { 1 } else { timers.earliest() }, SeqCst);
    }

    /// Begins to watch a descriptor whose flag `O_ASYNC` or owner has changed, or no longer does.
    pub fn watch(&self, number: u64, description: &OpenFile) {
        if AsyncWatch::is_wanted(description) {
            let watch = AsyncWatch::new(number, description);
            watch.add_to(&mut self.watches.lock());
        }
        self.change(|_| ());
    }

    /// What ends a wait because of a watched descriptor.
    pub fn watch_terms(&self) -> Vec<Term> {
        if self.next.load(Acquire) == 1 { async_io::terms(&self.watches.lock()) } else { Vec::new() }
    }

    /// When a wait has to end because of a timer.
    pub fn next(&self) -> Option<u64> {
        match self.next.load(Acquire) {
            0 => None,
            // A waiter does not run, so that only real time counts.
            1 => Some(self.timers.lock().earliest()).filter(|time| *time != 0),
            time => Some(time),
        }
    }

    /// When the next expires, 0 where none is set: a caller looks at another value more closely ([`Self::is_due`]).
    #[inline]
    pub fn soonest(&self) -> u64 {
        self.next.load(Acquire)
    }

    /// Whether a timer is due now.
    #[inline]
    pub fn is_due(&self) -> bool {
        let next = self.next.load(Acquire);
        next != 0 && next <= clock::now()
    }
}

/// Sends the signals of timers that have expired.
#[inline]
pub fn expire() {
    if process().alarms.is_due() {
        expire_due();
    }
}

#[cold]
fn expire_due() {
    let process = process();
    look_at_watches();
    let due = process.alarms.change(|timers| timers.expire(clock::now(), own_time(), ran));
    for (whose, information) in due {
        let _ = match whose {
            Whose::Process => super::send_own(&information),
            Whose::Runner if thread().blocked() & bit(information.signal) == 0 => thread().post().put(&information),
            Whose::Runner => super::send_own(&information),
            Whose::Thread(number) => send_to(number, &information),
        };
    }
}

/// The watches are taken out for the look: what sends signals may take other locks.
fn look_at_watches() {
    let process = process();
    let mut watches = core::mem::take(&mut *process.alarms.watches.lock());
    if !watches.is_empty() {
        async_io::look(&mut watches);
        process.alarms.watches.lock().extend(watches);
    }
}

/// To the process, where the thread is no more.
fn send_to(number: u64, information: &Information) -> Result<()> {
    let process = process();
    let thread = process.threads.lock().iter().find(|thread| thread.number() == number).copied();
    let Some(thread) = thread else { return super::send_own(information) };
    thread.post().put(information)?;
    super::ring(process.session_key, EnvironmentId(number))
}
