//! Calls on Internet and netlink sockets: making, naming and connecting them.

use crate::descriptor::file_ops::FileOps;
use crate::descriptor::open_file::OpenFile;
use crate::descriptor::poll_event::Event;
use crate::descriptor::sockets::internet_socket::{ECHO_V4, ECHO_V6, InternetSocket};
use crate::descriptor::sockets::netlink::Netlink;
use crate::descriptor::sockets::socket::wait_until;
use crate::hw::usercopy;
use crate::process::call::Call;
use crate::syscalls::events::event_fds::open;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use internet::address::{self, Endpoint, Family, Named, Purpose};
use internet::option::{Sort, place};
use internet::page::{self, state};
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;

/// The family of netlink sockets (linux/socket.h).
pub(crate) const NETLINK: u64 = 16;
/// Numbers of protocols.
const TCP: u64 = 6;
const UDP: u64 = 17;
const UDP_LITE: u64 = 136;
const ICMP: u64 = 1;
const ICMP_V6: u64 = 58;
const PROTOCOLS: u64 = 263;
/// The protocol of netlink that there is.
const ROUTE: u64 = 0;

/// Whether a family is one of these.
pub(crate) const fn is_family(family: u64) -> bool {
    matches!(family, 2 | 10 | NETLINK)
}

/// `socket`, of one of these families.
pub(crate) fn socket(call: &Call<'_>, family: u64, kind: u64, protocol: u64, flags: u32) -> Result<u64> {
    if call.process.descriptors.table.lock().room() == 0 {
        return Err(Errno::EMFILE);
    }
    match check_kind(call, family, kind, protocol)? {
        None => open(call, Arc::new(Netlink::new(kind as u32, protocol as u32)), flags),
        Some((family, sort, protocol)) => open(call, Arc::new(InternetSocket::create(family, sort, protocol)?), flags),
    }
}

/// What `socket` makes: `None` for netlink.
pub(crate) fn check_kind(call: &Call<'_>, family: u64, kind: u64, protocol: u64) -> Result<Option<(Family, Sort, u8)>> {
    let family = match (family, kind, protocol) {
        (NETLINK, 2 | 3, ROUTE) => return Ok(None),
        (NETLINK, 2 | 3, _) => return Err(Errno::EPROTONOSUPPORT),
        (NETLINK, ..) => return Err(Errno::ESOCKTNOSUPPORT),
        (2, ..) => Family::V4,
        _ => Family::V6,
    };
    sort_of(call, family, kind, protocol).map(|(sort, protocol)| Some((family, sort, protocol)))
}

fn sort_of(call: &Call<'_>, family: Family, kind: u64, protocol: u64) -> Result<(Sort, u8)> {
    if protocol >= PROTOCOLS {
        return Err(Errno::EINVAL);
    }
    match (kind, protocol, family) {
        (1, 0 | TCP, _) => Ok((Sort::Tcp, TCP as u8)),
        (2, 0 | UDP, _) => Ok((Sort::Udp, UDP as u8)),
        (2, UDP_LITE, _) => Ok((Sort::UdpLite, UDP_LITE as u8)),
        (2, ICMP, Family::V4) => Ok((Sort::Raw, ECHO_V4)),
        (2, ICMP_V6, Family::V6) => Ok((Sort::Raw, ECHO_V6)),
        (1 | 2, ..) | (3, 0, _) => Err(Errno::EPROTONOSUPPORT),
        (3, ..) if !call.process.may(linux::CAP_NET_RAW) => Err(Errno::EPERM),
        (3, ..) => Ok((Sort::Raw, (protocol & 0xff) as u8)),
        _ => Err(Errno::ESOCKTNOSUPPORT),
    }
}

/// The Internet socket that a description is open on.
pub(crate) fn of(description: &OpenFile) -> Option<&InternetSocket> {
    description.as_kind()
}

