//! Bytes that go from descriptor to descriptor without a stop in the program, by way of a pipe: splice(2), tee(2),
//! vmsplice(2).

use super::file::{read_scattered, scattered};
use crate::descriptor::object::{Device, MOST, Object, broken_pipe};
use crate::descriptor::open_file::OpenFile;
use crate::descriptor::sockets::internet_stream::Taking;
use crate::descriptor::sockets::socket::Socket;
use crate::hw::usercopy;
use crate::pipe::{Pipe, Side, splice};
use crate::process::call::Call;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::Cell;
use internet::option::Sort;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;

/// Flags: move, do not wait, more to come, a gift.
const NOT_WAITING: u64 = 2;
const KNOWN: u64 = 15;

pub(crate) fn splice(call: &mut Call<'_>) -> Result<u64> {
    let [from, from_at, to, to_at, count, flags] = call.arguments();
    if count == 0 {
        return Ok(0);
    }
    check_flags(flags)?;
    let (from, to) = (call.process.descriptors.opened(from)?, call.process.descriptors.opened(to)?);
    if pipe_of(&from).is_some() && from_at != 0 || pipe_of(&to).is_some() && to_at != 0 {
        return Err(Errno::ESPIPE);
    }
    let places = [read_place(from_at)?, read_place(to_at)?];
    if !from.can_read() || !to.can_write() {
        return Err(Errno::EBADF);
    }
    let count = count.min(MOST);
    let waits = |description: &OpenFile| flags & NOT_WAITING == 0 && !description.is_nonblocking();
    match (pipe_of(&from), pipe_of(&to)) {
        (Some(source), Some(target)) => pass([source, target], count, waits(&from) && waits(&to), false),
        (Some(source), None) => empty(source, (&to, places[1], to_at), count, waits(&from)),
        (None, Some(target)) => fill((&from, places[0], from_at), target, count, waits(&to)),
        (None, None) => Err(Errno::EINVAL),
    }
}

/// `tee`: what one pipe has another one gets as well.
pub(crate) fn tee(call: &mut Call<'_>) -> Result<u64> {
    let [from, to, count, flags, ..] = call.arguments();
    check_flags(flags)?;
    if count == 0 {
        return Ok(0);
    }
    let (from, to) = (call.process.descriptors.opened(from)?, call.process.descriptors.opened(to)?);
    if !from.can_read() || !to.can_write() {
        return Err(Errno::EBADF);
    }
    let (Some(source), Some(target)) = (pipe_of(&from), pipe_of(&to)) else { return Err(Errno::EINVAL) };
    let waits = flags & NOT_WAITING == 0 && !from.is_nonblocking() && !to.is_nonblocking();
    pass([source, target], count.min(MOST), waits, true)
}

/// `vmsplice`: pieces of memory into a pipe, as far as there is room once there is any; or out of one.
pub(crate) fn vmsplice(call: &mut Call<'_>) -> Result<u64> {
    let [number, pieces, count, flags, ..] = call.arguments();
    check_flags(flags)?;
    let description = call.process.descriptors.opened(number)?;
    let waits = flags & NOT_WAITING == 0 && !description.is_nonblocking();
    let Some(pipe) = pipe_of(&description) else {
        let nothing = scattered(&description, pieces, count, None, |_, _, _, _| Err(Errno::EBADF))?;
        return Ok(nothing);
    };
    if !description.can_write() {
        wait_for_bytes(pipe, waits)?;
        return read_scattered(&description, pieces, count);
    }
    let is_first = Cell::new(true);
    scattered(&description, pieces, count, None, |_, from, count, _| {
        let reachable = usercopy::prepare(from, count, false)?;
        loop {
            if is_first.get() {
                wait_for_room(pipe, waits)?;
            }
            let room = pipe.ring().room()?;
            let done = pipe.write(from, reachable.min(room), || false)?;
            if done > 0 || !is_first.get() {
                is_first.set(false);
                return Ok(done);
            }
        }
    })
}

