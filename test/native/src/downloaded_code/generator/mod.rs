//! Random programs that are mostly acceptable and do interesting things.
//!
//! The generator follows what each register holds, so that it seldom uses one wrongly. It builds from patterns that
//! real programs have. Memory: bounds checks before accesses, masked and compared indices, saved registers on the
//! stack, places in the frame that only a jump says, atomic operations. Loops: counting loops, loops to a region's
//! end, pointers that walk to it from unknown places, pointers that move in step with a counter. A pointer may also
//! go up while what is left of a region goes down. Calls: helper calls with buffers on the stack, functions that get
//! pointers into their caller's frame. Half of the programs are then changed in a few bits.

mod access;
mod call;
mod frame;
mod loops;
mod number;
mod rest;
mod step;

use downloaded_code::instruction::Slot;

use super::random::Random;

/// What the generator believes a register to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holds {
    Nothing,
    Number,
    /// A pointer into a region (its index), at a small constant offset.
    Region(u8),
    /// A pointer into the frame at this offset from r10.
    Stack(i16),
    /// A pointer to at least 16 bytes in the caller's frame.
    Passed,
}

struct Builder<'r> {
    random: &'r mut Random,
    slots: Vec<Slot>,
    holds: [Holds; 10],
    /// Slots of the frame that hold numbers.
    written: Vec<i16>,
    calls: Vec<usize>,
    depth: u32,
}

/// Opcode bits of sizes, and their bytes.
const SIZES: [(u8, i16); 4] = [(0x10, 1), (0x08, 2), (0x00, 4), (0x18, 8)];

/// A program of roughly up to `size` slots.
pub fn program(random: &mut Random, size: usize) -> Vec<u8> {
    let mut slots = whole(random, size);
    if random.once_in(2) {
        for _ in 0..=random.below(2) {
            disturb(random, &mut slots);
        }
    }
    slots.into_iter().flat_map(Slot::to_bytes).collect()
}

fn whole(random: &mut Random, size: usize) -> Vec<Slot> {
    let mut builder = Builder::new(random);
    builder.holds[1] = Holds::Region(0);
    builder.holds[2] = Holds::Number;
    builder.holds[3] = Holds::Region(1);
    builder.holds[4] = Holds::Nothing;
    builder.holds[5] = Holds::Number;
    builder.prologue();
    if builder.random.once_in(8) {
        builder.few_registers(size);
    } else {
        builder.body(size);
    }
    builder.end();
    let calls = std::mem::take(&mut builder.calls);
    let mut slots = builder.slots;
    if !calls.is_empty() {
        let start = slots.len();
        let mut callee = Builder::new(random);
        callee.depth = 1;
        callee.holds[1] = Holds::Number;
        callee.holds[2] = Holds::Passed;
        callee.holds[3] = Holds::Region(1);
        callee.body(size / 4 + 4);
        callee.end();
        slots.append(&mut callee.slots);
        for call in calls {
            slots[call].immediate = start as i32 - call as i32 - 1;
        }
    }
    slots
}

/// Changes one field of one slot; mostly one that the instruction uses.
fn disturb(random: &mut Random, slots: &mut [Slot]) {
    let index = random.below(slots.len() as u64) as usize;
    let slot = &mut slots[index];
    let class = slot.opcode & 7;
    let has_offset = matches!(class, 1..=3 | 5 | 6) && slot.opcode != 0x85 && slot.opcode != 0x95;
    let has_constant = matches!(class, 4..=7) && slot.opcode & 8 == 0 && slot.opcode != 0x95 && slot.opcode != 0x05;
    match random.below(14) {
        0..=3 if has_offset => slot.offset = slot.offset.wrapping_add(random.below(17) as i16 - 8),
        0..=3 if has_constant => slot.immediate = random.edge() as i32,
        4..=7 if has_constant => slot.immediate = slot.immediate.wrapping_add(random.below(5) as i32 - 2),
        4..=8 if has_offset => slot.offset = slot.offset.wrapping_add(random.below(5) as i16 - 2),
        9 => slot.destination = random.below(11) as u8,
        10 if slot.opcode & 8 != 0 => slot.source = random.below(11) as u8,
        11 => slot.opcode ^= 1 << random.below(8),
        _ if matches!(class, 4..=7) => slot.opcode ^= 0x10 << random.below(4),
        _ => {}
    }
}

