//! What the tests of this crate share: building and generating arrays of terms, a
//! naive model of what they mean, and words kept in plain memory.

use std::cell::Cell;

use abi::limits::PREDICATE_TERMS;
use abi::predicate::{CLOCK, END_OF_PRODUCT, Operator, Term};
use fastrand::Rng;
use wakeup_predicate::{Outcome, Predicate, Source, Words};

/// One seed makes one run: from `CHITIN_SEED`, else a fixed one.
pub(crate) fn seed() -> u64 {
    let given = std::env::var("CHITIN_SEED").ok();
    given.map_or(0x5eed, |text| text.parse().expect("CHITIN_SEED is a decimal number"))
}

/// How many generated cases to run: `few`, or `many` under `CHITIN_FULL=1`.
pub(crate) fn cases(few: u64, many: u64) -> u64 {
    if std::env::var_os("CHITIN_FULL").is_some_and(|value| value == "1") { many } else { few }
}

/// A term over memory that compares the whole word.
pub(crate) fn memory(address: u64, operator: Operator, value: u64) -> Term {
    Term { source: address, operation: operator as u64, mask: u64::MAX, value }
}

/// A term over the clock.
pub(crate) fn clock(operator: Operator, value: u64) -> Term {
    memory(CLOCK, operator, value)
}

/// The same term as the last of its product.
pub(crate) fn last(term: Term) -> Term {
    Term { operation: term.operation | END_OF_PRODUCT, ..term }
}

/// Whether `term` says that it is the last of its product.
pub(crate) fn is_last(term: &Term) -> bool {
    term.operation & END_OF_PRODUCT != 0
}

/// All operators, in the order of their numbers.
pub(crate) fn operators() -> [Operator; 6] {
    std::array::from_fn(|number| Operator::from_number(number as u64).expect("six operators"))
}

/// Numbers near which comparisons go wrong.
pub(crate) const EDGES: [u64; 12] = [
    0,
    1,
    2,
    7,
    u32::MAX as u64 - 1,
    u32::MAX as u64,
    1 << 32,
    i64::MAX as u64,
    1 << 63,
    (1 << 63) + 1,
    u64::MAX - 1,
    u64::MAX,
];

/// An edge, a neighbour of one, or any number.
pub(crate) fn number(rng: &mut Rng) -> u64 {
    match rng.u8(0..8) {
        0 => rng.u64(..),
        1 => rng.choice(EDGES).unwrap_or(0).wrapping_add(rng.u64(0..3)).wrapping_sub(1),
        2..5 => rng.u64(0..4),
        _ => rng.choice(EDGES).unwrap_or(0),
    }
}

/// An array that `check` accepts, over words at 0x1000, 0x1008, …
pub(crate) fn array(rng: &mut Rng) -> Vec<Term> {
    let count = rng.usize(1..=PREDICATE_TERMS);
    (0..count).map(|_| term(rng)).collect()
}

fn term(rng: &mut Rng) -> Term {
    let operator = rng.choice(operators()).expect("six operators");
    let value = number(rng);
    let term = if rng.u8(0..3) == 0 {
        clock(operator, value)
    } else {
        let masks = [u64::MAX, 1, 0xff, 1 << 63, u32::MAX as u64, 1 | rng.u64(..)];
        let mask = rng.choice(masks).unwrap_or(1);
        Term { mask, ..memory(0x1000 + 8 * rng.u64(0..6), operator, value) }
    };
    if rng.u8(0..3) == 0 { last(term) } else { term }
}

/// The words of a predicate, by the address each term watches; counts what is read.
pub(crate) struct Cells {
    addresses: Vec<Option<u64>>,
    pub(crate) values: [u64; 6],
    pub(crate) gone: u16,
    pub(crate) reads: Cell<usize>,
}

impl Cells {
    pub(crate) fn new(predicate: &Predicate, values: [u64; 6], gone: u16) -> Cells {
        let address = |term: &wakeup_predicate::Term| match term.source {
            Source::Memory(address) => Some(address),
            Source::Clock => None,
        };
        let addresses = predicate.terms().iter().map(address).collect();
        Cells { addresses, values, gone, reads: Cell::new(0) }
    }
}

impl Words for Cells {
    fn gone(&self) -> u16 {
        self.gone
    }

    fn read(&self, term: usize) -> u64 {
        self.reads.set(self.reads.get() + 1);
        let address = self.addresses[term].expect("only words of memory are read");
        self.values[((address - 0x1000) / 8) as usize]
    }
}

/// What an array means, written down as plainly as possible and from the array itself.
pub(crate) fn model(array: &[Term], now: u64, values: [u64; 6], gone: u16) -> Outcome {
    for (term, given) in array.iter().enumerate() {
        if given.source != CLOCK && gone >> term & 1 == 1 {
            return Outcome::Gone { term };
        }
    }
    let mut product = 0;
    let mut all_hold = true;
    for (term, given) in array.iter().enumerate() {
        let word = if given.source == CLOCK { now } else { values[((given.source - 0x1000) / 8) as usize] };
        all_hold = all_hold && term_holds(given, word);
        if is_last(given) || term == array.len() - 1 {
            if all_hold {
                return Outcome::Fired { product, term };
            }
            product += 1;
            all_hold = true;
        }
    }
    Outcome::False
}

/// Whether one term holds, by the sign of a difference that cannot overflow.
pub(crate) fn term_holds(given: &Term, word: u64) -> bool {
    let difference = i128::from(word & given.mask) - i128::from(given.value);
    match given.operation & 0xff {
        0 => difference == 0,
        1 => difference != 0,
        2 => difference < 0,
        3 => difference <= 0,
        4 => difference > 0,
        5 => difference >= 0,
        other => panic!("the generator made operator {other}"),
    }
}
