//! Export and import of a connection: it leaves one stack and continues in another.
//!
//! The state takes at most [`LIMIT`] bytes; extents of the send queue and received bytes travel with it. Deadlines are
//! absolute, so both stacks share a clock; they share their key as well, so that timestamps continue in order.
//!
//! One list of fields serves both directions. An import checks the invariants of a block: what does not hold them is
//! refused, whatever its bytes are.

use alloc::vec::Vec;

use super::block::{Block, Error, LEAST_SEGMENT, Opening, Options, SHIFT_LIMIT, State};
use super::congestion::Algorithm;
use super::demux::Target;
use super::engine::{Network, Tcp, block_timer};
use super::recovery::Phase;
use super::send_queue::SendQueue;
use super::sequence::Sequence;
use super::urgent::Urgent;
use crate::address::{Endpoint, Pair};
use crate::link::Extent;
use crate::slab::Handle;
use crate::time::Time;

/// Bytes of the state, at most.
pub const LIMIT: usize = 512;
/// SACK ranges that travel. The peer's bytes in further ones are sent again.
const RANGES: usize = 16;

const STATES: [State; 8] = [
    State::SynSent,
    State::SynReceived,
    State::Established,
    State::FinWait1,
    State::FinWait2,
    State::CloseWait,
    State::Closing,
    State::LastAck,
];

/// A connection between two stacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    pub state: Vec<u8>,
    /// The send queue.
    pub extents: Vec<Extent>,
    /// Bytes that wait to be read.
    pub received: Vec<u8>,
    /// Bytes beyond a gap.
    pub out_of_order: Vec<(Sequence, Vec<u8>)>,
}

/// Writes fields to bytes, or reads them from there.
struct Codec {
    bytes: Vec<u8>,
    /// Where the next field is read; `None` while writing.
    at: Option<usize>,
    has_failed: bool,
}

impl Codec {
    fn octets<const N: usize>(&mut self, value: &mut [u8; N]) {
        match self.at {
            None => self.bytes.extend_from_slice(value),
            Some(at) => match self.bytes.get(at..at + N) {
                Some(bytes) => {
                    value.copy_from_slice(bytes);
                    self.at = Some(at + N);
                }
                None => self.has_failed = true,
            },
        }
    }

    fn byte(&mut self, value: &mut u8) {
        let mut octets = [*value];
        self.octets(&mut octets);
        *value = octets[0];
    }

    fn flag(&mut self, value: &mut bool) {
        let mut byte = u8::from(*value);
        self.byte(&mut byte);
        self.has_failed |= byte > 1;
        *value = byte == 1;
    }

    fn half(&mut self, value: &mut u16) {
        let mut octets = value.to_be_bytes();
        self.octets(&mut octets);
        *value = u16::from_be_bytes(octets);
    }

    fn word(&mut self, value: &mut u32) {
        let mut octets = value.to_be_bytes();
        self.octets(&mut octets);
        *value = u32::from_be_bytes(octets);
    }

    fn sequence(&mut self, value: &mut Sequence) {
        self.word(&mut value.0);
    }

    fn time(&mut self, value: &mut Time) {
        let mut octets = value.micros().to_be_bytes();
        self.octets(&mut octets);
        *value = Time::from_micros(u64::from_be_bytes(octets));
    }

    /// One of a list of values, by its place.
    fn choice<T: Copy + PartialEq>(&mut self, value: &mut T, all: &[T]) {
        let mut place = all.iter().position(|other| other == value).unwrap_or(0) as u8;
        self.byte(&mut place);
        match all.get(usize::from(place)) {
            Some(found) => *value = *found,
            None => self.has_failed = true,
        }
    }

    fn endpoint(&mut self, endpoint: &mut Endpoint) {
        let mut octets = endpoint.address.octets();
        self.octets(&mut octets);
        endpoint.address = octets.into();
        self.half(&mut endpoint.port);
    }

    fn block(&mut self, block: &mut Block) {
        self.endpoint(&mut block.pair.local);
        self.endpoint(&mut block.pair.remote);
        self.choice(&mut block.state, &STATES);
        let errors = [None, Some(Error::Reset), Some(Error::Refused), Some(Error::TimedOut), Some(Error::Unreachable)];
        self.choice(&mut block.error, &errors);
        self.flag(&mut block.sack);
        self.options(&mut block.options);
        self.send(block);
        self.receive(block);
        self.flag(&mut block.stamps.enabled);
        for word in [&mut block.stamps.offset, &mut block.stamps.recent, &mut block.stamps.recent_at] {
            self.word(word);
        }
        self.recovery(block);
        self.congestion(block);
        for word in [&mut block.round_trip.smoothed, &mut block.round_trip.variation] {
            self.word(word);
        }
        self.byte(&mut block.round_trip.backoff);
        self.byte(&mut block.round_trip.attempts);
        let timers = &mut block.timers;
        for time in [&mut timers.retransmit, &mut timers.persist, &mut timers.acknowledge, &mut timers.alive] {
            self.time(time);
        }
        self.time(&mut timers.linger);
        self.time(&mut timers.waiting_since);
    }

