//! The shape of a program, before anything is known about its values. Every instruction decodes, functions are runs
//! of slots, jumps stay inside them and land on instructions, and calls nest at most [`MAX_FRAMES`] deep.

use super::annotation::Annotation;
use super::merge::Thresholds;
use super::storage::{Layout, Storage};
use crate::context::Context;
use crate::instruction::{Arithmetic, Instruction, Operand};
use crate::invocation::MAX_FRAMES;
use crate::program::Program;
use crate::refusal::{Reason, Refusal};

/// Decodes the instruction of a slot, or refuses it.
pub(crate) fn decode(program: Program<'_>, index: usize) -> Result<Instruction, Refusal> {
    Instruction::decode(program, index).map_err(|reason| Refusal::at(index, reason))
}

/// Where a jump or call leads, when that is inside the program.
fn target(program: Program<'_>, index: usize, target: i64) -> Result<usize, Refusal> {
    match usize::try_from(target) {
        Ok(target) if target < program.slots() => Ok(target),
        _ => Err(Refusal::at(index, Reason::TargetOutside)),
    }
}

/// First pass, one instruction: it decodes; marks what it jumps to. Returns how many slots it takes.
pub(crate) fn scan(
    program: Program<'_>,
    index: usize,
    storage: &mut Storage<'_>,
    thresholds: &mut Thresholds,
) -> Result<usize, Refusal> {
    let instruction = decode(program, index)?;
    if let Some(to) = instruction.jump_target() {
        let to = target(program, index, to)?;
        storage.mark(to, Annotation::TARGET | if to <= index { Annotation::LOOP_HEAD } else { 0 });
    }
    match instruction {
        Instruction::CallFunction { target: to } => {
            storage.mark(target(program, index, to)?, Annotation::TARGET | Annotation::FUNCTION);
        }
        Instruction::Branch { right: Operand::Immediate(constant), wide, .. } => {
            thresholds.add_around(if wide { constant as i64 as u64 } else { u64::from(constant as u32) });
        }
        // What goes around in a ring of entries rests at the last one.
        Instruction::Arithmetic { operation: Arithmetic::And, operand: Operand::Immediate(mask @ 0..), .. } => {
            thresholds.add(mask as u64);
        }
        _ => {}
    }
    if instruction.slots() == 2 {
        storage.mark(index + 1, Annotation::SECOND_HALF);
    }
    Ok(instruction.slots())
}

/// Second pass, one slot: numbers functions and meeting places.
pub(crate) fn number(
    program: Program<'_>,
    index: usize,
    storage: &mut Storage<'_>,
    layout: &mut Layout,
) -> Result<(), Refusal> {
    let mut note = storage.annotation(index);
    if index == 0 {
        note.set(Annotation::FUNCTION | Annotation::TARGET);
        storage.annotate(index, note);
    }
    if note.has(Annotation::SECOND_HALF) {
        if note.has(Annotation::TARGET) {
            return Err(Refusal::at(index, Reason::TargetInsideConstantLoad));
        }
        storage.set_structure(index, layout.functions.saturating_sub(1), None);
        return Ok(());
    }
    layout.functions += usize::from(note.has(Annotation::FUNCTION));
    let calls = matches!(decode(program, index)?, Instruction::CallFunction { .. });
    let join = (note.has(Annotation::TARGET) || calls).then_some(layout.joins);
    layout.joins += usize::from(join.is_some());
    storage.set_structure(index, layout.functions.saturating_sub(1), join);
    Ok(())
}

/// Third pass, one slot, with all tables there: starts their records; jumps stay inside functions.
pub(crate) fn check(
    program: Program<'_>,
    context: &Context<'_>,
    index: usize,
    storage: &mut Storage<'_>,
) -> Result<(), Refusal> {
    let note = storage.annotation(index);
    if note.has(Annotation::SECOND_HALF) {
        return Ok(());
    }
    let function = storage.function_of(index);
    if note.has(Annotation::FUNCTION) {
        storage.start_function(function, index);
    }
    if let Some(join) = storage.join_at(index) {
        storage.start_join(join, index);
    }
    let instruction = decode(program, index)?;
    if let Some(to) = instruction.jump_target()
        && storage.function_of(target(program, index, to)?) != function
    {
        return Err(Refusal::at(index, Reason::JumpIntoOtherFunction));
    }
    let next = index + instruction.slots();
    let ends = next >= program.slots() || storage.annotation(next).has(Annotation::FUNCTION);
    if ends && instruction.falls_through() {
        return Err(Refusal::at(index, Reason::FallsOffTheEnd));
    }
    let start = storage.function_start(function);
    if ends && (next - start) as u64 > context.budget {
        return Err(Refusal::at(start, Reason::LongerThanBudget));
    }
    Ok(())
}

/// One instruction of a pass that computes how deep calls nest: a function needs one frame more than any it calls. Says
/// whether anything changed. Calls in a circle grow until they are too deep.
pub(crate) fn nest(program: Program<'_>, index: usize, storage: &mut Storage<'_>) -> Result<bool, Refusal> {
    if storage.annotation(index).has(Annotation::SECOND_HALF) {
        return Ok(false);
    }
    let Instruction::CallFunction { target: to } = decode(program, index)? else {
        return Ok(false);
    };
    let caller = storage.function_of(index);
    let callee = storage.function_of(target(program, index, to)?);
    if caller == callee {
        return Err(Refusal::at(index, Reason::Recursion));
    }
    let frames = storage.frames(callee) + 1;
    if frames > MAX_FRAMES as u64 {
        return Err(Refusal::at(index, Reason::CallsTooDeep));
    }
    let grows = frames > storage.frames(caller);
    if grows {
        storage.set_frames(caller, frames);
    }
    Ok(grows)
}
