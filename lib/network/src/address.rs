//! Addresses and pairs of endpoints. IPv4 addresses are kept mapped into IPv6 (`::ffff:a.b.c.d`), so that every
//! table has one kind of key.

use core::net::{IpAddr, Ipv6Addr};

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    pub address: Ipv6Addr,
    pub port: u16,
}

impl Endpoint {
    pub fn new(address: impl Into<IpAddr>, port: u16) -> Self {
        Self { address: mapped(address.into()), port }
    }
}

/// Both ends of a connection, as this machine sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pair {
    pub local: Endpoint,
    pub remote: Endpoint,
}

impl Pair {
    /// Whether both ends are the same: a connection to oneself (LAND).
    pub fn is_loop(&self) -> bool {
        self.local == self.remote
    }

    pub fn is_version_4(&self) -> bool {
        self.local.address.to_ipv4_mapped().is_some()
    }

    /// The bytes that keyed hashes run over.
    pub fn octets(&self) -> [u8; 36] {
        let mut octets = [0; 36];
        octets[..16].copy_from_slice(&self.local.address.octets());
        octets[16..32].copy_from_slice(&self.remote.address.octets());
        octets[32..34].copy_from_slice(&self.local.port.to_be_bytes());
        octets[34..].copy_from_slice(&self.remote.port.to_be_bytes());
        octets
    }
}

pub fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

/// Whether an address names exactly one machine: none, broadcast and groups do not.
pub fn is_unicast(address: Ipv6Addr) -> bool {
    match address.to_ipv4_mapped() {
        Some(address) => !(address.is_unspecified() || address.is_broadcast() || address.is_multicast()),
        None => !(address.is_unspecified() || address.is_multicast()),
    }
}
