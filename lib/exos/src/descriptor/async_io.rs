//! Signal-driven I/O (`O_ASYNC`, fcntl(2)): the owner of a descriptor gets a signal when a call would not wait.
//!
//! The process that sets the flag watches the descriptor itself. It compares stamps wherever it looks at its timers,
//! and its sleeping threads wait for the stamps, too. The process that makes the event come does nothing. A TCP
//! socket with an owner is watched without the flag: urgent data raises SIGURG (tcp(7)). The layer of signals keeps the
//! watches with the timers ([`ExpiryTimers`]) and calls `look` and `terms` as up-calls.
//!
//! Invariants:
//! - a watch ends with the descriptor, with flag and owner, and at fork in the child;
//! - `ExpiryTimers` reports itself due as long as there is a watch.

use super::fd_pins::{Used, descriptors};
use super::object::Object;
use super::open_file::OpenFile;
use super::poll_event::Event;
use super::sockets::internet_socket::InternetSocket;
use crate::hw::domain::domain;
use crate::process_table;
use crate::signal::{self, AsyncWatch, ExpiryTimers};
use alloc::vec::Vec;
use internet::option::Sort;
use linux_raw_sys::general as linux;
use runtime::predicate::Term;
use unix_core::signal::frame::Information;
use unix_core::signal::pending::from_system;

/// `si_code` of something to read, and of room to write; the bands that come with them.
const POLL_IN: (i32, u32) = (1, linux::POLLIN | linux::POLLRDNORM);
const POLL_OUT: (i32, u32) = (2, linux::POLLOUT | linux::POLLWRNORM | linux::POLLWRBAND);

impl AsyncWatch {
    /// Watches from now on.
    fn new(number: u64, description: &OpenFile) -> Self {
        let was_writable = description.can_write() && description.is_ready(Event::Writable);
        let urgent = urgent(description).map_or(0, InternetSocket::last_urgent);
        Self { key: (number, description.number()), stamps: stamps(description), was_writable, urgent }
    }

    /// Whether there is anything to watch a descriptor for.
    fn is_wanted(description: &OpenFile) -> bool {
        is_asynchronous(description) || urgent(description).is_some() && Owner::of(description).number != 0
    }

    /// Adds the watch in place of one of the same descriptor.
    fn add_to(mut self, watches: &mut Vec<Self>) {
        let before = watches.extract_if(.., |other| other.key == self.key).last();
        self.urgent = before.map_or(self.urgent, |before| before.urgent);
        watches.push(self);
    }

    /// What it watches; none where the descriptor is closed, or the flag is cleared and there is no owner.
    fn watched(&self) -> Option<Used> {
        descriptors().watched(self.key.0, self.key.1).filter(|open| Self::is_wanted(open))
    }

    /// Whether urgent data has come since the last look.
    fn has_new_urgent(&mut self, description: &OpenFile) -> bool {
        let now = urgent(description).map_or(0, InternetSocket::last_urgent);
        core::mem::replace(&mut self.urgent, now) != now && now != 0
    }

    /// What has come since the last look.
    fn look(&mut self, description: &OpenFile) -> Vec<(i32, u32)> {
        if !is_asynchronous(description) {
            return Vec::new();
        }
        let [read, written] = stamps(description);
        let can_write = description.can_write() && description.is_ready(Event::Writable);
        let mut come = Vec::new();
        if read != self.stamps[0] && (description.is_ready(Event::Readable) || description.is_hung_up()) {
            come.push(POLL_IN);
        }
        let is_pipe = matches!(description.object, Object::Pipe(..));
        if can_write && (!self.was_writable || is_pipe && written != self.stamps[1]) {
            come.push(POLL_OUT);
        }
        (self.stamps, self.was_writable) = ([read, written], can_write);
        come
    }
}

