//! The TCP engine of a stack. It owns all blocks, listeners, embryos and TIME_WAIT records, their table and timers.
//!
//! The owner hands in segments and calls. The engine collects what has to go out per connection, and `flush` sends it:
//! the acknowledgement of a batch rides on the data that answers it.
//!
//! Invariants:
//! - Every block that can still receive, every embryo and every TIME_WAIT record has one entry in the table.
//! - The wheel holds the earliest deadline of each block and embryo.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::net::Ipv6Addr;

use super::block::{Block, Error, Opening, Options, State};
use super::challenge::ChallengeLimit;
use super::demux::{Demux, Target};
use super::information::Traffic;
use super::listen::{Embryo, Listener};
use super::segment::{HEADER_LIMIT, Outgoing, RST};
use super::time_wait::{Record, TimeWaits};
use crate::address::{Endpoint, Pair};
use crate::checksum::Sum;
use crate::link::{Extent, Pages, Part};
use crate::secret::Secret;
use crate::slab::{Handle, Slab};
use crate::time::{SECOND, Time};
use crate::wheel::Wheel;

/// Ephemeral ports.
const FIRST_PORT: u16 = 32_768;
const PORTS: u16 = 28_232;

/// What the engine stands on: something that carries segments.
pub trait Network: Pages {
    /// Payload and TCP options that the path to an address carries in one segment.
    fn segment_limit(&self, remote: Ipv6Addr) -> u16;

    /// Whether a segment would be taken now. While it would not, blocks wait with theirs.
    fn has_room(&self) -> bool;

    /// Sends a segment. It may be lost.
    fn transmit(&mut self, pair: &Pair, header: &[u8], parts: &[Part]);
}

/// What happened, for statistics and tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub bad_checksums: u64,
    pub malformed: u64,
    pub resets_sent: u64,
    pub cookies_sent: u64,
    pub cookies_accepted: u64,
    pub retransmissions: u64,
}

#[derive(Debug)]
pub(crate) struct Connection {
    pub block: Block,
    /// It waits for `flush`.
    pub is_ready: bool,
    /// It has an entry in the table.
    pub is_listed: bool,
    /// It stands in the list of changes.
    pub is_reported: bool,
    pub traffic: Traffic,
}

#[derive(Debug)]
pub struct Tcp {
    pub(crate) secret: Secret,
    pub(crate) connections: Slab<Connection>,
    pub(crate) demux: Demux,
    pub(crate) listeners: Slab<Listener>,
    pub(crate) by_port: BTreeMap<u16, Vec<u32>>,
    pub(crate) embryos: Slab<Embryo>,
    pub(crate) time_waits: TimeWaits,
    pub(crate) challenges: ChallengeLimit,
    pub(crate) released: Vec<Extent>,
    pub(crate) counters: Counters,
    pub(crate) resets: ResetLimit,
    /// Cookies were sent until shortly before this time: acknowledgements may carry one.
    pub(crate) cookies_until: Time,
    ready: VecDeque<u32>,
    pub(crate) wheel: Wheel,
    next_port: u16,
    parts: Vec<Part>,
    fired: Vec<u32>,
    /// Connections that changed, for an owner that asks; at most one entry for each connection that lives, and those
    /// of connections that ended since the owner asked.
    changes: Option<VecDeque<Handle>>,
}

/// Resets for what belongs to no connection: so many a second.
#[derive(Debug, Default)]
pub(crate) struct ResetLimit {
    second: u64,
    used: u32,
}

impl ResetLimit {
    const PER_SECOND: u32 = 1_000;

    pub(crate) fn allows(&mut self, now: Time) -> bool {
        let second = now.micros() / SECOND;
        if second != self.second {
            (self.second, self.used) = (second, 0);
        }
        self.used += 1;
        self.used <= Self::PER_SECOND
    }
}

/// Numbers of timers in the wheel: blocks and embryos alternate.
pub(crate) fn block_timer(index: u32) -> u32 {
    index * 2
}

pub(crate) fn embryo_timer(index: u32) -> u32 {
    index * 2 + 1
}

