//! Arrival of a segment: checksum, lookup, and the way to the block, embryo, TIME_WAIT record or listener.

use core::net::Ipv6Addr;

use super::block::{Error, State};
use super::cookie;
use super::demux::Target;
use super::engine::{Network, Tcp, embryo_timer};
use super::information::positions;
use super::input::Context;
use super::listen::{BACKOFF_LIMIT, EMBRYO_LIMIT, Embryo, Listener};
use super::segment::{ACK, Outgoing, PROTOCOL, RST, SYN, Segment};
use super::sequence::Sequence;
use super::time_wait::Answer;
use crate::address::{Endpoint, Pair, is_unicast};
use crate::checksum::{Sum, pseudo_header};
use crate::icmp::Reason;
use crate::slab::Handle;
use crate::time::{SECOND, Time};

/// Cookies hold for two steps of 64 s.
const COOKIE_LIFE: u64 = 128 * SECOND;
/// A SYN moves beyond the numbers of the connection that it follows by so much.
pub(super) const REOPEN_DISTANCE: u32 = 65_537;

/// A segment on its way through the engine.
struct Arrival<'a> {
    pair: Pair,
    segment: Segment,
    payload: &'a [u8],
    now: Time,
}

impl Tcp {
    /// Takes a TCP segment that came from `source` for `destination`. `is_summed`: the device verified the checksum.
    pub fn input(
        &mut self,
        source: Ipv6Addr,
        destination: Ipv6Addr,
        bytes: &[u8],
        is_summed: bool,
        now: Time,
        network: &mut impl Network,
    ) {
        let Some(segment) = Segment::parse(bytes) else {
            self.counters.malformed += 1;
            return;
        };
        if !is_summed && !pseudo_header(source, destination, PROTOCOL, bytes.len()).combine(Sum::of(bytes)).is_whole() {
            self.counters.bad_checksums += 1;
            return;
        }
        let local = Endpoint { address: destination, port: segment.destination_port };
        let remote = Endpoint { address: source, port: segment.source_port };
        let pair = Pair { local, remote };
        // LAND: a segment from an end to itself would be answered for ever.
        if pair.is_loop() || !is_unicast(source) || !is_unicast(destination) || remote.port == 0 {
            self.counters.malformed += 1;
            return;
        }
        let arrival = Arrival { pair, segment, payload: &bytes[segment.header_length..], now };
        self.dispatch(&arrival, network);
        self.release(network);
    }

    fn dispatch(&mut self, arrival: &Arrival<'_>, network: &mut impl Network) {
        match self.lookup(&arrival.pair) {
            Some(Target::Block(index)) => self.deliver_to_block(index, arrival, network),
            Some(Target::Embryo(index)) => self.deliver_to_embryo(index, arrival, network),
            Some(Target::TimeWait(index)) => self.deliver_to_time_wait(index, arrival, network),
            None => self.deliver_to_listener(arrival, None, network),
        }
    }

    fn deliver_to_block(&mut self, index: u32, arrival: &Arrival<'_>, network: &mut impl Network) {
        let Some(connection) = self.connections.at_mut(index) else { return };
        let mut context = Context { now: arrival.now, released: &mut self.released, challenges: &mut self.challenges };
        let before = positions(&connection.block);
        let reset = connection.block.input(&arrival.segment, arrival.payload, &mut context);
        connection.traffic.received(before, &connection.block, arrival.payload.len());
        let ended = matches!(connection.block.state, State::Closed | State::TimeWait);
        // What ends here is still owed its acknowledgement: the record in TIME_WAIT gives it.
        let owed = (connection.block.state == State::TimeWait).then(|| {
            let stamps = connection.block.stamps;
            let value = connection.block.stamp(arrival.now);
            Outgoing {
                sequence: connection.block.send.next,
                acknowledgement: Some(connection.block.receive.next),
                timestamps: stamps.enabled.then_some(super::segment::Timestamps { value, echo: stamps.recent }),
                ..Outgoing::default()
            }
        });
        for answer in [reset, owed].into_iter().flatten() {
            self.transmit(&arrival.pair, &answer, network);
        }
        if ended {
            self.settle(index, arrival.now);
        } else {
            self.mark(index);
        }
    }

