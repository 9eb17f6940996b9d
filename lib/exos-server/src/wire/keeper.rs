//! The keeper of the wire: an environment in the server's address space that uses the network card.
//!
//! It sleeps until a program needs the wire. Then it opens the card, asks for addresses and runs the stack: frames that
//! have come, timers, commands of the server. It takes the server's lock for moments only, and never while it waits.
//!
//! It ends by a panic, or because a program of user 0 resets the card. The session then makes another one
//! (`init::wire_watch`): connections are reset, sockets that listen do so again. The tables of the dead one lie on the
//! heap of the server, where the next one frees them.
//!
//! Invariant: the stack is the keeper's alone. It uses the port table and the pages of sockets under the server's lock.

use super::convert::{end_from_stack, end_to_stack, from_stack, to_stack};
use super::link::CardLink;
use super::requests::{Command, Outgoing};
use super::streams::{SEND_TOTAL, Stream};
use crate::dispatch::FileServer;
use crate::main_loop::Server;
use crate::principals;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, SeqCst};
use exos::hw::card::{self, Card};
use exos::hw::current::{service_state, set_service_state};
use exos::hw::entropy;
use exos::wait;
use internet::address::Endpoint;
use linux_abi::errno::Errno;
use network::icmp::Reason;
use network::slab::Handle;
use network::stack::Stack;
use network::tcp::block::Options;
use network::tcp::listen::Listener;
use network::time::Time;
use runtime::lock::Lock;
use runtime::page::Allocator;
use runtime::predicate::{Operator, clock, word};
use runtime::{KeyIndex, PageNumber};
use unix_core::server::protocol::{NETWORK_DONE, NETWORK_WORK};
use vfs::inode::NodeId;

/// Pages of the keeper's stack.
pub const STACK_PAGES: usize = 16;
/// Nanoseconds after which a card without an address counts as settled.
const PATIENCE: u64 = 3_000_000_000;
/// Nanoseconds until the next look while the card has no room.
const FULL: u64 = 1_000_000;
/// Neighbours that programs are told of.
const NEIGHBORS: usize = 64;
/// Connections that may come in one round.
const MANY: usize = 256;
/// Connections of a listener that wait in the stack, where the server's queue is full.
const BACKLOG: usize = 128;

/// All that the keeper keeps.
#[derive(Debug)]
pub(super) struct Keeper {
    pub(super) stack: Stack<CardLink>,
    /// Connections by the node of their socket. None: it is being looked at.
    pub(super) streams: BTreeMap<NodeId, Option<Stream>>,
    /// The same, by what the stack calls them.
    pub(super) nodes: BTreeMap<Handle, NodeId>,
    /// Sockets that listen, and where.
    listening: BTreeMap<NodeId, (Endpoint, bool)>,
    /// What the stack listens at.
    listeners: Vec<((Endpoint, bool), Handle)>,
    /// A stream could send nothing because all of them together have too much on the way.
    pub(super) is_starved: bool,
    /// Rounds that it has begun.
    pub(super) round: u64,
    /// The most connections at a time since there was none.
    most: usize,
    begun: u64,
}

/// The function that the keeper's environment runs. `argument` is the address of the server's state.
pub extern "C" fn run(argument: u64) {
    set_service_state(argument);
    principals::begin();
    let state: &'static Lock<Server> = service_state();
    let notice = state.lock().notice_words();
    state.lock().server.begin_wire();
    loop {
        let seen = notice[NETWORK_WORK].load(Acquire);
        if state.lock().server.wire.is_wanted {
            break;
        }
        wait::wait_plainly(&mut [word(&notice[NETWORK_WORK], Operator::NotEqual, seen)]);
    }
    let tables = state.lock().server.wire.tables.clone();
    if let Some(mut tables) = tables.take() {
        *tables = None;
        match open(state) {
            Ok(keeper) => tables.insert(keeper).run(state, notice),
            Err(why) => runtime::error_line!("chitin: the network card cannot be opened: {why}"),
        }
    }
    // Nothing leads out of the machine.
    state.lock().server.wire.is_settled = true;
    loop {
        notice[NETWORK_DONE].fetch_add(1, SeqCst);
        wait::kick_idle();
        let seen = notice[NETWORK_WORK].load(Acquire);
        wait::wait_plainly(&mut [word(&notice[NETWORK_WORK], Operator::NotEqual, seen)]);
    }
}

