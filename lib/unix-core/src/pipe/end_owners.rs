//! Holders of an end of a pipe. They reveal the end of a process that could not close it any more: the kernel destroyed
//! it, or its library's state was gone.
//!
//! Pure. A place is a word: a process's number, and above it how many descriptors it has of this end. The count of open
//! files is true as long as every process closes in order; the holders say when there is none left that could. A
//! process that waits for the other end watches one holder that lives, and its place (two terms of a predicate). When
//! that holder is gone, or has closed the end, the next one is looked for. Relatives write all of this: a number that
//! means nothing is one of the dead, and is taken out.

use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};

/// Processes that there is room for at an end.
pub const PLACES: usize = 128;
/// Words of an end: the places; an overflow word; and how many places were taken at most, which is raised before the
/// last of them is. The overflow word is not 0 once there were more holders than places, or for an end that is not
/// counted.
pub const WORDS: usize = PLACES + 2;
const GIVEN_UP: usize = PLACES;
const USED: usize = PLACES + 1;
/// Bits of a place that are the number.
const NUMBER_BITS: u32 = 40;
const ONE: u64 = 1 << NUMBER_BITS;

/// The holders of one end.
#[derive(Clone, Copy, Debug)]
pub struct Holders<'a>(pub &'a [AtomicU64]);

/// What is known of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// One lives: the index of its place, and what stands there.
    Lives(usize, u64),
    /// No holder is left.
    Nobody,
    /// There may be others that have no place here.
    Unknown,
}

/// The process that a place is of.
pub const fn number_of(place: u64) -> u64 {
    place & (ONE - 1)
}

