//! The proof that a program ends: how often each instruction can be executed at most.
//!
//! A loop is a target of backward jumps with the slots up to the last of them. It is bounded on three conditions.
//! Nothing jumps back into its middle; compilers do jump ahead into it, which may cut the first round short. Loops
//! nest. Some register is changed in it by one instruction only, which adds a constant and which every round passes.
//! The fixed point knows the operand of that instruction to stay in a range that the sum does not wrap out of. Then
//! the range divided by the constant bounds the rounds. An instruction is then executed at most as often as the
//! product over the loops around it of their rounds plus one. If all loops are bounded and the sum for the whole
//! program is within the budget, nothing need be counted at run time.

use super::analysis::Subject;
use super::annotation::Annotation;
use super::structure::decode;
use crate::instruction::{Arithmetic, Instruction, Operand, REGISTERS};
use crate::refusal::Refusal;

/// Loops that are looked at; programs with more have their budget counted.
const MAX_LOOPS: u32 = 256;

/// What happens to the loop in hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Looking for the next backward jump.
    Seek,
    /// Finding, from its end backwards, which instructions between target and end belong to the loop.
    Reach,
    /// Looking at all instructions of the function: who writes what, who jumps where.
    Survey,
    /// Looking for jumps past an instruction that counts.
    Bypass,
    /// Multiplying the weights of the loop.
    Weigh,
}

/// The search, one instruction at a time.
#[derive(Clone, Debug)]
pub(crate) struct Loops {
    stage: Stage,
    cursor: usize,
    source: usize,
    target: usize,
    loops: u32,
    /// For each register, how many instructions of the loop write it.
    writers: [u8; REGISTERS],
    /// The instruction that adds a constant to the register, and how often it can; zero when there is none.
    counters: [(usize, u32); REGISTERS],
    rounds: u32,
    /// It overlaps another loop without containing it.
    overlaps: bool,
    /// A later jump leads back to the same target: the loop is looked at there.
    superseded: bool,
    /// The first round may begin in the middle.
    cut_short: bool,
    /// The backward jump that is not bounded, once there is one.
    pub(crate) unbounded: Option<usize>,
}

impl Loops {
    pub(crate) const fn new() -> Self {
        Self {
            stage: Stage::Seek,
            cursor: 0,
            source: 0,
            target: 0,
            loops: 0,
            writers: [0; REGISTERS],
            counters: [(0, 0); REGISTERS],
            rounds: 0,
            overlaps: false,
            superseded: false,
            cut_short: false,
            unbounded: None,
        }
    }

    /// Looks at one instruction. `false` when all loops are bounded, or one is not.
    pub(crate) fn advance(&mut self, subject: &mut Subject<'_, '_>) -> Result<bool, Refusal> {
        if self.unbounded.is_some() {
            return Ok(false);
        }
        match self.stage {
            Stage::Seek => return self.seek(subject),
            Stage::Reach => self.reach(subject)?,
            Stage::Survey => self.survey(subject)?,
            Stage::Bypass => self.bypass(subject)?,
            Stage::Weigh => self.weigh(subject),
        }
        Ok(true)
    }

    fn seek(&mut self, subject: &mut Subject<'_, '_>) -> Result<bool, Refusal> {
        let index = self.cursor;
        if index >= subject.program.slots() {
            return Ok(false);
        }
        self.cursor += 1;
        let target = reached_jump(subject, index)?.filter(|target| *target <= index);
        let Some(target) = target else { return Ok(true) };
        self.loops += 1;
        if self.loops > MAX_LOOPS {
            self.unbounded = Some(index);
            return Ok(false);
        }
        (self.source, self.target) = (index, target);
        (self.overlaps, self.superseded, self.cut_short) = (false, false, false);
        self.writers = [0; REGISTERS];
        self.counters = [(0, 0); REGISTERS];
        (self.stage, self.cursor) = (Stage::Reach, index);
        Ok(true)
    }

    /// An instruction belongs to the loop if the loop's end can be reached from it. A jump back inside the loop is
    /// taken to reach it, without looking: that counts too much in, never too little.
    fn reach(&mut self, subject: &mut Subject<'_, '_>) -> Result<(), Refusal> {
        let index = self.cursor;
        let mut note = subject.storage.annotation(index);
        note.0 &= !Annotation::IN_LOOP;
        if note.has(Annotation::SECOND_HALF) {
            note.0 |= subject.storage.annotation(index + 1).0 & Annotation::IN_LOOP;
        } else if note.has(Annotation::REACHED) {
            let belongs = |to: usize| {
                to <= index && self.contains(to)
                    || self.contains(to) && subject.storage.annotation(to).has(Annotation::IN_LOOP)
            };
            let jumps = reached_jump(subject, index)?.is_some_and(belongs);
            let falls = decode(subject.program, index)?.falls_through() && index < self.source && belongs(index + 1);
            if jumps || falls {
                note.set(Annotation::IN_LOOP);
            }
        }
        subject.storage.annotate(index, note);
        if index == self.target {
            let start = subject.storage.function_start(subject.storage.function_of(index));
            (self.stage, self.cursor) = (Stage::Survey, start);
        } else {
            self.cursor -= 1;
        }
        Ok(())
    }

