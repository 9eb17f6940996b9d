//! Internet sockets (ip(7), ipv6(7), tcp(7), udp(7)) between the processes of this machine.
//!
//! A socket is a node of the server's, which every process that has a descriptor of it holds, and a page. Its holders
//! write the
//! page; the other side of a connection only reads it. `internet_stream` moves bytes through the pages of both sides,
//! `internet_datagram` takes datagrams out of the one that the server puts them into.
//! Invariants:
//! - which page belongs to the other side the server says, never a page;
//! - a window stays open until no thread of this process works with the socket.

use super::datagram_channel::Channels;
use super::internet_datagram::Parts;
use super::socket::wait_until;
use crate::descriptor::file_ops::FileOps;
use crate::descriptor::open_file::OpenFile;
use crate::descriptor::poll_event::Event;
use crate::hw::domain::domain;
use crate::hw::mapping::Mapping;
use crate::hw::usercopy;
use crate::server::client;
use crate::wait;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use internet::address::{Endpoint, Family};
use internet::bell::Watch;
use internet::option::{self, Sort, Store};
use internet::page::{self, GENERATION, OPTIONS, done, state};
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::{general as linux, ioctl};
use runtime::PageNumber;
use runtime::lock::{Lock, OwnerLock};
use runtime::predicate::{Operator, Term, word};
use unix_core::server::protocol::InternetRequest;

/// Protocols of sockets for echoes, as the server knows them.
pub const ECHO_V4: u8 = 1 | 0x80;
/// See [`ECHO_V4`].
pub const ECHO_V6: u8 = 58 | 0x80;

/// Windows onto what the connection of a socket consists of.
#[derive(Debug, Default)]
pub(crate) struct Link {
    /// The page of the other side.
    pub(crate) peer: Option<Mapping>,
    /// The larger areas, of what is sent and of what comes.
    pub(crate) outgoing: Option<Mapping>,
    pub(crate) incoming: Option<Mapping>,
    /// The state that this is of.
    seen: u64,
    /// Windows of a connection before this one.
    before: Vec<Mapping>,
}

/// A socket.
#[derive(Debug)]
pub struct InternetSocket {
    /// Its family.
    pub family: Family,
    /// Its kind.
    pub sort: Sort,
    protocol: u8,
    node: u64,
    own: Mapping,
    link: Lock<Link>,
    pub(super) channels: Lock<Channels>,
    pub(super) parts: Lock<Option<Parts>>,
}

impl Store for InternetSocket {
    fn get(&self, place: usize) -> u64 {
        self.word(OPTIONS + place).load(Acquire)
    }

    fn set(&self, place: usize, word: u64) {
        self.word(OPTIONS + place).store(word, SeqCst);
    }
}

fn open_window(page: PageNumber, writable: bool) -> Result<Mapping> {
    domain().mappings.lock().open(vec![page], domain().session_key, writable)
}

impl InternetSocket {
    /// A fresh one.
    pub fn create(family: Family, sort: Sort, protocol: u8) -> Result<Self> {
        let number = u64::from(family == Family::V6);
        let (node, page) = client::files().lock().make_internet_socket(number, sort as u64, u64::from(protocol))?;
        Self::with_page(family, (sort, protocol), node, page)
    }

    fn with_page(family: Family, (sort, protocol): (Sort, u8), node: u64, page: PageNumber) -> Result<Self> {
        let own = open_window(page, true).inspect_err(|_| client::files().lock().hold(node, false))?;
        Ok(Self {
            family,
            sort,
            protocol,
            node,
            own,
            link: Lock::default(),
            channels: Lock::default(),
            parts: Lock::default(),
        })
    }

