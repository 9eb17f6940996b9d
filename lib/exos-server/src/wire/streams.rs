//! Streams between sockets of this machine and other machines: bytes move between the pages of a socket and its
//! connection of the stack, in the keeper.
//!
//! Each connection has a socket of its own for the other machine, without a holder. The keeper writes the page of that
//! one as a process writes its own, so that the library in a process sees no difference to a connection within the
//! machine. Counts in the socket's page are the program's: they go through [`internet::ring`], and one that makes no
//! sense resets the connection.
//!
//! Invariants:
//! - `WATCH` in the page of the other side is set while the keeper has nothing to do for the connection.
//! - A byte that the keeper took from a socket's page lies in the stack until the other machine has it, also when the
//!   socket's holders are gone.
//! - The stack sends bytes of the larger area from there. The count of what was taken passes one once the other machine
//!   has acknowledged it, or it was copied. A closed socket stays until then.

use super::information;
use super::keeper::Keeper;
use crate::dispatch::FileServer;
use crate::sockets::wire_sockets::Sides;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, SeqCst};
use exos::hw::mapping::Mapping;
use internet::option::{self, place};
use internet::page::{self, RING, state, watch};
use internet::ring::{FINISHED, LARGE, RESET, Ring, advance, at_least};
use linux_abi::address_map::PAGE_SIZE;
use linux_abi::errno::{Errno, Result};
use network::link::Extent;
use network::slab::Handle;
use network::tcp::block::{Block, Error, Options, State};
use network::time::Time;
use runtime::clock;
use vfs::inode::NodeId;

/// Bytes of one connection that the stack keeps until they are acknowledged, and of all together.
const SEND_LIMIT: u32 = 192 << 10;
pub(super) const SEND_TOTAL: usize = 4 << 20;
/// Bytes that become one extent, and those of the larger area that are sent from where they lie: each piece of a frame
/// costs.
const CHUNK: u64 = 16 << 10;
const LENT: u64 = 256;

/// A connection.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) handle: Handle,
    /// The socket of the other side.
    pub(super) peer: NodeId,
    /// Windows onto the larger areas: what comes, and what is sent.
    incoming: Option<Mapping>,
    outgoing: Option<Mapping>,
    /// The positions up to which the stack has what the program sent, and up to which it has copies.
    handed: u64,
    copied: u64,
    is_open: bool,
    is_shut: bool,
    is_closed: bool,
    /// The last urgent byte that the stack knows: see [`page::URGENT`].
    pub(super) urgent: u64,
    /// The round of the keeper in which it was looked at, and the state of its connection then.
    looked: (u64, Option<State>),
}

/// What becomes of a stream after a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Continues,
    /// Neither side has anything for the other any more, or the socket is closed: the stack ends the rest alone.
    Ends,
    Resets,
}

impl Stream {
    pub(super) const fn new(handle: Handle, peer: NodeId, is_open: bool) -> Self {
        Self {
            handle,
            peer,
            incoming: None,
            outgoing: None,
            handed: 0,
            copied: 0,
            is_open,
            is_shut: false,
            is_closed: false,
            urgent: 0,
            looked: (0, None),
        }
    }
}

fn errno(error: Option<Error>) -> Errno {
    match error {
        Some(Error::TimedOut) => Errno::ETIMEDOUT,
        Some(Error::Unreachable) => Errno::EHOSTUNREACH,
        Some(Error::Reset) | Some(Error::Refused) | None => Errno::ECONNREFUSED,
    }
}

fn is_over(block: &Block) -> bool {
    matches!(block.state(), State::Closed | State::TimeWait)
}

impl Keeper {
    /// Moves what can be moved of a socket's connection, and asks to be told of the rest.
    pub(super) fn look(&mut self, server: &mut FileServer, node: NodeId, now: Time) {
        // It is out of the map meanwhile, and its place is kept.
        let Some(mut stream) = self.streams.get_mut(&node).and_then(Option::take) else { return };
        let outcome = match server.wire_sides(node, stream.peer) {
            Some(sides) => self.look_at(server, (node, &sides), &mut stream, now),
            None => Outcome::Resets,
        };
        match outcome {
            Outcome::Continues => {
                stream.looked = (self.round, self.state_of(&stream));
                self.streams.insert(node, Some(stream));
                return;
            }
            Outcome::Ends => self.close(&mut stream, now),
            Outcome::Resets => self.stack.tcp.abort(stream.handle, &mut self.stack.departure),
        }
        self.streams.remove(&node);
        self.forget(server, stream);
    }

