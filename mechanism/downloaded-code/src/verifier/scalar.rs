//! Numbers: what is known about a word, as bits and as unsigned and signed ranges that sharpen each other.

use super::tnum::Tnum;

/// A non-empty set of words: those that satisfy all three descriptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scalar {
    pub(crate) bits: Tnum,
    pub(crate) minimum: u64,
    pub(crate) maximum: u64,
    pub(crate) signed_minimum: i64,
    pub(crate) signed_maximum: i64,
}

impl Scalar {
    pub(crate) const UNKNOWN: Self =
        Self { bits: Tnum::UNKNOWN, minimum: 0, maximum: u64::MAX, signed_minimum: i64::MIN, signed_maximum: i64::MAX };

    pub(crate) const fn constant(value: u64) -> Self {
        Self {
            bits: Tnum::constant(value),
            minimum: value,
            maximum: value,
            signed_minimum: value as i64,
            signed_maximum: value as i64,
        }
    }

    /// All words of an unsigned range (`minimum <= maximum`).
    pub(crate) fn range(minimum: u64, maximum: u64) -> Self {
        Self { minimum, maximum, ..Self::UNKNOWN }.settled()
    }

    /// All words of a signed range (`minimum <= maximum`).
    pub(crate) fn signed_range(minimum: i64, maximum: i64) -> Self {
        Self { signed_minimum: minimum, signed_maximum: maximum, ..Self::UNKNOWN }.settled()
    }

    /// All words of `bits` bits, zero-extended.
    pub(crate) fn of_bits(bits: u32) -> Self {
        Self::range(0, u64::MAX >> (64 - bits))
    }

    pub(crate) fn from_bits(bits: Tnum) -> Self {
        Self { bits, ..Self::UNKNOWN }.settled()
    }

    pub(crate) fn as_constant(&self) -> Option<u64> {
        (self.minimum == self.maximum).then_some(self.minimum)
    }

    pub(crate) fn contains(&self, word: u64) -> bool {
        self.bits.contains(word)
            && (self.minimum..=self.maximum).contains(&word)
            && (self.signed_minimum..=self.signed_maximum).contains(&(word as i64))
    }

    /// Lets the three descriptions sharpen each other; `None` when no word satisfies all of them.
    pub(crate) fn normalised(mut self) -> Option<Self> {
        self.sharpen();
        self.sharpen();
        let ranges = self.minimum <= self.maximum && self.signed_minimum <= self.signed_maximum;
        if !ranges {
            return None;
        }
        self.bits = self.bits.intersect(Tnum::range(self.minimum, self.maximum))?;
        Some(self)
    }

    /// For sets that cannot be empty, as results of operations on sets that are not.
    pub(crate) fn settled(self) -> Self {
        self.normalised().unwrap_or(Self::UNKNOWN)
    }

    fn sharpen(&mut self) {
        let sign = 1 << 63;
        self.align();
        self.minimum = self.minimum.max(self.bits.value);
        self.maximum = self.maximum.min(self.bits.value | self.bits.mask);
        if self.bits.mask & sign == 0 {
            self.signed_minimum = self.signed_minimum.max(self.bits.value as i64);
            self.signed_maximum = self.signed_maximum.min((self.bits.value | self.bits.mask) as i64);
        }
        if (self.minimum ^ self.maximum) & sign == 0 {
            self.signed_minimum = self.signed_minimum.max(self.minimum as i64);
            self.signed_maximum = self.signed_maximum.min(self.maximum as i64);
        }
        if self.signed_minimum >= 0 || self.signed_maximum < 0 {
            self.minimum = self.minimum.max(self.signed_minimum as u64);
            self.maximum = self.maximum.min(self.signed_maximum as u64);
        }
    }

    /// Moves the ends of the unsigned range inwards to words with the known low bits.
    fn align(&mut self) {
        let known = self.bits.mask.trailing_zeros();
        let step = 1u64.checked_shl(known).unwrap_or(0);
        if known == 0 || step == 0 {
            return;
        }
        let low = self.bits.value & (step - 1);
        let lowered = (self.maximum & !(step - 1)) | low;
        let maximum = if lowered <= self.maximum { Some(lowered) } else { lowered.checked_sub(step) };
        let raised = (self.minimum & !(step - 1)) | low;
        let minimum = if raised >= self.minimum { Some(raised) } else { raised.checked_add(step) };
        // Without such a word the set is empty: an inverted range says so.
        (self.minimum, self.maximum) = match (minimum, maximum) {
            (Some(minimum), Some(maximum)) => (minimum, maximum),
            _ => (1, 0),
        };
    }

