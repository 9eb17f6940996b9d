//! Pieces that access regions: at constant places, behind bounds checks, at masked and compared indices.

use super::{Builder, Holds, SIZES};

impl Builder<'_> {
    /// Loads or stores at a pointer, or neither if there is none.
    pub(super) fn touch(&mut self, base: u8, offset: i16, may_store: bool) {
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

    pub(super) fn loose_access(&mut self) {
        let Some(base) = self.having(|holds| matches!(holds, Holds::Region(_) | Holds::Passed)) else { return };
        let holds = self.holds[usize::from(base)];
        let limit = if holds == Holds::Passed { 9 } else { 60 };
        let offset = self.random.below(limit) as i16;
        self.touch(base, offset, holds != Holds::Region(0));
    }

    /// `if (length < n) skip; … packet[n - 8] …`
    pub(super) fn guarded_access(&mut self) {
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
    pub(super) fn indexed_access(&mut self) {
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

    /// A number is copied, both copies are moved by constants, one is compared and the other used as an index.
    pub(super) fn copied_index(&mut self) {
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

    /// A header of unknown length: `p = packet + n; if (p + k > end) skip; … p[k - 8] …`
    pub(super) fn header(&mut self) {
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

    pub(super) fn atomic(&mut self) {
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
}
