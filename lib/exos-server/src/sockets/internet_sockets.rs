//! Internet sockets as the server keeps them: their names, their connections, the pages that both sides share.
//!
//! A socket is a node without a name, which each descriptor of it holds. When the last process that holds it has
//! closed it or has
//! died, its port is free and the other side is told. The table is made for the first socket.
//! Invariants:
//! - A page of a socket belongs to the server. The holders of the socket may write it, those of the other side may
//!   read it.
//! - The page of a socket that is gone stays until the other side is gone, which may still read from it.
//! - A page that comes from the pool is clear, and mapped by the server alone.

use super::datagram_channels::{Channel, Habit};
pub(crate) use super::socket_page::SocketPage;
use super::wire_sockets::Queue;
use crate::dispatch::{Answer, FileServer, NOTHING};
use crate::pages::page_acl::{Access, put_under};
use crate::principals::ANY_WINDOW;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, SeqCst};
use exos::hw::mapping::PAGE_WORDS;
use exos::wait;
use internet::address::{Address, Endpoint, Family};
use internet::datagram::Head;
use internet::listing::{Line, Table, state as listed};
use internet::option::{self, Sort, place};
use internet::page::{self, GENERATION, state};
use internet::port_table::{Binding, PortTable, Protocol, UNPRIVILEGED, check_address};
use internet::ring::{FINISHED, LARGE, RESET, Ring};
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use runtime::{PageNumber, clock, exposed};
use unix_core::server::protocol::{InternetRequest, Listed};
use vfs::handle::{Handle, node_of};
use vfs::inode::NodeId;
use vfs::mount_table::Location;
use vfs::namespace::{Fresh, FsCredentials as Credentials, ROOT};

/// Pages that are allocated and mapped together.
const RUN: usize = 16;
/// Pages that may join the pool until whole runs of it are given back.
const POOL_GROWTH: usize = 256;
/// Pages of the pool that are looked at before more are made.
const LOOKS: usize = 8;
/// The longest queue of a listener, as `/proc/sys/net/core/somaxconn` says.
const BACKLOG_MOST: u64 = 4096;

/// A socket.
#[derive(Debug)]
pub(crate) struct InternetSocket {
    pub(crate) family: Family,
    pub(crate) sort: Sort,
    /// Of a raw socket, the protocol of its packets; of the others what they said.
    pub(crate) protocol: u8,
    pub(crate) user: u32,
    pub(crate) page: SocketPage,
    /// Pages of its larger area.
    pub(crate) large: Vec<PageNumber>,
    pub(crate) local: Endpoint,
    pub(crate) remote: Endpoint,
    /// Whether the program chose the port.
    pub(crate) is_bound: bool,
    /// The other side of its connection.
    pub(crate) peer: Option<NodeId>,
    /// The listener in whose queue it waits to be accepted, or to get a connection.
    pub(super) listener: Option<NodeId>,
    /// Of a listener: connections that wait to be accepted, sockets that wait to get into that queue, and its length.
    pub(crate) ready: VecDeque<NodeId>,
    pub(super) waiting: VecDeque<NodeId>,
    pub(crate) backlog: Option<u64>,
    /// Of a listener: connections of other machines that wait to be accepted.
    pub(crate) arrived: Queue,
    /// Datagrams that its page had no room for, and their bytes.
    pub(crate) datagrams: VecDeque<(Head, Vec<u8>)>,
    pub(crate) queued: u64,
    /// What came of a datagram that is longer than a window.
    pub(crate) parts: Vec<u8>,
    /// Groups that it takes datagrams for.
    pub(crate) groups: Vec<Address>,
    /// Where it sent its last datagrams.
    pub(super) habit: Habit,
    /// It stands for another machine: the keeper of the wire writes its page.
    pub(crate) is_wire: bool,
    /// It has no holder any more; the other side may still read its page.
    is_gone: bool,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Internet {
    pub(crate) table: PortTable,
    /// Boxed: the tree moves its entries.
    pub(crate) sockets: BTreeMap<NodeId, Box<InternetSocket>>,
    pub(super) channels: Vec<Channel>,
    /// Number of the channel that was made last.
    pub(crate) last_channel: u64,
    pub(crate) pool: VecDeque<SocketPage>,
    /// Pages in the pool at which runs are given back.
    pool_limit: usize,
    drawn: u64,
}

impl Internet {
    pub(crate) fn draw(&mut self) -> u64 {
        // A port does not follow from the one before.
        self.drawn = self.drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(clock::ticks() | 1);
        self.drawn >> 20
    }

