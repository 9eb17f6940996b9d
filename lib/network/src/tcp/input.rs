//! Input: what a segment does to a block (RFC 9293, 3.10.7). With PAWS (RFC 7323), the checks against blind attacks
//! (RFC 5961) and the receiver's half of SACK (RFC 2018).

use alloc::vec::Vec;

use super::block::{Block, DEFAULT_SEGMENT, Error, LEAST_SEGMENT, SHIFT_LIMIT, Stamps, State};
use super::challenge::ChallengeLimit;
use super::congestion::Congestion;
use super::recovery::{Phase, Recovery};
use super::segment::{ACK, FIN, Outgoing, RST, SYN, Segment, TIMESTAMP_BYTES, URG};
use super::timer;
use crate::link::Extent;
use crate::time::Time;

/// RFC 7323, 5.5: a timestamp older than 24 days says nothing.
const STAMP_AGE_LIMIT: u32 = 24 * 24 * 3600 * 1000;
/// Unacceptable segments without data are answered no more often (milliseconds): two ends that disagree would
/// answer each other for ever.
const ANSWER_INTERVAL: u32 = 500;
/// While a peer answers with a closed window, time-outs double no further than so often.
const CLOSED_WINDOW_BACKOFF: u8 = 8;

/// What input needs in addition to the block and the segment.
pub struct Context<'a> {
    pub now: Time,
    pub released: &'a mut Vec<Extent>,
    pub challenges: &'a mut ChallengeLimit,
}

impl Block {
    /// Takes a segment of this connection. A reset to send comes back; everything else goes out by `output`.
    pub fn input(&mut self, segment: &Segment, payload: &[u8], context: &mut Context<'_>) -> Option<Outgoing> {
        match self.state {
            State::Closed | State::TimeWait => None,
            State::SynSent => self.input_syn_sent(segment, payload, context),
            _ if self.is_predicted(segment, payload) => {
                self.input_predicted(segment, payload, context);
                None
            }
            _ => self.input_synchronized(segment, payload, context),
        }
    }

    /// Header prediction: the next data in order, or an acknowledgement alone, and nothing else that is new.
    fn is_predicted(&self, segment: &Segment, payload: &[u8]) -> bool {
        let stamps_fit = match segment.timestamps {
            Some(stamps) => self.stamps.enabled && stamps.value.wrapping_sub(self.stamps.recent).cast_signed() >= 0,
            None => !self.stamps.enabled,
        };
        self.state == State::Established
            && segment.flags & (ACK | FIN | SYN | RST | URG) == ACK
            && segment.sequence == self.receive.next
            && segment.sack[0].is_none()
            && stamps_fit
            && self.recovery.phase == Phase::Open
            && segment.acknowledgement == self.send.una
            && !payload.is_empty()
            && u32::from(segment.window) << self.send.shift == self.send.window
            && self.receive.out_of_order.is_empty()
            && self.receive.fin.is_none()
            && !self.orphan
            && payload.len() as u32 <= self.receive.edge.distance(self.receive.next)
    }

    fn input_predicted(&mut self, segment: &Segment, payload: &[u8], context: &mut Context<'_>) {
        self.update_stamps(segment, context.now);
        self.heard(context.now);
        self.take_in_order(payload);
        self.schedule_acknowledgement(context.now);
    }

    fn input_synchronized(&mut self, segment: &Segment, payload: &[u8], context: &mut Context<'_>) -> Option<Outgoing> {
        let segment = &self.without_known_syn(segment);
        if self.is_old_by_stamp(segment, context.now) && !segment.has(RST)
            || !self.is_acceptable(segment, payload.len())
        {
            self.answer_unacceptable(segment, payload.len(), context);
            return None;
        }
        if segment.has(RST) {
            self.input_reset(segment, context);
            return None;
        }
        if segment.has(SYN) {
            self.challenge(context);
            return None;
        }
        if !segment.has(ACK) {
            return None;
        }
        if self.state == State::SynReceived {
            let acknowledges = segment.acknowledgement == self.send.next;
            if !acknowledges {
                return Outgoing::reset_for(segment, payload.len());
            }
            self.establish(context.now);
        } else if !self.is_acknowledgement_acceptable(segment) {
            self.challenge(context);
            return None;
        }
        self.update_stamps(segment, context.now);
        self.heard(context.now);
        self.input_acknowledgement(segment, payload.len(), context);
        self.input_urgent(segment);
        self.input_payload(segment, payload, context)
    }

