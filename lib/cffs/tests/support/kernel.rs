//! A kernel's XN over a device in memory, with the kernel's limits, and an environment that disturbs it.

use super::{Memory, Random};
use cffs::device::Device;
use cffs::guarded::Rows;
use cffs::template::{COUNT, Native, record};
use xn::access::Caller;
use xn::binding::Bound;
use xn::block::{BlockInfo, DIRTY};
use xn::error::{Error, Result};
use xn::format::{BLOCK_SIZE, Block, MAX_TEMPLATES, ROOTS, Superblock, seal};
use xn::frames::Frames;
use xn::ledger::Record;
use xn::region_map::{MAP_WORDS, Maps};
use xn::registry::Registry;
use xn::template::{Template, Templates};
use xn::transaction::Transaction;
use xn::tree::{Tree, Trees};
use xn::volume::{Memory as Tables, Volume, Work, Workspace};

pub struct Cells(Vec<Block>);

impl Frames for Cells {
    fn load(&self, page: usize, offset: usize, into: &mut [u8]) {
        into.copy_from_slice(&self.0[page][offset..offset + into.len()]);
    }

    fn store(&mut self, page: usize, offset: usize, from: &[u8]) {
        self.0[page][offset..offset + from.len()].copy_from_slice(from);
    }

    fn sectors_at_once() -> usize {
        3
    }
}

/// The kernel. Its tables are never freed: a test has few of them.
pub struct Kernel {
    xn: Volume<'static, Cells, Native>,
    disk: Memory,
    /// Frames into which the disk reads a block, until a caller waits.
    reading: Vec<(usize, u64)>,
    /// Another environment, which writes, empties and flushes at random, and how often it did something.
    hostile: Option<Random>,
    pub disturbed: u64,
}

fn leak<T: Clone>(value: T, count: usize) -> &'static mut [T] {
    vec![value; count].leak()
}

impl Kernel {
    /// Opens the closed volume of a disk, with so many frames.
    pub fn open(mut disk: Memory, frames: usize, hostile: Option<Random>) -> (Self, Block) {
        let mut block = [0; BLOCK_SIZE];
        disk.read(0, &mut block).expect("the device is sound");
        let superblock = Superblock::decode(&block, 0).expect("it is a volume");
        let regions = superblock.regions() as usize;
        let tables = Tables {
            registry: Registry {
                blocks: leak(BlockInfo::default(), frames),
                slots: leak(0, (2 * frames).next_power_of_two()),
            },
            maps: Maps { pages: leak([0; MAP_WORDS], regions), directory: leak(0, regions) },
            templates: Templates(Box::leak(Box::new([Template::NONE; MAX_TEMPLATES]))),
            trees: Trees(leak(Tree::default(), 128)),
            ledger: leak(Record::default(), 64),
            workspace: Box::leak(Box::default()),
        };
        let _: &Workspace = tables.workspace;
        let cells = Cells(vec![[0; BLOCK_SIZE]; frames]);
        let mut xn = Volume::new(0, superblock, tables, cells, Native).expect("the tables suffice");
        for slot in 0..COUNT as u8 {
            xn.memory.templates.load(slot, record(slot), &Native).expect("the templates are sound");
        }
        xn.open_catalogue(0).expect("it is the first block");
        let mut bytes = [0; BLOCK_SIZE];
        disk.read(ROOTS, &mut bytes).expect("the device is sound");
        xn.frames.store(0, 0, &bytes);
        xn.read_done(0, true).expect("the catalogue is sound");
        for region in 0..regions as u64 {
            disk.read(superblock.map_block(region), &mut bytes).expect("the device is sound");
            xn.load_map(region, region as usize, Some(&bytes)).expect("the map is sound");
        }
        let mut kernel = Self { xn, disk, reading: Vec::new(), hostile, disturbed: 0 };
        kernel.drive(false).expect("it starts");
        (kernel, block)
    }

    fn drive(&mut self, stop: bool) -> Result<()> {
        let mut buffer = [0; BLOCK_SIZE];
        loop {
            let work = if stop { self.xn.stop(&mut buffer)? } else { self.xn.start(&mut buffer)? };
            match work {
                Work::Seal(block) => {
                    seal(&self.xn.superblock().volume, block, &mut buffer);
                    self.disk.write(block, &buffer).map_err(|_| Error::Failed(block))?;
                }
                Work::Done => return Ok(()),
                Work::Again | Work::Flush => {}
            }
        }
    }

