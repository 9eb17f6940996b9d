//! Departure of packets: route, path MTU, fragmentation, neighbour, frame.

use alloc::vec::Vec;
use core::net::Ipv6Addr;

use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr, NdiscRepr,
};

use super::discovery;
use crate::checksum::Sum;
use crate::link::{Extent, Link, Pages, Part};
use crate::neighbor::{Neighbors, Resolution};
use crate::packet::{Datagram, Fragment, TCP};
use crate::path::Paths;
use crate::route::{Prefix, Route, Routes};
use crate::tcp::engine::Network;
use crate::time::Time;
use crate::{address::Pair, ip4, ip6};

const ETHERNET_HEADER: usize = 14;
const TCP_HEADER: usize = 20;

/// Everything that sending needs; the layers above hold it while they work.
#[derive(Debug)]
pub struct Departure<L: Link> {
    pub(super) link: L,
    pub(super) addresses: Vec<Prefix>,
    pub(super) routes: Routes,
    pub(super) paths: Paths,
    pub(super) neighbors: Neighbors,
    pub(super) now: Time,
    identification: u32,
    head: Vec<u8>,
}

impl<L: Link> Departure<L> {
    pub(super) fn new(link: L, now: Time) -> Self {
        Self {
            link,
            addresses: Vec::new(),
            routes: Routes::default(),
            paths: Paths::default(),
            neighbors: Neighbors::default(),
            now,
            identification: now.micros() as u32,
            head: Vec::new(),
        }
    }

    pub(super) fn add_address(&mut self, prefix: Prefix) {
        self.addresses.retain(|other| other.address != prefix.address);
        self.addresses.push(prefix);
        self.routes.add(Route { prefix, gateway: None });
    }

    pub(super) fn remove_address(&mut self, address: Ipv6Addr) {
        self.addresses.retain(|other| other.address != address);
        let kept = &self.addresses;
        let gone: Vec<Prefix> = self.routes.iter().map(|route| route.prefix).collect();
        for prefix in gone.iter().filter(|prefix| prefix.address == address && !kept.contains(prefix)) {
            self.routes.remove(prefix);
        }
    }

    pub(super) fn is_local(&self, address: Ipv6Addr) -> bool {
        self.addresses.iter().any(|prefix| prefix.address == address)
    }

    pub(super) fn is_broadcast(&self, address: Ipv6Addr) -> bool {
        let limited = address.to_ipv4_mapped().is_some_and(|address| address.is_broadcast());
        limited || self.addresses.iter().any(|prefix| prefix.is_broadcast(address))
    }

    /// The address that packets for a destination come from: one whose prefix has it, else one of the same family and
    /// scope.
    pub(super) fn source_for(&self, destination: Ipv6Addr) -> Option<Ipv6Addr> {
        let next = self.routes.next_hop(destination).unwrap_or(destination);
        let version_4 = destination.to_ipv4_mapped().is_some();
        let fits = |prefix: &&Prefix| (prefix.address.to_ipv4_mapped().is_some()) == version_4;
        let own = self.addresses.iter().filter(fits);
        let local = |address: Ipv6Addr| !version_4 && address.segments()[0] & 0xffc0 == 0xfe80;
        let best = own.max_by_key(|prefix| {
            let scope = local(prefix.address) == local(destination);
            (scope, prefix.contains(destination), prefix.contains(next))
        });
        best.map(|prefix| prefix.address)
    }

    /// Whether packets for a destination have a way: a group, all hosts of the link, or a route.
    pub(super) fn is_reachable(&self, destination: Ipv6Addr) -> bool {
        self.group_hardware(destination).is_some() || self.routes.next_hop(destination).is_some()
    }

    fn mtu(&self, destination: Ipv6Addr) -> usize {
        self.paths.mtu(destination, self.link.mtu(), self.now)
    }

    /// Sends a packet, in fragments where the path asks for it. Without a route it is dropped.
    pub(super) fn send(&mut self, datagram: &Datagram<'_>, parts: &[Part]) {
        let length = datagram.body.len() + parts.iter().map(|part| part.length as usize).sum::<usize>();
        let version_4 = datagram.destination.to_ipv4_mapped().is_some();
        let header = if version_4 { ip4::HEADER } else { ip6::HEADER };
        let mtu = self.mtu(datagram.destination);
        if header + length <= mtu {
            self.send_piece(datagram, datagram.body, parts, length, None);
        } else if parts.is_empty() && datagram.protocol != TCP {
            self.send_fragments(datagram, header, mtu);
        }
    }

    fn send_fragments(&mut self, datagram: &Datagram<'_>, header: usize, mtu: usize) {
        self.identification = self.identification.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
        let extension = if header == ip6::HEADER { ip6::FRAGMENT_HEADER } else { 0 };
        let room = (mtu - header - extension) / 8 * 8;
        for (index, piece) in datagram.body.chunks(room).enumerate() {
            let offset = index * room;
            let more = offset + piece.len() < datagram.body.len();
            let fragment = Fragment { identification: self.identification, offset, more };
            self.send_piece(datagram, piece, &[], piece.len(), Some(fragment));
        }
    }

    fn send_piece(
        &mut self,
        datagram: &Datagram<'_>,
        body: &[u8],
        parts: &[Part],
        length: usize,
        fragment: Option<Fragment>,
    ) {
        let mut head = core::mem::take(&mut self.head);
        head.clear();
        head.resize(ETHERNET_HEADER, 0);
        let is_headed = if datagram.destination.to_ipv4_mapped().is_some() {
            ip4::emit_header(datagram, length, fragment, &mut head).is_some()
        } else {
            ip6::emit_header(datagram, length, fragment, &mut head);
            true
        };
        if is_headed {
            head.extend_from_slice(body);
            self.send_frame(datagram.destination, &mut head, parts);
        }
        self.head = head;
    }

