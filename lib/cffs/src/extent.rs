//! Extents of a file: where its next content and its next hole begin (SEEK_DATA, SEEK_HOLE).
//!
//! A missing indirect block is skipped whole: a file of 400 GiB with one block takes as many steps as its tree has
//! levels. Reserved blocks are holes.

use crate::device::Device;
use crate::error::Result;
use crate::file_system::FileSystem;
use crate::layout::indirect::{BLOCK_POINTERS, SECTOR_POINTERS, span, tree_of};
use crate::layout::inode::POINTERS;
use crate::layout::node::inode_place;
use crate::layout::{BLOCK_BITS, Number, RESERVED_BIT, get};
use xn::format::BLOCK_SIZE;

const BYTES: u64 = BLOCK_SIZE as u64;

impl<D: Device> FileSystem<'_, D> {
    /// The first byte at or after `from` that has content; `None` if only a hole follows.
    pub fn next_data(&mut self, number: Number, from: u64) -> Result<Option<u64>> {
        self.next(number, from, true)
    }

    /// The first byte at or after `from` that lies in a hole; the end of the file counts as one.
    pub fn next_hole(&mut self, number: Number, from: u64) -> Result<Option<u64>> {
        let found = self.next(number, from, false)?;
        let size = self.regular(number)?.size;
        Ok(found.or((from < size).then_some(size)))
    }

    fn next(&mut self, number: Number, from: u64, data: bool) -> Result<Option<u64>> {
        self.step();
        let size = self.regular(number)?.size;
        let mut index = from / BYTES;
        if from >= size {
            return Ok(None);
        }
        while index < size.div_ceil(BYTES) {
            self.step();
            let (is_data, next) = self.extent_at(number, index)?;
            if is_data == data {
                return Ok(Some(from.max(index * BYTES)));
            }
            index = next;
        }
        Ok(None)
    }

    /// Whether file block `index` has content, and the first block behind it that may differ.
    fn extent_at(&mut self, number: Number, index: u64) -> Result<(bool, u64)> {
        let Some((level, pointer, mut base)) = tree_of(index) else { return Ok((false, u64::MAX)) };
        let (page, sector, slot) = self.find_inode(number)?;
        let (mut page, mut sector, mut at) = (page, sector, inode_place(slot) + POINTERS + 8 * pointer);
        for level in (1..=level).rev() {
            let block = get(self.sector(page, sector), at, 8) & BLOCK_BITS;
            if block == 0 {
                return Ok((false, base + span(level) * BLOCK_POINTERS));
            }
            page = self.child_page(page, sector, block, number)?;
            let entry = (index - base) / span(level);
            (sector, at) = ((entry / SECTOR_POINTERS) as usize, (entry % SECTOR_POINTERS) as usize * 8);
            self.check_indirect((page, sector), number, level, base)?;
            base += entry * span(level);
        }
        let pointer = get(self.sector(page, sector), at, 8);
        Ok((pointer & BLOCK_BITS != 0 && pointer & RESERVED_BIT == 0, index + 1))
    }
}
