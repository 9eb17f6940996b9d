//! Mappings that move, grow and go, wherever memory ends.

use crate::machine::{BASE, alone};
use linux_abi::address_map::{MMAP_TOP, PAGE_SIZE};
use linux_abi::errno::Errno;
use std::collections::{BTreeMap, BTreeSet};
use vm::address_space::{Access, AddressSpace, FaultError};
use vm::madvise::Advice;
use vm::mremap::Remap;
use vm::vma::{Protection, Vma};

/// Memory is moved and taken away whole, or stays as it was, wherever the memory for page tables ends.
#[test]
fn what_cannot_be_moved_or_taken_away_is_still_there() {
    for seed in 0..1000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut process, mut space) = (alone(), AddressSpace::default());
        let count = random.u64(1..12);
        let at = |page: u64| BASE + page * PAGE_SIZE;
        let old = Vma::anonymous(at(0), at(count), Protection::READ_WRITE);
        space.map(&mut process, old).expect("it maps");
        for page in (0..count).filter(|_| random.bool()).collect::<Vec<_>>() {
            process.write(&mut space, at(page), page as u8 + 1).expect("it may");
        }
        let before: Vec<u8> = (0..count).map(|page| process.read(&mut space, at(page)).expect("it is there")).collect();
        process.rows_left = Some((random.usize(..30), BTreeSet::new()));
        let new = at(20)..at(20 + count + random.u64(..4));
        let outcome = match random.u8(..3) {
            0 => space.unmap(&mut process, at(0), at(count)),
            1 => space.drop_pages(&mut process, at(0), at(count)),
            _ => space.move_area(&mut process, old, new.clone(), random.bool()),
        };
        process.rows_left = None;
        let has_moved = space.areas.find(new.start).is_some();
        if outcome.is_err() || has_moved {
            assert_eq!(has_moved, outcome.is_ok(), "seed {seed}");
            let start = if has_moved { new.start } else { at(0) };
            for (page, expected) in (start..).step_by(PAGE_SIZE as usize).zip(&before) {
                assert_eq!(process.read(&mut space, page), Ok(*expected), "seed {seed}");
            }
        }
        let recorded: BTreeMap<u64, u64> = space.frames.within(0, u64::MAX >> 1).collect();
        assert!(process.table.iter().all(|(at, entry)| recorded.get(at) == Some(entry)), "seed {seed}");
    }
}

#[test]
fn mappings_move_with_what_they_hold_and_what_is_locked_counts() {
    let (mut process, mut space) = (alone(), AddressSpace::default());
    space.map(&mut process, Vma::anonymous(BASE, BASE + 4 * PAGE_SIZE, Protection::READ_WRITE)).expect("it maps");
    for page in 0..4 {
        process.write(&mut space, BASE + page * PAGE_SIZE, 10 + page as u8).expect("it may");
    }
    let two = Remap {
        start: BASE + PAGE_SIZE,
        bytes: 2 * PAGE_SIZE,
        new_bytes: 3 * PAGE_SIZE,
        may_move: true,
        stays: false,
        to: None,
        most_locked: 0,
    };
    let fixed = Remap { may_move: false, ..two };
    assert_eq!(space.remap(&mut process, fixed), Err(Errno::ENOMEM), "somebody is behind it");
    let to = space.remap(&mut process, two).expect("it moves");
    assert_eq!(process.read(&mut space, to), Ok(11));
    assert_eq!(process.read(&mut space, to + 2 * PAGE_SIZE), Ok(0));
    assert_eq!(space.fault(&mut process, BASE + PAGE_SIZE, Access::Read), Err(FaultError::NotMapped));
    let across = Remap { start: BASE, bytes: 2 * PAGE_SIZE, ..two };
    assert_eq!(space.remap(&mut process, across), Err(Errno::EFAULT), "a hole is in it");
    let all = (to, to + 3 * PAGE_SIZE);
    assert_eq!(space.lock(&mut process, all, 2 * PAGE_SIZE, true), Err(Errno::ENOMEM));
    assert_eq!(space.lock(&mut process, all, 3 * PAGE_SIZE, true), Ok(()));
    assert_eq!(space.locked_bytes(), 3 * PAGE_SIZE);
    let advice = Advice::Drop { locked: false };
    assert_eq!(space.advise(&mut process, all, advice).map(|_| ()), Err(Errno::EINVAL));
    space.advise(&mut process, (to, to + PAGE_SIZE), Advice::Absent(true)).expect("it may");
    space.advise(&mut process, (to + PAGE_SIZE, all.1), Advice::Wiped(true)).expect("it may");
    space.begin_child(&mut process).expect("it begins");
    assert_eq!(space.locked_bytes(), 0, "a child locks nothing");
    assert_eq!(space.fault(&mut process, to, Access::Read), Err(FaultError::NotMapped));
    assert_eq!(process.read(&mut space, to + PAGE_SIZE), Ok(0));
    assert_eq!(process.read(&mut space, BASE), Ok(10));
}

#[test]
fn the_stack_grows_and_brk_moves() {
    let mut process = alone();
    let mut space = AddressSpace::default();
    space.brk = (BASE, BASE);
    let top = MMAP_TOP + (64 << 20);
    let stack = Vma { grows: true, ..Vma::anonymous(top - PAGE_SIZE, top, Protection::READ_WRITE) };
    space.map(&mut process, stack).expect("it maps");
    assert_eq!(space.fault(&mut process, top - 5 * PAGE_SIZE, Access::Write), Ok(()));
    assert_eq!(space.fault(&mut process, top - (9 << 20), Access::Write), Err(FaultError::NotMapped));
    assert_eq!(space.move_brk(&mut process, BASE + 100), BASE + 100);
    assert_eq!(space.fault(&mut process, BASE, Access::Write), Ok(()));
    assert_eq!(space.move_brk(&mut process, BASE - 1), BASE + 100);
    assert_eq!(space.move_brk(&mut process, BASE), BASE);
    assert_eq!(space.fault(&mut process, BASE, Access::Write), Err(FaultError::NotMapped));
}
