//! Random programs that are mostly acceptable and do interesting things.
//!
//! The generator follows what each register holds, so that it seldom uses one wrongly, and builds from patterns that
//! real programs have: bounds checks before accesses, masked and compared indices, counting loops, loops to a region's
//! end, pointers that walk to it from unknown places, saved registers on the stack, helper calls with buffers on the stack, atomic operations, functions that
//! get pointers into their caller's frame. Half of the programs are then changed in a few bits.

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

const SIZES: [(u8, i16); 4] = [(0x10, 1), (0x08, 2), (0x00, 4), (0x18, 8)];

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

    /// Loops that leave registers over, which the compiler may use.
    fn few_registers(&mut self, size: usize) {
        let end = self.slots.len() + size / 2;
        while self.slots.len() < end {
            if self.random.once_in(3) {
                self.loop_to_the_end();
            } else {
                self.walk();
            }
        }
    }

    fn piece(&mut self) {
        match self.random.below(30) {
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
            20 if self.depth == 0 => self.function(),
            20 | 21 => self.spill(),
            22 => self.header(),
            25 => self.array(),
            26 => self.half_written(),
            27 | 28 => self.walk(),
            23 | 24 => self.copied_index(),
            _ => self.odd_loop(),
        }
    }

    fn arithmetic(&mut self) {
        let (destination, source) = (self.some_number(), self.some_number());
        let class = self.random.choose(&[0x07, 0x04]);
        match self.random.below(12) {
            0 => self.emit(0x80 | class, destination, 0, 0, 0),
            1 => {
                let width = self.random.choose(&[16, 32, 64]);
                let opcode = self.random.choose(&[0xd4, 0xdc, 0xd7]);
                self.emit(opcode, destination, 0, 0, width);
            }
            2 => {
                let widths: &[i16] = if class == 7 { &[8, 16, 32] } else { &[8, 16] };
                let width = self.random.choose(widths);
                self.emit(0xb8 | class, destination, source, width, 0);
            }
            operation => {
                let codes = [0x00, 0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0x90, 0xa0, 0xb0, 0xc0];
                let code = self.random.choose(&codes);
                let signed = i16::from(matches!(code, 0x30 | 0x90) && self.random.once_in(2));
                if operation % 2 == 0 {
                    self.emit(code | 8 | class, destination, source, signed, 0);
                } else {
                    let value = self.random.edge() as i32;
                    self.emit(code | class, destination, 0, signed, value);
                }
            }
        }
    }

    /// Loads or stores at a pointer, or neither if there is none.
    fn touch(&mut self, base: u8, offset: i16, may_store: bool) {
        let (bits, _) = self.random.choose(&SIZES);
        let number = self.some_number();
        if may_store && self.random.once_in(3) {
            if self.random.once_in(2) {
                self.emit(0x63 | bits, base, number, offset, 0);
            } else {
                let value = self.random.edge() as i32;
                self.emit(0x62 | bits, base, 0, offset, value);
            }
            return;
        }
        let destination = self.free();
        let signed = bits != 0x18 && self.random.once_in(4);
        self.emit(if signed { 0x81 } else { 0x61 } | bits, destination, base, offset, 0);
        self.holds[usize::from(destination)] = Holds::Number;
    }

    fn loose_access(&mut self) {
        let Some(base) = self.having(|holds| matches!(holds, Holds::Region(_) | Holds::Passed)) else { return };
        let holds = self.holds[usize::from(base)];
        let limit = if holds == Holds::Passed { 9 } else { 60 };
        let offset = self.random.below(limit) as i16;
        self.touch(base, offset, holds != Holds::Region(0));
    }

    /// `if (length < n) skip; … packet[n - 8] …`
    fn guarded_access(&mut self) {
        if self.holds[7] != Holds::Number || self.holds[6] != Holds::Region(0) || self.depth > 0 {
            return self.loose_access();
        }
        let needed = 8 + self.random.below(80) as i32;
        let patch = self.slots.len();
        let opcode = self.random.choose(&[0xa5, 0xa6, 0xb5]);
        self.emit(opcode, 7, 0, 0, needed);
        let before = self.holds;
        for _ in 0..=self.random.below(3) {
            let offset = self.random.below(needed as u64 - 7) as i16;
            self.touch(6, offset, false);
        }
        self.land(patch, before);
    }

    /// `index &= mask` or `if (index < limit)`, then `pointer[index]`.
    fn indexed_access(&mut self) {
        let Some(base) = self.having(|holds| matches!(holds, Holds::Region(_))) else { return };
        let index = self.some_number();
        let scratch = self.free();
        if scratch == index || scratch == base {
            return;
        }
        let writable = self.holds[usize::from(base)] != Holds::Region(0);
        let before = self.holds;
        let mut patch = None;
        match self.random.below(4) {
            0 => {
                let mask = self.random.choose(&[7, 15, 31, 63, 56, 3]);
                self.emit(0x57, index, 0, 0, mask);
            }
            1 | 2 => {
                let limit = self.random.choose(&[8, 30, 56, 57, 64]);
                patch = Some(self.slots.len());
                let opcode = self.random.choose(&[0x25, 0x35, 0x26, 0x65, 0x75]);
                self.emit(opcode, index, 0, 0, limit);
            }
            _ => {}
        }
        self.move_(scratch, base);
        self.emit(0x0f, scratch, index, 0, 0);
        let offset = self.random.below(8) as i16;
        self.touch(scratch, offset, writable);
        if self.holds[usize::from(scratch)] != Holds::Number {
            self.holds[usize::from(scratch)] = Holds::Nothing;
        }
        if let Some(patch) = patch {
            self.land(patch, before);
        }
    }

    /// An array on the stack: constants in some places, a number at an unknown one; what is in a place is an index.
    fn array(&mut self) {
        if self.holds[8] != Holds::Region(1) {
            return;
        }
        for place in 0..4 {
            if !self.random.once_in(4) {
                let value = self.random.below(60) as i32;
                self.emit(0x7a, 10, 0, -128 + 8 * place, value);
            }
        }
        let (index, value) = (self.some_number(), self.some_number());
        if index != 1 && value != 1 && index != value {
            self.emit(0x57, index, 0, 0, 24);
            self.emit(0xbf, 1, 10, 0, 0);
            self.emit(0x0f, 1, index, 0, 0);
            let (bits, _) = self.random.choose(&SIZES);
            self.emit(0x63 | bits, 1, value, -128, 0);
        }
        let place = self.random.below(4) as i16;
        self.emit(0x79, 1, 10, -128 + 8 * place, 0);
        self.emit(0xbf, 2, 8, 0, 0);
        self.emit(0x0f, 2, 1, 0, 0);
        self.holds[1] = Holds::Number;
        self.holds[2] = Holds::Nothing;
        self.touch(2, 0, true);
    }

    /// A header of unknown length: `p = packet + n; if (p + k > end) skip; … p[k - 8] …`
    fn header(&mut self) {
        if self.depth > 0 || self.holds[6] != Holds::Region(0) || self.holds[7] != Holds::Number {
            return;
        }
        let index = self.some_number();
        let most = self.random.choose(&[60, 15, 255, -1]);
        let needed = 8 + self.random.below(20) as i32;
        self.emit(0xbf, 1, 6, 0, 0);
        self.emit(0xbf, 2, index, 0, 0);
        self.emit(0x57, 2, 0, 0, most);
        self.emit(0x0f, 1, 2, 0, 0);
        self.emit(0xbf, 3, 1, 0, 0);
        self.emit(0x07, 3, 0, 0, needed);
        self.emit(0xbf, 2, 6, 0, 0);
        self.emit(0x0f, 2, 7, 0, 0);
        for register in 1..4 {
            self.holds[register] = Holds::Nothing;
        }
        let (patch, before) = (self.slots.len(), self.holds);
        let opcode = self.random.choose(&[0x2d, 0x3d, 0x2d, 0xad]);
        self.emit(opcode, 3, 2, 0, 0);
        let offset = self.random.below(needed as u64 - 6) as i16;
        self.touch(1, offset, false);
        self.land(patch, before);
    }

    /// A pointer from an unknown place, whose distance a jump may have bounded from below, walks to the packet's end.
    fn walk(&mut self) {
        if self.depth > 0 || self.holds[6] != Holds::Region(0) || self.holds[7] != Holds::Number {
            return;
        }
        let index = self.some_number();
        let most = self.random.choose(&[60, 15, 255]);
        let bounded = if self.random.once_in(2) { self.random.below(12) as i32 } else { 0 };
        self.emit(0xbf, 1, index, 0, 0);
        self.emit(0x57, 1, 0, 0, most);
        // The one that is compared, and one that is a copy of it.
        self.emit(0xbf, 2, 1, 0, 0);
        for register in 1..4 {
            self.holds[register] = Holds::Nothing;
        }
        let (patch, before) = (self.slots.len(), self.holds);
        let compared = self.random.choose(&[1, 2]);
        self.emit(0xa5, compared, 0, 0, bounded);
        let way_in = self.random.below(16) as i32;
        self.emit(0xb7, 0, 0, 0, 0);
        self.emit(0x0f, 1, 6, 0, 0);
        self.emit(0x07, 1, 0, 0, way_in);
        self.emit(0xbf, 3, 6, 0, 0);
        self.emit(0x0f, 3, 7, 0, 0);
        // The end may be moved by what is a constant only because of a jump.
        let moved = (index > 3 && self.random.once_in(3)).then_some(self.slots.len());
        if moved.is_some() {
            let constant = self.random.below(4) as i32;
            self.emit(0x55, index, 0, 0, constant);
            self.emit(0x0f, 3, index, 0, 0);
        }
        let first = self.slots.len();
        let (leave, stay) = self.random.choose(&[(0x2d, 0xbd), (0x3d, 0xad), (0x1d, 0x5d), (0x2d, 0xad)]);
        self.emit(leave, 1, 3, 0, 0);
        let head = self.slots.len();
        for _ in 0..=self.random.below(2) {
            let ((bits, size), back) = (self.random.choose(&SIZES), self.random.below(5) as i16 - 1);
            self.emit(0x61 | bits, 2, 1, -size - back, 0);
            self.emit(0x0f, 0, 2, 0, 0);
        }
        // Until it is equal to the end, a pointer moves by ones.
        let step = if stay == 0x5d { 1 } else { self.random.choose(&[1, 2, 4, 8]) };
        self.emit(0x07, 1, 0, 0, step);
        let back = head as i16 - self.slots.len() as i16 - 1;
        if self.random.once_in(3) {
            // As compilers end loops: out of it, or back.
            self.emit(leave, 1, 3, 1, 0);
            self.emit(0x05, 0, 0, back - 1, 0);
        } else {
            self.emit(stay, 1, 3, back, 0);
        }
        self.holds[0] = Holds::Number;
        for way_out in [Some(first), moved].into_iter().flatten() {
            self.slots[way_out].offset = (self.slots.len() - way_out - 1) as i16;
        }
        self.land(patch, before);
    }

    /// A number is copied, both copies are moved by constants, one is compared and the other used as an index.
    fn copied_index(&mut self) {
        let number = self.some_number();
        let (moved, other) = (self.random.below(40) as i32 - 20, self.random.below(40) as i32 - 20);
        self.emit(0xbf, 1, number, 0, 0);
        self.emit(0xbf, 2, 1, 0, 0);
        self.emit(0x07, 1, 0, 0, moved);
        let opcode = self.random.choose(&[0x07, 0x17]);
        self.emit(opcode, 2, 0, 0, other);
        for register in 1..4 {
            self.holds[register] = Holds::Nothing;
        }
        let (patch, before) = (self.slots.len(), self.holds);
        let opcode = self.random.choose(&[0x25, 0x35, 0x65, 0x75, 0x26, 0x55]);
        let limit = self.random.below(64) as i32;
        self.emit(opcode, 1, 0, 0, limit);
        let base = if self.holds[8] == Holds::Region(1) && self.random.once_in(2) { 8 } else { 10 };
        self.emit(0xbf, 3, base, 0, 0);
        self.emit(0x0f, 3, 2, 0, 0);
        let offset = self.random.below(4) as i16 - if base == 10 { 90 } else { 0 };
        self.touch(3, offset, true);
        self.land(patch, before);
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

    fn stack(&mut self) {
        if self.written.is_empty() || self.random.once_in(2) {
            let place = -8 * (1 + self.random.below(12) as i16);
            if self.random.once_in(2) {
                let number = self.some_number();
                self.emit(0x7b, 10, number, place, 0);
            } else {
                let value = self.random.below(64) as i32;
                self.emit(0x7a, 10, 0, place, value);
            }
            self.written.push(place);
            return;
        }
        let place = self.random.choose(&self.written.clone());
        if self.random.once_in(3) && matches!(self.holds[8], Holds::Region(1)) {
            // What was saved comes back and is used as an index at once.
            self.emit(0x79, 1, 10, place, 0);
            self.emit(0xbf, 2, 8, 0, 0);
            self.emit(0x0f, 2, 1, 0, 0);
            self.holds[1] = Holds::Number;
            self.holds[2] = Holds::Nothing;
            return self.touch(2, 0, true);
        }
        if self.random.once_in(3) {
            // A variable place in the frame.
            let (index, scratch) = (self.some_number(), self.free());
            if index != scratch {
                self.emit(0x57, index, 0, 0, 24);
                self.move_(scratch, 10);
                self.emit(0x0f, scratch, index, 0, 0);
                self.touch(scratch, place.min(-32), true);
                if self.holds[usize::from(scratch)] != Holds::Number {
                    self.holds[usize::from(scratch)] = Holds::Nothing;
                }
            }
            return;
        }
        let (bits, size) = self.random.choose(&SIZES);
        let destination = self.free();
        let within = self.random.below((8 / size) as u64) as i16 * size;
        self.emit(0x61 | bits, destination, 10, place + within, 0);
        self.holds[usize::from(destination)] = Holds::Number;
    }

    fn atomic(&mut self) {
        let wide = self.random.once_in(2);
        let base = if self.random.once_in(3) && !self.written.is_empty() {
            10
        } else {
            match self.having(|holds| matches!(holds, Holds::Region(1 | 2) | Holds::Passed)) {
                Some(base) => base,
                None => return,
            }
        };
        let offset = if base == 10 {
            self.random.choose(&self.written.clone())
        } else {
            if self.random.once_in(12) { 2 } else { self.random.choose(&[0, 4, 8, 16]) & if wide { 24 } else { 28 } }
        };
        let operation = self.random.choose(&[0x00, 0x01, 0x40, 0x41, 0x50, 0x51, 0xa0, 0xa1, 0xe1, 0xf1]);
        let source = self.some_number();
        if operation == 0xf1 && self.holds[0] != Holds::Number {
            self.number(0);
        }
        self.emit(if wide { 0xdb } else { 0xc3 }, base, source, offset, operation);
    }

    fn condition(&mut self) -> usize {
        let (left, right) = (self.some_number(), self.some_number());
        let codes = [0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0xa0, 0xb0, 0xc0, 0xd0];
        let opcode = self.random.choose(&codes) | self.random.choose(&[5, 6]);
        let patch = self.slots.len();
        if self.random.once_in(2) {
            self.emit(opcode | 8, left, right, 0, 0);
        } else {
            let value = self.random.edge() as i32;
            self.emit(opcode, left, 0, 0, value);
        }
        patch
    }

    fn branch(&mut self) {
        let patch = self.condition();
        let (before, written) = (self.holds, self.written.clone());
        for _ in 0..=self.random.below(3) {
            self.arithmetic();
            self.loose_access();
        }
        if self.random.once_in(2) {
            // With an else part.
            let over = self.slots.len();
            self.emit(0x05, 0, 0, 0, 0);
            let then = self.holds;
            self.slots[patch].offset = (self.slots.len() - patch - 1) as i16;
            self.holds = before;
            self.arithmetic();
            self.stack();
            self.land(over, then);
        } else {
            self.land(patch, before);
        }
        self.written = written;
    }

    /// A register that only one way writes counts as zero on the other.
    fn half_written(&mut self) {
        let empty: Vec<u8> =
            [0, 6, 7, 8, 9].into_iter().filter(|r| self.holds[usize::from(*r)] == Holds::Nothing).collect();
        if empty.is_empty() {
            return;
        }
        let register = self.random.choose(&empty);
        let patch = self.condition();
        self.number(register);
        let held = self.holds;
        self.land(patch, held);
        let copy = self.free();
        if self.random.once_in(2) {
            self.move_(copy, register);
        }
    }

    /// `for (i = a; i < b; i += c) …`, tested at the end or the start, by `<` or `!=`.
    fn counting_loop(&mut self) {
        let counter = self.random.choose(&[0, 5, 9, 4]);
        let (start, step) = (self.random.below(5) as i32, 1 + self.random.below(4) as i32);
        let rounds = 1 + self.random.below(20) as i32;
        self.emit(0xb7, counter, 0, 0, start);
        self.holds[usize::from(counter)] = Holds::Nothing;
        let before = self.holds;
        // Sometimes the loop is entered in its middle.
        let ahead = self.random.once_in(4).then_some(self.slots.len());
        if ahead.is_some() {
            self.emit(0x05, 0, 0, 0, 0);
        }
        let head = self.slots.len();
        let rounds_in_two = self.random.below(2) + 1;
        for _ in 0..rounds_in_two {
            self.loop_body(counter);
        }
        if self.random.once_in(3) {
            // A second way back to the head: counted, or not.
            if self.random.once_in(2) {
                self.emit(0x07, counter, 0, 0, step);
            }
            let back = head as i16 - self.slots.len() as i16 - 1;
            let opcode = self.random.choose(&[0xa5, 0x35, 0x45]);
            self.emit(opcode, counter, 0, back, start + 2 * step);
        }
        if let Some(ahead) = ahead {
            self.slots[ahead].offset = (self.slots.len() - ahead - 1) as i16;
            if self.random.once_in(2) {
                self.loop_body(counter);
            }
        }
        let opcode = self.random.choose(&[0x07, 0x04]);
        self.emit(opcode, counter, 0, 0, step);
        let opcode = self.random.choose(&[0xa5, 0x55, 0xc5, 0xa6, 0x56, 0xc6]);
        let back = head as i16 - self.slots.len() as i16 - 1;
        self.emit(opcode, counter, 0, back, start + rounds * step);
        self.settle(before);
        self.holds[usize::from(counter)] = Holds::Number;
    }

    /// After a loop only what held before it and in it still holds.
    fn settle(&mut self, before: [Holds; 10]) {
        for (now, then) in self.holds.iter_mut().zip(before) {
            if *now != then {
                *now = Holds::Nothing;
            }
        }
    }

    fn loop_body(&mut self, counter: u8) {
        let Some(base) = self.having(|holds| matches!(holds, Holds::Region(_))) else { return };
        let scratch = self.random.choose(&[1, 2, 3]);
        if base == scratch || base == counter {
            return;
        }
        let writable = self.holds[usize::from(base)] != Holds::Region(0);
        self.move_(scratch, base);
        self.emit(0x0f, scratch, counter, 0, 0);
        self.holds[usize::from(scratch)] = Holds::Nothing;
        let number = self.having(|holds| holds == Holds::Number);
        match number {
            Some(number) if number >= 6 && writable && self.random.once_in(2) => self.emit(0x73, scratch, number, 0, 0),
            _ => self.emit(0x71, scratch, scratch, 0, 0),
        }
    }

    /// `for (p = packet; p != end; p++) sum += *p`, or with an index up to the length.
    fn loop_to_the_end(&mut self) {
        if self.depth > 0 || self.holds[6] != Holds::Region(0) || self.holds[7] != Holds::Number {
            return;
        }
        let bound = self.random.choose(&[0, 1, 3]);
        let start = if self.random.once_in(3) { self.random.below(3) as i32 } else { 0 };
        self.emit(0xb7, 1, 0, 0, start);
        self.emit(0xb7, 0, 0, 0, 0);
        let patch = self.slots.len();
        self.emit(0x15, 7, 0, 0, 0);
        if bound == 3 {
            self.emit(0xbf, 3, 6, 0, 0);
            self.emit(0x0f, 3, 7, 0, 0);
            self.emit(0xbf, 1, 6, 0, 0);
        }
        if bound == 1 {
            // The loop ends somewhat before the end, or after it.
            self.emit(0xbf, 3, 7, 0, 0);
            let distance = self.random.below(5) as i32 - 3;
            self.emit(0x07, 3, 0, 0, distance);
        }
        let head = self.slots.len();
        if bound == 3 {
            self.emit(0x71, 2, 1, 0, 0);
        } else {
            self.emit(0xbf, 2, 6, 0, 0);
            self.emit(0x0f, 2, 1, 0, 0);
            self.emit(0x71, 2, 2, 0, 0);
        }
        self.emit(0x0f, 0, 2, 0, 0);
        self.emit(0x07, 1, 0, 0, 1);
        let back = head as i16 - self.slots.len() as i16 - 1;
        let against = if bound == 0 { 7 } else { 3 };
        let opcode = self.random.choose(&[0x5d, 0xad, 0x5d]);
        self.emit(opcode, 1, against, back, 0);
        let after = self.slots.len();
        self.slots[patch].offset = (after - patch - 1) as i16;
        for register in 1..4 {
            self.holds[register] = Holds::Nothing;
        }
        self.holds[0] = Holds::Number;
    }

    /// A loop of which nothing is known.
    fn odd_loop(&mut self) {
        let before = self.holds;
        let head = self.slots.len();
        self.arithmetic();
        let patch = self.condition();
        self.slots[patch].offset = head as i16 - patch as i16 - 1;
        self.settle(before);
    }

    fn helper(&mut self) {
        let number = self.some_number();
        let which = 1 + self.random.below(5) as i32;
        match which {
            2 => {
                let size = self.some_number();
                self.emit(0xbf, 2, size, 0, 0);
                if self.random.once_in(2) {
                    self.emit(0x57, 2, 0, 0, 31);
                }
                if self.random.once_in(3) {
                    self.emit(0x7b, 10, 2, -8, 0);
                    self.written.push(-8);
                    self.move_(1, 10);
                    self.emit(0x07, 1, 0, 0, -48);
                } else {
                    let from = if self.holds[9] == Holds::Region(2) && self.random.once_in(2) { 9 } else { 8 };
                    self.emit(0xbf, 1, from, 0, 0);
                    let offset = self.random.below(20) as i32;
                    self.emit(0x07, 1, 0, 0, offset);
                }
            }
            3 => {
                self.emit(0xbf, 2, number, 0, 0);
                if self.random.once_in(2) {
                    self.move_(1, 10);
                    let place = if self.written.is_empty() { -64 } else { self.random.choose(&self.written.clone()) };
                    self.emit(0x07, 1, 0, 0, place.min(-16).into());
                } else {
                    self.emit(0xbf, 1, 8, 0, 0);
                }
            }
            5 => {
                for register in 1..6 {
                    let from = self.random.choose(&[number, number, 0]);
                    let from = if self.holds[usize::from(from)] == Holds::Number { from } else { number };
                    if from >= 6 || from == 0 {
                        self.emit(0xbf, register, from, 0, 0);
                    } else {
                        self.emit(0xb7, register, 0, 0, 77);
                    }
                }
            }
            _ => {
                self.emit(0xbf, 1, number, 0, 0);
                if self.random.once_in(2) {
                    self.emit(0x57, 1, 0, 0, 255);
                    self.emit(0x07, 1, 0, 0, 3);
                }
            }
        }
        self.emit(0x85, 0, 0, 0, which);
        self.after_call();
    }

    fn after_call(&mut self) {
        for register in 1..6 {
            self.holds[register] = Holds::Nothing;
        }
        self.holds[0] = Holds::Number;
    }

    fn function(&mut self) {
        let number = self.some_number();
        self.emit(0xbf, 1, number, 0, 0);
        self.move_(2, 10);
        self.emit(0x07, 2, 0, 0, -160);
        self.emit(0xbf, 3, 8, 0, 0);
        self.calls.push(self.slots.len());
        self.emit(0x85, 0, 1, 0, 0);
        self.after_call();
    }

    /// Saves a pointer and reads it back.
    fn spill(&mut self) {
        let Some(pointer) = self.having(|holds| matches!(holds, Holds::Region(_))) else { return };
        let place = -8 * (30 + self.random.below(3) as i16);
        self.emit(0x7b, 10, pointer, place, 0);
        self.arithmetic();
        let back = self.free();
        let holds = self.holds[usize::from(pointer)];
        self.emit(0x79, back, 10, place, 0);
        self.holds[usize::from(back)] = holds;
    }

    fn end(&mut self) {
        if self.holds[0] != Holds::Number {
            let number = self.some_number();
            self.emit(0xbf, 0, number, 0, 0);
        }
        self.emit(0x95, 0, 0, 0, 0);
    }
}