    /// The stack ends the connection alone, and sends what it has.
    fn close(&mut self, stream: &mut Stream, now: Time) {
        if !core::mem::replace(&mut stream.is_closed, true) {
            self.stack.close(stream.handle, now);
        }
    }

    fn state_of(&self, stream: &Stream) -> Option<State> {
        self.stack.tcp.block(stream.handle).map(Block::state)
    }

    /// Whether a stream was looked at in this round, and its connection is in the same state since: it changed by that
    /// look alone.
    pub(super) fn is_looked_at(&self, node: NodeId) -> bool {
        let stream = self.streams.get(&node).and_then(Option::as_ref);
        stream.is_some_and(|stream| stream.looked == (self.round, self.state_of(stream)))
    }

    /// A stream has ended: its windows and the socket of the other side go.
    fn forget(&mut self, server: &mut FileServer, stream: Stream) {
        self.nodes.remove(&stream.handle);
        stream.incoming.into_iter().for_each(|window| server.mappings.close(&window));
        stream.outgoing.into_iter().for_each(|window| server.close_large_window(&window));
        server.wire_side_ends(stream.peer);
    }

    /// Ends the stream that a socket had before.
    pub(super) fn reset_stream(&mut self, server: &mut FileServer, node: NodeId) {
        if let Some(stream) = self.streams.remove(&node).flatten() {
            self.stack.tcp.abort(stream.handle, &mut self.stack.departure);
            self.forget(server, stream);
        }
    }

    /// Looks at a stream, and rings the bells of threads that wait for what changed.
    fn look_at(
        &mut self,
        server: &mut FileServer,
        (node, sides): (NodeId, &Sides),
        stream: &mut Stream,
        now: Time,
    ) -> Outcome {
        let word = |index: usize| sides.peer.words()[index].load(Acquire);
        let (sent, taken) = (word(page::SENT), word(page::TAKEN));
        let outcome = self.look_closely(server, (node, sides), stream, now);
        let bit = |has_changed: bool, bit: u64| if has_changed { bit } else { 0 };
        let changed = bit(word(page::SENT) != sent, watch::SENT) | bit(word(page::TAKEN) != taken, watch::TAKEN);
        server.ring_bells(&sides.own, changed);
        outcome
    }

    fn look_closely(
        &mut self,
        server: &mut FileServer,
        (node, sides): (NodeId, &Sides),
        stream: &mut Stream,
        now: Time,
    ) -> Outcome {
        let word = |index: usize| sides.own.words()[index].load(Acquire);
        let counts = || (word(page::SENT), word(page::TAKEN), word(page::LARGE_FROM));
        self.set_options(sides, stream.handle, now);
        if !stream.is_open {
            match self.opening(stream) {
                Some(Ok(())) => {
                    stream.is_open = true;
                    sides.own.set_state(state::CONNECTED);
                    exos::wait::kick_idle();
                }
                Some(Err(error)) => {
                    server.wire_refuses(node, error);
                    return Outcome::Ends;
                }
                None if word(page::TAKEN) & RESET != 0 => return Outcome::Ends,
                None => return Outcome::Continues,
            }
        }
        loop {
            sides.peer.words()[page::WATCH].store(0, SeqCst);
            let seen = counts();
            let outcome = self.move_bytes(server, sides, stream, now).unwrap_or(Outcome::Resets);
            if outcome != Outcome::Continues {
                return outcome;
            }
            let block = self.stack.tcp.block(stream.handle);
            let waits = block.is_some_and(|block| block.readable() > 0);
            let wanted = watch::SENT | if waits { watch::TAKEN } else { 0 };
            sides.peer.words()[page::WATCH].store(wanted, SeqCst);
            if let Some(information) = self.stack.tcp.information(stream.handle) {
                information::publish(&information, &sides.peer.words()[page::INFORMATION..]);
            }
            if counts() == seen {
                return Outcome::Continues;
            }
        }
    }

    /// How an attempt to connect came out; `None`: it has not.
    fn opening(&self, stream: &Stream) -> Option<Result<()>> {
        let block = self.stack.tcp.block(stream.handle)?;
        match block.state() {
            State::SynSent | State::SynReceived => None,
            State::Closed => Some(Err(errno(block.error()))),
            _ => Some(Ok(())),
        }
    }

