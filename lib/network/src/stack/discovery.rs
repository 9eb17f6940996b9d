//! Neighbour discovery of IPv6 (RFC 4861): questions, answers and router advertisements.
//!
//! What did not come from this link, by its hop limit of 255, is ignored.

use core::net::Ipv6Addr;

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    EthernetAddress, Icmpv6Packet, Icmpv6Repr, NdiscNeighborFlags, NdiscPrefixInfoFlags, NdiscRepr, RawHardwareAddress,
};

use super::Stack;
use super::departure::Departure;
use crate::link::Link;
use crate::packet::{Datagram, ICMP6, Packet};
use crate::route::{Prefix, Route};
use crate::slaac::Advertised;
use crate::time::Time;

const DISCOVERY_HOP_LIMIT: u8 = 255;
/// Router advertisements make at most so many default routes: one.
const DEFAULT_ROUTE: Prefix = Prefix { address: Ipv6Addr::UNSPECIFIED, length: 0 };

/// The group that the owner of an address listens to.
pub(super) fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = address.octets();
    let low = u16::from(b) << 8 | u16::from(c);
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | u16::from(a), low)
}

fn ethernet(address: Option<RawHardwareAddress>) -> Option<EthernetAddress> {
    let address = address?;
    let octets: [u8; 6] = address.as_bytes().try_into().ok()?;
    Some(EthernetAddress(octets))
}

impl<L: Link> Departure<L> {
    pub(super) fn send_discovery(&mut self, source: Ipv6Addr, destination: Ipv6Addr, message: &NdiscRepr<'_>) {
        let repr = Icmpv6Repr::Ndisc(*message);
        let mut body = alloc::vec![0; repr.buffer_len()];
        let mut packet = Icmpv6Packet::new_unchecked(&mut body);
        repr.emit(&source, &destination, &mut packet, &ChecksumCapabilities::default());
        let hop_limit = DISCOVERY_HOP_LIMIT;
        self.send(&Datagram { source, destination, protocol: ICMP6, hop_limit, body: &body }, &[]);
    }
}

impl<L: Link> Stack<L> {
    pub(super) fn receive_discovery(&mut self, packet: &Packet<'_>, now: Time) {
        if packet.hop_limit != DISCOVERY_HOP_LIMIT || packet.fragment.is_some() {
            return;
        }
        let Ok(message) = Icmpv6Packet::new_checked(packet.payload) else { return };
        let checks = ChecksumCapabilities::default();
        let Ok(Icmpv6Repr::Ndisc(message)) = Icmpv6Repr::parse(&packet.source, &packet.destination, &message, &checks)
        else {
            return;
        };
        match message {
            NdiscRepr::NeighborSolicit { target_addr, lladdr } => {
                self.answer_solicitation(packet, target_addr, ethernet(lladdr), now);
            }
            NdiscRepr::NeighborAdvert { target_addr, lladdr, .. } => {
                if let Some(slaac) = &mut self.slaac {
                    slaac.defended(target_addr);
                }
                if let Some(hardware) = ethernet(lladdr) {
                    let waiting = self.departure.neighbors.learn(target_addr, hardware, false, now);
                    self.departure.send_waiting(hardware, waiting);
                }
            }
            NdiscRepr::RouterAdvert { .. } => self.receive_router(packet.source, &message, now),
            NdiscRepr::RouterSolicit { .. } | NdiscRepr::Redirect { .. } => {}
        }
    }

    fn answer_solicitation(
        &mut self,
        packet: &Packet<'_>,
        target: Ipv6Addr,
        hardware: Option<EthernetAddress>,
        now: Time,
    ) {
        if let Some(slaac) = self.slaac.as_mut().filter(|_| packet.source.is_unspecified()) {
            slaac.defended(target);
        }
        if !self.departure.is_local(target) {
            return;
        }
        if let Some(hardware) = hardware.filter(|_| !packet.source.is_unspecified()) {
            let waiting = self.departure.neighbors.learn(packet.source, hardware, true, now);
            self.departure.send_waiting(hardware, waiting);
        }
        let (destination, flags) = if packet.source.is_unspecified() {
            (Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1), NdiscNeighborFlags::OVERRIDE)
        } else {
            (packet.source, NdiscNeighborFlags::OVERRIDE | NdiscNeighborFlags::SOLICITED)
        };
        let lladdr = Some(self.departure.link.hardware_address().into());
        let answer = NdiscRepr::NeighborAdvert { flags, target_addr: target, lladdr };
        self.departure.send_discovery(target, destination, &answer);
    }

    fn receive_router(&mut self, router: Ipv6Addr, message: &NdiscRepr<'_>, now: Time) {
        let NdiscRepr::RouterAdvert { router_lifetime, lladdr, prefix_info, .. } = message else { return };
        let is_link_local = router.segments()[0] & 0xffc0 == 0xfe80;
        let Some(slaac) = self.slaac.as_mut().filter(|_| is_link_local) else { return };
        if let Some(info) = prefix_info {
            let advertised = Advertised {
                prefix: info.prefix,
                length: info.prefix_len,
                autonomous: info.flags.contains(NdiscPrefixInfoFlags::ADDRCONF),
                valid: info.valid_lifetime.secs(),
            };
            slaac.advertised(&advertised, &self.secret, now);
        }
        if router_lifetime.secs() == 0 {
            self.departure.routes.remove(&DEFAULT_ROUTE);
            return;
        }
        self.departure.routes.add(Route { prefix: DEFAULT_ROUTE, gateway: Some(router) });
        if let Some(hardware) = ethernet(*lladdr) {
            let waiting = self.departure.neighbors.learn(router, hardware, true, now);
            self.departure.send_waiting(hardware, waiting);
        }
    }
}
