//! Datagrams: the server puts each into the page of the socket that it is for, or keeps it until the receiver asks.
//!
//! Invariant: a receiver's counts are checked before a byte is copied. A socket keeps no more bytes than its receive
//! buffer says.

use super::internet_sockets::{ECHO_V4, ECHO_V6, Internet, InternetSocket};
use super::wire_sockets::DATAGRAMS;
use crate::dispatch::{Answer, FileServer, NOTHING};
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, SeqCst};
use exos::wait;
use internet::address::{Address, Endpoint, Family};
use internet::control::Sending;
use internet::datagram::{HEAD_BYTES, Head, LONGEST};
use internet::echo;
use internet::option::{self, Sort, place};
use internet::page::{self, RING, state, watch};
use internet::port_table::Protocol;
use internet::ring::{Ring, advance};
use linux_abi::errno::{Errno, Result};
use runtime::clock;
use unix_core::server::protocol::WINDOW_BYTES;
use vfs::inode::NodeId;

/// Bytes of a request of `Send`, the bit that says that more come, and the one that there is an address.
const LENGTH_BITS: u32 = 16;
const MORE: u64 = 1 << 24;
const HAS_ADDRESS: u64 = 1 << 25;
/// What each datagram that waits counts for in addition to its bytes, as on Linux.
const OVERHEAD: u64 = 512;

impl InternetSocket {
    /// Its holders learn when the datagram was sent that waits first.
    fn note_oldest(&self) {
        let when = self.datagrams.front().map_or(0, |(head, _)| head.when);
        self.page.words()[page::OLDEST].store(when, SeqCst);
    }
}

impl FileServer {
    /// Where datagrams go from now on, and come from.
    pub(crate) fn connect_datagrams(&mut self, node: NodeId, to: Endpoint) -> Result<Answer> {
        let source = self.source_of(to.address)?;
        let socket = self.socket_of(node)?;
        if to.address.is_broadcast() && option::value(&socket.page, place::BROADCAST) == 0 {
            return Err(Errno::EACCES);
        }
        let protocol = Internet::protocol_of(socket);
        if socket.local.address.is_any() {
            socket.local.address = source.0;
        }
        socket.remote = to;
        let local = socket.local;
        if let Some(protocol) = protocol.filter(|_| local.port == 0) {
            self.take_port(node, protocol, true).map_err(|_| Errno::EAGAIN)?;
        }
        let socket = self.socket_of(node)?;
        let (local, remote) = (socket.local, socket.remote);
        socket.page.set_state(state::CONNECTED);
        self.net().table.change(node, |binding| (binding.local, binding.remote) = (local, remote));
        self.break_channels_of(node);
        Ok(NOTHING)
    }

    /// See [`unix_core::server::protocol::InternetRequest::Send`].
    pub(crate) fn send_datagram(&mut self, caller: u64, node: NodeId, to: Endpoint, more: u64) -> Result<Answer> {
        let length = more & ((1 << LENGTH_BITS) - 1);
        if length > WINDOW_BYTES {
            return Err(Errno::EINVAL);
        }
        if more & (MORE | HAS_ADDRESS) == HAS_ADDRESS {
            // A request that has to wait is repeated as it is: nothing is taken before.
            self.source_of(to.address)?;
        }
        let window = self.window(caller)?;
        let socket = self.socket_of(node)?;
        if socket.parts.len() as u64 + length > LONGEST {
            socket.parts = Vec::new();
            return Err(Errno::EMSGSIZE);
        }
        let begin = socket.parts.len();
        socket.parts.resize(begin + length as usize, 0);
        window.read(0, &mut socket.parts[begin..])?;
        if more & MORE != 0 {
            return Ok(NOTHING);
        }
        let bytes = core::mem::take(&mut socket.parts);
        let to = match more & HAS_ADDRESS {
            0 if socket.remote.address == Address::default() => return Err(Errno::EDESTADDRREQ),
            0 => socket.remote,
            _ => to,
        };
        let (waiter, receiver) = self.send_to(node, to, &bytes, Sending::from_bits(more))?;
        // Without memory for a channel the server goes between, as before.
        let channel = receiver.and_then(|(receiver, from)| self.channel_for(caller, (node, receiver), (from, to)).ok());
        let [page, number, family] = channel.unwrap_or_default();
        Ok([bytes.len() as u64, waiter, page, number, family])
    }

