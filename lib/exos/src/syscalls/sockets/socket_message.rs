//! Calls that send and receive by sockets: bytes, messages, and what goes with them: descriptors and credentials
//! (unix(7)).

use super::socket::{path_of, peer_of, read_name, with_socket, write_name};
use super::socket_option::SOCKET_LEVEL;
use super::{internet, internet_message};
use crate::descriptor::open_file::OpenFile;
use crate::descriptor::sockets::listen_queue::NO_REQUEST;
use crate::descriptor::sockets::netlink::Netlink;
use crate::descriptor::sockets::scm_rights;
use crate::descriptor::sockets::socket::{Kind, Outgoing, Socket};
use crate::hw::usercopy;
use crate::pipe::Pipe;
use crate::pipe::message_frames::{Frame, LONGEST, Manner};
use crate::process::call::Call;
use ::internet::address::LONGEST_NAME;
use ::internet::option::Sort;
use alloc::vec::Vec;
use linux_abi::errno::{Errno, Result};
use unix_core::process::ucred::Ucred;

/// Kinds of control messages, and flags (linux/socket.h).
const RIGHTS: u32 = 1;
const CREDENTIALS: u32 = 2;
const DO_NOT_WAIT: u32 = 0x40;
const NO_SIGNAL: u32 = 0x4000;
const PEEK: u32 = 2;
const OUT_OF_BAND: u32 = 1;
const TRUNCATED: u32 = 0x20;
const CONTROL_TRUNCATED: u32 = 8;
const CLOSE_ON_EXEC: u32 = 0x4000_0000;
const WAIT_ALL: u32 = 0x100;
/// Only the first of many messages is waited for.
const WAIT_FOR_ONE: u32 = 0x1_0000;
/// Bytes of a stream that one call sends.
const MOST_OF_STREAM: u64 = 1 << 20;
/// Descriptors in one message, as on Linux.
const MOST_RIGHTS: usize = 253;
/// Bytes of the head of a control message.
const CONTROL_HEAD: u64 = 16;
/// Bytes of `struct ucred`.
const CREDENTIAL_BYTES: u64 = 12;
/// Bytes of `struct mmsghdr`, and the most of them that one call takes.
const ONE_OF_MANY: u64 = 64;
const MOST_AT_ONCE: u64 = 1024;

pub(crate) fn sendto(call: &mut Call<'_>) -> Result<u64> {
    let [number, from, count, flags, name, name_bytes] = call.arguments();
    let description = call.process.descriptors.opened(number)?;
    if is_of_internet(&description) {
        let data = gather_for(&description, &[[from, count]])?;
        return internet_message::send(&description, (name, name_bytes), &data, flags as u32, (0, 0))
            .unwrap_or(Err(Errno::EBADF));
    }
    drop(description);
    let data = gather(call, number, &[[from, count]])?;
    send(call, number, (name, name_bytes), &data, &Packed::default(), flags as u32)
}

/// Whether a description is open on an Internet or a netlink socket.
pub(crate) fn is_of_internet(description: &OpenFile) -> bool {
    internet::of(description).is_some() || description.as_kind::<Netlink>().is_some()
}

/// What the program sends by such a socket.
fn gather_for(description: &OpenFile, pieces: &[[u64; 2]]) -> Result<Vec<u8>> {
    let is_stream = internet::of(description).is_some_and(|socket| socket.sort == Sort::Tcp);
    let most = if is_stream { MOST_OF_STREAM } else { LONGEST + 1 };
    let mut data = Vec::new();
    for [from, length] in pieces {
        let room = most - data.len() as u64;
        data.extend_from_slice(&usercopy::read_vec(*from, (*length).min(room) as usize)?);
    }
    Ok(data)
}

/// `writev`: one message.
pub(crate) fn write_from_pieces(call: &Call<'_>, number: u64, pieces: &[[u64; 2]]) -> Result<u64> {
    // Where `write` of no bytes sends a datagram, `writev` sends none.
    if room_of(pieces) == 0 {
        return Ok(0);
    }
    let description = call.process.descriptors.opened(number)?;
    if is_of_internet(&description) {
        let data = gather_for(&description, pieces)?;
        return internet_message::send(&description, (0, 0), &data, 0, (0, 0)).unwrap_or(Err(Errno::EBADF));
    }
    drop(description);
    let data = gather(call, number, pieces)?;
    send(call, number, (0, 0), &data, &Packed::default(), 0)
}

