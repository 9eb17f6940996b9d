//! Where paths meet: the least value known to cover two others, and how it is widened so that loops settle.

use super::guarded::Guarded;
use super::scalar::Scalar;
use super::state::Merge;
use super::tnum::Tnum;
use super::value::{Kind, Relation, Value};
use crate::context::MAX_REGIONS;

/// Most constants kept as places where a growing range may rest.
const MAX_THRESHOLDS: usize = 64;

/// How much a merge gives up so that the analysis ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    /// Keep what both sides have in common.
    Exact,
    /// Ranges that grow jump to the next threshold.
    Widen,
    /// Whatever changes becomes unknown.
    GiveUp,
}

/// Constants of the program's comparisons and masks, sorted: a loop's counter rests at one of them.
#[derive(Clone, Debug)]
pub(crate) struct Thresholds {
    values: [u64; MAX_THRESHOLDS],
    count: usize,
}

impl Thresholds {
    pub(crate) const fn new() -> Self {
        Self { values: [0; MAX_THRESHOLDS], count: 0 }
    }

    /// Adds a constant and its neighbours, while there is room.
    pub(crate) fn add_around(&mut self, constant: u64) {
        for value in [constant.wrapping_sub(1), constant, constant.wrapping_add(1)] {
            self.add(value);
        }
    }

    pub(crate) fn add(&mut self, value: u64) {
        let place = self.values[..self.count].partition_point(|other| *other < value);
        if self.count == MAX_THRESHOLDS || self.values[..self.count].get(place) == Some(&value) {
            return;
        }
        self.values.copy_within(place..self.count, place + 1);
        self.values[place] = value;
        self.count += 1;
    }

    fn at_least(&self, value: u64) -> u64 {
        let place = self.values[..self.count].partition_point(|other| *other < value);
        self.values[..self.count].get(place).copied().unwrap_or(u64::MAX)
    }

    fn at_most(&self, value: u64) -> u64 {
        let place = self.values[..self.count].partition_point(|other| *other <= value);
        place.checked_sub(1).map_or(0, |place| self.values[place])
    }
}

/// Merges the two values of a pair.
pub(crate) fn merge_values(pair: &Merge<'_>, effort: Effort, thresholds: &Thresholds) -> Value {
    let pair = &Merge { old: zero_beside(&pair.old, &pair.new), new: zero_beside(&pair.new, &pair.old), ..*pair };
    let (old, new) = (&pair.old, &pair.new);
    let kind = merge_kinds(old.kind, new.kind, effort);
    match kind {
        Kind::Uninitialised => return Value::UNINITIALISED,
        Kind::DependsOnPath => return Value::DEPENDS_ON_PATH,
        _ => {}
    }
    let relation = merge_relations(pair);
    let relation = if effort == Effort::Exact || relation == old.relation { relation } else { None };
    let scalar = merge_scalars(&old.scalar, &new.scalar, effort, thresholds);
    let origin = if old.origin == new.origin { old.origin } else { None };
    let (guarded, assumed) = (Guarded::merged(old, new, &scalar), old.assumed || new.assumed);
    Value { kind, scalar, relation, guarded, origin, assumed }
}

/// What was not written counts as zero where it meets a number. Compilers leave registers unwritten on paths on which
/// they know, by more than is known here, that these are not used.
fn zero_beside(value: &Value, other: &Value) -> Value {
    let zero = value.kind == Kind::Unwritten && other.is_number();
    if zero { Value { assumed: true, ..Value::constant(0) } } else { *value }
}

fn merge_kinds(old: Kind, new: Kind, effort: Effort) -> Kind {
    match (old, new) {
        _ if old == new => old,
        (Kind::Uninitialised, _) | (_, Kind::Uninitialised) => Kind::Uninitialised,
        (
            Kind::CallersStack { before: first_before, after: first_after },
            Kind::CallersStack { before: second_before, after: second_after },
        ) if effort != Effort::GiveUp => {
            Kind::CallersStack { before: first_before.min(second_before), after: first_after.min(second_after) }
        }
        (Kind::CallersStack { .. }, Kind::CallersStack { .. }) => Kind::CallersStack { before: 0, after: 0 },
        _ => Kind::DependsOnPath,
    }
}

