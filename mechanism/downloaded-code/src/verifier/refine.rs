//! What a conditional jump teaches about its operands.

use super::scalar::Scalar;
use super::value::{Relation, Value};
use crate::instruction::Comparison;

/// The comparison that holds when this one does not; bit tests have none.
pub(crate) fn negated(comparison: Comparison) -> Option<Comparison> {
    Some(match comparison {
        Comparison::Equal => Comparison::NotEqual,
        Comparison::NotEqual => Comparison::Equal,
        Comparison::Greater => Comparison::LessOrEqual,
        Comparison::GreaterOrEqual => Comparison::Less,
        Comparison::Less => Comparison::GreaterOrEqual,
        Comparison::LessOrEqual => Comparison::Greater,
        Comparison::SignedGreater => Comparison::SignedLessOrEqual,
        Comparison::SignedGreaterOrEqual => Comparison::SignedLess,
        Comparison::SignedLess => Comparison::SignedGreaterOrEqual,
        Comparison::SignedLessOrEqual => Comparison::SignedGreater,
        Comparison::AnyBit => return None,
    })
}

/// Narrows the operands to those for which the comparison is `taken`; `None` when there are none.
pub(crate) fn refine(
    comparison: Comparison,
    wide: bool,
    taken: bool,
    left: &Value,
    right: &Value,
) -> Option<(Value, Value)> {
    let effective = if taken { Some(comparison) } else { negated(comparison) };
    let Some(effective) = effective else {
        return bits_are_clear(wide, left, right);
    };
    if effective == Comparison::AnyBit {
        return some_bit_is_set(wide, left, right);
    }
    let (mut first, mut second) = (*left, *right);
    if wide {
        (first.scalar, second.scalar) = refine_wide(effective, &left.scalar, &right.scalar)?;
    } else {
        (first.scalar, second.scalar) = refine_low_halves(effective, &left.scalar, &right.scalar)?;
    }
    let halves = [left, right].iter().all(|value| value.scalar.maximum <= u64::from(u32::MAX));
    if wide || halves {
        let unsigned = as_unsigned(effective, wide, &first.scalar, &second.scalar);
        if let Some(unsigned) = unsigned {
            relate(unsigned, &mut first, right);
            relate(unsigned.mirrored(), &mut second, left);
        }
    }
    taught(left, &mut first);
    taught(right, &mut second);
    Some((first, second))
}

/// What the jump taught about a value rests on it.
fn taught(before: &Value, value: &mut Value) {
    if value != before {
        value.guarded = before.guarded.taught(&before.scalar, &value.scalar);
    }
}

/// A signed comparison of numbers that are not negative is an unsigned one.
fn as_unsigned(comparison: Comparison, wide: bool, left: &Scalar, right: &Scalar) -> Option<Comparison> {
    let most = if wide { i64::MAX as u64 } else { i32::MAX as u64 };
    let unsigned = match comparison {
        Comparison::SignedGreater => Comparison::Greater,
        Comparison::SignedGreaterOrEqual => Comparison::GreaterOrEqual,
        Comparison::SignedLess => Comparison::Less,
        Comparison::SignedLessOrEqual => Comparison::LessOrEqual,
        other => return Some(other),
    };
    (left.maximum <= most && right.maximum <= most).then_some(unsigned)
}

fn refine_wide(comparison: Comparison, left: &Scalar, right: &Scalar) -> Option<(Scalar, Scalar)> {
    let pair = match comparison {
        Comparison::Equal => {
            let both = left.intersect(right)?;
            (both, both)
        }
        Comparison::NotEqual => (without(left, right)?, without(right, left)?),
        Comparison::Less => below(left, right)?,
        Comparison::LessOrEqual => (left.with_maximum(right.maximum)?, right.with_minimum(left.minimum)?),
        Comparison::SignedLess => signed_below(left, right)?,
        Comparison::SignedLessOrEqual => {
            (left.with_signed_maximum(right.signed_maximum)?, right.with_signed_minimum(left.signed_minimum)?)
        }
        other => {
            let (right, left) = refine_mirrored(other.mirrored(), right, left)?;
            (left, right)
        }
    };
    Some(pair)
}

/// The four comparisons whose operands were exchanged.
fn refine_mirrored(comparison: Comparison, left: &Scalar, right: &Scalar) -> Option<(Scalar, Scalar)> {
    match comparison {
        Comparison::Less => below(left, right),
        Comparison::LessOrEqual => Some((left.with_maximum(right.maximum)?, right.with_minimum(left.minimum)?)),
        Comparison::SignedLess => signed_below(left, right),
        Comparison::SignedLessOrEqual => {
            Some((left.with_signed_maximum(right.signed_maximum)?, right.with_signed_minimum(left.signed_minimum)?))
        }
        _ => Some((*left, *right)),
    }
}

