//! Files of a process that are read and written in place: `/proc/PID/mem` and `/proc/PID/pagemap`.
//!
//! An offset in `mem` is an address. `pagemap` has eight bytes for each page. Of another process both are requests,
//! which the server permits as those of `process_vm_readv`.

use super::process_memory::{read_memory, write_memory};
use crate::descriptor::object::InPlace;
use crate::hw::usercopy;
use crate::process::current::process;
use crate::signal::remote_call;
use alloc::vec::Vec;
use linux_abi::address_map::{PAGE_SIZE, PROGRAM_END};
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use runtime::{PageNumber, exposed};
use unix_core::process::remote_request;
use vm::page_record::{FROM_FILE, SHARED, page_of};

/// Entries of `pagemap` that are asked for at once.
const ENTRIES_AT_ONCE: u64 = 8192;
/// Bits of an entry (Linux's `Documentation/admin-guide/mm/pagemap.rst`).
const PRESENT: u64 = 1 << 63;
const FILE_OR_SHARED: u64 = 1 << 61;
const EXCLUSIVE: u64 = 1 << 56;
const FRAME: u64 = (1 << 55) - 1;

/// A file that is open, and the process that it is about.
#[derive(Debug)]
pub(super) enum LiveFile {
    Memory(u64),
    PageMap(u64),
}

impl LiveFile {
    /// The file at a path below `/proc`, if it is one of them.
    pub(super) fn at(path: &[u8]) -> Option<Self> {
        let path = core::str::from_utf8(path).ok()?;
        let (number, name) = path.split_once('/')?;
        let name = match name.strip_prefix("task/") {
            Some(of_thread) => of_thread.split_once('/')?.1,
            None => name,
        };
        match (name, number.parse().ok()?) {
            ("mem", number) => Some(Self::Memory(number)),
            ("pagemap", number) => Some(Self::PageMap(number)),
            _ => None,
        }
    }
}

impl InPlace for LiveFile {
    fn read(&self, at: u64, to: u64, count: u64) -> Result<u64> {
        match self {
            Self::Memory(number) => of_mem(read_memory(*number, at, to, count)),
            Self::PageMap(number) => read_page_map(*number, at, to, count),
        }
    }

    fn write(&self, at: u64, from: u64, count: u64) -> Result<u64> {
        match self {
            Self::Memory(number) => of_mem(write_memory(*number, at, from, count)),
            Self::PageMap(_) => Err(Errno::EINVAL),
        }
    }
}

/// What Linux says where nothing is mapped, and of a process that has ended.
fn of_mem(outcome: Result<u64>) -> Result<u64> {
    match outcome {
        Err(Errno::EFAULT) => Err(Errno::EIO),
        Err(Errno::ESRCH) => Ok(0),
        other => other,
    }
}

fn read_page_map(number: u64, at: u64, to: u64, count: u64) -> Result<u64> {
    if !at.is_multiple_of(8) || !count.is_multiple_of(8) {
        return Err(Errno::EINVAL);
    }
    let last = PROGRAM_END / PAGE_SIZE;
    let (first, mut done) = (at / 8, 0);
    let end = first.saturating_add(count / 8).min(last);
    while first + done < end {
        let some = (end - first - done).min(ENTRIES_AT_ONCE);
        let entries = match number == process().number() {
            true => own_entries(first + done, some),
            false => {
                remote_call::request_bytes(number, remote_request::page_map_to_path(first + done, some).as_bytes())?
            }
        };
        if entries.is_empty() {
            break;
        }
        usercopy::write(to + done * 8, &shown(entries))?;
        done += some;
    }
    Ok(done * 8)
}

/// Entries as the reader may see them: numbers of pages are for who has `CAP_SYS_ADMIN`.
fn shown(mut entries: Vec<u8>) -> Vec<u8> {
    if !process().may(linux::CAP_SYS_ADMIN) {
        for entry in entries.as_chunks_mut::<8>().0 {
            *entry = (u64::from_le_bytes(*entry) & !FRAME).to_le_bytes();
        }
    }
    entries
}

/// Entries of this process, for a request from another one too.
pub(super) fn own_entries(first: u64, count: u64) -> Vec<u8> {
    let count = count.min(ENTRIES_AT_ONCE);
    let start = first.saturating_mul(PAGE_SIZE).min(PROGRAM_END);
    let end = start.saturating_add(count * PAGE_SIZE).min(PROGRAM_END);
    let mut words = alloc::vec![0; count as usize];
    let memory = process().memory.lock();
    for (address, entry) in memory.space.frames.within(start, end) {
        let page = page_of(entry);
        let mappings = exposed::page(PageNumber(page)).map_or(1, |info| info.references());
        let bits = [(true, PRESENT), (entry & (FROM_FILE | SHARED) != 0, FILE_OR_SHARED), (mappings <= 1, EXCLUSIVE)];
        let bits = bits.iter().filter(|(is, _)| *is).fold(page & FRAME, |all, (_, bit)| all | bit);
        words[((address - start) / PAGE_SIZE) as usize] = bits;
    }
    words.iter().flat_map(|word: &u64| word.to_le_bytes()).collect()
}
