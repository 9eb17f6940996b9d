//! Signals that are pending and queued, in words that others write too.

use linux_abi::errno::Errno;
use linux_raw_sys::general as linux;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use unix_core::process::exit_status::Change;
use unix_core::signal::actions::{Action, Actions, DEFAULT, IGNORE};
use unix_core::signal::frame::Information;
use unix_core::signal::pending::{FIRST_QUEUED, PendingSignals, THREAD_WORDS, from_system, from_user};
use unix_core::signal::set::bit;
use unix_core::signal::timer::{Clock, Created, Timer, Timers, Whose};

fn words(count: usize) -> Vec<AtomicU64> {
    (0..count).map(|_| AtomicU64::new(0)).collect()
}

#[test]
fn a_signal_is_pending_once_and_keeps_what_came_first() {
    let words = words(512);
    let post = PendingSignals::new(&words);
    post.put(&from_user(linux::SIGUSR1, 7)).unwrap();
    post.put(&from_user(linux::SIGUSR1, 8)).unwrap();
    assert_eq!(post.take(linux::SIGUSR1), Some(from_user(linux::SIGUSR1, 7)));
    assert_eq!(post.take(linux::SIGUSR1), None);
    assert_eq!(post.pending().load(SeqCst), 0);
}

#[test]
fn queued_signals_come_each_in_order() {
    let words = words(512);
    let post = PendingSignals::new(&words);
    let signal = FIRST_QUEUED + 2;
    let sent: Vec<Information> =
        (0..50).map(|value| Information { signal, code: linux::SI_QUEUE, detail: 9, value }).collect();
    sent.iter().for_each(|information| post.put(information).unwrap());
    for information in &sent {
        assert_eq!(post.pending().load(SeqCst), bit(signal));
        assert_eq!(post.take(signal), Some(*information));
    }
    assert_eq!(post.pending().load(SeqCst), 0);
}

#[test]
fn what_is_cleared_is_as_new_whatever_was_in_it() {
    let fill = |post: PendingSignals<'_>| {
        let signals = (FIRST_QUEUED..=64).cycle().take(1000);
        signals
            .filter(|signal| post.put(&Information { code: linux::SI_QUEUE, ..from_user(*signal, 1) }).is_ok())
            .count()
    };
    let fresh = words(512);
    let room = fill(PendingSignals::new(&fresh));
    assert!(room >= 64);
    for value in [1, 34, 0xff22, u64::MAX] {
        let words = words(512);
        words.iter().for_each(|word| word.store(value, SeqCst));
        let post = PendingSignals::new(&words);
        post.clear();
        assert_eq!(post.pending().load(SeqCst), 0);
        assert!((1..=64).all(|signal| post.take(signal).is_none()), "{value:#x} is a signal");
        assert_eq!(fill(post), room);
    }
}

#[test]
fn handlers_are_forgotten_and_what_is_ignored_stays() {
    let mut actions = Actions::default();
    let action = |handler| Action { handler, flags: 4, restorer: 5, mask: 6 };
    for round in 0..2 {
        for (signal, handler) in [(1, 0x1000), (2, IGNORE), (3, DEFAULT), (64, 0x2000)] {
            actions.set(signal, action(handler));
        }
        actions.forget_handlers();
        assert_eq!(actions.get(2), action(IGNORE));
        assert!([1, 3, 64].iter().all(|signal| actions.get(*signal) == Action::default()), "round {round}");
        assert_eq!(actions.sets(), (bit(2), 0));
        // What is ignored no more goes as the others do.
        actions.set(2, action(0x3000));
        actions.forget_handlers();
        assert_eq!((actions.get(2), actions.sets()), (Action::default(), (0, 0)));
    }
}

