//! `epoll`: a set of descriptors that are waited for together (epoll(7)).
//!
//! The set lies in the process: a child has a copy of it as it was at the fork. Edge-triggered interests are told once
//! for each new event, which the stamps of the descriptions count.

use crate::descriptor::fd_pins::Used;
use crate::descriptor::file_ops::FileOps;
use crate::descriptor::object::Event;
use crate::descriptor::open_file::OpenFile;
use crate::descriptor::readiness::Bell;
use crate::hw::current::process;
use crate::wait;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::iter;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicU64, AtomicUsize};
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use runtime::lock::{Lock, OwnerLock};
use runtime::predicate::{Operator, Term, word};

const EDGE: u32 = linux::EPOLLET;
const ONCE: u32 = linux::EPOLLONESHOT;
/// Sets in each other at most (`EP_MAX_NESTS` of Linux, and the first).
const NESTED: usize = 5;
/// Events that come with something to read.
const READABLE: u32 = linux::EPOLLIN | linux::EPOLLRDNORM | linux::EPOLLRDHUP | linux::EPOLLPRI;
/// Events that are told whether they were asked for or not.
const ALWAYS: u32 = linux::EPOLLERR | linux::EPOLLHUP;

/// One descriptor of the set. It has no reference to the description: each look asks `fd_pins` for it.
#[derive(Clone, Debug)]
struct Interest {
    /// The descriptor, and the number of its description.
    key: (u64, u64),
    /// Events asked for, and how.
    events: u32,
    /// What the program wants to be told with them.
    data: u64,
    /// Stamps at the last telling: readable, writable.
    told: Option<[u64; 2]>,
    /// Told once, and not to be told again until it is changed.
    spent: bool,
    /// The stamp of the event that this interest claimed last (`EPOLLEXCLUSIVE`).
    claimed: u64,
}

/// The set.
#[derive(Debug, Default)]
pub struct Set {
    interests: Lock<Interests>,
    /// Counts what was added or changed: who waits for the set looks again, because it waits for what was there before.
    /// Changed under the lock.
    changes: AtomicU64,
    /// How many sets it ever lay in, one in the other.
    below: AtomicUsize,
}

impl Set {
    /// Adds a descriptor, or changes what is wanted of it.
    ///
    /// # Errors
    /// `EEXIST`, `ENOENT`; `ELOOP` where a set would lie in itself, or too deep.
    pub fn put(&self, number: u64, description: &OpenFile, events: u32, data: u64, add: bool) -> Result<()> {
        if add && let Some(inner) = description.as_kind::<Self>() {
            let below = self.below.load(Relaxed) + 1;
            if inner.holds(self) || below + inner.height() > NESTED {
                return Err(Errno::ELOOP);
            }
            inner.sink(below);
        }
        let mut interests = self.interests.lock();
        let key = (number, description.number());
        match (interests.get(&key), add) {
            (Some(_), true) => return Err(Errno::EEXIST),
            (None, false) => return Err(Errno::ENOENT),
            (Some(before), false) if before.events & linux::EPOLLEXCLUSIVE != 0 => return Err(Errno::EINVAL),
            _ => {}
        }
        description.watched.store(true, Relaxed);
        let mut interest = Interest { key, events, data, told: None, spent: false, claimed: 0 };
        // What has come before the interest is reported to it, too.
        let stamps = interest.stamps(description);
        interest.claimed = interest.exclusive_stamp(description, stamps).unwrap_or(0);
        interests.insert(key, interest);
        self.changes.fetch_add(1, SeqCst);
        drop(interests);
        wait::kick_idle();
        Ok(())
    }

    /// Calls a function for each set that is in this one.
    fn each_inner(&self, mut action: impl FnMut(&Self)) {
        let inner: Vec<Used> = self.interests.lock().values().filter_map(Interest::watched).collect();
        inner.iter().filter_map(|used| used.as_kind::<Self>()).for_each(&mut action);
    }

    /// Whether it is this set, or one that lies in it.
    fn holds(&self, other: &Self) -> bool {
        let mut found = core::ptr::eq(self, other);
        self.each_inner(|inner| found = found || inner.holds(other));
        found
    }

    /// How many sets lie in each other, this one among them.
    fn height(&self) -> usize {
        let mut most = 0;
        self.each_inner(|inner| most = most.max(inner.height()));
        most + 1
    }