    /// The thread that waits for it; the socket that received it and where it came from, if a channel may go there.
    fn send_to(
        &mut self,
        node: NodeId,
        to: Endpoint,
        bytes: &[u8],
        sending: Sending,
    ) -> Result<(u64, Option<(NodeId, Endpoint)>)> {
        let socket = self.socket_of(node)?;
        let protocol = Internet::protocol_of(socket);
        if to.address.is_broadcast() && option::value(&socket.page, place::BROADCAST) == 0 {
            return Err(Errno::EACCES);
        }
        let (source, leaves) = self.source_of(to.address)?;
        let socket = self.socket_of(node)?;
        if socket.family == Family::V6 && socket.local.address.to_v4().is_none() != to.address.to_v4().is_none() {
            let is_any = socket.local.address.is_any();
            if !is_any {
                return Err(Errno::ENETUNREACH);
            }
        }
        if let Some(protocol) = protocol.filter(|_| socket.local.port == 0) {
            self.take_port(node, protocol, false).map_err(|_| Errno::EAGAIN)?;
        }
        let socket = self.socket_of(node)?;
        let address = if socket.local.address.is_any() { source } else { socket.local.address };
        let from = Endpoint { address, port: socket.local.port };
        let (hops, service) = match to.address.to_v4() {
            Some(_) => (place::TTL, place::TOS),
            None => (place::HOPS, place::CLASS),
        };
        let either =
            |given: Option<u8>, place: usize| given.unwrap_or_else(|| option::value(&socket.page, place) as u8);
        let (ttl, service) = (u16::from(either(sending.hops, hops)), u16::from(either(sending.service, service)));
        let to_with_hops = Endpoint { address: to.address, port: ttl | service << 8 };
        let head = Head { length: bytes.len() as u64, from, to: to_with_hops, ..Head::default() };
        if (socket.sort, leaves) == (Sort::Udp, false) {
            let (waiter, receiver) = self.send_udp(node, Protocol::Udp, (to, head), bytes)?;
            return Ok((waiter, receiver.map(|receiver| (receiver, from))));
        }
        let waiter = match (socket.sort, socket.protocol) {
            (Sort::Udp, _) => {
                if to.address.is_multicast() || to.address.is_broadcast() {
                    self.deliver_to_group(Protocol::Udp, to, head, bytes);
                }
                self.send_over_wire(DATAGRAMS, to, head, bytes)
            }
            (Sort::UdpLite, _) if leaves => Err(Errno::ENETUNREACH),
            (_, ECHO_V4 | ECHO_V6) if leaves => self.send_echo_over_wire(node, to, head, bytes),
            (_, protocol) if leaves => self.send_raw_over_wire(node, (protocol, to), head, bytes),
            (Sort::UdpLite, _) => self.send_udp(node, Protocol::UdpLite, (to, head), bytes).map(|(waiter, _)| waiter),
            (_, ECHO_V4 | ECHO_V6) => self.send_echo(node, to, head, bytes),
            (_, protocol) => self.send_raw(node, protocol, head, bytes),
        };
        waiter.map(|waiter| (waiter, None))
    }

