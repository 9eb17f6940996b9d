//! Calls by which a process says how it wants to be treated: `prctl`, `personality`, capabilities of Linux.

use super::dispatch::Call;
use crate::errno::{Errno, Result};
use crate::guardian::protocol::{NO_NEW_PRIVILEGES, Operation};
use crate::process::Process;
use crate::process::attributes::TIMER_SLACK;
use crate::process::children::public;
use crate::signal::set::COUNT;
use crate::user_memory::copy;
use core::sync::atomic::Ordering::Release;
use linux_raw_sys::prctl as operation;

/// Bytes of a name that `PR_SET_NAME` sets, its NUL included.
const NAME_BYTES: usize = 16;
/// The highest capability of Linux.
const LAST_CAPABILITY: u64 = 40;

pub(super) fn prctl(call: &mut Call<'_>) -> Result<u64> {
    let [wanted, argument, more @ ..] = call.arguments();
    let process = call.process;
    match wanted as u32 {
        operation::PR_SET_NAME => return set_name(call, argument),
        operation::PR_GET_NAME => {
            let mut name = process.program.lock().name.clone();
            name.resize(NAME_BYTES, 0);
            return copy::write(argument, &name).map(|()| 0);
        }
        operation::PR_GET_PDEATHSIG => {
            let signal = process.attributes.lock().death_signal;
            return copy::write_half(argument, signal).map(|()| 0);
        }
        operation::PR_CAPBSET_READ if argument <= LAST_CAPABILITY => return Ok(1),
        operation::PR_GET_SECUREBITS | operation::PR_GET_SECCOMP | operation::PR_SET_PTRACER => return Ok(0),
        _ => {}
    }
    let rest = [argument, more[0], more[1], more[2]];
    if wanted as u32 == operation::PR_SET_NO_NEW_PRIVS && rest == [1, 0, 0, 0] {
        return renounce_privileges(process);
    }
    let mut attributes = process.attributes.lock();
    match wanted as u32 {
        operation::PR_SET_PDEATHSIG if argument <= u64::from(COUNT) => {
            attributes.death_signal = argument as u32;
            process.public_word(public::DEATH_SIGNAL).store(argument, Release);
        }
        operation::PR_GET_DUMPABLE => return Ok(attributes.dumpable),
        operation::PR_SET_DUMPABLE if argument <= 1 => attributes.dumpable = argument,
        operation::PR_GET_KEEPCAPS => return Ok(u64::from(attributes.keeps_capabilities)),
        operation::PR_SET_KEEPCAPS if argument <= 1 => attributes.keeps_capabilities = argument == 1,
        operation::PR_GET_NO_NEW_PRIVS if rest == [0; 4] => {
            return Ok(u64::from(process.identity.lock().no_new_privileges));
        }
        operation::PR_GET_TIMERSLACK => return Ok(attributes.timer_slack),
        operation::PR_SET_TIMERSLACK => {
            attributes.timer_slack = if (argument as i64) <= 0 { TIMER_SLACK } else { argument };
        }
        operation::PR_GET_THP_DISABLE if rest == [0; 4] => return Ok(u64::from(attributes.no_huge_pages)),
        operation::PR_SET_THP_DISABLE if rest[1..] == [0; 3] => attributes.no_huge_pages = argument != 0,
        _ => return Err(Errno::EINVAL),
    }
    Ok(0)
}

/// The guardian keeps it: no program gives the process any rights from now on.
fn renounce_privileges(process: &Process) -> Result<u64> {
    process.files.lock().on_object(Operation::SetIdentity, [NO_NEW_PRIVILEGES, 0, 0, 0, 0])?;
    process.identity.lock().no_new_privileges = true;
    Ok(0)
}

fn set_name(call: &Call<'_>, from: u64) -> Result<u64> {
    let name = match copy::read_string(from, NAME_BYTES - 1, Errno::E2BIG) {
        Err(Errno::E2BIG) => copy::read_vec(from, NAME_BYTES - 1)?,
        other => other?,
    };
    call.process.program.lock().name = name;
    crate::process::begin::publish(call.process);
    Ok(0)
}

/// The execution domain is remembered; there is one behaviour.
pub(super) fn personality(call: &mut Call<'_>) -> Result<u64> {
    const ASK: u32 = 0xffff_ffff;
    let [wanted, ..] = call.arguments();
    let mut attributes = call.process.attributes.lock();
    let before = attributes.personality;
    if wanted as u32 != ASK {
        attributes.personality = wanted as u32;
    }
    Ok(u64::from(before))
}

/// The versions of the structures of capabilities, and how many words of each set they have.
fn words_of(version: u32) -> Option<u64> {
    match version {
        0x1998_0330 => Some(1),
        0x2007_1026 | 0x2008_0522 => Some(2),
        _ => None,
    }
}

/// Where a header does not name a version that there is, the best one is written into it.
fn read_header(header: u64) -> Result<Option<(u64, u64)>> {
    const BEST: u32 = 0x2008_0522;
    let [version, number] = [copy::read_half(header)?, copy::read_half(header + 4)?];
    let Some(words) = words_of(version) else {
        copy::write_half(header, BEST)?;
        return Ok(None);
    };
    if (number as i32) < 0 { Err(Errno::EINVAL) } else { Ok(Some((words, u64::from(number)))) }
}

/// Capabilities of Linux: user 0 has all of them, and they give nothing here, where keys decide.
pub(super) fn capget(call: &mut Call<'_>) -> Result<u64> {
    let [header, data, ..] = call.arguments();
    let Some((words, number)) = read_header(header)? else {
        return if data == 0 { Ok(0) } else { Err(Errno::EINVAL) };
    };
    if number != 0 && number != call.process.number() {
        crate::relatives::find(number).ok_or(Errno::ESRCH)?;
    }
    let all = match call.process.identity.lock().is_privileged() {
        true => [u32::MAX, (1 << (LAST_CAPABILITY - 31)) - 1],
        false => [0; 2],
    };
    for (index, set) in all.into_iter().enumerate().take(words as usize) {
        // Effective, permitted, inheritable.
        for (place, value) in [set, set, 0].into_iter().enumerate() {
            copy::write_half(data + (index * 3 + place) as u64 * 4, value)?;
        }
    }
    Ok(0)
}

/// No capability is given that is not there, and none can be kept away from user 0.
pub(super) fn capset(call: &mut Call<'_>) -> Result<u64> {
    let [header, data, ..] = call.arguments();
    let (words, number) = read_header(header)?.ok_or(Errno::EINVAL)?;
    if number != 0 && number != call.process.number() {
        return Err(Errno::EPERM);
    }
    copy::read_vec(data, words as usize * 12).map(|_| 0)
}
