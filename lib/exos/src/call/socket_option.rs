//! What can be set of a socket, and asked (socket(7), unix(7)).

use super::dispatch::Call;
use super::socket::{UNIX, with_socket};
use crate::descriptor::socket::Socket;
use crate::errno::{Errno, Result};
use crate::user_memory::copy;
use alloc::vec::Vec;

/// The level of options that all sockets have (asm/socket.h).
pub(super) const SOCKET_LEVEL: u32 = 1;

const TYPE: u32 = 3;
const ERROR: u32 = 4;
const SEND_BUFFER: u32 = 7;
const RECEIVE_BUFFER: u32 = 8;
const PASS_CREDENTIALS: u32 = 16;
const PEER_CREDENTIALS: u32 = 17;
const RECEIVE_TIMEOUT: u32 = 20;
const SEND_TIMEOUT: u32 = 21;
const ACCEPTS: u32 = 30;
const PROTOCOL: u32 = 38;
const DOMAIN: u32 = 39;

/// What a socket holds, as it says.
const BUFFER: u32 = 212_992;

const NANOSECONDS: u64 = 1_000_000_000;

pub(super) fn setsockopt(call: &mut Call<'_>) -> Result<u64> {
    let [number, level, option, from, bytes, _] = call.arguments();
    with_socket(call, number, |_, socket| {
        if level as u32 != SOCKET_LEVEL {
            return Err(Errno::EOPNOTSUPP);
        }
        let needed = if matches!(option as u32, RECEIVE_TIMEOUT | SEND_TIMEOUT) { 16 } else { 4 };
        if (bytes as u32) < needed {
            return Err(Errno::EINVAL);
        }
        match option as u32 {
            PASS_CREDENTIALS => socket.ask_for_senders(copy::read_half(from)? != 0),
            RECEIVE_TIMEOUT => socket.settings.lock().patience[0] = read_time(from)?,
            SEND_TIMEOUT => socket.settings.lock().patience[1] = read_time(from)?,
            TYPE | ERROR | PEER_CREDENTIALS | ACCEPTS | PROTOCOL | DOMAIN => return Err(Errno::ENOPROTOOPT),
            // Sizes of buffers and the like: they are what they are.
            _ => {}
        }
        Ok(0)
    })
}

/// Seconds and microseconds, as nanoseconds.
fn read_time(from: u64) -> Result<u64> {
    let [seconds, rest] = copy::read_words::<2>(from)?;
    if rest >= 1_000_000 {
        return Err(Errno::EDOM);
    }
    Ok(seconds.saturating_mul(NANOSECONDS).saturating_add(rest * 1000))
}

pub(super) fn getsockopt(call: &mut Call<'_>) -> Result<u64> {
    let [number, level, option, to, bytes_at, _] = call.arguments();
    with_socket(call, number, |_, socket| {
        if level as u32 != SOCKET_LEVEL {
            return Err(Errno::EOPNOTSUPP);
        }
        let value = value(socket, option as u32)?;
        let room = copy::read_half(bytes_at)?.min(value.len() as u32);
        copy::write(to, &value[..room as usize])?;
        copy::write_half(bytes_at, room).map(|()| 0)
    })
}

fn value(socket: &Socket, option: u32) -> Result<Vec<u8>> {
    let half = |value: u32| Ok(value.to_le_bytes().to_vec());
    match option {
        TYPE => half(socket.kind as u32),
        ERROR | PROTOCOL => half(0),
        SEND_BUFFER | RECEIVE_BUFFER => half(BUFFER),
        PASS_CREDENTIALS => half(u32::from(socket.settings.lock().wants_credentials)),
        ACCEPTS => half(u32::from(socket.is_listening())),
        DOMAIN => half(UNIX as u32),
        RECEIVE_TIMEOUT | SEND_TIMEOUT => {
            let patience = socket.settings.lock().patience[(option == SEND_TIMEOUT) as usize];
            Ok(super::layout::bytes(&[patience / NANOSECONDS, patience % NANOSECONDS / 1000]))
        }
        PEER_CREDENTIALS => Ok(socket.peer().to_bytes().to_vec()),
        _ => Err(Errno::ENOPROTOOPT),
    }
}
