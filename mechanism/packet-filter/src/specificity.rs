//! Which of two matching conjunctions wins.
//!
//! **The rule.** Of all conjunctions that hold for a packet the one with the greatest [`Rank`] wins.
//! Ranks compare, in this order:
//!
//! 1. *Constrained bits.* A bit of the packet that an `Equal` fixes counts one, once, however many
//!    atoms name it. A range counts `log2(values of the field / values it admits)`, less the bits
//!    already fixed in its bytes, and only one range (the narrowest, then the earlier) counts for any
//!    byte. More bits win. The count never says more than the atoms do: saying one thing twice gains nothing.
//! 2. *Length.* Who asks for the longer packet wins.
//! 3. *Age.* The older filter wins, and in one filter the earlier conjunction.
//!
//! No two conjunctions have the same age, so this is a strict total order, and it depends on nothing
//! but the filters and the order they were installed in. Adding an atom about bytes that a
//! conjunction says nothing about makes it win over the one it was added to, and a narrower range
//! in the place of a wider one does too.

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
    pub(crate) fn new(conditions: &[Condition], age: u64) -> Self {
        let specificity = constrained_bits(conditions) << LENGTH | length(conditions);
        Self { specificity, seniority: !age }
    }

    /// The rank that one conjunction has as the `number`-th of the filter with this serial number.
    ///
    /// # Errors
    /// What is wrong with its atoms.
    pub fn of(conjunction: &[Atom], serial: u64, number: u8) -> Result<Self, Refusal> {
        let checked = Conjunction::check(usize::from(number), conjunction)?;
        Ok(Self::new(checked.conditions(), age(serial, number)))
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
fn constrained_bits(conditions: &[Condition]) -> u64 {
    let mut counted = [false; limit::ATOMS];
    let mut total = 0;
    for (index, condition) in conditions.iter().enumerate() {
        if condition.test.kind == Kind::Equal {
            let known = fixed_bits(conditions, &conditions[..index], index);
            total += u64::from((condition.test.mask & !known).count_ones()) << FRACTION;
        }
    }
    while let Some(index) = narrowest_uncounted(conditions, &counted) {
        let fixed = fixed_bits(conditions, conditions, index) & conditions[index].test.all_bits();
        total += range_bits(&conditions[index]).saturating_sub(u64::from(fixed.count_ones()) << FRACTION);
        counted[index] = true;
    }
    total
}

/// The bits of the field at `index` that the `Equal`s of `among`, in the same stretch, fix.
fn fixed_bits(all: &[Condition], among: &[Condition], index: usize) -> u32 {
    let stretch = stretch_of(all, index);
    let field = &all[index].test;
    let equals = among.iter().enumerate().filter(|(_, c)| c.test.kind == Kind::Equal);
    equals
        .filter(|(other, _)| *other != index && stretch_of(all, *other) == stretch)
        .fold(0, |bits, (_, other)| bits | mask_at(other, field.offset, field.size))
}

/// Which stretch between shifts the condition at `index` lies in.
fn stretch_of(conditions: &[Condition], index: usize) -> usize {
    conditions[..index].iter().filter(|c| c.test.kind == Kind::Shift).count()
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

/// The narrowest range not counted whose bytes no counted range touches.
fn narrowest_uncounted(conditions: &[Condition], counted: &[bool]) -> Option<usize> {
    let free = |index: usize| {
        let touched = |other: usize| {
            counted[other]
                && stretch_of(conditions, other) == stretch_of(conditions, index)
                && conditions[other].test.offset < conditions[index].test.end()
                && conditions[index].test.offset < conditions[other].test.end()
        };
        is_range(&conditions[index]) && !(0..conditions.len()).any(touched)
    };
    (0..conditions.len()).filter(|index| free(*index)).max_by_key(|index| (range_bits(&conditions[*index]), usize::MAX - index))
}

fn is_range(condition: &Condition) -> bool {
    matches!(condition.test.kind, Kind::Within | Kind::Outside)
}

/// `log2` of the share of values that a range leaves out, with [`FRACTION`] binary places.
fn range_bits(condition: &Condition) -> u64 {
    let test = &condition.test;
    let width = test.mask.count_ones();
    let inside = masked_up_to(test.mask, test.high) - test.low.checked_sub(1).map_or(0, |below| masked_up_to(test.mask, below));
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
    let mut mantissa = u128::from(value) << (63 - whole);
    let mut logarithm = u64::from(whole);
    for _ in 0..FRACTION {
        mantissa = (mantissa * mantissa) >> 63;
        let carry = mantissa >> 64;
        mantissa >>= carry;
        logarithm = logarithm << 1 | carry as u64;
    }
    logarithm
}
