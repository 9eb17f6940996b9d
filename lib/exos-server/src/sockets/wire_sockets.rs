//! Sockets that reach other machines, on the server's side of the keeper of the wire (`crate::wire`).
//!
//! A connection has a second socket, which stands for the other machine: it has a page, no port and no holder but the
//! connection. A connection that came gets both when a program accepts it, so that one that waits takes no page.

use super::internet_sockets::{Internet, InternetSocket, SocketPage};
use crate::dispatch::{Answer, FileServer, NOTHING};
use crate::principals::ANY_WINDOW;
use crate::wire::requests::{Command, Outgoing};
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::SeqCst;
use exos::hw::mapping::{Mapping, PAGE_WORDS};
use exos::wait;
use internet::address::{Address, Endpoint, Family};
use internet::bell::{self, Watch};
use internet::datagram::Head;
use internet::option::{self, Sort, place};
use internet::page::{self, state, watch};
use internet::port_table::Protocol;
use internet::ring::{FINISHED, LARGE, RESET};
use linux_abi::errno::{Errno, Result};
use network::packet::{ICMP, ICMP6, UDP};
use network::slab::Handle as Connection;
use runtime::PageNumber;
use runtime::page::Allocator;
use unix_core::server::protocol::{BELL_RECORD, BELLS};
use vfs::handle::Handle;
use vfs::inode::NodeId;
use vfs::mount_table::Location;
use vfs::namespace::FsCredentials as Credentials;

/// A connection that came from the wire and waits to be accepted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived {
    connection: Connection,
    local: Endpoint,
    remote: Endpoint,
}

/// Both pages of a connection.
#[derive(Debug)]
pub(crate) struct Sides {
    pub(crate) node: NodeId,
    pub(crate) own: SocketPage,
    pub(crate) peer: SocketPage,
}

impl FileServer {
    /// A socket that stands for another machine.
    fn make_wire_side(&mut self, node: NodeId) -> Result<NodeId> {
        let owner = Credentials::new(0, 0);
        let family = self.socket_of(node)?.family;
        let peer = self.create_socket(owner, family, (Sort::Tcp, 6), None)?;
        self.hold_for_nobody(Handle::plain(Location::first(peer)))?;
        let socket = self.socket_of(peer)?;
        (socket.peer, socket.is_wire) = (Some(node), true);
        socket.page.set_state(state::CONNECTED);
        self.socket_of(node)?.peer = Some(peer);
        Ok(peer)
    }

    /// Begins a connection to another machine; the socket has its ends and its port.
    pub(crate) fn connect_to_wire(&mut self, node: NodeId) -> Result<Answer> {
        let peer = self.make_wire_side(node)?;
        let socket = self.socket_of(node)?;
        socket.page.set_state(state::CONNECTING);
        let command = Command::Connect(node, peer, socket.local, socket.remote);
        self.command_wire(command);
        Ok(NOTHING)
    }

    /// Lets other machines connect to a socket that listens, where its address is one that they reach.
    pub(crate) fn listen_on_wire(&mut self, node: NodeId) -> Result<()> {
        let socket = self.socket_of(node)?;
        let (local, backlog) = (socket.local, socket.backlog.unwrap_or(0));
        let only_v6 = option::value(&socket.page, place::ONLY_V6) != 0;
        if exos::hw::card::is_there() && !local.address.is_local() {
            self.want_wire();
            self.command_wire(Command::Listen(node, local, only_v6, backlog as usize));
        }
        Ok(())
    }

    /// It listens no more: connections that wait are reset.
    pub(crate) fn stop_listening_on_wire(&mut self, node: NodeId) {
        if !self.wire.is_wanted {
            return;
        }
        let arrived = self.socket_of(node).map(|socket| core::mem::take(&mut socket.arrived)).unwrap_or_default();
        arrived.iter().for_each(|one| self.wire.commands.push_back(Command::Refuse(one.connection)));
        self.command_wire(Command::StopListening(node));
    }

