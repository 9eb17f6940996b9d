//! What is known at one place of a program: registers, stack frame, and how long each region is at least.
//!
//! The frame's 512 bytes are 64 slots of eight. For each byte, one bit says whether it was written, one whether it may
//! have been, and one whether it may be part of a pointer. The values of up to [`TRACKED_SLOTS`] slots that were
//! written whole are kept. A pointer can be read back only as a whole slot that is tracked. Its bytes are never
//! readable as a number, not even those that are left when it is partly overwritten. Registers that move in step are
//! tied to each other ([`super::tie`]); a pointer may share room with a number ([`super::room`]).

use super::merge::Effort;
use super::room::{Room, Rooms};
use super::tie::{Tie, Ties};
use super::value::{Kind, VALUE_WORDS, Value};
use crate::context::MAX_REGIONS;
use crate::instruction::FRAME_POINTER;
use crate::invocation::FRAME_SIZE;

/// Registers with a value of their own: r10 is always the frame's end.
pub(crate) const TRACKED_REGISTERS: usize = 10;
/// Slots whose values are kept.
pub(crate) const TRACKED_SLOTS: usize = 24;
/// Words of a packed state: visits, three bits for each byte of the frame, proven lengths, ties, rooms, registers,
/// slots.
pub(crate) const STATE_WORDS: usize = VALUES_AT + (TRACKED_REGISTERS + TRACKED_SLOTS) * VALUE_WORDS;

/// Where the values start in a packed state.
pub(crate) const VALUES_AT: usize = ROOMS_AT + TRACKED_REGISTERS;
/// Where the rooms start.
const ROOMS_AT: usize = TIES_AT + TRACKED_REGISTERS;
/// Where the ties start.
const TIES_AT: usize = 1 + 8 + 8 + 8 + MAX_REGIONS / 2;
/// The tag of a tracked slot that is not in use.
pub(crate) const NO_SLOT: u8 = u8::MAX;

/// The state at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    registers: [Value; TRACKED_REGISTERS],
    pub(super) ties: Ties,
    pub(super) rooms: Rooms,
    slots: [(u8, Value); TRACKED_SLOTS],
    written: [u64; 8],
    touched: [u64; 8],
    pointers: [u64; 8],
    /// Bytes that each region has at least.
    pub(crate) proven: [u32; MAX_REGIONS],
}

impl State {
    /// Nothing written, nothing known.
    pub(crate) const EMPTY: Self = Self {
        registers: [Value::UNWRITTEN; TRACKED_REGISTERS],
        ties: Ties::NONE,
        rooms: Rooms::NONE,
        slots: [(NO_SLOT, Value::UNINITIALISED); TRACKED_SLOTS],
        written: [0; 8],
        touched: [0; 8],
        pointers: [0; 8],
        proven: [0; MAX_REGIONS],
    };

    /// Value of a register; r10 points to the end of the frame.
    pub(crate) fn register(&self, register: u8) -> Value {
        match self.registers.get(usize::from(register)) {
            Some(value) => *value,
            None => Value::pointer(Kind::Stack, 0),
        }
    }

    /// Gives a register other than r10 another value.
    pub(crate) fn set_register(&mut self, register: u8, value: Value) {
        self.set_bound(register, value, None, None);
    }

    /// Gives a register a value that is tied to another's.
    pub(crate) fn set_tied(&mut self, register: u8, value: Value, tie: Option<Tie>) {
        self.set_bound(register, value, tie, None);
    }

    /// Gives a register what another one has.
    pub(crate) fn set_copied(&mut self, register: u8, value: Value, source: u8) {
        let (tie, room) = (self.tie_of_copy(source), self.rooms.get(source));
        self.set_bound(register, value, tie, room);
    }

    fn set_bound(&mut self, register: u8, value: Value, tie: Option<Tie>, room: Option<Room>) {
        self.know(register, value);
        self.ties.overwrite(register, tie);
        self.rooms.overwrite(register, room);
    }

