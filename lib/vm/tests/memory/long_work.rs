//! Work on tens of thousands of areas, or of pages, gives the CPU away in between.

use crate::machine::{BASE, Process, alone};
use linux_abi::address_map::PAGE_SIZE;
use vm::address_space::{Access, AddressSpace};
use vm::madvise::Advice;
use vm::mremap::Remap;
use vm::vma::{Backing, Protection, Vma};

const AREAS: u64 = 3000;
const END: u64 = BASE + AREAS * PAGE_SIZE;
/// Areas, or pages, between two offers of the CPU, at most.
const AT_ONCE: u64 = 256;

/// A process with an area for each page.
fn with_many(backing: Backing) -> (Process, AddressSpace) {
    let (mut process, mut space) = (alone(), AddressSpace::default());
    space.map(&mut process, Vma { backing, ..Vma::anonymous(BASE, END, Protection::READ) }).expect("it maps");
    for page in (0..AREAS).step_by(2) {
        let start = BASE + page * PAGE_SIZE;
        space.protect(&mut process, start, start + PAGE_SIZE, Protection::READ_WRITE).expect("it may");
    }
    assert_eq!(space.areas.parts(BASE, END).count() as u64, AREAS);
    (process, space)
}

/// Does something to such a process, with areas of its own and with areas of a file.
#[track_caller]
fn gives_way(action: impl Fn(&mut Process, &mut AddressSpace)) {
    for backing in [Backing::Anonymous, Backing::File { node: 7, offset: 0, writable: false }] {
        let (mut process, mut space) = with_many(backing);
        process.gave_way = 0;
        action(&mut process, &mut space);
        assert!(process.gave_way >= AREAS / AT_ONCE, "{backing:?}: gave way {} times", process.gave_way);
    }
}

fn remap(start: u64, bytes: u64, new_bytes: u64, to: Option<u64>) -> Remap {
    Remap { start, bytes, new_bytes, may_move: to.is_some(), stays: false, to, most_locked: u64::MAX }
}

#[test]
fn areas_go_by_parts() {
    gives_way(|process, space| {
        space.unmap(process, BASE, END).expect("they go");
        assert!(space.areas.is_free(BASE, END));
    });
    gives_way(|process, space| {
        space.remap(process, remap(BASE, END - BASE, PAGE_SIZE, None)).expect("they go");
        assert!(space.areas.is_free(BASE + PAGE_SIZE, END) && !space.areas.is_free(BASE, END));
    });
    gives_way(|process, space| {
        space.map(process, Vma::anonymous(BASE, END, Protection::READ)).expect("it maps");
        assert_eq!(space.areas.parts(BASE, END).count(), 1);
    });
    gives_way(|process, space| {
        let one = Vma::anonymous(END + PAGE_SIZE, END + 2 * PAGE_SIZE, Protection::READ);
        space.map(process, one).expect("it maps");
        space.remap(process, remap(one.start, PAGE_SIZE, END - BASE, Some(BASE))).expect("it moves");
        assert_eq!(space.areas.parts(BASE, END).count(), 1);
    });
    gives_way(|process, space| {
        space.brk = (BASE, END);
        assert_eq!(space.move_brk(process, BASE), BASE);
        assert!(space.areas.is_free(BASE, END));
    });
}

#[test]
fn areas_change_by_parts() {
    gives_way(|process, space| space.protect(process, BASE, END, Protection::READ).expect("it may"));
    gives_way(|process, space| {
        space.advise(process, (BASE, END), Advice::Drop { locked: false }).map(drop).expect("it follows")
    });
    gives_way(|process, space| {
        space.advise(process, (BASE, END), Advice::Absent(true)).map(drop).expect("it follows");
        // In a child, before its program runs.
        process.gave_way = 0;
        space.begin_child(process).expect("it begins");
        assert!(space.areas.is_free(BASE, END));
    });
    gives_way(|process, space| space.lock(process, (BASE, END), u64::MAX, false).expect("they are locked"));
    gives_way(|process, space| space.unlock(process, BASE, END).expect("they are unlocked"));
    gives_way(|process, space| space.lock_all(process, true, false));
}

#[test]
fn pages_come_by_parts() {
    let (mut process, mut space) = (alone(), AddressSpace::default());
    let area = Vma::anonymous(BASE, END, Protection::READ_WRITE);
    space.map(&mut process, area).expect("it maps");
    space.populate(&mut process, &area, Access::Write).expect("they come");
    assert!(process.gave_way >= AREAS / AT_ONCE, "gave way {} times", process.gave_way);
}
