//! Sequence numbers: they wrap, so order is defined by the shorter way around (RFC 9293, 3.4).

use core::cmp::Ordering;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sequence(pub u32);

impl Sequence {
    #[must_use]
    pub const fn plus(self, bytes: u32) -> Self {
        Self(self.0.wrapping_add(bytes))
    }

    #[must_use]
    pub const fn minus(self, bytes: u32) -> Self {
        Self(self.0.wrapping_sub(bytes))
    }

    /// Bytes from `earlier` to this number, around the circle.
    pub const fn distance(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }

    /// Whether this number lies in `first..end`.
    pub const fn is_within(self, first: Self, end: Self) -> bool {
        self.distance(first) < end.distance(first)
    }

    #[must_use]
    pub fn max(self, other: Self) -> Self {
        if self < other { other } else { self }
    }

    #[must_use]
    pub fn min(self, other: Self) -> Self {
        if self < other { self } else { other }
    }
}

impl PartialOrd for Sequence {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.0.wrapping_sub(other.0).cast_signed().cmp(&0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_survives_the_wrap() {
        let (before, after) = (Sequence(u32::MAX - 5), Sequence(10));
        assert!(before < after);
        assert_eq!(after.distance(before), 16);
        assert!(Sequence(0).is_within(before, after) && !after.is_within(before, after));
        assert_eq!((before.max(after), before.min(after)), (after, before));
    }
}
