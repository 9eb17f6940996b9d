//! From ticks of one clock to another by a multiplication and a shift, without division and without wrap-around
//! (FAULTS row 92). The formula is `out = (in * multiplier) >> shift`, in 128 bits.

/// How to convert ticks of one clock into another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeScale {
    /// The factor, below 2^32.
    pub multiplier: u64,
    /// Bits to shift right after it, below 64.
    pub shift: u32,
}

/// Nanoseconds in a second.
pub const NANOSECONDS: u64 = 1_000_000_000;

impl TimeScale {
    /// The scale from a clock of `from` ticks a second to one of `to`; none if either is 0 or they are too far apart.
    /// The result is exact to 2^-31.
    pub const fn new(from: u64, to: u64) -> Option<Self> {
        if from == 0 || to == 0 {
            return None;
        }
        let mut shift = 63;
        loop {
            let multiplier = ((to as u128) << shift) / from as u128;
            if multiplier < 1 << 32 {
                return if multiplier == 0 { None } else { Some(Self { multiplier: multiplier as u64, shift }) };
            }
            if shift == 0 {
                return None;
            }
            shift -= 1;
        }
    }

    /// Converts where the result is known to fit, as nanoseconds since boot do for centuries: else its lower 64 bits.
    #[inline(always)]
    pub const fn convert_fitting(&self, ticks: u64) -> u64 {
        ((ticks as u128 * self.multiplier as u128) >> (self.shift & (u64::BITS - 1))) as u64
    }

    /// Converts; the largest value stands for all beyond it.
    #[inline(always)]
    pub const fn convert(&self, ticks: u64) -> u64 {
        let product = (ticks as u128 * self.multiplier as u128) >> (self.shift & (u64::BITS - 1));
        if product > u64::MAX as u128 { u64::MAX } else { product as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_92_a_clock_that_stands_still_has_no_scale() {
        assert_eq!(TimeScale::new(0, NANOSECONDS), None);
        assert_eq!(TimeScale::new(NANOSECONDS, 0), None);
    }

    #[test]
    fn fault_92_extremes_saturate_and_stay_monotone() {
        for hertz in [1, 18, 32_768, 1_193_182, 1_000_000_000, 2_999_999_999, 5_000_000_000, u64::MAX] {
            let Some(scale) = TimeScale::new(hertz, NANOSECONDS) else { continue };
            let mut last = 0;
            for bit in 2..64 {
                for ticks in [(1u64 << bit) - 1, 1 << bit, (1 << bit) + 1] {
                    let now = scale.convert(ticks);
                    assert!(now >= last, "{hertz} Hz at {ticks}");
                    last = now;
                }
            }
        }
    }

    #[test]
    fn is_close_to_exact_division() {
        for hertz in [1_000_000_000u64, 2_419_200_000, 3_579_545, 24_000_000] {
            let scale = TimeScale::new(hertz, NANOSECONDS).unwrap();
            for seconds in [1u64, 60, 86_400] {
                let error = scale.convert(hertz * seconds).abs_diff(seconds * NANOSECONDS);
                assert!(error <= ((seconds * NANOSECONDS) >> 30) + 1, "{hertz} Hz: {error} ns in {seconds} s");
            }
        }
    }
}
