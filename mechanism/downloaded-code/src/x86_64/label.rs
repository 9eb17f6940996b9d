//! Labels, and the jumps that refer to them.
//!
//! A label is one word of the caller's, zero while unused. It is [`PENDING`] with the offset of the latest
//! displacement field that waits for it, or [`BOUND`] with the offset of its place. A waiting field holds the offset
//! of the one before it, zero at the end of the chain (no field lies at offset 0: an opcode comes first).
//!
//! The length of a jump depends only on what is behind it. A jump back to a bound label is short when it can be. A
//! jump forward always has 32 bits, whether or not its label is bound already. So measuring and emitting agree.

use super::{Assembler, Condition, EmitError, Register};

const PENDING: u64 = 1 << 62;
const BOUND: u64 = 2 << 62;
const STATE: u64 = 3 << 62;
const OFFSET: u64 = u32::MAX as u64;

/// A place in the code: the index of its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(pub u32);

/// A short jump forward that has not landed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skip(usize);

impl Assembler<'_> {
    /// Binds `label` to the current position and patches the jumps that wait for it. Binding again at the same
    /// position changes nothing.
    pub fn bind(&mut self, label: Label) {
        let Some(word) = self.label_word(label) else { return };
        let here = self.position as u64;
        match word & STATE {
            BOUND if word & OFFSET == here => {}
            BOUND => self.fail(EmitError::LabelBoundTwice { label: label.0 }),
            PENDING => {
                self.patch_chain((word & OFFSET) as usize);
                self.labels[label.0 as usize] = BOUND | here;
            }
            _ => self.labels[label.0 as usize] = BOUND | here,
        }
    }

    /// Byte offset of `label`, when it is bound.
    pub fn offset_of(&self, label: Label) -> Option<usize> {
        let word = *self.labels.get(label.0 as usize)?;
        (word & STATE == BOUND).then_some((word & OFFSET) as usize)
    }

    /// `jmp label`
    pub fn jump(&mut self, label: Label) {
        match self.short_displacement(label) {
            Some(displacement) => self.bytes(&[0xeb, displacement]),
            None => self.refer(&[0xe9], label),
        }
    }

    /// `jcc label`
    pub fn jump_if(&mut self, condition: Condition, label: Label) {
        match self.short_displacement(label) {
            Some(displacement) => self.bytes(&[0x70 | condition as u8, displacement]),
            None => self.refer(&[0x0f, 0x80 | condition as u8], label),
        }
    }

    /// A two-byte `jcc` forward over the next few instructions, up to [`Assembler::land`].
    #[must_use = "a jump must land"]
    pub fn skip_if(&mut self, condition: Condition) -> Skip {
        self.bytes(&[0x70 | condition as u8, 0]);
        Skip(self.position)
    }

    /// A two-byte `jmp` forward over the next few instructions, up to [`Assembler::land`].
    #[must_use = "a jump must land"]
    pub fn skip(&mut self) -> Skip {
        self.bytes(&[0xeb, 0]);
        Skip(self.position)
    }

    /// Where a [`Skip`] leads: at most 127 bytes after it.
    pub fn land(&mut self, skip: Skip) {
        let distance = self.position - skip.0;
        match u8::try_from(distance).ok().filter(|distance| *distance < 128) {
            Some(distance) => {
                if let Some(field) = self.buffer.get_mut(skip.0 - 1) {
                    *field = distance;
                }
            }
            None => self.fail(EmitError::TooFar { position: skip.0 }),
        }
    }

    /// `jcc` back to a position at most 126 bytes ago.
    pub fn jump_back_if(&mut self, condition: Condition, position: usize) {
        match (self.position + 2).checked_sub(position).filter(|distance| *distance <= 128) {
            Some(distance) => self.bytes(&[0x70 | condition as u8, (distance as u8).wrapping_neg()]),
            None => self.fail(EmitError::TooFar { position: self.position }),
        }
    }

    /// Whether anything refers to `label`, or it is bound.
    pub fn is_used(&self, label: Label) -> bool {
        self.labels.get(label.0 as usize).is_some_and(|word| *word != 0)
    }

    /// `call label`
    pub fn call(&mut self, label: Label) {
        self.refer(&[0xe8], label);
    }

    /// `lea destination, [rip + label]`: the run-time address of a label.
    pub fn load_address(&mut self, destination: Register, label: Label) {
        let number = destination.number();
        let rex = 0x48 | (number >> 3) << 2;
        self.refer(&[rex, 0x8d, (number & 7) << 3 | 5], label);
    }

    /// `jmp` to an address outside this code, which will run at `code_address`.
    pub fn jump_outside(&mut self, target: u64, code_address: u64) {
        self.refer_outside(0xe9, target, code_address);
    }

    /// `syscalls` to an address outside this code, which will run at `code_address`.
    pub fn call_outside(&mut self, target: u64, code_address: u64) {
        self.refer_outside(0xe8, target, code_address);
    }

    fn refer_outside(&mut self, opcode: u8, target: u64, code_address: u64) {
        let next = code_address.wrapping_add(self.position as u64 + 5);
        match i32::try_from(target.wrapping_sub(next) as i64) {
            Ok(displacement) => {
                self.bytes(&[opcode]);
                self.bytes(&displacement.to_le_bytes());
            }
            Err(_) => self.fail(EmitError::TooFar { position: self.position }),
        }
    }

    /// The lowest label that is referred to but not bound.
    pub(super) fn first_unbound_label(&self) -> Option<u32> {
        self.labels.iter().position(|word| word & STATE == PENDING).map(|index| index as u32)
    }

    fn label_word(&mut self, label: Label) -> Option<u64> {
        let word = self.labels.get(label.0 as usize).copied();
        if word.is_none() {
            self.fail(EmitError::NoSuchLabel { label: label.0, available: self.labels.len() });
        }
        word
    }

    /// The 8-bit displacement of a two-byte jump back to `label`, when it reaches.
    fn short_displacement(&self, label: Label) -> Option<u8> {
        let target = self.offset_of(label)?;
        let distance = (self.position + 2).checked_sub(target)?;
        (2..=128).contains(&distance).then(|| (distance as u8).wrapping_neg())
    }

    /// Emits an opcode with a 32-bit displacement to `label`, chained when the label is not bound yet.
    fn refer(&mut self, opcode: &[u8], label: Label) {
        let Some(word) = self.label_word(label) else { return };
        self.bytes(opcode);
        let field = self.position;
        let value = match word & STATE {
            BOUND => displacement(field, (word & OFFSET) as usize),
            PENDING => (word & OFFSET) as u32,
            _ => 0,
        };
        self.bytes(&value.to_le_bytes());
        if word & STATE != BOUND {
            self.labels[label.0 as usize] = PENDING | field as u64;
        }
    }

    /// Points every displacement field of a chain at the current position. Stops where the buffer ends: then the
    /// code is incomplete anyway, and the chain with it.
    fn patch_chain(&mut self, mut field: usize) {
        let here = self.position;
        while field != 0 {
            let Some(bytes) = self.buffer.get_mut(field..field + 4) else { return };
            let previous = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
            bytes.copy_from_slice(&displacement(field, here).to_le_bytes());
            if previous >= field {
                return;
            }
            field = previous;
        }
    }
}

/// What a 32-bit displacement field at `field` must hold to reach `target`; both are below [`super::MAX_CODE`].
fn displacement(field: usize, target: usize) -> u32 {
    (target as u32).wrapping_sub(field as u32 + 4)
}
