//! Pieces of programs that compute and compare numbers.

use super::{Builder, Holds};

impl Builder<'_> {
    /// Cuts a number to 32 bits by two shifts, as compilers do.
    pub(super) fn truncate(&mut self, register: u8) {
        let back = self.random.choose(&[0x77, 0xc7]);
        self.emit(0x67, register, 0, 0, 32);
        self.emit(back, register, 0, 0, 32);
    }

    pub(super) fn arithmetic(&mut self) {
        let (destination, source) = (self.some_number(), self.some_number());
        if self.random.once_in(20) {
            return self.truncate(destination);
        }
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

    pub(super) fn condition(&mut self) -> usize {
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

    pub(super) fn branch(&mut self) {
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
    pub(super) fn half_written(&mut self) {
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
}
