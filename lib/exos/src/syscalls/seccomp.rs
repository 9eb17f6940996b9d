//! Strict mode of secure computing (seccomp(2)): a thread that may read, write, return from a handler and end, no more.
//!
//! Any other call kills the thread, as by SIGKILL. Filters in BPF are refused. Cost: a process with such a thread takes
//! the long way for all its calls; others pay one load in the long way. `getpid` at a site that ExOS has rewritten is
//! answered before the check.

use crate::process::call::Call;
use crate::process::current::{process, thread};
use crate::process::exit;
use core::sync::atomic::Ordering::Relaxed;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use unix_core::process::exit_status::Status;

/// `SECCOMP_MODE_STRICT` of `prctl`, and `SECCOMP_SET_MODE_STRICT`, `SECCOMP_GET_ACTION_AVAIL` of `seccomp`.
const MODE_STRICT: u64 = 1;
const SET_MODE_STRICT: u64 = 0;
const GET_ACTION_AVAIL: u64 = 2;

/// The calls that strict mode allows.
const ALLOWED: [u32; 4] = [linux::__NR_read, linux::__NR_write, linux::__NR_exit, linux::__NR_rt_sigreturn];

/// Ends the running thread where it is confined and makes another call.
pub(super) fn check(number: u64) {
    if !thread().is_confined.load(Relaxed) || ALLOWED.iter().any(|allowed| u64::from(*allowed) == number) {
        return;
    }
    exit::end_thread_as(Status::Killed(linux::SIGKILL))
}

/// `seccomp`: strict mode only.
pub(super) fn seccomp(call: &mut Call<'_>) -> Result<u64> {
    let [operation, flags, arguments, ..] = call.arguments();
    match operation & 0xffff_ffff {
        SET_MODE_STRICT if flags as u32 == 0 && arguments == 0 => confine(),
        GET_ACTION_AVAIL if flags as u32 == 0 => Err(Errno::EOPNOTSUPP),
        _ => Err(Errno::EINVAL),
    }
}

/// `PR_SET_SECCOMP` of `prctl`.
pub(super) fn set_mode(mode: u64) -> Result<u64> {
    if mode == MODE_STRICT { confine() } else { Err(Errno::EINVAL) }
}

fn confine() -> Result<u64> {
    thread().is_confined.store(true, Relaxed);
    process().calls.confine();
    Ok(0)
}