/// What the program sends, as far as one call takes it: of a message one byte more than the longest has.
fn gather(call: &Call<'_>, number: u64, pieces: &[[u64; 2]]) -> Result<Vec<u8>> {
    let most =
        with_socket(call, number, |_, socket| Ok(if socket.is_bordered() { LONGEST + 1 } else { MOST_OF_STREAM }))?;
    let mut data = Vec::new();
    for [from, length] in pieces {
        let room = most - data.len() as u64;
        data.extend_from_slice(&usercopy::read_vec(*from, (*length).min(room) as usize)?);
    }
    Ok(data)
}

/// `readv`: one message, or what a stream has.
pub(crate) fn read_into_pieces(call: &Call<'_>, number: u64, pieces: &[[u64; 2]]) -> Result<u64> {
    let room = room_of(pieces);
    if room == 0 {
        return Ok(0);
    }
    let description = call.process.descriptors.opened(number)?;
    if let Some(incoming) = internet_message::receive(&description, room, 0) {
        return internet_message::scatter_incoming(incoming, pieces);
    }
    drop(description);
    let frame = receive(call, number, room, 0)?;
    let (_, rights) = frame.parts().unwrap_or_default();
    scm_rights::drop_all(rights);
    scatter(&frame.data, pieces)
}

pub(crate) fn room_of(pieces: &[[u64; 2]]) -> u64 {
    pieces.iter().fold(0, |sum, [_, length]| sum.saturating_add(*length))
}

/// Gives the program what came, piece by piece.
pub(crate) fn scatter(data: &[u8], pieces: &[[u64; 2]]) -> Result<u64> {
    let mut done = 0;
    for [to, length] in pieces {
        let now = (*length).min((data.len() - done) as u64) as usize;
        usercopy::write(*to, &data[done..done + now])?;
        done += now;
    }
    Ok(done as u64)
}

/// What goes with the bytes of a message.
#[derive(Default)]
struct Packed {
    /// Packed descriptors.
    rights: Vec<u8>,
    /// The credentials that the program claims.
    claimed: Option<Ucred>,
}

/// Sends bytes, with what goes with them, to what the socket is joined to, or to a name.
fn send(
    call: &Call<'_>,
    number: u64,
    (name, name_bytes): (u64, u64),
    data: &[u8],
    packed: &Packed,
    flags: u32,
) -> Result<u64> {
    with_socket(call, number, |description, socket| {
        refuse_out_of_band(flags)?;
        let nonblocking = description.is_nonblocking() || flags & DO_NOT_WAIT != 0;
        let control = socket.control_of(&packed.rights);
        let message = Outgoing { control: &control, data, claimed: packed.claimed };
        let sent = match name {
            _ if name == 0 || name_bytes == 0 => socket.send(&socket.outgoing()?, message, nonblocking),
            // These go to the peer, whatever name the call gives.
            _ if socket.kind == Kind::Packets => socket.send(&socket.outgoing()?, message, nonblocking),
            _ if socket.kind != Kind::Datagram => Err(match socket.outgoing() {
                Ok(_) => Errno::EISCONN,
                Err(_) => Errno::EOPNOTSUPP,
            }),
            name => send_to_name(call, socket, &path_of(&read_name(name, name_bytes)?)?, message, nonblocking),
        };
        if sent == Err(Errno::EPIPE) && flags & NO_SIGNAL == 0 {
            crate::signal::raise_here(linux_raw_sys::general::SIGPIPE);
        }
        sent
    })
}

fn send_to_name(
    call: &Call<'_>,
    socket: &Socket,
    path: &[u8],
    message: Outgoing<'_>,
    nonblocking: bool,
) -> Result<u64> {
    let (peer, key) = (peer_of(call, path, socket.kind, NO_REQUEST)?, call.process.session_key);
    let pipe = Pipe::open_by_first(&mut call.process.mappings.lock(), peer.page, key);
    let pipe = pipe.map_err(|_| Errno::ECONNREFUSED)?;
    let sent = socket.send(&pipe, message, nonblocking);
    crate::pipe::discard(&pipe);
    sent
}