    /// In a simultaneous opening the peer's SYN comes a second time, with the acknowledgement of ours.
    fn without_known_syn(&self, segment: &Segment) -> Segment {
        let is_known = segment.has(SYN) && segment.has(ACK) && segment.sequence.plus(1) == self.receive.next;
        if self.state != State::SynReceived || !is_known {
            return *segment;
        }
        let (flags, window) = (segment.flags & !SYN, segment.window >> self.send.shift);
        Segment { flags, window, sequence: self.receive.next, ..*segment }
    }

    /// RFC 9293, 3.4: the segment begins in the window or reaches into it.
    fn is_acceptable(&self, segment: &Segment, payload: usize) -> bool {
        let (next, edge) = (self.receive.next, self.receive.edge);
        let window = edge.distance(next);
        let (first, length) = (segment.sequence, segment.length(payload));
        // At a closed window the acknowledgement counts and the payload does not.
        first == next
            || first.is_within(next, edge)
            || length > 0 && window > 0 && first < next && next < first.plus(length)
    }

    /// PAWS: the timestamp is older than the last one in order.
    fn is_old_by_stamp(&self, segment: &Segment, now: Time) -> bool {
        let Some(stamps) = segment.timestamps.filter(|_| self.stamps.enabled) else { return false };
        let is_older = stamps.value.wrapping_sub(self.stamps.recent).cast_signed() < 0;
        is_older && (now.millis() as u32).wrapping_sub(self.stamps.recent_at) < STAMP_AGE_LIMIT
    }

    /// RFC 7323, 4.3: only a segment that begins where the last acknowledgement ended counts.
    fn update_stamps(&mut self, segment: &Segment, now: Time) {
        let Some(stamps) = segment.timestamps.filter(|_| self.stamps.enabled) else { return };
        let is_newer = stamps.value.wrapping_sub(self.stamps.recent).cast_signed() >= 0;
        if is_newer && segment.sequence <= self.receive.acknowledged {
            (self.stamps.recent, self.stamps.recent_at) = (stamps.value, now.millis() as u32);
        }
    }

    fn answer_unacceptable(&mut self, segment: &Segment, payload: usize, context: &mut Context<'_>) {
        if segment.has(RST) {
            return;
        }
        if segment.has(SYN) {
            return self.challenge(context);
        }
        let now = context.now.millis() as u32;
        if payload == 0 && now.wrapping_sub(self.receive.answered_at) < ANSWER_INTERVAL && self.receive.answered_at != 0
        {
            return;
        }
        self.receive.answered_at = if payload == 0 { now } else { self.receive.answered_at };
        self.receive.acknowledge_now = true;
    }

    fn challenge(&mut self, context: &mut Context<'_>) {
        if context.challenges.allows(context.now) {
            self.receive.acknowledge_now = true;
        }
    }

    /// RFC 5961, 3.2: only the exact number resets; another one in the window is asked about.
    fn input_reset(&mut self, segment: &Segment, context: &mut Context<'_>) {
        if segment.sequence != self.receive.next {
            return self.challenge(context);
        }
        let error = match self.state {
            State::SynReceived => Some(Error::Refused),
            State::Closing | State::LastAck => None,
            _ => Some(Error::Reset),
        };
        self.end(error, context.released);
    }

    /// RFC 5961, 5.2: neither what was never sent nor what is older than the largest window.
    fn is_acknowledgement_acceptable(&self, segment: &Segment) -> bool {
        let oldest = self.send.una.minus(self.send.window_maximum.max(1));
        segment.acknowledgement >= oldest && segment.acknowledgement <= self.send.next
    }

