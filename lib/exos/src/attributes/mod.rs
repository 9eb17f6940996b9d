//! Attributes of a process and of its threads that calls of all kinds check: credentials, resource limits, session,
//! and what `prctl(2)` and the scheduling calls set.
//!
//! Invariant: nothing here waits, so that every layer may ask while it holds locks that come before.

mod credentials;

pub use credentials::{OwnCredentials, ProcessCredentials, Turn};

use crate::hw::current::{Holds, Word, record, word};
use crate::hw::domain::domain;
use core::sync::atomic::{AtomicU32, AtomicU64};
use runtime::lock::Lock;
use unix_core::process::prctl_state::Attributes;
use unix_core::process::rlimits::Rlimits;
use unix_core::process::ucred::Ucred;

/// Attributes of a process.
#[derive(Debug)]
pub struct ProcessAttributes {
    /// Its credentials by its own word: the server has the true ones.
    pub credentials: ProcessCredentials,
    /// What it may use.
    pub limits: Lock<Rlimits>,
    /// What it has asked for by `prctl`, `setpriority` and the like.
    pub prctl: Lock<Attributes>,
    /// Session, in the sense of `setsid`.
    pub session: AtomicU64,
}

/// Attributes of a thread.
#[derive(Debug)]
pub struct ThreadAttributes {
    /// Its credentials, where they differ from those of the first thread.
    pub own_credentials: OwnCredentials,
    /// The CPUs that it may run on, as bits; those of the first thread stand in the process's attributes.
    pub cpus: AtomicU32,
}

impl Default for ThreadAttributes {
    fn default() -> Self {
        Self { own_credentials: OwnCredentials::default(), cpus: AtomicU32::new(u32::MAX) }
    }
}

impl Holds for Word<{ word::ATTRIBUTES }> {
    type Record = ProcessAttributes;
}

impl Holds for Word<{ word::THREAD_ATTRIBUTES }> {
    type Record = ThreadAttributes;
}

/// The attributes of the running process.
#[inline]
pub fn attributes() -> &'static ProcessAttributes {
    record::<{ word::ATTRIBUTES }>()
}

/// The attributes of the running thread.
#[inline]
pub fn thread_attributes() -> &'static ThreadAttributes {
    record::<{ word::THREAD_ATTRIBUTES }>()
}

impl ProcessAttributes {
    /// Those that a process begins with that is no copy of another one, in a session of its own number.
    pub fn new(session: u64) -> Self {
        Self {
            credentials: ProcessCredentials::default(),
            limits: Lock::new(Rlimits::default()),
            prctl: Lock::new(Attributes::default()),
            session: AtomicU64::new(session),
        }
    }

    /// Its number and its user, as they come along with a signal that it sends.
    pub fn sender(&self) -> u64 {
        domain().number() & 0xffff_ffff | u64::from(self.credentials.lock().user.real) << 32
    }

    /// Its credentials for the other end of a socket that it makes.
    pub fn as_peer(&self) -> Ucred {
        Ucred::of(domain().number(), self.credentials.lock().acting())
    }
}
