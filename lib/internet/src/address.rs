//! Addresses and names of Internet sockets: `struct sockaddr_in` and `struct sockaddr_in6`.
//!
//! Invariant: an IPv4 address is kept as its IPv4-mapped IPv6 address, so that one comparison serves both families.

use crate::error::{Error, Result};
use alloc::vec::Vec;

/// Numbers of families (linux/socket.h).
pub const UNSPECIFIED: u16 = 0;
/// `AF_INET`
pub const INET: u16 = 2;
/// `AF_INET6`
pub const INET6: u16 = 10;
/// Bytes of the names: IPv4, and IPv6 without and with its scope.
const V4_BYTES: usize = 16;
const V6_LEAST: usize = 24;
const V6_BYTES: usize = 28;
/// The longest name that a call takes (`struct sockaddr_storage`).
pub const LONGEST_NAME: u64 = 128;

/// The family of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// `AF_INET`
    V4,
    /// `AF_INET6`
    V6,
}

impl Family {
    /// Its number.
    pub const fn number(self) -> u16 {
        match self {
            Self::V4 => INET,
            Self::V6 => INET6,
        }
    }

    /// The address that stands for any.
    pub const fn any(self) -> Address {
        match self {
            Self::V4 => Address::v4(0),
            Self::V6 => Address(0),
        }
    }
}

/// An address of either family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address(pub u128);

const MAPPED: u128 = 0xffff << 32;

impl Address {
    /// An IPv4 address, most significant byte first.
    pub const fn v4(address: u32) -> Self {
        Self(MAPPED | address as u128)
    }

    /// The IPv4 address that it is.
    pub const fn to_v4(self) -> Option<u32> {
        if self.0 >> 32 == MAPPED >> 32 { Some(self.0 as u32) } else { None }
    }

    /// Whether it stands for any address of its family.
    pub const fn is_any(self) -> bool {
        matches!(self.to_v4(), Some(0)) || self.0 == 0
    }

    /// Whether it is one of this machine: 127.0.0.0/8 and ::1.
    pub const fn is_local(self) -> bool {
        match self.to_v4() {
            Some(address) => address >> 24 == 127,
            None => self.0 == 1,
        }
    }

    /// Whether it names a group.
    pub const fn is_multicast(self) -> bool {
        match self.to_v4() {
            Some(address) => address >> 28 == 14,
            None => self.0 >> 120 == 0xff,
        }
    }

    /// Whether it names all hosts of a network of this machine, or of any.
    pub const fn is_broadcast(self) -> bool {
        matches!(self.to_v4(), Some(0xffff_ffff | 0x7fff_ffff))
    }

    /// As two words.
    pub const fn to_words(self) -> [u64; 2] {
        [(self.0 >> 64) as u64, self.0 as u64]
    }

    /// From two words.
    pub const fn from_words([high, low]: [u64; 2]) -> Self {
        Self((high as u128) << 64 | low as u128)
    }
}

/// An address and a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    /// The address.
    pub address: Address,
    /// The port; 0: none.
    pub port: u16,
}

impl Endpoint {
    /// As three words.
    pub const fn to_words(self) -> [u64; 3] {
        let [high, low] = self.address.to_words();
        [high, low, self.port as u64]
    }

    /// From three words.
    pub const fn from_words([high, low, port]: [u64; 3]) -> Self {
        Self { address: Address::from_words([high, low]), port: port as u16 }
    }

    /// The name that `getsockname` gives of a socket of this family.
    pub fn to_name(self, family: Family) -> Vec<u8> {
        let mut name = Vec::from(family.number().to_le_bytes());
        name.extend(self.port.to_be_bytes());
        match family {
            Family::V4 => {
                name.extend(self.address.to_v4().unwrap_or(0).to_be_bytes());
                name.resize(V4_BYTES, 0);
            }
            Family::V6 => {
                name.extend([0; 4]);
                name.extend(self.address.0.to_be_bytes());
                name.resize(V6_BYTES, 0);
            }
        }
        name
    }
}

/// What a name is given for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// `bind`
    Bind,
    /// `connect`
    Connect,
    /// `sendto`
    Send,
}

/// What a program's name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// An address and a port.
    Endpoint(Endpoint),
    /// `AF_UNSPEC`: no connection any more.
    Nothing,
}

