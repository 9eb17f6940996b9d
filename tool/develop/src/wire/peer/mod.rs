//! The peer on a wire: a machine of its own, on the stack of `lib/network`. It leases addresses (DHCP), advertises
//! itself as router of IPv6, answers names below `test` (DNS) and pings. It serves `echo`, `sink`, `source`, `caller`
//! and `flooder` over TCP.
//!
//! It has no clock and no sockets: the caller hands in frames with the time, and takes those that go out.

mod dhcp;
mod dns;
pub mod jack;
mod router;
pub mod service;
mod silent;

use std::net::Ipv4Addr;

use network::address::{Endpoint, mapped};
use network::route::Prefix;
use network::server::Server;
use network::slab::Handle;
use network::stack::Stack;
use network::tcp::block::Options;
use network::tcp::listen::Listener;
use network::time::Time;

use jack::Jack;
use service::{Kind, Service};

/// Its address on the link, and on the network 10.0.2.0/24, as QEMU's own network has it.
const ADDRESS: [u8; 6] = [2, 0, 0, 0, 2, 2];
pub const IP: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
pub const IP6: [u16; 8] = [0xfd00, 2, 0, 0, 0, 0, 0, 2];
const LINK_LOCAL: [u16; 8] = [0xfe80, 0, 0, 0, 0, 0, 0, 2];
const NAMES: u16 = 53;
/// Ports as RFC 862, 863 and 864 number services of this kind.
const SERVICES: [(u16, Kind); 6] =
    [(2, Kind::Sink), (7, Kind::Echo), (9, Kind::Sink), (19, Kind::Source), (20, Kind::Caller), (21, Kind::Flooder)];
/// Connections that wait to be accepted.
const BACKLOG: usize = 64;

#[derive(Debug)]
pub struct Peer {
    stack: Stack<Jack>,
    dhcp: dhcp::Server,
    names: Option<Handle>,
    services: Server<Kind, Service>,
    silent: silent::Ports,
}

impl Peer {
    /// `key` is random.
    pub fn new(key: [u64; 2], now: Time) -> Self {
        let mut stack = Stack::new(Jack::new(ADDRESS), key, now);
        stack.add_address(Prefix::new(IP, 24));
        stack.add_address(Prefix::new(IP6, 64));
        stack.add_address(Prefix::new(LINK_LOCAL, 64));
        let names = stack.open_udp(Endpoint { address: mapped(IP.into()), port: NAMES });
        let mut services = Server::default();
        for (port, kind) in SERVICES {
            let listener = Listener::new(Endpoint { address: [0; 8].into(), port }, BACKLOG, Options::default());
            services.listen(&mut stack, listener, kind).expect("each port is free");
        }
        Self { stack, dhcp: dhcp::Server::default(), names, services, silent: silent::Ports::default() }
    }

    /// A frame came.
    pub fn receive(&mut self, frame: Vec<u8>) {
        if self.silent.lose(&frame) {
            return;
        }
        match self.dhcp.answer(&frame).or_else(|| router::answer(&frame)) {
            Some(answer) => self.stack.link_mut().sent.push_back(answer),
            None => self.stack.link_mut().received.push_back(frame),
        }
    }

    /// Works off what came, and runs timers and services.
    pub fn poll(&mut self, now: Time) {
        loop {
            self.stack.poll(now);
            self.answer_names(now);
            let work = |stack: &mut Stack<Jack>, handle, service: &mut Service| service.serve(stack, handle, now);
            self.services.serve(&mut self.stack, now, |kind| Service::new(*kind), work);
            self.stack.flush(now);
            if self.stack.link().received.is_empty() {
                return;
            }
        }
    }

    /// The next frame that goes out.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        self.stack.link_mut().sent.pop_front()
    }

    /// When `poll` has to be called even if nothing comes.
    pub fn deadline(&self) -> Time {
        self.stack.deadline()
    }

    fn answer_names(&mut self, now: Time) {
        let Some(names) = self.names else { return };
        while let Some(query) = self.stack.udp.receive(names) {
            if let Some(answer) = dns::answer(&query.bytes) {
                self.stack.send_udp(names, query.source, &answer, now);
            }
        }
    }
}
