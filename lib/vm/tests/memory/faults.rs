//! Faults: how much comes with what was touched, and what is refused.

use crate::machine::{BASE, alone};
use abi::page_table::WRITE;
use linux_abi::address_map::PAGE_SIZE;
use std::collections::BTreeMap;
use vm::address_space::{Access, AddressSpace, FaultError};
use vm::page_record::{COPY_ON_WRITE, page_of};
use vm::vma::{Protection, Vma};

#[test]
fn who_walks_over_fresh_memory_faults_less_and_less() {
    let (mut process, mut space) = (alone(), AddressSpace::default());
    space.map(&mut process, Vma::anonymous(BASE, BASE + 20 * PAGE_SIZE, Protection::READ_WRITE)).expect("it maps");
    let mut came = Vec::new();
    for page in 0..20 {
        let before = process.table.len();
        process.write(&mut space, BASE + page * PAGE_SIZE, page as u8).expect("it may");
        came.push(process.table.len() - before);
    }
    assert_eq!(came.iter().copied().filter(|pages| *pages > 0).collect::<Vec<_>>(), [1, 1, 2, 4, 8, 4]);
    assert_eq!(space.frames.within(0, u64::MAX >> 1).collect::<BTreeMap<_, _>>(), process.table);
    space.unmap(&mut process, BASE, BASE + 20 * PAGE_SIZE).expect("it unmaps");
    space.map(&mut process, Vma::anonymous(BASE, BASE + 20 * PAGE_SIZE, Protection::READ_WRITE)).expect("it maps");
    for page in [3, 1, 9, 5, 6, 19, 0] {
        let before = process.table.len();
        process.write(&mut space, BASE + page * PAGE_SIZE, 1).expect("it may");
        assert_eq!(process.table.len(), before + 1, "who jumps about gets what it touches");
    }
}

/// Far apart, or side by side: after any faults, and pages dropped, the record is what the tables hold, and a page is
/// what was written last, or zeros.
#[test]
fn sparse_memory_is_recorded_as_it_is_mapped() {
    const SPAN: u64 = 1 << 24;
    for seed in 0..60 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut process, mut space) = (alone(), AddressSpace::default());
        let area = Vma::anonymous(BASE, BASE + SPAN * PAGE_SIZE, Protection::READ_WRITE);
        space.map(&mut process, area).expect("it maps");
        let mut expected = BTreeMap::new();
        let mut place = 0;
        for step in 0..150 {
            place = if random.bool() { (place + random.u64(..3)) % SPAN } else { random.u64(..SPAN) };
            let address = BASE + place * PAGE_SIZE;
            match random.u8(..8) {
                0 => {
                    let end = area.end.min(address + random.u64(1..100) * PAGE_SIZE);
                    space.drop_pages(&mut process, address, end).expect("they go");
                    expected.retain(|at, _| !(address..end).contains(at));
                }
                1 => {
                    let is = expected.get(&address).copied().unwrap_or(0);
                    assert_eq!(process.read(&mut space, address), Ok(is), "seed {seed}, step {step}");
                }
                _ => {
                    // Now and then there are no pages, or too few for all that would come together.
                    let next = process.machine.borrow().next;
                    process.machine.borrow_mut().last = if random.u8(..4) == 0 { next + random.u64(..3) } else { 0 };
                    match process.write(&mut space, address, step) {
                        Ok(()) => _ = expected.insert(address, step),
                        Err(violation) => assert_eq!(violation, FaultError::OutOfMemory, "seed {seed}, step {step}"),
                    }
                    process.machine.borrow_mut().last = 0;
                }
            }
            let recorded: BTreeMap<u64, u64> = space.frames.all().into_iter().collect();
            assert_eq!(recorded, process.table, "seed {seed}, step {step}");
            assert_eq!(space.frames.len(), recorded.len(), "seed {seed}, step {step}");
        }
    }
}

#[test]
fn who_walks_over_shared_memory_faults_less_and_less() {
    const COUNT: u64 = 60;
    let (mut process, mut space) = (alone(), AddressSpace::default());
    process.others.borrow_mut().push(BTreeMap::new());
    space.map(&mut process, Vma::anonymous(BASE, BASE + COUNT * PAGE_SIZE, Protection::READ_WRITE)).expect("it maps");
    let at = |page: u64| BASE + page * PAGE_SIZE;
    (0..COUNT).for_each(|page| process.write(&mut space, at(page), page as u8).expect("it may"));
    space.share_for_fork(&mut process, &[], |_, _| {}).expect("it forks");
    let child = process.table.clone();
    // The child has given up some of them: those are written where they lie.
    process.others.borrow_mut()[1] = child.into_iter().filter(|(address, _)| address / PAGE_SIZE % 3 > 0).collect();
    let before = process.machine.borrow().next;
    let mut faults = 0;
    for page in 0..COUNT {
        faults += usize::from(process.table[&at(page)] & WRITE == 0);
        process.write(&mut space, at(page), 100 + page as u8).expect("it may");
        assert_eq!(process.read(&mut space, at(page)), Ok(100 + page as u8));
    }
    assert!(faults < 14, "{faults} faults");
    assert_eq!(process.machine.borrow().next - before, COUNT - COUNT / 3);
    let child = process.others.borrow()[1].clone();
    for (address, entry) in child {
        assert_eq!(process.machine.borrow().contents[&page_of(entry)], ((address - BASE) / PAGE_SIZE) as u8);
    }
}

#[test]
fn violations_are_told_apart() {
    let mut process = alone();
    let mut space = AddressSpace::default();
    space.map(&mut process, Vma::anonymous(BASE, BASE + PAGE_SIZE, Protection::READ)).expect("it maps");
    assert_eq!(space.fault(&mut process, BASE - 1, Access::Read), Err(FaultError::NotMapped));
    assert_eq!(space.fault(&mut process, BASE, Access::Write), Err(FaultError::NotAllowed));
    assert_eq!(space.fault(&mut process, BASE, Access::Execute), Err(FaultError::NotAllowed));
    assert_eq!(space.fault(&mut process, BASE, Access::Read), Ok(()));
    space.protect(&mut process, BASE, BASE + PAGE_SIZE, Protection::NONE).expect("it may");
    assert_eq!(space.fault(&mut process, BASE, Access::Read), Err(FaultError::NotAllowed));
    assert!(process.table.is_empty(), "nothing is present that may not be read");
    space.protect(&mut process, BASE, BASE + PAGE_SIZE, Protection::READ_WRITE).expect("it may");
    process.write(&mut space, BASE, 3).expect("it may");
    assert_eq!(space.frames.get(BASE) & COPY_ON_WRITE, 0);
}
