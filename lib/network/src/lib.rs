//! User-level network stack: Ethernet, ARP, IPv4, IPv6, ICMP, UDP, DHCP, SLAAC and TCP as a library.
//!
//! The crate owns no device and no clock. Packets enter and leave through a [`link::Link`]. The payload that is sent
//! lies in pages of the caller's ([`link::Pages`]), and the caller passes the time to each call. `doc/network.md`
//! describes how a packet travels through it.
//!
//! Invariants:
//! - Nothing here panics on the content of a packet.
//! - All memory that a peer can make the stack use has a bound, named in the module that uses it.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod address;
pub mod checksum;
pub mod dhcp;
pub mod icmp;
pub mod ip4;
pub mod ip6;
pub mod link;
pub mod neighbor;
pub mod packet;
pub mod path;
pub mod reassembly;
pub mod route;
pub mod secret;
pub mod server;
pub mod slaac;
pub mod slab;
pub mod stack;
pub mod tcp;
pub mod time;
pub mod udp;
pub mod wheel;
