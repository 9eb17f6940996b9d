//! Congestion control: slow start (RFC 5681, RFC 6928) and the choice between CUBIC and NewReno.
//!
//! The algorithms see acknowledged bytes and losses. Which bytes are lost is the affair of `recovery`.

pub mod cubic;

use crate::time::Time;
use cubic::Cubic;

/// RFC 6928: ten segments, but no more than this many bytes where segments are large.
const INITIAL_SEGMENTS: u32 = 10;
const INITIAL_BYTES: u32 = 14_600;
/// A window never grows beyond what a scaled window can express.
const LIMIT: u32 = 1 << 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    Cubic,
    NewReno,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Cubic(Cubic),
    NewReno,
}

#[derive(Clone, Copy, Debug)]
pub struct Congestion {
    /// Bytes.
    pub window: u32,
    pub threshold: u32,
    /// Acknowledged bytes that did not yet make a whole step of the window.
    credit: u32,
    state: State,
}

pub fn initial_window(segment: u32) -> u32 {
    (INITIAL_SEGMENTS * segment).min(INITIAL_BYTES.max(2 * segment))
}

impl Congestion {
    pub fn new(algorithm: Algorithm, segment: u32) -> Self {
        let state = match algorithm {
            Algorithm::Cubic => State::Cubic(Cubic::default()),
            Algorithm::NewReno => State::NewReno,
        };
        Self { window: initial_window(segment), threshold: u32::MAX, credit: 0, state }
    }

    pub fn algorithm(&self) -> Algorithm {
        match self.state {
            State::Cubic(_) => Algorithm::Cubic,
            State::NewReno => Algorithm::NewReno,
        }
    }

    /// Continues with another algorithm, or after a move to another stack, from the same window.
    pub fn restart(&mut self, algorithm: Algorithm) {
        *self = Self { window: self.window, threshold: self.threshold, ..Self::new(algorithm, 1) };
    }

    pub fn is_slow_start(&self) -> bool {
        self.window < self.threshold
    }

    /// New data was acknowledged outside fast recovery while the window was in use.
    pub fn acknowledged(&mut self, bytes: u32, segment: u32, now: Time, round_trip: u32) {
        if self.is_slow_start() {
            // RFC 3465 with a limit of two segments, so that one acknowledgement of much causes no burst.
            self.window = self.window.saturating_add(bytes.min(2 * segment)).min(LIMIT);
            return;
        }
        let target = match &mut self.state {
            State::NewReno => self.window.saturating_add(segment),
            State::Cubic(cubic) => cubic.target(self.window, bytes, segment, now, round_trip),
        };
        self.approach(target, bytes, segment);
    }

    /// Grows so that the window reaches `target` after a window's worth of acknowledgements.
    fn approach(&mut self, target: u32, bytes: u32, segment: u32) {
        let growth = u64::from(target.saturating_sub(self.window)) * u64::from(bytes) + u64::from(self.credit);
        let window = u64::from(self.window.max(1));
        self.credit = (growth % window) as u32;
        let step = (growth / window).min(u64::from(segment)) as u32;
        self.window = self.window.saturating_add(step).min(LIMIT);
    }

    /// Fast recovery begins with `flight` bytes on their way.
    pub fn lost(&mut self, flight: u32, segment: u32) {
        self.reduce(flight, segment);
        self.window = self.threshold;
    }

    /// The retransmission timer expired. `first` says whether it is the first time for this data.
    pub fn timed_out(&mut self, flight: u32, segment: u32, first: bool) {
        if first {
            self.reduce(flight, segment);
        }
        self.window = segment;
    }

    fn reduce(&mut self, flight: u32, segment: u32) {
        let reduced = match &mut self.state {
            State::NewReno => flight / 2,
            State::Cubic(cubic) => cubic.lost(self.window.min(flight.max(segment))),
        };
        self.threshold = reduced.max(2 * segment);
        self.credit = 0;
    }

    /// Nothing was sent for longer than a time-out (RFC 5681, 4.1).
    pub fn idle(&mut self, segment: u32) {
        self.window = self.window.min(initial_window(segment));
        if let State::Cubic(cubic) = &mut self.state {
            cubic.idle();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: u32 = 1_000;

    /// The window after `round_trips` of 100 ms in which everything was acknowledged.
    fn grow(congestion: &mut Congestion, start: u64, round_trips: u64) {
        for turn in 0..round_trips {
            let mut left = congestion.window;
            while left > 0 {
                let bytes = left.min(SEGMENT);
                congestion.acknowledged(bytes, SEGMENT, Time::from_micros(start + turn * 100_000), 100_000);
                left -= bytes;
            }
        }
    }

    #[test]
    fn the_initial_window_of_rfc_6928() {
        assert_eq!([initial_window(536), initial_window(1_460), initial_window(9_000)], [5_360, 14_600, 18_000]);
    }

    #[test]
    fn slow_start_doubles() {
        let mut congestion = Congestion::new(Algorithm::NewReno, SEGMENT);
        grow(&mut congestion, 0, 3);
        assert_eq!(congestion.window, 80_000);
    }

    #[test]
    fn new_reno_adds_a_segment_a_round_trip_and_halves() {
        let mut congestion = Congestion::new(Algorithm::NewReno, SEGMENT);
        congestion.lost(40_000, SEGMENT);
        assert_eq!((congestion.window, congestion.threshold), (20_000, 20_000));
        grow(&mut congestion, 0, 10);
        assert!((29_000..=30_000).contains(&congestion.window), "{}", congestion.window);
        congestion.timed_out(30_000, SEGMENT, true);
        assert_eq!((congestion.window, congestion.threshold), (SEGMENT, 15_000));
        congestion.timed_out(1_000, SEGMENT, false);
        assert_eq!(congestion.threshold, 15_000);
    }

    /// With W_max of 1,000 segments and beta 0.7, K is the cube root of 300 / 0.4 = 9.08 s (RFC 9438, 4.2).
    #[test]
    fn cubic_reaches_the_old_window_after_k_and_is_flat_there() {
        let mut congestion = Congestion::new(Algorithm::Cubic, SEGMENT);
        congestion.window = 1_000 * SEGMENT;
        congestion.lost(1_000 * SEGMENT, SEGMENT);
        assert_eq!(congestion.window, 700 * SEGMENT);
        grow(&mut congestion, 0, 45);
        let half_way = congestion.window / SEGMENT;
        assert!((950..=970).contains(&half_way), "{half_way}");
        grow(&mut congestion, 4_500_000, 46);
        let at_the_plateau = congestion.window / SEGMENT;
        assert!((990..=1_002).contains(&at_the_plateau), "{at_the_plateau}");
        grow(&mut congestion, 9_100_000, 60);
        let beyond = congestion.window / SEGMENT;
        assert!((1_060..=1_100).contains(&beyond), "{beyond}");
    }

    #[test]
    fn cubic_is_no_slower_than_reno_where_windows_are_small() {
        let mut cubic = Congestion::new(Algorithm::Cubic, SEGMENT);
        cubic.window = 20_000;
        cubic.lost(20_000, SEGMENT);
        grow(&mut cubic, 0, 30);
        // Reno with the same reduction would have grown by 3 (1 - 0.7) / (1 + 0.7) = 0.53 segments a round trip.
        assert!(cubic.window >= 14_000 + 14 * SEGMENT, "{}", cubic.window);
    }
}
