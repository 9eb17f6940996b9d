//! Connecting Internet sockets on this machine: the route, the listener's queue, and the other side of the connection.

use crate::dispatch::{Answer, FileServer, NOTHING};
use crate::pages::page_acl::Access;
use alloc::vec;
use core::sync::atomic::Ordering::{Acquire, SeqCst};
use exos::wait;
use internet::address::Endpoint;
use internet::option::Sort;
use internet::page::{self, OPTIONS, done, state, watch};
use internet::port_table::Protocol;
use internet::ring::RESET;
use linux_abi::errno::{Errno, Result};
use vfs::handle::Handle;
use vfs::inode::NodeId;
use vfs::mount_table::Location;
use vfs::namespace::FsCredentials as Credentials;

impl FileServer {
    pub(super) fn connect_internet(&mut self, caller: u64, node: NodeId, to: Endpoint) -> Result<Answer> {
        let socket = self.socket_of(node)?;
        if socket.sort != Sort::Tcp {
            return self.connect_datagrams(node, to);
        }
        if socket.peer.is_some() || socket.backlog.is_some() {
            return Err(Errno::EISCONN);
        }
        if socket.listener.is_some() {
            return Err(Errno::EALREADY);
        }
        let (source, leaves) = self.route_to(to.address)?;
        self.forget_connection_before(node);
        let socket = self.socket_of(node)?;
        if socket.local.address.to_v4().is_some() != to.address.to_v4().is_some() && !socket.local.address.is_any() {
            return Err(Errno::EADDRNOTAVAIL);
        }
        socket.remote = to;
        let had_port = socket.local.port != 0;
        if socket.local.address.is_any() {
            socket.local.address = source;
        }
        let outcome = match had_port {
            false => self.take_port(node, Protocol::Tcp, true).map(|_| ()),
            true => self.check_pair(node),
        };
        let outcome = outcome.and_then(|()| match self.find_listener(caller, node, to, leaves) {
            Err(Errno::ECONNREFUSED) if had_port => self.connect_to_itself(node),
            found => found,
        });
        if outcome.is_err() {
            let socket = self.socket_of(node)?;
            socket.remote = Endpoint::default();
            self.give_up_ephemeral_port(node);
        }
        outcome
    }

    /// Clears the counts of a connection that a socket had before. Its old peer learns of the reset at once.
    fn forget_connection_before(&mut self, node: NodeId) {
        let net = self.net();
        let Some(socket) = net.sockets.get(&node) else { return };
        let words = socket.page.words();
        if words[page::SENT].load(Acquire) & RESET == 0 && words[page::TAKEN].load(Acquire) & RESET == 0 {
            return;
        }
        // Its own waiters look again, and ask for their bells once more: that word is cleared, too.
        let mut left = vec![socket.page.clone()];
        for other in net.sockets.values_mut().filter(|other| other.peer == Some(node)) {
            other.peer = None;
            left.push(other.page.clone());
            if other.page.words()[page::DONE].load(Acquire) & done::RESET_TOLD == 0 {
                other.page.words()[page::ERROR].store(u64::from(Errno::ECONNRESET.number()), SeqCst);
            }
            other.page.set_state(state::CLOSED);
        }
        let kept = [
            page::READ_LOCK,
            page::WRITE_LOCK,
            page::STATE,
            page::PATIENCE,
            page::PATIENCE + 1,
            page::LINGER,
            page::WATCH,
        ];
        for (_, word) in words.iter().enumerate().take(OPTIONS).filter(|(at, _)| !kept.contains(at)) {
            word.store(0, SeqCst);
        }
        left.iter().for_each(|page| self.ring_bells(page, u64::MAX));
    }

    /// No other connection has the ends that this one is going to have.
    fn check_pair(&mut self, node: NodeId) -> Result<()> {
        let socket = self.socket_of(node)?;
        let (local, remote) = (socket.local, socket.remote);
        let net = self.net();
        let is_there = net.table.is_connected(Protocol::Tcp, local, remote);
        net.table.change(node, |binding| (binding.local, binding.remote) = (local, remote));
        if is_there { Err(Errno::EADDRNOTAVAIL) } else { Ok(()) }
    }

    fn find_listener(&mut self, caller: u64, node: NodeId, to: Endpoint, leaves: bool) -> Result<Answer> {
        if leaves {
            return self.connect_to_wire(node);
        }
        let net = self.net();
        let draw = net.draw();
        let from = net.sockets[&node].local;
        let listener = net.table.listener(to, from, draw).ok_or(Errno::ECONNREFUSED)?;
        let queue = net.sockets.get_mut(&listener).filter(|one| one.backlog.is_some()).ok_or(Errno::ECONNREFUSED)?;
        let is_full = queue.ready.len() as u64 > queue.backlog.unwrap_or(0);
        if is_full {
            queue.waiting.push_back(node);
            let socket = self.socket_of(node)?;
            socket.listener = Some(listener);
            socket.page.set_state(state::CONNECTING);
            return Ok(NOTHING);
        }
        let peer = self.establish(node, listener)?;
        let number = self.socket_of(peer)?.page.number().0;
        self.open_to(self.principal_of(caller), number, Access::Read)?;
        let waiter = self.socket_of(listener)?.page.words()[page::READER].load(Acquire);
        Ok([number, waiter, 0, 0, 0])
    }

    /// A socket whose own end is the one that it connects to is its own other side, as TCP has it.
    fn connect_to_itself(&mut self, node: NodeId) -> Result<Answer> {
        let socket = self.socket_of(node)?;
        if socket.local != socket.remote {
            return Err(Errno::ECONNREFUSED);
        }
        socket.peer = Some(node);
        socket.page.set_state(state::CONNECTED);
        Ok([socket.page.number().0, 0, 0, 0, 0])
    }

    /// Makes the other side of a connection, which waits to be accepted.
    pub(super) fn establish(&mut self, node: NodeId, listener: NodeId) -> Result<NodeId> {
        let (local, remote) = {
            let socket = self.socket_of(node)?;
            (socket.local, socket.remote)
        };
        let (family, who) = {
            let listening = self.socket_of(listener)?;
            (listening.family, Credentials::new(listening.user, 0))
        };
        let peer = self.create_socket(who, family, (Sort::Tcp, 6), None)?;
        self.hold_for_nobody(Handle::plain(Location::first(peer)))?;
        let net = self.net();
        let options = net.sockets[&listener].page.clone();
        if let Some(other) = net.sockets.get_mut(&peer) {
            (other.local, other.remote) = (remote, local);
            (other.peer, other.listener) = (Some(node), Some(listener));
            other.page.copy_options(&options);
            other.page.set_state(state::CONNECTED);
        }
        let binding = net.binding(peer, &net.sockets[&peer]);
        net.table.accept(Protocol::Tcp, binding);
        if let Some(socket) = net.sockets.get_mut(&node) {
            (socket.peer, socket.listener) = (Some(peer), None);
            socket.page.set_state(state::CONNECTED);
        }
        if let Some(listening) = net.sockets.get_mut(&listener) {
            listening.ready.push_back(peer);
            listening.page.connection_came();
        }
        wait::kick_idle();
        self.ring_bells(&options, watch::SENT);
        Ok(peer)
    }
}
