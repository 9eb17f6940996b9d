//! Plain tests of C-FFS: the usual course of events.

mod support;

use cffs::arena::Arena;
use cffs::device::{Device, Failed, RUN};
use cffs::error::Error;
use cffs::extent::Place;
use cffs::layout::inode::{BLOCK_DEVICE, CHARACTER, DIRECTORY, FIFO, FILE, LINK, SOCKET};
use cffs::name::New;
use std::cell::Cell;
use support::{HOW, Memory, check, volume, with};
use xn::format::Block;

fn new(mode: u16) -> New<'static> {
    New { mode, ..New::default() }
}

/// Counts transfers; a run of blocks is one.
struct Counting<'a>(Memory, &'a Cell<usize>);

impl Counting<'_> {
    fn count(&self) {
        self.1.set(self.1.get() + 1);
    }
}

impl Device for Counting<'_> {
    fn blocks(&self) -> u64 {
        self.0.blocks()
    }

    fn read(&mut self, block: u64, bytes: &mut Block) -> Result<(), Failed> {
        self.count();
        self.0.read(block, bytes)
    }

    fn write(&mut self, block: u64, bytes: &Block) -> Result<(), Failed> {
        self.count();
        self.0.write(block, bytes)
    }

    fn flush(&mut self) -> Result<(), Failed> {
        self.0.flush()
    }

    fn read_run(&mut self, first: u64, blocks: &mut [Block]) -> Result<(), Failed> {
        self.count();
        assert!(blocks.len() <= RUN);
        self.0.read_run(first, blocks)
    }

    fn write_run(&mut self, first: u64, blocks: &[&Block]) -> Result<(), Failed> {
        self.count();
        assert!(blocks.len() <= RUN);
        self.0.write_run(first, blocks)
    }
}

#[test]
fn neighbouring_blocks_go_in_one_transfer_and_one_transaction() {
    let (device, mut arena, count) = (volume(4_000), Arena::new(512, 256), Cell::new(0));
    let body: Vec<u8> = (0..1_u32 << 20).map(|index| (index / 3) as u8).collect();
    let blocks = body.len() / 4096;
    let (mut system, _) = arena.mount(Counting(device.clone(), &count), HOW).expect("mounts");
    let file = system.create(system.root(), b"large", &new(FILE | 0o644)).expect("room");
    let before = system.counts().transactions;
    assert_eq!(system.write(file, 0, &body), Ok(body.len()));
    let transactions = system.counts().transactions - before;
    assert!(transactions < blocks as u64 / 4, "{transactions} transactions for {blocks} blocks");
    count.set(0);
    assert_eq!(system.sync(), Ok(()));
    assert!(count.get() < blocks / 8, "{} transfers for {blocks} blocks", count.get());
    system.unmount().expect("closes");
    let (mut system, _) = arena.mount(Counting(device, &count), HOW).expect("mounts");
    let file = system.lookup(system.root(), b"large").expect("made");
    let mut read = vec![1; body.len()];
    count.set(0);
    assert_eq!(system.read(file, 0, &mut read), Ok(body.len()));
    assert!(read == body && count.get() < blocks / 8, "{} transfers for {blocks} blocks", count.get());
}

#[test]
fn files_and_directories_are_there_after_a_mount() {
    let (device, mut arena) = (volume(4_000), Arena::new(128, 256));
    let body: Vec<u8> = (0..3_000_000_u32).map(|index| (index / 7) as u8).collect();
    with(&device, &mut arena, |system| {
        let home = system.create(system.root(), b"home", &new(DIRECTORY | 0o755)).expect("room");
        let file = system.create(home, b"large", &new(FILE | 0o644)).expect("room");
        assert_eq!(system.write(file, 0, &body), Ok(body.len()));
        let note = system.create(home, b"note", &new(FILE | 0o600)).expect("room");
        assert_eq!(system.write(note, 5, b"hello"), Ok(5));
    });
    check(&device, &mut arena);
    with(&device, &mut arena, |system| {
        let home = system.lookup(system.root(), b"home").expect("made");
        let file = system.lookup(home, b"large").expect("made");
        let mut read = vec![1; body.len() + 10];
        assert_eq!(system.read(file, 0, &mut read), Ok(body.len()));
        assert!(read[..body.len()] == body);
        let note = system.lookup(home, b"note").expect("made");
        let mut read = [1; 20];
        assert_eq!(system.read(note, 0, &mut read), Ok(10));
        assert_eq!(&read[..10], b"\0\0\0\0\0hello");
        assert_eq!(system.unlink(home, b"large"), Ok(()));
        assert_eq!(system.unlink(home, b"note"), Ok(()));
        assert_eq!(system.rmdir(system.root(), b"home"), Ok(()));
    });
    check(&device, &mut arena);
    let report = arena.check(device, HOW).expect("clean");
    assert_eq!(report.inodes, (1, 0));
}

