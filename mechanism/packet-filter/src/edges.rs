//! The edges of one branch: constants and where each leads.
//!
//! Up to four are a short list, which the compiler burns into the code. More are a hash table with
//! linear probing: the multiplier is drawn from the classifier's secret, no key lies further than
//! [`REACH`] from its place and at most half of the slots are used, so a lookup is short whatever
//! constants an attacker picks. Growing fills a new table some slots at a time ([`Growth`]) while the
//! old one serves; deleting closes the gap, so there are no tombstones.

use crate::refusal::Refusal;
use crate::target::Target;
use crate::words::Words;

/// Edges of a list.
pub(crate) const LIST: u32 = 4;
/// Capacity of the smallest hash table, as a power of two.
const LEAST_TABLE: u32 = 4;
/// Keys up to which a table has room to spare: in a table that is mostly empty, packets for no one find an empty slot at
/// once, which branch prediction learns.
const SMALL: u32 = 64;
/// Slots a key may lie from its place.
const REACH: u32 = 32;

/// The edges of one branch, in a block of two words a slot: constant, target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Edges {
    /// The block, a word offset.
    pub(crate) block: u32,
    /// The capacity as a power of two.
    pub(crate) order: u32,
    /// Edges in use.
    pub(crate) count: u32,
    /// Odd for a hash table, 0 for a list.
    pub(crate) multiplier: u32,
}

impl Edges {
    fn table(words: &mut Words<'_>, order: u32, multiplier: u32) -> Result<Self, Refusal> {
        let block = words.take(2 << order)?;
        Ok(Self { block, order, count: 0, multiplier: multiplier | 1 })
    }

    /// Gives the block back.
    pub(crate) fn release(self, words: &mut Words<'_>) {
        words.give(self.block, 2 << self.order);
    }

    /// Whether it is hashed.
    pub(crate) fn is_table(&self) -> bool {
        self.multiplier != 0
    }

    /// Slots to look at when visiting all edges.
    pub(crate) fn slots(&self) -> u32 {
        if self.is_table() { 1 << self.order } else { self.count }
    }

    /// The edge in a slot.
    pub(crate) fn slot(&self, words: &Words<'_>, slot: u32) -> (u32, Target) {
        let at = self.block + 2 * slot;
        (words.get(at), Target::from_word(words.get(at + 1)))
    }

    fn set_slot(&self, words: &mut Words<'_>, slot: u32, key: u32, target: Target) {
        let at = self.block + 2 * slot;
        words.set(at, key);
        words.set(at + 1, target.word());
    }

    /// Where a key belongs in a hash table.
    fn place(&self, key: u32) -> u32 {
        key.wrapping_mul(self.multiplier) >> (32 - self.order)
    }

    fn after(&self, slot: u32) -> u32 {
        (slot + 1) & ((1 << self.order) - 1)
    }

    /// The slot that holds a key.
    fn position(&self, words: &Words<'_>, key: u32) -> Option<u32> {
        if !self.is_table() {
            return (0..self.count).find(|slot| self.slot(words, *slot).0 == key);
        }
        let mut slot = self.place(key);
        loop {
            match self.slot(words, slot) {
                (_, Target::None) => return None,
                (found, _) if found == key => return Some(slot),
                _ => slot = self.after(slot),
            }
        }
    }

    /// Where a key leads.
    pub(crate) fn find(&self, words: &Words<'_>, key: u32) -> Target {
        self.position(words, key).map_or(Target::None, |slot| self.slot(words, slot).1)
    }

    /// The only edge's target; for branches that have one edge.
    pub(crate) fn only(&self, words: &Words<'_>) -> Target {
        (0..self.slots())
            .map(|slot| self.slot(words, slot).1)
            .find(|target| *target != Target::None)
            .unwrap_or(Target::None)
    }

    /// Changes where a key leads. The key is there.
    pub(crate) fn replace(&self, words: &mut Words<'_>, key: u32, target: Target) {
        if let Some(slot) = self.position(words, key) {
            self.set_slot(words, slot, key, target);
        }
    }

