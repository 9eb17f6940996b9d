//! Port table: which socket has which address and port, by the rules of Linux (ip(7), tcp(7), ipv6(7)).
//!
//! It decides whether a socket may be bound, chooses ephemeral ports, and finds the socket that a connection or a
//! datagram is for.
//! Invariants:
//! - a binding stands under its port once; a port without bindings does not stand in the table;
//! - what a socket that ended had is free at once: there is no TIME_WAIT, no segment of an old connection can arrive;
//! - connections that a listener took are found by their ends, without a walk through all of them.

use crate::address::{Address, Endpoint, Family};
use crate::error::{Error, Result};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Ports that the table chooses itself, as `/proc/sys/net/ipv4/ip_local_port_range` says.
pub const EPHEMERAL: [u16; 2] = [32768, 60999];
/// The first port that everybody may have, as `ip_unprivileged_port_start` says.
pub const UNPRIVILEGED: u16 = 1024;

/// Ports of different protocols have nothing to do with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// UDP-Lite.
    UdpLite,
    /// ICMP echoes, whose identifiers are their ports; those of IPv6 apart.
    Echo,
    /// The same of IPv6.
    Echo6,
}

/// What a socket has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The socket.
    pub socket: u64,
    /// The user who made it.
    pub user: u32,
    /// Its family.
    pub family: Family,
    /// `IPV6_V6ONLY`
    pub only_v6: bool,
    /// `SO_REUSEADDR`
    pub reuse_address: bool,
    /// `SO_REUSEPORT`
    pub reuse_port: bool,
    /// Whether it listens.
    pub listens: bool,
    /// Whether it is an end of a connection that another binding, its listener's, stood for.
    pub is_accepted: bool,
    /// Its own address and port.
    pub local: Endpoint,
    /// What it is connected to; port 0: nothing.
    pub remote: Endpoint,
}

impl Binding {
    /// Whether two that have the same port stand in each other's way.
    fn conflicts(&self, other: &Self) -> bool {
        if self.socket == other.socket || !self.meets(other) {
            return false;
        }
        let reuse_address = self.reuse_address && other.reuse_address && !other.listens;
        let reuse_port = self.reuse_port && other.reuse_port && self.user == other.user;
        !reuse_address && !reuse_port
    }

    /// Whether one address is for both (`inet_rcv_saddr_equal` of Linux).
    fn meets(&self, other: &Self) -> bool {
        let (one, two) = (self.local.address, other.local.address);
        match (one.to_v4(), two.to_v4()) {
            (Some(one), Some(two)) => one == two || one == 0 || two == 0,
            _ if one.0 == 0 && two.0 == 0 => true,
            (v4, _) if two.0 == 0 => !(other.only_v6 && v4.is_some()),
            (_, v4) if one.0 == 0 => !(self.only_v6 && v4.is_some()),
            _ => one == two,
        }
    }

    /// How well it fits a message from `from` to `to`; `None`: it is not for it.
    fn score(&self, to: Endpoint, from: Endpoint) -> Option<u32> {
        let is_v4 = to.address.to_v4().is_some();
        let mut score = u32::from(self.family == Family::V4);
        match self.local.address {
            any if any.is_any() => {
                let fits = if is_v4 { any.to_v4().is_some() || !self.only_v6 } else { any.0 == 0 };
                if !fits {
                    return None;
                }
            }
            address if address == to.address => score += 4,
            _ => return None,
        }
        match self.remote {
            Endpoint { port: 0, .. } => {}
            remote if remote == from => score += 8,
            _ => return None,
        }
        Some(score)
    }
}

/// The bindings of one port.
#[derive(Clone, Debug, Default)]
struct Port {
    /// In the order in which they came, without the accepted ones.
    own: Vec<Binding>,
    /// By the other end, the own address and the socket.
    accepted: BTreeMap<(Endpoint, Endpoint, u64), Binding>,
}

impl Port {
    fn all(&self) -> impl Iterator<Item = &Binding> {
        self.own.iter().chain(self.accepted.values())
    }

    fn is_empty(&self) -> bool {
        self.own.is_empty() && self.accepted.is_empty()
    }

    fn insert(&mut self, binding: Binding) {
        if binding.is_accepted {
            self.accepted.insert((binding.remote, binding.local, binding.socket), binding);
        } else {
            self.own.push(binding);
        }
    }
}

/// Where the binding of a socket stands.
#[derive(Clone, Copy, Debug)]
struct Place {
    port: (Protocol, u16),
    /// Its key among the accepted ones.
    accepted: Option<(Endpoint, Endpoint, u64)>,
}

