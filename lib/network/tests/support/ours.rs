//! An end that speaks our TCP: an engine below a minimal IP.

use core::net::{IpAddr, Ipv6Addr};

use network::address::{Endpoint, Pair};
use network::checksum::Sum;
use network::link::{Extent, Pages, Part};
use network::slab::Handle;
use network::tcp::block::{Options, State};
use network::tcp::engine::{Network, Tcp};
use network::tcp::listen::Listener;
use network::time::{MILLISECOND, Time};
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{IpProtocol, Ipv4Packet, Ipv4Repr, Ipv6Packet, Ipv6Repr};

use super::ends::End;
use super::memory::Memory;
use super::script::Script;

/// Carries segments in IP packets.
pub struct Carrier {
    pub memory: Memory,
    pub out: Vec<Vec<u8>>,
    pub mtu: usize,
}

impl Pages for Carrier {
    fn sum(&self, part: Part) -> Sum {
        self.memory.sum(part)
    }

    fn append(&self, part: Part, to: &mut Vec<u8>) {
        self.memory.append(part, to);
    }

    fn release(&mut self, extent: Extent) {
        self.memory.release(extent);
    }
}

impl Network for Carrier {
    fn segment_limit(&self, remote: Ipv6Addr) -> u16 {
        let header = if remote.to_ipv4_mapped().is_some() { 40 } else { 60 };
        (self.mtu - header) as u16
    }

    fn has_room(&self) -> bool {
        self.out.len() < 64
    }

    fn transmit(&mut self, pair: &Pair, header: &[u8], parts: &[Part]) {
        let mut segment = header.to_vec();
        for part in parts {
            segment.extend_from_slice(self.memory.bytes(*part));
        }
        let packet = pack(pair, &segment);
        assert!(packet.len() <= self.mtu, "{} bytes on a path of {}", packet.len(), self.mtu);
        self.out.push(packet);
    }
}

/// An IP packet from `pair.local` to `pair.remote`.
pub fn pack(pair: &Pair, segment: &[u8]) -> Vec<u8> {
    let (source, destination) = (pair.local.address, pair.remote.address);
    if let (Some(src_addr), Some(dst_addr)) = (source.to_ipv4_mapped(), destination.to_ipv4_mapped()) {
        let next_header = IpProtocol::Tcp;
        let repr = Ipv4Repr { src_addr, dst_addr, next_header, payload_len: segment.len(), hop_limit: 64 };
        let mut packet = vec![0; 20 + segment.len()];
        repr.emit(&mut Ipv4Packet::new_unchecked(&mut packet), &ChecksumCapabilities::default());
        packet[20..].copy_from_slice(segment);
        return packet;
    }
    let repr = Ipv6Repr {
        src_addr: source,
        dst_addr: destination,
        next_header: IpProtocol::Tcp,
        payload_len: segment.len(),
        hop_limit: 64,
    };
    let mut packet = vec![0; 40 + segment.len()];
    repr.emit(&mut Ipv6Packet::new_unchecked(&mut packet));
    packet[40..].copy_from_slice(segment);
    packet
}

/// Source, destination and segment of a packet that is whole.
pub fn unpack(packet: &[u8]) -> Option<(Ipv6Addr, Ipv6Addr, &[u8])> {
    match packet.first()? >> 4 {
        4 => {
            let packet = Ipv4Packet::new_checked(packet).ok()?;
            let whole = packet.verify_checksum() && packet.next_header() == IpProtocol::Tcp;
            let (source, destination) = (packet.src_addr().to_ipv6_mapped(), packet.dst_addr().to_ipv6_mapped());
            whole.then(|| (source, destination, packet.payload()))
        }
        6 => {
            let packet = Ipv6Packet::new_checked(packet).ok()?;
            let is_tcp = packet.next_header() == IpProtocol::Tcp;
            is_tcp.then(|| (packet.src_addr(), packet.dst_addr(), packet.payload()))
        }
        _ => None,
    }
}

pub struct Ours {
    pub tcp: Tcp,
    pub carrier: Carrier,
    pub address: Ipv6Addr,
    pub connection: Option<Handle>,
    pub listener: Option<Handle>,
    pub script: Script,
    pub options: Options,
    pub is_closed: bool,
    pub shut: bool,
    wakes: Time,
}

/// Bytes that the script queues before it waits for acknowledgements.
const QUEUE_LIMIT: u32 = 64 << 10;

