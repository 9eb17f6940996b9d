//! Contents of files: which block holds which part, read and write, reserved blocks.
//!
//! A file block without pointer is a hole, and a reserved one reads as zeros. Bytes behind the end of a file are zeros
//! in its last block; an extension makes sure.

use crate::device::{Change, Device, MANY, RUN, Whole};
use crate::edit::Edit;
use crate::error::{Error, Result};
use crate::file_system::{CALLER, FileSystem};
use crate::layout::indirect::{self, BLOCK_POINTERS, DIRECT, SECTOR_POINTERS, set_header, span, tree_of};
use crate::layout::inode::{Inode, POINTERS};
use crate::layout::node::inode_place;
use crate::layout::{BLOCK_BITS, Number, RESERVED_BIT, get, put};
use crate::template::{DATA, INDIRECT};
use alloc::vec::Vec;
use xn::format::{BLOCK_SIZE, Block};
use xn::frames::Frames;
use xn::template::RESERVED;
use xn::transaction::Action;

const BYTES: u64 = BLOCK_SIZE as u64;
/// Bytes of the largest file.
pub const MAX_SIZE: u64 = indirect::MAX_BLOCKS * BYTES;
/// Whole blocks of one write that go straight to the device: fewer wait for others in the cache.
const FEWEST: usize = 8;
/// atime is renewed at the latest after a day (relatime).
const DAY: i64 = 86_400_000_000_000;

/// Where a pointer lies: page, sector, first byte in the sector.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub(crate) page: usize,
    pub(crate) sector: usize,
    pub(crate) at: usize,
    /// Header of an indirect sector: level and first file block.
    pub(crate) header: Option<(u32, u64)>,
}