/// Reads a name that a program gave to a socket of a family, which may be one for IPv6 only.
///
/// # Errors
/// As bind(2), connect(2) and sendto(2) of Linux: too short, or of another family.
pub fn parse(name: &[u8], family: Family, only_v6: bool, purpose: Purpose, is_stream: bool) -> Result<Named> {
    let Some(given) = name.first_chunk().map(|bytes| u16::from_le_bytes(*bytes)) else { return Err(Error::Invalid) };
    if purpose == Purpose::Connect && given == UNSPECIFIED {
        return Ok(Named::Nothing);
    }
    let is_v4_of_v6 = family == Family::V6 && given == INET && purpose != Purpose::Bind && !is_stream;
    match family {
        Family::V4 => parse_v4(name, given, purpose),
        Family::V6 if is_v4_of_v6 && only_v6 && purpose == Purpose::Send => Err(Error::Unreachable),
        Family::V6 if is_v4_of_v6 && !only_v6 => parse_v4(name, given, purpose),
        Family::V6 if name.len() < V6_LEAST => Err(Error::Invalid),
        Family::V6 if purpose == Purpose::Send && given == UNSPECIFIED => Err(Error::Invalid),
        Family::V6 if given != INET6 => Err(Error::WrongFamily),
        Family::V6 => {
            let address = Address(u128::from_be_bytes(core::array::from_fn(|index| name[8 + index])));
            if address.to_v4().is_some() && only_v6 {
                return Err(if purpose == Purpose::Bind { Error::Invalid } else { Error::Unreachable });
            }
            Ok(Named::Endpoint(Endpoint { address, port: port_of(name) }))
        }
    }
    .map(|endpoint| match endpoint {
        // What is sent to any address goes to this machine (RFC 1122).
        Named::Endpoint(endpoint) if purpose != Purpose::Bind => Named::Endpoint(to_this_machine(endpoint, family)),
        named => named,
    })
}

/// The group in a name that a program gave for a socket option of IPv6 (ipv6(7)) or IPv4 (ip(7)).
///
/// # Errors
/// It is of another family.
pub fn group_of(name: &[u8], is_v6: bool) -> Result<Address> {
    match (name, is_v6) {
        ([2, 0, _, _, address @ ..], false) => {
            Ok(Address::v4(u32::from_be_bytes(*address.first_chunk().ok_or(Error::Invalid)?)))
        }
        ([10, 0, _, _, _, _, _, _, address @ ..], true) => {
            Ok(Address(u128::from_be_bytes(*address.first_chunk().ok_or(Error::Invalid)?)))
        }
        (_, true) => Err(Error::NotAvailable),
        (_, false) => Err(Error::Invalid),
    }
}

fn parse_v4(name: &[u8], given: u16, purpose: Purpose) -> Result<Named> {
    if name.len() < V4_BYTES {
        return Err(Error::Invalid);
    }
    let address = u32::from_be_bytes(core::array::from_fn(|index| name[4 + index]));
    let is_tolerated = given == UNSPECIFIED && (purpose == Purpose::Send || address == 0);
    if given != INET && !is_tolerated {
        return Err(Error::WrongFamily);
    }
    Ok(Named::Endpoint(Endpoint { address: Address::v4(address), port: port_of(name) }))
}

const fn port_of(name: &[u8]) -> u16 {
    u16::from_be_bytes([name[2], name[3]])
}

fn to_this_machine(endpoint: Endpoint, family: Family) -> Endpoint {
    let address = match endpoint.address {
        any if any == Address::v4(0) => Address::v4(0x7f00_0001),
        Address(0) if family == Family::V6 => Address(1),
        address => address,
    };
    Endpoint { address, ..endpoint }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCAL: Endpoint = Endpoint { address: Address::v4(0x7f00_0001), port: 80 };

    #[test]
    fn names_are_read_as_they_are_written() {
        for (family, endpoint) in
            [(Family::V4, LOCAL), (Family::V6, LOCAL), (Family::V6, Endpoint { address: Address(1), port: 7 })]
        {
            let name = endpoint.to_name(family);
            assert_eq!(parse(&name, family, false, Purpose::Bind, true), Ok(Named::Endpoint(endpoint)));
        }
    }

    #[test]
    fn short_names_and_other_families_are_refused() {
        let (v4, v6) = (LOCAL.to_name(Family::V4), LOCAL.to_name(Family::V6));
        let bind = |name: &[u8], family| parse(name, family, false, Purpose::Bind, true);
        assert_eq!(bind(&v4[..15], Family::V4), Err(Error::Invalid));
        assert_eq!(bind(&v6[..23], Family::V6), Err(Error::Invalid));
        assert_eq!(bind(b"", Family::V4), Err(Error::Invalid));
        assert_eq!(bind(&v6, Family::V4), Err(Error::WrongFamily));
        let long_v4 = [&v4[..], &[0; 12]].concat();
        assert_eq!(bind(&long_v4, Family::V6), Err(Error::WrongFamily));
        assert_eq!(parse(&[0; 16], Family::V4, false, Purpose::Connect, true), Ok(Named::Nothing));
        assert!(matches!(bind(&[0; 16], Family::V4), Ok(Named::Endpoint(_))), "any address of no family");
        assert_eq!(parse(&v6, Family::V6, true, Purpose::Connect, true), Err(Error::Unreachable));
    }

    #[test]
    fn any_address_is_this_machine_to_a_sender() {
        let any = Endpoint { address: Family::V4.any(), port: 80 }.to_name(Family::V4);
        assert_eq!(parse(&any, Family::V4, false, Purpose::Connect, true), Ok(Named::Endpoint(LOCAL)));
    }

    #[test]
    fn addresses_of_this_machine_are_those_of_loopback() {
        assert!(Address::v4(0x7f01_0203).is_local() && Address(1).is_local());
        assert!(!Address::v4(0x0a00_0001).is_local() && !Address(2).is_local());
        assert!(Address::v4(0xe000_0001).is_multicast() && Address(0xff02 << 112 | 1).is_multicast());
    }
}