#[test]
fn a_timer_that_expires_again_is_counted_in_the_signal_that_waits() {
    let words = words(512);
    let post = PendingSignals::new(&words);
    let expired = |signal, timer: u64, overrun: u64| Information {
        signal,
        code: linux::SI_TIMER,
        detail: timer | overrun << 32,
        value: 0,
    };
    for signal in [linux::SIGUSR1, FIRST_QUEUED + 2] {
        for (timer, overrun) in [(0, 0), (0, 2), (0, 0)] {
            post.put(&expired(signal, timer, overrun)).unwrap();
        }
        assert_eq!(post.take(signal), Some(expired(signal, 0, 4)));
        assert_eq!((post.take(signal), post.pending().load(SeqCst)), (None, 0));
    }
    // Signals of other timers, and of the same number by other hands, are signals of their own.
    let signal = FIRST_QUEUED;
    let others = [expired(signal, 0, 0), expired(signal, 1, 0), from_user(signal, 0)];
    others.iter().for_each(|one| post.put(one).unwrap());
    assert_eq!(others.map(|_| post.take(signal)), others.map(Some));
}

#[test]
fn a_full_queue_says_so_and_loses_only_what_came_with_the_signal() {
    // As many as the words of a thread hold.
    const QUEUED: usize = 40;
    let words = words(THREAD_WORDS);
    let post = PendingSignals::new(&words);
    let one = Information { signal: 40, code: linux::SI_QUEUE, detail: 1, value: 2 };
    (0..QUEUED).for_each(|_| post.put(&one).unwrap());
    assert_eq!(post.put(&one), Err(Errno::EAGAIN));
    post.drop_all(bit(40));
    assert_eq!(post.put(&one), Ok(()));
    assert_eq!(post.take(40), Some(one));
    assert_eq!(post.take(40), None);
    (0..QUEUED).for_each(|_| post.put(&one).unwrap());
    assert_eq!(post.put(&Information { signal: 41, ..one }), Err(Errno::EAGAIN));
    assert_eq!(post.put(&from_user(42, 7)), Err(Errno::EAGAIN));
    // What sigqueue sent is refused; kill's signal comes, once, without its sender.
    assert_eq!(post.pending().load(SeqCst), bit(40) | bit(42));
    assert_eq!(post.take(42), Some(Information { signal: 42, ..Information::default() }));
    assert_eq!(post.take(42), None);
    (0..QUEUED).for_each(|_| assert_eq!(post.take(40), Some(one)));
    assert_eq!(post.pending().load(SeqCst), 0);
}

/// A thread that takes a signal out sees its entry sooner than its bit, and with another one's bit it may be gone
/// before its own is set.
#[test]
fn what_several_send_at_once_is_taken_once_each() {
    const SENDERS: u64 = 3;
    const EACH: u64 = 20_000;
    let words = words(512);
    let post = PendingSignals::new(&words);
    let send = |sender: u64| {
        for value in 0..EACH {
            let one = Information { signal: 34, code: linux::SI_QUEUE, detail: sender, value };
            while post.put(&one).is_err() {
                std::thread::yield_now();
            }
        }
    };
    let mut next = [0; SENDERS as usize];
    std::thread::scope(|scope| {
        (0..SENDERS).for_each(|sender| drop(scope.spawn(move || send(sender))));
        while next != [EACH; SENDERS as usize] {
            if post.pending().load(SeqCst) & bit(34) != 0
                && let Some(taken) = post.take(34)
            {
                let expected = &mut next[taken.detail as usize];
                assert_eq!((taken.code, taken.value), (linux::SI_QUEUE, *expected));
                *expected += 1;
            }
        }
    });
    assert!(post.take(34).is_none());
    assert_eq!(post.pending().load(SeqCst), 0);
}

#[test]
fn stopping_and_going_on_cancel_each_other() {
    let words = words(512);
    let post = PendingSignals::new(&words);
    post.put(&from_system(linux::SIGTSTP)).unwrap();
    post.put(&from_system(linux::SIGCONT)).unwrap();
    assert_eq!(post.pending().load(SeqCst), bit(linux::SIGCONT));
    post.put(&from_system(linux::SIGSTOP)).unwrap();
    assert_eq!(post.pending().load(SeqCst), bit(linux::SIGSTOP));
    // A process that was stopped before finds that it should continue.
    assert_eq!(post.continues().load(SeqCst), 1);
    assert_eq!(post.put(&from_system(65)), Err(Errno::EINVAL));
    assert_eq!(post.put(&from_system(0)), Err(Errno::EINVAL));
}

