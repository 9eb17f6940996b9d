//! Every way an array can be wrong is refused at the right term and for the right
//! reason, whatever else the array holds.

use crate::support::*;
use abi::predicate::{CLOCK, END_OF_PRODUCT, Operator, Term};
use wakeup_predicate::{Predicate, Reason, Refusal, TERMS_MAX};

fn refusal(array: &[Term]) -> Refusal {
    Predicate::check(array).expect_err("the array should be refused")
}

fn sound() -> Term {
    last(memory(0x1000, Operator::Equal, 1))
}

#[test]
fn fault_41_an_unaligned_word_is_refused() {
    for low_bits in 1..8 {
        let array = [sound(), last(memory(0x2000 + low_bits, Operator::Equal, 0))];
        assert_eq!(refusal(&array), Refusal { term: 1, reason: Reason::UnalignedWord });
    }
}

#[test]
fn fault_41_a_huge_sum_of_products_is_refused() {
    assert!(Predicate::check(&[sound(); TERMS_MAX]).is_ok());
    for count in [TERMS_MAX + 1, 1000, 100_000] {
        let expected = Refusal { term: TERMS_MAX, reason: Reason::TooManyTerms };
        assert_eq!(refusal(&vec![sound(); count]), expected);
    }
}

#[test]
fn an_empty_array_is_refused() {
    assert_eq!(refusal(&[]), Refusal { term: 0, reason: Reason::Empty });
}

#[test]
fn the_last_term_ends_its_product_whether_it_says_so_or_not() {
    let open = memory(0x1000, Operator::Equal, 1);
    assert_eq!(Predicate::check(&[open, open]), Predicate::check(&[open, last(open)]));
}

#[test]
fn each_single_wrong_field_has_its_own_reason() {
    let wrong: [(Term, Reason); 10] = [
        (Term { source: 2, ..sound() }, Reason::UnalignedWord),
        (Term { source: u64::MAX, ..sound() }, Reason::UnalignedWord),
        (Term { operation: 6, ..sound() }, Reason::UnknownOperator),
        (Term { operation: 0xff | END_OF_PRODUCT, ..sound() }, Reason::UnknownOperator),
        (Term { operation: END_OF_PRODUCT << 1, ..sound() }, Reason::ReservedBit),
        (Term { operation: 1 << 63, ..sound() }, Reason::ReservedBit),
        (Term { mask: 0, ..sound() }, Reason::EmptyMask),
        (Term { mask: 0, ..clock(Operator::Less, 1) }, Reason::EmptyMask),
        (Term { mask: 1, ..clock(Operator::Less, 1) }, Reason::MaskedClock),
        (Term { mask: u64::MAX - 1, ..clock(Operator::Less, 1) }, Reason::MaskedClock),
    ];
    for (term, reason) in wrong {
        for before in 0..TERMS_MAX {
            let mut array = vec![sound(); before];
            array.push(term);
            assert_eq!(refusal(&array), Refusal { term: before, reason });
        }
    }
}

#[test]
fn a_refusal_says_where_and_what_to_do_and_packs_into_one_word() {
    let array = [sound(), Term { mask: 0, ..sound() }];
    let refused = refusal(&array);
    assert_eq!(refused.to_string(), "predicate term 1: the mask is zero: use u64::MAX to compare the whole word");
    assert_eq!(refused.detail(), 0x106);
}

#[test]
fn what_is_accepted_is_what_was_given() {
    let mut rng = fastrand::Rng::with_seed(seed());
    println!("seed {}", seed());
    for _ in 0..cases(10_000, 1_000_000) {
        let array = array(&mut rng);
        let predicate = Predicate::check(&array).expect("generated arrays are sound");
        assert_eq!(predicate.terms().len(), array.len());
        for (index, (term, given)) in predicate.terms().iter().zip(&array).enumerate() {
            assert_eq!((term.mask, term.value), (given.mask, given.value));
            assert_eq!(term.ends_product, is_last(given) || index == array.len() - 1);
        }
        let watched = array.iter().enumerate().filter(|(_, given)| given.source != CLOCK);
        assert!(predicate.watched().eq(watched.map(|(index, given)| (index, given.source))));
    }
}

#[test]
fn random_bits_never_panic_and_are_judged_as_the_rules_say() {
    let mut rng = fastrand::Rng::with_seed(seed());
    println!("seed {}", seed());
    for _ in 0..cases(100_000, 10_000_000) {
        let mut array = array(&mut rng);
        let victim = rng.usize(0..array.len());
        match rng.u8(0..3) {
            0 => array[victim].source = rng.u64(..) >> rng.u32(0..64),
            1 => array[victim].operation = rng.u64(..) >> rng.u32(0..64),
            _ => array[victim].mask = rng.u64(..) >> rng.u32(0..64),
        }
        match Predicate::check(&array) {
            Ok(_) => assert!(term_is_sound(&array[victim]), "{array:?}"),
            Err(refused) => {
                assert!(!term_is_sound(&array[victim]), "{refused} in {array:?}");
                assert_eq!(refused.term, victim, "{refused} in {array:?}");
            }
        }
    }
}

fn term_is_sound(term: &Term) -> bool {
    let word = if term.source == CLOCK { term.mask == u64::MAX } else { term.source & 7 == 0 && term.mask != 0 };
    word && term.operation & !0x100 <= 5
}
