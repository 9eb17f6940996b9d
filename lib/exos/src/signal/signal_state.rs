//! Signal state of a process: its actions, its mailbox and its parent's, and whether it is stopped.
//!
//! Invariant: the window of the own mailbox stays where it is for as long as the process lives.

use super::second_queue::{Inbox, SecondQueue};
use super::signal_page::{Mailbox, SignalPage};
use crate::hw::current::{Holds, Word, record, word};
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::{AtomicU32, AtomicU64};
use runtime::clock;
use runtime::lock::Lock;
use unix_core::signal::actions::Actions;

/// Signal state of a process.
#[derive(Debug)]
pub struct SignalState {
    /// What it wants done with signals.
    pub actions: Lock<Actions>,
    /// What others may tell it.
    pub mailbox: Lock<Mailbox>,
    /// What lies in it.
    pub page: SignalPage,
    /// Signals that found no room there.
    pub second: SecondQueue,
    /// Where its parent is told of its end; none where the session is its parent.
    pub parent_mailbox: Lock<Option<Mailbox>>,
    /// Number of its parent.
    pub parent: AtomicU64,
    /// Signal that tells its parent of its end; 0: none.
    pub exit_signal: AtomicU32,
    /// What its threads have to obey: a value of `unix_core::process::run_state`.
    pub stopped: AtomicU64,
    /// How often a descriptor was closed that a thread used: sleepers that watch descriptors look again.
    pub watched_closes: AtomicU64,
    /// When the next timer expires, on the clock since boot; 1 where one goes by the time that the program runs; 0:
    /// never. Other values are looked at more closely ([`Self::is_timer_due`]).
    pub next_timer: AtomicU64,
}

impl Holds for Word<{ word::SIGNAL }> {
    type Record = SignalState;
}

/// The signal state of the running process.
#[inline]
pub fn signal_state() -> &'static SignalState {
    record::<{ word::SIGNAL }>()
}

impl SignalState {
    /// That of a process with this mailbox, whose parent is `parent`.
    pub fn new(mailbox: Mailbox, parent: u64) -> Self {
        Self {
            actions: Lock::new(Actions::default()),
            page: mailbox.letters(),
            second: SecondQueue::default(),
            mailbox: Lock::new(mailbox),
            parent_mailbox: Lock::new(None),
            parent: AtomicU64::new(parent),
            exit_signal: AtomicU32::new(0),
            stopped: AtomicU64::new(0),
            watched_closes: AtomicU64::new(0),
            next_timer: AtomicU64::new(0),
        }
    }

    /// Signals for the process.
    #[inline]
    pub fn inbox(&self) -> Inbox<'_> {
        Inbox { words: self.page.post(), second: &self.second }
    }

    /// Its process group.
    pub fn group(&self) -> u64 {
        self.page.group().load(Acquire)
    }

    /// Whether a timer is due now.
    #[inline]
    pub fn is_timer_due(&self) -> bool {
        let next = self.next_timer.load(Acquire);
        next != 0 && next <= clock::now()
    }
}
