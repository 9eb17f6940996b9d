//! What the rows of storage take at their worst, alone and 64 to a batch.

use crate::program::{DATA, FIRST_ENTRY, HEAVY};
use crate::volume::{KEY, disk, flush, info, modify, on_a_volume, once, run, settled};
use abi::limits::{BATCH_ROWS, PAGE_SIZE};
use abi::storage::{ChangeRow, DeclaredRow, ROOT, TransactionSpecification, action, state, step};
use abi::syscall::{BatchRow, number};
use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Acquire;
use runtime::{Error, Failure, UserAddress, channel, clock, exposed, syscall};
use test_programs::{Outcome, World, check, granted, refused};
use xn::format::SECTOR_SIZE;

/// First block of those that the entries claim: eight each, sixteen entries.
const CLAIMED: u64 = 512;
const SECTORS: usize = 4;
const ENTRIES: usize = 4;
const EACH: u64 = 8;

static BUFFER: [AtomicU64; 512] = [const { AtomicU64::new(0) }; 512];

fn row(number: u64, arguments: [u64; 5]) -> BatchRow {
    let mut row = BatchRow { number, ..BatchRow::default() };
    row.arguments[..5].copy_from_slice(&arguments);
    row
}

/// Runs the first row alone and the others in as many batches as the kernel wants: none may be refused.
fn measure(name: &str, rows: &[BatchRow]) -> Outcome {
    let alone = run_all(name, &rows[..1])?.0;
    let (dearest, batches) = run_all(name, &rows[1..])?;
    channel::measurement(&format!("{name}, alone"), alone, "instructions");
    channel::measurement(&format!("{name}, the dearest of {batches} batches"), dearest, "instructions");
    Ok(())
}

fn run_all(name: &str, rows: &[BatchRow]) -> Result<(u64, u64), alloc::string::String> {
    let (mut done, mut dearest, mut batches) = (0, 0, 0);
    while done < rows.len() {
        let mut some: Vec<BatchRow> = rows[done..(done + BATCH_ROWS).min(rows.len())].to_vec();
        let before = clock::ticks();
        // SAFETY: the rows copy into and out of the buffer.
        let outcome = unsafe { syscall::batch(UserAddress(some.as_mut_ptr() as u64), some.len() as u64) };
        dearest = dearest.max(clock::ticks() - before);
        done += match outcome {
            Ok(count) => count as usize,
            Err(failure) if failure.error == Error::Again => failure.detail as usize,
            Err(failure) => return Err(format!("{name}: {failure:?}")),
        };
        batches += 1;
    }
    Ok((dearest, batches))
}

/// A transaction that changes these sectors and shows so many blocks. With `what`, the four entries of the first sector
/// come or go, with eight blocks each; the others change in bytes that own nothing.
fn change(sectors: Range<usize>, shown: u32, what: Option<u32>) -> TransactionSpecification {
    let mut wanted = TransactionSpecification::EMPTY;
    let first = sectors.start;
    wanted.shown = [1; 16];
    let (mut count, mut at) = (0, 0);
    for sector in sectors {
        let owns = sector == first && what.is_some();
        let length = if owns { 8 * ENTRIES } else { 8 };
        let within = if owns { FIRST_ENTRY } else { FIRST_ENTRY + 8 * ENTRIES };
        let offset = (sector * SECTOR_SIZE + within) as u16;
        wanted.changes[count] = ChangeRow { frame: 1, offset, length: length as u16 };
        for entry in 0..ENTRIES as u64 {
            let block = CLAIMED + EACH * (ENTRIES as u64 * sector as u64 + entry);
            if owns && what == Some(action::ALLOCATE) {
                let bytes = (block | u64::from(DATA) << 56).to_le_bytes();
                wanted.bytes[at + 8 * entry as usize..][..8].copy_from_slice(&bytes);
            }
        }
        (count, at) = (count + 1, at + length);
    }
    let action = what.map(|what| what | u32::from(DATA) << 8);
    for (index, (range, action)) in wanted.declared.iter_mut().zip(action.into_iter().cycle().take(2)).enumerate() {
        let block = CLAIMED + EACH * (ENTRIES * first + ENTRIES / 2 * index) as u64;
        *range = DeclaredRow { first: block, count: 16, action };
    }
    wanted.counts = [shown, count as u32, if what.is_some() { 2 } else { 0 }];
    wanted
}

