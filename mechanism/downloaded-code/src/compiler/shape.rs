//! What a program takes of the machine: entering and leaving save no more than that.

use super::CompileError;
use super::layout::{self, KEPT, RECORD};
use crate::instruction::Instruction;
use crate::program::Program;
use crate::x86_64::Register;

/// For each of [`KEPT`] the BPF registers that live in it, as bits.
const HOMES: [u16; KEPT.len()] = {
    let mut homes = [0; KEPT.len()];
    let mut at = 0;
    while at < KEPT.len() * 11 {
        let (kept, number) = (at / 11, at % 11);
        if layout::register(number as u8) as u8 == KEPT[kept] as u8 {
            homes[kept] |= 1 << number;
        }
        at += 1;
    }
    homes
};

/// Collected from the reachable instructions before anything is emitted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// BPF registers that are named, as bits. One too many only costs its saving.
    registers: u16,
    /// Whether the program has more functions than the first.
    functions: bool,
}

impl Shape {
    pub(super) const fn new() -> Self {
        Self { registers: 0, functions: false }
    }

    /// Takes an instruction in: both register fields of its slot count, whether or not it uses them.
    pub(super) fn add(&mut self, program: Program<'_>, index: usize) -> Result<(), CompileError> {
        let slot = program.slot(index).ok_or(CompileError::ProgramChanged)?;
        self.registers |= 1 << slot.destination | 1 << slot.source;
        let decoded = Instruction::decode(program, index).map_err(|_| CompileError::ProgramChanged)?;
        if matches!(decoded, Instruction::CallFunction { .. }) {
            // Calls move the frame, which r10 points to.
            self.registers |= 1 << 10;
            self.functions = true;
        }
        Ok(())
    }

    /// Whether code may stop while more lies on the native stack than entering put there.
    pub(super) fn nests(self) -> bool {
        self.functions
    }

    /// Whether the program names a register.
    pub(super) fn names(self, number: u8) -> bool {
        self.registers & 1 << number != 0
    }

    /// Whether the program has a use for its frame.
    pub(super) fn uses_frame(self) -> bool {
        self.registers & 1 << 10 != 0
    }

    /// The caller's registers that the code changes, in the order in which they are pushed.
    pub(super) fn kept(self) -> impl DoubleEndedIterator<Item = Register> {
        let kept = KEPT.into_iter().zip(HOMES);
        kept.filter(move |(register, home)| *register == RECORD || self.registers & home != 0)
            .map(|(register, _)| register)
    }

    /// Whether one more word aligns the native stack for helpers: the return address and the kept ones are there.
    pub(super) fn pads(self) -> bool {
        self.kept().count().is_multiple_of(2)
    }
}