fn without(scalar: &Scalar, other: &Scalar) -> Option<Scalar> {
    match other.as_constant() {
        Some(constant) => scalar.without(constant),
        None => Some(*scalar),
    }
}

fn below(left: &Scalar, right: &Scalar) -> Option<(Scalar, Scalar)> {
    let left_new = left.with_maximum(right.maximum.checked_sub(1)?)?;
    Some((left_new, right.with_minimum(left.minimum.checked_add(1)?)?))
}

fn signed_below(left: &Scalar, right: &Scalar) -> Option<(Scalar, Scalar)> {
    let left_new = left.with_signed_maximum(right.signed_maximum.checked_sub(1)?)?;
    Some((left_new, right.with_signed_minimum(left.signed_minimum.checked_add(1)?)?))
}

/// 32-bit comparisons see low halves. An operand whose upper half is known to be zero learns from what its low half
/// teaches; about others nothing is learnt but that the comparison is possible.
fn refine_low_halves(comparison: Comparison, left: &Scalar, right: &Scalar) -> Option<(Scalar, Scalar)> {
    let (low_left, low_right) = (left.low_half(), right.low_half());
    let signed = matches!(
        comparison,
        Comparison::SignedGreater
            | Comparison::SignedGreaterOrEqual
            | Comparison::SignedLess
            | Comparison::SignedLessOrEqual
    );
    let (new_left, new_right) = if signed {
        let (first, second) = refine_wide(comparison, &low_left.sign_extended(32), &low_right.sign_extended(32))?;
        (low_left.intersect(&first.low_half())?, low_right.intersect(&second.low_half())?)
    } else {
        refine_wide(comparison, &low_left, &low_right)?
    };
    let keep = |whole: &Scalar, low: &Scalar, new: Scalar| if whole == low { new } else { *whole };
    Some((keep(left, &low_left, new_left), keep(right, &low_right, new_right)))
}

fn some_bit_is_set(wide: bool, left: &Value, right: &Value) -> Option<(Value, Value)> {
    let possible = |scalar: &Scalar| {
        let bits = scalar.bits.value | scalar.bits.mask;
        if wide { bits } else { bits & u64::from(u32::MAX) }
    };
    if possible(&left.scalar) & possible(&right.scalar) == 0 {
        return None;
    }
    let mut first = *left;
    if let Some(mask) = right.scalar.as_constant().filter(|mask| mask.is_power_of_two()) {
        first.scalar.bits.value |= mask;
        first.scalar.bits.mask &= !mask;
        first.scalar = first.scalar.normalised()?;
        taught(left, &mut first);
    }
    Some((first, *right))
}

fn bits_are_clear(wide: bool, left: &Value, right: &Value) -> Option<(Value, Value)> {
    let Some(mask) = right.scalar.as_constant() else {
        return Some((*left, *right));
    };
    let mask = if wide { mask } else { mask & u64::from(u32::MAX) };
    if left.scalar.bits.value & mask != 0 {
        return None;
    }
    let mut first = *left;
    first.scalar.bits.mask &= !mask;
    first.scalar = first.scalar.normalised()?;
    taught(left, &mut first);
    Some((first, *right))
}

/// Learns from `value comparison bound` (unsigned, without wrapping) how far `value` is below a region's length.
fn relate(comparison: Comparison, value: &mut Value, bound: &Value) {
    let Some(relation) = bound.relation else { return };
    let slack = match comparison {
        Comparison::Less => relation.slack.checked_add(1),
        Comparison::LessOrEqual | Comparison::Equal => Some(relation.slack),
        Comparison::NotEqual => below_the_end(value, relation),
        _ => None,
    };
    let Some(slack) = slack else { return };
    let exact = comparison == Comparison::Equal && relation.exact;
    match value.relation {
        Some(known) if known.region == relation.region && (known.exact || known.slack >= slack) => {}
        Some(known) if known.region != relation.region && known.exact => {}
        _ => value.relation = Some(Relation { region: relation.region, exact, untaught: false, slack }),
    }
}

/// What is at most a limit and not equal to it is below it.
fn below_the_end(value: &Value, bound: Relation) -> Option<i32> {
    let known = value.relation?;
    let at_most = known.region == bound.region && known.slack == bound.slack && !known.exact && bound.exact;
    if at_most { bound.slack.checked_add(1) } else { None }
}
