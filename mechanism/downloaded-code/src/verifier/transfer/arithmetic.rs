//! Arithmetic on numbers and pointers.

use super::super::arithmetic;
use super::super::guarded::Guarded;
use super::super::scalar::Scalar;
use super::super::value::{Kind, Origin, Relation, Value};
use super::{Annotation, Transfer};
use crate::instruction::{Arithmetic, ByteOrder, FRAME_POINTER, Operand, Size};
use crate::refusal::{Reason, Refusal};

impl Transfer<'_> {
    pub(super) fn arithmetic(
        &mut self,
        operation: Arithmetic,
        wide: bool,
        destination: u8,
        operand: Operand,
    ) -> Result<(), Refusal> {
        if operation == Arithmetic::Move && wide {
            self.move_(destination, operand)?;
            return Ok(());
        }
        if let (Arithmetic::Move, Operand::Register(source)) = (operation, operand)
            && self.state.register(source).is_number()
        {
            // A move that cuts nothing off is a copy.
            self.copy(source);
        }
        let right = self.operand(operand)?;
        let moves = matches!(operation, Arithmetic::Move | Arithmetic::MoveSigned(_));
        let left = if moves { Value::constant(0) } else { self.read(destination)? };
        let result = if left.is_number() && right.is_number() {
            let result = numbers(operation, wide, &left, &right, self.context.budget);
            self.note_division(operation, wide, &left, &right);
            self.note_constant(&result);
            result
        } else {
            let culprit = match operand {
                Operand::Register(source) if !right.is_number() => source,
                _ => destination,
            };
            pointers(operation, wide, &left, &right, self.context.budget)
                .ok_or_else(|| self.refuse(culprit, Reason::PointerArithmetic))?
        };
        self.note_steps(operation, wide, &left, &right);
        self.set_result(operation, wide, destination, operand, (&left, &right), result);
        Ok(())
    }

    /// Keeps what ties the result to other registers. Operations of 32 bits are those of 64 where they cut nothing off.
    fn set_result(
        &mut self,
        operation: Arithmetic,
        wide: bool,
        destination: u8,
        operand: Operand,
        (left, right): (&Value, &Value),
        result: Value,
    ) {
        let constant = right.as_constant().map(|constant| signed_constant(constant, wide));
        let small = |value: &Value| value.scalar.maximum <= u64::from(u32::MAX);
        let step = match (operation, constant) {
            (Arithmetic::Add, Some(constant)) => Some(constant),
            (Arithmetic::Subtract, Some(constant)) => constant.checked_neg(),
            _ => None,
        };
        if let Some(by) = step.filter(|by| wide || small(left) && does_not_wrap(&left.scalar, *by)) {
            return self.state.step_register(destination, left, result, by);
        }
        let multiple = |by: i64| {
            let whole = wide || small(left) && by > 0 && left.scalar.maximum <= u64::from(u32::MAX) / by as u64;
            if whole { self.state.tie_of_multiple(destination, by) } else { None }
        };
        let tie = match (operation, operand, constant) {
            (_, Operand::Register(source), _) if is_copy(operation, wide, &right.scalar) => {
                self.state.tie_of_copy(source)
            }
            (Arithmetic::Add, Operand::Register(source), _) if wide => self.state.tie_of_sum(destination, source),
            (Arithmetic::Multiply, _, Some(by)) => multiple(by),
            (Arithmetic::ShiftLeft, _, Some(by @ 0..16)) => multiple(1 << by),
            _ => None,
        };
        self.state.set_tied(destination, result, tie);
    }

    /// A copy of 64 bits. What holds no value may be copied: compilers do so before they overwrite the copy.
    fn move_(&mut self, destination: u8, operand: Operand) -> Result<(), Refusal> {
        let copied = match operand {
            Operand::Register(source) => self.copy(source),
            Operand::Immediate(_) => self.operand(operand)?,
        };
        self.note_constant(&copied);
        match operand {
            Operand::Register(source) => self.state.set_copied(destination, copied, source),
            Operand::Immediate(_) => self.state.set_register(destination, copied),
        }
        Ok(())
    }

    /// The value of a register for a second place: both are given an origin, so that they stay known to be equal.
    fn copy(&mut self, source: u8) -> Value {
        let mut value = self.state.register(source);
        // Constants need no origin; what holds no value counts as one.
        let fixed = value.scalar.as_constant().is_some() && value.relation.is_none();
        if value.origin.is_none() && !fixed && source < FRAME_POINTER {
            self.state.forget_origin(self.index as u16);
            value.origin = Some(Origin { number: self.index as u16, distance: 0 });
            self.state.know(source, value);
        }
        value
    }

    pub(super) fn negate(&mut self, wide: bool, destination: u8) -> Result<(), Refusal> {
        let value = self.read_number(destination)?;
        let scalar = arithmetic::negate(wide, &value.scalar);
        let guarded = value.guarded.altered();
        let result = Value { scalar, relation: None, origin: None, guarded, ..value };
        self.note_constant(&result);
        self.state.set_register(destination, result);
        Ok(())
    }

    pub(super) fn byte_order(&mut self, order: ByteOrder, size: Size, destination: u8) -> Result<(), Refusal> {
        let value = self.read_number(destination)?;
        let truncated = value.scalar.zero_extended(size.bits());
        let scalar = match (order, truncated.as_constant()) {
            (ByteOrder::ToLittle, _) => truncated,
            (_, Some(constant)) => Scalar::constant(constant.swap_bytes() >> (64 - size.bits())),
            _ => Scalar::of_bits(size.bits()),
        };
        let result = Value { guarded: value.guarded.altered(), ..Value::number(scalar) };
        self.note_constant(&result);
        self.state.set_register(destination, result);
        Ok(())
    }

    pub(super) fn load_region(&mut self, destination: u8, region: u32, offset: u32) -> Result<(), Refusal> {
        if region as usize >= self.context.regions.len() {
            return Err(Refusal::at(self.index, Reason::NoSuchRegion));
        }
        let value = Value::pointer(Kind::Region(region as u8), i64::from(offset));
        self.state.set_register(destination, value);
        Ok(())
    }

    /// What the compiler can leave out of a division.
    fn note_division(&mut self, operation: Arithmetic, wide: bool, left: &Value, right: &Value) {
        let signed = matches!(operation, Arithmetic::SignedDivide | Arithmetic::SignedModulo);
        if !signed && !matches!(operation, Arithmetic::Divide | Arithmetic::Modulo) {
            return;
        }
        let low = |value: &Value| if wide { value.scalar } else { value.scalar.low_half() };
        let (dividend, divisor) = (low(left), low(right));
        if divisor.minimum > 0 {
            self.note.set(Annotation::DIVISOR_NOT_ZERO);
        }
        let minus_one = if wide { u64::MAX } else { u64::from(u32::MAX) };
        let least = if wide { 1 << 63 } else { 1 << 31 };
        if !divisor.contains(minus_one) || !dividend.contains(least) {
            self.note.set(Annotation::NO_OVERFLOW);
        }
    }

    /// For the proof that loops end: how often a constant can be added before the range that is known of the operand
    /// is passed. The range holds each time the instruction is reached.
    fn note_steps(&mut self, operation: Arithmetic, wide: bool, left: &Value, right: &Value) {
        if self.note.has(Annotation::CONSTANT) {
            return;
        }
        let Some(constant) =
            right.as_constant().map(|constant| if wide { constant as i64 } else { i64::from(constant as i32) })
        else {
            return;
        };
        let step = match operation {
            Arithmetic::Add => constant,
            Arithmetic::Subtract => constant.wrapping_neg(),
            _ => return,
        };
        let scalar = if wide { left.scalar } else { left.scalar.low_half() };
        let most = if wide { u64::MAX } else { u64::from(u32::MAX) };
        let fits = match step {
            0 | i64::MIN => false,
            1.. => scalar.maximum.checked_add(step as u64).is_some_and(|last| last <= most),
            _ => scalar.minimum >= step.unsigned_abs(),
        };
        let steps = ((scalar.maximum - scalar.minimum) / step.unsigned_abs().max(1)).saturating_add(1);
        if let (true, Ok(steps)) = (fits, u32::try_from(steps)) {
            self.note.set_upper(Annotation::STEPS, steps);
        }
    }
}

