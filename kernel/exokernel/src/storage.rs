//! Memory of storage: frames, the tables of XN, and the transfers between frames and the disk.
//!
//! Everything is set aside at boot where the machine has a disk. XN (`mechanism/xn`) decides; this file gives it
//! memory and carries out the transfers that it permits.
//!
//! Invariants:
//! - a frame is the kernel's page, and no program maps it;
//! - at most one volume is open, and its disk has requests of the kernel alone;
//! - the frame behind the last one is the staging block, for what no frame caches.

use crate::kernel::Kernel;
use crate::program::{Loader, Programs};
use abi::device::operation::{FLUSH, READ};
use abi::limits::{FRAMES, FRAMES_LEAST, LEDGER_RECORDS, PAGE_SIZE, PAGES_PER_FRAME, REGIONS, TREES};
use abi::memory_map::EXPOSED_BLOCKS;
use abi::{EnvironmentId, Error, Failure};
use core::fmt;
use core::mem::offset_of;
use core::sync::atomic::Ordering;
use driver::disk::{self, Order};
use machine::boot::Boot;
use machine::boot_memory::BootMemory;
use machine::dma::{DeviceBuffer, Direction, Part};
use machine::{clock, crc32c, exposed};
use xn::block::BlockInfo;
use xn::format::{BLOCK_SIZE, Block, MAX_TEMPLATES, SECTORS, Superblock};
use xn::frames::Frames as XnFrames;
use xn::ledger::Record;
use xn::region_map::{MAP_WORDS, Maps};
use xn::registry::Registry;
use xn::template::{Template, Templates};
use xn::tree::{Tree, Trees};
use xn::volume::{Memory, Volume, Workspace};

// What is exposed is what XN keeps.
const _: () = {
    assert!(size_of::<BlockInfo>() == size_of::<abi::storage::BlockInfo>());
    assert!(offset_of!(BlockInfo, tree) == offset_of!(abi::storage::BlockInfo, tree));
    assert!(offset_of!(BlockInfo, ready_at) == offset_of!(abi::storage::BlockInfo, ready_at));
    assert!(offset_of!(BlockInfo, durable_at) == offset_of!(abi::storage::BlockInfo, durable_at));
};

/// Sectors whose checksums one call takes on a CPU without an instruction for them.
pub(crate) const SECTORS_A_CALL: usize = SECTORS / 2;

/// The frames, as XN reads and writes them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frames(pub(crate) &'static DeviceBuffer);

impl XnFrames for Frames {
    fn load(&self, page: usize, offset: usize, into: &mut [u8]) {
        self.0.read(page * PAGE_SIZE as usize + offset, into);
    }

    fn store(&mut self, page: usize, offset: usize, from: &[u8]) {
        self.0.write(page * PAGE_SIZE as usize + offset, from);
    }

    fn sectors_at_once() -> usize {
        if crc32c::has_instruction() { SECTORS } else { SECTORS_A_CALL }
    }

    fn crc32c(crc: u32, bytes: &[u8]) -> u32 {
        if crc32c::has_instruction() { crc32c::continued(crc, bytes) } else { xn::checksum::crc32c(crc, bytes) }
    }
}

/// The volume of the kernel.
pub(crate) type Xn = Volume<'static, Frames, Programs>;

/// How far the transfer of the staging block, or the flush that a step waits for, has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Staging {
    /// There is none.
    Idle,
    /// The disk has it: this block, or [`WORK_FLUSH`].
    Moving(u64),
    /// It ended; whether it was carried out.
    Done(u64, bool),
}

/// Stands for a flush in place of a block.
pub(crate) const WORK_FLUSH: u64 = u64::MAX;

/// All that the kernel keeps of storage.
pub(crate) struct Storage {
    /// The frames, the staging block behind them.
    pub(crate) frames: Frames,
    /// How many.
    pub(crate) count: usize,
    /// The open volume.
    pub(crate) volume: Option<Xn>,
    /// Memory and programs while none is open.
    pub(crate) parts: Option<(Memory<'static>, Programs)>,
    /// The device whose volume is open or being opened.
    pub(crate) device: Option<u64>,
    /// Blocks of the volume being opened, once its superblock was read.
    pub(crate) opening: Option<Superblock>,
    pub(crate) staging: Staging,
    /// The block in the staging block, and how many of its sectors were verified, or sealed.
    pub(crate) checked: Option<(u64, usize)>,
    /// Parts of a map that were loaded from the staging block.
    pub(crate) parts_of_map: usize,
    /// What a start (false) or a stop (true) that is under way waits for, if for anything.
    pub(crate) drive: Option<(bool, Option<u64>)>,
    /// What a start or a stop writes.
    pub(crate) buffer: &'static mut Block,
    pub(crate) loader: Loader,
    /// The flush that is under way.
    pub(crate) flush: Option<u64>,
    /// Transfers under way.
    pub(crate) moving: usize,
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Storage").field("device", &self.device).field("moving", &self.moving).finish_non_exhaustive()
    }
}

