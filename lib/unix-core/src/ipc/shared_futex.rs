//! Threads that wait for words in memory that several processes share (futex(2)): which, and in which order.
//!
//! Pure; the server keeps it. Invariants: a thread waits for one word at most, and waits no more once it is woken. Of
//! those that wait for a word for the same principal the first to come is woken first. No process proves that it sees
//! the memory of a word. So all that one principal does to the waiters of another is to wake them, which futex(2)
//! allows at any time. Its own waiters are neither counted against theirs nor woken in their place, and it moves only
//! its own.

use alloc::vec::Vec;

/// A thread that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// Its number.
    pub thread: u64,
    /// Whose it is.
    pub principal: u64,
    /// What it waits for.
    pub word: u64,
    /// What it can be woken for: one of these bits.
    pub bits: u32,
    /// Where it can run, for the thread that wakes it.
    pub home: u64,
}

/// All of them, the first to come in front.
#[derive(Clone, Debug, Default)]
pub struct SharedFutexes {
    waiters: Vec<Waiter>,
}

impl SharedFutexes {
    /// A thread waits for a word from now on, and for none that it waited for before. Those that do not live any more
    /// are forgotten.
    pub fn enter(&mut self, waiter: Waiter, lives: impl Fn(u64) -> bool) {
        self.waiters.retain(|other| other.thread != waiter.thread && lives(other.thread));
        self.waiters.push(waiter);
    }

    /// A thread waits no more; whether it still did.
    pub fn leave(&mut self, thread: u64) -> bool {
        let place = self.waiters.iter().position(|waiter| waiter.thread == thread);
        place.map(|place| self.waiters.remove(place)).is_some()
    }

    /// Whether a thread waits.
    pub fn waits(&self, thread: u64) -> bool {
        self.waiters.iter().any(|waiter| waiter.thread == thread)
    }

    /// Wakes up to `most` of a principal's that wait for a word and one of these bits, and all of others, and tells
    /// of each. Those that do not live any more are forgotten and count for nothing. How many there were, as far as
    /// they were asked for.
    pub fn wake(
        &mut self,
        principal: u64,
        word: u64,
        most: u64,
        bits: u32,
        mut tell: impl FnMut(&Waiter) -> bool,
    ) -> u64 {
        let (mut own, mut others) = (0, 0);
        self.waiters.retain(|waiter| {
            let is_own = waiter.principal == principal;
            let has_its_turn = most > 0 && (!is_own || own < most);
            if !has_its_turn || waiter.word != word || waiter.bits & bits == 0 {
                return true;
            }
            let told = u64::from(tell(waiter));
            *(if is_own { &mut own } else { &mut others }) += told;
            false
        });
        (own + others).min(most)
    }

    /// Lets up to `most` of a principal's that wait for one word wait for another, behind those that wait there; how
    /// many they are.
    pub fn requeue(&mut self, principal: u64, from: u64, to: u64, most: u64) -> u64 {
        let mut left = most;
        let (mut moved, kept): (Vec<Waiter>, Vec<Waiter>) = self.waiters.drain(..).partition(|waiter| {
            let is_own = waiter.word == from && waiter.principal == principal;
            let is_meant = left > 0 && is_own;
            left -= u64::from(is_meant);
            is_meant
        });
        moved.iter_mut().for_each(|waiter| waiter.word = to);
        self.waiters = kept;
        self.waiters.extend(&moved);
        moved.len() as u64
    }
}
