//! What goes through Internet and netlink sockets: bytes, datagrams, and what is told with them (recv(2), cmsg(3),
//! ip(7)).

use super::internet::{self, netlink_name};
use super::socket::read_name;
use super::socket_message::{Message, scatter};
use crate::descriptor::open_file::OpenFile;
use crate::descriptor::sockets::internet_datagram::Received;
use crate::descriptor::sockets::internet_socket::InternetSocket;
use crate::descriptor::sockets::internet_stream::Taking;
use crate::descriptor::sockets::netlink::Netlink;
use crate::hw::usercopy;
use crate::server::client::wall_clock;
use ::internet::address::{Endpoint, Family, Named, Purpose};
use ::internet::option::{Sort, place};
use alloc::vec::Vec;
use linux_abi::errno::{Errno, Result};

/// Flags (linux/socket.h).
mod flag {
    pub(super) const URGENT: u32 = 1;
    pub(super) const PEEK: u32 = 2;
    pub(super) const TRUNCATE: u32 = 0x20;
    pub(super) const DO_NOT_WAIT: u32 = 0x40;
    pub(super) const WAIT_ALL: u32 = 0x100;
    pub(super) const ERRORS: u32 = 0x2000;
    pub(super) const NO_SIGNAL: u32 = 0x4000;
    pub(super) const MORE: u32 = 0x8000;
    pub(super) const CONTROL_TRUNCATED: u32 = 8;
}

/// Bytes that one call takes of a stream.
const MOST: u64 = 1 << 20;
/// Bytes of control messages that a program gives at most, as `optmem_max` says.
const MOST_OF_CONTROL: u64 = 20_480;
/// Bytes of a control message's head.
const CONTROL_HEAD: u64 = 16;
/// The number of the loopback device.
const DEVICE: u32 = 1;

/// What came: bytes, how many there were, the name that they came from, and control messages by level and type.
#[derive(Default)]
pub(crate) struct Incoming {
    data: Vec<u8>,
    whole: u64,
    name: Vec<u8>,
    control: Vec<(u32, u32, Vec<u8>)>,
    flags: u32,
}

/// Sends gathered bytes by a socket of one of these families; `None`: it is none.
pub(crate) fn send(
    description: &OpenFile,
    (name, name_bytes): (u64, u64),
    data: &[u8],
    flags: u32,
    control: (u64, u64),
) -> Option<Result<u64>> {
    if let Some(socket) = internet::of(description) {
        return Some(send_internet(description, socket, (name, name_bytes), data, flags, control));
    }
    description.as_kind::<Netlink>().map(|socket| socket.send(data))
}

fn send_internet(
    description: &OpenFile,
    socket: &InternetSocket,
    (name, name_bytes): (u64, u64),
    data: &[u8],
    flags: u32,
    (control, control_bytes): (u64, u64),
) -> Result<u64> {
    let is_nonblocking = description.is_nonblocking() || flags & flag::DO_NOT_WAIT != 0;
    let signals = flags & flag::NO_SIGNAL == 0;
    if socket.sort == Sort::Tcp {
        // A stream goes where it goes, whatever name stands with it.
        return match flags & flag::URGENT {
            0 => socket.write_stream_bytes(data, is_nonblocking, signals),
            _ => socket.send_urgent(data, is_nonblocking, signals),
        };
    }
    // UDP over IPv6 looks at no such flag.
    if flags & flag::URGENT != 0 && !(socket.sort.is_udp() && socket.family == Family::V6) {
        return Err(Errno::EOPNOTSUPP);
    }
    let to = match name {
        0 => None,
        name => match internet::parse_name(socket, &read_name(name, name_bytes)?, Purpose::Send)? {
            Named::Endpoint(endpoint) => Some(endpoint),
            Named::Nothing => None,
        },
    };
    if control != 0 && control_bytes > MOST_OF_CONTROL {
        return Err(Errno::ENOBUFS);
    }
    let control = if control == 0 { Vec::new() } else { usercopy::read_vec(control, control_bytes as usize)? };
    let more = flags & flag::MORE != 0 && socket.sort.is_udp();
    socket.send_datagram_part(to, data, ::internet::control::parse(&control, socket.family)?, more)
}

/// Receives at most so many bytes by a socket of one of these families; `None`: it is none.
pub(crate) fn receive(description: &OpenFile, most: u64, flags: u32) -> Option<Result<Incoming>> {
    if let Some(socket) = internet::of(description) {
        return Some(receive_internet(description, socket, most.min(MOST), flags));
    }
    let socket = description.as_kind::<Netlink>()?;
    let is_nonblocking = description.is_nonblocking() || flags & flag::DO_NOT_WAIT != 0;
    let answer = socket.receive(flags & flag::PEEK != 0, is_nonblocking);
    Some(answer.map(|answer| {
        let whole = answer.len() as u64;
        let data = answer[..answer.len().min(most as usize)].to_vec();
        Incoming { data, whole, name: netlink_name(0), ..Incoming::default() }
    }))
}

