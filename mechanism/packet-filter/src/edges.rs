//! The edges of one branch: its records, found by their constants.
//!
//! Up to four are a short list, which the compiler burns into the code. More are a hash table with linear probing,
//! whose multiplier is drawn from the classifier's secret. No key lies further than [`REACH`] from its place and at
//! most half of the slots are used. So a lookup is short whatever constants an attacker picks. Growing fills a new
//! table some slots at a time ([`Growth`]) while the old one serves; deleting closes the gap, so there are no
//! tombstones.

use crate::record::HEAD;
use crate::refusal::Refusal;
use crate::words::Words;

/// Edges of a list.
pub(crate) const LIST: u32 = 4;
/// Capacity of the smallest hash table, as a power of two.
const LEAST_TABLE: u32 = 4;
/// Keys up to which a table has room to spare. In a table that is mostly empty, packets for no one find an empty slot
/// at once, which branch prediction learns.
const SMALL: u32 = 64;
/// Slots a key may lie from its place.
const REACH: u32 = 32;

/// The edges of one branch, in a block of a word a slot: the edge's record, 0 for none.
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
    /// A hash table's second block: what it shows of its records, slot by slot. Compiled code reads this one.
    pub(crate) heads: u32,
}

impl Edges {
    fn table(words: &mut Words<'_>, order: u32, multiplier: u32) -> Result<Self, Refusal> {
        let heads = words.take(HEAD << order)?;
        let block = words.take(1 << order).inspect_err(|_| words.give(heads, HEAD << order))?;
        Ok(Self { block, order, count: 0, multiplier: multiplier | 1, heads })
    }

    /// Gives the blocks back, not the records.
    pub(crate) fn release(self, words: &mut Words<'_>) {
        words.give(self.block, 1 << self.order);
        if self.is_table() {
            words.give(self.heads, HEAD << self.order);
        }
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
    pub(crate) fn slot(&self, words: &Words<'_>, slot: u32) -> u32 {
        words.get(self.block + slot)
    }

    fn set_slot(&self, words: &mut Words<'_>, slot: u32, record: u32) {
        words.set(self.block + slot, record);
        if self.is_table() {
            words.show(self.heads + HEAD * slot, record);
        }
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
        let holds = |slot: u32| words.key(self.slot(words, slot)) == key;
        if !self.is_table() {
            return (0..self.count).find(|slot| holds(*slot));
        }
        let mut slot = self.place(key);
        while self.slot(words, slot) != 0 {
            if holds(slot) {
                return Some(slot);
            }
            slot = self.after(slot);
        }
        None
    }

    /// The edge with a key; 0 for none.
    pub(crate) fn find(&self, words: &Words<'_>, key: u32) -> u32 {
        self.position(words, key).map_or(0, |slot| self.slot(words, slot))
    }

    /// The only edge; for branches that have one.
    pub(crate) fn only(&self, words: &Words<'_>) -> u32 {
        (0..self.slots()).map(|slot| self.slot(words, slot)).find(|record| *record != 0).unwrap_or(0)
    }

    /// Puts an edge in the place of the one with the same key, which is there.
    pub(crate) fn replace(&self, words: &mut Words<'_>, record: u32) {
        if let Some(slot) = self.position(words, words.key(record)) {
            self.set_slot(words, slot, record);
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
            if self.slot(words, slot) == 0 {
                return Some(slot);
            }
            slot = self.after(slot);
        }
        None
    }

    /// Adds an edge with a new key if there is room; says whether there was.
    pub(crate) fn add(&mut self, words: &mut Words<'_>, record: u32) -> bool {
        let Some(slot) = self.room(words, words.key(record)) else { return false };
        self.set_slot(words, slot, record);
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
            self.set_slot(words, slot, self.slot(words, self.count));
        }
    }

    /// Moves later keys of the same run back, so that no lookup meets a hole before its key.
    fn close_gap(&self, words: &mut Words<'_>, mut hole: u32) {
        let mask = (1 << self.order) - 1;
        let mut slot = hole;
        loop {
            slot = self.after(slot);
            let record = self.slot(words, slot);
            if record == 0 {
                break;
            }
            let from_place = slot.wrapping_sub(self.place(words.key(record))) & mask;
            if from_place >= slot.wrapping_sub(hole) & mask {
                self.set_slot(words, hole, record);
                hole = slot;
            }
        }
        self.set_slot(words, hole, 0);
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
                self.table.set_slot(words, self.cleared, 0);
                self.cleared += 1;
            } else if self.copied < edges.slots() {
                let record = edges.slot(words, self.copied);
                self.copied += 1;
                if record != 0 && !self.table.add(words, record) {
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