pub(crate) fn recvfrom(call: &mut Call<'_>) -> Result<u64> {
    let [number, to, count, flags, name, name_bytes] = call.arguments();
    let flags = flags as u32;
    let description = call.process.descriptors.opened(number)?;
    if let Some(incoming) = internet_message::receive(&description, count, flags) {
        return internet_message::give(incoming, to, flags, (name, name_bytes));
    }
    drop(description);
    let frame = receive(call, number, count, flags)?;
    usercopy::write(to, &frame.data)?;
    let (sender, rights) = frame.parts().unwrap_or_default();
    if flags & PEEK == 0 {
        scm_rights::drop_all(rights);
    }
    if name != 0 {
        write_sender(sender, name, name_bytes)?;
    }
    Ok(if flags & TRUNCATED != 0 { frame.whole } else { frame.data.len() as u64 })
}

/// A sender without a name has length 0, where `getpeername` reports a family without one.
fn write_sender(sender: &[u8], at: u64, bytes_at: u64) -> Result<()> {
    if sender.is_empty() { internet::write_name(&[], at, bytes_at) } else { write_name(sender, at, bytes_at) }
}

/// Sockets of this family have only the bytes in their order, nothing out of band.
fn refuse_out_of_band(flags: u32) -> Result<()> {
    if flags & OUT_OF_BAND == 0 { Ok(()) } else { Err(Errno::EOPNOTSUPP) }
}

fn receive(call: &Call<'_>, number: u64, most: u64, flags: u32) -> Result<Frame> {
    with_socket(call, number, |description, socket| {
        refuse_out_of_band(flags)?;
        let manner = Manner { bordered: socket.is_bordered(), peek: flags & PEEK != 0 };
        let nonblocking = description.is_nonblocking() || flags & DO_NOT_WAIT != 0;
        let mut frame = socket.receive(most.min(1 << 20), manner, nonblocking)?;
        let waits = flags & WAIT_ALL != 0 && !manner.bordered && !manner.peek && !nonblocking;
        while waits && frame.control.is_empty() && (frame.data.len() as u64) < most {
            let Ok(more) = socket.receive(most - frame.data.len() as u64, manner, false) else { break };
            if more.data.is_empty() {
                break;
            }
            frame.data.extend_from_slice(&more.data);
            frame.control = more.control;
        }
        if !manner.bordered {
            frame.whole = frame.data.len() as u64;
        }
        Ok(frame)
    })
}

/// `struct msghdr`: name and its length, pieces and their count, control and its length.
pub(crate) struct Message {
    pub(crate) name: (u64, u64),
    pub(crate) pieces: Vec<[u64; 2]>,
    pub(crate) control: (u64, u64),
}

fn read_message(at: u64) -> Result<Message> {
    const PIECES: u64 = 1024;
    let [name, name_bytes, pieces, count, control, control_bytes] = usercopy::read_words::<6>(at)?;
    if count > PIECES {
        return Err(Errno::EMSGSIZE);
    }
    let pieces = (0..count)
        .map(|index| usercopy::read_words::<2>(pieces.saturating_add(index * 16)))
        .collect::<Result<Vec<_>>>()?;
    if (name_bytes as i32) < 0 || pieces.iter().any(|[_, length]| (*length as i64) < 0) {
        return Err(Errno::EINVAL);
    }
    Ok(Message {
        name: (name, (name_bytes & 0xffff_ffff).min(LONGEST_NAME)),
        pieces,
        control: (control, control_bytes),
    })
}

pub(crate) fn sendmsg(call: &mut Call<'_>) -> Result<u64> {
    let [number, at, flags, ..] = call.arguments();
    send_message(call, number, at, flags as u32)
}

/// `sendmmsg`: as many messages as can be sent.
pub(crate) fn sendmmsg(call: &mut Call<'_>) -> Result<u64> {
    let [number, list, count, flags, ..] = call.arguments();
    let mut done = 0;
    for index in 0..count.min(MOST_AT_ONCE) {
        let at = list.saturating_add(index * ONE_OF_MANY);
        match send_message(call, number, at, flags as u32) {
            Err(_) if done > 0 => break,
            sent => usercopy::write_half(at.saturating_add(ONE_OF_MANY - 8), sent? as u32)?,
        }
        done += 1;
    }
    Ok(done)
}

