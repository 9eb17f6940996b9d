//! Round-trip time and retransmission time-out (RFC 6298), with a least time-out of 200 ms.

use crate::time::{MILLISECOND, SECOND};

/// Before anything was measured.
const FIRST: u32 = SECOND as u32;
pub const LEAST: u32 = 200 * MILLISECOND as u32;
pub const MOST: u32 = 120 * SECOND as u32;
const GRANULARITY: u32 = MILLISECOND as u32;

/// Times are in microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundTrip {
    /// 0 before the first sample.
    pub smoothed: u32,
    pub variation: u32,
    /// Doublings of the time-out. Only a sample ends them (Karn): an acknowledgement of what was sent twice does not
    /// say how long the way is.
    pub backoff: u8,
    /// Time-outs in a row without an acknowledgement of new data.
    pub attempts: u8,
}

impl RoundTrip {
    pub fn sample(&mut self, micros: u64) {
        self.backoff = 0;
        let sample = u32::try_from(micros).unwrap_or(MOST).clamp(1, MOST);
        if self.smoothed == 0 {
            (self.smoothed, self.variation) = (sample, sample / 2);
        } else {
            let difference = self.smoothed.abs_diff(sample);
            self.variation = self.variation - self.variation / 4 + difference / 4;
            self.smoothed = self.smoothed - self.smoothed / 8 + sample / 8;
        }
    }

    /// The time-out, doubled for each time-out in a row.
    pub fn time_out(&self) -> u64 {
        let base = match self.smoothed {
            0 => FIRST,
            smoothed => smoothed.saturating_add(GRANULARITY.max(self.variation.saturating_mul(4))).max(LEAST),
        };
        let doubled = u64::from(base) << self.backoff.min(16);
        doubled.min(u64::from(MOST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formulas_of_rfc_6298() {
        let mut round_trip = RoundTrip::default();
        assert_eq!(round_trip.time_out(), SECOND);
        round_trip.sample(400_000);
        assert_eq!((round_trip.smoothed, round_trip.variation), (400_000, 200_000));
        assert_eq!(round_trip.time_out(), 1_200_000);
        round_trip.sample(480_000);
        assert_eq!((round_trip.smoothed, round_trip.variation), (410_000, 170_000));
    }

    #[test]
    fn least_most_and_doubling() {
        let mut round_trip = RoundTrip::default();
        for _ in 0..100 {
            round_trip.sample(50);
        }
        assert_eq!(round_trip.time_out(), u64::from(LEAST));
        round_trip.backoff = 3;
        assert_eq!(round_trip.time_out(), 8 * u64::from(LEAST));
        round_trip.backoff = u8::MAX;
        assert_eq!(round_trip.time_out(), u64::from(MOST));
        round_trip.sample(u64::MAX);
        assert!(round_trip.smoothed <= MOST);
    }
}
