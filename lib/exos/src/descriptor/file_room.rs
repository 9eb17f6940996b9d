//! Limit of the size of files (`RLIMIT_FSIZE`): how much of a write fits below it.

use crate::attributes::attributes;
use crate::signal;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;

/// How many of `count` bytes from `at` on a file may get; none is `EFBIG`, with a signal.
pub(crate) fn file_room(at: u64, count: u64) -> Result<u64> {
    let most = attributes().limits.lock().soft(linux::RLIMIT_FSIZE);
    if count == 0 || at.saturating_add(count) <= most {
        return Ok(count);
    }
    if at >= most {
        signal::raise_here(linux::SIGXFSZ);
        return Err(Errno::EFBIG);
    }
    Ok(most - at)
}