    /// One that this process holds already: it came in a message, or over a set-id program.
    pub fn open(node: u64) -> Result<Self> {
        let answer = client::files().lock().on_internet_socket(node, InternetRequest::Pages, [0; 3])?;
        let [_, page, _, kind, ..] = answer;
        let family = if kind & 0xff == 0 { Family::V4 } else { Family::V6 };
        let sort = Sort::of(kind >> 8 & 0xff);
        let own = open_window(PageNumber(page), true)?;
        Ok(Self {
            family,
            sort,
            protocol: (kind >> 16) as u8,
            node,
            own,
            link: Lock::default(),
            channels: Lock::default(),
            parts: Lock::default(),
        })
    }

    /// The node that it is.
    pub const fn number(&self) -> u64 {
        self.node
    }

    /// The protocol, as `SO_PROTOCOL` tells it.
    pub const fn protocol(&self) -> u8 {
        match self.sort {
            Sort::Tcp => 6,
            Sort::Udp => 17,
            Sort::UdpLite => 136,
            Sort::Raw => self.protocol & 0x7f,
        }
    }

    /// The type, as `SO_TYPE` tells it.
    pub const fn kind(&self) -> u32 {
        match (self.sort, self.protocol) {
            (Sort::Tcp, _) => 1,
            (Sort::Udp | Sort::UdpLite, _) | (_, ECHO_V4 | ECHO_V6) => 2,
            (Sort::Raw, _) => 3,
        }
    }

