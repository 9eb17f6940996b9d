//! Pages of files: what comes with them, and that they come again.

use crate::machine::{BASE, FILE, FILE_PAGES, alone};
use abi::page_table::WRITE;
use linux_abi::address_map::PAGE_SIZE;
use std::collections::BTreeMap;
use vm::address_space::{AddressSpace, FaultError};
use vm::page_record::page_of;
use vm::vma::{Backing, Protection, Vma};

#[test]
fn pages_of_a_file_bring_their_neighbours_and_are_copied_when_written() {
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut process, mut space) = (alone(), AddressSpace::default());
        let (skipped, count) = (random.u64(..30), random.u64(1..60));
        let start = BASE + random.u64(..20) * PAGE_SIZE;
        // Of file 4 it is known what programs touch.
        let backing = Backing::File { node: random.u64(3..5), offset: skipped * PAGE_SIZE, writable: false };
        let area = Vma { backing, ..Vma::anonymous(start, start + count * PAGE_SIZE, Protection::READ_WRITE) };
        space.map(&mut process, area).expect("it maps");
        let mut written = BTreeMap::new();
        for step in 0..40 {
            let (page, value) = (random.u64(..count), random.u8(100..));
            let (address, index) = (start + page * PAGE_SIZE, skipped + page);
            let past_end = index >= FILE_PAGES;
            if random.bool() {
                let outcome = process.write(&mut space, address, value);
                assert_eq!(outcome.is_err(), past_end, "seed {seed}, step {step}");
                outcome.into_iter().for_each(|()| _ = written.insert(page, value));
            }
            let expected = if past_end {
                Err(FaultError::PastEnd)
            } else {
                Ok(written.get(&page).copied().unwrap_or(index as u8))
            };
            assert_eq!(process.read(&mut space, address), expected, "seed {seed}, step {step}");
            // The record equals the tables, all of it in the area, and no process writes a file's page.
            let recorded: BTreeMap<u64, u64> = space.frames.within(0, u64::MAX >> 1).collect();
            assert_eq!(recorded, process.table, "seed {seed}, step {step}");
            assert!(recorded.keys().all(|at| (area.start..area.end).contains(at)), "seed {seed}, step {step}");
            assert!(recorded.values().all(|entry| (page_of(*entry) >= FILE) == (entry & WRITE == 0)));
        }
    }
}

/// However areas are mapped over each other.
#[test]
fn a_file_is_held_once_while_an_area_shows_it() {
    for seed in 0..100 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut process, mut space) = (alone(), AddressSpace::default());
        for step in 0..60 {
            let (first, count) = (random.u64(..20), random.u64(1..12));
            let (start, end) = (BASE + first * PAGE_SIZE, BASE + (first + count) * PAGE_SIZE);
            match random.u64(..6) {
                0 => space.unmap(&mut process, start, end).expect("it may"),
                1 => space.map(&mut process, Vma::anonymous(start, end, Protection::READ_WRITE)).expect("it maps"),
                2 => drop(process.write(&mut space, start, 1)),
                node => {
                    let backing = Backing::File { node, offset: random.u64(..9) * PAGE_SIZE, writable: false };
                    let area = Vma { backing, ..Vma::anonymous(start, end, Protection::READ_WRITE) };
                    space.map(&mut process, area).expect("it maps");
                }
            }
            let files = space.files();
            let held = |node| i32::from(files.contains(&node));
            assert!((3..6).all(|node| process.held.get(&node).copied().unwrap_or(0) == held(node)), "{seed}, {step}");
            let recorded: BTreeMap<u64, u64> = space.frames.within(0, u64::MAX >> 1).collect();
            assert_eq!(recorded, process.table, "seed {seed}, step {step}");
        }
    }
}

/// A process that becomes another user keeps what is its own, and asks for the pages of files again.
#[test]
fn pages_of_files_are_let_go_of_and_come_again() {
    const COUNT: u64 = 8;
    let (mut process, mut space) = (alone(), AddressSpace::default());
    let at = |place: u64, page: u64| BASE + (place * COUNT + page) * PAGE_SIZE;
    let areas = [(true, false), (true, true), (false, false), (false, true)];
    for (place, (is_file, shared)) in (0..).zip(areas) {
        let file = Backing::File { node: 3, offset: 0, writable: true };
        let backing = if is_file { file } else { Backing::Anonymous };
        let area = Vma::anonymous(at(place, 0), at(place, COUNT), Protection::READ_WRITE);
        space.map(&mut process, Vma { backing, shared, ..area }).expect("it maps");
        (0..COUNT).for_each(|page| _ = process.read(&mut space, at(place, page)).expect("it may"));
        process.write(&mut space, at(place, 2), 200 + place as u8).expect("it may");
    }
    space.protect(&mut process, at(0, 4), at(0, 6), Protection::NONE).expect("it may");
    let is_own = |entry: &u64| page_of(*entry) < FILE;
    let recorded = |space: &AddressSpace| space.frames.within(0, u64::MAX >> 1).collect::<BTreeMap<_, _>>();
    let (mut own, mut there) = (recorded(&space), process.table.clone());
    own.retain(|_, entry| is_own(entry));
    there.retain(|_, entry| is_own(entry));
    assert!(own.len() > there.len() && there.len() as u64 > 2 * COUNT && there.len() < process.table.len());
    space.let_go_of_files(&mut process).expect("it may");
    assert_eq!((&process.table, recorded(&space)), (&there, own));
    for (place, page, value) in [(0, 2, 200), (0, 1, 1), (1, 3, 3), (2, 2, 202), (3, 2, 203), (3, 1, 0)] {
        assert_eq!(process.read(&mut space, at(place, page)), Ok(value));
    }
}
