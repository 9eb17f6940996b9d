//! ICMP of both versions: echo, and errors about packets.
//!
//! Errors to strangers are limited to [`ERRORS_PER_SECOND`]. None is sent about an error, a fragment behind the
//! first, or a packet for several machines (RFC 1122, 3.2.2; RFC 4443, 2.4).

use alloc::vec::Vec;
use core::net::Ipv6Addr;

use crate::address::{Endpoint, Pair, is_unicast};
use crate::checksum::{Sum, pseudo_header};
use crate::packet::{ICMP, ICMP6, Packet};
use crate::tcp::sequence::Sequence;
use crate::time::{SECOND, Time};
use crate::{ip4, ip6};

pub const ERRORS_PER_SECOND: u32 = 100;
/// Header of every message.
const HEADER: usize = 8;
/// Bytes of the packet that an error quotes.
const QUOTE_4: usize = 548;
const QUOTE_6: usize = 1_232;

/// What a message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Body of an echo request, identifier and number included.
    EchoRequest(Vec<u8>),
    EchoReply {
        identifier: u16,
        number: u16,
    },
    /// Something that was sent from here did not arrive.
    Error(Report),
    /// Neighbour discovery, by its type: it has a reader of its own.
    Discovery(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The port or protocol is not served there.
    Refused,
    Unreachable,
    TimeExceeded,
    /// The packet was too large for a link with this MTU; 0 when the router did not say.
    TooBig(usize),
}

/// An error about a packet of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    pub reason: Reason,
    pub protocol: u8,
    /// The ends of the packet that failed: `local` was its source.
    pub pair: Pair,
    /// TCP's sequence number in it.
    pub sequence: Sequence,
}

fn is_whole(packet: &Packet<'_>) -> bool {
    let pseudo = match packet.protocol {
        ICMP6 => pseudo_header(packet.source, packet.destination, ICMP6, packet.payload.len()),
        _ => Sum::ZERO,
    };
    pseudo.combine(Sum::of(packet.payload)).is_whole()
}

/// Reads a message. `None` for what is damaged, or says nothing that is of use here.
pub fn parse(packet: &Packet<'_>) -> Option<Message> {
    let payload = packet.payload;
    if payload.len() < HEADER || !is_whole(packet) || packet.is_version_4() != (packet.protocol == ICMP) {
        return None;
    }
    let word = |at: usize| u16::from_be_bytes([payload[at], payload[at + 1]]);
    let too_big_4 = usize::from(word(6));
    let too_big_6 = usize::from(word(4)) << 16 | usize::from(word(6));
    let reason = match (packet.protocol, payload[0], payload[1]) {
        (ICMP, 8, 0) | (ICMP6, 128, 0) => return Some(Message::EchoRequest(payload[4..].to_vec())),
        (ICMP, 0, 0) | (ICMP6, 129, 0) => {
            return Some(Message::EchoReply { identifier: word(4), number: word(6) });
        }
        (ICMP6, kind @ 133..=137, 0) => return Some(Message::Discovery(kind)),
        (ICMP, 3, 4) => Reason::TooBig(too_big_4),
        (ICMP6, 2, _) => Reason::TooBig(too_big_6),
        (ICMP, 3, 2 | 3) | (ICMP6, 1, 4) => Reason::Refused,
        (ICMP, 3, _) | (ICMP6, 1, _) => Reason::Unreachable,
        (ICMP, 11, _) | (ICMP6, 3, _) => Reason::TimeExceeded,
        _ => return None,
    };
    quoted(&payload[HEADER..], packet.protocol).map(|quote| Message::Error(Report { reason, ..quote }))
}

/// The error that a packet of ours meets where no neighbour answers for its next hop (RFC 1122, 3.3.2).
pub fn undelivered(packet: &[u8]) -> Option<Report> {
    quoted(packet, if packet.first()? >> 4 == 4 { ICMP } else { ICMP6 })
}

/// What an error quotes: the beginning of a packet that was sent from here.
fn quoted(quote: &[u8], version: u8) -> Option<Report> {
    let (source, destination, protocol, transport) = match version {
        ICMP => quoted_4(quote)?,
        _ => quoted_6(quote)?,
    };
    let half = |at: usize| Some(u16::from_be_bytes([*transport.get(at)?, *transport.get(at + 1)?]));
    let pair = Pair {
        local: Endpoint { address: source, port: half(0)? },
        remote: Endpoint { address: destination, port: half(2)? },
    };
    let sequence = Sequence(u32::from(half(4)?) << 16 | u32::from(half(6)?));
    Some(Report { reason: Reason::Unreachable, protocol, pair, sequence })
}

type Quote<'a> = (Ipv6Addr, Ipv6Addr, u8, &'a [u8]);

fn quoted_4(quote: &[u8]) -> Option<Quote<'_>> {
    let header = usize::from(quote.first()? & 15) * 4;
    let address = |at: usize| quote.get(at..at + 4)?.try_into().ok().map(|octets: [u8; 4]| octets);
    let is_right = quote[0] >> 4 == 4 && header >= ip4::HEADER;
    let mapped = |octets: [u8; 4]| core::net::Ipv4Addr::from(octets).to_ipv6_mapped();
    is_right.then_some(())?;
    Some((mapped(address(12)?), mapped(address(16)?), *quote.get(9)?, quote.get(header..)?))
}

