//! Calls that move bytes: read, write and their kin.

use crate::descriptor::block_device;
use crate::descriptor::fd_pins::Used;
use crate::descriptor::object::{MOST, Object};
use crate::descriptor::open_file::OpenFile;
use crate::descriptor::poll_event::Event;
use crate::descriptor::sockets::socket::Socket;
use crate::hw::cpu_time::{READ, WRITTEN};
use crate::hw::usercopy;
use crate::process::call::Call;
use crate::process::current::thread;
use crate::procfs::truncate_notify::cut_mappings;
use crate::syscalls::processes::limit::check_file_size;
use crate::syscalls::sockets::socket_message;
use alloc::vec::Vec;
use core::cell::Cell;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use unix_core::pipe::ring::{ATOMIC, CAPACITY};
use unix_core::uapi;

/// Pieces of one scattered call.
const PIECES: u64 = 1024;

pub(crate) fn read(call: &mut Call<'_>) -> Result<u64> {
    let [number, to, count, ..] = call.arguments();
    let outcome = call.process.descriptors.description(number)?.read(to, count, None);
    counted(READ, outcome)
}

pub(crate) fn write(call: &mut Call<'_>) -> Result<u64> {
    let [number, from, count, ..] = call.arguments();
    let outcome = call.process.descriptors.description(number)?.write(from, count, None);
    counted(WRITTEN, outcome)
}

pub(crate) fn pread64(call: &mut Call<'_>) -> Result<u64> {
    let [number, to, count, offset, ..] = call.arguments();
    let outcome = placed(call, number, offset, count)?.read(to, count, Some(offset));
    counted(READ, outcome)
}

pub(crate) fn pwrite64(call: &mut Call<'_>) -> Result<u64> {
    let [number, from, count, offset, ..] = call.arguments();
    let outcome = placed(call, number, offset, count)?.write(from, count, Some(offset));
    counted(WRITTEN, outcome)
}

/// Counts a call that moved bytes, or failed (`/proc/PID/io`).
#[inline]
fn counted(way: usize, outcome: Result<u64>) -> Result<u64> {
    thread().cpu_time.count_moved(way, outcome);
    outcome
}

fn placed(call: &Call<'_>, number: u64, offset: u64, count: u64) -> Result<Used> {
    if (offset as i64) < 0 {
        return Err(Errno::EINVAL);
    }
    let description = call.process.descriptors.description(number)?;
    if !description.object.is_seekable() {
        return Err(Errno::ESPIPE);
    }
    let end = offset.checked_add(count.min(MOST)).filter(|end| *end <= i64::MAX as u64);
    end.map(|_| description).ok_or(Errno::EINVAL)
}

pub(crate) fn readv(call: &mut Call<'_>) -> Result<u64> {
    let [number, pieces, count, ..] = call.arguments();
    let description = call.process.descriptors.description(number)?;
    let outcome = match &description.object {
        _ if is_socket(&description) => socket_message::read_into_pieces(call, number, &read_pieces(pieces, count)?),
        Object::Pipe(pipe, _) if pipe.ring().has_packets() && description.can_read() => {
            let wanted = read_pieces(pieces, count)?;
            let bytes = description.read_from_pipe(pipe, socket_message::room_of(&wanted))?;
            socket_message::scatter(&bytes, &wanted)
        }
        _ => read_scattered(&description, pieces, count),
    };
    counted(READ, outcome)
}

pub(crate) fn writev(call: &mut Call<'_>) -> Result<u64> {
    let [number, pieces, count, ..] = call.arguments();
    let description = call.process.descriptors.description(number)?;
    let outcome = match &description.object {
        _ if is_socket(&description) => socket_message::write_from_pieces(call, number, &read_pieces(pieces, count)?),
        Object::Pipe(..) if description.can_write() => write_into_pipe(&description, pieces, count),
        _ => scattered(&description, pieces, count, None, OpenFile::write),
    };
    counted(WRITTEN, outcome)
}

fn is_socket(description: &OpenFile) -> bool {
    description.as_kind::<Socket>().is_some() || socket_message::is_of_internet(description)
}

