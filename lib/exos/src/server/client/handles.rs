//! Nodes that a process holds. Opening and closing them again takes an RPC only where a process could tell the
//! difference. Nodes in flight to other processes are here too.

use super::Client;
use alloc::vec::Vec;
use linux_abi::errno::Result;
use linux_raw_sys::general as linux;
use unix_core::server::handle_cache::HandleCache;
use unix_core::server::protocol::{self, Request};
use vfs::handle::{Handle, node_of, right};

/// What became of a node that was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// The cache keeps it, or the server has released it already.
    Yes,
    /// The client must release it.
    No,
    /// The same, because other nodes are kept in its place.
    NoRoom,
}

impl Client {
    /// Opens a node that [`Self::find`] returned, if it is in the handle cache: no RPC. With the rights that it is
    /// opened for, no more and no less. The result is the handle.
    #[inline]
    pub fn reopen(&mut self, shown: u64, rights: u8) -> Option<u64> {
        let idle = self.idle()?;
        let node = idle.find(shown)?;
        let has = Handle::from_word(node).rights & (right::READ | right::WRITE | right::NOATIME | right::RUNS);
        (has == rights && idle.take(node)).then_some(node)
    }

    #[inline]
    pub(super) fn idle(&self) -> Option<HandleCache<'static>> {
        if self.has_watchers() {
            return None;
        }
        let words = self.window.as_ref()?.words();
        Some(protocol::idle_in(words))
    }

    /// Holds a node once more, or once less.
    pub fn hold(&mut self, node: u64, hold: bool) {
        let operation = if hold { Request::Hold } else { Request::Release };
        // A node that is not held any more needs no release.
        let _ = self.exchange([operation as u64, node, 0, 0, 0, 0]);
    }

    /// A descriptor of a node was closed; `last`: the last of its description; `locks`: that description, if locks end
    /// with it, or 0.
    pub fn close(&mut self, node: u64, last: bool, locks: u64) {
        let outcome = if locks == 0 && !self.has_locks { self.keep(node) } else { Kept::No };
        if outcome != Kept::Yes {
            let full = u64::from(outcome == Kept::NoRoom);
            let _ = self.exchange([Request::Release as u64, node, 1 + u64::from(last), locks, full, 0]);
        }
    }

    /// A descriptor of a node was closed that is held for others.
    pub fn close_one(&mut self, node: u64) {
        if self.has_locks {
            self.hold(node, true);
            self.close(node, false, 0);
        }
    }

    /// Keeps what was closed, in case that it is opened again: only what everybody finds by a name, as the catalogue
    /// says.
    pub(super) fn keep(&self, node: u64) -> Kept {
        let Some(idle) = self.idle() else { return Kept::No };
        let Some(shown) = self.catalogue() else { return Kept::No };
        match idle.put(node) {
            Err(there) if there == node => return Kept::No,
            Err(_) => return Kept::NoRoom,
            Ok(()) => {}
        }
        // The server hides a node that loses its last name first, and then looks for its handles in the caches.
        let is_shown = matches!(shown.kind(node_of(node)), Some(linux::S_IFREG | linux::S_IFDIR));
        if is_shown || !idle.take(node) { Kept::Yes } else { Kept::No }
    }

    /// The environments of other processes that hold a node.
    pub fn holders(&mut self, node: u64) -> Result<Vec<u64>> {
        self.window()?;
        let [bytes, ..] = self.on_object(Request::Holders, [node, 0, 0, 0, 0])?;
        let told = self.left(bytes)?;
        Ok(told.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect())
    }

    /// A node that is held is on its way to another client: its number there.
    pub fn offer(&self, node: u64) -> Result<u64> {
        Ok(self.exchange([Request::Offer as u64, node, 0, 0, 0, 0])?[1])
    }

    /// Holds a node that was on its way.
    pub fn accept_offer(&self, number: u64) -> Result<u64> {
        Ok(self.exchange([Request::AcceptOffer as u64, number, 0, 0, 0, 0])?[1])
    }
}
