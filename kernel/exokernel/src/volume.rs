//! Steps with a volume of XN: open, templates, maps, recovery, start, stop, close, roots, flush, ledger.
//!
//! A step that waits for the disk, or that has more to do, is refused with `Again`; the same call continues it.
//!
//! Invariants:
//! - the right on the disk that a step needs is checked before all else but the key;
//! - a step that reads or writes the staging block is the only one that does.

use crate::cost;
use crate::device;
use crate::kernel::{Kernel, Outcome, copied, refuse};
use crate::key::permit;
use crate::program::Stage;
use crate::storage::{Frames, SECTORS_A_CALL, Staging, Storage, WORK_FLUSH, failure};
use abi::capability::Rights;
use abi::device::operation::{FLUSH, READ, WRITE};
use abi::device::{feature, kind};
use abi::limits::{PAGE_SIZE, TRANSACTION_BLOCKS};
use abi::storage::{phase, step};
use abi::{Error, Failure, KeyIndex, UserAddress};
use core::sync::atomic::Ordering;
use driver::disk;
use machine::user;
use xn::format::{
    BLOCK_SIZE, Block, MAX_ROOTS, MAX_TEMPLATES, ROOTS, SECTORS, Superblock, TEMPLATE_BLOCKS, TEMPLATES, seal_sectors,
    verify_sectors,
};
use xn::frames::Frames as _;
use xn::region_map::{LOAD_PARTS, Use};
use xn::template::Template;
use xn::volume::{Limits, Phase, Volume, Work};

/// Children that a refused write looks through, blocks that a step of recovery marks, frames that a step of a stop
/// looks at.
const LIMITS: Limits = Limits { search: 256, marks: TRANSACTION_BLOCKS, looks: 256 };

/// The right that a step needs.
const fn right_of(step: u64) -> Option<Rights> {
    match step {
        step::OPEN..=step::CLOSE => Some(Rights::OWN),
        step::CREATE..=step::DROP => Some(Rights::WRITE),
        step::MOUNT..=step::MAP_READ => Some(Rights::NONE),
        _ => None,
    }
}

impl Kernel {
    /// Does a step with a volume (see `abi::syscall`).
    pub(crate) fn step_volume(
        &mut self,
        key: KeyIndex,
        disk: u64,
        step: u64,
        argument: u64,
        more: u64,
    ) -> Outcome<u64> {
        let held = *self.key(key)?;
        let info = device::record(disk).filter(|info| info.kind.load(Ordering::Relaxed) == kind::DISK);
        let Some(info) = info else { return refuse(Error::Absent, 0) };
        let Some(storage) = self.storage.take() else { return refuse(Error::Absent, 0) };
        let rights = capability::rights_under(&held, &device::name(info));
        let outcome = match right_of(step) {
            None => refuse(Error::BadArgument, 2),
            Some(right) => permit(rights, right).map_err(Into::into).and_then(|()| {
                if step == step::OPEN {
                    return Ok(storage.open(disk)?);
                }
                if storage.device != Some(disk) || storage.volume.is_none() || storage.opening.is_some() {
                    return refuse(Error::Absent, 0);
                }
                self.do_step(storage, step, argument, more)
            }),
        };
        self.storage = Some(storage);
        outcome
    }

    fn do_step(&self, storage: &mut Storage, step: u64, argument: u64, more: u64) -> Outcome<u64> {
        if step == step::TEMPLATE {
            return self.load_template(storage, argument);
        }
        if step == step::ENTER {
            let address = UserAddress(more);
            let mut name = [0; 48];
            copied(user::copy_in(&mut name, address), address)?;
            let volume = storage.volume.as_mut().expect("a volume is open");
            let tree = u16::try_from(argument >> 8).map_err(|_| Error::BadArgument.about(3))?;
            return Ok(volume.root_set((argument & 0xff) as usize, name, tree).map(|()| 0).map_err(failure)?);
        }
        Ok(storage.step(step, argument, more)?)
    }

    /// Loads a template, as far as this entry may.
    fn load_template(&self, storage: &mut Storage, slot: u64) -> Outcome<u64> {
        storage.read_template(slot)?;
        let Storage { loader, volume: Some(volume), .. } = storage else { return refuse(Error::Absent, 0) };
        while matches!(loader.stage, Stage::Verify(_) | Stage::Compile(_)) {
            self.spend(cost::PROGRAM_STEP);
            if let Err(failure) = loader.step(&mut volume.programs) {
                loader.stage = Stage::Idle;
                return Err(failure.into());
            }
            if !self.has_room_for(cost::PROGRAM_STEP) {
                return refuse(Error::Again, 0);
            }
        }
        let (slot, template) = (loader.slot, loader.template);
        loader.stage = Stage::Idle;
        let Volume { memory, programs, .. } = volume;
        Ok(memory.templates.load(slot, template, programs).map(|()| 0).map_err(failure)?)
    }
}

