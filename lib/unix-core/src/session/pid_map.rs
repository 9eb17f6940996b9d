//! Processes that have a successor environment. A process that executes a set-id program does not run it itself,
//! because any program may have written its memory. The session makes a fresh environment for it (`setuid_spawner`),
//! and the old one is the stand-in that ends as it does (`process::setuid_handover`). Both are one process, whose
//! number stays that of the first.
//!
//! Pure. Pairs of numbers, the old and the new, in words that only the session writes and everybody reads. Invariant: a
//! pair stays as long as its new environment lives, and a word is written before the count that makes it part of the
//! table.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, SeqCst};

/// Pairs that there is room for.
pub const PAIRS: usize = 64;
/// Words of the table: places of pairs, in which 0 and 0 is none.
pub const WORDS: usize = 2 * PAIRS + 1;

/// The table.
#[derive(Clone, Copy, Debug)]
pub struct PidMap<'a>(pub &'a [AtomicU64]);

impl PidMap<'_> {
    fn places(&self) -> impl Iterator<Item = [&AtomicU64; 2]> {
        // The first word says how many places were ever used: mostly none.
        let used = (self.0[0].load(Acquire) as usize).min(PAIRS);
        (0..used).map(|index| [&self.0[1 + 2 * index], &self.0[2 + 2 * index]])
    }

    /// The successor of an environment, if there is one.
    pub fn successor(&self, number: u64) -> Option<u64> {
        let found = self.places().find(|[old, _]| number != 0 && old.load(Acquire) == number);
        found.map(|[_, new]| new.load(Acquire)).filter(|new| *new != 0)
    }

    /// The environment whose place another one has taken, if it has.
    pub fn predecessor(&self, number: u64) -> Option<u64> {
        let found = self.places().find(|[_, new]| number != 0 && new.load(Acquire) == number);
        found.map(|[old, _]| old.load(Acquire)).filter(|old| *old != 0)
    }

    /// The environment that runs the process with this number.
    pub fn environment(&self, process: u64) -> u64 {
        let next = |number: &u64| self.successor(*number);
        core::iter::successors(Some(process), next).take(PAIRS).last().unwrap_or(process)
    }

    /// The number of the process that an environment runs.
    pub fn process(&self, environment: u64) -> u64 {
        let before = |number: &u64| self.predecessor(*number);
        core::iter::successors(Some(environment), before).take(PAIRS).last().unwrap_or(environment)
    }

    /// Notes a pair; false where there is no room.
    #[must_use]
    pub fn add(&self, old: u64, new: u64) -> bool {
        let free = |index: &usize| self.0[2 + 2 * index].load(Acquire) == 0;
        let Some(index) = (0..PAIRS).find(free) else { return false };
        self.0[1 + 2 * index].store(old, SeqCst);
        self.0[2 + 2 * index].store(new, SeqCst);
        self.0[0].fetch_max(index as u64 + 1, SeqCst);
        true
    }

    /// Takes out the pairs whose new environment is gone.
    pub fn forget(&self, is_gone: impl Fn(u64) -> bool) {
        for [old, new] in self.places().filter(|[_, new]| is_gone(new.load(Acquire))) {
            old.store(0, SeqCst);
            new.store(0, SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn words() -> Vec<AtomicU64> {
        (0..WORDS).map(|_| AtomicU64::new(0)).collect()
    }

    #[test]
    fn a_process_keeps_its_number_through_several_environments() {
        let words = words();
        let table = PidMap(&words);
        assert_eq!((table.environment(5), table.process(5), table.successor(5)), (5, 5, None));
        assert!(table.add(5, 9) && table.add(9, 20) && table.add(7, 8));
        assert_eq!([5, 9, 20, 7].map(|number| table.environment(number)), [20, 20, 20, 8]);
        assert_eq!([5, 9, 20, 8].map(|number| table.process(number)), [5, 5, 5, 7]);
        table.forget(|number| number == 20);
        assert_eq!((table.environment(5), table.successor(9), table.process(20)), (9, None, 20));
    }

    #[test]
    fn a_full_table_says_so_and_has_room_again() {
        let words = words();
        let table = PidMap(&words);
        assert!((1..=PAIRS as u64).all(|number| table.add(number, number + 1000)));
        assert!(!table.add(500, 600));
        table.forget(|number| number == 1003);
        assert!(table.add(500, 600) && table.environment(500) == 600);
    }

    #[test]
    fn a_circle_ends() {
        let words = words();
        let table = PidMap(&words);
        assert!(table.add(1, 2) && table.add(2, 1));
        assert!([1, 2].contains(&table.environment(1)) && [1, 2].contains(&table.process(2)));
    }
}
