//! Plain tests of XN: the usual course of events, without crashes.

use crash::disk::Cell;
use crash::disk::Disk;
use crash::machine::{Arena, Xn, drive, format, owned, read};
use crash::templates::{Entry, LIST, TREE};
use xn::access::Caller;
use xn::binding::Bound;
use xn::error::Error;
use xn::region_map::Use;
use xn::transaction::{Action, Change, Declared, Transaction};
use xn::volume::Phase;

#[test]
fn a_tree_is_written_children_first_and_found_again() {
    let (mut arena, mut disk) = (Arena::default(), Disk::new(format()));
    let cells = disk.current.clone();
    let mut xn = arena.mount(&cells).expect("a new volume is clean");
    drive(&mut xn, &mut disk, false).expect("it can be made writable");
    assert_eq!(xn.phase(), Phase::Open);
    let caller = Caller::default();
    let tree = xn.tree_create(300, TREE, false).expect("block 300 is free");
    assert_eq!(xn.bind_root(&caller, tree, 1), Ok(Bound::Zeroed));
    let entry = Entry { block: 301, count: 1, template: LIST, tag: 7 }.encode();
    let changes = [Change { page: 1, offset: 16, bytes: &entry }];
    let declared = [Declared { action: Action::Allocate, first: 301, count: 1, template: LIST }];
    assert_eq!(xn.modify(&caller, &Transaction { shown: &[1], changes: &changes, declared: &declared }), Ok(()));
    assert_eq!(xn.bind(&caller, 1, 0, 301, 2), Ok(Bound::Zeroed));
    write_durably(&mut xn, &mut disk, 2);
    write_durably(&mut xn, &mut disk, 1);
    assert_eq!(xn.root_set(0, [1; 48], tree), Ok(()));
    write_durably(&mut xn, &mut disk, 0);
    drive(&mut xn, &mut disk, true).expect("nothing is dirty");
    let xn = Arena::mount(&mut arena, &disk.current).expect("clean");
    assert_eq!(owned(&xn), [300, 301]);
}

/// Writes a page and makes it durable.
fn write_durably(xn: &mut Xn<'_>, disk: &mut Disk, page: usize) {
    let block = xn.submit(page).expect("it is dirty, and its children are good");
    disk.write(block, &xn.frames.0.borrow()[page]);
    xn.write_done(page, true).expect("in transit");
    let number = xn.flush_start();
    disk.flush();
    xn.flush_done(number, true);
}

/// A block that was freed is reused once its parent was written, also where the parent left the core and came back.
#[test]
fn a_parent_that_left_the_core_was_written() {
    let (mut arena, mut disk) = (Arena::default(), Disk::new(format()));
    let cells: Vec<Cell> = disk.current.clone();
    let mut xn = arena.mount(&cells).expect("a new volume is clean");
    drive(&mut xn, &mut disk, false).expect("it can be made writable");
    let caller = Caller::default();
    let tree = xn.tree_create(300, TREE, false).expect("block 300 is free");
    assert_eq!(xn.bind_root(&caller, tree, 1), Ok(Bound::Zeroed));
    let change = |xn: &mut Xn<'_>, action, bytes: &[u8]| {
        let changes = [Change { page: 1, offset: 16, bytes }];
        let declared = [Declared { action, first: 301, count: 1, template: LIST }];
        xn.modify(&caller, &Transaction { shown: &[1], changes: &changes, declared: &declared })
    };
    let entry = Entry { block: 301, count: 1, template: LIST, tag: 7 }.encode();
    assert_eq!(change(&mut xn, Action::Allocate, &entry), Ok(()));
    assert_eq!(xn.bind(&caller, 1, 0, 301, 2), Ok(Bound::Zeroed));
    [2, 1].into_iter().for_each(|page| write_durably(&mut xn, &mut disk, page));
    assert_eq!(change(&mut xn, Action::Free, &[0; 16][..entry.len()]), Ok(()));
    assert_eq!(xn.memory.maps.get(301), Ok(Use::Held));
    write_durably(&mut xn, &mut disk, 1);
    assert_eq!(xn.release(1), Ok(()));
    assert_eq!(xn.bind_root(&caller, tree, 1), Ok(Bound::Reading));
    read(&mut xn, 1, &disk.current).expect("it was sealed");
    assert_eq!(xn.reclaim(0), Err(Error::Again(1)));
    assert_eq!(xn.memory.maps.get(301), Ok(Use::Free));
}

#[test]
fn blocks_of_the_fixed_area_are_never_free() {
    let (mut arena, mut disk) = (Arena::default(), Disk::new(format()));
    let cells = disk.current.clone();
    let mut xn = arena.mount(&cells).expect("a new volume is clean");
    drive(&mut xn, &mut disk, false).expect("it can be made writable");
    for block in [0, 1, 2, 257, 258, 259, 379, 380, 1 << 30] {
        assert_eq!(xn.tree_create(block, TREE, false), Err(Error::BadArgument));
    }
}
