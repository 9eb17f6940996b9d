//! DHCP server of the peer (RFC 2131): an address for each machine of the wire, for as long as the wire lasts.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use network::address::{Endpoint, Pair};
use network::udp;
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    DHCP_CLIENT_PORT, DHCP_SERVER_PORT, DhcpMessageType, DhcpOption, DhcpPacket, DhcpRepr, EthernetAddress,
    EthernetFrame, EthernetProtocol, IpProtocol, Ipv4Packet, Ipv4Repr, UdpPacket,
};

use super::{ADDRESS, IP};

/// The first address that is leased, and how many are.
const FIRST: u8 = 15;
const ADDRESSES: usize = 200;
const MASK: Ipv4Addr = Ipv4Addr::new(255, 255, 255, 0);
/// Seconds.
const LEASE: u32 = 86_400;
const NAME_SERVERS: u8 = 6;

/// Which machine has which address.
#[derive(Debug, Default)]
pub struct Server {
    leases: BTreeMap<[u8; 6], Ipv4Addr>,
}

impl Server {
    /// The frame that answers a frame, if that asks for a lease.
    pub fn answer(&mut self, frame: &[u8]) -> Option<Vec<u8>> {
        let ethernet = EthernetFrame::new_checked(frame).ok()?;
        let packet = Ipv4Packet::new_checked(ethernet.payload()).ok()?;
        let is_udp = ethernet.ethertype() == EthernetProtocol::Ipv4 && packet.next_header() == IpProtocol::Udp;
        let datagram = UdpPacket::new_checked(packet.payload()).ok().filter(|_| is_udp)?;
        let request =
            DhcpPacket::new_checked(datagram.payload()).ok().filter(|_| datagram.dst_port() == DHCP_SERVER_PORT)?;
        let request = DhcpRepr::parse(&request).ok()?;
        let (kind, address) = self.decide(&request)?;
        Some(framed(&message(&request, kind, address)?))
    }

    fn decide(&mut self, request: &DhcpRepr<'_>) -> Option<(DhcpMessageType, Ipv4Addr)> {
        let is_for_other = request.server_identifier.is_some_and(|server| server != IP);
        let address = self.lease(request.client_hardware_address)?;
        match request.message_type {
            DhcpMessageType::Discover => Some((DhcpMessageType::Offer, address)),
            DhcpMessageType::Request if is_for_other => None,
            DhcpMessageType::Request => {
                let wanted = request.requested_ip.unwrap_or(request.client_ip);
                let kind = if wanted == address { DhcpMessageType::Ack } else { DhcpMessageType::Nak };
                Some((kind, address))
            }
            _ => None,
        }
    }

    fn lease(&mut self, client: EthernetAddress) -> Option<Ipv4Addr> {
        let next = self.leases.len();
        if let Some(address) = self.leases.get(&client.0) {
            return Some(*address);
        }
        let [first, second, third, _] = IP.octets();
        let address = Ipv4Addr::new(first, second, third, FIRST + next as u8);
        (next < ADDRESSES).then(|| *self.leases.entry(client.0).or_insert(address))
    }
}

fn message(request: &DhcpRepr<'_>, kind: DhcpMessageType, address: Ipv4Addr) -> Option<Vec<u8>> {
    let is_refusal = kind == DhcpMessageType::Nak;
    let servers = [DhcpOption { kind: NAME_SERVERS, data: &IP.octets() }];
    let granted = |seconds: u32| (!is_refusal).then_some(seconds);
    let repr = DhcpRepr {
        message_type: kind,
        transaction_id: request.transaction_id,
        secs: 0,
        client_hardware_address: request.client_hardware_address,
        client_ip: Ipv4Addr::UNSPECIFIED,
        your_ip: if is_refusal { Ipv4Addr::UNSPECIFIED } else { address },
        server_ip: IP,
        router: (!is_refusal).then_some(IP),
        subnet_mask: (!is_refusal).then_some(MASK),
        relay_agent_ip: Ipv4Addr::UNSPECIFIED,
        broadcast: true,
        requested_ip: None,
        client_identifier: None,
        server_identifier: Some(IP),
        parameter_request_list: None,
        dns_servers: None,
        max_size: None,
        lease_duration: granted(LEASE),
        renew_duration: granted(LEASE / 2),
        rebind_duration: granted(LEASE / 8 * 7),
        additional_options: if is_refusal { &[] } else { &servers },
    };
    let mut bytes = vec![0; repr.buffer_len()];
    repr.emit(&mut DhcpPacket::new_unchecked(&mut bytes)).ok()?;
    let local = Endpoint::new(IP, DHCP_SERVER_PORT);
    let remote = Endpoint::new(Ipv4Addr::BROADCAST, DHCP_CLIENT_PORT);
    udp::emit(&Pair { local, remote }, &bytes)
}

/// A datagram for every machine, as a frame.
fn framed(datagram: &[u8]) -> Vec<u8> {
    let repr = Ipv4Repr {
        src_addr: IP,
        dst_addr: Ipv4Addr::BROADCAST,
        next_header: IpProtocol::Udp,
        payload_len: datagram.len(),
        hop_limit: 64,
    };
    let mut header = vec![0; repr.buffer_len()];
    repr.emit(&mut Ipv4Packet::new_unchecked(&mut header), &ChecksumCapabilities::default());
    [&[0xff; 6][..], &ADDRESS, &[8, 0], &header, datagram].concat()
}