/// Sets everything aside. None: the machine has no disk, or too little memory.
#[inline(never)]
pub(crate) fn prepare(boot: &mut Boot) -> Option<&'static mut Storage> {
    let arena = boot.storage_arena.take()?;
    let pages = boot.start.memory.ranges().last().map_or(0, |range| range.end / PAGE_SIZE);
    let count = ((pages / PAGES_PER_FRAME).clamp(FRAMES_LEAST, FRAMES) & !63) as usize;
    let capacities = (0..disk::count()).filter_map(|number| disk::with(number, |disk| disk.facts().capacity));
    let region_bytes = xn::format::REGION_BLOCKS * PAGE_SIZE;
    let regions = capacities.max()?.div_ceil(region_bytes).clamp(1, REGIONS) as usize;
    let mut memory = boot.memory();
    let mut device_buffer = Some(DeviceBuffer::allocate(&mut memory, count as u64 + 1)?);
    let frames = memory.slice(1, || device_buffer.take().expect("one buffer is made"))?;
    let parts = tables(&mut memory, count, regions)?;
    let programs = Programs::new(arena, &mut memory)?;
    let mut secret = [0; 8];
    if !driver::entropy::fill(&mut secret) {
        secret = clock::now().to_le_bytes();
    }
    let loader = Loader::new(&mut memory, u64::from_le_bytes(secret))?;
    let buffer = memory.slice(1, || [0; BLOCK_SIZE])?.first_mut()?;
    boot.show(EXPOSED_BLOCKS, parts.registry.blocks).then_some(())?;
    let mut storage = Some(Storage {
        frames: Frames(frames.first()?),
        count,
        volume: None,
        parts: Some((parts, programs)),
        device: None,
        opening: None,
        staging: Staging::Idle,
        checked: None,
        parts_of_map: 0,
        drive: None,
        buffer,
        loader,
        flush: None,
        moving: 0,
    });
    boot.memory().slice(1, || storage.take().expect("one is made"))?.first_mut()
}

