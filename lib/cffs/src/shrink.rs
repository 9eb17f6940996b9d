//! Truncation, and freeing of ranges of file blocks with the indirect blocks above them.
//!
//! One transaction clears pointers of one sector. An indirect block is freed when it is empty.

use crate::device::Device;
use crate::edit::Edit;
use crate::error::{Error, Result};
use crate::file::{MAX_SIZE, Slot};
use crate::file_system::FileSystem;
use crate::layout::indirect::{BLOCK_POINTERS, DIRECT, MAX_BLOCKS, SECTOR_POINTERS, span};
use crate::layout::inode::POINTERS;
use crate::layout::node::inode_place;
use crate::layout::{BLOCK_BITS, Number, RESERVED_BIT, get};
use crate::template::{DATA, INDIRECT};
use xn::format::{BLOCK_SIZE, SECTORS};
use xn::template::RESERVED;
use xn::transaction::Action;

/// Pointers that one transaction clears: the kernel's XN takes no more blocks with an indirect sector and a node's.
const BATCH: usize = 16;

/// A range of pointers in one sector.
struct Row {
    page: usize,
    sector: usize,
    /// First byte and number of pointers.
    at: usize,
    count: usize,
}

impl<D: Device> FileSystem<'_, D> {
    /// Changes the size. New bytes are zeros.
    pub fn truncate(&mut self, number: Number, size: u64) -> Result<()> {
        self.check_writable()?;
        self.step();
        let inode = self.regular(number)?;
        if size > MAX_SIZE {
            return Err(Error::FileTooLarge);
        }
        if size > inode.size {
            self.clear_tail(number, inode.size)?;
        }
        let (mut edit, now) = (Edit::default(), self.now);
        self.step();
        self.edit_inode(&mut edit, number, |inode| {
            inode.size = size;
            inode.times[1] = now;
            inode.times[2] = now;
        })?;
        self.commit(&edit)?;
        if size < inode.size {
            let bytes = BLOCK_SIZE as u64;
            self.zero(number, size, size.next_multiple_of(bytes))?;
            self.clear_blocks(number, size.div_ceil(bytes), MAX_BLOCKS)?;
        }
        Ok(())
    }

    /// Frees file blocks `from` to `to`, the last not included.
    pub(crate) fn clear_blocks(&mut self, number: Number, from: u64, to: u64) -> Result<()> {
        self.step();
        let (page, sector, slot) = self.find_inode(number)?;
        self.cache.pins.push(page);
        let verdict = self.clear_all(number, (page, sector, slot), from, to);
        self.cache.pins.pop();
        verdict
    }

    fn clear_all(&mut self, number: Number, place: (usize, usize, usize), from: u64, to: u64) -> Result<()> {
        let (page, sector, slot) = place;
        let at = inode_place(slot) + POINTERS;
        if from < DIRECT {
            let count = (to.min(DIRECT) - from.min(to)) as usize;
            self.clear_row(number, &Row { page, sector, at: at + 8 * from as usize, count }, 1)?;
        }
        let mut base = DIRECT;
        for level in 1..=3_u32 {
            let end = base + span(level) * BLOCK_POINTERS;
            let slot = Slot { page, sector, at: at + 8 * (3 + level as usize), header: None };
            if from < end && to > base {
                self.clear_tree(number, &slot, level, from.saturating_sub(base), to.min(end) - base)?;
            }
            base = end;
        }
        Ok(())
    }

    /// Clears file blocks below one pointer, counted from the first block below it.
    fn clear_tree(&mut self, number: Number, slot: &Slot, level: u32, from: u64, to: u64) -> Result<()> {
        let block = self.pointer(slot) & BLOCK_BITS;
        if block == 0 || from >= to {
            return Ok(());
        }
        self.step();
        let page = self.child_page(slot.page, slot.sector, block, number)?;
        self.cache.pins.push(page);
        let verdict = self.clear_children(number, page, level, from, to);
        self.cache.pins.pop();
        verdict?;
        let empty = (0..SECTORS).all(|sector| {
            let content = self.sector(page, sector);
            (0..SECTOR_POINTERS as usize).all(|index| get(content, 8 * index, 8) == 0)
        });
        if empty {
            self.clear_row(number, &Row { page: slot.page, sector: slot.sector, at: slot.at, count: 1 }, 2)?;
        }
        Ok(())
    }

    fn clear_children(&mut self, number: Number, page: usize, level: u32, from: u64, to: u64) -> Result<()> {
        let below = span(level);
        let mut entry = from / below;
        while entry * below < to {
            let (sector, within) = ((entry / SECTOR_POINTERS) as usize, entry % SECTOR_POINTERS);
            let at = within as usize * 8;
            if level == 1 {
                let count = (SECTOR_POINTERS - within).min(to - entry);
                self.clear_row(number, &Row { page, sector, at, count: count as usize }, 1)?;
                entry += count;
                continue;
            }
            let slot = Slot { page, sector, at, header: None };
            let first = entry * below;
            self.clear_tree(number, &slot, level - 1, from.saturating_sub(first), (to - first).min(below))?;
            entry += 1;
        }
        Ok(())
    }

    /// Clears pointers of one sector, to data (`level` 1) or to indirect blocks.
    fn clear_row(&mut self, number: Number, row: &Row, level: u32) -> Result<()> {
        let mut index = 0;
        while index < row.count {
            let (mut edit, mut freed) = (Edit::default(), 0);
            while index < row.count && freed < BATCH && !edit.is_full() {
                let at = row.at + 8 * index;
                let pointer = get(self.sector(row.page, row.sector), at, 8);
                index += 1;
                if pointer & BLOCK_BITS == 0 {
                    continue;
                }
                let template = match pointer & RESERVED_BIT {
                    0 if level == 1 => DATA,
                    0 => INDIRECT,
                    _ => RESERVED,
                };
                edit.declare(Action::Free, pointer & BLOCK_BITS, template);
                self.set_pointer(&mut edit, &Slot { page: row.page, sector: row.sector, at, header: None }, number, 0);
                freed += 1;
            }
            if freed > 0 {
                self.edit_inode(&mut edit, number, |inode| inode.blocks = inode.blocks.saturating_sub(freed as u64))?;
                self.commit(&edit)?;
            }
        }
        Ok(())
    }

    /// Refuses what [`Self::find_inode`] would not find any more.
    pub(crate) fn is_used(&mut self, number: Number) -> bool {
        !matches!(self.find_inode(number), Err(Error::Stale))
    }
}
