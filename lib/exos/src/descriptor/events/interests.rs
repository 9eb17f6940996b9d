//! The interests of an `epoll` set: those that each look goes through, and those whose sockets ring when they change.
//!
//! A look that goes through all interests takes the longer the more connections there are, and finds nothing in most.
//! So an interest in a socket of TCP in which some looks found nothing becomes *idle*. Its socket has the bell of the
//! set, and the record of bells tells when to look at it (`internet::bell`). All others are *busy*.
//!
//! A look reports interests in the order in which they became ready (decision 0072). The writer of a pipe, a socket or
//! an event counter leaves the time there. What has no time, such as room to write, counts as of the look that finds
//! it. An interest that was reported and stays ready comes behind all others. What a look found and has no room for
//! comes first in the next report.
//! Invariants:
//! - a socket was asked for the bell before the look that found nothing and made its interest idle;
//! - the copy of a set in a child begins with busy interests alone: its bell is another one;
//! - an idle interest is not recorded in `fd_pins`: nothing of its description is in a predicate;
//! - a walk through interests gives way at each: the lock is held, and thousands take longer than a grace.

use super::interest::{Interest, Key};
use crate::descriptor::open_file::OpenFile;
use crate::descriptor::readiness::SleeperBell;
use crate::hw::domain::domain;
use crate::server::client;
use crate::wait;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::mem;
use internet::bell::Reader;
use runtime::clock;
use runtime::critical_section::give_way;

/// Looks in vain that make an interest idle. A ring costs as much as some twenty looks at one interest.
const LOOKS: u32 = 16;
/// As many busy interests always stay: they have terms of the predicate.
const FEW: usize = wait::MOST_TERMS - 2;

/// As many ready interests always have their room in the heap.
const KEPT: usize = 64;

/// An interest that is ready: since when, which, and how.
#[derive(Clone, Copy, Debug)]
struct Found {
    since: u64,
    key: Key,
    events: u32,
    stamps: [u64; 2],
}

/// See the head of the file.
#[derive(Debug, Default)]
pub(super) struct Interests {
    pub(super) busy: BTreeMap<Key, Interest>,
    /// By the name of the socket, then by key.
    idle: BTreeMap<(u64, Key), Interest>,
    /// What the last look found and had no room for: since when, and which.
    left: VecDeque<(u64, Key)>,
    /// What a look found; empty between looks. It is here for its room in the heap.
    found: Vec<Found>,
    /// When the last look began, in ticks: what was not ready then became so later.
    looked: u64,
    /// The last time that an interest got.
    latest: u64,
    /// The process whose bell the idle ones ring.
    home: u64,
    record: Reader,
}

impl Interests {
    const FIRST: Key = (0, 0);
    const LAST: Key = (u64::MAX, u64::MAX);

    pub(super) fn get(&self, key: &Key, description: &OpenFile) -> Option<&Interest> {
        let idle = || self.idle.get(&(description.bell_name()?, *key));
        self.busy.get(key).or_else(idle)
    }

    /// Adds an interest, or a changed one that was ready since a time, if it was.
    pub(super) fn put(&mut self, mut interest: Interest, since: u64, description: &OpenFile) {
        self.remove(&interest.key, description);
        interest.since = since;
        if since == 0 && interest.come(description, interest.stamps(description)) != 0 {
            interest.since = self.now();
        }
        self.busy.insert(interest.key, interest);
    }

    /// The time in ticks, later than each that an interest got before.
    fn now(&mut self) -> u64 {
        self.latest = clock::ticks().max(self.latest + 1);
        self.latest
    }

    /// See [`super::epoll::Set::collect`].
    pub(super) fn report(&mut self, most: usize, mut tell: impl FnMut(u32, u64)) -> usize {
        if !self.left.is_empty() {
            let told = if self.left.len() >= most { self.report_left(most, &mut tell) } else { 0 };
            if told > 0 {
                return told;
            }
            self.left.clear();
        }
        self.look();
        let count = self.found.len().min(most);
        if self.found.len() > 1 {
            self.put_in_order(most);
        }
        for Found { key, events, stamps, .. } in self.found.drain(..) {
            let Some(interest) = self.busy.get_mut(&key) else { continue };
            self.latest += 1;
            interest.tell(stamps, self.latest);
            tell(events, interest.data);
        }
        if self.found.capacity() > KEPT {
            self.found = Vec::new();
        }
        count
    }

    /// Sorts what a look found, and sets aside what there is no room for.
    fn put_in_order(&mut self, most: usize) {
        self.found.sort_unstable_by_key(|one| (one.since, one.key));
        let rest = self.found.drain(most.min(self.found.len())..);
        self.left.extend(rest.map(|one| (one.since, one.key)));
    }