    /// Moves a register, of which `before` is known, by a constant, to this value.
    pub(crate) fn step_register(&mut self, register: u8, before: &Value, value: Value, by: i64) {
        self.know(register, value);
        self.ties.step(register, by);
        self.rooms.step(register, before, by);
    }

    /// Notes what else is known of the value that a register has.
    pub(crate) fn know(&mut self, register: u8, value: Value) {
        debug_assert!(register < FRAME_POINTER);
        if let Some(place) = self.registers.get_mut(usize::from(register)) {
            *place = value;
        }
    }

    /// Changes every value, in registers and slots.
    pub(crate) fn for_each(&mut self, mut change: impl FnMut(&mut Value)) {
        self.registers.iter_mut().for_each(&mut change);
        self.slots.iter_mut().filter(|(slot, _)| *slot != NO_SLOT).for_each(|(_, value)| change(value));
    }

    /// Values with this origin are copies of nothing any more.
    pub(crate) fn forget_origin(&mut self, number: u16) {
        self.for_each(|value| {
            if value.origin.is_some_and(|origin| origin.number == number) {
                value.origin = None;
            }
        });
    }

    /// Calls leave nothing in r1 to r5.
    pub(crate) fn forget_arguments(&mut self) {
        (1..6).for_each(|register| self.set_register(register, Value::UNINITIALISED));
    }

    /// The value of a slot that is tracked.
    pub(crate) fn slot(&self, slot: u8) -> Option<Value> {
        self.slots.iter().find(|(number, _)| *number == slot).map(|(_, value)| *value)
    }

    /// Writes a whole slot. `false` when it is a pointer and the table is full of pointers.
    pub(crate) fn set_slot(&mut self, slot: u8, value: Value) -> bool {
        let byte = i64::from(slot) * 8;
        self.write_plain(byte, 8);
        let free = self.slots.iter().position(|(number, _)| *number == NO_SLOT);
        if !value.is_number() {
            set_bits(&mut self.pointers, byte, 8, true);
        }
        let place = match free {
            None if value.is_number() => return true,
            None => self.slots.iter().position(|(_, value)| value.is_number()),
            found => found,
        };
        if let Some(place) = place {
            self.slots[place] = (slot, value);
        }
        place.is_some()
    }

    /// Whether all of `size` bytes from `byte` (counted from the frame's lowest) were written.
    pub(crate) fn all_written(&self, byte: i64, size: i64) -> bool {
        words_of(byte, size).all(|(word, mask)| self.written[word] & mask == mask)
    }

    /// Whether all of these bytes were written, or may have been at a place that is not known.
    pub(crate) fn all_touched(&self, byte: i64, size: i64) -> bool {
        words_of(byte, size).all(|(word, mask)| (self.written[word] | self.touched[word]) & mask == mask)
    }

    /// Whether any of these bytes may be part of a pointer.
    pub(crate) fn has_pointer(&self, byte: i64, size: i64) -> bool {
        words_of(byte, size).any(|(word, mask)| self.pointers[word] & mask != 0)
    }

    /// These bytes are written for certain, with no pointer; slots that they touch lose their values.
    pub(crate) fn write_plain(&mut self, byte: i64, size: i64) {
        self.spoil(byte, size);
        set_bits(&mut self.written, byte, size, true);
        set_bits(&mut self.pointers, byte, size, false);
    }

    /// Some of these bytes may be written, with no pointer.
    pub(crate) fn spoil(&mut self, byte: i64, size: i64) {
        for entry in &mut self.slots {
            if entry.0 != NO_SLOT && touches(entry.0, byte, size) {
                *entry = (NO_SLOT, Value::UNINITIALISED);
            }
        }
        set_bits(&mut self.touched, byte, size, true);
    }

    /// The widest run of bytes around `byte` without any byte of a pointer: its start and end.
    pub(crate) fn plain_window(&self, byte: i64) -> (i64, i64) {
        let place = byte.clamp(0, i64::from(FRAME_SIZE)) as usize;
        let is_plain = |byte: usize| self.pointers[byte / 64] >> (byte % 64) & 1 == 0;
        let start = (0..place).rev().find(|byte| !is_plain(*byte)).map_or(0, |byte| byte + 1);
        let end = (place..FRAME_SIZE as usize).find(|byte| !is_plain(*byte)).unwrap_or(FRAME_SIZE as usize);
        (start as i64, end as i64)
    }