fn quoted_6(quote: &[u8]) -> Option<Quote<'_>> {
    let address = |at: usize| quote.get(at..at + 16)?.try_into().ok().map(|octets: [u8; 16]| Ipv6Addr::from(octets));
    (quote.first()? >> 4 == 6).then_some(())?;
    Some((address(8)?, address(24)?, *quote.get(6)?, quote.get(ip6::HEADER..)?))
}

/// A message with its checksum; `rest` follows type, code and checksum.
pub fn emit(source: Ipv6Addr, destination: Ipv6Addr, protocol: u8, kind: u8, code: u8, rest: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(4 + rest.len());
    bytes.extend_from_slice(&[kind, code, 0, 0]);
    bytes.extend_from_slice(rest);
    let pseudo = match protocol {
        ICMP6 => pseudo_header(source, destination, ICMP6, bytes.len()),
        _ => Sum::ZERO,
    };
    let sum = pseudo.combine(Sum::of(&bytes)).finish();
    bytes[2..4].copy_from_slice(&sum.to_be_bytes());
    bytes
}

/// The answer to an echo request.
pub fn echo_reply(packet: &Packet<'_>, body: &[u8]) -> Vec<u8> {
    let kind = if packet.protocol == ICMP { 0 } else { 129 };
    emit(packet.destination, packet.source, packet.protocol, kind, 0, body)
}

/// Limits the errors to strangers.
#[derive(Debug, Default)]
pub struct ErrorLimit {
    second: u64,
    used: u32,
}

impl ErrorLimit {
    fn allows(&mut self, now: Time) -> bool {
        let second = now.micros() / SECOND;
        if second != self.second {
            (self.second, self.used) = (second, 0);
        }
        self.used += 1;
        self.used <= ERRORS_PER_SECOND
    }

    /// "Port unreachable" about a packet that came, with the protocol to send it by.
    pub fn port_unreachable(&mut self, packet: &Packet<'_>, now: Time) -> Option<(u8, Vec<u8>)> {
        let is_single = is_unicast(packet.source) && is_unicast(packet.destination);
        if !is_single || packet.fragment.is_some_and(|it| it.offset > 0) || !self.allows(now) {
            return None;
        }
        let (protocol, kind, code, limit) =
            if packet.is_version_4() { (ICMP, 3, 3, QUOTE_4) } else { (ICMP6, 1, 4, QUOTE_6) };
        let mut rest = alloc::vec![0; 4];
        rest.extend_from_slice(&packet.whole[..packet.whole.len().min(limit)]);
        Some((protocol, emit(packet.destination, packet.source, protocol, kind, code, &rest)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Datagram;

    fn datagram(source: Ipv6Addr, destination: Ipv6Addr, protocol: u8, body: &[u8]) -> Vec<u8> {
        let datagram = Datagram { source, destination, protocol, hop_limit: 64, body };
        let mut bytes = Vec::new();
        match source.to_ipv4_mapped() {
            Some(_) => ip4::emit_header(&datagram, body.len(), None, &mut bytes).expect("two mapped addresses"),
            None => ip6::emit_header(&datagram, body.len(), None, &mut bytes),
        }
        bytes.extend_from_slice(body);
        bytes
    }

    fn ends() -> [(Ipv6Addr, Ipv6Addr); 2] {
        let mapped = |last| core::net::Ipv4Addr::new(10, 0, 0, last).to_ipv6_mapped();
        let long = |last| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last);
        [(mapped(1), mapped(2)), (long(1), long(2))]
    }

    #[test]
    fn a_refused_datagram_comes_back_as_a_report_about_it() {
        for (ours, theirs) in ends() {
            let sent = datagram(ours, theirs, 17, &[0x12, 0x34, 0, 53, 0, 8, 0, 0]);
            let parse_ip =
                |bytes: &'static [u8]| if bytes[0] >> 4 == 4 { ip4::parse(bytes) } else { ip6::parse(bytes) };
            let arrived = parse_ip(sent.leak()).expect("a packet");
            let (protocol, error) = ErrorLimit::default().port_unreachable(&arrived, Time::default()).expect("allowed");
            let back = datagram(theirs, ours, protocol, &error);
            let message = parse(&parse_ip(back.leak()).expect("a packet"));
            let Some(Message::Error(report)) = message else { panic!("{message:?}") };
            assert_eq!((report.reason, report.protocol), (Reason::Refused, 17));
            assert_eq!(report.pair.local, Endpoint { address: ours, port: 0x1234 });
            assert_eq!(report.pair.remote, Endpoint { address: theirs, port: 53 });
        }
    }

    #[test]
    fn errors_are_limited_and_damaged_messages_say_nothing() {
        let (ours, theirs) = ends()[0];
        let sent = datagram(ours, theirs, 17, &[0; 8]);
        let packet = ip4::parse(&sent).expect("a packet");
        let mut limit = ErrorLimit::default();
        let sent = (0..1_000).filter(|_| limit.port_unreachable(&packet, Time::default()).is_some()).count();
        assert_eq!(sent, ERRORS_PER_SECOND as usize);
        let mut request = emit(theirs, ours, ICMP, 8, 0, &[0, 1, 0, 2, 9, 9]);
        let bytes = datagram(theirs, ours, ICMP, &request);
        let body = Message::EchoRequest(alloc::vec![0, 1, 0, 2, 9, 9]);
        assert_eq!(parse(&ip4::parse(&bytes).expect("a packet")), Some(body));
        request[9] ^= 1;
        assert_eq!(parse(&ip4::parse(&datagram(theirs, ours, ICMP, &request)).expect("a packet")), None);
    }
}
