//! Calls that make sockets, name and connect them. There are Unix-domain sockets; other families are another library's
//! affair and refused as absent. `socket_message` is about what goes through them, `socket_option` about what can be
//! set.

use super::internet;
use super::socket_message::is_of_internet;
use crate::descriptor::exported_pages;
use crate::descriptor::fd_pins::Used;
use crate::descriptor::file_ops::FileOps;
use crate::descriptor::open_file::OpenFile;
use crate::descriptor::poll_event::Event;
use crate::descriptor::sockets::listen_queue::{NO_REQUEST, Request};
use crate::descriptor::sockets::netlink::Netlink;
use crate::descriptor::sockets::socket::{Kind, Socket, wait_until};
use crate::hw::usercopy;
use crate::process::call::Call;
use crate::server::client::Peer;
use crate::syscalls::events::event_fds::open;
use ::internet::address::LONGEST_NAME;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use runtime::PageNumber;
use unix_core::server::protocol::FOLLOW;

/// The family of Unix-domain sockets (linux/socket.h).
pub(crate) const UNIX: u64 = 1;
const TYPE_MASK: u64 = 15;
/// How many families and kinds Linux has numbers for.
const FAMILIES: u64 = 46;
const KINDS: u64 = 11;
/// Bytes of a name: family and path.
const NAME_BYTES: usize = 110;
/// Abstract names that are tried for a socket that asks for any.
const TRIES: u32 = 1000;

fn kind(of: u64) -> Result<Kind> {
    match of & TYPE_MASK {
        1 => Ok(Kind::Stream),
        // Raw sockets have nothing of their own.
        2 | 3 => Ok(Kind::Datagram),
        5 => Ok(Kind::Packets),
        _ => Err(Errno::ESOCKTNOSUPPORT),
    }
}

fn check_family(call: &Call<'_>) -> Result<(Kind, u32)> {
    let [family, of, protocol, ..] = call.arguments();
    let flags = of as u32 & !(TYPE_MASK as u32);
    let is_kind = of & TYPE_MASK < KINDS;
    if flags & !(linux::O_CLOEXEC | linux::O_NONBLOCK) != 0 || family < FAMILIES && !is_kind {
        return Err(Errno::EINVAL);
    }
    if internet::is_family(family) {
        return internet::check_kind(call, family, of & TYPE_MASK, protocol & 0xffff_ffff).and(Err(Errno::EOPNOTSUPP));
    }
    if family != UNIX {
        return Err(Errno::EAFNOSUPPORT);
    }
    if protocol > 1 { Err(Errno::EPROTONOSUPPORT) } else { Ok((kind(of)?, flags)) }
}

pub(crate) fn socket(call: &mut Call<'_>) -> Result<u64> {
    let [family, of, protocol, ..] = call.arguments();
    let flags = of as u32 & !(TYPE_MASK as u32);
    let is_known = flags & !(linux::O_CLOEXEC | linux::O_NONBLOCK) == 0 && of & TYPE_MASK < KINDS;
    if internet::is_family(family) && is_known {
        return internet::socket(call, family, of & TYPE_MASK, protocol & 0xffff_ffff, flags);
    }
    let (kind, flags) = check_family(call)?;
    if call.process.descriptors.table.lock().room() == 0 {
        return Err(Errno::EMFILE);
    }
    open(call, Arc::new(Socket::new(kind)?), flags)
}

pub(crate) fn socketpair(call: &mut Call<'_>) -> Result<u64> {
    let (kind, flags) = check_family(call)?;
    let [_, _, _, to, ..] = call.arguments();
    usercopy::prepare(to, 8, true)?;
    if call.process.descriptors.table.lock().room() < 2 {
        return Err(Errno::EMFILE);
    }
    exported_pages::reclaim_unused();
    let [one, other] = Socket::pair(kind)?;
    let one = open(call, Arc::new(one), flags)?;
    let other = open(call, Arc::new(other), flags)?;
    usercopy::write_word(to, one | other << 32).map(|()| 0)
}

/// A Unix-domain socket, with its description. A netlink socket that comes here has no such call.
pub(crate) fn with_socket<T>(
    call: &Call<'_>,
    number: u64,
    action: impl FnOnce(&OpenFile, &Socket) -> Result<T>,
) -> Result<T> {
    let description = call.process.descriptors.opened(number)?;
    let is_netlink = || description.as_kind::<Netlink>().is_some();
    let refusal = || if is_netlink() { Errno::EOPNOTSUPP } else { Errno::ENOTSOCK };
    let socket = description.as_kind().ok_or_else(refusal)?;
    action(&description, socket)
}

/// The open file of a socket of any family, with the name that the program gives it.
fn named_socket(call: &Call<'_>, number: u64, at: u64, bytes: u64) -> Result<(Used, Vec<u8>)> {
    let description = call.process.descriptors.opened(number)?;
    if description.as_kind::<Socket>().is_none() && !is_of_internet(&description) {
        return Err(Errno::ENOTSOCK);
    }
    read_name(at, bytes).map(|name| (description, name))
}

