//! System V objects and POSIX queues: numbers and permissions, changes that happen together, what is undone, which
//! message comes next.

use linux_abi::errno::Errno;
use unix_core::ipc::id_table::{CREATE, EXCLUSIVE, PRIVATE, Table, access};
use unix_core::ipc::posix_mq::{Opening, Queues};
use unix_core::ipc::shared_futex::{SharedFutexes, Waiter};
use unix_core::ipc::sysv_msg::{EXCEPT, Message, Queue};
use unix_core::ipc::sysv_sem::{Change, HIGHEST, NO_WAIT, Set, UNDO};
use vfs::namespace::FsCredentials;

const ROOT: FsCredentials = FsCredentials::new(0, 0);
const USER: FsCredentials = FsCredentials::new(7, 7);
const MATE: FsCredentials = FsCredentials::new(8, 7);
const OTHER: FsCredentials = FsCredentials::new(9, 9);

#[test]
fn a_number_names_one_object_for_ever() {
    let mut table = Table::default();
    let fits = |_: &u32| Ok(());
    let mut make = |key, value| table.get((key, CREATE | 0o640), USER, fits, || Ok(value)).expect("there is room");
    let [first, second] = [make(PRIVATE, 1), make(PRIVATE, 2)];
    assert_ne!(first, second);
    assert_eq!(table.remove(first), Ok(1));
    let third = table.get((5, CREATE | EXCLUSIVE | 0o640), USER, fits, || Ok(3)).expect("the place is free");
    assert_ne!(third, first);
    assert_eq!(table.find(first).map(|entry| entry.value), Err(Errno::EINVAL));
    assert_eq!(table.get((5, CREATE), USER, fits, || Ok(9)), Ok(third));
    assert_eq!(table.get((5, CREATE | EXCLUSIVE), USER, fits, || Ok(9)), Err(Errno::EEXIST));
    assert_eq!(table.get((6, 0), USER, fits, || Ok(9)), Err(Errno::ENOENT));
    assert_eq!(table.get((5, 0o4), OTHER, fits, || Ok(9)), Err(Errno::EACCES));
    let permission = table.find(third).expect("it is there").permission;
    assert_eq!(permission.check(MATE, access::READ), Ok(()));
    assert_eq!(permission.check(MATE, access::WRITE), Err(Errno::EACCES));
    assert_eq!(permission.check(OTHER, access::READ), Err(Errno::EACCES));
    assert_eq!((permission.check_owner(MATE), permission.check_owner(ROOT)), (Err(Errno::EPERM), Ok(())));
}

fn waiter(thread: u64, principal: u64, word: u64, bits: u32) -> Waiter {
    Waiter { thread, principal, word, bits, home: 0 }
}

/// Those who are woken, of whom `dead` does not live any more, and how many it is said to be.
fn woken(
    futexes: &mut SharedFutexes,
    (principal, word): (u64, u64),
    most: u64,
    bits: u32,
    dead: u64,
) -> (Vec<u64>, u64) {
    let mut woken = Vec::new();
    let count = futexes.wake(principal, word, most, bits, |waiter| {
        woken.extend(Some(waiter.thread).filter(|thread| *thread != dead));
        waiter.thread != dead
    });
    (woken, count)
}

#[test]
fn words_wake_who_came_first_and_nobody_twice() {
    let mut futexes = SharedFutexes::default();
    (1..=5).for_each(|thread| futexes.enter(waiter(thread, 0, 100, 1 << (thread % 2)), |_| true));
    assert_eq!(woken(&mut futexes, (0, 100), 1, u32::MAX, 0), (vec![1], 1));
    assert_eq!(woken(&mut futexes, (0, 100), 9, 1, 0), (vec![2, 4], 2));
    assert_eq!(woken(&mut futexes, (0, 200), 9, u32::MAX, 0), (vec![], 0));
    assert!(!futexes.waits(4) && futexes.waits(3));
    assert_eq!((futexes.requeue(0, 100, 200, 1), futexes.requeue(0, 100, 200, 0)), (1, 0));
    futexes.enter(waiter(6, 0, 200, 1), |_| true);
    assert_eq!(woken(&mut futexes, (0, 100), 9, u32::MAX, 0), (vec![5], 1));
    assert_eq!(woken(&mut futexes, (0, 200), 1, u32::MAX, 0), (vec![3], 1));
    assert_eq!([3, 5, 6, 6].map(|thread| futexes.leave(thread)), [false, false, true, false]);
}