    fn input_syn_sent(&mut self, segment: &Segment, payload: &[u8], context: &mut Context<'_>) -> Option<Outgoing> {
        if segment.has(ACK) && segment.acknowledgement != self.send.una.plus(1) {
            return Outgoing::reset_for(segment, payload.len());
        }
        if segment.has(RST) {
            if segment.has(ACK) {
                self.end(Some(Error::Refused), context.released);
            }
            return None;
        }
        if !segment.has(SYN) {
            return None;
        }
        self.agree(segment, context.now);
        self.heard(context.now);
        if !segment.has(ACK) {
            // A simultaneous opening: both ends sent SYN.
            self.state = State::SynReceived;
            self.send.syn_is_due = true;
            return None;
        }
        self.measure(segment, context.now);
        self.establish(context.now);
        self.send.una = segment.acknowledgement;
        self.record_window(segment);
        self.receive.acknowledge_now = true;
        // Data with the SYN would be fast open, which is left out: the peer sends it again.
        None
    }

    /// Takes over what the peer's SYN offers, where it was offered from here, too.
    fn agree(&mut self, segment: &Segment, now: Time) {
        let options = self.options;
        self.receive.next = segment.sequence.plus(1);
        self.receive.acknowledged = self.receive.next;
        // The SYN offered this many bytes, unscaled.
        self.receive.edge = self.receive.next.plus(options.receive_limit.min(0xffff));
        self.sack = options.sack && segment.sack_permitted;
        match segment.window_shift.filter(|_| options.window_scale) {
            Some(shift) => self.send.shift = shift.min(SHIFT_LIMIT),
            None => self.receive.shift = 0,
        }
        let stamps = segment.timestamps.filter(|_| options.timestamps);
        if let Some(stamps) = stamps {
            let recent_at = now.millis() as u32;
            self.stamps = Stamps { enabled: true, recent: stamps.value, recent_at, ..self.stamps };
        }
        self.limit_segment(segment.maximum_segment);
        self.send.window = u32::from(segment.window);
        self.send.window_maximum = self.send.window;
    }

    /// The size of a full segment: what peer and path take, without the options that each header has.
    pub(crate) fn limit_segment(&mut self, offered: Option<u16>) {
        let stamps = if self.stamps.enabled { TIMESTAMP_BYTES as u32 } else { 0 };
        let offered = u32::from(offered.unwrap_or(DEFAULT_SEGMENT)).min(self.send.segment);
        self.send.segment = offered.saturating_sub(stamps).max(LEAST_SEGMENT);
        self.congestion = Congestion::new(self.options.algorithm, self.send.segment);
    }

    fn establish(&mut self, now: Time) {
        self.state = if self.send.fin { State::FinWait1 } else { State::Established };
        self.send.una = self.send.queue_start;
        self.send.next = self.send.queue_start;
        self.recovery = Recovery::new(self.send.una);
        (self.round_trip.backoff, self.round_trip.attempts) = (0, 0);
        (self.timers.retransmit, self.timers.waiting_since) = (Time::NEVER, Time::NEVER);
        self.send.last_sent = now;
    }

    fn input_acknowledgement(&mut self, segment: &Segment, payload: usize, context: &mut Context<'_>) {
        let acknowledgement = segment.acknowledgement;
        let news = self.record_sack(segment);
        if acknowledgement > self.send.una {
            self.advance(segment, context);
        } else if acknowledgement == self.send.una {
            let window = u32::from(segment.window) << self.send.shift;
            let plain = payload == 0 && !segment.has(FIN) && window == self.send.window;
            let is_duplicate = self.flight() > 0 && if self.sack { news } else { plain };
            if is_duplicate && self.recovery.duplicate(&self.outstanding(), self.sack) {
                self.congestion.lost(self.flight(), self.send.segment);
            }
        }
        self.update_window(segment, context.now);
        if self.send.fin && self.send.una == self.queue_end().plus(1) {
            self.fin_is_acknowledged(context);
        }
    }

