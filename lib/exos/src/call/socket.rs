//! Calls on sockets. There are Unix-domain sockets; other families are another library's affair and refused as absent.

use super::dispatch::Call;
use super::event::{as_kind, open};
use crate::block;
use crate::descriptor::description::Description;
use crate::descriptor::object::Event;
use crate::descriptor::operations::Operations;
use crate::descriptor::passing::{self, WORDS};
use crate::descriptor::socket::{Kind, Socket};
use crate::errno::{Errno, Result};
use crate::pipe::Pipe;
use crate::pipe::frames::{Frame, LONGEST, Manner};
use crate::user_memory::copy;
use alloc::sync::Arc;
use alloc::vec::Vec;
use linux_raw_sys::general as linux;
use runtime::PageNumber;

/// Families, levels, options and flags (linux/socket.h, linux/net.h, asm/socket.h).
const UNIX: u64 = 1;
const SOCKET_LEVEL: u32 = 1;
const RIGHTS: u32 = 1;
const CREDENTIALS: u32 = 2;
const TYPE_MASK: u64 = 15;
const DO_NOT_WAIT: u32 = 0x40;
const NO_SIGNAL: u32 = 0x4000;
const PEEK: u32 = 2;
const TRUNCATED: u32 = 0x20;
const CONTROL_TRUNCATED: u32 = 8;
const CLOSE_ON_EXEC: u32 = 0x4000_0000;
const WAIT_ALL: u32 = 0x100;
/// Bytes of a name: family and path.
const NAME_BYTES: u64 = 110;
/// Descriptors in one message, as on Linux.
const MOST_RIGHTS: usize = 253;
/// Bytes of the head of a control message.
const CONTROL_HEAD: u64 = 16;

fn kind(of: u64) -> Result<Kind> {
    match of & TYPE_MASK {
        1 => Ok(Kind::Stream),
        2 => Ok(Kind::Datagram),
        5 => Ok(Kind::Packets),
        _ => Err(Errno::EPROTOTYPE),
    }
}

fn check_family(call: &Call<'_>) -> Result<(Kind, u32)> {
    let [family, of, protocol, ..] = call.arguments();
    if family != UNIX {
        return Err(Errno::EAFNOSUPPORT);
    }
    let flags = of as u32 & !(TYPE_MASK as u32);
    if flags & !(linux::O_CLOEXEC | linux::O_NONBLOCK) != 0 {
        return Err(Errno::EINVAL);
    }
    if protocol > 1 { Err(Errno::EPROTONOSUPPORT) } else { Ok((kind(of)?, flags)) }
}

pub(super) fn socket(call: &mut Call<'_>) -> Result<u64> {
    let (kind, flags) = check_family(call)?;
    open(call, Arc::new(Socket::new(kind)), flags)
}

pub(super) fn socketpair(call: &mut Call<'_>) -> Result<u64> {
    let (kind, flags) = check_family(call)?;
    let [_, _, _, to, ..] = call.arguments();
    copy::prepare(to, 8, true)?;
    if call.process.descriptors.lock().room() < 2 {
        return Err(Errno::EMFILE);
    }
    call.process.sweep_lent();
    let [one, other] = Socket::pair(kind)?;
    let one = open(call, Arc::new(one), flags)?;
    let other = open(call, Arc::new(other), flags)?;
    copy::write_word(to, one | other << 32).map(|()| 0)
}

/// A socket, with its description.
fn with_socket<T>(call: &Call<'_>, number: u64, action: impl FnOnce(&Description, &Socket) -> Result<T>) -> Result<T> {
    let description = call.process.description(number)?;
    let socket = as_kind(&description).ok_or(Errno::ENOTSOCK)?;
    action(&description, socket)
}

