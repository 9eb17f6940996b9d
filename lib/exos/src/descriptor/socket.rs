//! Unix-domain sockets (unix(7)): two pipes of frames, one each way; a listener's queue is a page where each who connects
//! leaves the first pages of two pipes that it made.
//!
//! Names lie with the guardian. What a socket is connected to lies in the process: relatives share the pipes, not a later
//! `connect`.

use super::description::Description;
use super::object::{Event, Object};
use super::operations::Operations;
use super::passing;
use crate::block::{self, Woken};
use crate::errno::{Errno, Result};
use crate::pipe::frames::{Frame, LONGEST, Manner};
use crate::pipe::{self, Pipe, Side};
use crate::process::peer::Peer;
use crate::user_memory::copy;
use crate::user_memory::current::process;
use crate::user_memory::shared::{Shared, lock_in};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, SeqCst};
use linux_raw_sys::general as linux;
use runtime::lock::{Lock, OwnerLock};
use runtime::page::Allocator;
use runtime::predicate::{Operator, Term, word};
use runtime::{PageNumber, area, exposed};

/// Words of a listener's queue: requests that came, and that were taken; how many may wait, 0: nobody listens.
const CAME: usize = 1;
const TAKEN: usize = 2;
const BACKLOG: usize = 3;
/// In place of how many may wait: `shutdown` has ended the listening, and who waits to accept learns of that.
const SHUT: u64 = u64::MAX;
/// Where the requests begin, three words each (first pages of two pipes, and the number by which the guardian says whose they
/// are), and how many there is room for.
const REQUESTS: usize = 16;
const ROOM: u64 = 128;
/// Bytes of room from which on a socket counts as writable.
const ENOUGH: u64 = 8192;

/// Kinds of sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A stream of bytes.
    Stream = 1,
    /// Messages without a connection.
    Datagram = 2,
    /// Messages over a connection.
    Packets = 5,
}

/// What a socket is joined to.
#[derive(Debug, Default)]
pub struct Ends {
    /// Where messages come from.
    pub incoming: Option<Pipe>,
    /// Where they go.
    pub outgoing: Option<Pipe>,
    /// Where those wait who connect.
    queue: Option<Shared>,
    /// Its own name, and that of the other side; what begins with a NUL is abstract.
    pub names: [Vec<u8>; 2],
    /// Node that each descriptor holds while an abstract name leads here.
    pub node: Option<u64>,
    /// Who is at the other end, or listens here.
    pub peer: Option<Peer>,
    /// Number by which the guardian knows a connection that was made here.
    request: Option<u64>,
}

/// What is sent.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// What goes with the bytes.
    pub control: &'a [u8],
    /// The bytes.
    pub data: &'a [u8],
    /// Who the program says that it is.
    pub claimed: Option<Peer>,
}

impl<'a> Outgoing<'a> {
    /// Bytes from whoever really sends them.
    pub const fn bytes(control: &'a [u8], data: &'a [u8]) -> Self {
        Self { control, data, claimed: None }
    }
}

/// What a program has set (socket(7)).
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// Nanoseconds that a receiver waits, and a sender; 0: for ever.
    pub patience: [u64; 2],
    /// Messages come with who sent them.
    pub wants_credentials: bool,
    /// Options that change nothing here, and are told as they were set: those that are on or off, as bits; and numbers.
    pub flags: u64,
    /// See [`Self::flags`].
    pub numbers: [u32; 5],
    /// Who sent the last message that was asked about, by its number and end.
    pub(super) last_sender: Option<((u64, u64), Peer)>,
}

/// A socket.
#[derive(Debug)]
pub struct Socket {
    /// Its kind.
    pub kind: Kind,
    /// What it is joined to.
    pub ends: Lock<Ends>,
    /// What the program has set.
    pub settings: Lock<Settings>,
}

