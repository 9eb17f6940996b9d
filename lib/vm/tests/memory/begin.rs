//! What a program begins with, and plans of it.

use crate::machine::{BASE, FILE, FILE_PAGES, Process, alone};
use abi::page_table::WRITE;
use linux_abi::address_map::PAGE_SIZE;
use std::collections::BTreeMap;
use vm::address_space::{AddressSpace, PageOps};
use vm::dry_run::DryRun;
use vm::page_record::page_of;
use vm::vma::{Backing, Protection, Vma};

/// What comes at the beginning of a program is what would have come by faults, however little memory there is.
#[test]
fn a_program_begins_with_what_it_would_have_faulted_for() {
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut process, mut space) = (alone(), AddressSpace::default());
        let last = if random.bool() { 0 } else { random.u64(1..20) };
        process.machine.borrow_mut().last = last;
        process.at_hand = random.usize(..8);
        let node = random.u64(3..5);
        let [text, data, zeros] = [random.u64(1..20), random.u64(1..25), random.u64(1..12)];
        let backing = |page: u64| Backing::File { node, offset: page * PAGE_SIZE, writable: false };
        let at = |page: u64| BASE + page * PAGE_SIZE;
        let area = |from: u64, to: u64, protection| Vma::anonymous(at(from), at(to), protection);
        let all = text + data + zeros;
        let areas = [
            Vma { backing: backing(0), ..area(0, text, Protection::READ) },
            Vma { backing: backing(text), ..area(text, text + data, Protection::READ_WRITE) },
            area(text + data, all, Protection::READ_WRITE),
        ];
        areas.iter().for_each(|area| space.map(&mut process, *area).expect("it maps"));
        let set = process.working_set(node, 0, u64::MAX).expect("it tells");
        space.fill_for_start(&mut process, node, &set, at(0)..at(all));
        let recorded: BTreeMap<u64, u64> = space.frames.within(0, u64::MAX >> 1).collect();
        if last == 0 {
            check_plan(&process, (node, &areas, &set), at(0)..at(all), &recorded);
        }
        assert_eq!(recorded, process.table, "seed {seed}");
        assert!(recorded.values().all(|entry| (page_of(*entry) >= FILE) == (entry & WRITE == 0)), "seed {seed}");
        let owned = process.machine.borrow().owner.len();
        assert_eq!(
            owned,
            recorded.values().filter(|entry| page_of(**entry) < FILE).count(),
            "seed {seed}: pages are lost"
        );
        if last == 0 {
            let is_there = |page: u64| recorded.contains_key(&at(page));
            let known = |page: u64| node == 4 && page % 5 == 1 && page < FILE_PAGES;
            assert!((0..text + data).all(|page| is_there(page) == known(page)), "seed {seed}");
            assert!((text + data..all).all(|page| is_there(page) == (zeros <= 8)), "seed {seed}");
        }
        process.machine.borrow_mut().last = 0;
        for page in (0..all).filter(|page| *page >= text + data || *page < FILE_PAGES) {
            let expected = if page < text + data { page as u8 } else { 0 };
            assert_eq!(process.read(&mut space, at(page)), Ok(expected), "seed {seed}, page {page}");
            if page >= text {
                process.write(&mut space, at(page), 200).expect("it may");
                assert_eq!(process.read(&mut space, at(page)), Ok(200), "seed {seed}, page {page}");
            }
        }
    }
}

/// The first touch of one part of a library brings what programs touch of all its parts, and no other pages.
#[test]
fn the_first_touch_of_a_library_brings_what_is_touched_of_all_of_it() {
    let (mut process, mut space) = (alone(), AddressSpace::default());
    let at = |page: u64| BASE + page * PAGE_SIZE;
    let part = |(from, to): (u64, u64), (node, first): (u64, u64), protection| Vma {
        backing: Backing::File { node, offset: first * PAGE_SIZE, writable: false },
        ..Vma::anonymous(at(from), at(to), protection)
    };
    let parts = [
        part((0, 3), (3, 0), Protection::READ),
        part((3, 13), (4, 0), Protection::READ),
        part((13, 19), (4, 9), Protection::READ_WRITE),
        part((20, 25), (4, 0), Protection::READ),
    ];
    parts.iter().for_each(|part| space.map(&mut process, *part).expect("it maps"));
    assert_eq!(process.read(&mut space, at(15)), Ok(11));
    let there =
        |space: &AddressSpace| space.frames.within(0, u64::MAX >> 1).map(|(address, _)| address).collect::<Vec<_>>();
    assert_eq!(there(&space), [4, 9, 15].map(at));
    // Data is the program's own at once.
    assert!(space.frames.get(at(15)) & WRITE != 0 && space.frames.get(at(9)) & WRITE == 0);
    // What is put over a part leaves the others as they are.
    space.map(&mut process, Vma::anonymous(at(17), at(19), Protection::READ_WRITE)).expect("it maps");
    space.drop_pages(&mut process, at(3), at(13)).expect("they go");
    assert_eq!(process.read(&mut space, at(9)), Ok(6));
    assert!(!there(&space).contains(&at(4)), "what programs touch came a second time");
}

/// The same areas, planned, have the same entries but for the numbers of their own pages, and say what these begin
/// with.
fn check_plan(
    process: &Process,
    (node, areas, set): (u64, &[Vma], &[(u64, u64)]),
    place: std::ops::Range<u64>,
    recorded: &BTreeMap<u64, u64>,
) {
    let (mut draft, mut plan) = (DryRun::default(), AddressSpace::default());
    plan.held.push(node);
    areas.iter().for_each(|area| plan.map(&mut draft, *area).expect("it maps"));
    plan.fill_for_start(&mut draft, node, set, place);
    assert!(!draft.is_spoilt && plan.held.is_empty());
    let own: BTreeMap<u64, Option<u64>> = draft.own.into_iter().collect();
    let machine = process.machine.borrow();
    for (address, entry) in recorded {
        let planned = plan.frames.get(*address);
        if page_of(*entry) >= FILE {
            assert_eq!((planned, own.contains_key(address)), (*entry, false));
        } else {
            assert_eq!((page_of(planned), planned), (0, entry & !(page_of(u64::MAX) << 12)));
            let begins_as = own[address].map_or(0, |page| machine.contents[&page]);
            assert_eq!(begins_as, machine.contents[&page_of(*entry)]);
        }
    }
    assert_eq!(plan.frames.rows().len(), recorded.len());
    assert_eq!(own.len(), recorded.values().filter(|entry| page_of(**entry) < FILE).count());
}
