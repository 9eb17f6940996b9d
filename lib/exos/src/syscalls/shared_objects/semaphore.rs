//! System V semaphores: the server keeps them, who waits watches its count of changes.

use super::ipc::{Telling, control, numbers, wait};
use crate::hw::usercopy;
use crate::process::call::Call;
use crate::syscalls::events::poll::duration;
use alloc::vec::Vec;
use linux_abi::errno::{Errno, Result};
use unix_core::ipc::sysv_sem::{Change, HIGHEST, MOST, MOST_CHANGES, UNDO};
use unix_core::server::protocol::{IpcCommand, IpcKind, Request};

const GETALL: u64 = 13;
const SETVAL: u64 = 16;
const SETALL: u64 = 17;

const TELLING: Telling =
    Telling { kind: IpcKind::Semaphores, bytes: 104, at: [18, 20], sums: 19, information: limits_or_sums };

/// `struct seminfo`.
fn limits_or_sums(sums: Option<[u64; 5]>) -> Vec<u8> {
    const SETS: u32 = unix_core::ipc::id_table::MOST as u32;
    let (sets, all) = sums.map_or((0, 0), |[_, count, all, ..]| (count as u32, all as u32));
    let [used, all] = if sums.is_some() { [sets, all] } else { [20, HIGHEST as u32] };
    let most = MOST as u32;
    numbers(
        &[
            most,
            SETS,
            most * SETS,
            most * SETS,
            most,
            MOST_CHANGES as u32,
            MOST_CHANGES as u32,
            used,
            HIGHEST as u32,
            all,
        ],
        &[],
    )
}

pub(crate) fn semget(call: &mut Call<'_>) -> Result<u64> {
    let [key, count, flags, ..] = call.arguments();
    if (count as i32) < 0 {
        return Err(Errno::EINVAL);
    }
    let words = [key, count as u32 as u64, flags, 0, 0];
    Ok(call.process.files.lock().on_object(Request::SemaphoreGet, words)?[0])
}

pub(crate) fn semop(call: &mut Call<'_>) -> Result<u64> {
    let [number, changes, count, ..] = call.arguments();
    operate(call, number, (changes, count), None)
}

pub(crate) fn semtimedop(call: &mut Call<'_>) -> Result<u64> {
    let [number, changes, count, time, ..] = call.arguments();
    let deadline = duration(time, 1)?.map(|time| runtime::clock::now().saturating_add(time));
    operate(call, number, (changes, count), deadline)
}

fn operate(call: &Call<'_>, number: u64, (changes, count): (u64, u64), deadline: Option<u64>) -> Result<u64> {
    if count == 0 {
        return Err(Errno::EINVAL);
    }
    if count > MOST_CHANGES as u64 {
        return Err(Errno::E2BIG);
    }
    let bytes = usercopy::read_vec(changes, count as usize * Change::BYTES)?;
    if bytes.chunks_exact(Change::BYTES).any(|change| Change::from_bytes(change).flags & UNDO != 0) {
        call.process.holdings.lock().undoes = true;
    }
    let words = [number as u32 as u64, count, 0, 0, 0];
    let outcome = wait(call, deadline, |files| {
        let [waits, ..] = files.on_object_with(Request::SemaphoreOperate, words, &bytes)?;
        Ok((waits == 0).then_some(0))
    });
    let Err(error) = outcome else { return outcome };
    let left = call.process.files.lock().on_object_with(Request::SemaphoreLeave, [1, words[0], count, 0, 0], &bytes);
    // It was carried out before the wait ended.
    let is_done = matches!(error, Errno::EINTR | Errno::EAGAIN) && matches!(left, Ok([0, ..]));
    if is_done { Ok(0) } else { outcome }
}

pub(crate) fn semctl(call: &mut Call<'_>) -> Result<u64> {
    let [number, place, command, value, ..] = call.arguments();
    if let Some(outcome) = control(call, &TELLING, number, command, value) {
        return outcome;
    }
    let value = if command == SETVAL { u64::from(value as u32) } else { value };
    let words = [number as u32 as u64, place as u32 as u64, command, value, 0];
    let mut given = Vec::new();
    if command == SETALL {
        // How many there are stands in the status. The values are read without the lock, which a fault may need.
        let count = count_of(&mut call.process.files.lock(), words[0])?;
        given = usercopy::read_vec(value, count * 2)?;
    }
    let mut files = call.process.files.lock();
    if command == SETALL {
        files.put(&given)?;
    }
    let [result, count, ..] = files.on_object(Request::SemaphoreControl, words)?;
    if command != GETALL {
        return Ok(result);
    }
    let values = files.left(count * 2)?;
    drop(files);
    usercopy::write(value, &values).map(|()| 0)
}

fn count_of(files: &mut crate::server::client::Client, number: u64) -> Result<usize> {
    const COUNT_AT: usize = 48 + 4 * 8;
    const PLACE: u64 = 0x7fff;
    files.control_object(TELLING.kind, number & PLACE, IpcCommand::StatusAtAny)?;
    let told = files.left(COUNT_AT as u64 + 8)?;
    Ok(u64::from_le_bytes(core::array::from_fn(|byte| told[COUNT_AT + byte])) as usize)
}