    fn contains(&self, index: usize) -> bool {
        (self.target..=self.source).contains(&index)
    }

    fn survey(&mut self, subject: &mut Subject<'_, '_>) -> Result<(), Refusal> {
        let function = subject.storage.function_of(self.source);
        let index = self.cursor;
        if index >= subject.storage.function_start(function + 1) {
            (self.stage, self.cursor) = (Stage::Bypass, self.target);
            if self.superseded {
                (self.stage, self.cursor) = (Stage::Seek, self.source + 1);
            } else if self.overlaps {
                self.unbounded = Some(self.source);
            }
            return Ok(());
        }
        self.cursor += 1;
        if !subject.storage.annotation(index).has(Annotation::REACHED) {
            return Ok(());
        }
        if let Some(to) = reached_jump(subject, index)? {
            let into_middle = to > self.target && to <= self.source;
            let crosses = self.contains(index) && index != self.source && to < self.target;
            self.overlaps |= into_middle && index > self.source || crosses;
            self.superseded |= to == self.target && index > self.source;
            self.cut_short |= into_middle && index < self.target;
        }
        if self.contains(index) && subject.storage.annotation(index).has(Annotation::IN_LOOP) {
            self.note_writes(subject, index)?;
        }
        Ok(())
    }

    fn note_writes(&mut self, subject: &Subject<'_, '_>, index: usize) -> Result<(), Refusal> {
        let instruction = decode(subject.program, index)?;
        if let Some(register) = instruction.written_register() {
            let register = usize::from(register);
            self.writers[register] = self.writers[register].saturating_add(1);
            let note = subject.storage.annotation(index);
            let steps = match instruction {
                _ if note.has(Annotation::STEPS) => note.upper(),
                // The result is the same each time although something is added: it happens once.
                Instruction::Arithmetic {
                    operation: Arithmetic::Add | Arithmetic::Subtract,
                    operand: Operand::Immediate(step),
                    ..
                } if note.has(Annotation::CONSTANT) && step != 0 => 1,
                _ => 0,
            };
            self.counters[register] = (index, steps);
        }
        if matches!(instruction, Instruction::CallHelper { .. } | Instruction::CallFunction { .. }) {
            for writers in &mut self.writers[..6] {
                *writers = 2;
            }
        }
        Ok(())
    }

    /// Strikes out counters that a jump inside the loop can pass by; then takes the best one left.
    fn bypass(&mut self, subject: &mut Subject<'_, '_>) -> Result<(), Refusal> {
        let index = self.cursor;
        if index <= self.source {
            self.cursor += 1;
            let in_loop = |to: &usize| self.contains(*to) && subject.storage.annotation(*to).has(Annotation::IN_LOOP);
            if let Some(to) = reached_jump(subject, index)?.filter(in_loop) {
                for (counter, steps) in &mut self.counters {
                    if index < *counter && (to > *counter || to == self.target) {
                        *steps = 0;
                    }
                }
            }
            return Ok(());
        }
        let usable = self.writers.iter().zip(&self.counters).filter(|(writers, _)| **writers == 1);
        let rounds = usable.map(|(_, (_, steps))| *steps).filter(|steps| *steps > 0).min();
        match rounds {
            Some(rounds) => {
                self.rounds = rounds;
                self.cursor = self.target;
                self.stage = Stage::Weigh;
            }
            None => self.unbounded = Some(self.source),
        }
        Ok(())
    }

    fn weigh(&mut self, subject: &mut Subject<'_, '_>) {
        if self.cursor <= self.source {
            let weight = &mut subject.storage.weights[self.cursor];
            *weight = weight.saturating_mul(u64::from(self.rounds) + 1 + u64::from(self.cut_short));
            self.cursor += 1;
            return;
        }
        self.stage = Stage::Seek;
        self.cursor = self.source + 1;
    }
}

/// Where a reached instruction jumps to, if it can.
fn reached_jump(subject: &Subject<'_, '_>, index: usize) -> Result<Option<usize>, Refusal> {
    let note = subject.storage.annotation(index);
    if !note.has(Annotation::REACHED) || note.has(Annotation::NEVER) {
        return Ok(None);
    }
    Ok(decode(subject.program, index)?.jump_target().map(|target| target as usize))
}

/// Adds what one instruction costs at most to its function, once the functions that it calls have their costs.
pub(crate) fn add_cost(subject: &mut Subject<'_, '_>, index: usize, level: u64) -> Result<(), Refusal> {
    let function = subject.storage.function_of(index);
    if subject.storage.frames(function) != level {
        return Ok(());
    }
    let mut cost = 1;
    if !subject.storage.annotation(index).has(Annotation::SECOND_HALF) {
        cost += match decode(subject.program, index)? {
            Instruction::CallFunction { target } => subject.storage.cost(subject.storage.function_of(target as usize)),
            Instruction::CallHelper { number } => {
                subject.context.helper(number).map_or(0, |helper| u64::from(helper.cost))
            }
            _ => 0,
        };
    }
    let weighted = subject.storage.weights[index].saturating_mul(cost);
    subject.storage.add_cost(function, weighted);
    Ok(())
}
