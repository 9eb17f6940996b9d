//! What can be set of a socket, and asked (socket(7), unix(7)).

use super::internet_option;
use super::socket::{UNIX, with_socket};
use crate::descriptor::sockets::socket::Socket;
use crate::hw::usercopy;
use crate::process::call::Call;
use alloc::vec::Vec;
use linux_abi::errno::{Errno, Result};

/// The level of options that all sockets have (asm/socket.h).
pub(crate) const SOCKET_LEVEL: u32 = 1;

/// Those that are on or off and change nothing here: SO_REUSEADDR, SO_DONTROUTE, SO_BROADCAST, SO_KEEPALIVE,
/// SO_OOBINLINE, SO_NO_CHECK, SO_REUSEPORT, SO_TIMESTAMP, SO_PASSSEC, SO_TIMESTAMPNS, SO_RXQ_OVFL, SO_NOFCS,
/// SO_LOCK_FILTER, SO_SELECT_ERR_QUEUE.
const FLAGS: [u32; 14] = [2, 5, 6, 9, 10, 11, 15, 29, 34, 35, 40, 43, 44, 45];
/// Numbers that change nothing here: SO_PRIORITY, SO_RCVLOWAT, SO_MARK.
const NUMBERS: [u32; 3] = [12, RECEIVE_LEAST, 36];
const RECEIVE_LEAST: u32 = 18;
/// Two numbers, which stand behind those: whether who closes waits for what was sent to arrive, and for how many
/// seconds.
const LINGER: u32 = 13;
const LINGERS: usize = NUMBERS.len();

const TYPE: u32 = 3;
const ERROR: u32 = 4;
const SEND_BUFFER: u32 = 7;
const RECEIVE_BUFFER: u32 = 8;
const SEND_BUFFER_FORCED: u32 = 32;
const RECEIVE_BUFFER_FORCED: u32 = 33;
const PASS_CREDENTIALS: u32 = 16;
const PEER_CREDENTIALS: u32 = 17;
const SEND_LEAST: u32 = 19;
const RECEIVE_TIMEOUT: u32 = 20;
const SEND_TIMEOUT: u32 = 21;
const ACCEPTS: u32 = 30;
const PROTOCOL: u32 = 38;
const DOMAIN: u32 = 39;

/// What a socket holds, as it says.
const BUFFER: u32 = 212_992;

const NANOSECONDS: u64 = 1_000_000_000;

pub(crate) fn setsockopt(call: &mut Call<'_>) -> Result<u64> {
    let [number, level, option, from, bytes, _] = call.arguments();
    let name = (level as u32, option as u32);
    if let Some(set) = internet_option::set(&*call.process.descriptors.opened(number)?, name, from, bytes) {
        return set;
    }
    with_socket(call, number, |_, socket| {
        if level as u32 != SOCKET_LEVEL {
            return Err(Errno::EOPNOTSUPP);
        }
        let needed = match option as u32 {
            RECEIVE_TIMEOUT | SEND_TIMEOUT => 16,
            LINGER => 8,
            _ => 4,
        };
        if (bytes as i32) < needed {
            return Err(Errno::EINVAL);
        }
        match option as u32 {
            PASS_CREDENTIALS => socket.ask_for_senders(usercopy::read_half(from)? != 0),
            RECEIVE_TIMEOUT => socket.settings.set_patience(0, read_time(from)?),
            SEND_TIMEOUT => socket.settings.set_patience(1, read_time(from)?),
            // They are what they are.
            SEND_BUFFER | RECEIVE_BUFFER | SEND_BUFFER_FORCED | RECEIVE_BUFFER_FORCED => {}
            LINGER => {
                let numbers = [usercopy::read_half(from)?.min(1), usercopy::read_half(from.saturating_add(4))?];
                (LINGERS..).zip(numbers).for_each(|(at, number)| socket.settings.set_number(at, number));
            }
            flag if FLAGS.contains(&flag) => {
                socket.settings.set_flag(flag, usercopy::read_half(from)? != 0);
            }
            other => {
                let at = NUMBERS.iter().position(|known| *known == other).ok_or(Errno::ENOPROTOOPT)?;
                socket.settings.set_number(at, usercopy::read_half(from)?);
            }
        }
        Ok(0)
    })
}

/// Seconds and microseconds, as nanoseconds.
fn read_time(from: u64) -> Result<u64> {
    let [seconds, rest] = usercopy::read_words::<2>(from)?;
    if rest >= 1_000_000 {
        return Err(Errno::EDOM);
    }
    Ok(seconds.saturating_mul(NANOSECONDS).saturating_add(rest * 1000))
}

pub(crate) fn getsockopt(call: &mut Call<'_>) -> Result<u64> {
    let [number, level, option, to, bytes_at, _] = call.arguments();
    let name = (level as u32, option as u32);
    if let Some(told) = internet_option::get(&*call.process.descriptors.opened(number)?, name, to, bytes_at) {
        return told;
    }
    with_socket(call, number, |_, socket| {
        if level as u32 != SOCKET_LEVEL {
            return Err(Errno::EOPNOTSUPP);
        }
        let room = usercopy::read_half(bytes_at)?;
        if (room as i32) < 0 {
            return Err(Errno::EINVAL);
        }
        let value = value(socket, option as u32)?;
        let room = room.min(value.len() as u32);
        usercopy::write(to, &value[..room as usize])?;
        usercopy::write_half(bytes_at, room).map(|()| 0)
    })
}

fn value(socket: &Socket, option: u32) -> Result<Vec<u8>> {
    let half = |value: u32| Ok(value.to_le_bytes().to_vec());
    match option {
        TYPE => half(socket.kind as u32),
        ERROR => half(socket.take_error().map_or(0, |error| u32::from(error.number()))),
        PROTOCOL => half(0),
        SEND_BUFFER | RECEIVE_BUFFER => half(BUFFER),
        PASS_CREDENTIALS => half(u32::from(socket.settings.wants_credentials())),
        ACCEPTS => half(u32::from(socket.is_listening())),
        DOMAIN => half(UNIX as u32),
        RECEIVE_TIMEOUT | SEND_TIMEOUT => {
            let patience = socket.settings.patience((option == SEND_TIMEOUT) as usize);
            Ok(unix_core::uapi::bytes(&[patience / NANOSECONDS, patience % NANOSECONDS / 1000]))
        }
        PEER_CREDENTIALS => Ok(socket.peer().to_bytes().to_vec()),
        LINGER => Ok((LINGERS..LINGERS + 2).flat_map(|at| socket.settings.number(at).to_le_bytes()).collect()),
        SEND_LEAST => half(1),
        flag if FLAGS.contains(&flag) => half(u32::from(socket.settings.flag(flag))),
        other => {
            let at = NUMBERS.iter().position(|known| *known == other).ok_or(Errno::ENOPROTOOPT)?;
            let number = socket.settings.number(at);
            // The least number of bytes to wait for is one.
            half(if other == RECEIVE_LEAST { number.max(1) } else { number })
        }
    }
}