    #[inline]
    pub(crate) fn word(&self, index: usize) -> &'static AtomicU64 {
        &self.own.first_page()[index]
    }

    pub(crate) const fn own(&self) -> &Mapping {
        &self.own
    }

    /// What the program set of an option, by its place.
    pub fn value(&self, place: usize) -> i32 {
        option::value(self, place)
    }

    /// What a word of its page says, for options that are more than a number.
    pub fn setting(&self, index: usize) -> &'static AtomicU64 {
        self.word(index)
    }

    /// Its state, after any of its holders changed it.
    pub fn state(&self) -> u64 {
        self.word(page::STATE).load(Acquire) & (GENERATION - 1)
    }

    pub(crate) fn ask(&self, request: InternetRequest, words: [u64; 3]) -> Result<[u64; 6]> {
        client::files().lock().on_internet_socket(self.node, request, words)
    }

    /// Binds it.
    pub fn bind(&self, to: Endpoint) -> Result<()> {
        self.ask(InternetRequest::Bind, to.to_words()).map(|_| ())
    }

    /// The server is to look at options that others go by.
    pub fn publish_options(&self) -> Result<()> {
        self.ask(InternetRequest::Options, [0; 3]).map(|_| ())
    }

    /// Joins a group, or leaves it.
    pub fn change_group(&self, group: Endpoint, joins: bool) -> Result<()> {
        let [high, low, _] = group.to_words();
        self.ask(InternetRequest::Group, [high, low, u64::from(joins)]).map(|_| ())
    }

    /// Its own name (0), or that of the other side; `None`: there is none.
    pub fn name_of(&self, which: u64) -> Result<Option<Endpoint>> {
        if which == 1 && self.sort == Sort::Tcp && self.is_over() {
            return Ok(None);
        }
        let [_, high, low, port, has, _] = self.ask(InternetRequest::Name, [which, 0, 0])?;
        Ok((which == 0 || has != 0).then_some(Endpoint::from_words([high, low, port])))
    }

    /// Lets others connect.
    pub fn listen(&self, backlog: u64) -> Result<()> {
        self.ask(InternetRequest::Listen, [backlog, 0, 0]).map(|_| ())
    }

    /// Has no connection any more (`AF_UNSPEC`).
    pub fn disconnect(&self) -> Result<()> {
        self.ask(InternetRequest::Disconnect, [0; 3])?;
        self.ring_own();
        Ok(())
    }

    /// Connects it. `EINPROGRESS` where it must not wait, as on Linux even where the answer is known at once.
    pub fn connect(&self, to: Endpoint, is_nonblocking: bool) -> Result<()> {
        if self.sort != Sort::Tcp {
            return self.ask(InternetRequest::Connect, to.to_words()).map(|_| ());
        }
        let begun = self.word(page::DONE).load(Acquire) & done::CONNECT_BEGUN != 0;
        if begun {
            return self.finish_connect(is_nonblocking);
        }
        let answer = self.ask(InternetRequest::Connect, to.to_words());
        match answer {
            Ok([_, peer, waiter, ..]) if peer != 0 => {
                self.see_peer(PageNumber(peer))?;
                wait::set_yield_target(waiter);
            }
            Err(Errno::ECONNREFUSED) if is_nonblocking => {
                self.word(page::ERROR).store(u64::from(Errno::ECONNREFUSED.number()), SeqCst);
            }
            answer => drop(answer?),
        }
        if !is_nonblocking && self.state() == state::CONNECTED {
            return Ok(());
        }
        self.word(page::DONE).fetch_or(done::CONNECT_BEGUN, SeqCst);
        if is_nonblocking { Err(Errno::EINPROGRESS) } else { self.finish_connect(false) }
    }

    /// How an attempt to connect came out that an earlier call began.
    fn finish_connect(&self, is_nonblocking: bool) -> Result<()> {
        let deadline = self.deadline(1);
        loop {
            let now = self.word(page::STATE).load(Acquire);
            if let Some(error) = self.take_error() {
                self.word(page::DONE).fetch_and(!done::CONNECT_BEGUN, SeqCst);
                return Err(error);
            }
            if now & (GENERATION - 1) == state::CONNECTING {
                if is_nonblocking {
                    return Err(Errno::EALREADY);
                }
                match wait_until(&[word(self.word(page::STATE), Operator::NotEqual, now)], deadline) {
                    Err(Errno::EAGAIN) => return Err(Errno::EINPROGRESS),
                    outcome => outcome?,
                }
                continue;
            }
            self.word(page::DONE).fetch_and(!done::CONNECT_BEGUN, SeqCst);
            return if now & (GENERATION - 1) == state::CONNECTED { Ok(()) } else { Err(Errno::ECONNABORTED) };
        }
    }

    fn see_peer(&self, page: PageNumber) -> Result<()> {
        let peer = open_window(page, false)?;
        let mut link = self.link.lock();
        let before = [link.peer.replace(peer), link.outgoing.take(), link.incoming.take()];
        link.before.extend(before.into_iter().flatten());
        link.seen = self.word(page::STATE).load(Acquire);
        Ok(())
    }

    /// The connection that came first; `None` where none waits.
    pub fn accept(&self) -> Result<Option<(Self, Endpoint)>> {
        if self.state() != state::LISTENING {
            return Err(Errno::EINVAL);
        }
        if !self.has_come() {
            return Ok(None);
        }
        let answer = match self.ask(InternetRequest::Accept, [0; 3]) {
            Err(Errno::EAGAIN) => return Ok(None),
            answer => answer?,
        };
        let [_, node, pages, high, low, port] = answer;
        let accepted = Self::with_page(self.family, (self.sort, self.protocol), node, PageNumber(pages & 0xffff_ffff))?;
        if pages >> 32 != 0 {
            accepted.see_peer(PageNumber(pages >> 32))?;
        }
        Ok(Some((accepted, Endpoint::from_words([high, low, port]))))
    }

    fn has_come(&self) -> bool {
        self.word(page::CAME).load(Acquire) != self.word(page::ACCEPTED).load(Acquire)
    }

    /// What its connection consists of; `None` where it has none.
    pub(crate) fn link(&self) -> Option<runtime::lock::Guard<'_, Link>> {
        let now = self.word(page::STATE).load(Acquire);
        let link = self.link.lock();
        if now & (GENERATION - 1) != state::CONNECTED {
            return None;
        }
        if link.seen == now && link.peer.is_some() {
            return Some(link);
        }
        drop(link);
        self.catch_up()
    }

    /// Another holder, or the server, made the connection.
    #[cold]
    fn catch_up(&self) -> Option<runtime::lock::Guard<'_, Link>> {
        let [_, _, peer, ..] = self.ask(InternetRequest::Pages, [0; 3]).ok()?;
        if peer == 0 {
            return None;
        }
        self.see_peer(PageNumber(peer)).ok()?;
        Some(self.link.lock())
    }

    /// When a reader (0) or a writer (1) that begins to wait now gives up.
    pub fn deadline(&self, which: usize) -> Option<u64> {
        let patience = self.word(page::PATIENCE + which).load(Relaxed);
        (patience != 0).then(|| runtime::clock::now().saturating_add(patience))
    }

    /// The error that waits, which is told once.
    pub fn take_error(&self) -> Option<Errno> {
        if self.word(page::ERROR).load(Acquire) != 0 {
            let number = self.word(page::ERROR).swap(0, SeqCst) & 0xfff;
            return Errno::from_register(number.wrapping_neg());
        }
        if self.sort == Sort::Tcp && self.is_reset() && !self.is_done(done::RESET_TOLD) {
            self.note_done(done::RESET_TOLD);
            return Some(if self.is_done(done::BROKEN) { Errno::EPIPE } else { Errno::ECONNRESET });
        }
        None
    }

    /// Whether an error waits.
    pub fn has_error(&self) -> bool {
        let resets = || self.sort == Sort::Tcp && self.is_reset() && !self.is_done(done::RESET_TOLD);
        self.word(page::ERROR).load(Acquire) != 0 || resets()
    }

    pub(crate) fn is_done(&self, what: u64) -> bool {
        self.word(page::DONE).load(Acquire) & what != 0
    }

    pub(crate) fn note_done(&self, what: u64) {
        self.word(page::DONE).fetch_or(what, SeqCst);
        wait::kick_idle();
    }

    /// Something other than the other side changed what waiters of this side are told.
    pub(crate) fn ring_own(&self) {
        if self.word(page::WATCH).load(SeqCst) != 0 {
            let _ = self.ask(InternetRequest::Wake, [1, 0, 0]);
        }
    }

    /// `shutdown`.
    pub fn shut(&self, reads: bool, writes: bool) -> Result<()> {
        match (self.sort, self.state()) {
            (Sort::Tcp, state::LISTENING) => {
                if reads {
                    self.ask(InternetRequest::Listen, [u64::MAX, 0, 0])?;
                }
                return Ok(());
            }
            (_, state::CONNECTED) => {}
            _ => return Err(Errno::ENOTCONN),
        }
        let was_over = self.sort == Sort::Tcp && self.is_over();
        if reads {
            self.note_done(done::READ_SHUT);
        }
        if writes && self.sort == Sort::Tcp {
            self.finish_sending();
        } else if writes {
            self.note_done(done::WRITE_SHUT);
        }
        self.word(page::STATE).fetch_add(GENERATION, SeqCst);
        if self.sort != Sort::Tcp {
            self.word(page::CHANGES).fetch_add(1, SeqCst);
        }
        // The connection is the same: what is seen of it holds.
        self.link.lock().seen = self.word(page::STATE).load(Acquire);
        wait::kick_idle();
        self.ring_own();
        if was_over { Err(Errno::ENOTCONN) } else { Ok(()) }
    }
}

