//! Faults of a wire: what becomes of a frame by chance, drawn from a seed.

use std::time::Duration;

use chitin::developer::wire::Chance;

use super::random::Random;

/// A frame that is reordered comes later by up to so many delays, and so much more.
const REORDERED: (u64, u64) = (3, 2_000);
/// Bytes of an Ethernet header, which stays whole: on a real wire its checksum would drop the frame.
const HEADER: usize = 14;

/// How often each fault happens, and how long a frame is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    pub loss: Chance,
    pub duplication: Chance,
    pub reordering: Chance,
    pub corruption: Chance,
    pub delay: Duration,
}

/// One copy of a frame that arrives.
#[derive(Debug, PartialEq, Eq)]
pub struct Copy {
    pub frame: Vec<u8>,
    /// Microseconds that it is under way.
    pub delay: u64,
    /// Later frames may overtake it.
    pub is_reordered: bool,
}

/// What happened to frames so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub frames: u64,
    pub lost: u64,
    pub duplicated: u64,
    pub reordered: u64,
    pub corrupted: u64,
}

/// Draws the fate of each frame.
#[derive(Debug)]
pub struct Fate {
    faults: Faults,
    random: Random,
    pub counters: Counters,
}

impl Fate {
    pub fn new(faults: Faults, seed: u64) -> Self {
        Self { faults, random: Random::new(seed), counters: Counters::default() }
    }

    /// The copies of a frame that arrive: none, one or two.
    pub fn draw(&mut self, frame: &[u8]) -> Vec<Copy> {
        self.counters.frames += 1;
        let copies = if self.happens(self.faults.duplication) { 2 } else { 1 };
        self.counters.duplicated += copies - 1;
        (0..copies).filter_map(|_| self.copy(frame)).collect()
    }

    fn copy(&mut self, frame: &[u8]) -> Option<Copy> {
        if self.happens(self.faults.loss) {
            self.counters.lost += 1;
            return None;
        }
        let mut frame = frame.to_vec();
        if self.happens(self.faults.corruption) && is_summed(&frame) {
            self.counters.corrupted += 1;
            let at = HEADER + self.random.below((frame.len() - HEADER) as u64) as usize;
            frame[at] ^= 1 << self.random.below(8);
        }
        let mut delay = self.faults.delay.as_micros() as u64;
        let is_reordered = self.happens(self.faults.reordering);
        if is_reordered {
            self.counters.reordered += 1;
            delay += self.random.below(REORDERED.0 * delay + REORDERED.1);
        }
        Some(Copy { frame, delay, is_reordered })
    }

    fn happens(&mut self, chance: Chance) -> bool {
        chance != Chance::default() && self.random.below(Chance::WHOLE) < chance.parts()
    }
}

/// An IP packet: its own checksums find a flipped bit. Those of ARP have none.
fn is_summed(frame: &[u8]) -> bool {
    frame.len() > HEADER && matches!(frame[12..14], [0x08, 0x00] | [0x86, 0xdd])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(kind: [u8; 2]) -> Vec<u8> {
        [&[0; 12][..], &kind, &[7; 200]].concat()
    }

    /// Copies of 20,000 packets, with one fault of 10%.
    fn with(faults: Faults) -> (Vec<Copy>, Counters) {
        let mut fate = Fate::new(faults, 5);
        let copies = (0..20_000).flat_map(|_| fate.draw(&packet([8, 0]))).collect();
        (copies, fate.counters)
    }

    const TENTH: Chance = Chance::of_percent(10);

    fn is_about_a_tenth(count: u64) -> bool {
        (1_800..2_200).contains(&count)
    }

    #[test]
    fn faults_happen_as_often_as_asked() {
        let (copies, counters) = with(Faults { loss: TENTH, ..Faults::default() });
        assert!(is_about_a_tenth(counters.lost) && copies.len() as u64 == 20_000 - counters.lost);
        let (copies, counters) = with(Faults { duplication: TENTH, ..Faults::default() });
        assert!(is_about_a_tenth(counters.duplicated) && copies.len() as u64 == 20_000 + counters.duplicated);
        let (copies, counters) = with(Faults { reordering: TENTH, ..Faults::default() });
        assert!(is_about_a_tenth(counters.reordered));
        assert!(copies.iter().all(|copy| copy.is_reordered || copy.delay == 0));
        assert!(copies.iter().any(|copy| copy.delay > 1_000));
        let (copies, counters) = with(Faults { corruption: TENTH, ..Faults::default() });
        let flipped = |copy: &Copy| {
            let pairs = copy.frame.iter().zip(packet([8, 0]));
            pairs.map(|(is, was)| (is ^ was).count_ones()).sum::<u32>()
        };
        assert!(is_about_a_tenth(counters.corrupted) && copies.iter().all(|copy| flipped(copy) <= 1));
        assert_eq!(copies.iter().filter(|copy| flipped(copy) == 1).count() as u64, counters.corrupted);
        let slow = Faults { delay: Duration::from_millis(3), ..Faults::default() };
        assert!(with(slow).0.iter().all(|copy| copy.delay == 3_000 && copy.frame == packet([8, 0])));
    }

    #[test]
    fn a_seed_repeats_and_arp_stays_whole() {
        let all = Faults { loss: TENTH, duplication: TENTH, reordering: TENTH, corruption: TENTH, ..Faults::default() };
        let run = |seed| {
            let mut fate = Fate::new(all, seed);
            (0..500).map(|_| fate.draw(&packet([8, 0]))).collect::<Vec<_>>()
        };
        assert!(run(1) == run(1) && run(1) != run(2));
        let mut fate = Fate::new(Faults { corruption: Chance::of_percent(100), ..Faults::default() }, 1);
        assert_eq!(fate.draw(&packet([8, 6]))[0].frame, packet([8, 6]));
        assert_ne!(fate.draw(&packet([0x86, 0xdd]))[0].frame, packet([0x86, 0xdd]));
    }
}
