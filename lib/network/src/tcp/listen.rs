//! Listeners, and handshakes of strangers as small records (embryos) until they are complete.
//!
//! A SYN costs at most one embryo of 64 bytes. When the table or the listener has too many, the answer is a cookie,
//! which costs nothing (FAULTS row 79). An embryo becomes a block with the acknowledgement of its SYN.

use alloc::collections::VecDeque;

use super::block::{Block, DEFAULT_SEGMENT, Opening, Options, SHIFT_LIMIT, shift_for};
use super::cookie;
use super::segment::{Outgoing, SYN, Segment, Timestamps};
use super::sequence::Sequence;
use crate::address::{Endpoint, Pair};
use crate::secret::Secret;
use crate::slab::Handle;
use crate::time::Time;

/// Embryos of a whole stack.
pub const EMBRYO_LIMIT: usize = 1_024;
/// The time until SYN with ACK is sent again doubles no further than so often.
pub const BACKOFF_LIMIT: u8 = 6;
const NO_SHIFT: u8 = u8::MAX;

#[derive(Debug)]
pub struct Listener {
    /// An unspecified address takes every one of this machine.
    pub local: Endpoint,
    /// Takes no IPv4 even with the unspecified IPv6 address.
    pub only_version_6: bool,
    /// Complete connections that may wait to be accepted, and as many embryos.
    pub backlog: usize,
    pub options: Options,
    pub waiting: VecDeque<Handle>,
    pub embryos: usize,
}

impl Listener {
    /// One at this end, of both versions where its address is unspecified.
    pub const fn new(local: Endpoint, backlog: usize, options: Options) -> Self {
        Self { local, only_version_6: false, backlog, options, waiting: VecDeque::new(), embryos: 0 }
    }

    pub fn takes(&self, local: &Endpoint) -> bool {
        let version_4 = local.address.to_ipv4_mapped().is_some();
        let any = self.local.address.is_unspecified() && !(self.only_version_6 && version_4)
            || version_4 && self.local.address.to_ipv4_mapped().is_some_and(|address| address.is_unspecified());
        self.local.port == local.port && (any || self.local.address == local.address)
    }

    pub fn is_full(&self) -> bool {
        self.waiting.len() >= self.backlog
    }
}

/// A handshake that waits for the acknowledgement of its SYN.
#[derive(Clone, Copy, Debug)]
pub struct Embryo {
    pub pair: Pair,
    pub listener: u32,
    pub initial: Sequence,
    /// The peer's number behind its SYN.
    pub receive_next: Sequence,
    /// The peer's timestamp; with `stamps` unset it means nothing.
    pub recent: u32,
    pub segment: u16,
    shift: u8,
    pub retries: u8,
    pub sack: bool,
    pub stamps: bool,
}

const _: () = assert!(core::mem::size_of::<Embryo>() <= 64);

impl Embryo {
    pub fn new(pair: Pair, listener: u32, syn: &Segment, initial: Sequence, options: &Options) -> Self {
        let stamps = syn.timestamps.filter(|_| options.timestamps);
        let shift = syn.window_shift.filter(|_| options.window_scale).map_or(NO_SHIFT, |shift| shift.min(SHIFT_LIMIT));
        Self {
            pair,
            listener,
            initial,
            receive_next: syn.sequence.plus(1),
            recent: stamps.map_or(0, |stamps| stamps.value),
            segment: syn.maximum_segment.unwrap_or(DEFAULT_SEGMENT),
            shift,
            retries: 0,
            sack: options.sack && syn.sack_permitted,
            stamps: stamps.is_some(),
        }
    }

    /// What a cookie says about the handshake; `segment` is the acknowledgement that carries it.
    pub fn from_cookie(
        secret: &Secret,
        pair: Pair,
        listener: u32,
        segment: &Segment,
        options: &Options,
        now: Time,
    ) -> Option<Self> {
        let (initial, peer) = (segment.acknowledgement.minus(1), segment.sequence.minus(1));
        let size = cookie::open(secret, &pair, peer, initial, now)?;
        let stamps = segment.timestamps.filter(|_| options.timestamps);
        let (shift, sack) = stamps.map_or((None, false), |stamps| {
            cookie::options_in(stamps.echo.wrapping_sub(secret.timestamp_offset(&pair)))
        });
        Some(Self {
            pair,
            listener,
            initial,
            receive_next: segment.sequence,
            recent: stamps.map_or(0, |stamps| stamps.value),
            segment: size,
            shift: shift.filter(|_| options.window_scale).map_or(NO_SHIFT, |shift| shift.min(SHIFT_LIMIT)),
            retries: 0,
            sack: sack && options.sack,
            stamps: stamps.is_some(),
        })
    }

    /// The shift of the peer's window, when scaling was agreed upon.
    fn peer_shift(&self) -> Option<u8> {
        (self.shift != NO_SHIFT).then_some(self.shift)
    }

    /// SYN with ACK. `segment_limit` is what this end announces.
    pub fn answer(&self, options: &Options, segment_limit: u16, stamp: u32) -> Outgoing {
        Outgoing {
            sequence: self.initial,
            acknowledgement: Some(self.receive_next),
            flags: SYN,
            window: options.receive_limit.min(0xffff) as u16,
            maximum_segment: Some(segment_limit),
            window_shift: self.peer_shift().map(|_| shift_for(options.receive_limit)),
            sack_permitted: self.sack,
            timestamps: self.stamps.then_some(Timestamps { value: stamp, echo: self.recent }),
            ..Outgoing::default()
        }
    }

    /// The same answer as a cookie: the options hide in the timestamp.
    pub fn cookie_answer(&self, options: &Options, segment_limit: u16, clock: u32, offset: u32) -> Outgoing {
        let stamp = cookie::stamp_with(clock, self.peer_shift(), self.sack).wrapping_add(offset);
        let mut answer = self.answer(options, segment_limit, stamp);
        if !self.stamps {
            (answer.window_shift, answer.sack_permitted) = (None, false);
        }
        answer
    }

    /// The block of the complete connection.
    pub fn grow(&self, options: &Options, path_segment: u16, stamp_offset: u32, now: Time) -> Block {
        let opening = Opening { pair: self.pair, initial: self.initial, stamp_offset, path_segment, options: *options };
        let mut block = Block::accepted(&opening);
        block.sack = self.sack;
        block.stamps.enabled = self.stamps;
        (block.stamps.recent, block.stamps.recent_at) = (self.recent, now.millis() as u32);
        if let Some(shift) = self.peer_shift() {
            (block.send.shift, block.receive.shift) = (shift, shift_for(options.receive_limit));
        }
        block.receive.next = self.receive_next;
        block.receive.acknowledged = self.receive_next;
        block.receive.edge = self.receive_next.plus(options.receive_limit.min(0xffff));
        block.send.window_sequence = self.receive_next.minus(1);
        block.send.window_acknowledgement = self.initial;
        block.send.last_sent = now;
        block.limit_segment(Some(self.segment));
        block.heard(now);
        block
    }
}
