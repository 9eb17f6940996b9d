//! An open volume: its memory, its phase, and the steps that make it writable and clean.
//!
//! Phases: *checking* (recovery traverses) or *read-only* (maps loaded), then *open*, then *closing* and read-only
//! again. The mark *dirty* is durable before any other write; the maps are durable before the mark *clean*.

use crate::block::{BlockInfo, DIRTY, IN, OUT};
use crate::claim::Claims;
use crate::difference::Difference;
use crate::error::{Error, Result};
use crate::format::{BLOCK_SIZE, Block, ROOTS, State, Superblock, verify};
use crate::frames::Frames;
use crate::ledger::Record;
use crate::memo::Memo;
use crate::region_map::Maps;
use crate::registry::{Registry, name};
use crate::template::{CATALOGUE, Programs, Templates};
use crate::tree::{Standing, Tree, Trees};
use core::ops::Range;

/// Where a volume stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Recovery traverses the trees.
    Checking {
        /// Metadata blocks that are marked and not visited.
        pending: u64,
    },
    /// Blocks can be bound and read.
    ReadOnly,
    /// A stop looks for what is dirty or in transit; the page that it looks at next. Nothing can be changed meanwhile.
    Closing(usize),
    /// The volume is being marked dirty or clean; the number of the next step.
    Marking(u64),
    /// Everything is permitted.
    Open,
    /// A block has two owners or is outside its bounds: read only until a tool repairs it. The detail is the block.
    Damaged(u64),
    /// A flush failed: what the disk holds is unknown until the next recovery.
    Failed,
}

/// What the caller of [`Volume::start`] and [`Volume::stop`] does before it calls again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// The buffer has no checksums: seal it for this block, write it, and await its completion.
    Seal(u64),
    /// Nothing.
    Again,
    /// Flush and await its completion.
    Flush,
    /// Nothing: the volume is in its new phase.
    Done,
}

/// How much one entry does: a kernel has less time than a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Children among which a refused submission looks for the one to name.
    pub search: usize,
    /// Claimed blocks that one [`Volume::check`] marks.
    pub marks: u64,
    /// Entries of the registry that one [`Volume::stop`] looks at.
    pub looks: usize,
}

impl Default for Limits {
    /// The pointers of a full block of C-FFS, eight times; the blocks of the largest transaction; the whole registry.
    fn default() -> Self {
        Self { search: 4096, marks: crate::transaction::MAX_BLOCKS, looks: usize::MAX }
    }
}

/// Buffers of one entry.
pub struct Workspace {
    pub(crate) block: Block,
    pub(crate) before: Claims,
    pub(crate) after: Claims,
    pub(crate) difference: Difference,
    pub(crate) old: [u8; 512],
    pub(crate) new: [u8; 512],
    pub(crate) scratch: [u8; 512],
}

impl Default for Workspace {
    fn default() -> Self {
        let bytes = [0; 512];
        let claims = Claims::default();
        let (block, difference) = ([0; BLOCK_SIZE], Difference::default());
        Self { block, before: claims, after: claims, difference, old: bytes, new: bytes, scratch: bytes }
    }
}

/// The memory of a volume, all of it the caller's.
pub struct Memory<'a> {
    /// Cached blocks.
    pub registry: Registry<'a>,
    /// Region maps.
    pub maps: Maps<'a>,
    /// Templates.
    pub templates: Templates<'a>,
    /// Trees.
    pub trees: Trees<'a>,
    /// Held blocks.
    pub ledger: &'a mut [Record],
    /// Buffers.
    pub workspace: &'a mut Workspace,
}

/// A volume.
pub struct Volume<'a, F: Frames, P: Programs> {
    /// Number of the volume in the registry.
    pub number: u8,
    /// Its memory.
    pub memory: Memory<'a>,
    /// Contents of pages.
    pub frames: F,
    /// Programs of templates.
    pub programs: P,
    /// How much one entry does.
    pub limits: Limits,
    pub(crate) superblock: Superblock,
    pub(crate) phase: Phase,
    /// Sequence number of the last completed write.
    pub(crate) sequence: u64,
    pub(crate) flushes_started: u64,
    pub(crate) flushes_done: u64,
    pub(crate) memo: Memo,
}

