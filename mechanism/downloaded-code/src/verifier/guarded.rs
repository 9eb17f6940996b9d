//! What a value owes to jumps: a processor that speculates may go the wrong way at each of them.
//!
//! The analysis knows a value's range because of what the instructions do, and because of what jumps were taken to get
//! there. Code after a mispredicted jump runs with the first kind of knowledge only. For the masks (FAULTS row 90) it
//! matters whether that is enough for an access, and if not, which end of the range is in doubt. Where the lower end
//! holds, one comparison with the end of the region says whether an access is inside.
//!
//! **Why the lower end of a counter holds.** A pointer that a loop moves has no upper end without the loop's jump.
//! So, counted modulo 2^64, it would have no lower end either. But it takes too many additions to get around. Take
//! values as integers without a modulus. Of a value whose [`Guarded`] is `UpperEnd` the integer is never below its
//! `signed_minimum`, and never above [`FIRST`] plus [`most_step`] for each instruction executed:
//!
//! - it starts as a value that is known without jumps to be at most `FIRST`, of which jumps then lower the upper end;
//! - it changes only by additions of what is known without jumps to be at most a step;
//! - whatever raises the lower end by more than that makes it `Everything`.
//!
//! A path, right or wrong, executes at most the context's budget and then what a processor does before it notices a
//! wrong turn, far less than [`AHEAD`]. So the integer stays below `2 * FIRST`, that is 2^30, and a region's start
//! plus that does not wrap ([`crate::invocation::NEAR`]). The address is not below the region, and is compared as it
//! is.

use super::scalar::Scalar;
use super::value::Value;

/// The most that a value may be known to be without jumps for its upper end to begin to rest on them.
const FIRST: i64 = 1 << 29;
/// Instructions that no processor executes after a wrong turn: some hundreds fit into the reorder buffers of today.
const AHEAD: u64 = 1 << 16;

/// What of a value's range, or of its relation to a length, is known only because of jumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Guarded {
    /// Nothing: it holds whatever jumps do.
    Nothing,
    /// All but the signed minimum, below which it does not get by wrapping around either.
    UpperEnd,
    /// After a mispredicted jump it may be anything.
    Everything,
}

impl Guarded {
    pub(crate) const fn code(self) -> u64 {
        self as u64
    }

    pub(crate) const fn from_code(code: u64) -> Self {
        match code & 3 {
            0 => Self::Nothing,
            1 => Self::UpperEnd,
            _ => Self::Everything,
        }
    }

    /// Of what is made from a value in another way than by adding.
    pub(crate) fn altered(self) -> Self {
        if self == Self::Nothing { Self::Nothing } else { Self::Everything }
    }

    /// Whether `scalar`, of which this is owed, is not below its signed minimum whatever jumps do.
    pub(crate) fn lower_end_holds(self, scalar: &Scalar) -> bool {
        match self {
            Self::Nothing => scalar.signed_maximum <= FIRST,
            Self::UpperEnd => true,
            Self::Everything => false,
        }
    }

    /// After a jump, or something that rests on jumps, taught more about a value than was known.
    pub(crate) fn taught(self, before: &Scalar, after: &Scalar) -> Self {
        let lower_end = self.lower_end_holds(before) && after.signed_minimum <= before.signed_minimum;
        if lower_end { Self::UpperEnd } else { Self::Everything }
    }

    /// Of a value that covers two others.
    pub(crate) fn merged(old: &Value, new: &Value, merged: &Scalar) -> Self {
        if old.guarded == Self::Nothing && new.guarded == Self::Nothing {
            return Self::Nothing;
        }
        let holds = |value: &Value| {
            value.guarded.lower_end_holds(&value.scalar) && merged.signed_minimum <= value.scalar.signed_minimum
        };
        if holds(old) && holds(new) { Self::UpperEnd } else { Self::Everything }
    }

    /// Of the sum of two values of which one owes something. Sums of 32 bits do not wrap either, since both are small
    /// and not negative.
    pub(crate) fn of_sum(left: &Value, right: &Value, wide: bool, sum: &Scalar, budget: u64) -> Self {
        let step = |value: &Value| value.guarded == Self::Nothing && value.scalar.signed_maximum <= most_step(budget);
        let holds = |value: &Value| value.guarded.lower_end_holds(&value.scalar);
        let (first, second) = (left.scalar.signed_minimum, right.scalar.signed_minimum);
        let whole = wide || first >= 0 && second >= 0;
        let lower_end = first.checked_add(second).is_some_and(|least| sum.signed_minimum <= least);
        let grows = holds(left) && step(right) || holds(right) && step(left);
        if whole && lower_end && grows { Self::UpperEnd } else { Self::Everything }
    }
}

