//! The vector against a naive model, and the promises about latency that k equidistant slices make.

use super::*;
use abi::limits::EXCESS_LIMIT;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::vec::Vec;

fn vector(positions: &BTreeSet<usize>) -> SliceVector {
    let mut vector = SliceVector::new();
    positions.iter().for_each(|position| vector.allocate(*position));
    vector
}

fn model_after(positions: &BTreeSet<usize>, position: usize) -> Option<Next> {
    let later = positions.range(position + 1..).next();
    let earlier = positions.range(..=position).next();
    later
        .map(|found| Next { position: *found, wrapped: position + 1 == SLICES_PER_CPU })
        .or(earlier.map(|found| Next { position: *found, wrapped: true }))
}

#[test]
fn an_empty_vector_has_no_next() {
    assert_eq!(SliceVector::new().after(0), None);
    assert_eq!(SliceVector::new().any_free(), Some(0));
}

#[test]
fn a_full_vector_has_no_free_position() {
    let all = (0..SLICES_PER_CPU).collect();
    assert_eq!(vector(&all).any_free(), None);
}

#[test]
fn fault_37_positions_outside_the_vector_are_not_allocated() {
    assert!(!SliceVector::new().is_allocated(SLICES_PER_CPU));
    assert!(!SliceVector::new().is_allocated(usize::MAX));
}

#[test]
fn fault_38_excess_is_counted_paid_and_in_the_end_punished() {
    let mut excess = 0;
    for _ in 0..EXCESS_LIMIT {
        let Verdict::Counted(more) = count_excess(excess, EXCESS_LIMIT) else { panic!("destroyed too early") };
        excess = more;
    }
    assert_eq!(count_excess(excess, EXCESS_LIMIT), Verdict::Destroy);
    assert_eq!(count_excess(u64::MAX, EXCESS_LIMIT), Verdict::Destroy);
    assert_eq!(forgive_excess(2), Some(1));
    assert_eq!(forgive_excess(0), None);
}

#[test]
fn equidistant_slices_divide_the_latency() {
    for k in [1, 2, 4, 8] {
        let others: BTreeSet<usize> = (0..64).collect();
        let mine: BTreeSet<usize> = (0..k).map(|i| i * (64 / k)).collect();
        let vector = vector(&others);
        let mut at = 0;
        let mut waits = Vec::new();
        let mut wait = 0;
        for _ in 0..128 {
            at = vector.after(at).unwrap().position;
            wait += 1;
            if mine.contains(&at) {
                waits.push(wait);
                wait = 0;
            }
        }
        assert!(waits.iter().all(|wait| *wait <= 64 / k));
    }
}

proptest! {
    #[test]
    fn next_is_the_models(positions in prop::collection::btree_set(0..SLICES_PER_CPU, 0..40), from in 0..SLICES_PER_CPU) {
        prop_assert_eq!(vector(&positions).after(from), model_after(&positions, from));
    }

    #[test]
    fn the_position_before_is_the_models(positions in prop::collection::btree_set(0..SLICES_PER_CPU, 0..40), from in 0..SLICES_PER_CPU) {
        let (earlier, later) = (positions.range(..from).next_back(), positions.range(from..).next_back());
        prop_assert_eq!(vector(&positions).before(from), earlier.or(later).copied().unwrap_or(from));
    }

    #[test]
    fn each_allocated_position_comes_once_a_round(positions in prop::collection::btree_set(0..SLICES_PER_CPU, 1..40)) {
        let vector = vector(&positions);
        let mut at = SLICES_PER_CPU - 1;
        let mut seen = Vec::new();
        for _ in 0..positions.len() {
            at = vector.after(at).unwrap().position;
            seen.push(at);
        }
        prop_assert_eq!(seen, positions.into_iter().collect::<Vec<_>>());
    }

    /// Whatever comes and goes while it lasts.
    #[test]
    fn a_look_passes_what_stays_and_ends(
        stays in prop::collection::btree_set(0..SLICES_PER_CPU, 0..20),
        changes in prop::collection::vec(0..SLICES_PER_CPU, 0..60),
        start in 0..SLICES_PER_CPU,
    ) {
        let mut vector = vector(&stays);
        let mut look = Look::after(start);
        let mut seen = BTreeSet::new();
        let mut steps = 0;
        let mut changes = changes.into_iter().filter(|position| !stays.contains(position));
        while let Some((next, is_last)) = look.next(&vector) {
            prop_assert!(vector.is_allocated(next.position));
            seen.insert(next.position);
            steps += 1;
            if is_last {
                break;
            }
            match changes.next() {
                Some(position) if vector.is_allocated(position) => vector.free(position),
                Some(position) => vector.allocate(position),
                None => {}
            }
        }
        prop_assert!(stays.is_subset(&seen), "passed {:?} only", seen);
        prop_assert!(steps <= 2 * (20 + 60), "{} steps", steps);
    }

    #[test]
    fn free_and_allocate_undo_each_other(positions in prop::collection::btree_set(0..SLICES_PER_CPU, 1..40)) {
        let mut vector = vector(&positions);
        for position in &positions {
            prop_assert!(vector.is_allocated(*position));
            vector.free(*position);
            prop_assert!(!vector.is_allocated(*position));
        }
        prop_assert_eq!(vector.after(0), None);
    }
}
