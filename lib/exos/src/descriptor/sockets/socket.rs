//! Unix-domain sockets (unix(7)): two pipes of frames, one each way. `socket_shared` is about the state that all
//! holders of one share, `listen_queue` about connections, `credentials` about peers.
//!
//! Names lie with the server.

use super::listen_queue::{BACKLOG, CAME, FILLED_AT, Request, SHUT, TAKEN, WATCH};
use super::scm_rights;
use super::socket_shared::{Settings, SharedSocketState, first_of};
use crate::attributes::attributes;
use crate::descriptor::fd_pins::descriptors;
use crate::descriptor::file_ops::FileOps;
use crate::descriptor::object::Object;
use crate::descriptor::open_file::OpenFile;
use crate::descriptor::poll_event::Event;
use crate::hw::domain::domain;
use crate::hw::usercopy;
use crate::pipe::message_frames::{Frame, LONGEST, Manner};
use crate::pipe::{self, Pipe, Side};
use crate::server::client::Peer;
use crate::wait::{self, WakeReason, bells};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use internet::page::watch;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::{general as linux, ioctl};
use runtime::exposed::PageStamp;
use runtime::lock::{Lock, OwnerLock};
use runtime::page::Allocator;
use runtime::predicate::{Operator, Term, word};
use runtime::{PageNumber, area, exposed};
use unix_core::process::ucred::Ucred;
pub use unix_core::server::socket_kind::Kind;

/// Bytes of room from which on a socket counts as writable.
const ENOUGH: u64 = 8192;

/// What a socket is joined to.
#[derive(Debug, Default)]
pub struct Ends {
    /// Where messages come from.
    pub incoming: Option<Pipe>,
    /// Where they go.
    pub outgoing: Option<Pipe>,
    /// Its own name, and that of the other side; what begins with a NUL is abstract.
    pub names: [Vec<u8>; 2],
    /// Node that its descriptors in this process hold together while an abstract name leads here.
    pub node: Option<u64>,
    /// The peer, or the process that listens here.
    pub peer: Option<Ucred>,
    /// Number by which the server knows a connection that was made here.
    pub(crate) request: Option<u64>,
    /// The generation of what all have in common that this is; see `socket_shared`.
    pub(crate) seen: u64,
}

/// What is sent.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// What goes with the bytes.
    pub control: &'a [u8],
    /// The bytes.
    pub data: &'a [u8],
    /// The credentials that the program claims.
    pub claimed: Option<Ucred>,
}

impl<'a> Outgoing<'a> {
    /// Bytes without claimed credentials.
    pub const fn bytes(control: &'a [u8], data: &'a [u8]) -> Self {
        Self { control, data, claimed: None }
    }
}

/// A socket.
#[derive(Debug)]
pub struct Socket {
    /// Its kind.
    pub kind: Kind,
    /// The page that all share who hold it; none where it was made joined.
    pub(crate) common: Option<SharedSocketState>,
    /// What it is joined to, as this process saw it last: see [`Self::ends`].
    pub(crate) ends: Lock<Ends>,
    /// What the program has set.
    pub settings: Settings,
    /// The sender of the last message that was asked about, by its number and end.
    pub(crate) last_sender: Lock<Option<((u64, u64), Ucred)>>,
}

/// Waits, until a time at most: `EAGAIN` when it has come. After a signal the time would begin anew: then the wait is
/// over.
pub fn wait_until(terms: &[Term], deadline: Option<u64>) -> Result<()> {
    wait_until_for(|| terms, deadline)
}

/// The same for terms that are made only where the thread sleeps on them.
pub fn wait_until_for<T: AsRef<[Term]>>(terms: impl FnOnce() -> T, deadline: Option<u64>) -> Result<()> {
    match wait::wait_for(terms, deadline) {
        Ok(WakeReason::TimedOut) => Err(Errno::EAGAIN),
        Ok(WakeReason::Condition) => Ok(()),
        Err(Errno::EINTR) if deadline.is_some() => Err(Errno::INTERRUPTED_FOR_GOOD),
        Err(error) => Err(error),
    }
}

