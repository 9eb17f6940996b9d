//! Evaluation against the naive model, and what it costs.

use crate::support::*;
use abi::predicate::{Operator, Term};
use wakeup_predicate::{Outcome, Predicate, TERMS_MAX};

fn evaluate(array: &[Term], now: u64, values: [u64; 6], gone: u16) -> Outcome {
    let predicate = Predicate::check(array).expect("generated arrays are sound");
    let cells = Cells::new(&predicate, values, gone);
    let outcome = predicate.evaluate(now, &cells);
    assert!(cells.reads.get() <= TERMS_MAX, "{} words read", cells.reads.get());
    outcome
}

#[test]
fn interpreter_equals_naive_model() {
    let mut rng = fastrand::Rng::with_seed(seed());
    println!("seed {}", seed());
    let mut seen = [0u64; 3];
    for _ in 0..cases(200_000, 10_000_000) {
        let array = array(&mut rng);
        let values = std::array::from_fn(|_| number(&mut rng));
        let now = number(&mut rng);
        let gone = if rng.u8(0..8) == 0 { rng.u16(..) & rng.u16(..) & rng.u16(..) } else { 0 };
        let outcome = evaluate(&array, now, values, gone);
        assert_eq!(outcome, model(&array, now, values, gone), "now {now} {values:?} {array:?}");
        seen[match outcome {
            Outcome::False => 0,
            Outcome::Fired { .. } => 1,
            Outcome::Gone { .. } => 2,
        }] += 1;
    }
    assert!(seen.iter().all(|&count| count > 1000), "outcomes too rare to mean much: {seen:?}");
}

#[test]
fn every_operator_at_every_edge() {
    for operator in operators() {
        for word in EDGES {
            for value in EDGES {
                let term = last(memory(0x1000, operator, value));
                let expected = model(&[term], 0, [word; 6], 0);
                assert_eq!(evaluate(&[term], 0, [word; 6], 0), expected, "{word} {operator:?} {value}");
                let term = last(clock(operator, value));
                assert_eq!(evaluate(&[term], word, [0; 6], 0), model(&[term], word, [0; 6], 0));
            }
        }
    }
}

#[test]
fn the_first_product_that_holds_is_reported() {
    let never = memory(0x1000, Operator::Equal, 9);
    let holds = memory(0x1000, Operator::Equal, 1);
    let array = [holds, last(never), holds, holds, last(holds), last(holds)];
    assert_eq!(evaluate(&array, 0, [1; 6], 0), Outcome::Fired { product: 1, term: 4 });
}

#[test]
fn fault_41_a_freed_word_wakes_its_sleeper_whatever_the_words_say() {
    let fires = last(memory(0x1000, Operator::Equal, 1));
    let freed = last(memory(0x1008, Operator::Equal, 1));
    assert_eq!(evaluate(&[fires, freed], 0, [1; 6], 0b10), Outcome::Gone { term: 1 });
    assert_eq!(evaluate(&[fires, freed], 0, [0; 6], 0b11), Outcome::Gone { term: 0 });
    let time = last(clock(Operator::Greater, 5));
    assert_eq!(evaluate(&[time, freed], 0, [0; 6], 0b1101), Outcome::False);
}

#[test]
fn fault_41_an_always_false_predicate_is_bounded_by_its_clock_term() {
    let never = last(Term { mask: 1, ..memory(0x1000, Operator::Greater, 1) });
    for word in EDGES {
        assert_eq!(evaluate(&[never], u64::MAX, [word; 6], 0), Outcome::False);
    }
    let array = [never, last(clock(Operator::GreaterOrEqual, 1000))];
    assert_eq!(evaluate(&array, 999, [0; 6], 0), Outcome::False);
    assert_eq!(evaluate(&array, 1000, [0; 6], 0), Outcome::Fired { product: 1, term: 1 });
}

#[test]
fn fault_42_one_evaluation_reads_at_most_sixteen_words_each_once() {
    let holds = memory(0x1000, Operator::Equal, 1);
    let mut array = [holds; TERMS_MAX];
    array[TERMS_MAX - 1] = last(memory(0x1000, Operator::Equal, 0));
    let predicate = Predicate::check(&array).expect("a sound array");
    let cells = Cells::new(&predicate, [1; 6], 0);
    assert_eq!(predicate.evaluate(0, &cells), Outcome::False);
    assert_eq!(cells.reads.get(), TERMS_MAX);
    let cells = Cells::new(&predicate, [0; 6], 0);
    assert_eq!(predicate.evaluate(0, &cells), Outcome::False);
    assert_eq!(cells.reads.get(), 1, "a product ends at its first term that fails");
}
