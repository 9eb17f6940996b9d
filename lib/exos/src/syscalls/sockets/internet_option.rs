//! Options of Internet and netlink sockets, and the requests of `ioctl` about devices (socket(7), tcp(7),
//! netdevice(7)).

use super::internet;
use crate::descriptor::open_file::OpenFile;
use crate::descriptor::sockets::internet_socket::InternetSocket;
use crate::descriptor::sockets::netlink::Netlink;
use crate::hw::{card, usercopy};
use crate::process::current::process;
use crate::server::client::network_card;
use ::internet::address::{self, Address, Endpoint, Family};
use ::internet::device;
use ::internet::option::{self, Sort, level, place};
use ::internet::page::{FILTER, FILTER_V6, INFORMATION_BYTES, LINGER, PATIENCE, state};
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, SeqCst};
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;

/// Options with more than a number behind them.
mod named {
    pub(super) const TYPE: (u32, u32) = (1, 3);
    pub(super) const ERROR: (u32, u32) = (1, 4);
    pub(super) const LINGER: (u32, u32) = (1, 13);
    pub(super) const PEER_CREDENTIALS: (u32, u32) = (1, 17);
    pub(super) const RECEIVE_TIMEOUT: (u32, u32) = (1, 20);
    pub(super) const SEND_TIMEOUT: (u32, u32) = (1, 21);
    pub(super) const DEVICE: (u32, u32) = (1, 25);
    pub(super) const FILTER: (u32, u32) = (1, 26);
    pub(super) const ACCEPTS: (u32, u32) = (1, 30);
    pub(super) const SEND_FORCED: (u32, u32) = (1, 32);
    pub(super) const RECEIVE_FORCED: (u32, u32) = (1, 33);
    pub(super) const PROTOCOL: (u32, u32) = (1, 38);
    pub(super) const DOMAIN: (u32, u32) = (1, 39);
    pub(super) const INFORMATION: (u32, u32) = (6, 11);
    pub(super) const CONGESTION: (u32, u32) = (6, 13);
    pub(super) const UPPER: (u32, u32) = (6, 31);
    pub(super) const RAW_FILTER: (u32, u32) = (255, 1);
    pub(super) const RAW_FILTER_V6: (u32, u32) = (58, 1);
    pub(super) const IP_OPTIONS: (u32, u32) = (0, 4);
    pub(super) const JOIN: (u32, u32) = (0, 35);
    pub(super) const LEAVE: (u32, u32) = (0, 36);
    pub(super) const INTERFACE: (u32, u32) = (0, 32);
    pub(super) const JOIN_V6: (u32, u32) = (41, 20);
    pub(super) const LEAVE_V6: (u32, u32) = (41, 21);
    pub(super) const INTERFACE_V6: (u32, u32) = (41, 17);
}

/// `MCAST_JOIN_GROUP` and `MCAST_LEAVE_GROUP`, which streams take, too; bytes of `struct group_req`: a device,
/// and behind eight bytes a name.
const JOIN_ANY: u32 = 42;
const LEAVE_ANY: u32 = 45;
const ANY_GROUP_BYTES: usize = 136;

const NANOSECONDS: u64 = 1_000_000_000;
/// The most bytes of options that a header of IP has.
const MOST_IP_OPTIONS: i32 = 40;
/// The longest value that is read.
const LONGEST: u64 = 256;
/// The number of the loopback device.
const LOOPBACK: u32 = 1;
const CONGESTION: &[u8] = b"cubic";

/// `setsockopt`; `None`: the description is of another kind.
pub(crate) fn set(description: &OpenFile, option: (u32, u32), from: u64, bytes: u64) -> Option<Result<u64>> {
    if let Some(socket) = internet::of(description) {
        return Some(set_internet(socket, option, from, bytes).map(|()| 0));
    }
    description.as_kind::<Netlink>().map(|_| if bytes as u32 >= 4 { Ok(0) } else { Err(Errno::EINVAL) })
}