/// Pages that relatives, and all holders of the session's key, can share.
pub(crate) fn from() -> Allocator {
    Allocator { key: domain().session_key, ..Allocator::own() }
}

pub(crate) fn fresh_pipe() -> Result<Pipe> {
    fresh_pipe_from(from())
}

pub(crate) fn fresh_pipe_from(from: Allocator) -> Result<Pipe> {
    crate::budget::reserve(2 * pipe::PAGES as u64);
    Pipe::create(&mut domain().mappings.lock(), from)
}

/// One that every process may write datagrams into.
fn fresh_pipe_for_datagrams() -> Result<Pipe> {
    fresh_pipe().inspect(|pipe| pipe.give_up_counting(Side::Write))
}

impl Socket {
    pub(crate) fn of(kind: Kind, common: Option<SharedSocketState>, ends: Ends, settings: Settings) -> Self {
        Self { kind, common, ends: Lock::new(ends), settings, last_sender: Lock::default() }
    }

    /// One that is joined to these.
    pub fn joined(kind: Kind, incoming: Pipe, outgoing: Pipe) -> Self {
        let settings = Settings::of_pipe(&incoming);
        let ends = Ends { incoming: Some(incoming), outgoing: Some(outgoing), ..Ends::default() };
        Self::of(kind, None, ends, settings)
    }

    /// First pages of what it is joined to, and the page that all who hold it have in common; `NONE` for what there is
    /// not.
    pub fn places(&self) -> [PageStamp; 3] {
        let ends = self.ends();
        let page = self.common.as_ref().map_or(PageNumber::NONE, SharedSocketState::page);
        [first_of(&ends.incoming), first_of(&ends.outgoing), page].map(PageStamp::of)
    }

    /// One that came in a message, by its pages.
    pub fn open(
        kind: Kind,
        [incoming, outgoing, page]: [PageStamp; 3],
        node: Option<u64>,
        voucher: u64,
    ) -> Result<Self> {
        if page != PageStamp::NONE {
            let peer = Self::passed(voucher, outgoing != PageStamp::NONE);
            let socket = Self::with_page(kind, SharedSocketState::open(page)?, Ends { node, peer, ..Ends::default() });
            socket.common.iter().try_for_each(|common| socket.catch_up(common))?;
            return Ok(socket);
        }
        let key = domain().opening_key();
        let mut windows = domain().mappings.lock();
        let incoming = Pipe::open_by_first(&mut windows, incoming, key)?;
        let outgoing = match outgoing {
            PageStamp::NONE => None,
            first => Some(Pipe::open_by_first(&mut windows, first, key)?),
        };
        let settings = Settings::of_pipe(&incoming);
        let peer = Self::passed(voucher, outgoing.is_some());
        let ends = Ends { incoming: Some(incoming), outgoing, node, peer, ..Ends::default() };
        Ok(Self::of(kind, None, ends, settings))
    }

    /// Two that are joined to each other.
    pub fn pair(kind: Kind) -> Result<[Self; 2]> {
        let fresh = if kind == Kind::Datagram { fresh_pipe_for_datagrams } else { fresh_pipe };
        let (one, other) = (fresh()?, fresh()?);
        for pipe in [&one, &other] {
            domain().mappings.lock().hold_once_more(pipe.window());
        }
        let back = Self::joined(kind, other.clone(), one.clone());
        if kind == Kind::Datagram {
            one.take_only_from(other.pages()[0]);
            other.take_only_from(one.pages()[0]);
        }
        let pair = [Self::joined(kind, one, other), back];
        let own = attributes().as_peer();
        pair.iter().for_each(|socket| socket.ends.lock().peer = Some(own));
        Ok(pair)
    }

