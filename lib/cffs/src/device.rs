//! Block device under a file system: the only I/O that C-FFS performs.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use xn::format::Block;

/// A transfer or a flush failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed;

/// Most blocks of one transfer.
pub const RUN: usize = 16;

/// An array of blocks of 4,096 bytes. Each call returns when its transfer has completed.
pub trait Device {
    /// Number of blocks.
    fn blocks(&self) -> u64;
    /// Reads one block.
    fn read(&mut self, block: u64, bytes: &mut Block) -> Result<(), Failed>;
    /// Writes one block. It is durable when a later flush has completed.
    fn write(&mut self, block: u64, bytes: &Block) -> Result<(), Failed>;
    /// Makes all completed writes durable.
    fn flush(&mut self) -> Result<(), Failed>;

    /// Reads neighbouring blocks, at most [`RUN`]. A device that can does this in one transfer.
    fn read_run(&mut self, first: u64, blocks: &mut [Block]) -> Result<(), Failed> {
        (first..).zip(blocks).try_for_each(|(block, bytes)| self.read(block, bytes))
    }

    /// Writes neighbouring blocks, at most [`RUN`]. Where it fails, some may have been written.
    fn write_run(&mut self, first: u64, blocks: &[&Block]) -> Result<(), Failed> {
        (first..).zip(blocks).try_for_each(|(block, bytes)| self.write(block, bytes))
    }
}

impl<D: Device> Device for &mut D {
    fn blocks(&self) -> u64 {
        (**self).blocks()
    }

    fn read(&mut self, block: u64, bytes: &mut Block) -> Result<(), Failed> {
        (**self).read(block, bytes)
    }

    fn write(&mut self, block: u64, bytes: &Block) -> Result<(), Failed> {
        (**self).write(block, bytes)
    }

    fn flush(&mut self) -> Result<(), Failed> {
        (**self).flush()
    }

    fn read_run(&mut self, first: u64, blocks: &mut [Block]) -> Result<(), Failed> {
        (**self).read_run(first, blocks)
    }

    fn write_run(&mut self, first: u64, blocks: &[&Block]) -> Result<(), Failed> {
        (**self).write_run(first, blocks)
    }
}

/// A device whose writes stay in memory: a volume can be recovered in it without changing the disk.
pub struct Overlay<D: Device> {
    below: D,
    written: BTreeMap<u64, Box<Block>>,
}

impl<D: Device> Overlay<D> {
    /// Nothing is written yet.
    pub fn new(below: D) -> Self {
        Self { below, written: BTreeMap::new() }
    }
}

impl<D: Device> Device for Overlay<D> {
    fn blocks(&self) -> u64 {
        self.below.blocks()
    }

    fn read(&mut self, block: u64, bytes: &mut Block) -> Result<(), Failed> {
        match self.written.get(&block) {
            Some(own) => {
                bytes.copy_from_slice(&own[..]);
                Ok(())
            }
            None => self.below.read(block, bytes),
        }
    }

    fn write(&mut self, block: u64, bytes: &Block) -> Result<(), Failed> {
        self.written.insert(block, Box::new(*bytes));
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Failed> {
        Ok(())
    }
}