fn send_message(call: &Call<'_>, number: u64, at: u64, flags: u32) -> Result<u64> {
    let description = call.process.descriptors.opened(number)?;
    let message = read_message(at)?;
    if is_of_internet(&description) {
        let data = gather_for(&description, &message.pieces)?;
        let outcome = internet_message::send(&description, message.name, &data, flags, message.control);
        return outcome.unwrap_or(Err(Errno::EBADF));
    }
    drop(description);
    let data = gather(call, number, &message.pieces)?;
    let packed = pack(call, number, message.control)?;
    let sent = send(call, number, message.name, &data, &packed, flags);
    let is_stream = || with_socket(call, number, |_, socket| Ok(!socket.is_bordered()));
    // With no bytes of a stream nothing goes along.
    if sent.is_err() || data.is_empty() && is_stream()? {
        scm_rights::drop_all(&packed.rights);
    }
    sent
}

/// What the program gives a message to take along.
fn pack(call: &Call<'_>, socket: u64, (at, bytes): (u64, u64)) -> Result<Packed> {
    if bytes > i32::MAX as u64 {
        return Err(Errno::ENOBUFS);
    }
    let mut packed = Packed::default();
    let mut place = 0;
    while at != 0 && place + CONTROL_HEAD <= bytes {
        let length = usercopy::read_word(at.saturating_add(place))?;
        let (level, kind) =
            (usercopy::read_half(at.saturating_add(place + 8))?, usercopy::read_half(at.saturating_add(place + 12))?);
        if length < CONTROL_HEAD || length > bytes - place {
            return Err(Errno::EINVAL);
        }
        let outcome = match (level, kind) {
            (SOCKET_LEVEL, RIGHTS) => pack_numbers(
                call,
                socket,
                (at.saturating_add(place + CONTROL_HEAD), length - CONTROL_HEAD),
                &mut packed.rights,
            ),
            (SOCKET_LEVEL, CREDENTIALS) => read_claim(call, at.saturating_add(place + CONTROL_HEAD), length)
                .map(|claimed| packed.claimed = Some(claimed)),
            _ => Err(Errno::EINVAL),
        };
        outcome.inspect_err(|_| scm_rights::drop_all(&packed.rights))?;
        place += length.next_multiple_of(8);
    }
    Ok(packed)
}

fn pack_numbers(call: &Call<'_>, socket: u64, (from, bytes): (u64, u64), packed: &mut Vec<u8>) -> Result<()> {
    for offset in (0..bytes).step_by(4) {
        if packed.len() == MOST_RIGHTS * scm_rights::BYTES {
            return Err(Errno::EINVAL);
        }
        let number = usercopy::read_half(from.saturating_add(offset))?;
        let description = call.process.descriptors.description(u64::from(number))?;
        with_socket(call, socket, |_, socket| {
            scm_rights::share_with_heir(socket, &description);
            Ok(())
        })?;
        packed.extend(scm_rights::pack(&description)?);
    }
    Ok(())
}

/// Credentials that the sender claims, which the server judges; an obvious error is reported before anything is sent.
fn read_claim(call: &Call<'_>, from: u64, length: u64) -> Result<Ucred> {
    if length != CONTROL_HEAD + CREDENTIAL_BYTES {
        return Err(Errno::EINVAL);
    }
    let claimed = Ucred {
        process: usercopy::read_half(from)?,
        user: usercopy::read_half(from.saturating_add(4))?,
        group: usercopy::read_half(from.saturating_add(8))?,
    };
    let identity = call.process.attributes.credentials.lock();
    let is_own = u64::from(claimed.process) == call.process.number();
    if !identity.may_claim(claimed.user, claimed.group)
        || !is_own && !identity.has(linux_raw_sys::general::CAP_SYS_ADMIN)
    {
        return Err(Errno::EPERM);
    }
    drop(identity);
    if !is_own && crate::process_table::find(u64::from(claimed.process)).is_none() {
        return Err(Errno::ESRCH);
    }
    match [claimed.user, claimed.group].contains(&u32::MAX) {
        true => Err(Errno::EINVAL),
        false => Ok(claimed),
    }
}

pub(crate) fn recvmsg(call: &mut Call<'_>) -> Result<u64> {
    let [number, at, flags, ..] = call.arguments();
    receive_message(call, number, at, flags as u32)
}

