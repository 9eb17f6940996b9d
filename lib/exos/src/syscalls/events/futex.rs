//! Calls on futexes.

use super::poll::duration;
use crate::hw::usercopy;
use crate::process::call::Call;
use crate::process::current::thread;
use crate::process::futex::{self, ANY, Requeue};
use crate::process::thread::Thread;
use crate::process_table;
use crate::server::client::wall_clock;
use crate::signal;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use runtime::clock;

/// Bytes of the head of a list of robust futexes.
const HEAD_BYTES: u64 = 24;

/// What threads of one process ask for goes first.
pub(crate) fn futex(call: &mut Call<'_>) -> Result<u64> {
    let [address, operation, value, time, ..] = call.arguments();
    match operation as u32 {
        linux::FUTEX_WAIT_PRIVATE if time == 0 => futex::wait(address, value as u32, ANY, None, true).map(|()| 0),
        linux::FUTEX_WAKE_PRIVATE => futex::wake(address, most_woken(value), ANY, true),
        _ => any(call),
    }
}

/// How many at most: an `int`.
fn most(value: u64) -> u64 {
    u64::from((value as i32).max(0) as u32)
}

/// A wake counts before it compares: a count of 0 or below wakes one waiter, as on Linux.
fn most_woken(value: u64) -> u64 {
    most(value).max(1)
}

#[inline(never)]
fn any(call: &Call<'_>) -> Result<u64> {
    let [address, operation, value, fourth, second, third] = call.arguments();
    let (operation, value, third) = (operation as u32, value as u32, third as u32);
    let both = [most(u64::from(value)), most(fourth)];
    let command = operation & linux::FUTEX_CMD_MASK as u32;
    let real = operation & linux::FUTEX_CLOCK_REALTIME != 0;
    let private = operation & linux::FUTEX_PRIVATE_FLAG != 0;
    let by_either_clock = [linux::FUTEX_WAIT_BITSET, linux::FUTEX_LOCK_PI2, linux::FUTEX_WAIT_REQUEUE_PI];
    if real && !by_either_clock.contains(&command) {
        return Err(Errno::ENOSYS);
    }
    match command {
        linux::FUTEX_WAIT | linux::FUTEX_WAIT_BITSET => {
            let absolute = command == linux::FUTEX_WAIT_BITSET;
            let bits = if absolute { third } else { ANY };
            let deadline = deadline(fourth, absolute, real)?;
            match futex::wait(address, value, bits, deadline, private) {
                Err(Errno::EINTR) if deadline.is_some() && signal::next_is_handled() => {
                    Err(Errno::INTERRUPTED_FOR_GOOD)
                }
                outcome => outcome.map(|()| 0),
            }
        }
        linux::FUTEX_WAKE => futex::wake(address, most_woken(u64::from(value)), ANY, private),
        linux::FUTEX_WAKE_BITSET => futex::wake(address, most_woken(u64::from(value)), third, private),
        linux::FUTEX_REQUEUE | linux::FUTEX_CMP_REQUEUE | linux::FUTEX_CMP_REQUEUE_PI
            if (value as i32) < 0 || (fourth as i32) < 0 =>
        {
            Err(Errno::EINVAL)
        }
        linux::FUTEX_REQUEUE => {
            let request = Requeue { words: [address, second], most: both, expected: None };
            futex::requeue(request, private).map(|[woken, moved]| woken + moved)
        }
        linux::FUTEX_CMP_REQUEUE => {
            let request = Requeue { words: [address, second], most: both, expected: Some(third) };
            futex::requeue(request, private).map(|[woken, moved]| woken + moved)
        }
        linux::FUTEX_WAKE_OP => {
            let both = [most_woken(u64::from(value)), most_woken(fourth)];
            futex::wake_and_change([address, second], both, third, private)
        }
        linux::FUTEX_LOCK_PI | linux::FUTEX_LOCK_PI2 => {
            let deadline = deadline(fourth, true, real || command == linux::FUTEX_LOCK_PI)?;
            futex::lock_pi(address, deadline, private, true).map(|()| 0)
        }
        linux::FUTEX_TRYLOCK_PI => futex::lock_pi(address, None, private, false).map(|()| 0),
        linux::FUTEX_UNLOCK_PI => futex::unlock_pi(address, private).map(|()| 0),
        linux::FUTEX_WAIT_REQUEUE_PI => {
            let deadline = deadline(fourth, true, real)?;
            futex::wait_requeue_pi([address, second], value, deadline, private).map(|()| 0)
        }
        linux::FUTEX_CMP_REQUEUE_PI => {
            let request = Requeue { words: [address, second], most: both, expected: Some(third) };
            futex::requeue_pi(request, private)
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

pub(crate) fn set_robust_list(call: &mut Call<'_>) -> Result<u64> {
    let [head, bytes, ..] = call.arguments();
    if bytes != HEAD_BYTES {
        return Err(Errno::EINVAL);
    }
    thread().set_robust_list(head);
    Ok(0)
}

pub(crate) fn get_robust_list(call: &mut Call<'_>) -> Result<u64> {
    let [number, head, bytes, ..] = call.arguments();
    let wanted = if number == 0 { thread().shown_number() } else { number };
    let find = |thread: &&&Thread| thread.shown_number() == wanted;
    let found = call.process.threads.lock().iter().find(find).map(|thread| thread.robust_list());
    let Some(list) = found else {
        // Another process's only that one knows.
        let is_there = wanted == runtime::entry::FIRST.0 || process_table::find(wanted).is_some();
        return Err(if is_there { Errno::EPERM } else { Errno::ESRCH });
    };
    usercopy::write_word(head, list)?;
    usercopy::write_word(bytes, HEAD_BYTES).map(|()| 0)
}
