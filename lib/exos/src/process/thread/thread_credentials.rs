//! Credentials of a process and of its threads (credentials(7)), by their own word: the server has the true ones.
//!
//! A thread that changes its credentials by a bare system call differs from the others, and has a record of its own.
//! All others have the common record, the first thread always. glibc has every thread make the call, so that they agree
//! in the end. The last of them changes the key of the process. `exos_server::thread_credentials` does the same.
//!
//! Invariants:
//! - Records change in a turn alone ([`ProcessCredentials::turn`]). A fork has the turn, too.
//! - `differ` is set while a thread has a record of its own.

use super::Thread;
use crate::hw::current::thread;
use crate::process::process_record::Process;
use crate::process::{change_user, child_start};
use alloc::vec::Vec;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use linux_abi::errno::Result;
use runtime::lock::{Guard, Lock};
use runtime::{EnvironmentId, area, exposed};
use unix_core::process::capabilities::Capabilities;
use unix_core::process::credentials::{Change, Credentials, IdentityChange, KEEP};
use unix_core::server::protocol::{CAPABILITIES, Request, SAME_FOR_ALL};

/// The record of a thread that differs.
#[derive(Debug, Default)]
pub struct OwnCredentials {
    is_used: AtomicBool,
    credentials: Lock<Credentials>,
    capabilities: Lock<Capabilities>,
}

impl OwnCredentials {
    /// The thread has the common record.
    pub(super) fn clear(&self) {
        self.is_used.store(false, Relaxed);
    }

    fn set(&self, credentials: Credentials, sets: Capabilities) {
        *self.credentials.lock() = credentials;
        *self.capabilities.lock() = sets;
        self.is_used.store(true, Release);
    }

    fn is_used(&self) -> bool {
        self.is_used.load(Acquire)
    }

    /// No thread of a copy of the process holds a lock of it.
    pub(super) fn free_copy(&self) {
        self.credentials.free_copy();
        self.capabilities.free_copy();
    }
}

/// The common record, and what leads to the others.
#[derive(Debug, Default)]
pub struct ProcessCredentials {
    common: Lock<Credentials>,
    differ: AtomicBool,
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
    pub fn lock(&self) -> Guard<'_, Credentials> {
        let own = &thread().own_credentials;
        if self.differ() && own.is_used() { own.credentials.lock() } else { self.common.lock() }
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
        let own = &thread().own_credentials;
        [self.common.owner(), own.credentials.owner(), own.capabilities.owner()].contains(&area::number())
    }

    /// Waits for the turn, which a thread that died has left.
    pub fn turn(&self) -> Turn<'_> {
        loop {
            let before = self.turn.load(Relaxed);
            let is_free = before == 0 || !exposed::lives(EnvironmentId(before));
            if is_free && self.turn.compare_exchange(before, area::number().0, Acquire, Relaxed).is_ok() {
                return Turn(&self.turn);
            }
            crate::wait::yield_now();
        }
    }

    /// The record of a thread.
    pub fn of(&self, thread: &Thread) -> Credentials {
        let own = &thread.own_credentials;
        if own.is_used() { own.credentials.lock().clone() } else { self.common.lock().clone() }
    }

    /// No thread of a copy of the process holds a lock of it.
    pub fn free_copy(&self) {
        self.common.free_copy();
        self.turn.store(0, Relaxed);
        thread().own_credentials.free_copy();
    }

    /// The running process is a child that just began, and has what the thread has that forked. True where the
    /// parent's threads differed: the child holds their key until [`Process::settle`].
    pub fn begin_child(&self, process: &Process) -> bool {
        if !self.differ() {
            return false;
        }
        let sets = process.capabilities();
        let own = self.lock().clone();
        *self.common.lock() = own;
        process.attributes.lock().capabilities = sets;
        thread().own_credentials.clear();
        self.differ.swap(false, Relaxed)
    }
}

impl Process {
    /// The capabilities of the running thread.
    pub fn capabilities(&self) -> Capabilities {
        self.capabilities_of(thread())
    }

    /// The capabilities of a thread.
    pub fn capabilities_of(&self, thread: &Thread) -> Capabilities {
        let own = &thread.own_credentials;
        if own.is_used() { *own.capabilities.lock() } else { self.attributes.lock().capabilities }
    }

    /// The running thread has these capabilities. The server is told where that changes what it records.
    ///
    /// # Errors
    /// Those of the server; then nothing has changed.
    pub fn set_capabilities(&self, sets: Capabilities) -> Result<()> {
        let _turn = self.credentials.turn();
        let mut own = self.credentials.lock().clone();
        let before = own.missing;
        own.renounce(sets.missing());
        if own.missing == before && sets == self.capabilities() {
            return Ok(());
        }
        if own.missing != before {
            let (which, wanted, missing) = (CAPABILITIES, [KEEP; 3], own.missing);
            let change = IdentityChange { which, change: Change::OnFiles, wanted, keeps_groups: false, missing };
            self.files.lock().on_object(Request::SetIdentity, change.to_words())?;
        }
        self.record(own, sets);
        Ok(())
    }