/// The dearest transactions that are accepted; dearer ones are refused.
fn transactions() -> Outcome {
    for (name, sectors, shown, owns) in [
        ("32 blocks in one sector", 0..1, 0, true),
        ("four sectors", 0..4, 0, false),
        ("three shown blocks", 0..1, 3, false),
    ] {
        let pair = [action::ALLOCATE, action::FREE].map(|what| change(sectors.clone(), shown, owns.then_some(what)));
        let rows = pair
            .each_ref()
            .map(|wanted| row(number::block_modify, [KEY.0, core::ptr::from_ref(wanted) as u64, 0, 0, 0]));
        let many: Vec<_> = rows.into_iter().cycle().take(66).collect();
        measure(&format!("block_modify, {name}"), &many)?;
    }
    for (sectors, shown, what) in [(0..1, 16, None), (0..2, 0, Some(action::ALLOCATE))] {
        refused!(modify(KEY, &change(sectors, shown, what)), TooMany);
    }
    (0..SECTORS)
        .try_for_each(|sector| Ok(granted!(modify(KEY, &change(sector..sector + 1, 0, Some(action::ALLOCATE))))))
}

/// Frames that hold data blocks, and what each row about them takes.
fn rows_of_data(count: u64) -> Outcome {
    let (data, buffer) = (2..2 + count, BUFFER.as_ptr() as u64);
    let bound = |frame: u64| {
        let child = frame - 2;
        row(number::block_bind, [KEY.0, 1, child / (EACH * ENTRIES as u64), CLAIMED + child, frame])
    };
    measure("block_bind of a fresh block", &data.clone().map(bound).collect::<Vec<_>>())?;
    for (name, call) in [("block_read", number::block_read), ("block_write", number::block_write)] {
        let copy = |frame| row(call, [KEY.0, frame, 0, buffer, PAGE_SIZE]);
        measure(name, &data.clone().map(copy).collect::<Vec<_>>())?;
    }
    // The disk takes a number of requests at a time.
    let submit = |frame| row(number::block_submit, [KEY.0, frame, 0, 0, 0]);
    for first in data.clone().step_by(17) {
        let some: Vec<_> = (first..(first + 17).min(data.end)).map(submit).collect();
        measure("block_submit", &some)?;
        check!((first..(first + 17).min(data.end)).all(settled), "a block does not come to an end");
    }
    flush()?;
    fresh_metadata()?;
    let release = |frame| row(number::block_release, [KEY.0, frame, 0, 0, 0]);
    measure("block_release", &data.clone().map(release).collect::<Vec<_>>())?;
    for first in data.clone().step_by(17) {
        let some: Vec<_> = (first..(first + 17).min(data.end)).map(bound).collect();
        measure("block_bind of a block on the disk", &some)?;
        check!((first..(first + 17).min(data.end)).all(settled), "a block does not come to an end");
    }
    measure("block_release", &data.map(release).collect::<Vec<_>>())
}

/// Writes the block of metadata, whose eight checksums are all to be made.
fn fresh_metadata() -> Outcome {
    let (mut dearest, mut calls) = (0, 0);
    loop {
        let before = clock::ticks();
        let outcome = syscall::block_submit(KEY, 1);
        dearest = dearest.max(clock::ticks() - before);
        calls += 1;
        match outcome {
            Err(Failure { error: Error::Again, .. }) => {}
            outcome => break granted!(outcome),
        }
    }
    channel::measurement(&format!("block_submit of metadata, the dearest of {calls}"), dearest, "instructions");
    check!(settled(1), "the block does not come to an end");
    flush()
}

pub(crate) fn fault_153_rows_of_storage_64_to_a_batch(_: &World) -> Outcome {
    on_a_volume(|_| {
        granted!(run(step::TEMPLATE, HEAVY.into(), 0));
        let tree = granted!(once(KEY, step::CREATE, 300, HEAVY.into()));
        check!(granted!(syscall::block_bind(KEY, ROOT | tree, 0, 0, 1)) == 0, "a fresh block was read");
        transactions()?;
        let frames = exposed::kernel().frames.load(Acquire);
        rows_of_data(65.min(frames - 2))?;
        let state = row(number::volume_step, [KEY.0, disk()?, step::STATE, 0, 0]);
        measure("volume_step that looks at the state", &[state; 65])?;
        check!(info(1).state.load(Acquire) & state::RESIDENT != 0, "the root is gone");
        Ok(())
    })
}