/// What a pipe takes as one is written as one, of however many pieces it is.
fn write_into_pipe(description: &OpenFile, pieces: u64, count: u64) -> Result<u64> {
    let wanted = read_pieces(pieces, count)?;
    let sum = wanted.iter().fold(0u64, |sum, [_, length]| sum.saturating_add(*length));
    let is_there = |[from, length]: &[u64; 2]| usercopy::prepare(*from, *length, false) == Ok(*length);
    let most = if description.writes_packets() { CAPACITY } else { ATOMIC };
    if sum > most || !wanted.iter().all(is_there) {
        return scattered(description, pieces, count, None, OpenFile::write);
    }
    let mut bytes = Vec::new();
    for [from, length] in wanted {
        bytes.extend_from_slice(&usercopy::read_vec(from, length as usize)?);
    }
    description.write_bytes(&bytes)
}

pub(crate) fn preadv(call: &mut Call<'_>) -> Result<u64> {
    let [number, pieces, count, offset, ..] = call.arguments();
    let description = placed(call, number, offset, 0)?;
    counted(READ, scattered(&description, pieces, count, Some(offset), OpenFile::read))
}

/// `preadv2`: as `preadv`; the offset -1 means the description's own.
pub(crate) fn preadv2(call: &mut Call<'_>) -> Result<u64> {
    let [number, pieces, count, offset, _, flags] = call.arguments();
    known_flags(call, flags)?;
    match offset {
        u64::MAX => readv(call),
        _ => {
            let description = placed(call, number, offset, 0)?;
            counted(READ, scattered(&description, pieces, count, Some(offset), OpenFile::read))
        }
    }
}

/// `pwritev2`, in the same way.
pub(crate) fn pwritev2(call: &mut Call<'_>) -> Result<u64> {
    let [number, pieces, count, offset, _, flags] = call.arguments();
    known_flags(call, flags)?;
    let append = flags & u64::from(linux::RWF_APPEND) != 0;
    let done = match offset {
        _ if append => {
            let description = call.process.descriptors.description(number)?;
            scattered(&description, pieces, count, None, |description, from, count, _| {
                description.append(from, count, offset == u64::MAX)
            })
        }
        u64::MAX => writev(call),
        _ => {
            let description = placed(call, number, offset, 0)?;
            counted(WRITTEN, scattered(&description, pieces, count, Some(offset), OpenFile::write))
        }
    }?;
    if done > 0 && flags & u64::from(linux::RWF_DSYNC | linux::RWF_SYNC) != 0 {
        match call.process.descriptors.opened(number)?.make_durable() {
            // A pipe or a terminal keeps nothing.
            Err(Errno::EINVAL) => {}
            other => other?,
        }
    }
    Ok(done)
}

/// High priority, which asks for nothing here, durable writes, and the end of the file. Others are refused where pieces
/// are to be moved at all.
fn known_flags(call: &Call<'_>, flags: u64) -> Result<()> {
    const KNOWN: u32 = linux::RWF_HIPRI | linux::RWF_DSYNC | linux::RWF_SYNC | linux::RWF_APPEND;
    let [number, pieces, count, ..] = call.arguments();
    if flags & !u64::from(KNOWN) == 0 {
        return Ok(());
    }
    call.process.descriptors.description(number)?;
    let is_nothing = read_pieces(pieces, count)?.iter().all(|[_, length]| *length == 0);
    if is_nothing { Ok(()) } else { Err(Errno::EOPNOTSUPP) }
}

pub(crate) fn pwritev(call: &mut Call<'_>) -> Result<u64> {
    let [number, pieces, count, offset, ..] = call.arguments();
    let description = placed(call, number, offset, 0)?;
    scattered(&description, pieces, count, Some(offset), OpenFile::write)
}

/// What is longer than one call moves must be memory that a program may name all the same.
fn check_long(address: u64, count: u64) -> Result<()> {
    if count > MOST { usercopy::check(address, count) } else { Ok(()) }
}

fn read_pieces(pieces: u64, count: u64) -> Result<Vec<[u64; 2]>> {
    if count > PIECES {
        return Err(Errno::EINVAL);
    }
    let pieces = (0..count)
        .map(|index| usercopy::read_words::<2>(pieces.saturating_add(index * 16)))
        .collect::<Result<Vec<_>>>()?;
    if pieces.iter().any(|[_, length]| *length > i64::MAX as u64) {
        return Err(Errno::EINVAL);
    }
    pieces.iter().try_for_each(|[address, length]| check_long(*address, *length))?;
    Ok(pieces)
}

