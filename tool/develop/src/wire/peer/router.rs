//! Router advertisements of the peer (RFC 4861): a machine that asks for a router gets the prefix `fd00:2::/64`.

use std::net::Ipv6Addr;

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::time::Duration;
use smoltcp::wire::{
    EthernetAddress, EthernetFrame, EthernetProtocol, Icmpv6Message, Icmpv6Packet, Icmpv6Repr, IpProtocol, Ipv6Packet,
    Ipv6Repr, NdiscPrefixInfoFlags, NdiscPrefixInformation, NdiscRepr, NdiscRouterFlags,
};

use super::{ADDRESS, IP6, LINK_LOCAL};

/// What did not come from this link has another hop limit.
const HOP_LIMIT: u8 = 255;
/// Seconds.
const LIFE: Duration = Duration::from_secs(1_800);
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// The address on the link of all nodes.
const ALL_NODES_LINK: [u8; 6] = [0x33, 0x33, 0, 0, 0, 1];

/// The frame that answers a frame, if that asks for a router.
pub fn answer(frame: &[u8]) -> Option<Vec<u8>> {
    let ethernet = EthernetFrame::new_checked(frame).ok()?;
    let packet = Ipv6Packet::new_checked(ethernet.payload()).ok()?;
    let is_question = ethernet.ethertype() == EthernetProtocol::Ipv6
        && packet.next_header() == IpProtocol::Icmpv6
        && packet.hop_limit() == HOP_LIMIT;
    let message = Icmpv6Packet::new_checked(packet.payload()).ok().filter(|_| is_question)?;
    (message.msg_type() == Icmpv6Message::RouterSolicit).then(advertisement)
}

fn advertisement() -> Vec<u8> {
    let [a, b, c, d, ..] = IP6;
    let prefix = NdiscPrefixInformation {
        prefix_len: 64,
        flags: NdiscPrefixInfoFlags::ON_LINK | NdiscPrefixInfoFlags::ADDRCONF,
        valid_lifetime: LIFE,
        preferred_lifetime: LIFE,
        prefix: Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0),
    };
    let body = Icmpv6Repr::Ndisc(NdiscRepr::RouterAdvert {
        hop_limit: 64,
        flags: NdiscRouterFlags::empty(),
        router_lifetime: LIFE,
        reachable_time: Duration::ZERO,
        retrans_time: Duration::ZERO,
        lladdr: Some(EthernetAddress(ADDRESS).into()),
        mtu: None,
        prefix_info: Some(prefix),
    });
    let source = LINK_LOCAL.into();
    let header = Ipv6Repr {
        src_addr: source,
        dst_addr: ALL_NODES,
        next_header: IpProtocol::Icmpv6,
        payload_len: body.buffer_len(),
        hop_limit: HOP_LIMIT,
    };
    let mut packet = vec![0; header.buffer_len() + body.buffer_len()];
    header.emit(&mut Ipv6Packet::new_unchecked(&mut packet[..]));
    let mut rest = Icmpv6Packet::new_unchecked(&mut packet[header.buffer_len()..]);
    body.emit(&source, &ALL_NODES, &mut rest, &ChecksumCapabilities::default());
    [&ALL_NODES_LINK[..], &ADDRESS, &[0x86, 0xdd], &packet].concat()
}