impl ExpiryTimers {
    /// Begins to watch a descriptor whose flag `O_ASYNC` or owner has changed, or no longer does.
    pub fn watch(&self, number: u64, description: &OpenFile) {
        if AsyncWatch::is_wanted(description) {
            let watch = AsyncWatch::new(number, description);
            watch.add_to(&mut self.watches.lock());
        }
        self.change(|_| ());
    }
}

fn is_asynchronous(description: &OpenFile) -> bool {
    description.flags() & linux::FASYNC != 0
}

/// The socket, where it is one that takes urgent data.
fn urgent(description: &OpenFile) -> Option<&InternetSocket> {
    description.as_kind::<InternetSocket>().filter(|socket| socket.sort == Sort::Tcp)
}

/// Of what the description is not open for, nothing is news.
fn stamps(description: &OpenFile) -> [u64; 2] {
    let read = if description.can_read() { description.stamp(Event::Readable) } else { 0 };
    let write = if description.can_write() { description.stamp(Event::Writable) } else { 0 };
    [read, write]
}

/// Looks at every watched descriptor, and sends the signals of those that something has come to.
pub fn look(watches: &mut Vec<AsyncWatch>) {
    let mut due = Vec::new();
    watches.retain_mut(|watch| {
        let Some(open) = watch.watched() else { return false };
        let (owner, number) = (Owner::of(&open), watch.key.0);
        if watch.has_new_urgent(&open) {
            due.push((owner, from_system(linux::SIGURG)));
        }
        due.extend(watch.look(&open).into_iter().map(|come| (owner, owner.information(number, come))));
        true
    });
    due.into_iter().for_each(|(owner, information)| owner.send(&information));
}

/// What becomes true when something comes to a watched descriptor.
pub fn terms(watches: &[AsyncWatch]) -> Vec<Term> {
    let mut terms = Vec::new();
    for open in watches.iter().filter_map(AsyncWatch::watched) {
        terms.extend(urgent(&open).and_then(InternetSocket::urgent_change));
        if !is_asynchronous(&open) {
            continue;
        }
        if open.can_read() {
            terms.extend(open.changes(Event::Readable));
        }
        if open.can_write() && (matches!(open.object, Object::Pipe(..)) || !open.is_ready(Event::Writable)) {
            terms.extend(open.changes(Event::Writable));
        }
    }
    terms
}

/// Owner of an open file: a thread, a process or a group, its number, and the signal that is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Owner {
    /// `F_OWNER_TID` and the like.
    pub kind: u32,
    /// Of a thread, process or group; 0: none.
    pub number: u32,
    /// 0: SIGIO, without what came.
    pub signal: u32,
}

impl Owner {
    /// From the word that an open file keeps.
    pub const fn from_word(word: u64) -> Self {
        Self { number: (word >> 32) as u32, kind: word as u32 >> 16 & 3, signal: word as u32 >> 8 & 0xff }
    }

    /// That of an open file.
    pub fn of(description: &OpenFile) -> Self {
        Self::from_word(description.owner())
    }

    /// The signal that says what came to a descriptor.
    fn information(self, number: u64, (code, band): (i32, u32)) -> Information {
        match self.signal {
            0 => from_system(linux::SIGIO),
            signal => Information { signal, code, detail: u64::from(band), value: number },
        }
    }

    fn send(self, information: &Information) {
        let to = u64::from(self.number);
        let thread = || signal::find_thread(|thread| domain().shown_number(thread) == to);
        // An owner that is gone is no error.
        let _ = match self.kind {
            _ if to == 0 => Ok(()),
            linux::F_OWNER_PGRP => process_table::inform_group(to, information),
            linux::F_OWNER_TID if let Some((thread, signals)) = thread() => signals
                .post()
                .put(information)
                .and_then(|()| signal::ring(domain().session_key, runtime::EnvironmentId(thread.number()))),
            _ => process_table::send(to, information).map(|_| ()),
        };
    }

    /// As the word that an open file keeps.
    pub const fn to_word(self) -> u64 {
        (self.number as u64) << 32 | (self.kind << 16 | self.signal << 8) as u64
    }
}