/// All bindings.
#[derive(Clone, Debug, Default)]
pub struct PortTable {
    ports: BTreeMap<(Protocol, u16), Port>,
    sockets: BTreeMap<u64, Place>,
}

impl PortTable {
    /// Binds a socket; port 0 asks for any, of which `draw` names where the search begins. The port that it has.
    ///
    /// # Errors
    /// `InUse`: another one has it, or there is none.
    pub fn bind(&mut self, protocol: Protocol, mut binding: Binding, draw: u64) -> Result<u16> {
        if binding.local.port == 0 {
            binding.local.port = self.choose(protocol, draw, |others| others.is_empty()).ok_or(Error::InUse)?;
        } else if self.at(protocol, binding.local.port).any(|other| binding.conflicts(other)) {
            return Err(Error::InUse);
        }
        self.insert(protocol, binding);
        Ok(binding.local.port)
    }

    /// Gives a socket that connects to `binding.remote` a port of its own.
    ///
    /// # Errors
    /// `NotAvailable`: every port has a connection to there.
    pub fn bind_to_connect(&mut self, protocol: Protocol, mut binding: Binding, draw: u64) -> Result<u16> {
        let remote = binding.remote;
        // Connections to other places may share a port, where none is free.
        let is_apart = |other: &Binding| other.remote.port != 0 && other.remote != remote;
        let port = self.choose(protocol, draw, |others| others.is_empty());
        let port = match protocol {
            Protocol::Tcp => port.or_else(|| {
                self.choose(protocol, draw, |port| port.accepted.is_empty() && port.own.iter().all(is_apart))
            }),
            _ => port,
        };
        binding.local.port = port.ok_or(Error::NotAvailable)?;
        self.insert(protocol, binding);
        Ok(binding.local.port)
    }

    /// The end of a connection that a listener takes, which has the listener's port.
    pub fn accept(&mut self, protocol: Protocol, binding: Binding) {
        self.insert(protocol, Binding { is_accepted: true, ..binding });
    }

    /// Begins to listen.
    ///
    /// # Errors
    /// `InUse`: another one listens there.
    pub fn listen(&mut self, socket: u64) -> Result<()> {
        let place = self.sockets.get(&socket).ok_or(Error::Invalid)?;
        let own = self.find(socket).ok_or(Error::Invalid)?;
        if self.own_at(place.port).iter().any(|other| own.conflicts(other) && other.listens) {
            return Err(Error::InUse);
        }
        self.change(socket, |binding| binding.listens = true);
        Ok(())
    }

    /// Changes what a socket has, but for its port.
    pub fn change(&mut self, socket: u64, change: impl FnOnce(&mut Binding)) {
        let Some(place) = self.sockets.get_mut(&socket) else { return };
        let Some(port) = self.ports.get_mut(&place.port) else { return };
        let Some(key) = place.accepted else {
            let binding = port.own.iter_mut().find(|binding| binding.socket == socket);
            return binding.into_iter().for_each(change_port_never(change));
        };
        if let Some(mut binding) = port.accepted.remove(&key) {
            change_port_never(change)(&mut binding);
            place.accepted = Some((binding.remote, binding.local, socket));
            port.insert(binding);
        }
    }

    /// What a socket has.
    pub fn find(&self, socket: u64) -> Option<&Binding> {
        let place = self.sockets.get(&socket)?;
        let port = self.ports.get(&place.port)?;
        match &place.accepted {
            Some(key) => port.accepted.get(key),
            None => port.own.iter().find(|binding| binding.socket == socket),
        }
    }

    /// A socket has nothing any more.
    pub fn remove(&mut self, socket: u64) {
        let Some(place) = self.sockets.remove(&socket) else { return };
        if let Some(port) = self.ports.get_mut(&place.port) {
            match &place.accepted {
                Some(key) => drop(port.accepted.remove(key)),
                None => port.own.retain(|binding| binding.socket != socket),
            }
            if port.is_empty() {
                self.ports.remove(&place.port);
            }
        }
    }

    /// The listener that a connection from `from` to `to` is for. Of several that share the port `draw` chooses one.
    pub fn listener(&self, to: Endpoint, from: Endpoint, draw: u64) -> Option<u64> {
        self.best(Protocol::Tcp, to, from, draw, |binding| binding.listens)
    }

    /// The socket that a datagram from `from` to `to` is for.
    pub fn receiver(&self, protocol: Protocol, to: Endpoint, from: Endpoint, draw: u64) -> Option<u64> {
        self.best(protocol, to, from, draw, |_| true)
    }