    fn is_alive(&self, node: NodeId) -> bool {
        self.sockets.get(&node).is_some_and(|socket| !socket.is_gone)
    }

    pub(crate) fn binding(&self, node: NodeId, socket: &InternetSocket) -> Binding {
        let on = |place| option::value(&socket.page, place) != 0;
        Binding {
            socket: node,
            user: socket.user,
            family: socket.family,
            only_v6: on(place::ONLY_V6),
            reuse_address: on(place::REUSE_ADDRESS),
            reuse_port: on(place::REUSE_PORT),
            listens: false,
            is_accepted: false,
            local: socket.local,
            remote: socket.remote,
        }
    }

    /// Bytes that wait to be read, or connections that wait to be accepted.
    fn queued(&self, socket: &InternetSocket) -> u64 {
        let word = |page: &SocketPage, at: usize| page.words()[at].load(Acquire);
        let taken = word(&socket.page, page::TAKEN);
        let peer = socket.peer.and_then(|peer| self.sockets.get(&peer));
        match (socket.backlog, peer) {
            (Some(_), _) => (socket.ready.len() + socket.arrived.len()) as u64,
            (_, Some(peer)) => Ring::new(word(&peer.page, page::SENT), taken, u64::MAX).waiting().unwrap_or(0),
            (None, None) if socket.sort == Sort::Tcp => 0,
            _ => socket.queued + Ring::new(word(&socket.page, page::SENT), taken, 0).waiting().unwrap_or(0),
        }
    }

    pub(crate) fn protocol_of(socket: &InternetSocket) -> Option<Protocol> {
        match (socket.sort, socket.protocol, socket.family) {
            (Sort::Tcp, ..) => Some(Protocol::Tcp),
            (Sort::Udp, ..) => Some(Protocol::Udp),
            (Sort::UdpLite, ..) => Some(Protocol::UdpLite),
            // A socket for echoes says so by a bit above its protocol.
            (Sort::Raw, ECHO_V4, _) => Some(Protocol::Echo),
            (Sort::Raw, ECHO_V6, _) => Some(Protocol::Echo6),
            _ => None,
        }
    }
}

/// Protocols of sockets for echoes, which are no raw ones.
pub(crate) const ECHO_V4: u8 = 1 | 0x80;
pub(crate) const ECHO_V6: u8 = 58 | 0x80;

impl FileServer {
    pub(crate) fn net(&mut self) -> &mut Internet {
        self.internet.get_or_insert_with(Box::default)
    }

    pub(crate) fn socket_of(&mut self, node: NodeId) -> Result<&mut InternetSocket> {
        self.net().sockets.get_mut(&node).map(Box::as_mut).ok_or(Errno::EBADF)
    }

    pub(super) fn take_page(&mut self) -> Result<SocketPage> {
        for _ in 0..LOOKS.min(self.net().pool.len()) {
            let Some(page) = self.net().pool.pop_front() else { break };
            if page.is_free() {
                page.clear()?;
                return Ok(page);
            }
            self.net().pool.push_back(page);
        }
        let mut pages = vec![PageNumber::NONE; RUN];
        self.keys.acls.for_zero().allocate_many(&mut pages)?;
        let run = self.mappings.open(pages.clone(), ANY_WINDOW.key, true).inspect_err(|_| {
            ANY_WINDOW.free_many(&pages);
        })?;
        let fresh = (1..RUN).map(|index| SocketPage { run: run.clone(), index });
        self.net().pool.extend(fresh);
        Ok(SocketPage { run, index: 0 })
    }