fn open(state: &'static Lock<Server>) -> core::result::Result<Keeper, alloc::string::String> {
    let mut pages = vec![PageNumber::NONE; card::PAGES];
    let refused = |why: &dyn core::fmt::Debug| alloc::format!("{why:?}");
    Allocator::own().allocate_many(&mut pages).map_err(|why| refused(&why))?;
    let memory = {
        let mut server = state.lock();
        let memory = server.server.mappings.open(pages, KeyIndex::FIRST, true).map_err(|why| refused(&why))?;
        server.server.wire.memory = Some(memory.clone());
        memory
    };
    let card = Card::open(memory).map_err(|why| refused(&why))?;
    let mut key = [0; 24];
    if entropy(&mut key).is_err() {
        key[..8].copy_from_slice(&runtime::clock::ticks().to_le_bytes());
    }
    let [first, second, third] = [0, 8, 16].map(|at| u64::from_le_bytes(core::array::from_fn(|index| key[at + index])));
    let now = now();
    let mut stack = Stack::new(CardLink::new(card), [first, second], now);
    stack.hand_up();
    stack.tcp.record_changes();
    stack.start_dhcp(third as u32, now);
    stack.start_slaac(now);
    Ok(Keeper {
        stack,
        streams: BTreeMap::new(),
        nodes: BTreeMap::new(),
        listening: BTreeMap::new(),
        listeners: Vec::new(),
        is_starved: false,
        round: 0,
        most: 0,
        begun: runtime::clock::now(),
    })
}

fn now() -> Time {
    Time::from_micros(runtime::clock::now() / 1000)
}

impl Keeper {
    fn run(&mut self, state: &'static Lock<Server>, notice: &'static [AtomicU64]) -> ! {
        loop {
            let work = notice[NETWORK_WORK].load(Acquire);
            let received = self.stack.link().card.ring.received().load(Acquire);
            let now = now();
            self.stack.poll(now);
            let is_settling = {
                let mut server = state.lock();
                let settles = self.publish(&mut server.server);
                server.server.tree.store.quota.make_room_for(self.growth());
                self.serve(&mut server.server, now);
                settles
            };
            if is_settling {
                notice[NETWORK_DONE].fetch_add(1, SeqCst);
                wait::kick_idle();
            }
            self.stack.flush(now);
            if !self.stack.link().card.ring.has_frame() {
                self.give_room_back();
                self.sleep(notice, work, received);
            }
        }
    }

    /// Bytes by which the tables of the keeper may grow until the next round: they double.
    fn growth(&self) -> usize {
        const CONNECTION: usize = 2048;
        SEND_TOTAL + (self.streams.len() + MANY) * CONNECTION
    }

    /// When the last of many connections has gone, the room that they had goes back.
    fn give_room_back(&mut self) {
        let connections = self.stack.tcp.census().iter().sum();
        self.most = self.most.max(connections);
        if connections == 0 && core::mem::take(&mut self.most) >= MANY {
            runtime::heap::release_end();
        }
    }

    fn sleep(&self, notice: &'static [AtomicU64], work: u64, received: u64) {
        let mut terms = vec![
            word(&notice[NETWORK_WORK], Operator::NotEqual, work),
            word(self.stack.link().card.ring.received(), Operator::NotEqual, received),
        ];
        let deadline = self.stack.deadline();
        let mut end = if deadline.is_never() { u64::MAX } else { deadline.micros().saturating_mul(1000) };
        if !self.stack.link().card.ring.has_room() || self.is_starved {
            end = end.min(runtime::clock::now() + FULL);
        }
        if runtime::clock::now() < self.begun + PATIENCE {
            end = end.min(self.begun + PATIENCE);
        }
        if end != u64::MAX {
            terms.push(clock(end));
        }
        wait::wait_plainly(&mut terms);
    }

