//! The rows of the kernel's XN, for the environment that holds the key of all disks.

use crate::hw::disk::{DISK_KEY, find, has_cache};
use crate::hw::plain_wait::wait_plainly;
use abi::device::DeviceInfo;
use abi::limits::TRANSACTION_BYTES;
use abi::memory_map::EXPOSED_BLOCKS;
use abi::storage::{
    BlockInfo, ChangeRow, DeclaredRow, FLUSH, PROGRAM, ROOT, TransactionSpecification, UNDECLARED, action, phase,
    state, step,
};
use core::sync::atomic::Ordering::Acquire;
use runtime::predicate::{Operator, Term, clock, word};
use runtime::{Error, Failure, UserAddress, exposed, syscall};
use xn::error::{Error as Xn, Result as XnResult};
use xn::format::{BLOCK_SIZE, Block};
use xn::transaction::{Action, Transaction};

/// Nanoseconds before a call that finds no room is repeated; each pause is twice as long as the one before, seven
/// times.
const PAUSE: u64 = 20_000;
/// Nanoseconds after which a waiter looks again at a frame in transit.
const LONGEST: u64 = 1_000_000_000;
/// The frame is in transit.
const MOVING: u32 = state::IN | state::OUT;

/// The records of frames; empty where the machine has none.
pub fn frames() -> &'static [BlockInfo] {
    let count = exposed::kernel().frames.load(Acquire) as usize;
    // SAFETY: the kernel exposes so many records there, for ever, where it has any frames; they are atomic words.
    if count == 0 { &[] } else { unsafe { core::slice::from_raw_parts(EXPOSED_BLOCKS as *const BlockInfo, count) } }
}

/// Waits until a frame is in no transfer.
pub fn settle(frame: usize) {
    let Some(info) = frames().get(frame) else { return };
    while info.state.load(Acquire) & MOVING != 0 {
        let source = core::ptr::from_ref(&info.state) as u64;
        wait(Some(Term { source, operation: Operator::Equal as u64, mask: MOVING.into(), value: 0 }), LONGEST);
    }
}

fn pause(before: &mut u32) {
    wait(None, PAUSE << (*before).min(7));
    *before += 1;
}

/// Waits for a term, so many nanoseconds at most.
fn wait(term: Option<Term>, most: u64) {
    let later = clock(runtime::clock::now() + most);
    wait_plainly(&mut [term.unwrap_or(later), later]);
}

/// One call of a step.
fn once(disk: u64, step: u64, argument: u64, more: u64) -> Result<u64, Failure> {
    let device = find(disk).map_or(u64::MAX, |(device, _)| device);
    // SAFETY: none of the steps that this file names reads or writes memory of the caller.
    unsafe { syscall::volume_step(DISK_KEY, device, step, argument, more) }
}

/// A step to its end. Where the disk has requests, the step is repeated when one of them ends, otherwise at once.
fn run(disk: u64, step: u64, argument: u64) -> Result<u64, Failure> {
    let info = find(disk).map(|(_, info)| info);
    let mut pauses = 0;
    loop {
        let seen = info.map(|info| (info, info.completed.load(Acquire)));
        match (once(disk, step, argument, 0), seen) {
            (Err(Failure { error: Error::Again | Error::Busy, .. }), Some((info, seen))) if has_requests(info) => {
                wait(Some(word(&info.completed, Operator::NotEqual, seen)), LONGEST);
            }
            (Err(Failure { error: Error::Again, .. }), _) => {}
            (Err(Failure { error: Error::Busy, .. }), _) => pause(&mut pauses),
            (outcome, _) => return outcome,
        }
    }
}

fn has_requests(info: &DeviceInfo) -> bool {
    info.room.load(Acquire) & u64::from(u32::MAX) != info.depth.load(Acquire)
}

/// Opens the closed volume of a disk for writing, with so many templates.
///
/// # Errors
/// The kernel's refusals; then the volume is closed again.
pub fn open(disk: u64, templates: u8) -> Result<(), Failure> {
    let regions = run(disk, step::OPEN, 0)?.div_ceil(xn::format::REGION_BLOCKS);
    let opened = (0..u64::from(templates))
        .try_for_each(|slot| run(disk, step::TEMPLATE, slot).map(drop))
        .and_then(|()| (0..regions).try_for_each(|region| run(disk, step::MAP, region).map(drop)))
        .and_then(|()| run(disk, step::START, 0).map(drop));
    if opened.is_err() {
        let _ = run(disk, step::CLOSE, 0);
    }
    opened
}

/// Makes the volume of a disk clean and closes it.
///
/// # Errors
/// The kernel's refusals: the volume stays open.
pub fn close(disk: u64) -> Result<(), Failure> {
    run(disk, step::STOP, 0)?;
    run(disk, step::CLOSE, 0).map(drop)
}

/// The tree of a root.
pub fn mount(disk: u64, root: u64) -> XnResult<u64> {
    run(disk, step::MOUNT, root).map_err(told)
}

/// Flushes the disk of a volume and awaits that.
pub fn flush(disk: u64) -> XnResult<()> {
    let completed = find(disk).map(|(_, info)| &info.completed);
    let count = || completed.map_or(0, |count| count.load(Acquire));
    // A disk without a cache has no flush to wait for.
    let mut seen = if has_cache(disk) { count() } else { u64::MAX };
    let number = run(disk, step::FLUSH, 0).map_err(told)?;
    loop {
        // The next request that ends may be it.
        if let Some(completed) = completed.filter(|_| count() == seen) {
            wait(Some(word(completed, Operator::NotEqual, seen)), LONGEST);
        }
        seen = count();
        let now = run(disk, step::STATE, 0).map_err(told)?;
        if now & 0xff == phase::FAILED {
            return Err(Xn::Failed(0));
        }
        if now >> 8 >= number {
            return Ok(());
        }
    }
}

