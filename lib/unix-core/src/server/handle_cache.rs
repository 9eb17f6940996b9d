//! Files that a process holds without need: what it closed last, kept in case that it opens them again.
//!
//! Pure, over words of a page that a client and the server share. Opening and closing a file again and again then takes
//! no RPC: the client takes the handle out of the table, and puts it back. The server counts a cached handle as open.
//! When its file loses the last name, the server takes the handle out of the table and releases it, so that a removed
//! file is gone at once. Each entry is changed in one step, so that both never have the same hold. The client may write
//! what it likes there: the server lets go only of what that client holds.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use vfs::handle::{node_of, place_of};
use vfs::inode::NodeId;

/// Entries of the table.
pub const ENTRIES: usize = 128;

/// The table: words of handles. Each has one place, by its node; 0: nothing lies there.
#[derive(Clone, Copy, Debug)]
pub struct HandleCache<'a>(&'a [AtomicU64; ENTRIES]);

impl<'a> HandleCache<'a> {
    /// In these words.
    pub const fn new(words: &'a [AtomicU64; ENTRIES]) -> Self {
        Self(words)
    }

    /// Puts a handle in.
    ///
    /// # Errors
    /// What lies in its place already, and stays there.
    #[inline]
    pub fn put(self, handle: u64) -> Result<(), u64> {
        self.place(node_of(handle)).compare_exchange(0, handle, SeqCst, SeqCst).map(|_| ())
    }

    /// The handle of a place that lies there, if one does.
    #[inline]
    pub fn find(self, place: u64) -> Option<u64> {
        self.find_node(node_of(place)).filter(|handle| place_of(*handle) == place)
    }

    /// The handle of a node that lies there, through whichever mount.
    #[inline]
    pub fn find_node(self, node: NodeId) -> Option<u64> {
        Some(self.place(node).load(Acquire)).filter(|handle| node_of(*handle) == node)
    }

    /// Takes a handle out; says whether it was there.
    #[inline]
    pub fn take(self, handle: u64) -> bool {
        self.place(node_of(handle)).compare_exchange(handle, 0, SeqCst, Relaxed).is_ok()
    }

    /// The handles that lie there.
    pub fn handles(self) -> impl Iterator<Item = u64> + use<'a> {
        self.0.iter().map(|entry| entry.load(Acquire)).filter(|handle| *handle != 0)
    }

    /// Takes all out.
    pub fn take_all(self) -> impl Iterator<Item = u64> + use<'a> {
        self.0.iter().map(|entry| entry.swap(0, SeqCst)).filter(|handle| *handle != 0)
    }

    fn place(self, node: NodeId) -> &'a AtomicU64 {
        &self.0[(node % ENTRIES as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn a_handle_is_kept_once_and_taken_by_one_of_two() {
        let words: [AtomicU64; ENTRIES] = [const { AtomicU64::new(0) }; ENTRIES];
        let idle = HandleCache::new(&words);
        let (read, write) = (7 | 1 << 56, 7 | 3 << 56);
        assert_eq!(idle.put(read), Ok(()));
        assert_eq!(idle.put(read), Err(read), "it is there");
        assert_eq!(idle.put(write), Err(read), "its place is taken by the same node with other rights");
        assert_eq!(idle.put(7 + ENTRIES as u64), Err(read), "its place is taken by another node");
        assert_eq!(idle.put(8), Ok(()));
        assert_eq!(idle.handles().collect::<Vec<_>>(), [read, 8]);
        assert_eq!((idle.find(7 | 1 << 40), idle.find_node(7)), (None, Some(read)), "another mount");
        assert_eq!((idle.find(7), idle.find(7 + ENTRIES as u64), idle.find(9)), (Some(read), None, None));
        assert!(!idle.take(write) && idle.take(read) && !idle.take(read));
        assert_eq!(idle.find(7), None);
        assert_eq!(idle.take_all().collect::<Vec<_>>(), [8]);
        assert_eq!(idle.handles().count(), 0);
    }
}