    /// Makes the volume clean.
    pub fn stop(&mut self) -> Result<()> {
        while let Some((frame, _)) = self.reading.first().copied() {
            self.settle(frame);
        }
        self.drive(true)
    }

    fn disturb(&mut self) {
        let frames = self.xn.memory.registry.blocks.len() as u64;
        let Some(random) = self.hostile.as_mut() else { return };
        let (what, frame) = (random.below(12), random.below(frames) as usize);
        let done = match what {
            0..3 => self.write_part(frame).is_ok(),
            3..9 => self.xn.release(frame).is_ok(),
            9 => self.sync().is_ok(),
            10 => self.xn.reclaim(0).is_ok(),
            _ => false,
        };
        self.disturbed += u64::from(done);
    }

    fn write(&mut self, frame: usize) -> Result<()> {
        loop {
            match self.write_part(frame) {
                Err(Error::Again(_)) => {}
                outcome => return outcome,
            }
        }
    }

    /// Writes a frame, or seals some of its sectors.
    fn write_part(&mut self, frame: usize) -> Result<()> {
        let block = self.xn.submit(frame)?;
        let done = self.disk.write(block, &self.xn.frames.0[frame]).is_ok();
        self.xn.write_done(frame, done)
    }

    fn sync(&mut self) -> Result<()> {
        let number = self.xn.flush_start();
        let done = self.disk.flush().is_ok();
        self.xn.flush_done(number, done);
        if done { Ok(()) } else { Err(Error::Failed(0)) }
    }
}

const SERVER: Caller = Caller { credentials: [0; 4], clock: 0 };

impl Rows for Kernel {
    fn blocks(&self) -> u64 {
        self.disk.blocks()
    }

    fn held(&self, frame: usize) -> Option<u64> {
        self.xn.info(frame).ok().map(|info| info.block())
    }

    fn is_dirty(&self, frame: usize) -> bool {
        self.xn.info(frame).is_ok_and(|info| info.is(DIRTY))
    }

    fn settle(&mut self, frame: usize) {
        let Some(place) = self.reading.iter().position(|(reading, _)| *reading == frame) else { return };
        let (_, block) = self.reading.remove(place);
        let mut bytes = [0; BLOCK_SIZE];
        let read = self.disk.read(block, &mut bytes);
        self.xn.frames.store(frame, 0, &bytes);
        let _ = self.xn.read_done(frame, read.is_ok());
    }

    fn bind(&mut self, parent: Option<(usize, usize)>, block: u64, frame: usize) -> Result<()> {
        self.disturb();
        let bound = match parent {
            Some((parent, sector)) => self.xn.bind(&SERVER, parent, sector, block, frame)?,
            None => {
                let tree = self.xn.root_mount(0)?;
                self.xn.bind_root(&SERVER, tree, frame)?
            }
        };
        if bound == Bound::Reading {
            self.reading.push((frame, block));
        }
        Ok(())
    }

    fn read(&mut self, frame: usize, bytes: &mut Block) -> Result<()> {
        self.disturb();
        self.xn.permit_child(&SERVER, xn::access::Operation::Read, frame)?;
        self.xn.frames.load(frame, 0, bytes);
        Ok(())
    }

    fn write(&mut self, frame: usize, offset: usize, bytes: &[u8]) -> Result<()> {
        self.disturb();
        self.xn.open(&SERVER, frame)?;
        self.xn.frames.store(frame, offset, bytes);
        self.xn.close_mapping(frame)
    }

    fn modify(&mut self, transaction: &Transaction<'_>) -> Result<()> {
        self.disturb();
        let blocks: u64 = transaction.declared.iter().map(|range| range.count).sum();
        assert!(transaction.declared.len() <= 8 && blocks <= 128, "the kernel refuses {transaction:?}");
        self.xn.modify(&SERVER, transaction)
    }

    fn submit(&mut self, frame: usize) -> Result<()> {
        self.disturb();
        Kernel::write(self, frame)
    }

    fn release(&mut self, frame: usize) -> Result<()> {
        self.xn.release(frame)
    }

    fn flush(&mut self) -> Result<()> {
        self.disturb();
        self.sync()
    }

    fn reclaim(&mut self, record: u64) -> Result<()> {
        self.xn.reclaim(record).map(|_| ())
    }

    fn read_disk(&mut self, first: u64, blocks: &mut [Block]) -> Result<()> {
        self.disk.read_run(first, blocks).map_err(|_| Error::Failed(first))
    }
}