/// The path in a name of the program's.
fn read_name(at: u64, bytes: u64) -> Result<Vec<u8>> {
    if !(2..=NAME_BYTES).contains(&bytes) {
        return Err(Errno::EINVAL);
    }
    let name = copy::read_vec(at, bytes as usize)?;
    if u64::from(name[0]) != UNIX || name[1] != 0 {
        return Err(Errno::EAFNOSUPPORT);
    }
    let path = &name[2..];
    // A name without a path would be abstract: the guardian keeps none of those.
    match path.first() {
        None | Some(0) => Err(Errno::ECONNREFUSED),
        _ => Ok(path.split(|byte| *byte == 0).next().unwrap_or_default().to_vec()),
    }
}

fn write_name(path: &[u8], at: u64, bytes_at: u64) -> Result<()> {
    if at == 0 {
        return Ok(());
    }
    let mut name = Vec::from((UNIX as u16).to_le_bytes());
    name.extend_from_slice(path);
    name.extend((!path.is_empty()).then_some(0));
    let room = copy::read_half(bytes_at)? as usize;
    copy::write(at, &name[..name.len().min(room)])?;
    copy::write_half(bytes_at, name.len() as u32)
}

fn peer_page(call: &Call<'_>, path: &[u8]) -> Result<PageNumber> {
    let directory = call.process.place.lock().directory;
    call.process.files.lock().peer(directory, path)
}

pub(super) fn bind(call: &mut Call<'_>) -> Result<u64> {
    let [number, at, bytes, ..] = call.arguments();
    let path =
        read_name(at, bytes).map_err(|error| if error == Errno::ECONNREFUSED { Errno::EINVAL } else { error })?;
    with_socket(call, number, |_, socket| {
        let page = socket.page_to_bind()?;
        let place = *call.process.place.lock();
        call.process.files.lock().bind(place.directory, &path, 0o777 & !place.mask, page)?;
        socket.ends.lock().names[0] = path;
        Ok(0)
    })
}

pub(super) fn listen(call: &mut Call<'_>) -> Result<u64> {
    let [number, backlog, ..] = call.arguments();
    with_socket(call, number, |_, socket| socket.listen((backlog as i32).max(0) as u64).map(|()| 0))
}

pub(super) fn connect(call: &mut Call<'_>) -> Result<u64> {
    let [number, at, bytes, ..] = call.arguments();
    let path = read_name(at, bytes)?;
    let page = peer_page(call, &path)?;
    with_socket(call, number, |description, socket| {
        while socket.connect(page)?.is_none() {
            if description.is_nonblocking() {
                return Err(Errno::EAGAIN);
            }
            const LOOK_AGAIN: u64 = 10_000_000;
            block::wait(&[], Some(runtime::clock::now() + LOOK_AGAIN))?;
        }
        socket.ends.lock().names[1] = path;
        Ok(0)
    })
}

pub(super) fn accept(call: &mut Call<'_>) -> Result<u64> {
    accept_with(call, 0)
}

pub(super) fn accept4(call: &mut Call<'_>) -> Result<u64> {
    let [_, _, _, flags, ..] = call.arguments();
    accept_with(call, flags as u32)
}

fn accept_with(call: &Call<'_>, flags: u32) -> Result<u64> {
    let [number, name, name_bytes, ..] = call.arguments();
    if flags & !(linux::O_CLOEXEC | linux::O_NONBLOCK) != 0 {
        return Err(Errno::EINVAL);
    }
    if call.process.descriptors.lock().room() == 0 {
        return Err(Errno::EMFILE);
    }
    with_socket(call, number, |description, socket| {
        if !socket.is_listening() {
            return Err(Errno::EINVAL);
        }
        let accepted = loop {
            if let Some(accepted) = socket.accept()? {
                break accepted;
            }
            if description.is_nonblocking() {
                return Err(Errno::EAGAIN);
            }
            block::wait(&socket.terms(Event::Readable), None)?;
        };
        let own = socket.ends.lock().names[0].clone();
        accepted.ends.lock().names[0] = own;
        write_name(b"", name, name_bytes)?;
        open(call, Arc::new(accepted), flags)
    })
}

