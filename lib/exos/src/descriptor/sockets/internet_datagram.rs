//! Datagrams of a socket (udp(7), raw(7), icmp(7)).
//!
//! The server sends them into the page of the receiver's socket; to a place that a socket keeps sending to they go by
//! a channel (`datagram_channel`). A receiver takes the oldest of what lies in its page, in its channels, and with the
//! server.

use super::datagram_channel::{Channel, Incoming};
use super::internet_socket::InternetSocket;
use super::socket::wait_until_for;
use crate::descriptor::object::broken_pipe;
use crate::server::client;
use crate::wait;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use internet::address::{Endpoint, Family};
use internet::control::Sending;
use internet::datagram::{HEAD_BYTES, HEAD_WORDS, Head, LONGEST, LONGEST_V4, Short};
use internet::option::place;
use internet::page::{self, RING, done};
use internet::ring::{Ring, advance};
use linux_abi::errno::{Errno, Result};
use runtime::lock::OwnerLock;
use runtime::predicate::{Operator, Term, word};

/// Where the datagram lies that a reader gets next.
enum Source<'a> {
    /// In the page of the socket.
    Page,
    /// With the server.
    Server,
    /// In a channel.
    Channel(&'a Channel, Short),
}

/// A datagram that was received.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// Where it came from, and its length.
    pub head: Head,
    /// As much of it as there was room for.
    pub data: Vec<u8>,
}

/// The parts of a datagram that came so far, where it goes, and what holds for it alone.
#[derive(Debug)]
pub(super) struct Parts {
    to: Option<Endpoint>,
    sending: Sending,
    bytes: Vec<u8>,
}

impl InternetSocket {
    /// Sends a datagram to where it is connected.
    pub fn send_datagram(&self, bytes: &[u8]) -> Result<u64> {
        self.send_datagram_part(None, bytes, Sending::default(), false)
    }

    /// Sends a datagram to where it is connected, or elsewhere, with what holds for it alone. Where `more` comes, or
    /// while `UDP_CORK` is set, this process keeps the bytes for one datagram, which goes where its first part went.
    pub fn send_datagram_part(&self, to: Option<Endpoint>, bytes: &[u8], sending: Sending, more: bool) -> Result<u64> {
        let more = more || self.value(place::UDP_CORK) != 0;
        let mut parts = self.parts.lock();
        if parts.is_none() {
            if !more {
                drop(parts);
                return self.send_whole_datagram(to, bytes, sending);
            }
            self.check_datagram(to, bytes)?;
            if to.is_none() && self.name_of(1)?.is_none() {
                return Err(Errno::EDESTADDRREQ);
            }
        }
        let mut kept = parts.take().unwrap_or(Parts { to, sending, bytes: Vec::new() });
        if (kept.bytes.len() + bytes.len()) as u64 > self.longest_datagram() {
            return Err(Errno::EMSGSIZE);
        }
        kept.bytes.extend_from_slice(bytes);
        *parts = Some(kept);
        drop(parts);
        if !more {
            self.send_kept_parts()?;
        }
        Ok(bytes.len() as u64)
    }

    /// Sends the datagram whose parts this process keeps.
    pub fn send_kept_parts(&self) -> Result<()> {
        let kept = self.parts.lock().take();
        kept.map_or(Ok(()), |kept| self.send_whole_datagram(kept.to, &kept.bytes, kept.sending).map(|_| ()))
    }

    const fn longest_datagram(&self) -> u64 {
        match self.family {
            Family::V4 => LONGEST_V4,
            Family::V6 => LONGEST,
        }
    }

    fn check_datagram(&self, to: Option<Endpoint>, bytes: &[u8]) -> Result<()> {
        if self.is_done(done::WRITE_SHUT) {
            return Err(broken_pipe());
        }
        if bytes.len() as u64 > self.longest_datagram() {
            return Err(Errno::EMSGSIZE);
        }
        if let Some(error) = self.take_error() {
            return Err(error);
        }
        if self.sort.is_udp() && to.is_some_and(|to| to.port == 0) {
            return Err(Errno::EINVAL);
        }
        Ok(())
    }