/// Frees the blocks of a record of the ledger.
pub fn reclaim(disk: u64, record: u64) -> XnResult<()> {
    once(disk, step::RECLAIM, record, 0).map(drop).map_err(told)
}

/// Binds a frame to a block of a sector of the block in frame `parent`, or to the root of a tree.
pub fn bind(parent: Result<(usize, usize), u64>, block: u64, frame: usize) -> XnResult<()> {
    let (parent, sector) = match parent {
        Ok((frame, sector)) => (frame as u64, sector as u64),
        Err(tree) => (ROOT | tree, 0),
    };
    syscall::block_bind(DISK_KEY, parent, sector, block, frame as u64).map(drop).map_err(told)
}

/// Copies a block out of its frame.
pub fn read(frame: usize, bytes: &mut Block) -> XnResult<()> {
    let to = UserAddress(bytes.as_mut_ptr() as u64);
    // SAFETY: the bytes are the caller's to write.
    unsafe { syscall::block_read(DISK_KEY, frame as u64, 0, to, BLOCK_SIZE as u64) }.map_err(told)
}

/// Copies bytes into a frame.
pub fn write(frame: usize, offset: usize, bytes: &[u8]) -> XnResult<()> {
    let from = UserAddress(bytes.as_ptr() as u64);
    // SAFETY: the kernel reads the bytes.
    unsafe { syscall::block_write(DISK_KEY, frame as u64, offset as u64, from, bytes.len() as u64) }.map_err(told)
}

/// Begins to write a frame to the disk.
pub fn submit(frame: usize) -> XnResult<()> {
    let mut pauses = 0;
    loop {
        match syscall::block_submit(DISK_KEY, frame as u64) {
            Err(Failure { error: Error::Exhausted, .. }) => pause(&mut pauses),
            Err(Failure { error: Error::Again, .. }) => {}
            outcome => return outcome.map_err(told),
        }
    }
}

/// Empties a frame.
pub fn release(frame: usize) -> XnResult<()> {
    syscall::block_release(DISK_KEY, frame as u64).map_err(told)
}

/// Changes metadata.
pub fn modify(transaction: &Transaction<'_>) -> XnResult<()> {
    let wanted = specification(transaction).ok_or(Xn::BadArgument)?;
    // SAFETY: the kernel reads the transaction.
    unsafe { syscall::block_modify(DISK_KEY, UserAddress(core::ptr::from_ref(&wanted) as u64)) }.map_err(told)
}

/// The transaction in the form of the kernel; none where it does not fit.
fn specification(transaction: &Transaction<'_>) -> Option<TransactionSpecification> {
    let mut wanted = TransactionSpecification::EMPTY;
    let counts = [transaction.shown.len(), transaction.changes.len(), transaction.declared.len()];
    wanted.counts = counts.map(|count| count as u32);
    let fits = counts[0] <= wanted.shown.len() && counts[1] <= wanted.changes.len();
    if !fits || counts[2] > wanted.declared.len() {
        return None;
    }
    wanted.shown.iter_mut().zip(transaction.shown).for_each(|(row, page)| *row = *page as u32);
    let mut at = 0;
    for (row, change) in wanted.changes.iter_mut().zip(transaction.changes) {
        let end = at + change.bytes.len();
        *row = ChangeRow { frame: change.page as u32, offset: change.offset as u16, length: change.bytes.len() as u16 };
        wanted.bytes.get_mut(at..end.min(TRANSACTION_BYTES))?.get_mut(..end - at)?.copy_from_slice(change.bytes);
        at = end;
    }
    for (row, range) in wanted.declared.iter_mut().zip(transaction.declared) {
        let what = match range.action {
            Action::Allocate => action::ALLOCATE,
            Action::Free => action::FREE,
            Action::Retype => action::RETYPE,
            Action::Attach => action::ATTACH,
        };
        let template = u32::from(range.template) << 8;
        *row = DeclaredRow { first: range.first, count: range.count as u32, action: what | template };
    }
    Some(wanted)
}

/// The kernel's refusal, as XN says it.
fn told(failure: Failure) -> Xn {
    let detail = failure.detail;
    match failure.error {
        Error::Unready if detail & FLUSH != 0 => Xn::Unflushed(detail ^ FLUSH),
        Error::Unready => Xn::Unready(detail),
        Error::Damaged => Xn::Damaged(detail),
        Error::Failed => Xn::Failed(detail),
        Error::Busy => Xn::Busy(detail),
        Error::NotFree => Xn::NotFree(detail),
        Error::Absent => Xn::Absent(detail),
        Error::InUse => Xn::InUse(detail),
        Error::NotPermitted => Xn::NotPermitted,
        Error::Exhausted => Xn::Exhausted,
        Error::OverBudget => Xn::OverBudget,
        Error::Again => Xn::Again(detail),
        Error::BadArgument if detail & UNDECLARED != 0 => Xn::Undeclared(detail ^ UNDECLARED),
        Error::BadArgument if detail & PROGRAM != 0 => Xn::Program(detail as u8),
        _ => Xn::BadArgument,
    }
}
