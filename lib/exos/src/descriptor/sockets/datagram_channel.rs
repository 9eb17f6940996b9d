//! Channels of datagrams: a page between a sender and a receiver of one machine, which the server makes after some
//! datagrams to the same place. From then on a datagram costs no call of the server.
//!
//! The server says where the datagrams of a channel come from and go to; the sender writes only what it may choose.
//! Invariants:
//! - A sender uses a channel while the word [`page::CHANNEL`] of its socket names it. The server clears that word
//!   before a datagram could have another receiver, and before a call to close the receiver ends.
//! - A receiver that finds garbage in a channel drops what lies there. It never waits for a count that stays as it is.
//! - A window is closed once no thread of this process uses it: its users hold a reference to the [`Channel`].
//!
//! Cost: a page for each pair of sockets and direction. Gain: a byte there and back by UDP, in `doc/benchmarks.md`.

use super::internet_socket::InternetSocket;
use crate::hw::domain::domain;
use crate::hw::mapping::{Mapping, PAGE_WORDS};
use crate::server::client;
use crate::wait::{self, bells};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Deref;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use internet::address::Endpoint;
use internet::datagram::{self, First, Head, SHORT_BYTES, Short};
use internet::page::{self, RING};
use internet::ring::{INLINE, Ring, advance};
use linux_abi::errno::Result;
use runtime::clock;
use runtime::lock::OwnerLock;
use runtime::predicate::{Operator, Term, word};

/// A channel that this process sends by, or receives by.
#[derive(Debug)]
pub(super) struct Channel {
    window: Mapping,
    /// Where its datagrams come from, and go to, as the server says.
    from: Endpoint,
    to: Endpoint,
}

/// The channel that a process sends by.
#[derive(Clone, Debug)]
pub(super) struct Outgoing {
    channel: Arc<Channel>,
    /// Its number, as [`page::CHANNEL`] has it.
    number: u64,
    /// The destination as the program names it; `None`: where the socket is connected.
    to: Option<Endpoint>,
    is_v4: bool,
}

/// The channels that a process receives by. None takes no memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Incoming {
    channels: Option<Arc<[Arc<Channel>]>>,
    /// The value of [`page::CHANGES`] that these are of.
    pub(super) seen: u64,
}

impl Deref for Incoming {
    type Target = [Arc<Channel>];

    #[inline]
    fn deref(&self) -> &Self::Target {
        self.channels.as_deref().unwrap_or_default()
    }
}

/// Those of a socket.
#[derive(Debug, Default)]
pub(super) struct Channels {
    outgoing: Option<Outgoing>,
    incoming: Incoming,
    /// Those that were used before, until no thread uses them.
    before: Vec<Arc<Channel>>,
}

impl Channels {
    fn retire(&mut self, channels: impl Iterator<Item = Arc<Channel>>) {
        self.before.extend(channels);
        let is_used = |channel: &Arc<Channel>| Arc::strong_count(channel) > 1;
        for channel in self.before.extract_if(.., |channel| !is_used(channel)) {
            domain().mappings.lock().close(&channel.window);
        }
    }

    /// No thread uses the socket any more.
    pub(super) fn close(&mut self) {
        let outgoing = self.outgoing.take().map(|outgoing| outgoing.channel);
        let all: Vec<Arc<Channel>> = core::mem::take(&mut self.incoming).iter().cloned().chain(outgoing).collect();
        self.retire(all.into_iter());
    }
}

