//! Readiness of an open file: the events of poll(2) that have come.

use super::file_ops::FileOps;
use super::object::Object;
use super::open_file::OpenFile;
use super::poll_event::Event;
use super::sockets::internet_socket::InternetSocket;
use super::sockets::socket::Socket;
use crate::server::client;
use crate::terminal::pty_master::Master;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::SeqCst;
use internet::bell::BELLS;
use internet::option::Sort;
use internet::page::watch;
use linux_raw_sys::general as linux;
use runtime::predicate::{self, Operator, Term};

pub(crate) const READABLE: u16 = (linux::POLLIN | linux::POLLRDNORM) as u16;
pub(crate) const WRITABLE: u16 = (linux::POLLOUT | linux::POLLWRNORM) as u16;
/// What of a set of exceptional descriptors is waited for.
pub(crate) const SPECIAL: u16 = linux::POLLPRI as u16;
pub(crate) const URGENT: u16 = linux::POLLWRBAND as u16;
pub(crate) const HUNG_UP: u16 = linux::POLLHUP as u16;
pub(crate) const BROKEN: u16 = linux::POLLERR as u16;

/// A bell in place of the terms of many sockets: see `internet::bell`.
///
/// A sleeper that waits for more terms than a predicate takes writes its bell into the pages of its sockets. Whatever
/// changes a socket whose page has a bell has the server ring that: one RPC. Without it the sleeper looks each
/// millisecond.
pub(crate) struct SleeperBell {
    number: u32,
    pub(crate) term: Term,
}

impl SleeperBell {
    /// That of the running thread.
    pub(crate) fn of_thread() -> Self {
        Self::of(runtime::area::number().0)
    }

    /// That of a number. It is read here: what comes from here on rings it.
    pub(crate) fn of(number: u64) -> Self {
        let number = number as u32 % BELLS as u32;
        let word = client::bell(number);
        let count = word.load(SeqCst);
        Self { number, term: predicate::word(word, Operator::NotEqual, count) }
    }

    /// Has it ring for these events of a description, and always for its end. The result is what is watched apart from
    /// that: see `FileOps::death_terms`. `None`: it has no bell.
    pub(crate) fn rings_for(&self, description: &OpenFile, events: impl Iterator<Item = Event>) -> Option<Vec<Term>> {
        let other = match &description.object {
            Object::Other(other) => other,
            Object::Pipe(pipe, side) => {
                pipe.note_waiter(if side.reads() { Event::Readable } else { Event::Writable });
                return pipe.ask_for_bell(*side, self.number).then(|| pipe.death_term(*side).into_iter().collect());
            }
            _ => return None,
        };
        let bits = events.fold(watch::SENT, |all, event| {
            description.note_waiter(event);
            // Room becomes less by writes alone.
            let is_full = event == Event::Writable && !other.is_ready(event);
            all | if is_full { watch::TAKEN } else { 0 }
        });
        other.ask_for_bell(bits, self.number, false).map(|_| other.death_terms())
    }

    /// Whether it rings for what other holders of a description do to it: no term tells of that.
    pub(crate) fn rings_for_holders(&self, description: &OpenFile) -> bool {
        let Object::Other(other) = &description.object else { return false };
        other.ask_for_bell(watch::OWN, self.number, false).is_some()
    }

    /// The name under which it rings for each change of a description that has events of both kinds, or only to be
    /// read.
    pub(crate) fn rings_each_time(&self, description: &OpenFile, writable: bool) -> Option<u64> {
        let Object::Other(other) = &description.object else { return None };
        other.ask_for_bell(if writable { watch::SENT | watch::TAKEN } else { watch::SENT }, self.number, true)
    }
}

/// What of `poll` neither files nor pipes nor terminals have: ends of one half; of sockets what is urgent, which goes
/// where all else goes, and errors that wait. Of pseudo-terminals these are the events of packet mode.
#[inline(never)]
fn state_beside(description: &OpenFile, other: &dyn FileOps, wanted: u16, found: u16) -> u16 {
    let half_closed = wanted & linux::POLLRDHUP as u16;
    let mut beside = if half_closed != 0 && other.is_half_closed() { half_closed } else { 0 };
    if let Some(socket) = description.as_kind::<InternetSocket>() {
        beside |= if socket.sort == Sort::Tcp && socket.has_urgent() { wanted & SPECIAL } else { 0 };
        beside |= if socket.has_error() { BROKEN } else { 0 };
    }
    if wanted & SPECIAL != 0 && description.as_kind::<Master>().is_some_and(Master::has_packet_events) {
        beside |= SPECIAL;
    }
    if let Some(socket) = description.as_kind::<Socket>() {
        beside |= if found & WRITABLE != 0 { wanted & URGENT } else { 0 };
        beside |= if socket.is_broken_off() { BROKEN } else { 0 };
    }
    beside
}

/// The events of `poll` that have come, of those that are wanted, and those that are told always.
pub(crate) fn state(description: &OpenFile, wanted: u16) -> u16 {
    if let Object::Other(other) = &description.object
        && wanted & WRITABLE == 0
        && other.is_quiet()
    {
        return 0;
    }
    let mut found = 0;
    if wanted & READABLE != 0 && description.is_ready(Event::Readable) {
        found |= wanted & READABLE;
    }
    if wanted & WRITABLE != 0 && description.is_ready(Event::Writable) {
        found |= wanted & WRITABLE;
    }
    if description.is_hung_up() {
        // The writer of a pipe without readers is told of an error; all others that the other side is gone.
        let is_writer = description.can_write() && matches!(description.object, Object::Pipe(..));
        found |= if is_writer { BROKEN } else { HUNG_UP };
    }
    if let Object::Text(text) = &description.object
        && text.take_mount_change()
    {
        found |= BROKEN | wanted & SPECIAL;
    }
    if let Object::Other(other) = &description.object {
        found |= state_beside(description, &**other, wanted, found);
    }
    // A pipe whose writers are gone is at its end, not full of data.
    if found & HUNG_UP != 0 && !description.has_data() {
        found &= !READABLE;
    }
    found
}

/// See [`FileOps::filled_at`].
pub(super) fn filled_at(description: &OpenFile) -> u64 {
    match &description.object {
        Object::Pipe(pipe, _) => pipe.filled_at(),
        Object::Other(other) => other.filled_at(),
        _ => 0,
    }
}
