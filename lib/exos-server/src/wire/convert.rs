//! Addresses and ends of `lib/internet` as `lib/network` has them, and back.

use core::net::Ipv6Addr;
use internet::address::{Address, Endpoint};

pub(super) const fn to_stack(address: Address) -> Ipv6Addr {
    Ipv6Addr::from_bits(address.0)
}

pub(super) const fn from_stack(address: Ipv6Addr) -> Address {
    Address(address.to_bits())
}

pub(super) const fn end_to_stack(end: Endpoint) -> network::address::Endpoint {
    network::address::Endpoint { address: to_stack(end.address), port: end.port }
}

pub(super) const fn end_from_stack(end: network::address::Endpoint) -> Endpoint {
    Endpoint { address: from_stack(end.address), port: end.port }
}
