//! Device over a kernel's XN, which holds the volume and permits or refuses every change.
//!
//! The library's own XN mirrors the kernel's: page n of the cache and frame n hold the same block. The kernel carries
//! each change out first. A frame is bound when a change needs it, after the blocks above it: what is only read comes
//! from the disk, many blocks a transfer. Any environment may write a dirty block, or empty a clean frame. The device
//! then binds the block again.
//!
//! Invariants:
//! - the library's XN accepts nothing that the kernel's has refused.
//! - what the library's XN holds as changed, the kernel's frame holds, or the disk does.

use crate::device::{Change, Device, Failed, Whole};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use xn::error::{Error, Result};
use xn::format::{Block, ROOTS};
use xn::transaction::{Action, Transaction};

/// Calls that a change takes at most, while other environments empty the frames that it needs.
const TRIES: usize = 1000;

/// Rounds of reclaim before a block counts as in use: what a freed block pointed to is free a round later.
const ROUNDS: usize = 8;

/// The rows of a kernel's XN, for one open volume. A refusal has changed nothing.
pub trait Rows {
    /// Blocks of the volume.
    fn blocks(&self) -> u64;
    /// The block that a frame caches, or that is being read into it.
    fn held(&self, frame: usize) -> Option<u64>;
    /// Whether a frame differs from the disk.
    fn is_dirty(&self, frame: usize) -> bool;
    /// Waits until a frame is in no transfer.
    fn settle(&mut self, frame: usize);
    /// Binds an empty frame to a block of a sector of the block in a frame, or without that to the root.
    fn bind(&mut self, parent: Option<(usize, usize)>, block: u64, frame: usize) -> Result<()>;
    /// Copies a block out of its frame.
    fn read(&mut self, frame: usize, bytes: &mut Block) -> Result<()>;
    /// Copies bytes of data into a frame.
    fn write(&mut self, frame: usize, offset: usize, bytes: &[u8]) -> Result<()>;
    /// Changes metadata.
    fn modify(&mut self, transaction: &Transaction<'_>) -> Result<()>;
    /// Begins to write a frame to the disk.
    fn submit(&mut self, frame: usize) -> Result<()>;
    /// Empties a frame.
    fn release(&mut self, frame: usize) -> Result<()>;
    /// Flushes the disk and awaits that.
    fn flush(&mut self) -> Result<()>;
    /// Frees the held blocks that a record of the ledger names.
    fn reclaim(&mut self, record: u64) -> Result<()>;
    /// Reads neighbouring blocks of the disk that no frame caches.
    fn read_disk(&mut self, first: u64, blocks: &mut [Block]) -> Result<()>;
}

/// Where a block is bound.
#[derive(Clone, Copy, Debug)]
struct Place {
    block: u64,
    /// Parent block and sector; the root has none.
    parent: Option<(u64, usize)>,
}

/// The device.
#[derive(Debug)]
pub struct Guarded<R> {
    /// The kernel.
    pub rows: R,
    places: Vec<Option<Place>>,
    frames: BTreeMap<u64, usize>,
    /// The superblock of the closed volume: the library's XN begins as the kernel's began.
    superblock: Box<Block>,
}

impl<R: Rows> Guarded<R> {
    /// Over an open volume that was closed, with its superblock of then. It has so many frames; frame 0 holds the root
    /// catalogue.
    pub fn new(rows: R, frames: usize, superblock: &Block) -> Self {
        let mut places = vec![None; frames];
        places[0] = Some(Place { block: ROOTS, parent: None });
        Self { rows, places, frames: BTreeMap::from([(ROOTS, 0)]), superblock: Box::new(*superblock) }
    }

    fn place(&self, frame: usize) -> Result<Place> {
        self.places.get(frame).copied().flatten().ok_or(Error::BadArgument)
    }

    fn is_there(&self, frame: usize) -> bool {
        self.place(frame).is_ok_and(|place| self.rows.held(frame) == Some(place.block))
    }

    /// Binds the block of a frame that is not there, after the blocks above it.
    fn ensure(&mut self, frame: usize) -> Result<()> {
        for _ in 0..TRIES {
            let (mut missing, mut at) = (None, frame);
            while !self.is_there(at) {
                missing = Some(at);
                let Some((above, _)) = self.parent(at)? else { break };
                at = above;
            }
            let Some(missing) = missing else {
                self.rows.settle(frame);
                return Ok(());
            };
            self.bind(missing)?;
        }
        Err(Error::Busy(0))
    }

    /// The frame of the parent of a frame's block, and the sector.
    fn parent(&self, frame: usize) -> Result<Option<(usize, usize)>> {
        let Some((block, sector)) = self.place(frame)?.parent else { return Ok(None) };
        Ok(Some((*self.frames.get(&block).ok_or(Error::Absent(block))?, sector)))
    }

