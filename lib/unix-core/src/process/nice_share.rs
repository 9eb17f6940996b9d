//! Shares of a CPU by rank (sched(7)): a thread that computes leaves slices of its own to threads of a higher rank.
//!
//! Pure. The kernel shares a CPU out alike among those who have a position there. A thread whose rank is below the
//! highest of those that want the CPU takes one slice of several. With each step of a nice value that is a fifth less.
//! Below a real-time policy it is one slice of twenty (Linux leaves the others 5 percent by `sched_rt_runtime_us`). The
//! thread decides so by itself; a thread that has just stopped waiting does not come here, and runs at once.

use super::prctl_state::{Attributes, RESET_ON_FORK};
use linux_raw_sys::general as linux;

/// The share of who takes every slice.
const WHOLE: u32 = 1024;
/// That of who only wants what others leave (`SCHED_IDLE`, a lower real-time priority).
const LEAST: u32 = 3;
/// Share of all other threads together while a real-time policy runs.
const BESIDE_REAL_TIME: u32 = WHOLE / 20;

/// A rank: the higher one goes first. That of `SCHED_IDLE`, then by nice values, then by real-time priorities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Priority(u32);

impl Priority {
    /// The lowest.
    const IDLE: Self = Self(0);
    /// That of who has not said how nice it is.
    pub const USUAL: Self = Self(20);
    /// The highest of a nice value.
    const LEAST_NICE: Self = Self(40);

    /// That of who is scheduled so. Strangers may say so, and a policy that is none is the ordinary one.
    pub fn of(attributes: &Attributes) -> Self {
        match attributes.policy & !RESET_ON_FORK {
            linux::SCHED_IDLE => Self::IDLE,
            linux::SCHED_FIFO | linux::SCHED_RR => {
                Self(Self::LEAST_NICE.0 + attributes.real_time_priority.clamp(1, 99))
            }
            _ => Self(attributes.priority as u32),
        }
    }

    const fn is_real_time(self) -> bool {
        self.0 > Self::LEAST_NICE.0
    }

    /// Its share of a CPU on which the highest rank is this one.
    fn share(self, highest: Self) -> u32 {
        match highest.0.saturating_sub(self.0) {
            0 => WHOLE,
            _ if self == Self::IDLE || self.is_real_time() => LEAST,
            _ if highest.is_real_time() => BESIDE_REAL_TIME,
            steps => (0..steps).fold(WHOLE, |share, _| (share * 4 + 2) / 5),
        }
    }
}

/// The slices that a thread has left to others, as a part of one that it takes.
#[derive(Debug, Default)]
pub struct FairShare(u32);

impl FairShare {
    /// Whether the slice that begins is one that it takes, with its rank, of those who want the CPU the highest of
    /// which is this.
    pub fn takes_next(&mut self, own: Priority, highest: Priority) -> bool {
        self.0 += own.share(highest);
        let takes = self.0 >= WHOLE;
        if takes {
            self.0 -= WHOLE;
        }
        takes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn nice(nice: i64) -> Priority {
        Priority::of(&Attributes { priority: (20 - nice) as u64, ..Attributes::default() })
    }

    fn with_policy(policy: u32, real_time_priority: u32) -> Priority {
        Priority::of(&Attributes { policy, real_time_priority, ..Attributes::default() })
    }

    fn taken_of_thousands(own: Priority, highest: Priority) -> usize {
        let mut turns = FairShare::default();
        (0..100_000).filter(|_| turns.takes_next(own, highest)).count()
    }

    #[test]
    fn each_step_takes_a_fifth() {
        let taken: Vec<usize> = (0..20).map(|steps| taken_of_thousands(nice(steps), Priority::USUAL)).collect();
        assert_eq!(taken[0], 100_000);
        for (more, less) in taken.iter().zip(&taken[1..]) {
            let ratio = *more as f64 / *less as f64;
            assert!((1.2..1.31).contains(&ratio), "{taken:?}");
        }
        // The same distance of ranks gives the same ratio of shares, wherever it lies.
        assert_eq!(taken_of_thousands(nice(0), nice(-5)), taken[5]);
        assert_eq!(taken_of_thousands(nice(15), nice(5)), taken[10]);
    }

    #[test]
    fn who_is_highest_takes_all() {
        let fifo = with_policy(linux::SCHED_FIFO, 7);
        let (idle, batch) = (with_policy(linux::SCHED_IDLE, 0), with_policy(linux::SCHED_BATCH, 0));
        for rank in [nice(19), nice(0), nice(-20), fifo, idle, batch] {
            assert_eq!(taken_of_thousands(rank, rank), 100_000);
            assert_eq!(taken_of_thousands(rank, idle), 100_000);
        }
        assert_eq!(batch, Priority::USUAL);
    }

    #[test]
    fn real_time_leaves_little_and_who_is_idle_takes_least() {
        let [low, high] = [1, 99].map(|priority| with_policy(linux::SCHED_RR | RESET_ON_FORK, priority));
        assert_eq!(taken_of_thousands(nice(-20), low), 4_980);
        assert_eq!(taken_of_thousands(low, high), 292);
        assert_eq!(taken_of_thousands(with_policy(linux::SCHED_IDLE, 0), nice(19)), 292);
        // What a stranger says of itself has a meaning, whatever it is.
        assert_eq!(with_policy(linux::SCHED_FIFO, u32::MAX), high);
        assert_eq!(with_policy(77, 5), Priority::USUAL);
    }
}