/// Waits, until a time at most: `EAGAIN` when it has come. After a signal the time would begin anew: then the wait is over.
pub fn wait_until(terms: &[Term], deadline: Option<u64>) -> Result<()> {
    match block::wait(terms, deadline) {
        Ok(Woken::TimedOut) => Err(Errno::EAGAIN),
        Ok(Woken::Condition) => Ok(()),
        Err(Errno::EINTR) if deadline.is_some() => Err(Errno::INTERRUPTED_FOR_GOOD),
        Err(error) => Err(error),
    }
}

/// Pages that relatives, and whoever the session's key opens them to, can share.
fn from() -> Allocator {
    Allocator { key: process().session_key, ..Allocator::own() }
}

fn fresh_pipe() -> Result<Pipe> {
    fresh_pipe_from(from())
}

fn fresh_pipe_from(from: Allocator) -> Result<Pipe> {
    crate::budget::reserve(2 * pipe::PAGES as u64);
    Pipe::create(&mut process().windows.lock(), from)
}

/// Pages that whoever listens at a queue can open too: another user does where user 0 connects.
fn from_list_of(queue: &Shared) -> Allocator {
    let list = exposed::page(queue.pages()[0]).map_or(from().list, |info| info.access());
    Allocator { list, ..from() }
}

/// One that anybody may write datagrams into.
fn fresh_pipe_for_datagrams() -> Result<Pipe> {
    fresh_pipe().inspect(Pipe::give_up_counting_writers)
}

impl Socket {
    /// One that is joined to nothing.
    pub fn new(kind: Kind) -> Self {
        Self { kind, ends: Lock::new(Ends::default()), settings: Lock::new(Settings::default()) }
    }

    /// One that is joined to these.
    pub fn joined(kind: Kind, incoming: Pipe, outgoing: Pipe) -> Self {
        let ends = Ends { incoming: Some(incoming), outgoing: Some(outgoing), ..Ends::default() };
        Self { ends: Lock::new(ends), ..Self::new(kind) }
    }

    /// First pages of what it is joined to, and the page of its queue; `NONE` for what there is not.
    pub fn places(&self) -> [PageNumber; 3] {
        let ends = self.ends.lock();
        let first = |pages: Option<&[PageNumber]>| pages.map_or(PageNumber::NONE, |pages| pages[0]);
        [
            first(ends.incoming.as_ref().map(Pipe::pages)),
            first(ends.outgoing.as_ref().map(Pipe::pages)),
            first(ends.queue.as_ref().map(Shared::pages)),
        ]
    }

    /// One that came in a message, by its pages.
    pub fn open(
        kind: Kind,
        [incoming, outgoing, queue]: [PageNumber; 3],
        node: Option<u64>,
        voucher: u64,
    ) -> Result<Self> {
        let key = process().opening_key();
        let mut windows = process().windows.lock();
        let mut pipe = |first: PageNumber| match first {
            PageNumber::NONE => Ok(None),
            first => Pipe::open_by_first(&mut windows, first, key).map(Some),
        };
        let (incoming, outgoing) = (pipe(incoming)?, pipe(outgoing)?);
        let queue = match queue {
            PageNumber::NONE => None,
            page => Some(windows.open(vec![page], key, true)?),
        };
        let peer = Self::passed(voucher, outgoing.is_some());
        let ends = Ends { incoming, outgoing, queue, node, peer, ..Ends::default() };
        Ok(Self { ends: Lock::new(ends), ..Self::new(kind) })
    }

    /// Two that are joined to each other.
    pub fn pair(kind: Kind) -> Result<[Self; 2]> {
        let fresh = if kind == Kind::Datagram { fresh_pipe_for_datagrams } else { fresh_pipe };
        let (one, other) = (fresh()?, fresh()?);
        // Windows of its own, so that each can be closed without the other.
        let again = |pipe: &Pipe| Pipe::open(&mut process().windows.lock(), pipe.pages(), from().key);
        let back = Self::joined(kind, again(&other)?, again(&one)?);
        let pair = [Self::joined(kind, one, other), back];
        let own = process().as_peer();
        pair.iter().for_each(|socket| socket.ends.lock().peer = Some(own));
        Ok(pair)
    }