    fn deliver_to_time_wait(&mut self, index: u32, arrival: &Arrival<'_>, network: &mut impl Network) {
        let stamp = (arrival.now.millis() as u32).wrapping_add(self.secret.timestamp_offset(&arrival.pair));
        match self.time_waits.input(index, &arrival.segment, arrival.payload.len(), stamp, arrival.now) {
            Answer::Nothing => {}
            Answer::Acknowledge(outgoing) => {
                if self.challenges.allows(arrival.now) {
                    self.transmit(&arrival.pair, &outgoing, network);
                }
            }
            Answer::Reopen(next) => {
                self.time_waits.remove(index);
                self.demux.remove(self.secret.lookup(&arrival.pair), Target::TimeWait(index));
                self.deliver_to_listener(arrival, Some(next), network);
            }
        }
    }

    fn listener_for(&self, local: &Endpoint) -> Option<u32> {
        let candidates = self.by_port.get(&local.port)?;
        let takes = |index: &&u32| self.listeners.at(**index).is_some_and(|listener| listener.takes(local));
        let exact = |index: &&u32| self.listeners.at(**index).is_some_and(|listener| listener.local == *local);
        candidates.iter().find(exact).or_else(|| candidates.iter().find(takes)).copied()
    }

    /// No connection: a handshake for a listener, or something that is answered by a reset.
    fn deliver_to_listener(&mut self, arrival: &Arrival<'_>, old_next: Option<Sequence>, network: &mut impl Network) {
        let segment = &arrival.segment;
        let Some(index) = self.listener_for(&arrival.pair.local) else {
            return self.refuse(arrival, network);
        };
        if segment.has(RST) {
            return;
        }
        if segment.has(ACK) {
            return self.try_cookie(index, arrival, network);
        }
        if segment.has(SYN) && segment.flags & super::segment::FIN == 0 {
            self.answer_syn(index, arrival, old_next, network);
        }
    }

    fn refuse(&mut self, arrival: &Arrival<'_>, network: &mut impl Network) {
        if let Some(reset) = Outgoing::reset_for(&arrival.segment, arrival.payload.len())
            && self.resets.allows(arrival.now)
        {
            self.transmit(&arrival.pair, &reset, network);
        }
    }

    fn answer_syn(&mut self, index: u32, arrival: &Arrival<'_>, old: Option<Sequence>, network: &mut impl Network) {
        let Some(listener) = self.listeners.at_mut(index) else { return };
        // The owner accepts none of the complete connections: further ones are not begun (Linux drops the SYN, too).
        if listener.is_full() {
            return;
        }
        let options = listener.options;
        let use_cookie = self.embryos.len() >= EMBRYO_LIMIT || listener.embryos >= listener.backlog;
        let (pair, now) = (arrival.pair, arrival.now);
        let limit = network.segment_limit(pair.remote.address);
        let offset = self.secret.timestamp_offset(&pair);
        let mut initial = self.secret.initial_sequence(&pair, now);
        if let Some(old) = old.filter(|old| initial < old.plus(REOPEN_DISTANCE)) {
            initial = old.plus(REOPEN_DISTANCE);
        }
        let mut embryo = Embryo::new(pair, index, &arrival.segment, initial, &options);
        let clock = now.millis() as u32;
        if use_cookie {
            embryo.initial = cookie::make(&self.secret, &pair, arrival.segment.sequence, embryo.segment, now);
            self.cookies_until = now.after(COOKIE_LIFE);
            self.counters.cookies_sent += 1;
            let answer = embryo.cookie_answer(&options, limit, clock, offset);
            return self.transmit(&pair, &answer, network);
        }
        listener.embryos += 1;
        let number = self.embryos.insert(embryo).index;
        self.demux.insert(self.secret.lookup(&pair), Target::Embryo(number));
        self.wheel.arm(embryo_timer(number), now.after(SECOND));
        self.transmit(&pair, &embryo.answer(&options, limit, clock.wrapping_add(offset)), network);
    }