/// What a name of the program's says.
pub(crate) fn parse_name(socket: &InternetSocket, name: &[u8], purpose: Purpose) -> Result<Named> {
    let only_v6 = socket.value(place::ONLY_V6) != 0;
    Ok(address::parse(name, socket.family, only_v6, purpose, socket.sort == Sort::Tcp)?)
}

/// Writes a name, which may have no bytes, where the program wants one.
pub(crate) fn write_name(name: &[u8], at: u64, bytes_at: u64) -> Result<()> {
    let room = usercopy::read_half(bytes_at)? as i32;
    let room = usize::try_from(room).map_err(|_| Errno::EINVAL)?;
    if !name.is_empty() {
        usercopy::write(at, &name[..name.len().min(room)])?;
    }
    usercopy::write_half(bytes_at, name.len() as u32)
}

/// The name of an endpoint, as a socket tells it.
pub(crate) fn name_of(socket: &InternetSocket, endpoint: Endpoint) -> Vec<u8> {
    endpoint.to_name(socket.family)
}

/// The name of a netlink socket.
pub(crate) fn netlink_name(port: u32) -> Vec<u8> {
    let mut name = Vec::from((NETLINK as u16).to_le_bytes());
    name.extend([0; 2]);
    name.extend(port.to_le_bytes());
    name.extend([0; 4]);
    name
}

pub(crate) fn bind(socket: &InternetSocket, name: &[u8]) -> Result<u64> {
    match parse_name(socket, name, Purpose::Bind)? {
        Named::Endpoint(endpoint) => socket.bind(endpoint).map(|()| 0),
        Named::Nothing => Err(Errno::EAFNOSUPPORT),
    }
}

/// The number in a name of a netlink socket (`struct sockaddr_nl`).
pub(crate) fn netlink_port(name: &[u8]) -> Result<u32> {
    match name {
        [family, 0, _, _, a, b, c, d, _, _, _, _, ..] if u64::from(*family) == NETLINK => {
            Ok(u32::from_le_bytes([*a, *b, *c, *d]))
        }
        _ => Err(Errno::EINVAL),
    }
}

pub(crate) fn connect(description: &OpenFile, socket: &InternetSocket, name: &[u8]) -> Result<u64> {
    match parse_name(socket, name, Purpose::Connect)? {
        Named::Endpoint(endpoint) => socket.connect(endpoint, description.is_nonblocking()).map(|()| 0),
        Named::Nothing => socket.disconnect().map(|()| 0),
    }
}

pub(crate) fn accept(
    call: &Call<'_>,
    (description, socket): (&OpenFile, &InternetSocket),
    (name, name_bytes): (u64, u64),
    flags: u32,
) -> Result<u64> {
    if socket.sort != Sort::Tcp {
        return Err(Errno::EOPNOTSUPP);
    }
    let deadline = socket.deadline(0);
    let (accepted, from) = loop {
        let terms = socket.wait_terms(Event::Readable);
        if let Some(accepted) = socket.accept()? {
            break accepted;
        }
        if description.is_nonblocking() {
            return Err(Errno::EAGAIN);
        }
        if socket.state() == state::LISTENING {
            socket.note_waiter(Event::Readable);
            let outcome = wait_until(&terms, deadline);
            socket.setting(page::READER).store(0, Relaxed);
            outcome?;
        }
    };
    let named = if name == 0 { Ok(()) } else { write_name(&name_of(&accepted, from), name, name_bytes) };
    let number = open(call, Arc::new(accepted), flags)?;
    if let Err(error) = named {
        call.process.descriptors.take_out(number)?.close();
        return Err(error);
    }
    Ok(number)
}

/// `getsockname` (0) and `getpeername` (1).
pub(crate) fn tell_name(socket: &InternetSocket, which: u64, at: u64, bytes_at: u64) -> Result<u64> {
    let endpoint = socket.name_of(which)?.ok_or(Errno::ENOTCONN)?;
    write_name(&name_of(socket, endpoint), at, bytes_at).map(|()| 0)
}
