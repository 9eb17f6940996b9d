//! Datagrams of a socket (udp(7), raw(7), icmp(7)): sent by the server, received from the socket's own page.

use super::internet_socket::InternetSocket;
use super::socket::wait_until;
use crate::descriptor::file_ops::FileOps;
use crate::descriptor::object::{Event, broken_pipe};
use crate::hw::current::process;
use crate::wait;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use internet::address::{Endpoint, Family};
use internet::control::Sending;
use internet::datagram::{HEAD_BYTES, HEAD_WORDS, Head, LONGEST, LONGEST_V4};
use internet::page::{self, RING, done};
use internet::ring::{Ring, advance};
use linux_abi::errno::{Errno, Result};
use runtime::lock::OwnerLock;
use runtime::predicate::{Operator, Term, word};

/// A datagram that was received.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// Where it came from, and its length.
    pub head: Head,
    /// As much of it as there was room for.
    pub data: Vec<u8>,
}

impl InternetSocket {
    /// Sends a datagram to where it is connected, or elsewhere.
    pub fn send_datagram(&self, to: Option<Endpoint>, bytes: &[u8]) -> Result<u64> {
        self.send_datagram_as(to, bytes, Sending::default())
    }

    /// The same with what holds for this datagram alone.
    pub fn send_datagram_as(&self, to: Option<Endpoint>, bytes: &[u8], sending: Sending) -> Result<u64> {
        if self.is_done(done::WRITE_SHUT) {
            return Err(broken_pipe());
        }
        let longest = if self.family == Family::V4 { LONGEST_V4 } else { LONGEST };
        if bytes.len() as u64 > longest {
            return Err(Errno::EMSGSIZE);
        }
        if let Some(error) = self.take_error() {
            return Err(error);
        }
        if self.sort.is_udp() && to.is_some_and(|to| to.port == 0) {
            return Err(Errno::EINVAL);
        }
        let waiter = process().files.lock().send_datagram(self.number(), to, bytes, sending)?;
        wait::set_yield_target(waiter);
        Ok(bytes.len() as u64)
    }

    /// Receives a datagram, at most so many bytes of it.
    pub fn receive_datagram(&self, most: u64, peeks: bool, is_nonblocking: bool) -> Result<Received> {
        let deadline = self.deadline(0);
        loop {
            if let Some(error) = self.take_error() {
                return Err(error);
            }
            let terms = self.datagram_terms();
            if let Some(received) = self.take_datagram(most, peeks)? {
                return Ok(received);
            }
            if is_nonblocking {
                return Err(Errno::EAGAIN);
            }
            if self.is_done(done::READ_SHUT) {
                return Ok(Received::default());
            }
            self.note_waiter(Event::Readable);
            let outcome = wait_until(&terms, deadline);
            self.word(page::READER).store(0, Relaxed);
            outcome?;
        }
    }

    pub(crate) fn has_datagram(&self) -> bool {
        let count = |index: usize| self.word(index).load(Acquire);
        self.datagram_ring().waiting() != Ok(0) || count(page::CAME) != count(page::ACCEPTED)
    }

    fn datagram_ring(&self) -> Ring {
        Ring::new(self.word(page::SENT).load(Acquire), self.word(page::TAKEN).load(Acquire), 0)
    }

    /// What becomes true when a datagram comes, or an error, while there is none.
    pub(crate) fn datagram_terms(&self) -> Vec<Term> {
        let count = |index: usize| self.word(index).load(Acquire);
        vec![
            word(self.word(page::SENT), Operator::NotEqual, count(page::TAKEN)),
            word(self.word(page::CAME), Operator::NotEqual, count(page::ACCEPTED)),
            word(self.word(page::ERROR), Operator::NotEqual, 0),
            word(self.word(page::DONE), Operator::NotEqual, count(page::DONE)),
        ]
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

    /// Bytes of the datagram that waits first.
    pub(crate) fn first_length(&self) -> u64 {
        let ring = self.datagram_ring();
        if ring.waiting().is_ok_and(|waiting| waiting >= HEAD_BYTES) {
            return self.head_in(ring).map_or(0, |head| head.length);
        }
        let waits = self.word(page::CAME).load(Acquire) != self.word(page::ACCEPTED).load(Acquire);
        let ask = || process().files.lock().receive_datagram(self.number(), 0, false);
        if waits { ask().map_or(0, |(head, _)| head.length) } else { 0 }
    }

    fn take_datagram(&self, most: u64, peeks: bool) -> Result<Option<Received>> {
        let _held = OwnerLock::at(self.word(page::READ_LOCK)).acquire();
        let ring = self.datagram_ring();
        let waiting = ring.waiting()?;
        if waiting == 0 {
            if self.word(page::CAME).load(Acquire) == self.word(page::ACCEPTED).load(Acquire) {
                return Ok(None);
            }
            return match process().files.lock().receive_datagram(self.number(), most, !peeks) {
                Err(Errno::EAGAIN) => Ok(None),
                received => received.map(|(head, data)| Some(Received { head, data })),
            };
        }
        let head = if waiting >= HEAD_BYTES { self.head_in(ring)? } else { return Err(Errno::EIO) };
        if head.length > waiting || head.size() > waiting {
            return Err(Errno::EIO);
        }
        let mut data = vec![0; head.length.min(most) as usize];
        self.copy_out(ring, HEAD_BYTES, &mut data)?;
        if !peeks {
            self.word(page::TAKEN).store(advance(self.word(page::TAKEN).load(Acquire), head.size()), SeqCst);
        }
        Ok(Some(Received { head, data }))
    }
}