    fn deliver_to_embryo(&mut self, index: u32, arrival: &Arrival<'_>, network: &mut impl Network) {
        let Some(&embryo) = self.embryos.at(index) else { return };
        let segment = &arrival.segment;
        if segment.has(RST) {
            if segment.sequence == embryo.receive_next {
                self.remove_embryo(index);
            }
        } else if segment.has(SYN) {
            // The SYN came twice: so was the answer lost, or it crosses the answer.
            if segment.sequence.plus(1) == embryo.receive_next && self.challenges.allows(arrival.now) {
                self.answer_again(&embryo, arrival.now, network);
            }
        } else if segment.has(ACK) {
            if segment.acknowledgement != embryo.initial.plus(1) {
                return self.refuse(arrival, network);
            }
            self.complete(Some(index), &embryo, arrival, network);
        }
    }

    fn answer_again(&mut self, embryo: &Embryo, now: Time, network: &mut impl Network) {
        let Some(listener) = self.listeners.at(embryo.listener) else { return };
        let limit = network.segment_limit(embryo.pair.remote.address);
        let stamp = (now.millis() as u32).wrapping_add(self.secret.timestamp_offset(&embryo.pair));
        let answer = embryo.answer(&listener.options, limit, stamp);
        self.transmit(&embryo.pair, &answer, network);
    }

    fn try_cookie(&mut self, listener: u32, arrival: &Arrival<'_>, network: &mut impl Network) {
        let options = self.listeners.at(listener).map(|listener| listener.options).unwrap_or_default();
        let plain = arrival.segment.flags & (SYN | RST) == 0;
        let embryo = if plain && arrival.now < self.cookies_until {
            Embryo::from_cookie(&self.secret, arrival.pair, listener, &arrival.segment, &options, arrival.now)
        } else {
            None
        };
        match embryo {
            Some(embryo) => {
                self.counters.cookies_accepted += 1;
                self.complete(None, &embryo, arrival, network);
            }
            None => self.refuse(arrival, network),
        }
    }

    /// The handshake is complete: the embryo becomes a block and waits to be accepted. With a full queue the
    /// acknowledgement is dropped, and the peer's data or our timer asks again.
    fn complete(&mut self, number: Option<u32>, embryo: &Embryo, arrival: &Arrival<'_>, network: &mut impl Network) {
        let Some(listener) = self.listeners.at(embryo.listener).filter(|listener| !listener.is_full()) else { return };
        let options = listener.options;
        if let Some(number) = number {
            self.remove_embryo(number);
        }
        let limit = network.segment_limit(embryo.pair.remote.address);
        let offset = self.secret.timestamp_offset(&embryo.pair);
        let handle = self.adopt(embryo.grow(&options, limit, offset, arrival.now));
        if let Some(listener) = self.listeners.at_mut(embryo.listener) {
            listener.waiting.push_back(handle);
        }
        self.deliver_to_block(handle.index, arrival, network);
    }

    fn remove_embryo(&mut self, index: u32) {
        let Some(embryo) = self.embryos.remove(index) else { return };
        self.wheel.cancel(embryo_timer(index));
        self.demux.remove(self.secret.lookup(&embryo.pair), Target::Embryo(index));
        if let Some(listener) = self.listeners.at_mut(embryo.listener) {
            listener.embryos -= 1;
        }
    }

