//! The owns programs as BPF and as Rust say the same of every sector, and of no zeroed one anything.

mod support;

use cffs::arena::Arena;
use cffs::error::Error;
use cffs::mount;
use cffs::name::New;
use cffs::template::{
    COUNT, DATA, Guard, INDIRECT, NODE, Native, ROOT, access_program, encode_guarded, owns_program, record,
};
use downloaded_code::program::Program;
use downloaded_code::verifier::{Verifier, storage_bound};
use support::Random;
use xn::access::{Caller, Operation};
use xn::claim::Claims;
use xn::error::Result;
use xn::format::CONTENT;
use xn::program::{ACCESS, OWNS, run_access, run_owns};
use xn::template::{AccessStep, MAX_OWNS, Programs};

/// What a transaction may take by the kernel's prices (`kernel/exokernel/src/cost.rs`). They are for a run of a
/// program, its instructions, the run of the access program, and a block.
const MOST: u64 = 15_000;

fn run_of(worst: u64) -> u64 {
    800 + worst * 3 / 2
}

fn program(bytes: &[u8]) -> Program<'_> {
    Program::new(bytes).expect("whole slots")
}

fn both(slot: u8, content: &[u8; CONTENT]) -> [Option<Vec<(u64, u8)>>; 2] {
    let list = |run: &dyn Fn(&mut Claims) -> Result<()>| {
        let mut claims = Claims::default();
        run(&mut claims).ok()?;
        Some(claims.ranges().iter().map(|claim| (claim.first, claim.template)).collect())
    };
    let bpf = list(&|claims| run_owns(program(owns_program(slot)), slot, content, claims));
    [list(&|claims| Native.owns(slot, content, claims)), bpf]
}

#[test]
fn the_programs_are_accepted() {
    let mut worst = [0; COUNT];
    for slot in [ROOT, NODE, INDIRECT] {
        let mut words = vec![0; storage_bound(program(owns_program(slot)).slots())];
        let verdict = Verifier::run(program(owns_program(slot)), &OWNS, &mut words).expect("owns is accepted");
        worst[usize::from(slot)] = verdict.worst_case.unwrap_or(OWNS.budget);
        assert!(owns_program(slot).len() <= MAX_OWNS);
        let mut words = vec![0; storage_bound(program(access_program(slot)).slots())];
        Verifier::run(program(access_program(slot)), &ACCESS, &mut words).expect("access is accepted");
    }
    let [root, node, indirect, _] = worst;
    // Four sectors of nodes, as a rename changes; one of a node and one of an indirect block, with 16 freed blocks.
    assert!(root <= node && 2_400 + 8 * run_of(node) <= MOST, "{worst:?}");
    assert!(2_400 + 2 * run_of(node) + 2 * run_of(indirect) + 16 * 260 <= MOST, "{worst:?}");
    assert_eq!((0..COUNT as u8).map(record).filter(|record| record.owns_size > 0).count(), 3);
    assert_eq!(owns_program(DATA), &[] as &[u8]);
}

/// Holders of *own* on all disks alone may use a volume in the kernel, whatever the operation.
#[test]
fn fault_97_access_programs_permit_the_holder_of_all_disks_alone() {
    let all = 7 << 8;
    let cases = [
        ([all, 0, 0, 0], true),
        ([all | 1, 2, 0, 0], true),
        ([all | 2, 2, 2, 0], true),
        ([4 << 8 | 2, 2, 2, 0], true),
        // Without *own*; another kind of device; one disk; names of users that begin alike.
        ([3 << 8, 0, 0, 0], false),
        ([3 << 8 | 2, 2, 2, 0], false),
        ([all | 2, 2, 3, 0], false),
        ([all | 3, 2, 2, 0], false),
        ([all | 1, 3, 0, 0], false),
        ([all | 2, 3, 2, 0], false),
        ([all | 7, 2, 2, 2], false),
        ([all | 255, 2, 2, 2], false),
    ];
    for (credentials, permitted) in cases {
        for operation in [Operation::Modify, Operation::Read, Operation::Write] {
            let request = Caller { credentials, clock: 9 }.request(operation, 1);
            let step = AccessStep { request: &request, old: &[], new: &[], block: &[0; 4096] };
            for slot in [ROOT, NODE, INDIRECT] {
                let mut budget = ACCESS.budget;
                let outcome = run_access(program(access_program(slot)), &step, &mut [0; 512], &mut budget);
                assert_eq!(outcome, permitted, "{credentials:?}");
                assert!(budget < ACCESS.budget && budget > ACCESS.budget - 20);
            }
        }
    }
    assert_eq!((abi::capability::DEVICE, abi::device::kind::DISK), (2, 2));
    assert_eq!(abi::capability::Rights::OWN.0, 4);
}

