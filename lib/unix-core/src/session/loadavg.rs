//! Load averages (proc(5)): how many processes run or could run, averaged with exponential weights over one, five and
//! fifteen minutes, in fixed point.
//!
//! Pure. Every five seconds a count comes in; the weights are `1 / exp(5 s / period)`, with 11 bits behind the point.

/// 1 in fixed point.
pub const ONE: u64 = 1 << 11;
/// Nanoseconds between two counts.
pub const INTERVAL: u64 = 5_000_000_000;
/// How much of the average stays at each count.
const WEIGHTS: [u64; 3] = [1884, 2014, 2037];

/// The averages after one more count.
pub fn next(averages: [u64; 3], runnable: u64) -> [u64; 3] {
    let active = runnable * ONE;
    core::array::from_fn(|index| {
        let (average, weight) = (averages[index], WEIGHTS[index]);
        // Rounded up while it grows, so that it gets there.
        let rounding = if active >= average { ONE - 1 } else { 0 };
        (average * weight + active * (ONE - weight) + rounding) / ONE
    })
}

/// An average as it is printed: whole part and hundredths.
pub const fn parts(average: u64) -> (u64, u64) {
    let average = average + ONE / 200;
    (average / ONE, (average % ONE) * 100 / ONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_with_work_for_two_comes_to_two_and_back() {
        let mut averages = [0; 3];
        for _ in 0..12 {
            averages = next(averages, 2);
        }
        // After a minute: 2 * (1 - 1/e), and less over the longer periods.
        assert_eq!(parts(averages[0]), (1, 27));
        assert!(averages[0] > averages[1] && averages[1] > averages[2]);
        for _ in 0..1000 {
            averages = next(averages, 2);
        }
        assert_eq!(averages.map(parts), [(2, 0); 3]);
        for _ in 0..2000 {
            averages = next(averages, 0);
        }
        assert_eq!(parts(averages[0]), (0, 0));
    }
}
