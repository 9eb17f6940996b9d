//! Containment: does every packet that one conjunction accepts satisfy another one?
//!
//! The answer is by atoms: each condition of the outer conjunction follows from those of the inner one at the same
//! base. Bases are the same as long as both shift alike. A yes is always true. A no may be wrong, where the outer
//! condition follows only from several ranges together, or past shifts that differ.

use crate::condition::{Condition, Kind, Test};

/// Whether the conditions of `outer` follow from those of `inner`; both are canonical.
pub(crate) fn is_contained(inner: &[Condition], outer: &[Condition]) -> bool {
    let (mut inner, mut outer) = (inner, outer);
    loop {
        let (inside, outside) = (stretch(inner), stretch(outer));
        if !outside.iter().all(|condition| follows(inside, shift_after(inner), condition)) {
            return false;
        }
        match (shift_after(inner), shift_after(outer)) {
            (_, None) => return true,
            (Some(a), Some(b)) if a == b => {}
            _ => return false,
        }
        (inner, outer) = (&inner[inside.len() + 1..], &outer[outside.len() + 1..]);
    }
}

/// The conditions before the next shift.
fn stretch(conditions: &[Condition]) -> &[Condition] {
    let end = conditions.iter().position(|condition| condition.test.kind == Kind::Shift);
    &conditions[..end.unwrap_or(conditions.len())]
}

/// The shift that ends the stretch.
fn shift_after(conditions: &[Condition]) -> Option<&Condition> {
    conditions.get(stretch(conditions).len())
}

/// Whether a condition follows from those of a stretch and the shift after it.
fn follows(stretch: &[Condition], shift: Option<&Condition>, wanted: &Condition) -> bool {
    let reaches = |condition: &Condition| condition.test.end() >= wanted.test.end();
    if !stretch.iter().chain(shift).any(reaches) {
        return false;
    }
    let (known, value) = known_bits(stretch, &wanted.test);
    let mask = wanted.test.mask;
    let (least, most) = (value, value | mask & !known);
    let implies = |condition: &Condition| {
        let (a, b) = (&condition.test, &wanted.test);
        (a.offset, a.size, a.mask) == (b.offset, b.size, b.mask) && is_narrower(a, b)
    };
    let Test { low, high, .. } = wanted.test;
    let by_bits = match wanted.test.kind {
        Kind::Equal => known == mask && value == wanted.value,
        Kind::Within => low <= least && most <= high,
        Kind::Outside => most < low || high < least || low == high && (low ^ value) & known != 0,
        Kind::Shift => false,
    };
    by_bits || stretch.iter().any(implies)
}

/// The bits of a field that the `Equal`s of a stretch fix, as far as its mask goes, and their values.
fn known_bits(stretch: &[Condition], field: &Test) -> (u32, u32) {
    let equals = stretch.iter().filter(|condition| condition.test.kind == Kind::Equal);
    equals.fold((0, 0), |(known, value), condition| {
        let seen = |bits| seen_through(field, &condition.test, bits) & field.mask;
        (known | seen(condition.test.mask), value | seen(condition.value))
    })
}

/// Bits of one field as they stand in another one.
fn seen_through(field: &Test, other: &Test, bits: u32) -> u32 {
    let distance = 8 * (i64::from(field.end()) - i64::from(other.end()));
    let bits = u64::from(bits);
    let moved = match distance {
        0..=31 => bits << distance,
        -31..0 => bits >> -distance,
        _ => 0,
    };
    (moved & u64::from(field.all_bits())) as u32
}

/// Whether one range of values admits no more than another one of the same field.
fn is_narrower(inner: &Test, outer: &Test) -> bool {
    match (inner.kind, outer.kind) {
        (Kind::Within, Kind::Within) => outer.low <= inner.low && inner.high <= outer.high,
        (Kind::Outside, Kind::Outside) => inner.low <= outer.low && outer.high <= inner.high,
        (Kind::Within, Kind::Outside) => inner.high < outer.low || outer.high < inner.low,
        _ => false,
    }
}
