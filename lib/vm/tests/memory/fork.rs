//! What parent and child see after a fork.

use crate::machine::{BASE, Machine, Process, alone};
use abi::page_table::WRITE;
use linux_abi::address_map::PAGE_SIZE;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use vm::address_space::AddressSpace;
use vm::page_record::TOGETHER;
use vm::vma::{Backing, Protection, Vma};

#[test]
fn after_fork_each_sees_what_was_and_its_own_writes() {
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let machine = Rc::new(RefCell::new(Machine::default()));
        let others = Rc::new(RefCell::new(vec![BTreeMap::new(); 2]));
        let process = |number| Process {
            number,
            machine: machine.clone(),
            table: BTreeMap::new(),
            others: others.clone(),
            rows_left: None,
            at_hand: 0,
            gave_way: 0,
            held: BTreeMap::new(),
            evicts: None,
        };
        let (mut parent, mut child) = (process(0), process(1));
        let mut space = AddressSpace::default();
        space.map(&mut parent, Vma::anonymous(BASE, BASE + 8 * PAGE_SIZE, Protection::READ_WRITE)).expect("it maps");
        let mut expected = [[0u8; 8]; 2];
        for _ in 0..random.usize(..12) {
            let (page, value) = (random.usize(..8), random.u8(..));
            parent.write(&mut space, BASE + page as u64 * PAGE_SIZE, value).expect("it may");
            expected[0][page] = value;
        }
        space.share_for_fork(&mut parent, &[], |_, _| {}).expect("it forks");
        assert!(parent.table.values().all(|entry| entry & WRITE == 0), "seed {seed}");
        expected[1] = expected[0];
        child.table = parent.table.clone();
        child.publish();
        let mut spaces = [space.clone(), space];
        // Some go from page to page, so that several are copied for one fault, in a machine that may have too few.
        let mut last = 0;
        let few = machine.borrow().next + 16;
        machine.borrow_mut().last = if random.bool() { few } else { 0 };
        for step in 0..60 {
            let (who, value) = (random.usize(..2), random.u8(..));
            let page = if random.u8(..3) > 0 { (last + 1) % 8 } else { random.usize(..8) };
            last = page;
            let actor = if who == 0 { &mut parent } else { &mut child };
            let address = BASE + page as u64 * PAGE_SIZE;
            if random.bool() {
                actor.write(&mut spaces[who], address, value).expect("it may");
                expected[who][page] = value;
            }
            assert_eq!(actor.read(&mut spaces[who], address), Ok(expected[who][page]), "seed {seed}, step {step}");
        }
    }
}

/// A child is given the pages of files that children before it touched, and finds the others again.
#[test]
fn a_child_has_the_pages_of_files_that_others_touched() {
    let (mut process, mut space) = (alone(), AddressSpace::default());
    let backing = Backing::File { node: 3, offset: 0, writable: false };
    let area = Vma { backing, ..Vma::anonymous(BASE, BASE + 40 * PAGE_SIZE, Protection::READ) };
    space.map(&mut process, area).expect("it maps");
    (0..40).for_each(|page| _ = process.read(&mut space, BASE + page * PAGE_SIZE));
    assert_eq!(space.files_for_child(true).count(), 40);
    assert_eq!(space.files_for_child(false).count(), 0);
    let mut child = space.clone();
    child.forget_files();
    assert!(child.frames.is_empty());
    let mut other = alone();
    assert_eq!(other.read(&mut child, BASE + 20 * PAGE_SIZE), Ok(20));
    // Whatever else a child says is nothing that can be given.
    let said = child.touched().iter().copied().chain([0, u64::MAX, 0x7d00_0000_0000, BASE + 1]);
    said.for_each(|address| space.note_touched(address));
    let given: Vec<u64> = space.files_for_child(false).map(|row| (row.address - BASE) / PAGE_SIZE).collect();
    let touched = (BASE / PAGE_SIZE + 20) / TOGETHER * TOGETHER;
    let ranges = [BASE / PAGE_SIZE / TOGETHER * TOGETHER, touched];
    let is_given =
        |page: &u64| ranges.iter().any(|first| (*first..first + TOGETHER).contains(&(BASE / PAGE_SIZE + page)));
    let mut expected: Vec<u64> = (0..40).filter(is_given).collect();
    let mut given_sorted = given;
    given_sorted.sort_unstable();
    expected.sort_unstable();
    assert_eq!(given_sorted, expected);
    let mut next = space.clone();
    next.forget_files();
    assert_eq!(next.frames.within(0, u64::MAX >> 1).count(), expected.len());
}

/// A process that makes one child after the other looks only at a number to see whether anything has changed.
#[test]
fn an_edition_is_another_one_when_a_child_would_begin_with_something_else() {
    let (mut process, mut space) = (alone(), AddressSpace::default());
    let mut before = space.generation();
    let mut is_another =
        |space: &AddressSpace| core::mem::replace(&mut before, space.generation()) != space.generation();
    let area = Vma::anonymous(BASE, BASE + 8 * PAGE_SIZE, Protection::READ_WRITE);
    space.map(&mut process, area).expect("it maps");
    assert!(is_another(&space));
    process.write(&mut space, BASE, 1).expect("it may");
    assert!(is_another(&space));
    space.share_for_fork(&mut process, &[], |_, _| {}).expect("it forks");
    assert!(is_another(&space));
    process.read(&mut space, BASE).expect("it may");
    assert!(!is_another(&space));
    process.write(&mut space, BASE, 2).expect("it may");
    assert!(is_another(&space));
    space.note_written(BASE + PAGE_SIZE);
    assert!(is_another(&space));
    space.note_written(BASE + PAGE_SIZE);
    assert!(!is_another(&space));
    space.note_touched(BASE);
    assert!(is_another(&space));
    space.protect(&mut process, BASE, BASE + PAGE_SIZE, Protection::READ).expect("it may");
    assert!(is_another(&space));
    space.unmap(&mut process, BASE + 4 * PAGE_SIZE, BASE + 8 * PAGE_SIZE).expect("it may");
    assert!(is_another(&space));
    assert!(is_another(&space.successor()));
}