    /// Every socket that a datagram to a group or to all hosts is for.
    pub fn receivers(&self, protocol: Protocol, port: u16, from: Endpoint) -> impl Iterator<Item = &Binding> {
        let takes = move |binding: &&Binding| binding.remote.port == 0 || binding.remote == from;
        self.own_at((protocol, port)).iter().filter(takes)
    }

    /// Every binding of a protocol, by port.
    pub fn bindings(&self, protocol: Protocol) -> impl Iterator<Item = &Binding> {
        self.ports.range((protocol, 0)..=(protocol, u16::MAX)).flat_map(|(_, port)| port.all())
    }

    /// Whether another connection has these two ends.
    pub fn is_connected(&self, protocol: Protocol, local: Endpoint, remote: Endpoint) -> bool {
        let Some(port) = self.ports.get(&(protocol, local.port)) else { return false };
        let accepted = port.accepted.range((remote, local, 0)..=(remote, local, u64::MAX)).next();
        accepted.is_some() || port.own.iter().any(|binding| binding.local == local && binding.remote == remote)
    }

    fn best(
        &self,
        protocol: Protocol,
        to: Endpoint,
        from: Endpoint,
        draw: u64,
        fits: impl Fn(&Binding) -> bool,
    ) -> Option<u64> {
        let scored = |binding: &Binding| Some((binding.score(to, from)?, *binding)).filter(|_| fits(binding));
        // None is for an accepted one: those have a connection.
        let all: Vec<(u32, Binding)> = self.own_at((protocol, to.port)).iter().filter_map(scored).collect();
        let best = all.iter().map(|(score, _)| *score).max()?;
        let best: Vec<&Binding> = all.iter().filter(|(score, _)| *score == best).map(|(_, binding)| binding).collect();
        let shares = best.iter().all(|binding| binding.reuse_port);
        // Of those that only took the address again the last one counts.
        let index = if shares { (draw % best.len() as u64) as usize } else { best.len() - 1 };
        best.get(index).map(|binding| binding.socket)
    }

    fn at(&self, protocol: Protocol, port: u16) -> impl Iterator<Item = &Binding> {
        self.ports.get(&(protocol, port)).into_iter().flat_map(Port::all)
    }

    fn own_at(&self, port: (Protocol, u16)) -> &[Binding] {
        self.ports.get(&port).map_or(&[], |port| &port.own)
    }

    fn insert(&mut self, protocol: Protocol, binding: Binding) {
        self.remove(binding.socket);
        let port = (protocol, binding.local.port);
        let accepted = binding.is_accepted.then_some((binding.remote, binding.local, binding.socket));
        self.sockets.insert(binding.socket, Place { port, accepted });
        self.ports.entry(port).or_default().insert(binding);
    }

    fn choose(&self, protocol: Protocol, draw: u64, fits: impl Fn(&Port) -> bool) -> Option<u16> {
        let [first, last] = match protocol {
            Protocol::Tcp | Protocol::Udp | Protocol::UdpLite => EPHEMERAL,
            // Every identifier but 0.
            Protocol::Echo | Protocol::Echo6 => [1, u16::MAX],
        };
        let (count, none) = (u64::from(last - first) + 1, Port::default());
        let ports = (0..count).map(|step| first + ((draw % count + step) % count) as u16);
        ports.into_iter().find(|port| self.ports.get(&(protocol, *port)).map_or_else(|| fits(&none), &fits))
    }
}

/// A binding stands under its port.
fn change_port_never(change: impl FnOnce(&mut Binding)) -> impl FnMut(&mut Binding) {
    let mut change = Some(change);
    move |binding| {
        let port = binding.local.port;
        if let Some(change) = change.take() {
            change(binding);
        }
        binding.local.port = port;
    }
}

/// What stands in the way of binding to an address on a machine that has loopback only.
///
/// # Errors
/// `NotAvailable`: the address is none of this machine's.
pub const fn check_address(address: Address, is_free: bool) -> Result<()> {
    let is_known = address.is_any() || address.is_local() || address.is_multicast() || address.is_broadcast();
    if is_known || is_free { Ok(()) } else { Err(Error::NotAvailable) }
}

/// Whether something on this machine can be reached at an address.
///
/// # Errors
/// `Unreachable`: without a device no network leads there.
pub const fn check_target(address: Address) -> Result<()> {
    if address.is_local() || matches!(address.to_v4(), Some(0x7fff_ffff)) { Ok(()) } else { Err(Error::Unreachable) }
}

#[cfg(test)]
mod tests;
