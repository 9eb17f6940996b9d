//! Loops that walk a region by a pointer that goes up and what is left that goes down, as rustc makes them of slices.

use super::{Builder, Holds, SIZES};

/// The pointer, what is left, a copy of it, and what is loaded.
const POINTER: u8 = 1;
const REST: u8 = 4;
const COPY: u8 = 5;
const LOADED: u8 = 2;

impl Builder<'_> {
    /// `while let [first, rest @ ..] = slice`, for some bytes at once, from somewhere in the packet on.
    pub(super) fn walk_beside_rest(&mut self) {
        if self.holds[6] != Holds::Region(0) || self.holds[7] != Holds::Number {
            return;
        }
        let before = self.holds;
        for register in [POINTER, REST, COPY, LOADED] {
            self.holds[usize::from(register)] = Holds::Nothing;
        }
        let mut out = Vec::new();
        let step = self.random.choose(&[1, 1, 2, 4, 8]);
        self.emit(0xbf, POINTER, 6, 0, 0);
        self.emit(0xbf, REST, 7, 0, 0);
        if self.random.once_in(2) {
            let head = self.random.choose(&[1, 4, 14]);
            out.push(self.leave_below(head));
            self.advance(head);
        }
        if self.random.once_in(3) {
            out.push(self.start_somewhere());
        }
        match self.random.below(6) {
            0 => self.emit(0x57, REST, 0, 0, -step),
            1 => {
                let more = self.random.below(3) as i32 - 1;
                self.emit(0x07, REST, 0, 0, more);
            }
            _ => {}
        }
        let bottom_tested = self.random.once_in(2);
        if bottom_tested {
            out.push(self.leave_below(step));
        }
        let head = self.slots.len();
        if !bottom_tested {
            out.push(self.leave_below(step));
        }
        self.element_of(step);
        self.advance(step);
        if self.random.once_in(4) {
            self.element_of(step);
        }
        let back = head as i16 - self.slots.len() as i16 - 1;
        if bottom_tested {
            let (opcode, least) = if step == 1 { (0x55, 0) } else { (0x35, step) };
            self.emit(opcode, REST, 0, back, least);
        } else {
            self.emit(0x05, 0, 0, back, 0);
        }
        for patch in out {
            self.slots[patch].offset = (self.slots.len() - patch - 1) as i16;
        }
        self.settle(before);
    }

    /// Moves the pointer by a number up to 7, and takes as much from the rest, at times too little. Returns the
    /// jump that leaves.
    fn start_somewhere(&mut self) -> usize {
        let number = self.some_number();
        self.emit(0xbf, COPY, number, 0, 0);
        self.emit(0x57, COPY, 0, 0, 7);
        self.emit(0x0f, POINTER, COPY, 0, 0);
        let less = self.random.choose(&[7, 7, 3]);
        let patch = self.leave_below(less);
        self.emit(0x07, REST, 0, 0, -less);
        patch
    }

    /// Leaves the loop when too little is left; now and then by a comparison that is wrong by one, or none at all.
    /// Returns the jump.
    fn leave_below(&mut self, least: i32) -> usize {
        let (opcode, bound) = match self.random.below(8) {
            0 => (0xa5, least - 1),
            1 => (0xb5, least - 1),
            2 if least == 1 => (0x15, 0),
            3 => (0xa6, least),
            _ => (0xa5, least),
        };
        self.emit(opcode, REST, 0, 0, bound);
        self.slots.len() - 1
    }

    /// Pointer up, rest down, in either order; at times not by the same, or by a copy of the rest.
    fn advance(&mut self, step: i32) {
        let down = if self.random.once_in(10) { self.random.below(9) as i32 } else { step };
        let pointer_first = self.random.once_in(2);
        if pointer_first {
            self.emit(0x07, POINTER, 0, 0, step);
        }
        match self.random.below(6) {
            0 => {
                self.emit(0xbf, COPY, REST, 0, 0);
                self.emit(0x07, COPY, 0, 0, -down);
                self.emit(0xbf, REST, COPY, 0, 0);
            }
            1 => self.emit(0x04, REST, 0, 0, -down),
            2 => self.emit(0x17, REST, 0, 0, down),
            _ => self.emit(0x07, REST, 0, 0, -down),
        }
        if !pointer_first {
            self.emit(0x07, POINTER, 0, 0, step);
        }
    }

    /// Loads one of the next bytes, or a whole element.
    fn element_of(&mut self, step: i32) {
        let whole = SIZES.into_iter().find(|(_, bytes)| i32::from(*bytes) == step);
        let (bits, bytes) = if self.random.once_in(2) { whole.unwrap_or(SIZES[0]) } else { SIZES[0] };
        let offset = if self.random.once_in(12) {
            self.random.below(9) as i16 - 4
        } else {
            self.random.below((step + 1 - i32::from(bytes)) as u64) as i16
        };
        self.emit(0x61 | bits, LOADED, POINTER, offset, 0);
    }
}
