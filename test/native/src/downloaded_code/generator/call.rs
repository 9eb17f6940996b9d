//! Calls of helpers and of functions.

use super::{Builder, Holds};

impl Builder<'_> {
    pub(super) fn helper(&mut self) {
        let number = self.some_number();
        let which = 1 + self.random.below(5) as i32;
        let (mut read_from, mut index_at) = (None, None);
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
                    read_from = Some((from, offset as i16)).filter(|(from, _)| *from == 9);
                }
            }
            3 => {
                self.emit(0xbf, 2, number, 0, 0);
                if self.random.once_in(2) {
                    let place = if self.written.is_empty() { -64 } else { self.random.choose(&self.written.clone()) };
                    let place = place.min(-16);
                    if self.random.once_in(2) {
                        // An index, which the helper writes over.
                        let value = self.random.below(57) as i32;
                        self.emit(0x7a, 10, 0, place, value);
                        index_at = Some(place).filter(|_| self.holds[8] == Holds::Region(1));
                    }
                    self.move_(1, 10);
                    self.emit(0x07, 1, 0, 0, place.into());
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
        if let Some((base, offset)) = read_from.filter(|_| self.random.once_in(2)) {
            // What the helper may have read, and need not have.
            let further = self.random.below(32) as i16;
            self.emit(0x71, 0, base, offset + further, 0);
        }
        if let Some(place) = index_at {
            self.index_by(place);
        }
    }

    /// Passes a number, a piece of the frame, and the state. Where the piece lies may be known only because of a jump.
    pub(super) fn function(&mut self) {
        let number = self.some_number();
        let (patch, before) = (self.slots.len(), self.holds);
        let taught = self.random.once_in(2);
        if taught {
            let place = self.random.choose(&[0, 8, 16]);
            self.emit(0x55, number, 0, 0, place);
        }
        self.emit(0xbf, 1, number, 0, 0);
        self.move_(2, 10);
        if taught {
            self.emit(0x0f, 2, number, 0, 0);
        }
        self.emit(0x07, 2, 0, 0, -160);
        self.emit(0xbf, 3, 8, 0, 0);
        self.calls.push(self.slots.len());
        self.emit(0x85, 0, 1, 0, 0);
        self.after_call();
        if taught {
            self.land(patch, before);
        }
    }

    fn after_call(&mut self) {
        for register in 1..6 {
            self.holds[register] = Holds::Nothing;
        }
        self.holds[0] = Holds::Number;
    }
}