fn check_flags(flags: u64) -> Result<()> {
    if flags & 0xffff_ffff & !KNOWN == 0 { Ok(()) } else { Err(Errno::EINVAL) }
}

fn pipe_of(description: &OpenFile) -> Option<&Pipe> {
    if let Object::Pipe(pipe, _) = &description.object { Some(pipe) } else { None }
}

fn read_place(at: u64) -> Result<Option<u64>> {
    match at {
        0 => Ok(None),
        at => usercopy::read_word(at).map(Some),
    }
}

/// Waits until a pipe has bytes: false where none are going to come.
fn wait_for_bytes(pipe: &Pipe, waits: bool) -> Result<bool> {
    loop {
        let has_other = pipe.has_other(Side::Read);
        if pipe.ring().waiting()? > 0 || !has_other {
            return Ok(pipe.ring().waiting()? > 0);
        }
        if !waits {
            return Err(Errno::EAGAIN);
        }
        pipe.wait_to_read()?;
    }
}

/// Waits until a pipe has room.
fn wait_for_room(pipe: &Pipe, waits: bool) -> Result<()> {
    loop {
        if !pipe.has_other(Side::Write) {
            return Err(broken_pipe());
        }
        if pipe.ring().room()? > 0 {
            return Ok(());
        }
        if !waits {
            return Err(Errno::EAGAIN);
        }
        pipe.wait_to_write(1)?;
    }
}

/// From pipe to pipe.
fn pass([source, target]: [&Pipe; 2], count: u64, waits: bool, keep: bool) -> Result<u64> {
    if source.is_same(target) {
        return Err(Errno::EINVAL);
    }
    loop {
        if !wait_for_bytes(source, waits)? {
            return Ok(0);
        }
        wait_for_room(target, waits)?;
        // Others may have been faster.
        match source.give_to_pipe(target, count, keep)? {
            0 => {}
            done => return Ok(done),
        }
    }
}

/// From what is no pipe into one: as much as there is room for.
fn fill(from: (&OpenFile, Option<u64>, u64), target: &Pipe, count: u64, waits: bool) -> Result<u64> {
    let (from, place, at) = from;
    if place.is_some_and(|place| place > i64::MAX as u64) {
        return Err(Errno::EINVAL);
    }
    if let Some(socket) = crate::syscalls::sockets::internet::of(from).filter(|socket| socket.sort == Sort::Tcp) {
        if place.is_some() {
            return Err(Errno::EINVAL);
        }
        let is_nonblocking = from.is_nonblocking();
        return fill_from_stream(target, count, waits, |room| {
            socket.receive_stream(room, Taking::default(), is_nonblocking)
        });
    }
    if let Some(socket) = from.as_kind::<Socket>() {
        if place.is_some() {
            return Err(Errno::EINVAL);
        }
        let is_nonblocking = from.is_nonblocking() || !waits;
        return fill_from_stream(target, count, waits, |room| socket.take_bytes(room, is_nonblocking));
    }
    loop {
        wait_for_room(target, waits)?;
        let _offset = if place.is_none() { from.hold_offset() } else { None };
        let start = place.unwrap_or_else(|| from.offset());
        let bytes = bytes_of(from, start, count.min(target.ring().room()?))?;
        let done = target.write_bytes(&bytes, || false)?;
        if done > 0 || bytes.is_empty() {
            set_place(from, at, start + done)?;
            return Ok(done);
        }
    }
}

/// From a stream into a pipe. What was taken all goes into the pipe, also where another writer took the room.
fn fill_from_stream(
    target: &Pipe,
    count: u64,
    waits: bool,
    receive: impl FnOnce(u64) -> Result<Vec<u8>>,
) -> Result<u64> {
    wait_for_room(target, waits)?;
    let room = count.min(target.ring().room()?.max(1));
    let bytes = receive(room)?;
    let mut done = 0;
    while done < bytes.len() {
        done += target.write_bytes(&bytes[done..], || false)? as usize;
        if done < bytes.len() {
            wait_for_room(target, true)?;
        }
    }
    Ok(done as u64)
}

