//! Demultiplexing: from the keyed hash of a pair of endpoints to what answers for it. The lookup comes before any
//! protocol work.
//!
//! Open addressing with linear probing; removal closes the gap, so there are no tombstones. Peers choose their ports
//! and addresses, but not the key of the hash, so they cannot fill one place.
//!
//! Invariant: at most three quarters of the slots are in use.

use alloc::vec::Vec;

/// What answers for a pair: an index into the table of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Block(u32),
    Embryo(u32),
    TimeWait(u32),
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    hash: u64,
    target: Option<Target>,
}

const EMPTY: Slot = Slot { hash: 0, target: None };
const LEAST: usize = 16;
/// Slots that stay, whatever becomes of their entries.
const SMALL: usize = 256;

#[derive(Debug, Default)]
pub struct Demux {
    slots: Vec<Slot>,
    used: usize,
}

impl Demux {
    pub fn len(&self) -> usize {
        self.used
    }

    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    fn mask(&self) -> usize {
        self.slots.len() - 1
    }

    fn place(&self, hash: u64) -> usize {
        hash as usize & self.mask()
    }

    /// The target under this hash that `is_it` accepts.
    pub fn find(&self, hash: u64, mut is_it: impl FnMut(Target) -> bool) -> Option<Target> {
        if self.slots.is_empty() {
            return None;
        }
        let mut at = self.place(hash);
        while let Some(target) = self.slots[at].target {
            if self.slots[at].hash == hash && is_it(target) {
                return Some(target);
            }
            at = (at + 1) & self.mask();
        }
        None
    }

    pub fn insert(&mut self, hash: u64, target: Target) {
        if (self.used + 1) * 4 > self.slots.len() * 3 {
            self.resize((self.slots.len() * 2).max(LEAST));
        }
        self.place_new(hash, target);
        self.used += 1;
    }

    fn place_new(&mut self, hash: u64, target: Target) {
        let mut at = self.place(hash);
        while self.slots[at].target.is_some() {
            at = (at + 1) & self.mask();
        }
        self.slots[at] = Slot { hash, target: Some(target) };
    }

    fn resize(&mut self, count: usize) {
        self.move_to(alloc::vec![EMPTY; count]);
    }

    /// Moves the entries to a quarter of the slots, where there is memory for these.
    fn move_to_less(&mut self) {
        let (mut slots, count) = (Vec::new(), self.slots.len() / 4);
        if slots.try_reserve_exact(count).is_ok() {
            slots.resize(count, EMPTY);
            self.move_to(slots);
        }
    }

    /// Moves the entries to empty slots.
    fn move_to(&mut self, slots: Vec<Slot>) {
        for slot in core::mem::replace(&mut self.slots, slots) {
            if let Some(target) = slot.target {
                self.place_new(slot.hash, target);
            }
        }
    }

    /// Removes an entry; false when there is none.
    pub fn remove(&mut self, hash: u64, target: Target) -> bool {
        if self.slots.is_empty() {
            return false;
        }
        let mut at = self.place(hash);
        loop {
            match self.slots[at].target {
                None => return false,
                Some(found) if found == target && self.slots[at].hash == hash => break,
                Some(_) => at = (at + 1) & self.mask(),
            }
        }
        self.close_gap(at);
        self.used -= 1;
        if self.used * 16 < self.slots.len() && self.slots.len() > SMALL {
            self.move_to_less();
        }
        true
    }

    /// Moves later entries of the same run back, so that each can be reached from its place.
    fn close_gap(&mut self, mut gap: usize) {
        let mut at = (gap + 1) & self.mask();
        while self.slots[at].target.is_some() {
            let home = self.place(self.slots[at].hash);
            let from_home = at.wrapping_sub(home) & self.mask();
            let from_gap = at.wrapping_sub(gap) & self.mask();
            if from_home >= from_gap {
                self.slots[gap] = self.slots[at];
                gap = at;
            }
            at = (at + 1) & self.mask();
        }
        self.slots[gap] = EMPTY;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(index: u32) -> u64 {
        u64::from(index).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    #[test]
    fn no_room_is_kept_for_many_that_are_gone() {
        let mut demux = Demux::default();
        (0..10_000).for_each(|index| demux.insert(hash(index), Target::Block(index)));
        for index in 3..10_000 {
            assert!(demux.remove(hash(index), Target::Block(index)));
        }
        assert!(demux.slots.len() <= SMALL);
        for index in 0..6 {
            let found = demux.find(hash(index), |target| target == Target::Block(index));
            assert_eq!(found.is_some(), index < 3);
        }
    }

    #[test]
    fn agrees_with_a_list_under_collisions() {
        let mut demux = Demux::default();
        let mut list: Vec<(u64, Target)> = Vec::new();
        let mut state = 1_u64;
        for turn in 0..20_000_u32 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let hash = state >> 60;
            if state >> 40 & 3 == 0 && !list.is_empty() {
                let (hash, target) = list.swap_remove(state as usize >> 8 & 0xffff & (list.len() - 1).min(0xffff));
                assert!(demux.remove(hash, target));
                assert!(!demux.remove(hash, target));
            } else if list.len() < 40 {
                list.push((hash, Target::Block(turn)));
                demux.insert(hash, Target::Block(turn));
            }
            assert_eq!(demux.len(), list.len());
            for &(hash, target) in &list {
                assert_eq!(demux.find(hash, |found| found == target), Some(target));
            }
        }
    }
}
