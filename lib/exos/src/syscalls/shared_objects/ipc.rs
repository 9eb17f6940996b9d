//! What calls on System V objects have in common: waiting, and telling of objects.

use crate::hw::usercopy;
use crate::process::call::Call;
use crate::server::client::{self, Client};
use crate::wait;
use core::sync::atomic::Ordering::Acquire;
use linux_abi::errno::{Errno, Result};
use runtime::predicate::{Operator, word};
use unix_core::server::protocol::{IpcCommand, IpcKind};
use unix_core::uapi;

/// Flag of an operation: it does not wait (`IPC_NOWAIT`).
pub(crate) const NO_WAIT: u64 = 0o4000;
/// Flag of a command: the structures are those of 64 bits, which they are anyway.
const WIDE: u64 = 0x100;
const REMOVE: u64 = 0;
const SET: u64 = 1;
const STATUS: u64 = 2;
const LIMITS: u64 = 3;
/// Bytes of the permissions, and of what follows at most.
const STRUCTURE_BYTES: usize = 176;
/// Nanoseconds after which who waits looks again: who should have told may have died.
const LOOK_AGAIN: u64 = 100_000_000;

/// Does something until it is done: `attempt` says nothing where it has to wait.
pub(crate) fn wait<T>(
    call: &Call<'_>,
    deadline: Option<u64>,
    attempt: impl Fn(&mut Client) -> Result<Option<T>>,
) -> Result<T> {
    let mut waited = false;
    loop {
        let changes = client::changes();
        let seen = changes.load(Acquire);
        match attempt(&mut call.process.files.lock()) {
            Ok(Some(done)) => return Ok(done),
            Err(Errno::EINVAL) if waited => return Err(Errno::EIDRM),
            outcome => outcome?,
        };
        let now = runtime::clock::now();
        if deadline.is_some_and(|deadline| deadline <= now) {
            return Err(Errno::EAGAIN);
        }
        let until = deadline.unwrap_or(u64::MAX).min(now + LOOK_AGAIN);
        wait::wait(&[word(changes, Operator::NotEqual, seen)], Some(until))?;
        waited = true;
    }
}

/// How a kind of objects is told of.
pub(crate) struct Telling {
    /// Its kind.
    pub(crate) kind: IpcKind,
    /// Bytes of its structure.
    pub(crate) bytes: usize,
    /// Commands that tell of the object in a place: `SHM_STAT`, and the same without asking.
    pub(crate) at: [u64; 2],
    /// Command that tells what there is (`SHM_INFO`).
    pub(crate) sums: u64,
    /// Bytes that tell the limits, or, with the answer of the server, what there is.
    pub(crate) information: fn(Option<[u64; 5]>) -> alloc::vec::Vec<u8>,
}

/// The commands that all kinds of objects have; `None` for others.
pub(crate) fn control(call: &Call<'_>, how: &Telling, number: u64, command: u64, at: u64) -> Option<Result<u64>> {
    let command = command & !WIDE;
    let command = match command {
        REMOVE => IpcCommand::Remove,
        SET => IpcCommand::Set,
        STATUS => IpcCommand::Status,
        LIMITS => return Some(tell_sums(call, how, false, at)),
        command if command == how.sums => return Some(tell_sums(call, how, true, at)),
        command if command == how.at[0] => IpcCommand::StatusAt,
        command if command == how.at[1] => IpcCommand::StatusAtAny,
        _ => return None,
    };
    Some(perform(call, how, number, command, at))
}

fn perform(call: &Call<'_>, how: &Telling, number: u64, command: IpcCommand, at: u64) -> Result<u64> {
    let given = if command == IpcCommand::Set { usercopy::read_vec(at, how.bytes)? } else { alloc::vec::Vec::new() };
    let told = {
        let mut files = call.process.files.lock();
        if command == IpcCommand::Set {
            files.put(&given)?;
        }
        let [number, ..] = files.control_object(how.kind, number as u32 as u64, command)?;
        (number, files.left(STRUCTURE_BYTES as u64)?)
    };
    match command {
        IpcCommand::Remove | IpcCommand::Set => Ok(0),
        IpcCommand::Status => usercopy::write(at, &told.1[..how.bytes]).map(|()| 0),
        _ => usercopy::write(at, &told.1[..how.bytes]).map(|()| told.0),
    }
}

fn tell_sums(call: &Call<'_>, how: &Telling, sums: bool, at: u64) -> Result<u64> {
    let answer = call.process.files.lock().control_object(how.kind, 0, IpcCommand::Highest)?;
    usercopy::write(at, &(how.information)(sums.then_some(answer))).map(|()| answer[0])
}

/// Halves, then words, as bytes.
pub(crate) fn numbers(halves: &[u32], words: &[u64]) -> alloc::vec::Vec<u8> {
    let mut bytes: alloc::vec::Vec<u8> = halves.iter().flat_map(|half| half.to_le_bytes()).collect();
    bytes.extend(uapi::bytes(words));
    bytes
}