/// `recvmmsg`: as many messages as come.
pub(crate) fn recvmmsg(call: &mut Call<'_>) -> Result<u64> {
    let [number, list, count, flags, timeout, _] = call.arguments();
    let deadline =
        crate::syscalls::events::poll::duration(timeout, 1)?.map(|time| runtime::clock::now().saturating_add(time));
    let mut flags = flags as u32;
    let mut done = 0;
    for index in 0..count.min(MOST_AT_ONCE) {
        let at = list.saturating_add(index * ONE_OF_MANY);
        match receive_message(call, number, at, flags & !WAIT_FOR_ONE) {
            Err(_) if done > 0 => break,
            received => usercopy::write_half(at.saturating_add(ONE_OF_MANY - 8), received? as u32)?,
        }
        done += 1;
        if flags & WAIT_FOR_ONE != 0 {
            flags |= DO_NOT_WAIT;
        }
        // As on Linux, the time is looked at between messages.
        if deadline.is_some_and(|deadline| runtime::clock::now() >= deadline) {
            break;
        }
    }
    Ok(done)
}

fn receive_message(call: &Call<'_>, number: u64, at: u64, flags: u32) -> Result<u64> {
    let description = call.process.descriptors.opened(number)?;
    let message = read_message(at)?;
    if let Some(incoming) = internet_message::receive(&description, room_of(&message.pieces), flags) {
        return internet_message::give_message(incoming, &message, at, flags);
    }
    drop(description);
    let frame = receive(call, number, room_of(&message.pieces), flags)?;
    let done = scatter(&frame.data, &message.pieces)?;
    let (sender, _) = frame.parts().unwrap_or_default();
    let wants_credentials = with_socket(call, number, |_, socket| Ok(socket.settings.wants_credentials()))?;
    let mut control = Control { at: message.control.0, room: message.control.1, used: 0, flags: 0 };
    if wants_credentials && frame.end != 0 {
        control.put_credentials(with_socket(call, number, |_, socket| Ok(socket.sender(&frame)))?)?;
    }
    control.put_rights(call, &frame, flags)?;
    let lost = if frame.whole > done { TRUNCATED } else { 0 };
    if message.name.0 != 0 {
        write_sender(sender, message.name.0, at.saturating_add(8))?;
    }
    usercopy::write_word(at.saturating_add(40), control.used)?;
    usercopy::write_half(at.saturating_add(48), control.flags | lost | flags & CLOSE_ON_EXEC)?;
    Ok(if flags & TRUNCATED != 0 { frame.whole } else { done })
}

/// The program's room for control messages.
struct Control {
    at: u64,
    room: u64,
    used: u64,
    flags: u32,
}

impl Control {
    /// Bytes that one more message can have.
    fn rest(&self) -> u64 {
        if self.at == 0 { 0 } else { self.room.saturating_sub(self.used).saturating_sub(CONTROL_HEAD) }
    }

    fn put(&mut self, kind: u32, body: &[u8]) -> Result<()> {
        let length = CONTROL_HEAD + body.len() as u64;
        let at = self.at.saturating_add(self.used);
        usercopy::write_word(at, length)?;
        usercopy::write_half(at.saturating_add(8), SOCKET_LEVEL)?;
        usercopy::write_half(at.saturating_add(12), kind)?;
        usercopy::write(at.saturating_add(CONTROL_HEAD), body)?;
        self.used = (self.used + length.next_multiple_of(8)).min(self.room);
        Ok(())
    }

    fn put_credentials(&mut self, sender: Ucred) -> Result<()> {
        if self.rest() < CREDENTIAL_BYTES {
            self.flags |= CONTROL_TRUNCATED;
            return Ok(());
        }
        self.put(CREDENTIALS, &sender.to_bytes())
    }

    /// Gives the program the descriptors that came, as far as there is room.
    fn put_rights(&mut self, call: &Call<'_>, frame: &Frame, flags: u32) -> Result<()> {
        let (_, rights) = frame.parts().unwrap_or_default();
        if rights.is_empty() || flags & PEEK != 0 {
            return Ok(());
        }
        let room = (self.rest() / 4) as usize;
        let mut numbers = Vec::new();
        for description in scm_rights::unpack(rights) {
            let description = description?;
            if numbers.len() == room || call.process.descriptors.table.lock().room() == 0 {
                description.close();
                self.flags |= CONTROL_TRUNCATED;
                continue;
            }
            match call.process.descriptors.install(description, 0, flags & CLOSE_ON_EXEC != 0) {
                Ok(number) => numbers.push(number as u32),
                Err(_) => self.flags |= CONTROL_TRUNCATED,
            }
        }
        if numbers.is_empty() {
            return Ok(());
        }
        let body: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.put(RIGHTS, &body)
    }
}
