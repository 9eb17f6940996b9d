//! Errors of the device at every transfer of ten workloads, failed flushes, and a full volume. After each, the volume
//! recovers without damage, and what an fsync acknowledged is there.

mod support;

use cffs::arena::Arena;
use cffs::error::{Error, Result};
use cffs::examine::examine;
use cffs::layout::Number;
use cffs::layout::inode::{DIRECTORY, FILE, LINK};
use cffs::name::New;
use support::{HOW, Memory, System, check, volume, with};

type Workload = fn(&mut System<'_>) -> Result<()>;

fn new(mode: u16) -> New<'static> {
    New { mode, ..New::default() }
}

fn make(system: &mut System<'_>, name: &[u8], bytes: &[u8]) -> Result<Number> {
    let file = system.create(system.root(), name, &new(FILE | 0o600))?;
    write(system, file, 0, bytes)?;
    Ok(file)
}

/// Writes all; a shorter write is an error as write(2) and a second try have it.
fn write(system: &mut System<'_>, file: Number, at: u64, bytes: &[u8]) -> Result<()> {
    let done = system.write(file, at, bytes)?;
    if done < bytes.len() { write(system, file, at + done as u64, &bytes[done..]) } else { Ok(()) }
}

fn create_many(system: &mut System<'_>) -> Result<()> {
    (0..60).try_for_each(|index| make(system, format!("new-{index}").as_bytes(), b"text").map(|_| ()))
}

fn large_file(system: &mut System<'_>) -> Result<()> {
    make(system, b"new", &[5; 300_000]).and_then(|file| system.fsync(file, false))
}

fn append(system: &mut System<'_>) -> Result<()> {
    let file = system.lookup(system.root(), b"old")?;
    (0..20).try_for_each(|index| {
        write(system, file, 9_000 + 700 * index, &[6; 700])?;
        system.fsync(file, index % 2 == 0)
    })
}

fn overwrite(system: &mut System<'_>) -> Result<()> {
    let file = system.lookup(system.root(), b"old")?;
    write(system, file, 100, &[7; 5_000])?;
    system.fsync(file, true)
}

fn renames(system: &mut System<'_>) -> Result<()> {
    let root = system.root();
    let directory = system.create(root, b"dir", &new(DIRECTORY | 0o700))?;
    system.rename((root, b"old"), (directory, b"new"), false)?;
    make(system, b"temporary", b"second")?;
    system.rename((root, b"temporary"), (directory, b"new"), false)?;
    system.sync()
}

fn links(system: &mut System<'_>) -> Result<()> {
    let root = system.root();
    let file = system.lookup(root, b"old")?;
    system.link(file, root, b"twin")?;
    system.unlink(root, b"old")?;
    system.create(root, b"link", &New { mode: LINK | 0o777, target: &[b'y'; 200], ..New::default() })?;
    system.fsync(file, false)
}

fn unlink_large(system: &mut System<'_>) -> Result<()> {
    make(system, b"new", &[5; 300_000])?;
    system.sync()?;
    system.unlink(system.root(), b"new")?;
    system.sync()
}

fn truncate(system: &mut System<'_>) -> Result<()> {
    let file = system.lookup(system.root(), b"old")?;
    system.truncate(file, 1_000)?;
    system.fsync(file, false)?;
    system.truncate(file, 40_000)?;
    system.fsync(file, false)
}

fn reserve(system: &mut System<'_>) -> Result<()> {
    let file = system.lookup(system.root(), b"old")?;
    system.allocate(file, 20_000, 100_000, false)?;
    write(system, file, 30_000, &[8; 20_000])?;
    system.punch(file, 25_000, 10_000)?;
    system.fsync(file, false)
}

fn directories(system: &mut System<'_>) -> Result<()> {
    let mut at = system.root();
    for _ in 0..6 {
        at = system.create(at, b"below", &new(DIRECTORY | 0o700))?;
        system.fsync(at, false)?;
    }
    let above = system.parent(at)?;
    system.rmdir(above, b"below")?;
    system.sync()
}

const WORKLOADS: [(&str, Workload); 10] = [
    ("create", create_many),
    ("large file", large_file),
    ("append", append),
    ("overwrite", overwrite),
    ("rename", renames),
    ("link", links),
    ("unlink", unlink_large),
    ("truncate", truncate),
    ("reserve", reserve),
    ("directories", directories),
];

fn base(blocks: u64) -> (Memory, Arena) {
    let (device, mut arena) = (volume(blocks), Arena::new(64, 128));
    with(&device, &mut arena, |system| {
        make(system, b"old", &[3; 9_000]).expect("room");
        make(system, b"kept", &[4; 30_000]).expect("room");
    });
    (device, arena)
}

/// A mount repairs what there is; then nothing is damaged, and the file that nothing touched is whole.
fn recovers(device: &Memory, arena: &mut Arena, what: &str) {
    let (mut system, _) = arena.mount(device.clone(), HOW).unwrap_or_else(|error| panic!("{what}: {error:?}"));
    let kept = system.lookup(system.root(), b"kept").unwrap_or_else(|error| panic!("{what}: {error:?}"));
    let mut bytes = vec![0; 30_001];
    assert_eq!(system.read(kept, 0, &mut bytes), Ok(30_000), "{what}");
    assert!(bytes[..30_000].iter().all(|byte| *byte == 4), "{what}");
    let file = make(&mut system, b"later", &[9; 10_000]).unwrap_or_else(|error| panic!("{what}: {error:?}"));
    assert_eq!(system.fsync(file, false), Ok(()), "{what}");
    system.unmount().unwrap_or_else(|error| panic!("{what}: {error:?}"));
    let found = examine(&mut device.clone()).expect("a volume");
    assert!(found.damages.is_empty(), "{what}: {:?}", found.damages);
    check(device, arena);
}

