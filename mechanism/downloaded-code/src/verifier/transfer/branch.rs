//! Conditional jumps: which comparisons are allowed, and what each way teaches.

use super::super::annotation::Annotation;
use super::super::arithmetic::evaluate;
use super::super::refine::refine;
use super::super::scalar::Scalar;
use super::super::value::{Kind, Origin, Relation, Value};
use super::Transfer;
use super::arithmetic::moved;
use crate::context::MAX_REGIONS;
use crate::instruction::{Arithmetic, Comparison, Operand};
use crate::refusal::{Reason, Refusal};

/// Pointers this far from their region's start do not wrap around, so that comparing them tells nothing of where
/// the region lies.
const NEAR: i64 = crate::invocation::NEAR as i64;

/// Copies of a value that learn from a comparison of it; a bound on the work of one step.
const COPIES: u32 = 6;

/// What a conditional jump teaches if it is taken, and if it is not; `None` for a way that is impossible.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    pub(crate) taken: Option<(Value, Value)>,
    pub(crate) not_taken: Option<(Value, Value)>,
}

impl Outcome {
    /// What the compiler must know: a way that is impossible.
    pub(crate) fn note(&self) -> Annotation {
        let way = match (self.taken, self.not_taken) {
            (_, None) => Annotation::ALWAYS,
            (None, _) => Annotation::NEVER,
            _ => 0,
        };
        Annotation(Annotation::REACHED | way)
    }
}

impl Transfer<'_> {
    /// Both ways of a conditional jump.
    pub(crate) fn branch(
        &self,
        comparison: Comparison,
        wide: bool,
        left: u8,
        right: Operand,
    ) -> Result<Outcome, Refusal> {
        let (first, second) = (self.read(left)?, self.operand(right)?);
        let culprit = match right {
            Operand::Register(register) if !second.is_number() && is_near(&first) => register,
            _ => left,
        };
        let refused = || self.refuse(culprit, Reason::PointerComparison);
        match (first.is_number(), second.is_number()) {
            (true, true) => Ok(both_ways(comparison, wide, &first, &second)),
            (false, false) => compare_pointers(comparison, wide, &first, &second).ok_or_else(refused),
            (false, true) => compare_with_zero(comparison, wide, &first, &second).ok_or_else(refused),
            (true, false) => compare_with_zero(comparison, wide, &second, &first).map(swapped).ok_or_else(refused),
        }
    }

    /// Makes what one way teaches part of the state.
    pub(crate) fn learn(&mut self, left: u8, right: Operand, learnt: &(Value, Value)) {
        self.learn_value(left, &learnt.0);
        if let Operand::Register(register) = right {
            self.learn_value(register, &learnt.1);
        }
    }

    fn learn_value(&mut self, register: u8, value: &Value) {
        if register < crate::instruction::FRAME_POINTER {
            self.state.know(register, *value);
        }
        self.learn_length_of(value);
        if let Some(origin) = value.origin {
            self.learn_of_copies(value, origin);
        }
    }

    /// What is at least so much, and so far below a region's length, says how long the region is.
    fn learn_length_of(&mut self, value: &Value) {
        let Some(relation) = value.relation else { return };
        let Some(region) = self.context.regions.get(usize::from(relation.region)) else { return };
        let least = i64::try_from(value.scalar.minimum).ok();
        let length = least.and_then(|least| least.checked_add(relation.slack.into()));
        if let Some(length) = length.filter(|length| *length > 0) {
            let place = &mut self.state.proven[usize::from(relation.region) % MAX_REGIONS];
            *place = (*place).max(length.min(i64::from(region.maximum())) as u32);
        }
    }

    /// Copies of a value, give or take constants, are as far from their limits as it is.
    fn learn_of_copies(&mut self, learnt: &Value, origin: Origin) {
        let mut looked_at = 0;
        self.state.for_each(|copy| {
            let Some(other) = copy.origin.filter(|other| other.number == origin.number) else { return };
            looked_at += 1;
            if looked_at > COPIES {
                return;
            }
            let distance = other.distance.wrapping_sub(origin.distance);
            let moved_scalar = evaluate(Arithmetic::Add, true, &learnt.scalar, &Scalar::constant(distance as u64));
            if let Some(scalar) = copy.scalar.intersect(&moved_scalar).filter(|scalar| *scalar != copy.scalar) {
                copy.guarded = copy.guarded.taught(&copy.scalar, &scalar);
                copy.scalar = scalar;
            }
            let closer = |new: &Relation| match copy.relation {
                Some(old) => old.region == new.region && !old.exact && old.slack < new.slack,
                None => true,
            };
            // That they are copies may itself be known because of a jump.
            let taught = moved(learnt, distance, u64::MAX).map(|relation| Relation { untaught: false, ..relation });
            copy.relation = taught.filter(closer).or(copy.relation);
        });
    }
}

fn both_ways(comparison: Comparison, wide: bool, left: &Value, right: &Value) -> Outcome {
    Outcome {
        taken: refine(comparison, wide, true, left, right),
        not_taken: refine(comparison, wide, false, left, right),
    }
}

fn swapped(outcome: Outcome) -> Outcome {
    let swap = |pair: Option<(Value, Value)>| pair.map(|(first, second)| (second, first));
    Outcome { taken: swap(outcome.taken), not_taken: swap(outcome.not_taken) }
}

fn is_near(value: &Value) -> bool {
    let (least, greatest) = value.offsets();
    least >= -NEAR && greatest <= NEAR
}

/// Pointers into the same memory compare as their offsets do, when those are small enough not to wrap; they are equal
/// when their offsets are.
fn compare_pointers(comparison: Comparison, wide: bool, left: &Value, right: &Value) -> Option<Outcome> {
    let signed = match comparison {
        Comparison::Equal | Comparison::NotEqual => comparison,
        Comparison::Greater => Comparison::SignedGreater,
        Comparison::GreaterOrEqual => Comparison::SignedGreaterOrEqual,
        Comparison::Less => Comparison::SignedLess,
        Comparison::LessOrEqual => Comparison::SignedLessOrEqual,
        _ => return None,
    };
    // Whether they are equal tells nothing of where the region lies, however far they are.
    let equality = matches!(comparison, Comparison::Equal | Comparison::NotEqual);
    if !wide || !equality && !(is_near(left) && is_near(right)) {
        return None;
    }
    match (left.kind, right.kind) {
        (Kind::CallersStack { .. }, Kind::CallersStack { .. }) => {
            Some(Outcome { taken: Some((*left, *right)), not_taken: Some((*left, *right)) })
        }
        (first, second) if first == second => Some(both_ways(signed, wide, left, right)),
        _ => None,
    }
}

/// A pointer near its region is never zero.
fn compare_with_zero(comparison: Comparison, wide: bool, pointer: &Value, number: &Value) -> Option<Outcome> {
    if !wide || !is_near(pointer) || number.scalar != Scalar::constant(0) {
        return None;
    }
    let pair = Some((*pointer, *number));
    match comparison {
        Comparison::Equal => Some(Outcome { taken: None, not_taken: pair }),
        Comparison::NotEqual => Some(Outcome { taken: pair, not_taken: None }),
        _ => None,
    }
}