impl Ours {
    pub fn new(address: IpAddr, key: u64, mtu: usize, script: Script, options: Options, now: Time) -> Self {
        Self {
            tcp: Tcp::new([key, !key], now),
            carrier: Carrier { memory: Memory::default(), out: Vec::new(), mtu },
            address: network::address::mapped(address),
            connection: None,
            listener: None,
            script,
            options,
            is_closed: false,
            shut: false,
            wakes: Time::NEVER,
        }
    }

    pub fn listen(&mut self, port: u16) {
        let local = Endpoint { address: self.address, port };
        let listener = Listener::new(local, 4, self.options);
        self.listener = Some(self.tcp.listen(listener).expect("the port is free"));
    }

    pub fn connect(&mut self, remote: IpAddr, port: u16, now: Time) {
        let (local, remote) = (Endpoint { address: self.address, port: 0 }, Endpoint::new(remote, port));
        self.connection =
            Some(self.tcp.connect(local, remote, self.options, now, &self.carrier).expect("a port is free"));
    }

    fn step(&mut self, now: Time) {
        if self.connection.is_none() {
            self.connection = self.listener.and_then(|listener| self.tcp.accept(listener));
        }
        let Some(handle) = self.connection.filter(|_| !self.is_closed) else { return };
        self.read(handle);
        self.write(handle);
        if self.script.has_written_all() && !self.shut {
            self.shut = true;
            self.tcp.shut_down(handle, now);
        }
        let block = self.tcp.block(handle).expect("it was not closed");
        assert_eq!(block.error(), None, "{:?} after {} bytes", block.error(), self.script.received);
        if self.shut && block.is_at_end() && block.state() != State::SynSent {
            assert_eq!(self.script.received, self.script.expected.len(), "the end came early");
            self.tcp.close(handle, now, &mut self.carrier);
            self.is_closed = true;
        }
    }

    fn write(&mut self, handle: Handle) {
        loop {
            let block = self.tcp.block(handle).expect("it was not closed");
            let piece = self.script.piece(QUEUE_LIMIT.saturating_sub(block.queued()) as usize);
            if piece.is_empty() || !block.may_send() {
                return;
            }
            let extent = self.carrier.memory.store(piece);
            assert!(self.tcp.send(handle, extent));
            self.script.written += extent.length as usize;
        }
    }

    fn read(&mut self, handle: Handle) {
        let mut buffer = [0; 5000];
        while self.script.reads_now() {
            let count = self.tcp.read(handle, &mut buffer);
            if count == 0 {
                break;
            }
            self.script.receive(&buffer[..count]);
        }
        let block = self.tcp.block(handle).expect("it was not closed");
        assert!(block.readable() <= self.options.receive_limit as usize, "the receive queue is too long");
        assert!(block.out_of_order() <= self.options.receive_limit as usize);
    }
}

impl End for Ours {
    fn deliver(&mut self, packet: &[u8], now: Time) {
        if let Some((source, destination, segment)) = unpack(packet)
            && destination == self.address
        {
            self.tcp.input(source, destination, segment, false, now, &mut self.carrier);
        }
    }

    fn poll(&mut self, now: Time) -> Vec<Vec<u8>> {
        self.tcp.advance(now, &mut self.carrier);
        self.step(now);
        let mut packets = Vec::new();
        loop {
            self.tcp.flush(now, &mut self.carrier);
            if self.carrier.out.is_empty() {
                break;
            }
            packets.append(&mut self.carrier.out);
        }
        // A slow reader looks again a little later.
        let waits = self.connection.and_then(|handle| self.tcp.block(handle)).is_some_and(|it| it.readable() > 0);
        self.wakes = if waits { now.after(10 * MILLISECOND) } else { Time::NEVER };
        packets
    }

    fn deadline(&self, _: Time) -> Time {
        self.tcp.deadline().min(self.wakes)
    }

    fn is_done(&self) -> bool {
        self.is_closed
    }

    fn assert_clean(&self) {
        assert_eq!(self.tcp.census(), [0, 0, 0], "something is left");
        assert_eq!(self.tcp.armed_timers(), 0, "a timer is left");
        assert_eq!(self.carrier.memory.held(), 0, "a page is left");
    }

    fn describe(&self) -> String {
        let block = self.connection.and_then(|handle| self.tcp.block(handle));
        let script = (self.script.written, self.script.text.len(), self.script.received, self.script.expected.len());
        format!("ours: script {script:?} shut {} {block:?}", self.shut)
    }
}
