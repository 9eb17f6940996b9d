//! Streams: bytes through the pages of both sides, without the server (tcp(7)).
//!
//! A sender puts bytes into its own page. Once they do not fit there, they go into a larger area that only its side
//! writes. A reader counts in its own page what it has taken. So the other side can write nothing here but its own
//! counts, which are checked.
//! Cost: one byte there and back is four copies and two waits, no call of the server.

use super::internet_socket::{InternetSocket, Link};
use super::socket::wait_until;
use crate::descriptor::object::broken_pipe;
use crate::descriptor::poll_event::Event;
use crate::hw::domain::domain;
use crate::hw::mapping::{Mapping, PAGE_WORDS};
use crate::hw::usercopy;
use crate::server::client;
use crate::wait;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use internet::bell::Watch;
use internet::option::{Sort, place};
use internet::page::{self, GENERATION, INFORMATION, INFORMATION_BYTES, RING, done, state, watch};
use internet::ring::{FINISHED, LARGE, RESET, Ring, advance, at_least};
use linux_abi::errno::{Errno, Result};
use runtime::clock;
use runtime::lock::OwnerLock;
use runtime::predicate::{Operator, Term, word};
use unix_core::server::protocol::InternetRequest;

/// How a reader takes bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Taking {
    /// They stay (`MSG_PEEK`).
    pub peeks: bool,
    /// They go nowhere (`MSG_TRUNC`).
    pub drops: bool,
    /// The reader waits for all that it has room for (`MSG_WAITALL`).
    pub whole: bool,
}

/// What one side sees of both.
struct Ends {
    peer: Mapping,
    outgoing: Option<Mapping>,
    incoming: Option<Mapping>,
}

impl Ends {
    #[inline]
    fn peer_word(&self, index: usize) -> &'static AtomicU64 {
        &self.peer.first_page()[index]
    }
}

/// The words of the other side's page.
type PeerWords = &'static [AtomicU64; PAGE_WORDS];

impl InternetSocket {
    #[inline]
    fn ends(&self) -> Option<Ends> {
        let link = self.link()?;
        Some(Ends { peer: link.peer.clone()?, outgoing: link.outgoing.clone(), incoming: link.incoming.clone() })
    }

    #[inline]
    fn peer_words(&self) -> Option<PeerWords> {
        Some(self.link()?.peer.as_ref()?.first_page())
    }

