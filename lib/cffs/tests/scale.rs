//! Scale: operations in a large directory cost at most twice those in one of 1,000 names, in device reads, transactions
//! and nodes.

mod support;

use cffs::arena::Arena;
use cffs::layout::inode::FILE;
use cffs::name::New;
use support::{System, check, volume, with};

/// Reads, transactions and nodes of `count` operations on names from `from` on, spread over the directory.
fn cost(system: &mut System<'_>, mut operation: impl FnMut(&mut System<'_>, &[u8])) -> u64 {
    let before = system.counts();
    for index in 0..200 {
        operation(system, format!("probe-{index}").as_bytes());
    }
    let after = system.counts();
    after.reads - before.reads + after.transactions - before.transactions + after.nodes - before.nodes
}

fn costs(system: &mut System<'_>) -> [u64; 3] {
    let (root, new) = (system.root(), New { mode: FILE | 0o600, ..New::default() });
    let create = cost(system, |system, name| assert!(system.create(root, name, &new).is_ok()));
    let lookup = cost(system, |system, name| assert!(system.lookup(root, name).is_ok()));
    let unlink = cost(system, |system, name| assert_eq!(system.unlink(root, name), Ok(())));
    [create, lookup, unlink]
}

fn grow(system: &mut System<'_>, from: u32, to: u32) {
    let (root, new) = (system.root(), New { mode: FILE | 0o600, ..New::default() });
    for index in from..to {
        system.create(root, format!("name-{index}").as_bytes(), &new).expect("room");
    }
}

#[test]
fn a_directory_of_100_000_names_costs_at_most_twice_one_of_1_000() {
    let names = if std::env::var("CHITIN_FULL").is_ok_and(|full| full == "1") { 1_000_000 } else { 100_000 };
    let (device, mut arena) = (volume(u64::from(names) / 4 + 8_000), Arena::new(names as usize / 4, 512));
    with(&device, &mut arena, |system| {
        grow(system, 0, 1_000);
        let small = costs(system);
        grow(system, 1_000, names);
        let large = costs(system);
        println!("create, lookup, unlink of 200 names: {small:?} of 1,000; {large:?} of {names}");
        assert!((0..3).all(|index| large[index] <= 2 * small[index]), "{small:?} {large:?}");
    });
    check(&device, &mut arena);
}
