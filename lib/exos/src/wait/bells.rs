//! Words that ask for bells: how a thread that waits for many pipes, event counters, channels of datagrams or Unix
//! sockets is told that one of them changed.
//!
//! It is `internet::bell` with a word in a page that sleepers and those who change the object share. A change that a
//! sleeper asks for is kept in the thread that made it. That thread calls the server when its call ends, or before it
//! sleeps: it holds no lock then.
//! Invariant: every change that ends a wait for the object rings by its word.

use super::wait_state;
use crate::hw::current::is_adopted;
use crate::server::client;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use internet::bell::Watch;
use internet::page::watch::SENT;

/// Has a bell ring for the next change.
pub(crate) fn ask(word: &AtomicU64, bell: u32) {
    // The bell is read after the word: see `internet::bell`.
    word.update(SeqCst, SeqCst, |before| Watch(before).and(SENT, bell, client::bell(bell).load(SeqCst), false).0);
}

/// Something changed that sleepers may have asked for.
#[inline]
pub(crate) fn tell(word: &AtomicU64) {
    if word.load(SeqCst) != 0 {
        ring(word);
    }
}

#[inline(never)]
fn ring(word: &AtomicU64) {
    let asked = Watch(word.load(SeqCst));
    if is_adopted() && asked.wants(SENT, |bell| client::bell(bell).load(SeqCst)) {
        let bells = Watch(word.swap(0, SeqCst)).bells();
        wait_state().bells.fetch_or(bells, Relaxed);
        wait_state().notes_uses.store(true, Relaxed);
    }
}