    /// The address that a datagram to another one comes from, and whether it leaves the machine.
    fn source_of(&mut self, to: Address) -> Result<(Address, bool)> {
        let is_of_loopback = to == Address::v4(0x7fff_ffff);
        if is_of_loopback || !to.is_multicast() && !to.is_broadcast() {
            return self.route_to(to);
        }
        let is_awaited = self.need_wire() == Err(Errno::NOT_LOADED);
        if is_awaited {
            return Err(Errno::NOT_LOADED);
        }
        let is_v4 = to.to_v4().is_some();
        let own = self.wire.addresses.iter().find(|(own, _)| own.to_v4().is_some() == is_v4);
        let local = if is_v4 { Address::v4(0x7f00_0001) } else { Address(1) };
        // Without an address on the wire all members of a group are here.
        Ok(own.map_or((local, false), |(own, _)| (*own, true)))
    }

    /// The thread that waits for it, and the one socket that it always goes to.
    fn send_udp(
        &mut self,
        node: NodeId,
        protocol: Protocol,
        (to, head): (Endpoint, Head),
        bytes: &[u8],
    ) -> Result<(u64, Option<NodeId>)> {
        if to.address.is_multicast() || to.address.is_broadcast() {
            return Ok((self.deliver_to_group(protocol, to, head, bytes), None));
        }
        let net = self.net();
        let draw = net.draw();
        match net.table.receiver(protocol, to, head.from, draw) {
            Some(receiver) => {
                let shares = net.table.find(receiver).is_some_and(|binding| binding.reuse_port);
                Ok((self.deliver(receiver, head, bytes), (!shares).then_some(receiver)))
            }
            None => {
                // As an unreachable port is told: to a socket that is connected there.
                let socket = self.socket_of(node)?;
                let wants = |place| option::value(&socket.page, place) != 0;
                let is_told = socket.remote == to || wants(place::RECEIVE_ERRORS) || wants(place::RECEIVE_ERRORS_6);
                if is_told {
                    socket.page.words()[page::ERROR].store(u64::from(Errno::ECONNREFUSED.number()), SeqCst);
                    self.datagrams_changed(node);
                }
                Ok((0, None))
            }
        }
    }

    /// Gives a datagram to every socket of this machine that a group or all hosts stand for.
    pub(crate) fn deliver_to_group(&mut self, protocol: Protocol, to: Endpoint, head: Head, bytes: &[u8]) -> u64 {
        let net = self.net();
        let is_group = to.address.is_multicast();
        let takes = |one: &InternetSocket| !is_group || one.groups.contains(&to.address);
        let found = net.table.receivers(protocol, to.port, head.from);
        let found: Vec<NodeId> = found.map(|binding| binding.socket).collect();
        let found: Vec<NodeId> =
            found.into_iter().filter(|one| net.sockets.get(one).is_some_and(|one| takes(one))).collect();
        found.into_iter().map(|one| self.deliver(one, head, bytes)).last().unwrap_or(0)
    }

    /// An echo request goes to another machine.
    fn send_echo_over_wire(&mut self, node: NodeId, to: Endpoint, head: Head, bytes: &[u8]) -> Result<u64> {
        let socket = self.socket_of(node)?;
        let family = socket.family;
        let sent = echo::request(bytes, family, socket.local.port).ok_or(Errno::EINVAL)?;
        let sent = echo::summed(&sent, family, head.from.address, to.address);
        self.send_over_wire(if family == Family::V4 { 1 } else { 58 }, to, head, &sent)
    }

    /// A packet of a raw socket goes to another machine.
    fn send_raw_over_wire(
        &mut self,
        node: NodeId,
        (protocol, to): (u8, Endpoint),
        head: Head,
        bytes: &[u8],
    ) -> Result<u64> {
        let socket = self.socket_of(node)?;
        let (family, has_head) = (socket.family, option::value(&socket.page, place::HEAD_INCLUDED) != 0);
        let bytes = if has_head { bytes.get(20..).ok_or(Errno::EINVAL)? } else { bytes };
        match protocol {
            58 => {
                let sent = echo::summed(bytes, family, head.from.address, to.address);
                self.send_over_wire(protocol, to, head, &sent)
            }
            _ => self.send_over_wire(protocol, to, head, bytes),
        }
    }

