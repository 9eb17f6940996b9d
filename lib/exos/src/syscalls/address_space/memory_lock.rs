//! Calls on memory that is locked: `mlock` and its relatives.

use super::memory::end_of;
use crate::process::Process;
use crate::process::call::Call;
use linux_abi::address_map::{PAGE_MASK, PAGE_SIZE};
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;

/// Bytes that the process may lock.
pub(crate) fn most_locked(process: &Process) -> u64 {
    if process.may(linux::CAP_IPC_LOCK) {
        u64::MAX
    } else {
        process.attributes.limits.lock().soft(linux::RLIMIT_MEMLOCK)
    }
}

/// The pages that hold a range.
fn pages_of(address: u64, bytes: u64) -> Result<(u64, u64)> {
    let start = address & PAGE_MASK;
    end_of(start, bytes.wrapping_add(address % PAGE_SIZE)).map(|end| (start, end)).ok_or(Errno::EINVAL)
}

fn lock(call: &Call<'_>, address: u64, bytes: u64, at_once: bool) -> Result<u64> {
    let most = most_locked(call.process);
    if most == 0 {
        return Err(Errno::EPERM);
    }
    let range = pages_of(address, bytes)?;
    call.process.with_memory(|space, pages| space.lock(pages, range, most, at_once)).map(|()| 0)
}

pub(crate) fn mlock(call: &mut Call<'_>) -> Result<u64> {
    let [address, bytes, ..] = call.arguments();
    lock(call, address, bytes, true)
}

pub(crate) fn mlock2(call: &mut Call<'_>) -> Result<u64> {
    let [address, bytes, flags, ..] = call.arguments();
    match flags as u32 {
        0 | linux::MLOCK_ONFAULT => lock(call, address, bytes, flags == 0),
        _ => Err(Errno::EINVAL),
    }
}

pub(crate) fn munlock(call: &mut Call<'_>) -> Result<u64> {
    let [address, bytes, ..] = call.arguments();
    let (start, end) = pages_of(address, bytes)?;
    call.process.with_memory(|space, pages| space.unlock(pages, start, end)).map(|()| 0)
}

pub(crate) fn mlockall(call: &mut Call<'_>) -> Result<u64> {
    let [flags, ..] = call.arguments();
    let [now, later, on_fault] =
        [linux::MCL_CURRENT, linux::MCL_FUTURE, linux::MCL_ONFAULT].map(|flag| flags as u32 & flag != 0);
    if !(now || later) || flags as u32 & !(linux::MCL_CURRENT | linux::MCL_FUTURE | linux::MCL_ONFAULT) != 0 {
        return Err(Errno::EINVAL);
    }
    let most = most_locked(call.process);
    if most == 0 {
        return Err(Errno::EPERM);
    }
    call.process.with_memory(|space, pages| {
        if now && space.areas.bytes() > most {
            return Err(Errno::ENOMEM);
        }
        space.locks_new = later;
        if now {
            space.lock_all(pages, true, !on_fault);
        }
        Ok(0)
    })
}

pub(crate) fn munlockall(call: &mut Call<'_>) -> Result<u64> {
    call.process.with_memory(|space, pages| {
        space.locks_new = false;
        space.lock_all(pages, false, false);
    });
    Ok(0)
}
