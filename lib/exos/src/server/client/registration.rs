//! Registration with the server of the children and threads that a process makes, and the window that each begins with.

use super::{Client, window_pages};
use crate::hw::mapping::Mapping;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use linux_abi::errno::Result;
use runtime::{EnvironmentId, PageNumber};
use unix_core::server::protocol::{Request, WINDOW_BYTES};

impl Client {
    /// Makes a new environment a client.
    pub fn adopt(&self, newborn: EnvironmentId) -> Result<()> {
        self.exchange([Request::Adopt as u64, newborn.0, 0, 0, 0, 0]).map(|_| ())
    }

    /// Where the window of this process lies, and of those that it makes.
    pub fn window_place(&mut self) -> Result<u64> {
        self.attached().map(Mapping::address)
    }

    /// The same, with a window of its own, for one that has no use for some nodes that this process holds; the result
    /// is its pages. `before`: the first page of the window that is mapped where it begins; the child gets that window
    /// if no other process has it.
    pub fn adopt_with_window(
        &mut self,
        newborn: EnvironmentId,
        before: PageNumber,
        left_out: &[u64],
    ) -> Result<Vec<PageNumber>> {
        // Of more than there is room for it holds the rest.
        let told = &left_out[..left_out.len().min(WINDOW_BYTES as usize / 8)];
        let window = self.window()?;
        told.iter().zip(window.words()).for_each(|(node, word)| word.store(*node, Relaxed));
        let answer = self.exchange([Request::Adopt as u64, newborn.0, 1, told.len() as u64, before.0, 0])?;
        Ok(window_pages(&answer))
    }

    /// Takes up the window that its maker had made for it.
    pub fn take_window(&mut self, window: Mapping) {
        self.window = Some(window);
    }

    /// Makes a new environment one that speaks for this process: a thread.
    pub fn join(&self, thread: EnvironmentId) -> Result<()> {
        self.exchange([Request::RegisterThread as u64, thread.0, 0, 0, 0, 0]).map(|_| ())
    }

    /// How a process is scheduled that goes before others on a CPU.
    ///
    /// # Errors
    /// `EPERM` where it may not, `EAGAIN` where there are too many.
    pub fn announce_precedence(&self, process: u64, attributes: u64) -> Result<()> {
        self.exchange([Request::SetPriority as u64, process, attributes, 0, 0, 0]).map(|_| ())
    }

    /// Reports that a process has died: its handles are free.
    pub fn bury_the_dead(&self) {
        // A server that is gone holds no handles.
        let _ = self.exchange([Request::ReapClients as u64, 0, 0, 0, 0, 0]);
    }
}
