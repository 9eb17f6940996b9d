//! Which of two matching conjunctions wins.
//!
//! **The rule.** Of all conjunctions that hold for a packet the one with the greatest [`Rank`] wins.
//! Ranks compare, in this order:
//!
//! 1. *Constrained bits.* A bit of the packet that an `Equal` fixes counts one, once, however many
//!    atoms name it. A range counts `log2(values of the field / values it admits)`, less the bits already fixed in
//!    its bytes. Only one range (the narrowest, then the earlier) counts for any byte. More bits win. The count never
//!    says more than the atoms do: saying one thing twice gains nothing.
//! 2. *Length.* The filter that asks for the longer packet wins.
//! 3. *Age.* The older filter wins, and in one filter the earlier conjunction.
//!
//! No two conjunctions have the same age, so this is a strict total order, and it depends on nothing
//! but the filters and the order they were installed in. Adding an atom about bytes that a conjunction says nothing
//! about makes it win over the one it was added to. A narrower range in the place of a wider one does too.

use crate::atom::Atom;
use crate::condition::{Condition, Kind};
use crate::conjunction::Conjunction;
use crate::limit;
use crate::refusal::Refusal;

/// Fractional bits of the count. Widths of 32-bit ranges that differ by one differ in `log2` by
/// more than 2^-33, so they are told apart.
const FRACTION: u32 = 36;
/// Bits of the rank that hold the length.
const LENGTH: u32 = 17;

/// The place of a conjunction in the strict order; greater wins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// Constrained bits with 36 binary places, then the length asked for.
    pub specificity: u64,
    /// All ones less the age.
    pub seniority: u64,
}

impl Rank {
    /// The rank of a canonical conjunction, installed as the `age`-th.
    /// `narrowness` says [`range_bits`] of each condition.
    pub(crate) fn new(conditions: &[Condition], narrowness: impl Fn(usize) -> u64, age: u64) -> Self {
        let specificity = constrained_bits(conditions, narrowness) << LENGTH | length(conditions);
        Self { specificity, seniority: !age }
    }

    /// The rank that one conjunction has as the `number`-th of the filter with this serial number.
    ///
    /// # Errors
    /// What is wrong with its atoms.
    pub fn of(conjunction: &[Atom], serial: u64, number: u8) -> Result<Self, Refusal> {
        let checked = Conjunction::check(usize::from(number), conjunction)?;
        let narrowness = |index: usize| range_bits(&checked.conditions()[index]);
        Ok(Self::new(checked.conditions(), narrowness, age(serial, number)))
    }
}

/// How old a conjunction is: smaller is older.
pub(crate) fn age(serial: u64, number: u8) -> u64 {
    serial << 6 | u64::from(number)
}

/// The shortest packet that can match.
fn length(conditions: &[Condition]) -> u64 {
    conditions.iter().map(|condition| u64::from(condition.test.end())).max().unwrap_or(0)
}

/// Rule 1, with [`FRACTION`] binary places.
fn constrained_bits(conditions: &[Condition], narrowness: impl Fn(usize) -> u64) -> u64 {
    let stretches = stretches(conditions);
    let mut total = 0;
    let mut has_equals = false;
    for (index, condition) in conditions.iter().enumerate() {
        if condition.test.kind == Kind::Equal {
            has_equals = true;
            let known = fixed_bits(conditions, &stretches, index, index);
            total += u64::from((condition.test.mask & !known).count_ones()) << FRACTION;
        }
    }
    let mut ranges = [(0, 0); limit::ATOMS];
    let count = narrowest_first(conditions, narrowness, &mut ranges);
    let mut counted = [(0, 0); limit::ATOMS];
    let mut counts = 0;
    for (bits, index) in &ranges[..count] {
        let (start, end) = bytes_of(conditions, &stretches, *index);
        if !counted[..counts].iter().any(|(other_start, other_end)| start < *other_end && *other_start < end) {
            counted[counts] = (start, end);
            counts += 1;
            let fixed = if has_equals { fixed_bits(conditions, &stretches, conditions.len(), *index) } else { 0 };
            total += bits.saturating_sub(u64::from(fixed.count_ones()) << FRACTION);
        }
    }
    total
}