impl<D: Device> FileSystem<'_, D> {
    pub(crate) fn pointer(&self, slot: &Slot) -> u64 {
        get(self.sector(slot.page, slot.sector), slot.at, 8)
    }

    /// Sets a pointer within an edit; the first one of an indirect sector brings the header.
    pub(crate) fn set_pointer(&self, edit: &mut Edit, slot: &Slot, number: Number, pointer: u64) {
        let content = self.edit(edit, slot.page, slot.sector);
        put(content, slot.at, 8, pointer);
        if let Some((level, base)) = slot.header {
            set_header(content, number, level, base);
        }
    }

    /// The pointer to file block `index`. Without `create` a missing indirect block gives `None`.
    pub(crate) fn locate(&mut self, number: Number, index: u64, create: bool) -> Result<Option<Slot>> {
        let (level, pointer, mut base) = tree_of(index).ok_or(Error::FileTooLarge)?;
        let (page, sector, inode_slot) = self.find_inode(number)?;
        let at = inode_place(inode_slot) + POINTERS + 8 * pointer;
        let mut slot = Slot { page, sector, at, header: None };
        for level in (1..=level).rev() {
            let Some(page) = self.indirect_page(number, &slot, create)? else { return Ok(None) };
            let entry = (index - base) / span(level);
            let sector = (entry / SECTOR_POINTERS) as usize;
            let at = (entry % SECTOR_POINTERS) as usize * 8;
            self.check_indirect((page, sector), number, level, base)?;
            slot = Slot { page, sector, at, header: Some((level, base)) };
            base += entry * span(level);
        }
        Ok(Some(slot))
    }

    /// A sector of an indirect block names its file, level and first file block, or is unused.
    pub(crate) fn check_indirect(
        &self,
        (page, sector): (usize, usize),
        number: Number,
        level: u32,
        base: u64,
    ) -> Result<()> {
        let content = self.sector(page, sector);
        let stated = (indirect::owner(content), indirect::level(content), get(content, 504, 4));
        if stated.1 == 0 || stated == (number, level, base) {
            return Ok(());
        }
        Err(Error::Damaged(self.xn.info(page)?.block()))
    }

    fn indirect_page(&mut self, number: Number, slot: &Slot, create: bool) -> Result<Option<usize>> {
        let block = self.pointer(slot) & BLOCK_BITS;
        if block != 0 {
            return self.child_page(slot.page, slot.sector, block, number).map(Some);
        }
        if !create {
            return Ok(None);
        }
        let page = self.free_page()?;
        let block = self.choose(self.xn.info(slot.page)?.block() + 1)?;
        let mut edit = Edit::default();
        edit.declare(Action::Allocate, block, INDIRECT);
        self.set_pointer(&mut edit, slot, number, block);
        self.edit_inode(&mut edit, number, |inode| inode.blocks += 1)?;
        self.commit(&edit)?;
        self.bind(slot.page, slot.sector, block, page, number).map(Some)
    }

    /// The page of a file block that has content.
    pub(crate) fn data_page(&mut self, number: Number, index: u64) -> Result<Option<usize>> {
        let Some(slot) = self.locate(number, index, false)? else { return Ok(None) };
        match self.pointer(&slot) {
            pointer if pointer & BLOCK_BITS == 0 || pointer & RESERVED_BIT != 0 => Ok(None),
            pointer => self.child_page(slot.page, slot.sector, pointer & BLOCK_BITS, number).map(Some),
        }
    }

    /// Reads the blocks of a file from `first` to `end` in one transfer, as far as they are neighbours on the device
    /// and none is cached; how many. One block alone is left to [`Self::data_page`].
    fn read_ahead(&mut self, number: Number, first: u64, end: u64) -> Result<u64> {
        let (mut children, mut start) = (Vec::new(), 0);
        for index in first..end.min(first + RUN as u64) {
            let Some(slot) = self.locate(number, index, false)? else { break };
            let pointer = self.pointer(&slot);
            let block = pointer & BLOCK_BITS;
            let continues = children.is_empty() || block == start + children.len() as u64;
            if block == 0 || pointer & RESERVED_BIT != 0 || !continues || self.cached(block).is_some() {
                break;
            }
            if children.is_empty() {
                start = block;
            }
            children.push((slot.page, slot.sector));
        }
        if children.len() > 1 {
            self.fill_run(&children, start, number)?;
        }
        Ok(children.len() as u64)
    }

    /// The page of a file block, allocated if it has none.
    fn page_to_write(&mut self, number: Number, index: u64) -> Result<usize> {
        let slot = self.locate(number, index, true)?.ok_or(Error::FileTooLarge)?;
        let pointer = self.pointer(&slot);
        let block = pointer & BLOCK_BITS;
        if block != 0 && pointer & RESERVED_BIT == 0 {
            return self.child_page(slot.page, slot.sector, block, number);
        }
        let page = self.free_page()?;
        let mut edit = Edit::default();
        let block = if block != 0 {
            edit.declare(Action::Retype, block, DATA);
            self.pending.changed.insert(number);
            block
        } else {
            let block = self.choose(self.goal(&slot, number)?)?;
            edit.declare(Action::Allocate, block, DATA);
            self.edit_inode(&mut edit, number, |inode| inode.blocks += 1)?;
            block
        };
        self.set_pointer(&mut edit, &slot, number, block);
        self.commit(&edit)?;
        self.bind(slot.page, slot.sector, block, page, number)
    }

    /// Allocates at most so many missing blocks from a pointer on in one transaction, as far as the pointers share a
    /// sector and neighbours on the device are free. No page caches them: the caller writes each whole.
    fn allocate_run(&mut self, number: Number, slot: &Slot, first: u64, most: u64) -> Result<()> {
        let start = self.choose(self.goal(slot, number)?)?;
        let (mut edit, mut count) = (Edit::default(), 0);
        let here = if slot.header.is_some() { SECTOR_POINTERS - slot.at as u64 / 8 } else { DIRECT - first };
        for at in (slot.at..).step_by(8).take(most.min(here).min(RUN as u64) as usize) {
            let (block, there) = (start + count, Slot { at, ..*slot });
            if self.pointer(&there) != 0 || !self.is_free(block)? {
                break;
            }
            edit.declare(Action::Allocate, block, DATA);
            self.set_pointer(&mut edit, &there, number, block);
            count += 1;
        }
        self.edit_inode(&mut edit, number, |inode| inode.blocks += count)?;
        self.commit(&edit)
    }

    /// Writes whole blocks of a file from `first` on straight to the device, all of them in flight together; how many.
    /// It is none where they are few, or where the first one goes through the cache: such blocks are written with
    /// others later.
    fn write_whole(&mut self, number: Number, first: u64, blocks: &[Block]) -> Result<usize> {
        let most = blocks.len().min(MANY).min(self.cache.owner.len() / 4);
        if most < FEWEST {
            return Ok(0);
        }
        self.step();
        // Every block that is allocated gets its content: all pages are there before.
        let mut pages = Vec::with_capacity(most);
        for _ in 0..most {
            let Ok(page) = self.free_page() else { return Ok(0) };
            pages.push(page);
        }
        let (mut whole, mut next): (Vec<Whole<'_>>, Option<Slot>) = (Vec::with_capacity(most), None);
        for ((index, bytes), page) in (first..).zip(blocks).zip(pages) {
            // The next pointer of a sector of an indirect block needs no walk.
            let beside = next.filter(|slot| slot.header.is_some() && slot.at / 8 + 1 < SECTOR_POINTERS as usize);
            next = match beside {
                Some(slot) => Some(Slot { at: slot.at + 8, ..slot }),
                None => self.locate(number, index, true).unwrap_or(None),
            };
            let Some(slot) = next else { break };
            if self.pointer(&slot) == 0 && self.allocate_run(number, &slot, index, first + most as u64 - index).is_err()
            {
                break;
            }
            let pointer = self.pointer(&slot);
            let block = pointer & BLOCK_BITS;
            if pointer & RESERVED_BIT != 0 || self.cached(block).is_some() {
                break;
            }
            whole.push(Whole { parent: (slot.page, slot.sector), block, page, bytes });
        }
        self.write_to_device(number, &whole)?;
        Ok(whole.len())
    }

    /// Behind the block before, else near the holder of the pointer.
    fn goal(&self, slot: &Slot, _: Number) -> Result<u64> {
        let first = slot.header.is_none() || slot.at == 0;
        let before = if first { 0 } else { get(self.sector(slot.page, slot.sector), slot.at - 8, 8) & BLOCK_BITS };
        Ok(if before == 0 { self.xn.info(slot.page)?.block() + 1 } else { before + 1 })
    }

    /// Stores bytes in a data page.
    pub(crate) fn store(&mut self, page: usize, offset: usize, bytes: &[u8]) -> Result<()> {
        self.device.permit(&Change::Store { page, offset, bytes })?;
        self.xn.open(&CALLER, page)?;
        self.cache.mark_dirty(page);
        self.xn.frames.store(page, offset, bytes);
        Ok(self.xn.close_mapping(page)?)
    }

    /// Reads; gives the number of bytes, fewer at the end of the file.
    pub fn read(&mut self, number: Number, offset: u64, bytes: &mut [u8]) -> Result<usize> {
        self.step();
        let inode = self.regular(number)?;
        let length = inode.size.saturating_sub(offset).min(bytes.len() as u64) as usize;
        let end = (offset + length as u64).div_ceil(BYTES);
        let (mut done, mut ahead) = (0, 0);
        while done < length {
            self.step();
            let (index, within) = ((offset + done as u64) / BYTES, ((offset + done as u64) % BYTES) as usize);
            if index >= ahead {
                ahead = index + self.read_ahead(number, index, end)?.max(1);
                self.step();
            }
            let count = (BLOCK_SIZE - within).min(length - done);
            let part = &mut bytes[done..done + count];
            match self.data_page(number, index)? {
                Some(page) => self.xn.frames.load(page, within, part),
                None => part.fill(0),
            }
            done += count;
        }
        if length > 0 && !self.read_only {
            self.renew_access_time(number, &inode)?;
        }
        Ok(length)
    }

    /// relatime: atime is renewed when it is not younger than the other times, or a day old.
    pub(crate) fn renew_access_time(&mut self, number: Number, inode: &Inode) -> Result<()> {
        let [access, data, change, _] = inode.times;
        if access > data && access > change && self.now.saturating_sub(access) < DAY || access == self.now {
            return Ok(());
        }
        let (mut edit, now) = (Edit::default(), self.now);
        self.edit_inode(&mut edit, number, |inode| inode.times[0] = now)?;
        self.commit(&edit)
    }

    pub(crate) fn regular(&mut self, number: Number) -> Result<Inode> {
        let inode = self.inode(number)?;
        match inode.is_file() {
            true => Ok(inode),
            false if inode.is_directory() => Err(Error::IsDirectory),
            false => Err(Error::Invalid),
        }
    }

    /// Writes; gives the number of bytes, fewer if space ends.
    pub fn write(&mut self, number: Number, offset: u64, bytes: &[u8]) -> Result<usize> {
        self.check_writable()?;
        self.step();
        let inode = self.regular(number)?;
        if offset >= MAX_SIZE && !bytes.is_empty() {
            return Err(Error::FileTooLarge);
        }
        let length = bytes.len().min((MAX_SIZE - offset.min(MAX_SIZE)).min(usize::MAX as u64) as usize);
        if offset > inode.size && length > 0 {
            self.clear_tail(number, inode.size)?;
        }
        let (mut done, mut verdict) = (0, Ok(()));
        while done < length && verdict.is_ok() {
            let (index, within) = ((offset + done as u64) / BYTES, ((offset + done as u64) % BYTES) as usize);
            let blocks = if within == 0 { bytes[done..length].as_chunks().0 } else { &[] };
            match self.write_whole(number, index, blocks) {
                Ok(0) => {}
                Ok(count) => {
                    done += count * BLOCK_SIZE;
                    continue;
                }
                Err(error) => {
                    verdict = Err(error);
                    break;
                }
            }
            let count = (BLOCK_SIZE - within).min(length - done);
            self.step();
            verdict =
                self.page_to_write(number, index).and_then(|page| self.store(page, within, &bytes[done..done + count]));
            done += if verdict.is_ok() { count } else { 0 };
        }
        if done == 0 {
            return verdict.map(|()| 0);
        }
        let (mut edit, now, end) = (Edit::default(), self.now, offset + done as u64);
        if end <= inode.size && inode.times[1..3] == [now, now] {
            return Ok(done);
        }
        self.step();
        self.edit_inode(&mut edit, number, |inode| {
            inode.size = inode.size.max(end);
            inode.times[1] = now;
            inode.times[2] = now;
        })?;
        self.commit(&edit)?;
        Ok(done)
    }

    /// Fills a block's bytes from `size` on with zeros. Bytes that a crash has left there are overwritten on disk
    /// before the file grows over them.
    pub(crate) fn clear_tail(&mut self, number: Number, size: u64) -> Result<()> {
        let within = (size % BYTES) as usize;
        if within == 0 {
            return Ok(());
        }
        let Some(page) = self.data_page(number, size / BYTES)? else { return Ok(()) };
        let stale = self.xn.frames.blocks[page][within..].iter().any(|byte| *byte != 0);
        if stale {
            self.store(page, within, &[0; BLOCK_SIZE][within..])?;
            self.write_page(page)?;
            self.flush()?;
        }
        Ok(())
    }

    /// Reserves blocks: they are owned and read as zeros. With `keep_size` the size stays.
    pub fn allocate(&mut self, number: Number, offset: u64, length: u64, keep_size: bool) -> Result<()> {
        self.check_writable()?;
        self.step();
        let inode = self.regular(number)?;
        let end = offset.checked_add(length).filter(|end| *end <= MAX_SIZE).ok_or(Error::FileTooLarge)?;
        if length == 0 {
            return Err(Error::Invalid);
        }
        if end > inode.size && !keep_size {
            self.clear_tail(number, inode.size)?;
        }
        for index in offset / BYTES..end.div_ceil(BYTES) {
            self.step();
            self.reserve(number, index)?;
        }
        let (mut edit, now) = (Edit::default(), self.now);
        self.step();
        self.edit_inode(&mut edit, number, |inode| {
            if end > inode.size && !keep_size {
                inode.size = end;
                inode.times[1] = now;
            }
            inode.times[2] = now;
        })?;
        self.commit(&edit)
    }

    fn reserve(&mut self, number: Number, index: u64) -> Result<()> {
        let slot = self.locate(number, index, true)?.ok_or(Error::FileTooLarge)?;
        if self.pointer(&slot) & BLOCK_BITS != 0 {
            return Ok(());
        }
        let block = self.choose(self.goal(&slot, number)?)?;
        let mut edit = Edit::default();
        edit.declare(Action::Allocate, block, RESERVED);
        self.edit_inode(&mut edit, number, |inode| inode.blocks += 1)?;
        self.set_pointer(&mut edit, &slot, number, block | RESERVED_BIT);
        self.commit(&edit)
    }

    /// Makes a hole: whole blocks are freed, parts become zeros.
    pub fn punch(&mut self, number: Number, offset: u64, length: u64) -> Result<()> {
        self.check_writable()?;
        self.step();
        self.regular(number)?;
        let end = offset.checked_add(length).filter(|_| length > 0).ok_or(Error::Invalid)?.min(MAX_SIZE);
        let (first, last) = (offset.div_ceil(BYTES), end / BYTES);
        if first > last {
            self.zero(number, offset, end)?;
        } else {
            self.zero(number, offset, first * BYTES)?;
            self.zero(number, last * BYTES, end)?;
            self.clear_blocks(number, first, last)?;
        }
        self.touch_file(number, true)
    }

    /// Overwrites part of one block with zeros, if it has content.
    pub(crate) fn zero(&mut self, number: Number, from: u64, to: u64) -> Result<()> {
        if from >= to {
            return Ok(());
        }
        self.step();
        match self.data_page(number, from / BYTES)? {
            Some(page) => self.store(page, (from % BYTES) as usize, &[0; BLOCK_SIZE][..(to - from) as usize]),
            None => Ok(()),
        }
    }

    /// Sets the time of inode change and, with `data`, of data change.
    pub(crate) fn touch_file(&mut self, number: Number, data: bool) -> Result<()> {
        let (mut edit, now) = (Edit::default(), self.now);
        self.step();
        self.edit_inode(&mut edit, number, |inode| {
            inode.times[1] = if data { now } else { inode.times[1] };
            inode.times[2] = now;
        })?;
        self.commit(&edit)
    }
}

const _: () = assert!(BLOCK_POINTERS == SECTOR_POINTERS * 8);