/// Reads into one piece of memory after the other; only the first may wait for something to read.
pub(crate) fn read_scattered(description: &OpenFile, pieces: u64, count: u64) -> Result<u64> {
    let is_first = Cell::new(true);
    scattered(description, pieces, count, None, |description, to, count, _| {
        match is_first.replace(false) || description.is_ready(Event::Readable) {
            true => description.read(to, count, None),
            false => Ok(0),
        }
    })
}

/// Does the same with one piece of memory after the other, as long as each is done whole.
pub(crate) fn scattered(
    description: &OpenFile,
    pieces: u64,
    count: u64,
    place: Option<u64>,
    transfer: impl Fn(&OpenFile, u64, u64, Option<u64>) -> Result<u64>,
) -> Result<u64> {
    let mut done = 0;
    for [address, length] in read_pieces(pieces, count)? {
        let length = length.min(MOST - done);
        if length == 0 {
            continue;
        }
        match transfer(description, address, length, place.map(|place| place + done)) {
            Err(_) if done > 0 => break,
            outcome => {
                let now = outcome?;
                done += now;
                if now < length {
                    break;
                }
            }
        }
    }
    Ok(done)
}

/// `lseek` on what reads and writes have no place in.
#[cold]
fn without_place(description: &OpenFile) -> Result<u64> {
    if description.object.stays_where_it_is() { Ok(0) } else { Err(Errno::ESPIPE) }
}

pub(crate) fn lseek(call: &mut Call<'_>) -> Result<u64> {
    let [number, offset, whence, ..] = call.arguments();
    let description = call.process.descriptors.opened(number)?;
    if whence > u64::from(linux::SEEK_HOLE) {
        return Err(Errno::EINVAL);
    }
    if !description.object.is_seekable() {
        return without_place(&description);
    }
    // Devices take any offset and have none.
    if matches!(description.object, Object::Device(..)) {
        return Ok(0);
    }
    let size = || match &description.object {
        Object::File { node } => call.process.files.lock().status_of(*node).map(|status| status.size),
        Object::Text(text) => Ok(text.bytes.len() as u64),
        Object::Disk(disk) => Ok(disk.bytes()),
        _ => Ok(0),
    };
    let _offset = description.hold_offset();
    let place = match whence as u32 {
        linux::SEEK_SET => offset as i64,
        linux::SEEK_END if matches!(description.object, Object::Directory { .. }) => return Err(Errno::EINVAL),
        linux::SEEK_CUR => (description.offset() as i64).checked_add(offset as i64).ok_or(Errno::EINVAL)?,
        linux::SEEK_END => (size()? as i64).checked_add(offset as i64).ok_or(Errno::EINVAL)?,
        linux::SEEK_DATA | linux::SEEK_HOLE => match &description.object {
            Object::File { node } if (offset as i64) >= 0 => {
                call.process.files.lock().seek(*node, offset, whence as u32 == linux::SEEK_HOLE)? as i64
            }
            _ => return Err(Errno::ENXIO),
        },
        _ => return Err(Errno::EINVAL),
    };
    if place < 0 {
        return Err(Errno::EINVAL);
    }
    description.set_offset(place as u64);
    Ok(place as u64)
}

pub(crate) fn ftruncate(call: &mut Call<'_>) -> Result<u64> {
    let [number, size, ..] = call.arguments();
    let description = call.process.descriptors.opened(number)?;
    match description.object {
        Object::File { node } if description.can_write() && (size as i64) >= 0 => {
            check_file_size(size)?;
            let stale_mappings = call.process.files.lock().truncate(node, size)?;
            cut_mappings(call.process, node, (size, u64::MAX), true, stale_mappings)?;
            Ok(0)
        }
        // A file of /proc is what it is: programs cut it before they write.
        Object::Text(_) if description.can_write() && (size as i64) >= 0 => Ok(0),
        _ => Err(Errno::EINVAL),
    }
}

/// Files in memory are where they will ever be; one of a disk is written.
pub(crate) fn fsync(call: &mut Call<'_>) -> Result<u64> {
    let [number, ..] = call.arguments();
    call.process.descriptors.opened(number)?.make_durable().map(|()| 0)
}