fn set_internet(socket: &InternetSocket, option: (u32, u32), from: u64, bytes: u64) -> Result<()> {
    let length = bytes as u32 as i32;
    if length < 0 {
        return Err(Errno::EINVAL);
    }
    let value = usercopy::read_vec(from, (length as u64).min(LONGEST) as usize)?;
    let half = |at: usize| value.get(at..at + 4).map(|bytes| u32::from_le_bytes(core::array::from_fn(|i| bytes[i])));
    let needed = |count: usize| if value.len() < count { Err(Errno::EINVAL) } else { Ok(()) };
    match option {
        named::RECEIVE_TIMEOUT | named::SEND_TIMEOUT => {
            needed(16)?;
            let [seconds, rest] = usercopy::read_words::<2>(from)?;
            if rest >= 1_000_000 {
                return Err(Errno::EDOM);
            }
            let time = if seconds as i64 > 0 { seconds.saturating_mul(NANOSECONDS) } else { 0 };
            let which = usize::from(option == named::SEND_TIMEOUT);
            socket.setting(PATIENCE + which).store(time.saturating_add(rest * 1000), SeqCst);
            Ok(())
        }
        named::LINGER => {
            needed(8)?;
            let [on, seconds] = [half(0), half(4)].map(Option::unwrap_or_default);
            socket.setting(LINGER).store(u64::from(on != 0) | u64::from(seconds) << 1, SeqCst);
            Ok(())
        }
        named::SEND_FORCED | named::RECEIVE_FORCED => {
            needed(4)?;
            let name = if option == named::SEND_FORCED { 7 } else { 8 };
            if process().may(linux::CAP_NET_ADMIN) { set_number(socket, (1, name), &value) } else { Err(Errno::EPERM) }
        }
        named::TYPE | named::ERROR | named::ACCEPTS | named::PROTOCOL | named::DOMAIN => {
            needed(4).and(Err(Errno::ENOPROTOOPT))
        }
        named::DEVICE => match value.split(|byte| *byte == 0).next() {
            Some(b"lo" | b"") | None => Ok(()),
            Some(_) => Err(Errno::ENODEV),
        },
        named::CONGESTION if socket.sort == Sort::Tcp => match value.split(|byte| *byte == 0).next() {
            Some(CONGESTION | b"reno") => Ok(()),
            Some(b"") | None => Err(Errno::EINVAL),
            Some(_) => Err(Errno::ENOENT),
        },
        named::UPPER if socket.sort == Sort::Tcp => Err(Errno::ENOENT),
        named::RAW_FILTER if socket.sort == Sort::Raw && socket.kind() == 3 => {
            needed(4)?;
            socket.setting(FILTER).store(u64::from(half(0).unwrap_or(0)), SeqCst);
            Ok(())
        }
        named::RAW_FILTER_V6 if has_filter_v6(socket) => {
            set_filter_v6(socket, &value);
            Ok(())
        }
        named::FILTER => needed(4),
        named::IP_OPTIONS if length > MOST_IP_OPTIONS => Err(Errno::EINVAL),
        // No packet carries options. An end of options and padding ask for none.
        named::IP_OPTIONS => value.iter().all(|byte| *byte <= 1).then_some(()).ok_or(Errno::EOPNOTSUPP),
        option => set_for_groups(socket, option, &value),
    }
}

/// Options of groups; all others are numbers.
fn set_for_groups(socket: &InternetSocket, option: (u32, u32), value: &[u8]) -> Result<()> {
    let half = |at: usize| value.get(at..at + 4).map(|bytes| u32::from_le_bytes(core::array::from_fn(|i| bytes[i])));
    let needed = |count: usize| if value.len() < count { Err(Errno::EINVAL) } else { Ok(()) };
    match option {
        named::JOIN | named::LEAVE => {
            needed(8)?;
            let group = u32::from_be_bytes(core::array::from_fn(|at| value[at]));
            change_group(socket, Address::v4(group), option == named::JOIN)
        }
        named::JOIN_V6 | named::LEAVE_V6 => {
            needed(20)?;
            let group = u128::from_be_bytes(core::array::from_fn(|at| value[at]));
            change_group(socket, Address(group), option == named::JOIN_V6)
        }
        (level::IP | level::IPV6, JOIN_ANY | LEAVE_ANY) if option.0 == level::IP || socket.family == Family::V6 => {
            needed(ANY_GROUP_BYTES)?;
            let group = address::group_of(&value[8..], option.0 == level::IPV6)?;
            if half(0).is_some_and(|index| index != 0 && !is_device(index)) {
                return Err(Errno::ENODEV);
            }
            socket.change_group(Endpoint { address: group, port: 0 }, option.1 == JOIN_ANY)
        }
        named::INTERFACE if socket.sort != Sort::Tcp => {
            needed(4)?;
            set_number(socket, option, &interface_address(value)?)
        }
        named::INTERFACE_V6
            if half(0).is_some_and(|index| index != 0 && !is_device(index)) && is_for_groups_v6(socket) =>
        {
            Err(Errno::ENODEV)
        }
        option => set_number(socket, option, value),
    }
}

