//! Calls on users and groups: `attributes::credentials` has the records, and the server keeps the truth.

use crate::hw::usercopy;
use crate::process::Process;
use crate::process::call::Call;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use unix_core::process::credentials::{Change, Credentials, IdentityChange, KEEP, KEEPABLE, ResIds};
use unix_core::server::protocol::{Request, WINDOW_BYTES};
use vfs::supplementary_groups::{self, Groups};

const USER: u64 = 0;
const GROUP: u64 = 1;

fn identity(call: &Call<'_>) -> Credentials {
    call.process.attributes.credentials.lock().clone()
}

pub(crate) fn getuid(call: &mut Call<'_>) -> Result<u64> {
    Ok(u64::from(call.process.attributes.credentials.lock().user.real))
}

pub(crate) fn geteuid(call: &mut Call<'_>) -> Result<u64> {
    Ok(u64::from(call.process.attributes.credentials.lock().user.effective))
}

pub(crate) fn getgid(call: &mut Call<'_>) -> Result<u64> {
    Ok(u64::from(call.process.attributes.credentials.lock().group.real))
}

pub(crate) fn getegid(call: &mut Call<'_>) -> Result<u64> {
    Ok(u64::from(call.process.attributes.credentials.lock().group.effective))
}

fn tell(call: &Call<'_>, three: ResIds) -> Result<u64> {
    let [real, effective, saved, ..] = call.arguments();
    usercopy::write_half(real, three.real)?;
    usercopy::write_half(effective, three.effective)?;
    usercopy::write_half(saved, three.saved).map(|()| 0)
}

pub(crate) fn getresuid(call: &mut Call<'_>) -> Result<u64> {
    tell(call, identity(call).user)
}

pub(crate) fn getresgid(call: &mut Call<'_>) -> Result<u64> {
    tell(call, identity(call).group)
}

/// Asks the server, which decides; the own copy follows.
fn change(call: &Call<'_>, which: u64, change: Change, wanted: [u32; 3]) -> Result<u64> {
    let before = identity(call);
    let mut wished = before.clone();
    match which {
        USER => wished.change_user(change, wanted)?,
        _ => wished.change_group(change, wanted, is_capable(call.process))?,
    }
    let sets = call.process.attributes.capabilities();
    let kept = if which == USER && sets.keeps() { before.permitted() & KEEPABLE } else { 0 };
    wished.kept |= kept;
    let sets = match change {
        Change::OnFiles => sets.of_user_on_files(before.acting_on_files(), wished.acting_on_files()),
        _ => sets.of_user(before.user, wished.user),
    };
    wished.renounce(sets.missing());
    let change = IdentityChange { which, change, wanted, kept, missing: wished.missing };
    let ask = || call.process.files.lock().on_object(Request::SetIdentity, change.to_words());
    call.process.change_credentials(wished, sets, || ask().map(|[held, ..]| held)).map(|()| 0)
}

fn is_capable(process: &Process) -> bool {
    process.attributes.capabilities().has(linux::CAP_SETGID)
}

/// Whether the caller may take any group.
fn may_change_groups(process: &Process) -> bool {
    process.attributes.credentials.lock().may_change_groups() && is_capable(process)
}

fn wanted(call: &Call<'_>, count: usize) -> [u32; 3] {
    core::array::from_fn(|index| if index < count { call.arguments()[index] as u32 } else { KEEP })
}

pub(crate) fn setuid(call: &mut Call<'_>) -> Result<u64> {
    change(call, USER, Change::One, wanted(call, 1))
}

pub(crate) fn setgid(call: &mut Call<'_>) -> Result<u64> {
    change(call, GROUP, Change::One, wanted(call, 1))
}

pub(crate) fn setreuid(call: &mut Call<'_>) -> Result<u64> {
    change(call, USER, Change::Two, wanted(call, 2))
}

pub(crate) fn setregid(call: &mut Call<'_>) -> Result<u64> {
    change(call, GROUP, Change::Two, wanted(call, 2))
}

pub(crate) fn setresuid(call: &mut Call<'_>) -> Result<u64> {
    change(call, USER, Change::Three, wanted(call, 3))
}

pub(crate) fn setresgid(call: &mut Call<'_>) -> Result<u64> {
    change(call, GROUP, Change::Three, wanted(call, 3))
}

/// Tells who it was, whether it changes or not.
pub(crate) fn setfsuid(call: &mut Call<'_>) -> Result<u64> {
    let before = identity(call).acting_on_files();
    change(call, USER, Change::OnFiles, wanted(call, 1))?;
    Ok(u64::from(before.uid))
}

pub(crate) fn setfsgid(call: &mut Call<'_>) -> Result<u64> {
    let before = identity(call).acting_on_files();
    change(call, GROUP, Change::OnFiles, wanted(call, 1))?;
    Ok(u64::from(before.gid))
}

pub(crate) fn getgroups(call: &mut Call<'_>) -> Result<u64> {
    let [room, to, ..] = call.arguments();
    let groups = identity(call).groups;
    let (groups, room) = (groups.all(), room as u32 as i32);
    if room < 0 || room > 0 && (room as usize) < groups.len() {
        return Err(Errno::EINVAL);
    }
    if room > 0 {
        let bytes: Vec<u8> = groups.iter().flat_map(|group| group.to_le_bytes()).collect();
        usercopy::write(to, &bytes)?;
    }
    Ok(groups.len() as u64)
}

pub(crate) fn setgroups(call: &mut Call<'_>) -> Result<u64> {
    let [count, from, ..] = call.arguments();
    let process: &Process = call.process;
    if !may_change_groups(process) {
        return Err(Errno::EPERM);
    }
    if count as u32 as usize > supplementary_groups::MOST {
        return Err(Errno::EINVAL);
    }
    let bytes = usercopy::read_vec(from, count as u32 as usize * 4)?;
    let groups = bytes.as_chunks::<4>().0.iter().map(|four| u32::from_le_bytes(*four));
    let mut wished = identity(call);
    wished.set_groups(Groups::new(groups.collect())?)?;
    // The server says nothing of the key: it is that of before.
    let held = process.principal.load(Relaxed);
    process
        .change_credentials(wished, process.attributes.capabilities(), || tell_groups(process, &bytes).map(|()| held))
        .map(|()| 0)
}

/// Tells the server, a window at a time.
fn tell_groups(process: &Process, bytes: &[u8]) -> Result<()> {
    let mut files = process.files.lock();
    let mut told = 0;
    loop {
        let some = &bytes[told..bytes.len().min(told + WINDOW_BYTES as usize)];
        let is_last = told + some.len() == bytes.len();
        let words = [told as u64 / 4, some.len() as u64 / 4, u64::from(is_last), 0, 0];
        files.on_object_with(Request::SetGroups, words, some)?;
        told += some.len();
        if is_last {
            return Ok(());
        }
    }
}
