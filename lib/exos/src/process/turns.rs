//! How nice a process is (sched(7)): who computes and has a lower priority leaves slices of its own to the others.
//!
//! The kernel shares a CPU out alike among those who have a position there. A thread with a nice value takes one slice of several: with
//! each step a fifth less of what others take. It decides so by itself, and knows nothing of theirs: two that are equally nice leave
//! each other as many. Where nobody else wants the CPU it takes every one. Whoever has waited for something does not come here, and
//! runs at once.

use super::attributes::Attributes;
use linux_raw_sys::general as linux;

/// The share of who takes every slice.
const WHOLE: u32 = 1024;
/// That of who only wants what others leave (`SCHED_IDLE`).
const LEAST: u32 = 3;
/// The priority of who has not said how nice it is.
const USUAL: u64 = 20;

/// The slices that a thread has left to others, as a part of one that it takes.
#[derive(Debug, Default)]
pub struct Turns(u32);

impl Turns {
    /// Whether the slice that begins is one that it takes, when it is scheduled so.
    pub fn takes_next(&mut self, attributes: &Attributes) -> bool {
        self.0 += share(attributes);
        let takes = self.0 >= WHOLE;
        if takes {
            self.0 -= WHOLE;
        }
        takes
    }
}

/// Whether it takes every slice.
pub fn takes_all(attributes: &Attributes) -> bool {
    share(attributes) == WHOLE
}

fn share(attributes: &Attributes) -> u32 {
    match attributes.policy & !super::attributes::RESET_ON_FORK {
        linux::SCHED_IDLE => LEAST,
        linux::SCHED_NORMAL | linux::SCHED_BATCH => {
            let nice = USUAL.saturating_sub(attributes.priority);
            (0..nice).fold(WHOLE, |share, _| (share * 4 + 2) / 5)
        }
        _ => WHOLE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn taken_of_thousands(priority: u64, policy: u32) -> usize {
        let (mut turns, attributes) = (Turns::default(), Attributes { priority, policy, ..Attributes::default() });
        (0..100_000).filter(|_| turns.takes_next(&attributes)).count()
    }

    #[test]
    fn each_step_takes_a_fifth() {
        let taken: Vec<usize> = (0..20).map(|nice| taken_of_thousands(20 - nice, linux::SCHED_NORMAL)).collect();
        assert_eq!(taken[0], 100_000);
        for (more, less) in taken.iter().zip(&taken[1..]) {
            let ratio = *more as f64 / *less as f64;
            assert!((1.2..1.31).contains(&ratio), "{taken:?}");
        }
    }

    #[test]
    fn who_is_idle_takes_least_and_who_has_a_policy_of_its_own_or_is_not_nice_takes_all() {
        assert_eq!(taken_of_thousands(20, linux::SCHED_IDLE), 292);
        for (priority, policy) in [(40, linux::SCHED_NORMAL), (1, linux::SCHED_FIFO), (20, linux::SCHED_BATCH)] {
            assert_eq!(taken_of_thousands(priority, policy), 100_000);
        }
        assert_eq!(taken_of_thousands(1, linux::SCHED_BATCH | super::super::attributes::RESET_ON_FORK), 1_367);
    }
}