const AGAIN: Failure = Error::Again.about(0);
const FRAME_OF_CATALOGUE: usize = 0;

impl Storage {
    fn has_feature(&self, bit: u64) -> bool {
        let number = self.device.and_then(|device| disk::number_of(device as usize));
        number.and_then(|number| disk::with(number, |disk| disk.facts().features & bit != 0)).unwrap_or(false)
    }

    fn load_staged(&self) -> Block {
        let mut bytes = [0; BLOCK_SIZE];
        self.frames.0.read(self.count * BLOCK_SIZE, &mut bytes);
        bytes
    }

    /// Opens the volume of a disk.
    fn open(&mut self, device: u64) -> Result<u64, Failure> {
        match (self.device, &self.volume) {
            (None, _) => self.begin_to_open(device),
            (Some(other), _) if other != device => Err(Error::InUse.about(other)),
            (Some(_), None) => match self.opening {
                None => self.read_superblock(),
                Some(superblock) => self.begin_volume(superblock),
            },
            (Some(_), Some(volume)) => {
                let Some(superblock) = self.opening else { return Err(Error::InUse.about(device)) };
                match volume.find(ROOTS).and_then(|page| volume.info(page).ok()) {
                    None => {
                        self.close()?;
                        Err(Error::Damaged.about(ROOTS))
                    }
                    Some(info) if !info.is(xn::block::RESIDENT) => Err(AGAIN),
                    Some(_) => {
                        self.opening = None;
                        Ok(superblock.blocks)
                    }
                }
            }
        }
    }

    fn begin_to_open(&mut self, device: u64) -> Result<u64, Failure> {
        let number = disk::number_of(device as usize);
        match number.and_then(|number| disk::with(number, |disk| disk.is_idle())) {
            None => return Err(Error::Absent.about(0)),
            Some(false) => return Err(Error::Busy.about(0)),
            Some(true) => self.device = Some(device),
        }
        let begun = self.stage(READ, 0);
        if begun.is_err() {
            self.device = None;
        }
        begun.and(Err(AGAIN))
    }

    /// Takes the superblock that was read. The tables are emptied by the next call: together they would take too long.
    fn read_superblock(&mut self) -> Result<u64, Failure> {
        match self.staged(0).and_then(|_| self.checked_superblock()) {
            Err(AGAIN) => {}
            Err(failure) => {
                self.device = None;
                return Err(failure);
            }
            Ok(superblock) => self.opening = Some(superblock),
        }
        Err(AGAIN)
    }

    /// Begins the volume, and the transfer of its catalogue.
    fn begin_volume(&mut self, superblock: Superblock) -> Result<u64, Failure> {
        let Some((memory, programs)) = self.parts.take() else { return Err(AGAIN) };
        let frames = Frames(self.frames.0);
        let mut volume = Volume::new(0, superblock, memory, frames, programs).expect("the sizes were checked");
        volume.limits = LIMITS;
        volume.open_catalogue(FRAME_OF_CATALOGUE).expect("all frames are empty");
        self.volume = Some(volume);
        self.transfer(READ, ROOTS, FRAME_OF_CATALOGUE);
        Err(AGAIN)
    }

    fn checked_superblock(&self) -> Result<Superblock, Failure> {
        let superblock = Superblock::decode(&self.load_staged(), 0).map_err(failure)?;
        let number = self.device.and_then(|device| disk::number_of(device as usize));
        let capacity = number.and_then(|number| disk::with(number, |disk| disk.facts().capacity)).unwrap_or(0);
        let maps = self.parts.as_ref().map_or(0, |(memory, _)| memory.maps.pages.len() as u64);
        if !superblock.is_sound() || superblock.blocks > capacity / PAGE_SIZE {
            return Err(Error::Damaged.about(0));
        }
        if superblock.regions() > maps { Err(Error::TooMany.about(maps)) } else { Ok(superblock) }
    }

    /// Forgets the volume.
    fn close(&mut self) -> Result<u64, Failure> {
        if self.moving > 0 {
            return Err(Error::Busy.about(0));
        }
        if let Some(Volume { memory, mut programs, .. }) = self.volume.take() {
            memory.registry.blocks.fill(Default::default());
            memory.registry.slots.fill(0);
            memory.templates.0.fill(Template::NONE);
            programs.clear();
            self.parts = Some((memory, programs));
        }
        (self.device, self.opening, self.flush) = (None, None, None);
        (self.staging, self.checked, self.drive, self.loader.stage) = (Staging::Idle, None, None, Stage::Idle);
        Ok(0)
    }

