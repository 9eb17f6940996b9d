//! IPv6: header check on arrival, header and fragmentation on departure. Of the extension headers, hop-by-hop options
//! are skipped and fragments are reassembled; what carries another one is dropped.

use alloc::vec::Vec;

use smoltcp::wire::{IpProtocol, Ipv6FragmentHeader, Ipv6FragmentRepr, Ipv6Packet, Ipv6Repr};

use crate::packet::{Datagram, Fragment, Packet};

pub const HEADER: usize = 40;
/// Next header, its length, and the six bytes of the fragment header itself.
pub const FRAGMENT_HEADER: usize = 8;
pub const LEAST_MTU: usize = 1_280;
const HOP_BY_HOP: u8 = 0;
const FRAGMENT: u8 = 44;

pub fn parse(bytes: &[u8]) -> Option<Packet<'_>> {
    let packet = Ipv6Packet::new_checked(bytes).ok()?;
    let total = HEADER + usize::from(packet.payload_len());
    // A mapped address never travels (RFC 4942, 2.2): it would pass for an IPv4 one here.
    let is_mapped = |address: core::net::Ipv6Addr| address.to_ipv4_mapped().is_some();
    if packet.version() != 6 || is_mapped(packet.src_addr()) || is_mapped(packet.dst_addr()) {
        return None;
    }
    let mut payload = bytes.get(HEADER..total)?;
    let mut protocol = u8::from(packet.next_header());
    if protocol == HOP_BY_HOP {
        protocol = *payload.first()?;
        let length = 8 + 8 * usize::from(*payload.get(1)?);
        payload = payload.get(length..)?;
    }
    let mut fragment = None;
    if protocol == FRAGMENT {
        protocol = *payload.first()?;
        let header = Ipv6FragmentHeader::new_checked(payload.get(2..FRAGMENT_HEADER)?).ok()?;
        let offset = usize::from(header.frag_offset()) * 8;
        fragment = Some(Fragment { identification: header.ident(), offset, more: header.more_frags() });
        payload = &payload[FRAGMENT_HEADER..];
    }
    Some(Packet {
        source: packet.src_addr(),
        destination: packet.dst_addr(),
        protocol,
        hop_limit: packet.hop_limit(),
        fragment,
        payload,
        whole: bytes.get(..total)?,
    })
}

/// Appends a header, and a fragment header where asked for, for `length` bytes of body.
pub fn emit_header(datagram: &Datagram<'_>, length: usize, fragment: Option<Fragment>, out: &mut Vec<u8>) {
    let (next_header, extension) = match fragment {
        Some(_) => (FRAGMENT, FRAGMENT_HEADER),
        None => (datagram.protocol, 0),
    };
    let repr = Ipv6Repr {
        src_addr: datagram.source,
        dst_addr: datagram.destination,
        next_header: IpProtocol::from(next_header),
        payload_len: length + extension,
        hop_limit: datagram.hop_limit,
    };
    let start = out.len();
    out.resize(start + HEADER + extension, 0);
    repr.emit(&mut Ipv6Packet::new_unchecked(&mut out[start..]));
    if let Some(fragment) = fragment {
        out[start + HEADER] = datagram.protocol;
        let repr = Ipv6FragmentRepr {
            frag_offset: (fragment.offset / 8) as u16,
            more_frags: fragment.more,
            ident: fragment.identification,
        };
        repr.emit(&mut Ipv6FragmentHeader::new_unchecked(&mut out[start + HEADER + 2..]));
    }
}