    /// A fresh one, with a page that only one principal may write.
    pub(crate) fn create_socket(
        &mut self,
        who: Credentials,
        family: Family,
        (sort, protocol): (Sort, u8),
        principal: Option<u64>,
    ) -> Result<NodeId> {
        let made = self.create_node(who, family, (sort, protocol), principal);
        // Memory for files has run out: Linux has no such limit for sockets, and its word is this one.
        made.map_err(|error| if error == Errno::ENOSPC { Errno::ENOBUFS } else { error })
    }

    fn create_node(
        &mut self,
        who: Credentials,
        family: Family,
        (sort, protocol): (Sort, u8),
        principal: Option<u64>,
    ) -> Result<NodeId> {
        let page = self.take_page()?;
        let list = self.keys.acls.list_for(
            [Some(0), principal].into_iter().flatten().map(|principal| (principal, Access::Write)).collect(),
        )?;
        put_under(page.number().0, list)?;
        let fresh = Fresh { mode: linux::S_IFSOCK | 0o777, owner: who, device: (0, 0), target: b"" };
        let node = self.tree.create_unnamed(ROOT, fresh, false)?;
        let any = Endpoint { address: family.any(), port: 0 };
        let socket = InternetSocket {
            family,
            sort,
            protocol,
            user: who.uid,
            page,
            large: Vec::new(),
            local: any,
            remote: Endpoint::default(),
            is_bound: false,
            peer: None,
            listener: None,
            ready: VecDeque::new(),
            waiting: VecDeque::new(),
            backlog: None,
            arrived: Queue::new(),
            datagrams: VecDeque::new(),
            queued: 0,
            parts: Vec::new(),
            groups: Vec::new(),
            habit: Habit::default(),
            is_wire: false,
            is_gone: false,
        };
        self.net().sockets.insert(node, Box::new(socket));
        Ok(node)
    }

    /// See [`unix_core::server::protocol::Request::MakeInternetSocket`].
    pub(crate) fn make_internet_socket(
        &mut self,
        caller: u64,
        who: Credentials,
        [family, sort, protocol]: [u64; 3],
    ) -> Result<Answer> {
        let family = if family == 0 { Family::V4 } else { Family::V6 };
        let sort = Sort::of(sort);
        let is_echo = matches!(protocol as u8, ECHO_V4 | ECHO_V6);
        if sort == Sort::Raw && !is_echo && who.uid != 0 {
            return Err(Errno::EPERM);
        }
        let principal = self.principal_of(caller);
        let node = self.create_socket(who, family, (sort, protocol as u8), Some(principal))?;
        let handle = Handle::plain(Location::first(node));
        self.hold(caller, handle)?;
        Ok([handle.to_word(), self.socket_of(node)?.page.number().0, 0, 0, 0])
    }

