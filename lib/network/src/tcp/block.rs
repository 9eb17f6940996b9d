//! Connection block: the state of one TCP connection (RFC 9293, 3.3.1), and what its owner may do with it.
//!
//! A block is pure state. `input` takes segments, `output` yields the next segment to send until it has none, and
//! `deadline` names the time at which `expire` has to be called. So a block can move between stacks (`export`).
//!
//! Invariants:
//! - `send.una <= send.next`, and the send queue begins at `send.queue_start`.
//! - The receive queue and what is out of order take at most `receive.limit` bytes.
//! - While it is idle a block owns no memory but itself.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::congestion::{Algorithm, Congestion};
use super::reassembly::Reassembly;
use super::recovery::{Outstanding, Recovery};
use super::round_trip::RoundTrip;
use super::send_queue::SendQueue;
use super::sequence::Sequence;
use super::timer::{self, Timers};
use super::urgent::Urgent;
use crate::address::Pair;
use crate::link::Extent;
use crate::time::{SECOND, Time};

/// What a peer that names no size can take (RFC 9293, 3.7.1).
pub const DEFAULT_SEGMENT: u16 = 536;
/// No path is so narrow that a smaller segment pays: neither peers nor ICMP messages get below.
pub const LEAST_SEGMENT: u32 = 48;
/// RFC 7323: the largest shift.
pub const SHIFT_LIMIT: u8 = 14;
pub const DEFAULT_BUFFER: u32 = 256 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    SynSent,
    SynReceived,
    Established,
    FinWait1,
    FinWait2,
    CloseWait,
    Closing,
    LastAck,
    TimeWait,
    Closed,
}

/// Why a connection ended against the will of its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    Reset,
    Refused,
    TimedOut,
    Unreachable,
}

/// What the owner of a connection chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    pub no_delay: bool,
    pub cork: bool,
    pub quick_acknowledgement: bool,
    pub keep_alive: bool,
    pub keep_alive_count: u8,
    /// Attempts of a SYN, or of the answer to one, after the first.
    pub syn_retries: u8,
    /// Time-outs in a row after which a connection is given up.
    pub retries: u8,
    /// Seconds.
    pub keep_alive_idle: u32,
    pub keep_alive_interval: u32,
    /// Milliseconds; 0 leaves it to `retries`.
    pub user_time_out: u32,
    /// Bytes that may wait to be read.
    pub receive_limit: u32,
    pub algorithm: Algorithm,
    /// Offered in the SYN. Tests switch them off.
    pub timestamps: bool,
    pub sack: bool,
    pub window_scale: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            no_delay: false,
            cork: false,
            quick_acknowledgement: false,
            keep_alive: false,
            keep_alive_count: 9,
            syn_retries: 6,
            retries: 15,
            keep_alive_idle: 7_200,
            keep_alive_interval: 75,
            user_time_out: 0,
            receive_limit: DEFAULT_BUFFER,
            algorithm: Algorithm::Cubic,
            timestamps: true,
            sack: true,
            window_scale: true,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Send {
    pub una: Sequence,
    pub next: Sequence,
    pub queue_start: Sequence,
    pub queue: SendQueue,
    /// What the peer offers, in bytes, and the segment that said so last.
    pub window: u32,
    pub window_sequence: Sequence,
    pub window_acknowledgement: Sequence,
    pub window_maximum: u32,
    /// Bytes of payload in a full segment.
    pub segment: u32,
    pub shift: u8,
    /// The owner will send nothing more: FIN follows the queue.
    pub fin: bool,
    /// SYN has to be sent (again).
    pub syn_is_due: bool,
    /// A partial segment goes out whatever Nagle's rule says.
    pub forced: bool,
    /// A segment that asks the peer for its state goes out.
    pub probe_is_due: bool,
    /// Probes without an answer, of zero windows or of idle connections.
    pub probes: u8,
    /// The segment whose round trip is measured: its end and when it was sent.
    pub timed_end: Sequence,
    pub timed_at: Time,
    pub last_sent: Time,
    /// When data was sent again last.
    pub resent_at: Time,
    pub urgent: Urgent,
}

