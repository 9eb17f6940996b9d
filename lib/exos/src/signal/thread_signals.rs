//! Signal state of a thread: what is pending for it alone, what it blocks, and its alternate stack.
//!
//! Invariant: the thread itself changes it, but for the signals that others send to it.

use super::second_queue::{Inbox, SecondQueue};
use crate::hw::current::{Holds, Word, forever, record, word};
use crate::hw::domain::domain;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use runtime::area::Area;
use runtime::lock::Lock;
use unix_core::process::public_page as public;
use unix_core::signal::pending::{PENDING, PendingSignals, THREAD_WORDS};
use unix_core::signal::set::UNSTOPPABLE;

/// Bit of [`ThreadSignals::at_end`].
const SAVED_MASK: u64 = 1;
/// Flag of an alternate stack: see [`ThreadSignals::disarm_alternate`] (`SS_AUTODISARM`).
const AUTODISARM: u64 = 1 << 31;

/// Signal state of a thread.
#[derive(Debug)]
pub struct ThreadSignals {
    /// Bytes of vector registers in the frame of a signal.
    pub vector_bytes: u64,
    /// Error code, trap number and address of a fault that is about to be delivered.
    pub fault: Lock<Option<[u64; 3]>>,
    /// Signals that wait.
    blocked: AtomicU64,
    /// What the end of the call does in addition to pending signals; 0: nothing. [`SAVED_MASK`]: restore a mask once
    /// the next signal was delivered (`sigsuspend`). Other values: a signal that the call sent to its own thread, see
    /// [`Self::send_at_end`].
    pub at_end: AtomicU64,
    /// That mask.
    saved_mask: AtomicU64,
    /// See [`Self::alternate_words`].
    alternate: [AtomicU64; 3],
    post: [AtomicU64; THREAD_WORDS],
    /// Signals for this thread that found no room there.
    pub second: SecondQueue,
}

impl Holds for Word<{ word::THREAD_SIGNALS }> {
    type Record = ThreadSignals;
}

/// The signal state of the running thread.
#[inline]
pub fn thread_signals() -> &'static ThreadSignals {
    record::<{ word::THREAD_SIGNALS }>()
}

impl ThreadSignals {
    /// That of a thread whose vector registers take so many bytes.
    pub fn new(vector_bytes: u64) -> Self {
        Self {
            vector_bytes,
            fault: Lock::new(None),
            blocked: AtomicU64::new(0),
            at_end: AtomicU64::new(0),
            saved_mask: AtomicU64::new(0),
            alternate: Default::default(),
            post: [const { AtomicU64::new(0) }; THREAD_WORDS],
            second: SecondQueue::default(),
        }
    }
}

