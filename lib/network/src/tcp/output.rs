//! Output: the next segment that a block has to send, and what happens when its timers expire.
//!
//! Order: SYN, lost data, new data with FIN, lost data of less certainty, a probe, an acknowledgement alone.

use alloc::vec::Vec;

use super::block::{Block, Error, State};
use super::recovery::Phase;
use super::segment::{FIN, Outgoing, PSH, SACK_OPTION_BYTES, SYN, Timestamps};
use super::sequence::Sequence;
use super::timer;
use crate::link::Extent;
use crate::time::{MILLISECOND, SECOND, Time};

impl Block {
    /// The next segment to send. The caller sends it and asks again until there is none.
    pub fn output(&mut self, now: Time) -> Option<Outgoing> {
        let segment = match self.state {
            State::Closed | State::TimeWait => return None,
            State::SynSent | State::SynReceived => return self.synchronize(now),
            _ => self
                .send_again(now, true)
                .or_else(|| self.send_new(now))
                .or_else(|| self.send_again(now, false))
                .or_else(|| self.probe())
                .or_else(|| self.acknowledge()),
        };
        match segment {
            Some(segment) => Some(self.complete(segment, now)),
            None => {
                self.arm_persist(now);
                None
            }
        }
    }

    /// SYN, or SYN with ACK after a simultaneous opening.
    fn synchronize(&mut self, now: Time) -> Option<Outgoing> {
        if !self.send.syn_is_due {
            return None;
        }
        self.send.syn_is_due = false;
        self.send.next = self.send.una.plus(1);
        self.timers.waiting_since = self.timers.waiting_since.min(now);
        self.timers.retransmit = self.within_patience(now, self.round_trip.time_out());
        (self.send.timed_end, self.send.timed_at) = match self.round_trip.backoff {
            0 => (self.send.next, now),
            _ => (self.send.next, Time::NEVER),
        };
        let is_answer = self.state == State::SynReceived;
        let offers = |wanted: bool, agreed: bool| if is_answer { agreed } else { wanted };
        let stamps = offers(self.options.timestamps, self.stamps.enabled);
        let scale = offers(self.options.window_scale, self.receive.shift > 0 || self.send.shift > 0);
        let window = self.options.receive_limit.min(0xffff);
        self.receive.edge = self.receive.edge.max(self.receive.next.plus(window));
        self.receive.acknowledge_now = false;
        self.receive.acknowledged = self.receive.next;
        Some(Outgoing {
            sequence: self.send.una,
            acknowledgement: is_answer.then_some(self.receive.next),
            flags: SYN,
            window: window as u16,
            maximum_segment: Some(u16::try_from(self.send.segment).unwrap_or(u16::MAX)),
            window_shift: scale.then_some(self.receive.shift),
            sack_permitted: offers(self.options.sack, self.sack),
            timestamps: stamps.then(|| Timestamps { value: self.stamp(now), echo: self.stamps.recent }),
            ..Outgoing::default()
        })
    }

    /// Sends lost data again; `certain` separates the rules that come before new data from those after it.
    fn send_again(&mut self, now: Time, certain: bool) -> Option<Outgoing> {
        let sender = self.outstanding();
        let (first, end) =
            if certain { self.recovery.first_choice(&sender)? } else { self.recovery.last_choice(&sender)? };
        let length = end.distance(first).min(self.room_in_segment());
        // The last number of the gap may be FIN's.
        let bytes = length.min(self.queue_end().distance(first));
        let segment = self.segment_at(first, bytes, length > bytes);
        self.recovery.sent(first, first.plus(length), self.sack);
        // Karn's rule: what is sent twice measures nothing.
        (self.send.timed_at, self.send.resent_at) = (Time::NEVER, now);
        self.arm_retransmission(now);
        Some(segment)
    }

    /// Bytes of payload that fit with the options of this moment.
    fn room_in_segment(&self) -> u32 {
        let reports = self.sack && !self.receive.out_of_order.is_empty();
        if reports { self.send.segment - SACK_OPTION_BYTES } else { self.send.segment }
    }

    /// A segment of `bytes` bytes from `first`, with FIN where asked for.
    fn segment_at(&self, first: Sequence, bytes: u32, fin: bool) -> Outgoing {
        let ends_queue = first.plus(bytes) == self.queue_end();
        let push = if ends_queue && bytes > 0 { PSH } else { 0 };
        Outgoing {
            sequence: first,
            flags: if fin { FIN | push } else { push },
            offset: first.distance(self.send.queue_start),
            length: bytes,
            ..Outgoing::default()
        }
    }

