//! Scale: operations in a large directory cost at most twice those in one of 1,000 names, in blocks read and written,
//! transactions and nodes.

mod support;

use cffs::arena::Arena;
use cffs::error::Error;
use cffs::file::MAX_SIZE;
use cffs::layout::inode::FILE;
use cffs::layout::{hash, indirect};
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

/// Names of one batch, as many as the log of a volume has at most.
const BATCH: usize = 16 << 10;

/// Creates names in batches, each in the order of the places of its names. Reads all names with their inodes, as a
/// mount does. Unlinks the names in batches. Blocks read and written, transactions and nodes of each.
fn batches(system: &mut System<'_>, names: u32) -> [u64; 3] {
    let (root, new) = (system.root(), New { mode: FILE | 0o600, ..New::default() });
    let mut all: Vec<String> = (0..names).map(|index| format!("name-{index}")).collect();
    all.chunks_mut(BATCH).for_each(|batch| batch.sort_by_cached_key(|name| hash::of_name(name.as_bytes())));
    let sum = |system: &System<'_>| {
        let counts = system.counts();
        counts.reads + counts.writes + counts.transactions + counts.nodes
    };
    [0, 1, 2].map(|kind| {
        let before = sum(system);
        if kind == 1 {
            assert_eq!(read_all(system), names);
        }
        for batch in all.chunks(BATCH).filter(|_| kind != 1) {
            for name in batch.iter().map(String::as_bytes) {
                let created = if kind == 0 { system.create(root, name, &new).map(drop) } else { Ok(()) };
                let gone = if kind == 2 { system.unlink(root, name) } else { Ok(()) };
                assert_eq!((created, gone), (Ok(()), Ok(())));
            }
            system.sync().expect("the device works");
        }
        sum(system) - before
    })
}

fn read_all(system: &mut System<'_>) -> u32 {
    let (mut cookie, mut names) = (0, 0);
    loop {
        let listed = system.list(system.root(), cookie, 64).expect("a directory");
        let Some(last) = listed.last() else { return names };
        cookie = last.cookie;
        for entry in listed {
            assert!(system.attributes(entry.number).is_ok());
            names += 1;
        }
    }
}

/// The cache has 128 blocks, the directory of 100,000 names more than 5,000 nodes.
#[test]
fn names_in_the_order_of_their_places_cost_at_most_twice_in_a_directory_beyond_the_cache() {
    let cost = |names: u32| {
        let (device, mut arena) = (volume(u64::from(names) / 4 + 8_000), Arena::new(128, 512));
        let mut costs = [0; 3];
        with(&device, &mut arena, |system| costs = batches(system, names));
        check(&device, &mut arena);
        costs
    };
    let (small, large) = (cost(1_000), cost(100_000));
    println!("create, read, unlink: {small:?} for 1,000 names; {large:?} for 100,000");
    assert!((0..3).all(|kind| large[kind] <= 2 * 100 * small[kind]), "{small:?} {large:?}");
}

/// Holes of hundreds of gibibytes are walked by indirect blocks, not by blocks.
#[test]
fn operations_on_a_sparse_file_of_the_largest_size_take_few_steps() {
    const MIDDLE: u64 = 1 << 37;
    let (device, mut arena) = (volume(2_000), Arena::new(64, 512));
    with(&device, &mut arena, |system| {
        let file = system.create(system.root(), b"sparse", &New { mode: FILE, ..New::default() }).expect("room");
        let before = system.counts();
        assert_eq!(system.truncate(file, MAX_SIZE), Ok(()));
        assert_eq!(system.truncate(file, MAX_SIZE + 1), Err(Error::FileTooLarge));
        assert_eq!(system.write(file, MIDDLE + 1, b"far"), Ok(3));
        assert_eq!(system.write(file, MAX_SIZE - 3, b"end"), Ok(3));
        let holes = |system: &mut System<'_>| [0, MIDDLE].map(|from| system.next_hole(file, from).expect("a file"));
        assert_eq!(holes(system), [Some(0), Some(MIDDLE + 4096)]);
        assert_eq!(system.next_data(file, 0), Ok(Some(MIDDLE)));
        assert_eq!(system.punch(file, 0, MAX_SIZE - 4096), Ok(()));
        assert_eq!(system.next_data(file, 0), Ok(Some(MAX_SIZE - 4096)));
        assert_eq!(system.punch(file, 0, u64::MAX), Ok(()));
        assert_eq!((system.next_data(file, 0), holes(system)), (Ok(None), [Some(0), Some(MIDDLE)]));
        assert_eq!(system.attributes(file).map(|inode| (inode.size, inode.blocks)), Ok((MAX_SIZE, 0)));
        let after = system.counts();
        let steps = after.reads - before.reads + after.transactions - before.transactions;
        assert!(steps < 60, "{steps} reads and transactions");
    });
    check(&device, &mut arena);
}

/// The number of blocks of a file says whether it has holes.
#[test]
fn a_file_without_holes_has_as_many_blocks_as_its_size_says() {
    let (device, mut arena) = (volume(8_000), Arena::new(256, 1024));
    with(&device, &mut arena, |system| {
        for blocks in [0, 1, 4, 5, 500, 501, 996, 997, 1500] {
            let name = format!("{blocks}");
            let file = system.create(system.root(), name.as_bytes(), &New { mode: FILE, ..New::default() });
            let file = file.expect("room");
            for index in 0..blocks {
                assert_eq!(system.write(file, index * 4096, &[1; 4096]), Ok(4096));
            }
            let expected = indirect::blocks_of_whole(blocks);
            assert_eq!(system.attributes(file).map(|inode| inode.blocks), Ok(expected), "{blocks} blocks");
            system.unlink(system.root(), name.as_bytes()).expect("it is there");
            system.sync().expect("the device works");
            system.sync().expect("the device works");
        }
    });
    let all = |blocks: u64| indirect::blocks_of_whole(blocks) - blocks;
    assert_eq!([500, 501, 246_516, 246_517].map(all), [1, 3, 498, 501]);
    check(&device, &mut arena);
}
