//! Evaluation by interpretation: what the kernel uses first, and the reference for
//! the compiler.

use crate::{Predicate, Source};

/// How an evaluation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// No product holds: the sleeper sleeps on.
    False,
    /// All terms of a product hold: the sleeper wakes.
    Fired {
        /// The first product that holds, counted from 0.
        product: usize,
        /// The last term of that product, counted from 0 over all terms. (For
        /// products of one term, that is the term which fired.)
        term: usize,
    },
    /// The page of a watched word was freed: the sleeper wakes to learn it.
    Gone {
        /// The first term whose word is gone.
        term: usize,
    },
}

impl Outcome {
    /// Whether the sleeper is to wake.
    pub fn wakes(self) -> bool {
        self != Outcome::False
    }
}

/// The watched words of one predicate, supplied by the caller that pinned their pages.
pub trait Words {
    /// The terms whose page was freed since the predicate was accepted, as a bit for
    /// each term (bit 0 is the first). Bits of clock terms are ignored.
    fn gone(&self) -> u16;

    /// The present value of the word that term number `term` watches, read in one
    /// piece with acquire ordering. Asked only for terms listed by
    /// [`Predicate::watched`], and only while [`Words::gone`] names none of them.
    fn read(&self, term: usize) -> u64;
}

impl Predicate {
    /// Evaluates the predicate at time `now` (nanoseconds, as clock terms count).
    ///
    /// Products are tried in order, and terms in order within a product, up to the
    /// first that fails: at most [`crate::TERMS_MAX`] words are read, each once.
    pub fn evaluate(&self, now: u64, words: &impl Words) -> Outcome {
        let gone = words.gone();
        if gone != 0 && gone & self.watched_mask() != 0 {
            return Outcome::Gone { term: (gone & self.watched_mask()).trailing_zeros() as usize };
        }
        let (mut product, mut holds) = (0, true);
        for (index, term) in self.terms().iter().enumerate() {
            holds = holds
                && term.holds(match term.source {
                    Source::Memory(_) => words.read(index),
                    Source::Clock => now,
                });
            if term.ends_product {
                if holds {
                    return Outcome::Fired { product, term: index };
                }
                (product, holds) = (product + 1, true);
            }
        }
        Outcome::False
    }
}

#[cfg(test)]
mod tests {
    use abi::predicate::Operator;

    use super::*;
    use crate::{TERMS_MAX, Term};

    struct One(u64);

    impl Words for One {
        fn gone(&self) -> u16 {
            0
        }
        fn read(&self, _term: usize) -> u64 {
            self.0
        }
    }

    #[test]
    fn a_word_or_a_time_out_wakes() {
        let mut terms = [Term::UNUSED; TERMS_MAX];
        terms[0].source = Source::Memory(0x1000);
        terms[0].value = 3;
        terms[1].operator = Operator::GreaterOrEqual;
        terms[1].value = 100;
        let predicate = Predicate { terms, count: 2, ..Predicate::NONE };
        assert_eq!(predicate.evaluate(5, &One(0)), Outcome::False);
        assert!(predicate.evaluate(5, &One(3)).wakes());
        assert!(predicate.evaluate(100, &One(0)).wakes());
    }
}