impl FileOps for InternetSocket {
    fn locks(&self) -> [Option<&OwnerLock>; 2] {
        [Some(self.link.owner_lock()), Some(self.channels.owner_lock())]
    }

    fn read(&self, description: &OpenFile, to: u64, count: u64) -> Result<u64> {
        match self.sort {
            Sort::Tcp => self.read_stream(to, count, description.is_nonblocking()),
            _ if count == 0 => Ok(0),
            _ => {
                let received = self.receive_datagram(count, false, description.is_nonblocking())?;
                usercopy::write(to, &received.data)?;
                Ok(received.data.len() as u64)
            }
        }
    }

    fn write(&self, description: &OpenFile, from: u64, count: u64) -> Result<u64> {
        match self.sort {
            Sort::Tcp => self.write_stream(from, count, description.is_nonblocking(), true),
            _ => {
                let bytes = usercopy::read_vec(from, count.min(1 << 17) as usize)?;
                self.send_datagram(&bytes)
            }
        }
    }

    fn write_bytes(&self, description: &OpenFile, bytes: &[u8]) -> Result<u64> {
        match self.sort {
            Sort::Tcp => self.write_stream_bytes(bytes, description.is_nonblocking(), true),
            _ => self.send_datagram(bytes),
        }
    }

    fn write_now(&self, bytes: &[u8]) -> Result<u64> {
        match self.sort {
            Sort::Tcp => self.write_stream_bytes(bytes, true, true),
            _ => self.send_datagram(bytes),
        }
    }