impl<'a, F: Frames, P: Programs> Volume<'a, F, P> {
    /// Starts with a decoded superblock. A volume that is not clean starts in recovery. A superblock that was read from
    /// the copy says nothing about the maps, so the caller sets its state to dirty.
    pub fn new(number: u8, superblock: Superblock, memory: Memory<'a>, frames: F, programs: P) -> Result<Self> {
        let sized = memory.registry.is_sound() && memory.maps.directory.len() as u64 >= superblock.regions();
        if !superblock.is_sound() || !sized {
            return Err(Error::BadArgument);
        }
        memory.maps.directory.fill(0);
        memory.trees.0.fill(Tree::default());
        memory.ledger.fill(Record::default());
        let clean = superblock.state == State::Clean;
        let phase = if clean { Phase::ReadOnly } else { Phase::Checking { pending: 0 } };
        let (sequence, flushes_started, flushes_done) = (0, 0, 0);
        let limits = Limits::default();
        Ok(Self {
            number,
            memory,
            frames,
            programs,
            limits,
            superblock,
            phase,
            sequence,
            flushes_started,
            flushes_done,
            memo: Memo::default(),
        })
    }

    /// Where the volume stands.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Number of the last flush that completed.
    pub fn flushes_done(&self) -> u64 {
        self.flushes_done
    }

    /// The superblock as it is, or will be, on disk.
    pub fn superblock(&self) -> Superblock {
        self.superblock
    }

    /// The page that caches `block`.
    pub fn find(&self, block: u64) -> Option<usize> {
        self.memory.registry.find(name(self.number, block))
    }

    /// The registry entry of `page`, if it caches a block of this volume.
    pub fn info(&self, page: usize) -> Result<BlockInfo> {
        let info = self.memory.registry.blocks.get(page).copied().ok_or(Error::BadArgument)?;
        let own = info.name != 0 && info.name >> 56 == u64::from(self.number);
        if own { Ok(info) } else { Err(Error::BadArgument) }
    }

    pub(crate) fn entry(&mut self, page: usize) -> &mut BlockInfo {
        &mut self.memory.registry.blocks[page]
    }

    /// Enters the root catalogue; the caller reads block 1 into the page and reports with [`Volume::read_done`].
    pub fn open_catalogue(&mut self, page: usize) -> Result<()> {
        let entry =
            BlockInfo { name: name(self.number, ROOTS), state: IN, template: CATALOGUE, ..BlockInfo::default() };
        self.memory.registry.insert(page, entry)
    }

    /// Loads the map of `region` into map page `index`: from `disk` if the volume is clean, empty in recovery.
    pub fn load_map(&mut self, region: u64, index: usize, disk: Option<&Block>) -> Result<()> {
        if let Some(bytes) = disk {
            let block = self.superblock.map_block(region);
            verify(&self.superblock.volume, block, bytes)?;
        }
        self.load_verified_map(region, index, disk)
    }

    fn load_verified_map(&mut self, region: u64, index: usize, disk: Option<&Block>) -> Result<()> {
        let recovering = matches!(self.phase, Phase::Checking { pending: 0 });
        if recovering == disk.is_some() {
            return Err(Error::BadArgument);
        }
        self.memory.maps.load(&self.superblock, region, index, disk)
    }

    /// Part `part` of a load of a map whose checksums the caller has verified: see [`Maps::load_part`].
    pub fn load_map_part(&mut self, region: u64, index: usize, disk: &Block, part: usize) -> Result<()> {
        if matches!(self.phase, Phase::Checking { .. }) {
            return Err(Error::BadArgument);
        }
        self.memory.maps.load_part(&self.superblock, region, index, disk, part)
    }