/// The most that one instruction may add, so that a whole run adds no more than [`FIRST`].
fn most_step(budget: u64) -> i64 {
    (FIRST as u64 / budget.saturating_add(AHEAD)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: u64 = 1_000_000;

    fn value(minimum: i64, maximum: i64, guarded: Guarded) -> Value {
        Value { guarded, ..Value::number(Scalar::signed_range(minimum, maximum)) }
    }

    fn sum(left: &Value, right: &Value, wide: bool) -> Guarded {
        let (minimum, maximum) = (left.scalar.signed_minimum, left.scalar.signed_maximum);
        let result = Scalar::signed_range(
            minimum.saturating_add(right.scalar.signed_minimum),
            maximum.saturating_add(right.scalar.signed_maximum),
        );
        Guarded::of_sum(left, right, wide, &result, BUDGET)
    }

    #[test]
    fn fault_90_a_jump_that_lowers_the_upper_end_leaves_the_lower_one() {
        let before = Scalar::signed_range(4, 1000);
        assert_eq!(Guarded::Nothing.taught(&before, &Scalar::signed_range(4, 10)), Guarded::UpperEnd);
        assert_eq!(Guarded::UpperEnd.taught(&before, &Scalar::signed_range(4, 10)), Guarded::UpperEnd);
        assert_eq!(Guarded::Nothing.taught(&before, &Scalar::signed_range(5, 1000)), Guarded::Everything);
        assert_eq!(Guarded::Everything.taught(&before, &Scalar::signed_range(4, 10)), Guarded::Everything);
        let long = Scalar::signed_range(0, FIRST + 1);
        assert_eq!(Guarded::Nothing.taught(&long, &Scalar::signed_range(0, 10)), Guarded::Everything);
    }

    #[test]
    fn fault_90_only_small_additions_keep_the_lower_end() {
        let counter = value(4, 1000, Guarded::UpperEnd);
        assert_eq!(sum(&counter, &Value::constant(4), true), Guarded::UpperEnd);
        assert_eq!(sum(&Value::constant(14), &counter, true), Guarded::UpperEnd);
        assert_eq!(sum(&counter, &value(-4, -4, Guarded::Nothing), true), Guarded::UpperEnd);
        assert_eq!(sum(&counter, &Value::constant(most_step(BUDGET) as u64 + 1), true), Guarded::Everything);
        assert_eq!(sum(&counter, &counter, true), Guarded::Everything, "it would double each time");
        assert_eq!(sum(&value(0, 9, Guarded::Everything), &Value::constant(4), true), Guarded::Everything);
        assert_eq!(sum(&counter, &Value::constant(4), false), Guarded::UpperEnd);
        assert_eq!(sum(&value(-1, 9, Guarded::UpperEnd), &Value::constant(4), false), Guarded::Everything);
        let raised = Guarded::of_sum(&counter, &Value::constant(4), true, &Scalar::signed_range(9, 1004), BUDGET);
        assert_eq!(raised, Guarded::Everything);
    }

    #[test]
    fn fault_90_all_additions_of_a_run_stay_below_what_regions_have_above_them() {
        for budget in [0, 1, 20_000, BUDGET, 1 << 29, u64::MAX] {
            let instructions = u128::from(budget) + u128::from(AHEAD);
            let most = FIRST as u128 + instructions * most_step(budget) as u128;
            assert!(most <= u128::from(crate::invocation::NEAR), "{budget}");
        }
        assert_eq!(most_step(u64::MAX), 0, "then only what adds nothing keeps its lower end");
    }

    #[test]
    fn fault_90_what_covers_two_values_owes_what_both_owe() {
        let merged = |old: &Value, new: &Value| Guarded::merged(old, new, &old.scalar.union(&new.scalar));
        let (constant, counter) = (Value::constant(0), value(4, 10, Guarded::UpperEnd));
        assert_eq!(merged(&constant, &constant), Guarded::Nothing);
        assert_eq!(merged(&constant, &counter), Guarded::UpperEnd);
        assert_eq!(merged(&value(0, 4, Guarded::Everything), &counter), Guarded::Everything);
        assert_eq!(merged(&value(0, FIRST + 1, Guarded::Nothing), &counter), Guarded::Everything);
        assert_eq!(Guarded::merged(&constant, &counter, &Scalar::signed_range(1, 10)), Guarded::Everything);
    }
}
