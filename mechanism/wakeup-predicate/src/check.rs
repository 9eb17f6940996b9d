//! From the user's array to a checked predicate, or to the first thing wrong with it.
//!
//! Check first, commit last: nothing is kept of an array that is refused. Whether
//! the owner may read the watched words is not decided here but by the kernel, which
//! alone knows the page tables ([`Predicate::watched`]).

use core::fmt;

use abi::predicate::{self, CLOCK, END_OF_PRODUCT, Operator};

use crate::clock::TimeOuts;
use crate::{Predicate, Source, TERMS_MAX, Term};

/// The bits of an operation that hold the operator's number.
const OPERATOR_BITS: u64 = 0xff;

/// Why a predicate was refused, and at which term (counted from 0).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The term that is wrong; for [`Reason::Empty`] 0, for [`Reason::TooManyTerms`]
    /// the first one too many.
    pub term: usize,
    /// What is wrong with it.
    pub reason: Reason,
}

/// What can be wrong with a predicate. The numbers are part of the interface: the
/// kernel returns them as the detail of a refused call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reason {
    /// No terms: it would never become true.
    Empty = 1,
    /// More than [`TERMS_MAX`] terms.
    TooManyTerms = 2,
    /// The source is neither the clock nor a multiple of eight, so that the word
    /// could not be read in one piece.
    UnalignedWord = 3,
    /// The operator is none of the six.
    UnknownOperator = 4,
    /// A bit of the operation that has no meaning yet is set.
    ReservedBit = 5,
    /// The mask is zero, so that the word would not matter.
    EmptyMask = 6,
    /// The mask of a clock term leaves out some bits: the time at which the term
    /// becomes true could not be told in advance.
    MaskedClock = 7,
}

impl Refusal {
    /// The refusal as one word for the second return register: the reason's number
    /// in bits 0 to 7, the term's above it.
    pub fn detail(self) -> u64 {
        (self.term as u64) << 8 | self.reason as u64
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let advice = match self.reason {
            Reason::Empty => "there are no terms: give at least one comparison",
            Reason::TooManyTerms => "there are more than 16 terms: wait for fewer words at once",
            Reason::UnalignedWord => "the source is not a multiple of 8: watch an aligned word, or use CLOCK",
            Reason::UnknownOperator => "unknown operator: use a number of `Operator`",
            Reason::ReservedBit => "a reserved bit of the operation is set: only END_OF_PRODUCT may be added",
            Reason::EmptyMask => "the mask is zero: use u64::MAX to compare the whole word",
            Reason::MaskedClock => "the clock is compared whole: use the mask u64::MAX",
        };
        write!(out, "predicate term {}: {advice}", self.term)
    }
}

impl Predicate {
    /// Checks the kernel's own copy of a user's array.
    ///
    /// # Errors
    /// The first term that is wrong, with the reason; the number of terms is looked
    /// at before any term. At most [`TERMS_MAX`] terms are read, however long the
    /// array is.
    pub fn check(array: &[predicate::Term]) -> Result<Predicate, Refusal> {
        let mut predicate = Self::NONE;
        predicate.set(array)?;
        Ok(predicate)
    }

    /// The same where the predicate lies. After an error there are no terms.
    ///
    /// # Errors
    /// As for [`Self::check`].
    pub fn set(&mut self, array: &[predicate::Term]) -> Result<(), Refusal> {
        let refuse = |term, reason| Err(Refusal { term, reason });
        self.clear();
        match array.len() {
            0 => return refuse(0, Reason::Empty),
            1..=TERMS_MAX => {}
            _ => return refuse(TERMS_MAX, Reason::TooManyTerms),
        }
        for (index, (place, given)) in self.terms.iter_mut().zip(array).enumerate() {
            *place = check_term(given).map_err(|reason| Refusal { term: index, reason })?;
        }
        self.terms[array.len() - 1].ends_product = true;
        self.count = array.len();
        self.time_outs = TimeOuts::of(self.terms());
        Ok(())
    }

    /// There are no terms any more.
    pub fn clear(&mut self) {
        self.count = 0;
    }
}

fn check_term(given: &predicate::Term) -> Result<Term, Reason> {
    let source = check_source(given.source)?;
    if given.operation & !(END_OF_PRODUCT | OPERATOR_BITS) != 0 {
        return Err(Reason::ReservedBit);
    }
    let operator = Operator::from_number(given.operation & OPERATOR_BITS).ok_or(Reason::UnknownOperator)?;
    match given.mask {
        0 => return Err(Reason::EmptyMask),
        mask if source == Source::Clock && mask != u64::MAX => return Err(Reason::MaskedClock),
        _ => {}
    }
    let ends_product = given.operation & END_OF_PRODUCT != 0;
    Ok(Term { source, operator, mask: given.mask, value: given.value, ends_product })
}

fn check_source(source: u64) -> Result<Source, Reason> {
    match source {
        CLOCK => Ok(Source::Clock),
        address if address.is_multiple_of(8) => Ok(Source::Memory(address)),
        _ => Err(Reason::UnalignedWord),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sound_array_is_accepted_and_an_empty_one_refused() {
        let term = predicate::Term { source: 0x1000, mask: u64::MAX, ..Default::default() };
        assert!(Predicate::check(&[term]).is_ok());
        let refused = Predicate::check(&[]).expect_err("no terms");
        assert_eq!(refused.reason, Reason::Empty);
    }
}