    /// Whether messages have borders.
    pub const fn is_bordered(&self) -> bool {
        !matches!(self.kind, Kind::Stream)
    }

    /// The page that a name is to lead to: what all have in common, or for datagrams the pipe.
    pub fn page_to_bind(&self) -> Result<PageNumber> {
        let mut ends = self.ends();
        if self.kind != Kind::Datagram {
            return self.common.as_ref().map(SharedSocketState::page).ok_or(Errno::EINVAL);
        }
        let pipe = ends.incoming.take().map_or_else(fresh_pipe_for_datagrams, Ok)?;
        pipe.ask_for_senders(self.settings.wants_credentials());
        pipe.take_only_from(first_of(&ends.outgoing));
        Ok(ends.incoming.insert(pipe).pages()[0])
    }

    /// It has a name, whose node its descriptors in this process hold together if the name is abstract.
    pub fn be_named(&self, description: &OpenFile, name: Vec<u8>, node: Option<u64>) {
        self.change(Some(description), |ends| {
            ends.names[0] = name;
            ends.node = node.or(ends.node);
        });
    }

    /// Its own name (0), or that of the other side; what begins with a NUL is abstract.
    pub fn name_of(&self, whose: usize) -> Vec<u8> {
        self.ends().names[whose].clone()
    }

    /// Joins it to what a name leads to, where its owner listens; `None`: the queue is full.
    /// `by_server` is for [`Self::ask`].
    pub fn connect(
        &self,
        description: &OpenFile,
        name: &[u8],
        peer: Peer,
        by_server: impl FnOnce(Request) -> Result<Peer>,
    ) -> Result<Option<()>> {
        if self.kind == Kind::Datagram {
            return self.connect_for_datagrams(description, name, peer).map(Some);
        }
        let Some(joined) = self.join(peer, by_server)? else { return Ok(None) };
        let outcome = self.change(Some(description), |ends| {
            if ends.outgoing.is_some() {
                return Err(joined);
            }
            (ends.incoming, ends.outgoing, ends.request) = (joined.incoming, joined.outgoing, joined.request);
            (ends.peer, ends.names[1]) = (joined.peer, name.to_vec());
            Ok(Some(()))
        });
        outcome.map_err(|joined| {
            // Another one that holds it was faster.
            let late = Self::of(self.kind, None, joined, self.settings);
            late.end();
            late.discard();
            Errno::EISCONN
        })
    }

    fn join(&self, peer: Peer, by_server: impl FnOnce(Request) -> Result<Peer>) -> Result<Option<Ends>> {
        if self.ends().outgoing.is_some() {
            return Err(Errno::EISCONN);
        }
        if self.is_listening() {
            return Err(Errno::EINVAL);
        }
        self.ask(peer, by_server)
    }

    /// Descriptors of this process that stand for it.
    pub(crate) fn descriptors(&self) -> usize {
        let is_this = |object: &Object| match object {
            Object::Other(other) => core::ptr::addr_eq(alloc::sync::Arc::as_ptr(other), self),
            _ => false,
        };
        descriptors().table.lock().iter().filter(|(_, description)| is_this(&description.object)).count()
    }

    /// Ends one direction, or both, for all who have the socket.
    pub fn shut(&self, reads: bool, writes: bool) {
        if self.kind == Kind::Datagram {
            return self.shut_for_datagrams(reads, writes);
        }
        let ends = self.ends();
        ends.outgoing.iter().filter(|_| writes).for_each(Pipe::shut);
        ends.incoming.iter().filter(|_| reads).for_each(Pipe::shut);
        if let Some(words) = self.queue_words().filter(|_| reads) {
            words[BACKLOG].store(SHUT, SeqCst);
            bells::tell(&words[WATCH]);
            wait::kick_idle();
        }
    }

