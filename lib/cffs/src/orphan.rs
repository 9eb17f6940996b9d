//! Orphans: inodes without names. They live while they are open, then their blocks and their place are freed.
//!
//! Invariant: what a crash leaves of an inode that is being freed is either whole, or marked as dying. A small file is
//! freed without write-back in between; a large one is marked first, and the mark is made durable.

use crate::device::Device;
use crate::edit::Edit;
use crate::error::Result;
use crate::file_system::FileSystem;
use crate::layout::indirect::MAX_BLOCKS;
use crate::layout::inode::{DYING, Inode};
use crate::layout::node::{self, inode_place};
use crate::layout::{BLOCK_BITS, Number};
use crate::template::NODE;
use xn::transaction::Action;

/// Pages that freeing a small file may need.
const PAGES: usize = 16;

impl<D: Device> FileSystem<'_, D> {
    /// Keeps an inode alive without names.
    pub fn open(&mut self, number: Number) -> Result<()> {
        self.step();
        self.inode(number)?;
        *self.opens.entry(number).or_insert(0) += 1;
        Ok(())
    }

    /// Ends an [`Self::open`]; the last one frees an orphan.
    pub fn close(&mut self, number: Number) -> Result<()> {
        let Some(count) = self.opens.get_mut(&number) else { return Ok(()) };
        *count -= 1;
        if *count > 0 {
            return Ok(());
        }
        self.opens.remove(&number);
        if self.read_only || self.pending.doomed.contains(&number) {
            return Ok(());
        }
        self.step();
        if self.inode(number)?.nlink == 0 { self.reap(number) } else { Ok(()) }
    }

    /// Frees an inode without names, unless it is open.
    pub(crate) fn reap(&mut self, number: Number) -> Result<()> {
        if self.opens.contains_key(&number) {
            return Ok(());
        }
        self.step();
        let inode = self.raw_inode(number)?;
        if inode.nlink > 0 && inode.state != DYING {
            return Ok(());
        }
        if inode.is_directory() {
            return if self.reap_directory(number)? { self.forget_inode(number) } else { Ok(()) };
        }
        if inode.is_file() && inode.pointers[4..].iter().any(|pointer| pointer & BLOCK_BITS != 0) {
            let records = self.xn.memory.ledger.iter().filter(|record| record.count == 0).count() as u64;
            if 2 * inode.blocks + 8 > records || !self.has_room(PAGES) {
                self.mark_dying(number)?;
            }
            self.clear_blocks(number, 0, MAX_BLOCKS)?;
        }
        self.step();
        let (mut edit, place) = (Edit::default(), self.find_inode(number)?);
        let inode = self.raw_inode(number)?;
        self.free_slot(&mut edit, place, &inode);
        self.commit(&edit)?;
        self.forget_inode(number)
    }

    /// An inode in any state.
    pub(crate) fn raw_inode(&mut self, number: Number) -> Result<Inode> {
        let (page, sector, slot) = self.find_inode(number)?;
        Ok(Inode::decode(&self.sector(page, sector)[inode_place(slot)..]))
    }

    fn mark_dying(&mut self, number: Number) -> Result<()> {
        let mut edit = Edit::default();
        self.edit_inode(&mut edit, number, |inode| {
            inode.nlink = 0;
            inode.state = DYING;
        })?;
        self.commit(&edit)?;
        self.write_back()?;
        self.reclaim();
        Ok(())
    }

    /// Frees a directory without names, unless it is open or its nodes hold inodes that are named elsewhere or open.
    fn reap_directory(&mut self, number: Number) -> Result<bool> {
        if self.opens.contains_key(&number) || number == self.root {
            return Ok(false);
        }
        let mut edit = Edit::default();
        if let Some(page) = self.root_node(number)? {
            if !self.is_empty_node(page) {
                return Ok(false);
            }
            edit.declare(Action::Free, self.xn.info(page)?.block(), NODE);
        }
        let (page, sector, slot) = self.find_inode(number)?;
        let content = self.edit(&mut edit, page, sector);
        node::set_inode(content, slot, false);
        content[inode_place(slot) + 4] = 0;
        self.commit(&edit)?;
        Ok(true)
    }

    /// After an inode's place was freed: forgets it, prunes its node, and frees the node's directory if that has no
    /// name and no other tenant.
    pub(crate) fn forget_inode(&mut self, number: Number) -> Result<()> {
        let mut number = number;
        loop {
            self.pending.young.remove(&number);
            self.pending.unsettled.remove(&number);
            self.pending.lessened.remove(&number);
            let block = number >> 5;
            let Some(page) = self.cached(block) else { return Ok(()) };
            let Some((directory, ..)) = node::head(self.sector(page, 0)) else { return Ok(()) };
            self.prune(block)?;
            if self.raw_inode(directory)?.nlink > 0 || !self.reap_directory(directory)? {
                return Ok(());
            }
            number = directory;
        }
    }
}