    /// The slot for a new key, if it may be added without growing.
    fn room(&self, words: &Words<'_>, key: u32) -> Option<u32> {
        if !self.is_table() {
            return (self.count < LIST).then_some(self.count);
        }
        if 2 * (self.count + 1) > 1 << self.order {
            return None;
        }
        let mut slot = self.place(key);
        for _ in 0..REACH {
            if self.slot(words, slot).1 == Target::None {
                return Some(slot);
            }
            slot = self.after(slot);
        }
        None
    }

    /// Adds a new key if there is room; says whether there was.
    pub(crate) fn add(&mut self, words: &mut Words<'_>, key: u32, target: Target) -> bool {
        let Some(slot) = self.room(words, key) else { return false };
        self.set_slot(words, slot, key, target);
        self.count += 1;
        true
    }

    /// Whether [`Self::add`] would find room.
    pub(crate) fn has_room(&self, words: &Words<'_>, key: u32) -> bool {
        self.room(words, key).is_some()
    }

    /// Removes a key, which is there.
    pub(crate) fn remove(&mut self, words: &mut Words<'_>, key: u32) {
        let Some(slot) = self.position(words, key) else { return };
        self.count -= 1;
        if self.is_table() {
            self.close_gap(words, slot);
        } else {
            let (key, target) = self.slot(words, self.count);
            self.set_slot(words, slot, key, target);
        }
    }

    /// Moves later keys of the same run back, so that no lookup meets a hole before its key.
    fn close_gap(&self, words: &mut Words<'_>, mut hole: u32) {
        let mask = (1 << self.order) - 1;
        let mut slot = hole;
        loop {
            slot = self.after(slot);
            let (key, target) = self.slot(words, slot);
            if target == Target::None {
                break;
            }
            let from_place = slot.wrapping_sub(self.place(key)) & mask;
            if from_place >= slot.wrapping_sub(hole) & mask {
                self.set_slot(words, hole, key, target);
                hole = slot;
            }
        }
        self.set_slot(words, hole, 0, Target::None);
    }

    /// Whether a table is so empty that a smaller one should take its place.
    pub(crate) fn is_sparse(&self) -> bool {
        self.is_table() && self.order > LEAST_TABLE && 16 * self.count < 1 << self.order
    }
}

/// A table under construction in the place of another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Growth {
    /// The new table.
    pub(crate) table: Edges,
    cleared: u32,
    copied: u32,
}

impl Growth {
    /// Begins a table for one key more than `edges` has.
    pub(crate) fn begin(words: &mut Words<'_>, edges: &Edges, multiplier: u32) -> Result<Self, Refusal> {
        let count = edges.count + 1;
        let slots = if count <= SMALL { 8 * count } else { 3 * count };
        let order = slots.next_power_of_two().ilog2().max(LEAST_TABLE);
        Ok(Self { table: Edges::table(words, order, multiplier)?, cleared: 0, copied: 0 })
    }

    /// Empties the table again, with another multiplier.
    pub(crate) fn restart(&mut self, multiplier: u32) {
        self.table = Edges { count: 0, multiplier: multiplier | 1, ..self.table };
        (self.cleared, self.copied) = (0, 0);
    }

    /// Clears or copies up to `slots` slots; `true` when the new table holds all that `edges` does.
    /// A key that would lie too far starts again with another multiplier.
    pub(crate) fn step(&mut self, words: &mut Words<'_>, edges: &Edges, slots: u32, multiplier: u32) -> bool {
        let total = 1 << self.table.order;
        for _ in 0..slots {
            if self.cleared < total {
                self.table.set_slot(words, self.cleared, 0, Target::None);
                self.cleared += 1;
            } else if self.copied < edges.slots() {
                let (key, target) = edges.slot(words, self.copied);
                self.copied += 1;
                if target != Target::None && !self.table.add(words, key, target) {
                    self.restart(multiplier);
                    return false;
                }
            } else {
                return true;
            }
        }
        false
    }
}
