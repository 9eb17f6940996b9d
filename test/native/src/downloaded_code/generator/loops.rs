//! Loops: counted, to a region's end, and of which nothing is known.

use super::{Builder, Holds, SIZES};

impl Builder<'_> {
    /// Loops that leave registers over, which the compiler may use.
    pub(super) fn few_registers(&mut self, size: usize) {
        let end = self.slots.len() + size / 2;
        while self.slots.len() < end {
            if self.random.once_in(3) {
                self.loop_to_the_end();
            } else {
                self.walk();
            }
        }
    }

    /// `for (i = a; i < b; i += c) …`, tested at the end or the start, by `<` or `!=`.
    pub(super) fn counting_loop(&mut self) {
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
    pub(super) fn loop_to_the_end(&mut self) {
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
            if self.random.once_in(2) {
                self.truncate(3);
            }
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
    pub(super) fn odd_loop(&mut self) {
        let before = self.holds;
        let head = self.slots.len();
        self.arithmetic();
        let patch = self.condition();
        self.slots[patch].offset = head as i16 - patch as i16 - 1;
        self.settle(before);
    }

    /// The end in r3 may be moved by what is a constant only because of a jump. It may also come from a place in the
    /// frame that is one only because of a jump. Returns those jumps, which are taken where it is not.
    fn taught_end(&mut self, index: u8) -> Vec<usize> {
        match self.random.below(6) {
            0 | 1 if index > 3 => {
                let constant = self.random.below(4) as i32;
                self.emit(0x55, index, 0, 0, constant);
                self.emit(0x0f, 3, index, 0, 0);
                vec![self.slots.len() - 2]
            }
            2 if index > 3 => {
                self.emit(0x7b, 10, 3, -264, 0);
                self.emit(0x7b, 10, index, -272, 0);
                self.emit(0xbf, 2, index, 0, 0);
                self.emit(0x57, 2, 0, 0, 8);
                self.emit(0x55, 2, 0, 0, 8);
                self.emit(0x0f, 2, 10, 0, 0);
                self.emit(0x79, 3, 2, -272, 0);
                vec![self.slots.len() - 3]
            }
            _ => Vec::new(),
        }
    }

    /// A pointer from an unknown place, whose distance a jump may have bounded from below, walks to the packet's end.
    pub(super) fn walk(&mut self) {
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
        let mut ways_out = self.taught_end(index);
        ways_out.push(self.slots.len());
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
        for way_out in ways_out {
            self.slots[way_out].offset = (self.slots.len() - way_out - 1) as i16;
        }
        self.land(patch, before);
    }
}