    /// Writes the packed form; the first word is the caller's.
    pub(crate) fn store(&self, words: &mut [u64; STATE_WORDS]) {
        words[1..9].copy_from_slice(&self.written);
        words[9..17].copy_from_slice(&self.touched);
        words[17..25].copy_from_slice(&self.pointers);
        for (word, pair) in words[25..TIES_AT].iter_mut().zip(self.proven.chunks_exact(2)) {
            *word = u64::from(pair[0]) | u64::from(pair[1]) << 32;
        }
        words[TIES_AT..ROOMS_AT].copy_from_slice(&self.ties.pack());
        words[ROOMS_AT..VALUES_AT].copy_from_slice(&self.rooms.pack());
        let values = self.registers.iter().map(|value| value.pack(NO_SLOT));
        let values = values.chain(self.slots.iter().map(|(slot, value)| value.pack(*slot)));
        for (place, value) in words[VALUES_AT..].chunks_exact_mut(VALUE_WORDS).zip(values) {
            place.copy_from_slice(&value);
        }
    }

    /// Reads the packed form.
    pub(crate) fn load(&mut self, words: &[u64; STATE_WORDS]) {
        self.written.copy_from_slice(&words[1..9]);
        self.touched.copy_from_slice(&words[9..17]);
        self.pointers.copy_from_slice(&words[17..25]);
        for (pair, word) in self.proven.chunks_exact_mut(2).zip(&words[25..TIES_AT]) {
            (pair[0], pair[1]) = (*word as u32, (*word >> 32) as u32);
        }
        if let Some(ties) = words[TIES_AT..].first_chunk() {
            self.ties = Ties::unpack(ties);
        }
        if let Some(rooms) = words[ROOMS_AT..].first_chunk() {
            self.rooms = Rooms::unpack(rooms);
        }
        let mut values = words[VALUES_AT..].as_chunks::<VALUE_WORDS>().0.iter().map(Value::unpack);
        for (place, (value, _)) in self.registers.iter_mut().zip(&mut values) {
            *place = value;
        }
        for (place, (value, slot)) in self.slots.iter_mut().zip(values) {
            *place = (slot, value);
        }
    }

