//! Memory of processes, read and written by other ones: `process_vm_readv`, `process_vm_writev` and `/proc/PID/mem`.
//!
//! The library of the process that has the memory copies it, as an answer to a request that the server permits.

use crate::budget;
use crate::hw::usercopy;
use crate::process::current::process;
use crate::signal::remote_call;
use alloc::vec::Vec;
use linux_abi::address_map::{PAGE_MASK, PAGE_SIZE};
use linux_abi::errno::{Errno, Result};
use unix_core::process::remote_request;
use vm::vma::{Backing, Protection};

/// Bytes that one request carries, or one answer.
pub(crate) const AT_ONCE: u64 = remote_request::MOST_STORED;
/// Pages of budget that a change of an area takes at most.
const FOR_AN_AREA: u64 = 16;

/// Has the library of another process do something to its memory.
fn ask(number: u64, request: &[u8]) -> Result<Vec<u8>> {
    remote_call::request_bytes(number, request)
        .map_err(|error| if error == Errno::EACCES { Errno::EPERM } else { error })
}

/// Bytes of another process's memory, as many as it can read; `forced`: whatever their protection.
pub(crate) fn fetch(number: u64, address: u64, bytes: u64, forced: bool) -> Result<Vec<u8>> {
    ask(number, remote_request::memory_to_path(address, bytes, forced).as_bytes())
}

/// Has another process put bytes into its memory: how many it did.
pub(crate) fn store(number: u64, address: u64, forced: bool, contents: &[u8]) -> Result<u64> {
    let told = ask(number, &remote_request::store_to_bytes(address, forced, contents))?;
    let written = told.try_into().map(u64::from_le_bytes).map_err(|_| Errno::EIO)?;
    Ok(written.min(contents.len() as u64))
}

/// As many bytes as can be read, from the first on.
pub(crate) fn read_own(address: u64, bytes: u64) -> Result<Vec<u8>> {
    let bytes = usercopy::prepare(address, bytes, false)?;
    usercopy::read_vec(address, bytes as usize)
}

pub(crate) fn write_own(address: u64, contents: &[u8]) -> Result<u64> {
    let bytes = usercopy::prepare(address, contents.len() as u64, true)?;
    usercopy::write(address, &contents[..bytes as usize])?;
    Ok(bytes)
}

/// Reads memory of a process whatever its protection: `/proc/PID/mem`.
///
/// # Errors
/// `EFAULT` where the first byte is not mapped; as for a request to another process.
pub(super) fn read_memory(number: u64, address: u64, to: u64, count: u64) -> Result<u64> {
    let mut done = 0;
    while done < count {
        let (at, bytes) = (address.wrapping_add(done), (count - done).min(AT_ONCE));
        let told = match number == process().number() {
            true => peek(at, bytes),
            false => fetch(number, at, bytes, true),
        };
        match told {
            Ok(told) => {
                usercopy::write(to + done, &told)?;
                done += told.len() as u64;
            }
            Err(error) if done == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(done)
}

/// Writes memory of a process whatever its protection, unless it is shared: `/proc/PID/mem`.
///
/// # Errors
/// As for [`read_memory`].
pub(super) fn write_memory(number: u64, address: u64, from: u64, count: u64) -> Result<u64> {
    let mut done = 0;
    while done < count {
        let (at, bytes) = (address.wrapping_add(done), (count - done).min(AT_ONCE));
        let contents = usercopy::read_vec(from + done, bytes as usize)?;
        let written = match number == process().number() {
            true => poke(at, &contents),
            false => store(number, at, true, &contents),
        };
        match written {
            Ok(written) => done += written,
            Err(error) if done == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(done)
}

/// As many bytes as are mapped, from the first on: where they cannot be read, those of one page.
fn peek(address: u64, bytes: u64) -> Result<Vec<u8>> {
    match read_own(address, bytes) {
        Err(Errno::EFAULT) => forced(address, bytes, false, |bytes| usercopy::read_vec(address, bytes as usize)),
        told => told,
    }
}

/// The same for a write.
fn poke(address: u64, contents: &[u8]) -> Result<u64> {
    match write_own(address, contents) {
        Err(Errno::EFAULT) => forced(address, contents.len() as u64, true, |bytes| {
            usercopy::write(address, &contents[..bytes as usize])?;
            Ok(bytes)
        }),
        written => written,
    }
}

/// Does something to bytes of one page that the program may not read, or write. Meanwhile its other threads may, too.
fn forced<T>(address: u64, bytes: u64, write: bool, action: impl FnOnce(u64) -> Result<T>) -> Result<T> {
    let page = address & PAGE_MASK;
    let end = page.checked_add(PAGE_SIZE).ok_or(Errno::EFAULT)?;
    budget::reserve_or_fail(FOR_AN_AREA)?;
    let more = if write { Protection::READ_WRITE } else { Protection::READ };
    let protect = |protection: Protection| {
        process().with_memory(|space, pages| {
            let area = *space.areas.find(page).ok_or(Errno::EFAULT)?;
            if area.backing == Backing::Nothing || write && (area.shared || area.backing == Backing::Zeros) {
                return Err(Errno::EFAULT);
            }
            space.protect(pages, page, end, protection)
        })
    };
    let before = process().with_memory(|space, _| space.areas.find(page).map(|area| area.protection));
    let before = before.ok_or(Errno::EFAULT)?;
    protect(Protection(before.0 | more.0))?;
    let done = action(bytes.min(end - address));
    let restored = protect(before);
    done.and_then(|done| restored.map(|()| done))
}

/// What another process asks that may look into this one.
pub(super) fn answer(request: &[u8]) -> Result<Vec<u8>> {
    let text = core::str::from_utf8(request).ok();
    if let Some((address, bytes, forced)) = text.and_then(remote_request::memory_from_path) {
        let bytes = bytes.min(AT_ONCE);
        return if forced { peek(address, bytes) } else { read_own(address, bytes) };
    }
    let (address, forced, contents) = remote_request::store_from_bytes(request).ok_or(Errno::EINVAL)?;
    let written = if forced { poke(address, contents) } else { write_own(address, contents) };
    Ok(written?.to_le_bytes().to_vec())
}
