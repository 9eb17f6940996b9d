//! The record of pages: what was set, and what is taken out.

use abi::page_table::MapRow;
use linux_abi::address_map::PAGE_SIZE;
use std::collections::BTreeMap;
use vm::page_record::{FROM_FILE, PageRecord, TOGETHER};

#[test]
fn frames_remember_what_was_set() {
    let mut random = fastrand::Rng::with_seed(1);
    let (mut frames, mut model) = (PageRecord::default(), BTreeMap::new());
    for _ in 0..5000 {
        let address = random.u64(..2000) * PAGE_SIZE * random.u64(1..4);
        let entry = if random.bool() { 0 } else { random.u64(1..) };
        let before = if entry == 0 { model.remove(&address) } else { model.insert(address, entry) };
        assert_eq!(frames.set(address, entry), before.unwrap_or(0));
        assert_eq!(frames.len(), model.len());
    }
    let all: Vec<(u64, u64)> = frames.within(0, u64::MAX >> 1).collect();
    assert_eq!(all, model.into_iter().collect::<Vec<_>>());
}

/// Every way to change many entries at once agrees with changing one after the other.
#[test]
fn frames_count_what_is_a_files_and_take_out_what_is_asked() {
    const SPAN: u64 = 300;
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut frames, mut model) = (PageRecord::default(), BTreeMap::new());
        for step in 0..60 {
            let [start, length] = [random.u64(..SPAN), random.u64(1..90)];
            let (from, to) = (start * PAGE_SIZE, (start + length) * PAGE_SIZE);
            let mut entry = || random.u64(1..1 << 30) << 12 | if random.bool() { FROM_FILE } else { 0 };
            match step % 5 {
                0 => {
                    let rows: Vec<MapRow> =
                        (0..length).map(|page| MapRow { address: from + page * PAGE_SIZE, entry: entry() }).collect();
                    frames.set_rows(&rows);
                    model.extend(rows.iter().map(|row| (row.address, row.entry)));
                }
                1 => {
                    let entries: Vec<u64> = (0..length).map(|page| if page % 3 == 0 { 0 } else { entry() }).collect();
                    frames.set_many(from, &entries);
                    let there = (from..).step_by(PAGE_SIZE as usize).zip(entries).filter(|(_, entry)| *entry != 0);
                    model.extend(there);
                }
                2 => {
                    let expected: Vec<(u64, u64)> = model.range(from..to).map(|(at, entry)| (*at, *entry)).collect();
                    assert_eq!(frames.take(from, to), expected, "seed {seed}");
                    expected.iter().for_each(|(at, _)| _ = model.remove(at));
                }
                3 if random.u8(..4) == 0 => {
                    let kept = start / TOGETHER * TOGETHER * PAGE_SIZE;
                    frames.forget_files(&[kept]);
                    let stays = |at: &u64| (kept..kept + TOGETHER * PAGE_SIZE).contains(at);
                    model.retain(|at, entry| *entry & FROM_FILE == 0 || stays(at));
                }
                _ => {
                    let (entry, missing) = frames.scan(from, 8);
                    let is_empty = |page: &u64| !model.contains_key(&(page * PAGE_SIZE));
                    assert_eq!(entry, model.get(&from).copied().unwrap_or(0), "seed {seed}, step {step}");
                    // As many as lie together with it in what is kept, or fewer.
                    let empty = (start..start + 8).take_while(is_empty).count();
                    assert!(missing <= empty && (missing > 0) == (entry == 0), "seed {seed}, step {step}");
                    assert!(
                        missing == empty || (start + missing as u64).is_multiple_of(64),
                        "seed {seed}, step {step}"
                    );
                    let within: Vec<(u64, u64)> = frames.within(from + 1, to - 1).collect();
                    assert_eq!(
                        within,
                        model.range(from + 1..to - 1).map(|(at, entry)| (*at, *entry)).collect::<Vec<_>>()
                    );
                }
            }
            let files = || model.iter().filter(|(_, entry)| **entry & FROM_FILE != 0).map(|(at, entry)| (*at, *entry));
            assert_eq!((frames.len(), frames.of_files()), (model.len(), files().count()), "seed {seed}, step {step}");
            assert!(frames.of_files_within(0, u64::MAX >> 1).eq(files()), "seed {seed}, step {step}");
            assert_eq!(frames.all(), model.iter().map(|(at, entry)| (*at, *entry)).collect::<Vec<_>>());
        }
    }
}