    /// The smallest set known to contain both.
    pub(crate) fn union(&self, other: &Self) -> Self {
        Self {
            bits: self.bits.union(other.bits),
            minimum: self.minimum.min(other.minimum),
            maximum: self.maximum.max(other.maximum),
            signed_minimum: self.signed_minimum.min(other.signed_minimum),
            signed_maximum: self.signed_maximum.max(other.signed_maximum),
        }
    }

    /// Words in both, if there are any.
    pub(crate) fn intersect(&self, other: &Self) -> Option<Self> {
        Self {
            bits: self.bits.intersect(other.bits)?,
            minimum: self.minimum.max(other.minimum),
            maximum: self.maximum.min(other.maximum),
            signed_minimum: self.signed_minimum.max(other.signed_minimum),
            signed_maximum: self.signed_maximum.min(other.signed_maximum),
        }
        .normalised()
    }

    pub(crate) fn with_minimum(self, minimum: u64) -> Option<Self> {
        Self { minimum: self.minimum.max(minimum), ..self }.normalised()
    }

    pub(crate) fn with_maximum(self, maximum: u64) -> Option<Self> {
        Self { maximum: self.maximum.min(maximum), ..self }.normalised()
    }

    pub(crate) fn with_signed_minimum(self, minimum: i64) -> Option<Self> {
        Self { signed_minimum: self.signed_minimum.max(minimum), ..self }.normalised()
    }

    pub(crate) fn with_signed_maximum(self, maximum: i64) -> Option<Self> {
        Self { signed_maximum: self.signed_maximum.min(maximum), ..self }.normalised()
    }

    /// The set without one word, as far as the description can leave it out: at the ends of a range.
    pub(crate) fn without(mut self, word: u64) -> Option<Self> {
        if self.minimum == word {
            self.minimum = word.checked_add(1)?;
        }
        if self.maximum == word {
            self.maximum = word.checked_sub(1)?;
        }
        if self.signed_minimum == word as i64 {
            self.signed_minimum = (word as i64).checked_add(1)?;
        }
        if self.signed_maximum == word as i64 {
            self.signed_maximum = (word as i64).checked_sub(1)?;
        }
        self.normalised()
    }

    /// Low 32 bits, zero-extended.
    pub(crate) fn low_half(&self) -> Self {
        if self.maximum <= u64::from(u32::MAX) {
            return *self;
        }
        let half = Tnum::constant(u64::from(u32::MAX));
        let bits = self.bits.and(half);
        if self.minimum >> 32 == self.maximum >> 32 {
            let (minimum, maximum) = (self.minimum & half.value, self.maximum & half.value);
            return Self { bits, minimum, maximum, ..Self::UNKNOWN }.settled();
        }
        Self::from_bits(bits)
    }

    /// Low `bits` bits (8, 16 or 32), sign-extended to 64.
    pub(crate) fn sign_extended(&self, bits: u32) -> Self {
        let limit = 1i64 << (bits - 1);
        if self.signed_minimum >= -limit && self.signed_maximum < limit {
            return *self;
        }
        let known = self.bits.shift_left(64 - bits).arithmetic_shift_right(64 - bits);
        let mut result = Self { bits: known, ..Self::signed_range(-limit, limit - 1) };
        if self.maximum < limit as u64 * 2 && self.minimum >= limit as u64 {
            let extension = (limit as u64 * 2).wrapping_neg();
            result.minimum = self.minimum | extension;
            result.maximum = self.maximum | extension;
        }
        result.settled()
    }

    /// Low `bits` bits (8, 16, 32 or 64), zero-extended.
    pub(crate) fn zero_extended(&self, bits: u32) -> Self {
        let most = u64::MAX >> (64 - bits);
        if self.maximum <= most { *self } else { Self::from_bits(self.bits.and(Tnum::constant(most))) }
    }
}
