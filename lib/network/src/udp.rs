//! UDP: sockets by port, with bounded queues.
//!
//! Invariant: a socket queues at most [`QUEUE_BYTES`]; what comes beyond is dropped and counted.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use smoltcp::wire::{UDP_HEADER_LEN, UdpPacket};

use crate::address::{Endpoint, Pair};
use crate::checksum::{Sum, pseudo_header};
use crate::packet::{Packet, UDP};
use crate::secret::Secret;
use crate::slab::{Handle, Slab};

pub const QUEUE_BYTES: usize = 208 << 10;
/// What a queued datagram costs in addition to its bytes.
const OVERHEAD: usize = 64;
const FIRST_PORT: u16 = 32_768;
const PORTS: u16 = 28_232;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    pub source: Endpoint,
    pub destination: Endpoint,
    pub bytes: Vec<u8>,
}

#[derive(Debug)]
pub struct Socket {
    /// An unspecified address takes datagrams for every one of this machine.
    pub local: Endpoint,
    /// Set by a connection: others are not heard.
    pub remote: Option<Endpoint>,
    queue: VecDeque<Received>,
    queued: usize,
    pub dropped: u64,
    /// An ICMP error came; reading it clears it.
    pub refused: bool,
}

impl Socket {
    /// How exactly the socket fits a datagram; `None`: not at all.
    fn fit(&self, local: &Endpoint, remote: &Endpoint) -> Option<u8> {
        let any = self.local.address.is_unspecified();
        let here = any || self.local.address == local.address;
        let there = self.remote.is_none_or(|connected| connected == *remote);
        (here && there).then_some(u8::from(!any) + 2 * u8::from(self.remote.is_some()))
    }
}

#[derive(Debug, Default)]
pub struct Udp {
    sockets: Slab<Socket>,
    by_port: BTreeMap<u16, Vec<u32>>,
    next_port: u16,
}

/// Reads a datagram and verifies its checksum. `None` for what is damaged.
pub fn parse<'a>(packet: &Packet<'a>) -> Option<(Pair, &'a [u8])> {
    let datagram = UdpPacket::new_checked(packet.payload).ok()?;
    let length = usize::from(datagram.len());
    let bytes = packet.payload.get(..length)?;
    let sum = pseudo_header(packet.source, packet.destination, UDP, length).combine(Sum::of(bytes));
    // IPv4 leaves the checksum out by a zero; IPv6 may not (RFC 8200, 8.1).
    let is_left_out = datagram.checksum() == 0 && packet.is_version_4();
    if !is_left_out && (datagram.checksum() == 0 || !sum.is_whole()) {
        return None;
    }
    let pair = Pair {
        local: Endpoint { address: packet.destination, port: datagram.dst_port() },
        remote: Endpoint { address: packet.source, port: datagram.src_port() },
    };
    Some((pair, bytes.get(UDP_HEADER_LEN..)?))
}

/// A datagram with its header. `None` when it is too long for one.
pub fn emit(pair: &Pair, payload: &[u8]) -> Option<Vec<u8>> {
    let length = u16::try_from(UDP_HEADER_LEN + payload.len()).ok()?;
    let mut bytes = Vec::with_capacity(usize::from(length));
    for half in [pair.local.port, pair.remote.port, length, 0] {
        bytes.extend_from_slice(&half.to_be_bytes());
    }
    bytes.extend_from_slice(payload);
    let pseudo = pseudo_header(pair.local.address, pair.remote.address, UDP, bytes.len());
    let sum = match pseudo.combine(Sum::of(&bytes)).finish() {
        0 => u16::MAX,
        sum => sum,
    };
    bytes[6..8].copy_from_slice(&sum.to_be_bytes());
    Some(bytes)
}

impl Udp {
    /// Opens a socket. Port 0 is chosen here. `None` when the end is taken or no port is free.
    pub fn open(&mut self, mut local: Endpoint, secret: &Secret) -> Option<Handle> {
        if local.port == 0 {
            local.port = self.free_port(&local, secret)?;
        }
        let same = |index: &u32| self.sockets.at(*index).is_some_and(|socket| socket.local == local);
        if self.by_port.get(&local.port).is_some_and(|others| others.iter().any(same)) {
            return None;
        }
        let socket = Socket { local, remote: None, queue: VecDeque::new(), queued: 0, dropped: 0, refused: false };
        let handle = self.sockets.insert(socket);
        self.by_port.entry(local.port).or_default().push(handle.index);
        Some(handle)
    }

    fn free_port(&mut self, local: &Endpoint, secret: &Secret) -> Option<u16> {
        let offset = secret.port_offset(local.address, *local);
        (0..PORTS).find_map(|_| {
            self.next_port = self.next_port.wrapping_add(1);
            let step = offset.wrapping_add(u32::from(self.next_port)) % u32::from(PORTS);
            let port = FIRST_PORT + step as u16;
            (!self.by_port.contains_key(&port)).then_some(port)
        })
    }

