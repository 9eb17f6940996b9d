//! A store of pages on the host for the tests of file trees.

use linux_abi::errno::{Errno, Result};
use vfs::file_data::PageStorage;
use vfs::namespace::FileTree;

/// Pages on the host, at most `limit` of them.
pub(crate) struct HostStore {
    pages: Vec<Vec<u8>>,
    pub(crate) free: Vec<u32>,
    shared: Vec<u32>,
    limit: usize,
}

impl PageStorage for HostStore {
    fn allocate(&mut self) -> Result<u32> {
        if let Some(page) = self.free.pop() {
            self.pages[page as usize].fill(0);
            return Ok(page);
        }
        if self.pages.len() == self.limit {
            return Err(Errno::ENOSPC);
        }
        self.pages.push(vec![0; 4096]);
        Ok(self.pages.len() as u32 - 1)
    }
    fn room(&self) -> u64 {
        (self.limit - self.pages.len() + self.free.len()) as u64
    }
    fn free(&mut self, page: u32) {
        assert!(!self.free.contains(&page), "a page is freed twice");
        self.free.push(page);
    }
    fn bytes(&self, page: u32) -> &[u8] {
        &self.pages[page as usize]
    }
    fn bytes_mut(&mut self, page: u32) -> &mut [u8] {
        &mut self.pages[page as usize]
    }
    fn number(&self, page: u32) -> u64 {
        u64::from(page)
    }
    fn archive(&self) -> &[u8] {
        &[]
    }
    fn is_shared(&self, page: u32) -> bool {
        self.shared.contains(&page)
    }
    fn share(&mut self, page: u32) {
        self.shared.push(page);
    }
    fn has_shared(&self) -> bool {
        !self.shared.is_empty()
    }
    fn unshare(&mut self, page: u32) -> bool {
        self.shared.retain(|shared| *shared != page);
        true
    }
    fn copy_from_archive(&mut self, _: u32, _: usize, _: usize) {}
}

/// A tree over so many pages.
pub(crate) fn tree(limit: usize) -> FileTree<HostStore> {
    FileTree::new(HostStore { pages: Vec::new(), free: Vec::new(), shared: Vec::new(), limit }, 7)
}