#[test]
fn all_kinds_of_inodes_keep_their_attributes() {
    let (device, mut arena) = (volume(1_000), Arena::new(64, 128));
    let long = vec![b'x'; 4_000];
    with(&device, &mut arena, |system| {
        let root = system.root();
        for (name, kind) in [("f", FIFO), ("c", CHARACTER), ("b", BLOCK_DEVICE), ("s", SOCKET)] {
            let special = New { mode: kind | 0o4640, uid: 7, gid: 8, device: 0x8_0001, target: &[] };
            system.create(root, name.as_bytes(), &special).expect("room");
        }
        system.create(root, b"short", &New { mode: LINK | 0o777, target: b"to", ..New::default() }).expect("room");
        system.create(root, b"long", &New { mode: LINK | 0o777, target: &long, ..New::default() }).expect("room");
        let short = system.lookup(root, b"short").expect("made");
        system.set_owner(short, 3, 4).expect("writable");
        system.set_time(123_456_789_012);
        let device = system.lookup(root, b"c").expect("made");
        system.set_times(device, Some(-5), None).expect("writable");
        system.set_mode(device, 0o600).expect("writable");
    });
    with(&device, &mut arena, |system| {
        let root = system.root();
        let number = system.lookup(root, b"c").expect("made");
        let inode = system.attributes(number).expect("made");
        assert_eq!((inode.mode, inode.parent, inode.uid, inode.gid), (CHARACTER | 0o600, 0x8_0001, 7, 8));
        assert_eq!((inode.times[0], inode.times[2]), (-5, 123_456_789_012));
        let short = system.lookup(root, b"short").expect("made");
        assert_eq!(system.read_link(short), Ok(b"to".to_vec()));
        let number = system.lookup(root, b"long").expect("made");
        assert_eq!(system.read_link(number), Ok(long.clone()));
        let number = system.lookup(root, b"b").expect("made");
        system.set_mode(number, 0o6755).expect("writable");
        system.drop_set_id(number).expect("writable");
        assert_eq!(system.attributes(number).map(|inode| inode.mode), Ok(BLOCK_DEVICE | 0o755));
    });
    check(&device, &mut arena);
}

#[test]
fn renames_as_posix_has_them() {
    let (device, mut arena) = (volume(1_000), Arena::new(64, 128));
    with(&device, &mut arena, |system| {
        let root = system.root();
        let a = system.create(root, b"a", &new(DIRECTORY)).expect("room");
        let b = system.create(a, b"b", &new(DIRECTORY)).expect("room");
        let file = system.create(a, b"file", &new(FILE)).expect("room");
        let other = system.create(b, b"other", &new(FILE)).expect("room");
        assert_eq!(system.rename((root, b"a"), (b, b"a"), false), Err(Error::Invalid));
        assert_eq!(system.rename((root, b"a"), (a, b"a"), false), Err(Error::Invalid));
        assert_eq!(system.rename((a, b"file"), (a, b"b"), false), Err(Error::IsDirectory));
        assert_eq!(system.rename((a, b"b"), (a, b"file"), false), Err(Error::NotDirectory));
        let empty = system.create(root, b"empty", &new(DIRECTORY)).expect("room");
        assert_eq!(system.rename((root, b"empty"), (a, b"b"), false), Err(Error::NotEmpty));
        assert_eq!(system.rename((a, b"file"), (b, b"other"), true), Err(Error::Exists));
        assert_eq!(system.rename((a, b"file"), (b, b"other"), false), Ok(()));
        assert_eq!(system.lookup(b, b"other"), Ok(file));
        assert_eq!(system.lookup(a, b"file"), Err(Error::NotFound));
        system.sync().expect("it works");
        assert_eq!(system.attributes(other), Err(Error::Stale));
        assert_eq!(system.rename((a, b"b"), (root, b"empty"), false), Ok(()));
        assert_eq!(system.lookup(root, b"empty"), Ok(b));
        assert_eq!(system.parent(b), Ok(root));
        system.sync().expect("it works");
        assert_eq!(system.attributes(empty), Err(Error::Stale));
        system.link(file, root, b"twin").expect("room");
        assert_eq!(system.rename((root, b"twin"), (b, b"other"), false), Ok(()));
        assert_eq!(system.lookup(root, b"twin"), Ok(file));
        assert_eq!(system.attributes(file).map(|inode| inode.nlink), Ok(2));
    });
    check(&device, &mut arena);
}