    /// Reads the blocks of a template slot, one a call. Done: it is being verified, or its programs are there.
    fn read_template(&mut self, slot: u64) -> Result<(), Failure> {
        let slot = u8::try_from(slot).ok().filter(|slot| usize::from(*slot) < MAX_TEMPLATES);
        let slot = slot.ok_or(Error::BadArgument.about(3))?;
        let volume = self.volume.as_ref().expect("a volume is open");
        if self.loader.stage == Stage::Idle || self.loader.slot != slot {
            if volume.memory.templates.get(slot).is_some() {
                return Err(Error::NotFree.about(slot.into()));
            }
            (self.loader.slot, self.loader.stage) = (slot, Stage::Read(0));
        }
        let Stage::Read(index) = self.loader.stage else { return Ok(()) };
        let block = TEMPLATES + u64::from(slot) * TEMPLATE_BLOCKS + index as u64;
        if let Err(failure) = self.checked_block(block) {
            if !matches!(failure.error, Error::Again | Error::Busy) {
                self.loader.stage = Stage::Idle;
            }
            return Err(failure);
        }
        self.checked = None;
        let bytes = self.load_staged();
        let taken = self.loader.take(index, block, &bytes);
        if taken.is_err() {
            self.loader.stage = Stage::Idle;
        }
        taken.map_err(failure)?;
        Err(AGAIN)
    }

    /// Brings a block to the staging block and verifies its checksums: a call each, and a last one that succeeds.
    fn checked_block(&mut self, block: u64) -> Result<(), Failure> {
        if self.drive.is_some() {
            return Err(Error::Busy.about(0));
        }
        let checked = self.checked;
        match checked {
            Some((checked, SECTORS)) if checked == block => return Ok(()),
            Some((checked, sectors)) if checked == block => {
                let volume = self.volume.as_ref().expect("a volume is open");
                let (name, range) = (volume.superblock().volume, sectors..sectors + SECTORS_A_CALL);
                self.checked = None;
                verify_sectors(Frames::crc32c, &name, block, range.clone(), &self.load_staged()).map_err(failure)?;
                self.checked = Some((block, range.end));
            }
            _ => match self.staged(block)? {
                true => (self.checked, self.parts_of_map) = (Some((block, 0)), 0),
                false => self.stage(READ, block)?,
            },
        }
        Err(AGAIN)
    }

    /// Loads the map of a region: read, verify and each part of the map are a call each.
    fn load_map(&mut self, region: u64) -> Result<u64, Failure> {
        let volume = self.volume.as_mut().expect("a volume is open");
        let superblock = volume.superblock();
        if region >= superblock.regions() {
            return Err(Error::BadArgument.about(3));
        }
        if matches!(volume.phase(), Phase::Checking { .. }) {
            return volume.load_map(region, region as usize, None).map(|()| 0).map_err(failure);
        }
        self.checked_block(superblock.map_block(region))?;
        let bytes = self.load_staged();
        let volume = self.volume.as_mut().expect("a volume is open");
        volume.load_map_part(region, region as usize, &bytes, self.parts_of_map).map_err(failure)?;
        self.parts_of_map += 1;
        if self.parts_of_map < LOAD_PARTS {
            return Err(AGAIN);
        }
        self.checked = None;
        Ok(0)
    }

