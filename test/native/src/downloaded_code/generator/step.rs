//! Loops in which a pointer moves in step with a counter, as compilers make them of indexed arrays.

use super::{Builder, Holds, SIZES};

/// The counter, the pointer, and what else these loops use.
const COUNTER: u8 = 4;
const POINTER: u8 = 1;
const OTHER: u8 = 3;
const BOUND: u8 = 5;

impl Builder<'_> {
    /// `for (i = a; i < b; i++) array[i] …`, or downwards, with a pointer that is moved by the size of an element.
    pub(super) fn in_step(&mut self) {
        let (shift, number) = (self.random.below(4) as i32, self.some_number());
        let most = (64 >> shift) as i32;
        let up = self.random.once_in(2);
        let before = self.holds;
        for register in [POINTER, OTHER, COUNTER, BOUND, 2] {
            self.holds[usize::from(register)] = Holds::Nothing;
        }
        if !matches!(self.holds[8], Holds::Region(1)) || self.holds[usize::from(number)] != Holds::Number {
            self.holds = before;
            return;
        }
        self.emit(0xbf, BOUND, number, 0, 0);
        let mask = self.random.choose(&[most - 1, most - 1, most, 7]);
        self.emit(0x57, BOUND, 0, 0, mask);
        self.begin(up, most);
        self.point(up, shift);
        let head = self.slots.len();
        self.element(shift);
        if self.random.once_in(5) {
            // The counter goes away and comes back.
            self.emit(0xbf, OTHER, COUNTER, 0, 0);
            self.emit(0xbf, COUNTER, OTHER, 0, 0);
        }
        let step = if up { 1 } else { -1 };
        let counts = self.random.choose(&[0x07, 0x07, 0x04]);
        if self.random.once_in(2) {
            self.emit(0x07, POINTER, 0, 0, step << shift);
            self.emit(counts, COUNTER, 0, 0, step);
        } else {
            self.emit(counts, COUNTER, 0, 0, step);
            self.emit(0x07, POINTER, 0, 0, step << shift);
        }
        if self.random.once_in(4) {
            self.element(shift);
        }
        self.again(head, up, most);
        self.settle(before);
    }

    /// The counter's first value: a constant, or the bound.
    fn begin(&mut self, up: bool, most: i32) {
        if up && !self.random.once_in(4) {
            let start = self.random.below(3) as i32;
            self.emit(0xb7, COUNTER, 0, 0, start);
        } else if !up && self.random.once_in(3) {
            self.emit(0xb7, COUNTER, 0, 0, most);
        } else {
            let opcode = self.random.choose(&[0xbf, 0xbc]);
            self.emit(opcode, COUNTER, BOUND, 0, 0);
        }
    }

    /// The pointer to the counter's element, or to the one before it.
    fn point(&mut self, up: bool, shift: i32) {
        let base = if self.random.once_in(3) { 10 } else { 8 };
        let copied = self.random.choose(&[0xbf, 0xbc]);
        self.emit(copied, POINTER, COUNTER, 0, 0);
        let scaled = self.random.choose(&[0x67, 0x64, 0x27]);
        self.emit(scaled, POINTER, 0, 0, if scaled == 0x27 { 1 << shift } else { shift });
        self.emit(0x0f, POINTER, base, 0, 0);
        let from = if base == 10 { -64 } else { 0 } - if up { 0 } else { 1 << shift };
        if from != 0 {
            self.emit(0x07, POINTER, 0, 0, from);
        }
    }

    /// Loads or stores an element, or a number next to one.
    fn element(&mut self, shift: i32) {
        let (bits, _) = if self.random.once_in(6) {
            self.random.choose(&SIZES)
        } else {
            SIZES.into_iter().find(|(_, bytes)| *bytes == 1 << shift).unwrap_or(SIZES[0])
        };
        let offset = if self.random.once_in(8) { self.random.below(9) as i16 - 4 } else { 0 };
        let number = self.having(|holds| holds == Holds::Number).filter(|number| *number >= 6);
        match number {
            Some(number) if self.random.once_in(2) => self.emit(0x63 | bits, POINTER, number, offset, 0),
            _ => self.emit(0x61 | bits, 2, POINTER, offset, 0),
        }
    }

    /// The jump back: against a constant, or the bound.
    fn again(&mut self, head: usize, up: bool, most: i32) {
        let back = head as i16 - self.slots.len() as i16 - 1;
        if !up {
            let opcode = self.random.choose(&[0x25, 0x26, 0x55, 0x65]);
            let least = i32::from(self.random.once_in(4));
            self.emit(opcode, COUNTER, 0, back, least);
        } else if self.random.once_in(2) {
            let opcode = self.random.choose(&[0xad, 0xae, 0x5d, 0xcd]);
            self.emit(opcode, COUNTER, BOUND, back, 0);
        } else {
            let opcode = self.random.choose(&[0xa5, 0xa6, 0x55, 0xc5]);
            self.emit(opcode, COUNTER, 0, back, most);
        }
    }
}
