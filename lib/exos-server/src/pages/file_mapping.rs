//! The pages of files that the server tells, for mapping: those that are asked for, and those that programs touch.
//!
//! Invariant: a client may map a page before it is told the page's number (`page_acl`).

use super::page_acl::Access;
use crate::dispatch::{Answer, FileServer};
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use linux_abi::errno::{Errno, Result};
use unix_core::server::protocol;
use vfs::inode::NodeId;

impl FileServer {
    pub(crate) fn working_set(&mut self, caller: u64, id: NodeId, first: u64, end: u64) -> Result<Answer> {
        let window = self.window(caller)?;
        let count = self.put_working_set(caller, id, (first, end), window.words())?;
        Ok([count, 0, 0, 0, 0])
    }

    /// Tells the pages of a file between two that programs touch, and puts them into words; how many.
    pub(crate) fn put_working_set(
        &mut self,
        caller: u64,
        id: NodeId,
        (first, end): (u64, u64),
        words: &[AtomicU64],
    ) -> Result<u64> {
        let is_for_others = self.is_other_than_zero(caller);
        let pages = self.tree.working_set(id, first, end)?;
        pages.iter().zip(words).for_each(|(page, word)| word.store(*page, Relaxed));
        let count = pages.len() as u64;
        let told = if is_for_others { pages.iter().map(|page| page >> 32).collect() } else { Vec::new() };
        self.tell(caller, id, &told, Access::Read).map(|()| count)
    }

    /// Pages that are in memory already, and the one that is `wanted` among them, which is brought.
    pub(crate) fn pages(
        &mut self,
        caller: u64,
        id: NodeId,
        [first, count, wanted]: [u64; 3],
        shared: bool,
    ) -> Result<Answer> {
        let mut numbers = [0; protocol::NEAR_PAGES];
        let Some(numbers) = numbers.get_mut(..count as usize) else { return Err(Errno::EINVAL) };
        let Some(index) = first.checked_add(wanted).filter(|_| wanted < count) else { return Err(Errno::EINVAL) };
        let Some(page) = self.tree.page(id, index, shared)? else { return Ok([0; 5]) };
        if !shared && self.tree.working_sets.note(id, index) {
            self.tell_of_programs();
        }
        self.tell(caller, id, &[page], if shared { Access::Write } else { Access::Read })?;
        if count > 1 {
            self.tree.pages_in_memory(id, first, numbers)?;
            self.tell(caller, id, numbers, Access::Read)?;
        }
        let [a, b, c, d] = protocol::tell_near_pages(page, numbers);
        Ok([page, a, b, c, d])
    }
}
