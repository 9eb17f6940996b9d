//! Datagrams and ICMP messages for an owner that has sockets of its own, in queues that the owner empties.
//!
//! The owner decides by its own port table whose a datagram is. One that has no socket is given back, and the stack
//! answers that its port is unreachable.
//!
//! Invariant: the queues hold at most [`QUEUE_BYTES`] together; what comes beyond is dropped and counted.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::Ipv6Addr;

use super::Stack;
use crate::address::{Endpoint, Pair};
use crate::icmp::Reason;
use crate::link::Link;
use crate::packet::{Fragment, Packet, UDP};
use crate::time::Time;
use crate::udp;

const QUEUE_BYTES: usize = 512 << 10;
/// What an entry costs in addition to its bytes.
const OVERHEAD: usize = 128;
/// Bytes of a datagram that an ICMP error quotes at most, its header included.
const QUOTE: usize = 1_232;

/// A datagram of UDP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    pub pair: Pair,
    pub hop_limit: u8,
    pub bytes: Vec<u8>,
    quote: Vec<u8>,
    fragment: Option<Fragment>,
}

/// A message of ICMP, without the header of IP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub protocol: u8,
    pub source: Ipv6Addr,
    pub destination: Ipv6Addr,
    pub hop_limit: u8,
    pub bytes: Vec<u8>,
}

#[derive(Debug, Default)]
pub(super) struct Queues {
    datagrams: VecDeque<Datagram>,
    messages: VecDeque<Message>,
    reports: VecDeque<(Pair, Reason)>,
    bytes: usize,
    dropped: u64,
}

impl Queues {
    fn has_room(&mut self, bytes: usize) -> bool {
        let fits = self.bytes + bytes + OVERHEAD <= QUEUE_BYTES;
        if fits {
            self.bytes += bytes + OVERHEAD;
        } else {
            self.dropped += 1;
        }
        fits
    }
}

impl<L: Link> Stack<L> {
    /// From now on datagrams, messages of ICMP and errors about datagrams are for the owner.
    pub fn hand_up(&mut self) {
        self.handed_up = Some(Queues::default());
    }

    pub fn take_datagram(&mut self) -> Option<Datagram> {
        let queues = self.handed_up.as_mut()?;
        let datagram = queues.datagrams.pop_front()?;
        queues.bytes -= datagram.bytes.len() + OVERHEAD;
        Some(datagram)
    }

    pub fn take_message(&mut self) -> Option<Message> {
        let queues = self.handed_up.as_mut()?;
        let message = queues.messages.pop_front()?;
        queues.bytes -= message.bytes.len() + OVERHEAD;
        Some(message)
    }

    /// An error about a datagram that was sent from here.
    pub fn take_report(&mut self) -> Option<(Pair, Reason)> {
        let queues = self.handed_up.as_mut()?;
        let report = queues.reports.pop_front()?;
        queues.bytes -= OVERHEAD;
        Some(report)
    }

    /// Answers a datagram that no socket of the owner takes.
    pub fn refuse_datagram(&mut self, datagram: &Datagram, now: Time) {
        self.departure.now = now;
        let Pair { local, remote } = datagram.pair;
        if !self.departure.is_local(local.address) {
            return;
        }
        let packet = Packet {
            source: remote.address,
            destination: local.address,
            protocol: UDP,
            hop_limit: datagram.hop_limit,
            fragment: datagram.fragment,
            payload: &[],
            whole: &datagram.quote,
        };
        if let Some((protocol, body)) = self.errors.port_unreachable(&packet, now) {
            self.send(local.address, remote.address, protocol, &body);
        }
    }

    /// Sends a datagram from an end that the owner has checked. False when it is too long or there is no route.
    pub fn send_datagram(&mut self, local: Endpoint, remote: Endpoint, hop_limit: u8, bytes: &[u8], now: Time) -> bool {
        let pair = Pair { local, remote };
        let Some(body) = udp::emit(&pair, bytes) else { return false };
        self.send_raw(UDP, (local.address, remote.address), hop_limit, &body, now)
    }

    /// Sends the payload of an IP packet. False without a route.
    pub fn send_raw(
        &mut self,
        protocol: u8,
        (source, destination): (Ipv6Addr, Ipv6Addr),
        hop_limit: u8,
        body: &[u8],
        now: Time,
    ) -> bool {
        self.departure.now = now;
        if !self.departure.is_reachable(destination) {
            return false;
        }
        let datagram = crate::packet::Datagram { source, destination, protocol, hop_limit, body };
        self.departure.send(&datagram, &[]);
        true
    }

    pub(super) fn hand_up_datagram(&mut self, pair: &Pair, packet: &Packet<'_>, payload: &[u8]) -> bool {
        let Some(queues) = &mut self.handed_up else { return false };
        if queues.has_room(payload.len()) {
            queues.datagrams.push_back(Datagram {
                pair: *pair,
                hop_limit: packet.hop_limit,
                bytes: payload.to_vec(),
                quote: packet.whole[..packet.whole.len().min(QUOTE)].to_vec(),
                fragment: packet.fragment,
            });
        }
        true
    }

    pub(super) fn hand_up_message(&mut self, packet: &Packet<'_>) {
        let Some(queues) = &mut self.handed_up else { return };
        if queues.has_room(packet.payload.len()) {
            queues.messages.push_back(Message {
                protocol: packet.protocol,
                source: packet.source,
                destination: packet.destination,
                hop_limit: packet.hop_limit,
                bytes: packet.payload.to_vec(),
            });
        }
    }

    pub(super) fn hand_up_report(&mut self, pair: &Pair, reason: Reason) -> bool {
        let Some(queues) = &mut self.handed_up else { return false };
        if queues.has_room(0) {
            queues.reports.push_back((*pair, reason));
        }
        true
    }
}