#[test]
fn the_dead_take_no_wake() {
    let mut futexes = SharedFutexes::default();
    (1..=3).for_each(|thread| futexes.enter(waiter(thread, 0, 100, 1), |_| true));
    assert_eq!(woken(&mut futexes, (0, 100), 1, 1, 1), (vec![2], 1));
    futexes.enter(waiter(8, 0, 100, 1), |_| true);
    futexes.enter(waiter(8, 0, 300, 1), |thread| thread != 3);
    assert_eq!(woken(&mut futexes, (0, 100), 9, 1, 0), (vec![], 0));
    assert_eq!([3, 8].map(|thread| futexes.waits(thread)), [false, true]);
}

#[test]
fn fault_86_strangers_take_no_wake_of_a_shared_word_and_strand_nobody() {
    const STRANGER: u64 = 7;
    const OWN: u64 = 8;
    let mut futexes = SharedFutexes::default();
    futexes.enter(waiter(1, STRANGER, 100, 1), |_| true);
    (2..=4).for_each(|thread| futexes.enter(waiter(thread, OWN, 100, 1), |_| true));
    // The stranger came first, and is woken together with the one that is meant.
    assert_eq!(woken(&mut futexes, (OWN, 100), 1, 1, 0), (vec![1, 2], 1));
    assert_eq!(futexes.requeue(STRANGER, 100, 999, 9), 0);
    assert_eq!(woken(&mut futexes, (STRANGER, 100), 0, 1, 0), (vec![], 0));
    // What the stranger wakes looks again, as futex(2) wants.
    assert_eq!(woken(&mut futexes, (STRANGER, 100), 1, 1, 0), (vec![3, 4], 1));
}

/// What a set of semaphores does, thought again as simply as can be.
fn model(values: &[i32], changes: &[Change]) -> Option<Vec<i32>> {
    let mut after = values.to_vec();
    for change in changes {
        let value = &mut after[usize::from(change.number)];
        if change.by == 0 && *value != 0 || *value + i32::from(change.by) < 0 {
            return None;
        }
        *value += i32::from(change.by);
    }
    Some(after)
}

#[test]
fn changes_happen_together_or_not_at_all_and_the_dead_give_back() {
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut set = Set::new(3, 0).expect("three are not too many");
        let mut values = vec![0; 3];
        let mut owed = [[0; 3]; 2];
        for step in 0..60 {
            let process = random.usize(..2);
            let undo = if random.bool() { UNDO } else { 0 };
            let one = |random: &mut fastrand::Rng| Change {
                number: random.u16(..3),
                by: random.i16(-3..=3),
                flags: NO_WAIT | undo,
            };
            let changes: Vec<Change> = (0..random.usize(1..4)).map(|_| one(&mut random)).collect();
            let expected = model(&values, &changes);
            let outcome = set.operate(process as u64, &changes, 1);
            assert_eq!(outcome, expected.as_ref().map(|_| true).ok_or(Errno::EAGAIN), "seed {seed}, step {step}");
            if let Some(after) = expected {
                values = after;
                for change in changes.iter().filter(|change| change.flags & UNDO != 0) {
                    owed[process][usize::from(change.number)] -= i32::from(change.by);
                }
            }
            let now: Vec<i32> = set.semaphores.iter().map(|semaphore| semaphore.value).collect();
            assert_eq!(now, values, "seed {seed}, step {step}");
        }
        for (process, owed) in owed.iter().enumerate() {
            set.leave(process as u64, 2);
            values.iter_mut().zip(owed).for_each(|(value, by)| *value = (*value + by).clamp(0, HIGHEST));
        }
        let now: Vec<i32> = set.semaphores.iter().map(|semaphore| semaphore.value).collect();
        assert_eq!(now, values, "seed {seed}");
        assert!(set.debtors().is_empty());
    }
}

