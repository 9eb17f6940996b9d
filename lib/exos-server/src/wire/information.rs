//! `struct tcp_info` of Linux (tcp(7)) from what the stack counts of a connection.
//!
//! Invariant: every field lies where Linux has it; what the stack does not count is 0.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Release;
use internet::page::INFORMATION_BYTES;
use network::tcp::block::State;
use network::tcp::information::Information;

/// Bits of the options: timestamps, SACK, window scaling.
const TIMESTAMPS: u8 = 1;
const SACK: u8 = 2;
const SCALES: u8 = 4;

/// Writes the structure to words that programs read.
pub(super) fn publish(of: &Information, words: &[AtomicU64]) {
    let bytes = bytes_of(of);
    let parts = bytes.as_chunks::<8>().0;
    parts.iter().zip(words).for_each(|(part, word)| word.store(u64::from_le_bytes(*part), Release));
}

/// The number of a state in Linux.
const fn number(state: State) -> u8 {
    match state {
        State::Established => 1,
        State::SynSent => 2,
        State::SynReceived => 3,
        State::FinWait1 => 4,
        State::FinWait2 => 5,
        State::TimeWait => 6,
        State::Closed => 7,
        State::CloseWait => 8,
        State::LastAck => 9,
        State::Closing => 11,
    }
}

fn bytes_of(of: &Information) -> [u8; INFORMATION_BYTES] {
    /// Bytes of the headers of IPv4 and TCP without options.
    const HEADERS: u32 = 40;
    /// Linux reports a threshold that no loss has set as this.
    const NO_THRESHOLD: u32 = 0x7fff_ffff;
    let mut bytes = [0; INFORMATION_BYTES];
    bytes[0] = number(of.state);
    (bytes[3], bytes[4]) = (of.probes, of.backoff);
    bytes[5] = SACK | SCALES | if of.has_timestamps { TIMESTAMPS } else { 0 };
    bytes[6] = of.shifts[0] | of.shifts[1] << 4;
    let segment = of.segment.max(1);
    let traffic = &of.traffic;
    let halves = [
        (8, of.time_out.min(u64::from(u32::MAX)) as u32),
        (16, of.segment),
        (20, of.received_segment),
        (24, of.in_flight.div_ceil(segment)),
        (60, of.segment + HEADERS),
        (68, of.round_trip),
        (72, of.variation),
        (76, if of.threshold == u32::MAX { NO_THRESHOLD } else { of.threshold / segment }),
        (80, of.congestion_window / segment),
        (84, of.segment),
        (100, traffic.retransmitted),
        (136, traffic.segments_sent),
        (140, traffic.segments_received),
        (144, of.unsent),
        (152, traffic.data_received),
        (156, traffic.data_sent),
        (228, of.peer_window),
    ];
    halves.iter().for_each(|(at, value)| bytes[*at..at + 4].copy_from_slice(&value.to_le_bytes()));
    let wholes = [
        (120, traffic.bytes_acknowledged),
        (128, traffic.bytes_received),
        (200, traffic.bytes_sent),
        (208, traffic.bytes_retransmitted),
    ];
    wholes.iter().for_each(|(at, value)| bytes[*at..at + 8].copy_from_slice(&value.to_le_bytes()));
    bytes
}