    /// Replaces one part of this state by one that covers both, value by value with `merge`. Says whether anything
    /// changed. With [`Effort::GiveUp`], whatever changes in the frame is lost altogether.
    pub(crate) fn merge(
        &mut self,
        other: &Self,
        part: Part,
        effort: Effort,
        merge: impl FnMut(&Merge<'_>) -> Value,
    ) -> bool {
        match part {
            Part::Bonds => self.merge_bonds(other, effort),
            Part::Registers => self.merge_registers(other, merge),
            Part::LowSlots => self.merge_slots(other, 0..TRACKED_SLOTS / 2, merge),
            Part::HighSlots => {
                self.merge_slots(other, TRACKED_SLOTS / 2..TRACKED_SLOTS, merge)
                    | self.merge_bits(other, effort == Effort::GiveUp)
            }
        }
    }

    fn merge_bonds(&mut self, other: &Self, effort: Effort) -> bool {
        let new = effort == Effort::Exact;
        let (ties, rooms) = (Ties::met(self, other, new), Rooms::met(self, other, new));
        let changed = ties != self.ties || rooms != self.rooms;
        (self.ties, self.rooms) = (ties, rooms);
        changed
    }

    fn merge_registers(&mut self, other: &Self, mut merge: impl FnMut(&Merge<'_>) -> Value) -> bool {
        let mut changed = false;
        for (place, new) in self.registers.iter_mut().zip(other.registers) {
            let old = *place;
            if old != new {
                *place = merge(&Merge { old, new, old_proven: &self.proven, new_proven: &other.proven });
                changed |= *place != old;
            }
        }
        changed
    }

    fn merge_slots(
        &mut self,
        other: &Self,
        which: core::ops::Range<usize>,
        mut merge: impl FnMut(&Merge<'_>) -> Value,
    ) -> bool {
        let mut changed = false;
        for entry in &mut self.slots[which] {
            let (slot, old) = *entry;
            if slot == NO_SLOT {
                continue;
            }
            let merged = other.slot(slot).map(|new| {
                let pair = Merge { old, new, old_proven: &self.proven, new_proven: &other.proven };
                if old == new { old } else { merge(&pair) }
            });
            let kept = merged.filter(|value| value.is_number() || value.is_pointer());
            *entry = kept.map_or((NO_SLOT, Value::UNINITIALISED), |value| (slot, value));
            changed |= *entry != (slot, old);
        }
        changed
    }

    fn merge_bits(&mut self, other: &Self, give_up: bool) -> bool {
        let before = (self.written, self.touched, self.pointers);
        for (old, new) in self.written.iter_mut().zip(other.written) {
            *old &= new;
        }
        for (old, new) in self.touched.iter_mut().zip(other.touched) {
            *old |= new;
        }
        for (old, new) in self.pointers.iter_mut().zip(other.pointers) {
            *old |= new;
        }
        let changed = before != (self.written, self.touched, self.pointers);
        if changed && give_up {
            (self.written, self.touched, self.pointers) = ([0; 8], [u64::MAX; 8], [u64::MAX; 8]);
            self.slots = [(NO_SLOT, Value::UNINITIALISED); TRACKED_SLOTS];
        }
        changed
    }

    /// Keeps of each region only the length that both sides know, or, with `floor`, when they differ, that one. Says
    /// whether anything changed.
    pub(crate) fn merge_proven(&mut self, other: &Self, floor: Option<&[u32; MAX_REGIONS]>) -> bool {
        let before = self.proven;
        for (index, (old, new)) in self.proven.iter_mut().zip(other.proven).enumerate() {
            if new < *old {
                *old = floor.map_or(new, |floor| floor[index].min(new));
            }
        }
        before != self.proven
    }
}

/// A part of a state that is merged in one unit of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Ties and rooms: before the registers, from whose values new ones are made.
    Bonds,
    Registers,
    LowSlots,
    HighSlots,
}

impl Part {
    /// The part after this one.
    pub(crate) fn next(self) -> Option<Self> {
        match self {
            Self::Bonds => Some(Self::Registers),
            Self::Registers => Some(Self::LowSlots),
            Self::LowSlots => Some(Self::HighSlots),
            Self::HighSlots => None,
        }
    }
}

/// Two values to merge, with what is proven about the regions on either side.
pub(crate) struct Merge<'a> {
    pub(crate) old: Value,
    pub(crate) new: Value,
    pub(crate) old_proven: &'a [u32; MAX_REGIONS],
    pub(crate) new_proven: &'a [u32; MAX_REGIONS],
}

fn touches(slot: u8, byte: i64, size: i64) -> bool {
    let start = i64::from(slot) * 8;
    start < byte + size && byte < start + 8
}

fn set_bits(map: &mut [u64; 8], byte: i64, size: i64, on: bool) {
    for (word, mask) in words_of(byte, size) {
        map[word] = if on { map[word] | mask } else { map[word] & !mask };
    }
}

/// The words of the bit map, and the bits in each, that stand for these bytes of the frame.
fn words_of(byte: i64, size: i64) -> impl Iterator<Item = (usize, u64)> {
    let end = (byte + size).clamp(0, i64::from(FRAME_SIZE));
    let start = byte.clamp(0, end);
    (start / 64..(end + 63) / 64).map(move |word| {
        let from = (start - word * 64).max(0) as u32;
        let count = (end - word * 64).min(64) as u32 - from;
        let ones = u64::MAX.checked_shr(64 - count).unwrap_or(0);
        (word as usize, ones << from)
    })
}
