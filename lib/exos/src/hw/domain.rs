//! The protection domain of a process: its environment, its keys, the accounts that it draws on, and the pages of
//! others that it maps.
//!
//! Invariant: what an operation of the kernel or of the server needs of a process is here, and nothing of Unix.

use super::current::{Holds, Word, area_at, record, word};
use super::mapping::{Mapping, Mappings};
use super::thread_context::ThreadContext;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use runtime::lock::Lock;
use runtime::vector::State;
use runtime::{EnvironmentId, KeyIndex};
use unix_core::process::public_page as public;

/// The protection domain of a process.
#[derive(Debug)]
pub struct Domain {
    /// Open windows.
    pub mappings: Lock<Mappings>,
    /// The number of the environment of its first thread.
    pub number: AtomicU64,
    /// The number of the environment that it began in, which is its own; 0: it is still there.
    /// See `unix_core::session::pid_map`.
    pub first_number: AtomicU64,
    /// Address of the environment area of its first thread.
    pub area: AtomicU64,
    /// Where in its own ring the key lies of the session, in the machine's sense, or of the user that it is.
    pub session_key: KeyIndex,
    /// Where the key lies that opens what others have made; mostly the same.
    pub opening_key: AtomicU64,
    /// The principal whose key the process has; 0: the session's. The server puts the key there.
    /// See `process::identity`.
    pub principal: AtomicU64,
    /// The server of the file system and of keys.
    pub server: EnvironmentId,
    /// Environment that holds the unused budget.
    pub bank: EnvironmentId,
    /// What the session tells of the host: see `session::board`.
    pub board: Mapping,
    /// Room for the vector registers of who waits for a child that has not begun.
    pub spare_vectors: Lock<Option<State>>,
}

impl Holds for Word<{ word::DOMAIN }> {
    type Record = Domain;
}

/// The protection domain of the running process.
#[inline]
pub fn domain() -> &'static Domain {
    record::<{ word::DOMAIN }>()
}

impl Domain {
    /// Its number, as programs see it.
    pub fn number(&self) -> u64 {
        match self.first_number.load(Relaxed) {
            0 => self.environment(),
            first => first,
        }
    }

    /// The number of the environment of its first thread.
    pub fn environment(&self) -> u64 {
        self.number.load(Relaxed)
    }

    /// Whether this is its first thread.
    pub fn is_first(&self, thread: &ThreadContext) -> bool {
        thread.number() == self.environment()
    }

    /// The number of one of its threads, as programs see it: that of the process where it is the first thread.
    pub fn shown_number(&self, thread: &ThreadContext) -> u64 {
        if self.is_first(thread) { self.number() } else { thread.number() }
    }

    /// The key that opens what others have made.
    pub fn opening_key(&self) -> KeyIndex {
        KeyIndex(self.opening_key.load(Relaxed))
    }

    /// Whether that is another one than its own.
    pub fn borrows_key(&self) -> bool {
        self.opening_key() != self.session_key
    }

    /// A word of its public page, by its index in the page.
    pub fn public_word(&self, index: usize) -> &'static AtomicU64 {
        area_at(self.area.load(Relaxed)).public_library(index - public::BASE)
    }
}
