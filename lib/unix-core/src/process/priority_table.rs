//! Whom user 0 lets go before others on a CPU: processes with a nice value below 0 or a real-time policy, and those
//! that they make (sched(7)).
//!
//! Other processes leave slices to them , and any process could claim to be one. So the server,
//! who knows who is user 0, keeps a table of them in its notice page, which all read and only it writes.
//!
//! Invariant: an environment stands there at most once, 0 in a place that is free. Number and rank are not written
//! together: a reader of a changing place uses another environment's rank for a slice.

use super::nice_share::Priority;
use super::prctl_state::Attributes;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Release};
use linux_abi::errno::{Errno, Result};

/// How many there can be.
const PLACES: usize = 32;
/// Words of the table: of each the number of its environment, and [`Attributes::to_word`].
pub const WORDS: usize = 2 * PLACES;

/// The table.
#[derive(Clone, Copy, Debug)]
pub struct PriorityTable<'a>(&'a [[AtomicU64; 2]]);

impl<'a> PriorityTable<'a> {
    /// In these words.
    pub fn new(words: &'a [AtomicU64; WORDS]) -> Self {
        Self(words.as_chunks().0)
    }

    /// Whether the table is empty.
    pub fn is_empty(self) -> bool {
        self.taken().next().is_none()
    }

    /// The rank of an environment.
    pub fn of_number(self, number: u64) -> Option<Priority> {
        self.taken().find(|place| place[0].load(Acquire) == number).map(rank)
    }

    /// The rank of an environment here for which `of` returns this value.
    pub fn of(self, common: u64, of: impl Fn(u64) -> u64) -> Option<Priority> {
        self.taken().find(|place| of(place[0].load(Acquire)) == common).map(rank)
    }

    /// An environment has this rank.
    ///
    /// # Errors
    /// `EAGAIN` where there are too many.
    pub fn set(self, number: u64, word: u64) -> Result<()> {
        self.remove(|other| other == number);
        let free = self.0.iter().find(|place| place[0].load(Acquire) == 0).ok_or(Errno::EAGAIN)?;
        free[1].store(word, Release);
        free[0].store(number, Release);
        Ok(())
    }

    /// These have the usual rank again.
    pub fn remove(self, is_meant: impl Fn(u64) -> bool) {
        let meant = self.taken().filter(|place| is_meant(place[0].load(Acquire)));
        meant.for_each(|place| place[0].store(0, Release));
    }

    fn taken(self) -> impl Iterator<Item = &'a [AtomicU64; 2]> {
        self.0.iter().filter(|place| place[0].load(Acquire) != 0)
    }
}

fn rank(place: &[AtomicU64; 2]) -> Priority {
    Priority::of(&Attributes::from_word(place[1].load(Acquire)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LESS_NICE: u64 = 25;

    #[test]
    fn who_stands_there_is_found_until_it_goes() {
        let words: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];
        let table = PriorityTable::new(&words);
        assert!(table.is_empty() && table.of_number(0).is_none());
        assert!((1..=PLACES as u64).all(|number| table.set(number, LESS_NICE).is_ok()));
        assert_eq!(table.set(99, LESS_NICE), Err(Errno::EAGAIN));
        assert_eq!(table.set(7, 30), Ok(()));
        assert!(table.of_number(7) > table.of_number(8));
        assert_eq!(table.of(107, |number| number + 100), table.of_number(7));
        table.remove(|number| number == 7);
        assert_eq!((table.of_number(7), table.set(99, LESS_NICE)), (None, Ok(())));
        table.remove(|_| true);
        assert!(table.is_empty());
    }
}
