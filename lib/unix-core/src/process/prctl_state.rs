//! What a process has asked for by `prctl`, `personality`, `setpriority` and `sched_setscheduler`, and is told when it
//! asks.
//!
//! Pure. What becomes of it: `nice_share` says who leaves slices to whom, `cpu_placement` keeps a thread on its CPUs;
//! all else is kept, inherited and told, and changes nothing.

use super::capabilities::Capabilities;
use super::credentials::Credentials;
use linux_abi::errno::{Errno, Result};
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
    /// Capabilities of Linux.
    pub capabilities: Capabilities,
    /// Nanoseconds that timers may be late.
    pub(super) timer_slack: u64,
    /// The same where nothing else is asked for: what its parent had.
    pub(super) usual_slack: u64,
    /// Whether large pages are unwanted.
    pub no_huge_pages: bool,
    /// Execution domain.
    pub personality: u32,
    /// How willingly it is ended when memory runs out: -1000 to 1000.
    pub memory_score: i32,
    /// The login that it comes from (`/proc/PID/loginuid`, pam_loginuid(8)).
    pub login: Login,
    /// What of its memory goes into a core file.
    pub core_filter: u32,
    /// Whether its threads ask for barriers in each other (membarrier(2)).
    pub wants_barriers: bool,
}

/// A login, which processes inherit, whichever users they become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Login {
    /// The user who logged in.
    pub user: u32,
    /// The session: the number of the process that said who it was.
    pub session: u32,
}

impl Login {
    /// The number that says that there was none.
    pub const NONE: u32 = u32::MAX;

    const fn to_word(self) -> u64 {
        self.user as u64 | (self.session as u64) << 32
    }

    const fn from_word(word: u64) -> Self {
        Self { user: word as u32, session: (word >> 32) as u32 }
    }
}

impl Default for Login {
    fn default() -> Self {
        Self { user: Self::NONE, session: Self::NONE }
    }
}

/// Bit of a policy: children have the ordinary one (sched(7)).
pub const RESET_ON_FORK: u32 = 0x4000_0000;
/// Words of what a process keeps: see [`Attributes::kept`].
pub const KEPT: usize = 8;
/// Nanoseconds that timers may be late by default.
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
            capabilities: Capabilities::default(),
            timer_slack: TIMER_SLACK,
            usual_slack: TIMER_SLACK,
            no_huge_pages: false,
            personality: 0,
            memory_score: 0,
            login: Login::default(),
            core_filter: 0x33,
            wants_barriers: false,
        }
    }
}

/// A change of how a process is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// 20 less the nice value.
    Priority(u64),
    /// The policy, and the priority within it.
    Policy(u32, u32),
    /// CPUs, as bits.
    Cpus(u64),
    /// Class and data of `ioprio_set`.
    Io(u64),
}

impl Change {
    /// What it is about, and the value.
    pub const fn to_words(self) -> [u64; 2] {
        match self {
            Self::Priority(priority) => [0, priority],
            Self::Policy(policy, priority) => [1, policy as u64 | (priority as u64) << 32],
            Self::Cpus(cpus) => [2, cpus],
            Self::Io(priority) => [3, priority],
        }
    }

    /// From those words.
    pub const fn from_words([what, value]: [u64; 2]) -> Option<Self> {
        match what {
            0 => Some(Self::Priority(value)),
            1 => Some(Self::Policy(value as u32, (value >> 32) as u32)),
            2 => Some(Self::Cpus(value)),
            3 => Some(Self::Io(value)),
            _ => None,
        }
    }
}