    /// Binds a frame, unless its parent is not there.
    fn bind(&mut self, frame: usize) -> Result<()> {
        self.empty(frame)?;
        let parent = self.parent(frame)?;
        if let Some((above, _)) = parent {
            self.rows.settle(above);
        }
        let outcome = self.rows.bind(parent, self.place(frame)?.block, frame);
        match parent {
            Some((above, _)) if outcome.is_err() && !self.is_there(above) => Ok(()),
            _ => outcome,
        }
    }

    /// Empties a frame that holds a block of before.
    fn empty(&mut self, frame: usize) -> Result<()> {
        if self.rows.held(frame).is_none() {
            return Ok(());
        }
        self.rows.settle(frame);
        match self.rows.release(frame) {
            Err(_) if self.rows.held(frame).is_none() => Ok(()),
            Err(Error::InUse(_)) => {
                self.rows.flush()?;
                self.rows.release(frame)
            }
            other => other,
        }
    }

    /// Repeats a change while the frames that it needs are in transit, or were emptied.
    fn repeat(&mut self, frames: &[usize], mut change: impl FnMut(&mut R) -> Result<()>) -> Result<()> {
        for _ in 0..TRIES {
            frames.iter().try_for_each(|frame| self.ensure(*frame))?;
            match change(&mut self.rows) {
                Ok(()) => return Ok(()),
                Err(Error::Again(_)) => {}
                Err(Error::Busy(_)) => frames.iter().for_each(|frame| self.rows.settle(*frame)),
                Err(error) if frames.iter().all(|frame| self.is_there(*frame)) => return Err(error),
                Err(_) => {}
            }
        }
        Err(Error::Busy(0))
    }

    /// Records that a page holds no block, or another one.
    fn forget(&mut self, page: usize) {
        if let Some(old) = self.places.get_mut(page).and_then(Option::take)
            && self.frames.get(&old.block) == Some(&page)
        {
            self.frames.remove(&old.block);
        }
    }

    fn modify(&mut self, transaction: &Transaction<'_>) -> Result<()> {
        let mut frames: Vec<usize> = transaction.changes.iter().map(|change| change.page).collect();
        frames.extend(transaction.shown);
        let mut freed: Vec<usize> = Vec::new();
        for range in transaction.declared.iter().filter(|range| range.action == Action::Free) {
            freed.extend(self.frames.range(range.first..range.first + range.count).map(|(_, frame)| *frame));
        }
        frames.extend(&freed);
        frames.sort_unstable();
        frames.dedup();
        let mut outcome = self.repeat(&frames, |rows| rows.modify(transaction));
        // Another environment may have delayed what frees a block. Or it has written a fresh block that was freed then:
        // such a block is free once the block above it is written.
        for _ in 0..ROUNDS {
            if !matches!(outcome, Err(Error::NotFree(_))) {
                break;
            }
            for frame in self.dirty_frames() {
                let _ = self.submit(frame);
            }
            self.rows.flush()?;
            self.reclaim();
            outcome = self.repeat(&frames, |rows| rows.modify(transaction));
        }
        if outcome.is_ok() {
            freed.into_iter().for_each(|frame| self.forget(frame));
        }
        outcome
    }

    fn reclaim(&mut self) {
        let mut record = 0;
        while let Err(Error::Again(next)) = self.rows.reclaim(record) {
            record = next;
        }
    }