    /// Whether it has a connection neither behind nor before it.
    fn is_unconnected(&self) -> bool {
        self.kind != Kind::Datagram && !self.is_listening() && self.ends().outgoing.is_none()
    }

    /// Sends to what it is joined to, or to `pipe`: how many bytes were taken.
    pub fn send(&self, pipe: &Pipe, message: Outgoing<'_>, nonblocking: bool) -> Result<u64> {
        let Outgoing { control, data, claimed } = message;
        if self.kind == Kind::Datagram {
            self.check_datagram(pipe)?;
        }
        self.check_length(pipe, data.len() as u64)?;
        // Of a stream no bytes are nothing, and no end of it.
        if data.is_empty() && !self.is_bordered() && pipe.has_other(Side::Write) {
            return Ok(0);
        }
        let mut done = 0;
        let deadline = self.deadline(1);
        let mut voucher = self.vouch_for_sender(pipe, claimed)?;
        loop {
            if !pipe.has_other(Side::Write) {
                return match self.kind {
                    _ if done > 0 => Ok(done),
                    Kind::Datagram => Err(Errno::ECONNREFUSED),
                    Kind::Packets => Err(self.take_error().unwrap_or(Errno::EPIPE)),
                    Kind::Stream => Err(Errno::EPIPE),
                };
            }
            let rest = &data[done as usize..];
            let control = if done == 0 { control } else { &[] };
            match pipe.send_frame(voucher, control, rest, self.is_bordered())? {
                Some(taken) if taken == rest.len() as u64 => return Ok(done + taken),
                Some(taken) => {
                    done += taken;
                    voucher = self.vouch_for_sender(pipe, claimed)?;
                }
                None if pipe.grow_as_socket() => {}
                None if nonblocking && done == 0 => return Err(Errno::EAGAIN),
                None if nonblocking => return Ok(done),
                None => {
                    let needed = if self.is_bordered() { rest.len() as u64 } else { 0 };
                    pipe.note_waiter(Event::Writable);
                    match wait_until(&pipe.room_for(needed), deadline) {
                        Err(_) if done > 0 => return Ok(done),
                        outcome => outcome?,
                    };
                }
            }
        }
    }

    /// Whether a message can have so many bytes.
    fn check_length(&self, pipe: &Pipe, bytes: u64) -> Result<()> {
        if self.is_bordered() && bytes > LONGEST {
            return Err(Errno::EMSGSIZE);
        }
        let fits = !self.is_bordered() || pipe.can_hold(bytes) || pipe.grow_as_socket();
        if fits { Ok(()) } else { Err(Errno::ENOBUFS) }
    }

    /// What goes with the bytes of a message: the name that a datagram is sent from, and packed descriptors.
    pub fn control_of(&self, rights: &[u8]) -> Vec<u8> {
        let own_name = if self.kind == Kind::Datagram { self.name_of(0) } else { Vec::new() };
        Frame::control_of(&own_name, rights)
    }

    /// Sends what `write` is given.
    fn send_bytes(&self, bytes: &[u8], nonblocking: bool) -> Result<u64> {
        let control = self.control_of(&[]);
        let sent = self.send(&self.outgoing()?, Outgoing::bytes(&control, bytes), nonblocking);
        if sent == Err(Errno::EPIPE) {
            crate::signal::raise_here(linux::SIGPIPE);
        }
        sent
    }

    /// Receives a message, or what a stream has; an empty one at its end.
    pub fn receive(&self, most: u64, manner: Manner, nonblocking: bool) -> Result<Frame> {
        let deadline = self.deadline(0);
        let incoming = self.incoming(nonblocking, deadline)?;
        if self.kind == Kind::Datagram
            && let Some(error) = self.take_error()
        {
            return Err(error);
        }
        loop {
            // Looked at first: what was sent before it was closed is there by then.
            let has_other = incoming.has_other(Side::Read);
            if let Some(frame) = incoming.receive_frame(most, manner)? {
                let mut frame = self.receive_more(&incoming, frame, most, manner)?;
                scm_rights::drop_foreign(self, &mut frame);
                return Ok(frame);
            }
            if !has_other && !(nonblocking && self.kind == Kind::Datagram) {
                return self.take_error().map_or_else(|| Ok(Frame::default()), Err);
            }
            if nonblocking {
                return Err(Errno::EAGAIN);
            }
            incoming.note_waiter(Event::Readable);
            wait_until(&incoming.readable(), deadline)?;
        }
    }

