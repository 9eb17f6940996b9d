//! Urgent data (RFC 9293, 3.8.5): one byte of the stream, of which its receiver is told before it reads it.
//!
//! The pointer of a segment names the byte behind the urgent one, as all systems send it (RFC 6093). The byte stays in
//! the stream: the owner of the connection takes it out of line.
//!
//! Invariant: `Urgent` marks no byte that is acknowledged (send) or read (receive). So no number is compared after it
//! wrapped.

use super::block::{Block, State};
use super::segment::{Outgoing, Segment, URG};
use super::sequence::Sequence;

/// The urgent byte of one direction, the last one where there are several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Urgent {
    pub is_there: bool,
    pub byte: Sequence,
}

impl Block {
    /// The byte before the last `behind` bytes of the send queue is urgent.
    pub fn mark_urgent(&mut self, behind: u32) {
        if behind < self.send.queue.length() {
            self.send.urgent = Urgent { is_there: true, byte: self.queue_end().minus(behind + 1) };
        }
    }

    /// How many bytes lie before the urgent one in the receive queue, and the byte; `None` until it has come.
    pub fn urgent(&self) -> Option<(usize, u8)> {
        let receive = &self.receive;
        let end = receive.next.minus(u32::from(receive.ended));
        let first = end.minus(receive.queue.len() as u32);
        let place = receive.urgent.byte.distance(first) as usize;
        let byte = receive.queue.get(place).filter(|_| receive.urgent.is_there && receive.urgent.byte >= first)?;
        Some((place, *byte))
    }

    /// Puts the pointer into a segment that is sent before the urgent byte is acknowledged.
    pub(super) fn point_to_urgent(&self, segment: &mut Outgoing) {
        let urgent = self.send.urgent;
        if urgent.is_there && segment.sequence <= urgent.byte {
            let pointer = urgent.byte.plus(1).distance(segment.sequence);
            (segment.flags, segment.urgent) = (segment.flags | URG, u16::try_from(pointer).unwrap_or(u16::MAX));
        }
    }

    /// Bytes were acknowledged.
    pub(super) fn forget_sent_urgent(&mut self) {
        self.send.urgent.is_there &= self.send.una <= self.send.urgent.byte;
    }

    /// Bytes were read.
    pub(super) fn forget_read_urgent(&mut self) {
        let first = self.receive.next.minus(u32::from(self.receive.ended) + self.receive.queue.len() as u32);
        self.receive.urgent.is_there &= first <= self.receive.urgent.byte;
    }

    /// Takes a pointer. One to bytes that have come already says nothing new, nor does one before the last one.
    pub(super) fn input_urgent(&mut self, segment: &Segment) {
        let byte = segment.sequence.plus(u32::from(segment.urgent.saturating_sub(1)));
        let receives = matches!(self.state, State::Established | State::FinWait1 | State::FinWait2);
        let known = self.receive.urgent;
        if receives && segment.has(URG) && byte >= self.receive.next && !(known.is_there && byte <= known.byte) {
            self.receive.urgent = Urgent { is_there: true, byte };
        }
    }
}
