//! What an expression means: a formula over tests of an Ethernet frame's bytes.
//!
//! Each primitive tests what libpcap's does. Ports and transport headers of IPv4 are
//! looked for after the header's options, and only in a packet that is no later fragment. Ports of IPv6 are looked
//! for only directly after its header.

use crate::expression::{Carriers, Direction, Expression, Network, Primitive, Protocol, Relation};
use crate::test::{Field, Test};

/// A formula over tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Formula {
    /// Always true or always false.
    Constant(bool),
    /// One test.
    Test(Test),
    /// Not this.
    Not(Box<Formula>),
    /// All of these.
    All(Vec<Formula>),
    /// One of these.
    Any(Vec<Formula>),
}

use Formula::{All, Any};

const ETHERNET_IP: u16 = 0x0800;
const ETHERNET_ARP: u16 = 0x0806;
const ETHERNET_RARP: u16 = 0x8035;
const ETHERNET_IP6: u16 = 0x86dd;

/// The first byte after the Ethernet header.
const NETWORK_HEADER: u16 = 14;
/// The first byte after the IPv6 header.
const AFTER_IP6_HEADER: u16 = NETWORK_HEADER + 40;
/// IPv6's next-header number of a fragment header.
const FRAGMENT_HEADER: u8 = 44;

/// The formula of a whole expression.
pub fn formula(expression: &Expression) -> Formula {
    match expression {
        Expression::Primitive(primitive) => primitive_formula(primitive),
        Expression::Not(inner) => Formula::Not(Box::new(formula(inner))),
        Expression::And(terms) => All(terms.iter().map(formula).collect()),
        Expression::Or(terms) => Any(terms.iter().map(formula).collect()),
    }
}

fn primitive_formula(primitive: &Primitive) -> Formula {
    match *primitive {
        Primitive::Protocol(protocol) => protocol_formula(protocol),
        Primitive::EthernetType(number) => ethernet_type(number),
        Primitive::Host { within, direction, network: Network::V4(address, mask) } => {
            host_v4(within, direction, address.into(), mask)
        }
        Primitive::Host { direction, network: Network::V6(address, mask), .. } => {
            host_v6(direction, address.into(), mask)
        }
        Primitive::EthernetHost { direction, address } => {
            ends(direction, ethernet_address(6, address), ethernet_address(0, address))
        }
        Primitive::Port { ref transports, direction, first, last } => ports(transports, direction, first, last),
        Primitive::Multicast(group) => multicast(group),
        Primitive::Broadcast => ethernet_address(0, [0xff; 6]),
        Primitive::Field { protocol, offset, size, mask, relation, value } => {
            let (guard, field) = header_field(protocol, offset, size);
            All(vec![guard, compare(field, mask, relation, value)])
        }
    }
}

fn test(field: Field, mask: u32, first: u32, last: u32) -> Formula {
    Formula::Test(Test::of(field, mask, first, last))
}

fn equal(field: Field, value: u32) -> Formula {
    test(field, u32::MAX, value, value)
}

fn compare(field: Field, mask: u32, relation: Relation, value: u32) -> Formula {
    let within = |first, last| test(field, mask, first, last);
    let outside = |first, last| Formula::Not(Box::new(within(first, last)));
    match relation {
        Relation::Equal => within(value, value),
        Relation::NotEqual => outside(value, value),
        Relation::LessOrEqual => within(0, value),
        Relation::Greater => outside(0, value),
        Relation::GreaterOrEqual => within(value, u32::MAX),
        Relation::Less => outside(value, u32::MAX),
    }
}

fn ethernet_type(number: u16) -> Formula {
    equal(Field::frame(12, 2), number.into())
}

fn ethernet_address(offset: u16, address: [u8; 6]) -> Formula {
    let [a, b, c, d, e, f] = address;
    let low = equal(Field::frame(offset + 2, 4), u32::from_be_bytes([c, d, e, f]));
    let high = equal(Field::frame(offset, 2), u32::from_be_bytes([0, 0, a, b]));
    All(vec![low, high])
}

/// Combines what is asked of the source and of the destination.
fn ends(direction: Direction, source: Formula, destination: Formula) -> Formula {
    match direction {
        Direction::Source => source,
        Direction::Destination => destination,
        Direction::Either => Any(vec![source, destination]),
        Direction::Both => All(vec![source, destination]),
    }
}

fn protocol_formula(protocol: Protocol) -> Formula {
    match protocol {
        Protocol::Ethernet => Formula::Constant(true),
        Protocol::Ip => ethernet_type(ETHERNET_IP),
        Protocol::Ip6 => ethernet_type(ETHERNET_IP6),
        Protocol::Arp => ethernet_type(ETHERNET_ARP),
        Protocol::Rarp => ethernet_type(ETHERNET_RARP),
        Protocol::OverIp { number, carriers: Carriers::Ip } => over_ip(number),
        Protocol::OverIp { number, carriers: Carriers::Ip6 } => over_ip6(number),
        Protocol::OverIp { number, carriers: Carriers::Both } => Any(vec![over_ip(number), over_ip6(number)]),
    }
}