/// The result of an operation on two numbers. It owes something to a branch if an operand does and if without that
/// knowledge less would be known.
fn numbers(operation: Arithmetic, wide: bool, left: &Value, right: &Value, budget: u64) -> Value {
    let scalar = arithmetic::evaluate(operation, wide, &left.scalar, &right.scalar);
    let guarded = guarded_result(operation, wide, left, right, &scalar, budget);
    let relation = relation_of_result(operation, wide, left, right, &scalar);
    let origin = origin_of_result(operation, wide, left, right);
    Value { relation, guarded, origin, ..Value::number(scalar) }
}

fn guarded_result(
    operation: Arithmetic,
    wide: bool,
    left: &Value,
    right: &Value,
    result: &Scalar,
    budget: u64,
) -> Guarded {
    let free = |value: &Value| value.guarded == Guarded::Nothing;
    if free(left) && free(right) {
        return Guarded::Nothing;
    }
    let speculative = |value: &Value| if free(value) { value.scalar } else { Scalar::UNKNOWN };
    if arithmetic::evaluate(operation, wide, &speculative(left), &speculative(right)) == *result {
        return Guarded::Nothing;
    }
    match operation {
        Arithmetic::Add => Guarded::of_sum(left, right, wide, result, budget),
        // A move adds to nothing.
        Arithmetic::Move => Guarded::of_sum(&Value::constant(0), right, wide, result, budget),
        _ => Guarded::Everything,
    }
}

