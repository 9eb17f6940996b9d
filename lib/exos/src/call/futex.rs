//! Calls on futexes.

use super::dispatch::Call;
use super::poll::duration;
use super::time::wall_clock;
use crate::errno::{Errno, Result};
use crate::process::futex::{self, ANY};
use crate::user_memory::copy;
use crate::user_memory::current::thread;
use core::sync::atomic::Ordering::Relaxed;
use linux_raw_sys::general as linux;
use runtime::clock;

/// Bytes of the head of a list of robust futexes.
const HEAD_BYTES: u64 = 24;

pub(super) fn futex(call: &mut Call<'_>) -> Result<u64> {
    let [address, operation, value, fourth, second, third] = call.arguments();
    let (operation, value) = (operation as u32, value as u32);
    let most = |value: u64| u64::from((value as i32).max(0) as u32);
    let command = operation & linux::FUTEX_CMD_MASK as u32;
    match command {
        linux::FUTEX_WAIT | linux::FUTEX_WAIT_BITSET => {
            let absolute = command == linux::FUTEX_WAIT_BITSET;
            let bits = if absolute { third as u32 } else { ANY };
            let real = operation & linux::FUTEX_CLOCK_REALTIME != 0;
            let private = operation & linux::FUTEX_PRIVATE_FLAG != 0;
            futex::wait(address, value, bits, deadline(fourth, absolute, real)?, private).map(|()| 0)
        }
        linux::FUTEX_WAKE => futex::wake(address, most(u64::from(value)), ANY),
        linux::FUTEX_WAKE_BITSET => futex::wake(address, most(u64::from(value)), third as u32),
        linux::FUTEX_REQUEUE => {
            let done = futex::requeue(address, second, most(u64::from(value)), most(fourth), None)?;
            Ok(done.0)
        }
        linux::FUTEX_CMP_REQUEUE => {
            let done = futex::requeue(address, second, most(u64::from(value)), most(fourth), Some(third as u32))?;
            Ok(done.0 + done.1)
        }
        linux::FUTEX_WAKE_OP => {
            futex::wake_and_change(address, second, [most(u64::from(value)), most(fourth)], third as u32)
        }
        _ => Err(Errno::ENOSYS),
    }
}

/// When a wait ends, on the clock since boot.
fn deadline(time: u64, absolute: bool, real: bool) -> Result<Option<u64>> {
    let Some(time) = duration(time, 1)? else { return Ok(None) };
    let now = clock::now();
    let from_now = match (absolute, real) {
        (false, _) => time,
        (true, false) => return Ok(Some(time)),
        (true, true) => time.saturating_sub(wall_clock()),
    };
    Ok(Some(now.saturating_add(from_now)))
}

pub(super) fn set_robust_list(call: &mut Call<'_>) -> Result<u64> {
    let [head, bytes, ..] = call.arguments();
    if bytes != HEAD_BYTES {
        return Err(Errno::EINVAL);
    }
    thread().robust_list.store(head, Relaxed);
    Ok(0)
}

pub(super) fn get_robust_list(call: &mut Call<'_>) -> Result<u64> {
    let [number, head, bytes, ..] = call.arguments();
    let threads = call.process.threads.lock();
    let wanted = if number == 0 { thread().number() } else { number };
    let found = threads.iter().find(|thread| thread.number() == wanted).ok_or(Errno::ESRCH)?;
    let list = found.robust_list.load(Relaxed);
    drop(threads);
    copy::write_word(head, list)?;
    copy::write_word(bytes, HEAD_BYTES).map(|()| 0)
}
