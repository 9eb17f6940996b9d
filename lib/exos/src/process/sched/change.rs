//! A change of how a process is scheduled: its priority, its policy or its CPUs.

use super::priority;
use crate::process::Process;
use crate::process::fork::child_start;
use crate::wait::cpu_placement;
use linux_abi::errno::Result;
use linux_raw_sys::general as linux;
use runtime::EnvironmentId;
use unix_core::process::prctl_state::Change;

/// Makes the change, which may give more than the limits allow if `may_raise`.
pub(crate) fn change_own(process: &Process, change: Change, may_raise: bool) -> Result<()> {
    let limits =
        [linux::RLIMIT_NICE, linux::RLIMIT_RTPRIO].map(|resource| process.attributes.limits.lock().soft(resource));
    process.attributes.prctl.lock().change(change, may_raise, limits)?;
    child_start::publish(process);
    priority::change(process);
    match change {
        Change::Cpus(cpus) => cpu_placement::pin_to(EnvironmentId(process.environment()), cpus),
        _ => Ok(()),
    }
}