impl Attributes {
    /// Carries out a change. What a process may take without being allowed everything stand in its limits `RLIMIT_NICE`
    /// and `RLIMIT_RTPRIO`.
    ///
    /// # Errors
    /// `EACCES` for a priority, `EPERM` for a policy that it may not have.
    pub fn change(&mut self, change: Change, may_raise: bool, [nice, real_time]: [u64; 2]) -> Result<()> {
        match change {
            Change::Priority(priority) if priority > self.priority && !may_raise && priority > nice => {
                return Err(Errno::EACCES);
            }
            Change::Priority(priority) => self.priority = priority.clamp(1, 40),
            Change::Policy(policy, priority) => {
                let own =
                    if policy & !RESET_ON_FORK == self.policy & !RESET_ON_FORK { self.real_time_priority } else { 0 };
                let stops_resetting = self.policy & RESET_ON_FORK != 0 && policy & RESET_ON_FORK == 0;
                if stops_resetting && !may_raise {
                    return Err(Errno::EPERM);
                }
                if u64::from(priority) > real_time.max(u64::from(own)) && !may_raise {
                    return Err(Errno::EPERM);
                }
                (self.policy, self.real_time_priority) = (policy, priority);
            }
            Change::Cpus(cpus) => self.cpus = cpus,
            Change::Io(priority) => self.io_priority = priority,
        }
        Ok(())
    }

    /// How it is scheduled: priority, policy, the priority within that, CPUs, class and data of `ioprio_set`.
    pub const fn scheduling(&self) -> [u64; 5] {
        [self.priority, self.policy as u64, self.real_time_priority as u64, self.cpus, self.io_priority]
    }

    /// The publicly readable part of that, in a word: priority, the priority within the policy, policy.
    pub const fn to_word(&self) -> u64 {
        self.priority | (self.real_time_priority as u64) << 16 | (self.policy as u64) << 32
    }

    /// Attributes that such a word tells of, whatever else.
    pub fn from_word(word: u64) -> Self {
        Self::scheduled_as([word & 0xffff, word >> 32, word >> 16 & 0xffff, u64::MAX, 0])
    }

    /// Attributes that say so, whatever else.
    pub fn scheduled_as([priority, policy, real_time, cpus, io_priority]: [u64; 5]) -> Self {
        Self {
            priority: priority.clamp(1, 40),
            policy: policy as u32,
            real_time_priority: real_time as u32,
            cpus,
            io_priority,
            ..Self::default()
        }
    }

    /// What the successor environment of a process keeps: how it is scheduled, its execution domain, its OOM score
    /// adjustment, its login.
    pub fn kept(&self) -> [u64; KEPT] {
        let [priority, policy, real_time, cpus, io_priority] = self.scheduling();
        let score = i64::from(self.memory_score) as u64;
        [priority, policy, real_time, cpus, io_priority, u64::from(self.personality), score, self.login.to_word()]
    }

    /// Takes that over, as a stranger says it.
    pub fn keep(&mut self, [priority, policy, real_time, cpus, io_priority, personality, score, login]: [u64; KEPT]) {
        (self.priority, self.policy) = (priority.clamp(1, 40), policy as u32);
        (self.real_time_priority, self.io_priority) = (real_time as u32, io_priority);
        self.cpus = if cpus == 0 { self.cpus } else { cpus };
        (self.personality, self.memory_score) = (personality as u32, (score as i32).clamp(-1000, 1000));
        self.login = Login::from_word(login);
    }

    /// Notes the user who logged in, as a process with this number says; [`Login::NONE`] takes that back. The first
    /// note counts, but for a process that may change it.
    ///
    /// # Errors
    /// `EPERM`.
    pub fn log_in(&mut self, user: u32, session: u32, may_change: bool) -> Result<()> {
        if self.login.user != Login::NONE && !may_change {
            return Err(Errno::EPERM);
        }
        self.login = if user == Login::NONE { Login::default() } else { Login { user, session } };
        Ok(())
    }

    /// It is scheduled as who has asked for nothing.
    pub const fn begin_usual(&mut self) {
        (self.priority, self.policy, self.real_time_priority) = (20, linux::SCHED_NORMAL, 0);
    }

    /// Nanoseconds that timers may be late.
    pub const fn timer_slack(&self) -> u64 {
        self.timer_slack
    }

    /// Sets that; 0: as usual.
    pub const fn set_timer_slack(&mut self, slack: u64) {
        self.timer_slack = if slack == 0 { self.usual_slack } else { slack };
    }

    /// What a child does not inherit.
    pub fn begin_child(&mut self) {
        self.death_signal = 0;
        self.usual_slack = self.timer_slack;
        if self.policy & RESET_ON_FORK != 0 {
            let is_real_time = [linux::SCHED_FIFO, linux::SCHED_RR].contains(&(self.policy & !RESET_ON_FORK));
            self.policy = if is_real_time { linux::SCHED_NORMAL } else { self.policy & !RESET_ON_FORK };
            self.real_time_priority = 0;
            self.priority = if is_real_time { 20 } else { self.priority.min(20) };
        }
    }