#[derive(Debug)]
pub(crate) struct Receive {
    pub next: Sequence,
    /// Right edge of the window that was offered; never moves back.
    pub edge: Sequence,
    pub queue: VecDeque<u8>,
    pub out_of_order: Reassembly,
    pub fin: Option<Sequence>,
    /// Bytes that came since the last acknowledgement was sent.
    pub unacknowledged: u32,
    /// Largest payload that came: what the peer sends as a full segment.
    pub largest: u16,
    pub shift: u8,
    pub acknowledge_now: bool,
    /// So many acknowledgements are not delayed.
    pub quick: u8,
    /// FIN has come, and everything before it.
    pub ended: bool,
    /// Last acknowledgement number that was sent.
    pub acknowledged: Sequence,
    /// When an unacceptable segment without data was answered last, in milliseconds.
    pub answered_at: u32,
    pub urgent: Urgent,
}

/// Timestamps of RFC 7323.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stamps {
    pub enabled: bool,
    pub offset: u32,
    pub recent: u32,
    /// Milliseconds of our clock.
    pub recent_at: u32,
}

#[derive(Debug)]
pub struct Block {
    pub(crate) pair: Pair,
    pub(crate) state: State,
    pub(crate) error: Option<Error>,
    /// The owner gave the connection up: data that comes is answered by a reset.
    pub(crate) orphan: bool,
    pub(crate) sack: bool,
    pub(crate) options: Options,
    pub(crate) send: Send,
    pub(crate) receive: Receive,
    pub(crate) stamps: Stamps,
    pub(crate) recovery: Recovery,
    pub(crate) congestion: Congestion,
    pub(crate) round_trip: RoundTrip,
    pub(crate) timers: Timers,
}

/// Ten thousand idle connections take 4.7 MB.
const _: () = assert!(core::mem::size_of::<Block>() <= 472);

/// What both kinds of opening know.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    pub pair: Pair,
    pub initial: Sequence,
    pub stamp_offset: u32,
    /// Largest segment that the path carries to the peer, headers of IP and TCP without options taken off.
    pub path_segment: u16,
    pub options: Options,
}

/// The shift that makes a receive limit expressible in 16 bits.
pub fn shift_for(limit: u32) -> u8 {
    (0..SHIFT_LIMIT).find(|shift| limit >> shift <= 0xffff).unwrap_or(SHIFT_LIMIT)
}

impl Block {
    fn new(opening: &Opening, state: State) -> Self {
        let initial = opening.initial;
        let segment = u32::from(opening.path_segment).max(LEAST_SEGMENT);
        let send = Send {
            una: initial,
            next: initial,
            queue_start: initial.plus(1),
            queue: SendQueue::default(),
            window: 0,
            window_sequence: Sequence(0),
            window_acknowledgement: Sequence(0),
            window_maximum: 0,
            segment,
            shift: 0,
            fin: false,
            syn_is_due: false,
            forced: false,
            probe_is_due: false,
            probes: 0,
            timed_end: initial,
            timed_at: Time::NEVER,
            last_sent: Time::default(),
            resent_at: Time::default(),
            urgent: Urgent::default(),
        };
        let receive = Receive {
            next: Sequence(0),
            edge: Sequence(0),
            queue: VecDeque::new(),
            out_of_order: Reassembly::default(),
            fin: None,
            unacknowledged: 0,
            largest: 0,
            shift: 0,
            acknowledge_now: false,
            quick: 16,
            ended: false,
            acknowledged: Sequence(0),
            answered_at: 0,
            urgent: Urgent::default(),
        };
        Self {
            pair: opening.pair,
            state,
            error: None,
            orphan: false,
            sack: false,
            options: opening.options,
            send,
            receive,
            stamps: Stamps { offset: opening.stamp_offset, ..Stamps::default() },
            recovery: Recovery::new(initial),
            congestion: Congestion::new(opening.options.algorithm, segment),
            round_trip: RoundTrip::default(),
            timers: Timers::default(),
        }
    }