    #[inline]
    pub(super) fn peer_word(&self, index: usize) -> Option<&'static AtomicU64> {
        self.peer_words().map(|words| &words[index])
    }

    /// Tells the other side of changed counts, where it asks for that: the keeper of the wire, or threads that wait for
    /// many sockets.
    #[inline]
    fn tell_other(&self, ends: &Ends, what: u64) {
        let watch = Watch(ends.peer_word(page::WATCH).load(SeqCst));
        if watch.wants(what, |bell| client::bell(bell).load(SeqCst)) {
            // Where the server refuses, the connection is no more.
            let _ = self.ask(InternetRequest::Wake, [0; 3]);
        }
    }

    /// An option of TCP has changed: the keeper of the wire, if the connection is its, applies it now.
    pub fn publish_to_wire(&self) {
        if self.sort == Sort::Tcp
            && let Some(ends) = self.ends()
        {
            self.tell_other(&ends, watch::SENT | watch::TAKEN);
        }
    }

    /// `struct tcp_info` of a connection to another machine.
    pub fn information(&self) -> Option<Vec<u8>> {
        let ends = self.ends()?;
        (ends.peer_word(INFORMATION).load(Acquire) != 0).then(|| {
            let words = (0..INFORMATION_BYTES / 8).map(|at| ends.peer_word(INFORMATION + at).load(Acquire));
            words.flat_map(u64::to_le_bytes).collect()
        })
    }

    /// Bytes that ever came, and that ever were sent.
    pub(crate) fn stream_counts(&self) -> [u64; 2] {
        let own = Some(self.word(page::SENT));
        [self.peer_word(page::SENT), own].map(|sent| sent.map_or(0, |word| Ring::new(word.load(Acquire), 0, 0).sent()))
    }

    fn sent_by_peer(&self) -> u64 {
        self.peer_word(page::SENT).map_or(FINISHED, |word| word.load(Acquire))
    }

    fn incoming_ring(&self, ends: &Ends) -> Ring {
        self.ring_from(ends.peer.first_page())
    }

    fn ring_from(&self, peer: PeerWords) -> Ring {
        let from_peer = |index: usize| peer[index].load(Acquire);
        let (sent, skipped) = (from_peer(page::SENT), from_peer(page::URGENT_SKIPPED));
        let taken = at_least(self.word(page::TAKEN).load(Acquire), skipped);
        Ring::new(sent, taken, from_peer(page::LARGE_FROM))
    }

    fn outgoing_ring(&self, ends: &Ends) -> Ring {
        self.ring_to(ends.peer.first_page())
    }

    fn ring_to(&self, peer: PeerWords) -> Ring {
        let own = |index| self.word(index).load(Acquire);
        Ring::new(own(page::SENT), peer[page::TAKEN].load(Acquire), own(page::LARGE_FROM))
    }

    /// Whether all was read that came, nothing has ended, and no error waits. An urgent byte is announced before it
    /// comes.
    #[inline]
    pub(super) fn is_stream_quiet(&self) -> bool {
        let own = |index| self.word(index).load(Acquire);
        own(page::ERROR) == 0
            && own(page::DONE) & (done::READ_SHUT | done::BROKEN) == 0
            && self.peer_words().is_some_and(|peer| {
                peer[page::SENT].load(Acquire) == own(page::TAKEN) && self.urgent_from(peer).is_none()
            })
    }

    /// Opens the larger area of one side. The pages are those that the server tells.
    #[cold]
    fn open_large(&self, of_other: bool) -> Result<()> {
        let pages = client::files().lock().large_area(self.number(), of_other)?;
        if pages.len() as u64 * 4096 != LARGE {
            return Err(Errno::EIO);
        }
        let window = domain().mappings.lock().open(pages, domain().session_key, !of_other)?;
        let Some(mut link) = self.link() else {
            domain().mappings.lock().close(&window);
            return Err(Errno::ENOTCONN);
        };
        let Link { incoming, outgoing, .. } = &mut *link;
        *(if of_other { incoming } else { outgoing }) = Some(window);
        Ok(())
    }

    /// Bytes sent from now on lie in the larger area, after one of the holders opened it.
    #[cold]
    fn grow(&self) -> Result<()> {
        self.open_large(false)?;
        let position = Ring::new(self.word(page::SENT).load(Acquire), 0, 0).sent();
        let _ = self.word(page::LARGE_FROM).compare_exchange(0, position.wrapping_add(1), SeqCst, Relaxed);
        Ok(())
    }

    /// `read` into the program's memory.
    pub(crate) fn read_stream(&self, to: u64, count: u64, is_nonblocking: bool) -> Result<u64> {
        if count == 0 {
            return Ok(0);
        }
        self.take_some(
            count,
            Taking::default(),
            is_nonblocking,
            |window, place, at, bytes| window.copy_to_user(place, to.wrapping_add(at), bytes),
            |at, bytes| usercopy::prepare_checked(to.wrapping_add(at), bytes, true),
        )
    }

    /// The same into a buffer of ExOS.
    pub fn receive_stream(&self, most: u64, taking: Taking, is_nonblocking: bool) -> Result<Vec<u8>> {
        let buffer = RefCell::new(Vec::new());
        let each = |window: &Mapping, place: u64, at: u64, bytes: u64| {
            window.read(place, &mut buffer.borrow_mut()[at as usize..(at + bytes) as usize])
        };
        // Its size is known once there are bytes.
        let prepare = |at: u64, bytes: u64| {
            buffer.borrow_mut().resize((at + bytes) as usize, 0);
            Ok(bytes)
        };
        let taken = self.take_some(most, taking, is_nonblocking, each, prepare)?;
        let mut buffer = buffer.into_inner();
        buffer.truncate(taken as usize);
        Ok(buffer)
    }

    fn take_some(
        &self,
        count: u64,
        taking: Taking,
        is_nonblocking: bool,
        each: impl Fn(&Mapping, u64, u64, u64) -> Result<()>,
        prepare: impl Fn(u64, u64) -> Result<u64>,
    ) -> Result<u64> {
        let target = if taking.whole { count } else { count.min(self.value(place::RECEIVE_LEAST).max(1) as u64) };
        let mut deadline = None;
        let mut total = 0;
        // An error after some bytes belongs to the next call.
        let or_total = |total: u64, outcome: Result<u64>| if total > 0 { Ok(total) } else { outcome };
        loop {
            let Some(ends) = self.ends() else { return or_total(total, self.read_unconnected(is_nonblocking)) };
            // Looked at first: a `shutdown` after this ends the wait below.
            let now = self.word(page::STATE).load(Acquire);
            // What was sent before the end is there once this was read.
            let sent = ends.peer_word(page::SENT).load(Acquire);
            let ring = self.incoming_ring(&ends);
            let waiting = ring.waiting()? - u64::from(taking.peeks && self.has_urgent_first(ring));
            let is_last = self.is_done(done::READ_SHUT) || sent & (FINISHED | RESET) != 0 || is_nonblocking;
            let is_enough = !taking.peeks || is_last || waiting >= target.min(LARGE / 2);
            if total > 0 && self.urgent_before(ring) == Some(0) {
                return Ok(total);
            }
            if waiting > 0 && is_enough {
                let wanted = (count - total).min(waiting);
                let taken = prepare(total, wanted)
                    .and_then(|reachable| self.take_now(&ends, (total, reachable), taking, &each));
                // A reader that gets less than it has room for may wait for the next event (epoll(7), edges): nothing
                // that waits is held back.
                let is_short = match taken {
                    Ok(taken) => {
                        total += taken;
                        taken < wanted
                    }
                    failed => return or_total(total, failed),
                };
                if total >= target && !is_short || taking.peeks && total > 0 {
                    return Ok(total);
                }
                continue;
            }
            // A reader that asks for no bytes waits for some, too.
            if total > 0 && total >= target {
                return Ok(total);
            }
            if let Some(outcome) = self.outcome_without_bytes(sent, is_nonblocking) {
                return or_total(total, outcome);
            }
            deadline = deadline.or_else(|| self.deadline(0));
            self.note_waiting(page::READER);
            let come = word(ends.peer_word(page::SENT), Operator::NotEqual, sent);
            let outcome = wait_until(&[come, word(self.word(page::STATE), Operator::NotEqual, now)], deadline);
            self.word(page::READER).store(0, Relaxed);
            match outcome {
                Ok(()) => {}
                // As much as came in the time is given.
                Err(_) if total == 0 && taking.peeks && waiting > 0 => {
                    return self.take_some(count, taking, true, each, prepare);
                }
                Err(error) => return or_total(total, Err(error)),
            }
        }
    }

    /// What a reader gets that finds no bytes; `None`: it waits.
    fn outcome_without_bytes(&self, sent: u64, is_nonblocking: bool) -> Option<Result<u64>> {
        if self.is_done(done::READ_SHUT) || self.is_done(done::BROKEN) {
            return Some(Ok(0));
        }
        if sent & RESET != 0 {
            return Some(self.take_error().map_or(Ok(0), Err));
        }
        if sent & FINISHED != 0 {
            return Some(Ok(0));
        }
        is_nonblocking.then_some(Err(Errno::EAGAIN))
    }

    fn note_waiting(&self, waiter: usize) {
        self.word(waiter).store(runtime::area::number().0, Relaxed);
    }

    fn read_unconnected(&self, is_nonblocking: bool) -> Result<u64> {
        let now = self.word(page::STATE).load(Acquire);
        match now & (GENERATION - 1) {
            state::CONNECTING if is_nonblocking => Err(Errno::EAGAIN),
            state::CONNECTING => {
                wait_until(&[word(self.word(page::STATE), Operator::NotEqual, now)], self.deadline(0))?;
                Err(Errno::EINTR)
            }
            _ => Err(self.take_error().unwrap_or(Errno::ENOTCONN)),
        }
    }

    /// Takes bytes that are there, under the lock of the readers.
    fn take_now(
        &self,
        ends: &Ends,
        (to, count): (u64, u64),
        taking: Taking,
        each: &impl Fn(&Mapping, u64, u64, u64) -> Result<()>,
    ) -> Result<u64> {
        let _held = OwnerLock::at(self.word(page::READ_LOCK)).acquire();
        let ring = self.incoming_ring(ends);
        // The urgent byte is none of the others: it is left out.
        let first = u64::from(self.has_urgent_first(ring));
        if first > 0 && !taking.peeks {
            self.note_taken(ends, ring, 1, taking)?;
            return Ok(0);
        }
        let mut bytes = (ring.waiting()? - first).min(count);
        if let Some(before) = self.urgent_before(ring).filter(|before| *before > 0) {
            bytes = bytes.min(before);
        }
        let mut at = 0;
        while at < bytes {
            let stretch = ring.stretch(ring.taken().wrapping_add(first + at), bytes - at);
            if stretch.is_large && ends.incoming.is_none() {
                self.open_large(true)?;
                // The window is there for the next look. A look that takes nothing begins again.
                return if at > 0 && !taking.peeks { self.note_taken(ends, ring, at, taking) } else { Ok(0) };
            }
            if !taking.drops {
                let outcome = match (&ends.incoming, stretch.is_large) {
                    (Some(large), true) => each(large, stretch.offset, to + at, stretch.bytes),
                    _ => each(&ends.peer, RING as u64 * 8 + stretch.offset, to + at, stretch.bytes),
                };
                match outcome {
                    Err(error) if at == 0 => return Err(error),
                    Err(_) => break,
                    Ok(()) => {}
                }
            }
            at += stretch.bytes;
        }
        self.note_taken(ends, ring, at, taking)
    }

    fn note_taken(&self, ends: &Ends, ring: Ring, bytes: u64, taking: Taking) -> Result<u64> {
        if !taking.peeks {
            let taken = at_least(self.word(page::TAKEN).load(Acquire), ring.taken());
            self.word(page::TAKEN).store(advance(taken, bytes), SeqCst);
            wait::set_yield_target(ends.peer_word(page::WRITER).load(Relaxed));
            wait::kick_idle();
            self.tell_other(ends, watch::TAKEN);
        }
        Ok(bytes)
    }

    /// Bytes before the urgent one.
    fn urgent_before(&self, ring: Ring) -> Option<u64> {
        let urgent = self.peer_word(page::URGENT)?.load(Acquire);
        let before = urgent.checked_sub(1)?.wrapping_sub(ring.taken());
        ring.waiting().ok().filter(|waiting| before < *waiting).map(|_| before)
    }

    /// Whether the urgent byte comes next, and is not in line.
    fn has_urgent_first(&self, ring: Ring) -> bool {
        self.urgent_before(ring) == Some(0) && self.value(place::URGENT_IN_LINE) == 0
    }

    /// The urgent byte that came last, as its sender counts, until the reader has passed it.
    fn urgent(&self) -> Option<u64> {
        self.urgent_from(self.peer_words()?)
    }

    #[inline]
    fn urgent_from(&self, peer: PeerWords) -> Option<u64> {
        let urgent = peer[page::URGENT].load(Acquire);
        (urgent != 0 && urgent > self.ring_from(peer).taken()).then_some(urgent)
    }

    /// The urgent byte that came last; `EINVAL` where none did.
    pub fn take_urgent(&self, peeks: bool) -> Result<u8> {
        if self.peer_word(page::URGENT).is_none() {
            return Err(Errno::ENOTCONN);
        }
        let urgent = self.urgent().ok_or(Errno::EINVAL)?;
        if self.value(place::URGENT_IN_LINE) != 0 || self.word(page::URGENT_TAKEN).load(Acquire) == urgent {
            return Err(Errno::EINVAL);
        }
        if !peeks {
            self.word(page::URGENT_TAKEN).store(urgent, SeqCst);
        }
        Ok(self.peer_word(page::URGENT_BYTE).map_or(0, |word| word.load(Acquire)) as u8)
    }

    /// Whether an urgent byte waits.
    pub fn has_urgent(&self) -> bool {
        self.urgent().is_some_and(|urgent| self.word(page::URGENT_TAKEN).load(Acquire) != urgent)
    }

    /// The urgent byte that came last, as its sender counts; 0: none came.
    pub fn last_urgent(&self) -> u64 {
        self.peer_word(page::URGENT).map_or(0, |word| word.load(Acquire))
    }

    /// What becomes true when another one comes.
    pub fn urgent_change(&self) -> Option<Term> {
        self.peer_word(page::URGENT).map(|count| word(count, Operator::NotEqual, count.load(Acquire)))
    }

    /// Whether the next byte is the urgent one.
    pub(crate) fn is_at_mark(&self) -> bool {
        let Some(ends) = self.ends() else { return false };
        ends.peer_word(page::URGENT).load(Acquire) == self.incoming_ring(&ends).taken() + 1
    }

    /// `write` from the program's memory.
    pub fn write_stream(&self, from: u64, count: u64, is_nonblocking: bool, signals: bool) -> Result<u64> {
        self.put_all(
            count,
            is_nonblocking,
            signals,
            |window, place, at, bytes| window.copy_from_user(place, from.wrapping_add(at), bytes),
            |at, bytes| usercopy::prepare_checked(from.wrapping_add(at), bytes, false),
        )
    }

    /// The same of a buffer of ExOS.
    pub fn write_stream_bytes(&self, bytes: &[u8], is_nonblocking: bool, signals: bool) -> Result<u64> {
        let each = |window: &Mapping, place: u64, at: u64, count: u64| {
            window.write(place, &bytes[at as usize..(at + count) as usize])
        };
        self.put_all(bytes.len() as u64, is_nonblocking, signals, each, |_, bytes| Ok(bytes))
    }

    /// Sends bytes whose last one is urgent (`MSG_OOB`).
    pub fn send_urgent(&self, bytes: &[u8], is_nonblocking: bool, signals: bool) -> Result<u64> {
        let Some(last) = bytes.last() else { return self.write_stream_bytes(bytes, is_nonblocking, signals) };
        self.skip_urgent();
        let position = Ring::new(self.word(page::SENT).load(Acquire), 0, 0).sent();
        self.word(page::URGENT_BYTE).store(u64::from(*last), SeqCst);
        self.word(page::URGENT).store(position + bytes.len() as u64, SeqCst);
        self.write_stream_bytes(bytes, is_nonblocking, signals)
    }

    /// A reader that is at the urgent byte before this one never gets it in line.
    fn skip_urgent(&self) {
        let Some(ends) = self.ends() else { return };
        let before = self.word(page::URGENT).load(Acquire);
        let taken = at_least(ends.peer_word(page::TAKEN).load(Acquire), self.word(page::URGENT_SKIPPED).load(Acquire));
        let is_in_line = ends.peer_word(page::OPTIONS + place::URGENT_IN_LINE).load(Acquire) as u32 != 0;
        if before != 0 && Ring::new(0, taken, 0).taken() == before - 1 && !is_in_line {
            self.word(page::URGENT_SKIPPED).store(before, SeqCst);
        }
    }

    fn put_all(
        &self,
        count: u64,
        is_nonblocking: bool,
        signals: bool,
        each: impl Fn(&Mapping, u64, u64, u64) -> Result<()>,
        prepare: impl Fn(u64, u64) -> Result<u64>,
    ) -> Result<u64> {
        let mut at = 0;
        let mut deadline = None;
        loop {
            let ends = match self.check_writable() {
                Ok(ends) => ends,
                Err(_) if at > 0 => return Ok(at),
                Err(Errno::EPIPE) if signals => return Err(broken_pipe()),
                Err(error) => return Err(error),
            };
            let Some(ends) = ends else { return Ok(count) };
            if at == count {
                return Ok(at);
            }
            let reachable = match prepare(at, (count - at).min(LARGE)) {
                Err(_) if at > 0 => return Ok(at),
                outcome => outcome?,
            };
            let put = match self.put_now(&ends, (at, reachable), &each) {
                Err(_) if at > 0 => return Ok(at),
                outcome => outcome?,
            };
            at += put;
            if put > 0 {
                if at == count {
                    return Ok(at);
                }
                continue;
            }
            if self.word(page::LARGE_FROM).load(Acquire) == 0 || ends.outgoing.is_none() {
                self.grow()?;
                continue;
            }
            self.word(page::FULL).fetch_add(1, SeqCst);
            if is_nonblocking {
                return if at > 0 { Ok(at) } else { Err(Errno::EAGAIN) };
            }
            deadline = deadline.or_else(|| self.deadline(1));
            match self.wait_for_room(deadline) {
                Err(_) if at > 0 => return Ok(at),
                outcome => outcome?,
            }
        }
    }

    /// Whether bytes may be sent: `None` where they go nowhere, as the first ones do that a closed socket gets.
    fn check_writable(&self) -> Result<Option<Ends>> {
        let Some(ends) = self.ends() else {
            return Err(match self.state() {
                state::CONNECTING => Errno::EAGAIN,
                _ => self.take_error().unwrap_or(Errno::EPIPE),
            });
        };
        if self.word(page::SENT).load(Acquire) & FINISHED != 0 {
            return Err(self.take_error().unwrap_or(Errno::EPIPE));
        }
        if ends.peer_word(page::SENT).load(Acquire) & RESET != 0 {
            return Err(self.take_error().unwrap_or(Errno::EPIPE));
        }
        if ends.peer_word(page::TAKEN).load(Acquire) & RESET != 0 {
            if self.is_done(done::BROKEN) {
                self.note_done(done::RESET_TOLD);
                return Err(Errno::EPIPE);
            }
            self.note_done(done::BROKEN);
            return Ok(None);
        }
        if self.is_shut_both_ways(&ends) {
            self.word(page::SENT).fetch_or(FINISHED | RESET, SeqCst);
            self.note_done(done::BROKEN);
            return Ok(None);
        }
        Ok(Some(ends))
    }

    /// Whether the other side neither sends nor reads any more: bytes that come reset its connection.
    fn is_shut_both_ways(&self, ends: &Ends) -> bool {
        let has_finished = ends.peer_word(page::SENT).load(Acquire) & FINISHED != 0;
        has_finished && ends.peer_word(page::DONE).load(Acquire) & done::READ_SHUT != 0
    }

    fn put_now(
        &self,
        ends: &Ends,
        (from, count): (u64, u64),
        each: &impl Fn(&Mapping, u64, u64, u64) -> Result<()>,
    ) -> Result<u64> {
        let _held = OwnerLock::at(self.word(page::WRITE_LOCK)).acquire();
        let ring = self.outgoing_ring(ends);
        let bytes = ring.room()?.min(count);
        // What the larger area has room for is not torn in two, where another writer could come between.
        if bytes < count && self.word(page::LARGE_FROM).load(Acquire) == 0 {
            return Ok(0);
        }
        let mut at = 0;
        while at < bytes {
            let stretch = ring.stretch(ring.sent().wrapping_add(at), bytes - at);
            let outcome = match (&ends.outgoing, stretch.is_large) {
                (Some(large), true) => each(large, stretch.offset, from + at, stretch.bytes),
                // The area that another holder opened is opened here first.
                (None, true) => break,
                (_, false) => each(self.own(), RING as u64 * 8 + stretch.offset, from + at, stretch.bytes),
            };
            match outcome {
                Err(error) if at == 0 => return Err(error),
                Err(_) => break,
                Ok(()) => at += stretch.bytes,
            }
        }
        if at > 0 {
            if ring.waiting() == Ok(0) {
                self.word(page::FILLED_AT).store(clock::ticks(), Relaxed);
            }
            self.word(page::SENT).store(advance(self.word(page::SENT).load(Acquire), at), SeqCst);
            wait::set_yield_target(ends.peer_word(page::READER).load(Relaxed));
            wait::kick_idle();
            self.tell_other(ends, watch::SENT);
        }
        Ok(at)
    }

    /// Waits until there is room for bytes, or the other side takes none any more.
    pub(crate) fn wait_for_room(&self, deadline: Option<u64>) -> Result<()> {
        let Some(ends) = self.ends() else { return Ok(()) };
        if self.outgoing_ring(&ends).room() != Ok(0) {
            return Ok(());
        }
        let (taken, sent) = (ends.peer_word(page::TAKEN), ends.peer_word(page::SENT));
        let terms = [taken, sent].map(|count| word(count, Operator::NotEqual, count.load(Acquire)));
        if self.outgoing_ring(&ends).room() != Ok(0) {
            return Ok(());
        }
        self.note_waiting(page::WRITER);
        let outcome = wait_until(&terms, deadline);
        self.word(page::WRITER).store(0, Relaxed);
        outcome
    }

    pub(crate) fn finish_sending(&self) {
        let ends = self.ends();
        ends.iter().for_each(|ends| self.note_end_time(ends));
        self.word(page::SENT).fetch_or(FINISHED, SeqCst);
        ends.iter().for_each(|ends| self.tell_other(ends, watch::SENT));
    }

    /// The end is the first that the other side can read now, if no bytes wait there.
    fn note_end_time(&self, ends: &Ends) {
        if self.outgoing_ring(ends).waiting() == Ok(0) {
            self.word(page::FILLED_AT).store(clock::ticks(), Relaxed);
        }
    }

    /// The last descriptor in any process was closed: what is unread, or a linger of no seconds, is a reset.
    pub(crate) fn end_stream(&self) {
        let Some(ends) = self.ends() else { return };
        let unread = self.incoming_ring(&ends).waiting() != Ok(0) && !self.is_done(done::BROKEN);
        let resets = unread || self.word(page::LINGER).load(Relaxed) == 1;
        self.note_end_time(&ends);
        self.word(page::SENT).fetch_or(FINISHED | if resets { RESET } else { 0 }, SeqCst);
        self.word(page::TAKEN).fetch_or(RESET, SeqCst);
        wait::set_yield_target(ends.peer_word(page::READER).load(Relaxed));
        wait::kick_idle();
    }

    /// Whether the connection was reset: by the other side, or because it closed a socket that was written to.
    pub(crate) fn is_reset(&self) -> bool {
        self.state() == state::CONNECTED && (self.sent_by_peer() & RESET != 0 || self.is_done(done::BROKEN))
    }

    /// Whether the connection is over for both sides, or was reset: neither has a name any more.
    pub(crate) fn is_over(&self) -> bool {
        let is_finished = |sent: u64| sent & FINISHED != 0;
        let own = self.word(page::SENT).load(Acquire);
        self.is_reset() || self.state() == state::CONNECTED && is_finished(own) && is_finished(self.sent_by_peer())
    }

    /// Whether nothing more comes.
    pub(crate) fn is_at_end(&self) -> bool {
        self.is_done(done::READ_SHUT) || self.sent_by_peer() & (FINISHED | RESET) != 0
    }

    /// Whether nothing more goes either way.
    pub(crate) fn is_stream_over(&self) -> bool {
        let sends = self.word(page::SENT).load(Acquire) & FINISHED == 0;
        self.is_reset() || self.is_at_end() && !sends
    }

    /// Bytes that a reader gets at once: those before the urgent one, where that is not in line.
    pub(crate) fn stream_waiting(&self) -> u64 {
        let Some(ends) = self.ends() else { return 0 };
        let ring = self.incoming_ring(&ends);
        match self.urgent_before(ring) {
            Some(before) if self.value(place::URGENT_IN_LINE) == 0 => before,
            _ => ring.waiting().unwrap_or(0),
        }
    }

    /// Bytes that count as readable: all but an urgent one that comes next.
    fn readable(&self) -> u64 {
        let Some(peer) = self.peer_words() else { return 0 };
        let ring = self.ring_from(peer);
        ring.waiting().unwrap_or(0).saturating_sub(u64::from(self.has_urgent_first(ring)))
    }

    /// Bytes that it sent and that the other side has not read.
    pub(crate) fn stream_unread(&self) -> u64 {
        self.ends().and_then(|ends| self.outgoing_ring(&ends).waiting().ok()).unwrap_or(0)
    }

    fn has_much_room(&self) -> bool {
        let is_large = self.word(page::LARGE_FROM).load(Acquire) != 0;
        let Some(peer) = self.peer_words().filter(|_| is_large) else { return true };
        self.ring_to(peer).room().is_ok_and(|room| room >= LARGE / 3)
    }

    pub(crate) fn is_stream_ready(&self, event: Event) -> bool {
        match event {
            Event::Readable => {
                let least = self.value(place::RECEIVE_LEAST).max(1) as u64;
                self.readable() >= least.min(LARGE) || self.is_at_end() || self.is_reset()
            }
            Event::Writable => {
                let sends = self.word(page::SENT).load(Acquire) & FINISHED == 0;
                !sends || self.is_reset() || self.has_much_room()
            }
        }
    }

    pub(crate) fn stream_terms(&self, event: Event) -> Vec<Term> {
        let index = if event == Event::Readable { page::SENT } else { page::TAKEN };
        let Some(count) = self.peer_word(index) else { return Vec::new() };
        let term = word(count, Operator::NotEqual, count.load(Acquire));
        // What came before the count was read makes the next look at once.
        if self.is_stream_ready(event) {
            return vec![word(self.word(page::STATE), Operator::NotEqual, u64::MAX)];
        }
        vec![term]
    }

    pub(crate) fn stream_stamp(&self, event: Event) -> u64 {
        match event {
            Event::Readable => self.sent_by_peer() << 1 | u64::from(self.is_done(done::BROKEN)),
            Event::Writable => {
                let ready = self.is_stream_ready(event);
                self.word(page::FULL).load(Acquire) << 2 | u64::from(self.is_reset()) << 1 | u64::from(ready)
            }
        }
    }

    pub(crate) fn stream_changes(&self, event: Event) -> Vec<Term> {
        let Some(ends) = self.ends() else { return Vec::new() };
        match event {
            Event::Writable if self.is_stream_ready(event) => Vec::new(),
            event => {
                let count = ends.peer_word(if event == Event::Readable { page::SENT } else { page::TAKEN });
                vec![word(count, Operator::NotEqual, count.load(Acquire))]
            }
        }
    }
}