impl Channel {
    fn word(&self, index: usize) -> &'static AtomicU64 {
        &self.window.first_page()[index]
    }

    /// The word at a position, which is a multiple of eight.
    fn word_of_ring(&self, position: u64) -> &'static AtomicU64 {
        self.word(RING + (position % INLINE / 8) as usize)
    }

    /// What becomes true when something comes.
    pub(super) fn term(&self) -> Term {
        word(self.word(page::SENT), Operator::NotEqual, self.word(page::TAKEN).load(Acquire))
    }

    pub(super) fn change_term(&self) -> Term {
        word(self.word(page::SENT), Operator::NotEqual, self.sent())
    }

    pub(super) fn sent(&self) -> u64 {
        self.word(page::SENT).load(Acquire)
    }

    /// Whether something lies there; a look that drops garbage finds that it was none.
    #[inline]
    pub(super) fn has_some(&self) -> bool {
        self.sent() != self.word(page::TAKEN).load(Acquire)
    }

    pub(super) fn note_reader(&self, number: u64) {
        self.word(page::READER).store(number, Relaxed);
    }

    /// The datagram that lies first. The caller has the lock of the readers.
    #[inline]
    pub(super) fn first(&self) -> Option<Short> {
        let (sent, taken) = (self.sent(), self.word(page::TAKEN).load(Acquire));
        let head = |at: u64| [at, at + 8].map(|at| self.word_of_ring(at).load(Relaxed));
        match datagram::first(sent, taken, head) {
            First::Empty => None,
            First::Datagram(short) => Some(short),
            First::Garbage => {
                self.word(page::TAKEN).store(sent, SeqCst);
                None
            }
        }
    }

    /// As much of that datagram as there is room for.
    pub(super) fn take(&self, short: Short, most: u64, peeks: bool) -> Result<(Head, Vec<u8>)> {
        let taken = self.word(page::TAKEN).load(Acquire);
        let ring = Ring::new(taken, taken, 0);
        let mut data = vec![0; short.length.min(most) as usize];
        let mut at = 0;
        while at < data.len() {
            let position = taken.wrapping_add(SHORT_BYTES + at as u64);
            let stretch = ring.stretch(position, (data.len() - at) as u64);
            self.window.read(RING as u64 * 8 + stretch.offset, &mut data[at..at + stretch.bytes as usize])?;
            at += stretch.bytes as usize;
        }
        if !peeks {
            self.word(page::TAKEN).store(datagram::after(taken, short), SeqCst);
        }
        let to = Endpoint { port: short.hops_and_service, ..self.to };
        Ok((Head { length: short.length, from: self.from, to, when: short.when }, data))
    }

    /// Puts a datagram there; false where there is no room. The caller has the lock of the writers.
    #[inline]
    fn put(&self, short: Short, bytes: &[u8]) -> Result<bool> {
        let sent = self.sent();
        let ring = Ring::new(sent, self.word(page::TAKEN).load(Acquire), 0);
        // Counts that make no sense: the receiver has written them, and gets no more here.
        if !ring.room().is_ok_and(|room| room >= short.size()) || ring.sent() % 8 != 0 {
            return Ok(false);
        }
        let [first, second] = short.to_words();
        self.word_of_ring(sent).store(first, Relaxed);
        self.word_of_ring(sent.wrapping_add(8)).store(second, Relaxed);
        let mut at = 0;
        while at < bytes.len() {
            let stretch = ring.stretch(sent.wrapping_add(SHORT_BYTES + at as u64), (bytes.len() - at) as u64);
            self.window.write(RING as u64 * 8 + stretch.offset, &bytes[at..at + stretch.bytes as usize])?;
            at += stretch.bytes as usize;
        }
        self.word(page::SENT).store(advance(sent, short.size()), SeqCst);
        Ok(true)
    }
}

impl InternetSocket {
    /// The channels that it receives by now.
    #[inline]
    pub(super) fn incoming_channels(&self) -> Incoming {
        let changes = self.word(page::CHANGES).load(Acquire);
        let channels = self.channels.lock();
        if channels.incoming.seen == changes {
            return channels.incoming.clone();
        }
        drop(channels);
        self.learn_channels(changes)
    }

