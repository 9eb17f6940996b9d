//! Rows of the attack matrix for XN, by number.

use crash::disk::{Cell, Disk};
use crash::machine::{Arena, Xn, drive, format, owned, read};
use crash::templates::{Entry, LEAF, LIST, TREE};
use downloaded_code::instruction::Slot;
use downloaded_code::program::Program;
use downloaded_code::verifier::{Verifier, storage_bound};
use std::rc::Rc;
use xn::access::Caller;
use xn::claim::Claims;
use xn::error::{Error, Result};
use xn::format::{BLOCK_SIZE, SECTOR_SIZE, seal};
use xn::program::{OWNS, run_owns};
use xn::transaction::{Action, Change, Declared, Transaction};
use xn::volume::{Phase, Work};

/// A volume that is open for writing, and its disk.
fn with_volume(test: impl FnOnce(&mut Xn<'_>, &mut Disk)) {
    let (mut arena, mut disk) = (Arena::default(), Disk::new(format()));
    let cells = disk.current.clone();
    let mut xn = arena.mount(&cells).expect("a new volume is clean");
    drive(&mut xn, &mut disk, false).expect("it can be made writable");
    test(&mut xn, &mut disk);
}

fn flush(xn: &mut Xn<'_>, disk: &mut Disk) {
    let number = xn.flush_start();
    disk.flush();
    xn.flush_done(number, true);
}

fn write(xn: &mut Xn<'_>, disk: &mut Disk, page: usize) -> Result<()> {
    let block = xn.submit(page)?;
    disk.write(block, &xn.frames.0.borrow()[page]);
    xn.write_done(page, true)
}

/// An unattached tree with root block 300 in page 1.
fn tree(xn: &mut Xn<'_>, block: u64, page: usize) -> u16 {
    let tree = xn.tree_create(block, TREE, false).expect("free");
    xn.bind_root(&Caller::default(), tree, page).expect("new");
    tree
}

/// The same, attached as root 0.
fn rooted(xn: &mut Xn<'_>, disk: &mut Disk) -> u16 {
    let tree = tree(xn, 300, 1);
    write(xn, disk, 1).expect("it has no children");
    flush(xn, disk);
    xn.root_set(0, [1; 48], tree).expect("durable");
    write(xn, disk, 0).expect("ready");
    flush(xn, disk);
    tree
}

fn set(xn: &mut Xn<'_>, page: usize, at: usize, entry: Option<Entry>, declared: &[Declared]) -> Result<()> {
    let bytes = entry.map_or([0; 16], |entry| entry.encode());
    let changes = [Change { page, offset: at, bytes: &bytes }];
    xn.modify(&Caller::default(), &Transaction { shown: &[page], changes: &changes, declared })
}

fn entry(block: u64, template: u8) -> Entry {
    Entry { block, count: 1, template, tag: 0 }
}

fn declare(action: Action, first: u64, template: u8) -> [Declared; 1] {
    [Declared { action, first, count: 1, template }]
}

fn allocate(xn: &mut Xn<'_>, page: usize, at: usize, block: u64, template: u8) {
    let declared = declare(Action::Allocate, block, template);
    set(xn, page, at, Some(entry(block, template)), &declared).expect("free and declared");
}

fn code(slots: &[(u8, u8, u8, i16, i32)]) -> Vec<u8> {
    let slot = |&(opcode, destination, source, offset, immediate): &(u8, u8, u8, i16, i32)| {
        Slot { opcode, destination, source, offset, immediate }.to_bytes()
    };
    slots.iter().flat_map(slot).collect()
}

fn is_accepted(bytes: &[u8]) -> bool {
    let program = Program::new(bytes).expect("whole slots");
    let mut words = vec![0; storage_bound(program.slots())];
    Verifier::run(program, &OWNS, &mut words).is_ok()
}

#[test]
fn fault_61_owns_programs_cannot_depend_on_anything_but_the_sector() {
    let returned_address = code(&[(0xBF, 0, 1, 0, 0), (0x95, 0, 0, 0, 0)]);
    let unwritten_register = code(&[(0xBF, 0, 6, 0, 0), (0x95, 0, 0, 0, 0)]);
    let unwritten_stack = code(&[(0x79, 0, 10, -8, 0), (0x95, 0, 0, 0, 0)]);
    let clock = code(&[(0x85, 0, 0, 0, 5), (0x95, 0, 0, 0, 0)]);
    for program in [returned_address, unwritten_register, unwritten_stack, clock] {
        assert!(!is_accepted(&program));
    }
    // own(word 0 of the sector, 1, 3): equal sectors give equal claims, twice.
    let own = [(0x79, 6, 1, 0, 0), (0x55, 6, 0, 1, 0), (0x05, 0, 0, 4, 0), (0xBF, 1, 6, 0, 0), (0xB7, 2, 0, 0, 1)];
    let rest = [(0xB7, 3, 0, 0, 3), (0x85, 0, 0, 0, 1), (0xB7, 0, 0, 0, 0), (0x95, 0, 0, 0, 0)];
    let program = code(&[&own[..], &rest].concat());
    assert!(is_accepted(&program));
    let mut content = [0; 508];
    content[..8].copy_from_slice(&300_u64.to_le_bytes());
    for _ in 0..2 {
        let mut claims = Claims::default();
        assert_eq!(run_owns(Program::new(&program).expect("whole"), 0, &content, &mut claims), Ok(()));
        assert_eq!(claims.ranges().len(), 1);
        assert!(claims.find(300).is_some_and(|claim| claim.template == 3));
    }
}

#[test]
fn fault_62_only_the_declared_difference_is_accepted() {
    with_volume(|xn, _| {
        tree(xn, 300, 1);
        allocate(xn, 1, 16, 301, LEAF);
        let before = owned(xn);
        let good = declare(Action::Allocate, 302, LEAF);
        let twice = [good[0], good[0]];
        let mut huge = good;
        huge[0].count = 1 << 32;
        let lies: [(Option<Entry>, &[Declared]); 8] = [
            (Some(entry(302, LEAF)), &[]),
            (Some(entry(302, LIST)), &good),
            (Some(entry(303, LEAF)), &good),
            (Some(entry(302, LEAF)), &twice),
            (Some(entry(302, LEAF)), &huge),
            (Some(entry(301, LEAF)), &declare(Action::Allocate, 301, LEAF)),
            (Some(Entry { count: 0xFFFF, ..entry(302, LEAF) }), &good),
            (None, &good),
        ];
        for (index, (entry, declared)) in lies.into_iter().enumerate() {
            assert!(set(xn, 1, 32, entry, declared).is_err(), "lie {index}");
            assert_eq!(owned(xn), before, "lie {index}");
        }
        // Another sector claims a block of this tree, and a block of the fixed area.
        assert!(set(xn, 1, 512 + 16, Some(entry(301, LEAF)), &declare(Action::Allocate, 301, LEAF)).is_err());
        assert!(set(xn, 1, 512 + 16, Some(entry(1, LEAF)), &declare(Action::Allocate, 1, LEAF)).is_err());
        assert_eq!(set(xn, 1, 32, Some(entry(302, LEAF)), &good), Ok(()));
    });
}

#[test]
fn fault_63_owns_programs_end_and_stay_in_the_sector() {
    let outside = code(&[(0x79, 0, 1, 504, 0), (0x95, 0, 0, 0, 0)]);
    assert!(!is_accepted(&outside));
    let endless = code(&[(0xB7, 0, 0, 0, 0), (0x05, 0, 0, -2, 0), (0x95, 0, 0, 0, 0)]);
    if is_accepted(&endless) {
        let verdict = run_owns(Program::new(&endless).expect("whole"), 9, &[0; 508], &mut Claims::default());
        assert_eq!(verdict, Err(Error::Program(9)));
    }
    let mut claims = Claims::default();
    (0..64).for_each(|index| assert_eq!(claims.own(300 + index, 1, 3), Ok(())));
    assert!(claims.own(400, 1, 3).is_err(), "the 65th claim");
    assert!(Claims::default().own(300, 4097, 3).is_err());
    assert!(Claims::default().own(u64::MAX, 1, 3).is_err());
}

#[test]
fn fault_64_a_parent_waits_for_its_children_also_after_attaching() {
    with_volume(|xn, disk| {
        rooted(xn, disk);
        allocate(xn, 1, 16, 301, TREE);
        assert_eq!(xn.submit(1), Err(Error::Unready(301)));
        assert!(matches!(xn.bind(&Caller::default(), 1, 0, 301, 2), Ok(xn::binding::Bound::Zeroed)));
        write(xn, disk, 2).expect("it has no children");
        assert_eq!(xn.submit(1), Err(Error::Unflushed(3)), "two flushes made the root durable");
        flush(xn, disk);
        assert_eq!(write(xn, disk, 1), Ok(()));
        // An unattached tree may be written before its child; once attached, the parent waits for both.
        tree(xn, 310, 3);
        allocate(xn, 3, 16, 311, LEAF);
        assert_eq!(write(xn, disk, 3), Ok(()));
        flush(xn, disk);
        assert_eq!(set(xn, 1, 32, Some(entry(310, TREE)), &declare(Action::Attach, 310, TREE)), Ok(()));
        assert_eq!(xn.submit(1), Err(Error::Unready(310)));
        assert_eq!(xn.submit(3), Err(Error::Unready(311)));
        xn.bind(&Caller::default(), 3, 0, 311, 4).expect("a child");
        write(xn, disk, 4).expect("a leaf");
        flush(xn, disk);
        assert_eq!(xn.submit(1), Err(Error::Unready(310)));
        write(xn, disk, 3).expect("its child is durable");
        flush(xn, disk);
        assert_eq!(write(xn, disk, 1), Ok(()));
    });
}

#[test]
fn fault_65_a_block_is_not_reused_while_a_pointer_is_on_disk() {
    with_volume(|xn, disk| {
        rooted(xn, disk);
        allocate(xn, 1, 16, 301, LEAF);
        xn.bind(&Caller::default(), 1, 0, 301, 2).expect("a child");
        write(xn, disk, 2).expect("a leaf");
        flush(xn, disk);
        write(xn, disk, 1).expect("ready");
        flush(xn, disk);
        assert_eq!(set(xn, 1, 16, None, &declare(Action::Free, 301, LEAF)), Ok(()));
        let try_again = |xn: &mut Xn<'_>| {
            reclaim(xn);
            set(xn, 1, 32, Some(entry(301, LEAF)), &declare(Action::Allocate, 301, LEAF))
        };
        assert_eq!(try_again(xn), Err(Error::NotFree(301)));
        let block = xn.submit(1).expect("ready");
        reclaim(xn);
        assert_eq!(xn.tree_create(301, LEAF, false), Err(Error::NotFree(301)), "the write is in transit");
        disk.write(block, &xn.frames.0.borrow()[1]);
        xn.write_done(1, true).expect("in transit");
        assert_eq!(try_again(xn), Err(Error::NotFree(301)), "the write is not durable");
        flush(xn, disk);
        assert_eq!(try_again(xn), Ok(()));
    });
}