    /// Whether messages have borders.
    pub const fn is_bordered(&self) -> bool {
        !matches!(self.kind, Kind::Stream)
    }

    /// The page that a name is to lead to: of the queue, or for datagrams of the pipe.
    pub fn page_to_bind(&self) -> Result<PageNumber> {
        let mut ends = self.ends.lock();
        if !ends.names[0].is_empty() {
            return Err(Errno::EINVAL);
        }
        if self.kind == Kind::Datagram {
            let pipe = ends.incoming.take().map_or_else(fresh_pipe_for_datagrams, Ok)?;
            pipe.ask_for_senders(self.settings.lock().wants_credentials);
            return Ok(ends.incoming.insert(pipe).pages()[0]);
        }
        let page = crate::budget::allocate()?;
        let queue = process().windows.lock().open(vec![page], from().key, true)?;
        ends.queue = Some(queue);
        Ok(page)
    }

    /// Lets others connect.
    pub fn listen(&self, backlog: u64) -> Result<()> {
        let mut ends = self.ends.lock();
        if self.kind == Kind::Datagram {
            return Err(Errno::EOPNOTSUPP);
        }
        ends.peer = Some(process().as_peer());
        let queue = ends.queue.as_ref().ok_or(Errno::EINVAL)?;
        process().files.lock().listen(queue.pages()[0])?;
        queue.words()[BACKLOG].store(backlog.clamp(1, ROOM), SeqCst);
        Ok(())
    }

    /// Whether it takes connections.
    pub fn is_listening(&self) -> bool {
        self.ends.lock().queue.as_ref().is_some_and(|queue| queue.words()[BACKLOG].load(Acquire) != 0)
    }

    /// Whether nobody can connect any more to what listened here.
    pub fn has_stopped_listening(&self) -> bool {
        self.queue_words().is_some_and(|words| words[BACKLOG].load(Acquire) == SHUT)
    }

    /// Joins it to what a name leads to, where `peer` listens; `None`: the queue is full.
    pub fn connect(&self, page: PageNumber, peer: Peer) -> Result<Option<()>> {
        if self.kind == Kind::Datagram {
            let pipe = Pipe::open_by_first(&mut process().windows.lock(), page, process().session_key);
            let pipe = pipe.map_err(|_| Errno::ECONNREFUSED)?;
            self.ends.lock().outgoing = Some(pipe);
            return Ok(Some(()));
        }
        if self.ends.lock().outgoing.is_some() {
            return Err(Errno::EISCONN);
        }
        let queue = process().windows.lock().open(vec![page], process().session_key, true);
        let queue = queue.map_err(|_| Errno::ECONNREFUSED)?;
        let outcome = self.ask(&queue);
        process().windows.lock().close(&queue);
        if outcome == Ok(Some(())) {
            self.ends.lock().peer = Some(peer);
        }
        outcome
    }

    fn ask(&self, queue: &Shared) -> Result<Option<()>> {
        let words = queue.words();
        if !(1..=ROOM).contains(&words[BACKLOG].load(Acquire)) {
            return Err(Errno::ECONNREFUSED);
        }
        let from = from_list_of(queue);
        let (outgoing, incoming) = (fresh_pipe_from(from)?, fresh_pipe_from(from)?);
        let number = self.introduce(&outgoing, &incoming)?;
        // Until somebody has accepted, who that is may want to know.
        outgoing.ask_for_senders(true);
        incoming.ask_for_senders(self.settings.lock().wants_credentials);
        let held = lock_in(queue).acquire();
        let came = words[CAME].load(Acquire);
        let waiting = came.wrapping_sub(words[TAKEN].load(Acquire));
        if waiting > words[BACKLOG].load(Acquire).min(ROOM - 1) {
            drop(held);
            pipe::discard(&outgoing);
            pipe::discard(&incoming);
            return Ok(None);
        }
        outgoing.set_name(&self.ends.lock().names[0]);
        let request = [outgoing.pages()[0].0, incoming.pages()[0].0, number];
        for (index, word) in request.into_iter().enumerate() {
            words[REQUESTS + (came % ROOM) as usize * request.len() + index].store(word, SeqCst);
        }
        words[CAME].store(came.wrapping_add(1), SeqCst);
        drop(held);
        block::kick_idle();
        for _ in 1..self.descriptors() {
            incoming.held(Side::Read, process().environment());
            outgoing.held(Side::Write, process().environment());
        }
        let mut ends = self.ends.lock();
        (ends.outgoing, ends.incoming, ends.request) = (Some(outgoing), Some(incoming), Some(number));
        Ok(Some(()))
    }

