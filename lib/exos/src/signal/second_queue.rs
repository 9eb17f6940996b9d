//! Second queue of signals, in the receiver's heap.
//!
//! The words of a mailbox have room for 75 queued signals, those of a thread for 40. RLIMIT_SIGPENDING is mostly
//! larger. The receiver moves what its words hold into this queue whenever the words are full. Its own calls find that
//! out by themselves. The sender of another process raises the word of questions and waits for room.
//!
//! Invariants:
//! - What this queue holds of a signal came before what the words hold of it.
//! - The words have a signal's bit while this queue holds it.
//! - The words say how many signals this queue holds, so that senders keep the limit. The receiver itself never
//!   reads that number: others may write it.

use alloc::collections::VecDeque;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Release, SeqCst};
use linux_abi::errno::{Errno, Result};
use runtime::lock::{Lock, OwnerLock};
use unix_core::signal::frame::Information;
use unix_core::signal::pending::{FIRST_QUEUED, PendingSignals};
use unix_core::signal::set::bit;

/// The signals of one mailbox or one thread that its words had no room for.
#[derive(Debug, Default)]
pub struct SecondQueue {
    count: AtomicU64,
    signals: Lock<VecDeque<Information>>,
}

/// Where the running process finds signals: words that senders write, and the queue behind them.
#[derive(Clone, Copy, Debug)]
pub struct Inbox<'a> {
    /// The words.
    pub words: PendingSignals<'static>,
    /// The queue behind them.
    pub second: &'a SecondQueue,
}

impl SecondQueue {
    /// Drops everything: what a parent has pending is the parent's.
    pub fn clear(&self) {
        self.signals.lock().clear();
        self.count.store(0, Release);
    }

    /// See [`Lock::owner_lock`].
    pub fn owner_lock(&self) -> &OwnerLock {
        self.signals.owner_lock()
    }

    /// See [`Lock::free_copy`].
    pub fn free_copy(&self) {
        self.signals.free_copy();
    }
}

impl Inbox<'_> {
    /// Puts a signal in, up to the limit: see [`PendingSignals::put`].
    pub fn put(self, information: &Information) -> Result<()> {
        if self.words.has_room_for(information) != Err(Errno::ENOBUFS) {
            return self.words.put(information);
        }
        self.make_room();
        self.words.put(information)
    }

    /// Takes the oldest pending signal of a number out.
    #[inline]
    pub fn take(self, signal: u32) -> Option<Information> {
        if signal < FIRST_QUEUED || self.second.count.load(Acquire) == 0 {
            return self.words.take(signal);
        }
        self.take_queued(signal)
    }

    #[inline(never)]
    fn take_queued(self, signal: u32) -> Option<Information> {
        let mut signals = self.second.signals.lock();
        let of_signal = |one: &Information| one.signal == signal;
        let Some(index) = signals.iter().position(of_signal) else { return self.words.take(signal) };
        let taken = signals.remove(index);
        self.publish(signals.len());
        self.words.settle(signal, signals.iter().any(of_signal));
        taken
    }

    /// Drops every pending signal of a set.
    pub fn drop_all(self, set: u64) {
        if self.second.count.load(Acquire) != 0 {
            let mut signals = self.second.signals.lock();
            signals.retain(|one| bit(one.signal) & set == 0);
            self.publish(signals.len());
        }
        self.words.drop_all(set);
    }

    /// Moves all queued signals from the words into the second queue.
    pub fn make_room(self) {
        let mut signals = self.second.signals.lock();
        let mut moved = 0;
        self.words.take_all_queued(|information| {
            moved |= bit(information.signal);
            signals.push_back(information);
            // Before the next entry is free: the sender that fills it counts this one.
            self.publish(signals.len());
        });
        self.words.pending().fetch_or(moved, SeqCst);
    }

    fn publish(self, count: usize) {
        self.second.count.store(count as u64, Release);
        self.words.set_elsewhere(count as u64);
    }
}
