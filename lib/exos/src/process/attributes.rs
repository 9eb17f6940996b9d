//! What a process has asked for by `prctl`, `personality`, `setpriority` and `sched_setscheduler`, and is told when it asks.
//!
//! Pure. Time slices are shared out alike: priorities, policies and masks of CPUs are kept, inherited and told, and change
//! nothing.

use linux_raw_sys::general as linux;

/// The attributes of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// 20 less the nice value: 1 to 40.
    pub priority: u64,
    /// Scheduling policy.
    pub policy: u32,
    /// Its priority within a policy that has some.
    pub real_time_priority: u32,
    /// CPUs that it wants to run on.
    pub cpus: u64,
    /// Class and data of `ioprio_set`.
    pub io_priority: u64,
    /// Signal that it gets when its parent ends; 0: none.
    pub death_signal: u32,
    /// Whether it may be looked into (PR_SET_DUMPABLE).
    pub dumpable: u64,
    /// Whether capabilities outlive a change of user.
    pub keeps_capabilities: bool,
    /// Nanoseconds that timers may be late.
    pub timer_slack: u64,
    /// Whether large pages are unwanted.
    pub no_huge_pages: bool,
    /// Execution domain.
    pub personality: u32,
}

/// Nanoseconds that timers may be late unless somebody says otherwise.
pub const TIMER_SLACK: u64 = 50_000;

impl Default for Attributes {
    fn default() -> Self {
        Self {
            priority: 20,
            policy: linux::SCHED_NORMAL,
            real_time_priority: 0,
            cpus: u64::MAX,
            io_priority: 0,
            death_signal: 0,
            dumpable: 1,
            keeps_capabilities: false,
            timer_slack: TIMER_SLACK,
            no_huge_pages: false,
            personality: 0,
        }
    }
}

impl Attributes {
    /// What a child does not inherit.
    pub const fn begin_child(&mut self) {
        self.death_signal = 0;
    }

    /// What another program does not keep.
    pub const fn begin_program(&mut self) {
        self.dumpable = 1;
        self.keeps_capabilities = false;
    }
}