    /// Receives bytes alone: descriptors that come with them are closed.
    pub fn take_bytes(&self, most: u64, nonblocking: bool) -> Result<Vec<u8>> {
        let manner = Manner { bordered: self.is_bordered(), peek: false };
        let frame = self.receive(most, manner, nonblocking)?;
        frame.parts().into_iter().for_each(|(_, rights)| scm_rights::drop_all(rights));
        Ok(frame.data)
    }

    /// Where messages come from. Those without a connection may come once the socket has a name.
    fn incoming(&self, nonblocking: bool, deadline: Option<u64>) -> Result<Pipe> {
        loop {
            let ends = self.ends();
            if let Some(incoming) = &ends.incoming {
                return Ok(incoming.clone());
            }
            match (self.kind, &self.common) {
                (Kind::Stream, _) => return Err(Errno::EINVAL),
                (Kind::Datagram, Some(common)) if !nonblocking => {
                    let changes = common.changes(ends.seen);
                    drop(ends);
                    wait_until(&[changes], deadline)?;
                }
                (Kind::Datagram, _) => return Err(Errno::EAGAIN),
                (Kind::Packets, _) => return Err(Errno::ENOTCONN),
            }
        }
    }

    /// A stream has no borders: what came of it is taken together, up to what carries descriptors. With credentials,
    /// what different processes wrote stays apart.
    fn receive_more(&self, incoming: &Pipe, mut frame: Frame, most: u64, manner: Manner) -> Result<Frame> {
        let alone = self.settings.wants_credentials() || manner.bordered;
        if manner.peek && !alone {
            incoming.peek_further(&mut frame, most)?;
            return Ok(frame);
        }
        while !alone && !manner.peek && frame.control.is_empty() && (frame.data.len() as u64) < most {
            let Some(more) = incoming.receive_frame(most - frame.data.len() as u64, manner)? else { break };
            frame.data.extend_from_slice(&more.data);
            frame.control = more.control;
        }
        Ok(frame)
    }

    /// When a receiver (0) or a sender (1) that begins to wait now gives up.
    pub fn deadline(&self, which: usize) -> Option<u64> {
        let patience = self.settings.patience(which);
        (patience != 0).then(|| runtime::clock::now().saturating_add(patience))
    }

    /// The access list of the process that took over, as another user, the other end of a pair that this process made
    /// (`process::change_user`).
    pub fn heirs_list(&self) -> Option<PageNumber> {
        let ends = self.ends.lock();
        let is_own_pair = ends.peer.is_some_and(|peer| u64::from(peer.process) == domain().number());
        let under = exposed::page(ends.outgoing.as_ref()?.pages()[0])?.access();
        (is_own_pair && under != area::access_list()).then_some(under)
    }

    /// Where messages go.
    pub fn outgoing(&self) -> Result<Pipe> {
        self.ends().outgoing.clone().ok_or(Errno::ENOTCONN)
    }

    /// The last holder is gone: its peer learns of that, and the processes that wait in its queue too.
    fn end(&self) {
        while let Ok(Some(socket)) = self.accept() {
            socket.break_off();
            socket.closed(true);
            socket.discard();
        }
        if self.drop_messages() {
            self.break_off();
        }
        self.take_last_hold();
        let ends = self.ends();
        ends.incoming.iter().for_each(|pipe| pipe.leave(Side::Read));
        // A datagram's receiver works without this sender.
        ends.outgoing.iter().filter(|_| self.kind != Kind::Datagram).for_each(|pipe| pipe.leave(Side::Write));
        if let Some(common) = &self.common {
            common.words()[BACKLOG].store(0, SeqCst);
        }
    }

