//! Unit tests, and property tests against a model in which a name is a list and dominance is a prefix.

use super::*;
use proptest::prelude::*;
use std::vec::Vec;

fn name() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(1u64..4, 0..=NAME_COMPONENTS)
}

fn capability(name: &[u64], rights: u32) -> Capability {
    let mut components = [0; NAME_COMPONENTS];
    components[..name.len()].copy_from_slice(name);
    Capability { length: name.len() as u32, rights: Rights(rights), components }
}

#[test]
fn the_root_dominates_everything() {
    assert!(dominates(&root(), &root()));
    assert!(dominates(&root(), &well_known()));
    assert!(!dominates(&well_known(), &root()));
}

#[test]
fn an_empty_slot_gives_nothing() {
    assert_eq!(rights_on(&empty(), &[root(), well_known()]), Rights::NONE);
    assert_eq!(derive(&empty(), Rights::ALL, 1, FIRST_FRESH), Err(Refusal::NoKey));
}

#[test]
fn names_have_a_longest_length() {
    let mut key = root();
    for component in 0..NAME_COMPONENTS as u64 {
        key = derive(&key, Rights::ALL, 0, FIRST_FRESH + component).unwrap();
    }
    assert_eq!(derive(&key, Rights::ALL, 0, FIRST_FRESH + 99), Err(Refusal::NameTooLong));
}

#[test]
fn fresh_components_cannot_be_chosen() {
    assert_eq!(derive(&root(), Rights::ALL, FIRST_FRESH, FIRST_FRESH), Err(Refusal::ComponentOutOfRange));
}

#[test]
fn a_length_out_of_range_dominates_nothing() {
    let broken = Capability { length: 99, ..root() };
    assert!(!dominates(&broken, &broken));
}

proptest! {
    #[test]
    fn dominance_is_the_prefix_order(a in name(), b in name()) {
        prop_assert_eq!(dominates(&capability(&a, 7), &capability(&b, 7)), b.starts_with(&a));
    }

    #[test]
    fn fault_03_derived_rights_are_a_subset(a in name(), have in 1u32..8, ask in any::<u32>(), component in 0u64..9) {
        let source = capability(&a, have);
        if let Ok(child) = derive(&source, Rights(ask), component, FIRST_FRESH) {
            prop_assert_eq!(child.rights.0 & !have, 0);
            prop_assert_eq!(child.rights.0 & !ask, 0);
            prop_assert!(is_empty(&child) || dominates(&source, &child));
            prop_assert!(!dominates(&child, &source) || is_empty(&child));
        }
    }

    #[test]
    fn rights_are_the_sum_over_dominated_entries(
        key in name(), have in 0u32..8, list in prop::collection::vec((name(), 0u32..8), 0..8),
    ) {
        let entries: Vec<_> = list.iter().map(|(name, rights)| capability(name, *rights)).collect();
        let model = list.iter().filter(|(name, _)| name.starts_with(&key)).fold(0, |sum, (_, rights)| sum | rights);
        prop_assert_eq!(rights_on(&capability(&key, have), &entries).0, model & have);
    }
}
