//! Wait state of a thread: what its next wait and the end of its call have to do.
//!
//! Invariant: only the thread itself reads and writes it.

use crate::hw::current::{Holds, Word, record, word};
use crate::server::client;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU64};

/// Wait state of a thread.
#[derive(Debug, Default)]
pub struct WaitState {
    /// The thread that it woke since it last waited itself: see `wait::directed_yield`.
    pub awakened: AtomicU64,
    /// Its wait met a signal that ends it, and it has looked since: see `wait::wait`.
    pub signalled: AtomicBool,
    /// Whether its call has noted descriptions that it uses.
    pub notes_uses: AtomicBool,
    /// Bells that it has to ring, from bit 0 on: see `wait::bells`.
    pub bells: AtomicU64,
    /// One more than `SignalState::watched_closes` when its call first watched something for the coming sleep; 0: it
    /// watches nothing.
    pub watches_since: AtomicU64,
}

impl Holds for Word<{ word::WAIT }> {
    type Record = WaitState;
}

/// The wait state of the running thread.
#[inline]
pub fn wait_state() -> &'static WaitState {
    record::<{ word::WAIT }>()
}

/// Rings the bells that the running thread, whose wait state this is, has to ring. The caller holds no lock.
#[inline]
pub fn ring_pending(waits: &WaitState) {
    if waits.bells.load(Relaxed) != 0 {
        ring_now();
    }
}

#[inline(never)]
fn ring_now() {
    // Without a server no sleeper has a bell.
    let _ = client::files().lock().ring(wait_state().bells.swap(0, Relaxed));
}