    /// Asks the server which there are.
    #[cold]
    fn learn_channels(&self, changes: u64) -> Incoming {
        // A server that cannot tell has ended with all that it kept.
        let rows = client::files().lock().datagram_channels(self.number()).unwrap_or_default();
        let known = self.channels.lock().incoming.clone();
        let open = |(page, from, to)| {
            let same = |one: &&Arc<Channel>| one.window.pages()[0] == page && (one.from, one.to) == (from, to);
            if let Some(channel) = known.iter().find(same) {
                return Some(channel.clone());
            }
            let window = domain().mappings.lock().open(vec![page], domain().session_key, true).ok()?;
            Some(Arc::new(Channel { window, from, to }))
        };
        let fresh = Incoming { channels: Some(rows.into_iter().filter_map(open).collect()), seen: changes };
        let mut channels = self.channels.lock();
        let before = core::mem::replace(&mut channels.incoming, fresh.clone());
        drop(known);
        let gone: Vec<Arc<Channel>> =
            before.iter().filter(|one| !fresh.iter().any(|fresh| Arc::ptr_eq(one, fresh))).cloned().collect();
        drop(before);
        channels.retire(gone.into_iter());
        fresh
    }

    /// Has a bell ring for what comes by channels. One that is made later changes the page of the socket.
    pub(super) fn ask_channels_for_bell(&self, bell: u32) {
        self.incoming_channels().iter().for_each(|channel| bells::ask(channel.word(page::WATCH), bell));
    }

    /// Sends a datagram by the channel, if that leads to where it goes and has room.
    #[inline]
    pub(super) fn send_by_channel(
        &self,
        to: Option<Endpoint>,
        bytes: &[u8],
        hops_and_service: impl FnOnce(bool) -> u16,
    ) -> Result<bool> {
        let number = self.word(page::CHANNEL).load(Acquire);
        if number == 0 {
            return Ok(false);
        }
        let channels = self.channels.lock();
        let fits = |outgoing: &&Outgoing| outgoing.number == number && outgoing.to == to;
        let Some(Outgoing { channel, is_v4, .. }) = channels.outgoing.as_ref().filter(fits) else { return Ok(false) };
        let (channel, is_v4) = (channel.clone(), *is_v4);
        drop(channels);
        let held = OwnerLock::at(self.word(page::WRITE_LOCK)).acquire();
        let short =
            Short { when: clock::ticks(), length: bytes.len() as u64, hops_and_service: hops_and_service(is_v4) };
        let is_put = channel.put(short, bytes)?;
        drop(held);
        if is_put {
            bells::tell(channel.word(page::WATCH));
            wait::set_yield_target(channel.word(page::READER).load(Relaxed));
            wait::kick_idle();
        }
        Ok(is_put)
    }

    /// The server has made a channel, or knows one, for datagrams to a place.
    #[cold]
    pub(super) fn adopt_channel(&self, to: Option<Endpoint>, [page, number, family]: [u64; 3]) {
        let known = self.channels.lock().outgoing.clone();
        let channel = match known {
            Some(outgoing) if outgoing.number == number => outgoing.channel,
            _ => {
                let pages = vec![runtime::PageNumber(page)];
                // Without room for a window the server goes between, as before.
                let Ok(window) = domain().mappings.lock().open(pages, domain().session_key, true) else { return };
                Arc::new(Channel { window, from: Endpoint::default(), to: Endpoint::default() })
            }
        };
        let mut channels = self.channels.lock();
        let fresh = Outgoing { channel: channel.clone(), number, to, is_v4: family == 4 };
        drop(channel);
        let before = channels.outgoing.replace(fresh).map(|outgoing| outgoing.channel);
        let is_other =
            |one: &Arc<Channel>| channels.outgoing.as_ref().is_none_or(|new| !Arc::ptr_eq(one, &new.channel));
        let before = before.filter(is_other);
        channels.retire(before.into_iter());
    }
}

const _: () = assert!(RING * 8 + INLINE as usize == PAGE_WORDS * 8);