#[test]
fn an_unlinked_open_file_lives_until_it_is_closed() {
    let (device, mut arena) = (volume(1_000), Arena::new(64, 128));
    with(&device, &mut arena, |system| {
        let root = system.root();
        let directory = system.create(root, b"d", &new(DIRECTORY)).expect("room");
        let file = system.create(directory, b"f", &new(FILE)).expect("room");
        system.open(file).expect("there");
        system.write(file, 0, &[5; 40_000]).expect("room");
        system.unlink(directory, b"f").expect("there");
        system.rmdir(root, b"d").expect("without entries");
        system.sync().expect("it works");
        let mut bytes = [0; 10];
        assert_eq!(system.read(file, 39_000, &mut bytes), Ok(10));
        assert_eq!(bytes, [5; 10]);
        system.close(file).expect("open");
        assert_eq!(system.attributes(file), Err(Error::Stale));
        assert_eq!(system.attributes(directory), Err(Error::Stale));
    });
    check(&device, &mut arena);
}

#[test]
fn a_listing_goes_on_while_names_come_and_go() {
    let (device, mut arena) = (volume(3_000), Arena::new(256, 128));
    with(&device, &mut arena, |system| {
        let root = system.root();
        for index in 0..600 {
            system.create(root, format!("name-{index}").as_bytes(), &new(FILE)).expect("room");
        }
        let (mut cookie, mut seen) = (0, Vec::new());
        for round in 0.. {
            let listed = system.list(root, cookie, 7).expect("a directory");
            let Some(last) = listed.last() else { break };
            cookie = last.cookie;
            for entry in &listed {
                assert_eq!(system.lookup(root, &entry.name), Ok(entry.number));
            }
            seen.extend(listed.into_iter().map(|entry| entry.name));
            system.create(root, format!("new-{round}").as_bytes(), &new(FILE)).expect("room");
            let gone = seen[seen.len() / 2].clone();
            let _ = system.unlink(root, &gone);
        }
        let mut old: Vec<_> = seen.iter().filter(|name| name.starts_with(b"name-")).collect();
        old.sort();
        let count = old.len();
        old.dedup();
        assert_eq!((old.len(), count), (600, 600));
    });
    check(&device, &mut arena);
}

#[test]
fn files_beyond_4_gib_have_holes_and_reserved_blocks() {
    let (device, mut arena) = (volume(2_000), Arena::new(64, 512));
    with(&device, &mut arena, |system| {
        let file = system.create(system.root(), b"f", &new(FILE)).expect("room");
        let far = 100 << 30;
        assert_eq!(system.write(file, far, b"end"), Ok(3));
        assert_eq!(system.write(file, 5 << 30, b"middle"), Ok(6));
        let mut bytes = [1; 9];
        assert_eq!(system.read(file, far - 6, &mut bytes), Ok(9));
        assert_eq!(&bytes, b"\0\0\0\0\0\0end");
        let before = system.attributes(file).expect("there").blocks;
        assert!(before < 12, "{before}");
        system.allocate(file, 1 << 20, 1 << 18, false).expect("room");
        assert_eq!(system.attributes(file).expect("there").blocks, before + 65);
        assert_eq!(system.read(file, 1 << 20, &mut bytes), Ok(9));
        assert_eq!(bytes, [0; 9]);
        system.write(file, (1 << 20) + 4_090, b"across the border").expect("room");
        assert_eq!(system.attributes(file).expect("there").blocks, before + 65);
        system.punch(file, 0, 6 << 30).expect("writable");
        assert_eq!(system.read(file, (1 << 20) + 4_090, &mut bytes), Ok(9));
        assert_eq!(bytes, [0; 9]);
        assert_eq!(system.read(file, far, &mut bytes), Ok(3));
        system.truncate(file, 10).expect("writable");
        assert_eq!(system.attributes(file).map(|inode| (inode.size, inode.blocks)), Ok((10, 0)));
        assert_eq!(system.write(file, cffs::file::MAX_SIZE, b"x"), Err(Error::FileTooLarge));
    });
    check(&device, &mut arena);
}

#[test]
fn what_is_no_volume_is_refused_and_left_alone() {
    let mut arena = Arena::new(64, 128);
    let refusal = |arena: &mut Arena, device: &Memory| arena.mount(device.clone(), HOW).err();
    assert_eq!(refusal(&mut arena, &Memory::new(1_000)), Some(Error::NotChitin));
    assert_eq!(refusal(&mut arena, &Memory::new(0)), Some(Error::NotChitin));
    let device = volume(1_000);
    assert_eq!(refusal(&mut arena, &device.with_size(900)), Some(Error::Truncated(1_000)));
    device.flip(0, 8 * 8 + 1);
    assert_eq!(refusal(&mut arena, &device), Some(Error::Foreign));
    device.flip(0, 8 * 8 + 1);
    device.flip(2, 99);
    assert_eq!(refusal(&mut arena, &device), Some(Error::Foreign));
}

