//! Calls on descriptors of processes: `pidfd_open`, `pidfd_send_signal` and `pidfd_getfd`.

use crate::descriptor::events::pidfd::ProcessDescriptor;
use crate::descriptor::object::Object;
use crate::descriptor::sockets::scm_rights;
use crate::hw::usercopy;
use crate::process::Process;
use crate::process::call::Call;
use crate::process_table;
use crate::signal::remote_call;
use crate::syscalls::events::event_fds;
use crate::syscalls::events::signal::read_information;
use crate::syscalls::files::descriptor;
use alloc::sync::Arc;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use unix_core::process::remote_request;
use unix_core::signal::pending::from_user;

pub(crate) fn pidfd_open(call: &mut Call<'_>) -> Result<u64> {
    let [number, flags, ..] = call.arguments();
    if flags as u32 & !linux::O_NONBLOCK != 0 || (number as i32) <= 0 {
        return Err(Errno::EINVAL);
    }
    let number = u64::from(number as u32);
    if number != call.process.number() && process_table::find_any(number).is_none() {
        // A thread has a number, and is no process.
        let is_thread = call.process.threads.lock().iter().any(|thread| thread.shown_number() == number);
        return Err(if is_thread { Errno::EINVAL } else { Errno::ESRCH });
    }
    open(call, number, flags as u32)
}

/// A fresh descriptor of a process.
pub(crate) fn open(call: &Call<'_>, number: u64, flags: u32) -> Result<u64> {
    event_fds::open(call, Arc::new(ProcessDescriptor { number }), flags | linux::O_CLOEXEC)
}

/// The process that a descriptor is of, and whether waiting for it must not take time.
pub(crate) fn process_of(process: &Process, number: u64) -> Result<(u64, bool)> {
    let description = process.descriptors.description(number)?;
    let of: &ProcessDescriptor = description.as_kind().ok_or(Errno::EBADF)?;
    Ok((of.number, description.is_nonblocking()))
}

/// A copy of a descriptor of a process: that one hands it over, if this one may look into it.
pub(crate) fn pidfd_getfd(call: &mut Call<'_>) -> Result<u64> {
    let [number, taken, flags, ..] = call.arguments();
    if flags as u32 != 0 {
        return Err(Errno::EINVAL);
    }
    match process_of(call.process, number)?.0 {
        own if own == call.process.number() => descriptor::duplicate(call, taken, 0, true),
        other if process_table::find(other).is_some() => copy_of(call, other, taken),
        _ => Err(Errno::ESRCH),
    }
}

fn copy_of(call: &Call<'_>, owner: u64, descriptor: u64) -> Result<u64> {
    let packed = remote_call::request(owner, &remote_request::descriptor_to_path(remote_request::COPY, descriptor))
        .map_err(|error| if error == Errno::EACCES { Errno::EPERM } else { error })?;
    let description = scm_rights::unpack(&packed).next().ok_or(Errno::EIO)??;
    call.process.descriptors.install(description, 0, true)
}

pub(crate) fn pidfd_send_signal(call: &mut Call<'_>) -> Result<u64> {
    let [number, signal, information, flags, ..] = call.arguments();
    if flags as u32 != 0 {
        return Err(Errno::EINVAL);
    }
    let receiver = signalled(call.process, number)?;
    let information = match information {
        0 => from_user(signal as u32, call.process.attributes.sender()),
        at if usercopy::read_half(at)? != signal as u32 => return Err(Errno::EINVAL),
        at => {
            let told = read_information(at, signal)?;
            let may_say = receiver == call.process.number() || told.code < 0 && told.code != linux::SI_TKILL;
            if !may_say {
                return Err(Errno::EPERM);
            }
            told
        }
    };
    process_table::send(receiver, &information)
}

/// The process that a descriptor is of to who sends a signal: a folder of `/proc` does as well.
fn signalled(process: &Process, number: u64) -> Result<u64> {
    let description = process.descriptors.opened(number)?;
    if let Object::Listing(folder) = &description.object {
        let named = core::str::from_utf8(&folder.path).ok().and_then(|path| path.parse().ok());
        return named.ok_or(Errno::EBADF);
    }
    description.as_kind().map(|of: &ProcessDescriptor| of.number).ok_or(Errno::EBADF)
}