    /// See [`InternetRequest`].
    pub(crate) fn on_internet_socket(
        &mut self,
        caller: u64,
        word: u64,
        request: u64,
        words: [u64; 3],
    ) -> Result<Answer> {
        let client = self.clients.get(&caller).ok_or(Errno::EPERM)?;
        if !client.holds.contains_key(&word) {
            return Err(Errno::EBADF);
        }
        let has = [linux::CAP_NET_BIND_SERVICE, linux::CAP_NET_ADMIN].map(|one| client.credentials.has(one));
        let node = node_of(word);
        self.socket_of(node)?;
        let endpoint = Endpoint::from_words(words);
        match InternetRequest::from_word(request).ok_or(Errno::EINVAL)? {
            InternetRequest::Bind => self.bind_internet(node, endpoint, has[0]),
            InternetRequest::Connect => self.connect_internet(caller, node, endpoint),
            InternetRequest::Listen if words[0] == u64::MAX => self.stop_listening(node),
            InternetRequest::Listen => self.listen_internet(node, words[0]),
            InternetRequest::Accept => self.accept_internet(caller, node),
            InternetRequest::Name => self.name_of_internet(node, words[0]),
            InternetRequest::Pages => self.pages_of_internet(caller, node),
            InternetRequest::Large => self.large_area(caller, node, words[0] != 0),
            InternetRequest::Send => self.send_datagram(caller, node, endpoint, words[2] >> 16),
            InternetRequest::Receive => self.receive_datagram(caller, node, words),
            InternetRequest::Options => self.take_options(node),
            InternetRequest::Disconnect => self.disconnect_internet(node),
            InternetRequest::Wake => self.wake_side(node, words[0] != 0),
            InternetRequest::ResetCard if !has[1] => Err(Errno::EPERM),
            InternetRequest::ResetCard => self.reset_card(),
            InternetRequest::Channels => self.channels_of(caller, node),
            InternetRequest::Group => self.change_group(node, endpoint.address, words[2] != 0),
        }
    }

    fn bind_internet(&mut self, node: NodeId, to: Endpoint, is_privileged: bool) -> Result<Answer> {
        if !to.address.is_local() && !to.address.is_any() && !to.address.is_multicast() {
            // What is wrong with the address is known below.
            let waits = self.need_wire() == Err(Errno::NOT_LOADED);
            if waits {
                return Err(Errno::NOT_LOADED);
            }
        }
        let is_own = self.is_own_address(to.address);
        let socket = self.socket_of(node)?;
        check_address(to.address, is_own || option::value(&socket.page, place::FREE_BIND) != 0)?;
        let protocol = Internet::protocol_of(socket);
        if !is_privileged && (1..UNPRIVILEGED).contains(&to.port) && socket.sort != Sort::Raw {
            return Err(Errno::EACCES);
        }
        if socket.local.port != 0 || socket.peer.is_some() || socket.listener.is_some() {
            return Err(Errno::EINVAL);
        }
        let before = socket.local;
        socket.local = to;
        if let Some(protocol) = protocol {
            match self.take_port(node, protocol, false) {
                Ok(_) => {}
                Err(error) => {
                    self.socket_of(node)?.local = before;
                    return Err(error);
                }
            }
        }
        if protocol == Some(Protocol::Udp) && !to.address.is_local() {
            self.want_wire();
        }
        let socket = self.socket_of(node)?;
        socket.is_bound = true;
        Ok([u64::from(socket.local.port), 0, 0, 0, 0])
    }

    /// Gives a socket the port that it wants, or any.
    pub(crate) fn take_port(&mut self, node: NodeId, protocol: Protocol, connects: bool) -> Result<u16> {
        let net = self.net();
        let draw = net.draw();
        let socket = net.sockets.get(&node).ok_or(Errno::EBADF)?;
        let binding = net.binding(node, socket);
        let port = match connects {
            true => net.table.bind_to_connect(protocol, binding, draw),
            false => net.table.bind(protocol, binding, draw),
        };
        let port = match port {
            Err(internet::error::Error::InUse) if self.forget_dead_holders(protocol, binding.local.port) => {
                self.net().table.bind(protocol, binding, draw)?
            }
            port => port?,
        };
        self.socket_of(node)?.local.port = port;
        if protocol == Protocol::Udp {
            self.break_channels_of(node);
        }
        Ok(port)
    }

