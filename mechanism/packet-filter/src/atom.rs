//! The filter language as it crosses an interface: a flat array of atoms.
//!
//! An atom asks one thing of a packet; a conjunction is the run of atoms with one number and holds
//! when all of them hold; a filter accepts when any of its conjunctions holds. This is the language
//! of DPF (Engler and Kaashoek; SOSP 1995, section 5.6): offset, size, mask and value, plus a
//! *shift* that moves the base by a length found in the packet; ranges are added. There are no
//! jumps, so there is nothing to loop with.
//!
//! Always: every bit pattern is a value of [`Atom`], and nothing is believed before
//! [`crate::conjunction`] has checked it. A load that would pass the end of the packet is no match.

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

/// One atom: 20 bytes, no padding, little-endian like the machine. Fields that a comparison does
/// not use must be zero, so that they can mean something later.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Atom {
    /// Which conjunction it belongs to: 0 for the first, then the same or one more.
    pub conjunction: u8,
    /// A [`Compare`].
    pub compare: u8,
    /// Bytes loaded, most significant first: 1, 2 or 4.
    pub size: u8,
    /// For a shift: bits to the left, or to the right when negative.
    pub shift: i8,
    /// Where to load, in bytes from the base.
    pub offset: u32,
    /// Which bits of the load count.
    pub mask: u32,
    /// The value, or the first of the range.
    pub low: u32,
    /// The last of the range.
    pub high: u32,
}

const _: () = assert!(size_of::<Atom>() == 20 && align_of::<Atom>() == 4);

/// The conjunctions of a flat array, in order, as runs of one number.
pub fn conjunctions(atoms: &[Atom]) -> impl Iterator<Item = &[Atom]> {
    atoms.chunk_by(|a, b| a.conjunction == b.conjunction)
}
