//! The network card as programs see it: `eth0`, its addresses, routes, name servers and neighbours.
//!
//! The server describes it in lines, one fact a line, which the library in each process reads.

use crate::address::{Address, Family};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Its name and number.
pub const NAME: &str = "eth0";
/// See [`NAME`].
pub const NUMBER: i32 = 2;
/// Up, broadcast, running, multicast, and above 16 bits that its lower layer is up.
pub const FLAGS: u32 = 0x1_1043;

/// What is known of the card.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// Its address on the link.
    pub hardware: [u8; 6],
    /// Bytes of its largest packet.
    pub mtu: u32,
    /// Its addresses, with the bits of their prefixes as they are written: up to 32 for IPv4.
    pub addresses: Vec<(Address, u8)>,
    /// Routers, one for each family at most.
    pub gateways: Vec<Address>,
    /// Servers that DHCP named.
    pub name_servers: Vec<Address>,
    /// Neighbours whose address on the link is known.
    pub neighbors: Vec<(Address, [u8; 6])>,
}

impl Device {
    /// The lines that describe it.
    pub fn to_lines(&self) -> Vec<String> {
        let mut lines = Vec::from([format!("link {} {}\n", hexadecimal(&self.hardware), self.mtu)]);
        let number = |address: &Address| format!("{:032x}", address.0);
        lines.extend(self.addresses.iter().map(|(address, bits)| format!("address {} {bits}\n", number(address))));
        lines.extend(self.gateways.iter().map(|address| format!("gateway {} 0\n", number(address))));
        lines.extend(self.name_servers.iter().map(|address| format!("server {} 0\n", number(address))));
        let neighbors = self.neighbors.iter();
        lines.extend(
            neighbors.map(|(address, hardware)| format!("neighbor {} {}\n", number(address), hexadecimal(hardware))),
        );
        lines
    }

    /// The card that lines describe; `None`: there is none.
    pub fn from_lines(text: &str) -> Option<Self> {
        let mut device = Self::default();
        let mut is_there = false;
        for line in text.lines() {
            let mut words = line.split(' ');
            let (Some(kind), Some(first), Some(second)) = (words.next(), words.next(), words.next()) else { continue };
            if kind == "link" {
                (device.hardware, device.mtu, is_there) = (hardware_of(first)?, second.parse().ok()?, true);
                continue;
            }
            let address = Address(u128::from_str_radix(first, 16).ok()?);
            match kind {
                "address" => device.addresses.push((address, second.parse().ok()?)),
                "gateway" => device.gateways.push(address),
                "server" => device.name_servers.push(address),
                "neighbor" => device.neighbors.push((address, hardware_of(second)?)),
                _ => {}
            }
        }
        is_there.then_some(device)
    }

    /// Its first IPv4 address, with the bits of the prefix.
    pub fn v4(&self) -> Option<(u32, u8)> {
        self.addresses.iter().find_map(|(address, bits)| Some((address.to_v4()?, *bits)))
    }

    /// The router of a family.
    pub fn gateway(&self, family: Family) -> Option<Address> {
        let is_v4 = family == Family::V4;
        self.gateways.iter().copied().find(|address| address.to_v4().is_some() == is_v4)
    }

    /// Its IPv6 addresses.
    pub fn v6(&self) -> impl Iterator<Item = (Address, u8)> {
        self.addresses.iter().copied().filter(|(address, _)| address.to_v4().is_none())
    }
}

/// The mask of a prefix of IPv4.
pub const fn mask(bits: u8) -> u32 {
    if bits == 0 { 0 } else { u32::MAX << (32 - if bits > 32 { 32 } else { bits as u32 }) }
}

/// Whether an address holds on its link only.
pub const fn is_link_local(address: Address) -> bool {
    address.0 >> 118 == 0x3fa
}

/// An address on a link as people write it.
pub fn hexadecimal(bytes: &[u8; 6]) -> String {
    let [a, b, c, d, e, f] = bytes;
    format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
}

fn hardware_of(text: &str) -> Option<[u8; 6]> {
    let mut bytes = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut bytes {
        *byte = u8::from_str_radix(parts.next()?, 16).ok()?;
    }
    parts.next().is_none().then_some(bytes)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn card() -> Device {
        Device {
            hardware: [0x52, 0x54, 0, 0x12, 0x34, 0x56],
            mtu: 1500,
            addresses: Vec::from([(Address::v4(0x0a00_020f), 24), (Address(0xfe80 << 112 | 7), 64)]),
            gateways: Vec::from([Address::v4(0x0a00_0202)]),
            name_servers: Vec::from([Address::v4(0x0a00_0203)]),
            neighbors: Vec::from([(Address::v4(0x0a00_0202), [1, 2, 3, 4, 5, 6])]),
        }
    }

    #[test]
    fn a_card_is_read_as_it_is_described() {
        assert_eq!(Device::from_lines(&card().to_lines().concat()), Some(card()));
        assert_eq!(Device::from_lines(""), None);
        assert_eq!(Device::from_lines("link 1:2 1500\n"), None);
    }

    #[test]
    fn masks_and_scopes() {
        assert_eq!([mask(0), mask(24), mask(32)], [0, 0xffff_ff00, u32::MAX]);
        assert!(is_link_local(Address(0xfe80 << 112 | 7)) && !is_link_local(Address(0xfec0 << 112)));
    }
}