/// Reads a file block by block, as the blocks' places say.
fn by_places(system: &mut support::System<'_>, device: &Memory, number: u64, expected: &[u8]) -> [usize; 3] {
    let mut kinds = [0; 3];
    let end = expected.len().div_ceil(4096) as u64;
    let (places, size) = system.places(number, 0, end + 3).expect("it is a file");
    assert_eq!((places.len() as u64, size), (end, expected.len() as u64), "as far as the file goes");
    for (index, place) in (0..).zip(places) {
        let mut bytes = [0; 4096];
        match place {
            Place::Hole => kinds[0] += 1,
            Place::Cached => {
                kinds[1] += 1;
                system.copy_block(number, index, &mut bytes).expect("it is cached");
            }
            Place::Device(block) => {
                kinds[2] += 1;
                device.clone().read(block, &mut bytes).expect("the device works");
            }
        }
        let part = &expected[index as usize * 4096..expected.len().min((index as usize + 1) * 4096)];
        assert!(bytes[..part.len()] == *part, "block {index} is {place:?}");
    }
    kinds
}

#[test]
fn the_places_of_blocks_lead_to_what_a_read_gives() {
    let (device, mut arena) = (volume(4_000), Arena::new(128, 256));
    let mut body: Vec<u8> = (0..600 * 4096 - 1000_u32).map(|index| (index / 7) as u8).collect();
    body[5 * 4096..9 * 4096].fill(0);
    body[300 * 4096..500 * 4096].fill(0);
    let mut number = 0;
    with(&device, &mut arena, |system| {
        number = system.create(system.root(), b"file", &new(FILE | 0o644)).expect("room");
        for part in [0..5 * 4096, 9 * 4096..300 * 4096, 500 * 4096..body.len()] {
            assert_eq!(system.write(number, part.start as u64, &body[part.clone()]), Ok(part.len()));
        }
        system.allocate(number, 300 * 4096, 10 * 4096, true).expect("room");
        let [holes, cached, _] = by_places(system, &device, number, &body);
        assert!(holes == 204 && cached > 0, "what was written last is in the cache alone");
    });
    with(&device, &mut arena, |system| {
        assert_eq!(by_places(system, &device, number, &body), [204, 0, 396], "after a mount all is on the device");
        body[70 * 4096 + 5] ^= 1;
        assert_eq!(system.write(number, 70 * 4096 + 5, &body[70 * 4096 + 5..][..1]), Ok(1));
        assert_eq!(by_places(system, &device, number, &body), [204, 1, 395], "a changed block is in the cache");
        assert_eq!(system.places(system.root(), 0, 1), Err(Error::IsDirectory));
    });
    check(&device, &mut arena);
}

#[test]
fn whole_blocks_go_straight_to_the_device() {
    let (device, mut arena) = (volume(4_000), Arena::new(128, 256));
    let mut body: Vec<u8> = (0..100 * 4096 + 10_u32).map(|index| (index / 5) as u8).collect();
    with(&device, &mut arena, |system| {
        let number = system.create(system.root(), b"file", &new(FILE | 0o600)).expect("room");
        assert_eq!(system.write(number, 0, &body), Ok(body.len()));
        assert_eq!(by_places(system, &device, number, &body), [0, 5, 96], "a few blocks go through the cache");
        body[30 * 4096..70 * 4096].fill(3);
        assert_eq!(system.write(number, 30 * 4096, &body[30 * 4096..70 * 4096]), Ok(40 * 4096));
        assert_eq!(by_places(system, &device, number, &body), [0, 5, 96], "the old blocks have the new bytes");
        body[50 * 4096] = 4;
        assert_eq!(system.write(number, 50 * 4096, &[4]), Ok(1));
        body[40 * 4096..60 * 4096].fill(5);
        assert_eq!(system.write(number, 40 * 4096, &body[40 * 4096..60 * 4096]), Ok(20 * 4096));
        assert_eq!(by_places(system, &device, number, &body), [0, 6, 95], "a block in the cache stays there");
    });
    with(&device, &mut arena, |system| {
        let number = system.lookup(system.root(), b"file").expect("it is there");
        assert_eq!(by_places(system, &device, number, &body), [0, 0, 101], "after a mount all is on the device");
    });
    check(&device, &mut arena);
}