    /// Descriptors of this process that stand for it.
    fn descriptors(&self) -> usize {
        let is_this = |object: &Object| match object {
            Object::Other(other) => core::ptr::addr_eq(alloc::sync::Arc::as_ptr(other), self),
            _ => false,
        };
        process().descriptors.lock().iter().filter(|(_, description)| is_this(&description.object)).count()
    }

    /// The next who connected; `None` where nobody waits.
    pub fn accept(&self) -> Result<Option<Self>> {
        loop {
            let Some((pages, number)) = self.take_request()? else { return Ok(None) };
            // Who was destroyed since has taken its pages along.
            let Some([incoming, outgoing]) = Self::connection(pages, number)? else { continue };
            let names = [self.ends.lock().names[0].clone(), incoming.name()];
            let accepted = Self::joined(self.kind, incoming, outgoing);
            {
                let mut ends = accepted.ends.lock();
                (ends.names, ends.peer) = (names, Some(Self::introduced(number, pages)));
            }
            accepted.ask_for_senders(self.settings.lock().wants_credentials);
            return Ok(Some(accepted));
        }
    }

    /// The two pipes of who connected, or two like them where it has closed its socket; none where it is gone without.
    fn connection(pages: [PageNumber; 2], number: u64) -> Result<Option<[Pipe; 2]>> {
        let opened = {
            let mut windows = process().windows.lock();
            match pages.map(|page| Pipe::open_by_first(&mut windows, page, process().session_key)) {
                [Ok(incoming), Ok(outgoing)] => Some([incoming, outgoing]),
                others => {
                    others.iter().flatten().for_each(|pipe| windows.close(pipe.window()));
                    None
                }
            }
        };
        if let Some([incoming, outgoing]) = &opened {
            incoming.note_accepted();
            incoming.handed_over(Side::Read);
            outgoing.handed_over(Side::Write);
            if incoming.has_other(Side::Read) {
                return Ok(opened);
            }
        }
        let Some((read, sent)) = process().files.lock().take_left(number)? else { return Ok(opened) };
        opened.iter().flatten().for_each(|pipe| process().windows.lock().close(pipe.window()));
        let [incoming, outgoing] = [fresh_pipe()?, fresh_pipe()?];
        incoming.fill_as_left(read, &sent)?;
        outgoing.give_up(Side::Read);
        Ok(Some([incoming, outgoing]))
    }

    /// Leaves with the guardian what was sent, if nobody has accepted it yet.
    fn leave_behind(&self) {
        let ends = self.ends.lock();
        let (Some(number), Some(outgoing)) = (ends.request, &ends.outgoing) else { return };
        if !outgoing.is_accepted()
            && let Ok((read, sent)) = outgoing.left_behind()
        {
            // Somebody has accepted meanwhile, or there is no room: then it is lost, as it would be with the machine.
            let _ = process().files.lock().leave_behind(number, read, &sent);
        }
    }

    fn take_request(&self) -> Result<Option<([PageNumber; 2], u64)>> {
        let ends = self.ends.lock();
        let queue = ends.queue.as_ref().ok_or(Errno::EINVAL)?;
        let words = queue.words();
        let _held = lock_in(queue).acquire();
        let taken = words[TAKEN].load(Acquire);
        if words[CAME].load(Acquire) == taken {
            return Ok(None);
        }
        words[TAKEN].store(taken.wrapping_add(1), SeqCst);
        let at = REQUESTS + (taken % ROOM) as usize * 3;
        let [incoming, outgoing, number] = [0, 1, 2].map(|index| words[at + index].load(Acquire));
        Ok(Some(([incoming, outgoing].map(PageNumber), number)))
    }