    fn send_whole_datagram(&self, to: Option<Endpoint>, bytes: &[u8], sending: Sending) -> Result<u64> {
        self.check_datagram(to, bytes)?;
        if self.sort.is_udp() && self.send_by_channel(to, bytes, |is_v4| self.hops_and_service(is_v4, sending))? {
            return Ok(bytes.len() as u64);
        }
        let [_, _, waiter, channel @ ..] = client::files().lock().send_datagram(self.number(), to, bytes, sending)?;
        wait::set_yield_target(waiter);
        if channel[0] != 0 {
            self.adopt_channel(to, channel);
        }
        Ok(bytes.len() as u64)
    }

    /// The TTL and, above eight bits, the type of service that a datagram has.
    fn hops_and_service(&self, is_v4: bool, sending: Sending) -> u16 {
        let (hops, service) = if is_v4 { (place::TTL, place::TOS) } else { (place::HOPS, place::CLASS) };
        let either = |given: Option<u8>, place: usize| u16::from(given.unwrap_or_else(|| self.value(place) as u8));
        either(sending.hops, hops) | either(sending.service, service) << 8
    }

    /// Receives a datagram, at most so many bytes of it.
    pub fn receive_datagram(&self, most: u64, peeks: bool, is_nonblocking: bool) -> Result<Received> {
        let deadline = self.deadline(0);
        loop {
            if let Some(error) = self.take_error() {
                return Err(error);
            }
            // Read first: a `shutdown` after it ends the wait below.
            let channels = self.incoming_channels();
            if let Some(received) = self.take_datagram(&channels, most, peeks)? {
                return Ok(received);
            }
            if is_nonblocking {
                return Err(Errno::EAGAIN);
            }
            if self.is_done(done::READ_SHUT) {
                return Ok(Received::default());
            }
            let own = runtime::area::number().0;
            self.note_datagram_reader(&channels, own);
            let outcome = wait_until_for(|| self.terms_with(&channels), deadline);
            self.note_datagram_reader(&channels, 0);
            outcome?;
        }
    }

    /// The thread that senders give the CPU to, when they wait.
    pub(super) fn note_datagram_reader(&self, channels: &[Arc<Channel>], number: u64) {
        self.word(page::READER).store(number, Relaxed);
        channels.iter().for_each(|channel| channel.note_reader(number));
    }

    pub(crate) fn has_datagram(&self) -> bool {
        let count = |index: usize| self.word(index).load(Acquire);
        self.datagram_ring().waiting() != Ok(0)
            || count(page::CAME) != count(page::ACCEPTED)
            || self.incoming_channels().iter().any(|channel| channel.has_some())
    }

    fn datagram_ring(&self) -> Ring {
        Ring::new(self.word(page::SENT).load(Acquire), self.word(page::TAKEN).load(Acquire), 0)
    }

    /// What becomes true when a datagram comes, or an error, while there is none.
    pub(crate) fn datagram_terms(&self) -> Vec<Term> {
        self.terms_with(&self.incoming_channels())
    }

    fn terms_with(&self, channels: &Incoming) -> Vec<Term> {
        let count = |index: usize| self.word(index).load(Acquire);
        let mut terms = Vec::with_capacity(4 + channels.len());
        terms.extend(channels.iter().map(|channel| channel.term()));
        terms.push(word(self.word(page::SENT), Operator::NotEqual, count(page::TAKEN)));
        terms.push(word(self.word(page::CAME), Operator::NotEqual, count(page::ACCEPTED)));
        terms.push(word(self.word(page::ERROR), Operator::NotEqual, 0));
        terms.push(word(self.word(page::CHANGES), Operator::NotEqual, channels.seen));
        terms
    }

    /// What becomes true when another datagram comes, or an error.
    pub(super) fn datagram_changes(&self) -> Vec<Term> {
        let own = [page::SENT, page::CAME, page::ERROR, page::CHANGES]
            .map(|index| word(self.word(index), Operator::NotEqual, self.word(index).load(Acquire)));
        own.into_iter().chain(self.incoming_channels().iter().map(|channel| channel.change_term())).collect()
    }

