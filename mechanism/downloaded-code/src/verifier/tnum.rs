//! Known bits: for each bit of a word, whether it is 0, 1 or unknown.

/// A set of words: `mask` has the unknown bits, `value` the known ones (and 0 where unknown).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tnum {
    pub(crate) value: u64,
    pub(crate) mask: u64,
}

impl Tnum {
    pub(crate) const UNKNOWN: Self = Self { value: 0, mask: u64::MAX };

    pub(crate) const fn constant(value: u64) -> Self {
        Self { value, mask: 0 }
    }

    /// The smallest set of this form with all of `minimum..=maximum` in it: the common leading bits are known.
    pub(crate) fn range(minimum: u64, maximum: u64) -> Self {
        let differing = minimum ^ maximum;
        let mask = u64::MAX.checked_shr(differing.leading_zeros()).unwrap_or(0);
        Self { value: minimum & !mask, mask }
    }

    pub(crate) fn contains(self, word: u64) -> bool {
        word & !self.mask == self.value
    }

    /// Words in both sets, if there are any.
    pub(crate) fn intersect(self, other: Self) -> Option<Self> {
        let both_known = !self.mask & !other.mask;
        if (self.value ^ other.value) & both_known != 0 {
            return None;
        }
        let mask = self.mask & other.mask;
        Some(Self { value: (self.value | other.value) & !mask, mask })
    }

    /// Words in either set (and possibly more).
    pub(crate) fn union(self, other: Self) -> Self {
        let mask = self.mask | other.mask | (self.value ^ other.value);
        Self { value: self.value & !mask, mask }
    }

    /// Sums. A bit is unknown when it is in an operand, or when carries into it differ between the least and the
    /// greatest sum.
    pub(crate) fn add(self, other: Self) -> Self {
        let least = self.value.wrapping_add(other.value);
        let greatest = least.wrapping_add(self.mask.wrapping_add(other.mask));
        let mask = (greatest ^ least) | self.mask | other.mask;
        Self { value: least & !mask, mask }
    }

    /// Differences, by the same argument with borrows.
    pub(crate) fn subtract(self, other: Self) -> Self {
        let difference = self.value.wrapping_sub(other.value);
        let (high, low) = (difference.wrapping_add(self.mask), difference.wrapping_sub(other.mask));
        let mask = (high ^ low) | self.mask | other.mask;
        Self { value: difference & !mask, mask }
    }

    /// Products: exact for constants, else the trailing zeros add up.
    pub(crate) fn multiply(self, other: Self) -> Self {
        if self.mask == 0 && other.mask == 0 {
            return Self::constant(self.value.wrapping_mul(other.value));
        }
        let zeros = (self.value | self.mask).trailing_zeros() + (other.value | other.mask).trailing_zeros();
        Self { value: 0, mask: u64::MAX.checked_shl(zeros).unwrap_or(0) }
    }

    pub(crate) fn and(self, other: Self) -> Self {
        let possible = (self.value | self.mask) & (other.value | other.mask);
        let value = self.value & other.value;
        Self { value, mask: possible & !value }
    }

    pub(crate) fn or(self, other: Self) -> Self {
        let value = self.value | other.value;
        Self { value, mask: (self.mask | other.mask) & !value }
    }

    pub(crate) fn xor(self, other: Self) -> Self {
        let mask = self.mask | other.mask;
        Self { value: (self.value ^ other.value) & !mask, mask }
    }

    pub(crate) fn shift_left(self, count: u32) -> Self {
        Self { value: self.value << count, mask: self.mask << count }
    }

    pub(crate) fn shift_right(self, count: u32) -> Self {
        Self { value: self.value >> count, mask: self.mask >> count }
    }

    /// Both parts are shifted with their sign: an unknown sign bit stays unknown wherever it is copied to.
    pub(crate) fn arithmetic_shift_right(self, count: u32) -> Self {
        let mask = (self.mask as i64 >> count) as u64;
        Self { value: (self.value as i64 >> count) as u64 & !mask, mask }
    }
}
