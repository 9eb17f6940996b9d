//! Credentials of a process and of its threads (credentials(7)), by their own word: the server has the true ones.
//!
//! A thread that changes its credentials by a bare system call differs from the others, and has a record of its own.
//! All others have the common record, the first thread always. `process::thread_credentials` changes them.
//!
//! Invariants:
//! - Records change in a turn alone ([`ProcessCredentials::try_turn`]). A fork has the turn, too.
//! - `differ` is set while a thread has a record of its own.

use super::{ProcessAttributes, ThreadAttributes, thread_attributes};
use core::sync::atomic::AtomicBool;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use runtime::lock::{Guard, Lock};
use runtime::{EnvironmentId, area, exposed};
use unix_core::process::capabilities::Capabilities;
use unix_core::process::credentials::Credentials;

/// The record of a thread that differs.
#[derive(Debug, Default)]
pub struct OwnCredentials {
    is_used: AtomicBool,
    pub(crate) credentials: Lock<Credentials>,
    pub(crate) capabilities: Lock<Capabilities>,
}

impl OwnCredentials {
    /// The thread has the common record.
    pub(crate) fn clear(&self) {
        self.is_used.store(false, Relaxed);
    }

    pub(crate) fn set(&self, credentials: Credentials, sets: Capabilities) {
        *self.credentials.lock() = credentials;
        *self.capabilities.lock() = sets;
        self.is_used.store(true, Release);
    }

    pub(crate) fn is_used(&self) -> bool {
        self.is_used.load(Acquire)
    }

    /// No thread of a copy of the process holds a lock of it.
    pub(crate) fn free_copy(&self) {
        self.credentials.free_copy();
        self.capabilities.free_copy();
    }
}

/// The common record, and what leads to the others.
#[derive(Debug, Default)]
pub struct ProcessCredentials {
    pub(crate) common: Lock<Credentials>,
    pub(crate) differ: AtomicBool,
    /// The environment of the thread that changes records; 0: none.
    turn: AtomicU64,
}

/// The right to change records.
#[derive(Debug)]
pub struct Turn<'a>(&'a AtomicU64);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.store(0, Release);
    }
}

impl ProcessCredentials {
    /// The record of the running thread.
    #[inline]
    pub fn lock(&self) -> Guard<'_, Credentials> {
        if self.differ() { self.lock_of_thread() } else { self.common.lock() }
    }

    #[cold]
    fn lock_of_thread(&self) -> Guard<'_, Credentials> {
        let own = &thread_attributes().own_credentials;
        if own.is_used() { own.credentials.lock() } else { self.common.lock() }
    }

    /// The common record.
    pub const fn common(&self) -> &Lock<Credentials> {
        &self.common
    }

    /// Whether threads differ.
    pub fn differ(&self) -> bool {
        self.differ.load(Acquire)
    }

    /// Whether the running thread holds a lock of them.
    pub fn is_held_here(&self) -> bool {
        let own = &thread_attributes().own_credentials;
        [self.common.owner(), own.credentials.owner(), own.capabilities.owner()].contains(&area::number())
    }

    /// Takes the turn, if it is free or a thread that died has left it.
    pub fn try_turn(&self) -> Option<Turn<'_>> {
        let before = self.turn.load(Relaxed);
        let is_free = before == 0 || !exposed::lives(EnvironmentId(before));
        let is_taken = is_free && self.turn.compare_exchange(before, area::number().0, Acquire, Relaxed).is_ok();
        is_taken.then(|| Turn(&self.turn))
    }

    /// The record of a thread.
    pub fn of(&self, thread: &ThreadAttributes) -> Credentials {
        let own = &thread.own_credentials;
        if own.is_used() { own.credentials.lock().clone() } else { self.common.lock().clone() }
    }

    /// No thread of a copy of the process holds a lock of it.
    pub fn free_copy(&self) {
        self.common.free_copy();
        self.turn.store(0, Relaxed);
        thread_attributes().own_credentials.free_copy();
    }
}

impl ProcessAttributes {
    /// The capabilities of the running thread.
    pub fn capabilities(&self) -> Capabilities {
        self.capabilities_of(thread_attributes())
    }

    /// The capabilities of a thread.
    pub fn capabilities_of(&self, thread: &ThreadAttributes) -> Capabilities {
        let own = &thread.own_credentials;
        if own.is_used() { *own.capabilities.lock() } else { self.prctl.lock().capabilities }
    }

    /// The running process is a child that just began, and has what the thread has that forked. True where the
    /// parent's threads differed: the child holds their key until `Process::settle`.
    pub fn begin_child(&self) -> bool {
        if !self.credentials.differ() {
            return false;
        }
        let sets = self.capabilities();
        let own = self.credentials.lock().clone();
        *self.credentials.common.lock() = own;
        self.prctl.lock().capabilities = sets;
        thread_attributes().own_credentials.clear();
        self.credentials.differ.swap(false, Relaxed)
    }
}
