//! Routes: longest prefix first. IPv4 prefixes are those of mapped addresses, 96 bits longer.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr};

use crate::address::mapped;

/// Bits before an IPv4 address in a mapped one.
const MAPPED_BITS: u8 = 96;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    pub address: Ipv6Addr,
    /// Bits of the mapped form.
    pub length: u8,
}

impl Prefix {
    /// `length` counts the bits of the address as it is written: up to 32 or 128.
    pub fn new(address: impl Into<IpAddr>, length: u8) -> Self {
        let address = address.into();
        let length = if address.is_ipv4() { length.min(32) + MAPPED_BITS } else { length.min(128) };
        Self { address: mapped(address), length }
    }

    pub fn contains(&self, address: Ipv6Addr) -> bool {
        let difference = self.address.to_bits() ^ address.to_bits();
        difference.leading_zeros() >= u32::from(self.length)
    }

    /// The last address of an IPv4 prefix is its broadcast address.
    pub fn is_broadcast(&self, address: Ipv6Addr) -> bool {
        let host = u128::MAX.checked_shr(u32::from(self.length)).unwrap_or(0);
        let is_version_4 = self.address.to_ipv4_mapped().is_some();
        is_version_4 && self.length < 127 && self.contains(address) && address.to_bits() & host == host
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    pub prefix: Prefix,
    /// `None`: the destination is a neighbour.
    pub gateway: Option<Ipv6Addr>,
}

#[derive(Debug, Default)]
pub struct Routes {
    /// Longest prefixes first.
    routes: Vec<Route>,
}

impl Routes {
    pub fn iter(&self) -> impl Iterator<Item = &Route> {
        self.routes.iter()
    }

    pub fn add(&mut self, route: Route) {
        self.remove(&route.prefix);
        let at = self.routes.partition_point(|other| other.prefix.length >= route.prefix.length);
        self.routes.insert(at, route);
    }

    pub fn remove(&mut self, prefix: &Prefix) {
        self.routes.retain(|route| route.prefix != *prefix);
    }

    /// The neighbour that packets for an address go to.
    pub fn next_hop(&self, destination: Ipv6Addr) -> Option<Ipv6Addr> {
        let route = self.routes.iter().find(|route| route.prefix.contains(destination))?;
        Some(route.gateway.unwrap_or(destination))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_wins_and_families_do_not_mix() {
        let mut routes = Routes::default();
        let gateway = |last| Some(mapped([10, 0, 0, last].into()));
        routes.add(Route { prefix: Prefix::new([0, 0, 0, 0], 0), gateway: gateway(1) });
        routes.add(Route { prefix: Prefix::new([10, 0, 0, 0], 24), gateway: None });
        routes.add(Route { prefix: Prefix::new([10, 1, 0, 0], 16), gateway: gateway(2) });
        let hop = |address: [u8; 4]| routes.next_hop(mapped(address.into()));
        assert_eq!(hop([10, 0, 0, 9]), gateway(9));
        assert_eq!(hop([10, 1, 2, 3]), gateway(2));
        assert_eq!(hop([8, 8, 8, 8]), gateway(1));
        assert_eq!(routes.next_hop(Ipv6Addr::LOCALHOST), None);
    }

    #[test]
    fn broadcast_addresses() {
        let prefix = Prefix::new([10, 0, 0, 7], 24);
        assert!(prefix.is_broadcast(mapped([10, 0, 0, 255].into())));
        assert!(!prefix.is_broadcast(mapped([10, 0, 0, 254].into())));
        assert!(!Prefix::new(Ipv6Addr::LOCALHOST, 64).is_broadcast(Ipv6Addr::from_bits(u64::MAX.into())));
    }
}
