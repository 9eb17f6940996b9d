//! The account of a process: what each of its threads has used, and where its parent reads it.

use crate::hw::cpu_time::Transferred;
use crate::process::cost;
use crate::process::current::process;
use crate::process::process_record::{Process, option};
use crate::process::thread::{DeadThread, Thread};
use crate::signal::process_clock::ran;
use core::sync::atomic::Ordering::{Relaxed, Release};
use linux_abi::address_map::PAGE_SIZE;
use linux_raw_sys::general as linux;
use runtime::{EnvironmentId, exposed, time_slice};
use unix_core::process::public_page as public;
use unix_core::process::rlimits::UNLIMITED;
use unix_core::process::rusage::Rusage;
use unix_core::signal::timer::Timer;
use vm::address_space::MemoryLimits;

const SECOND: u64 = 1_000_000_000;

fn sum(one: Transferred, other: Transferred) -> Transferred {
    core::array::from_fn(|index| one[index].wrapping_add(other[index]))
}

impl Thread {
    /// What it has used.
    pub fn usage(&self) -> Rusage {
        self.cpu_time.usage(EnvironmentId(self.number()))
    }
}

impl Process {
    /// What all its threads have used, those that ended too.
    pub fn usage(&self) -> Rusage {
        let peak = self.memory.lock().space.frames.peak() as u64;
        let threads = self.threads.lock();
        let ended = Rusage { peak, ..*self.ended.lock() };
        threads.iter().map(|thread| thread.usage()).fold(ended, Rusage::with)
    }

    /// Sets the timers that its limit of CPU time asks for: signals from the first on, and its end at the second.
    pub fn set_time_limit(&self) {
        let limits = self.attributes.limits.lock().get(u64::from(linux::RLIMIT_CPU)).unwrap_or([UNLIMITED; 2]);
        let [soft, hard] = limits.map(|limit| match limit {
            UNLIMITED => 0,
            seconds => seconds.max(1).saturating_mul(SECOND),
        });
        self.alarms.change(|timers| {
            timers.interval[3] = Timer { deadline: soft, interval: SECOND };
            timers.interval[4] = Timer { deadline: hard, interval: 0 };
        });
    }

    /// Tells its memory how much there may be.
    pub fn set_memory_limits(&self) {
        let limits = self.attributes.limits.lock().clone();
        let [all, data, stack] =
            [linux::RLIMIT_AS, linux::RLIMIT_DATA, linux::RLIMIT_STACK].map(|one| limits.soft(one));
        let at_once = crate::budget::total_pages() * PAGE_SIZE;
        self.memory.lock().space.room = MemoryLimits { all, data, stack, at_once };
    }

    /// Tells its mailbox and its threads how many signals may be queued.
    pub fn publish_signal_limit(&self) {
        let most = self.attributes.limits.lock().soft(linux::RLIMIT_SIGPENDING);
        self.signal.inbox().words.set_limit(most);
        self.threads.lock().iter().for_each(|thread| thread.signals.post().words.set_limit(most));
    }

    /// Threads end, and the process lives. A sum is made under the same lock: it has what a thread did once, with the
    /// thread or with those that ended. At each time a thread is in one of the two lists.
    pub fn remove_threads(&self, ends: impl Fn(&Thread) -> bool) {
        self.threads.lock().retain(|thread| {
            if !ends(thread) {
                return true;
            }
            let mut ended = self.ended.lock();
            *ended = ended.with(thread.usage());
            let mut moved = self.moved_by_ended.lock();
            *moved = sum(*moved, thread.cpu_time.transferred());
            self.remains.lock().push(DeadThread { thread });
            false
        });
    }

    /// What all its threads have read and written, those that ended too.
    pub fn transferred(&self) -> Transferred {
        let threads = self.threads.lock();
        let ended = *self.moved_by_ended.lock();
        threads.iter().map(|thread| thread.cpu_time.transferred()).fold(ended, sum)
    }

    /// Shows what its parent is told: what its first thread does not tell by itself, which the kernel measures.
    pub fn publish_usage(&self) {
        let own = self.usage();
        let first = exposed::environment(EnvironmentId(self.environment())).map_or(0, |info| info.time.load(Relaxed));
        let children = self.children.lock().usage;
        let told = Rusage { time: own.time.saturating_sub(first), ..own }.with(children);
        for (index, word) in told.to_words().into_iter().enumerate() {
            self.public_word(public::USAGE + index).store(word, Release);
        }
    }

    /// Sends the cost of the process to the host, where the host asked for it. The kernel charges the slice first.
    pub fn report_cost(&self) {
        if self.has_option(option::STATS) {
            time_slice::yield_now();
            cost::send(EnvironmentId(self.environment()), Some(&self.usage()), &self.program.lock().name);
        }
    }
}

/// Nanoseconds that the running process ran: all its threads.
pub fn own_time() -> u64 {
    let process = process();
    let threads: u64 = process.threads.lock().iter().map(|thread| ran(thread.number())).sum();
    threads.saturating_add(process.ended.lock().time)
}