    /// Ends one direction, or both, for all who have the socket.
    pub fn shut(&self, reads: bool, writes: bool) {
        let ends = self.ends.lock();
        ends.outgoing.iter().filter(|_| writes).for_each(Pipe::shut);
        ends.incoming.iter().filter(|_| reads).for_each(Pipe::shut);
        if let Some(queue) = ends.queue.as_ref().filter(|_| reads) {
            let change = |backlog: u64| (backlog != 0).then_some(SHUT);
            // Where nobody listens there is nothing to end.
            let _ = queue.words()[BACKLOG].fetch_update(SeqCst, Acquire, change);
            block::kick_idle();
        }
    }

    /// Whether it has a connection neither behind nor before it.
    fn is_unconnected(&self) -> bool {
        self.kind != Kind::Datagram && !self.is_listening() && self.ends.lock().outgoing.is_none()
    }

    /// Sends to what it is joined to, or to `pipe`: how many bytes were taken.
    pub fn send(&self, pipe: &Pipe, message: Outgoing<'_>, nonblocking: bool) -> Result<u64> {
        let Outgoing { control, data, claimed } = message;
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
        let own_name = if self.kind == Kind::Datagram { self.ends.lock().names[0].clone() } else { Vec::new() };
        Frame::control_of(&own_name, rights)
    }

    /// Sends what `write` is given.
    fn send_bytes(&self, bytes: &[u8], nonblocking: bool) -> Result<u64> {
        let control = self.control_of(&[]);
        let sent = self.send(&self.outgoing()?, Outgoing::bytes(&control, bytes), nonblocking);
        if sent == Err(Errno::EPIPE) {
            crate::signal::raise_own(linux::SIGPIPE);
        }
        sent
    }

    /// Receives a message, or what a stream has; an empty one at its end.
    pub fn receive(&self, most: u64, manner: Manner, nonblocking: bool) -> Result<Frame> {
        let unconnected = if self.kind == Kind::Stream { Errno::EINVAL } else { Errno::ENOTCONN };
        let incoming = self.ends.lock().incoming.clone().ok_or(unconnected)?;
        let deadline = self.deadline(0);
        loop {
            // Looked at first: what was sent before it was closed is there by then.
            let has_other = incoming.has_other(Side::Read);
            if let Some(frame) = incoming.receive_frame(most, manner)? {
                return self.receive_more(&incoming, frame, most, manner);
            }
            if !has_other {
                return self.take_error().map_or_else(|| Ok(Frame::default()), Err);
            }
            if nonblocking {
                return Err(Errno::EAGAIN);
            }
            incoming.note_waiter(Event::Readable);
            wait_until(&incoming.readable(), deadline)?;
        }
    }

    /// A stream has no borders: what came of it is taken together, up to what carries descriptors. With credentials, what
    /// different processes wrote stays apart.
    fn receive_more(&self, incoming: &Pipe, mut frame: Frame, most: u64, manner: Manner) -> Result<Frame> {
        let alone = self.settings.lock().wants_credentials || manner.bordered || manner.peek;
        while !alone && frame.control.is_empty() && (frame.data.len() as u64) < most {
            let Some(more) = incoming.receive_frame(most - frame.data.len() as u64, manner)? else { break };
            frame.data.extend_from_slice(&more.data);
            frame.control = more.control;
        }
        Ok(frame)
    }

    /// When a receiver (0) or a sender (1) that begins to wait now gives up.
    pub fn deadline(&self, which: usize) -> Option<u64> {
        let patience = self.settings.lock().patience[which];
        (patience != 0).then(|| runtime::clock::now().saturating_add(patience))
    }