    /// A connection that came from the wire becomes a socket, which waits to be held by the caller.
    pub(crate) fn accept_arrived(&mut self, caller: u64, listener: NodeId) -> Result<NodeId> {
        let listening = self.socket_of(listener)?;
        let Some(arrived) = listening.arrived.front().copied() else { return Err(Errno::EAGAIN) };
        let (family, user) = (listening.family, listening.user);
        let options = listening.page.clone();
        let principal = self.principal_of(caller);
        let node = self.create_socket(Credentials::new(user, 0), family, (Sort::Tcp, 6), Some(principal))?;
        self.hold_for_nobody(Handle::plain(Location::first(node)))?;
        let peer = match self.make_wire_side(node) {
            Ok(peer) => peer,
            Err(error) => {
                let _ = self.let_go(Handle::plain(Location::first(node)));
                return Err(error);
            }
        };
        self.socket_of(listener)?.arrived.pop_front();
        let socket = self.socket_of(node)?;
        (socket.local, socket.remote) = (arrived.local, arrived.remote);
        socket.page.copy_options(&options);
        socket.page.set_state(state::CONNECTED);
        let net = self.net();
        let binding = net.binding(node, &net.sockets[&node]);
        net.table.accept(Protocol::Tcp, binding);
        self.command_wire(Command::Accept(arrived.connection, node, peer));
        Ok(node)
    }

    /// See [`unix_core::server::protocol::InternetRequest::Wake`]: counts in the page of a socket changed, and a
    /// sleeper of the other side, or of this one, asked.
    pub(crate) fn wake_side(&mut self, node: NodeId, is_own: bool) -> Result<Answer> {
        let peer = self.socket_of(node)?.peer.ok_or(Errno::ENOTCONN);
        let other = self.socket_of(if is_own { node } else { peer? })?;
        if !other.is_wire {
            let page = other.page.clone();
            self.ring_bells(&page, u64::MAX);
        } else if other.page.words()[page::WATCH].swap(0, SeqCst) != 0 {
            self.command_wire(Command::Look(node));
        }
        Ok(NOTHING)
    }

    /// Something of a socket has changed: threads that wait for many sockets, and for this (bits of [`watch`]), look
    /// again.
    pub(crate) fn ring_bells(&self, page: &SocketPage, what: u64) {
        let watch = &page.words()[page::WATCH];
        if watch.load(SeqCst) & what == 0 {
            return;
        }
        let bells = Watch(watch.swap(0, SeqCst)).bells();
        let words = self.notice.words();
        if let Some(record) = words[BELL_RECORD..].first_chunk().filter(|_| bells != 0) {
            bell::write(record, page.number().0);
        }
        self.count_bells(bells);
    }

    /// Rings bells, from bit 0 on.
    pub(crate) fn count_bells(&self, bells: u64) -> Answer {
        let rung = self.notice.words().iter().skip(BELLS).take(bell::BELLS).enumerate();
        rung.filter(|(bell, _)| bells >> bell & 1 != 0).for_each(|(_, word)| _ = word.fetch_add(1, SeqCst));
        wait::kick_idle();
        NOTHING
    }

    /// A socket is closed: the keeper sends what is left of it.
    pub(crate) fn leave_to_wire(&mut self, node: NodeId, peer: Option<NodeId>) {
        let is_wire = |net: &Internet, peer: NodeId| net.sockets.get(&peer).is_some_and(|other| other.is_wire);
        if self.wire.is_wanted && peer.is_some_and(|peer| is_wire(self.net(), peer)) {
            self.command_wire(Command::Look(node));
        }
    }

    /// See [`unix_core::server::protocol::InternetRequest::ResetCard`].
    pub(super) fn reset_card(&mut self) -> Result<Answer> {
        if !exos::hw::card::is_there() {
            return Err(Errno::ENODEV);
        }
        self.want_wire();
        self.command_wire(Command::End);
        Ok(NOTHING)
    }

    /// A keeper begins. Where another one has died before, that one's connections are reset, and sockets that listen do
    /// so by this one.
    pub(crate) fn begin_wire(&mut self) {
        if let Some(memory) = self.wire.memory.take() {
            self.mappings.close(&memory);
            Allocator::own().free_many(memory.pages());
        }
        for (first, left) in core::mem::take(&mut self.wire.lent) {
            self.mappings.close_showing(first);
            ANY_WINDOW.free_many(&left);
        }
        self.wire.forget();
        self.break_all_channels();
        let Some(net) = &mut self.internet else { return };
        let listeners: Vec<NodeId> =
            net.sockets.iter().filter(|(_, one)| one.backlog.is_some()).map(|(node, _)| *node).collect();
        let sides: Vec<NodeId> = net.sockets.iter().filter(|(_, one)| one.is_wire).map(|(node, _)| *node).collect();
        for node in &listeners {
            let Some(listener) = net.sockets.get_mut(node) else { continue };
            let lost = core::mem::take(&mut listener.arrived).len() as u64;
            listener.page.words()[page::ACCEPTED].fetch_add(lost, SeqCst);
        }
        sides.into_iter().for_each(|side| self.lose_wire_side(side));
        for listener in listeners {
            // Without a card nothing of this is reached.
            let _ = self.listen_on_wire(listener);
        }
        wait::kick_idle();
    }

