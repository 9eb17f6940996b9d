//! When the clock alone may next make a predicate true: where an idle CPU sets its
//! timer.
//!
//! The times at which all clock terms of one product hold are an interval with at most sixteen points cut out (`!=`).
//! Words of memory are left aside: the writer of one kicks the idle CPU, which evaluates anew.

use abi::predicate::Operator;

use crate::{Predicate, Source, Term};

/// The closed interval of times from `first` to `last`; empty when `first > last`.
#[derive(Clone, Copy)]
struct Interval {
    first: u64,
    last: u64,
}

const ALWAYS: Interval = Interval { first: 0, last: u64::MAX };
const NEVER: Interval = Interval { first: 1, last: 0 };

impl Interval {
    /// The times at which a clock term holds, but for the point that `!=` leaves out.
    fn of(term: &Term) -> Interval {
        let value = term.value;
        match term.operator {
            Operator::Equal => Interval { first: value, last: value },
            Operator::NotEqual => ALWAYS,
            Operator::Less => value.checked_sub(1).map_or(NEVER, |last| Interval { first: 0, last }),
            Operator::LessOrEqual => Interval { first: 0, last: value },
            Operator::Greater => value.checked_add(1).map_or(NEVER, |first| Interval { first, last: u64::MAX }),
            Operator::GreaterOrEqual => Interval { first: value, last: u64::MAX },
        }
    }

    fn and(self, other: Interval) -> Interval {
        Interval { first: self.first.max(other.first), last: self.last.min(other.last) }
    }
}

/// The clock terms of a predicate, as far as they are time-outs alone: products of one term, from a time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeOuts {
    /// There are no clock terms.
    None,
    /// The first of them; there are no other clock terms.
    First(u64),
    /// There are others.
    Mixed,
}

impl TimeOuts {
    /// Those of these terms.
    pub(crate) fn of(terms: &[Term]) -> Self {
        let (mut found, mut begins_product) = (Self::None, true);
        for term in terms {
            if term.source == Source::Clock {
                if !(begins_product && term.ends_product && term.operator == Operator::GreaterOrEqual) {
                    return Self::Mixed;
                }
                found = match found {
                    Self::First(first) => Self::First(first.min(term.value)),
                    _ => Self::First(term.value),
                };
            }
            begins_product = term.ends_product;
        }
        found
    }
}

impl Predicate {
    /// The earliest time after `now` at which the clock terms of some product begin
    /// to hold together; `None` when passing time can no longer make any product
    /// true. Nanoseconds, as clock terms count.
    ///
    /// Meant for a predicate that [`Predicate::evaluate`] just found false at `now`:
    /// a product whose clock terms hold already waits for memory only and gives no
    /// time. A CPU that sleeps until the time returned, or until it is kicked, and
    /// then evaluates and asks again, misses no product that stays true from then
    /// on. At most 304 comparisons are done (`n * n + 3 * n` for a product of `n` terms).
    ///
    /// A product that holds for a bounded time (`<`, `<=`, `==`) is missed when
    /// the timer, or the owner's next slice, comes later than that.
    pub fn earliest_clock(&self, now: u64) -> Option<u64> {
        match self.time_outs {
            TimeOuts::None => None,
            TimeOuts::First(first) if first > now => Some(first),
            _ => self.earliest_of_products(now),
        }
    }

    #[cold]
    fn earliest_of_products(&self, now: u64) -> Option<u64> {
        self.products().filter_map(|product| product_begins(product, now)).min()
    }
}

/// When, after `now`, the clock terms of `product` begin to hold together.
fn product_begins(product: &[Term], now: u64) -> Option<u64> {
    let clock_terms = || product.iter().filter(|term| term.source == Source::Clock);
    let holds = |time: u64| clock_terms().all(|term| term.holds(time));
    if holds(now) {
        return None;
    }
    let interval = clock_terms().map(Interval::of).fold(ALWAYS, Interval::and);
    let mut time = interval.first.max(now.checked_add(1)?);
    // Inside the interval only a `!=` can fail, and each fails at one time only.
    for _ in product {
        if holds(time) {
            break;
        }
        time = time.checked_add(1)?;
    }
    (time <= interval.last && holds(time)).then_some(time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TERMS_MAX;

    #[test]
    fn the_earlier_of_two_time_outs_is_next() {
        let mut terms = [Term::UNUSED; TERMS_MAX];
        for (term, value) in terms.iter_mut().zip([700, 300]) {
            term.operator = Operator::GreaterOrEqual;
            term.value = value;
        }
        let time_outs = TimeOuts::of(&terms[..2]);
        let predicate = Predicate { terms, count: 2, time_outs };
        assert_eq!(time_outs, TimeOuts::First(300));
        assert_eq!(predicate.earliest_clock(0), Some(300));
        assert_eq!(predicate.earliest_clock(300), Some(700));
    }
}
