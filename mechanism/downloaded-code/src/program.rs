//! A program: at most [`MAX_INSTRUCTIONS`] slots of eight bytes.
//!
//! The bytes must not change while the program is verified, compiled or run. The kernel copies them into memory that
//! no one else can write before it looks at them (FAULTS row 16).

use crate::instruction::Slot;
use crate::refusal::{Reason, Refusal};

/// Longest program, in slots of eight bytes.
pub const MAX_INSTRUCTIONS: usize = 4096;

/// A program's bytes, of a legal length; nothing else is known about them.
#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    bytes: &'a [u8],
}

impl<'a> Program<'a> {
    /// Checks the length: a multiple of eight, one to [`MAX_INSTRUCTIONS`] slots.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Refusal> {
        let slots = bytes.len() / 8;
        if bytes.is_empty() || !bytes.len().is_multiple_of(8) {
            return Err(Refusal::at(slots, Reason::LengthNotWholeSlots));
        }
        if slots > MAX_INSTRUCTIONS {
            return Err(Refusal::at(MAX_INSTRUCTIONS, Reason::TooLong));
        }
        Ok(Self { bytes })
    }

    /// Number of slots.
    pub fn slots(&self) -> usize {
        self.bytes.len() / 8
    }

    /// The slot at `index`, if there is one.
    pub fn slot(&self, index: usize) -> Option<Slot> {
        let bytes = self.bytes.get(index.checked_mul(8)?..)?.first_chunk::<8>()?;
        Some(Slot::from_bytes(*bytes))
    }
}