    /// Tells the server of the addresses; whether requests that wait for them can be answered now.
    fn publish(&mut self, server: &mut FileServer) -> bool {
        let known = self.stack.addresses().iter().map(|prefix| (from_stack(prefix.address), prefix.length));
        let wire = &mut server.wire;
        if !known.clone().eq(wire.addresses.iter().copied()) {
            wire.addresses = known.collect();
            wire.gateways = self.stack.routes().iter().filter_map(|route| route.gateway).map(from_stack).collect();
            let servers = self.stack.lease().map(|lease| lease.name_servers.clone()).unwrap_or_default();
            wire.name_servers = servers.iter().map(|address| from_stack(address.to_ipv6_mapped())).collect();
            server.break_all_channels();
        }
        let wire = &mut server.wire;
        wire.neighbors.clear();
        let neighbors = self.stack.neighbors().map(|(address, hardware)| (from_stack(address), hardware.0));
        wire.neighbors.extend(neighbors.take(NEIGHBORS));
        let has_lease = self.stack.lease().is_some();
        let is_late = runtime::clock::now() >= self.begun + PATIENCE;
        let settles = !wire.is_settled && (has_lease || is_late);
        if settles {
            wire.is_settled = true;
            if !has_lease {
                runtime::error_line!("chitin: no DHCP server answered on the network card: it has no IPv4 address");
            }
        }
        settles
    }

    /// Works off what programs want, and hands up what has come.
    fn serve(&mut self, server: &mut FileServer, now: Time) {
        self.round += 1;
        let mut looks = VecDeque::new();
        while let Some(command) = server.wire.take() {
            match command {
                Command::Look(node) => looks.push_back(node),
                command => self.obey(server, command, now),
            }
        }
        self.accept(server);
        self.deliver(server, now);
        if core::mem::take(&mut self.is_starved) {
            looks.extend(self.streams.keys().copied());
        }
        while let Some(node) = looks.pop_front() {
            self.look(server, node, now);
        }
        // Moving bytes changes connections: one round for those that were touched before it.
        let changed: Vec<Handle> = core::iter::from_fn(|| self.stack.tcp.take_change()).collect();
        for handle in changed {
            if let Some(node) = self.nodes.get(&handle).copied()
                && !self.is_looked_at(node)
            {
                self.look(server, node, now);
            }
        }
        while self.stack.tcp.take_change().is_some() {}
    }

    fn obey(&mut self, server: &mut FileServer, command: Command, now: Time) {
        match command {
            Command::Connect(node, peer, local, remote) => {
                self.reset_stream(server, node);
                match self.connect(server, node, (local, remote), now) {
                    Some(handle) => {
                        self.add(node, Stream::new(handle, peer, false));
                        self.look(server, node, now);
                    }
                    None => {
                        server.wire_refuses(node, Errno::EADDRNOTAVAIL);
                        server.wire_side_ends(peer);
                    }
                }
            }
            Command::Accept(handle, node, peer) => {
                self.add(node, Stream::new(handle, peer, true));
                self.look(server, node, now);
            }
            Command::Refuse(handle) => self.stack.tcp.abort(handle, &mut self.stack.departure),
            Command::Listen(node, local, only_v6, _) => {
                self.listening.insert(node, (local, only_v6));
                self.listen((local, only_v6));
            }
            Command::StopListening(node) => self.stop_listening(node),
            Command::Look(node) => self.look(server, node, now),
            Command::Send(outgoing) => self.send(&outgoing, now),
            // As a panic ends it: here, under the server's lock, and with all that it has.
            Command::End => runtime::entry::exit(0),
        }
    }

    /// Opens a connection. Where an earlier one of the same ends still closes, the system chooses another port, unless
    /// the program chose this one.
    fn connect(
        &mut self,
        server: &mut FileServer,
        node: NodeId,
        (mut local, remote): (Endpoint, Endpoint),
        now: Time,
    ) -> Option<Handle> {
        const TRIES: usize = 64;
        let options = self.options();
        for _ in 0..TRIES {
            let (from, to) = (end_to_stack(local), end_to_stack(remote));
            if let Ok(handle) = self.stack.tcp.connect(from, to, options, now, &self.stack.departure) {
                return Some(handle);
            }
            local = server.wire_changes_port(node)?;
        }
        None
    }