    fn record_sack(&mut self, segment: &Segment) -> bool {
        if !self.sack {
            return false;
        }
        let una = self.send.una.max(segment.acknowledgement);
        let next = self.send.next;
        let mut news = false;
        for block in segment.sack.into_iter().flatten() {
            news |= self.recovery.board.record(block, una, next);
        }
        news
    }

    /// New data is acknowledged.
    fn advance(&mut self, segment: &Segment, context: &mut Context<'_>) {
        let now = context.now;
        let before = self.outstanding();
        let was_limited = self.flight() + self.send.segment > self.congestion.window;
        let advance = segment.acknowledgement.distance(self.send.una);
        self.measure(segment, now);
        self.send.una = segment.acknowledgement;
        let data = segment.acknowledgement.min(self.queue_end()).distance(self.send.queue_start);
        self.send.queue.acknowledge(data, context.released);
        self.send.queue_start = self.send.queue_start.plus(data);
        self.forget_sent_urgent();
        self.round_trip.attempts = 0;
        let was_fast = self.recovery.phase == Phase::Fast;
        let ended = self.recovery.acknowledged(advance, &self.outstanding(), self.sack);
        if was_fast && ended {
            self.congestion.window = self.congestion.threshold.max(before.segment);
        } else if !was_fast && was_limited {
            self.congestion.acknowledged(advance, before.segment, now, self.round_trip.smoothed);
        }
        let waits = self.flight() > 0;
        self.timers.retransmit = if waits { now.after(self.round_trip.time_out()) } else { Time::NEVER };
        self.timers.waiting_since = if waits { now } else { Time::NEVER };
    }

    /// Samples the round trip: by the timed segment, or by the echo of a timestamp.
    fn measure(&mut self, segment: &Segment, now: Time) {
        if !self.send.timed_at.is_never() {
            if segment.acknowledgement >= self.send.timed_end {
                self.round_trip.sample(now.since(self.send.timed_at));
                self.send.timed_at = Time::NEVER;
            }
        } else if let Some(echo) = segment.timestamps.filter(|_| self.stamps.enabled).map(|stamps| stamps.echo) {
            self.measure_by_echo(echo, now);
        }
    }

    /// An echo from before the last retransmission is ambiguous: a receiver answers a duplicate with the timestamp of
    /// the first copy. Taken as a sample it would make the time-out grow with each loss.
    fn measure_by_echo(&mut self, echo: u32, now: Time) {
        let after_resending = echo.wrapping_sub(self.stamp(self.send.resent_at)).cast_signed() >= 0;
        let millis = self.stamp(now).wrapping_sub(echo);
        if echo != 0 && after_resending && millis < 1 << 20 {
            self.round_trip.sample(u64::from(millis.max(1)) * 1_000);
        }
    }

    fn record_window(&mut self, segment: &Segment) {
        let shift = if segment.has(SYN) { 0 } else { self.send.shift };
        self.send.window = u32::from(segment.window) << shift;
        self.send.window_maximum = self.send.window_maximum.max(self.send.window);
        self.send.window_sequence = segment.sequence;
        self.send.window_acknowledgement = segment.acknowledgement;
    }

    fn update_window(&mut self, segment: &Segment, now: Time) {
        let (sequence, acknowledgement) = (segment.sequence, segment.acknowledgement);
        let is_newer = self.send.window_sequence < sequence
            || self.send.window_sequence == sequence && self.send.window_acknowledgement <= acknowledgement;
        if acknowledgement < self.send.una || !is_newer {
            return;
        }
        let was_closed = self.send.window == 0;
        self.record_window(segment);
        if self.send.window == 0 {
            // A peer that answers with a closed window is alive.
            self.round_trip.attempts = 0;
            self.round_trip.backoff = self.round_trip.backoff.min(CLOSED_WINDOW_BACKOFF);
        }
        if was_closed && self.send.window > 0 {
            self.timers.persist = Time::NEVER;
            self.timers.waiting_since = if self.flight() > 0 { now } else { Time::NEVER };
        }
    }

    fn fin_is_acknowledged(&mut self, context: &mut Context<'_>) {
        match self.state {
            State::FinWait1 => {
                self.state = State::FinWait2;
                if self.orphan {
                    self.timers.linger = context.now.after(timer::FIN_WAIT_2);
                }
            }
            State::Closing => self.enter_time_wait(context.released),
            State::LastAck => self.end(None, context.released),
            _ => {}
        }
    }