    pub(crate) fn expire_embryo(&mut self, index: u32, now: Time, network: &mut impl Network) {
        let Some(embryo) = self.embryos.at_mut(index) else { return };
        embryo.retries += 1;
        let embryo = *embryo;
        let limit = self.listeners.at(embryo.listener).map_or(0, |listener| listener.options.syn_retries);
        if embryo.retries > limit {
            return self.remove_embryo(index);
        }
        self.wheel.arm(embryo_timer(index), now.after(SECOND << embryo.retries.min(BACKOFF_LIMIT)));
        self.answer_again(&embryo, now, network);
    }

    /// Listens at an address and port. An unspecified address takes all of this machine.
    ///
    /// # Errors
    /// [`Error::Unreachable`] when another listener has the same end.
    pub fn listen(&mut self, listener: Listener) -> Result<Handle, Error> {
        let port = listener.local.port;
        let same = |index: &u32| self.listeners.at(*index).is_some_and(|other| other.local == listener.local);
        if port == 0 || self.by_port.get(&port).is_some_and(|others| others.iter().any(same)) {
            return Err(Error::Unreachable);
        }
        let handle = self.listeners.insert(listener);
        self.by_port.entry(port).or_default().push(handle.index);
        Ok(handle)
    }

    pub fn accept(&mut self, listener: Handle) -> Option<Handle> {
        self.listeners.get_mut(listener)?.waiting.pop_front()
    }

    /// Ends a listener: embryos vanish, and connections that wait to be accepted are reset.
    pub fn close_listener(&mut self, listener: Handle, network: &mut impl Network) {
        let Some(local) = self.listeners.get(listener).map(|listener| listener.local) else { return };
        let own = |embryo: &Embryo| embryo.listener == listener.index;
        let mut embryos = alloc::vec::Vec::new();
        embryos.extend(self.embryos.iter().filter(|(_, embryo)| own(embryo)).map(|(handle, _)| handle.index));
        for index in embryos {
            self.remove_embryo(index);
        }
        let waiting = self.listeners.remove(listener.index).map(|listener| listener.waiting).unwrap_or_default();
        if let Some(others) = self.by_port.get_mut(&local.port) {
            others.retain(|index| *index != listener.index);
            if others.is_empty() {
                self.by_port.remove(&local.port);
            }
        }
        for handle in waiting {
            self.abort(handle, network);
        }
    }
}

/// ICMP errors about segments of ours.
impl Tcp {
    /// Whether a segment with this number was sent and is not acknowledged.
    pub fn is_on_its_way(&self, pair: &Pair, sequence: Sequence) -> bool {
        let Some(Target::Block(index)) = self.lookup(pair) else { return false };
        let block = self.connections.at(index).map(|connection| &connection.block);
        block.is_some_and(|block| sequence.is_within(block.send.una, block.send.next))
    }

    /// A router or the peer reports that a segment did not arrive. It ends an opening; later it says nothing for sure
    /// (RFC 1122, 4.2.3.9; RFC 5461).
    pub fn report(&mut self, pair: &Pair, sequence: Sequence, reason: Reason, now: Time) {
        let Some(Target::Block(index)) = self.lookup(pair) else { return };
        let Some(connection) = self.connections.at_mut(index) else { return };
        let opens = matches!(connection.block.state, State::SynSent) && sequence == connection.block.send.una;
        let error = match reason {
            Reason::Refused => Error::Refused,
            Reason::Unreachable => Error::Unreachable,
            Reason::TimeExceeded | Reason::TooBig(_) => return,
        };
        if opens {
            connection.block.end(Some(error), &mut self.released);
            self.settle(index, now);
        }
    }

    /// The path to an address carries less than before: its connections send smaller segments.
    pub fn narrow(&mut self, remote: Ipv6Addr, network: &impl Network) {
        let limit = network.segment_limit(remote);
        let own = self.connections.iter().filter(|(_, connection)| connection.block.pair.remote.address == remote);
        let indices: alloc::vec::Vec<u32> = own.map(|(handle, _)| handle.index).collect();
        for index in indices {
            if let Some(connection) = self.connections.at_mut(index) {
                connection.block.narrow(limit);
                self.mark(index);
            }
        }
    }
}
