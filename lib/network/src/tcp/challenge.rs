//! Limit of challenge acknowledgements (RFC 5961, 7): so many a second for a whole stack, so that a blind attacker can
//! make it neither a flood nor an oracle.

use crate::time::{SECOND, Time};

const PER_SECOND: u32 = 100;

#[derive(Debug, Default)]
pub struct ChallengeLimit {
    second: u64,
    used: u32,
    /// What varies the limit, so that the number of answers reveals nothing to a stranger (CVE-2016-5696).
    state: u64,
}

impl ChallengeLimit {
    pub fn new(seed: u64) -> Self {
        Self { state: seed | 1, ..Self::default() }
    }

    pub fn allows(&mut self, now: Time) -> bool {
        let second = now.micros() / SECOND;
        if second != self.second {
            self.state ^= self.state << 13;
            self.state ^= self.state >> 7;
            self.state ^= self.state << 17;
            (self.second, self.used) = (second, (self.state % u64::from(PER_SECOND / 2)) as u32);
        }
        self.used += 1;
        self.used <= PER_SECOND
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_78_challenges_are_limited_and_the_limit_varies() {
        let mut limit = ChallengeLimit::new(7);
        let counts: alloc::vec::Vec<usize> = (1..20)
            .map(|second| (0..1_000).filter(|_| limit.allows(Time::from_micros(second * SECOND))).count())
            .collect();
        assert!(counts.iter().all(|count| (50..=100).contains(count)), "{counts:?}");
        assert!(counts.iter().any(|count| *count != counts[0]));
    }
}
