//! Transfers between a disk and pages of the running environment, by `device_submit`.

use crate::hw::mapping::Mapping;
use abi::device::operation::{FLUSH, KEY_SHIFT, MORE, READ, WRITE};
use abi::device::{DeviceInfo, TransferRow, feature, kind};
use abi::limits::PAGE_SIZE;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Acquire;
use runtime::{Failure, KeyIndex, PageNumber, UserAddress, exposed, syscall};

/// The slot in which an environment that may use disks finds the key for all of them.
pub const DISK_KEY: KeyIndex = KeyIndex(6);

/// What is transferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the disk.
    Read,
    /// To the disk.
    Write,
    /// Nothing: acknowledged writes become durable.
    Flush,
}

/// A disk of the machine: index of the device, and its record.
pub fn find(number: u64) -> Option<(u64, &'static DeviceInfo)> {
    exposed::device(kind::DISK, number)
}

/// Bytes of a disk; 0 where there is none.
pub fn capacity(number: u64) -> u64 {
    find(number).map_or(0, |(_, info)| info.capacity.load(Acquire))
}

/// Whether a disk cannot be written.
pub fn is_read_only(number: u64) -> bool {
    find(number).is_some_and(|(_, info)| info.features.load(Acquire) & feature::READ_ONLY != 0)
}

/// Whether writes need a flush to be durable.
pub fn has_cache(number: u64) -> bool {
    find(number).is_some_and(|(_, info)| info.features.load(Acquire) & feature::FLUSH != 0)
}

/// Submits a transfer of `bytes` at `place` of a disk, out of or into `buffer` from `start` on. `status` is the page
/// and the index of the word that says when it has ended; it must hold 0.
///
/// # Errors
/// The kernel's refusals; then nothing was submitted.
pub fn submit(
    disk: u64,
    direction: Direction,
    (place, bytes): (u64, u64),
    (buffer, start): (&Mapping, u64),
    status: (PageNumber, u64),
) -> Result<(), Failure> {
    let operation = KeyIndex::FIRST.0 << KEY_SHIFT
        | match direction {
            Direction::Read => READ,
            Direction::Write => WRITE,
            Direction::Flush => FLUSH,
        };
    let mut rows = Vec::new();
    let mut done = 0;
    while done < bytes {
        let at = start + done;
        let within = at % PAGE_SIZE;
        let length = (PAGE_SIZE - within).min(bytes - done);
        let page = buffer.pages()[(at / PAGE_SIZE) as usize];
        rows.push(TransferRow {
            operation: operation | if done + length < bytes { MORE } else { 0 },
            memory: TransferRow::piece(page, within, length),
            ..TransferRow::default()
        });
        done += length;
    }
    if direction == Direction::Flush {
        rows.push(TransferRow { operation, ..TransferRow::default() });
    }
    request(disk, rows, if direction == Direction::Flush { 0 } else { place }, status)
}

/// Submits a read of neighbouring blocks from `place` on into whole pages, which a key opens, as it does the page of
/// the status word.
///
/// # Errors
/// As for [`submit`].
pub fn read_pages(
    disk: u64,
    place: u64,
    (pages, key): (&[PageNumber], KeyIndex),
    status: (PageNumber, u64),
) -> Result<(), Failure> {
    let row = |(index, page): (usize, &PageNumber)| TransferRow {
        operation: key.0 << KEY_SHIFT | READ | if index + 1 < pages.len() { MORE } else { 0 },
        memory: TransferRow::piece(*page, 0, PAGE_SIZE),
        ..TransferRow::default()
    };
    request(disk, pages.iter().enumerate().map(row).collect(), place, status)
}

/// Submits the rows of one request.
fn request(disk: u64, mut rows: Vec<TransferRow>, place: u64, status: (PageNumber, u64)) -> Result<(), Failure> {
    let device = find(disk).map_or(u64::MAX, |(device, _)| device);
    if let Some(first) = rows.first_mut() {
        (first.place, first.status) = (place, TransferRow::word(status.0, status.1));
    }
    // SAFETY: the kernel reads the rows; a device writes into pages of windows, which are atomic words.
    unsafe { syscall::device_submit(DISK_KEY, device, 0, UserAddress(rows.as_ptr() as u64), rows.len() as u64) }
        .map(|_| ())
}