#[test]
fn who_waits_is_counted_and_wrong_changes_are_refused() {
    let mut set = Set::new(2, 0).expect("two are not too many");
    let change = |number, by| [Change { number, by, flags: 0 }];
    assert_eq!(set.operate(1, &change(0, -1), 0), Ok(false));
    assert_eq!(set.operate(2, &change(0, 0), 0), Ok(true));
    assert_eq!((set.waiting(0, false), set.waiting(0, true)), (1, 0));
    assert_eq!(set.operate(2, &change(0, 1), 0), Ok(true));
    assert_eq!(set.operate(1, &change(0, -1), 0), Ok(true));
    assert_eq!(set.waiting(0, false), 0);
    // What waits is carried out in the order in which it came, by what permits it.
    for process in [3, 4, 5] {
        assert_eq!(set.operate(process, &change(0, -1), 0), Ok(false));
    }
    assert_eq!(set.operate(6, &change(0, 0), 0), Ok(true));
    assert_eq!(set.operate(1, &change(0, 2), 0), Ok(true));
    assert_eq!(set.operate(6, &change(0, 0), 0), Ok(false));
    let granted = set.grant(0, |process| process != 4);
    let processes: Vec<u64> = granted.iter().map(|(waiter, _)| waiter.process).collect();
    assert_eq!(processes, [3, 5, 6], "4 has ended; 6 waited for 0, which came last");
    assert!(granted.iter().all(|(_, outcome)| *outcome == Ok(())));
    assert_eq!((set.waiting(0, false), set.waiting(0, true), set.grant(0, |_| true)), (0, 0, vec![]));
    assert_eq!(set.operate(1, &change(2, 1), 0), Err(Errno::EFBIG));
    assert_eq!(set.set(0, HIGHEST, 1, 0), Ok(()));
    assert_eq!(set.operate(1, &change(0, 1), 0), Err(Errno::ERANGE));
    assert_eq!((set.set(0, -1, 1, 0), set.set(5, 1, 1, 0)), (Err(Errno::ERANGE), Err(Errno::EINVAL)));
    assert!(Set::new(0, 0).is_err());
}

#[test]
fn messages_come_by_their_types() {
    let mut queue = Queue::new(0);
    let message = |kind: i64| Message { kind, bytes: vec![kind as u8; 4] };
    for kind in [4, 2, 9, 2, 7] {
        assert_eq!(queue.send(message(kind), 1, 0), Ok(true));
    }
    assert_eq!(queue.send(message(0), 1, 0), Err(Errno::EINVAL));
    let mut receive = |kind, flags| queue.receive(kind, 4, flags, (2, 0)).map(|message| message.map(|one| one.kind));
    assert_eq!(receive(9, 0), Ok(Some(9)));
    assert_eq!(receive(-5, 0), Ok(Some(2)));
    assert_eq!(receive(4, EXCEPT), Ok(Some(2)));
    assert_eq!(receive(0, 0), Ok(Some(4)));
    assert_eq!((receive(1, 0), receive(i64::MIN, 0), receive(0, 0)), (Ok(None), Ok(Some(7)), Ok(None)));
}

#[test]
fn a_named_queue_goes_with_its_last_description() {
    let mut queues = Queues::default();
    let how = Opening { create: (true, false), wanted: 6, mode: 0o600, most: Some([2, 8]) };
    let number = queues.open(b"name", USER, how).expect("it is made");
    assert_eq!(queues.open(b"name", USER, Opening { create: (false, false), ..how }), Ok(number));
    assert_eq!(queues.open(b"name", OTHER, how), Err(Errno::EACCES));
    assert_eq!(queues.open(b"a/b", USER, how), Err(Errno::EACCES));
    let queue = queues.find(number).expect("it is there");
    queue.notice = Some([1, 2, 3]);
    assert_eq!(queue.send(1, vec![1]), Ok(Some(Some([1, 2, 3]))));
    assert_eq!(queue.send(3, vec![3]), Ok(Some(None)));
    assert_eq!((queue.send(9, vec![9]), queue.send(1, vec![0; 9])), (Ok(None), Err(Errno::EMSGSIZE)));
    assert_eq!((queue.receive(8), queue.receive(7)), (Ok(Some((3, vec![3]))), Err(Errno::EMSGSIZE)));
    assert_eq!(queues.unlink(b"name", OTHER), Err(Errno::EACCES));
    assert_eq!(queues.unlink(b"name", USER), Ok(()));
    queues.close(number);
    assert!(queues.find(number).is_ok());
    queues.close(number);
    assert!(queues.find(number).is_err());
}