    /// The access list of whoever took over, as another user, the other end of a pair that this process made (`process::user`).
    pub fn heirs_list(&self) -> Option<PageNumber> {
        let ends = self.ends.lock();
        let is_own_pair = ends.peer.is_some_and(|peer| u64::from(peer.process) == process().number());
        let under = exposed::page(ends.outgoing.as_ref()?.pages()[0])?.access();
        (is_own_pair && under != area::access_list()).then_some(under)
    }

    /// Where messages go.
    pub fn outgoing(&self) -> Result<Pipe> {
        self.ends.lock().outgoing.clone().ok_or(Errno::ENOTCONN)
    }

    fn queue_words(&self) -> Option<&'static [AtomicU64]> {
        self.ends.lock().queue.as_ref().map(Shared::words)
    }

    /// Nobody has it any more: who is joined to it learns of that, and who waits in its queue too.
    fn end(&self) {
        while let Ok(Some(socket)) = self.accept() {
            socket.break_off();
            socket.end();
            socket.discard();
        }
        if self.drop_messages() {
            self.break_off();
        }
        let ends = self.ends.lock();
        ends.incoming.iter().for_each(|pipe| pipe.leave(Side::Read));
        // A datagram's receiver goes on without this sender.
        ends.outgoing.iter().filter(|_| self.kind != Kind::Datagram).for_each(|pipe| pipe.leave(Side::Write));
        if let Some(queue) = &ends.queue {
            queue.words()[BACKLOG].store(0, SeqCst);
        }
    }

    /// Descriptors in messages that nobody receives any more end here. Whether there were messages.
    fn drop_messages(&self) -> bool {
        let Some(incoming) = self.ends.lock().incoming.clone() else { return false };
        let manner = Manner { bordered: self.is_bordered(), peek: false };
        let mut any = false;
        while let Ok(Some(frame)) = incoming.receive_frame(u64::MAX, manner) {
            frame.parts().into_iter().for_each(|(_, rights)| passing::drop_all(rights));
            any = true;
        }
        any
    }

    /// The other side of a connection is to learn that not all was read which it sent, or nothing accepted.
    fn break_off(&self) {
        let ends = self.ends.lock();
        ends.outgoing.iter().filter(|_| self.kind != Kind::Datagram).for_each(Pipe::break_off);
    }

    /// Whether the other side broke the connection off, which nobody was told yet.
    pub fn is_broken_off(&self) -> bool {
        self.ends.lock().incoming.as_ref().is_some_and(Pipe::is_broken_off)
    }

    /// The error of a connection that was broken off: it is told once.
    pub fn take_error(&self) -> Option<Errno> {
        let incoming = self.ends.lock().incoming.clone()?;
        incoming.take_break().then_some(Errno::ECONNRESET)
    }

    fn discard(&self) {
        let mut ends = self.ends.lock();
        let pipes = [ends.incoming.take(), ends.outgoing.take()];
        let queue = ends.queue.take();
        drop(ends);
        pipes.iter().flatten().for_each(pipe::discard);
        if let Some(queue) = queue {
            process().close_and_lend(&queue, queue.pages());
        }
    }
}

impl Operations for Socket {
    fn locks(&self) -> [Option<&OwnerLock>; 2] {
        [Some(self.ends.owner_lock()), Some(self.settings.owner_lock())]
    }

    fn read(&self, description: &Description, to: u64, count: u64) -> Result<u64> {
        if count == 0 {
            return Ok(0);
        }
        let manner = Manner { bordered: self.is_bordered(), peek: false };
        copy::prepare(to, count.min(1 << 16), true)?;
        let frame = self.receive(count.min(1 << 16), manner, description.is_nonblocking())?;
        copy::write(to, &frame.data)?;
        frame.parts().into_iter().for_each(|(_, rights)| passing::drop_all(rights));
        Ok(frame.data.len() as u64)
    }