    fn add(&mut self, node: NodeId, stream: Stream) {
        self.nodes.insert(stream.handle, node);
        self.streams.insert(node, Some(stream));
    }

    /// Options of a fresh connection: the more there are, the less of what comes each may leave unread.
    fn options(&self) -> Options {
        let receive_limit = match self.streams.len() {
            0..32 => 128 << 10,
            32..256 => 32 << 10,
            _ => 8 << 10,
        };
        Options { receive_limit, ..Options::default() }
    }

    fn send(&mut self, outgoing: &Outgoing, now: Time) {
        let (local, remote) = (end_to_stack(outgoing.local), end_to_stack(outgoing.remote));
        let hops = outgoing.hops.max(1);
        // Without a way it is lost, as any network may lose it.
        let _ = match outgoing.protocol {
            network::packet::UDP => self.stack.send_datagram(local, remote, hops, &outgoing.bytes, now),
            protocol => {
                let ends = (to_stack(outgoing.local.address), to_stack(outgoing.remote.address));
                self.stack.send_raw(protocol, ends, hops, &outgoing.bytes, now)
            }
        };
    }

    fn listen(&mut self, at: (Endpoint, bool)) {
        if self.listeners.iter().any(|(known, _)| *known == at) {
            return;
        }
        let listener = Listener::new(end_to_stack(at.0), BACKLOG, self.options());
        let listener = Listener { only_version_6: at.1, ..listener };
        if let Ok(handle) = self.stack.tcp.listen(listener) {
            self.listeners.push((at, handle));
        }
    }

    fn stop_listening(&mut self, node: NodeId) {
        let Some(at) = self.listening.remove(&node) else { return };
        if self.listening.values().any(|other| *other == at) {
            return;
        }
        if let Some(place) = self.listeners.iter().position(|(known, _)| *known == at) {
            let (_, handle) = self.listeners.remove(place);
            self.stack.tcp.close_listener(handle, &mut self.stack.departure);
        }
    }

    /// Puts connections that have come about into the queues of listeners that have room.
    fn accept(&mut self, server: &mut FileServer) {
        for (at, handle) in self.listeners.clone() {
            loop {
                let mut sockets = self.listening.iter().filter(|(_, other)| **other == at);
                if !sockets.any(|(node, _)| server.wire_listener_has_room(*node)) {
                    break;
                }
                let Some(connection) = self.stack.tcp.accept(handle) else { break };
                let Some(block) = self.stack.tcp.block(connection) else { continue };
                let pair = *block.pair();
                let (local, remote) = (end_from_stack(pair.local), end_from_stack(pair.remote));
                if !server.wire_connection_came(connection, local, remote) {
                    self.stack.tcp.abort(connection, &mut self.stack.departure);
                }
            }
        }
    }

    /// Gives datagrams, messages and errors to the sockets that they are for.
    fn deliver(&mut self, server: &mut FileServer, now: Time) {
        while let Some(datagram) = self.stack.take_datagram() {
            let (local, remote) = (end_from_stack(datagram.pair.local), end_from_stack(datagram.pair.remote));
            if !server.wire_datagram(local, remote, datagram.hop_limit, &datagram.bytes) {
                self.stack.refuse_datagram(&datagram, now);
            }
        }
        while let Some(message) = self.stack.take_message() {
            let ends = (from_stack(message.source), from_stack(message.destination));
            server.wire_message(message.protocol, ends, message.hop_limit, &message.bytes);
        }
        while let Some((pair, reason)) = self.stack.take_report() {
            let error = match reason {
                Reason::Refused => Errno::ECONNREFUSED,
                Reason::Unreachable | Reason::TimeExceeded => Errno::EHOSTUNREACH,
                Reason::TooBig(_) => Errno::EMSGSIZE,
            };
            server.wire_error(end_from_stack(pair.local), end_from_stack(pair.remote), error);
        }
    }
}
