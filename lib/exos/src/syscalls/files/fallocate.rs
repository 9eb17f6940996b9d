//! Calls that few programs make: room in files, copies between them, files without names, and
//! advice that memory files need not follow.

use crate::descriptor::block_device;
use crate::descriptor::object::{MOST, Object};
use crate::descriptor::open_file::OpenFile;
use crate::hw::usercopy;
use crate::process::call::Call;
use crate::procfs::truncate_notify::cut_mappings;
use crate::syscalls::processes::limit::check_file_size;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use unix_core::server::protocol::WINDOW_BYTES;
use vfs::handle::node_of;

pub(crate) fn fallocate(call: &mut Call<'_>) -> Result<u64> {
    let [number, mode, offset, length, ..] = call.arguments();
    let description = call.process.descriptors.opened(number)?;
    if (offset as i64) < 0 || (length as i64) <= 0 {
        return Err(Errno::EINVAL);
    }
    if !description.can_write() {
        return Err(Errno::EBADF);
    }
    match description.object {
        Object::File { node } => {
            check_file_size(offset.saturating_add(length))?;
            let stale_mappings = call.process.files.lock().allocate(node, mode as u32, offset, length)?;
            if mode as u32 & (linux::FALLOC_FL_PUNCH_HOLE | linux::FALLOC_FL_ZERO_RANGE) != 0 {
                cut_mappings(call.process, node, (offset, offset + length), false, stale_mappings)?;
            }
            Ok(0)
        }
        Object::Pipe(..) => Err(Errno::ESPIPE),
        _ => Err(Errno::ENODEV),
    }
}

/// Through a buffer of the library.
pub(crate) fn copy_file_range(call: &mut Call<'_>) -> Result<u64> {
    let [from, from_at, to, to_at, count, flags] = call.arguments();
    let (from, to) = (call.process.descriptors.description(from)?, call.process.descriptors.description(to)?);
    let is_folder = |one: &OpenFile| matches!(one.object, Object::Directory { .. } | Object::Listing(_));
    if is_folder(&from) || is_folder(&to) {
        return Err(Errno::EISDIR);
    }
    let (Object::File { node: source }, Object::File { node: target }) = (&from.object, &to.object) else {
        return Err(Errno::EINVAL);
    };
    if flags != 0 {
        return Err(Errno::EINVAL);
    }
    if !from.can_read() || !to.can_write() || to.flags() & linux::O_APPEND != 0 {
        return Err(Errno::EBADF);
    }
    let (read_at, write_at) = (place(&from, from_at)?, place(&to, to_at)?);
    let is_too_much = |place: u64| place.checked_add(count).is_none();
    if is_too_much(read_at) || is_too_much(write_at) {
        return Err(Errno::EOVERFLOW);
    }
    const END: u64 = i64::MAX as u64;
    if read_at > END || write_at > END {
        return Err(Errno::EINVAL);
    }
    if write_at == END {
        return Err(Errno::EFBIG);
    }
    let count = count.min(MOST).min(END - write_at);
    if node_of(*source) == node_of(*target)
        && read_at < write_at.saturating_add(count)
        && write_at < read_at.saturating_add(count)
    {
        return Err(Errno::EINVAL);
    }
    let mut done = 0;
    while done < count {
        let wanted = (count - done).min(WINDOW_BYTES) as usize;
        let mut files = call.process.files.lock();
        let bytes = files.read(*source, read_at + done, wanted)?;
        if bytes.is_empty() {
            break;
        }
        match files.write(*target, write_at + done, &bytes) {
            Err(_) if done > 0 => break,
            outcome => done += outcome?.0,
        }
    }
    set_place(&from, from_at, read_at + done)?;
    set_place(&to, to_at, write_at + done)?;
    to.end_write(done)
}

fn place(description: &OpenFile, at: u64) -> Result<u64> {
    if at == 0 { Ok(description.offset()) } else { usercopy::read_word(at) }
}

fn set_place(description: &OpenFile, at: u64, place: u64) -> Result<()> {
    if at == 0 {
        description.set_offset(place);
        return Ok(());
    }
    usercopy::write_word(at, place)
}

/// A file that lives in memory has no name and no directory: `memfd_create`.
pub(crate) fn memfd_create(call: &mut Call<'_>) -> Result<u64> {
    const NAME_BYTES: usize = 249;
    let [name, flags, ..] = call.arguments();
    let name = usercopy::read_string(name, NAME_BYTES + 1, Errno::EINVAL)?;
    if flags as u32 & !(linux::MFD_CLOEXEC | linux::MFD_ALLOW_SEALING) != 0 {
        return Err(Errno::EINVAL);
    }
    let sealable = flags as u32 & linux::MFD_ALLOW_SEALING != 0;
    let found = call.process.files.lock().make_memory(&name, sealable)?;
    let object = Object::File { node: found.here(Errno::ENODEV)? };
    let description = OpenFile::new(object, linux::O_RDWR | linux::O_LARGEFILE)?;
    call.process.descriptors.install(description, 0, flags as u32 & linux::MFD_CLOEXEC != 0)
}

/// Advice on a descriptor, which changes nothing for a file that is in memory anyway.
pub(crate) fn advise(call: &mut Call<'_>) -> Result<u64> {
    let [number, _, length, advice, ..] = call.arguments();
    match call.process.descriptors.opened(number)?.object {
        Object::Pipe(..) | Object::Console(_) => Err(Errno::ESPIPE),
        _ if (length as i64) < 0 || advice as u32 > linux::POSIX_FADV_NOREUSE => Err(Errno::EINVAL),
        Object::File { node, .. } if advice as u32 == linux::POSIX_FADV_DONTNEED => {
            block_device::discard(node).map(|()| 0)
        }
        _ => Ok(0),
    }
}

/// Has no effect: files are in memory already (readahead(2)).
pub(crate) fn readahead(call: &mut Call<'_>) -> Result<u64> {
    let [number, ..] = call.arguments();
    let description = call.process.descriptors.opened(number)?;
    if !description.can_read() {
        return Err(Errno::EBADF);
    }
    if matches!(description.object, Object::File { .. }) { Ok(0) } else { Err(Errno::EINVAL) }
}

/// Has no effect: file data is already in the place that it keeps (sync_file_range(2)).
pub(crate) fn sync_file_range(call: &mut Call<'_>) -> Result<u64> {
    let [number, offset, count, flags, ..] = call.arguments();
    let description = call.process.descriptors.opened(number)?;
    let end = (offset as i64).checked_add(count as i64);
    if flags & !7 != 0 || (offset as i64) < 0 || end.is_none_or(|end| end < offset as i64) {
        return Err(Errno::EINVAL);
    }
    let is_kept = matches!(description.object, Object::File { .. } | Object::Directory { .. });
    if is_kept { Ok(0) } else { Err(Errno::ESPIPE) }
}

pub(crate) fn syncfs(call: &mut Call<'_>) -> Result<u64> {
    let [number, ..] = call.arguments();
    match call.process.descriptors.opened(number)?.object {
        Object::File { node } | Object::Directory { node } => block_device::sync_volume(node).map(|()| 0),
        _ => Ok(0),
    }
}
