//! The ends of regions that loops compare with, which stay in registers that the program leaves over.
//!
//! An access that starts inside its region whatever jumps do ([`Annotation::STARTS_INSIDE`]) needs one comparison. It
//! is inside if its address is at most the region's end less where the access ends, counted from the address. In a
//! loop that place is worth a register: then the mask against speculation takes one comparison of two registers and
//! one conditional move. It is the same for the whole run, so it is loaded on entry.

use crate::instruction::{Instruction, Size};
use crate::verifier::{Annotation, Protection, Space};

/// BPF registers whose places may hold an end if the program does not name them, and whether helpers keep these.
/// Division, long constants and the clearing of the frame use none of them.
pub(super) const SPARE: [(u8, bool); 7] =
    [(9, true), (8, true), (7, true), (6, true), (10, true), (5, false), (4, false)];
/// Ends that are looked at.
const CANDIDATES: usize = SPARE.len();

/// Where in a region accesses may start last: its end less `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limit {
    pub(super) region: u8,
    /// Bytes from the address in the register to the access's end.
    pub(super) end: i32,
}

impl Limit {
    /// What to compare an access with, if one comparison is enough.
    pub(super) fn of(note: Annotation, region: u8, offset: i16, size: Size) -> Option<Self> {
        let one_end = note.has(Annotation::STARTS_INSIDE) && !note.has(Annotation::END_IN_REGISTER);
        let one_end = one_end && note.protection() == Protection::Masked;
        one_end.then(|| Self { region, end: i32::from(offset) + size.bytes() as i32 })
    }
}

/// An end, the last instruction that compares with it so far, and whether a loop does.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    limit: Limit,
    last: usize,
    in_loop: bool,
}

/// The ends that a program compares with, found in one pass over it. When there are too many, those that no loop
/// uses and that were not met for longest are left out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidates([Option<Candidate>; CANDIDATES]);

impl Candidates {
    pub(super) const NONE: Self = Self([None; CANDIDATES]);

    /// Takes in an instruction: of an access its end, of a jump back the loop that it closes.
    pub(super) fn add(&mut self, instruction: &Instruction, index: usize, note: Annotation) {
        match *instruction {
            Instruction::Load { size, offset, .. }
            | Instruction::Store { size, offset, .. }
            | Instruction::Atomic { size, offset, .. } => {
                if let Space::Region(region) = note.space()
                    && let Some(limit) = Limit::of(note, region, offset, size)
                {
                    self.note(limit, index);
                }
            }
            _ if !note.has(Annotation::NEVER) => {
                let start = instruction.jump_target().map(|target| target as usize).filter(|target| *target <= index);
                let start = start.unwrap_or(usize::MAX);
                self.0.iter_mut().flatten().for_each(|candidate| candidate.in_loop |= candidate.last >= start);
            }
            _ => {}
        }
    }

    fn note(&mut self, limit: Limit, index: usize) {
        if let Some(known) = self.0.iter_mut().flatten().find(|known| known.limit == limit) {
            known.last = index;
            return;
        }
        let age = |place: &&mut Option<Candidate>| place.map_or(0, |known| known.last + 1);
        let replaceable = |place: &&mut Option<Candidate>| place.is_none_or(|known| !known.in_loop);
        if let Some(place) = self.0.iter_mut().filter(replaceable).min_by_key(age) {
            *place = Some(Candidate { limit, last: index, in_loop: false });
        }
    }

    /// The ends that loops compare with.
    pub(super) fn in_loops(self) -> impl Iterator<Item = Limit> {
        self.0.into_iter().flatten().filter(|candidate| candidate.in_loop).map(|candidate| candidate.limit)
    }
}