#[test]
fn fault_86_any_words_are_signals_of_some_kind() {
    let mut random = fastrand::Rng::with_seed(21);
    for _ in 0..200 {
        let words = words(512);
        words.iter().for_each(|word| word.store(if random.bool() { random.u64(..) } else { random.u64(..99) }, SeqCst));
        let post = PendingSignals::new(&words);
        for signal in 1..=64 {
            assert!(post.take(signal).is_none_or(|taken| taken.signal == signal));
            let _ = post.put(&from_user(signal, 1));
        }
        post.drop_all(u64::MAX);
        assert_eq!(post.pending().load(SeqCst), 0);
    }
}

#[test]
fn changes_of_children_are_words_and_nonsense_is_none() {
    for change in [Change::Continued, Change::Stopped(linux::SIGSTOP), Change::Stopped(linux::SIGTTIN)] {
        assert_eq!(Change::from_word(change.to_word()), Some(change));
    }
    assert_eq!(Change::Stopped(linux::SIGTSTP).to_word(), 0x147f);
    for nonsense in [0, 0x7f, 0xff7f, 0x1_147f, 1, 0xff00] {
        assert_eq!(Change::from_word(nonsense), None, "{nonsense:#x}");
    }
}

#[test]
fn timers_expire_as_often_as_their_time_came() {
    let mut once = Timer { deadline: 100, interval: 0 };
    assert_eq!((once.expire(99), once.expire(100), once.expire(1000)), (0, 1, 0));
    let mut often = Timer { deadline: 100, interval: 10 };
    assert_eq!((often.expire(100), often.deadline), (1, 110));
    assert_eq!((often.expire(145), often.deadline), (4, 150));
    assert_eq!((often.rest(145), often.rest(999)), ([5, 10], [1, 10]));
    assert_eq!(Timer::default().rest(5), [0, 0]);
}

#[test]
fn timers_of_a_program_send_what_it_said() {
    let mut timers = Timers::default();
    let information = Information { signal: 34, code: linux::SI_TIMER, detail: 0, value: 7 };
    let created =
        Created { timer: Timer { deadline: 50, interval: 10 }, clock: Clock::Boot, information, thread: 3, overrun: 0 };
    assert_eq!((timers.create(created), timers.earliest()), (Some(0), 50));
    timers.interval[0] = Timer { deadline: 40, interval: 0 };
    timers.interval[2] = Timer { deadline: 5, interval: 0 };
    assert!(timers.earliest() == 40 && timers.counts_time());
    let due = timers.expire(75, 6, |_| 0);
    let signals: Vec<(Whose, u32)> = due.iter().map(|(whose, due)| (*whose, due.signal)).collect();
    assert_eq!(signals, [(Whose::Process, linux::SIGALRM), (Whose::Runner, linux::SIGPROF), (Whose::Thread(3), 34)]);
    assert_eq!((due[2].1.value, due[2].1.detail >> 32, timers.created[0].unwrap().overrun), (7, 2, 0));
    timers.delivered(&due[2].1);
    assert_eq!(timers.created[0].unwrap().overrun, 2);
    let mut by_time = Timers::default();
    for (clock, signal) in [(Clock::Program, 35), (Clock::Thread(9), 36)] {
        let information = Information { signal, ..information };
        by_time.create(Created { clock, information, timer: Timer { deadline: 50, interval: 0 }, ..created });
    }
    assert_eq!((by_time.earliest(), by_time.counts_time()), (0, true));
    assert!(by_time.expire(999, 49, |number| 40 + number).is_empty());
    assert_eq!(by_time.expire(999, 49, |number| 41 + number).iter().map(|due| due.1.signal).collect::<Vec<_>>(), [36]);
    assert_eq!(by_time.expire(0, 50, |_| 0).iter().map(|due| due.1.signal).collect::<Vec<_>>(), [35]);
    for (clock, whose) in
        [(Clock::Wall, Whose::Process), (Clock::Program, Whose::Runner), (Clock::Thread(9), Whose::Runner)]
    {
        let mut timers = Timers::default();
        timers.create(Created { clock, thread: 0, timer: Timer { deadline: 50, interval: 0 }, ..created });
        assert_eq!(timers.expire(50, 50, |_| 50).iter().map(|due| due.0).collect::<Vec<_>>(), [whose]);
    }
    assert!(!by_time.counts_time());
    for _ in 1..256 {
        assert!(timers.create(created).is_some());
    }
    assert_eq!(timers.create(created), None);
}
