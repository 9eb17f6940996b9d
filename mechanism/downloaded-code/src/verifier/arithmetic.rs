//! What arithmetic instructions do to sets of numbers: for every word in the operands' sets, the word that RFC 9669
//! prescribes is in the result's set.

use super::scalar::Scalar;
use super::tnum::Tnum;
use crate::instruction::Arithmetic;

/// The result of `left op right`, of 64 or 32 bits.
pub(crate) fn evaluate(operation: Arithmetic, wide: bool, left: &Scalar, right: &Scalar) -> Scalar {
    if wide {
        return evaluate_wide(operation, left, right, 63);
    }
    let (low_left, low_right) = (left.low_half(), right.low_half());
    let signed = |scalar: &Scalar| scalar.sign_extended(32);
    let result = match operation {
        Arithmetic::SignedDivide | Arithmetic::SignedModulo | Arithmetic::ArithmeticShiftRight => {
            let right = if operation == Arithmetic::ArithmeticShiftRight { low_right } else { signed(&low_right) };
            evaluate_wide(operation, &signed(&low_left), &right, 31)
        }
        _ => evaluate_wide(operation, &low_left, &low_right, 31),
    };
    result.low_half()
}

fn evaluate_wide(operation: Arithmetic, left: &Scalar, right: &Scalar, shift_mask: u64) -> Scalar {
    match operation {
        Arithmetic::Add => add(left, right),
        Arithmetic::Subtract => subtract(left, right),
        Arithmetic::Multiply => multiply(left, right),
        Arithmetic::Divide => divide(left, right),
        Arithmetic::Modulo => modulo(left, right),
        Arithmetic::SignedDivide => signed_divide(left, right),
        Arithmetic::SignedModulo => signed_modulo(left, right),
        Arithmetic::And => bitwise(left.bits.and(right.bits), 0, left.maximum.min(right.maximum)),
        Arithmetic::Or => bitwise(left.bits.or(right.bits), left.minimum.max(right.minimum), filled(left, right)),
        Arithmetic::Xor => bitwise(left.bits.xor(right.bits), 0, filled(left, right)),
        Arithmetic::ShiftLeft => shift_left(left, &shift_count(right, shift_mask)),
        Arithmetic::ShiftRight => shift_right(left, &shift_count(right, shift_mask)),
        Arithmetic::ArithmeticShiftRight => arithmetic_shift_right(left, &shift_count(right, shift_mask)),
        Arithmetic::Move => *right,
        Arithmetic::MoveSigned(size) => right.sign_extended(size.bits()),
    }
}

/// The result of `-value`.
pub(crate) fn negate(wide: bool, value: &Scalar) -> Scalar {
    evaluate(Arithmetic::Subtract, wide, &Scalar::constant(0), value)
}

fn bitwise(bits: Tnum, minimum: u64, maximum: u64) -> Scalar {
    Scalar { bits, minimum, maximum, ..Scalar::UNKNOWN }.settled()
}

/// All ones up to the highest bit that either operand can have.
fn filled(left: &Scalar, right: &Scalar) -> u64 {
    u64::MAX.checked_shr((left.maximum | right.maximum).leading_zeros()).unwrap_or(0)
}

fn add(left: &Scalar, right: &Scalar) -> Scalar {
    let mut result = Scalar::from_bits(left.bits.add(right.bits));
    if let (Some(minimum), Some(maximum)) =
        (left.minimum.checked_add(right.minimum), left.maximum.checked_add(right.maximum))
    {
        (result.minimum, result.maximum) = (minimum, maximum);
    }
    if let (Some(minimum), Some(maximum)) =
        (left.signed_minimum.checked_add(right.signed_minimum), left.signed_maximum.checked_add(right.signed_maximum))
    {
        (result.signed_minimum, result.signed_maximum) = (minimum, maximum);
    }
    result.settled()
}

fn subtract(left: &Scalar, right: &Scalar) -> Scalar {
    let mut result = Scalar::from_bits(left.bits.subtract(right.bits));
    if let (Some(minimum), Some(maximum)) =
        (left.minimum.checked_sub(right.maximum), left.maximum.checked_sub(right.minimum))
    {
        (result.minimum, result.maximum) = (minimum, maximum);
    }
    if let (Some(minimum), Some(maximum)) =
        (left.signed_minimum.checked_sub(right.signed_maximum), left.signed_maximum.checked_sub(right.signed_minimum))
    {
        (result.signed_minimum, result.signed_maximum) = (minimum, maximum);
    }
    result.settled()
}

