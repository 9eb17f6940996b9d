//! The proof that a program ends: how often each instruction can be executed at most.
//!
//! A loop is a backward jump with the slots between its target and itself. It is bounded when nothing jumps into its
//! middle, loops nest, and some register is changed in it by one instruction only, which adds a constant, which every
//! round passes, and whose operand the fixed point knows to stay in a range that the sum does not wrap out of: the range
//! divided by the constant bounds the rounds. An instruction is then executed at most as often as the product over the
//! loops around it of their rounds plus one. If all loops are bounded and the sum for the whole program is
//! within the budget, nothing need be counted at run time.

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
        self.writers = [0; REGISTERS];
        self.counters = [(0, 0); REGISTERS];
        self.stage = Stage::Survey;
        self.cursor = subject.storage.function_start(subject.storage.function_of(index));
        Ok(true)
    }

    fn contains(&self, index: usize) -> bool {
        (self.target..=self.source).contains(&index)
    }

    fn survey(&mut self, subject: &mut Subject<'_, '_>) -> Result<(), Refusal> {
        let function = subject.storage.function_of(self.source);
        let index = self.cursor;
        if index >= subject.storage.function_start(function + 1) {
            self.stage = Stage::Bypass;
            self.cursor = self.target;
            return Ok(());
        }
        self.cursor += 1;
        if !subject.storage.annotation(index).has(Annotation::REACHED) {
            return Ok(());
        }
        if let Some(to) = reached_jump(subject, index)? {
            let enters_middle = !self.contains(index) && to > self.target && to <= self.source;
            let crosses = self.contains(index) && index != self.source && to < self.target;
            if enters_middle || crosses {
                self.unbounded = Some(self.source);
            }
        }
        if self.contains(index) {
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
            let jump = reached_jump(subject, index)?;
            if let Some(to) = jump.filter(|to| self.contains(*to)) {
                for (counter, steps) in &mut self.counters {
                    if index < *counter && to > *counter {
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
            *weight = weight.saturating_mul(u64::from(self.rounds) + 1);
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
