//! Memory that a program gave up by `MADV_FREE`: what goes, and what the program wrote since.

use crate::machine::{BASE, Process, alone};
use linux_abi::address_map::PAGE_SIZE;
use vm::address_space::AddressSpace;
use vm::madvise::Advice;
use vm::vma::{Protection, Vma};

const PAGES: u64 = 40;

fn at(page: u64) -> u64 {
    BASE + page * PAGE_SIZE
}

/// Memory with page n holding n + 1, of which the program gave up all but the first and the last page.
fn given_up() -> (Process, AddressSpace) {
    let (mut process, mut space) = (alone(), AddressSpace::default());
    space.map(&mut process, Vma::anonymous(at(0), at(PAGES), Protection::READ_WRITE)).expect("it maps");
    for page in 0..PAGES {
        process.write(&mut space, at(page), page as u8 + 1).expect("it may");
    }
    process.publish();
    space.advise(&mut process, (at(1), at(PAGES - 1)), Advice::Free).expect("it may");
    process.publish();
    (process, space)
}

#[test]
fn what_was_not_written_since_goes_and_reads_as_zeros() {
    let (mut process, mut space) = given_up();
    let owned = process.machine.borrow().owner.len();
    assert_eq!(process.read(&mut space, at(3)), Ok(4), "as long as no page is asked back it is there");
    process.write(&mut space, at(20), 99).expect("it may");
    assert_eq!(process.read(&mut space, at(20)), Ok(99));
    assert_eq!(space.discard(&mut process, 5), 5);
    assert!(space.discard(&mut process, usize::MAX) > 0);
    assert_eq!(space.discard(&mut process, usize::MAX), 0, "there is no more");
    let freed = owned - process.machine.borrow().owner.len();
    assert!(freed >= PAGES as usize / 2, "{freed} pages were freed");
    for page in [0, 20, PAGES - 1] {
        let expected = if page == 20 { 99 } else { page as u8 + 1 };
        assert_eq!(process.read(&mut space, at(page)), Ok(expected), "page {page}");
    }
    assert_eq!(process.read(&mut space, at(3)), Ok(0));
    let recorded: Vec<(u64, u64)> = space.frames.within(0, u64::MAX >> 1).collect();
    assert!(recorded.iter().all(|(address, entry)| process.table.get(address) == Some(entry)));
}

#[test]
fn pages_that_a_fork_shares_or_that_are_locked_stay() {
    let (mut process, mut space) = given_up();
    space.lock(&mut process, (at(1), at(PAGES - 1)), u64::MAX, false).expect("it may");
    assert_eq!(space.discard(&mut process, usize::MAX), 0, "locked memory stays");
    let (mut process, mut space) = given_up();
    for page in 1..PAGES - 1 {
        process.write(&mut space, at(page), 7).expect("it may");
    }
    space.share_for_fork(&mut process, &[], |_, _| ()).expect("it may");
    assert_eq!(space.discard(&mut process, usize::MAX), 0, "what was written since is copy-on-write by the fork");
}

#[test]
fn another_mapping_at_the_same_place_stays() {
    let (mut process, mut space) = given_up();
    space.unmap(&mut process, at(0), at(PAGES)).expect("it goes");
    space.map(&mut process, Vma::anonymous(at(0), at(PAGES), Protection::READ_WRITE)).expect("it maps");
    for page in 0..PAGES {
        process.write(&mut space, at(page), 5).expect("it may");
    }
    space.share_for_fork(&mut process, &[], |_, _| ()).expect("it may");
    assert_eq!(space.discard(&mut process, usize::MAX), 0);
}
