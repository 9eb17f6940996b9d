//! What an `epoll` set wants of one descriptor, and what it told of it.
//!
//! An interest has no reference to the description: each look asks `fd_pins` for it.

use crate::descriptor::fd_pins::{Used, descriptors};
use crate::descriptor::open_file::OpenFile;
use crate::descriptor::poll_event::Event;
use crate::descriptor::readiness::{self, SleeperBell};
use alloc::vec::Vec;
use linux_raw_sys::general as linux;
use runtime::predicate::Term;

const EDGE: u32 = linux::EPOLLET;
const ONCE: u32 = linux::EPOLLONESHOT;
/// Interests that ask for news: what was told already does not count.
const NEWS: u32 = EDGE | linux::EPOLLEXCLUSIVE;
/// Further looks at the state, at most, until no event comes meanwhile.
const LOOKS_FOR_NEWS: u32 = 3;
/// Events that come with something to read.
const READABLE: u32 = linux::EPOLLIN | linux::EPOLLRDNORM | linux::EPOLLRDHUP | linux::EPOLLPRI;
/// Events that are told whether they were asked for or not.
const ALWAYS: u32 = linux::EPOLLERR | linux::EPOLLHUP;

/// The descriptor, and the number of its description.
pub(super) type Key = (u64, u64);

/// One descriptor of a set.
#[derive(Clone, Debug)]
pub(super) struct Interest {
    pub(super) key: Key,
    /// Events asked for, and how.
    pub(super) events: u32,
    /// What the program wants to be told with them.
    pub(super) data: u64,
    /// Stamps at the last telling: readable, writable.
    told: Option<[u64; 2]>,
    /// Told once, and not to be told again until it is changed.
    pub(super) spent: bool,
    /// The stamp of the event that this interest claimed last (`EPOLLEXCLUSIVE`).
    claimed: u64,
    /// Looks that found nothing, one after the other.
    pub(super) looks: u32,
    /// When it became ready, or was reported last and stayed ready, in ticks; 0: it was not ready at the last look.
    pub(super) since: u64,
}

impl Interest {
    /// A new one. What has come before it is reported to it, too.
    pub(super) fn new(key: Key, description: &OpenFile, events: u32, data: u64) -> Self {
        let mut interest = Self { key, events, data, told: None, spent: false, claimed: 0, looks: 0, since: 0 };
        let stamps = interest.stamps(description);
        interest.claimed = interest.exclusive_stamp(description, stamps).unwrap_or(0);
        interest
    }

    /// What it is in; none once that is closed.
    pub(super) fn watched(&self) -> Option<Used> {
        descriptors().watched(self.key.0, self.key.1)
    }

    fn wants(&self, event: Event) -> bool {
        let bit = match event {
            Event::Readable => READABLE,
            Event::Writable => linux::EPOLLOUT | linux::EPOLLWRNORM,
        };
        self.events & bit != 0
    }

    /// Of what is not asked for, nothing is news; nor does a level-triggered interest ask for news.
    pub(super) fn stamps(&self, description: &OpenFile) -> [u64; 2] {
        if self.events & NEWS == 0 {
            return [0; 2];
        }
        self.both_stamps(description)
    }

    pub(super) fn both_stamps(&self, description: &OpenFile) -> [u64; 2] {
        [Event::Readable, Event::Writable].map(|event| if self.wants(event) { description.stamp(event) } else { 0 })
    }

    /// Events that have come and are to be told, and stamps that hold for them.
    #[inline(always)]
    pub(super) fn news(&self, description: &OpenFile) -> (u32, [u64; 2]) {
        if self.events & NEWS == 0 {
            return (self.state(description), [0; 2]);
        }
        self.settled_news(description)
    }

    /// The same where stamps count: they are the same before the look at the state and after it. So what comes in
    /// between is told now, and not once more. Where events come faster than the looks, the last one may be told again.
    #[inline(never)]
    fn settled_news(&self, description: &OpenFile) -> (u32, [u64; 2]) {
        let mut stamps = self.stamps(description);
        let mut events = self.come(description, stamps);
        for _ in 0..LOOKS_FOR_NEWS {
            let before = core::mem::replace(&mut stamps, self.stamps(description));
            if events == 0 || before == stamps {
                return (events, before);
            }
            events = self.come(description, stamps);
        }
        (events, stamps)
    }

