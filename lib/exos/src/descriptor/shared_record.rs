//! Record of an open file in a page that relatives share: offset, flags, and the count of descriptors.
//!
//! Invariant: a record whose state is 0 is free. A process takes a free record by compare-and-swap of the state. The
//! record is free again when no descriptor of any process refers to it.

use crate::hw::mapping::Mapping;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use runtime::PageNumber;
use runtime::lock::OwnerLock;

/// Words of a record: the offset; references (0..32) and flags (32..64); the lock of the offset. The last one says
/// whether a lock on the file was requested through it (bit 0) and its owner (8..64, see
/// `syscalls::files::fcntl_owner`).
const WORDS: usize = 4;
/// Records of a page.
pub(super) const RECORDS: usize = 4096 / 8 / WORDS;

/// A record in a shared page, through a window that stays.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub(super) page: PageNumber,
    pub(super) index: usize,
    words: &'static [AtomicU64; WORDS],
}

impl Record {
    #[inline]
    pub(super) fn at(page: &Mapping, index: usize) -> Self {
        Self { page: page.pages()[0], index, words: Self::words_at(page, index) }
    }

    #[inline]
    fn words_at(page: &Mapping, index: usize) -> &'static [AtomicU64; WORDS] {
        &page.first_page().as_chunks().0[index % RECORDS]
    }

    /// A free record of a page, looked for from an index on.
    pub(super) fn adopt(page: &Mapping, start: usize, flags: u32) -> Option<Self> {
        (start..RECORDS).chain(0..start).find_map(|index| Self::take_at(page, index, flags))
    }

    /// The record at an index, if it is free.
    #[inline]
    pub(super) fn take_at(page: &Mapping, index: usize, flags: u32) -> Option<Self> {
        let record = Self::at(page, index);
        let fresh = u64::from(flags) << 32 | 1;
        let state = record.state();
        let is_taken = state.load(Relaxed) == 0 && state.compare_exchange(0, fresh, SeqCst, Relaxed).is_ok();
        is_taken.then_some(record)
    }

    #[inline]
    pub(super) fn offset(&self) -> &'static AtomicU64 {
        &self.words[0]
    }

    #[inline]
    pub(super) fn state(&self) -> &'static AtomicU64 {
        &self.words[1]
    }

    #[inline]
    pub(super) fn locks(&self) -> &'static AtomicU64 {
        &self.words[3]
    }

    #[inline]
    pub(super) fn lock(&self) -> &'static OwnerLock {
        OwnerLock::at(&self.words[2])
    }
}

/// What a sender keeps of a description: whether a descriptor refers to it, and where its record lies.
#[derive(Clone, Copy, Debug)]
pub struct Reference(pub(super) Record);

impl Reference {
    /// Whether a descriptor refers to it, in any process or on its way to one.
    #[inline]
    pub fn is_referred_to(&self) -> bool {
        self.0.state().load(Acquire) & 0xffff_ffff != 0
    }

    /// Page and index of its record.
    pub fn place(&self) -> (u64, u64) {
        (self.0.page.0, self.0.index as u64)
    }
}

/// Whether a descriptor refers to the record at an index of a page, in any process or on its way to one.
pub fn is_referred_to_at(page: &Mapping, index: usize) -> bool {
    Record::at(page, index).state().load(Acquire) & 0xffff_ffff != 0
}