fn over_ip(number: u8) -> Formula {
    All(vec![ethernet_type(ETHERNET_IP), equal(Field::frame(NETWORK_HEADER + 9, 1), number.into())])
}

/// Directly after the IPv6 header, or after one fragment header.
fn over_ip6(number: u8) -> Formula {
    let next_header = |number: u8| equal(Field::frame(NETWORK_HEADER + 6, 1), number.into());
    let after_fragment = equal(Field::frame(AFTER_IP6_HEADER, 1), number.into());
    let fragment = All(vec![next_header(FRAGMENT_HEADER), after_fragment]);
    All(vec![ethernet_type(ETHERNET_IP6), Any(vec![next_header(number), fragment])])
}

fn host_v4(within: Option<Protocol>, direction: Direction, address: u32, mask: u32) -> Formula {
    let pair = |ethernet: u16, source: u16, destination: u16| {
        let at = |offset| match mask {
            0 => Formula::Constant(true),
            _ => test(Field::frame(NETWORK_HEADER + offset, 4), mask, address, address),
        };
        All(vec![ethernet_type(ethernet), ends(direction, at(source), at(destination))])
    };
    let ip = || pair(ETHERNET_IP, 12, 16);
    let arp = || pair(ETHERNET_ARP, 14, 24);
    let rarp = || pair(ETHERNET_RARP, 14, 24);
    match within {
        Some(Protocol::Ip) => ip(),
        Some(Protocol::Arp) => arp(),
        Some(Protocol::Rarp) => rarp(),
        _ => Any(vec![ip(), arp(), rarp()]),
    }
}

fn host_v6(direction: Direction, address: u128, mask: u128) -> Formula {
    let at = |offset: u16| {
        let word = |index: u16| {
            let part = |value: u128| (value >> (96 - 32 * index)) as u32;
            match part(mask) {
                0 => Formula::Constant(true),
                mask => test(Field::frame(NETWORK_HEADER + offset + 4 * index, 4), mask, part(address), part(address)),
            }
        };
        All((0..4).map(word).collect())
    };
    All(vec![ethernet_type(ETHERNET_IP6), ends(direction, at(8), at(24))])
}

/// The packet is IPv4, carries `number`, and is no later fragment.
fn first_fragment(number: u8) -> Formula {
    All(vec![over_ip(number), test(Field::frame(NETWORK_HEADER + 6, 2), 0x1fff, 0, 0)])
}

fn ports(transports: &[u8], direction: Direction, first: u16, last: u16) -> Formula {
    let port = |field| test(field, u32::MAX, first.into(), last.into());
    let after_ip = ends(direction, port(Field::after_ip_header(0, 2)), port(Field::after_ip_header(2, 2)));
    let after_ip6 =
        ends(direction, port(Field::frame(AFTER_IP6_HEADER, 2)), port(Field::frame(AFTER_IP6_HEADER + 2, 2)));
    let next_header = |&number: &u8| equal(Field::frame(NETWORK_HEADER + 6, 1), number.into());
    let ip = Any(transports.iter().map(|&number| first_fragment(number)).collect());
    let ip6 = Any(transports.iter().map(next_header).collect());
    Any(vec![All(vec![ip, after_ip]), All(vec![ethernet_type(ETHERNET_IP6), ip6, after_ip6])])
}

fn multicast(group: Protocol) -> Formula {
    match group {
        Protocol::Ip => {
            All(vec![ethernet_type(ETHERNET_IP), test(Field::frame(NETWORK_HEADER + 16, 1), u32::MAX, 224, 255)])
        }
        Protocol::Ip6 => All(vec![ethernet_type(ETHERNET_IP6), equal(Field::frame(NETWORK_HEADER + 24, 1), 255)]),
        _ => test(Field::frame(0, 1), 1, 1, 1),
    }
}

/// The field at `offset` of a protocol's header, and what must hold for that header to
/// be there.
fn header_field(protocol: Protocol, offset: u16, size: u8) -> (Formula, Field) {
    match protocol {
        Protocol::Ethernet => (Formula::Constant(true), Field::frame(offset, size)),
        Protocol::OverIp { number, carriers: Carriers::Ip6 } => {
            let next_header = equal(Field::frame(NETWORK_HEADER + 6, 1), number.into());
            let guard = All(vec![ethernet_type(ETHERNET_IP6), next_header]);
            (guard, Field::frame(AFTER_IP6_HEADER + offset, size))
        }
        Protocol::OverIp { number, .. } => (first_fragment(number), Field::after_ip_header(offset, size)),
        _ => (protocol_formula(protocol), Field::frame(NETWORK_HEADER + offset, size)),
    }
}
