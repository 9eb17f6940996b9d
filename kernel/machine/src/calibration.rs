//! Measuring the time stamp counter and the local timer against a reference clock, at boot.
//!
//! First roughly, spinning some microseconds, twice, until two measurements agree; then finely, halted for some
//! milliseconds until the local timer itself ends the wait, so that it costs few instructions. The rough result tells
//! how often the short clocks have wrapped around in the fine one, however long the host let this machine wait.

use crate::apic;
use crate::interrupt_table::{take_pending_interrupts, wait_for_interrupt};
use crate::reference_clock::{Reference, time_stamp};

/// How long the rough measurement spins, and the fine one halts, as fractions of a second.
const ROUGH: u64 = 20_000;
const FINE: u64 = 500;
const ATTEMPTS: u32 = 20;
const EDGE_PATIENCE: u32 = 10_000;
const SAMPLES: u32 = 16;
const ROUGH_PATIENCE: u32 = 100_000;

/// Ticks a second of the two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frequencies {
    /// Of the time stamp counter.
    pub(crate) stamp: u64,
    /// Of the local timer.
    pub(crate) timer: u64,
}

/// One reading of all three clocks, or the difference of two.
#[derive(Clone, Copy, Debug)]
struct Reading {
    reference: u64,
    stamp: u64,
    timer: u64,
}

/// Frequencies of this CPU's clocks; none if one of them stands still or no two measurements agree.
pub(crate) fn measure(reference: &Reference) -> Option<Frequencies> {
    let rough = (0..ATTEMPTS).find_map(|_| {
        let (one, other) = (rough(reference)?, rough(reference)?);
        one.agrees_with(&other).then_some(other)
    })?;
    (0..ATTEMPTS).find_map(|_| fine(reference, rough).filter(|fine| fine.agrees_with(&rough)))
}

impl Frequencies {
    /// From the ticks of all three clocks in the same time.
    fn from_ticks(ticks: &Reading, reference_hertz: u64) -> Option<Self> {
        let scaled = |part| scale(part, reference_hertz, ticks.reference).filter(|&hertz| hertz > 0);
        Some(Self { stamp: scaled(ticks.stamp)?, timer: scaled(ticks.timer)? })
    }

    /// Whether both differ by less than an eighth.
    fn agrees_with(&self, other: &Self) -> bool {
        let close = |one: u64, other: u64| one.abs_diff(other) < one.min(other) / 8;
        close(self.stamp, other.stamp) && close(self.timer, other.timer)
    }
}

/// `value * numerator / denominator`; none where that has no value.
fn scale(value: u64, numerator: u64, denominator: u64) -> Option<u64> {
    let product = u128::from(value) * u128::from(numerator);
    u64::try_from(product.checked_div(u128::from(denominator))?).ok()
}

/// The number nearest to `expected` that is `phase` modulo `modulus`, and not less than `phase`.
fn unwrap(phase: u64, expected: u64, modulus: u128) -> Option<u64> {
    let beyond = u128::from(expected.saturating_sub(phase)) + modulus / 2;
    u64::try_from(u128::from(phase) + beyond.checked_div(modulus)? * modulus).ok()
}

/// The quickest of a few readings: in the others something came between the clocks.
fn read(reference: &Reference) -> Reading {
    (1..SAMPLES)
        .map(|_| read_edge(reference))
        .fold(read_edge(reference), |best, next| if next.0 < best.0 { next } else { best })
        .1
}

/// A reading at the moment at which the reference moves on, so that the length of its tick does not matter. Also how
/// long it took, from just before the move. The timer counts down; its value is kept as it stands.
fn read_edge(reference: &Reference) -> (u64, Reading) {
    let first = reference.read();
    let mut before = time_stamp();
    for _ in 0..EDGE_PATIENCE {
        let value = reference.read();
        let timer = u64::from(apic::timer_left());
        let after = time_stamp();
        let spread = after.saturating_sub(before);
        if value != first {
            return (spread, Reading { reference: value, stamp: before + spread / 2, timer });
        }
        before = after;
    }
    (u64::MAX, Reading { reference: first, stamp: before, timer: 0 })
}

fn rough(reference: &Reference) -> Option<Frequencies> {
    reference.restart();
    apic::start_counter(u32::MAX);
    let from = read(reference);
    for _ in 0..ROUGH_PATIENCE {
        let to = read(reference);
        let passed = Reading {
            reference: to.reference.wrapping_sub(from.reference) & reference.mask(),
            stamp: to.stamp.saturating_sub(from.stamp),
            timer: from.timer.saturating_sub(to.timer),
        };
        if passed.reference >= reference.hertz() / ROUGH {
            return Frequencies::from_ticks(&passed, reference.hertz());
        }
    }
    None
}

fn fine(reference: &Reference, rough: Frequencies) -> Option<Frequencies> {
    let period = u32::try_from(rough.timer / FINE).unwrap_or(u32::MAX).max(1);
    reference.restart();
    apic::start_periodic_timer(period);
    let from = read(reference);
    wait_for_interrupt();
    let to = read(reference);
    apic::stop_timer();
    take_pending_interrupts();
    let stamp = to.stamp.saturating_sub(from.stamp);
    let reference_phase = to.reference.wrapping_sub(from.reference) & reference.mask();
    let timer_phase = (from.timer + u64::from(period)).saturating_sub(to.timer) % u64::from(period);
    let passed = Reading {
        reference: unwrap(
            reference_phase,
            scale(stamp, reference.hertz(), rough.stamp)?,
            u128::from(reference.mask()) + 1,
        )?,
        stamp,
        timer: unwrap(timer_phase, scale(stamp, rough.timer, rough.stamp)?, u128::from(period))?,
    };
    Frequencies::from_ticks(&passed, reference.hertz())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_92_clocks_that_stand_still_give_no_frequency() {
        let ticks = |reference, stamp, timer| Reading { reference, stamp, timer };
        assert_eq!(Frequencies::from_ticks(&ticks(0, 5, 5), 1_193_182), None);
        assert_eq!(Frequencies::from_ticks(&ticks(5, 0, 5), 1_193_182), None);
        assert_eq!(Frequencies::from_ticks(&ticks(5, 5, 0), 1_193_182), None);
        assert_eq!(scale(u64::MAX, u64::MAX, 1), None);
    }

    #[test]
    fn fault_92_wrapped_clocks_are_unwrapped_by_the_rough_estimate() {
        for true_ticks in [10u64, 11_931, 65_535, 65_536, 70_000, 1_000_000] {
            for estimate in [true_ticks * 49 / 50, true_ticks, true_ticks * 51 / 50] {
                assert_eq!(unwrap(true_ticks % 65_536, estimate, 65_536), Some(true_ticks), "{true_ticks}");
            }
        }
        assert_eq!(unwrap(7, 9, u128::from(u64::MAX) + 1), Some(7));
        assert_eq!(unwrap(7, 9, 0), None);
    }
}