    /// Hands the stack what the program has set (tcp(7)). It is looked at with each change of the connection.
    fn set_options(&mut self, sides: &Sides, handle: Handle, now: Time) {
        let value = |place| option::value(&sides.own, place);
        let on = |place| value(place) != 0;
        let Some(known) = self.stack.tcp.block(handle).map(|block| *block.options()) else { return };
        let wanted = Options {
            no_delay: on(place::NO_DELAY),
            cork: on(place::CORK),
            keep_alive: on(place::KEEP_ALIVE),
            keep_alive_idle: value(place::KEEP_ALIVE_IDLE) as u32,
            keep_alive_interval: value(place::KEEP_ALIVE_INTERVAL) as u32,
            keep_alive_count: value(place::KEEP_ALIVE_COUNT) as u8,
            syn_retries: value(place::SYN_COUNT) as u8,
            user_time_out: value(place::USER_TIME_OUT) as u32,
            ..known
        };
        if wanted != known {
            self.stack.tcp.set_options(handle, wanted, now);
        }
    }

    fn move_bytes(
        &mut self,
        server: &mut FileServer,
        sides: &Sides,
        stream: &mut Stream,
        now: Time,
    ) -> Result<Outcome> {
        let sent = sides.own.words()[page::SENT].load(Acquire);
        let closed = sides.own.words()[page::TAKEN].load(Acquire) & RESET != 0;
        if sent & RESET != 0 {
            return Ok(Outcome::Resets);
        }
        let left = self.move_out(server, sides, stream)?;
        if left == 0 && sent & FINISHED != 0 && !stream.is_shut {
            stream.is_shut = true;
            self.stack.tcp.shut_down(stream.handle, now);
        }
        if closed && left == 0 {
            self.close(stream, now);
            let is_lent = stream.outgoing.is_some() && self.held(stream) > 0;
            return Ok(if is_lent { Outcome::Continues } else { Outcome::Ends });
        }
        if !closed {
            self.move_in(server, sides, stream)?;
        }
        let Some(block) = self.stack.tcp.block(stream.handle) else { return Ok(Outcome::Resets) };
        let has_failed = block.error().is_some();
        if has_failed && block.error() == Some(Error::TimedOut) {
            sides.own.words()[page::ERROR].store(u64::from(Errno::ETIMEDOUT.number()), SeqCst);
        }
        if closed {
            return Ok(if is_over(block) { Outcome::Ends } else { Outcome::Continues });
        }
        if block.readable() > 0 {
            return Ok(Outcome::Continues);
        }
        if has_failed || block.is_at_end() {
            let flags = FINISHED | if has_failed { RESET } else { 0 };
            sides.peer.words()[page::SENT].fetch_or(flags, SeqCst);
            exos::wait::kick_idle();
        }
        let is_done = is_over(block) && (has_failed || left == 0 && sent & FINISHED != 0);
        Ok(if is_done { Outcome::Ends } else { Outcome::Continues })
    }

    /// Bytes of a stream that the stack may send again.
    fn held(&self, stream: &Stream) -> u64 {
        self.stack.tcp.block(stream.handle).map_or(0, Block::held).into()
    }

    /// Hands the stack what the program has sent, and the program the room of what it need not keep; the bytes that are
    /// left.
    fn move_out(&mut self, server: &mut FileServer, sides: &Sides, stream: &mut Stream) -> Result<u64> {
        let left = self.hand_out(server, sides, stream)?;
        let (own, taken) = (sides.own.words(), &sides.peer.words()[page::TAKEN]);
        let large_from = own[page::LARGE_FROM].load(Acquire);
        let before = taken.load(Acquire);
        let mut after = at_least(before, self.free(stream, large_from));
        let ring = Ring::new(own[page::SENT].load(Acquire), after, large_from);
        if large_from != 0 && ring.room()? < LARGE / 4 && self.copy_out(stream) {
            after = at_least(after, stream.copied);
        }
        if before != after {
            taken.store(after, SeqCst);
            exos::wait::kick_idle();
        }
        Ok(left)
    }

    /// The position up to which a program may change what it sent.
    fn free(&self, stream: &Stream, large_from: u64) -> u64 {
        match large_from {
            0 => stream.handed,
            from => {
                (stream.handed.saturating_sub(self.held(stream))).max(stream.copied).max(stream.handed.min(from - 1))
            }
        }
    }

    /// Copies what a connection has on its way, where the program could send more of it now.
    fn copy_out(&mut self, stream: &mut Stream) -> bool {
        let Some(block) = self.stack.tcp.block(stream.handle).filter(|block| block.is_hungry()) else {
            return false;
        };
        if self.stack.link().queued >= SEND_TOTAL {
            return false;
        }
        let extents: Vec<Extent> = block.extents().copied().collect();
        self.stack.link_mut().copy_out(extents.iter());
        stream.copied = stream.handed;
        true
    }

