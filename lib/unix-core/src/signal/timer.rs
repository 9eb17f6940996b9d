//! Timers that send signals: `setitimer`, `alarm` and `timer_create`.
//!
//! Pure. A timer knows when it expires next, on the clock that it is set by; who looks at it later than that learns how
//! often it has expired meanwhile.

use super::frame::Information;
use alloc::vec::Vec;
use linux_raw_sys::general as linux;

/// One timer, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timer {
    /// When it expires next; 0: it is not set.
    pub deadline: u64,
    /// How long after that it expires again; 0: not at all.
    pub interval: u64,
}

impl Timer {
    /// How often it has expired until `now`; it is set for the next time.
    pub fn expire(&mut self, now: u64) -> u64 {
        if self.deadline == 0 || now < self.deadline {
            return 0;
        }
        let Some(more) = (now - self.deadline).checked_div(self.interval) else {
            self.deadline = 0;
            return 1;
        };
        self.deadline = self.deadline.saturating_add((more + 1).saturating_mul(self.interval));
        more + 1
    }

    /// What is left until it expires, never 0 while it is set, and its interval.
    pub fn rest(&self, now: u64) -> [u64; 2] {
        let rest = if self.deadline == 0 { 0 } else { self.deadline.saturating_sub(now).max(1) };
        [rest, self.interval]
    }
}

/// What a timer goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The wall clock: it expires on the clock since boot, too, and is set by the other one.
    Wall,
    /// The clock since boot.
    Boot,
    /// The time that the program ran.
    Program,
    /// The time that a thread ran, by the number of its environment.
    Thread(u64),
}

impl Clock {
    /// Whether it advances while the process does not run.
    pub const fn is_real(self) -> bool {
        matches!(self, Self::Wall | Self::Boot)
    }
}

/// A timer that a program created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Created {
    /// When it expires.
    pub timer: Timer,
    /// What it goes by.
    pub clock: Clock,
    /// Its signal, with what comes along; signal 0: none is sent.
    pub information: Information,
    /// The thread that gets it; 0: the process.
    pub thread: u64,
    /// How often it had expired beyond once when its signal was last delivered.
    pub overrun: u64,
}

impl Created {
    fn whose(&self) -> Whose {
        match self.thread {
            0 if self.clock.is_real() => Whose::Process,
            0 => Whose::Runner,
            number => Whose::Thread(number),
        }
    }
}

/// Whose the signal of a timer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// The process's.
    Process,
    /// The thread that used the time that the timer counts: mostly the one that finds it due.
    Runner,
    /// A thread's, by the number of its environment.
    Thread(u64),
}

/// A signal that is due.
pub type Due = (Whose, Information);

/// The timers of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timers {
    /// By real time, by the time that the program runs, and by the same once more (`ITIMER_REAL` and so on). Then the
    /// limit of this time: signals once a second, and the end.
    pub interval: [Timer; 5],
    /// Those that the program created, by number.
    pub created: Vec<Option<Created>>,
}

/// Timers that a program may create.
const MOST: usize = 256;

impl Timers {
    /// When the next of those expires that go by real time; 0: none is set.
    pub fn earliest(&self) -> u64 {
        let real = self.created.iter().flatten().filter(|created| created.clock.is_real());
        let created = real.map(|created| created.timer.deadline);
        created.chain([self.interval[0].deadline]).filter(|deadline| *deadline != 0).min().unwrap_or(0)
    }

    /// Whether one goes by the time that the program runs.
    pub fn counts_time(&self) -> bool {
        let counted = self.created.iter().flatten().filter(|created| !created.clock.is_real());
        self.interval[1..].iter().chain(counted.map(|created| &created.timer)).any(|timer| timer.deadline != 0)
    }

    /// Puts a timer in; its number, or nothing where there are too many.
    pub fn create(&mut self, created: Created) -> Option<usize> {
        let free = self.created.iter().position(Option::is_none);
        match free {
            Some(number) => self.created[number] = Some(created),
            None if self.created.len() < MOST => self.created.push(Some(created)),
            None => return None,
        }
        free.or(Some(self.created.len() - 1))
    }

    /// A timer's signal is delivered.
    pub fn delivered(&mut self, information: &Information) {
        let number = information.detail as u32 as usize;
        if let Some(Some(created)) = self.created.get_mut(number) {
            created.overrun = information.detail >> 32;
        }
    }

    /// Signals of every timer that has expired: `now` on the clock since boot, `used` by the time that the program
    /// ran, `ran` by that of one of its threads.
    pub fn expire(&mut self, now: u64, used: u64, ran: impl Fn(u64) -> u64) -> Vec<Due> {
        let mut due = Vec::new();
        let signals = [
            (linux::SIGALRM, now),
            (linux::SIGVTALRM, used),
            (linux::SIGPROF, used),
            (linux::SIGXCPU, used),
            (linux::SIGKILL, used),
        ];
        for (index, (timer, (signal, time))) in self.interval.iter_mut().zip(signals).enumerate() {
            if timer.expire(time) > 0 {
                let whose = if index == 0 { Whose::Process } else { Whose::Runner };
                due.push((whose, Information { signal, code: linux::SI_KERNEL as i32, ..Information::default() }));
            }
        }
        for created in self.created.iter_mut().flatten() {
            let times = created.timer.expire(match created.clock {
                Clock::Wall | Clock::Boot => now,
                Clock::Program => used,
                Clock::Thread(number) => ran(number),
            });
            if times > 0 {
                created.information.detail = created.information.detail & 0xffff_ffff | (times - 1) << 32;
                due.push((created.whose(), created.information));
            }
        }
        due.retain(|(_, information)| information.signal != 0);
        due
    }
}
