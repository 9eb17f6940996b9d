//! Calls about blocks: bind, copy in and out, transactions, write to the disk, release.
//!
//! The access program of a block's tree decides about the first three. The other two only carry out what a holder of
//! the right has put into the frame, in an order that XN permits.

use crate::cost;
use crate::kernel::{Kernel, Outcome, copied, refuse};
use crate::storage::{Storage, Xn, failure};
use abi::device::operation::{READ, WRITE};
use abi::limits::{
    PAGE_SIZE, TRANSACTION_BLOCKS, TRANSACTION_BYTES, TRANSACTION_CHANGES, TRANSACTION_DECLARED, TRANSACTION_SHOWN,
};
use abi::storage::{ROOT, TransactionSpecification, action};
use abi::{Error, Failure, KeyIndex, UserAddress};
use core::sync::atomic::Ordering;
use machine::{clock, exposed, user};
use xn::access::{Caller, Operation};
use xn::binding::Bound;
use xn::block::{IN, OUT};
use xn::format::{BLOCK_SIZE, SECTOR_SIZE, SECTORS};
use xn::transaction::{Action, Change, Declared, Transaction};

impl Kernel {
    /// Storage with an open volume, for the holder of a key.
    fn with_volume<T>(&mut self, key: KeyIndex, body: impl FnOnce(&mut Storage, &Caller) -> Outcome<T>) -> Outcome<T> {
        let held = *self.key(key)?;
        let [first, second, third, ..] = held.components;
        let seconds = (exposed::kernel().wall_clock_at_boot.load(Ordering::Relaxed) + clock::now()) / 1_000_000_000;
        let length = u64::from(held.length) | u64::from(held.rights.0) << 8;
        let caller = Caller { credentials: [length, first, second, third], clock: seconds };
        let Some(storage) = self.storage.as_deref_mut() else { return refuse(Error::Absent, 0) };
        match &storage.volume {
            Some(volume) if storage.opening.is_none() => volume.programs.begin(),
            _ => return refuse(Error::Absent, 0),
        }
        body(storage, &caller)
    }

    /// Binds a frame to a block (see `abi::syscall`).
    pub(crate) fn bind_block(
        &mut self,
        key: KeyIndex,
        parent: u64,
        sector: u64,
        block: u64,
        frame: u64,
    ) -> Outcome<u64> {
        self.with_volume(key, |storage, caller| {
            let page = storage.frame(frame, 4)?;
            storage.check_room()?;
            let volume = storage.volume.as_mut().expect("a volume is open");
            let bound = if parent & ROOT != 0 {
                let tree = u16::try_from(parent ^ ROOT).map_err(|_| Error::BadArgument.about(1))?;
                volume.bind_root(caller, tree, page)
            } else {
                let sector = usize::try_from(sector).unwrap_or(SECTORS);
                volume.bind(caller, usize::try_from(parent).unwrap_or(usize::MAX), sector, block, page)
            };
            match bound.map_err(failure)? {
                Bound::Zeroed => Ok(0),
                Bound::Reading => {
                    let block = volume.info(page).map_err(failure)?.block();
                    storage.transfer(READ, block, page);
                    Ok(1)
                }
            }
        })
    }

    /// Copies bytes of a block out (see `abi::syscall`).
    pub(crate) fn read_block(
        &mut self,
        key: KeyIndex,
        frame: u64,
        offset: u64,
        to: UserAddress,
        bytes: u64,
    ) -> Outcome<()> {
        self.with_volume(key, |storage, caller| {
            let (page, length) = (storage.frame(frame, 1)?, range(offset, bytes)?);
            let volume = storage.volume.as_mut().expect("a volume is open");
            volume.permit_child(caller, Operation::Read, page).map_err(failure)?;
            let mut copy = [0; BLOCK_SIZE];
            let copy = &mut copy[..length];
            storage.frames.0.read(page * BLOCK_SIZE + offset as usize, copy);
            copied(user::copy_out(to, copy), to)
        })
    }

    /// Copies bytes into a block (see `abi::syscall`).
    pub(crate) fn write_block(
        &mut self,
        key: KeyIndex,
        frame: u64,
        offset: u64,
        from: UserAddress,
        bytes: u64,
    ) -> Outcome<()> {
        self.with_volume(key, |storage, caller| {
            let (page, length) = (storage.frame(frame, 1)?, range(offset, bytes)?);
            let volume = storage.volume.as_mut().expect("a volume is open");
            let info = volume.info(page).map_err(failure)?;
            if info.is(IN | OUT) {
                return refuse(Error::Busy, info.block());
            }
            volume.open(caller, page).map_err(failure)?;
            let written = user::copy_to_buffer(storage.frames.0, page * BLOCK_SIZE + offset as usize, from, length);
            volume.close_mapping(page).map_err(failure)?;
            copied(written, from)
        })
    }

    /// Changes metadata (see `abi::syscall`).
    pub(crate) fn modify_blocks(&mut self, key: KeyIndex, transaction: UserAddress) -> Outcome<()> {
        self.with_volume(key, |storage, caller| {
            let mut wanted = [TransactionSpecification::EMPTY];
            copied(user::copy_in(&mut wanted, transaction), transaction)?;
            let count = storage.count;
            let volume = storage.volume.as_mut().expect("a volume is open");
            Ok(modify(volume, caller, &wanted[0], count)?)
        })
    }

    /// Writes a block to the disk (see `abi::syscall`).
    pub(crate) fn submit_block(&mut self, key: KeyIndex, frame: u64) -> Outcome<()> {
        self.with_volume(key, |storage, _| {
            let page = storage.frame(frame, 1)?;
            storage.check_room()?;
            let volume = storage.volume.as_mut().expect("a volume is open");
            let block = volume.submit(page).map_err(failure)?;
            storage.transfer(WRITE, block, page);
            Ok(())
        })
    }