/// The address of an interface for groups: `struct in_addr`, `ip_mreq` or `ip_mreqn`.
fn interface_address(value: &[u8]) -> Result<[u8; 4]> {
    let part = |at: usize| value.get(at..at + 4).map_or([0; 4], |bytes| core::array::from_fn(|index| bytes[index]));
    let (address, index) = match value.len() {
        12.. => (part(4), u32::from_le_bytes(part(8))),
        8.. => (part(4), 0),
        _ => (part(0), 0),
    };
    let is_there = match index {
        0 => address[0] == 127 || address == [0; 4] || is_of_card(address),
        index => is_device(index),
    };
    if is_there { Ok(address) } else { Err(Errno::EADDRNOTAVAIL) }
}

/// Whether the network card has this address.
fn is_of_card(address: [u8; 4]) -> bool {
    network_card().and_then(|card| card.v4()).is_some_and(|(own, _)| own.to_be_bytes() == address)
}

/// Whether a device has this number.
fn is_device(number: u32) -> bool {
    number == LOOPBACK || number == device::NUMBER as u32 && card::is_there()
}

fn is_for_groups_v6(socket: &InternetSocket) -> bool {
    socket.sort != Sort::Tcp && socket.family == Family::V6
}

/// Sets as many bytes of the filter of ICMPv6 as the program gave.
fn set_filter_v6(socket: &InternetSocket, value: &[u8]) {
    for (at, part) in value.chunks(8).take(4).enumerate() {
        let mut bytes = [0; 8];
        bytes[..part.len()].copy_from_slice(part);
        socket.setting(FILTER_V6 + at).store(u64::from_le_bytes(bytes), SeqCst);
    }
}

/// Whether a socket filters messages of ICMPv6.
fn has_filter_v6(socket: &InternetSocket) -> bool {
    socket.kind() == 3 && socket.family == Family::V6 && socket.protocol() == 58
}

fn change_group(socket: &InternetSocket, address: Address, joins: bool) -> Result<()> {
    if socket.sort == Sort::Tcp {
        return Err(Errno::EPROTO);
    }
    socket.change_group(Endpoint { address, port: 0 }, joins)
}

fn set_number(socket: &InternetSocket, option: (u32, u32), value: &[u8]) -> Result<()> {
    let is_privileged = process().may(linux::CAP_NET_ADMIN);
    if option == (level::IPV6, 26) && socket.name_of(0)?.is_some_and(|name| name.port != 0) {
        return Err(Errno::EINVAL);
    }
    let place = option::set(socket, option, (socket.sort, socket.family), value, is_privileged)?;
    if matches!(place, place::REUSE_ADDRESS | place::REUSE_PORT | place::ONLY_V6) {
        socket.publish_options()?;
    }
    if matches!(place, place::CORK | place::NO_DELAY | place::KEEP_ALIVE..=place::USER_TIME_OUT) {
        socket.publish_to_wire();
    }
    if place == place::UDP_CORK && socket.value(place) == 0 {
        socket.send_kept_parts()?;
    }
    if matches!(place, place::RECEIVE_LEAST | place::URGENT_IN_LINE) {
        socket.ring_own();
    }
    Ok(())
}

/// `getsockopt`; `None`: the description is of another kind.
pub(crate) fn get(description: &OpenFile, option: (u32, u32), to: u64, bytes_at: u64) -> Option<Result<u64>> {
    let value = |room: usize| -> Option<Result<Vec<u8>>> {
        if let Some(socket) = internet::of(description) {
            return Some(value_of(socket, option, room));
        }
        let netlink = description.as_kind::<Netlink>()?;
        let number = match option {
            named::TYPE => netlink.kind,
            named::DOMAIN => internet::NETLINK as u32,
            named::PROTOCOL => netlink.protocol,
            (1, 7 | 8) => 212_992,
            (1, _) => 0,
            _ => return Some(Err(Errno::ENOPROTOOPT)),
        };
        Some(Ok(number.to_le_bytes().to_vec()))
    };
    if !super::socket_message::is_of_internet(description) {
        return None;
    }
    let room = match usercopy::read_half(bytes_at) {
        // ipv6(7) takes a length as it is, without a sign.
        Ok(room) if (room as i32) < 0 && option.0 == level::IPV6 => 4,
        Ok(room) if (room as i32) < 0 => return Some(Err(Errno::EINVAL)),
        Ok(room) => room as usize,
        Err(error) => return Some(Err(error)),
    };
    Some(value(room)?.and_then(|value| {
        let some = &value[..value.len().min(room)];
        usercopy::write(to, some)?;
        usercopy::write_half(bytes_at, some.len() as u32).map(|()| 0)
    }))
}