fn receive_internet(description: &OpenFile, socket: &InternetSocket, most: u64, flags: u32) -> Result<Incoming> {
    let is_nonblocking = description.is_nonblocking() || flags & flag::DO_NOT_WAIT != 0;
    if flags & flag::ERRORS != 0 {
        return Err(Errno::EAGAIN);
    }
    let peeks = flags & flag::PEEK != 0;
    if socket.sort != Sort::Tcp {
        if flags & flag::URGENT != 0 && socket.sort == Sort::Raw {
            return Err(Errno::EOPNOTSUPP);
        }
        return socket.receive_datagram(most, peeks, is_nonblocking).map(|received| of_datagram(socket, received));
    }
    if flags & flag::URGENT != 0 {
        let byte = socket.take_urgent(peeks)?;
        return Ok(Incoming {
            data: [byte][..most.min(1) as usize].to_vec(),
            whole: 1,
            flags: flag::URGENT,
            ..Incoming::default()
        });
    }
    let taking = Taking { peeks, drops: flags & flag::TRUNCATE != 0, whole: flags & flag::WAIT_ALL != 0 };
    let data = socket.receive_stream(most, taking, is_nonblocking)?;
    Ok(Incoming { whole: data.len() as u64, data, ..Incoming::default() })
}

fn of_datagram(socket: &InternetSocket, Received { head, data }: Received) -> Incoming {
    let name = internet::name_of(socket, head.from);
    Incoming { whole: head.length, data, name, control: control_of(socket, head.to), flags: 0 }
}

/// What the program wants to be told with a datagram that was sent to an address.
fn control_of(socket: &InternetSocket, to: Endpoint) -> Vec<(u32, u32, Vec<u8>)> {
    let mut all = Vec::new();
    let on = |place| socket.value(place) != 0;
    if on(place::TIMESTAMP_NANOSECONDS) || on(place::TIMESTAMP) {
        let now = wall_clock();
        let (kind, unit) = if on(place::TIMESTAMP_NANOSECONDS) { (35, 1) } else { (29, 1000) };
        let time = [now / 1_000_000_000, now % 1_000_000_000 / unit];
        all.push((1, kind, unix_core::uapi::bytes(&time)));
    }
    let (hops, service) = (u32::from(to.port) & 0xff, to.port >> 8);
    if let Some(address) = to.address.to_v4() {
        if on(place::PACKET_INFORMATION) {
            let bytes = [DEVICE.to_le_bytes(), address.to_be_bytes(), address.to_be_bytes()].concat();
            all.push((0, 8, bytes));
        }
        if on(place::RECEIVE_TTL) {
            all.push((0, 2, hops.to_le_bytes().to_vec()));
        }
        if on(place::RECEIVE_TOS) {
            all.push((0, 1, alloc::vec![service as u8]));
        }
    }
    if on(place::PACKET_INFORMATION_6) {
        all.push((41, 50, [&to.address.0.to_be_bytes()[..], &DEVICE.to_le_bytes()].concat()));
    }
    if on(place::RECEIVE_HOPS) {
        all.push((41, 52, hops.to_le_bytes().to_vec()));
    }
    if on(place::RECEIVE_CLASS) {
        all.push((41, 67, u32::from(service).to_le_bytes().to_vec()));
    }
    all
}

/// `recvfrom`: what came goes to one place, and the name that it came from where the program wants it.
pub(crate) fn give(incoming: Result<Incoming>, to: u64, flags: u32, (name, bytes_at): (u64, u64)) -> Result<u64> {
    let incoming = incoming?;
    let is_dropped = incoming.name.is_empty() && flags & flag::TRUNCATE != 0;
    if !is_dropped {
        usercopy::write(to, &incoming.data)?;
    }
    if name != 0 {
        internet::write_name(&incoming.name, name, bytes_at)?;
    }
    Ok(if flags & flag::TRUNCATE != 0 { incoming.whole } else { incoming.data.len() as u64 })
}

/// `recvmsg`: the same with everything that the program's `struct msghdr` at `at` has room for.
pub(crate) fn give_message(incoming: Result<Incoming>, message: &Message, at: u64, flags: u32) -> Result<u64> {
    let incoming = incoming?;
    let done = match incoming.name.is_empty() && flags & flag::TRUNCATE != 0 {
        true => incoming.whole,
        false => scatter(&incoming.data, &message.pieces)?,
    };
    if message.name.0 != 0 {
        internet::write_name(&incoming.name, message.name.0, at.saturating_add(8))?;
    }
    let (mut used, mut told) = (0, incoming.flags);
    for (level, kind, body) in &incoming.control {
        let (whole, room) = (CONTROL_HEAD + body.len() as u64, message.control.1 - used);
        if message.control.0 == 0 || room < whole {
            told |= flag::CONTROL_TRUNCATED;
        }
        if message.control.0 == 0 || room < CONTROL_HEAD {
            break;
        }
        let length = whole.min(room);
        let to = message.control.0.saturating_add(used);
        usercopy::write_word(to, length)?;
        usercopy::write_half(to.saturating_add(8), *level)?;
        usercopy::write_half(to.saturating_add(12), *kind)?;
        usercopy::write(to.saturating_add(CONTROL_HEAD), &body[..(length - CONTROL_HEAD) as usize])?;
        used = (used + length.next_multiple_of(8)).min(message.control.1);
    }
    let lost = if incoming.whole > done { flag::TRUNCATE } else { 0 };
    usercopy::write_word(at.saturating_add(40), used)?;
    usercopy::write_half(at.saturating_add(48), told | lost)?;
    Ok(if flags & flag::TRUNCATE != 0 { incoming.whole } else { done })
}

/// `readv`: what came goes to one place after the other.
pub(crate) fn scatter_incoming(incoming: Result<Incoming>, pieces: &[[u64; 2]]) -> Result<u64> {
    scatter(&incoming?.data, pieces)
}