    pub fn close(&mut self, handle: Handle) {
        let Some(port) = self.sockets.get(handle).map(|socket| socket.local.port) else { return };
        self.sockets.remove(handle.index);
        if let Some(others) = self.by_port.get_mut(&port) {
            others.retain(|index| *index != handle.index);
            if others.is_empty() {
                self.by_port.remove(&port);
            }
        }
    }

    pub fn socket(&self, handle: Handle) -> Option<&Socket> {
        self.sockets.get(handle)
    }

    /// From now on the socket hears this end alone; `None` undoes it.
    pub fn connect(&mut self, handle: Handle, remote: Option<Endpoint>) {
        if let Some(socket) = self.sockets.get_mut(handle) {
            socket.remote = remote;
        }
    }

    pub fn receive(&mut self, handle: Handle) -> Option<Received> {
        let socket = self.sockets.get_mut(handle)?;
        let received = socket.queue.pop_front()?;
        socket.queued -= received.bytes.len() + OVERHEAD;
        Some(received)
    }

    fn find(&self, pair: &Pair) -> Option<u32> {
        let candidates = self.by_port.get(&pair.local.port)?.iter();
        let fits = candidates.filter_map(|index| {
            let fit = self.sockets.at(*index)?.fit(&pair.local, &pair.remote)?;
            Some((fit, *index))
        });
        fits.max_by_key(|(fit, _)| *fit).map(|(_, index)| index)
    }

    /// Queues a datagram for its socket; false when no socket takes it.
    pub fn input(&mut self, pair: &Pair, payload: &[u8]) -> bool {
        let Some(socket) = self.find(pair).and_then(|index| self.sockets.at_mut(index)) else { return false };
        let cost = payload.len() + OVERHEAD;
        if socket.queued + cost > QUEUE_BYTES {
            socket.dropped += 1;
            return true;
        }
        socket.queued += cost;
        socket.queue.push_back(Received { source: pair.remote, destination: pair.local, bytes: payload.to_vec() });
        true
    }

    /// An ICMP error about a datagram of ours.
    pub fn report_refused(&mut self, pair: &Pair) {
        if let Some(socket) = self.find(pair).and_then(|index| self.sockets.at_mut(index)) {
            socket.refused |= socket.remote.is_some();
        }
    }

    /// Whether the socket was refused since this was asked last.
    pub fn take_refused(&mut self, handle: Handle) -> bool {
        self.sockets.get_mut(handle).is_some_and(|socket| core::mem::take(&mut socket.refused))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv6Addr;

    fn pair(port: u16) -> Pair {
        Pair { local: Endpoint::new([10, 0, 0, 1], port), remote: Endpoint::new([10, 0, 0, 2], 9) }
    }

    #[test]
    fn the_most_exact_socket_hears_a_datagram() {
        let (mut udp, secret) = (Udp::default(), Secret([1, 2]));
        let any = udp.open(Endpoint { address: Ipv6Addr::UNSPECIFIED, port: 53 }, &secret).expect("free");
        let exact = udp.open(pair(53).local, &secret).expect("free");
        assert_eq!(udp.open(pair(53).local, &secret), None);
        assert!(udp.input(&pair(53), b"one") && !udp.input(&pair(54), b"none"));
        assert_eq!(udp.receive(exact).map(|it| it.bytes), Some(b"one".to_vec()));
        udp.connect(exact, Some(Endpoint::new([10, 0, 0, 9], 9)));
        assert!(udp.input(&pair(53), b"two"));
        assert_eq!((udp.receive(exact), udp.receive(any).map(|it| it.bytes)), (None, Some(b"two".to_vec())));
        udp.close(any);
        assert!(!udp.input(&pair(53), b"three"));
    }

    #[test]
    fn queues_are_bounded_and_drops_are_counted() {
        let (mut udp, secret) = (Udp::default(), Secret([1, 2]));
        let handle = udp.open(pair(53).local, &secret).expect("free");
        for _ in 0..1_000 {
            assert!(udp.input(&pair(53), &[0; 1_000]));
        }
        let queued = core::iter::from_fn(|| udp.receive(handle)).count();
        assert_eq!(queued, QUEUE_BYTES / (1_000 + OVERHEAD));
        assert_eq!(udp.socket(handle).map(|socket| socket.dropped), Some(1_000 - queued as u64));
    }

    #[test]
    fn what_is_emitted_is_read_again_and_damage_is_seen() {
        let sent = emit(&pair(53), b"hello").expect("it is short");
        fn packet(payload: &[u8]) -> Packet<'_> {
            let (source, destination) = (pair(53).local.address, pair(53).remote.address);
            Packet { source, destination, protocol: UDP, hop_limit: 64, fragment: None, payload, whole: payload }
        }
        assert_eq!(parse(&packet(&sent)).map(|(_, payload)| payload), Some(b"hello".as_slice()));
        for at in 0..sent.len() {
            let mut bad = sent.clone();
            bad[at] ^= 4;
            assert_eq!(parse(&packet(&bad)), None, "{at}");
        }
        assert_eq!(emit(&pair(1), &[0; 65_528]), None);
    }
}
