//! Pairwise cover of the machine configurations: few enough machines to boot,
//! and yet every pair of choices in two dimensions meets in one of them.

use std::collections::BTreeSet;

/// Picks rows, one choice per dimension, until every pair of choices of two
/// different dimensions stands in some row. `choices` holds the number of
/// choices of each dimension. The same input gives the same rows.
pub fn pairwise(choices: &[usize]) -> Vec<Vec<usize>> {
    let mut missing = all_pairs(choices);
    let mut rows = Vec::new();
    while let Some(&first) = missing.first() {
        let row = grow(choices, first, &missing);
        missing.retain(|pair| !meets(&row, *pair));
        rows.push(row);
    }
    rows
}

/// A choice: which dimension, which of its values.
type Choice = (usize, usize);
type Pair = (Choice, Choice);

fn all_pairs(choices: &[usize]) -> BTreeSet<Pair> {
    let mut pairs = BTreeSet::new();
    for left in 0..choices.len() {
        for right in left + 1..choices.len() {
            for a in 0..choices[left] {
                pairs.extend((0..choices[right]).map(|b| ((left, a), (right, b))));
            }
        }
    }
    pairs
}

/// A row around `seed`: each further dimension takes the value that covers most of what is missing, given the values
/// chosen already.
fn grow(choices: &[usize], seed: Pair, missing: &BTreeSet<Pair>) -> Vec<usize> {
    let mut row: Vec<Option<usize>> = vec![None; choices.len()];
    row[seed.0.0] = Some(seed.0.1);
    row[seed.1.0] = Some(seed.1.1);
    for dimension in 0..choices.len() {
        if row[dimension].is_none() {
            let gain = |value: &usize| covered(&row, (dimension, *value), missing);
            row[dimension] = (0..choices[dimension]).rev().max_by_key(gain);
        }
    }
    row.into_iter().map(Option::unwrap_or_default).collect()
}

/// Missing pairs between `choice` and what the row holds already.
fn covered(row: &[Option<usize>], choice: Choice, missing: &BTreeSet<Pair>) -> usize {
    let beside = |(dimension, value): (usize, &Option<usize>)| {
        let other = (dimension, (*value)?);
        missing.contains(&(other.min(choice), other.max(choice))).then_some(())
    };
    row.iter().enumerate().filter_map(beside).count()
}

fn meets(row: &[usize], (left, right): Pair) -> bool {
    row[left.0] == left.1 && row[right.0] == right.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_meets_in_some_row_and_rows_are_few() {
        for choices in [&[3, 2, 3, 2][..], &[2, 2], &[1], &[4, 1, 5], &[2, 2, 2, 2, 2]] {
            let rows = pairwise(choices);
            for pair in all_pairs(choices) {
                assert!(rows.iter().any(|row| meets(row, pair)), "{choices:?} lacks {pair:?}");
            }
            let mut sizes = choices.to_vec();
            sizes.sort_unstable();
            let least: usize = sizes.iter().rev().take(2).product();
            assert!(rows.len() < least + choices.len(), "{choices:?}: {} rows", rows.len());
        }
    }

    #[test]
    fn rows_stay_within_the_choices() {
        for row in pairwise(&[3, 2, 3, 2]) {
            assert!(row.iter().zip([3, 2, 3, 2]).all(|(value, choices)| *value < choices));
        }
    }
}
