//! Resource limits of a process (setrlimit(2)), and what follows from a new one.

use super::Process;
use linux_abi::errno::Result;
use linux_raw_sys::general as linux;

/// Sets a limit, which may rise beyond the hard one if `may_raise`.
pub(crate) fn set_limit(process: &Process, resource: u64, values: [u64; 2], may_raise: bool) -> Result<()> {
    process.attributes.limits.lock().set(resource, values, may_raise)?;
    match resource as u32 {
        linux::RLIMIT_NOFILE => process.descriptors.table.lock().set_limit(values[0] as usize),
        linux::RLIMIT_SIGPENDING => process.publish_signal_limit(),
        linux::RLIMIT_CPU => process.set_time_limit(),
        linux::RLIMIT_AS | linux::RLIMIT_DATA | linux::RLIMIT_STACK => process.set_memory_limits(),
        _ => {}
    }
    Ok(())
}
