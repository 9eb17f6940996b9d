//! Packets in a pipe (`O_DIRECT` of pipe2(2)). A list in the first page has the place and length of each, so that the
//! bytes lie in the ring as all others do. A read takes one packet at most, and what it has no room for is lost.
//!
//! Pure. Relatives write the list: an entry that does not lie within what waits is none.

use super::ring::{ATOMIC, PACKETS, Ring};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};

/// Packets that wait at most, in a pipe of any size.
const MOST: usize = 96;
/// Words: how many packets came, how many were taken, and their entries.
pub const WORDS: usize = 2 + MOST;
const CAME: usize = 0;
const TAKEN: usize = 1;
const ENTRIES: usize = 2;
/// Bits of an entry that are its length.
const LENGTH_BITS: u32 = ATOMIC.ilog2() + 1;

/// The packets of a pipe.
#[derive(Clone, Copy, Debug)]
pub struct Packets<'a>(pub &'a [AtomicU64]);

/// The packet that waits first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Bytes that wait before it, which are of no packet.
    pub before: u64,
    /// Its bytes.
    pub length: u64,
}

impl Packets<'_> {
    fn count(&self) -> u64 {
        self.0[CAME].load(Acquire).wrapping_sub(self.0[TAKEN].load(Acquire))
    }

    /// Whether a pipe takes one more: as many as it has pages.
    pub fn has_room(&self, ring: Ring) -> bool {
        let most = (ring.size() / ATOMIC).min(MOST as u64);
        // How many cannot be are none.
        !(most..=MOST as u64).contains(&self.count())
    }

    /// How many wait.
    pub fn waiting(&self) -> u64 {
        self.count().min(MOST as u64)
    }

    /// A packet of so many bytes is written where the ring's bytes end.
    pub fn add(&self, ring: Ring, length: u64) {
        if self.count() > MOST as u64 {
            self.0[TAKEN].store(self.0[CAME].load(Acquire), Relaxed);
        }
        let came = self.0[CAME].load(Acquire);
        self.0[ENTRIES + came as usize % MOST].store(ring.written << LENGTH_BITS | length, Relaxed);
        self.0[CAME].store(came.wrapping_add(1), SeqCst);
    }

    /// The first of those that wait; what was taken otherwise is forgotten on the way.
    pub fn first(&self, ring: Ring) -> Option<Packet> {
        let waiting = ring.waiting().ok()?;
        while (1..=MOST as u64).contains(&self.count()) {
            let entry = self.0[ENTRIES + self.0[TAKEN].load(Acquire) as usize % MOST].load(Acquire);
            let length = entry & ((1 << LENGTH_BITS) - 1);
            // Of a position so many bits stand there.
            let before = (entry >> LENGTH_BITS).wrapping_sub(ring.read) << LENGTH_BITS >> LENGTH_BITS;
            let end = before.wrapping_add(length) << LENGTH_BITS >> LENGTH_BITS;
            match () {
                () if length != 0 && before <= waiting && end <= waiting => return Some(Packet { before, length }),
                // A part of it is taken.
                () if end != 0 && end <= length && end <= waiting => return Some(Packet { before: 0, length: end }),
                () => self.take(),
            }
        }
        None
    }

    /// The first one is taken.
    pub fn take(&self) {
        self.0[TAKEN].fetch_add(1, SeqCst);
    }
}

impl Ring {
    /// Whether packets were ever written into it.
    #[inline]
    pub const fn has_packets(self) -> bool {
        self.shape & PACKETS != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipe::ring::CAPACITY;
    use alloc::vec::Vec;

    fn words() -> Vec<AtomicU64> {
        (0..WORDS).map(|_| AtomicU64::new(0)).collect()
    }

    fn ring(read: u64, written: u64) -> Ring {
        Ring { written, read, shape: PACKETS }
    }

    #[test]
    fn packets_come_in_their_order_and_bytes_between_them_are_of_none() {
        let words = words();
        let packets = Packets(&words);
        packets.add(ring(0, 0), 5);
        packets.add(ring(0, 7), 3);
        assert_eq!(packets.first(ring(0, 10)), Some(Packet { before: 0, length: 5 }));
        packets.take();
        assert_eq!(packets.first(ring(5, 10)), Some(Packet { before: 2, length: 3 }));
        assert_eq!(packets.first(ring(8, 10)), Some(Packet { before: 0, length: 2 }), "one of which a part is taken");
        assert_eq!(packets.first(ring(10, 10)), None, "one that was taken otherwise");
        assert_eq!(packets.waiting(), 0);
    }

    #[test]
    fn a_pipe_takes_as_many_packets_as_it_has_pages() {
        let words = words();
        let packets = Packets(&words);
        let pages = CAPACITY / ATOMIC;
        for index in 0..pages {
            assert!(packets.has_room(ring(0, index)));
            packets.add(ring(0, index), 1);
        }
        assert!(!packets.has_room(ring(0, pages)));
        packets.take();
        assert!(packets.has_room(ring(1, pages)));
    }

    /// Whatever relatives write: what is told of lies within what waits.
    #[test]
    fn every_word_has_a_meaning() {
        let mut seed = 12345u64;
        let mut draw = move || {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            if seed >> 62 == 0 { seed >> (seed >> 58) } else { seed << (seed >> 58) }
        };
        for _ in 0..10_000 {
            let words: Vec<AtomicU64> = (0..WORDS).map(|_| AtomicU64::new(draw())).collect();
            let packets = Packets(&words);
            let read = draw();
            let some = ring(read, read.wrapping_add(draw() % (CAPACITY + 10)));
            packets.add(some, draw() % ATOMIC + 1);
            if let Some(Packet { before, length }) = packets.first(some) {
                assert!(length > 0 && before + length <= some.waiting().unwrap_or(0));
            }
            let _ = packets.has_room(some);
        }
    }
}