#[test]
fn fault_65_what_a_held_parent_points_to_waits_with_it() {
    with_volume(|xn, disk| {
        rooted(xn, disk);
        allocate(xn, 1, 16, 302, TREE);
        xn.bind(&Caller::default(), 1, 0, 302, 2).expect("a child");
        allocate(xn, 2, 16, 303, LEAF);
        xn.bind(&Caller::default(), 2, 0, 303, 3).expect("a child");
        for page in [3, 2, 1] {
            write(xn, disk, page).expect("its children are durable");
            flush(xn, disk);
        }
        assert_eq!(set(xn, 2, 16, None, &declare(Action::Free, 303, LEAF)), Ok(()));
        assert_eq!(set(xn, 1, 16, None, &declare(Action::Free, 302, TREE)), Ok(()));
        reclaim(xn);
        assert_eq!(owned(xn), [300, 302, 303], "the root on disk leads to both");
        write(xn, disk, 1).expect("ready");
        flush(xn, disk);
        reclaim(xn);
        reclaim(xn);
        assert_eq!(owned(xn), [300]);
    });
}

#[test]
fn fault_65_a_parent_stays_in_core_until_its_write_is_durable() {
    with_volume(|xn, disk| {
        rooted(xn, disk);
        allocate(xn, 1, 16, 301, LEAF);
        xn.bind(&Caller::default(), 1, 0, 301, 2).expect("a child");
        for page in [2, 1] {
            write(xn, disk, page).expect("its children are durable");
            flush(xn, disk);
        }
        assert_eq!(set(xn, 1, 16, None, &declare(Action::Free, 301, LEAF)), Ok(()));
        write(xn, disk, 1).expect("ready");
        assert_eq!(xn.release(1), Err(Error::InUse(300)), "the write is not durable");
        reclaim(xn);
        assert_eq!(owned(xn), [300, 301]);
        flush(xn, disk);
        assert_eq!(xn.release(1), Ok(()));
        reclaim(xn);
        assert_eq!(owned(xn), [300]);
    });
}