    /// Sends new data, or FIN, or both, as far as both windows allow.
    fn send_new(&mut self, now: Time) -> Option<Outgoing> {
        let fin_waits = self.send.fin && !self.fin_is_sent();
        let available = if self.fin_is_sent() { 0 } else { self.queue_end().distance(self.send.next) };
        if available == 0 && !fin_waits {
            return None;
        }
        self.restart_after_idle(now);
        let offered = self.send.una.plus(self.send.window);
        let usable = if offered > self.send.next { offered.distance(self.send.next) } else { 0 };
        let pipe = self.recovery.pipe(&self.outstanding());
        let budget = self.congestion.window.saturating_sub(pipe);
        let length = available.min(usable).min(self.room_in_segment());
        if !self.is_worth_sending(length, available, budget) {
            return None;
        }
        let fin = fin_waits && length == available;
        let segment = self.segment_at(self.send.next, length, fin);
        self.send.next = self.send.next.plus(length + u32::from(fin));
        self.send.forced = false;
        if self.send.timed_at.is_never() && self.recovery.phase == Phase::Open {
            (self.send.timed_end, self.send.timed_at) = (self.send.next, now);
        }
        self.arm_retransmission(now);
        Some(segment)
    }

    /// Sender's side of the silly-window rules (RFC 9293, 3.8.6.2.1), with Nagle's and the cork.
    fn is_worth_sending(&self, length: u32, available: u32, budget: u32) -> bool {
        if length == 0 {
            return available == 0 && self.send.fin;
        }
        // A pipe that is empty always takes a segment: recovery may have counted everything as lost.
        if length > budget && self.recovery.pipe(&self.outstanding()) > 0 {
            return false;
        }
        if length >= self.room_in_segment() || self.send.forced {
            return true;
        }
        let is_idle = self.flight() == 0;
        let nagle = self.options.no_delay || is_idle || self.send.fin || self.send.urgent.is_there;
        let ends = length == available && nagle && (!self.options.cork || self.send.fin);
        ends || length >= self.send.window_maximum / 2 && length < available
    }

    fn restart_after_idle(&mut self, now: Time) {
        let idle = now.since(self.send.last_sent);
        if self.flight() == 0 && idle > self.round_trip.time_out() && self.recovery.phase == Phase::Open {
            self.congestion.idle(self.send.segment);
        }
    }

    /// A segment one before the window, which any peer answers with its state.
    fn probe(&mut self) -> Option<Outgoing> {
        if !self.send.probe_is_due {
            return None;
        }
        self.send.probe_is_due = false;
        Some(Outgoing { sequence: self.send.una.minus(1), ..Outgoing::default() })
    }

    fn acknowledge(&mut self) -> Option<Outgoing> {
        let now = self.receive.acknowledge_now;
        now.then(|| Outgoing { sequence: self.send.next, ..Outgoing::default() })
    }

    /// Fills in what every segment of an established connection carries.
    fn complete(&mut self, mut segment: Outgoing, now: Time) -> Outgoing {
        segment.acknowledgement = Some(self.receive.next);
        segment.window = self.offer_window();
        if self.stamps.enabled {
            segment.timestamps = Some(Timestamps { value: self.stamp(now), echo: self.stamps.recent });
        }
        if self.sack && !self.receive.out_of_order.is_empty() {
            segment.sack = self.receive.out_of_order.blocks(3);
        }
        if segment.length > 0 {
            self.send.last_sent = now;
        }
        self.point_to_urgent(&mut segment);
        self.receive.acknowledge_now = false;
        self.receive.unacknowledged = 0;
        self.receive.acknowledged = self.receive.next;
        self.receive.quick = self.receive.quick.saturating_sub(1);
        self.timers.acknowledge = Time::NEVER;
        segment
    }

    /// The window field. The offer grows only by steps that are worth a segment (RFC 9293, 3.8.6.2.2).
    fn offer_window(&mut self) -> u16 {
        let edge = self.window_edge();
        let growth = edge.distance(self.receive.edge);
        let step = (self.options.receive_limit / 2).min(u32::from(self.receive.largest.max(1)));
        if growth >= step {
            self.receive.edge = edge;
        }
        let offered = self.receive.edge.distance(self.receive.next) >> self.receive.shift;
        u16::try_from(offered).unwrap_or(u16::MAX)
    }

    fn arm_retransmission(&mut self, now: Time) {
        self.timers.waiting_since = self.timers.waiting_since.min(now);
        if self.timers.retransmit.is_never() {
            self.timers.retransmit = self.within_patience(now, self.round_trip.time_out());
        }
        self.timers.persist = Time::NEVER;
    }

