//! What a program takes of the machine: entering and leaving save no more than that, and what it does not take
//! holds the ends of regions ([`super::limit`]).

use super::CompileError;
use super::layout::{self, KEPT, RECORD};
use super::limit::{Candidates, Limit, SPARE};
use crate::instruction::Instruction;
use crate::program::Program;
use crate::verifier::Annotation;
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

/// The BPF registers that live in a register, as bits.
fn home_of(register: Register) -> u16 {
    (0..=10).filter(|number| layout::register(*number) == register).fold(0, |homes, number| homes | 1 << number)
}

/// Collected from the reachable instructions before anything is emitted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// BPF registers that are named, or that masks compare with, as bits. One too many only costs its saving.
    registers: u16,
    /// Whether the program has more functions than the first.
    functions: bool,
    /// Whether it calls helpers, which keep only some registers.
    helpers: bool,
    /// Ends of regions that its loops compare with.
    candidates: Candidates,
}

impl Shape {
    pub(super) const fn new() -> Self {
        Self { registers: 0, functions: false, helpers: false, candidates: Candidates::NONE }
    }

    /// Takes an instruction in: both register fields of its slot count, whether or not it uses them.
    pub(super) fn add(&mut self, program: Program<'_>, index: usize, note: Annotation) -> Result<(), CompileError> {
        let slot = program.slot(index).ok_or(CompileError::ProgramChanged)?;
        self.registers |= 1 << slot.destination | 1 << slot.source;
        let decoded = Instruction::decode(program, index).map_err(|_| CompileError::ProgramChanged)?;
        match decoded {
            // Calls move the frame, which r10 points to.
            Instruction::CallFunction { .. } => {
                self.registers |= 1 << 10;
                self.functions = true;
            }
            Instruction::CallHelper { .. } => self.helpers = true,
            _ => {
                let end = note.end_register().map_or(0, |(register, _)| 1 << register);
                self.registers |= end;
                self.candidates.add(&decoded, index, note);
            }
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
        let taken = self.registers | self.limits().fold(0, |homes, (_, register)| homes | home_of(register));
        kept.filter(move |(register, home)| *register == RECORD || taken & home != 0).map(|(register, _)| register)
    }

    /// The ends of regions that have a register, with it: as many as registers are left over.
    pub(super) fn limits(self) -> impl Iterator<Item = (Limit, Register)> {
        let free = SPARE.into_iter().filter(move |(number, kept)| !self.names(*number) && (*kept || !self.helpers));
        self.candidates.in_loops().zip(free.map(|(number, _)| layout::register(number)))
    }

    /// The register that holds this end.
    pub(super) fn limit(self, limit: Limit) -> Option<Register> {
        self.limits().find(|(other, _)| *other == limit).map(|(_, register)| register)
    }

    /// Whether one more word aligns the native stack for helpers: the return address and the kept ones are there.
    pub(super) fn pads(self) -> bool {
        self.kept().count().is_multiple_of(2)
    }
}