    /// Closes descriptors in messages that no process receives any more. Whether there were messages.
    pub(crate) fn drop_messages(&self) -> bool {
        let Some(incoming) = self.ends().incoming.clone() else { return false };
        let manner = Manner { bordered: self.is_bordered(), peek: false };
        let mut any = false;
        while let Ok(Some(mut frame)) = incoming.receive_frame(u64::MAX, manner) {
            scm_rights::drop_foreign(self, &mut frame);
            frame.parts().into_iter().for_each(|(_, rights)| scm_rights::drop_all(rights));
            any = true;
        }
        any
    }

    /// The other side of a connection is to learn that not all was read which it sent, or nothing accepted.
    fn break_off(&self) {
        let ends = self.ends();
        ends.outgoing.iter().filter(|_| self.kind != Kind::Datagram).for_each(Pipe::reset_peer);
    }

    /// Whether the other side broke the connection off, and the program was not told yet.
    pub fn is_broken_off(&self) -> bool {
        self.ends().incoming.as_ref().is_some_and(Pipe::is_broken_off)
    }

    /// The error of a connection that was broken off: it is told once.
    pub fn take_error(&self) -> Option<Errno> {
        let incoming = self.ends().incoming.clone()?;
        incoming.take_break().then_some(Errno::ECONNRESET)
    }

    /// True when a holder joins it.
    fn joins(&self, seen: u64) -> Vec<Term> {
        self.common.iter().map(|common| common.changes(seen)).collect()
    }

    fn discard(&self) {
        let mut ends = self.ends.lock();
        let pipes = [ends.incoming.take(), ends.outgoing.take()];
        drop(ends);
        pipes.iter().flatten().for_each(pipe::discard);
        self.common.iter().for_each(SharedSocketState::discard);
    }
}

impl FileOps for Socket {
    fn locks(&self) -> [Option<&OwnerLock>; 2] {
        [Some(self.ends.owner_lock()), Some(self.last_sender.owner_lock())]
    }

    fn read(&self, description: &OpenFile, to: u64, count: u64) -> Result<u64> {
        if count == 0 {
            return Ok(0);
        }
        usercopy::prepare(to, count.min(1 << 16), true)?;
        let bytes = self.take_bytes(count.min(1 << 16), description.is_nonblocking())?;
        usercopy::write(to, &bytes)?;
        Ok(bytes.len() as u64)
    }

    fn write(&self, description: &OpenFile, from: u64, count: u64) -> Result<u64> {
        const PIECE: u64 = 1 << 16;
        let mut done = 0;
        loop {
            let wanted = (count - done).min(PIECE);
            let sent = usercopy::read_vec(from.saturating_add(done), wanted as usize)
                .and_then(|bytes| self.write_bytes(description, &bytes));
            match sent {
                Err(_) if done > 0 => return Ok(done),
                sent => done += sent?,
            }
            // A message that is so long was refused.
            if done == count || done % PIECE != 0 {
                return Ok(done);
            }
        }
    }

    fn write_bytes(&self, description: &OpenFile, bytes: &[u8]) -> Result<u64> {
        self.send_bytes(bytes, description.is_nonblocking())
    }

    fn write_now(&self, bytes: &[u8]) -> Result<u64> {
        self.send_bytes(bytes, true)
    }

    fn wait_to_write(&self, bytes: u64) -> Result<()> {
        let needed = if self.is_bordered() { bytes } else { 0 };
        self.note_waiter(Event::Writable);
        wait_until(&self.outgoing()?.room_for(needed), self.deadline(1))
    }