/// A sector that looks like one: kinds, bitmap and pointers are likely ones.
fn sector(random: &mut Random) -> [u8; CONTENT] {
    let mut content = [0; CONTENT];
    if random.below(4) == 0 {
        content.iter_mut().for_each(|byte| *byte = random.next() as u8);
    }
    content[9] = random.below(8) as u8;
    content[12] = random.below(3) as u8;
    content[502] = random.below(4) as u8;
    for slot in 0..3 {
        let at = CONTENT - 128 * (slot + 1);
        let mode = [0o040_755_u16, 0o100_644, 0o120_777, 0o010_600][random.below(4) as usize];
        content[at..at + 2].copy_from_slice(&mode.to_le_bytes());
        content[at + 16..at + 24].copy_from_slice(&random.below(90).to_le_bytes());
    }
    for _ in 0..random.below(40) {
        let flag = random.below(3) / 2 << 63;
        let bits = random.below(41);
        let pointer = (random.below(1 << bits) | flag).to_le_bytes();
        let places = [8 * random.below(62) as usize, CONTENT - 128 + 72 + 8 * random.below(7) as usize, 32];
        let at = places[random.below(3) as usize];
        content[at..at + 8].copy_from_slice(&pointer);
    }
    content
}

#[test]
fn bpf_and_rust_own_the_same() {
    let (mut random, mut owned) = (Random(7), 0);
    for _ in 0..100_000 {
        let content = sector(&mut random);
        for slot in [ROOT, NODE, INDIRECT] {
            let [rust, bpf] = both(slot, &content);
            assert_eq!(rust, bpf, "template {slot}: {content:?}");
            owned += rust.map_or(0, |list| list.len());
        }
    }
    assert!(owned > 100_000, "{owned}");
}

#[test]
fn the_fullest_sectors_fit_the_budget() {
    for level in 1..4 {
        let mut content = [0; CONTENT];
        (0..62_usize)
            .for_each(|index| content[8 * index..8 * index + 8].copy_from_slice(&(700 + index as u64).to_le_bytes()));
        content[502] = level;
        let [rust, bpf] = both(INDIRECT, &content);
        assert_eq!((rust.as_ref().map(Vec::len), rust), (Some(62), bpf));
    }
    for slot in [ROOT, NODE, INDIRECT] {
        assert_eq!(both(slot, &[0; CONTENT]), [Some(Vec::new()), Some(Vec::new())]);
    }
}

/// A volume of before, whose access programs permit everything, is mounted as it was, and is known for one.
#[test]
fn volumes_of_before_are_read() {
    let (mut device, mut arena) = (support::volume(2_000), Arena::new(64, 128));
    assert_eq!(mount::guard(&mut device), Ok(Guard::Own));
    let mut bytes = [0; 4096];
    for slot in 0..COUNT as u8 {
        for index in 0..4 {
            let block = encode_guarded(b"a volume of test", slot, Guard::All, index, &mut bytes);
            device.change(block, |cell| *cell = bytes);
        }
    }
    assert_eq!(mount::guard(&mut device), Ok(Guard::All));
    support::with(&device, &mut arena, |system| {
        let root = system.root();
        let new = New { mode: 0o100_644, uid: 0, gid: 0, device: 0, target: &[] };
        let file = system.create(root, b"a file", &new).expect("there is room");
        assert_eq!(system.write(file, 0, b"of before"), Ok(9));
    });
    support::check(&device, &mut arena);
    device.change(6, |cell| cell[600] ^= 1);
    assert_eq!(mount::guard(&mut device).err(), Some(Error::Foreign));
}
