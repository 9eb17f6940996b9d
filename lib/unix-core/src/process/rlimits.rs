//! Limits of what a process may use (setrlimit(2)): for each resource what holds, and the most that may be asked for.
//!
//! Pure. Children inherit them, `execve` leaves them. Each limit is enforced where its resource is given out: memory in
//! `memory::space`, files in `descriptor::object`, CPU time among the timers, processes in `fork`.

use crate::fd_table;
use linux_abi::address_map::STACK_BYTES;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;

/// No limit.
pub const UNLIMITED: u64 = u64::MAX;
/// Resources that have limits.
pub const COUNT: usize = linux::RLIM_NLIMITS as usize;

/// The limits of a process, by resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rlimits([[u64; 2]; COUNT]);

impl Default for Rlimits {
    fn default() -> Self {
        let mut limits = [[UNLIMITED; 2]; COUNT];
        let mut set = |resource: u32, soft, hard| limits[resource as usize] = [soft, hard];
        set(linux::RLIMIT_STACK, STACK_BYTES, UNLIMITED);
        set(linux::RLIMIT_CORE, 0, UNLIMITED);
        set(linux::RLIMIT_NOFILE, fd_table::LIMIT as u64, fd_table::HARD_LIMIT as u64);
        set(linux::RLIMIT_MEMLOCK, 8 << 20, 8 << 20);
        set(linux::RLIMIT_MSGQUEUE, 819_200, 819_200);
        set(linux::RLIMIT_NICE, 0, 0);
        set(linux::RLIMIT_RTPRIO, 0, 0);
        Self(limits)
    }
}

impl Rlimits {
    /// What holds.
    pub const fn soft(&self, resource: u32) -> u64 {
        self.0[resource as usize][0]
    }

    /// What holds, and the most that may be asked for.
    ///
    /// # Errors
    /// `EINVAL` for a resource that is none.
    pub fn get(&self, resource: u64) -> Result<[u64; 2]> {
        let index = usize::try_from(resource).map_err(|_| Errno::EINVAL)?;
        self.0.get(index).copied().ok_or(Errno::EINVAL)
    }

    /// Sets both; `may_raise`: the most may become more.
    ///
    /// # Errors
    /// `EINVAL` for a resource that is none, or where more is to hold than may be asked for; `EPERM` for more than may be
    /// given.
    pub fn set(&mut self, resource: u64, [soft, hard]: [u64; 2], may_raise: bool) -> Result<()> {
        let [_, most] = self.get(resource)?;
        if soft > hard {
            return Err(Errno::EINVAL);
        }
        let too_many_files = resource == u64::from(linux::RLIMIT_NOFILE) && hard > fd_table::LIMIT_MOST as u64;
        if hard > most && !may_raise || too_many_files {
            return Err(Errno::EPERM);
        }
        self.0[resource as usize] = [soft, hard];
        Ok(())
    }
}