    fn options(&mut self, options: &mut Options) {
        for flag in [
            &mut options.no_delay,
            &mut options.cork,
            &mut options.quick_acknowledgement,
            &mut options.keep_alive,
            &mut options.timestamps,
            &mut options.sack,
            &mut options.window_scale,
        ] {
            self.flag(flag);
        }
        self.byte(&mut options.keep_alive_count);
        self.byte(&mut options.syn_retries);
        self.byte(&mut options.retries);
        for word in [
            &mut options.keep_alive_idle,
            &mut options.keep_alive_interval,
            &mut options.user_time_out,
            &mut options.receive_limit,
        ] {
            self.word(word);
        }
        self.choice(&mut options.algorithm, &[Algorithm::Cubic, Algorithm::NewReno]);
    }

    fn send(&mut self, block: &mut Block) {
        let send = &mut block.send;
        for number in [
            &mut send.una,
            &mut send.next,
            &mut send.queue_start,
            &mut send.window_sequence,
            &mut send.window_acknowledgement,
            &mut send.timed_end,
        ] {
            self.sequence(number);
        }
        for word in [&mut send.window, &mut send.window_maximum, &mut send.segment] {
            self.word(word);
        }
        for flag in [&mut send.fin, &mut send.syn_is_due, &mut send.forced, &mut send.probe_is_due] {
            self.flag(flag);
        }
        self.urgent(&mut send.urgent);
        self.byte(&mut send.shift);
        self.byte(&mut send.probes);
        for time in [&mut send.timed_at, &mut send.last_sent, &mut send.resent_at] {
            self.time(time);
        }
    }

    fn receive(&mut self, block: &mut Block) {
        let receive = &mut block.receive;
        let mut has_fin = receive.fin.is_some();
        let mut fin = receive.fin.unwrap_or_default();
        self.flag(&mut has_fin);
        for number in [&mut receive.next, &mut receive.edge, &mut receive.acknowledged, &mut fin] {
            self.sequence(number);
        }
        receive.fin = has_fin.then_some(fin);
        self.word(&mut receive.unacknowledged);
        self.word(&mut receive.answered_at);
        self.half(&mut receive.largest);
        self.byte(&mut receive.shift);
        self.byte(&mut receive.quick);
        self.flag(&mut receive.acknowledge_now);
        self.flag(&mut receive.ended);
        self.urgent(&mut receive.urgent);
    }

    fn urgent(&mut self, urgent: &mut Urgent) {
        self.flag(&mut urgent.is_there);
        self.sequence(&mut urgent.byte);
    }

    fn recovery(&mut self, block: &mut Block) {
        let recovery = &mut block.recovery;
        self.choice(&mut recovery.phase, &[Phase::Open, Phase::Fast, Phase::Loss]);
        self.sequence(&mut recovery.point);
        self.sequence(&mut recovery.retransmitted);
        self.word(&mut recovery.inflation);
        self.byte(&mut recovery.duplicates);
        self.flag(&mut recovery.head_is_due);
        self.flag(&mut recovery.rescued);
        let mut ranges: Vec<_> = recovery.board.ranges().iter().take(RANGES).copied().collect();
        let mut count = ranges.len() as u8;
        self.byte(&mut count);
        self.has_failed |= usize::from(count) > RANGES;
        ranges.resize(usize::from(count).min(RANGES), Default::default());
        for (first, end) in &mut ranges {
            self.sequence(first);
            self.sequence(end);
        }
        recovery.board.clear();
        for range in ranges {
            recovery.board.record(range, block.send.una, block.send.next);
        }
    }

    fn congestion(&mut self, block: &mut Block) {
        self.word(&mut block.congestion.window);
        self.word(&mut block.congestion.threshold);
        block.congestion.restart(block.options.algorithm);
    }
}

/// A block whose fields an import fills in.
fn blank() -> Block {
    let nowhere = Endpoint::new([0, 0, 0, 0], 0);
    let options = Options::default();
    let pair = Pair { local: nowhere, remote: nowhere };
    Block::connect(&Opening { pair, initial: Sequence(0), stamp_offset: 0, path_segment: u16::MAX, options })
}