/// A name of the program's, of any family.
pub(crate) fn read_name(at: u64, bytes: u64) -> Result<Vec<u8>> {
    let length = u64::from(bytes as u32);
    if length > LONGEST_NAME { Err(Errno::EINVAL) } else { usercopy::read_vec(at, length as usize) }
}

/// The path in a name; what begins with a NUL is an abstract name, and nothing asks for any.
pub(crate) fn path_of(name: &[u8]) -> Result<Vec<u8>> {
    let Some((family, path)) = name.split_first_chunk().filter(|_| name.len() <= NAME_BYTES) else {
        return Err(Errno::EINVAL);
    };
    match (u64::from(u16::from_le_bytes(*family)), path.first()) {
        (UNIX, None | Some(0)) => Ok(path.to_vec()),
        (UNIX, _) => Ok(path.split(|byte| *byte == 0).next().unwrap_or_default().to_vec()),
        _ => Err(Errno::EINVAL),
    }
}

pub(crate) fn write_name(path: &[u8], at: u64, bytes_at: u64) -> Result<()> {
    let mut name = Vec::from((UNIX as u16).to_le_bytes());
    name.extend_from_slice(path);
    name.extend((!path.is_empty() && path[0] != 0).then_some(0));
    internet::write_name(&name, at, bytes_at)
}

/// What a name leads to. The server puts a request to connect into the queue there, if one is given.
pub(crate) fn peer_of(call: &Call<'_>, path: &[u8], kind: Kind, request: Request) -> Result<Peer> {
    match path.first() {
        None => Err(Errno::EINVAL),
        Some(0) => call.process.files.lock().peer_abstract(path, kind, request),
        Some(_) => {
            let (directory, path) = call.process.fs.lock().start(path);
            call.process.files.lock().peer(directory, &path, kind, request)
        }
    }
}

pub(crate) fn bind(call: &mut Call<'_>) -> Result<u64> {
    let [number, at, bytes, ..] = call.arguments();
    let (description, name) = named_socket(call, number, at, bytes)?;
    if let Some(socket) = internet::of(&description) {
        return internet::bind(socket, &name);
    }
    if let Some(socket) = description.as_kind::<Netlink>() {
        return internet::netlink_port(&name).and_then(|port| socket.bind(port)).map(|()| 0);
    }
    drop(description);
    let path = path_of(&name)?;
    with_socket(call, number, |description, socket| {
        if !socket.name_of(0).is_empty() {
            return bind_again(call, &path);
        }
        let page = socket.page_to_bind()?;
        let (name, node) = match path.first() {
            None => bind_any(call, socket, page)?,
            Some(0) => {
                let node = bind_abstract(call, socket, page, &path)?;
                (path, Some(node))
            }
            Some(_) => {
                let place = call.process.fs.lock().clone();
                let mode_kind = (0o777 & !place.mask, socket.kind);
                call.process.files.lock().bind(place.directory, &path, mode_kind, page)?;
                (path, None)
            }
        };
        socket.be_named(description, name, node);
        Ok(0)
    })
}

/// A socket that has a name: who asks for any has one; a path is looked at first.
fn bind_again(call: &Call<'_>, path: &[u8]) -> Result<u64> {
    let error = match path.first() {
        None => return Ok(0),
        Some(0) => Errno::EINVAL,
        Some(_) => {
            let (directory, path) = call.process.fs.lock().start(path);
            let mut files = call.process.files.lock();
            let folder = path.iter().rposition(|byte| *byte == b'/').map_or(&b"."[..], |slash| &path[..=slash]);
            match files.status(directory, folder, FOLLOW) {
                Err(error) => error,
                Ok(_) if files.status(directory, &path, 0).is_ok() => Errno::EADDRINUSE,
                Ok(_) => Errno::EINVAL,
            }
        }
    };
    Err(error)
}

/// An abstract name that is free: five hexadecimal digits (unix(7)).
fn bind_any(call: &Call<'_>, socket: &Socket, page: PageNumber) -> Result<(Vec<u8>, Option<u64>)> {
    let start = runtime::clock::now() as u32;
    for some in 0..TRIES {
        let name = format!("\0{:05x}", start.wrapping_add(some) & 0xf_ffff).into_bytes();
        match bind_abstract(call, socket, page, &name) {
            Err(Errno::EADDRINUSE) => {}
            outcome => return outcome.map(|node| (name, Some(node))),
        }
    }
    Err(Errno::ENOSPC)
}

/// Gives a socket an abstract name, whose node its descriptors in this process hold together.
fn bind_abstract(call: &Call<'_>, socket: &Socket, page: PageNumber, name: &[u8]) -> Result<u64> {
    call.process.files.lock().bind_abstract(name, socket.kind, page)
}

pub(crate) fn listen(call: &mut Call<'_>) -> Result<u64> {
    let [number, backlog, ..] = call.arguments();
    if let Some(socket) = internet::of(&*call.process.descriptors.opened(number)?) {
        // A negative one is a large one.
        return socket.listen(u64::from(backlog as u32)).map(|()| 0);
    }
    with_socket(call, number, |description, socket| {
        socket.listen(description, (backlog as i32).max(0) as u64).map(|()| 0)
    })
}

