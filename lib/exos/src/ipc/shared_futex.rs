//! Threads that wait for words in memory that several processes share (futex(2)): which, in which order, and who was woken.
//!
//! Pure; the guardian keeps it. Holds always: a thread waits for one word at most, is woken once at most, and of those that wait
//! for a word for the same principal who came first is woken first. Nobody proves that it sees the memory of a word. So all that
//! one principal does to the waiters of another is to wake them, which futex(2) allows at any time: its own waiters are neither counted against
//! theirs nor woken in their place, and it moves nobody but its own.

use alloc::vec::Vec;

/// A thread that waits, or was woken and does not know yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Waiter {
    thread: u64,
    principal: u64,
    word: u64,
    bits: u32,
    woken: bool,
}

/// All of them, who came first in front.
#[derive(Clone, Debug, Default)]
pub struct SharedFutexes {
    waiters: Vec<Waiter>,
}

impl SharedFutexes {
    /// A thread waits for a word from now on, for its principal, and for none that it waited for before.
    pub fn enter(&mut self, thread: u64, principal: u64, word: u64, bits: u32) {
        self.leave(thread);
        self.waiters.push(Waiter { thread, principal, word, bits, woken: false });
    }

    /// A thread waits no more; whether it was woken.
    pub fn leave(&mut self, thread: u64) -> bool {
        let Some(place) = self.waiters.iter().position(|waiter| waiter.thread == thread) else { return false };
        self.waiters.remove(place).woken
    }

    /// Whether a thread was woken.
    pub fn is_woken(&self, thread: u64) -> bool {
        self.waiters.iter().any(|waiter| waiter.thread == thread && waiter.woken)
    }

    /// Wakes up to `most` of a principal's that wait for a word and one of these bits, and all of others; who they are.
    pub fn wake(&mut self, principal: u64, word: u64, most: u64, bits: u32) -> Vec<u64> {
        let mut left = most;
        let is_meant = |waiter: &&mut Waiter| !waiter.woken && waiter.word == word && waiter.bits & bits != 0;
        let has_its_turn = |waiter: &&mut Waiter| {
            let own = waiter.principal == principal;
            let turn = left > 0 || !own && most > 0;
            left -= u64::from(own && turn);
            turn
        };
        let wake = |waiter: &mut Waiter| {
            waiter.woken = true;
            waiter.thread
        };
        self.waiters.iter_mut().filter(is_meant).filter(has_its_turn).map(wake).collect()
    }

    /// Lets up to `most` of a principal's that wait for one word wait for another, behind who waits there; how many they are.
    pub fn requeue(&mut self, principal: u64, from: u64, to: u64, most: u64) -> u64 {
        let mut left = most;
        let (mut moved, kept): (Vec<Waiter>, Vec<Waiter>) = self.waiters.drain(..).partition(|waiter| {
            let is_own = !waiter.woken && waiter.word == from && waiter.principal == principal;
            let is_meant = left > 0 && is_own;
            left -= u64::from(is_meant);
            is_meant
        });
        moved.iter_mut().for_each(|waiter| waiter.word = to);
        self.waiters = kept;
        self.waiters.extend(&moved);
        moved.len() as u64
    }

    /// Forgets those that do not live any more.
    pub fn bury(&mut self, lives: impl Fn(u64) -> bool) {
        self.waiters.retain(|waiter| lives(waiter.thread));
    }
}