impl Block {
    /// Takes the block apart.
    pub fn export(mut self) -> Exported {
        let mut codec = Codec { bytes: Vec::new(), at: None, has_failed: false };
        codec.block(&mut self);
        let mut head = self.send.queue.head();
        codec.word(&mut head);
        let out_of_order = self.receive.out_of_order.chunks().map(|(first, bytes)| (first, bytes.to_vec())).collect();
        Exported {
            state: codec.bytes,
            extents: self.send.queue.extents().copied().collect(),
            received: self.receive.queue.into(),
            out_of_order,
        }
    }

    /// Puts a block together; `None` when its parts contradict each other.
    pub fn import(exported: Exported) -> Option<Self> {
        let mut codec = Codec { bytes: exported.state, at: Some(0), has_failed: false };
        let mut block = blank();
        codec.block(&mut block);
        let mut head = 0;
        codec.word(&mut head);
        if codec.has_failed || codec.at != Some(codec.bytes.len()) {
            return None;
        }
        block.send.queue = SendQueue::restore(exported.extents, head)?;
        block.receive.queue = exported.received.into();
        for (first, bytes) in exported.out_of_order {
            let end = first.plus(u32::try_from(bytes.len()).ok()?);
            if first <= block.receive.next || end > block.receive.edge || end <= first {
                return None;
            }
            block.receive.out_of_order.insert(first, &bytes);
        }
        block.is_sound().then_some(block)
    }

    /// The invariants that input and output build on.
    fn is_sound(&self) -> bool {
        let (send, receive) = (&self.send, &self.receive);
        let opens = matches!(self.state, State::SynSent | State::SynReceived);
        let fin_is_acknowledged = send.fin && send.una == self.queue_end().plus(1);
        let una_fits = match opens {
            true => send.una.plus(1) == send.queue_start && send.next.distance(send.una) <= 1,
            false => send.una == send.queue_start || fin_is_acknowledged,
        };
        let last = if send.fin { self.queue_end().plus(1) } else { self.queue_end() };
        let sends = una_fits && send.una <= send.next && (opens || send.next <= last);
        let sizes = (LEAST_SEGMENT..=0xffff).contains(&send.segment)
            && send.queue.length() < 1 << 30
            && self.congestion.window >= 1
            && self.congestion.window <= 1 << 30
            && self.round_trip.smoothed <= super::round_trip::MOST
            && self.round_trip.variation <= 4 * super::round_trip::MOST
            && send.window <= 0xffff << SHIFT_LIMIT
            && send.window_maximum <= 0xffff << SHIFT_LIMIT;
        let window = receive.edge.distance(receive.next);
        let receives = receive.next <= receive.edge
            && window <= self.options.receive_limit.max(0xffff)
            && self.options.receive_limit <= 1 << 30
            && receive.queue.len() <= self.options.receive_limit as usize
            && receive.unacknowledged <= 1 << 30
            && receive.acknowledged <= receive.next
            && receive.fin.is_none_or(|fin| fin.plus(1) >= receive.next && fin <= receive.edge)
            && receive.ended == (receive.fin.is_some_and(|fin| fin.plus(1) == receive.next));
        let ends_fit = receive.ended == matches!(self.state, State::CloseWait | State::Closing | State::LastAck);
        let closes = matches!(self.state, State::FinWait1 | State::FinWait2 | State::Closing | State::LastAck);
        let recovery = &self.recovery;
        let recovers = recovery.point <= send.next
            && recovery.retransmitted <= send.next
            && (opens || recovery.phase == Phase::Open || recovery.retransmitted >= send.una)
            && recovery.inflation <= 1 << 30;
        let urgent = !send.urgent.is_there || send.una <= send.urgent.byte && send.urgent.byte < self.queue_end();
        let shifts = send.shift <= SHIFT_LIMIT && receive.shift <= SHIFT_LIMIT;
        sends && sizes && receives && recovers && urgent && shifts && ends_fit && (opens || closes == send.fin)
    }
}

impl Tcp {
    /// Takes a connection out of this stack. `None` for one that has ended. Its packets have to go to the new stack
    /// from now on: here they are answered by resets.
    pub fn export(&mut self, handle: Handle) -> Option<Exported> {
        let state = self.block(handle)?.state();
        if matches!(state, State::Closed | State::TimeWait) {
            return None;
        }
        let connection = self.connections.remove(handle.index)?;
        self.wheel.cancel(block_timer(handle.index));
        self.demux.remove(self.secret.lookup(&connection.block.pair), Target::Block(handle.index));
        Some(connection.block.export())
    }

    /// Continues a connection from another stack. `None` when it is unsound or its pair is in use here; then the
    /// extents stay the caller's.
    pub fn import(&mut self, exported: Exported, now: Time, network: &mut impl Network) -> Option<Handle> {
        let block = Block::import(exported)?;
        if self.lookup(&block.pair).is_some() {
            return None;
        }
        let handle = self.adopt(block);
        self.flush(now, network);
        Some(handle)
    }
}
