//! The cost of one environment, sent to the host for `./chitin run --stats`.

use abi::host_channel::cost::{BYTES, NAMES, NOT_COUNTED};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use runtime::{EnvironmentId, Kind, channel, exposed};
use unix_core::process::rusage::Rusage;

/// Sends the cost of one environment; without a `usage` what the kernel counts. One that is gone has none.
pub fn send(number: EnvironmentId, usage: Option<&Rusage>, program: &[u8]) {
    let Some(info) = exposed::environment(number) else { return };
    let counted = |figure: fn(&Rusage) -> u64| usage.map_or(NOT_COUNTED, figure);
    let exposed = |word: &AtomicU64| word.load(Relaxed);
    let figures: [u64; NAMES.len()] = [
        number.0,
        exposed(&info.creator),
        usage.map_or_else(|| exposed(&info.time), |usage| usage.time),
        counted(|usage| usage.system),
        exposed(&info.slices),
        counted(|usage| usage.faults),
        counted(|usage| usage.upcalls),
        counted(|usage| usage.transfers),
        counted(|usage| usage.waits),
        counted(|usage| usage.peak),
    ];
    let mut bytes = [0; BYTES];
    for (place, figure) in bytes.chunks_exact_mut(8).zip(figures) {
        place.copy_from_slice(&figure.to_le_bytes());
    }
    // An environment without a key for the channel sends nothing.
    let _ = channel::send_frame(Kind::Cost, &[&bytes, program]);
}