    /// Data waits, nothing is on its way, and nothing may be sent: only a timer can get on from here.
    fn arm_persist(&mut self, now: Time) {
        let waits = self.queue_end() > self.send.next || self.send.fin && !self.fin_is_sent();
        if !waits || self.flight() > 0 || !self.timers.persist.is_never() {
            return;
        }
        let span = match self.send.window {
            0 => self.round_trip.time_out() << self.send.probes.min(10),
            _ => timer::CORK,
        };
        self.timers.waiting_since = self.timers.waiting_since.min(now);
        self.timers.persist = self.within_patience(now, span.min(u64::from(super::round_trip::MOST)));
    }

    /// Runs the timers that are due; `output` has work afterwards.
    pub fn expire(&mut self, now: Time, released: &mut Vec<Extent>) {
        if timer::take(&mut self.timers.acknowledge, now) {
            self.receive.acknowledge_now = true;
        }
        if timer::take(&mut self.timers.linger, now) {
            return self.end(None, released);
        }
        if timer::take(&mut self.timers.retransmit, now) {
            self.retransmission_time_out(now, released);
        }
        if timer::take(&mut self.timers.persist, now) {
            self.persist_time_out(now, released);
        }
        if timer::take(&mut self.timers.alive, now) {
            self.keep_alive_time_out(now, released);
        }
    }

    /// Microseconds that the oldest byte may wait, where time bounds that.
    fn patience(&self) -> Option<u64> {
        let of_user = Some(u64::from(self.options.user_time_out) * MILLISECOND).filter(|span| *span > 0);
        let is_held = self.orphan && self.send.window == 0;
        of_user.into_iter().chain(is_held.then_some(timer::ORPHAN)).min()
    }

    /// When a timer of so many microseconds is due. It does not wait past the end of patience.
    fn within_patience(&self, now: Time, span: u64) -> Time {
        let due = now.after(span);
        let end = self.patience().map(|patience| self.timers.waiting_since.after(patience).max(now.after(MILLISECOND)));
        end.map_or(due, |end| due.min(end))
    }

    /// Whether patience is over. Without a user time-out the number of attempts ends it, too.
    fn is_given_up(&self, now: Time, attempts: u8, limit: u8) -> bool {
        let is_late = self.patience().is_some_and(|patience| now.since(self.timers.waiting_since) >= patience);
        is_late || self.options.user_time_out == 0 && attempts >= limit
    }

    fn retransmission_time_out(&mut self, now: Time, released: &mut Vec<Extent>) {
        let opens = matches!(self.state, State::SynSent | State::SynReceived);
        let limit = if opens { self.options.syn_retries } else { self.options.retries };
        // A SYN has both bounds, as on Linux.
        let is_last = opens && self.round_trip.attempts >= limit;
        if is_last || self.is_given_up(now, self.round_trip.attempts, limit) {
            return self.end(Some(Error::TimedOut), released);
        }
        self.round_trip.backoff = self.round_trip.backoff.saturating_add(1);
        self.round_trip.attempts = self.round_trip.attempts.saturating_add(1);
        self.send.timed_at = Time::NEVER;
        if opens {
            self.send.syn_is_due = true;
            return;
        }
        let (sender, first) = (self.outstanding(), self.round_trip.attempts == 1);
        // A second time-out in a row: the peer may have dropped what it had reported (RFC 2018, 8).
        if !first {
            self.recovery.board.clear();
        }
        self.congestion.timed_out(self.flight(), self.send.segment, first && self.recovery.phase != Phase::Loss);
        self.recovery.time_out(&sender);
    }

    fn persist_time_out(&mut self, now: Time, released: &mut Vec<Extent>) {
        if self.send.window > 0 {
            self.send.forced = true;
            return;
        }
        // A peer that answers may keep its window closed for ever; one that is silent may not.
        if self.is_given_up(now, self.send.probes, self.options.retries) {
            return self.end(Some(Error::TimedOut), released);
        }
        self.send.probes += 1;
        self.send.probe_is_due = true;
    }

    fn keep_alive_time_out(&mut self, now: Time, released: &mut Vec<Extent>) {
        // Data on its way has its own timers.
        if self.flight() > 0 || !self.timers.persist.is_never() {
            self.timers.alive = now.after(u64::from(self.options.keep_alive_idle) * SECOND);
            return;
        }
        let options = self.options;
        let silent =
            u64::from(options.keep_alive_idle) + u64::from(self.send.probes) * u64::from(options.keep_alive_interval);
        let is_over = match u64::from(options.user_time_out) {
            0 => self.send.probes >= options.keep_alive_count,
            time_out => self.send.probes > 0 && silent * 1_000 >= time_out,
        };
        if is_over {
            return self.end(Some(Error::TimedOut), released);
        }
        self.send.probes += 1;
        self.send.probe_is_due = true;
        self.timers.alive = now.after(u64::from(self.options.keep_alive_interval) * SECOND);
    }
}
