//! Pages that leave their file between the answer that told their numbers and their mapping.

use crate::machine::{BASE, FILE, FILE_PAGES, Process, alone};
use abi::page_table::PRESENT;
use linux_abi::address_map::PAGE_SIZE;
use std::collections::{BTreeMap, BTreeSet};
use vm::address_space::{Access, AddressSpace};
use vm::page_record::page_of;
use vm::vma::{Backing, Protection, Vma};

/// Pages of each area.
const PAGES: u64 = 40;

/// Three parts of a library, of whose file it is known what programs touch, another private file, and a shared one.
fn areas() -> [Vma; 5] {
    let area = |place: u64, (node, first): (u64, u64), protection| {
        let start = BASE + place * PAGES * PAGE_SIZE;
        let backing = Backing::File { node, offset: first * PAGE_SIZE, writable: node == 6 };
        Vma { backing, shared: node == 6, ..Vma::anonymous(start, start + PAGES * PAGE_SIZE, protection) }
    };
    [
        area(0, (4, 0), Protection::READ),
        area(1, (4, 3), Protection::READ_WRITE),
        area(2, (4, 9), Protection::READ_WRITE),
        area(4, (3, 5), Protection::READ_WRITE),
        area(6, (6, 2), Protection::READ_WRITE),
    ]
}

/// Whatever the program does, and whenever pages are evicted that no process maps, it finds the bytes of its files, and
/// what it wrote.
#[test]
fn a_page_that_is_evicted_before_it_is_mapped_does_not_show_another_file() {
    for seed in 0..400 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut process, mut space) = (alone(), AddressSpace::default());
        process.evicts = Some(random.fork());
        process.at_hand = random.usize(..8);
        let areas = areas();
        areas.iter().for_each(|area| space.map(&mut process, *area).expect("it maps"));
        let mut written = BTreeMap::new();
        for step in 0..60 {
            let area = random.choice(areas).expect("there are some");
            let Backing::File { node, offset, .. } = area.backing else { unreachable!("they show files") };
            let first = offset / PAGE_SIZE;
            let page = random.u64(..PAGES.min(FILE_PAGES - first));
            let address = area.start + page * PAGE_SIZE;
            let what = if area.shared { node } else { area.start };
            match random.u8(..8) {
                0 => {
                    // There may be no memory for it in the middle.
                    process.rows_left = random.bool().then(|| (random.usize(..3), BTreeSet::new()));
                    let _ = space.drop_pages(&mut process, address, area.end);
                    process.rows_left = None;
                    let is_there = |index: u64| space.frames.get(area.start + (index - first) * PAGE_SIZE) != 0;
                    written.retain(|(place, index), _| area.shared || *place != what || is_there(*index));
                    process.evict();
                }
                1 => {
                    let range = area.start..area.end;
                    space.protect(&mut process, range.start, range.end, Protection::NONE).expect("it may");
                    process.evict();
                    space.protect(&mut process, range.start, range.end, area.protection).expect("it may");
                    continue;
                }
                2..5 if area.protection == Protection::READ_WRITE => {
                    let value = random.u8(100..200);
                    process.write(&mut space, address, value).expect("it may");
                    written.insert((what, first + page), value);
                }
                _ => {}
            }
            let expected = written.get(&(what, first + page)).copied().unwrap_or((first + page) as u8);
            assert_eq!(process.read(&mut space, address), Ok(expected), "seed {seed}, step {step}");
            check_record(&space, &process);
        }
    }
}

/// What a child wrote to borrowed memory is told in full, though pages were evicted when it wrote.
#[test]
fn a_journal_begins_with_the_bytes_of_the_file() {
    for seed in 0..100 {
        let (mut process, mut space) = (alone(), AddressSpace::default());
        process.evicts = Some(fastrand::Rng::with_seed(seed));
        let area = areas()[3];
        space.map(&mut process, area).expect("it maps");
        space.keep_journal(true);
        for page in 0..10 {
            let address = area.start + page * PAGE_SIZE;
            while process.table.get(&address).is_none_or(|entry| entry & abi::page_table::WRITE == 0) {
                space.fault(&mut process, address, Access::Write).expect("it may");
            }
        }
        assert_eq!(space.end_journal(&mut process), [], "seed {seed}: nothing was written");
    }
}

/// The record equals the tables, but for what may not be mapped: what may not even be read, and after a lack of memory
/// the process's own pages.
fn check_record(space: &AddressSpace, process: &Process) {
    let recorded: BTreeMap<u64, u64> = space.frames.within(0, u64::MAX >> 1).collect();
    assert!(process.table.keys().all(|address| recorded.contains_key(address)));
    let mut of_files = recorded.iter().filter(|(_, entry)| page_of(**entry) >= FILE && **entry & PRESENT != 0);
    assert!(of_files.all(|(at, entry)| process.table.get(at) == Some(entry)));
}