    /// Makes the volume writable: call until [`Work::Done`]. The mark *dirty* becomes durable first.
    pub fn start(&mut self, buffer: &mut Block) -> Result<Work> {
        let step = match self.phase {
            Phase::ReadOnly => 0,
            Phase::Marking(step) => step,
            Phase::Damaged(block) => return Err(Error::Damaged(block)),
            _ => return Err(Error::NotPermitted),
        };
        if step == 0 {
            self.superblock.state = State::Dirty;
            self.superblock.mounts += 1;
        }
        self.phase = Phase::Marking(step + 1);
        Ok(match step {
            0 | 1 => self.superblock_write(step, buffer),
            2 => Work::Flush,
            _ => {
                self.phase = Phase::Open;
                Work::Done
            }
        })
    }

    fn superblock_write(&self, copy: u64, buffer: &mut Block) -> Work {
        self.superblock.put(buffer);
        Work::Seal(if copy == 0 { 0 } else { self.superblock.blocks - 1 })
    }

    /// Makes the volume clean: call until [`Work::Done`]. Refused while anything is dirty, held, in transit or
    /// unattached: then the volume is open again.
    pub fn stop(&mut self, buffer: &mut Block) -> Result<Work> {
        let step = match self.phase {
            Phase::Open => return self.look_for_changes(0),
            Phase::Closing(page) => return self.look_for_changes(page),
            Phase::Marking(step) => step,
            _ => return Err(Error::NotPermitted),
        };
        self.phase = Phase::Marking(step + 1);
        let regions = self.superblock.regions();
        if step < regions {
            let block = self.superblock.map_block(step);
            return self.map_write(step, block, buffer);
        }
        Ok(match step - regions {
            0 | 3 => Work::Flush,
            1 | 2 => {
                self.superblock.state = State::Clean;
                self.superblock_write(step - regions - 1, buffer)
            }
            _ => {
                self.phase = Phase::ReadOnly;
                Work::Done
            }
        })
    }

    /// A region that is not loaded was not changed: its block is current, so the flush comes in its place.
    fn map_write(&self, region: u64, block: u64, buffer: &mut Block) -> Result<Work> {
        if self.memory.maps.encode(region, buffer).is_err() {
            return Ok(Work::Flush);
        }
        Ok(Work::Seal(block))
    }

    /// Looks at as many pages as the limits say. The last step closes the volume to changes for good.
    fn look_for_changes(&mut self, page: usize) -> Result<Work> {
        let end = page.saturating_add(self.limits.looks).min(self.memory.registry.blocks.len());
        let is_last = end == self.memory.registry.blocks.len();
        self.phase = Phase::Open;
        self.check_quiet(page..end)?;
        if is_last {
            self.check_settled()?;
        }
        self.phase = if is_last { Phase::Marking(0) } else { Phase::Closing(end) };
        Ok(Work::Again)
    }

    fn check_quiet(&self, pages: Range<usize>) -> Result<()> {
        let own = self.memory.registry.blocks[pages].iter().filter(|info| info.name >> 56 == u64::from(self.number));
        let busy = own.filter(|info| info.name != 0).find(|info| info.is(DIRTY | IN | OUT) || !self.is_stable(info));
        busy.map_or(Ok(()), |info| Err(Error::InUse(info.block())))
    }

    fn check_settled(&self) -> Result<()> {
        if let Some(record) = self.memory.ledger.iter().find(|record| record.count > 0) {
            return Err(Error::InUse(record.first));
        }
        let loose = |tree: &&Tree| !matches!(tree.standing, Standing::None | Standing::Attached | Standing::Forward(_));
        self.memory.trees.0.iter().find(loose).map_or(Ok(()), |tree| Err(Error::InUse(tree.root)))
    }

    /// Whether what the page holds is durable.
    pub(crate) fn is_stable(&self, info: &BlockInfo) -> bool {
        !info.is(DIRTY | OUT) && info.durable_at <= self.flushes_done
    }

    /// Refuses changes in any phase but *open*.
    pub(crate) fn check_open(&self) -> Result<()> {
        match self.phase {
            Phase::Open => Ok(()),
            Phase::Failed => Err(Error::Failed(0)),
            Phase::Damaged(block) => Err(Error::Damaged(block)),
            _ => Err(Error::NotPermitted),
        }
    }
}