    /// An active opening: the first `output` is the SYN.
    pub fn connect(opening: &Opening) -> Self {
        let mut block = Self::new(opening, State::SynSent);
        block.send.syn_is_due = true;
        block.receive.shift = if opening.options.window_scale { shift_for(opening.options.receive_limit) } else { 0 };
        block
    }

    /// A connection whose handshake a listener has completed. The caller fills in what was agreed upon.
    pub(crate) fn accepted(opening: &Opening) -> Self {
        let mut block = Self::new(opening, State::Established);
        block.send.una = opening.initial.plus(1);
        block.send.next = block.send.una;
        block.recovery = Recovery::new(block.send.una);
        block
    }

    pub fn pair(&self) -> &Pair {
        &self.pair
    }

    pub fn state(&self) -> State {
        self.state
    }

    pub fn error(&self) -> Option<Error> {
        self.error
    }

    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Options that an owner changes. Keep-alive begins with the change: an idle connection hears nothing.
    pub fn set_options(&mut self, options: Options, now: Time) {
        let alive = |options: &Options| (options.keep_alive, options.keep_alive_idle);
        let is_changed = alive(&options) != alive(&self.options);
        self.options = options;
        if is_changed && !matches!(self.state, State::SynSent | State::SynReceived | State::Closed | State::TimeWait) {
            self.heard(now);
        }
    }

    pub fn deadline(&self) -> Time {
        self.timers.deadline()
    }

    /// Sequence number behind the last byte of the send queue.
    pub(crate) fn queue_end(&self) -> Sequence {
        self.send.queue_start.plus(self.send.queue.length())
    }

    pub(crate) fn fin_is_sent(&self) -> bool {
        self.send.fin && self.send.next == self.queue_end().plus(1)
    }

    pub(crate) fn flight(&self) -> u32 {
        self.send.next.distance(self.send.una)
    }

    pub(crate) fn outstanding(&self) -> Outstanding {
        let (una, next) = (self.send.una, self.send.next);
        Outstanding { una, next, segment: self.send.segment, window: self.congestion.window }
    }

    /// Whether the owner may queue more to send.
    pub fn may_send(&self) -> bool {
        matches!(self.state, State::SynSent | State::SynReceived | State::Established | State::CloseWait)
            && !self.send.fin
    }

    /// Bytes queued and not acknowledged.
    pub fn queued(&self) -> u32 {
        self.send.queue.length()
    }

    /// The same with the acknowledged bytes of an extent that is not released yet: its owner must not change them.
    pub fn held(&self) -> u32 {
        self.send.queue.held()
    }

    /// What these bytes lie in.
    pub fn extents(&self) -> impl Iterator<Item = &Extent> {
        self.send.queue.extents()
    }

    /// Whether less than a segment waits: more could be on its way if more were queued.
    pub fn is_hungry(&self) -> bool {
        self.queued() < self.flight() + self.send.segment
    }

    /// Queues bytes by reference. Returns false when the connection takes no more.
    pub fn send(&mut self, extent: Extent) -> bool {
        let has_room = self.send.queue.length().checked_add(extent.length).is_some_and(|total| total < 1 << 30);
        let may = self.may_send() && has_room;
        if may {
            self.send.queue.push(extent);
        }
        may
    }

    /// Bytes that wait to be read.
    pub fn readable(&self) -> usize {
        self.receive.queue.len()
    }

    /// Bytes that wait for a gap to be filled.
    pub fn out_of_order(&self) -> usize {
        self.receive.out_of_order.bytes()
    }

    /// Whether everything that the peer sent was read, and nothing more will come.
    pub fn is_at_end(&self) -> bool {
        let no_more = self.receive.ended || matches!(self.state, State::Closed | State::TimeWait);
        no_more && self.receive.queue.is_empty()
    }

