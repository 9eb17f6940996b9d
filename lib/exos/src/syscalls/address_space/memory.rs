//! Calls on memory.

use super::memory_lock as lock;
use crate::budget;
use crate::descriptor::object::{Device, Object};
use crate::descriptor::open_file::OpenFile;
use crate::process::call::Call;
use linux_abi::address_map::{PAGE_SIZE, PROGRAM_END, page_up};
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use vfs::handle::{is_executable, mapped};
use vm::address_space::{AddressSpace, rounded};
use vm::mremap::Remap;
use vm::vma::{Backing, Protection, Vma};

/// Bits of `mprotect` in addition to the protection: up to the start of a stack, up to its end, and one without a
/// meaning.
const PROT_GROWSDOWN: u64 = 0x0100_0000;
const PROT_GROWSUP: u64 = 0x0200_0000;
const PROT_SEM: u64 = 8;
/// Pages that the library takes at most to note one more area, mostly.
const FOR_AN_AREA: u64 = 16;

pub(crate) fn brk(call: &mut Call<'_>) -> Result<u64> {
    let [wanted, ..] = call.arguments();
    Ok(call.process.with_memory(|space, pages| {
        let is_too_much = wanted > space.brk.1 && budget::reserve_or_fail(FOR_AN_AREA).is_err();
        space.move_brk(pages, if is_too_much { space.brk.1 } else { wanted })
    }))
}

pub(crate) fn mmap(call: &mut Call<'_>) -> Result<u64> {
    let [address, bytes, protection, flags, number, offset] = call.arguments();
    let (protection, flags) = (Protection::from_argument(protection), flags as u32);
    if !offset.is_multiple_of(PAGE_SIZE) {
        return Err(Errno::EINVAL);
    }
    let is_file = flags & linux::MAP_ANONYMOUS == 0;
    let description = if is_file { Some(call.process.descriptors.opened(number)?) } else { None };
    if flags & linux::MAP_HUGETLB != 0 {
        // No memory is set aside for large pages, of 2 MiB or of 1 GiB; of others there is none.
        let is_size = matches!(flags >> linux::MAP_HUGE_SHIFT & linux::MAP_HUGE_MASK, 0 | 21 | 30);
        return Err(if is_file || !is_size { Errno::EINVAL } else { Errno::ENOMEM });
    }
    let bytes = rounded(bytes)?;
    budget::reserve_or_fail(FOR_AN_AREA)?;
    let shared = is_shared(flags, is_file)?;
    let backing = match description {
        None => Backing::Anonymous,
        Some(_) if !reaches(offset, bytes) => return Err(Errno::EOVERFLOW),
        Some(description) => backing(call, &description, offset, shared, protection)?,
    };
    let grows = flags & linux::MAP_GROWSDOWN != 0;
    if grows && (shared || backing != Backing::Anonymous) {
        return Err(Errno::EINVAL);
    }
    let most_locked = lock::most_locked(call.process);
    // One hold of the lock: another thread must not be given the same place.
    call.process.with_memory(|space, pages| {
        let start = place(space, address, bytes, flags)?;
        let locked = flags & linux::MAP_LOCKED != 0 || space.locks_new;
        let area = Vma { shared, backing, grows, locked, ..Vma::anonymous(start, start + bytes, protection) };
        if locked {
            check_lock(space, bytes, flags, most_locked)?;
        }
        let replaced: u64 = space.areas.parts(start, start + bytes).map(|part| part.bytes()).sum();
        space.check_room(&area, bytes - replaced)?;
        if flags & linux::MAP_NORESERVE == 0 {
            space.check_commitment(&area, bytes)?;
        }
        space.map(pages, area)?;
        if locked || flags & (linux::MAP_POPULATE | linux::MAP_NONBLOCK) == linux::MAP_POPULATE {
            // What does not come now comes when it is touched, or does not.
            let _ = space.bring_locked(pages, start, start + bytes);
        }
        Ok(start)
    })
}

/// Whether others see what is written, by the type that the flags name.
const fn is_shared(flags: u32, is_file: bool) -> Result<bool> {
    /// Flags that a mapping must know, if the caller wants an error for those that it does not.
    const KNOWN: u32 = linux::MAP_TYPE | 0xf0 | OLD | linux::MAP_STACK | linux::MAP_HUGETLB | 0x1f << 26;
    /// From growing down to not waiting for pages.
    const OLD: u32 = 0x1_f900;
    match flags & linux::MAP_TYPE {
        linux::MAP_PRIVATE => Ok(false),
        linux::MAP_SHARED => Ok(true),
        linux::MAP_SHARED_VALIDATE if is_file && flags & !KNOWN != 0 => Err(Errno::EOPNOTSUPP),
        linux::MAP_SHARED_VALIDATE if is_file => Ok(true),
        _ => Err(Errno::EINVAL),
    }
}