impl ThreadSignals {
    /// Signals for this thread alone.
    #[inline]
    pub fn post(&self) -> Inbox<'_> {
        // The record of a thread outlives the thread.
        let words = PendingSignals::new(forever(&self.post));
        Inbox { words, second: &self.second }
    }

    /// The set of signals that came for this thread alone.
    #[inline]
    pub fn pending(&self) -> &AtomicU64 {
        &self.post[PENDING]
    }

    /// Signals that wait.
    #[inline]
    pub fn blocked(&self) -> u64 {
        self.blocked.load(Acquire)
    }

    /// Sets which signals wait.
    #[inline]
    pub fn set_blocked(&self, blocked: u64) {
        let blocked = blocked & !UNSTOPPABLE;
        self.blocked.store(blocked, SeqCst);
        let shown = Area::current().public_library(public::BLOCKED - public::BASE);
        shown.store(blocked, Relaxed);
    }

    /// Sets which signals wait, until the next one was delivered: the mask from before comes back then.
    pub fn block_for_now(&self, blocked: u64) {
        self.saved_mask.store(self.blocked(), Relaxed);
        self.at_end.store(SAVED_MASK, Relaxed);
        self.set_blocked(blocked);
    }

    /// Puts the mask back that was there before [`Self::block_for_now`].
    #[inline]
    pub fn restore_mask(&self) {
        if self.at_end.swap(0, Relaxed) == SAVED_MASK {
            self.set_blocked(self.saved_mask.load(Relaxed));
        }
    }

    /// The mask that a handler is to find in its frame, from where it comes back.
    #[inline]
    pub fn take_saved_mask(&self) -> u64 {
        if self.at_end.swap(0, Relaxed) == SAVED_MASK { self.saved_mask.load(Relaxed) } else { self.blocked() }
    }

    /// The end of the running call is to deliver a signal to its thread: a set of one, below 32. False where there is
    /// something else to do at that end.
    #[inline]
    pub fn send_at_end(&self, signal: u64, code: i32) -> bool {
        let is_free = self.at_end.load(Relaxed) == 0;
        if is_free {
            self.at_end.store(u64::from(code as u32) << 32 | signal << 1, Relaxed);
        }
        is_free
    }

    /// Takes that signal, and its code.
    #[inline]
    pub fn take_sent(&self) -> Option<(u64, i32)> {
        let at_end = self.at_end.load(Relaxed);
        if !self.has_sent() {
            return None;
        }
        self.at_end.store(0, Relaxed);
        Some((u64::from(at_end as u32 >> 1), (at_end >> 32) as i32))
    }

    /// Whether its call has sent it a signal, which [`Self::take_sent`] takes.
    #[inline]
    pub fn has_sent(&self) -> bool {
        self.at_end.load(Relaxed) > SAVED_MASK
    }

    /// Signals for the process that one of its threads takes: as on Linux the first thread goes before the others,
    /// which are left those that it blocks. What no function of the program handles means the same wherever it is met.
    pub fn takes(&self, is_first: bool) -> u64 {
        if is_first {
            return !self.blocked();
        }
        let [blocked, caught] = [public::BLOCKED, public::CAUGHT].map(|word| domain().public_word(word).load(Acquire));
        !self.blocked() & (blocked | !caught)
    }

    /// The words of the alternate stack: address, flags as the program set them, and size, 0 where there is none.
    #[inline]
    pub fn alternate_words(&self) -> &[AtomicU64; 3] {
        &self.alternate
    }

    /// The alternate stack as `sigaltstack` tells it to a program whose stack pointer is `stack`.
    pub fn alternate(&self, stack: u64) -> [u64; 3] {
        let [base, flags, size] = [0, 1, 2].map(|index: usize| self.alternate[index].load(Relaxed));
        let on_it = flags & AUTODISARM == 0 && stack > base && stack - base <= size;
        let state = match size {
            0 => linux::SS_DISABLE,
            _ if on_it => linux::SS_ONSTACK,
            _ => 0,
        };
        [base, flags & AUTODISARM | u64::from(state), size]
    }

    /// Sets the alternate stack for a program whose stack pointer is `stack`: who runs on it keeps it (sigaltstack(2)).
    pub fn change_alternate(&self, stack: u64, [base, flags, size]: [u64; 3]) -> Result<()> {
        if self.alternate(stack)[1] & u64::from(linux::SS_ONSTACK) != 0 {
            return Err(Errno::EPERM);
        }
        let flags = u64::from(flags as u32);
        match (flags & !AUTODISARM) as u32 {
            linux::SS_DISABLE => self.set_alternate([0, flags, 0]),
            0 | linux::SS_ONSTACK if size < u64::from(linux::MINSIGSTKSZ) => return Err(Errno::ENOMEM),
            0 | linux::SS_ONSTACK => self.set_alternate([base, flags, size]),
            _ => return Err(Errno::EINVAL),
        }
        Ok(())
    }

    /// A handler that begins on the alternate stack has none, where the program wanted it so, until it returns.
    pub fn disarm_alternate(&self) {
        if self.alternate[1].load(Relaxed) & AUTODISARM != 0 {
            self.set_alternate([0, linux::SS_DISABLE.into(), 0]);
        }
    }

    /// Sets the words of the alternate stack; no bytes: none.
    pub fn set_alternate(&self, [base, flags, size]: [u64; 3]) {
        for (word, value) in self.alternate.iter().zip([base, flags, size]) {
            word.store(value, Relaxed);
        }
    }
}
