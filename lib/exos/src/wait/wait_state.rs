//! Wait state of a thread: what its next wait and the end of its call have to do.
//!
//! Invariant: only the thread itself reads and writes it.

use crate::hw::current::{Holds, Word, record, word};
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
    /// Bells that it has to ring, from bit 0 on: see `pipe::bells`.
    pub bells: AtomicU64,
    /// One more than `Descriptors::watched_closes` when its call first watched something for the coming sleep; 0: it
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
