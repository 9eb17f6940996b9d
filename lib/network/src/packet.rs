//! IP packets of both versions, as the layers above see them.

use core::net::Ipv6Addr;

pub const ICMP: u8 = 1;
pub const TCP: u8 = 6;
pub const UDP: u8 = 17;
pub const ICMP6: u8 = 58;
/// Hop limit of what this machine sends.
pub const HOP_LIMIT: u8 = 64;

/// Place of a fragment in its packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    pub identification: u32,
    /// Bytes.
    pub offset: usize,
    /// Whether others follow.
    pub more: bool,
}

/// A packet that came. IPv4 addresses are mapped.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    pub source: Ipv6Addr,
    pub destination: Ipv6Addr,
    pub protocol: u8,
    pub hop_limit: u8,
    pub fragment: Option<Fragment>,
    pub payload: &'a [u8],
    /// The packet with its header, for errors that quote it.
    pub whole: &'a [u8],
}

impl Packet<'_> {
    pub fn is_version_4(&self) -> bool {
        self.destination.to_ipv4_mapped().is_some()
    }
}

/// A packet to be sent; more of its body may lie in pages.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    pub source: Ipv6Addr,
    pub destination: Ipv6Addr,
    pub protocol: u8,
    pub hop_limit: u8,
    pub body: &'a [u8],
}
