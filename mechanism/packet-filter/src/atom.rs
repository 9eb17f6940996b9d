//! The filter language as it crosses an interface: a flat array of atoms.
//!
//! An atom asks one thing of a packet. A conjunction is the run of atoms with one number and holds when all of them
//! hold. A filter accepts when any of its conjunctions holds. This is the language of DPF (Engler and Kaashoek; SOSP
//! 1995, section 5.6): offset, size, mask and value. A *shift* moves the base by a length found in the packet; ranges
//! are added. There are no jumps, so there is nothing to loop with.
//!
//! Always: every bit pattern is a value of [`Atom`], and nothing is believed before
//! [`crate::conjunction`] has checked it. A load that would pass the end of the packet is no match.

pub use abi::packet_filter::Atom;

/// What an atom asks (the values of [`Atom::compare`]).
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// `load & mask == low`.
    Equal = 0,
    /// `load & mask != low`.
    NotEqual = 1,
    /// `low <= load & mask <= high`.
    Within = 2,
    /// `load & mask < low` or `> high`.
    Outside = 3,
    /// Moves the base of the atoms that follow by `load & mask`, shifted by [`Atom::shift`] bits.
    Shift = 4,
}

impl Compare {
    /// The comparison with this code, if there is one.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0 => Self::Equal,
            1 => Self::NotEqual,
            2 => Self::Within,
            3 => Self::Outside,
            4 => Self::Shift,
            _ => return None,
        })
    }
}

/// The conjunctions of a flat array, in order, as runs of one number.
pub fn conjunctions(atoms: &[Atom]) -> impl Iterator<Item = &[Atom]> {
    atoms.chunk_by(|a, b| a.conjunction == b.conjunction)
}