    /// Closes sockets on a port whose holders the kernel has destroyed. Whether there were any.
    fn forget_dead_holders(&mut self, protocol: Protocol, port: u16) -> bool {
        let nodes: Vec<NodeId> =
            self.net().table.bindings(protocol).filter(|one| one.local.port == port).map(|one| one.socket).collect();
        let lives = |number: &u64| exposed::lives(runtime::EnvironmentId(*number));
        let is_held = |node: &NodeId| {
            let mut living = self.clients.iter().filter(|(number, _)| lives(number));
            living.any(|(_, client)| client.holds.keys().any(|word| node_of(*word) == *node))
        };
        let (_, dead): (Vec<NodeId>, Vec<NodeId>) = nodes.into_iter().partition(is_held);
        let queued = |server: &mut Self, node: &NodeId| server.socket_of(*node).is_ok_and(|one| one.listener.is_some());
        let dead: Vec<NodeId> = dead.into_iter().filter(|node| !queued(self, node)).collect();
        dead.iter().for_each(|node| self.net().table.remove(*node));
        !dead.is_empty()
    }

    fn listen_internet(&mut self, node: NodeId, backlog: u64) -> Result<Answer> {
        let socket = self.socket_of(node)?;
        if socket.sort != Sort::Tcp {
            return Err(Errno::EOPNOTSUPP);
        }
        if socket.peer.is_some() || socket.listener.is_some() {
            return Err(Errno::EINVAL);
        }
        let is_first = socket.backlog.replace(backlog.min(BACKLOG_MOST)).is_none();
        if is_first {
            let outcome = match socket.local.port {
                0 => self.take_port(node, Protocol::Tcp, false).map(|_| ()),
                _ => Ok(()),
            };
            let outcome = outcome.and_then(|()| Ok(self.net().table.listen(node)?));
            if outcome.is_err() {
                self.socket_of(node)?.backlog = None;
            }
            outcome?;
            self.socket_of(node)?.page.set_state(state::LISTENING);
            wait::kick_idle();
            self.listen_on_wire(node)?;
        }
        Ok(NOTHING)
    }

    fn stop_listening(&mut self, node: NodeId) -> Result<Answer> {
        self.stop_listening_on_wire(node);
        let socket = self.socket_of(node)?;
        socket.backlog = None;
        socket.page.set_state(state::CLOSED);
        let page = socket.page.clone();
        let (ready, waiting) = (core::mem::take(&mut socket.ready), core::mem::take(&mut socket.waiting));
        let is_bound = socket.is_bound;
        self.net().table.change(node, |binding| binding.listens = false);
        if !is_bound {
            self.net().table.remove(node);
            self.socket_of(node)?.local.port = 0;
        }
        for ready in ready {
            let _ = self.let_go(Handle::plain(Location::first(ready)));
        }
        for waiting in waiting {
            self.refuse(waiting);
        }
        wait::kick_idle();
        self.ring_bells(&page, u64::MAX);
        Ok(NOTHING)
    }

    /// A connection does not come about.
    fn refuse(&mut self, node: NodeId) {
        self.refuse_with(node, Errno::ECONNREFUSED);
    }

    pub(crate) fn refuse_with(&mut self, node: NodeId, error: Errno) {
        let Ok(socket) = self.socket_of(node) else { return };
        socket.listener = None;
        socket.remote = Endpoint::default();
        socket.page.words()[page::ERROR].store(u64::from(error.number()), SeqCst);
        socket.page.set_state(state::CLOSED);
        self.give_up_ephemeral_port(node);
    }

    pub(super) fn give_up_ephemeral_port(&mut self, node: NodeId) {
        let Ok(socket) = self.socket_of(node) else { return };
        if socket.is_bound {
            return;
        }
        socket.local = Endpoint { address: socket.family.any(), port: 0 };
        self.net().table.remove(node);
    }