    fn note_waiter(&self, event: Event) {
        let ends = self.ends();
        let pipe = if event == Event::Readable { &ends.incoming } else { &ends.outgoing };
        pipe.iter().for_each(|pipe| pipe.note_waiter(event));
    }

    fn is_ready(&self, event: Event) -> bool {
        if self.is_unconnected() {
            return event == Event::Writable;
        }
        if let Some(words) = self.queue_words() {
            let has_come = words[CAME].load(Acquire) != words[TAKEN].load(Acquire);
            return event == Event::Readable && (has_come || self.has_stopped_listening());
        }
        let ends = self.ends();
        match (event, &ends.incoming, &ends.outgoing) {
            (Event::Readable, Some(pipe), _) => pipe.ring().waiting() != Ok(0) || !pipe.has_other(Side::Read),
            (Event::Writable, _, Some(pipe)) => {
                pipe.ring().room().is_ok_and(|room| room >= ENOUGH) || !pipe.has_other(Side::Write)
            }
            (Event::Writable, ..) => self.kind == Kind::Datagram,
            _ => false,
        }
    }

    fn wait_terms(&self, event: Event) -> Vec<Term> {
        if let Some(words) = self.queue_words() {
            let has_come = word(&words[CAME], Operator::NotEqual, words[TAKEN].load(Acquire));
            return Vec::from([has_come, word(&words[BACKLOG], Operator::Equal, SHUT)]);
        }
        let ends = self.ends();
        match (event, &ends.incoming, &ends.outgoing) {
            (Event::Readable, Some(pipe), _) => pipe.readable().to_vec(),
            (Event::Writable, _, Some(pipe)) => pipe.room_for(4096).to_vec(),
            _ => self.joins(ends.seen),
        }
    }

    fn filled_at(&self) -> u64 {
        match self.queue_words() {
            Some(words) => words[FILLED_AT].load(Relaxed),
            None => self.ends().incoming.as_ref().map_or(0, Pipe::filled_at),
        }
    }

    fn counts_events(&self) -> bool {
        true
    }

    fn event_sequence(&self, event: Event) -> u64 {
        if let Some(words) = self.queue_words() {
            return words[CAME].load(Acquire);
        }
        let ends = self.ends();
        match (event, &ends.incoming, &ends.outgoing) {
            (Event::Readable, Some(pipe), outgoing) => {
                let is_open = pipe.has_other(Side::Read);
                // The other side may have ended its half before it closes the socket.
                let is_closed = !is_open && outgoing.as_ref().is_some_and(|pipe| !pipe.has_other(Side::Write));
                pipe.ring().written << 2 | u64::from(is_open) << 1 | u64::from(is_closed)
            }
            (Event::Writable, _, Some(pipe)) => pipe.ring().read << 1 | u64::from(pipe.has_other(Side::Write)),
            _ => 0,
        }
    }

    fn edge_terms(&self, event: Event) -> Vec<Term> {
        if let Some(words) = self.queue_words() {
            return Vec::from([word(&words[CAME], Operator::NotEqual, words[CAME].load(Acquire))]);
        }
        let ends = self.ends();
        match (event, &ends.incoming, &ends.outgoing) {
            (Event::Readable, Some(incoming), Some(outgoing)) if !incoming.has_other(Side::Read) => {
                outgoing.changes(false)[1..].to_vec()
            }
            (Event::Readable, Some(pipe), _) => pipe.changes(true).to_vec(),
            (Event::Writable, _, Some(pipe)) => pipe.changes(false).to_vec(),
            _ => self.joins(ends.seen),
        }
    }

    /// It has the bells of its pipes, or one of its queue.
    fn ask_for_bell(&self, asked: u64, bell: u32, each: bool) -> Option<u64> {
        if each || asked & watch::SENT == 0 {
            return None;
        }
        if let Some(words) = self.queue_words() {
            bells::ask(&words[WATCH], bell);
            return Some(0);
        }
        let ends = self.ends();
        let outgoing = || ends.outgoing.iter().all(|pipe| pipe.ask_for_bell(Side::Write, bell));
        (ends.incoming.as_ref()?.ask_for_bell(Side::Read, bell) && outgoing()).then_some(0)
    }