    fn lose_wire_side(&mut self, side: NodeId) {
        let Ok(socket) = self.socket_of(side) else { return };
        let node = socket.peer;
        // The pages of this one were the dead keeper's: the session has freed them.
        let mut areas = vec![core::mem::take(&mut socket.large)];
        socket.page.words()[page::SENT].fetch_or(FINISHED | RESET, SeqCst);
        if let Some(own) = node.and_then(|node| self.socket_of(node).ok()) {
            areas.push(own.large.clone());
            if own.page.state() == state::CONNECTING {
                node.into_iter().for_each(|node| self.wire_refuses(node, Errno::ECONNRESET));
            }
        }
        areas.iter().filter_map(|area| area.first()).for_each(|first| self.mappings.close_showing(*first));
        self.wire_side_ends(side);
    }

    /// The pages of both sides, as long as both are there.
    pub(crate) fn wire_sides(&mut self, node: NodeId, peer: NodeId) -> Option<Sides> {
        let net = self.internet.as_ref()?;
        let (own, other) = (net.sockets.get(&node)?, net.sockets.get(&peer)?);
        (own.peer == Some(peer)).then(|| Sides { node, own: own.page.clone(), peer: other.page.clone() })
    }

    /// The keeper has ended the side of the other machine.
    pub(crate) fn wire_side_ends(&mut self, peer: NodeId) {
        let _ = self.let_go(Handle::plain(Location::first(peer)));
    }

    /// Another port for a socket that connects, whose port the system chose.
    pub(crate) fn wire_changes_port(&mut self, node: NodeId) -> Option<Endpoint> {
        if self.socket_of(node).ok()?.is_bound {
            return None;
        }
        self.take_port(node, Protocol::Tcp, true).ok()?;
        Some(self.socket_of(node).ok()?.local)
    }

    /// An attempt to connect failed.
    pub(crate) fn wire_refuses(&mut self, node: NodeId, error: Errno) {
        self.refuse_with(node, error);
        if let Ok(socket) = self.socket_of(node) {
            socket.peer = None;
        }
        wait::kick_idle();
    }

    /// A window onto the larger area that a program sends from.
    ///
    /// # Errors
    /// `EIO` where it has none.
    pub(crate) fn open_large_window(&mut self, node: NodeId) -> Result<Mapping> {
        let pages = self.socket_of(node)?.large.clone();
        if pages.is_empty() {
            return Err(Errno::EIO);
        }
        let first = pages[0];
        let window = self.mappings.open(pages, ANY_WINDOW.key, false)?;
        self.wire.lent.insert(first, Vec::new());
        Ok(window)
    }

    /// The stack reads nothing there any more.
    pub(crate) fn close_large_window(&mut self, window: &Mapping) {
        self.mappings.close(window);
        if let Some(left) = window.pages().first().and_then(|first| self.wire.lent.remove(first)) {
            ANY_WINDOW.free_many(&left);
        }
    }

    /// Frees the larger area of a socket that has gone, or has the keeper do so.
    pub(super) fn free_large(&mut self, pages: Vec<PageNumber>) {
        match pages.first().and_then(|first| self.wire.lent.get_mut(first)) {
            Some(left) => *left = pages,
            None => _ = ANY_WINDOW.free_many(&pages),
        }
    }

    /// Makes the larger area of the other side.
    ///
    /// # Errors
    /// Where there are no pages.
    pub(crate) fn make_large_window(&mut self, peer: NodeId) -> Result<Mapping> {
        let mut pages = vec![PageNumber::NONE; LARGE as usize / (PAGE_WORDS * 8)];
        self.keys.acls.for_zero().allocate_many(&mut pages)?;
        let window = self.mappings.open(pages.clone(), ANY_WINDOW.key, true);
        let window = window.inspect_err(|_| {
            ANY_WINDOW.free_many(&pages);
        })?;
        self.socket_of(peer)?.large = pages;
        Ok(window)
    }

