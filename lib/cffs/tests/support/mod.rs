//! Support of the tests: a device in memory, a new file system, a model.
#![allow(dead_code, unreachable_pub)]

pub mod kernel;
pub mod model;

use cffs::arena::Arena;
use cffs::device::{Change, Device, Failed, Whole};
use cffs::examine::examine;
use cffs::file_system::FileSystem;
use cffs::guarded::Guarded;
use cffs::make::{Options, make};
use cffs::mount::Mount;
use kernel::Kernel;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use xn::format::{BLOCK_SIZE, Block};

/// A sparse device in memory; clones share it.
#[derive(Clone, Default)]
pub struct Memory {
    blocks: u64,
    cells: Rc<RefCell<HashMap<u64, Box<Block>>>>,
    /// Transfers until one fails, and whether all later ones fail too.
    pub fault: Rc<RefCell<Option<(u64, bool)>>>,
    /// Whether flushes fail.
    pub flush_fault: Rc<Cell<bool>>,
    /// Transfers that failed.
    pub failures: Rc<Cell<u64>>,
    /// The kernel's XN, where it holds the volume.
    guard: Option<Rc<RefCell<Guarded<Kernel>>>>,
}

impl Memory {
    pub fn new(blocks: u64) -> Self {
        Self { blocks, ..Self::default() }
    }

    pub fn with_size(&self, blocks: u64) -> Self {
        Self { blocks, ..self.clone() }
    }

    /// The device with its volume in a kernel's XN, until [`Self::stop`].
    pub fn guarded(&self, frames: usize, hostile: Option<Random>) -> Self {
        let (kernel, superblock) = Kernel::open(self.clone(), frames, hostile);
        let guard = Guarded::new(kernel, frames, &superblock);
        Self { guard: Some(Rc::new(RefCell::new(guard))), ..self.clone() }
    }

    /// Closes the volume in the kernel's XN; gives how often it was disturbed.
    pub fn stop(&self) -> u64 {
        let Some(guard) = &self.guard else { return 0 };
        let mut guard = guard.borrow_mut();
        assert_eq!(guard.finish(), Ok(()), "what another environment delayed, comes to an end");
        let kernel = &mut guard.rows;
        assert_eq!(kernel.stop(), Ok(()), "what the library closes, the kernel closes");
        kernel.disturbed
    }

    /// A device with the same content that shares nothing.
    pub fn copy(&self) -> Self {
        Self { blocks: self.blocks, cells: Rc::new(RefCell::new(self.cells.borrow().clone())), ..Self::default() }
    }

    /// The blocks that were written.
    pub fn written(&self) -> Vec<u64> {
        let mut written: Vec<u64> = self.cells.borrow().keys().copied().collect();
        written.sort_unstable();
        written
    }

    /// Changes a block behind the file system's back.
    pub fn change(&self, block: u64, change: impl FnOnce(&mut Block)) {
        change(self.cells.borrow_mut().entry(block).or_insert_with(|| Box::new([0; BLOCK_SIZE])));
    }

    fn fails(&self) -> bool {
        match &mut *self.fault.borrow_mut() {
            Some((0, _)) => true,
            Some((left, _)) => {
                *left -= 1;
                false
            }
            None => false,
        }
    }

    fn outcome(&self) -> Result<(), Failed> {
        if !self.fails() {
            return Ok(());
        }
        self.failures.set(self.failures.get() + 1);
        let mut fault = self.fault.borrow_mut();
        if fault.is_some_and(|(_, forever)| !forever) {
            *fault = None;
        }
        Err(Failed)
    }

    pub fn flip(&self, block: u64, bit: usize) {
        let mut cells = self.cells.borrow_mut();
        cells.entry(block).or_insert_with(|| Box::new([0; BLOCK_SIZE]))[bit / 8] ^= 1 << (bit % 8);
    }

    pub fn is_written(&self, block: u64) -> bool {
        self.cells.borrow().get(&block).is_some_and(|bytes| bytes.iter().any(|byte| *byte != 0))
    }
}

impl Device for Memory {
    fn blocks(&self) -> u64 {
        self.blocks
    }

    fn read(&mut self, block: u64, bytes: &mut Block) -> Result<(), Failed> {
        if let Some(guard) = &self.guard {
            return guard.borrow_mut().read(block, bytes);
        }
        self.outcome()?;
        match self.cells.borrow().get(&block) {
            Some(cell) => bytes.copy_from_slice(&cell[..]),
            None => bytes.fill(0),
        }
        Ok(())
    }

    fn write(&mut self, block: u64, bytes: &Block) -> Result<(), Failed> {
        if let Some(guard) = &self.guard {
            return guard.borrow_mut().write(block, bytes);
        }
        self.outcome()?;
        assert!(block < self.blocks);
        self.cells.borrow_mut().insert(block, Box::new(*bytes));
        Ok(())
    }

    fn write_whole(&mut self, blocks: &[Whole<'_>]) -> Result<(), Failed> {
        match &self.guard {
            Some(guard) => guard.borrow_mut().write_whole(blocks),
            None => blocks.iter().try_for_each(|whole| self.write(whole.block, whole.bytes)),
        }
    }

    fn seals(&self) -> bool {
        self.guard.is_some()
    }

    fn permit(&mut self, change: &Change<'_>) -> xn::error::Result<()> {
        self.guard.as_ref().map_or(Ok(()), |guard| guard.borrow_mut().permit(change))
    }

    fn flush(&mut self) -> Result<(), Failed> {
        if let Some(guard) = &self.guard {
            return guard.borrow_mut().flush();
        }
        if self.flush_fault.get() {
            return Err(Failed);
        }
        self.outcome()
    }
}

pub type System<'a> = FileSystem<'a, Memory>;
pub const HOW: Mount = Mount { read_only: false, now: 1_000_000_000_000 };

/// A new volume.
pub fn volume(blocks: u64) -> Memory {
    let mut device = Memory::new(blocks);
    let options = Options { volume: *b"a volume of test", now: 1, owner: (0, 0, 0o755) };
    make(&mut device, &mut Arena::new(64, 128), &options).expect("it is large enough");
    device
}

/// Mounts and tests.
pub fn with(device: &Memory, arena: &mut Arena, test: impl FnOnce(&mut System<'_>)) {
    let (mut system, _) = arena.mount(device.clone(), HOW).expect("it mounts");
    test(&mut system);
    system.unmount().expect("it can be closed");
}

/// Checks a closed volume: nothing to repair, maps exact.
pub fn check(device: &Memory, arena: &mut Arena) {
    let report = arena.check(device.clone(), HOW).expect("it can be walked");
    assert!(report.clean && report.map_errors == 0 && report.repairs.is_none(), "{report:?}");
    let found = examine(&mut device.clone()).expect("it can be examined");
    assert!(found.closed && found.damages.is_empty(), "{:?}", found.damages);
    assert_eq!((found.inodes, found.blocks.1), (report.inodes, report.used));
}

/// Seeded random numbers.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }
}
