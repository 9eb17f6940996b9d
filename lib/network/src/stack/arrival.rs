//! Arrival of frames: by their type to ARP or IP, by their protocol to ICMP, UDP or TCP.

use smoltcp::wire::{ArpOperation, ArpPacket, ArpRepr, EthernetFrame, EthernetProtocol};

use super::{BATCH, Stack};
use crate::icmp::{self, Message, Reason, Report};
use crate::link::Link;
use crate::packet::{Datagram, HOP_LIMIT, ICMP, ICMP6, Packet, TCP, UDP};
use crate::time::Time;
use crate::{ip4, ip6, udp};

impl<L: Link> Stack<L> {
    pub(super) fn receive_frame(&mut self, bytes: &[u8], now: Time) {
        let Ok(frame) = EthernetFrame::new_checked(bytes) else {
            self.counters.malformed += 1;
            return;
        };
        let is_ours = frame.dst_addr() == self.departure.link.hardware_address() || !frame.dst_addr().is_unicast();
        let packet = match frame.ethertype() {
            _ if !is_ours => None,
            EthernetProtocol::Arp => return self.receive_arp(frame.payload(), now),
            EthernetProtocol::Ipv4 => ip4::parse(frame.payload()),
            EthernetProtocol::Ipv6 => ip6::parse(frame.payload()),
            EthernetProtocol::Unknown(_) => None,
        };
        match packet {
            Some(packet) => self.receive_packet(&packet, now),
            None => self.counters.malformed += 1,
        }
    }

    fn receive_arp(&mut self, bytes: &[u8], now: Time) {
        let Ok(ArpRepr::EthernetIpv4 {
            operation,
            source_hardware_addr,
            source_protocol_addr,
            target_protocol_addr,
            ..
        }) = ArpPacket::new_checked(bytes).and_then(|packet| ArpRepr::parse(&packet))
        else {
            self.counters.malformed += 1;
            return;
        };
        let is_for_us = self.departure.is_local(target_protocol_addr.to_ipv6_mapped());
        let source = source_protocol_addr.to_ipv6_mapped();
        let is_address = !source_protocol_addr.is_unspecified() && !self.departure.is_local(source);
        if is_address && !source_protocol_addr.is_multicast() && !source_protocol_addr.is_broadcast() {
            let may_insert = is_for_us && operation == ArpOperation::Request;
            let waiting = self.departure.neighbors.learn(source, source_hardware_addr, may_insert, now);
            self.departure.send_waiting(source_hardware_addr, waiting);
        }
        if is_for_us && operation == ArpOperation::Request {
            let reply = ArpRepr::EthernetIpv4 {
                operation: ArpOperation::Reply,
                source_hardware_addr: self.departure.link.hardware_address(),
                source_protocol_addr: target_protocol_addr,
                target_hardware_addr: source_hardware_addr,
                target_protocol_addr: source_protocol_addr,
            };
            let mut packet = alloc::vec![0; reply.buffer_len()];
            reply.emit(&mut ArpPacket::new_unchecked(&mut packet));
            self.departure.send_to_hardware(source_hardware_addr, EthernetProtocol::Arp, &packet);
        }
    }

    fn receive_packet(&mut self, packet: &Packet<'_>, now: Time) {
        let destination = packet.destination;
        let is_group = destination.is_multicast() || self.departure.is_broadcast(destination);
        // While DHCP asks, its answers may come to an address that is not assigned yet.
        let may_be_dhcp = self.dhcp.is_some() && packet.protocol == UDP && packet.is_version_4();
        if !self.departure.is_local(destination) && !is_group && !may_be_dhcp {
            self.counters.not_ours += 1;
            return;
        }
        match packet.fragment {
            // A fragment that is the whole packet (RFC 6946).
            Some(fragment) if fragment.more || fragment.offset > 0 => {
                if let Some(whole) = self.reassembly.add(packet, &fragment, now) {
                    self.receive_whole(&Packet { payload: &whole, ..*packet }, now);
                }
            }
            _ => self.receive_whole(packet, now),
        }
    }

    fn receive_whole(&mut self, packet: &Packet<'_>, now: Time) {
        match packet.protocol {
            TCP if self.departure.is_local(packet.destination) => {
                let (source, destination) = (packet.source, packet.destination);
                self.tcp.input(source, destination, packet.payload, false, now, &mut self.departure);
            }
            UDP => self.receive_udp(packet, now),
            ICMP | ICMP6 => self.receive_icmp(packet, now),
            _ => self.counters.not_ours += 1,
        }
    }

    fn receive_udp(&mut self, packet: &Packet<'_>, now: Time) {
        let Some((pair, payload)) = udp::parse(packet) else {
            self.counters.malformed += 1;
            return;
        };
        if self.receive_dhcp(&pair, payload, now) || self.hand_up_datagram(&pair, packet, payload) {
            return;
        }
        if self.udp.input(&pair, payload) {
            return;
        }
        if self.departure.is_local(packet.destination)
            && let Some((protocol, body)) = self.errors.port_unreachable(packet, now)
        {
            self.send(packet.destination, packet.source, protocol, &body);
        }
    }

    fn receive_icmp(&mut self, packet: &Packet<'_>, now: Time) {
        let message = icmp::parse(packet);
        if message.is_some() {
            self.hand_up_message(packet);
        }
        match message {
            Some(Message::EchoRequest(body)) if self.departure.is_local(packet.destination) => {
                self.counters.echoes += 1;
                let reply = icmp::echo_reply(packet, &body);
                let (source, destination) = (packet.destination, packet.source);
                let protocol = packet.protocol;
                let datagram = Datagram { source, destination, protocol, hop_limit: HOP_LIMIT, body: &reply };
                self.departure.send(&datagram, &[]);
            }
            Some(Message::EchoReply { identifier, number }) if self.echoes.len() < BATCH => {
                self.echoes.push((identifier, number, packet.source));
            }
            Some(Message::Error(report)) if self.departure.is_local(packet.destination) => {
                self.receive_report(&report, now);
            }
            Some(Message::Discovery(_)) => self.receive_discovery(packet, now),
            Some(_) => {}
            None => self.counters.malformed += 1,
        }
    }

    /// An error about a packet of ours. It counts only if it quotes what is on its way (RFC 5927).
    pub(super) fn receive_report(&mut self, report: &Report, now: Time) {
        if !self.departure.is_local(report.pair.local.address) {
            return;
        }
        match (report.protocol, report.reason) {
            (TCP, Reason::TooBig(mtu)) if self.tcp.is_on_its_way(&report.pair, report.sequence) => {
                self.narrow_path(report, mtu, now);
            }
            (TCP, reason) => self.tcp.report(&report.pair, report.sequence, reason, now),
            (UDP, Reason::TooBig(mtu)) => self.narrow_path(report, mtu, now),
            (UDP, reason) if self.hand_up_report(&report.pair, reason) => {}
            (UDP, Reason::Refused) => self.udp.report_refused(&report.pair),
            _ => {}
        }
    }

    fn narrow_path(&mut self, report: &Report, mtu: usize, now: Time) {
        let destination = report.pair.remote.address;
        let link = self.departure.link.mtu();
        if self.departure.paths.report(destination, mtu, link, now).is_some() {
            self.tcp.narrow(destination, &self.departure);
        }
    }
}