fn multiply(left: &Scalar, right: &Scalar) -> Scalar {
    let mut result = Scalar::from_bits(left.bits.multiply(right.bits));
    if let (Some(minimum), Some(maximum)) =
        (left.minimum.checked_mul(right.minimum), left.maximum.checked_mul(right.maximum))
    {
        (result.minimum, result.maximum) = (minimum, maximum);
    }
    let corners = [
        left.signed_minimum.checked_mul(right.signed_minimum),
        left.signed_minimum.checked_mul(right.signed_maximum),
        left.signed_maximum.checked_mul(right.signed_minimum),
        left.signed_maximum.checked_mul(right.signed_maximum),
    ];
    if let [Some(a), Some(b), Some(c), Some(d)] = corners {
        result.signed_minimum = a.min(b).min(c).min(d);
        result.signed_maximum = a.max(b).max(c).max(d);
    }
    result.settled()
}

/// Division by zero gives zero.
fn divide(left: &Scalar, right: &Scalar) -> Scalar {
    let maximum = left.maximum / right.minimum.max(1);
    let minimum = if right.minimum == 0 { 0 } else { left.minimum / right.maximum };
    Scalar::range(minimum, if right.maximum == 0 { 0 } else { maximum })
}

/// The remainder of a division by zero is the dividend.
fn modulo(left: &Scalar, right: &Scalar) -> Scalar {
    match (left.as_constant(), right.as_constant()) {
        (_, Some(0)) => return *left,
        (Some(left), Some(right)) => return Scalar::constant(left % right),
        _ if right.minimum > left.maximum => return *left,
        _ => {}
    }
    let below_divisor = if right.minimum == 0 { u64::MAX } else { right.maximum - 1 };
    Scalar::range(0, left.maximum.min(below_divisor))
}

/// Exact for a positive constant divisor and for constants; the most negative number divided by -1 is itself.
fn signed_divide(left: &Scalar, right: &Scalar) -> Scalar {
    match (left.as_constant(), right.as_constant()) {
        (_, Some(0)) => Scalar::constant(0),
        (Some(left), Some(right)) => Scalar::constant((left as i64).wrapping_div(right as i64) as u64),
        (_, Some(right)) if right as i64 > 0 => {
            Scalar::signed_range(left.signed_minimum / right as i64, left.signed_maximum / right as i64)
        }
        _ => Scalar::UNKNOWN,
    }
}

/// The remainder has the dividend's sign and is smaller than the divisor.
fn signed_modulo(left: &Scalar, right: &Scalar) -> Scalar {
    match (left.as_constant(), right.as_constant()) {
        (_, Some(0)) => *left,
        (Some(left), Some(right)) => Scalar::constant((left as i64).wrapping_rem(right as i64) as u64),
        (_, Some(right)) if right as i64 > 0 => {
            let most = right as i64 - 1;
            let minimum = if left.signed_minimum >= 0 { 0 } else { left.signed_minimum.max(-most) };
            let maximum = if left.signed_maximum < 0 { 0 } else { left.signed_maximum.min(most) };
            Scalar::signed_range(minimum, maximum)
        }
        _ => Scalar::UNKNOWN,
    }
}

/// The low bits of a shift count that the operation uses.
fn shift_count(count: &Scalar, mask: u64) -> Scalar {
    evaluate_wide(Arithmetic::And, count, &Scalar::constant(mask), mask)
}

fn shift_left(left: &Scalar, count: &Scalar) -> Scalar {
    let mut result = match count.as_constant() {
        Some(count) => Scalar::from_bits(left.bits.shift_left(count as u32)),
        None => Scalar::UNKNOWN,
    };
    if left.maximum.leading_zeros() as u64 >= count.maximum {
        result.minimum = left.minimum << count.minimum;
        result.maximum = left.maximum << count.maximum;
    }
    result.settled()
}

fn shift_right(left: &Scalar, count: &Scalar) -> Scalar {
    let mut result = match count.as_constant() {
        Some(count) => Scalar::from_bits(left.bits.shift_right(count as u32)),
        None => Scalar::UNKNOWN,
    };
    result.minimum = left.minimum >> count.maximum;
    result.maximum = left.maximum >> count.minimum;
    result.settled()
}

fn arithmetic_shift_right(left: &Scalar, count: &Scalar) -> Scalar {
    let mut result = match count.as_constant() {
        Some(count) => Scalar::from_bits(left.bits.arithmetic_shift_right(count as u32)),
        None => Scalar::UNKNOWN,
    };
    let towards_zero = |bound: i64| bound >> count.maximum;
    let away_from_zero = |bound: i64| bound >> count.minimum;
    let least = left.signed_minimum;
    let greatest = left.signed_maximum;
    result.signed_minimum = if least < 0 { away_from_zero(least) } else { towards_zero(least) };
    result.signed_maximum = if greatest < 0 { towards_zero(greatest) } else { away_from_zero(greatest) };
    result.settled()
}
