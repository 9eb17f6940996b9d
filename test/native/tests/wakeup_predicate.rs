//! Compiled wakeup predicates, run under guard pages, answer what the interpreter does.

#[allow(dead_code, reason = "shared with the tests of the crate itself, which use all of it")]
#[path = "../../../mechanism/wakeup-predicate/tests/strong/support.rs"]
mod support;

use abi::predicate::Term;
use fastrand::Rng;
use native::wakeup_predicate::Runner;
use support::{Cells, EDGES, array, cases, clock, last, memory, model, number, operators, seed};
use wakeup_predicate::{Outcome, Predicate, Source};

fn run(runner: &Runner, array: &[Term], now: u64, values: [u64; 6], gone: u16) -> Outcome {
    let predicate = Predicate::check(array).expect("generated arrays are sound");
    let outcome = runner.run(&predicate, now, &values, gone, |term| match predicate.terms()[term].source {
        Source::Memory(address) => ((address - 0x1000) / 8) as usize,
        Source::Clock => unreachable!("clock terms watch no word"),
    });
    let cells = Cells::new(&predicate, values, gone);
    assert_eq!(outcome, predicate.evaluate(now, &cells), "now {now} gone {gone:#x} {values:?} {array:?}");
    outcome
}

#[test]
fn compiled_equals_interpreter_and_naive_model() {
    let mut rng = Rng::with_seed(seed());
    println!("seed {}", seed());
    let runner = Runner::default();
    for _ in 0..cases(30_000, 10_000_000) {
        let array = array(&mut rng);
        let values = std::array::from_fn(|_| number(&mut rng));
        let now = number(&mut rng);
        let gone = if rng.u8(0..8) == 0 { rng.u16(..) & rng.u16(..) & rng.u16(..) } else { 0 };
        let outcome = run(&runner, &array, now, values, gone);
        assert_eq!(outcome, model(&array, now, values, gone), "now {now} gone {gone:#x} {values:?} {array:?}");
    }
}

#[test]
fn every_operator_compiled_at_every_edge() {
    let runner = Runner::default();
    for operator in operators() {
        for word in EDGES {
            for value in EDGES {
                run(&runner, &[memory(0x1028, operator, value)], 0, [word; 6], 0);
                run(&runner, &[clock(operator, value)], word, [0; 6], 0);
            }
        }
    }
}

/// The table's last operand and the last word lie right before guard pages: a compiler
/// that reads one too many dies here.
#[test]
fn fault_41_the_largest_predicates_stay_inside_their_table_and_words() {
    let runner = Runner::default();
    for operator in operators() {
        for count in 1..=16 {
            let term = Term { mask: 0xff, ..memory(0x1028, operator, 7) };
            let product = vec![term; count];
            run(&runner, &product, 0, [7; 6], 0);
            let sum = vec![last(term); count];
            run(&runner, &sum, 0, [7; 6], 0);
        }
    }
}

#[test]
fn fault_41_a_freed_word_is_told_without_being_read() {
    let runner = Runner::default();
    let term = memory(0x1000, operators()[0], 0);
    for gone in 0..16 {
        let outcome = run(&runner, &[term; 16], 0, [0; 6], 1 << gone | 1 << 15);
        assert_eq!(outcome, Outcome::Gone { term: gone });
    }
}