    /// Empties a frame (see `abi::syscall`).
    pub(crate) fn release_block(&mut self, key: KeyIndex, frame: u64) -> Outcome<()> {
        self.with_volume(key, |storage, _| {
            let page = storage.frame(frame, 1)?;
            let volume = storage.volume.as_mut().expect("a volume is open");
            Ok(volume.release(page).map_err(failure)?)
        })
    }
}

impl Storage {
    /// A frame's place, from argument `position`.
    pub(crate) fn frame(&self, frame: u64, position: u64) -> Result<usize, Failure> {
        let place = usize::try_from(frame).ok().filter(|place| *place < self.count);
        place.ok_or(Error::BadArgument.about(position))
    }
}

/// The length of a range that lies in a block.
fn range(offset: u64, bytes: u64) -> Result<usize, Failure> {
    let end = offset.checked_add(bytes);
    if bytes > 0 && end.is_some_and(|end| end <= PAGE_SIZE) {
        Ok(bytes as usize)
    } else {
        Err(Error::BadArgument.about(4))
    }
}

/// Checks the form of a transaction and gives it to XN.
fn modify(volume: &mut Xn, caller: &Caller, wanted: &TransactionSpecification, frames: usize) -> Result<(), Failure> {
    let bad = Error::BadArgument.about(1);
    let [shown, changes, declared] = wanted.counts.map(|count| count as usize);
    if shown > TRANSACTION_SHOWN || changes > TRANSACTION_CHANGES || declared > TRANSACTION_DECLARED {
        return Err(bad);
    }
    let mut shown_pages = [0; TRANSACTION_SHOWN];
    shown_pages.iter_mut().zip(&wanted.shown).for_each(|(page, frame)| *page = *frame as usize);
    let mut change_rows = [Change { page: 0, offset: 0, bytes: &[] }; TRANSACTION_CHANGES];
    let mut at = 0;
    for (change, row) in change_rows.iter_mut().zip(&wanted.changes).take(changes) {
        let end = at + usize::from(row.length);
        let bytes = wanted.bytes.get(at..end.min(TRANSACTION_BYTES)).unwrap_or(&[]);
        *change = Change { page: row.frame as usize, offset: row.offset.into(), bytes };
        at = end;
    }
    let pages = shown_pages[..shown].iter().chain(change_rows[..changes].iter().map(|change| &change.page));
    if at > TRANSACTION_BYTES || { pages }.any(|page| *page >= frames) {
        return Err(bad);
    }
    let mut ranges = [Declared { action: Action::Allocate, first: 0, count: 0, template: 0 }; TRANSACTION_DECLARED];
    for (range, row) in ranges.iter_mut().zip(&wanted.declared).take(declared) {
        let action = match row.action & 0xff {
            action::ALLOCATE => Action::Allocate,
            action::FREE => Action::Free,
            action::RETYPE => Action::Retype,
            action::ATTACH => Action::Attach,
            _ => return Err(bad),
        };
        *range = Declared { action, first: row.first, count: row.count.into(), template: (row.action >> 8) as u8 };
    }
    let (changes, declared) = (&change_rows[..changes], &ranges[..declared]);
    let transaction = Transaction { shown: &shown_pages[..shown], changes, declared };
    check_work(volume, &transaction)?;
    volume.modify(caller, &transaction).map_err(failure)
}

/// Refuses a transaction that could take longer than an entry may. Metadata blocks to free are examined a part a call.
fn check_work(volume: &mut Xn, wanted: &Transaction<'_>) -> Result<(), Failure> {
    let Transaction { shown, changes, declared } = wanted;
    let blocks = declared.iter().fold(0_u64, |sum, range| sum.saturating_add(range.count));
    if blocks > TRANSACTION_BLOCKS {
        return Err(Error::TooMany.about(TRANSACTION_BLOCKS));
    }
    let sector = |change: &Change<'_>| (change.page, change.offset / SECTOR_SIZE);
    let mut work = cost::TRANSACTION_BLOCK * blocks + cost::ACCESS_RUN * (shown.len() as u64 + 1);
    for (index, change) in changes.iter().enumerate() {
        if changes[..index].iter().all(|before| sector(before) != sector(change)) {
            let template = volume.info(change.page).map_err(failure)?.template;
            work += 2 * (cost::OWNS_RUN + cost::of_program(volume.programs.worst_of_owns(template)));
        }
    }
    if work > cost::TRANSACTION_MOST {
        return Err(Error::TooMany.about(work));
    }
    for range in declared.iter().filter(|range| range.action == Action::Free) {
        let worst = volume.programs.worst_of_owns(range.template);
        if worst > 0 {
            (range.first..range.first + range.count).try_for_each(|block| examine(volume, block, worst))?;
        }
    }
    Ok(())
}

/// Looks into a metadata block before it is freed, as far as one call may: it must own nothing.
fn examine(volume: &mut Xn, block: u64, worst: u64) -> Result<(), Failure> {
    let Some(page) = volume.find(block) else { return Ok(()) };
    if volume.info(page).is_ok_and(|info| info.empty == u8::MAX) {
        return Ok(());
    }
    let each = cost::OWNS_RUN + cost::of_program(worst);
    let sectors = (cost::TRANSACTION_MOST / each).clamp(1, SECTORS as u64) as usize;
    volume.examine(page, sectors).map_err(failure)?;
    Err(Error::Again.about(0))
}