    fn wait_to_write(&self, bytes: u64) -> Result<()> {
        let _ = bytes;
        match self.sort {
            Sort::Tcp => self.wait_for_room(self.deadline(1)),
            _ => Ok(()),
        }
    }

    fn note_waiter(&self, event: Event) {
        let waiter = if event == Event::Readable { page::READER } else { page::WRITER };
        self.word(waiter).store(runtime::area::number().0, Relaxed);
        if self.sort.is_udp() && event == Event::Readable {
            self.note_datagram_reader(&self.incoming_channels(), runtime::area::number().0);
        }
    }

    fn is_ready(&self, event: Event) -> bool {
        match (self.sort, self.state(), event) {
            (Sort::Tcp, state::LISTENING, event) => event == Event::Readable && self.has_come(),
            (Sort::Tcp, state::CONNECTING, _) => self.has_error(),
            (Sort::Tcp, state::CONNECTED, event) => self.is_stream_ready(event),
            (Sort::Tcp, _, event) => event == Event::Writable || self.has_error(),
            (_, _, Event::Readable) => self.has_datagram() || self.is_done(done::READ_SHUT),
            (_, _, Event::Writable) => true,
        }
    }

    #[inline]
    fn is_quiet(&self) -> bool {
        self.sort == Sort::Tcp && self.state() == state::CONNECTED && self.is_stream_quiet()
    }

    fn wait_terms(&self, event: Event) -> Vec<Term> {
        let changes = || word(self.word(page::STATE), Operator::NotEqual, self.word(page::STATE).load(Acquire));
        match (self.sort, self.state()) {
            (Sort::Tcp, state::LISTENING) => {
                let accepted = self.word(page::ACCEPTED).load(Acquire);
                vec![word(self.word(page::CAME), Operator::NotEqual, accepted), changes()]
            }
            (Sort::Tcp, state::CONNECTED) => self.stream_terms(event),
            (Sort::Tcp, _) => vec![changes()],
            _ if event == Event::Readable => self.datagram_terms(),
            _ => Vec::new(),
        }
    }

    fn filled_at(&self) -> u64 {
        match (self.sort, self.state()) {
            (Sort::Tcp, state::LISTENING) => self.word(page::FILLED_AT).load(Relaxed),
            (Sort::Tcp, _) => self.peer_word(page::FILLED_AT).map_or(0, |word| word.load(Relaxed)),
            _ => self.oldest_datagram(),
        }
    }

    fn counts_events(&self) -> bool {
        true
    }

    fn event_sequence(&self, event: Event) -> u64 {
        match (self.sort, self.state()) {
            (Sort::Tcp, state::LISTENING) => self.word(page::CAME).load(Acquire),
            (Sort::Tcp, state::CONNECTED) => self.stream_stamp(event),
            (Sort::Tcp, _) => self.word(page::STATE).load(Acquire),
            _ if event == Event::Readable => self.datagram_stamp(),
            _ => 0,
        }
    }