pub(crate) fn sync(_: &mut Call<'_>) -> Result<u64> {
    block_device::sync_all();
    Ok(0)
}

pub(crate) fn getdents64(call: &mut Call<'_>) -> Result<u64> {
    let [number, to, bytes, ..] = call.arguments();
    let description = call.process.descriptors.opened(number)?;
    let _offset = description.hold_offset();
    let before = description.offset();
    let (length, last) = match &description.object {
        Object::Directory { node } => {
            let bytes = bytes.min(unix_core::server::protocol::WINDOW_BYTES);
            usercopy::with_range(to, bytes, true, |reachable| {
                call.process.files.lock().list(*node, before, to, reachable)
            })?
        }
        Object::Listing(folder) => {
            let all = crate::procfs::listed(folder, before);
            let (mut records, mut last) = (Vec::new(), before);
            for (behind, entry) in &all {
                let record = uapi::directory_entry(&entry.name, entry.node, *behind, entry.kind);
                if (records.len() + record.len()) as u64 > bytes {
                    break;
                }
                records.extend_from_slice(&record);
                last = *behind;
            }
            if records.is_empty() && !all.is_empty() {
                return Err(Errno::EINVAL);
            }
            usercopy::write(to, &records)?;
            (records.len() as u64, last)
        }
        _ => return Err(Errno::ENOTDIR),
    };
    description.set_offset(last);
    Ok(length)
}

/// The older form of `getdents64`: its records are as long, but their type stands in the last byte and the name one
/// byte earlier.
pub(crate) fn getdents(call: &mut Call<'_>) -> Result<u64> {
    const LENGTH: usize = 16;
    const TYPE: usize = 18;
    let [_, to, ..] = call.arguments();
    let bytes = getdents64(call)? as usize;
    let mut records = usercopy::read_vec(to, bytes)?;
    let mut rest = records.as_mut_slice();
    while rest.len() > TYPE {
        let length = usize::from(u16::from_le_bytes([rest[LENGTH], rest[LENGTH + 1]]));
        let (record, behind) = rest.split_at_mut_checked(length).filter(|_| length > TYPE).ok_or(Errno::EFAULT)?;
        record[TYPE..].rotate_left(1);
        rest = behind;
    }
    usercopy::write(to, &records).map(|()| bytes as u64)
}

/// Through a buffer of the library: from a file to anything.
pub(crate) fn sendfile(call: &mut Call<'_>) -> Result<u64> {
    let [to, from, offset_at, count, ..] = call.arguments();
    let given = if offset_at == 0 { None } else { Some(usercopy::read_word(offset_at)?) };
    let from = call.process.descriptors.description(from)?;
    if !from.can_read() {
        return Err(Errno::EBADF);
    }
    let start = given.unwrap_or_else(|| from.offset());
    if [start, count, start.wrapping_add(count)].iter().any(|number| (*number as i64) < 0) {
        return Err(Errno::EINVAL);
    }
    let to = call.process.descriptors.description(to)?;
    if !to.can_write() {
        return Err(Errno::EBADF);
    }
    // Linux splices no texts of /proc.
    if to.flags() & linux::O_APPEND != 0 || matches!(from.object, Object::Text(_)) {
        return Err(Errno::EINVAL);
    }
    let done = send_all(&from, start, &to, count.min(MOST))?;
    if offset_at == 0 {
        from.set_offset(start + done)
    } else {
        usercopy::write_word(offset_at, start + done)?
    }
    Ok(done)
}

/// Copies from a place of a file until `count` bytes are written, or the file ends.
fn send_all(from: &OpenFile, start: u64, to: &OpenFile, count: u64) -> Result<u64> {
    // A copy onto the same file makes the file grow while it is read.
    let grows =
        matches!((&from.object, &to.object), (Object::File { node }, Object::File { node: other }) if node == other);
    let mut done = 0;
    while done < count {
        let wanted = (count - done).min(unix_core::server::protocol::WINDOW_BYTES);
        let bytes = super::splice::bytes_of(from, start + done, wanted)?;
        if bytes.is_empty() {
            break;
        }
        match to.write_bytes(&bytes) {
            Err(_) if done > 0 => break,
            outcome => done += outcome?,
        }
        if (bytes.len() as u64) < wanted && !grows {
            break;
        }
    }
    Ok(done)
}