    fn sink(&self, below: usize) {
        self.below.fetch_max(below, Relaxed);
        self.each_inner(|inner| inner.sink(below + 1));
    }

    /// Takes a descriptor out.
    pub fn remove(&self, number: u64, description: &OpenFile) -> Result<()> {
        let removed = self.interests.lock().remove(&(number, description.number()));
        removed.map(|_| ()).ok_or(Errno::ENOENT)
    }

    /// Takes out what no descriptor stands for any more.
    pub(crate) fn forget(&self, description: u64) {
        self.interests.lock().retain(|key, _| key.1 != description);
    }

    /// Gives away what has come, at most `most` of it: events, and the program's data. The result is how much it is.
    pub fn collect(&self, most: usize, mut tell: impl FnMut(u32, u64)) -> u64 {
        let mut interests = self.interests.lock();
        let begin = core::mem::take(&mut interests.begin);
        let mut count = 0;
        // Those from there on, then those before it: mostly there are none. All are gone through, ranges of a tree are
        // dear.
        let turns: &[bool] = if begin == Interests::FIRST { &[true] } else { &[true, false] };
        for turn in turns {
            let in_turn = |key: &(u64, u64), interest: &Interest| !interest.spent && (*key >= begin) == *turn;
            for (key, interest) in interests.all.iter_mut().filter(|(key, interest)| in_turn(key, interest)) {
                let Some(description) = interest.watched() else { continue };
                // Read before the state: an event that comes between the two is news to the next look.
                let stamps = interest.stamps(&description);
                let events = interest.come(&description, stamps);
                if events != 0 && interest.claims(&description, stamps) {
                    interest.tell(stamps);
                    tell(events, interest.data);
                    count += 1;
                }
                if count == most {
                    let next = (key.0, key.1 + 1);
                    // Where there is room for all, all had their turn.
                    interests.begin = if most < interests.all.len() { next } else { Interests::FIRST };
                    return count as u64;
                }
            }
        }
        count as u64
    }
}

/// By descriptor and number of its description.
#[derive(Debug, Default)]
struct Interests {
    all: BTreeMap<(u64, u64), Interest>,
    /// Where the next look begins: behind the last that was told, if there was no room for more, so that each has its
    /// turn.
    begin: (u64, u64),
}

impl Deref for Interests {
    type Target = BTreeMap<(u64, u64), Interest>;
    fn deref(&self) -> &Self::Target {
        &self.all
    }
}

impl DerefMut for Interests {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.all
    }
}

impl Interests {
    /// Before the key of every interest.
    const FIRST: (u64, u64) = (0, 0);
}

impl Interest {
    /// What it is in; none once that is closed.
    fn watched(&self) -> Option<Used> {
        process().watched(self.key.0, self.key.1)
    }

    fn wants(&self, event: Event) -> bool {
        let bit = match event {
            Event::Readable => READABLE,
            Event::Writable => linux::EPOLLOUT | linux::EPOLLWRNORM,
        };
        self.events & bit != 0
    }

    /// Of what is not asked for, nothing is news; nor does a level-triggered interest ask for news.
    fn stamps(&self, description: &OpenFile) -> [u64; 2] {
        if self.events & (EDGE | linux::EPOLLEXCLUSIVE) == 0 {
            return [0; 2];
        }
        self.both_stamps(description)
    }

    fn both_stamps(&self, description: &OpenFile) -> [u64; 2] {
        [Event::Readable, Event::Writable].map(|event| if self.wants(event) { description.stamp(event) } else { 0 })
    }

    /// Events that have come and are to be told, as of stamps that were read before.
    fn come(&self, description: &OpenFile, stamps: [u64; 2]) -> u32 {
        let state = u32::from(crate::descriptor::readiness::state(description, self.events as u16 | ALWAYS as u16));
        let state = state & (self.events | ALWAYS);
        let is_news = self.events & EDGE == 0 || self.told != Some(stamps);
        if is_news { state } else { 0 }
    }

    /// A number that is another one after each event, for an interest that shares its events with others.
    fn exclusive_stamp(&self, description: &OpenFile, [readable, writable]: [u64; 2]) -> Option<u64> {
        let is_exclusive = self.events & linux::EPOLLEXCLUSIVE != 0 && description.counts_events();
        is_exclusive.then(|| (readable ^ writable.rotate_left(32)).wrapping_add(1))
    }

