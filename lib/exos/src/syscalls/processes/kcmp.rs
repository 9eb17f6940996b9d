//! `kcmp`: whether two processes share something (kcmp(2)). Two descriptions are the same where their records are,
//! which relatives have in common; another process is asked for the number of its own.

use crate::process::Process;
use crate::process::call::Call;
use crate::process_table;
use crate::signal::remote_call;
use linux_abi::errno::{Errno, Result};
use unix_core::process::remote_request;

/// What can be compared (`linux/kcmp.h`).
mod kind {
    pub(super) const FILE: u32 = 0;
    pub(super) const MEMORY: u32 = 1;
    pub(super) const SIGNAL_HANDLERS: u32 = 4;
    pub(super) const INPUT_OUTPUT: u32 = 5;
    pub(super) const SEMAPHORES: u32 = 6;
    pub(super) const WATCHED: u32 = 7;
}

/// 0 for the same, else which comes first.
pub(crate) fn kcmp(call: &mut Call<'_>) -> Result<u64> {
    let [first, second, kind, one, other, _] = call.arguments();
    let (first, second) = (meant(call.process, first)?, meant(call.process, second)?);
    match kind as u32 {
        kind::FILE => {
            let numbers = [description(call.process, first, one)?, description(call.process, second, other)?];
            Ok(order(numbers[0], numbers[1]))
        }
        kind::MEMORY..=kind::SIGNAL_HANDLERS => Ok(order(first, second)),
        // No process here has these, so all have the same.
        kind::INPUT_OUTPUT | kind::SEMAPHORES => Ok(0),
        kind::WATCHED => Err(Errno::EOPNOTSUPP),
        _ => Err(Errno::EINVAL),
    }
}

fn order(first: u64, second: u64) -> u64 {
    match first.cmp(&second) {
        core::cmp::Ordering::Equal => 0,
        core::cmp::Ordering::Less => 1,
        core::cmp::Ordering::Greater => 2,
    }
}

/// The process with this number, or that of the thread: its threads share everything.
fn meant(process: &Process, number: u64) -> Result<u64> {
    let is_own = process.threads.lock().iter().any(|thread| thread.shown_number() == number);
    if is_own || number == process.number() {
        return Ok(process.number());
    }
    let other = process_table::find(number).ok_or(Errno::ESRCH)?;
    if process.attributes.credentials.lock().may_signal(other.user[0], other.user[1]) {
        Ok(number)
    } else {
        Err(Errno::EPERM)
    }
}

/// The number of what a descriptor of a process is open on.
fn description(process: &Process, owner: u64, descriptor: u64) -> Result<u64> {
    if owner == process.number() {
        return Ok(process.descriptors.description(descriptor)?.number());
    }
    let told =
        remote_call::request(owner, &remote_request::descriptor_to_path(remote_request::DESCRIPTION, descriptor))
            .map_err(|error| if error == Errno::EACCES { Errno::EPERM } else { error })?;
    Ok(u64::from_le_bytes(told.try_into().map_err(|_| Errno::EIO)?))
}
