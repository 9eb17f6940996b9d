//! Crafted volumes: metadata that contradicts itself under right checksums. Each operation ends, with success or with
//! an error; an examination ends and reports what it sees.

mod support;

use cffs::arena::Arena;
use cffs::device::Overlay;
use cffs::examine::examine;
use cffs::extent::Place;
use cffs::layout::inode::{DIRECTORY, FILE, LINK};
use cffs::mount::Mount;
use cffs::name::New;
use std::time::{Duration, Instant};
use support::{HOW, Memory, Random, System, volume, with};
use xn::format::{BLOCK_SIZE, REGION_TABLE, SECTOR_SIZE, seal, verify};

const VOLUME: &[u8; 16] = b"a volume of test";
/// Far more than any case takes.
const PATIENCE: Duration = Duration::from_secs(60);

fn new(mode: u16) -> New<'static> {
    New { mode, ..New::default() }
}

/// Two levels of directories, small and large files, links, and a directory of several nodes.
fn fill(system: &mut System<'_>) {
    let root = system.root();
    let a = system.create(root, b"a", &new(DIRECTORY | 0o755)).expect("room");
    let b = system.create(a, b"b", &new(DIRECTORY | 0o755)).expect("room");
    for index in 0..120 {
        let file = system.create(b, format!("file-{index}").as_bytes(), &new(FILE | 0o644)).expect("room");
        if index % 7 == 0 {
            system.write(file, index * 100, b"content").expect("room");
        }
    }
    let large = system.create(root, b"large", &new(FILE | 0o644)).expect("room");
    system.write(large, 0, &[7; 60_000]).expect("room");
    system.write(large, 20 << 30, b"far").expect("room");
    system.link(large, a, b"twin").expect("room");
    let long = [b'x'; 300];
    system.create(a, b"long", &New { mode: LINK | 0o777, target: &long, ..New::default() }).expect("room");
    system.create(a, b"short", &New { mode: LINK | 0o777, target: b"b", ..New::default() }).expect("room");
    system.sync().expect("it works");
    system.rename((b, b"file-3"), (a, b"moved"), false).expect("there");
}

fn bases() -> [Memory; 2] {
    let (closed, open, mut arena) = (volume(900), volume(900), Arena::new(256, 128));
    with(&closed, &mut arena, fill);
    let (mut system, _) = arena.mount(open.clone(), HOW).expect("it mounts");
    fill(&mut system);
    system.fsync(system.root(), false).expect("it works");
    drop(system);
    [closed, open]
}

/// The catalogue, the free map, and the metadata of the trees: what has checksums.
fn metadata(device: &Memory) -> Vec<u64> {
    let mut bytes = [0; BLOCK_SIZE];
    let mut is_sealed = |block: &u64| {
        device.change(*block, |content| bytes = *content);
        verify(VOLUME, *block, &bytes).is_ok()
    };
    let written = device.written().into_iter().filter(|block| *block == 1 || *block > REGION_TABLE);
    written.filter(|block| is_sealed(block)).collect()
}

/// Spoils one metadata block, and seals it again. Gives the block.
fn spoil(device: &Memory, metadata: &[u64], random: &mut Random) -> u64 {
    let pick = |random: &mut Random| metadata[random.below(metadata.len() as u64) as usize];
    let (block, other) = (pick(random), pick(random));
    let word = random.below(BLOCK_SIZE as u64 / 4) as usize * 4;
    let value = match random.below(5) {
        0 => random.next(),
        1 => other,
        2 => other << 5 | random.below(32),
        3 => 0,
        _ => u64::MAX,
    };
    let kind = random.below(4);
    let (from, to) = (random.below(8) as usize * SECTOR_SIZE, random.below(8) as usize * SECTOR_SIZE);
    let mut sector = [0; SECTOR_SIZE];
    device.change(other, |bytes| sector.copy_from_slice(&bytes[from..from + SECTOR_SIZE]));
    device.change(block, |bytes| {
        match kind {
            0 => bytes[word] ^= 1 << (value % 8),
            1 => bytes[word] = value as u8,
            2 => bytes[word.min(BLOCK_SIZE - 8)..][..8].copy_from_slice(&value.to_le_bytes()),
            _ => bytes[to..to + SECTOR_SIZE].copy_from_slice(&sector),
        }
        seal(VOLUME, block, bytes);
    });
    block
}

