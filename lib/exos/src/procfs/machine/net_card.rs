//! Lines of `/proc/net` about the network card; none where the machine has none.

use crate::hw::card;
use crate::server::client::network_card;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use internet::address::Family;
use internet::device::{NAME, NUMBER, hexadecimal, is_link_local, mask};

/// An IPv4 address as people write it.
fn dotted(address: u32) -> String {
    let [a, b, c, d] = address.to_be_bytes();
    format!("{a}.{b}.{c}.{d}")
}

pub(crate) fn arp() -> String {
    let neighbors = network_card().map(|card| card.neighbors).unwrap_or_default();
    let line = |(address, hardware): &(internet::address::Address, [u8; 6])| {
        let address = dotted(address.to_v4()?);
        Some(format!("{address:<16} 0x1         0x2         {}     *        {NAME}\n", hexadecimal(hardware)))
    };
    neighbors.iter().filter_map(line).collect()
}

pub(crate) fn dev() -> String {
    if !card::is_there() {
        return String::new();
    }
    let [received_bytes, received, sent_bytes, sent] = card::counts();
    format!(
        "{NAME:>6}: {received_bytes:7} {received:7} {0:4} {0:4} {0:4} {0:5} {0:10} {0:9} {sent_bytes:8} {sent:7} \
         {0:4} {0:4} {0:4} {0:5} {0:7} {0:10}\n",
        0
    )
}

pub(crate) fn if_inet6() -> String {
    let Some(card) = network_card() else { return String::new() };
    let line = |(address, bits): (internet::address::Address, u8)| {
        let scope = if is_link_local(address) { 0x20 } else { 0 };
        format!("{:032x} {NUMBER:02x} {bits:02x} {scope:02x} 80 {NAME:>8}\n", address.0)
    };
    card.v6().map(line).collect()
}

/// Name servers as the resolver reads them; `None`: there is no card.
pub(crate) fn pnp() -> Option<String> {
    let servers = network_card()?.name_servers;
    let lines = servers.iter().filter_map(|server| Some(format!("nameserver {}\n", dotted(server.to_v4()?))));
    Some(String::from("#PROTO: DHCP\n") + &lines.collect::<String>())
}

/// Lines of `route`.
pub(crate) fn route() -> Vec<String> {
    let Some(card) = network_card() else { return Vec::new() };
    let line = |to: u32, gateway: u32, flags: u32, mask: u32| {
        let [to, gateway, mask] = [to, gateway, mask].map(u32::swap_bytes);
        format!("{NAME}\t{to:08X}\t{gateway:08X}\t{flags:04X}\t0\t0\t0\t{mask:08X}\t0\t0\t0")
    };
    let gateway = card.gateway(Family::V4).and_then(|gateway| gateway.to_v4());
    let own = card.v4().map(|(own, bits)| line(own & mask(bits), 0, 1, mask(bits)));
    gateway.map(|gateway| line(0, gateway, 3, 0)).into_iter().chain(own).collect()
}

pub(crate) fn ipv6_route() -> String {
    let Some(card) = network_card() else { return String::new() };
    let line = |to: u128, bits: u8, gateway: u128, flags: u32| {
        format!("{to:032x} {bits:02x} {0:032x} 00 {gateway:032x} 00000400 00000001 00000000 {flags:08x} {NAME:>8}\n", 0)
    };
    let net = |address: u128, bits: u8| address & !u128::MAX.checked_shr(bits.into()).unwrap_or(0);
    let near = card.v6().map(|(own, bits)| line(net(own.0, bits), bits, 0, 1));
    let far = card.gateway(Family::V6).map(|gateway| line(0, 0, gateway.0, 3));
    near.chain(far).collect()
}
