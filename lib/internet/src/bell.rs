//! Bells: how a thread that waits for many sockets of TCP is told that one of them changed, and which.
//!
//! A sleeper asks for its bell in the word [`crate::page::WATCH`] of each socket. The server rings the bells that the
//! word of a changed socket names, and clears the word. To ring is to write the name of the socket into the record,
//! then to count in each bell. Those words lie in a page that all processes read and the server alone writes.
//! Invariants:
//! - a sleeper reads its bell first, then asks, then looks at the socket, then sleeps while the bell is as it was read:
//!   what comes after the look rings;
//! - the count in a word of a socket never goes back: it is read after the word that it replaces. A sleeper with an
//!   older count does not sleep, and takes no ring from one that has the same bell and a newer count.

use crate::page::watch;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::SeqCst;

/// Bells that there are: as many as [`Watch`] has bits for.
pub const BELLS: usize = 32;
/// Words of the record: how many names were ever written, then the last names.
pub const RECORD_WORDS: usize = 1 + NAMES;
const NAMES: usize = 127;

/// From which bit of [`Watch`] on the count of the one bell lies.
const COUNT: u32 = watch::BELLS + BELLS as u32;
const COUNT_BITS: u32 = u64::BITS - COUNT;

/// What a socket's word asks.
///
/// Bits of [`watch`], a bit for each bell, and low bits of a count. That is of a bell that is alone and need not ring
/// again: its sleeper looks at this socket whatever rang.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch(pub u64);

impl Watch {
    const fn mask(bell: u32) -> u64 {
        1 << (watch::BELLS + bell)
    }

    const fn low(count: u64) -> u64 {
        count & ((1 << COUNT_BITS) - 1)
    }

    /// The bells that are to ring, from bit 0 on.
    pub const fn bells(self) -> u64 {
        self.0 >> watch::BELLS & ((1 << BELLS) - 1)
    }

    /// The same word with what a sleeper asks for, bits of [`watch`]. `count` says how often the bell has rung by now.
    /// `each` rings for this socket even where the bell has rung since.
    pub const fn and(self, what: u64, bell: u32, count: u64, each: bool) -> Self {
        let before = self.0 & ((1 << COUNT) - 1);
        let others = self.bells() & !(Self::mask(bell) >> watch::BELLS) != 0;
        let each_before = self.bells() != 0 && self.0 & watch::ONCE == 0;
        let asked = before & !watch::ONCE | what | Self::mask(bell);
        if each || others || each_before {
            return Self(asked);
        }
        Self(asked | watch::ONCE | Self::low(count) << COUNT)
    }

    /// Whether such a change has to be told. `count` reads a bell.
    pub fn wants(self, what: u64, count: impl FnOnce(u32) -> u64) -> bool {
        let has_rung =
            || self.0 & watch::ONCE != 0 && Self::low(count(self.bells().trailing_zeros())) != self.0 >> COUNT;
        self.0 & what != 0 && !has_rung()
    }
}

/// Writes a name into the record. One thread at a time.
pub fn write(record: &[AtomicU64; RECORD_WORDS], name: u64) {
    let [count, names @ ..] = record;
    let written = count.load(SeqCst);
    names[written as usize % NAMES].store(name, SeqCst);
    count.store(written + 1, SeqCst);
}

/// How far a reader has read the record.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reader(u64);

impl Reader {
    /// One that has read everything.
    pub fn at_end(record: &[AtomicU64; RECORD_WORDS]) -> Self {
        Self(record[0].load(SeqCst))
    }

    /// Gives the names that came since the last time. False: more came than the record has, and the names that were
    /// given are not all.
    pub fn read(&mut self, record: &[AtomicU64; RECORD_WORDS], mut tell: impl FnMut(u64)) -> bool {
        let [count, names @ ..] = record;
        let (from, to) = (self.0, count.load(SeqCst));
        self.0 = to;
        (from.max(to.saturating_sub(NAMES as u64))..to).for_each(|at| tell(names[at as usize % NAMES].load(SeqCst)));
        // The writer may have come round, and may be about to write one more.
        count.load(SeqCst).wrapping_sub(from) < NAMES as u64
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    /// Two bells, and how often they have rung.
    const A: (u32, u64) = (3, 1 << 30 | 7);
    const B: (u32, u64) = (31, 9);

    fn and(watch: Watch, what: u64, (bell, count): (u32, u64), each: bool) -> Watch {
        watch.and(what, bell, count, each)
    }

    #[test]
    fn a_bell_alone_need_not_ring_twice() {
        let watch = and(Watch(0), watch::SENT, A, false);
        assert_eq!(watch.bells(), 1 << 3);
        assert!(watch.wants(watch::SENT, |bell| if bell == 3 { A.1 } else { 0 }));
        assert!(!watch.wants(watch::SENT, |_| A.1 + 1));
        assert!(!watch.wants(watch::TAKEN, |_| A.1));
        let later = and(watch, watch::TAKEN, (A.0, A.1 + 1), false);
        assert!(later.wants(watch::SENT, |_| A.1 + 1) && later.wants(watch::TAKEN, |_| A.1 + 1));
        assert!(!later.wants(watch::SENT, |_| A.1 + 2));
    }

    #[test]
    fn what_is_told_each_time_and_what_has_two_bells_always_rings() {
        let one = |asked: &[((u32, u64), bool)]| {
            asked.iter().fold(Watch(0), |watch, (bell, each)| and(watch, watch::SENT, *bell, *each))
        };
        for watch in [
            one(&[(A, true)]),
            one(&[(A, true), (A, false)]),
            one(&[(A, false), (A, true)]),
            one(&[(A, false), (B, false)]),
            one(&[(B, true), (A, false), (B, false)]),
        ] {
            assert!(watch.wants(watch::SENT, |_| 12345), "{watch:?}");
        }
        let both = and(and(Watch(0), watch::SENT, A, false), watch::TAKEN, B, false);
        assert_eq!((both.bells(), both.0 & 3), (1 << 3 | 1 << 31, 3));
    }

    #[test]
    fn the_keeper_of_the_wire_has_no_bell() {
        assert!(Watch(watch::SENT).wants(watch::SENT, |_| unreachable!()));
        assert_eq!(Watch(watch::SENT | watch::TAKEN).bells(), 0);
    }

    #[test]
    fn a_reader_gets_each_name_once_or_learns_that_it_did_not() {
        let record: [AtomicU64; RECORD_WORDS] = [const { AtomicU64::new(0) }; RECORD_WORDS];
        let mut reader = Reader::at_end(&record);
        let mut next = 0;
        for burst in [0, 1, 5, NAMES - 1, 1, NAMES - 1, 3, 0] {
            let written: Vec<u64> = (next..next + burst as u64).collect();
            written.iter().for_each(|name| write(&record, *name));
            next += burst as u64;
            let mut read = Vec::new();
            assert!(reader.read(&record, |name| read.push(name)));
            assert_eq!(read, written);
        }
        (0..NAMES as u64).for_each(|name| write(&record, name));
        assert!(!reader.read(&record, |_| {}));
        write(&record, 77);
        let mut read = Vec::new();
        assert!(reader.read(&record, |name| read.push(name)));
        assert_eq!(read, [77]);
    }
}
