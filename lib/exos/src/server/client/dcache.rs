//! What a process finds out by itself: what the server shows to everybody of names and nodes.

use super::Client;
use crate::hw::library_image;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Acquire;
use linux_abi::errno::Result;
use unix_core::server::protocol;
use vfs::dcache::{self, Dcache};
use vfs::handle::place_of;
use vfs::inode::{OwnerAndMode, Status};

impl Client {
    /// The node that a path leads to, where the dcache shows all of the way: no RPC.
    #[inline(always)]
    pub fn find(&self, at: u64, path: &[u8], follow: bool) -> Option<Result<Status>> {
        self.catalogue()?.find(place_of(at), path, follow)
    }

    /// The same, but no more than whose it is.
    #[inline(always)]
    pub fn find_owned(&self, at: u64, path: &[u8], follow: bool) -> Option<Result<OwnerAndMode>> {
        self.catalogue()?.find_owned(place_of(at), path, follow)
    }

    /// Where a symbolic link leads that [`Self::find`] told of: bytes, and how many.
    pub fn target(&self, shown: &Status) -> Option<([u8; dcache::TARGET_BYTES], usize)> {
        self.catalogue()?.target(shown.node)
    }

    /// Whether any process watches files: the server is then told of each operation.
    pub(super) fn has_watchers(&self) -> bool {
        notice(protocol::WATCHERS).load(Acquire) != 0
    }

    /// The catalogue, which who has another directory for a root does without.
    #[inline(always)]
    pub(super) fn catalogue(&self) -> Option<Dcache<'static>> {
        if self.has_own_root { None } else { Some(Dcache::new(library_image::shown().1)) }
    }
}

/// A word of the server's notice page.
#[inline(always)]
pub(super) fn notice(index: usize) -> &'static AtomicU64 {
    &library_image::shown().0[index]
}

/// Words of the server's notice page that lie behind each other.
pub(super) fn notices<const COUNT: usize>(first: usize) -> &'static [AtomicU64; COUNT] {
    library_image::shown().0[first..].first_chunk().expect("the notice page has these words")
}
