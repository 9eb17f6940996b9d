//! A wire that loses, repeats, delays, reorders and damages packets by a seed, with a virtual clock.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use network::time::Time;

use super::random::Random;

/// Chances in thousandths, times in microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    pub loss: u64,
    pub duplication: u64,
    pub reordering: u64,
    pub corruption: u64,
    pub delay: u64,
    pub jitter: u64,
}

impl Faults {
    /// Any mixture, up to 30% loss.
    pub fn draw(random: &mut Random) -> Self {
        let sometimes = |random: &mut Random, most: u64| if random.chance(500) { random.below(most + 1) } else { 0 };
        Self {
            loss: sometimes(random, 300),
            duplication: sometimes(random, 100),
            reordering: sometimes(random, 200),
            corruption: sometimes(random, 50),
            delay: random.between(10, 100_000),
            jitter: sometimes(random, 20_000),
        }
    }
}

/// Arrival, order of sending, receiver, packet.
type Flying = (Time, u64, usize, Vec<u8>);

pub struct Wire {
    faults: Faults,
    random: Random,
    queue: BinaryHeap<Reverse<Flying>>,
    sent: u64,
    /// FIFO unless a packet is reordered: no packet overtakes another by jitter alone.
    last: [Time; 2],
}

impl Wire {
    pub fn new(faults: Faults, seed: u64) -> Self {
        Self { faults, random: Random::new(seed), queue: BinaryHeap::new(), sent: 0, last: [Time::default(); 2] }
    }

    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Gives a packet for end `to` to the wire.
    pub fn send(&mut self, to: usize, packet: &[u8], now: Time) {
        let copies = if self.random.chance(self.faults.duplication) { 2 } else { 1 };
        for _ in 0..copies {
            self.sent += 1;
            if self.random.chance(self.faults.loss) {
                continue;
            }
            let mut packet = packet.to_vec();
            if self.random.chance(self.faults.corruption) {
                let at = self.random.below(packet.len() as u64) as usize;
                packet[at] ^= 1 << self.random.below(8);
            }
            let mut arrival = now.after(self.faults.delay + self.random.below(self.faults.jitter + 1));
            if self.random.chance(self.faults.reordering) {
                arrival = arrival.after(self.random.below(3 * self.faults.delay + 1_000));
            } else {
                arrival = arrival.max(self.last[to]);
                self.last[to] = arrival;
            }
            self.queue.push(Reverse((arrival, self.sent, to, packet)));
        }
    }

    pub fn next_arrival(&self) -> Time {
        self.queue.peek().map_or(Time::NEVER, |Reverse((arrival, ..))| *arrival)
    }

    /// The next packet that has arrived, and its receiver.
    pub fn take(&mut self, now: Time) -> Option<(usize, Vec<u8>)> {
        if self.next_arrival() > now {
            return None;
        }
        self.queue.pop().map(|Reverse((_, _, to, packet))| (to, packet))
    }
}
