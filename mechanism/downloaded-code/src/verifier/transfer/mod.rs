//! What one instruction does to what is known: the abstract counterpart of the interpreter.

mod arithmetic;
mod branch;
mod call;
mod memory;

use core::cell::Cell;

use super::annotation::Annotation;
use super::guarded::Guarded;
use super::scalar::Scalar;
use super::state::State;
use super::tie::{self, Tie};
use super::value::{Kind, Relation, Value};
use crate::context::Context;
use crate::instruction::{Instruction, Operand};
use crate::refusal::{Known, Reason, Refusal};

pub(crate) use branch::Outcome;

/// One instruction being applied to a state.
pub(crate) struct Transfer<'a> {
    pub(crate) context: &'a Context<'a>,
    pub(crate) state: &'a mut State,
    pub(crate) index: usize,
    /// Collects what the compiler must know.
    pub(crate) note: Annotation,
    /// What the function must start with zeros in, as flags of its first annotation.
    pub(crate) zeros: Cell<u64>,
    /// States are final: what is not proven now never will be.
    pub(crate) settled: bool,
}

impl Transfer<'_> {
    /// Applies an instruction that neither jumps nor calls a function.
    pub(crate) fn apply(&mut self, instruction: &Instruction) -> Result<(), Refusal> {
        if instruction.written_register() == Some(crate::instruction::FRAME_POINTER) {
            return Err(Refusal::at(self.index, Reason::FramePointerIsReadOnly));
        }
        match *instruction {
            Instruction::Arithmetic { operation, wide, destination, operand } => {
                self.arithmetic(operation, wide, destination, operand)
            }
            Instruction::Negate { wide, destination } => self.negate(wide, destination),
            Instruction::ByteOrder { order, size, destination } => self.byte_order(order, size, destination),
            Instruction::LoadConstant { destination, value } => {
                self.state.set_register(destination, Value::constant(value));
                Ok(())
            }
            Instruction::LoadRegion { destination, region, offset } => self.load_region(destination, region, offset),
            Instruction::Load { size, signed, destination, base, offset } => {
                self.load(size, signed, destination, base, offset)
            }
            Instruction::Store { size, base, offset, operand } => self.store(size, base, offset, operand),
            Instruction::Atomic { .. } => self.atomic(instruction),
            Instruction::CallHelper { number } => self.call_helper(number),
            _ => Ok(()),
        }
    }

    /// The value of a register, sharpened by what its relation to a region's length says by now.
    pub(crate) fn read(&self, register: u8) -> Result<Value, Refusal> {
        let value = self.state.register(register);
        match value.kind {
            Kind::Uninitialised | Kind::Unwritten | Kind::DependsOnPath => {
                Err(self.refuse(register, Reason::NeedsInitialised))
            }
            _ => {
                if value.assumed {
                    self.start_with(Annotation::ZERO_REGISTERS);
                }
                let value = self.seen_through_tie(register, self.sharpened(Value { assumed: false, ..value }));
                Ok(self.seen_through_room(register, value))
            }
        }
    }

    fn start_with(&self, zeros: u64) {
        self.zeros.set(self.zeros.get() | zeros);
    }

    fn read_number(&self, register: u8) -> Result<Value, Refusal> {
        let value = self.read(register)?;
        if value.is_number() { Ok(value) } else { Err(self.refuse(register, Reason::NeedsNumber)) }
    }

    fn operand(&self, operand: Operand) -> Result<Value, Refusal> {
        match operand {
            Operand::Register(register) => self.read(register),
            Operand::Immediate(value) => Ok(Value::constant(value as i64 as u64)),
        }
    }

    fn sharpened(&self, mut value: Value) -> Value {
        let Some(relation) = value.relation else { return value };
        let index = usize::from(relation.region);
        let Some(region) = self.context.regions.get(index) else { return value };
        let slack = i64::from(relation.slack);
        let most = i64::from(region.maximum()) - slack;
        let least = if relation.exact { i64::from(self.state.proven[index]) - slack } else { 0 };
        let sharper =
            |scalar: Scalar| scalar.with_maximum(u64::try_from(most).ok()?)?.with_minimum(least.max(0) as u64);
        if let Some(scalar) = sharper(value.scalar) {
            let free = relation.exact
                && relation.untaught
                && value.guarded == Guarded::Nothing
                && scalar.minimum == value.scalar.minimum;
            if scalar != value.scalar && !free {
                value.guarded = value.guarded.taught(&value.scalar, &scalar);
            }
            value.scalar = scalar;
        }
        value
    }

    /// The value of a register, sharpened by what is known of the register that it is tied to, and of the one that this
    /// is tied to.
    fn seen_through_tie(&self, register: u8, mut value: Value) -> Value {
        let Some(tie) = self.state.ties.get(register) else { return value };
        let mut base = self.sharpened(self.state.register(tie.base));
        if let Some(next) = self.state.ties.get(tie.base) {
            base = through(next, &self.sharpened(self.state.register(next.base)), base);
        }
        value = through(tie, &base, value);
        value
    }

    /// The value of a pointer, closer to its region's end by what is known of the number that it shares room with.
    fn seen_through_room(&self, register: u8, value: Value) -> Value {
        let (Some(room), Kind::Region(region)) = (self.state.rooms.get(register), value.kind) else { return value };
        let rest = self.sharpened(self.state.register(room.number)).scalar.minimum.min(u32::MAX.into());
        let Ok(slack) = i32::try_from(i64::from(room.slack) + rest as i64) else { return value };
        let closer = match value.relation {
            Some(known) => known.region == region && !known.exact && known.slack < slack,
            None => true,
        };
        // A relation says that the offset is not negative, too.
        if !closer || value.scalar.signed_minimum < 0 {
            return value;
        }
        let relation = Some(Relation { region, exact: false, untaught: false, slack });
        self.sharpened(Value { relation, ..value })
    }

    /// A refusal that concerns a register.
    pub(crate) fn refuse(&self, register: u8, reason: Reason) -> Refusal {
        let value = self.state.register(register);
        let proven = match value.kind {
            Kind::Region(region) => self.state.proven.get(usize::from(region)).copied().unwrap_or(0),
            _ => 0,
        };
        Refusal { instruction: self.index as u32, register: Some(register), known: value.known(proven), reason }
    }

    /// Where nothing better fits: a refusal about a register whose value does not matter.
    fn refuse_about(&self, register: u8, reason: Reason) -> Refusal {
        Refusal { instruction: self.index as u32, register: Some(register), known: Known::Nothing, reason }
    }

    /// Notes a number's value for the compiler when it is a constant of 32 bits.
    fn note_constant(&mut self, value: &Value) {
        if let Some(constant) = value.as_constant().and_then(|constant| i32::try_from(constant as i64).ok()) {
            self.note.set_upper(Annotation::CONSTANT, constant as u32);
        }
    }
}

/// What a tie to `base` adds to what is known of a value. It rests on jumps: those that taught something of the base.
fn through(tie: Tie, base: &Value, value: Value) -> Value {
    let sharper = tie::range(tie, &base.scalar).and_then(|range| value.scalar.intersect(&range));
    let Some(scalar) = sharper.filter(|scalar| base.is_number() && *scalar != value.scalar) else { return value };
    Value { guarded: value.guarded.taught(&value.scalar, &scalar), scalar, ..value }
}