    /// Finds the link address and sends; without one the packet waits for the neighbour's answer.
    fn send_frame(&mut self, destination: Ipv6Addr, head: &mut [u8], parts: &[Part]) {
        if let Some(hardware) = self.group_hardware(destination) {
            return self.finish_frame(destination, hardware, head, parts);
        }
        let Some(next) = self.routes.next_hop(destination) else { return };
        match self.neighbors.resolve(next, self.now) {
            Resolution::Known { hardware, ask } => {
                if ask {
                    self.ask_for(next);
                }
                self.finish_frame(destination, hardware, head, parts);
            }
            Resolution::Unknown { ask } => {
                let mut packet = head[ETHERNET_HEADER..].to_vec();
                parts.iter().for_each(|part| self.link.append(*part, &mut packet));
                self.neighbors.wait(next, packet);
                if ask {
                    self.ask_for(next);
                }
            }
        }
    }

    fn finish_frame(&mut self, destination: Ipv6Addr, hardware: EthernetAddress, head: &mut [u8], parts: &[Part]) {
        let version_4 = destination.to_ipv4_mapped().is_some();
        let ethertype = if version_4 { EthernetProtocol::Ipv4 } else { EthernetProtocol::Ipv6 };
        let repr = EthernetRepr { src_addr: self.link.hardware_address(), dst_addr: hardware, ethertype };
        repr.emit(&mut EthernetFrame::new_unchecked(&mut head[..ETHERNET_HEADER]));
        // A full device loses the frame, as any network may.
        let _ = self.link.send(head, parts);
    }

    /// The link address of broadcast and groups.
    fn group_hardware(&self, destination: Ipv6Addr) -> Option<EthernetAddress> {
        let octets = destination.octets();
        if self.is_broadcast(destination) {
            return Some(EthernetAddress::BROADCAST);
        }
        if let Some(address) = destination.to_ipv4_mapped() {
            let [_, second, third, fourth] = address.octets();
            let group = EthernetAddress([1, 0, 0x5e, second & 0x7f, third, fourth]);
            return address.is_multicast().then_some(group);
        }
        let group = EthernetAddress([0x33, 0x33, octets[12], octets[13], octets[14], octets[15]]);
        destination.is_multicast().then_some(group)
    }

    /// Sends the packets that waited for a neighbour.
    pub(super) fn send_waiting(&mut self, hardware: EthernetAddress, packets: Vec<Vec<u8>>) {
        for packet in packets {
            let ethertype = if packet[0] >> 4 == 4 { EthernetProtocol::Ipv4 } else { EthernetProtocol::Ipv6 };
            self.send_to_hardware(hardware, ethertype, &packet);
        }
    }

    pub(super) fn send_to_hardware(&mut self, to: EthernetAddress, ethertype: EthernetProtocol, payload: &[u8]) {
        let mut frame = alloc::vec![0; ETHERNET_HEADER];
        let repr = EthernetRepr { src_addr: self.link.hardware_address(), dst_addr: to, ethertype };
        repr.emit(&mut EthernetFrame::new_unchecked(&mut frame));
        frame.extend_from_slice(payload);
        // A full device loses the frame, as any network may.
        let _ = self.link.send(&frame, &[]);
    }

    pub(super) fn ask_again(&mut self) {
        for address in self.neighbors.repeat(self.now) {
            self.ask_for(address);
        }
    }

    /// Asks where a neighbour is: by ARP or by neighbour solicitation.
    fn ask_for(&mut self, target: Ipv6Addr) {
        let Some(source) = self.source_for(target) else { return };
        let hardware = self.link.hardware_address();
        let (Some(source_4), Some(target_4)) = (source.to_ipv4_mapped(), target.to_ipv4_mapped()) else {
            let question = NdiscRepr::NeighborSolicit { target_addr: target, lladdr: Some(hardware.into()) };
            let group = discovery::solicited_node(target);
            return self.send_discovery(source, group, &question);
        };
        let request = ArpRepr::EthernetIpv4 {
            operation: ArpOperation::Request,
            source_hardware_addr: hardware,
            source_protocol_addr: source_4,
            target_hardware_addr: EthernetAddress([0; 6]),
            target_protocol_addr: target_4,
        };
        let mut packet = alloc::vec![0; request.buffer_len()];
        request.emit(&mut ArpPacket::new_unchecked(&mut packet));
        self.send_to_hardware(EthernetAddress::BROADCAST, EthernetProtocol::Arp, &packet);
    }
}

impl<L: Link> Pages for Departure<L> {
    fn sum(&self, part: Part) -> Sum {
        self.link.sum(part)
    }

    fn append(&self, part: Part, to: &mut Vec<u8>) {
        self.link.append(part, to);
    }

    fn release(&mut self, extent: Extent) {
        self.link.release(extent);
    }
}

impl<L: Link> Network for Departure<L> {
    fn segment_limit(&self, remote: Ipv6Addr) -> u16 {
        let header = if remote.to_ipv4_mapped().is_some() { ip4::HEADER } else { ip6::HEADER };
        u16::try_from(self.mtu(remote).saturating_sub(header + TCP_HEADER)).unwrap_or(u16::MAX)
    }

    fn has_room(&self) -> bool {
        self.link.has_room()
    }

    fn transmit(&mut self, pair: &Pair, header: &[u8], parts: &[Part]) {
        let (source, destination) = (pair.local.address, pair.remote.address);
        let hop_limit = crate::packet::HOP_LIMIT;
        self.send(&Datagram { source, destination, protocol: TCP, hop_limit, body: header }, parts);
    }
}