/// The tables of XN.
#[inline(never)]
fn tables(memory: &mut BootMemory<'_>, count: usize, regions: usize) -> Option<Memory<'static>> {
    let templates = memory.slice(1, || [Template::NONE; MAX_TEMPLATES])?.first_mut()?;
    Some(Memory {
        registry: Registry {
            blocks: memory.slice(count, BlockInfo::default)?,
            slots: memory.slice((2 * count).next_power_of_two(), || 0)?,
        },
        maps: Maps { pages: memory.slice(regions, || [0; MAP_WORDS])?, directory: memory.slice(regions, || 0)? },
        templates: Templates(templates),
        trees: Trees(memory.slice(TREES, Tree::default)?),
        ledger: memory.slice(LEDGER_RECORDS, Record::default)?,
        workspace: memory.slice(1, Workspace::default)?.first_mut()?,
    })
}

/// Exposes how many frames there are.
pub(crate) fn expose(kernel: &Kernel) {
    let count = kernel.storage.as_ref().map_or(0, |storage| storage.count);
    exposed::kernel().frames.store(count as u64, Ordering::Release);
}

impl Storage {
    /// Fails unless the disk takes one more request.
    pub(crate) fn check_room(&self) -> Result<(), Failure> {
        let number = self.device.and_then(|device| disk::number_of(device as usize));
        match number.and_then(|number| disk::with(number, |disk| disk.has_room(1, 1))) {
            Some(true) => Ok(()),
            Some(false) => Err(Error::Exhausted.about(0)),
            None => Err(Error::Failed.about(0)),
        }
    }

    /// Gives the disk a transfer of a frame, for which there is room. A flush has no frame; `word` says whose it is.
    pub(crate) fn transfer(&mut self, operation: u64, block: u64, word: usize) {
        let Some(device) = self.device else { return };
        let Some(number) = disk::number_of(device as usize) else { return };
        let order = Order {
            operation,
            place: block * PAGE_SIZE,
            asked_by: EnvironmentId::NONE,
            status: None,
            word,
            pins: 0,
            now: clock::now(),
        };
        let direction = if operation == READ { Direction::FromDevice } else { Direction::ToDevice };
        let pieces = usize::from(operation != FLUSH);
        let segment = self.frames.0.segment(word * PAGE_SIZE as usize, PAGE_SIZE as usize, direction);
        let parts = [segment].into_iter().take(pieces).map(Part::from);
        disk::with(number, |disk| disk.submit(order, parts));
        self.moving += 1;
        if let Some(info) = exposed::devices().get(device as usize) {
            crate::disk::go_on(number, info);
        }
    }

    /// Begins a transfer of the staging block, or a flush that a step waits for.
    pub(crate) fn stage(&mut self, operation: u64, block: u64) -> Result<(), Failure> {
        self.check_room()?;
        self.transfer(operation, if operation == FLUSH { 0 } else { block }, self.count);
        (self.staging, self.checked, self.parts_of_map) = (Staging::Moving(block), None, 0);
        Ok(())
    }

    /// Whether the transfer of this block has ended; `Again` while the disk has it, `Busy` while the staging block is
    /// another step's. An ended transfer is told of once.
    pub(crate) fn staged(&mut self, block: u64) -> Result<bool, Failure> {
        match self.staging {
            Staging::Idle => Ok(false),
            Staging::Moving(other) | Staging::Done(other, _) if other != block => Err(Error::Busy.about(other)),
            Staging::Moving(_) => Err(Error::Again.about(0)),
            Staging::Done(_, done) => {
                self.staging = Staging::Idle;
                if done { Ok(true) } else { Err(Error::Failed.about(block)) }
            }
        }
    }

    /// A transfer ended.
    fn ended(&mut self, operation: u64, word: usize, done: bool) {
        self.moving -= 1;
        if word == self.count {
            if let Staging::Moving(block) = self.staging {
                self.staging = Staging::Done(block, done);
            }
            return;
        }
        let Some(volume) = self.volume.as_mut() else { return };
        match operation {
            FLUSH => {
                if let Some(number) = self.flush.take() {
                    volume.flush_done(number, done);
                }
            }
            // A block that fails its checksums leaves the registry: its frame is empty.
            READ => {
                let _ = volume.read_done(word, done);
            }
            _ => {
                let _ = volume.write_done(word, done);
            }
        }
    }
}

impl Kernel {
    /// Whether a volume of the device is open, or being opened.
    pub(crate) fn has_volume(&self, device: u64) -> bool {
        self.storage.as_ref().is_some_and(|storage| storage.device == Some(device))
    }

    /// A transfer of the kernel's ended.
    pub(crate) fn end_storage_transfer(&mut self, operation: u64, word: usize, done: bool) {
        self.spend(crate::cost::block_arrives());
        if let Some(storage) = self.storage.as_deref_mut() {
            storage.ended(operation, word, done);
        }
    }
}

/// XN's refusal, as the caller gets it.
pub(crate) fn failure(error: xn::error::Error) -> Failure {
    use abi::storage::{FLUSH, PROGRAM, UNDECLARED};
    use xn::error::Error as Xn;
    match error {
        Xn::Unready(block) => Error::Unready.about(block),
        Xn::Unflushed(number) => Error::Unready.about(FLUSH | number),
        Xn::Damaged(block) => Error::Damaged.about(block),
        Xn::Failed(block) => Error::Failed.about(block),
        Xn::Busy(block) => Error::Busy.about(block),
        Xn::NotFree(number) => Error::NotFree.about(number),
        Xn::Absent(block) => Error::Absent.about(block),
        Xn::InUse(block) => Error::InUse.about(block),
        Xn::NotPermitted => Error::NotPermitted.about(0),
        Xn::Undeclared(block) => Error::BadArgument.about(UNDECLARED | block),
        Xn::BadArgument => Error::BadArgument.about(1),
        Xn::Exhausted => Error::Exhausted.about(0),
        Xn::OverBudget => Error::OverBudget.about(0),
        Xn::Program(slot) => Error::BadArgument.about(PROGRAM | u64::from(slot)),
        Xn::Again(cursor) => Error::Again.about(cursor),
    }
}