    /// Moves received bytes into `buffer`, and returns how many.
    pub fn read(&mut self, buffer: &mut [u8]) -> usize {
        let count = buffer.len().min(self.receive.queue.len());
        let (first, second) = self.receive.queue.as_slices();
        let split = first.len().min(count);
        buffer[..split].copy_from_slice(&first[..split]);
        buffer[split..count].copy_from_slice(&second[..count - split]);
        self.receive.queue.drain(..count);
        if self.receive.queue.is_empty() {
            self.receive.queue = VecDeque::new();
        }
        if count > 0 {
            self.forget_read_urgent();
            self.announce_room();
        }
        count
    }

    /// Sends a window update when reading made much room.
    fn announce_room(&mut self) {
        let growth = self.window_edge().distance(self.receive.edge);
        let step = (self.options.receive_limit / 2).min(2 * u32::from(self.receive.largest.max(DEFAULT_SEGMENT)));
        let may_receive = matches!(self.state, State::Established | State::FinWait1 | State::FinWait2);
        if may_receive && growth >= step {
            self.receive.acknowledge_now = true;
        }
    }

    /// The right edge that the room in the receive queue allows, never before the one that was offered.
    pub(crate) fn window_edge(&self) -> Sequence {
        let queued = self.receive.queue.len() as u32;
        let room = self.options.receive_limit.saturating_sub(queued);
        self.receive.next.plus(room).max(self.receive.edge)
    }

    /// The owner sends nothing more: FIN follows what is queued.
    pub fn shut_down(&mut self, now: Time) {
        self.send.fin = true;
        match self.state {
            State::Established => self.state = State::FinWait1,
            State::CloseWait => self.state = State::LastAck,
            // FIN waits for the handshake.
            _ => {}
        }
        if self.state == State::FinWait2 && self.orphan {
            self.timers.linger = now.after(timer::FIN_WAIT_2);
        }
    }

    /// The owner gives the connection up. Returns whether it has to be aborted because received data is lost.
    pub fn close(&mut self, now: Time) -> bool {
        self.orphan = true;
        if self.readable() > 0 {
            return true;
        }
        self.shut_down(now);
        if self.state == State::SynSent && self.queued() == 0 {
            self.state = State::Closed;
        }
        false
    }

    /// Ends the connection at once: all memory goes, all timers stop.
    pub fn end(&mut self, error: Option<Error>, released: &mut Vec<Extent>) {
        self.state = State::Closed;
        self.error = self.error.or(error);
        self.send.queue.clear(released);
        self.receive.out_of_order.clear();
        self.recovery.board.clear();
        self.timers = Timers::default();
    }

    /// The connection enters TIME_WAIT: a compact record answers for it from now on.
    pub(crate) fn enter_time_wait(&mut self, released: &mut Vec<Extent>) {
        self.end(None, released);
        self.state = State::TimeWait;
    }

    /// The path carries no more than `segment` bytes of payload and options (RFC 8201, RFC 1191).
    pub fn narrow(&mut self, segment: u16) {
        let stamps = if self.stamps.enabled { super::segment::TIMESTAMP_BYTES as u32 } else { 0 };
        let segment = u32::from(segment).saturating_sub(stamps).max(LEAST_SEGMENT);
        if segment < self.send.segment {
            self.send.segment = segment;
            let sender = self.outstanding();
            if !matches!(self.state, State::SynSent | State::SynReceived) {
                self.recovery.resend_all(&sender);
            }
        }
    }

    pub(crate) fn stamp(&self, now: Time) -> u32 {
        (now.millis() as u32).wrapping_add(self.stamps.offset)
    }

    /// Arms the keep-alive timer after something came.
    pub(crate) fn heard(&mut self, now: Time) {
        self.send.probes = 0;
        let idle = u64::from(self.options.keep_alive_idle) * SECOND;
        self.timers.alive = if self.options.keep_alive { now.after(idle) } else { Time::NEVER };
    }
}