pub(crate) fn connect(call: &mut Call<'_>) -> Result<u64> {
    let [number, at, bytes, ..] = call.arguments();
    let (description, name) = named_socket(call, number, at, bytes)?;
    if let Some(socket) = internet::of(&description) {
        return internet::connect(&description, socket, &name);
    }
    // Whether it asks for no connection (`AF_UNSPEC`).
    let is_of_no_family = name.starts_with(&[0; 2]);
    if description.as_kind::<Netlink>().is_some() {
        return if is_of_no_family { Ok(0) } else { internet::netlink_port(&name).map(|_| 0) };
    }
    drop(description);
    if is_of_no_family {
        return with_socket(call, number, |_, socket| socket.disconnect().map(|()| 0));
    }
    let path = path_of(&name)?;
    with_socket(call, number, |description, socket| {
        let peer_of = |request| peer_of(call, &path, socket.kind, request);
        let peer = peer_of(NO_REQUEST)?;
        let deadline = socket.deadline(1).unwrap_or(u64::MAX);
        while socket.connect(description, &path, peer, peer_of)?.is_none() {
            if description.is_nonblocking() || runtime::clock::now() >= deadline {
                return Err(Errno::EAGAIN);
            }
            const LOOK_AGAIN: u64 = 10_000_000;
            crate::wait::wait(&[], Some(deadline.min(runtime::clock::now() + LOOK_AGAIN)))?;
        }
        Ok(0)
    })
}

pub(crate) fn accept(call: &mut Call<'_>) -> Result<u64> {
    accept_with(call, 0)
}

pub(crate) fn accept4(call: &mut Call<'_>) -> Result<u64> {
    let [_, _, _, flags, ..] = call.arguments();
    accept_with(call, flags as u32)
}

fn accept_with(call: &Call<'_>, flags: u32) -> Result<u64> {
    let [number, name, name_bytes, ..] = call.arguments();
    let description = call.process.descriptors.opened(number)?;
    if flags & !(linux::O_CLOEXEC | linux::O_NONBLOCK) != 0 {
        return Err(Errno::EINVAL);
    }
    if call.process.descriptors.table.lock().room() == 0 {
        return Err(Errno::EMFILE);
    }
    if let Some(socket) = internet::of(&description) {
        return internet::accept(call, (&description, socket), (name, name_bytes), flags);
    }
    drop(description);
    with_socket(call, number, |description, socket| {
        if socket.kind == Kind::Datagram {
            return Err(Errno::EOPNOTSUPP);
        }
        if !socket.is_listening() {
            return Err(Errno::EINVAL);
        }
        let deadline = socket.deadline(0);
        let accepted = loop {
            if let Some(accepted) = socket.accept()? {
                break accepted;
            }
            if description.is_nonblocking() {
                return Err(Errno::EAGAIN);
            }
            if socket.has_stopped_listening() {
                return Err(Errno::EINVAL);
            }
            wait_until(&socket.wait_terms(Event::Readable), deadline)?;
        };
        if name != 0 {
            write_name(&accepted.name_of(1), name, name_bytes)?;
        }
        open(call, Arc::new(accepted), flags)
    })
}

pub(crate) fn getsockname(call: &mut Call<'_>) -> Result<u64> {
    tell_name(call, 0)
}

pub(crate) fn getpeername(call: &mut Call<'_>) -> Result<u64> {
    tell_name(call, 1)
}

fn tell_name(call: &Call<'_>, whose: usize) -> Result<u64> {
    let [number, at, bytes_at, ..] = call.arguments();
    let description = call.process.descriptors.opened(number)?;
    if let Some(socket) = internet::of(&description) {
        return internet::tell_name(socket, whose as u64, at, bytes_at);
    }
    if let Some(socket) = description.as_kind::<Netlink>() {
        let port = if whose == 0 { socket.port() } else { 0 };
        return internet::write_name(&internet::netlink_name(port), at, bytes_at).map(|()| 0);
    }
    drop(description);
    with_socket(call, number, |_, socket| {
        if whose == 1 {
            socket.outgoing()?;
        }
        write_name(&socket.name_of(whose), at, bytes_at).map(|()| 0)
    })
}

pub(crate) fn shutdown(call: &mut Call<'_>) -> Result<u64> {
    let [number, how, ..] = call.arguments();
    // Whether it ends reading, and writing.
    let ways = match how as u32 {
        how @ ..=2 => Ok((how != 1, how != 0)),
        _ => Err(Errno::EINVAL),
    };
    if let Some(socket) = internet::of(&*call.process.descriptors.opened(number)?) {
        return ways.and_then(|(reads, writes)| socket.shut(reads, writes)).map(|()| 0);
    }
    with_socket(call, number, |_, socket| ways.map(|(reads, writes)| socket.shut(reads, writes)).map(|()| 0))
}