    /// An echo request is answered by the machine itself.
    fn send_echo(&mut self, node: NodeId, to: Endpoint, head: Head, bytes: &[u8]) -> Result<u64> {
        let socket = self.socket_of(node)?;
        let family = socket.family;
        let sent = echo::request(bytes, family, socket.local.port).ok_or(Errno::EINVAL)?;
        let Some(answer) = echo::answer(&sent, family) else { return Ok(0) };
        let from = Endpoint { port: 0, ..to };
        let head = Head { from, to: Endpoint { address: head.from.address, ..head.to }, ..head };
        Ok(self.deliver(node, head, &answer))
    }

    /// What a raw socket sends goes to all raw sockets of its protocol, and an echo request is answered.
    fn send_raw(&mut self, node: NodeId, protocol: u8, head: Head, bytes: &[u8]) -> Result<u64> {
        let socket = self.socket_of(node)?;
        let (family, has_head) = (socket.family, option::value(&socket.page, place::HEAD_INCLUDED) != 0);
        let bytes = if has_head { bytes.get(20..).ok_or(Errno::EINVAL)? } else { bytes };
        let mut waiter = self.deliver_raw(family, protocol, head, bytes);
        if matches!(protocol, 1 | 58)
            && let Some(answer) = echo::answer(bytes, family)
        {
            let back = Head {
                from: Endpoint { address: head.to.address, port: 0 },
                to: Endpoint { address: head.from.address, ..head.to },
                ..head
            };
            waiter = self.deliver_raw(family, protocol, back, &answer);
        }
        Ok(waiter)
    }

    pub(crate) fn deliver_raw(&mut self, family: Family, protocol: u8, head: Head, bytes: &[u8]) -> u64 {
        let kind = bytes.first().copied().unwrap_or(0);
        let takes = |socket: &InternetSocket| {
            let word = |at: usize| socket.page.words()[at].load(Acquire);
            let is_filtered = match protocol {
                1 => kind < 32 && word(page::FILTER) >> kind & 1 != 0,
                58 => word(page::FILTER_V6 + usize::from(kind / 64)) >> (kind % 64) & 1 != 0,
                _ => false,
            };
            let is_its = socket.local.address.is_any() || socket.local.address == head.to.address;
            let is_from = socket.remote.address == Address::default() || socket.remote.address == head.from.address;
            let is_raw = (socket.sort, socket.family, socket.protocol) == (Sort::Raw, family, protocol);
            is_raw && !is_filtered && is_its && is_from
        };
        let found: Vec<NodeId> =
            self.net().sockets.iter().filter(|(_, one)| takes(one)).map(|(node, _)| *node).collect();
        let packet = match (head.from.address.to_v4(), head.to.address.to_v4()) {
            (Some(from), Some(to)) => echo::with_head(bytes, from, to, protocol, head.to.port as u8),
            _ => bytes.to_vec(),
        };
        let head = Head { length: packet.len() as u64, from: Endpoint { port: 0, ..head.from }, ..head };
        found.into_iter().map(|one| self.deliver(one, head, &packet)).last().unwrap_or(0)
    }

    /// Gives a socket a datagram, if it has room. The thread that waits for it.
    pub(crate) fn deliver(&mut self, node: NodeId, head: Head, bytes: &[u8]) -> u64 {
        let head = Head { when: clock::ticks(), ..head };
        let Ok(socket) = self.socket_of(node) else { return 0 };
        let buffer = option::value(&socket.page, place::RECEIVE_BUFFER).max(0) as u64 * 2;
        let buffer = if socket.page.words()[page::OPTIONS + place::RECEIVE_BUFFER].load(Acquire) == 0 {
            212_992
        } else {
            buffer / 2
        };
        if !put(socket, head, bytes) {
            if socket.queued + head.length + OVERHEAD > buffer.max(2304) {
                return 0;
            }
            socket.queued += head.length + OVERHEAD;
            socket.datagrams.push_back((head, bytes.to_vec()));
            socket.note_oldest();
            socket.page.words()[page::CAME].fetch_add(1, SeqCst);
        }
        self.datagrams_changed(node);
        self.socket_of(node).map_or(0, |socket| socket.page.words()[page::READER].load(Acquire))
    }