    fn accept_internet(&mut self, caller: u64, listener: NodeId) -> Result<Answer> {
        let listening = self.socket_of(listener)?;
        if listening.backlog.is_none() {
            return Err(Errno::EINVAL);
        }
        let node = match listening.ready.pop_front() {
            Some(node) => node,
            None => self.accept_arrived(caller, listener)?,
        };
        let listening = self.socket_of(listener)?;
        listening.page.words()[page::ACCEPTED].fetch_add(1, SeqCst);
        let next = listening.waiting.pop_front();
        if let Some(next) = next {
            // Where there is no page for it, the connection is refused.
            if self.establish(next, listener).is_err() {
                self.refuse(next);
            }
        }
        let handle = Handle::plain(Location::first(node));
        self.hold(caller, handle)?;
        self.let_go(handle)?;
        self.socket_of(node)?.listener = None;
        let [page, other, ..] = self.pages_of_internet(caller, node)?;
        let [high, low, port] = self.socket_of(node)?.remote.to_words();
        Ok([handle.to_word(), page | other << 32, high, low, port])
    }

    fn name_of_internet(&mut self, node: NodeId, which: u64) -> Result<Answer> {
        let socket = self.socket_of(node)?;
        let endpoint = if which == 0 { socket.local } else { socket.remote };
        let has = match socket.sort {
            Sort::Tcp => {
                let state = socket.page.words()[page::STATE].load(Acquire) & (GENERATION - 1);
                socket.peer.is_some() && state != state::CONNECTING
            }
            _ => socket.remote.address != Address::default(),
        };
        let [high, low, port] = endpoint.to_words();
        Ok([high, low, port, u64::from(has), 0])
    }

    fn pages_of_internet(&mut self, caller: u64, node: NodeId) -> Result<Answer> {
        let principal = self.principal_of(caller);
        let socket = self.socket_of(node)?;
        let (page, peer) = (socket.page.number().0, socket.peer);
        let kind =
            u64::from(socket.family == Family::V6) | (socket.sort as u64) << 8 | u64::from(socket.protocol) << 16;
        let other = peer.and_then(|peer| Some(self.net().sockets.get(&peer)?.page.number().0)).unwrap_or(0);
        self.open_to(principal, page, Access::Write)?;
        if other != 0 {
            self.open_to(principal, other, Access::Read)?;
        }
        Ok([page, other, kind, 0, 0])
    }

    fn large_area(&mut self, caller: u64, node: NodeId, is_others: bool) -> Result<Answer> {
        let socket = self.socket_of(node)?;
        let whose = if is_others { socket.peer.ok_or(Errno::ENOTCONN)? } else { node };
        if !is_others && self.socket_of(node)?.large.is_empty() {
            let mut pages = vec![PageNumber::NONE; LARGE as usize / (PAGE_WORDS * 8)];
            self.pages_for(caller)?.allocate_many(&mut pages)?;
            self.socket_of(node)?.large = pages;
        }
        let pages = self.socket_of(whose)?.large.clone();
        let (principal, access) = (self.principal_of(caller), if is_others { Access::Read } else { Access::Write });
        pages.iter().try_for_each(|page| self.open_to(principal, page.0, access))?;
        let numbers: Vec<u8> = pages.iter().flat_map(|page| page.0.to_le_bytes()).collect();
        Ok([self.put(caller, &numbers)? / 8, 0, 0, 0, 0])
    }

    fn take_options(&mut self, node: NodeId) -> Result<Answer> {
        let net = self.net();
        let binding = net.binding(node, &net.sockets[&node]);
        net.table.change(node, |known| {
            known.only_v6 = binding.only_v6;
            known.reuse_address = binding.reuse_address;
            known.reuse_port = binding.reuse_port;
        });
        self.break_channels_of(node);
        Ok(NOTHING)
    }