    /// Begins to write a frame; what another environment has written meanwhile is written. A fresh block that nothing
    /// was stored in is bound first: its parent waits for its zeros.
    fn submit(&mut self, frame: usize) -> Result<()> {
        for _ in 0..TRIES {
            self.ensure(frame)?;
            match self.rows.submit(frame) {
                Ok(()) => return Ok(()),
                Err(Error::Unflushed(_)) => self.rows.flush()?,
                Err(Error::Busy(_)) => {}
                Err(Error::BadArgument) if !self.is_there(frame) || !self.rows.is_dirty(frame) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Err(Error::Busy(0))
    }

    /// Puts a block of data into a frame, bound if no frame has it, and begins to write it.
    fn begin_whole(&mut self, whole: &Whole<'_>) -> Result<usize> {
        let frame = match self.written_frame(whole.block) {
            Some(frame) => frame,
            None => {
                self.enter(Some(whole.parent), whole.block, whole.page)?;
                whole.page
            }
        };
        self.repeat(&[frame], |rows| rows.write(frame, 0, whole.bytes))?;
        self.submit(frame)?;
        Ok(frame)
    }

    /// Records that a page is for a block of a sector of the block in a page, or of the root.
    fn enter(&mut self, parent: Option<(usize, usize)>, block: u64, page: usize) -> Result<()> {
        let parent = match parent {
            Some((above, sector)) => Some((self.place(above)?.block, sector)),
            None => None,
        };
        let before = self.frames.get(&block).copied().filter(|before| *before != page);
        [Some(page), before].into_iter().flatten().for_each(|page| self.leave(page));
        *self.places.get_mut(page).ok_or(Error::BadArgument)? = Some(Place { block, parent });
        self.frames.insert(block, page);
        Ok(())
    }

    /// Empties the frame of a page that has another block from now on, or none. One that cannot be emptied now is
    /// emptied before its next block.
    fn leave(&mut self, page: usize) {
        self.forget(page);
        let _ = self.empty(page);
    }

    /// Before the kernel closes the volume: writes what another environment has left dirty, and frees what is held.
    ///
    /// # Errors
    /// The kernel's, also where a write or a flush fails.
    pub fn finish(&mut self) -> Result<()> {
        for _ in 0..ROUNDS {
            let dirty = self.dirty_frames();
            dirty.iter().try_for_each(|frame| self.submit(*frame))?;
            dirty.iter().try_for_each(|frame| self.await_write(*frame))?;
            self.rows.flush()?;
            self.reclaim();
        }
        Ok(())
    }

    fn dirty_frames(&self) -> Vec<usize> {
        (0..self.places.len()).filter(|frame| self.rows.is_dirty(*frame)).collect()
    }

    /// Waits for the end of a write.
    fn await_write(&mut self, frame: usize) -> Result<()> {
        self.rows.settle(frame);
        let failed = self.is_there(frame) && self.rows.is_dirty(frame);
        if failed { Err(Error::Failed(0)) } else { Ok(()) }
    }

    /// The frame of a block that the library's XN writes. The kernel's writes superblock and maps itself.
    fn written_frame(&self, block: u64) -> Option<usize> {
        let frame = self.frames.get(&block).copied()?;
        self.place(frame).is_ok_and(|place| place.block == block).then_some(frame)
    }
}

impl<R: Rows> Device for Guarded<R> {
    fn blocks(&self) -> u64 {
        self.rows.blocks()
    }

    fn read(&mut self, block: u64, bytes: &mut Block) -> core::result::Result<(), Failed> {
        if let Some(frame) = self.frames.get(&block).copied().filter(|frame| self.is_there(*frame)) {
            self.rows.settle(frame);
            if self.rows.read(frame, bytes).is_ok() {
                return Ok(());
            }
        }
        if block == 0 {
            bytes.copy_from_slice(&self.superblock[..]);
            return Ok(());
        }
        // A block that the kernel found damaged is read as it is: the library's XN says so, too.
        self.rows.read_disk(block, core::slice::from_mut(bytes)).map_err(|_| Failed)
    }

    fn read_run(&mut self, first: u64, blocks: &mut [Block]) -> core::result::Result<(), Failed> {
        let run = first..first + blocks.len() as u64;
        let cached = self.frames.range(run).any(|(_, frame)| self.is_there(*frame));
        if first == 0 || cached {
            return (first..).zip(blocks).try_for_each(|(block, bytes)| self.read(block, bytes));
        }
        self.rows.read_disk(first, blocks).map_err(|_| Failed)
    }

    fn write(&mut self, block: u64, bytes: &Block) -> core::result::Result<(), Failed> {
        self.write_all(&[(block, bytes)])
    }

    fn write_all(&mut self, blocks: &[(u64, &Block)]) -> core::result::Result<(), Failed> {
        let frames: Vec<usize> = blocks.iter().filter_map(|(block, _)| self.written_frame(*block)).collect();
        let submitted = frames.iter().try_for_each(|frame| self.submit(*frame));
        // The write that was submitted last probably ends last: then there is one wait.
        let ended = frames.iter().rev().fold(Ok(()), |ended, frame| ended.and(self.await_write(*frame)));
        submitted.and(ended).map_err(|_| Failed)
    }

    fn write_whole(&mut self, blocks: &[Whole<'_>]) -> core::result::Result<(), Failed> {
        let (mut frames, mut outcome) = (Vec::with_capacity(blocks.len()), Ok(()));
        for whole in blocks {
            match self.begin_whole(whole) {
                Ok(frame) => frames.push(frame),
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
        }
        let ended = frames.iter().rev().fold(Ok(()), |ended, frame| ended.and(self.await_write(*frame)));
        outcome.and(ended).map_err(|_| Failed)
    }

    fn flush(&mut self) -> core::result::Result<(), Failed> {
        self.rows.flush().map_err(|_| Failed)
    }

    fn seals(&self) -> bool {
        true
    }

    fn permit(&mut self, change: &Change<'_>) -> Result<()> {
        match *change {
            Change::Bind { parent, block, page } => self.enter(parent, block, page),
            Change::Modify(transaction) => self.modify(transaction),
            Change::Store { page, offset, bytes } => self.repeat(&[page], |rows| rows.write(page, offset, bytes)),
            Change::Release { page } => {
                self.leave(page);
                Ok(())
            }
            Change::Reclaim => {
                self.reclaim();
                Ok(())
            }
        }
    }
}
