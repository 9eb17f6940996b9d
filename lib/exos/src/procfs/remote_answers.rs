//! Requests of other processes that are no files: limits, scheduling, settings, descriptors, grown pipes and truncated
//! files. The server has found that the other process may ask.

use super::{truncate_notify, writable};
use crate::descriptor::sockets::scm_rights;
use crate::process::Process;
use crate::process::current::process;
use crate::process::exit::subreaper;
use crate::process::resource_limits::set_limit;
use crate::process::sched::change::change_own;
use alloc::vec::Vec;
use linux_abi::errno::{Errno, Result};
use unix_core::process::remote_request::{self, Schedule};

/// The answer to a request of the kind `kind`; nothing where that is a file.
pub(super) fn answer(kind: &str, request: &str) -> Option<Result<Vec<u8>>> {
    Some(match kind {
        remote_request::LIMIT | remote_request::RAISED_LIMIT => limit(process(), request),
        remote_request::ADOPT => subreaper::answer(request),
        remote_request::DESCRIPTION => description(process(), request),
        remote_request::STATUS => status(process(), request),
        remote_request::COPY => copy(process(), request),
        remote_request::PAGE_MAP => page_map(request),
        remote_request::SET | remote_request::RAISED_SET => writable::answer(request),
        remote_request::GROWN => crate::pipe::answer_grown(request),
        remote_request::CUT => truncate_notify::answer(process(), request),
        remote_request::SCHEDULED | remote_request::SCHEDULE | remote_request::RAISED_SCHEDULE => {
            schedule(process(), request)
        }
        _ => return None,
    })
}

fn page_map(path: &str) -> Result<Vec<u8>> {
    let [first, count] = remote_request::page_map_from_path(path).ok_or(Errno::EINVAL)?;
    Ok(super::live_files::own_entries(first, count))
}

/// The limits before, and the new ones set.
fn limit(process: &Process, path: &str) -> Result<Vec<u8>> {
    let remote_request::Limit { resource, new, may_raise } =
        remote_request::Limit::from_path(path).ok_or(Errno::EINVAL)?;
    let before = process.attributes.limits.lock().get(resource)?;
    if let Some(new) = new {
        set_limit(process, resource, new, may_raise)?;
    }
    Ok(remote_request::limits_to(before))
}

fn description(process: &Process, path: &str) -> Result<Vec<u8>> {
    let descriptor = remote_request::descriptor_from_path(remote_request::DESCRIPTION, path).ok_or(Errno::EINVAL)?;
    Ok(process.descriptors.description(descriptor)?.number().to_le_bytes().to_vec())
}

/// Attributes of what a descriptor of this process is open on, for the process that asks.
fn status(process: &Process, path: &str) -> Result<Vec<u8>> {
    let descriptor = remote_request::descriptor_from_path(remote_request::STATUS, path).ok_or(Errno::EINVAL)?;
    let status = super::status_of(&*process.descriptors.description(descriptor)?)?;
    Ok(status.to_words().iter().flat_map(|word| word.to_le_bytes()).collect())
}

/// A descriptor, as a message would carry it.
fn copy(process: &Process, path: &str) -> Result<Vec<u8>> {
    let descriptor = remote_request::descriptor_from_path(remote_request::COPY, path).ok_or(Errno::EINVAL)?;
    scm_rights::pack(&*process.descriptors.description(descriptor)?)
}

/// How this process is scheduled, after the change that was asked for.
fn schedule(process: &Process, path: &str) -> Result<Vec<u8>> {
    let Schedule { change, may_raise } = Schedule::from_path(path).ok_or(Errno::EINVAL)?;
    if let Some(change) = change {
        change_own(process, change, may_raise)?;
    }
    Ok(remote_request::schedule_to(&process.attributes.prctl.lock()))
}