    fn write(&self, description: &Description, from: u64, count: u64) -> Result<u64> {
        const PIECE: u64 = 1 << 16;
        let mut done = 0;
        loop {
            let wanted = (count - done).min(PIECE);
            let sent =
                copy::read_vec(from + done, wanted as usize).and_then(|bytes| self.write_bytes(description, &bytes));
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

    fn write_bytes(&self, description: &Description, bytes: &[u8]) -> Result<u64> {
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
        let ends = self.ends.lock();
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
        let ends = self.ends.lock();
        match (event, &ends.incoming, &ends.outgoing) {
            (Event::Readable, Some(pipe), _) => pipe.ring().waiting() != Ok(0) || !pipe.has_other(Side::Read),
            (Event::Writable, _, Some(pipe)) => {
                pipe.ring().room().is_ok_and(|room| room >= ENOUGH) || !pipe.has_other(Side::Write)
            }
            (Event::Writable, ..) => self.kind == Kind::Datagram,
            _ => false,
        }
    }

    fn terms(&self, event: Event) -> Vec<Term> {
        if let Some(words) = self.queue_words() {
            let has_come = word(&words[CAME], Operator::NotEqual, words[TAKEN].load(Acquire));
            return Vec::from([has_come, word(&words[BACKLOG], Operator::Equal, SHUT)]);
        }
        let ends = self.ends.lock();
        match (event, &ends.incoming, &ends.outgoing) {
            (Event::Readable, Some(pipe), _) => pipe.readable().to_vec(),
            (Event::Writable, _, Some(pipe)) => pipe.room_for(4096).to_vec(),
            _ => Vec::new(),
        }
    }

    fn stamp(&self, event: Event) -> u64 {
        if let Some(words) = self.queue_words() {
            return words[CAME].load(Acquire);
        }
        let ends = self.ends.lock();
        match (event, &ends.incoming, &ends.outgoing) {
            (Event::Readable, Some(pipe), _) => pipe.ring().written << 1 | u64::from(pipe.has_other(Side::Read)),
            (Event::Writable, _, Some(pipe)) => pipe.ring().read << 1 | u64::from(pipe.has_other(Side::Write)),
            _ => 0,
        }
    }

    fn changes(&self, event: Event) -> Vec<Term> {
        if let Some(words) = self.queue_words() {
            return Vec::from([word(&words[CAME], Operator::NotEqual, words[CAME].load(Acquire))]);
        }
        let ends = self.ends.lock();
        match (event, &ends.incoming, &ends.outgoing) {
            (Event::Readable, Some(pipe), _) => pipe.changes(true).to_vec(),
            (Event::Writable, _, Some(pipe)) => pipe.changes(false).to_vec(),
            _ => Vec::new(),
        }
    }

    fn is_hung_up(&self) -> bool {
        if self.is_unconnected() {
            return true;
        }
        let ends = self.ends.lock();
        let gone = |pipe: &Option<Pipe>, side| pipe.as_ref().is_some_and(|pipe| !pipe.has_other(side));
        self.kind != Kind::Datagram && gone(&ends.incoming, Side::Read) && gone(&ends.outgoing, Side::Write)
    }

    fn closed(&self, ended: bool, gone: bool) {
        if ended {
            self.end();
            self.leave_behind();
        }
        self.each_pipe(&mut |pipe, side| pipe.let_go(side, process().environment()));
        if gone {
            self.discard();
        }
    }

    fn status(&self) -> (u32, u64) {
        let [incoming, _, queue] = self.places();
        let page = if incoming == PageNumber::NONE { queue } else { incoming };
        (linux::S_IFSOCK | 0o777, if page == PageNumber::NONE { 0 } else { page.0 })
    }

    fn name(&self) -> String {
        format!("socket:[{}]", self.status().1)
    }

    fn waiting(&self) -> Result<u64> {
        let incoming = self.ends.lock().incoming.clone();
        incoming.map_or(Ok(0), |pipe| pipe.data_waiting(self.is_bordered()))
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
        pipes.chain(ends.queue.as_ref().map(|queue| queue.pages().to_vec())).flatten().collect()
    }

    fn is_half_closed(&self) -> bool {
        let ends = self.ends.lock();
        self.kind != Kind::Datagram && ends.incoming.as_ref().is_some_and(|pipe| !pipe.has_other(Side::Read))
    }
}