    /// Events that have come and are to be told, as of stamps that were read before.
    pub(super) fn come(&self, description: &OpenFile, stamps: [u64; 2]) -> u32 {
        if self.events & EDGE != 0 && self.told == Some(stamps) {
            return 0;
        }
        self.state(description)
    }

    /// Events that are asked for, and are there.
    fn state(&self, description: &OpenFile) -> u32 {
        let state = u32::from(readiness::state(description, self.events as u16 | ALWAYS as u16));
        state & (self.events | ALWAYS)
    }

    /// A number that is another one after each event, for an interest that shares its events with others.
    fn exclusive_stamp(&self, description: &OpenFile, [readable, writable]: [u64; 2]) -> Option<u64> {
        let is_exclusive = self.events & linux::EPOLLEXCLUSIVE != 0 && description.counts_events();
        is_exclusive.then(|| (readable ^ writable.rotate_left(32)).wrapping_add(1))
    }

    /// Whether an event that has come is this interest's to report: the first of the exclusive interests takes it.
    pub(super) fn claims(&mut self, description: &OpenFile, stamps: [u64; 2]) -> bool {
        let Some(stamp) = self.exclusive_stamp(description, stamps) else { return true };
        let is_its = self.claimed == stamp || description.claim_event(stamp);
        if is_its {
            self.claimed = stamp;
        }
        is_its
    }

    /// Whether another exclusive interest has claimed the event that came last.
    pub(super) fn is_claimed_elsewhere(&self, description: &OpenFile) -> bool {
        let stamp = self.exclusive_stamp(description, self.stamps(description));
        stamp.is_some_and(|stamp| self.claimed != stamp && description.claimed_event() == stamp)
    }

    /// Records that it was reported, as of these stamps. A level-triggered one may be ready still: its turn comes again
    /// at `next`.
    pub(super) fn tell(&mut self, stamps: [u64; 2], next: u64) {
        self.told = (self.events & EDGE != 0).then_some(stamps);
        self.spent = self.events & ONCE != 0;
        self.since = if self.events & (EDGE | ONCE) == 0 { next } else { 0 };
    }

    /// When these events came, which came between two times. Where that is not known, it is the later time.
    pub(super) fn time_of(&self, description: &OpenFile, events: u32, between: [u64; 2]) -> u64 {
        let [from, to] = between;
        let time = if events & (READABLE | ALWAYS) != 0 { readiness::filled_at(description) } else { 0 };
        if (from..to).contains(&time) { time } else { to }
    }

    pub(super) fn wanted(&self) -> impl Iterator<Item = Event> {
        [Event::Readable, Event::Writable].into_iter().filter(|event| self.wants(*event))
    }

    pub(super) fn terms(&self) -> Vec<Term> {
        let Some(description) = self.watched() else { return Vec::new() };
        let only_ends = self.wanted().next().is_none();
        if self.told.is_some() || only_ends || self.is_claimed_elsewhere(&description) {
            return self.changes();
        }
        let is_for_bytes = self.events & (linux::EPOLLIN | linux::EPOLLRDNORM) != 0;
        let one = |event| {
            description.note_waiter(event);
            // Bytes that wait are no news where urgent ones or an end are waited for.
            let waits_for_news = event == Event::Readable && !is_for_bytes;
            if waits_for_news { description.changes(event) } else { description.terms(event) }
        };
        self.wanted().flat_map(one).collect()
    }

    pub(super) fn changes(&self) -> Vec<Term> {
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

    /// Whether it stays as it is until its socket rings: has that ring from here on, then looks. The result is the name
    /// that is recorded then.
    pub(super) fn rests(&self, bell: &SleeperBell) -> Option<u64> {
        let description = self.watched().filter(|_| self.events & linux::EPOLLEXCLUSIVE == 0)?;
        let name = bell.rings_each_time(&description, self.wants(Event::Writable))?;
        (self.come(&description, self.stamps(&description)) == 0).then_some(name)
    }
}