    /// What another program does not keep, executed as whom this says.
    pub fn begin_program(&mut self, identity: &Credentials) {
        self.wants_barriers = false;
        // A set-id or unreadable program is not dumpable.
        self.dumpable = u64::from(!identity.is_secure() && identity.apart == 0);
        self.capabilities =
            self.capabilities.executing(identity.user, identity.is_secure(), identity.no_new_privileges);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_comes_out_as_it_went_in_and_nonsense_has_a_meaning() {
        let login = Login { user: 5, session: 6 };
        let before =
            Attributes { priority: 7, cpus: 1, personality: 8, memory_score: -3, login, ..Attributes::default() };
        let mut after = Attributes::default();
        after.keep(before.kept());
        assert_eq!(after, before);
        let scheduled = Attributes { priority: 7, policy: 3, real_time_priority: 99, ..Attributes::default() };
        assert_eq!(Attributes::from_word(scheduled.to_word()), scheduled);
        assert_eq!(Attributes::from_word(u64::MAX).priority, 40);
        after.keep([u64::MAX; KEPT]);
        assert_eq!((after.priority, after.memory_score), (40, -1));
        after.keep([0; KEPT]);
        assert!(after.priority == 1 && after.cpus != 0);
    }

    #[test]
    fn a_login_is_noted_once() {
        let mut own = Attributes::default();
        assert_eq!((own.log_in(5, 70, false), own.login), (Ok(()), Login { user: 5, session: 70 }));
        assert_eq!((own.log_in(6, 71, false), own.login.user), (Err(Errno::EPERM), 5));
        own.begin_child();
        assert_eq!((own.log_in(Login::NONE, 72, true), own.login), (Ok(()), Login::default()));
    }

    #[test]
    fn what_is_not_for_children_is_reset() {
        let child = |policy, priority, real_time_priority| {
            let mut child = Attributes { policy, priority, real_time_priority, ..Attributes::default() };
            child.begin_child();
            (child.policy, child.priority, child.real_time_priority)
        };
        assert_eq!(child(linux::SCHED_FIFO | RESET_ON_FORK, 30, 10), (linux::SCHED_NORMAL, 20, 0));
        assert_eq!(child(linux::SCHED_RR | RESET_ON_FORK, 15, 10), (linux::SCHED_NORMAL, 20, 0));
        assert_eq!(child(linux::SCHED_BATCH | RESET_ON_FORK, 15, 0), (linux::SCHED_BATCH, 15, 0));
        assert_eq!(child(linux::SCHED_BATCH | RESET_ON_FORK, 30, 0), (linux::SCHED_BATCH, 20, 0));
        assert_eq!(child(linux::SCHED_FIFO, 15, 10), (linux::SCHED_FIFO, 15, 10));
    }

    #[test]
    fn what_a_process_may_take_its_limits_say() {
        let mut own = Attributes::default();
        assert_eq!(own.change(Change::Priority(25), false, [0, 0]), Err(Errno::EACCES));
        assert_eq!(own.change(Change::Priority(10), false, [0, 0]), Ok(()));
        assert_eq!(own.change(Change::Priority(20), false, [0, 0]), Err(Errno::EACCES));
        assert_eq!(own.change(Change::Priority(20), false, [20, 0]), Ok(()));
        assert_eq!(own.change(Change::Priority(40), true, [0, 0]), Ok(()));
        assert_eq!(own.change(Change::Policy(linux::SCHED_FIFO, 5), false, [0, 4]), Err(Errno::EPERM));
        assert_eq!(own.change(Change::Policy(linux::SCHED_FIFO, 5), true, [0, 0]), Ok(()));
        assert_eq!(own.change(Change::Policy(linux::SCHED_FIFO, 4), false, [0, 0]), Ok(()));
        assert_eq!((own.priority, own.policy, own.real_time_priority), (40, linux::SCHED_FIFO, 4));
    }
}