    /// Starts or stops the volume, a transfer a call.
    fn drive(&mut self, stop: bool) -> Result<u64, Failure> {
        if self.drive.is_none() {
            self.checked = None;
        }
        let awaited = match self.drive {
            Some((other, _)) if other != stop => return Err(Error::Busy.about(0)),
            Some((_, awaited)) => awaited,
            None if self.has_feature(feature::READ_ONLY) => return Err(Error::NotPermitted.about(0)),
            None => None,
        };
        if let Some(block) = awaited {
            match self.staged(block) {
                Err(failure) if failure.error == Error::Failed => {
                    // What the disk holds is unknown: only recovery helps.
                    self.volume.as_mut().expect("a volume is open").flush_done(0, false);
                    self.drive = None;
                    return Err(failure);
                }
                outcome => outcome?,
            };
            self.drive = Some((stop, None));
        } else if self.staging != Staging::Idle {
            return Err(Error::Busy.about(0));
        }
        self.check_room()?;
        let volume = self.volume.as_mut().expect("a volume is open");
        if let Some((block, sectors)) = self.checked.filter(|_| self.drive.is_some()) {
            let (name, range) = (volume.superblock().volume, sectors..sectors + SECTORS_A_CALL);
            self.frames.0.read(self.count * BLOCK_SIZE, self.buffer);
            seal_sectors(Frames::crc32c, &name, block, range.clone(), self.buffer);
            self.frames.0.write(self.count * BLOCK_SIZE, self.buffer);
            self.checked = Some((block, range.end));
            if range.end < SECTORS {
                return Err(AGAIN);
            }
            self.stage(WRITE, block)?;
            self.drive = Some((stop, Some(block)));
            return Err(AGAIN);
        }
        let work = if stop { volume.stop(self.buffer) } else { volume.start(self.buffer) };
        if work.is_err() {
            self.drive = None;
        }
        match work.map_err(failure)? {
            Work::Seal(block) => {
                self.frames.0.write(self.count * BLOCK_SIZE, self.buffer);
                (self.checked, self.drive) = (Some((block, 0)), Some((stop, None)));
                Err(AGAIN)
            }
            Work::Flush => {
                let flushes = self.has_feature(feature::FLUSH);
                if flushes {
                    self.stage(FLUSH, WORK_FLUSH)?;
                }
                self.drive = Some((stop, flushes.then_some(WORK_FLUSH)));
                Err(AGAIN)
            }
            Work::Again => {
                self.drive = Some((stop, None));
                Err(AGAIN)
            }
            Work::Done => {
                self.drive = None;
                Ok(0)
            }
        }
    }

    /// Issues a flush for all.
    fn issue_flush(&mut self) -> Result<u64, Failure> {
        if self.flush.is_some() {
            return Err(Error::Busy.about(0));
        }
        self.check_room()?;
        let flushes = self.has_feature(feature::FLUSH);
        let volume = self.volume.as_mut().expect("a volume is open");
        let number = volume.flush_start();
        if flushes {
            self.flush = Some(number);
            self.transfer(FLUSH, 0, FRAME_OF_CATALOGUE);
        } else {
            volume.flush_done(number, true);
        }
        Ok(number)
    }

    /// The steps that need no memory of the caller.
    fn step(&mut self, step: u64, argument: u64, more: u64) -> Result<u64, Failure> {
        match step {
            step::MAP => return self.load_map(argument),
            step::START | step::STOP => return self.drive(step == step::STOP),
            step::CLOSE => return self.close(),
            step::FLUSH => return self.issue_flush(),
            _ => {}
        }
        let frame = self.frame(argument, 3);
        let volume = self.volume.as_mut().expect("a volume is open");
        volume.programs.begin();
        let tree = u16::try_from(argument).map_err(|_| Error::BadArgument.about(3));
        let slot = usize::try_from(argument).ok().filter(|slot| *slot < MAX_ROOTS).ok_or(Error::BadArgument.about(3));
        let done = |outcome: xn::error::Result<()>| outcome.map(|()| 0).map_err(failure);
        match step {
            step::RECOVER => done(volume.recovery_start()),
            step::CHECK => done(volume.check(frame?, more)),
            step::RECOVERED => done(volume.recovery_end()),
            step::CREATE if more >> 9 == 0 => {
                volume.tree_create(argument, more as u8, more >> 8 == 1).map(u64::from).map_err(failure)
            }
            step::LEAVE => volume.root_clear(slot?).map(u64::from).map_err(failure),
            step::DROP => done(volume.tree_drop(tree?)),
            step::MOUNT => volume.root_mount(slot?).map(u64::from).map_err(failure),
            step::RECLAIM => volume.reclaim(argument).map_err(failure),
            step::STATE => Ok(phase_number(volume.phase()) | volume.flushes_done() << 8),
            step::MAP_READ => {
                let first = argument & !31;
                let used =
                    |word: u64, block: u64| Ok(word >> 2 | usage_of(volume.memory.maps.get(first + block)?) << 62);
                (0..32).try_fold(0, used).map_err(failure)
            }
            _ => Err(Error::BadArgument.about(4)),
        }
    }
}

fn usage_of(usage: Use) -> u64 {
    usage as u64
}

fn phase_number(now: Phase) -> u64 {
    match now {
        Phase::Checking { .. } => phase::CHECKING,
        Phase::ReadOnly => phase::READ_ONLY,
        Phase::Closing(_) | Phase::Marking(_) => phase::MARKING,
        Phase::Open => phase::OPEN,
        Phase::Damaged(_) => phase::DAMAGED,
        Phase::Failed => phase::FAILED,
    }
}
