//! Hierarchical timer wheel: four levels of 64 slots, 1 ms at the lowest, some 4.6 hours in all. Arming and cancelling
//! take constant time.
//!
//! A timer is a number below the capacity that the owner chose (the index of a connection). Each level's slots are
//! doubly linked lists through one array of nodes.
//!
//! Invariants:
//! - A timer is in at most one slot.
//! - A timer fires at the first advance to a millisecond not before its deadline, never earlier.

use alloc::vec::Vec;

use crate::time::{MILLISECOND, Time};

const LEVELS: usize = 4;
const BITS: u32 = 6;
const SLOTS: usize = 1 << BITS;
const NONE: u32 = u32::MAX;
/// Timers for which there is room, whatever becomes of them.
const SMALL: usize = 128;

#[derive(Clone, Copy, Debug)]
struct Node {
    next: u32,
    previous: u32,
    /// Slot number over all levels, or [`NONE`] when the timer is not armed.
    slot: u32,
    /// Millisecond of the deadline, rounded up.
    due: u64,
}

const IDLE: Node = Node { next: NONE, previous: NONE, slot: NONE, due: 0 };

#[derive(Debug)]
pub struct Wheel {
    nodes: Vec<Node>,
    heads: [u32; LEVELS * SLOTS],
    /// Which slots of a level are not empty.
    occupied: [u64; LEVELS],
    /// The millisecond up to which timers have fired.
    now: u64,
    armed: usize,
}

impl Wheel {
    pub fn new(now: Time) -> Self {
        Self { nodes: Vec::new(), heads: [NONE; LEVELS * SLOTS], occupied: [0; LEVELS], now: now.millis(), armed: 0 }
    }

    /// Timers that have a deadline.
    pub fn armed(&self) -> usize {
        self.armed
    }

    /// Sets the deadline of a timer; [`Time::NEVER`] cancels it.
    pub fn arm(&mut self, timer: u32, deadline: Time) {
        self.cancel(timer);
        if deadline.is_never() {
            return;
        }
        let index = timer as usize;
        if index >= self.nodes.len() {
            self.nodes.resize(index + 1, IDLE);
        }
        self.nodes[index].due = deadline.micros().div_ceil(MILLISECOND);
        self.insert(timer);
        self.armed += 1;
    }

    pub fn cancel(&mut self, timer: u32) {
        if self.nodes.get(timer as usize).is_some_and(|node| node.slot != NONE) {
            self.unlink(timer);
            self.armed -= 1;
            self.forget_unused();
        }
    }

    /// Gives back the room of many timers once none is armed.
    fn forget_unused(&mut self) {
        if self.armed == 0 && self.nodes.len() > SMALL {
            self.nodes = Vec::new();
        }
    }

    /// Level and slot by the distance to the deadline. What is farther than the wheel reaches waits in the last
    /// slot of the highest level and is sorted in again from there.
    fn place(&self, due: u64) -> usize {
        let reach = self.now + (1 << (BITS * LEVELS as u32)) - 1;
        let due = due.clamp(self.now + 1, reach);
        let distance = due ^ self.now;
        let level = (63 - distance.leading_zeros()) / BITS;
        // A carry into the bits above the highest level keeps the timer there.
        let level = level.min(LEVELS as u32 - 1);
        let slot = (due >> (level * BITS)) as usize % SLOTS;
        level as usize * SLOTS + slot
    }

    fn insert(&mut self, timer: u32) {
        let slot = self.place(self.nodes[timer as usize].due);
        let head = self.heads[slot];
        let node = &mut self.nodes[timer as usize];
        (node.next, node.previous, node.slot) = (head, NONE, slot as u32);
        if head != NONE {
            self.nodes[head as usize].previous = timer;
        }
        self.heads[slot] = timer;
        self.occupied[slot / SLOTS] |= 1 << (slot % SLOTS);
    }

    fn unlink(&mut self, timer: u32) {
        let node = self.nodes[timer as usize];
        let slot = node.slot as usize;
        match node.previous {
            NONE => self.heads[slot] = node.next,
            previous => self.nodes[previous as usize].next = node.next,
        }
        if node.next != NONE {
            self.nodes[node.next as usize].previous = node.previous;
        }
        if self.heads[slot] == NONE {
            self.occupied[slot / SLOTS] &= !(1 << (slot % SLOTS));
        }
        self.nodes[timer as usize].slot = NONE;
    }

    /// Moves the wheel to `now` and appends the timers that are due to `fired`.
    pub fn advance(&mut self, now: Time, fired: &mut Vec<u32>) {
        let target = now.millis();
        while self.now < target {
            let Some(next) = self.next_stop().filter(|next| *next <= target) else {
                self.now = target;
                return;
            };
            self.now = next;
            self.empty_slots(fired);
        }
    }