    /// A number that differs once another datagram has come, or an error, or the socket was shut down.
    pub(super) fn datagram_stamp(&self) -> u64 {
        let own = [page::SENT, page::CAME, page::ERROR, page::DONE].map(|index| self.word(index).load(Acquire));
        let channels = self.incoming_channels();
        let all = own.into_iter().chain(channels.iter().map(|channel| channel.sent()));
        all.fold(0, |sum: u64, word| sum.wrapping_mul(31).wrapping_add(word))
    }

    fn head_in(&self, ring: Ring) -> Result<Head> {
        let mut bytes = [0; HEAD_BYTES as usize];
        self.copy_out(ring, 0, &mut bytes)?;
        let mut words = [0; HEAD_WORDS];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        Ok(Head::from_words(words))
    }

    fn copy_out(&self, ring: Ring, from: u64, bytes: &mut [u8]) -> Result<()> {
        let mut at = 0;
        while at < bytes.len() {
            let position = ring.taken().wrapping_add(from + at as u64);
            let stretch = ring.stretch(position, (bytes.len() - at) as u64);
            let piece = &mut bytes[at..at + stretch.bytes as usize];
            self.own().read(RING as u64 * 8 + stretch.offset, piece)?;
            at += stretch.bytes as usize;
        }
        Ok(())
    }

    /// The oldest datagram, and when it was sent. The caller has the lock of the readers.
    fn oldest<'a>(&self, channels: &'a [Arc<Channel>]) -> Result<Option<(u64, Source<'a>)>> {
        let mut oldest: Option<(u64, Source<'a>)> = None;
        let ring = self.datagram_ring();
        if ring.waiting()? != 0 {
            oldest = Some((self.head_in(ring)?.when, Source::Page));
        } else if self.word(page::CAME).load(Acquire) != self.word(page::ACCEPTED).load(Acquire) {
            oldest = Some((self.word(page::OLDEST).load(Acquire), Source::Server));
        }
        for channel in channels {
            let Some(short) = channel.first() else { continue };
            if oldest.as_ref().is_none_or(|(when, _)| short.when < *when) {
                oldest = Some((short.when, Source::Channel(channel, short)));
            }
        }
        Ok(oldest)
    }

    /// When the datagram was sent that waits first; 0: there is none.
    pub(super) fn oldest_datagram(&self) -> u64 {
        let _held = OwnerLock::at(self.word(page::READ_LOCK)).acquire();
        self.oldest(&self.incoming_channels()).ok().flatten().map_or(0, |(when, _)| when)
    }

    /// Bytes of the datagram that waits first.
    pub(super) fn first_length(&self) -> u64 {
        self.take_datagram(&self.incoming_channels(), 0, true).ok().flatten().map_or(0, |first| first.head.length)
    }

    fn take_datagram(&self, channels: &[Arc<Channel>], most: u64, peeks: bool) -> Result<Option<Received>> {
        let _held = OwnerLock::at(self.word(page::READ_LOCK)).acquire();
        match self.oldest(channels)? {
            None => Ok(None),
            Some((_, Source::Channel(channel, short))) => {
                channel.take(short, most, peeks).map(|(head, data)| Some(Received { head, data }))
            }
            Some((_, Source::Page)) => self.take_from_page(most, peeks).map(Some),
            Some((_, Source::Server)) => match client::files().lock().receive_datagram(self.number(), most, !peeks) {
                Err(Errno::EAGAIN) => Ok(None),
                received => received.map(|(head, data)| Some(Received { head, data })),
            },
        }
    }

    fn take_from_page(&self, most: u64, peeks: bool) -> Result<Received> {
        let ring = self.datagram_ring();
        let waiting = ring.waiting()?;
        let head = if waiting >= HEAD_BYTES { self.head_in(ring)? } else { return Err(Errno::EIO) };
        if head.length > waiting || head.size() > waiting {
            return Err(Errno::EIO);
        }
        let mut data = vec![0; head.length.min(most) as usize];
        self.copy_out(ring, HEAD_BYTES, &mut data)?;
        if !peeks {
            self.word(page::TAKEN).store(advance(self.word(page::TAKEN).load(Acquire), head.size()), SeqCst);
        }
        Ok(Received { head, data })
    }
}
