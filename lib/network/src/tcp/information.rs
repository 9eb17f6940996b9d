//! Counters of a connection, as `TCP_INFO` of tcp(7) reports them.
//!
//! The engine counts segments and bytes next to the block: they do not move with an exported connection.

use super::block::{Block, State};
use super::engine::Tcp;
use crate::slab::Handle;

/// What a connection has carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    pub segments_sent: u32,
    pub segments_received: u32,
    /// Segments with payload.
    pub data_sent: u32,
    pub data_received: u32,
    pub retransmitted: u32,
    pub bytes_acknowledged: u64,
    pub bytes_received: u64,
    pub bytes_sent: u64,
    pub bytes_retransmitted: u64,
}

/// The state of a connection and what it has carried. Times are in microseconds, windows in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Information {
    pub state: State,
    pub time_out: u64,
    pub backoff: u8,
    pub probes: u8,
    pub round_trip: u32,
    pub variation: u32,
    pub segment: u32,
    pub received_segment: u32,
    pub congestion_window: u32,
    pub threshold: u32,
    /// Bytes that were sent and are not acknowledged, and bytes that were not sent yet.
    pub in_flight: u32,
    pub unsent: u32,
    /// The window that the peer offers.
    pub peer_window: u32,
    pub shifts: [u8; 2],
    pub has_timestamps: bool,
    pub traffic: Traffic,
}

impl Traffic {
    /// A segment has changed a block: `before` is what [`positions`] said before it.
    pub(crate) fn received(&mut self, before: [u32; 2], block: &Block, payload: usize) {
        let [acknowledged, received] = positions(block);
        // Before the peer's SYN there is no position to count from.
        let before = if before[1] == 0 { [before[0], received] } else { before };
        self.segments_received = self.segments_received.wrapping_add(1);
        self.data_received = self.data_received.wrapping_add(u32::from(payload > 0));
        self.bytes_acknowledged += u64::from(acknowledged.wrapping_sub(before[0]));
        self.bytes_received += u64::from(received.wrapping_sub(before[1]));
    }

    pub(crate) fn sent(&mut self, bytes: u32, is_again: bool) {
        self.segments_sent = self.segments_sent.wrapping_add(1);
        self.data_sent = self.data_sent.wrapping_add(u32::from(bytes > 0));
        self.bytes_sent += u64::from(bytes);
        self.retransmitted = self.retransmitted.wrapping_add(u32::from(is_again));
        self.bytes_retransmitted += if is_again { u64::from(bytes) } else { 0 };
    }
}

/// The first byte that is not acknowledged, and the next one that the peer sends; 0 while its SYN has not come.
pub(crate) fn positions(block: &Block) -> [u32; 2] {
    let next = if block.state == State::SynSent { 0 } else { block.receive.next.0 };
    [block.send.una.0, next]
}

impl Tcp {
    /// The state and the counters of a connection.
    pub fn information(&self, handle: Handle) -> Option<Information> {
        let connection = self.connections.get(handle)?;
        let block = &connection.block;
        let in_flight = block.flight();
        Some(Information {
            state: block.state,
            time_out: block.round_trip.time_out(),
            backoff: block.round_trip.backoff,
            probes: block.send.probes,
            round_trip: block.round_trip.smoothed,
            variation: block.round_trip.variation,
            segment: block.send.segment,
            received_segment: u32::from(block.receive.largest),
            congestion_window: block.congestion.window,
            threshold: block.congestion.threshold,
            in_flight,
            unsent: block.send.queue.length().saturating_sub(in_flight),
            peer_window: block.send.window,
            shifts: [block.send.shift, block.receive.shift],
            has_timestamps: block.stamps.enabled,
            traffic: connection.traffic,
        })
    }
}
