//! The clock: nanoseconds since boot, from the time stamp counter and the scale that the kernel exposes. No crossing.

use crate::exposed::kernel;
use core::sync::atomic::Ordering::Relaxed;

/// The time stamp counter: ticks, or instructions by the counting clock.
#[inline]
pub fn ticks() -> u64 {
    // SAFETY: RDTSC is allowed in user mode on this kernel and changes nothing but its results.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Nanoseconds since boot.
#[inline]
pub fn now() -> u64 {
    let kernel = kernel();
    let elapsed = ticks().wrapping_sub(kernel.tsc_start.load(Relaxed));
    scale(elapsed, kernel.tsc_multiplier.load(Relaxed), kernel.tsc_shift.load(Relaxed))
}

/// The time stamp counter at a time, in nanoseconds since boot.
pub fn ticks_at(time: u64) -> u64 {
    let kernel = kernel();
    let elapsed = unscale(time, kernel.tsc_multiplier.load(Relaxed), kernel.tsc_shift.load(Relaxed));
    kernel.tsc_start.load(Relaxed).wrapping_add(elapsed)
}

/// Nanoseconds since 1970, if the machine has a clock.
pub fn wall_clock() -> Option<u64> {
    match kernel().wall_clock_at_boot.load(Relaxed) {
        0 => None,
        at_boot => Some(at_boot.saturating_add(now())),
    }
}

/// Ticks to nanoseconds.
#[inline]
pub const fn scale(ticks: u64, multiplier: u64, shift: u64) -> u64 {
    ((ticks as u128 * multiplier as u128) >> (shift & 127)) as u64
}

/// Nanoseconds to ticks.
const fn unscale(nanoseconds: u64, multiplier: u64, shift: u64) -> u64 {
    let multiplier = if multiplier == 0 { 1 } else { multiplier };
    (((nanoseconds as u128) << (shift & 63)) / multiplier as u128) as u64
}

#[cfg(test)]
mod tests {
    use super::{scale, unscale};

    #[test]
    fn ticks_of_a_time_are_those_that_it_was_read_from() {
        for (multiplier, shift) in [((1 << 32) / 3, 32), (1 << 32, 32), (3 << 30, 30)] {
            for ticks in [0, 1_000, 12_345_678_901] {
                let again = unscale(scale(ticks, multiplier, shift), multiplier, shift);
                assert!(ticks - again <= 3, "{ticks} {again} {multiplier} {shift}");
            }
        }
    }

    #[test]
    fn scaling_keeps_all_bits_of_the_product() {
        assert_eq!(scale(u64::MAX, 1 << 32, 32), u64::MAX);
        assert_eq!(scale(3_000_000_000, (1 << 32) / 3, 32), 999_999_999);
        assert_eq!(scale(1 << 63, 1 << 40, 50), 1 << 53);
    }
}