/// Every operation on what is found, within bounds.
fn use_all(system: &mut System<'_>) {
    let mut pending = vec![system.root()];
    let (mut visited, mut bytes) = (0, vec![0; 20_000]);
    while let Some(directory) = pending.pop() {
        let mut cookie = 0;
        while let Ok(listed) = system.list(directory, cookie, 16) {
            let Some(last) = listed.last() else { break };
            cookie = last.cookie;
            for entry in &listed {
                visited += 1;
                let _ = (system.lookup(directory, &entry.name), system.read_link(entry.number));
                let Ok(inode) = system.attributes(entry.number) else { continue };
                if inode.is_directory() {
                    pending.push(entry.number);
                }
                let _ = (system.read(entry.number, 0, &mut bytes), system.read(entry.number, 20 << 30, &mut bytes));
                for place in system.places(entry.number, 0, 40).map_or(Vec::new(), |(places, _)| places) {
                    let Place::Device(block) = place else { continue };
                    assert!((REGION_TABLE + 1..900).contains(&block), "a place outside of what files own");
                }
                let data = system.next_data(entry.number, 0);
                let _ = (data, system.next_hole(entry.number, 0));
            }
            if visited > 400 {
                return;
            }
        }
    }
}

fn change_all(system: &mut System<'_>) {
    let root = system.root();
    let a = system.lookup(root, b"a").unwrap_or(root);
    let b = system.lookup(a, b"b").unwrap_or(root);
    let large = system.lookup(root, b"large").unwrap_or(root);
    let _ = system.create(b, b"new", &new(FILE | 0o600)).and_then(|file| system.write(file, 5_000, &[1; 30_000]));
    let _ = system.write(large, 70_000, &[3; 5_000]);
    let _ = system.punch(large, 4_000, 30_000);
    let _ = system.allocate(large, 1 << 20, 20_000, false);
    let _ = system.rename((b, b"file-5"), (root, b"here"), false);
    let _ = system.rename((b, b"file-6"), (b, b"file-7"), false);
    let _ = system.rename((root, b"a"), (b, b"below"), false);
    let _ = (system.link(large, b, b"third"), system.unlink(a, b"twin"), system.unlink(a, b"long"));
    let _ = (system.truncate(large, 5_000), system.set_mode(a, 0o700), system.unlink(root, b"large"));
    for index in 0..120 {
        let _ = system.unlink(b, format!("file-{index}").as_bytes());
    }
    let _ = (system.rmdir(a, b"b"), system.rmdir(root, b"a"), system.sync(), system.space());
}

/// Tries one spoiled volume in every way. Gives whether the examination saw something.
fn try_one(device: &Memory, arena: &mut Arena) -> bool {
    let mut examined = device.clone();
    let seen = examine(&mut examined).map_or(true, |found| !found.damages.is_empty());
    for read_only in [true, false] {
        let mut overlay = Overlay::new(device.clone());
        let _ = arena.check(&mut overlay, HOW);
        let copy = device.copy();
        if let Ok((mut system, _)) = arena.mount(copy, Mount { read_only, ..HOW }) {
            use_all(&mut system);
            if !read_only {
                change_all(&mut system);
                use_all(&mut system);
            }
            let _ = system.unmount();
        }
    }
    seen
}

#[test]
fn fault_71_crafted_volumes_end_every_operation() {
    let full = std::env::var("CHITIN_FULL").is_ok_and(|full| full == "1");
    let rounds = if full { 1_000_000 } else { 2_000 };
    let from = std::env::var("CHITIN_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let (bases, mut arena) = (bases(), Arena::new(128, 128));
    let mut clean = examine(&mut bases[0].clone()).expect("a volume");
    assert!(clean.damages.is_empty() && clean.closed, "{:?}", clean.damages);
    clean = examine(&mut bases[1].clone()).expect("a volume");
    assert!(clean.damages.is_empty() && !clean.closed, "{:?}", clean.damages);
    let mut seen = 0;
    for seed in from..from + rounds {
        let mut random = Random(seed);
        let device = bases[random.below(2) as usize].copy();
        let metadata = metadata(&device);
        for _ in 0..1 + random.below(3) {
            spoil(&device, &metadata, &mut random);
        }
        let begin = Instant::now();
        let verdict = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| try_one(&device, &mut arena)));
        assert!(begin.elapsed() < PATIENCE, "seed {seed} took {:?}", begin.elapsed());
        seen += u64::from(verdict.unwrap_or_else(|_| panic!("CHITIN_SEED={seed}")));
    }
    println!("{rounds} crafted volumes, {seen} of them reported by an examination");
    assert!(seen * 4 > rounds, "{seen}");
}