fn value_of(socket: &InternetSocket, option: (u32, u32), room: usize) -> Result<Vec<u8>> {
    let half = |value: u32| Ok(value.to_le_bytes().to_vec());
    match option {
        named::TYPE => half(socket.kind()),
        named::ERROR => half(socket.take_error().map_or(0, |error| u32::from(error.number()))),
        named::ACCEPTS => half(u32::from(socket.sort == Sort::Tcp && socket.state() == state::LISTENING)),
        named::PROTOCOL => half(u32::from(socket.protocol())),
        named::DOMAIN => half(u32::from(socket.family.number())),
        named::LINGER => {
            let word = socket.setting(LINGER).load(Acquire);
            Ok([(word & 1) as u32, (word >> 1) as u32].iter().flat_map(|half| half.to_le_bytes()).collect())
        }
        named::RECEIVE_TIMEOUT | named::SEND_TIMEOUT => {
            let time = socket.setting(PATIENCE + usize::from(option == named::SEND_TIMEOUT)).load(Acquire);
            Ok(unix_core::uapi::bytes(&[time / NANOSECONDS, time % NANOSECONDS / 1000]))
        }
        named::PEER_CREDENTIALS => Ok([0u32, u32::MAX, u32::MAX].iter().flat_map(|half| half.to_le_bytes()).collect()),
        named::DEVICE | named::IP_OPTIONS => Ok(Vec::new()),
        named::CONGESTION if socket.sort == Sort::Tcp => {
            let mut name = CONGESTION.to_vec();
            name.resize(16, 0);
            Ok(name)
        }
        named::INFORMATION if socket.sort == Sort::Tcp => Ok(information(socket)),
        named::RAW_FILTER if socket.kind() == 3 => half(socket.setting(FILTER).load(Acquire) as u32),
        named::RAW_FILTER_V6 if has_filter_v6(socket) => {
            let words: [u64; 4] = core::array::from_fn(|at| socket.setting(FILTER_V6 + at).load(Acquire));
            Ok(unix_core::uapi::bytes(&words))
        }
        (level::TCP, 2) if socket.sort == Sort::Tcp && socket.state() == state::CONNECTED => half(SEGMENT),
        (level::IP, 14) if socket.name_of(1)?.is_none() => Err(Errno::ENOTCONN),
        option => Ok(option::get(socket, option, (socket.sort, socket.family), room)?),
    }
}

/// The most that a segment of loopback carries.
const SEGMENT: u32 = 65_483;

/// `struct tcp_info`: of a connection to another machine what the keeper of the wire counts. Within the machine there
/// are no segments to count: it has the state, options, sizes, and bytes. What was sent has been acknowledged.
fn information(socket: &InternetSocket) -> Vec<u8> {
    if let Some(counted) = socket.information() {
        return counted;
    }
    let mut told = alloc::vec![0; INFORMATION_BYTES];
    for (at, counted) in [(120, 1), (128, 0), (200, 1)] {
        told[at..at + 8].copy_from_slice(&socket.stream_counts()[counted].to_le_bytes());
    }
    told[0] = match socket.state() {
        state::LISTENING => 10,
        state::CONNECTING => 2,
        state::CONNECTED => 1,
        _ => 7,
    };
    // Time stamps, SACK and window scaling; scales of 7.
    (told[5], told[6]) = (7, 0x77);
    let mut put = |at: usize, value: u32| told[at..at + 4].copy_from_slice(&value.to_le_bytes());
    // Time-outs, segment sizes, path MTU, round trip, window.
    for (at, value) in
        [(8, 201_000), (12, 40_000), (16, SEGMENT), (20, 536), (60, 65_535), (68, 30), (80, 10), (84, SEGMENT)]
    {
        put(at, value);
    }
    told
}