impl Holders<'_> {
    /// The places that were ever taken, those too that are taken meanwhile.
    fn places(&self) -> impl Iterator<Item = &AtomicU64> {
        self.0[..PLACES].iter().enumerate().take_while(|(index, _)| self.is_used(*index)).map(|(_, place)| place)
    }

    #[inline]
    fn is_used(&self, index: usize) -> bool {
        (index as u64) < self.0[USED].load(Acquire)
    }

    /// From now on nothing can be said of this end.
    pub fn give_up_counting(&self) {
        self.0[GIVEN_UP].store(1, SeqCst);
    }

    /// A process has one descriptor more of this end.
    pub fn add(&self, number: u64) {
        let number = number_of(number);
        for place in self.places() {
            let grows = |now: u64| (number_of(now) == number && now >= ONE).then(|| now.saturating_add(ONE));
            if place.fetch_update(SeqCst, Relaxed, grows).is_ok() {
                return;
            }
        }
        let is_taken = |(index, place): (usize, &AtomicU64)| {
            if place.load(Relaxed) != 0 {
                return false;
            }
            if !self.is_used(index) {
                self.0[USED].fetch_max(index as u64 + 1, SeqCst);
            }
            place.compare_exchange(0, number | ONE, SeqCst, Relaxed).is_ok()
        };
        if !self.0[..PLACES].iter().enumerate().any(is_taken) {
            self.give_up_counting();
        }
    }

    /// A process has one descriptor less.
    pub fn remove(&self, number: u64) {
        let less = |now: u64| {
            let rest = now.saturating_sub(ONE);
            (number_of(now) == number_of(number) && now >= ONE).then_some(if rest < ONE { 0 } else { rest })
        };
        self.places().find(|place| place.fetch_update(SeqCst, Relaxed, less).is_ok());
    }

    /// Only this process holds it, by one descriptor: the former holder has handed the end on. The place changes
    /// hands in one step, because an end without a holder counts as closed.
    pub fn replace(&self, number: u64) {
        let Some(kept) = self.places().find(|place| place.load(Acquire) != 0) else { return self.add(number) };
        kept.store(number_of(number) | ONE, SeqCst);
        self.places().filter(|place| !core::ptr::eq(*place, kept)).for_each(|place| place.store(0, SeqCst));
    }

    /// Clears all holders.
    pub fn clear(&self) {
        self.places().for_each(|place| place.store(0, SeqCst));
    }

    /// All of them; none where there may be others that have no place here.
    pub fn all(&self) -> Option<Vec<u64>> {
        let numbers = self.places().map(|place| number_of(place.load(Acquire))).filter(|number| *number != 0);
        (self.0[PLACES].load(Acquire) == 0).then(|| numbers.collect())
    }

    /// One that lives. The dead are taken out on the way.
    pub fn find(&self, lives: impl Fn(u64) -> bool) -> Known {
        if self.0[GIVEN_UP].load(Acquire) != 0 {
            return Known::Unknown;
        }
        for (index, place) in self.places().enumerate() {
            let now = place.load(Acquire);
            if now != 0 && lives(number_of(now)) {
                return Known::Lives(index, now);
            }
            // A holder that has taken the place meanwhile stays, and is found the next time.
            if now != 0 && place.compare_exchange(now, 0, SeqCst, Relaxed).is_err() {
                return Known::Unknown;
            }
        }
        Known::Nobody
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use core::sync::atomic::AtomicBool;
    use std::thread;

    fn words() -> Vec<AtomicU64> {
        (0..WORDS).map(|_| AtomicU64::new(0)).collect()
    }

    #[test]
    fn who_has_two_descriptors_holds_until_both_are_closed() {
        let words = words();
        let holders = Holders(&words);
        holders.add(7);
        holders.add(7);
        holders.add(9);
        holders.remove(9);
        holders.remove(7);
        assert_eq!(holders.find(|_| true), Known::Lives(0, 7 | ONE));
        assert_eq!(holders.all(), Some(Vec::from([7])));
        holders.remove(7);
        assert_eq!(holders.find(|_| true), Known::Nobody);
        assert!(words[..PLACES].iter().all(|word| word.load(Relaxed) == 0));
    }

    /// A waiter that finds no holder takes the end for closed, and its reader gets an end of file.
    #[test]
    fn an_end_that_is_handed_on_has_a_holder_at_each_moment() {
        let (words, is_over) = (words(), AtomicBool::new(false));
        let holders = Holders(&words);
        for (former, next) in [(7, 7), (7, 9)] {
            holders.clear();
            holders.add(former);
            is_over.store(false, SeqCst);
            thread::scope(|scope| {
                let waiter = scope.spawn(|| {
                    while !is_over.load(SeqCst) {
                        assert_ne!(holders.find(|_| true), Known::Nobody);
                    }
                });
                for _ in 0..100_000 {
                    holders.replace(next);
                    holders.replace(former);
                }
                is_over.store(true, SeqCst);
                waiter.join().unwrap();
            });
            assert_eq!(holders.find(|_| true), Known::Lives(0, former | ONE));
        }
    }

    #[test]
    fn the_dead_are_taken_out_and_whoever_lives_is_found() {
        let words = words();
        let holders = Holders(&words);
        (1..20).for_each(|number| holders.add(number));
        assert_eq!(holders.find(|number| number == 19), Known::Lives(18, 19 | ONE));
        assert_eq!(words[..PLACES].iter().filter(|word| word.load(Relaxed) != 0).count(), 1);
        assert_eq!(holders.find(|_| false), Known::Nobody);
    }

    #[test]
    fn more_holders_than_places_are_never_taken_for_nobody() {
        let words = words();
        let holders = Holders(&words);
        (1..=PLACES as u64 + 1).for_each(|number| holders.add(number));
        assert_eq!(holders.find(|_| false), Known::Unknown);
        assert_eq!(holders.all(), None);
    }

    /// Whatever relatives write, nothing goes wrong but the answer.
    #[test]
    fn every_word_has_a_meaning() {
        let mut seed = 12345u64;
        for _ in 0..1000 {
            let words: Vec<AtomicU64> = (0..WORDS)
                .map(|_| {
                    seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    AtomicU64::new(if seed >> 60 == 0 { 0 } else { seed << (seed >> 58) })
                })
                .collect();
            let holders = Holders(&words);
            holders.add(seed >> 40);
            holders.remove(seed >> 40);
            holders.remove(seed >> 41);
            let _ = holders.find(|number| number % 3 == 0);
            holders.replace(5);
            let found = holders.find(|number| number == 5);
            assert!(matches!(found, Known::Lives(_, place) if place == 5 | ONE) || found == Known::Unknown);
        }
    }
}
