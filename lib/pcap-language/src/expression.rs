//! The syntax tree of an expression, as it was written.

use std::net::Ipv4Addr;
use std::net::Ipv6Addr;

/// An expression. How deep it nests is bounded by the parser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// One primitive.
    Primitive(Primitive),
    /// The packet must not match.
    Not(Box<Expression>),
    /// The packet must match all of them.
    And(Vec<Expression>),
    /// The packet must match one of them.
    Or(Vec<Expression>),
}

/// Which end of the conversation a primitive looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// `src`.
    Source,
    /// `dst`.
    Destination,
    /// `src or dst`, which is also what no word means.
    Either,
    /// `src and dst`.
    Both,
}

/// A protocol that the language names. Those above IP by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// The frame itself.
    Ethernet,
    /// IP version 4.
    Ip,
    /// IP version 6.
    Ip6,
    /// Address resolution.
    Arp,
    /// Reverse address resolution.
    Rarp,
    /// A protocol carried by IP, with the versions of IP that its name stands for.
    OverIp {
        /// The number in the IP header.
        number: u8,
        /// The versions that may carry it.
        carriers: Carriers,
    },
}

/// Versions of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carriers {
    /// Version 4 only.
    Ip,
    /// Version 6 only.
    Ip6,
    /// Either.
    Both,
}

/// Addresses of one network, or of one host when the mask is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// Address and mask.
    V4(Ipv4Addr, u32),
    /// Address and mask.
    V6(Ipv6Addr, u128),
}

/// A comparison sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// `=` or `==`.
    Equal,
    /// `!=`.
    NotEqual,
    /// `<`.
    Less,
    /// `<=`.
    LessOrEqual,
    /// `>`.
    Greater,
    /// `>=`.
    GreaterOrEqual,
}

/// One test of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Primitive {
    /// The packet is of this protocol.
    Protocol(Protocol),
    /// The Ethernet type is this number.
    EthernetType(u16),
    /// An address of the network layer; `within` restricts it to one protocol.
    Host {
        /// `ip`, `ip6`, `arp` or `rarp` when it was written.
        within: Option<Protocol>,
        /// Which address.
        direction: Direction,
        /// What it is compared with.
        network: Network,
    },
    /// A hardware address.
    EthernetHost {
        /// Which address.
        direction: Direction,
        /// What it is compared with.
        address: [u8; 6],
    },
    /// A port of TCP, UDP or SCTP.
    Port {
        /// The transport protocols' numbers.
        transports: Vec<u8>,
        /// Which port.
        direction: Direction,
        /// The lowest port that matches.
        first: u16,
        /// The highest.
        last: u16,
    },
    /// Sent to a group: of Ethernet, IP or IPv6.
    Multicast(Protocol),
    /// Sent to all on the Ethernet.
    Broadcast,
    /// `protocol[offset:size] & mask relation value`.
    Field {
        /// Whose header the offset counts from.
        protocol: Protocol,
        /// Bytes from the start of that header.
        offset: u16,
        /// 1, 2 or 4 bytes, big-endian.
        size: u8,
        /// Bits that are compared.
        mask: u32,
        /// How.
        relation: Relation,
        /// With what.
        value: u32,
    },
}
