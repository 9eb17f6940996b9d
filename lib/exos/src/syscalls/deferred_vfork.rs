//! Calls of a deferred vfork child (`process::vfork_deferred`). Calls that change nothing but the memory that it shares
//! with its parent, or that only it can find changed, are performed at once. Any other call materializes the child.

use super::address_space::memory;
use super::events::signal;
use super::processes::process;
use crate::process::call::{Call, NUMBERS, Operation, Operations};
use crate::process::fork::vfork_deferred;
use linux_abi::errno::Result;
use linux_raw_sys::general as linux;
use unix_core::process::exit_status::Status;

/// The table of such a child.
pub(crate) static UNBORN: Operations = {
    let mut table: Operations = [Some(begin as Operation); NUMBERS];
    table[linux::__NR_execve as usize] = Some(process::execve_unborn);
    table[linux::__NR_exit as usize] = Some(exit);
    table[linux::__NR_exit_group as usize] = Some(exit);
    table[linux::__NR_rt_sigaction as usize] = Some(rt_sigaction);
    table[linux::__NR_rt_sigprocmask as usize] = Some(rt_sigprocmask);
    table[linux::__NR_brk as usize] = Some(memory::brk);
    table[linux::__NR_mmap as usize] = Some(memory::mmap);
    table[linux::__NR_munmap as usize] = Some(memory::munmap);
    table[linux::__NR_mprotect as usize] = Some(memory::mprotect);
    table
};

/// Materializes the child, and resumes the parent.
pub(super) fn begin(call: &mut Call<'_>) -> Result<u64> {
    vfork_deferred::materialize(call.context);
    call.keep_registers();
    Ok(0)
}

fn exit(call: &mut Call<'_>) -> Result<u64> {
    let [code, ..] = call.arguments();
    vfork_deferred::exit(call.context, Status::Exited(code as u8));
    call.keep_registers();
    Ok(0)
}

/// To ask changes nothing.
fn rt_sigaction(call: &mut Call<'_>) -> Result<u64> {
    let [_, new, ..] = call.arguments();
    if new == 0 { signal::rt_sigaction(call) } else { begin(call) }
}

fn rt_sigprocmask(call: &mut Call<'_>) -> Result<u64> {
    vfork_deferred::with_mask(|| signal::rt_sigprocmask(call))
}
