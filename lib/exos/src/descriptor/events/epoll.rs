//! `epoll`: a set of descriptors that are waited for together (epoll(7)).
//!
//! The set lies in the process: a child has a copy of it as it was at the fork. Edge-triggered interests are told once
//! for each new event, which the stamps of the descriptions count. Ready descriptors are reported in the order in which
//! they became ready (`interests`).

use super::interest::Interest;
use super::interests::Interests;
use crate::descriptor::fd_pins::Used;
use crate::descriptor::file_ops::FileOps;
use crate::descriptor::open_file::OpenFile;
use crate::descriptor::poll_event::Event;
use crate::pipe::bells::with_deaths;
use crate::wait;
use alloc::string::String;
use alloc::vec::Vec;
use core::iter;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicU64, AtomicUsize};
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use runtime::lock::{Lock, OwnerLock};
use runtime::predicate::{Operator, Term, word};

/// Sets in each other at most (`EP_MAX_NESTS` of Linux, and the first).
const NESTED: usize = 5;
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
        let since = match (interests.get(&key, description), add) {
            (Some(_), true) => return Err(Errno::EEXIST),
            (None, false) => return Err(Errno::ENOENT),
            (Some(before), false) if before.events & linux::EPOLLEXCLUSIVE != 0 => return Err(Errno::EINVAL),
            (before, _) => before.map_or(0, |before| before.since),
        };
        description.watched.store(true, Relaxed);
        interests.put(Interest::new(key, description, events, data), since, description);
        self.changes.fetch_add(1, SeqCst);
        drop(interests);
        wait::kick_idle();
        Ok(())
    }

    /// Calls a function for each set that is in this one.
    fn each_inner(&self, mut action: impl FnMut(&Self)) {
        let inner: Vec<Used> = self.interests.lock().busy().filter_map(Interest::watched).collect();
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
        let removed = self.interests.lock().remove(&(number, description.number()), description);
        removed.map(|_| ()).ok_or(Errno::ENOENT)
    }

    /// Takes out what no descriptor stands for any more.
    pub(crate) fn forget(&self, description: &OpenFile) {
        self.interests.lock().forget(description);
    }

    /// Reports what has come, at most `most` of it: events, and the program's data. The result is how much it is.
    pub fn collect(&self, most: usize, tell: impl FnMut(u32, u64)) -> u64 {
        let mut interests = self.interests.lock();
        interests.hear();
        interests.report(most, tell) as u64
    }
}

impl FileOps for Set {
    fn is_ready(&self, event: Event) -> bool {
        let mut interests = self.interests.lock();
        interests.hear();
        let has_come = |interest: &Interest| {
            interest.watched().is_some_and(|open| {
                interest.come(&open, interest.stamps(&open)) != 0 && !interest.is_claimed_elsewhere(&open)
            })
        };
        event == Event::Readable && interests.busy().any(|interest| !interest.spent && has_come(interest))
    }

    fn wait_terms(&self, event: Event) -> Vec<Term> {
        if event != Event::Readable {
            return Vec::new();
        }
        let interests = self.interests.lock();
        let changed = word(&self.changes, Operator::NotEqual, self.changes.load(Relaxed));
        let waiting = || interests.busy().filter(|interest| !interest.spent);
        let bell = interests.bell();
        // Almost every interest has a term.
        if waiting().count() < wait::MOST_TERMS {
            let mut terms: Vec<Term> = iter::once(changed).chain(waiting().flat_map(Interest::terms)).collect();
            let rings = |interest: &Interest| interest.watched().map(|open| bell.rings_for_holders(&open));
            if waiting().filter_map(rings).fold(interests.has_idle(), |any, rings| any | rings) {
                terms.push(bell.term);
            }
            if terms.len() <= wait::MOST_TERMS {
                return terms;
            }
        }
        let (mut terms, mut deaths) = (Vec::from([bell.term, changed]), Vec::new());
        for interest in waiting() {
            match interest.watched().and_then(|open| bell.rings_for(&open, interest.wanted())) {
                Some(more) => deaths.extend(more),
                None => terms.extend(interest.terms()),
            }
        }
        with_deaths(terms, deaths)
    }

    /// An event of any descriptor in it is one of the set.
    fn event_sequence(&self, event: Event) -> u64 {
        let interests = self.interests.lock();
        let of = |interest: &Interest| interest.watched().map(|open| interest.both_stamps(&open)).unwrap_or_default();
        let stamps = interests.all().filter(|_| event == Event::Readable).flat_map(of);
        stamps.fold(0, u64::wrapping_add)
    }

    fn edge_terms(&self, event: Event) -> Vec<Term> {
        let interests = self.interests.lock();
        if event != Event::Readable {
            return Vec::new();
        }
        let rung = interests.has_idle().then(|| interests.bell().term);
        rung.into_iter().chain(interests.busy().flat_map(Interest::changes)).collect()
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
