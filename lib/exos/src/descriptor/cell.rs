//! A page that the relatives who hold a description share: the state of an eventfd or a timerfd.

use crate::errno::Result;
use crate::user_memory::current::process;
use crate::user_memory::shared::Shared;
use alloc::vec;
use core::sync::atomic::AtomicU64;
use runtime::PageNumber;

/// The page.
#[derive(Debug)]
pub(super) struct Cell {
    shared: Shared,
}

impl Cell {
    /// A fresh one, all words 0.
    pub(super) fn create() -> Result<Self> {
        let process = process();
        process.sweep_lent();
        let page = crate::budget::allocate()?;
        Ok(Self { shared: process.windows.lock().open(vec![page], process.session_key, true)? })
    }

    /// One that a relative made.
    pub(super) fn open(page: u64) -> Result<Self> {
        let process = process();
        Ok(Self { shared: process.windows.lock().open(vec![PageNumber(page)], process.session_key, true)? })
    }

    /// One of its words.
    pub(super) fn word(&self, index: usize) -> &'static AtomicU64 {
        &self.shared.words()[index]
    }

    /// A number that no other one has.
    pub(super) fn number(&self) -> u64 {
        self.shared.pages()[0].0
    }

    /// This process has no descriptor of it any more.
    pub(super) fn discard(&self) {
        process().windows.lock().close(&self.shared);
        process().lend(self.shared.pages());
    }
}
