//! Pieces that use the frame: numbers, arrays and saved pointers.

use super::{Builder, Holds, SIZES};

impl Builder<'_> {
    /// An array on the stack: constants in some places, a number at an unknown one; what is in a place is an index.
    pub(super) fn array(&mut self) {
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
        self.index_by(-128 + 8 * place);
    }

    /// What is in a place of the frame is an index into the state, at once.
    pub(super) fn index_by(&mut self, place: i16) {
        self.emit(0x79, 1, 10, place, 0);
        self.emit(0xbf, 2, 8, 0, 0);
        self.emit(0x0f, 2, 1, 0, 0);
        self.holds[1] = Holds::Number;
        self.holds[2] = Holds::Nothing;
        self.touch(2, 0, true);
    }

    /// Four slots, some with constants, some with numbers. A jump says which of them, or how many, a store or load
    /// can go to; what one of them holds then is an index.
    pub(super) fn taught_place(&mut self) {
        if self.holds[8] != Holds::Region(1) {
            return;
        }
        let index = self.some_number();
        for place in 0..4 {
            let (number, constant) = (self.some_number(), self.random.below(57) as i32);
            let (opcode, source) = if self.random.once_in(5) { (0x7b, number) } else { (0x7a, 0) };
            self.emit(opcode, 10, source, -192 + 8 * place, constant * i32::from(source == 0));
        }
        self.emit(0xbf, 1, index, 0, 0);
        self.emit(0x57, 1, 0, 0, 24);
        self.holds[1] = Holds::Nothing;
        let (patch, before) = (self.slots.len(), self.holds);
        let (opcode, taught) = (self.random.choose(&[0x55, 0x25]), 8 * self.random.below(4) as i32);
        self.emit(opcode, 1, 0, 0, taught);
        self.emit(0x0f, 1, 10, 0, 0);
        let other = 8 * self.random.below(4) as i16;
        if self.random.once_in(2) {
            let number = self.some_number();
            self.emit(0x7b, 1, number, -192, 0);
            self.emit(0x79, 1, 10, -192 + other, 0);
        } else {
            self.emit(0x79, 1, 1, -192, 0);
        }
        self.holds[2] = Holds::Nothing;
        self.emit(0xbf, 2, 8, 0, 0);
        self.emit(0x0f, 2, 1, 0, 0);
        self.touch(2, 0, true);
        self.land(patch, before);
    }

    pub(super) fn stack(&mut self) {
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
            return self.index_by(place);
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

    /// Saves a pointer and reads it back.
    pub(super) fn spill(&mut self) {
        let Some(pointer) = self.having(|holds| matches!(holds, Holds::Region(_))) else { return };
        let place = -8 * (30 + self.random.below(3) as i16);
        self.emit(0x7b, 10, pointer, place, 0);
        self.arithmetic();
        let back = self.free();
        let holds = self.holds[usize::from(pointer)];
        self.emit(0x79, back, 10, place, 0);
        self.holds[usize::from(back)] = holds;
    }
}
