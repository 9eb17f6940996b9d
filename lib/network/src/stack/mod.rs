//! The stack of one interface: frames in, sockets out.
//!
//! `poll` runs to completion: it takes all frames that wait, works them off, runs the timers, and sends once. Between
//! two calls nothing happens. The owner sleeps until a frame comes or `deadline`.

mod arrival;
mod configuration;
mod departure;
mod discovery;
mod handed_up;

use alloc::vec::Vec;
use core::net::Ipv6Addr;

use crate::address::{Endpoint, Pair};
use crate::dhcp;
use crate::icmp::{self, ErrorLimit};
use crate::link::{EthernetAddress, Link};
use crate::packet::{Datagram, HOP_LIMIT, UDP};
use crate::reassembly::Reassembly;
use crate::route::{Prefix, Routes};
use crate::secret::Secret;
use crate::slaac::Slaac;
use crate::slab::Handle;
use crate::tcp::block::{Error, Options};
use crate::tcp::engine::Tcp;
use crate::time::Time;
use crate::udp::{self, Udp};

pub use departure::Departure;
pub use handed_up::{Datagram as HandedUp, Message as HandedMessage};

/// Frames that one `poll` works off before it sends.
const BATCH: usize = 64;

/// What was dropped, by reason, and what was answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub received: u64,
    pub malformed: u64,
    pub not_ours: u64,
    pub echoes: u64,
}

/// An echo reply that came: identifier, number and source.
pub type Echo = (u16, u16, Ipv6Addr);

#[derive(Debug)]
pub struct Stack<L: Link> {
    pub departure: Departure<L>,
    pub tcp: Tcp,
    pub udp: Udp,
    secret: Secret,
    reassembly: Reassembly,
    errors: ErrorLimit,
    dhcp: Option<dhcp::Client>,
    slaac: Option<Slaac>,
    counters: Counters,
    /// Echo replies, the newest last, at most [`BATCH`].
    echoes: Vec<Echo>,
    frame: Vec<u8>,
    /// What the owner's own sockets are for, where it has asked.
    handed_up: Option<handed_up::Queues>,
}

impl<L: Link> Stack<L> {
    /// `key` is random and secret.
    pub fn new(link: L, key: [u64; 2], now: Time) -> Self {
        Self {
            departure: Departure::new(link, now),
            tcp: Tcp::new(key, now),
            udp: Udp::default(),
            secret: Secret(key),
            reassembly: Reassembly::default(),
            errors: ErrorLimit::default(),
            dhcp: None,
            slaac: None,
            counters: Counters::default(),
            echoes: Vec::new(),
            frame: Vec::new(),
            handed_up: None,
        }
    }

    pub fn counters(&self) -> Counters {
        self.counters
    }

    pub fn link(&self) -> &L {
        &self.departure.link
    }

    pub fn link_mut(&mut self) -> &mut L {
        &mut self.departure.link
    }

    /// Gives the interface an address; its prefix is reached directly.
    pub fn add_address(&mut self, prefix: Prefix) {
        self.departure.add_address(prefix);
    }

    pub fn addresses(&self) -> &[Prefix] {
        &self.departure.addresses
    }

    pub fn routes(&self) -> &Routes {
        &self.departure.routes
    }

    /// Neighbours whose address on the link is known.
    pub fn neighbors(&self) -> impl Iterator<Item = (Ipv6Addr, EthernetAddress)> {
        self.departure.neighbors.iter()
    }

    pub fn routes_mut(&mut self) -> &mut Routes {
        &mut self.departure.routes
    }

    /// Works off what has come, runs timers and sends.
    pub fn poll(&mut self, now: Time) {
        self.departure.now = now;
        let mut frame = core::mem::take(&mut self.frame);
        for _ in 0..BATCH {
            if !self.departure.link.receive(&mut frame) {
                break;
            }
            self.counters.received += 1;
            self.receive_frame(&frame, now);
        }
        self.frame = frame;
        self.configure(now);
        self.reassembly.expire(now);
        self.departure.ask_again();
        for packet in self.departure.neighbors.take_undelivered() {
            if let Some(report) = icmp::undelivered(&packet) {
                self.receive_report(&report, now);
            }
        }
        self.tcp.advance(now, &mut self.departure);
    }

    /// When `poll` has to be called even if nothing arrives.
    pub fn deadline(&self) -> Time {
        let configuration = self.dhcp.as_ref().map_or(Time::NEVER, dhcp::Client::deadline);
        let slaac = self.slaac.as_ref().map_or(Time::NEVER, Slaac::deadline);
        let below = self.reassembly.deadline().min(self.departure.neighbors.deadline());
        self.tcp.deadline().min(configuration).min(slaac).min(below)
    }

    /// Begins a TCP connection from the address that the destination's route implies.
    ///
    /// # Errors
    /// [`Error::Unreachable`] without an address for the destination, or without a free port.
    pub fn connect(&mut self, remote: Endpoint, options: Options, now: Time) -> Result<Handle, Error> {
        self.departure.now = now;
        let address = self.departure.source_for(remote.address).ok_or(Error::Unreachable)?;
        let handle = self.tcp.connect(Endpoint { address, port: 0 }, remote, options, now, &self.departure)?;
        self.tcp.flush(now, &mut self.departure);
        Ok(handle)
    }

    /// Gives a TCP connection up; see [`Tcp::close`].
    pub fn close(&mut self, handle: Handle, now: Time) {
        self.departure.now = now;
        self.tcp.close(handle, now, &mut self.departure);
    }

    /// Sends what calls since the last `poll` have queued.
    pub fn flush(&mut self, now: Time) {
        self.departure.now = now;
        self.tcp.flush(now, &mut self.departure);
    }

    pub fn open_udp(&mut self, local: Endpoint) -> Option<Handle> {
        self.udp.open(local, &self.secret)
    }

    /// Sends a datagram. False when there is no socket, no way or no room in a packet.
    pub fn send_udp(&mut self, handle: Handle, remote: Endpoint, payload: &[u8], now: Time) -> bool {
        self.departure.now = now;
        let Some(socket) = self.udp.socket(handle) else { return false };
        let mut local = socket.local;
        if local.address.is_unspecified() {
            let Some(address) = self.departure.source_for(remote.address) else { return false };
            local.address = address;
        }
        let pair = Pair { local, remote };
        let Some(bytes) = udp::emit(&pair, payload) else { return false };
        self.send(local.address, remote.address, UDP, &bytes);
        true
    }

    /// Sends an echo request; its reply appears in [`Stack::take_echo`].
    pub fn ping(&mut self, destination: Ipv6Addr, identifier: u16, number: u16, now: Time) -> bool {
        self.departure.now = now;
        let Some(source) = self.departure.source_for(destination) else { return false };
        let (protocol, kind) = if source.to_ipv4_mapped().is_some() { (1, 8) } else { (58, 128) };
        let rest = [identifier.to_be_bytes(), number.to_be_bytes()].concat();
        let bytes = icmp::emit(source, destination, protocol, kind, 0, &rest);
        self.send(source, destination, protocol, &bytes);
        true
    }

    pub fn take_echo(&mut self) -> Option<Echo> {
        if self.echoes.is_empty() { None } else { Some(self.echoes.remove(0)) }
    }

    fn send(&mut self, source: Ipv6Addr, destination: Ipv6Addr, protocol: u8, body: &[u8]) {
        let datagram = Datagram { source, destination, protocol, hop_limit: HOP_LIMIT, body };
        self.departure.send(&datagram, &[]);
    }
}
