//! Could a new filter take packets of another owner's filter?
//!
//! [`search`] walks the merged structure for installed conjunctions that a new one might meet and skips whole tables
//! where it names the constant. [`pair`] decides for two conjunctions, trying every value of the header lengths they
//! go by. [`solver`] decides for fixed places, exactly, by building a packet. The answer is a packet that both
//! accept, or that there is none, or "may overlap". The last comes when header lengths have more than 2^12
//! combinations or a search takes too long; it counts as an overlap.

pub(crate) mod pair;
pub(crate) mod search;
pub(crate) mod solver;

use crate::limit;

/// Bytes that two conjunctions can ask about.
pub(crate) const BYTES: usize = 2 * limit::ATOMS * 4;

/// A packet that two filters both accept: its length and the bytes that matter; all others are free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Witness {
    length: u32,
    count: usize,
    bytes: [(u32, u8); BYTES],
}

impl Witness {
    pub(crate) const EMPTY: Self = Self { length: 0, count: 0, bytes: [(0, 0); BYTES] };

    pub(crate) fn clear(&mut self, length: u32) {
        self.length = length;
        self.count = 0;
    }

    pub(crate) fn push(&mut self, offset: u32, byte: u8) {
        self.bytes[self.count] = (offset, byte);
        self.count += 1;
    }

    /// Bytes of the packet.
    #[must_use]
    pub fn length(&self) -> usize {
        self.length as usize
    }

    /// The bytes that matter, as (offset, value).
    #[must_use]
    pub fn bytes(&self) -> &[(u32, u8)] {
        &self.bytes[..self.count]
    }

    /// Writes the packet, other bytes zero. `None` when the buffer is shorter than [`Self::length`].
    pub fn write<'p>(&self, buffer: &'p mut [u8]) -> Option<&'p [u8]> {
        let packet = buffer.get_mut(..self.length())?;
        packet.fill(0);
        for (offset, byte) in self.bytes() {
            packet[*offset as usize] = *byte;
        }
        Some(packet)
    }
}

/// What is known about two conjunctions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// No packet matches both.
    Apart,
    /// The witness does.
    Meet,
    /// Not decided.
    MayMeet,
}
