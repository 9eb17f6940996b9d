//! System V message queues: the server keeps them, who waits watches its count of changes.

use super::ipc::{NO_WAIT, Telling, control, numbers, wait};
use crate::hw::usercopy;
use crate::process::call::Call;
use alloc::vec::Vec;
use linux_abi::errno::{Errno, Result};
use unix_core::ipc::sysv_msg::{COPY, EXCEPT, MOST_BYTES, QUEUE_BYTES};
use unix_core::server::protocol::{IpcKind, Request};

const TELLING: Telling =
    Telling { kind: IpcKind::Messages, bytes: 120, at: [11, 13], sums: 12, information: limits_or_sums };

/// `struct msginfo`.
fn limits_or_sums(sums: Option<[u64; 5]>) -> Vec<u8> {
    const QUEUES: u32 = unix_core::ipc::id_table::MOST as u32;
    let [pool, map, headers] = match sums {
        None => [QUEUES * (QUEUE_BYTES / 1024) as u32, QUEUE_BYTES as u32, QUEUE_BYTES as u32],
        Some([_, count, messages, bytes, _]) => [count as u32, messages as u32, bytes as u32],
    };
    numbers(&[pool, map, MOST_BYTES as u32, QUEUE_BYTES as u32, QUEUES, 16, headers, 0xffff], &[])
}

pub(crate) fn msgget(call: &mut Call<'_>) -> Result<u64> {
    let [key, flags, ..] = call.arguments();
    Ok(call.process.files.lock().on_object(Request::MessageGet, [key, flags, 0, 0, 0])?[0])
}

/// A deadline that has passed, for who must not wait.
fn deadline(flags: u64) -> Option<u64> {
    (flags & NO_WAIT != 0).then_some(0)
}

pub(crate) fn msgsnd(call: &mut Call<'_>) -> Result<u64> {
    let [number, at, bytes, flags, ..] = call.arguments();
    if bytes > MOST_BYTES {
        return Err(Errno::EINVAL);
    }
    let kind = usercopy::read_word(at)?;
    let text = usercopy::read_vec(at.saturating_add(8), bytes as usize)?;
    let words = [number as u32 as u64, kind, bytes, 0, 0];
    wait(call, deadline(flags), |files| {
        let [waits, ..] = files.on_object_with(Request::MessageSend, words, &text)?;
        Ok((waits == 0).then_some(0))
    })
}

pub(crate) fn msgrcv(call: &mut Call<'_>) -> Result<u64> {
    let [number, to, room, kind, flags, _] = call.arguments();
    let has = |flag: u32| flags & u64::from(flag) != 0;
    if (room as i64) < 0 || has(COPY) && (flags & NO_WAIT == 0 || has(EXCEPT)) {
        return Err(Errno::EINVAL);
    }
    usercopy::prepare(to, 8 + room.min(MOST_BYTES), true)?;
    let words = [number as u32 as u64, kind, room, flags, 0];
    let outcome = wait(call, deadline(flags), |files| {
        let [waits, bytes, kind, ..] = files.on_object_with(Request::MessageReceive, words, b"")?;
        if waits != 0 { Ok(None) } else { Ok(Some((kind, files.left(bytes)?))) }
    });
    let (kind, text) = outcome.map_err(|error| if error == Errno::EAGAIN { Errno::ENOMSG } else { error })?;
    usercopy::write_word(to, kind)?;
    usercopy::write(to.saturating_add(8), &text)?;
    Ok(text.len() as u64)
}

pub(crate) fn msgctl(call: &mut Call<'_>) -> Result<u64> {
    let [number, command, at, ..] = call.arguments();
    control(call, &TELLING, number, command, at).unwrap_or(Err(Errno::EINVAL))
}
