//! Extents of a file: where its next content and its next hole begin (SEEK_DATA, SEEK_HOLE), and where its blocks lie.
//!
//! A missing indirect block is skipped whole: a file of 400 GiB with one block takes as many steps as its tree has
//! levels. Reserved blocks are holes.

use crate::device::Device;
use crate::error::{Error, Result};
use crate::file::Slot;
use crate::file_system::FileSystem;
use crate::layout::indirect::{BLOCK_POINTERS, SECTOR_POINTERS, span, tree_of};
use crate::layout::inode::POINTERS;
use crate::layout::node::inode_place;
use crate::layout::{BLOCK_BITS, Number, RESERVED_BIT, get};
use alloc::vec::Vec;
use xn::format::{BLOCK_SIZE, Block};
use xn::frames::Frames;

const BYTES: u64 = BLOCK_SIZE as u64;

/// Where a block of a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It reads as zeros.
    Hole,
    /// In the cache, which may differ from the device: [`FileSystem::copy_block`].
    Cached,
    /// In this block of the device.
    Device(u64),
}

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

    /// Where the blocks of a file from `first` to `end` are, as far as the file goes, and its size. A caller that
    /// shares the device may read those on it, until the file system writes or frees the next block.
    pub fn places(&mut self, number: Number, first: u64, end: u64) -> Result<(Vec<Place>, u64)> {
        self.step();
        let size = self.regular(number)?.size;
        let mut places = Vec::new();
        let mut slot: Option<Slot> = None;
        for index in first..end.min(size.div_ceil(BYTES)) {
            // The next pointer of a sector of an indirect block needs no walk.
            slot = match slot.filter(|slot| slot.header.is_some() && slot.at / 8 + 1 < SECTOR_POINTERS as usize) {
                Some(slot) => Some(Slot { at: slot.at + 8, ..slot }),
                None => {
                    self.step();
                    self.locate(number, index, false)?
                }
            };
            places.push(slot.map_or(Ok(Place::Hole), |slot| self.place_of(&slot))?);
        }
        Ok((places, size))
    }

    fn place_of(&mut self, slot: &Slot) -> Result<Place> {
        let pointer = self.pointer(slot);
        let block = pointer & BLOCK_BITS;
        if block == 0 || pointer & RESERVED_BIT != 0 {
            return Ok(Place::Hole);
        }
        if self.xn.find(block).is_some() {
            return Ok(Place::Cached);
        }
        // Only a crafted volume has a pointer to such a block.
        if self.xn.superblock().is_fixed(block) || block >= self.xn.superblock().blocks || self.is_free(block)? {
            return Err(Error::Damaged(block));
        }
        Ok(Place::Device(block))
    }

    /// Copies a block of a file. No time is kept.
    pub fn copy_block(&mut self, number: Number, index: u64, bytes: &mut Block) -> Result<()> {
        self.step();
        match self.data_page(number, index)? {
            Some(page) => self.xn.frames.load(page, 0, bytes),
            None => bytes.fill(0),
        }
        Ok(())
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