impl<'r> Builder<'r> {
    fn new(random: &'r mut Random) -> Self {
        Self {
            random,
            slots: Vec::new(),
            holds: [Holds::Nothing; 10],
            written: Vec::new(),
            calls: Vec::new(),
            depth: 0,
        }
    }

    fn emit(&mut self, opcode: u8, destination: u8, source: u8, offset: i16, immediate: i32) {
        self.slots.push(Slot { opcode, destination, source, offset, immediate });
    }

    /// Keeps the arguments where calls do not destroy them.
    fn prologue(&mut self) {
        for (to, from) in [(6, 1), (7, 2), (8, 3)] {
            self.move_(to, from);
        }
        if self.random.once_in(2) {
            // r9 := buffer
            self.emit(0x18, 9, 6, 0, 2);
            self.emit(0, 0, 0, 0, 0);
            self.holds[9] = Holds::Region(2);
        }
        self.number(0);
    }

    fn move_(&mut self, to: u8, from: u8) {
        self.emit(0xbf, to, from, 0, 0);
        self.holds[usize::from(to)] = if from == 10 { Holds::Stack(0) } else { self.holds[usize::from(from)] };
    }

    /// Puts a constant into a register.
    fn number(&mut self, register: u8) {
        if self.random.once_in(6) {
            let value = self.random.edge();
            self.emit(0x18, register, 0, 0, value as i32);
            self.emit(0, 0, 0, 0, (value >> 32) as i32);
        } else {
            let value = if self.random.once_in(2) { self.random.below(200) as i32 } else { self.random.edge() as i32 };
            let opcode = self.random.choose(&[0xb7, 0xb4]);
            self.emit(opcode, register, 0, 0, value);
        }
        self.holds[usize::from(register)] = Holds::Number;
    }

    fn having(&mut self, wanted: impl Fn(Holds) -> bool) -> Option<u8> {
        let found: Vec<u8> = (0..10).filter(|register| wanted(self.holds[usize::from(*register)])).collect();
        if found.is_empty() { None } else { Some(self.random.choose(&found)) }
    }

    /// A register with a number.
    fn some_number(&mut self) -> u8 {
        match self.having(|holds| holds == Holds::Number) {
            Some(register) => register,
            None => {
                self.number(0);
                0
            }
        }
    }

    /// A register that may be overwritten.
    fn free(&mut self) -> u8 {
        let low = self.random.below(6) as u8;
        if self.random.once_in(5) { self.random.below(10) as u8 } else { low }
    }

    fn body(&mut self, size: usize) {
        let end = self.slots.len() + size;
        while self.slots.len() < end {
            self.piece();
        }
    }

    fn piece(&mut self) {
        match self.random.below(37) {
            0..=5 => self.arithmetic(),
            6 => {
                let register = self.free();
                self.number(register);
            }
            7 => self.loose_access(),
            8 | 9 => self.guarded_access(),
            10 | 11 => self.indexed_access(),
            12 | 13 => self.stack(),
            14 => self.atomic(),
            15 | 16 => self.branch(),
            17 => self.counting_loop(),
            18 => self.loop_to_the_end(),
            19 => self.helper(),
            20 | 32 if self.depth == 0 => self.function(),
            20 | 21 | 32 => self.spill(),
            22 => self.header(),
            25 => self.array(),
            30 | 31 => self.taught_place(),
            26 => self.half_written(),
            27 | 28 => self.walk(),
            33 | 34 => self.in_step(),
            35 | 36 => self.walk_beside_rest(),
            23 | 24 => self.copied_index(),
            _ => self.odd_loop(),
        }
    }

    /// The jump at `patch` leads here; only what holds on both ways is still held.
    fn land(&mut self, patch: usize, before: [Holds; 10]) {
        self.slots[patch].offset = (self.slots.len() - patch - 1) as i16;
        for (now, then) in self.holds.iter_mut().zip(before) {
            if *now != then {
                *now = Holds::Nothing;
            }
        }
    }

    /// After a loop only what held before it and in it still holds.
    fn settle(&mut self, before: [Holds; 10]) {
        for (now, then) in self.holds.iter_mut().zip(before) {
            if *now != then {
                *now = Holds::Nothing;
            }
        }
    }

    fn end(&mut self) {
        if self.holds[0] != Holds::Number {
            let number = self.some_number();
            self.emit(0xbf, 0, number, 0, 0);
        }
        self.emit(0x95, 0, 0, 0, 0);
    }
}
