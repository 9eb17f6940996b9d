//! Calls on what a process may use, and on what it has used.

use crate::descriptor::file_room::file_room;
use crate::hw::usercopy;
use crate::process::Process;
use crate::process::call::Call;
use crate::process::current::thread;
use crate::process::resource_limits::set_limit;
use crate::signal::remote_call;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use unix_core::process::remote_request;
use unix_core::process::rlimits::UNLIMITED;
use unix_core::uapi;

fn set_own(process: &Process, resource: u64, values: [u64; 2]) -> Result<()> {
    let may_raise = process.may(linux::CAP_SYS_RESOURCE);
    set_limit(process, resource, values, may_raise)
}

pub(crate) fn getrlimit(call: &mut Call<'_>) -> Result<u64> {
    let [resource, to, ..] = call.arguments();
    let limits = call.process.attributes.limits.lock().get(resource)?;
    usercopy::write(to, &uapi::bytes(&limits)).map(|()| 0)
}

pub(crate) fn setrlimit(call: &mut Call<'_>) -> Result<u64> {
    let [resource, from, ..] = call.arguments();
    set_own(call.process, resource, usercopy::read_words(from)?).map(|()| 0)
}

/// The limits of another process: its library is asked to tell and to set them, if the server finds that it may be.
fn limits_of(call: &Call<'_>, number: u64, resource: u64, new: Option<[u64; 2]>) -> Result<[u64; 2]> {
    crate::process_table::find(number).ok_or(Errno::ESRCH)?;
    let may_raise = call.process.may(linux::CAP_SYS_RESOURCE);
    let request = remote_request::Limit { resource, new, may_raise };
    let told = remote_call::request(number, &request.to_path()).map_err(|error| match error {
        Errno::EACCES => Errno::EPERM,
        error => error,
    })?;
    remote_request::limits_from(&told).ok_or(Errno::EIO)
}

pub(crate) fn prlimit64(call: &mut Call<'_>) -> Result<u64> {
    let [number, resource, new, old, ..] = call.arguments();
    if number != 0 && number != call.process.number() {
        let new = if new == 0 { None } else { Some(usercopy::read_words(new)?) };
        let before = limits_of(call, number, resource, new)?;
        return if old == 0 { Ok(0) } else { usercopy::write(old, &uapi::bytes(&before)).map(|()| 0) };
    }
    let before = call.process.attributes.limits.lock().get(resource)?;
    if new != 0 {
        set_own(call.process, resource, usercopy::read_words(new)?)?;
    }
    if old != 0 {
        usercopy::write(old, &uapi::bytes(&before))?;
    }
    Ok(0)
}

pub(crate) fn getrusage(call: &mut Call<'_>) -> Result<u64> {
    let [who, to, ..] = call.arguments();
    let used = match who as i32 {
        who if who as u32 == linux::RUSAGE_SELF => call.process.usage(),
        who if who as u32 == linux::RUSAGE_THREAD => thread().usage(),
        linux::RUSAGE_CHILDREN => call.process.children.lock().usage,
        _ => return Err(Errno::EINVAL),
    };
    usercopy::write(to, &used.to_bytes()).map(|()| 0)
}

/// Whether a file may be of this size.
pub(crate) fn check_file_size(size: u64) -> Result<()> {
    file_room(size.saturating_sub(1), u64::from(size > 0)).map(|_| ())
}

/// Whether there may be one process or thread more.
pub(crate) fn check_processes(process: &Process) -> Result<()> {
    let most = process.attributes.limits.lock().soft(linux::RLIMIT_NPROC);
    if most == UNLIMITED {
        return Ok(());
    }
    let threads = process.threads.lock().len() as u64 - 1;
    let there = crate::process_table::all().len() as u64 + threads;
    if there < most { Ok(()) } else { Err(Errno::EAGAIN) }
}