pub(super) fn getsockname(call: &mut Call<'_>) -> Result<u64> {
    tell_name(call, 0)
}

pub(super) fn getpeername(call: &mut Call<'_>) -> Result<u64> {
    tell_name(call, 1)
}

fn tell_name(call: &Call<'_>, whose: usize) -> Result<u64> {
    let [number, at, bytes_at, ..] = call.arguments();
    with_socket(call, number, |_, socket| {
        if whose == 1 {
            socket.outgoing()?;
        }
        let name = socket.ends.lock().names[whose].clone();
        write_name(&name, at, bytes_at).map(|()| 0)
    })
}

pub(super) fn shutdown(call: &mut Call<'_>) -> Result<u64> {
    let [number, how, ..] = call.arguments();
    if how > 2 {
        return Err(Errno::EINVAL);
    }
    with_socket(call, number, |_, socket| socket.shut(how != 1, how != 0).map(|()| 0))
}

pub(super) fn setsockopt(call: &mut Call<'_>) -> Result<u64> {
    let [number, level, ..] = call.arguments();
    // Sizes of buffers and the like: they are what they are.
    with_socket(call, number, |_, _| if level as u32 == SOCKET_LEVEL { Ok(0) } else { Err(Errno::ENOPROTOOPT) })
}

pub(super) fn getsockopt(call: &mut Call<'_>) -> Result<u64> {
    const TYPE: u32 = 3;
    const ERROR: u32 = 4;
    const SEND_BUFFER: u32 = 7;
    const RECEIVE_BUFFER: u32 = 8;
    const PEER_CREDENTIALS: u32 = 17;
    const ACCEPTS: u32 = 30;
    const PROTOCOL: u32 = 38;
    const DOMAIN: u32 = 39;
    let [number, level, option, to, bytes_at, _] = call.arguments();
    with_socket(call, number, |_, socket| {
        if level as u32 != SOCKET_LEVEL {
            return Err(Errno::EOPNOTSUPP);
        }
        let words = match option as u32 {
            TYPE => [socket.kind as u32, 0, 0],
            ERROR | PROTOCOL => [0; 3],
            SEND_BUFFER | RECEIVE_BUFFER => [LONGEST as u32, 0, 0],
            PEER_CREDENTIALS => [socket.ends.lock().incoming.as_ref().map_or(0, |pipe| pipe.writer() as u32), 0, 0],
            ACCEPTS => [u32::from(socket.is_listening()), 0, 0],
            DOMAIN => [UNIX as u32, 0, 0],
            _ => return Err(Errno::ENOPROTOOPT),
        };
        let length = if option as u32 == PEER_CREDENTIALS { 12 } else { 4 };
        let room = copy::read_half(bytes_at)?.min(length);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        copy::write(to, &bytes[..room as usize])?;
        copy::write_half(bytes_at, room).map(|()| 0)
    })
}

pub(super) fn sendto(call: &mut Call<'_>) -> Result<u64> {
    let [number, from, count, flags, name, name_bytes] = call.arguments();
    let data = copy::read_vec(from, count.min(LONGEST + 1) as usize)?;
    send(call, number, (name, name_bytes), &data, &[], flags as u32)
}

/// Sends bytes with packed descriptors to what the socket is joined to, or to a name.
fn send(
    call: &Call<'_>,
    number: u64,
    (name, name_bytes): (u64, u64),
    data: &[u8],
    control: &[u8],
    flags: u32,
) -> Result<u64> {
    with_socket(call, number, |description, socket| {
        let nonblocking = description.is_nonblocking() || flags & DO_NOT_WAIT != 0;
        let sent = if name != 0 && socket.kind == Kind::Datagram {
            send_to_name(call, socket, &read_name(name, name_bytes)?, control, data, nonblocking)
        } else {
            socket.send(&socket.outgoing()?, control, data, nonblocking)
        };
        if sent == Err(Errno::EPIPE) && flags & NO_SIGNAL == 0 && socket.kind != Kind::Datagram {
            crate::signal::raise_own(linux::SIGPIPE);
        }
        sent.map_err(|error| match error {
            Errno::EPIPE if socket.kind == Kind::Datagram => Errno::ECONNREFUSED,
            error => error,
        })
    })
}

