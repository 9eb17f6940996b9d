//! Changes of credentials of a process and of its threads (credentials(7)). The records are `attributes::credentials`.
//!
//! glibc has every thread make a call that changes credentials, so that they agree in the end. The last of them changes
//! the key of the process. `exos_server::thread_credentials` does the same.
//!
//! Invariant: records change in a turn alone ([`Process::credentials_turn`]). A fork has the turn, too.

use super::Thread;
use crate::attributes::Turn;
use crate::process::current::thread;
use crate::process::fork::child_start;
use crate::process::process_record::Process;
use crate::process::setuid::change_user;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Relaxed, Release};
use linux_abi::errno::Result;
use unix_core::process::capabilities::Capabilities;
use unix_core::process::credentials::{Change, Credentials, IdentityChange, KEEP};
use unix_core::server::protocol::{CAPABILITIES, Request, SAME_FOR_ALL};

impl Process {
    /// Waits for the turn to change credentials.
    pub fn credentials_turn(&self) -> Turn<'_> {
        loop {
            if let Some(turn) = self.attributes.credentials.try_turn() {
                return turn;
            }
            crate::wait::yield_now();
        }
    }

    /// The running thread has these capabilities. The server is told where that changes what it records.
    ///
    /// # Errors
    /// Those of the server; then nothing has changed.
    pub fn set_capabilities(&self, sets: Capabilities) -> Result<()> {
        let _turn = self.credentials_turn();
        let mut own = self.attributes.credentials.lock().clone();
        let before = (own.missing, own.kept);
        own.renounce(sets.missing());
        let is_same = (own.missing, own.kept) == before;
        if is_same && sets == self.attributes.capabilities() {
            return Ok(());
        }
        if !is_same {
            let (which, wanted, missing) = (CAPABILITIES, [KEEP; 3], sets.missing());
            let change = IdentityChange { which, change: Change::OnFiles, wanted, kept: 0, missing };
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
        let _turn = self.credentials_turn();
        let principal = wished.principal();
        let others = self.all_threads().into_iter().filter(|other| !core::ptr::eq(*other, thread()));
        let agree = others.map(|other| self.attributes.credentials.of(&other.attributes)).all(|other| other == wished);
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
        if !self.attributes.credentials.differ() {
            return;
        }
        let _turn = self.credentials_turn();
        let mut left = self.all_threads();
        left.retain(|other| !core::ptr::eq(*other, leaving));
        let Some(model) = left.first() else { return };
        let wished = self.attributes.credentials.of(&model.attributes);
        if left.iter().all(|other| self.attributes.credentials.of(&other.attributes) == wished) {
            let _ = self.take_all(model);
        }
    }

    /// The process is its running thread alone from now on: the thread is a child's, or executes a program.
    ///
    /// # Errors
    /// `EAGAIN`, `ENOMEM`; then nothing has changed.
    pub fn settle(&self) -> Result<()> {
        let _turn = self.credentials_turn();
        self.take_all(thread())?;
        self.all_threads().iter().for_each(|one| one.attributes.own_credentials.clear());
        self.attributes.credentials.differ.store(false, Release);
        Ok(())
    }

    /// All threads take the credentials of one of them.
    fn take_all(&self, model: &Thread) -> Result<()> {
        let (wished, sets) =
            (self.attributes.credentials.of(&model.attributes), self.attributes.capabilities_of(&model.attributes));
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
            let own = &other.attributes.own_credentials;
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
        if self.attributes.credentials.differ() && thread().attributes.own_credentials.is_used() {
            begins
                .attributes
                .own_credentials
                .set(self.attributes.credentials.of(&thread().attributes), self.attributes.capabilities());
        }
    }

    fn all_threads(&self) -> Vec<&'static Thread> {
        self.threads.lock().clone()
    }

    /// The running thread has these, in its turn: the others keep what they have.
    fn record(&self, credentials: Credentials, sets: Capabilities) {
        if !self.is_first(thread()) {
            thread().attributes.own_credentials.set(credentials, sets);
            let common = (self.attributes.credentials.common.lock().clone(), self.attributes.prctl.lock().capabilities);
            return self.record_common(common.0, common.1);
        }
        let (common, common_sets) =
            (self.attributes.credentials.common.lock().clone(), self.attributes.prctl.lock().capabilities);
        for other in self.all_threads() {
            if !self.is_first(other) && !other.attributes.own_credentials.is_used() {
                other.attributes.own_credentials.set(common.clone(), common_sets);
            }
        }
        self.record_common(credentials, sets);
    }

    /// Sets the common record. Threads that have the same keep none of their own.
    fn record_common(&self, credentials: Credentials, sets: Capabilities) {
        let threads = self.all_threads();
        self.attributes.credentials.differ.store(true, Release);
        *self.attributes.credentials.common.lock() = credentials.clone();
        self.attributes.prctl.lock().capabilities = sets;
        for one in &threads {
            let own = &one.attributes.own_credentials;
            if own.is_used() && *own.credentials.lock() == credentials && *own.capabilities.lock() == sets {
                own.clear();
            }
        }
        self.attributes
            .credentials
            .differ
            .store(threads.iter().any(|one| one.attributes.own_credentials.is_used()), Release);
    }
}
