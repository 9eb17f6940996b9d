//! A disk as the block device under C-FFS: a run of blocks at a time, each call returns when its transfer has ended.

use abi::device::status;
use abi::limits::PAGE_SIZE;
use alloc::vec;
use cffs::device::{Device, Failed, RUN};
use core::sync::atomic::Ordering::{Acquire, SeqCst};
use exos::hw::disk::{self, Direction};
use exos::hw::mapping::{Mapping, Mappings};
use exos::wait;
use linux_abi::errno::Result;
use runtime::page::Allocator;
use runtime::predicate::{Operator, word};
use runtime::{KeyIndex, PageNumber};

/// Bytes of a block.
pub const BLOCK: usize = PAGE_SIZE as usize;
/// Word behind the pages of blocks in which the kernel says how a transfer ended.
const STATUS: usize = RUN * BLOCK / 8;

/// A disk, pages for a run of blocks, and one for the status word.
#[derive(Debug)]
pub struct Adapter {
    disk: u64,
    buffer: Mapping,
}

impl Adapter {
    /// Over a disk.
    ///
    /// # Errors
    /// Where there are no pages.
    pub fn new(disk: u64, windows: &mut Mappings) -> Result<Self> {
        let mut pages = vec![PageNumber::NONE; RUN + 1];
        Allocator::own().allocate_many(&mut pages)?;
        Ok(Self { disk, buffer: windows.open(pages, KeyIndex::FIRST, true)? })
    }

    /// Number of the disk.
    pub fn number(&self) -> u64 {
        self.disk
    }

    fn transfer(&self, direction: Direction, place: u64, bytes: u64) -> core::result::Result<(), Failed> {
        let outcome = &self.buffer.words()[STATUS];
        outcome.store(0, SeqCst);
        let status = (self.buffer.pages()[RUN], 0);
        disk::submit(self.disk, direction, (place, bytes), (&self.buffer, 0), status).map_err(|_| Failed)?;
        while outcome.load(Acquire) == 0 {
            wait::wait_plainly(&mut [word(outcome, Operator::NotEqual, 0)]);
        }
        if outcome.load(Acquire) == status::DONE { Ok(()) } else { Err(Failed) }
    }
}

impl Device for Adapter {
    fn blocks(&self) -> u64 {
        disk::capacity(self.disk) / PAGE_SIZE
    }

    fn read(&mut self, block: u64, bytes: &mut [u8; BLOCK]) -> core::result::Result<(), Failed> {
        self.transfer(Direction::Read, block * PAGE_SIZE, PAGE_SIZE)?;
        self.buffer.read(0, bytes).map_err(|_| Failed)
    }

    fn write(&mut self, block: u64, bytes: &[u8; BLOCK]) -> core::result::Result<(), Failed> {
        self.buffer.write(0, bytes).map_err(|_| Failed)?;
        self.transfer(Direction::Write, block * PAGE_SIZE, PAGE_SIZE)
    }

    fn read_run(&mut self, first: u64, blocks: &mut [[u8; BLOCK]]) -> core::result::Result<(), Failed> {
        self.transfer(Direction::Read, first * PAGE_SIZE, blocks.len() as u64 * PAGE_SIZE)?;
        let each = |(index, bytes): (u64, &mut [u8; BLOCK])| self.buffer.read(index * PAGE_SIZE, bytes);
        (0..).zip(blocks).try_for_each(each).map_err(|_| Failed)
    }

    fn write_run(&mut self, first: u64, blocks: &[&[u8; BLOCK]]) -> core::result::Result<(), Failed> {
        let each = |(index, bytes): (u64, &&[u8; BLOCK])| self.buffer.write(index * PAGE_SIZE, &bytes[..]);
        (0..).zip(blocks).try_for_each(each).map_err(|_| Failed)?;
        self.transfer(Direction::Write, first * PAGE_SIZE, blocks.len() as u64 * PAGE_SIZE)
    }

    fn flush(&mut self) -> core::result::Result<(), Failed> {
        if disk::has_cache(self.disk) { self.transfer(Direction::Flush, 0, 0) } else { Ok(()) }
    }
}
