//! What a process finds out by itself: what the guardian shows to everybody of names and nodes.

use super::Client;
use crate::errno::Result;
use crate::file_system::catalogue::{self, Catalogue};
use crate::file_system::node::{Owned, Status};
use crate::guardian::handle::{is_first_mount, node_of};
use crate::guardian::protocol;
use crate::user_memory::current::process;
use crate::user_memory::shared::Shared;
use core::sync::atomic::Ordering::Acquire;
use runtime::PageNumber;

impl Client {
    /// What a path leads to, where the guardian shows all of the way: nobody is asked.
    #[inline(always)]
    pub fn find(&mut self, at: u64, path: &[u8], follow: bool) -> Option<Result<Status>> {
        if !is_first_mount(at) {
            return None;
        }
        Catalogue::new(self.catalogue()?.words()).find(node_of(at), path, follow)
    }

    /// The same, but no more than whose it is.
    #[inline(always)]
    pub fn find_owned(&mut self, at: u64, path: &[u8], follow: bool) -> Option<Result<Owned>> {
        if !is_first_mount(at) {
            return None;
        }
        Catalogue::new(self.catalogue()?.words()).find_owned(node_of(at), path, follow)
    }

    /// Where a symbolic link leads that [`Self::find`] told of: bytes, and how many.
    pub fn target(&self, shown: &Status) -> Option<([u8; catalogue::TARGET_BYTES], usize)> {
        Catalogue::new(self.catalogue.as_ref()?.words()).target(shown.node)
    }

    /// Whether anybody watches files: the guardian is told of everything then.
    pub(super) fn has_watchers(&self) -> bool {
        self.notice.as_ref().is_some_and(|notice| notice.first_page()[protocol::WATCHERS].load(Acquire) != 0)
    }

    /// The catalogue: a program that looks up a few paths only does without.
    #[inline]
    fn catalogue(&mut self) -> Option<&Shared> {
        if self.has_own_root {
            return None;
        }
        if self.catalogue.is_none() {
            self.open_catalogue()?;
        }
        self.catalogue.as_ref()
    }

    #[cold]
    fn open_catalogue(&mut self) -> Option<()> {
        const FEW: u32 = 4;
        self.looked_up += 1;
        if self.looked_up < FEW {
            return None;
        }
        let pages = &self.notice.as_ref()?.words()[protocol::CATALOGUE_PAGES..];
        let pages = pages[..catalogue::PAGES].iter().map(|page| PageNumber(page.load(Acquire))).collect();
        let process = process();
        self.catalogue = process.windows.lock().open(pages, process.session_key, false).ok();
        Some(())
    }
}
