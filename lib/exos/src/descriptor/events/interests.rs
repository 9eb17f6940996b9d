//! The interests of an `epoll` set: those that each look goes through, and those whose sockets ring when they change.
//!
//! A look that goes through all interests takes the longer the more connections there are, and finds nothing in most.
//! So an interest in a socket of TCP in which some looks found nothing becomes *idle*. Its socket has the bell of the
//! set, and the record of bells tells when to look at it (`internet::bell`). All others are *busy*.
//!
//! Invariants:
//! - a socket was asked for the bell before the look that found nothing and made its interest idle;
//! - the copy of a set in a child begins with busy interests alone: its bell is another one;
//! - an idle interest is not recorded in `fd_pins`: nothing of its description is in a predicate.

use super::interest::{Interest, Key};
use crate::descriptor::open_file::OpenFile;
use crate::descriptor::readiness::SleeperBell;
use crate::hw::current::process;
use crate::server::client;
use crate::wait;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::mem;
use internet::bell::Reader;

/// Looks in vain that make an interest idle. A ring costs as much as some twenty looks at one interest.
pub(super) const LOOKS: u32 = 16;
/// As many busy interests always stay: they have terms of the predicate.
const FEW: usize = wait::MOST_TERMS - 2;

/// See the head of the file.
#[derive(Debug, Default)]
pub(super) struct Interests {
    pub(super) busy: BTreeMap<Key, Interest>,
    /// By the name of the socket, then by key.
    idle: BTreeMap<(u64, Key), Interest>,
    /// Where the next look begins: behind the last that was told, if there was no room for more, so that each has its
    /// turn.
    pub(super) begin: Key,
    /// The process whose bell the idle ones ring.
    home: u64,
    record: Reader,
}

impl Interests {
    /// Before the key of every interest.
    pub(super) const FIRST: Key = (0, 0);
    const LAST: Key = (u64::MAX, u64::MAX);

    pub(super) fn get(&self, key: &Key, description: &OpenFile) -> Option<&Interest> {
        let idle = || self.idle.get(&(description.bell_name()?, *key));
        self.busy.get(key).or_else(idle)
    }

    pub(super) fn put(&mut self, interest: Interest, description: &OpenFile) {
        self.remove(&interest.key, description);
        self.busy.insert(interest.key, interest);
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

    pub(super) fn all(&self) -> impl Iterator<Item = &Interest> {
        self.busy.values().chain(self.idle.values())
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
        let here = process().number();
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
            let come = self.idle.extract_if(.., |_, interest| interest.rests(&bell).is_none());
            let come: Vec<Interest> = come.map(|(_, interest)| interest).collect();
            come.into_iter().for_each(|interest| self.wake(interest));
        }
    }

    fn wake(&mut self, mut interest: Interest) {
        interest.looks = 0;
        self.busy.insert(interest.key, interest);
    }

    /// Makes idle what many looks found nothing in.
    pub(super) fn rest(&mut self) {
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
            interest.looks = 0;
            Some((interest.rests(&bell)?, *key))
        });
        for (name, key) in rests.collect::<Vec<_>>() {
            self.idle.extend(self.busy.remove(&key).map(|interest| ((name, key), interest)));
        }
    }
}
