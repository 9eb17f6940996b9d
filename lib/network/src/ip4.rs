//! IPv4: header check on arrival, header and fragmentation on departure.

use alloc::vec::Vec;

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{IpProtocol, Ipv4Packet, Ipv4Repr};

use crate::packet::{Datagram, Fragment, Packet};

pub const HEADER: usize = 20;
/// RFC 791: every path carries this much.
pub const LEAST_MTU: usize = 68;

/// Reads a packet; options are skipped. `None` for what is damaged or cut short.
pub fn parse(bytes: &[u8]) -> Option<Packet<'_>> {
    let packet = Ipv4Packet::new_checked(bytes).ok()?;
    let (header, total) = (usize::from(packet.header_len()), usize::from(packet.total_len()));
    if packet.version() != 4 || header < HEADER || total < header || !packet.verify_checksum() {
        return None;
    }
    let fragment = Fragment {
        identification: u32::from(packet.ident()),
        offset: usize::from(packet.frag_offset()),
        more: packet.more_frags(),
    };
    Some(Packet {
        source: packet.src_addr().to_ipv6_mapped(),
        destination: packet.dst_addr().to_ipv6_mapped(),
        protocol: packet.next_header().into(),
        hop_limit: packet.hop_limit(),
        fragment: (fragment.more || fragment.offset > 0).then_some(fragment),
        payload: bytes.get(header..total)?,
        whole: bytes.get(..total)?,
    })
}

/// Appends a header for `length` bytes of body. A whole packet must not be fragmented on its way: the path's MTU is
/// discovered.
pub fn emit_header(
    datagram: &Datagram<'_>,
    length: usize,
    fragment: Option<Fragment>,
    out: &mut Vec<u8>,
) -> Option<()> {
    let repr = Ipv4Repr {
        src_addr: datagram.source.to_ipv4_mapped()?,
        dst_addr: datagram.destination.to_ipv4_mapped()?,
        next_header: IpProtocol::from(datagram.protocol),
        payload_len: length,
        hop_limit: datagram.hop_limit,
    };
    let start = out.len();
    out.resize(start + HEADER, 0);
    let mut packet = Ipv4Packet::new_unchecked(&mut out[start..]);
    repr.emit(&mut packet, &ChecksumCapabilities::default());
    if let Some(fragment) = fragment {
        packet.set_dont_frag(false);
        packet.set_more_frags(fragment.more);
        packet.set_frag_offset(u16::try_from(fragment.offset).ok()?);
        packet.set_ident(fragment.identification as u16);
        packet.fill_checksum();
    }
    Some(())
}
