//! The checked form of a predicate: at most sixteen terms, in the user's order.

use crate::clock::TimeOuts;
use abi::limits::PREDICATE_TERMS;
use abi::predicate::Operator;

/// The most comparison terms one predicate may have, all its products together.
pub const TERMS_MAX: usize = PREDICATE_TERMS;

/// Whether `left` stands in the relation `operator` to `right`, both unsigned.
pub(crate) fn holds(operator: Operator, left: u64, right: u64) -> bool {
    match operator {
        Operator::Equal => left == right,
        Operator::NotEqual => left != right,
        Operator::Less => left < right,
        Operator::LessOrEqual => left <= right,
        Operator::Greater => left > right,
        Operator::GreaterOrEqual => left >= right,
    }
}

/// Where the word of a term comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The aligned word at this virtual address of the predicate's owner: a cell of
    /// a page it may read, exposed kernel words among them.
    Memory(u64),
    /// The machine's monotone clock, in nanoseconds since boot.
    Clock,
}

/// One comparison: `(word & mask) operator value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// Where the word comes from.
    pub source: Source,
    /// The comparison.
    pub operator: Operator,
    /// The bits of the word that are compared; never zero, and all bits for the clock.
    pub mask: u64,
    /// What the masked word is compared with.
    pub value: u64,
    /// Whether this is the last term of its product.
    pub ends_product: bool,
}

impl Term {
    /// Whether this term holds for `word`, the value of its source.
    pub fn holds(&self, word: u64) -> bool {
        holds(self.operator, word & self.mask, self.value)
    }

    /// What fills the unused places of a predicate; never looked at.
    pub(crate) const UNUSED: Term =
        Term { source: Source::Clock, operator: Operator::Equal, mask: u64::MAX, value: 0, ends_product: true };
}

/// A checked predicate: true when all terms of at least one product hold.
///
/// Made only by [`Predicate::check`] and [`Predicate::set`]. 32 bytes a term and no pointers, so that the
/// kernel keeps it in a page the owner donated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Predicate {
    pub(crate) terms: [Term; TERMS_MAX],
    pub(crate) count: usize,
    pub(crate) time_outs: TimeOuts,
}

impl Predicate {
    /// None: no terms.
    pub const NONE: Self = Self { terms: [Term::UNUSED; TERMS_MAX], count: 0, time_outs: TimeOuts::None };

    /// The terms in order, 1 to [`TERMS_MAX`] of them, if it is one; the last ends a product.
    pub fn terms(&self) -> &[Term] {
        &self.terms[..self.count]
    }

    /// The products in order, each a run of one or more terms.
    pub fn products(&self) -> impl Iterator<Item = &[Term]> {
        self.terms().split_inclusive(|term| term.ends_product)
    }

    /// Number and virtual address of each term that watches a word of memory: what
    /// the kernel must find readable by the owner, and pin, before it accepts the
    /// predicate. Two terms may watch one word.
    pub fn watched(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let memory = |(index, term): (usize, &Term)| match term.source {
            Source::Memory(address) => Some((index, address)),
            Source::Clock => None,
        };
        self.terms().iter().enumerate().filter_map(memory)
    }

    /// The terms that watch memory, as a bit for each term (bit 0 is the first).
    pub fn watched_mask(&self) -> u16 {
        self.watched().fold(0, |mask, (index, _)| mask | 1 << index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_compare_as_unsigned() {
        let table = [
            (Operator::Equal, [false, true, false]),
            (Operator::NotEqual, [true, false, true]),
            (Operator::Less, [true, false, false]),
            (Operator::LessOrEqual, [true, true, false]),
            (Operator::Greater, [false, false, true]),
            (Operator::GreaterOrEqual, [false, true, true]),
        ];
        for (operator, expected) in table {
            assert_eq!([4, 5, 6].map(|left| holds(operator, left, 5)), expected);
            assert_eq!(holds(operator, u64::MAX, 0), expected[2]);
        }
    }

    #[test]
    fn products_end_where_terms_say() {
        let inner = Term { ends_product: false, ..Term::UNUSED };
        let mut predicate = Predicate { count: 3, ..Predicate::NONE };
        predicate.terms[0] = inner;
        let lengths = predicate.products().map(<[Term]>::len);
        assert!(lengths.eq([2, 1]));
    }
}