#[test]
fn fault_66_some_dirty_block_can_always_be_written() {
    with_volume(|xn, disk| {
        rooted(xn, disk);
        // A chain of eight fresh blocks, and an attempt to close it to a cycle.
        for depth in 0..8 {
            allocate(xn, 1 + depth, 16, 301 + depth as u64, TREE);
            xn.bind(&Caller::default(), 1 + depth, 0, 301 + depth as u64, 2 + depth).expect("a child");
        }
        let cycle = set(xn, 9, 16, Some(entry(300, TREE)), &declare(Action::Attach, 300, TREE));
        assert!(cycle.is_err());
        for page in (1..=9).rev() {
            assert!((1..page).all(|parent| matches!(xn.submit(parent), Err(Error::Unready(_)))));
            assert_eq!(write(xn, disk, page), Ok(()));
            flush(xn, disk);
        }
        // A tree cannot become its own descendant.
        tree(xn, 320, 20);
        assert!(set(xn, 20, 16, Some(entry(320, TREE)), &declare(Action::Attach, 320, TREE)).is_err());
    });
}

#[test]
fn a_stop_in_steps_looks_at_each_page() {
    with_volume(|xn, disk| {
        rooted(xn, disk);
        let (mut buffer, pages) = ([0; BLOCK_SIZE], xn.memory.registry.blocks.len());
        xn.limits.looks = 60;
        let last = pages - 1;
        allocate(xn, 1, 16, 310, LEAF);
        xn.bind(&Caller::default(), 1, 0, 310, last).expect("new");
        write(xn, disk, last).expect("a leaf");
        flush(xn, disk);
        write(xn, disk, 1).expect("its child is good");
        assert_eq!(xn.stop(&mut buffer), Err(Error::InUse(300)), "page 1 is not durable");
        flush(xn, disk);
        for end in [60, 120] {
            assert_eq!(xn.stop(&mut buffer), Ok(Work::Again));
            assert_eq!(xn.phase(), Phase::Closing(end));
            let refused = set(xn, 1, 32, Some(entry(311, LEAF)), &declare(Action::Allocate, 311, LEAF));
            assert_eq!(refused, Err(Error::NotPermitted), "it is being closed");
        }
        assert_eq!(xn.stop(&mut buffer), Ok(Work::Again));
        assert_eq!(xn.phase(), Phase::Marking(0));
    });
    with_volume(|xn, _| {
        let mut buffer = [0; BLOCK_SIZE];
        xn.limits.looks = 60;
        tree(xn, 300, xn.memory.registry.blocks.len() - 1);
        for _ in 0..2 {
            assert_eq!(xn.stop(&mut buffer), Ok(Work::Again));
        }
        assert_eq!(xn.stop(&mut buffer), Err(Error::InUse(300)), "the last page is dirty");
        assert_eq!(xn.phase(), Phase::Open, "a refused stop changes nothing");
    });
}