    /// The running thread gets other credentials; `ask` has the server record them, and returns the principal whose key
    /// the process holds then. The key changes once all threads agree.
    ///
    /// # Errors
    /// Those of `ask`, `EAGAIN` and `ENOMEM`; then nothing has changed.
    pub fn change_credentials(
        &self,
        wished: Credentials,
        sets: Capabilities,
        ask: impl FnOnce() -> Result<u64>,
    ) -> Result<()> {
        let _turn = self.credentials.turn();
        let principal = wished.principal();
        let others = self.all_threads().into_iter().filter(|other| !core::ptr::eq(*other, thread()));
        let agree = others.map(|other| self.credentials.of(other)).all(|other| other == wished);
        let changes_key = agree && principal != self.principal.load(Relaxed);
        if changes_key {
            change_user::prepare(self, principal)?;
        }
        let held = ask()?;
        self.record(wished, sets);
        if changes_key {
            if held != principal {
                self.ask_for_all(thread())?;
            }
            change_user::switch_principal(self, principal);
        }
        child_start::publish(self);
        Ok(())
    }

    /// The threads that are left when one ends agree, maybe for the first time. Where their key cannot be had, the
    /// process keeps that of before, until it changes credentials again.
    pub fn settle_without(&self, leaving: &Thread) {
        if !self.credentials.differ() {
            return;
        }
        let _turn = self.credentials.turn();
        let mut left = self.all_threads();
        left.retain(|other| !core::ptr::eq(*other, leaving));
        let Some(model) = left.first() else { return };
        let wished = self.credentials.of(model);
        if left.iter().all(|other| self.credentials.of(other) == wished) {
            let _ = self.take_all(model);
        }
    }

    /// The process is its running thread alone from now on: the thread is a child's, or executes a program.
    ///
    /// # Errors
    /// `EAGAIN`, `ENOMEM`; then nothing has changed.
    pub fn settle(&self) -> Result<()> {
        let _turn = self.credentials.turn();
        self.take_all(thread())?;
        self.all_threads().iter().for_each(|one| one.own_credentials.clear());
        self.credentials.differ.store(false, Release);
        Ok(())
    }

    /// All threads take the credentials of one of them.
    fn take_all(&self, model: &Thread) -> Result<()> {
        let (wished, sets) = (self.credentials.of(model), self.capabilities_of(model));
        let principal = wished.principal();
        let changes_key = principal != self.principal.load(Relaxed);
        if changes_key {
            change_user::prepare(self, principal)?;
        }
        self.ask_for_all(model)?;
        if changes_key {
            change_user::switch_principal(self, principal);
        }
        for other in self.all_threads() {
            let own = &other.own_credentials;
            if own.is_used() {
                *own.credentials.lock() = wished.clone();
            }
        }
        self.record_common(wished, sets);
        child_start::publish(self);
        Ok(())
    }

    fn ask_for_all(&self, model: &Thread) -> Result<()> {
        self.files.lock().on_object(Request::SetIdentity, [SAME_FOR_ALL, model.number(), 0, 0, 0]).map(drop)
    }

    /// A thread that is about to begin has what its maker has, in the turn of that one.
    pub fn begin_thread(&self, begins: &Thread) {
        if self.credentials.differ() && thread().own_credentials.is_used() {
            begins.own_credentials.set(self.credentials.of(thread()), self.capabilities());
        }
    }

    fn all_threads(&self) -> Vec<&'static Thread> {
        self.threads.lock().clone()
    }

    /// The running thread has these, in its turn: the others keep what they have.
    fn record(&self, credentials: Credentials, sets: Capabilities) {
        if !self.is_first(thread()) {
            thread().own_credentials.set(credentials, sets);
            let common = (self.credentials.common.lock().clone(), self.attributes.lock().capabilities);
            return self.record_common(common.0, common.1);
        }
        let (common, common_sets) = (self.credentials.common.lock().clone(), self.attributes.lock().capabilities);
        for other in self.all_threads() {
            if !self.is_first(other) && !other.own_credentials.is_used() {
                other.own_credentials.set(common.clone(), common_sets);
            }
        }
        self.record_common(credentials, sets);
    }

    /// Sets the common record. Threads that have the same keep none of their own.
    fn record_common(&self, credentials: Credentials, sets: Capabilities) {
        let threads = self.all_threads();
        self.credentials.differ.store(true, Release);
        *self.credentials.common.lock() = credentials.clone();
        self.attributes.lock().capabilities = sets;
        for one in &threads {
            let own = &one.own_credentials;
            if own.is_used() && *own.credentials.lock() == credentials && *own.capabilities.lock() == sets {
                own.clear();
            }
        }
        self.credentials.differ.store(threads.iter().any(|one| one.own_credentials.is_used()), Release);
    }
}