    /// Reports what is still ready of what the last look had no room for: nothing else is looked at.
    fn report_left(&mut self, most: usize, tell: &mut impl FnMut(u32, u64)) -> usize {
        let mut count = 0;
        while count < most
            && let Some((since, key)) = self.left.pop_front()
        {
            let now = self.now();
            let Some(interest) = self.busy.get_mut(&key).filter(|one| one.since == since && !one.spent) else {
                continue;
            };
            interest.since = 0;
            let Some(description) = interest.watched() else { continue };
            let (events, stamps) = interest.news(&description);
            if events != 0 && interest.claims(&description, stamps) {
                interest.tell(stamps, now);
                tell(events, interest.data);
                count += 1;
            }
        }
        count
    }

    /// Finds all that is ready.
    fn look(&mut self) {
        let between = [self.looked, self.now()];
        self.looked = between[1];
        let mut rests = false;
        for (key, interest) in self.busy.iter_mut().filter(|(_, interest)| !interest.spent) {
            give_way();
            let Some(description) = interest.watched() else { continue };
            let (events, stamps) = interest.news(&description);
            if events == 0 {
                interest.since = 0;
                interest.looks = LOOKS.min(interest.looks + 1);
                rests |= interest.looks == LOOKS;
                continue;
            }
            interest.looks = 0;
            if !interest.claims(&description, stamps) {
                continue;
            }
            if interest.since == 0 {
                interest.since = interest.time_of(&description, events, between);
            }
            self.found.push(Found { since: interest.since, key: *key, events, stamps });
        }
        if rests {
            self.rest();
        }
    }

    pub(super) fn remove(&mut self, key: &Key, description: &OpenFile) -> Option<Interest> {
        let idle = description.bell_name().and_then(|name| self.idle.remove(&(name, *key)));
        self.busy.remove(key).or(idle)
    }

    /// Takes out all that are in one description.
    pub(super) fn forget(&mut self, description: &OpenFile) {
        let number = description.number();
        self.busy.retain(|key, _| key.1 != number);
        if let Some(name) = description.bell_name() {
            self.all_idle_of(name).filter(|key| key.1 == number).for_each(|key| _ = self.idle.remove(&(name, key)));
        }
    }

    fn all_idle_of(&self, name: u64) -> impl Iterator<Item = Key> + use<> {
        let all = self.idle.range((name, Self::FIRST)..=(name, Self::LAST));
        all.map(|((_, key), _)| *key).collect::<Vec<_>>().into_iter()
    }

    /// Every interest.
    pub(super) fn all(&self) -> impl Iterator<Item = &Interest> {
        self.busy().chain(self.idle.values().inspect(|_| give_way()))
    }

    /// The same of the busy ones.
    pub(super) fn busy(&self) -> impl Iterator<Item = &Interest> {
        self.busy.values().inspect(|_| give_way())
    }

    pub(super) fn clear(&mut self) {
        self.busy.clear();
        self.idle.clear();
    }

    pub(super) fn has_idle(&self) -> bool {
        !self.idle.is_empty()
    }

    /// The bell of the set. Read before the look before a sleep.
    pub(super) fn bell(&self) -> SleeperBell {
        SleeperBell::of(self.home)
    }

    /// Makes busy what rang.
    pub(super) fn hear(&mut self) {
        let here = domain().number();
        if self.home != here {
            self.home = here;
            self.record = Reader::at_end(client::bell_record());
            mem::take(&mut self.idle).into_values().for_each(|interest| self.wake(interest));
        }
        if self.idle.is_empty() {
            return;
        }
        let mut rung = Vec::new();
        if self.record.read(client::bell_record(), |name| rung.push(name)) {
            for name in rung {
                let keys = self.all_idle_of(name);
                keys.for_each(|key| _ = self.idle.remove(&(name, key)).map(|interest| self.wake(interest)));
            }
        } else {
            let bell = self.bell();
            let come = self.idle.extract_if(.., |_, interest| {
                give_way();
                interest.rests(&bell).is_none()
            });
            let come: Vec<Interest> = come.map(|(_, interest)| interest).collect();
            come.into_iter().for_each(|interest| self.wake(interest));
        }
    }

    fn wake(&mut self, mut interest: Interest) {
        interest.looks = 0;
        self.busy.insert(interest.key, interest);
    }

    /// Makes idle what many looks found nothing in.
    fn rest(&mut self) {
        let most = self.busy.len().saturating_sub(FEW);
        if most == 0 {
            return;
        }
        if self.idle.is_empty() {
            // What rang before concerns none of them.
            self.record = Reader::at_end(client::bell_record());
        }
        let bell = self.bell();
        let tired = self.busy.iter_mut().filter(|(_, interest)| interest.looks == LOOKS).take(most);
        let rests = tired.filter_map(|(key, interest)| {
            give_way();
            interest.looks = 0;
            Some((interest.rests(&bell)?, *key))
        });
        for (name, key) in rests.collect::<Vec<_>>() {
            self.idle.extend(self.busy.remove(&key).map(|interest| ((name, key), interest)));
        }
    }
}