/// The bytes that a condition looks at, as places that differ where the bases do.
fn bytes_of(conditions: &[Condition], stretches: &[u8; limit::ATOMS], index: usize) -> (u64, u64) {
    let base = u64::from(stretches[index]) << 32;
    let test = &conditions[index].test;
    (base + u64::from(test.offset), base + u64::from(test.end()))
}

/// Which stretch between shifts each condition lies in.
fn stretches(conditions: &[Condition]) -> [u8; limit::ATOMS] {
    let mut stretches = [0; limit::ATOMS];
    let mut passed = 0;
    for (stretch, condition) in stretches.iter_mut().zip(conditions) {
        *stretch = passed;
        passed += u8::from(condition.test.kind == Kind::Shift);
    }
    stretches
}

/// The bits of the field at `index` that the first `among` conditions fix, itself left out.
fn fixed_bits(conditions: &[Condition], stretches: &[u8; limit::ATOMS], among: usize, index: usize) -> u32 {
    let field = &conditions[index].test;
    let fixes = |other: &usize| {
        *other != index && stretches[*other] == stretches[index] && conditions[*other].test.kind == Kind::Equal
    };
    (0..among).filter(fixes).fold(0, |bits, other| bits | mask_at(&conditions[other], field.offset, field.size))
}

/// The ranges as (bits, place), narrowest first, then the earlier. Returns how many there are.
fn narrowest_first(
    conditions: &[Condition],
    narrowness: impl Fn(usize) -> u64,
    ranges: &mut [(u64, usize); limit::ATOMS],
) -> usize {
    let mut count = 0;
    for (index, condition) in conditions.iter().enumerate() {
        if condition.is_range() {
            ranges[count] = (narrowness(index), index);
            count += 1;
        }
    }
    ranges[..count].sort_unstable_by_key(|(bits, index)| (core::cmp::Reverse(*bits), *index));
    count
}

/// A condition's mask as seen through a field at `offset` of `size` bytes.
fn mask_at(condition: &Condition, offset: u32, size: u8) -> u32 {
    let end = u64::from(offset) + u64::from(size);
    let own_end = u64::from(condition.test.end());
    let mask = u128::from(condition.test.mask) << 64;
    let distance = 8 * end.abs_diff(own_end);
    if distance >= 64 {
        return 0;
    }
    let moved = if own_end <= end { mask << distance } else { mask >> distance };
    (moved >> 64) as u32 & (u32::MAX >> (32 - 8 * u32::from(size)))
}

/// `log2(values of the field / values a range admits)`, with [`FRACTION`] binary places; 0 for what is no range.
pub(crate) fn range_bits(condition: &Condition) -> u64 {
    if !condition.is_range() {
        return 0;
    }
    let test = &condition.test;
    let width = test.mask.count_ones();
    let inside =
        masked_up_to(test.mask, test.high) - test.low.checked_sub(1).map_or(0, |below| masked_up_to(test.mask, below));
    let admitted = if test.kind == Kind::Within { inside } else { (1 << width) - inside };
    (u64::from(width) << FRACTION).saturating_sub(binary_logarithm(admitted))
}

/// How many values under the mask are at most `bound`.
fn masked_up_to(mask: u32, bound: u32) -> u64 {
    let mut count = 0;
    for bit in (0..32).rev().map(|bit| 1u32 << bit) {
        let below = u64::from((mask & (bit - 1)).count_ones());
        match (mask & bit != 0, bound & bit != 0) {
            (true, true) => count += 1 << below,
            (false, true) => return count + (1 << below),
            (_, false) => {}
        }
    }
    count + 1
}

/// `log2(value)`, rounded down, with [`FRACTION`] binary places; 0 for 0.
fn binary_logarithm(value: u64) -> u64 {
    let Some(whole) = value.checked_ilog2() else { return 0 };
    let mut mantissa = value << (63 - whole);
    let mut logarithm = u64::from(whole);
    for _ in 0..FRACTION {
        let square = u128::from(mantissa) * u128::from(mantissa);
        let carry = (square >> 127) as u64;
        mantissa = (square >> (63 + carry)) as u64;
        logarithm = logarithm << 1 | carry;
    }
    logarithm
}