/// Pointers allow only addition and subtraction of 64 bits.
fn pointers(operation: Arithmetic, wide: bool, left: &Value, right: &Value, budget: u64) -> Option<Value> {
    if !wide {
        return None;
    }
    let kind = match (operation, left.is_number(), right.is_number()) {
        (Arithmetic::Add, false, true) | (Arithmetic::Subtract, false, true) => left.kind,
        (Arithmetic::Add, true, false) => right.kind,
        (Arithmetic::Subtract, false, false) => return difference(left, right, budget),
        _ => return None,
    };
    Some(Value { kind, ..numbers(operation, true, left, right, budget) })
}

/// The distance of two pointers into the same memory is a number.
fn difference(left: &Value, right: &Value, budget: u64) -> Option<Value> {
    match (left.kind, right.kind) {
        (Kind::CallersStack { .. }, Kind::CallersStack { .. }) => Some(Value::number(Scalar::UNKNOWN)),
        (first, second) if first == second => Some(numbers(Arithmetic::Subtract, true, left, right, budget)),
        _ => None,
    }
}

/// How the result stands to a region's length.
fn relation_of_result(
    operation: Arithmetic,
    wide: bool,
    left: &Value,
    right: &Value,
    result: &Scalar,
) -> Option<Relation> {
    let most = if wide { u64::MAX } else { u64::from(u32::MAX) };
    if left.scalar.maximum > most || right.scalar.maximum > most && right.as_constant().is_none() {
        return None;
    }
    match operation {
        // A length fits into 32 bits; less something, perhaps only because of a jump.
        Arithmetic::Move => right
            .relation
            .map(|relation| Relation { untaught: relation.untaught && (wide || relation.slack == 0), ..relation }),
        Arithmetic::MoveSigned(_) if is_copy(operation, wide, &right.scalar) => {
            Some(Relation { untaught: false, ..right.relation? })
        }
        Arithmetic::Add => match (left.scalar.as_constant(), right.scalar.as_constant()) {
            (_, Some(constant)) => moved_by(left, signed_constant(constant, wide), right, most),
            (Some(constant), None) => moved_by(right, signed_constant(constant, wide), left, most),
            _ => None,
        },
        Arithmetic::Subtract => {
            let constant = right.scalar.as_constant()?;
            moved_by(left, signed_constant(constant, wide).checked_neg()?, right, most)
        }
        // The result is not greater than the left operand.
        Arithmetic::And | Arithmetic::ShiftRight | Arithmetic::Divide | Arithmetic::Modulo
            if result.maximum <= left.scalar.maximum =>
        {
            Some(Relation { exact: false, ..left.relation? })
        }
        _ => None,
    }
}

/// Adding a constant keeps the origin.
fn origin_of_result(operation: Arithmetic, wide: bool, left: &Value, right: &Value) -> Option<Origin> {
    let constant = |value: &Value| value.as_constant().map(|constant| constant as i64);
    let (from, added) = match operation {
        Arithmetic::Move if is_copy(operation, wide, &right.scalar) => (right, 0),
        _ if !wide => return None,
        Arithmetic::Add => match (constant(left), constant(right)) {
            (_, Some(added)) => (left, added),
            (Some(added), None) => (right, added),
            _ => return None,
        },
        Arithmetic::Subtract => (left, constant(right)?.wrapping_neg()),
        _ => return None,
    };
    from.origin.map(|origin| Origin { distance: origin.distance.wrapping_add(added), ..origin })
}

/// Whether a move cuts nothing off and extends no sign.
fn is_copy(operation: Arithmetic, wide: bool, moved: &Scalar) -> bool {
    match operation {
        Arithmetic::Move => wide || moved.maximum <= u64::from(u32::MAX),
        Arithmetic::MoveSigned(size) => moved.maximum < 1 << (size.bits() - 1),
        _ => false,
    }
}

/// Whether moving an operation's operand of 32 bits leaves it one.
fn does_not_wrap(scalar: &Scalar, by: i64) -> bool {
    if by < 0 { scalar.minimum >= by.unsigned_abs() } else { scalar.maximum + by as u64 <= u64::from(u32::MAX) }
}

fn signed_constant(constant: u64, wide: bool) -> i64 {
    if wide { constant as i64 } else { i64::from(constant as i32) }
}

/// The relation of a value moved by another that is this constant, perhaps only because of jumps.
fn moved_by(value: &Value, constant: i64, other: &Value, most: u64) -> Option<Relation> {
    let relation = moved(value, constant, most)?;
    Some(Relation { untaught: relation.untaught && other.guarded == Guarded::Nothing, ..relation })
}

/// The relation of `value + constant`, when that cannot wrap. That it does not may be known because of jumps: but an
/// equation holds modulo 2^64 all the same.
pub(super) fn moved(value: &Value, constant: i64, most: u64) -> Option<Relation> {
    let relation = value.relation?;
    let fits = if constant >= 0 {
        value.scalar.maximum.checked_add(constant as u64).is_some_and(|sum| sum <= most)
    } else {
        value.scalar.minimum >= constant.unsigned_abs()
    };
    let slack = i64::from(relation.slack).checked_sub(constant)?;
    let slack = i32::try_from(slack).ok()?;
    fits.then_some(Relation { slack, untaught: relation.untaught && most == u64::MAX, ..relation })
}
