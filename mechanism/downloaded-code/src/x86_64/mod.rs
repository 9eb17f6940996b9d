//! The back end: an emitter of x86-64 machine code into a buffer that the caller owns.
//!
//! It owns the encoding of the instructions that the kernel's compilers use (Intel SDM volume 2) and the patching of
//! jumps. What always holds: it allocates nothing, writes only inside its buffer, and the code it makes is position
//! independent unless the caller asks for an absolute address. Errors stick: a failed instruction leaves the
//! assembler counting, so that one check in [`Assembler::finish`] is enough, and [`EmitError::BufferFull`] says
//! exactly how many bytes the whole code needs. Emitting into an empty buffer therefore measures.
//!
//! Labels live in words that the caller gives, one word a label, all zero at first. Jumps to a label that is not yet
//! bound are chained through their own displacement fields, so forward references need no further storage.
//!
//! No instruction here touches vector or floating-point registers: the kernel does not save them.

mod instruction;
mod label;
mod operand;

pub use instruction::{Arithmetic, Shift};
pub use label::{Label, Skip};
pub use operand::{Condition, Memory, Register, Scale, Width};

use core::fmt;

/// Why the code could not be emitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmitError {
    /// The buffer is too small; the whole code needs `needed` bytes.
    BufferFull {
        /// Bytes that the code needs.
        needed: usize,
        /// Bytes that the buffer has.
        available: usize,
    },
    /// A label was used for which the caller gave no word.
    NoSuchLabel {
        /// Number of the label.
        label: u32,
        /// How many labels there are.
        available: usize,
    },
    /// A label was bound at two different places.
    LabelBoundTwice {
        /// Number of the label.
        label: u32,
    },
    /// A jump refers to a label that was never bound.
    LabelNeverBound {
        /// Number of the label.
        label: u32,
    },
    /// A jump or call is further away than a signed 32-bit displacement reaches (±2 GiB).
    TooFar {
        /// Byte offset of the instruction in the code.
        position: usize,
    },
    /// An operand that the instruction set cannot express (the stack pointer as index).
    BadOperand {
        /// Byte offset of the instruction in the code.
        position: usize,
    },
}

impl fmt::Display for EmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::BufferFull { needed, available } => {
                write!(f, "code needs {needed} bytes, the buffer has {available}: give a larger one")
            }
            Self::NoSuchLabel { label, available } => {
                write!(f, "label {label} does not exist: storage for {available} labels was given")
            }
            Self::LabelBoundTwice { label } => write!(f, "label {label} is bound at two places"),
            Self::LabelNeverBound { label } => write!(f, "label {label} is jumped to but never bound"),
            Self::TooFar { position } => {
                write!(f, "at byte {position}: the target is more than 2 GiB away")
            }
            Self::BadOperand { position } => {
                write!(f, "at byte {position}: the operand cannot be encoded")
            }
        }
    }
}

/// The most code one assembler makes, in bytes: displacements stay within 32 bits.
pub const MAX_CODE: usize = i32::MAX as usize;

/// Bytes that processors fetch and keep together, decoded or not.
pub const LINE: usize = 64;

/// Instructions of 1 to 9 bytes that do nothing (Intel SDM volume 2, NOP).
const NO_OPERATIONS: [[u8; 9]; 9] = [
    [0x90, 0, 0, 0, 0, 0, 0, 0, 0],
    [0x66, 0x90, 0, 0, 0, 0, 0, 0, 0],
    [0x0f, 0x1f, 0x00, 0, 0, 0, 0, 0, 0],
    [0x0f, 0x1f, 0x40, 0, 0, 0, 0, 0, 0],
    [0x0f, 0x1f, 0x44, 0, 0, 0, 0, 0, 0],
    [0x66, 0x0f, 0x1f, 0x44, 0, 0, 0, 0, 0],
    [0x0f, 0x1f, 0x80, 0, 0, 0, 0, 0, 0],
    [0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0, 0],
    [0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0],
];

/// An emitter over a caller's buffer and label words.
pub struct Assembler<'a> {
    buffer: &'a mut [u8],
    labels: &'a mut [u64],
    position: usize,
    error: Option<EmitError>,
}

impl<'a> Assembler<'a> {
    /// Starts at the beginning of `buffer`. Every word of `labels` that is zero is an unbound label.
    pub fn new(buffer: &'a mut [u8], labels: &'a mut [u64]) -> Self {
        Self::resume(buffer, labels, 0)
    }

    /// Continues at `position`, as another assembler over the same buffer and labels left off.
    pub fn resume(buffer: &'a mut [u8], labels: &'a mut [u64], position: usize) -> Self {
        Self { buffer, labels, position, error: None }
    }

    /// Bytes emitted so far, counted from the beginning of the buffer, also past its end.
    pub fn position(&self) -> usize {
        self.position
    }

    /// The first error other than a full buffer, if any.
    pub fn error(&self) -> Option<EmitError> {
        self.error
    }

    /// Size of the code, if all of it is in the buffer and every label that is used is bound.
    pub fn finish(self) -> Result<usize, EmitError> {
        if let Some(label) = self.first_unbound_label() {
            return Err(self.error.unwrap_or(EmitError::LabelNeverBound { label }));
        }
        self.finish_part()
    }

    /// Like [`Assembler::finish`] for code that another assembler will continue: labels may be unbound.
    pub fn finish_part(self) -> Result<usize, EmitError> {
        match self.error {
            Some(error) => Err(error),
            None if self.position > self.buffer.len() => {
                Err(EmitError::BufferFull { needed: self.position, available: self.buffer.len() })
            }
            None => Ok(self.position),
        }
    }

    /// Emits raw bytes: tables of constants, or an instruction that has no method here.
    pub fn bytes(&mut self, bytes: &[u8]) {
        if self.position.saturating_add(bytes.len()) > MAX_CODE {
            return self.fail(EmitError::TooFar { position: self.position });
        }
        let end = self.position + bytes.len();
        if let Some(place) = self.buffer.get_mut(self.position..end) {
            place.copy_from_slice(bytes);
        }
        self.position = end;
    }

    /// Fills with `int3` up to the next multiple of `alignment` (a power of two), counted from the buffer's start.
    pub fn align(&mut self, alignment: usize) {
        while !self.position.is_multiple_of(alignment) && self.error.is_none() {
            self.bytes(&[0xcc]);
        }
    }

    /// Makes room so that the next `bytes` bytes (at most [`LINE`]) lie in one line, if the buffer starts with a
    /// line. It pads with no-operations until the next line begins, unless the bytes fit into this one.
    pub fn keep_in_one_line(&mut self, bytes: usize) {
        let left = LINE - self.position % LINE;
        let mut padding = if left < bytes { left } else { 0 };
        while padding > 0 {
            let length = padding.min(NO_OPERATIONS.len());
            self.bytes(&NO_OPERATIONS[length - 1][..length]);
            padding -= length;
        }
    }

    fn fail(&mut self, error: EmitError) {
        self.error.get_or_insert(error);
    }
}
