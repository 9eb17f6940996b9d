//! Calls by which a process says how it wants to be treated: `prctl` and `personality`.

use super::capability;
use crate::hw::usercopy;
use crate::process::Process;
use crate::process::call::Call;
use crate::process::current::thread;
use core::sync::atomic::Ordering::{Acquire, Release};
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::prctl as operation;
use unix_core::process::credentials::Credentials;
use unix_core::process::public_page as public;
use unix_core::server::protocol::{NO_NEW_PRIVILEGES, Request};
use unix_core::signal::set::COUNT;

/// Bytes of a name that `PR_SET_NAME` sets, its NUL included.
const NAME_BYTES: usize = 16;

pub(crate) fn prctl(call: &mut Call<'_>) -> Result<u64> {
    let [wanted, argument, more @ ..] = call.arguments();
    let process = call.process;
    match wanted as u32 {
        operation::PR_SET_NAME => return set_name(argument),
        operation::PR_GET_NAME => {
            let mut name = thread().name();
            name.resize(NAME_BYTES, 0);
            return usercopy::write(argument, &name).map(|()| 0);
        }
        operation::PR_GET_PDEATHSIG => {
            let signal = process.attributes.prctl.lock().death_signal;
            return usercopy::write_half(argument, signal).map(|()| 0);
        }
        // A confined thread does not come here.
        operation::PR_SET_SECCOMP => return crate::syscalls::seccomp::set_mode(argument),
        operation::PR_GET_SECCOMP | operation::PR_SET_PTRACER | operation::PR_GET_TIMING => return Ok(0),
        operation::PR_TASK_PERF_EVENTS_DISABLE | operation::PR_TASK_PERF_EVENTS_ENABLE => return Ok(0),
        operation::PR_SET_TIMING if argument == 0 => return Ok(0),
        operation::PR_MCE_KILL_GET if [argument, more[0], more[1], more[2]] == [0; 4] => return Ok(2),
        operation::PR_GET_TSC => return usercopy::write_half(argument, operation::PR_TSC_ENABLE).map(|()| 0),
        operation::PR_SET_TSC if argument == u64::from(operation::PR_TSC_ENABLE) => return Ok(0),
        operation::PR_GET_TID_ADDRESS => {
            return usercopy::write_word(argument, thread().clear_at_end.load(Acquire)).map(|()| 0);
        }
        operation::PR_GET_CHILD_SUBREAPER => {
            let reaps = process.public_word(public::REAPS).load(Acquire);
            return usercopy::write_half(argument, reaps as u32).map(|()| 0);
        }
        operation::PR_SET_CHILD_SUBREAPER => {
            process.public_word(public::REAPS).store(u64::from(argument != 0), Release);
            return Ok(0);
        }
        _ => {}
    }
    let rest = [argument, more[0], more[1], more[2]];
    if let Some(outcome) = capability::control(process, wanted as u32, rest) {
        return outcome;
    }
    if wanted as u32 == operation::PR_SET_NO_NEW_PRIVS && rest == [1, 0, 0, 0] {
        return renounce_privileges(process);
    }
    let mut attributes = process.attributes.prctl.lock();
    match wanted as u32 {
        operation::PR_SET_PDEATHSIG if argument <= u64::from(COUNT) => {
            attributes.death_signal = argument as u32;
            process.public_word(public::DEATH_SIGNAL).store(argument, Release);
        }
        operation::PR_GET_DUMPABLE => return Ok(attributes.dumpable),
        operation::PR_SET_DUMPABLE if argument <= 1 => attributes.dumpable = argument,
        operation::PR_GET_NO_NEW_PRIVS if rest == [0; 4] => {
            return Ok(u64::from(process.attributes.credentials.lock().no_new_privileges));
        }
        operation::PR_GET_TIMERSLACK => return Ok(attributes.timer_slack()),
        operation::PR_SET_TIMERSLACK => {
            attributes.set_timer_slack(if (argument as i64) <= 0 { 0 } else { argument });
        }
        operation::PR_GET_THP_DISABLE if rest == [0; 4] => return Ok(u64::from(attributes.no_huge_pages)),
        operation::PR_SET_THP_DISABLE if rest[1..] == [0; 3] => attributes.no_huge_pages = argument != 0,
        _ => return Err(Errno::EINVAL),
    }
    Ok(0)
}

/// The server keeps it: no program gives the process any rights from now on.
fn renounce_privileges(process: &Process) -> Result<u64> {
    let wished = Credentials { no_new_privileges: true, ..process.attributes.credentials.lock().clone() };
    let ask = || process.files.lock().on_object(Request::SetIdentity, [NO_NEW_PRIVILEGES, 0, 0, 0, 0]);
    process.change_credentials(wished, process.attributes.capabilities(), || ask().map(|[held, ..]| held)).map(|()| 0)
}

fn set_name(from: u64) -> Result<u64> {
    let name = match usercopy::read_string(from, NAME_BYTES - 1, Errno::E2BIG) {
        Err(Errno::E2BIG) => usercopy::read_vec(from, NAME_BYTES - 1)?,
        other => other?,
    };
    thread().set_name(name);
    Ok(0)
}

/// The execution domain is remembered; there is one behaviour.
pub(crate) fn personality(call: &mut Call<'_>) -> Result<u64> {
    const ASK: u32 = 0xffff_ffff;
    let [wanted, ..] = call.arguments();
    let mut attributes = call.process.attributes.prctl.lock();
    let before = attributes.personality;
    if wanted as u32 != ASK {
        attributes.personality = wanted as u32;
    }
    Ok(u64::from(before))
}
