//! The mailbox of a process, and how it is written from elsewhere.

use super::set::{COUNT, bit};
use crate::errno::{Errno, Result};
use crate::user_memory::current::process;
use crate::user_memory::shared::Shared;
use alloc::vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use runtime::{EnvironmentId, KeyIndex, PageNumber, exposed, syscall};

/// Event bit that says: look into the mailbox.
pub const EVENT_SIGNAL: u64 = 1;

const SIGNALS: usize = 0;
const CHILDREN: usize = 1;
const SENDERS: usize = 2;

/// A mailbox, one's own or another's.
#[derive(Clone, Debug)]
pub struct Mailbox {
    page: Shared,
}

impl Mailbox {
    /// The one that lies in a window.
    pub const fn new(page: Shared) -> Self {
        Self { page }
    }

    /// Opens the mailbox of another process, for which `key` must allow writing.
    pub fn open(page: PageNumber, key: KeyIndex) -> Result<Self> {
        Ok(Self::new(process().windows.lock().open(vec![page], key, true)?))
    }

    /// Closes the window.
    pub fn close(self) {
        process().windows.lock().close(&self.page);
    }

    /// The window it lies in.
    pub const fn window(&self) -> &Shared {
        &self.page
    }

    /// Signals that came and were not taken out, as a set.
    pub fn signals(&self) -> &'static AtomicU64 {
        self.word(SIGNALS)
    }

    /// A count that grows whenever something happened to a child.
    pub fn children(&self) -> &'static AtomicU64 {
        self.word(CHILDREN)
    }

    /// Puts a signal in.
    pub fn post(&self, signal: u32, sender: u64) {
        if (1..=COUNT).contains(&signal) {
            self.word(SENDERS + signal as usize).store(sender, Relaxed);
            self.signals().fetch_or(bit(signal), SeqCst);
        }
    }

    /// Who says to have sent a signal.
    pub fn sender(&self, signal: u32) -> u64 {
        self.word(SENDERS + (signal.min(COUNT)) as usize).load(Acquire)
    }

    /// Tells a parent that something happened to a child.
    pub fn tell_of_child(&self) {
        self.children().fetch_add(1, SeqCst);
    }

    fn word(&self, index: usize) -> &'static AtomicU64 {
        &self.page.words()[index]
    }
}

/// Sends a signal to another process: into its mailbox, then an event so that it looks.
pub fn send(target: EnvironmentId, mailbox: &Mailbox, signal: u32) -> Result<()> {
    mailbox.post(signal, process().number());
    crate::block::kick_idle();
    match syscall::event_raise(process().session_key, target, EVENT_SIGNAL) {
        Ok(()) => Ok(()),
        Err(_) if !exposed::lives(target) => Err(Errno::ESRCH),
        Err(failure) => Err(failure.into()),
    }
}