    fn hand_out(&mut self, server: &mut FileServer, sides: &Sides, stream: &mut Stream) -> Result<u64> {
        loop {
            let own = |index: usize| sides.own.words()[index].load(Acquire);
            let ring = Ring::new(own(page::SENT), stream.handed, own(page::LARGE_FROM));
            let waiting = ring.waiting()?;
            let Some(block) = self.stack.tcp.block(stream.handle) else { return Ok(0) };
            if waiting == 0 || is_over(block) {
                return Ok(if is_over(block) { 0 } else { waiting });
            }
            if block.queued() >= SEND_LIMIT || self.stack.link().queued >= SEND_TOTAL {
                self.is_starved |= block.queued() == 0;
                return Ok(waiting);
            }
            let stretch = ring.stretch(ring.taken(), waiting.min(CHUNK));
            if stretch.is_large && stream.outgoing.is_none() {
                stream.outgoing = Some(server.open_large_window(sides.node)?);
            }
            let extent = match &stream.outgoing {
                Some(area) if stretch.is_large && stretch.bytes >= LENT => {
                    self.stack.link_mut().borrow(area, stretch.offset, stretch.bytes)
                }
                area => {
                    let mut bytes = vec![0; stretch.bytes as usize];
                    match area {
                        Some(area) if stretch.is_large => area.read(stretch.offset, &mut bytes)?,
                        _ => sides.own.read(RING as u64 * 8 + stretch.offset, &mut bytes)?,
                    }
                    self.stack.link_mut().keep(bytes.into())
                }
            };
            if !self.stack.tcp.send(stream.handle, extent) {
                network::link::Pages::release(self.stack.link_mut(), extent);
            }
            stream.handed += stretch.bytes;
            self.send_urgent(sides, stream, stream.handed - stretch.bytes, stream.handed);
        }
    }

    /// Puts what has come into the page of the other side, or its larger area.
    fn move_in(&mut self, server: &mut FileServer, sides: &Sides, stream: &mut Stream) -> Result<()> {
        loop {
            self.publish_urgent(sides, stream);
            let readable = self.stack.tcp.block(stream.handle).map_or(0, Block::readable) as u64;
            let theirs = |index: usize| sides.peer.words()[index].load(Acquire);
            let taken = sides.own.words()[page::TAKEN].load(Acquire);
            let ring = Ring::new(theirs(page::SENT), taken, theirs(page::LARGE_FROM));
            let room = ring.room()?;
            if readable > room && theirs(page::LARGE_FROM) == 0 && self.grow(server, sides, stream) {
                continue;
            }
            let count = readable.min(room).min(LARGE / 2);
            if count == 0 {
                return Ok(());
            }
            let mut bytes = vec![0; count as usize];
            let read = self.stack.tcp.read(stream.handle, &mut bytes);
            let mut done = 0;
            while done < read {
                let stretch = ring.stretch(ring.sent().wrapping_add(done as u64), (read - done) as u64);
                let piece = &bytes[done..done + stretch.bytes as usize];
                match (&stream.incoming, stretch.is_large) {
                    (Some(window), true) => window.write(stretch.offset, piece)?,
                    (None, true) => return Err(Errno::EIO),
                    (_, false) => sides.peer.write(RING as u64 * 8 + stretch.offset, piece)?,
                }
                done += stretch.bytes as usize;
            }
            if ring.waiting() == Ok(0) {
                sides.peer.words()[page::FILLED_AT].store(clock::ticks(), SeqCst);
            }
            sides.peer.words()[page::SENT].store(advance(theirs(page::SENT), read as u64), SeqCst);
            exos::wait::kick_idle();
        }
    }

    /// Gives the other side its larger area. Without pages the page alone has to do.
    fn grow(&mut self, server: &mut FileServer, sides: &Sides, stream: &mut Stream) -> bool {
        let Ok(window) = server.make_large_window(stream.peer) else { return false };
        debug_assert!(window.pages().len() as u64 * PAGE_SIZE == LARGE);
        stream.incoming = Some(window);
        let position = Ring::new(sides.peer.words()[page::SENT].load(Acquire), 0, 0).sent();
        sides.peer.words()[page::LARGE_FROM].store(position.wrapping_add(1), SeqCst);
        true
    }
}