impl Tcp {
    /// `key` is random and secret; `now` is when the stack begins.
    pub fn new(key: [u64; 2], now: Time) -> Self {
        Self {
            secret: Secret(key),
            connections: Slab::default(),
            demux: Demux::default(),
            listeners: Slab::default(),
            by_port: BTreeMap::new(),
            embryos: Slab::default(),
            time_waits: TimeWaits::default(),
            challenges: ChallengeLimit::new(key[0] ^ key[1]),
            released: Vec::new(),
            counters: Counters::default(),
            resets: ResetLimit::default(),
            cookies_until: Time::default(),
            ready: VecDeque::new(),
            wheel: Wheel::new(now),
            next_port: key[1] as u16,
            parts: Vec::new(),
            fired: Vec::new(),
            changes: None,
        }
    }

    /// From now on the engine records which connections change. The owner takes them by [`Tcp::take_change`].
    pub fn record_changes(&mut self) {
        self.changes.get_or_insert_default();
    }

    /// A connection that a segment, a timer or a call has changed since it was taken last. One that its owner has given
    /// up is told of when it ends; its handle is stale then.
    pub fn take_change(&mut self) -> Option<Handle> {
        let handle = self.changes.as_mut()?.pop_front()?;
        if let Some(connection) = self.connections.get_mut(handle) {
            connection.is_reported = false;
        }
        Some(handle)
    }

    fn report_change(&mut self, index: u32) {
        let (Some(changes), Some(handle)) = (&mut self.changes, self.connections.handle(index)) else { return };
        if let Some(connection) = self.connections.at_mut(index)
            && !core::mem::replace(&mut connection.is_reported, true)
        {
            changes.push_back(handle);
        }
    }

    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Connections, embryos and TIME_WAIT records that there are.
    pub fn census(&self) -> [usize; 3] {
        [self.connections.len(), self.embryos.len(), self.time_waits.len()]
    }

    /// Timers that are armed, that of TIME_WAIT included.
    pub fn armed_timers(&self) -> usize {
        self.wheel.armed() + usize::from(!self.time_waits.is_empty())
    }

    pub fn block(&self, handle: Handle) -> Option<&Block> {
        self.connections.get(handle).map(|connection| &connection.block)
    }

    pub(crate) fn block_mut(&mut self, handle: Handle) -> Option<&mut Block> {
        self.connections.get_mut(handle).map(|connection| &mut connection.block)
    }

    pub fn set_options(&mut self, handle: Handle, options: Options, now: Time) {
        if let Some(block) = self.block_mut(handle) {
            block.set_options(options, now);
            self.mark(handle.index);
        }
    }

    /// Begins a connection. A local port of 0 is chosen here.
    ///
    /// # Errors
    /// [`Error::Unreachable`] when every port is in use for this remote end, or the pair is.
    pub fn connect(
        &mut self,
        mut local: Endpoint,
        remote: Endpoint,
        options: Options,
        now: Time,
        network: &impl Network,
    ) -> Result<Handle, Error> {
        if local.port == 0 {
            local.port = self.free_port(local.address, remote).ok_or(Error::Unreachable)?;
        }
        let pair = Pair { local, remote };
        let mut initial = self.secret.initial_sequence(&pair, now);
        if let Some(Target::TimeWait(index)) = self.lookup(&pair)
            && let Some(record) = self.time_waits.get(index)
        {
            // A new connection may follow at once: its numbers and its timestamps are later (RFC 6191).
            let after = record.next.plus(super::arrival::REOPEN_DISTANCE);
            initial = if initial < after { after } else { initial };
            self.time_waits.remove(index);
            self.demux.remove(self.secret.lookup(&pair), Target::TimeWait(index));
        }
        if self.is_taken(&pair) || pair.is_loop() {
            return Err(Error::Unreachable);
        }
        let opening = Opening {
            pair,
            initial,
            stamp_offset: self.secret.timestamp_offset(&pair),
            path_segment: network.segment_limit(remote.address),
            options,
        };
        Ok(self.adopt(Block::connect(&opening)))
    }

    /// Puts a block into the tables.
    pub(crate) fn adopt(&mut self, block: Block) -> Handle {
        let hash = self.secret.lookup(&block.pair);
        let traffic = Traffic::default();
        let fresh = Connection { block, is_ready: false, is_listed: true, is_reported: false, traffic };
        let handle = self.connections.insert(fresh);
        self.demux.insert(hash, Target::Block(handle.index));
        self.mark(handle.index);
        handle
    }