    fn disconnect_internet(&mut self, node: NodeId) -> Result<Answer> {
        let socket = self.socket_of(node)?;
        if socket.backlog.is_some() {
            return self.stop_listening(node);
        }
        self.break_channels_of(node);
        if let Some(listener) = self.socket_of(node)?.listener.take() {
            self.leave_queue(listener, node);
        }
        let had_peer = self.socket_of(node)?.peer.is_some();
        let peer = self.socket_of(node)?.peer;
        self.end_connection(node, true);
        self.leave_to_wire(node, peer);
        let socket = self.socket_of(node)?;
        if had_peer {
            socket.page.words()[page::ERROR].store(u64::from(Errno::ECONNRESET.number()), SeqCst);
        }
        socket.remote = Endpoint::default();
        socket.page.set_state(state::CLOSED);
        if !socket.is_bound {
            self.give_up_ephemeral_port(node);
        } else {
            self.net().table.change(node, |binding| binding.remote = Endpoint::default());
        }
        Ok(NOTHING)
    }

    fn leave_queue(&mut self, listener: NodeId, node: NodeId) {
        if let Ok(listening) = self.socket_of(listener) {
            listening.waiting.retain(|one| *one != node);
            listening.ready.retain(|one| *one != node);
        }
    }

    /// Tells the other side of a socket's end, as far as its holders have not: what they left unread is a reset.
    fn end_connection(&mut self, node: NodeId, resets: bool) {
        let Ok(socket) = self.socket_of(node) else { return };
        let Some(peer) = socket.peer.take() else { return };
        let own = socket.page.clone();
        let Ok(other) = self.socket_of(peer) else { return };
        let beyond = other.page.clone();
        let count = |page: &SocketPage, word: usize| page.words()[word].load(Acquire);
        let ring = Ring::new(count(&other.page, page::SENT), count(&own, page::TAKEN), u64::MAX);
        let is_closed = count(&own, page::TAKEN) & RESET != 0;
        if !is_closed {
            let unread = ring.waiting() != Ok(0) || resets;
            own.words()[page::SENT].fetch_or(FINISHED | if unread { RESET } else { 0 }, SeqCst);
            own.words()[page::TAKEN].fetch_or(RESET, SeqCst);
        }
        wait::kick_idle();
        self.ring_bells(&beyond, u64::MAX);
    }

    /// A node that may be a socket has no holder any more: its port is free, and the other side learns of it.
    pub(crate) fn internet_socket_is_left(&mut self, node: NodeId) {
        if self.internet.as_ref().is_none_or(|net| !net.sockets.contains_key(&node)) {
            return;
        }
        let _ = self.stop_if_listening(node);
        self.remove_channels_of(node);
        let Ok(socket) = self.socket_of(node) else { return };
        let peer = socket.peer;
        // A connection that its listener never accepted is reset.
        let listener = socket.listener.take();
        if let Some(listener) = listener {
            self.leave_queue(listener, node);
        }
        self.end_connection(node, listener.is_some());
        self.net().table.remove(node);
        let Ok(socket) = self.socket_of(node) else { return };
        (socket.is_gone, socket.peer) = (true, peer);
        self.leave_to_wire(node, peer);
        match peer {
            // The other side may still read what was sent, unless it has given the connection up.
            Some(peer) if self.net().is_alive(peer) && self.net().sockets[&peer].peer == Some(node) => {}
            Some(peer) if self.net().is_alive(peer) => self.free_socket(node),
            peer => [Some(node), peer].into_iter().flatten().for_each(|node| self.free_socket(node)),
        }
    }

    fn stop_if_listening(&mut self, node: NodeId) -> Result<()> {
        if self.socket_of(node)?.backlog.is_some() {
            self.stop_listening(node)?;
        }
        Ok(())
    }

    fn free_socket(&mut self, node: NodeId) {
        let Some(socket) = self.net().sockets.remove(&node) else { return };
        self.free_large(socket.large);
        let net = self.net();
        net.pool.push_back(socket.page);
        if net.pool.len() > net.pool_limit.max(POOL_GROWTH) {
            self.release_runs();
        }
    }