    fn edge_terms(&self, event: Event) -> Vec<Term> {
        match (self.sort, self.state()) {
            (Sort::Tcp, state::LISTENING) => {
                vec![word(self.word(page::CAME), Operator::NotEqual, self.word(page::CAME).load(Acquire))]
            }
            (Sort::Tcp, state::CONNECTED) => self.stream_changes(event),
            (Sort::Tcp, _) => self.wait_terms(event),
            _ if event == Event::Readable => self.datagram_changes(),
            _ => Vec::new(),
        }
    }

    fn ask_for_bell(&self, watch: u64, bell: u32, each: bool) -> Option<u64> {
        let can_ring = match (self.sort, self.state()) {
            (Sort::Tcp, state::LISTENING) => true,
            (Sort::Tcp, state::CONNECTED) => self.link().is_some(),
            (Sort::Tcp, _) => false,
            _ => !each && watch & page::watch::SENT != 0,
        };
        if !can_ring {
            return None;
        }
        // The bell is read after the word: see `internet::bell`.
        let asks = |before| Watch(before).and(watch, bell, client::bell(bell).load(SeqCst), each).0;
        self.word(page::WATCH).update(SeqCst, SeqCst, asks);
        if self.sort != Sort::Tcp {
            self.ask_channels_for_bell(bell);
        }
        self.bell_name()
    }

    fn bell_name(&self) -> Option<u64> {
        self.own.pages().first().map(|page| page.0)
    }

    fn end_terms(&self) -> Vec<Term> {
        [Event::Readable, Event::Writable].into_iter().flat_map(|event| self.edge_terms(event)).collect()
    }

    fn is_hung_up(&self) -> bool {
        match (self.sort, self.state()) {
            (Sort::Tcp, state::CONNECTED) => self.is_stream_over(),
            (Sort::Tcp, state::CLOSED) => true,
            (Sort::Tcp, _) => false,
            _ => self.is_done(done::READ_SHUT) && self.is_done(done::WRITE_SHUT),
        }
    }

    fn is_half_closed(&self) -> bool {
        match self.sort {
            Sort::Tcp => self.state() == state::CONNECTED && self.is_at_end(),
            _ => self.is_done(done::READ_SHUT),
        }
    }

    fn closed(&self, ended: bool) {
        if ended && self.sort == Sort::Tcp {
            self.end_stream();
        }
    }

    fn gone(&self) {
        let mut link = self.link.lock();
        let windows = [link.peer.take(), link.outgoing.take(), link.incoming.take()];
        let before = core::mem::take(&mut link.before);
        drop(link);
        self.channels.lock().close();
        let mut open = domain().mappings.lock();
        windows.iter().flatten().chain(&before).for_each(|window| open.close(window));
        open.close(&self.own);
    }

    fn status(&self) -> (u32, u64) {
        (linux::S_IFSOCK | 0o777, vfs::handle::node_of(self.node))
    }

    fn name(&self) -> String {
        format!("socket:[{}]", self.status().1)
    }

    fn waiting(&self) -> Result<u64> {
        match self.sort {
            Sort::Tcp if self.state() == state::LISTENING => Err(Errno::EINVAL),
            Sort::Tcp => Ok(self.stream_waiting()),
            _ => Ok(self.first_length()),
        }
    }

    fn ioctl(&self, request: u32, argument: u64) -> Result<u64> {
        match request {
            ioctl::TIOCOUTQ => usercopy::write_half(argument, self.stream_unread() as u32).map(|()| 0),
            // SIOCATMARK
            0x8905 if self.sort == Sort::Tcp => {
                usercopy::write_half(argument, u32::from(self.is_at_mark())).map(|()| 0)
            }
            _ => super::device_request::device_request(Some(self.node), self.family, request, argument),
        }
    }

    fn node(&self) -> Option<u64> {
        Some(self.node)
    }
}
