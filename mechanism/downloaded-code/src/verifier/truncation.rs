//! Two shifts that compilers write for a truncation to 32 bits, where a move of 32 bits would do: they are taken as
//! that move. What a shift to the left alone leaves is a number of which nothing is known any more, least of all
//! that it was a region's length.

use super::analysis::Subject;
use super::structure::decode;
use crate::instruction::{Arithmetic, Instruction, Operand, Size};

/// The move that this instruction at `index` and the one behind it are together: with zeros, or with the sign.
pub(crate) fn truncation(subject: &Subject<'_, '_>, index: usize, first: &Instruction) -> Option<Instruction> {
    let (Arithmetic::ShiftLeft, destination) = shift_by_32(first)? else { return None };
    let (back, register) = shift_by_32(&decode(subject.program, index + 1).ok()?)?;
    let reached_alone = subject.storage.join_at(index + 1).is_some();
    if register != destination || reached_alone {
        return None;
    }
    let (operation, wide) = match back {
        Arithmetic::ShiftRight => (Arithmetic::Move, false),
        Arithmetic::ArithmeticShiftRight => (Arithmetic::MoveSigned(Size::Word), true),
        _ => return None,
    };
    Some(Instruction::Arithmetic { operation, wide, destination, operand: Operand::Register(destination) })
}

/// The operation and register of an instruction of 64 bits whose other operand is 32.
fn shift_by_32(instruction: &Instruction) -> Option<(Arithmetic, u8)> {
    match *instruction {
        Instruction::Arithmetic { operation, wide: true, destination, operand: Operand::Immediate(32) } => {
            Some((operation, destination))
        }
        _ => None,
    }
}
