//! Is there a packet that meets a set of conditions at fixed places?
//!
//! `Equal`s fix bits. What ranges leave open is searched byte by byte in order of offset; a range is
//! given up as soon as no value of its bytes still to come could lie in it. When all values of a byte fail, earlier
//! bytes get other values only if they had a part in that: what bytes cannot be on their own, no others help. The
//! search is exact, and it can stop and resume; the caller limits it.

use super::{BYTES, Verdict, Witness};
use crate::condition::{Condition, Kind};
use crate::find::Fuel;
use crate::limit;

/// A range at a fixed place.
#[derive(Clone, Copy, Debug, Default)]
struct Range {
    at: u32,
    size: u8,
    mask: u32,
    low: u32,
    high: u32,
    outside: bool,
    /// Its first byte among those searched.
    first: usize,
}

/// One byte of the packet that some condition looks at.
#[derive(Clone, Copy, Debug, Default)]
struct Byte {
    offset: u32,
    fixed: u8,
    value: u8,
    /// The first byte that had a part in the failure of a value tried here.
    blamed: u8,
}

/// What came of trying one value.
enum Trial {
    Fits,
    Fails,
    /// There is no further value.
    Exhausted,
}

/// The conditions, and how far the search has come.
#[derive(Clone, Debug)]
pub(crate) struct Solver {
    /// While collecting: offset, mask and value of one byte of an `Equal`, packed to sort.
    raw: [u64; BYTES],
    raw_count: usize,
    ranges: [Range; 2 * limit::ATOMS],
    range_count: usize,
    bytes: [Byte; BYTES],
    byte_count: usize,
    length: u32,
    /// The byte being tried, and whether it continues from its value or starts anew.
    here: usize,
    resume: bool,
}

impl Solver {
    pub(crate) const EMPTY: Self = Self {
        raw: [0; BYTES],
        raw_count: 0,
        ranges: [Range { at: 0, size: 0, mask: 0, low: 0, high: 0, outside: false, first: 0 }; 2 * limit::ATOMS],
        range_count: 0,
        bytes: [Byte { offset: 0, fixed: 0, value: 0, blamed: 0 }; BYTES],
        byte_count: 0,
        length: 0,
        here: 0,
        resume: false,
    };

    /// Forgets all conditions.
    pub(crate) fn clear(&mut self) {
        (self.raw_count, self.range_count, self.byte_count, self.length) = (0, 0, 0, 0);
        (self.here, self.resume) = (0, false);
    }

    /// The packet must have at least this length.
    pub(crate) fn require_length(&mut self, length: u32) {
        self.length = self.length.max(length);
    }

    /// Adds a condition whose base is known. A shift adds that its field has this masked value.
    pub(crate) fn add(&mut self, base: u32, condition: &Condition) {
        let test = &condition.test;
        let at = base + test.offset;
        self.require_length(at + u32::from(test.size));
        let fixed = matches!(test.kind, Kind::Equal | Kind::Shift);
        for index in 0..u32::from(test.size) {
            let bits = 8 * (u32::from(test.size) - 1 - index);
            let (mask, value) =
                if fixed { ((test.mask >> bits) as u8, (condition.value >> bits) as u8) } else { (0, 0) };
            self.raw[self.raw_count] = u64::from(at + index) << 16 | u64::from(mask) << 8 | u64::from(value);
            self.raw_count += 1;
        }
        if !fixed {
            let outside = test.kind == Kind::Outside;
            let Range { first, .. } = Range::default();
            self.ranges[self.range_count] =
                Range { at, size: test.size, mask: test.mask, low: test.low, high: test.high, outside, first };
            self.range_count += 1;
        }
    }

    /// Joins what was added. `false` when two `Equal`s contradict each other.
    pub(crate) fn prepare(&mut self) -> bool {
        self.raw[..self.raw_count].sort_unstable();
        for raw in &self.raw[..self.raw_count] {
            let (offset, mask, value) = ((raw >> 16) as u32, (raw >> 8) as u8, *raw as u8);
            if self.byte_count == 0 || self.bytes[self.byte_count - 1].offset != offset {
                self.bytes[self.byte_count] = Byte { offset, ..Byte::default() };
                self.byte_count += 1;
            }
            let byte = &mut self.bytes[self.byte_count - 1];
            if (byte.value ^ value) & byte.fixed & mask != 0 {
                return false;
            }
            byte.fixed |= mask;
            byte.value |= value;
        }
        let bytes = &self.bytes[..self.byte_count];
        for range in &mut self.ranges[..self.range_count] {
            range.first = bytes.partition_point(|byte| byte.offset < range.at);
        }
        true
    }

    /// Searches on. `None` when the fuel is spent.
    pub(crate) fn run(&mut self, fuel: &mut Fuel, witness: &mut Witness) -> Option<Verdict> {
        while self.here < self.byte_count {
            if !fuel.spend(1 + self.range_count as u32) {
                return None;
            }
            match self.try_value() {
                Trial::Fits => (self.here, self.resume) = (self.here + 1, false),
                Trial::Fails => self.resume = true,
                Trial::Exhausted if !self.go_back() => return Some(Verdict::Apart),
                Trial::Exhausted => self.resume = true,
            }
        }
        self.report(witness);
        Some(Verdict::Meet)
    }

    /// Tries the first value of a byte, or the next after one that was tried.
    fn try_value(&mut self) -> Trial {
        let byte = &mut self.bytes[self.here];
        if !self.resume {
            byte.value &= byte.fixed;
            byte.blamed = self.here as u8;
        } else if !next_value(&mut byte.value, byte.fixed) {
            return Trial::Exhausted;
        }
        let Some(culprit) = self.culprit() else { return Trial::Fits };
        let byte = &mut self.bytes[self.here];
        byte.blamed = byte.blamed.min(culprit as u8);
        Trial::Fails
    }

    /// Goes back to the byte before, whose value had a part in what failed here. `false` when none had.
    fn go_back(&mut self) -> bool {
        let blamed = self.bytes[self.here].blamed;
        if usize::from(blamed) == self.here {
            return false;
        }
        self.here -= 1;
        let byte = &mut self.bytes[self.here];
        byte.blamed = byte.blamed.min(blamed);
        true
    }

    /// The first byte of a range that looks at this one and can no longer be met: of several, of that which begins
    /// last.
    fn culprit(&self) -> Option<usize> {
        let here = self.here;
        let looks = |range: &&Range| range.first <= here && here < range.first + usize::from(range.size);
        let failing = self.ranges[..self.range_count].iter().filter(looks).filter(|range| !self.can_meet(range));
        failing.map(|range| range.first).max()
    }

    fn can_meet(&self, range: &Range) -> bool {
        let (mut least, mut most) = (0u32, 0u32);
        for index in range.first..range.first + usize::from(range.size) {
            let byte = &self.bytes[index];
            let open = if index <= self.here { 0 } else { !byte.fixed };
            least = least << 8 | u32::from(byte.value & !open);
            most = most << 8 | u32::from(byte.value | open);
        }
        (least, most) = (least & range.mask, most & range.mask);
        if range.outside { least < range.low || most > range.high } else { least <= range.high && most >= range.low }
    }

    fn report(&self, witness: &mut Witness) {
        witness.clear(self.length);
        for byte in &self.bytes[..self.byte_count] {
            witness.push(byte.offset, byte.value);
        }
    }
}

/// The next value with the same fixed bits; `false` after the last.
fn next_value(value: &mut u8, fixed: u8) -> bool {
    let kept = *value & fixed;
    let next = (*value | fixed).wrapping_add(1) & !fixed;
    *value = kept | next;
    next != 0
}
