//! The earliest clock against a model that tries every time that could matter, and
//! an idle CPU that sleeps by it and must miss nothing.

use crate::support::*;
use abi::predicate::{CLOCK, Operator, Term};
use wakeup_predicate::Predicate;

fn earliest(array: &[Term], now: u64) -> Option<u64> {
    Predicate::check(array).expect("a sound array").earliest_clock(now)
}

/// The clock terms of a product change only next to one of their values. So only those times, and the one after
/// `now`, need trying.
fn model_earliest(array: &[Term], now: u64) -> Option<u64> {
    let beside = |value: u64| [value.checked_sub(1), Some(value), value.checked_add(1)];
    let mut times: Vec<u64> = array.iter().flat_map(|term| beside(term.value)).flatten().collect();
    times.extend(now.checked_add(1));
    times.retain(|&time| time > now);
    let products = array.split_inclusive(is_last);
    let begins = |product: &[Term]| {
        let holds = |time: u64| {
            let mut clocks = product.iter().filter(|term| term.source == CLOCK);
            clocks.all(|term| term_holds(term, time))
        };
        if holds(now) { None } else { times.iter().copied().filter(|&time| holds(time)).min() }
    };
    products.filter_map(begins).min()
}

#[test]
fn earliest_clock_equals_naive_model() {
    let mut rng = fastrand::Rng::with_seed(seed());
    println!("seed {}", seed());
    let mut found = 0;
    for _ in 0..cases(200_000, 10_000_000) {
        let array = array(&mut rng);
        let now = number(&mut rng);
        let time = earliest(&array, now);
        assert_eq!(time, model_earliest(&array, now), "now {now} {array:?}");
        found += u64::from(time.is_some());
    }
    assert!(found > 1000, "a time was found only {found} times");
}

#[test]
fn a_time_out_is_the_earliest_clock_until_it_is_past() {
    let array = [last(memory(0x1000, Operator::NotEqual, 0)), last(clock(Operator::GreaterOrEqual, 500))];
    assert_eq!(earliest(&array, 0), Some(500));
    assert_eq!(earliest(&array, 499), Some(500));
    assert_eq!(earliest(&array, 500), None, "already true: evaluation fires");
}

#[test]
fn a_product_waits_for_its_latest_clock_term() {
    let window = [
        memory(0x1000, Operator::Equal, 1),
        clock(Operator::Greater, 10),
        clock(Operator::GreaterOrEqual, 20),
        clock(Operator::NotEqual, 20),
        clock(Operator::NotEqual, 21),
        last(clock(Operator::Less, 30)),
    ];
    assert_eq!(earliest(&window, 0), Some(22));
    assert_eq!(earliest(&window, 25), None, "inside: only memory can make it true");
    assert_eq!(earliest(&window, 30), None, "past: never again");
}

#[test]
fn memory_alone_needs_no_timer() {
    assert_eq!(earliest(&[last(memory(0x1000, Operator::Equal, 1))], 7), None);
}

#[test]
fn fault_92_time_outs_at_the_wraps_and_in_the_past() {
    for edge in [0, 1 << 31, 1 << 32, 1 << 63, u64::MAX - 1, u64::MAX] {
        let array = [last(clock(Operator::GreaterOrEqual, edge))];
        for now in EDGES {
            let expected = if now < edge { Some(edge) } else { None };
            assert_eq!(earliest(&array, now), expected, "edge {edge} now {now}");
        }
    }
    assert_eq!(earliest(&[last(clock(Operator::Greater, u64::MAX))], 0), None);
    assert_eq!(earliest(&[last(clock(Operator::Less, 0))], 0), None);
    assert_eq!(earliest(&[last(clock(Operator::Equal, 5))], u64::MAX), None);
}

#[test]
fn fault_92_a_clock_that_steps_back_only_makes_the_sleeper_wait_again() {
    let array = [last(clock(Operator::GreaterOrEqual, 500))];
    assert_eq!(earliest(&array, 600), None);
    assert_eq!(earliest(&array, 400), Some(500));
}

/// One CPU, one sleeper: the CPU sleeps until the earliest clock or until a word is
/// changed. Whenever the predicate is true for good from some moment on, the CPU is
/// awake at that very moment.
#[test]
fn an_idle_cpu_that_sleeps_by_the_earliest_clock_misses_nothing() {
    let mut rng = fastrand::Rng::with_seed(seed());
    println!("seed {}", seed());
    for _ in 0..cases(20_000, 1_000_000) {
        let mut array = array(&mut rng);
        array.iter_mut().for_each(|term| term.value %= 64);
        let predicate = Predicate::check(&array).expect("generated arrays are sound");
        let changes: Vec<(u64, usize, u64)> =
            (0..4).map(|_| (rng.u64(0..64), rng.usize(0..6), rng.u64(0..4))).collect();
        let mut values = [0; 6];
        let mut timer = Some(0);
        let mut asleep = true;
        for now in 0..70 {
            let kicked = changes.iter().filter(|change| change.0 == now);
            let mut awake = timer == Some(now);
            for &(_, word, value) in kicked {
                values[word] = value;
                awake = true;
            }
            let outcome = predicate.evaluate(now, &Cells::new(&predicate, values, 0));
            if awake && outcome.wakes() {
                asleep = false;
                break;
            }
            assert!(!outcome.wakes(), "true at {now} while the CPU slept until {timer:?}: {array:?}");
            if awake {
                timer = predicate.earliest_clock(now);
            }
        }
        assert!(!asleep || timer.is_none_or(|time| time >= 70), "{timer:?} {array:?}");
    }
}
