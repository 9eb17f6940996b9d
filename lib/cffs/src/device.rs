//! Block device under a file system: the only I/O that C-FFS performs.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use xn::format::Block;
use xn::transaction::Transaction;

/// A transfer or a flush failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed;

/// Most blocks of one transfer.
pub const RUN: usize = 16;
/// Most blocks that are written together.
pub const MANY: usize = 48;

/// A change that the library's XN is about to carry out.
#[derive(Clone, Copy, Debug)]
pub enum Change<'a> {
    /// A page is bound to a block of a sector of the block in a page, or without that to the root.
    Bind {
        /// Page and sector.
        parent: Option<(usize, usize)>,
        /// The block.
        block: u64,
        /// The page, which caches nothing.
        page: usize,
    },
    /// Metadata changes.
    Modify(&'a Transaction<'a>),
    /// Bytes are stored in a page of data.
    Store {
        /// The page.
        page: usize,
        /// First byte.
        offset: usize,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// A page has given its block up.
    Release {
        /// The page.
        page: usize,
    },
    /// Held blocks to which nothing on disk leads are freed.
    Reclaim,
}

/// A block of data that is written whole.
#[derive(Clone, Copy, Debug)]
pub struct Whole<'a> {
    /// Page and sector of the pointer to it.
    pub parent: (usize, usize),
    /// The block, which no page caches.
    pub block: u64,
    /// A page that caches nothing.
    pub page: usize,
    /// Its content.
    pub bytes: &'a Block,
}

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

    /// Writes blocks, given in ascending order. Where it fails, some may have been written. A device that can has all
    /// of them in flight together.
    fn write_all(&mut self, blocks: &[(u64, &Block)]) -> Result<(), Failed> {
        let mut rest = blocks;
        while let Some((first, _)) = rest.first() {
            let continues = |(index, (block, _)): (u64, &(u64, &Block))| *block == first + index;
            let count = (0..).zip(rest).take(RUN).take_while(|pair| continues(*pair)).count();
            let (run, behind) = rest.split_at(count);
            let run: Vec<&Block> = run.iter().map(|(_, bytes)| *bytes).collect();
            self.write_run(*first, &run)?;
            rest = behind;
        }
        Ok(())
    }

    /// Writes blocks of data that no page caches, given in the order of their file. Where it fails, some may have been
    /// written.
    fn write_whole(&mut self, blocks: &[Whole<'_>]) -> Result<(), Failed> {
        let mut blocks: Vec<(u64, &Block)> = blocks.iter().map(|whole| (whole.block, whole.bytes)).collect();
        blocks.sort_unstable_by_key(|(block, _)| *block);
        self.write_all(&blocks)
    }

    /// Whether the device makes the checksums of metadata itself.
    fn seals(&self) -> bool {
        false
    }

    /// Carries a change out where the device has an XN of its own, as [`crate::guarded`] has. Any other device
    /// permits everything.
    fn permit(&mut self, _: &Change<'_>) -> xn::error::Result<()> {
        Ok(())
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

    fn write_all(&mut self, blocks: &[(u64, &Block)]) -> Result<(), Failed> {
        (**self).write_all(blocks)
    }

    fn write_whole(&mut self, blocks: &[Whole<'_>]) -> Result<(), Failed> {
        (**self).write_whole(blocks)
    }

    fn seals(&self) -> bool {
        (**self).seals()
    }

    fn permit(&mut self, change: &Change<'_>) -> xn::error::Result<()> {
        (**self).permit(change)
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