    /// Gives back the runs of the pool whose pages the server alone maps.
    fn release_runs(&mut self) {
        let net = self.net();
        let mut free: BTreeMap<u64, usize> = BTreeMap::new();
        for page in net.pool.iter().filter(|page| page.is_free()) {
            *free.entry(page.run.address()).or_default() += 1;
        }
        let is_whole = |page: &SocketPage| free.get(&page.run.address()) == Some(&RUN);
        let (whole, rest) = core::mem::take(&mut net.pool).into_iter().partition::<VecDeque<_>, _>(is_whole);
        net.pool_limit = rest.len() + POOL_GROWTH;
        net.pool = rest;
        for first in whole.iter().filter(|page| page.index == 0) {
            self.mappings.close(&first.run);
            ANY_WINDOW.free_many(first.run.pages());
        }
        self.tree.store.quota.give_back();
    }

    /// The sockets that a client holds, its children are to have too, whose principal is going to be another one.
    pub(crate) fn open_internet_sockets_to(&mut self, caller: u64, principal: u64) -> Result<()> {
        if self.internet.is_none() {
            return Ok(());
        }
        let held = self.clients.get(&caller).into_iter().flat_map(|client| client.holds.keys());
        let nodes: Vec<NodeId> = held.map(|word| node_of(*word)).collect();
        let mut pages = Vec::new();
        for node in nodes {
            let net = self.net();
            let Some(socket) = net.sockets.get(&node) else { continue };
            pages.push((socket.page.number(), Access::Write));
            pages.extend(socket.large.iter().map(|page| (*page, Access::Write)));
            if let Some(peer) = socket.peer.and_then(|peer| net.sockets.get(&peer)) {
                pages.push((peer.page.number(), Access::Read));
                pages.extend(peer.large.iter().map(|page| (*page, Access::Read)));
            }
        }
        pages.into_iter().try_for_each(|(page, access)| self.open_to(principal, page.0, access))
    }

    /// The lines of a table of `/proc/net`.
    pub(crate) fn internet_lines(&self, table: Listed) -> Vec<String> {
        let Some(net) = &self.internet else { return Vec::new() };
        let (table, family, protocol) = match table {
            Listed::Tcp => (Table::Tcp, Family::V4, Protocol::Tcp),
            Listed::Tcp6 => (Table::Tcp, Family::V6, Protocol::Tcp),
            Listed::Udp => (Table::Datagrams, Family::V4, Protocol::Udp),
            Listed::Udp6 => (Table::Datagrams, Family::V6, Protocol::Udp),
            Listed::Echo => (Table::Datagrams, Family::V4, Protocol::Echo),
            Listed::Echo6 => (Table::Datagrams, Family::V6, Protocol::Echo6),
            _ => return Vec::new(),
        };
        // A stream that only has a port stands in no table.
        let is_shown = |socket: u64| {
            let state = |one: &InternetSocket| one.page.words()[page::STATE].load(Acquire) & (GENERATION - 1);
            table == Table::Datagrams || net.sockets.get(&socket).is_some_and(|one| state(one) != state::CLOSED)
        };
        let sockets = net.table.bindings(protocol).filter(|one| one.family == family && is_shown(one.socket));
        let line = |(at, binding): (usize, &Binding)| {
            let socket = net.sockets.get(&binding.socket)?;
            let state = match socket.page.words()[page::STATE].load(Acquire) & (GENERATION - 1) {
                state::LISTENING => listed::LISTENS,
                state::CONNECTING => listed::SYN_SENT,
                state::CONNECTED => listed::ESTABLISHED,
                _ => listed::CLOSED,
            };
            let remote = match socket.remote.port {
                0 => Endpoint { address: family.any(), port: 0 },
                _ => socket.remote,
            };
            let (queued, user) = (net.queued(socket), socket.user);
            let line = Line { local: socket.local, remote, state, queued: [0, queued], user, node: binding.socket };
            Some(line.text(table, family, at))
        };
        sockets.enumerate().filter_map(line).collect()
    }
}
