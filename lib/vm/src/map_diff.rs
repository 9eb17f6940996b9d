//! The edits that turn tables that map one set of pages into tables that map another.
//!
//! Pure. A row is an address, with the key to its page in the lower bits, and an entry; see `page_map`.

use abi::page_table::MapRow;
use alloc::borrow::Cow;
use alloc::vec::Vec;
use linux_abi::address_map::PAGE_MASK;

/// The rows that make tables that map `old`, and nothing else, map `new`, and nothing else. No address stands twice
/// in either. Where a row of `old` has no entry nothing is mapped.
pub fn difference<'a>(old: &[MapRow], new: &'a [MapRow]) -> Cow<'a, [MapRow]> {
    if old.iter().all(|row| row.entry == 0) {
        return Cow::Borrowed(new);
    }
    if old.len() != new.len() {
        return Cow::Owned(difference_of_places(old, new));
    }
    // Nearly always these are the same places, and nearly all of what is there.
    let mut changed = Vec::new();
    for (before, after) in old.iter().zip(new) {
        if before.address != after.address {
            return Cow::Owned(difference_of_places(old, new));
        }
        if before.entry != after.entry {
            changed.push(*after);
        }
    }
    Cow::Owned(changed)
}

/// The same of two sets of places, in their order.
fn difference_of_places(old: &[MapRow], new: &[MapRow]) -> Vec<MapRow> {
    let place = |row: &MapRow| row.address & PAGE_MASK;
    let [before, after] = [old, new].map(in_order);
    let (mut left, mut rows) = (&*before, Vec::new());
    let gone = |row: &MapRow| (row.entry != 0).then_some(MapRow { address: place(row), entry: 0 });
    for row in after.iter() {
        let passed = left.iter().take_while(|old| place(old) < place(row)).count();
        rows.extend(left[..passed].iter().filter_map(gone));
        left = &left[passed..];
        match left {
            [same, rest @ ..] if place(same) == place(row) => {
                if same.entry != row.entry {
                    rows.push(*row);
                }
                left = rest;
            }
            _ => rows.push(*row),
        }
    }
    rows.extend(left.iter().filter_map(gone));
    rows
}

fn in_order(rows: &[MapRow]) -> Cow<'_, [MapRow]> {
    let mut rows = Cow::Borrowed(rows);
    if !rows.is_sorted_by_key(|row| row.address) {
        rows.to_mut().sort_unstable_by_key(|row| row.address);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;

    type Map = BTreeMap<u64, u64>;

    fn some(random: &mut fastrand::Rng) -> Map {
        (0..random.usize(..30)).map(|_| (random.u64(..40), random.u64(1..4))).collect()
    }

    fn rows(map: &Map) -> Vec<MapRow> {
        map.iter().map(|(page, entry)| MapRow { address: page << 12 | 3, entry: entry << 12 | 1 }).collect()
    }

    fn applied(map: &Map, rows: &[MapRow]) -> Map {
        let mut map = map.clone();
        for MapRow { address, entry } in rows {
            match entry {
                0 => assert!(map.remove(&(address >> 12)).is_some(), "{address:#x} was not there"),
                _ => assert_ne!(map.insert(address >> 12, entry >> 12), Some(entry >> 12), "{address:#x} was there"),
            }
        }
        map
    }

    #[test]
    fn only_what_differs_is_changed() {
        let mut random = fastrand::Rng::with_seed(1);
        for round in 0..5000 {
            let (old, new) = (some(&mut random), some(&mut random));
            let mut after = rows(&new);
            random.shuffle(&mut after);
            assert_eq!(applied(&old, &difference(&rows(&old), &after)), new, "round {round}");
        }
    }

    #[test]
    fn other_pages_at_the_same_places() {
        let mut random = fastrand::Rng::with_seed(2);
        for round in 0..1000 {
            let old = some(&mut random);
            let new: Map = old.iter().map(|(page, entry)| (*page, entry + page % 2)).collect();
            let (before, after) = (rows(&old), rows(&new));
            let changes = difference(&before, &after);
            assert_eq!(changes.len(), old.keys().filter(|page| *page % 2 == 1).count(), "round {round}");
            assert_eq!(applied(&old, &changes), new, "round {round}");
        }
    }
}