fn reclaim(xn: &mut Xn<'_>) {
    let mut cursor = 0;
    while let Err(Error::Again(next)) = xn.reclaim(cursor) {
        cursor = next;
    }
}

/// A dirty volume with a root at block 300 that owns leaf 301.
fn small_volume() -> Vec<Cell> {
    let mut result = Vec::new();
    with_volume(|xn, disk| {
        rooted(xn, disk);
        allocate(xn, 1, 16, 301, LEAF);
        xn.bind(&Caller::default(), 1, 0, 301, 2).expect("a child");
        write(xn, disk, 2).expect("a leaf");
        flush(xn, disk);
        write(xn, disk, 1).expect("ready");
        flush(xn, disk);
        result = disk.current.clone();
    });
    result
}

fn is_mounted(arena: &mut Arena, cells: &[Cell]) -> bool {
    arena.mount(cells).is_ok_and(|xn| owned(&xn) == [300, 301])
}

#[test]
fn fault_69_misdirected_and_lost_sectors_are_found_or_harmless() {
    let (cells, mut arena) = (small_volume(), Arena::default());
    assert!(is_mounted(&mut arena, &cells));
    for (from, to) in [(1, 300), (300, 1), (0, 300), (0, 1), (259, 300), (379, 0)] {
        let mut wrong = cells.clone();
        wrong[to] = Rc::clone(&cells[from]);
        assert!(!is_mounted(&mut arena, &wrong), "block {from} at {to}");
    }
    // A sector of the right block at another place in it.
    for (from, to) in [(0, 1), (1, 0), (3, 7)] {
        let (mut wrong, mut bytes) = (cells.clone(), *cells[300]);
        bytes.copy_within(from * SECTOR_SIZE..(from + 1) * SECTOR_SIZE, to * SECTOR_SIZE);
        wrong[300] = Rc::new(bytes);
        assert!(!is_mounted(&mut arena, &wrong), "sector {from} at {to}");
    }
    // The same write again changes nothing.
    let mut again = cells.clone();
    again[300] = Rc::new(*cells[300]);
    assert!(is_mounted(&mut arena, &again));
}