    /// Payload and FIN. Data for an owner that has closed is answered by a reset (RFC 2525, 2.17).
    fn input_payload(&mut self, segment: &Segment, payload: &[u8], context: &mut Context<'_>) -> Option<Outgoing> {
        if !matches!(self.state, State::Established | State::FinWait1 | State::FinWait2) {
            if segment.length(payload.len()) > 0 {
                self.receive.acknowledge_now = true;
            }
            return None;
        }
        let end = segment.sequence.plus(payload.len() as u32);
        if self.orphan && end > self.receive.next && !payload.is_empty() {
            let reset = Outgoing { sequence: self.send.next, flags: RST, ..Outgoing::default() };
            self.end(Some(Error::Reset), context.released);
            return Some(reset);
        }
        if segment.has(FIN) && self.receive.fin.is_none() && end < self.receive.edge.plus(1) {
            self.receive.fin = Some(end);
        }
        self.take_payload(segment, payload, context.now);
        if self.receive.fin == Some(self.receive.next) && !self.receive.ended {
            self.take_fin(context);
        }
        None
    }

    fn take_payload(&mut self, segment: &Segment, payload: &[u8], now: Time) {
        let limit = self.receive.fin.map_or(self.receive.edge, |fin| fin.min(self.receive.edge));
        let first = segment.sequence.max(self.receive.next);
        let end = segment.sequence.plus(payload.len() as u32).min(limit);
        if end <= first {
            // A duplicate: its sender needs the acknowledgement.
            self.receive.acknowledge_now |= segment.length(payload.len()) > 0;
            return;
        }
        let skip = first.distance(segment.sequence) as usize;
        let bytes = &payload[skip..skip + end.distance(first) as usize];
        if first == self.receive.next {
            let fills_gap = !self.receive.out_of_order.is_empty();
            self.take_in_order(bytes);
            self.take_waiting();
            self.receive.acknowledge_now |= fills_gap || self.receive.fin.is_some();
            self.schedule_acknowledgement(now);
        } else {
            self.receive.out_of_order.insert(first, bytes);
            self.receive.acknowledge_now = true;
        }
    }

    fn take_in_order(&mut self, bytes: &[u8]) {
        self.receive.queue.extend(bytes);
        self.receive.next = self.receive.next.plus(bytes.len() as u32);
        self.receive.unacknowledged += bytes.len() as u32;
        self.receive.largest = self.receive.largest.max(u16::try_from(bytes.len()).unwrap_or(u16::MAX));
    }

    /// Moves what the gap held back into the queue.
    fn take_waiting(&mut self) {
        let receive = &mut self.receive;
        let queue = &mut receive.queue;
        let taken = receive.out_of_order.take(receive.next, |bytes| queue.extend(bytes));
        receive.next = receive.next.plus(taken);
    }

    /// RFC 9293, 3.8.6.3: at once for two full segments, else after a short time.
    fn schedule_acknowledgement(&mut self, now: Time) {
        let is_quick = self.receive.quick > 0 || self.options.quick_acknowledgement;
        if is_quick || self.receive.unacknowledged >= 2 * u32::from(self.receive.largest) {
            self.receive.acknowledge_now = true;
        } else if self.timers.acknowledge.is_never() {
            self.timers.acknowledge = now.after(timer::DELAYED_ACKNOWLEDGEMENT);
        }
    }

    fn take_fin(&mut self, context: &mut Context<'_>) {
        self.receive.ended = true;
        self.receive.next = self.receive.next.plus(1);
        self.receive.edge = self.receive.edge.max(self.receive.next);
        self.receive.acknowledge_now = true;
        self.receive.out_of_order.clear();
        match self.state {
            State::Established => self.state = State::CloseWait,
            State::FinWait1 => self.state = State::Closing,
            State::FinWait2 => self.enter_time_wait(context.released),
            _ => {}
        }
    }
}