    /// The next millisecond at which a slot has to be emptied.
    fn next_stop(&self) -> Option<u64> {
        (0..LEVELS).filter_map(|level| self.next_stop_of(level)).min()
    }

    fn next_stop_of(&self, level: usize) -> Option<u64> {
        let shift = level as u32 * BITS;
        let current = self.now >> shift;
        let ahead = self.occupied[level].rotate_right((current % SLOTS as u64) as u32);
        // The current slot itself lies a whole turn ahead.
        let ahead = if ahead & !1 != 0 { ahead & !1 } else { ahead };
        let steps = match ahead {
            0 => return None,
            1 => SLOTS as u64,
            bits => u64::from(bits.trailing_zeros()),
        };
        Some((current + steps) << shift)
    }

    /// Empties the slot of each level that begins at this millisecond: due timers fire, the others move down.
    fn empty_slots(&mut self, fired: &mut Vec<u32>) {
        for level in (0..LEVELS).rev() {
            let shift = level as u32 * BITS;
            if self.now & ((1 << shift) - 1) != 0 {
                continue;
            }
            let slot = level * SLOTS + (self.now >> shift) as usize % SLOTS;
            let mut timer = self.heads[slot];
            while timer != NONE {
                let next = self.nodes[timer as usize].next;
                self.unlink(timer);
                if self.nodes[timer as usize].due <= self.now {
                    self.armed -= 1;
                    fired.push(timer);
                } else {
                    self.insert(timer);
                }
                timer = next;
            }
        }
        self.forget_unused();
    }

    /// A time not after the earliest deadline; exact for deadlines less than 64 ms away.
    pub fn deadline(&self) -> Time {
        let stop = self.next_stop();
        stop.map_or(Time::NEVER, |millis| Time::from_micros(millis * MILLISECOND))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::SECOND;

    fn at(micros: u64) -> Time {
        Time::from_micros(micros)
    }

    /// Runs the wheel as an owner does: sleep until its deadline, advance, look.
    fn fire_times(wheel: &mut Wheel, until: Time) -> Vec<(u64, u32)> {
        let mut times = Vec::new();
        let mut fired = Vec::new();
        while wheel.deadline() <= until {
            let now = wheel.deadline();
            wheel.advance(now, &mut fired);
            times.extend(fired.drain(..).map(|timer| (now.millis(), timer)));
        }
        times
    }

    #[test]
    fn timers_fire_at_their_millisecond() {
        let spans =
            [1, 2, 63, 64, 65, 127, 128, 1000, 4095, 4096, 4097, 262_143, 262_144, 300_000, 7_200_000, 20_000_000];
        for start in [0, 1, 63, 64, 4095, 999_999, 16_777_215] {
            let mut wheel = Wheel::new(at(start * MILLISECOND));
            for (timer, span) in spans.iter().enumerate() {
                wheel.arm(timer as u32, at((start + span) * MILLISECOND));
            }
            let times = fire_times(&mut wheel, at(40_000 * SECOND));
            let expected: Vec<(u64, u32)> =
                spans.iter().enumerate().map(|(timer, span)| (start + span, timer as u32)).collect();
            assert_eq!(times, expected, "from {start}");
            assert_eq!(wheel.armed(), 0);
        }
    }

    #[test]
    fn a_timer_is_rounded_up_and_never_early() {
        let mut wheel = Wheel::new(at(0));
        let mut fired = Vec::new();
        wheel.arm(3, at(1_001));
        wheel.advance(at(1_999), &mut fired);
        assert!(fired.is_empty());
        wheel.advance(at(2_000), &mut fired);
        assert_eq!(fired, [3]);
    }

    #[test]
    fn a_deadline_in_the_past_fires_at_the_next_millisecond() {
        let mut wheel = Wheel::new(at(5_000));
        let mut fired = Vec::new();
        wheel.arm(0, at(0));
        wheel.advance(at(6_000), &mut fired);
        assert_eq!(fired, [0]);
    }

    #[test]
    fn cancelled_and_armed_again() {
        let mut wheel = Wheel::new(at(0));
        let mut fired = Vec::new();
        for timer in 0..100 {
            wheel.arm(timer, at(u64::from(timer) * 50_000));
        }
        for timer in (0..100).step_by(2) {
            wheel.cancel(timer);
        }
        wheel.arm(1, at(9 * SECOND));
        wheel.arm(1, Time::NEVER);
        wheel.advance(at(20 * SECOND), &mut fired);
        fired.sort_unstable();
        assert_eq!(fired, (3..100).step_by(2).collect::<Vec<u32>>());
        assert_eq!((wheel.armed(), wheel.deadline()), (0, Time::NEVER));
    }
}
