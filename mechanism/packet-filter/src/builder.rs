//! Writing a filter: a small typed builder over an array of atoms given by the caller.
//!
//! ```
//! use packet_filter::{Atom, Builder, Size};
//! let mut atoms = [Atom::default(); 8];
//! let filter = Builder::new(&mut atoms)
//!     .equal(Size::Two, 12, 0x0800)      // Ethernet carries IPv4,
//!     .equal(Size::One, 23, 6)           // which carries TCP;
//!     .shift(Size::One, 14, 0x0f, 2)     // past the IP header, of 4 * (byte & 15) bytes,
//!     .equal(Size::Two, 16, 80)          // the destination port is 80
//!     .finish().unwrap();
//! assert_eq!(filter.len(), 4);
//! ```

use crate::atom::{Atom, Compare};

/// How many bytes an atom loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// One byte.
    One = 1,
    /// Two bytes, most significant first.
    Two = 2,
    /// Four bytes, most significant first.
    Four = 4,
}

impl Size {
    /// The mask that keeps all bits.
    #[must_use]
    pub fn all(self) -> u32 {
        u32::MAX >> (32 - 8 * self as u32)
    }
}

/// The array was too small; this many atoms are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooSmall(pub usize);

/// A filter under construction. What it makes is not checked before it is installed.
#[derive(Debug)]
pub struct Builder<'a> {
    atoms: &'a mut [Atom],
    count: usize,
    conjunction: u8,
}

impl<'a> Builder<'a> {
    /// Begins with the first conjunction.
    pub fn new(atoms: &'a mut [Atom]) -> Self {
        Self { atoms, count: 0, conjunction: 0 }
    }

    /// Adds one atom as it is, but for the number of its conjunction.
    #[must_use]
    pub fn atom(mut self, atom: Atom) -> Self {
        if let Some(place) = self.atoms.get_mut(self.count) {
            *place = Atom { conjunction: self.conjunction, ..atom };
        }
        self.count += 1;
        self
    }

    fn compare(self, compare: Compare, size: Size, offset: u32, mask: u32, low: u32, high: u32) -> Self {
        self.atom(Atom { compare: compare as u8, size: size as u8, offset, mask, low, high, ..Atom::default() })
    }

    /// The load equals `value`.
    #[must_use]
    pub fn equal(self, size: Size, offset: u32, value: u32) -> Self {
        self.equal_masked(size, offset, size.all(), value)
    }

    /// The load under `mask` equals `value`.
    #[must_use]
    pub fn equal_masked(self, size: Size, offset: u32, mask: u32, value: u32) -> Self {
        self.compare(Compare::Equal, size, offset, mask, value, 0)
    }

    /// The load under `mask` differs from `value`.
    #[must_use]
    pub fn not_equal(self, size: Size, offset: u32, mask: u32, value: u32) -> Self {
        self.compare(Compare::NotEqual, size, offset, mask, value, 0)
    }

    /// The load lies in `low..=high`.
    #[must_use]
    pub fn within(self, size: Size, offset: u32, low: u32, high: u32) -> Self {
        self.compare(Compare::Within, size, offset, size.all(), low, high)
    }

    /// The load lies outside `low..=high`.
    #[must_use]
    pub fn outside(self, size: Size, offset: u32, low: u32, high: u32) -> Self {
        self.compare(Compare::Outside, size, offset, size.all(), low, high)
    }

    /// The load is below `bound`; below 0 there is nothing, which is refused when checked.
    #[must_use]
    pub fn less(self, size: Size, offset: u32, bound: u32) -> Self {
        match bound.checked_sub(1) {
            Some(high) => self.within(size, offset, 0, high),
            None => self.within(size, offset, 1, 0),
        }
    }

    /// The load is above `bound`; above the largest there is nothing, which is refused when checked.
    #[must_use]
    pub fn greater(self, size: Size, offset: u32, bound: u32) -> Self {
        match bound.checked_add(1) {
            Some(low) => self.within(size, offset, low, size.all()),
            None => self.within(size, offset, 1, 0),
        }
    }

    /// The packet reaches to `length` bytes from the base, at least 1.
    #[must_use]
    pub fn reaches(self, length: u32) -> Self {
        self.equal_masked(Size::One, length.saturating_sub(1), 0, 0)
    }

    /// Moves the base of what follows by the load under `mask`, shifted left (right when negative).
    #[must_use]
    pub fn shift(self, size: Size, offset: u32, mask: u32, bits: i8) -> Self {
        let compare = Compare::Shift as u8;
        self.atom(Atom { compare, size: size as u8, shift: bits, offset, mask, ..Atom::default() })
    }

    /// Begins the next conjunction.
    #[must_use]
    pub fn or(mut self) -> Self {
        self.conjunction = self.conjunction.saturating_add(1);
        self
    }

    /// The atoms, in the form that is installed.
    pub fn finish(self) -> Result<&'a [Atom], TooSmall> {
        let Self { atoms, count, .. } = self;
        if count <= atoms.len() { Ok(&atoms[..count]) } else { Err(TooSmall(count)) }
    }
}
