//! The page of an Internet socket: state, options and rings, which the server shares with the holders of both ends.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use exos::hw::mapping::{Mapping, PAGE_WORDS};
use internet::option::{self, Store};
use internet::page::{self, GENERATION, OPTIONS};
use linux_abi::errno::Result;
use runtime::{PageNumber, clock, exposed};

/// A page of a socket, as the server sees it.
#[derive(Clone, Debug)]
pub(crate) struct SocketPage {
    pub(super) run: Mapping,
    pub(super) index: usize,
}

impl SocketPage {
    pub(crate) fn number(&self) -> PageNumber {
        self.run.pages()[self.index]
    }

    pub(crate) fn words(&self) -> &'static [AtomicU64] {
        &self.run.words()[self.index * PAGE_WORDS..][..PAGE_WORDS]
    }

    /// Copies bytes to a place in the page.
    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.run.write((self.index * PAGE_WORDS * 8) as u64 + offset, bytes)
    }

    /// Copies bytes from a place in the page.
    pub(crate) fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        self.run.read((self.index * PAGE_WORDS * 8) as u64 + offset, bytes)
    }

    pub(super) fn clear(&self) -> Result<()> {
        static ZEROS: [u8; PAGE_WORDS * 8] = [0; PAGE_WORDS * 8];
        self.write(0, &ZEROS)
    }

    /// Whether the server alone maps it.
    pub(super) fn is_free(&self) -> bool {
        exposed::page(self.number()).is_some_and(|info| info.references() == 1)
    }

    /// A connection has come, of a socket that listens.
    pub(super) fn connection_came(&self) {
        let [came, accepted, filled_at] = [page::CAME, page::ACCEPTED, page::FILLED_AT].map(|at| &self.words()[at]);
        if came.load(Acquire) == accepted.load(Acquire) {
            filled_at.store(clock::ticks(), SeqCst);
        }
        came.fetch_add(1, SeqCst);
    }

    /// What was set of a listener holds for its connections.
    pub(super) fn copy_options(&self, listener: &Self) {
        let (from, to) = (&listener.words()[OPTIONS..], &self.words()[OPTIONS..]);
        for (from, to) in from.iter().zip(to).take(option::WORDS) {
            let word = from.load(Acquire);
            if word != 0 {
                to.store(word, SeqCst);
            }
        }
    }

    pub(super) fn state(&self) -> u64 {
        self.words()[page::STATE].load(Acquire) & (GENERATION - 1)
    }

    pub(crate) fn set_state(&self, new: u64) {
        let change = |word: u64| Some((word & !(GENERATION - 1)).wrapping_add(GENERATION) | new);
        let _ = self.words()[page::STATE].fetch_update(SeqCst, Relaxed, change);
    }
}

impl Store for SocketPage {
    fn get(&self, place: usize) -> u64 {
        self.words()[OPTIONS + place].load(Acquire)
    }

    fn set(&self, place: usize, word: u64) {
        self.words()[OPTIONS + place].store(word, SeqCst);
    }
}