/// Whether a file can have these bytes.
fn reaches(offset: u64, bytes: u64) -> bool {
    (i64::MAX as u64).checked_sub(bytes).is_some_and(|most| offset / PAGE_SIZE <= most / PAGE_SIZE)
}

/// Whether so much more may be locked.
fn check_lock(space: &AddressSpace, bytes: u64, flags: u32, most: u64) -> Result<()> {
    if flags & linux::MAP_LOCKED != 0 && most == 0 {
        return Err(Errno::EPERM);
    }
    if space.locked_bytes().saturating_add(bytes) > most { Err(Errno::EAGAIN) } else { Ok(()) }
}

fn backing(
    call: &Call<'_>,
    description: &OpenFile,
    offset: u64,
    shared: bool,
    protection: Protection,
) -> Result<Backing> {
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
        Object::Device(Device::Zero, _) if shared && !description.can_write() => {
            if protection.allows(Protection::WRITE) { Err(Errno::EACCES) } else { Ok(Backing::Zeros) }
        }
        Object::Device(Device::Zero, _) => Ok(Backing::Anonymous),
        _ => Err(Errno::ENODEV),
    }
}

/// Where a new area goes: where the program insists, where it would like, or where there is room.
fn place(space: &AddressSpace, address: u64, bytes: u64, flags: u32) -> Result<u64> {
    let areas = &space.areas;
    let fits = address.checked_add(bytes).is_some_and(|end| end <= PROGRAM_END);
    if flags & (linux::MAP_FIXED | linux::MAP_FIXED_NOREPLACE) != 0 {
        if !address.is_multiple_of(PAGE_SIZE) {
            return Err(Errno::EINVAL);
        }
        if !fits {
            return Err(Errno::ENOMEM);
        }
        if address < PAGE_SIZE {
            return Err(Errno::EPERM);
        }
        let replaces = flags & linux::MAP_FIXED_NOREPLACE == 0;
        return if replaces || areas.is_free(address, address + bytes) { Ok(address) } else { Err(Errno::EEXIST) };
    }
    let wish = address & linux_abi::address_map::PAGE_MASK;
    let granted =
        wish >= linux_abi::address_map::LEAST_ADDRESS && wish.checked_add(bytes).is_some_and(|end| end <= PROGRAM_END);
    if granted && areas.is_free(wish, wish + bytes) {
        return Ok(wish);
    }
    if flags & linux::MAP_32BIT != 0 { areas.find_place_below(1 << 31, bytes) } else { areas.find_place(bytes) }
}

pub(crate) fn munmap(call: &mut Call<'_>) -> Result<u64> {
    let [address, bytes, ..] = call.arguments();
    let end = range(address, bytes)?;
    if end == address {
        return Err(Errno::EINVAL);
    }
    call.process.with_memory(|space, pages| space.unmap(pages, address, end))?;
    crate::syscalls::shared_objects::shared_memory::follow(call.process);
    Ok(0)
}

pub(crate) fn mprotect(call: &mut Call<'_>) -> Result<u64> {
    let [address, bytes, protection, ..] = call.arguments();
    let grows = [PROT_GROWSDOWN, PROT_GROWSUP].map(|flag| protection & flag != 0);
    if grows == [true, true] || !address.is_multiple_of(PAGE_SIZE) {
        return Err(Errno::EINVAL);
    }
    if bytes == 0 {
        return Ok(0);
    }
    let end = end_of(address, bytes).filter(|end| *end > address).ok_or(Errno::ENOMEM)?;
    if protection & !(7 | PROT_SEM | PROT_GROWSDOWN | PROT_GROWSUP) != 0 {
        return Err(Errno::EINVAL);
    }
    let protection = Protection::from_argument(protection);
    budget::reserve_or_fail(FOR_AN_AREA)?;
    call.process.with_memory(|space, pages| {
        let area = space.areas.find(address).ok_or(Errno::ENOMEM)?;
        let start = match grows {
            [true, _] if area.grows => area.start,
            [false, false] => address,
            _ => return Err(Errno::EINVAL),
        };
        space.protect(pages, start, end, protection).map(|()| 0)
    })
}

/// As on a processor without protection keys: there is the key that all memory has.
pub(crate) fn pkey_mprotect(call: &mut Call<'_>) -> Result<u64> {
    let [.., key, _, _] = call.arguments();
    if key as i32 > 0 || (key as i32) < -1 { Err(Errno::EINVAL) } else { mprotect(call) }
}

