//! Calls on memory.

use super::dispatch::Call;
use crate::descriptor::object::{Device, Object};
use crate::errno::{Errno, Result};
use crate::guardian::handle::{is_executable, mapped};
use crate::layout::{CHOSEN_END, PAGE_SIZE, PROGRAM_END, page_up};
use crate::memory::area::{Area, Areas, Backing, Protection};
use crate::memory::space::rounded;
use crate::user_memory::copy;
use alloc::vec::Vec;
use linux_raw_sys::general as linux;

pub(super) fn brk(call: &mut Call<'_>) -> Result<u64> {
    let [wanted, ..] = call.arguments();
    Ok(call.process.with_memory(|space, pages| space.move_brk(pages, wanted)))
}

pub(super) fn mmap(call: &mut Call<'_>) -> Result<u64> {
    let [address, bytes, protection, flags, number, offset] = call.arguments();
    let bytes = rounded(bytes)?;
    let protection = Protection::from_argument(protection)?;
    let flags = flags as u32;
    let shared = match flags & linux::MAP_TYPE {
        linux::MAP_PRIVATE => false,
        linux::MAP_SHARED | linux::MAP_SHARED_VALIDATE => true,
        _ => return Err(Errno::EINVAL),
    };
    if !offset.is_multiple_of(PAGE_SIZE) || offset.checked_add(bytes).is_none() {
        return Err(Errno::EINVAL);
    }
    let backing = if flags & linux::MAP_ANONYMOUS != 0 {
        Backing::Anonymous
    } else {
        backing(call, number, offset, shared, protection)?
    };
    // One hold of the lock: another thread must not be given the same place.
    call.process.with_memory(|space, pages| {
        let start = place(&space.areas, address, bytes, flags)?;
        let area = Area { shared, backing, ..Area::anonymous(start, start + bytes, protection) };
        let replaced: u64 = space.areas.within(start, start + bytes).iter().map(|old| old.end - old.start).sum();
        space.check_room(&area, bytes - replaced)?;
        space.map(pages, area)?;
        Ok(start)
    })
}

fn backing(call: &Call<'_>, number: u64, offset: u64, shared: bool, protection: Protection) -> Result<Backing> {
    let description = call.process.description(number)?;
    if !description.can_read() {
        return Err(Errno::EACCES);
    }
    match description.object {
        Object::File { .. } if shared && protection.allows(Protection::WRITE) && !description.can_write() => {
            Err(Errno::EACCES)
        }
        Object::File { node } if protection.allows(Protection::EXECUTE) && !is_executable(node) => Err(Errno::EPERM),
        Object::File { node } if shared && description.can_write() => {
            const NO_WRITES: u32 = linux::F_SEAL_WRITE | linux::F_SEAL_FUTURE_WRITE;
            let is_sealed = call.process.files.lock().seal(node, None)? & u64::from(NO_WRITES) != 0;
            match is_sealed {
                true if protection.allows(Protection::WRITE) => Err(Errno::EPERM),
                true => Ok(Backing::File { node, offset, writable: false }),
                false => Ok(Backing::File { node: mapped(node), offset, writable: true }),
            }
        }
        Object::File { node } => Ok(Backing::File { node, offset, writable: description.can_write() }),
        Object::Device(Device::Zero, _) => Ok(Backing::Anonymous),
        _ => Err(Errno::ENODEV),
    }
}

/// Where a new area goes: where the program insists, where it would like, or where there is room.
fn place(areas: &Areas, address: u64, bytes: u64, flags: u32) -> Result<u64> {
    let fits = address.checked_add(bytes).is_some_and(|end| end <= PROGRAM_END);
    if flags & (linux::MAP_FIXED | linux::MAP_FIXED_NOREPLACE) != 0 {
        if !address.is_multiple_of(PAGE_SIZE) {
            return Err(Errno::EINVAL);
        }
        if !fits {
            return Err(Errno::ENOMEM);
        }
        let replaces = flags & linux::MAP_FIXED_NOREPLACE == 0;
        return if replaces || areas.is_free(address, address + bytes) { Ok(address) } else { Err(Errno::EEXIST) };
    }
    let wish = address & crate::layout::PAGE_MASK;
    let granted = wish >= crate::layout::LEAST_ADDRESS && wish.checked_add(bytes).is_some_and(|end| end <= CHOSEN_END);
    if granted && areas.is_free(wish, wish + bytes) {
        return Ok(wish);
    }
    areas.find_place(bytes)
}

pub(super) fn munmap(call: &mut Call<'_>) -> Result<u64> {
    let [address, bytes, ..] = call.arguments();
    let end = range(address, bytes)?;
    if end == address {
        return Err(Errno::EINVAL);
    }
    call.process.with_memory(|space, pages| space.unmap(pages, address, end))?;
    Ok(0)
}

pub(super) fn mprotect(call: &mut Call<'_>) -> Result<u64> {
    let [address, bytes, protection, ..] = call.arguments();
    let end = range(address, bytes)?;
    let protection = Protection::from_argument(protection)?;
    if end == address {
        return Ok(0);
    }
    let forbidden = |area: &Area| {
        let read_only = matches!(area.backing, Backing::File { writable: false, .. });
        let kept = matches!(area.backing, Backing::File { node, .. } if !is_executable(node));
        area.shared && protection.allows(Protection::WRITE) && read_only
            || kept && protection.allows(Protection::EXECUTE)
    };
    call.process.with_memory(|space, pages| {
        if space.areas.within(address, end).iter().any(forbidden) {
            return Err(Errno::EACCES);
        }
        space.protect(pages, address, end, protection).map(|()| 0)
    })
}