/// Runs a workload with a fault; whether some call reported an error.
fn run(device: &Memory, arena: &mut Arena, workload: Workload, fault: Option<(u64, bool)>) -> bool {
    let Ok((mut system, _)) = arena.mount(device.clone(), HOW) else { return true };
    *device.fault.borrow_mut() = fault;
    let told = workload(&mut system).is_err();
    let closed = system.unmount().is_ok();
    *device.fault.borrow_mut() = None;
    told || !closed
}

#[test]
fn fault_73_each_failed_transfer_is_reported_and_recovered() {
    for (name, workload) in WORKLOADS {
        for forever in [false, true] {
            let mut reached = false;
            for at in 0.. {
                let (device, mut arena) = base(600);
                let what = format!("{name}, transfer {at}, forever {forever}");
                let (mut system, _) = arena.mount(device.clone(), HOW).expect("it mounts");
                *device.fault.borrow_mut() = Some((at, forever));
                let verdict = workload(&mut system).and_then(|()| system.sync());
                let failed = device.failures.get() > 0;
                *device.fault.borrow_mut() = None;
                reached |= failed;
                if !failed {
                    assert_eq!(verdict, Ok(()), "{what}");
                    break;
                }
                // No caller is told that its data is durable while the device has failed.
                if forever {
                    assert!(verdict.is_err(), "{what}");
                }
                drop(system);
                recovers(&device, &mut arena, &what);
            }
            assert!(reached, "{name}");
        }
    }
}

#[test]
fn fault_73_a_failed_write_leaves_the_page_dirty() {
    let (device, mut arena) = base(600);
    let (mut system, _) = arena.mount(device.clone(), HOW).expect("it mounts");
    let file = system.lookup(system.root(), b"old").expect("made");
    write(&mut system, file, 0, &[11; 4_096]).expect("cached");
    *device.fault.borrow_mut() = Some((0, false));
    assert_eq!(system.fsync(file, false), Err(Error::Io));
    assert!(device.fault.borrow().is_none(), "the write failed");
    // What failed is written again, not forgotten.
    assert_eq!(system.fsync(file, false), Ok(()));
    let after = system.into_device();
    let (mut system, _) = arena.mount(after, HOW).expect("it recovers");
    let mut bytes = [0; 4_096];
    assert_eq!(system.read(file, 0, &mut bytes), Ok(4_096));
    assert_eq!(bytes, [11; 4_096]);
}

#[test]
fn fault_74_after_a_failed_flush_every_fsync_fails() {
    let (device, mut arena) = base(600);
    let (mut system, _) = arena.mount(device.clone(), HOW).expect("it mounts");
    let root = system.root();
    let (old, kept) = (system.lookup(root, b"old").expect("made"), system.lookup(root, b"kept").expect("made"));
    write(&mut system, old, 0, &[12; 100]).expect("cached");
    write(&mut system, kept, 0, &[4; 100]).expect("cached");
    device.flush_fault.set(true);
    assert_eq!(system.fsync(old, true), Err(Error::Io));
    device.flush_fault.set(false);
    // The writes before it may be lost, of every file: no later flush makes up for it.
    for file in [old, kept, old] {
        assert!(system.fsync(file, false).is_err());
    }
    assert!(system.sync().is_err());
    assert!(system.unmount().is_err());
    recovers(&device, &mut arena, "failed flush");
}

#[test]
fn fault_72_a_full_volume_refuses_and_stays_sound() {
    for (name, workload) in WORKLOADS {
        for free in 0..24 {
            let (device, mut arena) = base(420);
            let what = format!("{name}, {free} free blocks");
            with(&device, &mut arena, |system| {
                let filler = make(system, b"filler", b"").expect("room");
                system.sync().expect("it works");
                let (_, left) = system.space().expect("readable");
                // The filler's own indirect blocks come on top.
                for block in 0..left.saturating_sub(free + 2) {
                    if write(system, filler, block * 4_096, &[1; 4_096]).is_err() {
                        break;
                    }
                }
                system.sync().expect("it works");
            });
            let told = run(&device, &mut arena, workload, None);
            recover_full(&device, &mut arena, &what);
            assert!(told || free > 0 || matches!(name, "overwrite" | "truncate" | "link" | "append"), "{what}");
        }
    }
}

/// A full volume is sound, and deletion works.
fn recover_full(device: &Memory, arena: &mut Arena, what: &str) {
    let (mut system, repairs) = arena.mount(device.clone(), HOW).unwrap_or_else(|error| panic!("{what}: {error:?}"));
    assert!(repairs.is_none(), "{what}: {repairs:?}");
    system.unlink(system.root(), b"filler").unwrap_or_else(|error| panic!("{what}: {error:?}"));
    system.unmount().unwrap_or_else(|error| panic!("{what}: {error:?}"));
    let found = examine(&mut device.clone()).expect("a volume");
    assert!(found.damages.is_empty(), "{what}: {:?}", found.damages);
    recovers(device, arena, what);
}
