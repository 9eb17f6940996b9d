//! Calls that change the machine, or look into it, which no process here may: they are refused as on Linux without the
//! capabilities for them.

use super::processes::process::NAME_SPACES;
use crate::process::call::Call;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;

/// What only a process with a capability may do that none here has.
pub(super) fn privileged(_: &mut Call<'_>) -> Result<u64> {
    Err(Errno::EPERM)
}

/// What a stop interrupts begins anew by itself: nothing is left for this.
pub(super) fn restart_syscall(_: &mut Call<'_>) -> Result<u64> {
    Err(Errno::INTERRUPTED_FOR_GOOD)
}

/// Handles of files: none of the file systems has any.
pub(super) fn name_to_handle_at(call: &mut Call<'_>) -> Result<u64> {
    const KNOWN: u32 = linux::AT_SYMLINK_FOLLOW | linux::AT_EMPTY_PATH | linux::AT_HANDLE_FID;
    let [_, _, _, _, flags, _] = call.arguments();
    Err(if flags as u32 & !KNOWN != 0 { Errno::EINVAL } else { Errno::EOPNOTSUPP })
}

/// There are no name spaces, as on a Linux that was built without; who has one thread shares nothing that could be made
/// its own.
pub(super) fn unshare(call: &mut Call<'_>) -> Result<u64> {
    const OWN: u32 = linux::CLONE_FS
        | linux::CLONE_FILES
        | linux::CLONE_SYSVSEM
        | linux::CLONE_THREAD
        | linux::CLONE_SIGHAND
        | linux::CLONE_VM;
    let [flags, ..] = call.arguments();
    let is_alone = call.process.threads.lock().len() == 1;
    // As on Linux, any user may ask for users of its own.
    let is_privileged = flags as u32 & NAME_SPACES & !linux::CLONE_NEWUSER != 0;
    if flags == 0 || is_alone && flags & !u64::from(OWN) == 0 {
        Ok(0)
    } else if is_privileged && !call.process.may(linux::CAP_SYS_ADMIN) {
        Err(Errno::EPERM)
    } else {
        Err(Errno::EINVAL)
    }
}

/// See [`unshare`]: no descriptor is of a name space.
pub(super) fn setns(call: &mut Call<'_>) -> Result<u64> {
    let [number, ..] = call.arguments();
    call.process.descriptors.description(number)?;
    Err(Errno::EINVAL)
}