    pub(crate) fn pair_of(&self, target: Target) -> Option<&Pair> {
        match target {
            Target::Block(index) => self.connections.at(index).map(|connection| &connection.block.pair),
            Target::Embryo(index) => self.embryos.at(index).map(|embryo| &embryo.pair),
            Target::TimeWait(index) => self.time_waits.get(index).map(|record| &record.pair),
        }
    }

    pub(crate) fn lookup(&self, pair: &Pair) -> Option<Target> {
        self.demux.find(self.secret.lookup(pair), |target| self.pair_of(target) == Some(pair))
    }

    fn is_taken(&self, pair: &Pair) -> bool {
        self.lookup(pair).is_some()
    }

    /// RFC 6056, algorithm 3: a keyed place to begin at for each remote end, and a counter.
    fn free_port(&mut self, local: Ipv6Addr, remote: Endpoint) -> Option<u16> {
        let offset = self.secret.port_offset(local, remote);
        for _ in 0..PORTS {
            self.next_port = self.next_port.wrapping_add(1);
            let step = offset.wrapping_add(u32::from(self.next_port)) % u32::from(PORTS);
            let port = FIRST_PORT + step as u16;
            let pair = Pair { local: Endpoint { address: local, port }, remote };
            if !self.is_taken(&pair) && !self.by_port.contains_key(&port) {
                return Some(port);
            }
        }
        None
    }

    /// Queues bytes by reference. False: the connection takes no more, and the extent stays the caller's.
    pub fn send(&mut self, handle: Handle, extent: Extent) -> bool {
        let queued = self.block_mut(handle).is_some_and(|block| block.send(extent));
        self.mark(handle.index);
        queued
    }

    /// The byte before the last `behind` bytes that are queued is urgent.
    pub fn mark_urgent(&mut self, handle: Handle, behind: u32) {
        if let Some(block) = self.block_mut(handle) {
            block.mark_urgent(behind);
            self.mark(handle.index);
        }
    }

    pub fn read(&mut self, handle: Handle, buffer: &mut [u8]) -> usize {
        let Some(block) = self.block_mut(handle) else { return 0 };
        let count = block.read(buffer);
        self.mark(handle.index);
        count
    }

    pub fn shut_down(&mut self, handle: Handle, now: Time) {
        if let Some(block) = self.block_mut(handle) {
            block.shut_down(now);
            self.mark(handle.index);
        }
    }

    /// Gives the connection up: what is queued is still sent, and the handle is stale afterwards.
    pub fn close(&mut self, handle: Handle, now: Time, network: &mut impl Network) {
        let Some(block) = self.block_mut(handle) else { return };
        if block.close(now) {
            return self.abort(handle, network);
        }
        self.mark(handle.index);
        self.settle(handle.index, now);
    }

    /// Ends the connection with a reset and gives it up.
    pub fn abort(&mut self, handle: Handle, network: &mut impl Network) {
        let Some(connection) = self.connections.get_mut(handle) else { return };
        let block = &mut connection.block;
        let is_known_to_peer = !matches!(block.state, State::SynSent | State::Closed | State::TimeWait);
        let acknowledgement = Some(block.receive.next);
        let reset = Outgoing { sequence: block.send.next, acknowledgement, flags: RST, ..Outgoing::default() };
        let pair = block.pair;
        block.end(Some(Error::Reset), &mut self.released);
        block.orphan = true;
        if is_known_to_peer {
            self.transmit(&pair, &reset, network);
        }
        self.settle(handle.index, Time::default());
        self.release(network);
    }

    /// The connection has something to send, perhaps.
    pub(crate) fn mark(&mut self, index: u32) {
        self.report_change(index);
        if let Some(connection) = self.connections.at_mut(index)
            && !connection.is_ready
        {
            connection.is_ready = true;
            self.ready.push_back(index);
        }
    }

    /// Sends everything that may be sent now.
    pub fn flush(&mut self, now: Time, network: &mut impl Network) {
        for _ in 0..self.ready.len() {
            let Some(index) = self.ready.pop_front() else { break };
            if let Some(connection) = self.connections.at_mut(index) {
                connection.is_ready = false;
                self.flush_one(index, now, network);
            }
        }
        self.release(network);
    }

