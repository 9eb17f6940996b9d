//! Path MTU (RFC 1191, RFC 8201): what routers reported about single destinations.
//!
//! Invariant: at most [`LIMIT`] entries, each for [`LIFE`] at the longest.

use alloc::collections::BTreeMap;
use core::net::Ipv6Addr;

use crate::time::{SECOND, Time};
use crate::{ip4, ip6};

const LIMIT: usize = 256;
const LIFE: u64 = 600 * SECOND;

#[derive(Debug, Default)]
pub struct Paths {
    entries: BTreeMap<Ipv6Addr, (usize, Time)>,
}

impl Paths {
    pub fn mtu(&self, destination: Ipv6Addr, link: usize, now: Time) -> usize {
        let entry = self.entries.get(&destination).filter(|(_, end)| *end > now);
        entry.map_or(link, |(mtu, _)| (*mtu).min(link))
    }

    /// Records what a router reported. Returns the new MTU, or `None` when it is not smaller than what was known.
    pub fn report(&mut self, destination: Ipv6Addr, mtu: usize, link: usize, now: Time) -> Option<usize> {
        let least = if destination.to_ipv4_mapped().is_some() { ip4::LEAST_MTU } else { ip6::LEAST_MTU };
        let mtu = mtu.max(least);
        if mtu >= self.mtu(destination, link, now) {
            return None;
        }
        if self.entries.len() >= LIMIT {
            self.entries.retain(|_, (_, end)| *end > now);
        }
        if self.entries.len() >= LIMIT {
            let oldest = self.entries.iter().min_by_key(|(_, (_, end))| *end).map(|(address, _)| *address);
            oldest.map(|address| self.entries.remove(&address));
        }
        self.entries.insert(destination, (mtu, now.after(LIFE)));
        Some(mtu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_narrow_a_path_for_a_while_and_are_bounded() {
        let mut paths = Paths::default();
        let address = |number: u32| Ipv6Addr::from_bits(u128::from(number) << 64 | 1);
        let now = Time::default();
        assert_eq!(paths.report(address(1), 1_400, 1_500, now), Some(1_400));
        assert_eq!(paths.report(address(1), 1_450, 1_500, now), None);
        assert_eq!(paths.report(address(1), 0, 1_500, now), Some(ip6::LEAST_MTU));
        assert_eq!(paths.mtu(address(1), 1_500, now), 1_280);
        assert_eq!(paths.mtu(address(1), 1_500, now.after(LIFE)), 1_500);
        for number in 0..1_000 {
            paths.report(address(number), 1_300, 1_500, now.after(u64::from(number)));
            assert!(paths.entries.len() <= LIMIT);
        }
        assert_eq!(paths.mtu(address(999), 1_500, now), 1_300);
    }
}