fn merge_relations(pair: &Merge<'_>) -> Option<Relation> {
    let (old, new) = (pair.old.relation, pair.new.relation);
    let merged = match (old, new) {
        (Some(old), Some(new)) if old.region == new.region => Relation {
            region: old.region,
            exact: old.exact && new.exact && old.slack == new.slack,
            untaught: old.untaught && new.untaught,
            slack: old.slack.min(new.slack),
        },
        (Some(old), None) => weaker(old, implied(&pair.new.scalar, pair.new_proven, old.region)?),
        (None, Some(new)) => weaker(new, implied(&pair.old.scalar, pair.old_proven, new.region)?),
        (None, None) => return both_implied(pair),
        _ => return None,
    };
    Some(merged)
}

/// Two small numbers that are both within a region's proven length: how a counter that starts at a constant comes to
/// be known as an index. Of several regions the one that fits most closely is taken.
fn both_implied(pair: &Merge<'_>) -> Option<Relation> {
    let candidates = match pair.old.kind {
        Kind::Region(region) => region..region + 1,
        Kind::Number => 0..MAX_REGIONS as u8,
        _ => return None,
    };
    candidates
        .filter_map(|region| {
            let old = implied(&pair.old.scalar, pair.old_proven, region)?;
            let slack = old.min(implied(&pair.new.scalar, pair.new_proven, region)?);
            (slack >= 0).then_some(Relation { region, exact: false, untaught: false, slack })
        })
        .min_by_key(|relation| relation.slack)
}

fn weaker(relation: Relation, slack: i32) -> Relation {
    Relation { region: relation.region, exact: false, untaught: false, slack: relation.slack.min(slack) }
}

/// The slack that a number has only because it is small and the region is known to be long enough.
fn implied(scalar: &Scalar, proven: &[u32; MAX_REGIONS], region: u8) -> Option<i32> {
    let length = i64::from(*proven.get(usize::from(region))?);
    let value = i64::try_from(scalar.maximum).ok()?;
    i32::try_from(length.checked_sub(value)?).ok()
}

fn merge_scalars(old: &Scalar, new: &Scalar, effort: Effort, thresholds: &Thresholds) -> Scalar {
    let merged = old.union(new);
    if merged == *old || effort == Effort::Exact {
        return merged;
    }
    if effort == Effort::GiveUp {
        return Scalar::UNKNOWN;
    }
    let mut widened = merged;
    if merged.maximum > old.maximum {
        widened.maximum = thresholds.at_least(merged.maximum);
    }
    if merged.minimum < old.minimum {
        widened.minimum = thresholds.at_most(merged.minimum);
    }
    if merged.signed_maximum > old.signed_maximum {
        widened.signed_maximum = widened_signed_maximum(merged.signed_maximum, thresholds);
    }
    if merged.signed_minimum < old.signed_minimum {
        widened.signed_minimum = widened_signed_minimum(merged.signed_minimum);
    }
    if merged.bits != old.bits {
        widened.bits = widened_bits(merged.bits);
    }
    widened.normalised().unwrap_or(Scalar::UNKNOWN)
}

fn widened_signed_maximum(maximum: i64, thresholds: &Thresholds) -> i64 {
    if maximum < 0 { -1 } else { i64::try_from(thresholds.at_least(maximum as u64)).unwrap_or(i64::MAX) }
}

fn widened_signed_minimum(minimum: i64) -> i64 {
    [0, i64::from(i32::MIN)].into_iter().find(|step| minimum >= *step).unwrap_or(i64::MIN)
}

/// Only the known bits below the lowest unknown one survive: counters keep their alignment.
fn widened_bits(bits: Tnum) -> Tnum {
    let known = bits.mask.trailing_zeros();
    let mask = u64::MAX.checked_shl(known).unwrap_or(0);
    Tnum { value: bits.value & !mask, mask }
}
