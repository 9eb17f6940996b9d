//! The open volume of a disk in the kernel's XN, as `cffs::guarded` uses it.

use super::adapter::Adapter;
use abi::storage::{BlockInfo, state};
use cffs::device::Device;
use cffs::error::Error;
use cffs::guarded::Rows;
use cffs::make::ROOT_SLOT;
use core::sync::atomic::Ordering::Acquire;
use exos::hw::volume;
use xn::error::{Error as Xn, Result};
use xn::format::Block;
use xn::transaction::Transaction;

/// The volume. The raw disk below it is read where no frame has a block.
#[derive(Debug)]
pub struct KernelVolume {
    disk: Adapter,
}

fn frame(frame: usize) -> Option<&'static BlockInfo> {
    volume::frames().get(frame)
}

impl KernelVolume {
    /// Over a disk whose volume is open in the kernel.
    pub fn new(disk: Adapter) -> Self {
        Self { disk }
    }

    /// Makes the volume clean and closes it in the kernel.
    pub fn close(&self) -> core::result::Result<(), Error> {
        volume::close(self.disk.number()).map_err(|_| Error::Io)
    }
}

impl Rows for KernelVolume {
    fn blocks(&self) -> u64 {
        self.disk.blocks()
    }

    fn held(&self, number: usize) -> Option<u64> {
        let name = frame(number)?.name.load(Acquire) & ((1 << 56) - 1);
        name.checked_sub(1)
    }

    fn is_dirty(&self, number: usize) -> bool {
        frame(number).is_some_and(|info| info.state.load(Acquire) & state::DIRTY != 0)
    }

    fn settle(&mut self, number: usize) {
        volume::settle(number);
    }

    fn bind(&mut self, parent: Option<(usize, usize)>, block: u64, number: usize) -> Result<()> {
        let parent = match parent {
            Some(parent) => Ok(parent),
            None => Err(volume::mount(self.disk.number(), ROOT_SLOT as u64)?),
        };
        volume::bind(parent, block, number)
    }

    fn read(&mut self, number: usize, bytes: &mut Block) -> Result<()> {
        volume::read(number, bytes)
    }

    fn write(&mut self, number: usize, offset: usize, bytes: &[u8]) -> Result<()> {
        volume::write(number, offset, bytes)
    }

    fn modify(&mut self, transaction: &Transaction<'_>) -> Result<()> {
        volume::modify(transaction)
    }

    fn submit(&mut self, number: usize) -> Result<()> {
        volume::submit(number)
    }

    fn release(&mut self, number: usize) -> Result<()> {
        volume::release(number)
    }

    fn flush(&mut self) -> Result<()> {
        volume::flush(self.disk.number())
    }

    fn reclaim(&mut self, record: u64) -> Result<()> {
        volume::reclaim(self.disk.number(), record)
    }

    fn read_disk(&mut self, first: u64, blocks: &mut [Block]) -> Result<()> {
        self.disk.read_run(first, blocks).map_err(|_| Xn::Failed(first))
    }
}
