//! Jumps inside a function. Those that go back are charged, where the budget is counted, and where it is not, may have
//! compared already what the mask of an access compares.

use super::Emitter;
use super::layout::{register, width};
use crate::instruction::{Comparison, Instruction, Operand};
use crate::verifier::Annotation;
use crate::x86_64::{Arithmetic, Condition};

impl Emitter<'_, '_, '_> {
    pub(super) fn jump(&mut self, target: usize) {
        if self.index > 0 && self.turned(self.index - 1).is_some() {
            return;
        }
        if let Some(cost) = self.cost_of_jump(target) {
            self.charge(cost);
        }
        // A jump to the next instruction is none.
        if target != self.index + 1 {
            self.assembler.jump(self.labels.slot(target));
        }
    }

    /// What a jump back costs: the slots of the loop.
    fn cost_of_jump(&self, target: usize) -> Option<u32> {
        let back = target <= self.index && self.verified.counts_budget();
        back.then(|| (self.index - target) as u32 + 1)
    }

    pub(super) fn branch(&mut self, comparison: Comparison, wide: bool, left: u8, right: Operand, target: usize) {
        let note = self.note();
        if note.has(Annotation::NEVER) {
            return;
        }
        if note.has(Annotation::ALWAYS) {
            return self.jump(target);
        }
        let back = self.turned(self.index);
        let leads = back.unwrap_or(target);
        let turned = |condition: Condition| if back.is_some() { condition.negated() } else { condition };
        if let Some((comparison, address, end)) = self.compares_for_mask(comparison, wide, left, right, leads) {
            self.compare(comparison, wide, address, Operand::Register(end));
            return self.assembler.jump_if(turned(condition(comparison)), self.labels.compared(leads));
        }
        if back.is_some() {
            self.compare(comparison, wide, left, right);
            return self.assembler.jump_if(turned(condition(comparison)), self.labels.slot(leads));
        }
        self.compare(comparison, wide, left, right);
        let condition = condition(comparison);
        match self.cost_of_jump(target) {
            None => self.assembler.jump_if(condition, self.labels.slot(target)),
            Some(cost) => {
                let over = self.assembler.skip_if(condition.negated());
                self.charge(cost);
                self.assembler.jump(self.labels.slot(target));
                self.assembler.land(over);
            }
        }
    }

    /// Where the jump after a conditional one leads that only passes it by, as compilers end loops:
    /// `if … goto out; goto head` with `out` behind it. Such a pair is one jump back under the opposite condition.
    /// Where jumps back are charged it stays two.
    fn turned(&self, index: usize) -> Option<usize> {
        let (program, notes) = (self.verified.program, [index, index + 1].map(|index| self.verified.annotation(index)));
        let either = |note: Annotation| note.has(Annotation::REACHED);
        let decided = notes[0].has(Annotation::ALWAYS) || notes[0].has(Annotation::NEVER);
        if self.verified.counts_budget()
            || decided
            || !notes.into_iter().all(either)
            || notes[1].has(Annotation::TARGET)
        {
            return None;
        }
        let Instruction::Branch { target: out, .. } = Instruction::decode(program, index).ok()? else { return None };
        let Instruction::Jump { target } = Instruction::decode(program, index + 1).ok()? else { return None };
        (out as usize == index + 2 && target as usize <= index).then_some(target as usize)
    }

    /// Whether a jump back leads to an access that first compares, for its mask, what the jump compares. Then it leads
    /// behind that, with the flags as they are: what the jump does with them is of no matter to the mask. Returns the
    /// comparison with the access's address on the left.
    fn compares_for_mask(
        &self,
        comparison: Comparison,
        wide: bool,
        left: u8,
        right: Operand,
        target: usize,
    ) -> Option<(Comparison, u8, u8)> {
        let Operand::Register(right) = right else { return None };
        if !wide || target > self.index || self.cost_of_jump(target).is_some() || comparison == Comparison::AnyBit {
            return None;
        }
        let (end, _) = self.verified.annotation(target).end_register()?;
        let address = match Instruction::decode(self.verified.program, target).ok()? {
            Instruction::Load { base, .. } | Instruction::Store { base, .. } | Instruction::Atomic { base, .. } => base,
            _ => return None,
        };
        match (left, right) {
            same if same == (address, end) => Some((comparison, address, end)),
            same if same == (end, address) => Some((comparison.mirrored(), address, end)),
            _ => None,
        }
    }

    fn compare(&mut self, comparison: Comparison, wide: bool, left: u8, right: Operand) {
        let (left, width) = (register(left), width(wide));
        let test = comparison == Comparison::AnyBit;
        match (self.operand_register(right, wide), right) {
            (None, Operand::Immediate(0)) if !test => self.assembler.test(width, left, left),
            (None, Operand::Immediate(value)) if test => self.assembler.test_immediate(width, left, value),
            (None, Operand::Immediate(value)) => {
                self.assembler.arithmetic_immediate(Arithmetic::Compare, width, left, value);
            }
            (Some(right), _) if test => self.assembler.test(width, left, right),
            (right, _) => self.assembler.arithmetic(Arithmetic::Compare, width, left, right.unwrap_or(left)),
        }
    }
}

/// The condition after `cmp` (or `test`) under which a comparison holds.
fn condition(comparison: Comparison) -> Condition {
    match comparison {
        Comparison::Equal => Condition::Equal,
        Comparison::NotEqual | Comparison::AnyBit => Condition::NotEqual,
        Comparison::Greater => Condition::Above,
        Comparison::GreaterOrEqual => Condition::AboveOrEqual,
        Comparison::Less => Condition::Below,
        Comparison::LessOrEqual => Condition::BelowOrEqual,
        Comparison::SignedGreater => Condition::Greater,
        Comparison::SignedGreaterOrEqual => Condition::GreaterOrEqual,
        Comparison::SignedLess => Condition::Less,
        Comparison::SignedLessOrEqual => Condition::LessOrEqual,
    }
}
