//! The kernel's log: a ring of bytes that whoever holds the root key can read; the serial line gets the same.

use crate::exposed;
use abi::limits::LOG_BYTES;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};

static RING: [AtomicU8; LOG_BYTES] = [const { AtomicU8::new(0) }; LOG_BYTES];
/// Bytes ever written.
static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// Adds text.
pub(crate) fn write(text: &[u8]) {
    let start = WRITTEN.fetch_add(text.len() as u64, Ordering::AcqRel);
    for (index, byte) in text.iter().enumerate() {
        RING[(start as usize + index) % LOG_BYTES].store(*byte, Ordering::Relaxed);
    }
}

/// Copies the log from byte `from` on; returns how many bytes. What has left the ring is skipped.
pub fn read(from: u64, text: &mut [u8]) -> usize {
    let written = WRITTEN.load(Ordering::Acquire);
    let from = from.clamp(written.saturating_sub(LOG_BYTES as u64), written);
    let length = text.len().min((written - from) as usize);
    for (index, byte) in text[..length].iter_mut().enumerate() {
        *byte = RING[(from as usize + index) % LOG_BYTES].load(Ordering::Relaxed);
    }
    length
}

/// Tells in the exposed record how much was written.
pub fn publish() {
    exposed::kernel().log_bytes.store(WRITTEN.load(Ordering::Acquire), Ordering::Release);
}