/// Bytes of a file from a place on; `EINVAL` of what has no places.
pub(crate) fn bytes_of(from: &OpenFile, start: u64, count: u64) -> Result<Vec<u8>> {
    match &from.object {
        Object::File { node } => crate::process::current::process().files.lock().read(*node, start, count as usize),
        Object::Text(text) => {
            let rest = text.bytes.get(start as usize..).unwrap_or_default();
            Ok(rest[..rest.len().min(count as usize)].to_vec())
        }
        Object::Device(Device::Zero, _) => Ok(vec![0; count as usize]),
        Object::Disk(disk) => disk.read_bytes(start, count),
        _ => Err(Errno::EINVAL),
    }
}

/// From a pipe into what is none.
fn empty(source: &Pipe, to: (&OpenFile, Option<u64>, u64), count: u64, waits: bool) -> Result<u64> {
    let (to, place, at) = to;
    if to.flags() & linux::O_APPEND != 0 || place.is_some_and(|place| place > i64::MAX as u64) {
        return Err(Errno::EINVAL);
    }
    let is_socket =
        || matches!(&to.object, Object::Other(other) if other.status().0 & linux::S_IFMT == linux::S_IFSOCK);
    match &to.object {
        Object::File { node } => {
            wait_for_bytes(source, waits)?;
            let _offset = if place.is_none() { to.hold_offset() } else { None };
            let start = place.unwrap_or_else(|| to.offset());
            let mut reached = start;
            let done = source.give(count, |bytes| {
                let written = to.write_at(*node, reached, bytes)?;
                reached += written;
                Ok(written)
            })?;
            set_place(to, at, start + done)?;
            to.end_write(done)
        }
        Object::Disk(disk) => {
            wait_for_bytes(source, waits)?;
            let _offset = if place.is_none() { to.hold_offset() } else { None };
            let start = place.unwrap_or_else(|| to.offset());
            let mut reached = start;
            let done = source.give(count, |bytes| {
                let written = disk.write_bytes(reached, bytes)?;
                reached += written;
                Ok(written)
            })?;
            set_place(to, at, start + done)?;
            to.end_write(done)
        }
        Object::Device(Device::Full | Device::Random, _) => Err(Errno::EINVAL),
        Object::Device(..) => {
            wait_for_bytes(source, waits)?;
            source.give(count, |bytes| Ok(bytes.len() as u64))
        }
        Object::Terminal(_) | Object::Console(_) => send(source, to, count, waits),
        Object::Other(_) if is_socket() => send(source, to, count, waits),
        _ => Err(Errno::EINVAL),
    }
}

/// Into what takes bytes when it likes. When that fails or is interrupted, others may still read what is left in the
/// pipe. No byte leaves it that was not taken, and no thread waits under its lock.
fn send(source: &Pipe, to: &OpenFile, count: u64, waits: bool) -> Result<u64> {
    if !wait_for_bytes(source, waits)? {
        return Ok(0);
    }
    let mut done = 0;
    let mut outcome = Ok(());
    while done < count && outcome.is_ok() {
        let waiting = source.ring().waiting()?.min(count - done).min(splice::PIECE);
        if waiting == 0 {
            break;
        }
        outcome = match to.is_nonblocking() {
            true => Ok(()),
            false => to.wait_to_write(waiting),
        };
        if outcome.is_ok() {
            outcome = match source.give(count - done, |bytes| to.write_now(bytes)) {
                Err(Errno::EAGAIN) if !to.is_nonblocking() => Ok(()),
                given => given.map(|bytes| done += bytes),
            };
        }
    }
    if done > 0 { Ok(done) } else { outcome.map(|()| 0) }
}

fn set_place(description: &OpenFile, at: u64, place: u64) -> Result<()> {
    if at == 0 {
        description.set_offset(place);
        return Ok(());
    }
    usercopy::write_word(at, place)
}