    /// Those who wait for a socket for datagrams look again.
    pub(crate) fn datagrams_changed(&mut self, node: NodeId) {
        wait::kick_idle();
        if let Ok(socket) = self.socket_of(node)
            && socket.page.words()[page::WATCH].load(SeqCst) != 0
        {
            let page = socket.page.clone();
            self.ring_bells(&page, watch::SENT);
        }
    }

    /// See [`unix_core::server::protocol::InternetRequest::Receive`].
    pub(crate) fn receive_datagram(
        &mut self,
        caller: u64,
        node: NodeId,
        [first, takes, _]: [u64; 3],
    ) -> Result<Answer> {
        let window = self.window(caller)?;
        let socket = self.socket_of(node)?;
        let Some((head, bytes)) = socket.datagrams.front() else { return Err(Errno::EAGAIN) };
        let words: Vec<u8> = head.to_words().iter().flat_map(|word| word.to_le_bytes()).collect();
        let rest = bytes.get(first as usize..).unwrap_or_default();
        let some = &rest[..rest.len().min((WINDOW_BYTES - HEAD_BYTES) as usize)];
        window.write(0, &words)?;
        window.write(HEAD_BYTES, some)?;
        let count = some.len() as u64;
        if takes != 0 {
            socket.queued = socket.queued.saturating_sub(head.length + OVERHEAD);
            socket.datagrams.pop_front();
            socket.note_oldest();
            socket.page.words()[page::ACCEPTED].fetch_add(1, SeqCst);
        }
        Ok([count, 0, 0, 0, 0])
    }

    pub(crate) fn change_group(&mut self, node: NodeId, group: Address, joins: bool) -> Result<Answer> {
        if !group.is_multicast() {
            return Err(Errno::EINVAL);
        }
        let socket = self.socket_of(node)?;
        let is_in = socket.groups.contains(&group);
        match (joins, is_in) {
            (true, true) => Err(Errno::EADDRINUSE),
            (false, false) => Err(Errno::EADDRNOTAVAIL),
            (true, false) if socket.groups.len() >= 20 => Err(Errno::ENOBUFS),
            (true, false) => {
                socket.groups.push(group);
                Ok(NOTHING)
            }
            (false, true) => {
                socket.groups.retain(|one| *one != group);
                Ok(NOTHING)
            }
        }
    }
}

/// Puts a datagram into the page, if it fits there and none waits elsewhere.
fn put(socket: &InternetSocket, head: Head, bytes: &[u8]) -> bool {
    let words = socket.page.words();
    let sent = words[page::SENT].load(Acquire);
    let ring = Ring::new(sent, words[page::TAKEN].load(Acquire), 0);
    if !socket.datagrams.is_empty() || !ring.room().is_ok_and(|room| room >= head.size()) {
        return false;
    }
    let mut record: Vec<u8> = head.to_words().iter().flat_map(|word| word.to_le_bytes()).collect();
    record.extend_from_slice(bytes);
    record.resize(head.size() as usize, 0);
    let mut done = 0;
    while done < record.len() {
        let stretch = ring.stretch(ring.sent() + done as u64, (record.len() - done) as u64);
        let piece = &record[done..done + stretch.bytes as usize];
        if socket.page.write(RING as u64 * 8 + stretch.offset, piece).is_err() {
            return false;
        }
        done += piece.len();
    }
    words[page::SENT].store(advance(sent, record.len() as u64), SeqCst);
    true
}
