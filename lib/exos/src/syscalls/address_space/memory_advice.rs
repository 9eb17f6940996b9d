//! Calls by which a program says what it does with its memory, or asks how it lies: `madvise`, `msync`, `mincore`.

use super::memory::end_of;
use crate::descriptor::block_device;
use crate::hw::usercopy;
use crate::process::call::Call;
use crate::process::revocation;
use crate::procfs::truncate_notify::cut_mappings;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use linux_abi::address_map::{PAGE_SIZE, PROGRAM_END};
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use vm::madvise::Advice;
use vm::page_record::PageRecord;
use vm::vma::{Backing, Vma, VmaList};

pub(crate) fn madvise(call: &mut Call<'_>) -> Result<u64> {
    let [address, bytes, advice, ..] = call.arguments();
    let advice = Advice::from_argument(advice as u32)?;
    if !address.is_multiple_of(PAGE_SIZE) {
        return Err(Errno::EINVAL);
    }
    if bytes == 0 {
        return Ok(0);
    }
    // What is rounded up to nothing is too much.
    let end = end_of(address, bytes).filter(|end| *end > address).ok_or(Errno::EINVAL)?;
    let holes = call.process.with_memory(|space, pages| space.advise(pages, (address, end), advice))?;
    if matches!(advice, Advice::Free) {
        revocation::answer_open();
    }
    for (node, start, end) in holes {
        let mode = linux::FALLOC_FL_PUNCH_HOLE | linux::FALLOC_FL_KEEP_SIZE;
        let stale_mappings = call.process.files.lock().allocate(node, mode, start, end - start)?;
        cut_mappings(call.process, node, (start, end), false, stale_mappings)?;
    }
    Ok(0)
}

/// Memory and file are one; a file that a disk keeps is written.
pub(crate) fn msync(call: &mut Call<'_>) -> Result<u64> {
    let [address, bytes, flags, ..] = call.arguments();
    let known = linux::MS_ASYNC | linux::MS_INVALIDATE | linux::MS_SYNC;
    let both = linux::MS_ASYNC | linux::MS_SYNC;
    let is_wrong = flags as u32 & !known != 0 || flags as u32 & both == both;
    if is_wrong || !address.is_multiple_of(PAGE_SIZE) {
        return Err(Errno::EINVAL);
    }
    let end = end_of(address, bytes).ok_or(Errno::ENOMEM)?;
    let memory = call.process.memory.lock();
    let areas = &memory.space.areas;
    let is_locked = || areas.within(address, end).iter().any(|area| area.locked);
    if flags as u32 & linux::MS_INVALIDATE != 0 && is_locked() {
        return Err(Errno::EBUSY);
    }
    if !areas.cover(address, end) {
        return Err(Errno::ENOMEM);
    }
    let file = |area: Vma| match area.backing {
        Backing::File { node, .. } if area.shared => Some(node),
        _ => None,
    };
    let files: BTreeSet<u64> = areas.parts(address, end).filter_map(file).collect();
    drop(memory);
    if flags as u32 & linux::MS_SYNC == 0 {
        return Ok(0);
    }
    for node in files {
        match block_device::sync_file(node) {
            // Another thread has unmapped it meanwhile.
            Err(Errno::EBADF) => {}
            other => other?,
        }
    }
    Ok(0)
}

pub(crate) fn mincore(call: &mut Call<'_>) -> Result<u64> {
    let [address, bytes, to, ..] = call.arguments();
    if !address.is_multiple_of(PAGE_SIZE) {
        return Err(Errno::EINVAL);
    }
    let is_reached = |address: u64, bytes: u64| address.checked_add(bytes).is_some_and(|end| end <= PROGRAM_END);
    if !is_reached(address, bytes) {
        return Err(Errno::ENOMEM);
    }
    if !is_reached(to, bytes.div_ceil(PAGE_SIZE)) {
        return Err(Errno::EFAULT);
    }
    let end = end_of(address, bytes).ok_or(Errno::ENOMEM)?;
    let told = {
        let memory = call.process.memory.lock();
        if !memory.space.areas.cover(address, end) {
            return Err(Errno::ENOMEM);
        }
        in_memory(&memory.space.areas, &memory.space.frames, address, end)
    };
    usercopy::write(to, &told).map(|()| 0)
}

/// Of each page of a range whether it is in memory. Files always are.
fn in_memory(areas: &VmaList, frames: &PageRecord, start: u64, end: u64) -> Vec<u8> {
    let is_file = |address: u64| matches!(areas.find(address).map(|area| area.backing), Some(Backing::File { .. }));
    let is_there = |address: u64| u8::from(frames.get(address) != 0 || is_file(address));
    (start..end).step_by(PAGE_SIZE as usize).map(is_there).collect()
}