#[test]
fn fault_70_each_flipped_bit_of_metadata_is_found() {
    let (cells, mut arena) = (small_volume(), Arena::default());
    for block in [1, 300] {
        for bit in (0..BLOCK_SIZE * 8).step_by(7) {
            let (mut wrong, mut bytes) = (cells.clone(), *cells[block]);
            bytes[bit / 8] ^= 1 << (bit % 8);
            wrong[block] = Rc::new(bytes);
            assert!(!is_mounted(&mut arena, &wrong), "bit {bit} of block {block}");
        }
    }
    // Sealed nonsense: two owners of a block, a fixed block, a block beyond the end, a template that does not exist.
    for bad in [entry(301, LEAF), entry(5, LEAF), entry(4_000, LEAF), entry(302, 77), entry(300, TREE)] {
        let (mut wrong, mut bytes) = (cells.clone(), *cells[300]);
        bytes[512 + 16..512 + 32].copy_from_slice(&bad.encode());
        seal(b"ghosts and tags!", 300, &mut bytes);
        wrong[300] = Rc::new(bytes);
        assert!(matches!(arena.mount(&wrong).map(|_| ()), Err(Error::Damaged(_))), "{bad:?}");
    }
}

#[test]
fn fault_70_damage_found_at_bind_leaves_no_entry() {
    with_volume(|xn, disk| {
        rooted(xn, disk);
        xn.release(1).expect("clean and durable");
        let mut cells = disk.current.clone();
        cells[300] = Rc::new([0xFF; BLOCK_SIZE]);
        xn.bind_root(&Caller::default(), 0, 1).expect("a root");
        assert_eq!(read(xn, 1, &cells), Err(Error::Damaged(300)));
        assert_eq!(xn.find(300), None);
    });
}