fn send_to_name(
    call: &Call<'_>,
    socket: &Socket,
    path: &[u8],
    control: &[u8],
    data: &[u8],
    nonblocking: bool,
) -> Result<u64> {
    let (page, key) = (peer_page(call, path)?, call.process.session_key);
    let pipe = Pipe::open_by_first(&mut call.process.windows.lock(), page, key).map_err(|_| Errno::ECONNREFUSED)?;
    let sent = socket.send(&pipe, control, data, nonblocking);
    crate::pipe::discard(&pipe);
    sent
}

pub(super) fn recvfrom(call: &mut Call<'_>) -> Result<u64> {
    let [number, to, count, flags, name, name_bytes] = call.arguments();
    let frame = receive(call, number, count, flags as u32)?;
    copy::write(to, &frame.data)?;
    drop_rights(&frame.control);
    if name != 0 {
        write_name(b"", name, name_bytes)?;
    }
    Ok(if flags as u32 & TRUNCATED != 0 { frame.whole } else { frame.data.len() as u64 })
}

fn receive(call: &Call<'_>, number: u64, most: u64, flags: u32) -> Result<Frame> {
    with_socket(call, number, |description, socket| {
        let manner = Manner { bordered: socket.is_bordered(), peek: flags & PEEK != 0 };
        let nonblocking = description.is_nonblocking() || flags & DO_NOT_WAIT != 0;
        let mut frame = socket.receive(most.min(1 << 20), manner, nonblocking)?;
        while flags & WAIT_ALL != 0 && !manner.bordered && !manner.peek && (frame.data.len() as u64) < most {
            let more = socket.receive(most - frame.data.len() as u64, manner, false)?;
            if more.data.is_empty() {
                break;
            }
            frame.data.extend_from_slice(&more.data);
            frame.control.extend_from_slice(&more.control);
        }
        Ok(frame)
    })
}

/// `struct msghdr`: name and its length, pieces and their count, control and its length.
struct Message {
    name: (u64, u64),
    pieces: Vec<[u64; 2]>,
    control: (u64, u64),
}

fn read_message(at: u64) -> Result<Message> {
    const PIECES: u64 = 1024;
    let [name, name_bytes, pieces, count, control, control_bytes] = copy::read_words::<6>(at)?;
    if count > PIECES {
        return Err(Errno::EMSGSIZE);
    }
    let pieces = (0..count).map(|index| copy::read_words::<2>(pieces + index * 16)).collect::<Result<Vec<_>>>()?;
    Ok(Message { name: (name, name_bytes & 0xffff_ffff), pieces, control: (control, control_bytes) })
}

pub(super) fn sendmsg(call: &mut Call<'_>) -> Result<u64> {
    let [number, at, flags, ..] = call.arguments();
    let message = read_message(at)?;
    let mut data = Vec::new();
    for [from, length] in &message.pieces {
        let room = LONGEST + 1 - data.len() as u64;
        data.extend_from_slice(&copy::read_vec(*from, (*length).min(room) as usize)?);
    }
    let control = pack_rights(call, message.control)?;
    let sent = send(call, number, message.name, &data, &control, flags as u32);
    if sent.is_err() {
        drop_rights(&control);
    }
    sent
}