/// See [`pkey_mprotect`].
pub(crate) fn pkey_alloc(call: &mut Call<'_>) -> Result<u64> {
    let [flags, rights, ..] = call.arguments();
    if flags != 0 || rights & !3 != 0 { Err(Errno::EINVAL) } else { Err(Errno::ENOSPC) }
}

/// See [`pkey_mprotect`].
pub(crate) fn pkey_free(_: &mut Call<'_>) -> Result<u64> {
    Err(Errno::EINVAL)
}

/// The end of a range that a program names: its start must be aligned, its length is rounded up.
pub(crate) fn range(address: u64, bytes: u64) -> Result<u64> {
    if !address.is_multiple_of(PAGE_SIZE) {
        return Err(Errno::EINVAL);
    }
    let end = page_up(bytes).and_then(|bytes| address.checked_add(bytes)).filter(|end| *end <= PROGRAM_END);
    end.ok_or(Errno::EINVAL)
}

/// The end of a range whose length is rounded up, around the end of all addresses to 0; `None` where it lies behind
/// that.
pub(crate) fn end_of(address: u64, bytes: u64) -> Option<u64> {
    address.checked_add(page_up(bytes).unwrap_or_default())
}

pub(crate) fn mremap(call: &mut Call<'_>) -> Result<u64> {
    let [start, bytes, new_bytes, flags, wanted, _] = call.arguments();
    let flags = flags as u32;
    let [may_move, is_fixed, stays] =
        [linux::MREMAP_MAYMOVE, linux::MREMAP_FIXED, linux::MREMAP_DONTUNMAP].map(|flag| flags & flag != 0);
    let [bytes, new_bytes] = [bytes, new_bytes].map(|bytes| page_up(bytes).unwrap_or_default());
    let is_wrong = flags & !(linux::MREMAP_MAYMOVE | linux::MREMAP_FIXED | linux::MREMAP_DONTUNMAP) != 0
        || (is_fixed || stays) && !may_move
        || stays && bytes != new_bytes
        || !start.is_multiple_of(PAGE_SIZE)
        || new_bytes == 0;
    if is_wrong || (is_fixed || stays) && !may_lie_at(wanted, new_bytes, (start, bytes)) {
        return Err(Errno::EINVAL);
    }
    if start.checked_add(bytes).is_none_or(|end| end > PROGRAM_END) {
        return Err(Errno::EFAULT);
    }
    if new_bytes > PROGRAM_END {
        return Err(Errno::ENOMEM);
    }
    budget::reserve_or_fail(FOR_AN_AREA)?;
    let most_locked = lock::most_locked(call.process);
    call.process.with_memory(|space, pages| {
        let to = match is_fixed || stays {
            true => Some(place(space, wanted, new_bytes, if is_fixed { linux::MAP_FIXED } else { 0 })?),
            false => None,
        };
        space.remap(pages, Remap { start, bytes, new_bytes, may_move, stays, to, most_locked })
    })
}

/// Maps other pages of its file in the place of a shared mapping, as Linux does since the call is deprecated.
pub(crate) fn remap_file_pages(call: &mut Call<'_>) -> Result<u64> {
    let [start, bytes, protection, page, flags, _] = call.arguments();
    let (start, bytes) = (start & !(PAGE_SIZE - 1), bytes & !(PAGE_SIZE - 1));
    let offset = page.checked_mul(PAGE_SIZE).filter(|offset| offset.checked_add(bytes).is_some());
    let (Some(offset), true, true) = (offset, protection == 0, start.checked_add(bytes).is_some_and(|end| end > start))
    else {
        return Err(Errno::EINVAL);
    };
    budget::reserve_or_fail(FOR_AN_AREA)?;
    call.process.with_memory(|space, pages| {
        let area = *space.areas.find(start).filter(|area| area.shared).ok_or(Errno::EINVAL)?;
        let Backing::File { node, writable, .. } = area.backing else { return Err(Errno::EINVAL) };
        if start + bytes > area.end {
            return Err(Errno::EINVAL);
        }
        let locked = area.locked && flags & u64::from(linux::MAP_NONBLOCK) == 0;
        let backing = Backing::File { node, offset, writable };
        space.map(pages, Vma { start, end: start + bytes, backing, locked, ..area })?;
        Ok(0)
    })
}

/// Whether a mapping can go to an address: it must be aligned, within the program's memory, and outside its present
/// place.
fn may_lie_at(to: u64, new_bytes: u64, (start, bytes): (u64, u64)) -> bool {
    let end = to.checked_add(new_bytes).filter(|end| *end <= PROGRAM_END);
    to.is_multiple_of(PAGE_SIZE) && end.is_some_and(|end| end <= start || start.saturating_add(bytes) <= to)
}
