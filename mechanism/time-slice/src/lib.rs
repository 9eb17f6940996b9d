//! The slice vector of one CPU (exokernel-sosp95 §5.1.1): owners of positions, and the choice of the next one.
//!
//! Owns the order: positions run round robin, free ones take no time. A bit a position says that it is allocated, so
//! that the search for the next one costs a few instructions however long the vector is. Invariants:
//!
//! - a position that is allocated and never skipped comes up exactly once in each round;
//! - no position comes up that is not allocated.
//!
//! The exposed `SliceInfo` records the owner of a position; excess counts are here because they are only arithmetic.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
#[macro_use]
extern crate std;

use abi::limits::SLICES_PER_CPU;

const WORDS: usize = SLICES_PER_CPU / 64;

/// Which positions of a CPU's vector are allocated.
#[derive(Clone, Debug)]
pub struct SliceVector {
    allocated: [u64; WORDS],
}

/// The position that comes next, and whether the vector was passed from its end to its beginning on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// The position.
    pub position: usize,
    /// A new round has begun.
    pub wrapped: bool,
}

impl SliceVector {
    /// A vector with every position free.
    pub const fn new() -> Self {
        Self { allocated: [0; WORDS] }
    }

    /// Whether there is such a position and it is allocated.
    pub fn is_allocated(&self, position: usize) -> bool {
        position < SLICES_PER_CPU && self.allocated[position / 64] & (1 << (position % 64)) != 0
    }

    /// Marks a position as allocated; the caller has checked that it exists.
    pub fn allocate(&mut self, position: usize) {
        self.allocated[position / 64] |= 1 << (position % 64);
    }

    /// Marks a position as free.
    pub fn free(&mut self, position: usize) {
        self.allocated[position / 64] &= !(1 << (position % 64));
    }

    /// The first free position.
    pub fn any_free(&self) -> Option<usize> {
        let word = self.allocated.iter().position(|bits| *bits != u64::MAX)?;
        Some(word * 64 + self.allocated[word].trailing_ones() as usize)
    }

    /// The first allocated position after `position`, going round; `position` itself comes last.
    pub fn after(&self, position: usize) -> Option<Next> {
        let start = (position + 1) % SLICES_PER_CPU;
        let wrapped = start == 0;
        if let Some(found) = self.first_from(start) {
            return Some(Next { position: found, wrapped });
        }
        self.first_from(0).map(|found| Next { position: found, wrapped: true })
    }

    /// The last allocated position before `position`, going round; `position` itself where there is no other one.
    pub fn before(&self, position: usize) -> usize {
        let mut word = position / 64;
        let mut bits = self.allocated[word] & ((1 << (position % 64)) - 1);
        for _ in 0..WORDS {
            if bits != 0 {
                break;
            }
            word = (word + WORDS - 1) % WORDS;
            bits = self.allocated[word];
        }
        bits.checked_ilog2().map_or(position, |bit| word * 64 + bit as usize)
    }

    /// The first allocated position from `start` to the end of the vector.
    fn first_from(&self, start: usize) -> Option<usize> {
        let mut bits = self.allocated[start / 64] & (u64::MAX << (start % 64));
        let mut word = start / 64;
        while bits == 0 {
            word += 1;
            if word == WORDS {
                return None;
            }
            bits = self.allocated[word];
        }
        Some(word * 64 + bits.trailing_zeros() as usize)
    }
}

/// A look around a vector, which may change meanwhile: it passes every position that is allocated all the while,
/// and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    start: usize,
    at: usize,
    wrapped: bool,
}

impl Look {
    /// One that begins after a position, and comes to it last.
    pub const fn after(start: usize) -> Self {
        Self { start, at: start, wrapped: false }
    }

    /// The next position, and whether it is the last; none where there is none any more.
    pub fn next(&mut self, vector: &SliceVector) -> Option<(Next, bool)> {
        let next = vector.after(self.at)?;
        // The position that it began with, and all after that, may have been freed.
        if self.wrapped && next.wrapped {
            return None;
        }
        self.at = next.position;
        self.wrapped |= next.wrapped;
        Some((next, self.wrapped && next.position >= self.start))
    }
}

impl Default for SliceVector {
    fn default() -> Self {
        Self::new()
    }
}

/// What follows from an excess.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The next slice is cancelled.
    Counted(u64),
    /// The threshold is passed: the environment is destroyed.
    Destroy,
}

/// One more slice ended without giving up the CPU in time. `limit` of them are counted.
pub fn count_excess(excess: u64, limit: u64) -> Verdict {
    match excess.saturating_add(1) {
        more if more > limit => Verdict::Destroy,
        more => Verdict::Counted(more),
    }
}

/// An environment has given up the CPU by itself: `Some(rest)` if that takes an excess off its count.
pub fn forgive_excess(excess: u64) -> Option<u64> {
    excess.checked_sub(1)
}

#[cfg(test)]
mod tests;