/// The descriptors of a message of the program's, packed.
fn pack_rights(call: &Call<'_>, (at, bytes): (u64, u64)) -> Result<Vec<u8>> {
    let mut packed = Vec::new();
    let mut place = 0;
    while at != 0 && place + CONTROL_HEAD <= bytes {
        let length = copy::read_word(at + place)?;
        let (level, kind) = (copy::read_half(at + place + 8)?, copy::read_half(at + place + 12)?);
        if length < CONTROL_HEAD || length > bytes - place {
            return Err(Errno::EINVAL);
        }
        if level == SOCKET_LEVEL && kind == RIGHTS {
            let numbers = (place + CONTROL_HEAD..place + length).step_by(4);
            for number in numbers.map(|offset| copy::read_half(at + offset)) {
                let description = call.process.description(u64::from(number?))?;
                let words = passing::pack(&description).inspect_err(|_| drop_rights(&packed))?;
                packed.extend(words.iter().flat_map(|word| word.to_le_bytes()));
            }
        } else if level != SOCKET_LEVEL || kind != CREDENTIALS {
            return Err(Errno::EINVAL);
        }
        place += length.next_multiple_of(8);
    }
    if packed.len() > MOST_RIGHTS * WORDS * 8 { Err(Errno::EINVAL) } else { Ok(packed) }
}

fn unpacked(control: &[u8]) -> impl Iterator<Item = Result<Description>> {
    control.chunks_exact(WORDS * 8).map(|bytes| {
        let mut words = [0; WORDS];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(core::array::from_fn(|index| bytes[index]));
        }
        passing::unpack(words)
    })
}

/// Descriptors that nobody takes end here.
fn drop_rights(control: &[u8]) {
    unpacked(control).flatten().for_each(Description::close);
}

pub(super) fn recvmsg(call: &mut Call<'_>) -> Result<u64> {
    let [number, at, flags, ..] = call.arguments();
    let message = read_message(at)?;
    let room = message.pieces.iter().fold(0u64, |sum, [_, length]| sum.saturating_add(*length));
    let frame = receive(call, number, room, flags as u32)?;
    let mut done = 0;
    for [to, length] in &message.pieces {
        let now = (*length).min((frame.data.len() - done) as u64) as usize;
        copy::write(*to, &frame.data[done..done + now])?;
        done += now;
    }
    let (control_bytes, control_flags) = give_rights(call, &frame.control, message.control, flags as u32)?;
    let lost =
        if frame.whole > done as u64 && with_socket(call, number, |_, s| Ok(s.is_bordered()))? { TRUNCATED } else { 0 };
    copy::write_half(at + 8, 0)?;
    copy::write_word(at + 40, control_bytes)?;
    copy::write_half(at + 48, control_flags | lost)?;
    Ok(done as u64)
}

/// Gives the program the descriptors that came, as far as there is room: bytes of the control message, and flags.
fn give_rights(call: &Call<'_>, control: &[u8], (at, bytes): (u64, u64), flags: u32) -> Result<(u64, u32)> {
    if control.is_empty() || flags & PEEK != 0 {
        return Ok((0, 0));
    }
    let room = if at == 0 { 0 } else { (bytes.saturating_sub(CONTROL_HEAD) / 4) as usize };
    let mut numbers = Vec::new();
    let mut lost = 0;
    for description in unpacked(control) {
        let description = description?;
        if numbers.len() == room || call.process.descriptors.lock().room() == 0 {
            description.close();
            lost = CONTROL_TRUNCATED;
            continue;
        }
        let number = call.process.descriptors.lock().add(description, 0, flags & CLOSE_ON_EXEC != 0)?;
        numbers.push(number as u32);
    }
    if numbers.is_empty() {
        return Ok((0, lost));
    }
    let length = CONTROL_HEAD + numbers.len() as u64 * 4;
    copy::write_word(at, length)?;
    copy::write_half(at + 8, SOCKET_LEVEL)?;
    copy::write_half(at + 12, RIGHTS)?;
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    copy::write(at + CONTROL_HEAD, &bytes)?;
    Ok((length.next_multiple_of(8), lost))
}