    fn flush_one(&mut self, index: u32, now: Time, network: &mut impl Network) {
        loop {
            if !network.has_room() {
                self.mark(index);
                break;
            }
            let Some(connection) = self.connections.at_mut(index) else { return };
            let highest = connection.block.send.next;
            let Some(outgoing) = connection.block.output(now) else { break };
            let is_again = outgoing.length > 0 && outgoing.sequence < highest;
            connection.traffic.sent(outgoing.length, is_again);
            self.counters.retransmissions += u64::from(is_again);
            self.transmit_of(index, &outgoing, network);
        }
        self.settle(index, now);
    }

    fn transmit_of(&mut self, index: u32, outgoing: &Outgoing, network: &mut impl Network) {
        let Some(connection) = self.connections.at(index) else { return };
        let block = &connection.block;
        self.parts.clear();
        let sum = match outgoing.length {
            0 => Sum::ZERO,
            length => block.send.queue.gather(outgoing.offset, length, network, &mut self.parts),
        };
        let mut bytes = [0; HEADER_LIMIT];
        let length = outgoing.emit(&block.pair, sum, &mut bytes);
        network.transmit(&block.pair, &bytes[..length], &self.parts);
    }

    /// Sends a segment without payload.
    pub(crate) fn transmit(&mut self, pair: &Pair, outgoing: &Outgoing, network: &mut impl Network) {
        let mut bytes = [0; HEADER_LIMIT];
        let length = outgoing.emit(pair, Sum::ZERO, &mut bytes);
        self.counters.resets_sent += u64::from(outgoing.flags & RST != 0);
        network.transmit(pair, &bytes[..length], &[]);
    }

    pub(crate) fn release(&mut self, network: &mut impl Network) {
        for extent in self.released.drain(..) {
            network.release(extent);
        }
    }

    /// Brings tables and timers in line with the state of a block.
    pub(crate) fn settle(&mut self, index: u32, now: Time) {
        let Some(connection) = self.connections.at(index) else { return };
        let block = &connection.block;
        let (state, orphan, pair, deadline) = (block.state, block.orphan, block.pair, block.deadline());
        self.wheel.arm(block_timer(index), deadline);
        if !matches!(state, State::Closed | State::TimeWait) {
            return;
        }
        let hash = self.secret.lookup(&pair);
        if connection.is_listed {
            let record = time_wait_record(block);
            self.demux.remove(hash, Target::Block(index));
            if state == State::TimeWait {
                self.add_time_wait(hash, record, now);
            }
        }
        if orphan {
            self.report_change(index);
            self.connections.remove(index);
        } else if let Some(connection) = self.connections.at_mut(index) {
            connection.is_listed = false;
            self.report_change(index);
        }
    }

    fn add_time_wait(&mut self, hash: u64, record: Record, now: Time) {
        if self.time_waits.is_full()
            && let Some((index, oldest)) = self.time_waits.take_expired(now, true)
        {
            self.demux.remove(self.secret.lookup(&oldest.pair), Target::TimeWait(index));
        }
        let index = self.time_waits.add(record, now);
        self.demux.insert(hash, Target::TimeWait(index));
    }

    /// The time at which [`Tcp::advance`] has to be called. Not after `now` while something waits to be sent.
    pub fn deadline(&self) -> Time {
        self.wheel.deadline().min(self.time_waits.deadline())
    }

    /// Runs the timers that are due, and sends what follows from it.
    pub fn advance(&mut self, now: Time, network: &mut impl Network) {
        let mut fired = core::mem::take(&mut self.fired);
        self.wheel.advance(now, &mut fired);
        for timer in fired.drain(..) {
            match timer % 2 {
                0 => self.expire_block(timer / 2, now),
                _ => self.expire_embryo(timer / 2, now, network),
            }
        }
        self.fired = fired;
        while let Some((index, record)) = self.time_waits.take_expired(now, false) {
            self.demux.remove(self.secret.lookup(&record.pair), Target::TimeWait(index));
        }
        self.flush(now, network);
    }

    fn expire_block(&mut self, index: u32, now: Time) {
        if let Some(connection) = self.connections.at_mut(index) {
            connection.block.expire(now, &mut self.released);
            self.mark(index);
            // The wheel rounds up and the block does not: what is not due yet is armed again by `flush`.
        }
    }
}

fn time_wait_record(block: &Block) -> Record {
    let recent = if block.stamps.enabled { block.stamps.recent.max(1) } else { 0 };
    Record { pair: block.pair, next: block.send.next, receive_next: block.receive.next, recent }
}