/// The end of a range that a program names: its start must be aligned, its length is rounded up.
fn range(address: u64, bytes: u64) -> Result<u64> {
    if !address.is_multiple_of(PAGE_SIZE) {
        return Err(Errno::EINVAL);
    }
    let end = page_up(bytes).and_then(|bytes| address.checked_add(bytes)).filter(|end| *end <= PROGRAM_END);
    end.ok_or(Errno::EINVAL)
}

pub(super) fn madvise(call: &mut Call<'_>) -> Result<u64> {
    let [address, bytes, advice, ..] = call.arguments();
    let end = range(address, bytes)?;
    match advice as u32 {
        linux::MADV_DONTNEED => {
            call.process.with_memory(|space, pages| {
                let parts = space.areas.within(address, end);
                parts.iter().try_for_each(|area| space.drop_pages(pages, area.start, area.end))
            })?;
            Ok(0)
        }
        linux::MADV_NORMAL..=linux::MADV_WILLNEED | linux::MADV_FREE | linux::MADV_HUGEPAGE..=linux::MADV_DODUMP => {
            Ok(0)
        }
        linux::MADV_COLD | linux::MADV_PAGEOUT | linux::MADV_MERGEABLE | linux::MADV_UNMERGEABLE => Ok(0),
        _ => Err(Errno::EINVAL),
    }
}

/// Memory and file are one: there is nothing to write back.
pub(super) fn msync(call: &mut Call<'_>) -> Result<u64> {
    let [address, bytes, flags, ..] = call.arguments();
    let known = linux::MS_ASYNC | linux::MS_INVALIDATE | linux::MS_SYNC;
    let both = linux::MS_ASYNC | linux::MS_SYNC;
    if flags as u32 & !known != 0 || flags as u32 & both == both {
        return Err(Errno::EINVAL);
    }
    let end = range(address, bytes)?;
    if is_mapped(call, address, end) { Ok(0) } else { Err(Errno::ENOMEM) }
}

/// Whether areas cover a range without a gap.
fn is_mapped(call: &Call<'_>, start: u64, end: u64) -> bool {
    let parts = call.process.memory.lock().space.areas.within(start, end);
    parts.iter().map(|area| area.end - area.start).sum::<u64>() == end - start
}

pub(super) fn mincore(call: &mut Call<'_>) -> Result<u64> {
    let [address, bytes, to, ..] = call.arguments();
    let end = range(address, bytes)?;
    if !is_mapped(call, address, end) {
        return Err(Errno::ENOMEM);
    }
    let memory = call.process.memory.lock();
    let present = |address: u64| u8::from(memory.space.frames.get(address) != 0);
    let told: Vec<u8> = (address..end).step_by(PAGE_SIZE as usize).map(present).collect();
    drop(memory);
    copy::write(to, &told).map(|()| 0)
}

pub(super) fn mremap(call: &mut Call<'_>) -> Result<u64> {
    let [old, old_bytes, new_bytes, flags, wanted, _] = call.arguments();
    let old_end = range(old, old_bytes)?;
    let new_bytes = rounded(new_bytes)?;
    let flags = flags as u32;
    let known = linux::MREMAP_MAYMOVE | linux::MREMAP_FIXED | linux::MREMAP_DONTUNMAP;
    let keep = flags & linux::MREMAP_DONTUNMAP != 0;
    let moves = flags & !linux::MREMAP_MAYMOVE != 0;
    if flags & !known != 0 || moves && flags & linux::MREMAP_MAYMOVE == 0 || old_end == old {
        return Err(Errno::EINVAL);
    }
    if keep && new_bytes != old_end - old {
        return Err(Errno::EINVAL);
    }
    call.process.with_memory(|space, pages| {
        let area = *space.areas.find(old).filter(|area| old_end <= area.end).ok_or(Errno::EFAULT)?;
        let bytes = old_end - old;
        if !moves && new_bytes <= bytes {
            space.unmap(pages, old + new_bytes, old_end)?;
            return Ok(old);
        }
        let part = space.areas.within(old, old_end)[0];
        space.check_room(&part, if keep { bytes } else { new_bytes.saturating_sub(bytes) })?;
        if !moves && old_end == area.end && space.areas.is_free(old_end, old + new_bytes) {
            space.areas.insert(Area { end: old + new_bytes, ..part });
            return Ok(old);
        }
        if flags & linux::MREMAP_MAYMOVE == 0 {
            return Err(Errno::ENOMEM);
        }
        if moves && (range(wanted, new_bytes).is_err() || wanted < old_end && old < wanted + new_bytes) {
            return Err(Errno::EINVAL);
        }
        let insists = if flags & linux::MREMAP_FIXED != 0 { linux::MAP_FIXED } else { 0 };
        let new = place(&space.areas, if moves { wanted } else { 0 }, new_bytes, insists)?;
        space.move_area(pages, part, new..new + new_bytes, keep)?;
        Ok(new)
    })
}