    fn death_terms(&self) -> Vec<Term> {
        let ends = self.ends();
        let incoming = ends.incoming.as_ref().and_then(|pipe| pipe.death_term(Side::Read));
        let outgoing = ends.outgoing.as_ref().and_then(|pipe| pipe.death_term(Side::Write));
        incoming.into_iter().chain(outgoing).collect()
    }

    fn end_terms(&self) -> Vec<Term> {
        [Event::Readable, Event::Writable].into_iter().flat_map(|event| self.edge_terms(event)).collect()
    }

    fn is_hung_up(&self) -> bool {
        if self.is_unconnected() {
            return true;
        }
        let ends = self.ends();
        let gone = |pipe: &Option<Pipe>, side| pipe.as_ref().is_some_and(|pipe| !pipe.has_other(side));
        let writes_no_more = match self.kind {
            Kind::Datagram => self.settings.writes_no_more(),
            _ => gone(&ends.outgoing, Side::Write),
        };
        writes_no_more && gone(&ends.incoming, Side::Read)
    }

    fn closed(&self, ended: bool) {
        if ended {
            self.end();
            self.leave_behind();
        }
        self.each_pipe(&mut |pipe, side| pipe.release_end(side, domain().environment()));
    }

    fn gone(&self) {
        self.discard();
    }

    fn status(&self) -> (u32, u64) {
        // Datagrams are sent to the page of a pipe, connections are made by the page that all have in common.
        let incoming = self.ends.lock().incoming.as_ref().map(|pipe| pipe.pages()[0]);
        let common = self.common.as_ref().map(SharedSocketState::page);
        let page = if self.kind == Kind::Datagram { incoming.or(common) } else { common.or(incoming) };
        let page = page.unwrap_or(PageNumber(0));
        (linux::S_IFSOCK | 0o777, page.0)
    }

    fn name(&self) -> String {
        format!("socket:[{}]", self.status().1)
    }

    fn waiting(&self) -> Result<u64> {
        let incoming = self.ends().incoming.clone();
        incoming.map_or(Ok(0), |pipe| pipe.data_waiting(self.is_bordered()))
    }

    /// `SIOCOUTQ`: bytes that it sent and that the peer has not received yet.
    fn ioctl(&self, request: u32, argument: u64) -> Result<u64> {
        if request != ioctl::TIOCOUTQ {
            return super::device_request::device_request(None, internet::address::Family::V6, request, argument);
        }
        let outgoing = self.ends().outgoing.clone();
        let waiting = outgoing.map_or(Ok(0), |pipe| pipe.data_waiting(false))?;
        usercopy::write_half(argument, waiting as u32).map(|()| 0)
    }

    fn node(&self) -> Option<u64> {
        self.ends.lock().node
    }

    fn each_pipe(&self, action: &mut dyn FnMut(&Pipe, Side)) {
        let ends = self.ends.lock();
        ends.incoming.iter().for_each(|pipe| action(pipe, Side::Read));
        let outgoing = ends.outgoing.iter().filter(|_| self.kind != Kind::Datagram);
        outgoing.for_each(|pipe| action(pipe, Side::Write));
    }

    fn pages(&self) -> Vec<PageNumber> {
        let ends = self.ends.lock();
        let pipes = [&ends.incoming, &ends.outgoing].into_iter().flatten().map(Pipe::all_pages);
        pipes.chain(self.common.as_ref().map(|common| vec![common.page()])).flatten().collect()
    }

    fn is_half_closed(&self) -> bool {
        let ends = self.ends();
        ends.incoming.as_ref().is_some_and(|pipe| !pipe.has_other(Side::Read))
    }
}