    /// Whether the queue of a listener takes one more connection.
    pub(crate) fn wire_listener_has_room(&self, node: NodeId) -> bool {
        let socket = self.internet.as_ref().and_then(|net| net.sockets.get(&node));
        let waiting = |socket: &InternetSocket| (socket.ready.len() + socket.arrived.len()) as u64;
        socket.is_some_and(|socket| socket.backlog.is_some_and(|backlog| waiting(socket) <= backlog))
    }

    /// A connection has come about; false where no socket listens for it.
    pub(crate) fn wire_connection_came(&mut self, connection: Connection, local: Endpoint, remote: Endpoint) -> bool {
        let net = self.net();
        let draw = net.draw();
        let Some(listener) = net.table.listener(local, remote, draw) else { return false };
        let Some(socket) = net.sockets.get_mut(&listener).filter(|one| one.backlog.is_some()) else { return false };
        socket.arrived.push_back(Arrived { connection, local, remote });
        socket.page.connection_came();
        let page = socket.page.clone();
        wait::kick_idle();
        self.ring_bells(&page, watch::SENT);
        true
    }

    /// Sends a datagram of a socket to another machine.
    pub(crate) fn send_over_wire(&mut self, protocol: u8, to: Endpoint, head: Head, bytes: &[u8]) -> Result<u64> {
        let (local, hops) = (head.from, (head.to.port & 0xff) as u8);
        self.send_to_wire(Outgoing { protocol, local, remote: to, hops, bytes: bytes.to_vec() })?;
        Ok(0)
    }

    /// A datagram has come; false where it is for no socket.
    pub(crate) fn wire_datagram(&mut self, local: Endpoint, remote: Endpoint, hops: u8, bytes: &[u8]) -> bool {
        let head = Head {
            length: bytes.len() as u64,
            from: remote,
            to: Endpoint { address: local.address, port: u16::from(hops) },
            ..Head::default()
        };
        if !self.wire.has(local.address) {
            let _ = self.deliver_to_group(Protocol::Udp, local, head, bytes);
            return true;
        }
        let net = self.net();
        let draw = net.draw();
        let receiver = net.table.receiver(Protocol::Udp, local, remote, draw);
        receiver.map(|receiver| self.deliver(receiver, head, bytes)).is_some()
    }

    /// A message of ICMP has come: raw sockets of its protocol get it, and the socket for echoes that a reply is for.
    pub(crate) fn wire_message(&mut self, protocol: u8, (from, to): (Address, Address), hops: u8, bytes: &[u8]) {
        if self.internet.is_none() {
            return;
        }
        let (family, echoes, reply) = match protocol {
            ICMP => (Family::V4, Protocol::Echo, 0),
            ICMP6 => (Family::V6, Protocol::Echo6, 129),
            _ => return,
        };
        let head = Head {
            length: bytes.len() as u64,
            from: Endpoint { address: from, port: 0 },
            to: Endpoint { address: to, port: u16::from(hops) },
            ..Head::default()
        };
        self.deliver_raw(family, protocol, head, bytes);
        if bytes.len() >= 8 && bytes[0] == reply {
            let local = Endpoint { address: to, port: u16::from_be_bytes([bytes[4], bytes[5]]) };
            let net = self.net();
            let draw = net.draw();
            if let Some(receiver) = net.table.receiver(echoes, local, head.from, draw) {
                self.deliver(receiver, head, bytes);
            }
        }
    }

    /// A datagram did not arrive: its socket gets the error, if it is connected there or has asked for errors.
    pub(crate) fn wire_error(&mut self, local: Endpoint, remote: Endpoint, error: Errno) {
        let net = self.net();
        let draw = net.draw();
        let Some(node) = net.table.receiver(Protocol::Udp, local, remote, draw) else { return };
        let Ok(socket) = self.socket_of(node) else { return };
        let wants = |place| option::value(&socket.page, place) != 0;
        let is_told = socket.remote == remote && error == Errno::ECONNREFUSED;
        if is_told || wants(place::RECEIVE_ERRORS) || wants(place::RECEIVE_ERRORS_6) {
            socket.page.words()[page::ERROR].store(u64::from(error.number()), SeqCst);
            self.datagrams_changed(node);
        }
    }
}

/// Protocol of IP that datagrams have.
pub(crate) const DATAGRAMS: u8 = UDP;
/// Sockets that wait, for a listener.
pub(crate) type Queue = alloc::collections::VecDeque<Arrived>;
