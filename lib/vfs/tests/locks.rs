//! Locks on files, against a naive model that knows the owner of each byte, and the cases of fcntl(2) and flock(2).

use linux_abi::errno::Errno;
use std::collections::BTreeMap;
use vfs::file_lock::{Lock, Locks, Owner};

const NODE: u64 = 7;

fn lock(owner: Owner, exclusive: bool, start: u64, last: u64) -> Lock {
    Lock { owner, exclusive, start, last, taker: 5 }
}

#[test]
fn readers_share_and_writers_do_not() {
    let mut locks = Locks::default();
    let (a, b) = (Owner::Process(1), Owner::Process(2));
    locks.set(NODE, lock(a, false, 0, 9)).unwrap();
    locks.set(NODE, lock(b, false, 5, 14)).unwrap();
    let conflict = locks.set(NODE, lock(a, true, 0, 20)).unwrap_err();
    assert_eq!((conflict.owner, conflict.start, conflict.last), (b, 5, 14));
    assert!(locks.clear(NODE, b, 0, u64::MAX));
    locks.set(NODE, lock(a, true, 0, 20)).unwrap();
    assert_eq!(locks.count(), 1);
    assert!(locks.conflict(NODE, &lock(b, false, 20, 20)).is_some());
    assert!(locks.conflict(NODE, &lock(b, false, 21, 21)).is_none());
}

#[test]
fn whole_locks_meet_only_each_other() {
    let mut locks = Locks::default();
    locks.set(NODE, lock(Owner::Whole(1), true, 0, u64::MAX)).unwrap();
    locks.set(NODE, lock(Owner::Process(9), true, 0, 5)).unwrap();
    assert!(locks.set(NODE, lock(Owner::Description(1), true, 5, 5)).is_err());
    assert!(locks.set(NODE, lock(Owner::Whole(2), false, 0, u64::MAX)).is_err());
}

#[test]
fn unlocking_in_the_middle_leaves_both_ends() {
    let mut locks = Locks::default();
    let (a, b) = (Owner::Process(1), Owner::Process(2));
    locks.set(NODE, lock(a, true, 0, u64::MAX)).unwrap();
    assert!(locks.clear(NODE, a, 10, 19));
    assert_eq!(locks.count(), 2);
    locks.set(NODE, lock(b, true, 10, 19)).unwrap();
    assert!(locks.set(NODE, lock(b, true, 10, 20)).is_err());
    assert!(locks.forget(a) && !locks.forget(a));
    locks.set(NODE, lock(b, true, 20, 30)).unwrap();
    assert_eq!(locks.count(), 1, "neighbours are one");
}

#[test]
fn who_would_wait_for_himself_is_told() {
    let mut locks = Locks::default();
    let owners = [1, 2, 3].map(Owner::Process);
    for (place, owner) in owners.iter().enumerate() {
        locks.set(NODE, lock(*owner, true, place as u64, place as u64)).unwrap();
    }
    assert_eq!(locks.wait(NODE, lock(owners[0], true, 1, 1)), Ok(()));
    assert_eq!(locks.wait(NODE, lock(owners[1], true, 2, 2)), Ok(()));
    assert_eq!(locks.wait(NODE, lock(owners[2], true, 0, 0)), Err(Errno::EDEADLK));
    locks.stop_waiting(owners[0]);
    assert_eq!(locks.wait(NODE, lock(owners[2], true, 0, 0)), Ok(()));
}

/// Holders of each byte, and whether they are exclusive; exclusive holders are alone.
type Model = BTreeMap<u64, Vec<(u64, bool)>>;

fn model_set(model: &mut Model, owner: u64, exclusive: bool, range: std::ops::RangeInclusive<u64>) -> bool {
    let free = |holders: &Vec<(u64, bool)>| holders.iter().all(|(other, e)| *other == owner || !(*e || exclusive));
    if !range.clone().all(|byte| model.get(&byte).is_none_or(free)) {
        return false;
    }
    for byte in range {
        let holders = model.entry(byte).or_default();
        holders.retain(|(other, _)| *other != owner);
        holders.push((owner, exclusive));
    }
    true
}

#[test]
fn random_locks_are_those_of_the_model() {
    let seed = std::env::var("CHITIN_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_261_122);
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 0..200 {
        let (mut locks, mut model) = (Locks::default(), Model::new());
        for step in 0..100 {
            let owner = random.u64(1..4);
            let (start, length) = (random.u64(0..20), random.u64(0..8));
            let range = start..=start + length;
            if random.u8(0..3) == 0 {
                locks.clear(NODE, Owner::Process(owner), start, start + length);
                range.for_each(|byte| model.entry(byte).or_default().retain(|(other, _)| *other != owner));
                continue;
            }
            let exclusive = random.bool();
            let taken = locks.set(NODE, lock(Owner::Process(owner), exclusive, start, start + length)).is_ok();
            let expected = model_set(&mut model, owner, exclusive, range);
            assert_eq!(taken, expected, "seed {seed}, round {round}, step {step}");
        }
    }
}

#[test]
fn lines_tell_who_holds_and_who_waits() {
    let mut locks = Locks::default();
    locks.set(NODE, lock(Owner::Process(5), false, 3, 9)).unwrap();
    locks.set(NODE, lock(Owner::Whole(1), true, 0, u64::MAX)).unwrap();
    locks.set(8, lock(Owner::Description(2), true, 0, i64::MAX as u64)).unwrap();
    locks.wait(NODE, lock(Owner::Whole(3), false, 0, u64::MAX)).unwrap();
    let lines = locks.lines(|node| if node == NODE { 1 } else { 18 });
    let expected = [
        "1: POSIX  ADVISORY  READ 5 00:01:7 3 9\n",
        "2: FLOCK  ADVISORY  WRITE 5 00:01:7 0 EOF\n",
        "2: -> FLOCK  ADVISORY  READ 5 00:01:7 0 EOF\n",
        "3: OFDLCK ADVISORY  WRITE -1 00:12:8 0 EOF\n",
    ];
    assert_eq!(lines, expected);
}
