//! Processes that the server has not heard of yet: who makes one notes it in its window, and nobody is asked.
//!
//! Pure, over words of a page that a client and the server share. The server takes all of them in before it does what a
//! maker or a newborn asks for, who say so (`protocol::NEWBORNS`), and what concerns others than who asks
//! ([`Request::is_own_affair`]), and before it forgets who has died. So a newborn holds what its maker
//! held when it was noted, and one that ends before that costs the server nothing. As long as one is noted its maker opens and
//! closes no file by itself (`server::idle`). The client may write what it likes there: the kernel tells who made whom, and of one
//! whose maker has died it says so itself.

use super::protocol::Request;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};

/// Entries of the list.
pub const ENTRIES: usize = 8;

/// The list: numbers of environments; 0: nothing stands there.
#[derive(Clone, Copy, Debug)]
pub struct PendingChildren<'a>(&'a [AtomicU64; ENTRIES]);

impl<'a> PendingChildren<'a> {
    /// In these words.
    pub const fn new(words: &'a [AtomicU64; ENTRIES]) -> Self {
        Self(words)
    }

    /// Notes one; false where there is no room.
    pub fn note(self, number: u64) -> bool {
        self.0.iter().any(|entry| entry.compare_exchange(0, number, SeqCst, Relaxed).is_ok())
    }

    /// It is gone, if it was noted.
    pub fn forget(self, number: u64) {
        self.0.iter().any(|entry| entry.compare_exchange(number, 0, SeqCst, Relaxed).is_ok());
    }

    /// Whether there is one.
    #[inline]
    pub fn any(self) -> bool {
        self.0.iter().any(|entry| entry.load(Acquire) != 0)
    }

    /// Those that are noted. Who takes them in has them forgotten after that, not before: what their maker held goes on
    /// lying where it was as long as they are noted.
    pub fn all(self) -> impl Iterator<Item = u64> + use<'a> {
        self.0.iter().map(|entry| entry.load(SeqCst)).filter(|number| *number != 0)
    }
}

impl Request {
    /// Whether it is about words of shared memory.
    pub fn is_of_futexes(number: u64) -> bool {
        number >= Self::FutexEnter as u64 && number <= Self::FutexRequeue as u64
    }

    /// Whether it concerns nobody but who asks, whatever others hold and are.
    pub fn is_local(number: u64) -> bool {
        let is_within = |first: Self, last: Self| number >= first as u64 && number <= last as u64;
        is_within(Self::Open, Self::Fifo)
            || Self::is_of_futexes(number)
            || is_within(Self::WorkingSet, Self::WorkingSet)
            || is_within(Self::Attribute, Self::Attribute)
            || is_within(Self::OpenExec, Self::OpenExec)
            || is_within(Self::ReacquireExec, Self::ReacquireExec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn what_is_noted_stays_until_it_is_forgotten() {
        let words: [AtomicU64; ENTRIES] = [const { AtomicU64::new(0) }; ENTRIES];
        let newborns = PendingChildren::new(&words);
        assert!(!newborns.any());
        assert!((1..=ENTRIES as u64).all(|number| newborns.note(number)) && !newborns.note(99));
        newborns.forget(3);
        newborns.forget(77);
        assert!(newborns.note(99) && newborns.any());
        let all: Vec<u64> = newborns.all().collect();
        assert_eq!(all, [1, 2, 99, 4, 5, 6, 7, 8]);
        assert!(newborns.any(), "who looks takes nothing out");
        all.into_iter().for_each(|number| newborns.forget(number));
        assert!(!newborns.any() && newborns.all().next().is_none());
    }

    #[test]
    fn what_looks_at_others_is_not_an_own_affair() {
        use Request::{
            Adopt, Holders, IssueToken, PivotRoot, ReapClients, Seal, SegmentAttach, SetIdentity, Signal, Submit,
        };
        let others =
            [Adopt, Submit, ReapClients, Holders, PivotRoot, Seal, SegmentAttach, SetIdentity, Signal, IssueToken];
        assert!(others.into_iter().all(|operation| !Request::is_local(operation as u64)));
        assert!([Request::Open, Request::Read, Request::Lock].into_iter().all(|one| Request::is_local(one as u64)));
    }
}