    /// Whether an event that has come is this interest's to report: the first of the exclusive interests takes it.
    fn claims(&mut self, description: &OpenFile, stamps: [u64; 2]) -> bool {
        let Some(stamp) = self.exclusive_stamp(description, stamps) else { return true };
        let is_its = self.claimed == stamp || description.claim_event(stamp);
        if is_its {
            self.claimed = stamp;
        }
        is_its
    }

    /// Whether another exclusive interest has claimed the event that came last.
    fn is_claimed_elsewhere(&self, description: &OpenFile) -> bool {
        let stamp = self.exclusive_stamp(description, self.stamps(description));
        stamp.is_some_and(|stamp| self.claimed != stamp && description.claimed_event() == stamp)
    }

    fn tell(&mut self, stamps: [u64; 2]) {
        self.told = (self.events & EDGE != 0).then_some(stamps);
        self.spent = self.events & ONCE != 0;
    }

    fn wanted(&self) -> impl Iterator<Item = Event> {
        [Event::Readable, Event::Writable].into_iter().filter(|event| self.wants(*event))
    }

    fn terms(&self) -> Vec<Term> {
        let Some(description) = self.watched() else { return Vec::new() };
        let only_ends = self.wanted().next().is_none();
        let only_exceptional = self.events & READABLE == linux::EPOLLPRI && self.events & linux::EPOLLOUT == 0;
        if self.told.is_some() || only_ends || only_exceptional || self.is_claimed_elsewhere(&description) {
            return self.changes();
        }
        let one = |event| {
            description.note_waiter(event);
            description.terms(event)
        };
        self.wanted().flat_map(one).collect()
    }

    fn changes(&self) -> Vec<Term> {
        let Some(description) = self.watched() else { return Vec::new() };
        if self.wanted().next().is_none() {
            return description.end_terms();
        }
        let one = |event| {
            description.note_waiter(event);
            description.changes(event)
        };
        self.wanted().flat_map(one).collect()
    }
}

impl FileOps for Set {
    fn is_ready(&self, event: Event) -> bool {
        let interests = self.interests.lock();
        let has_come = |interest: &Interest| {
            interest.watched().is_some_and(|open| {
                interest.come(&open, interest.stamps(&open)) != 0 && !interest.is_claimed_elsewhere(&open)
            })
        };
        event == Event::Readable && interests.values().any(|interest| !interest.spent && has_come(interest))
    }

    fn wait_terms(&self, event: Event) -> Vec<Term> {
        if event != Event::Readable {
            return Vec::new();
        }
        let interests = self.interests.lock();
        let changed = word(&self.changes, Operator::NotEqual, self.changes.load(Relaxed));
        let waiting = || interests.values().filter(|interest| !interest.spent);
        let terms: Vec<Term> = iter::once(changed).chain(waiting().flat_map(Interest::terms)).collect();
        if terms.len() <= wait::MOST_TERMS {
            return terms;
        }
        let bell = Bell::of_thread();
        let rings = |interest: &&Interest| {
            interest.watched().is_some_and(|description| bell.rings_for(&description, interest.wanted()))
        };
        let others = waiting().filter(|interest| !rings(interest)).flat_map(Interest::terms);
        [bell.term, changed].into_iter().chain(others).collect()
    }

    /// An event of any descriptor in it is one of the set.
    fn event_sequence(&self, event: Event) -> u64 {
        let interests = self.interests.lock();
        let of = |interest: &Interest| interest.watched().map(|open| interest.both_stamps(&open)).unwrap_or_default();
        let stamps = interests.values().filter(|_| event == Event::Readable).flat_map(of);
        stamps.fold(0, u64::wrapping_add)
    }

    fn edge_terms(&self, event: Event) -> Vec<Term> {
        let interests = self.interests.lock();
        interests.values().filter(|_| event == Event::Readable).flat_map(Interest::changes).collect()
    }

    fn gone(&self) {
        self.interests.lock().clear();
    }

    fn locks(&self) -> [Option<&OwnerLock>; 2] {
        [Some(self.interests.owner_lock()), None]
    }

    fn status(&self) -> (u32, u64) {
        (0o600, core::ptr::from_ref(self) as u64 >> 4)
    }

    fn name(&self) -> String {
        String::from("anon_inode:[eventpoll]")
    }
}
