//! The account of a process: what each of its threads has used, and where its parent reads it.

use crate::process::cost;
use crate::process::process_record::{Process, option};
use crate::process::thread::Thread;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Relaxed, Release};
use linux_abi::address_map::PAGE_SIZE;
use linux_abi::errno::Result;
use linux_raw_sys::general as linux;
use runtime::{EnvironmentId, clock, exposed, time_slice};
use unix_core::process::public_page as public;
use unix_core::process::rlimits::UNLIMITED;
use unix_core::process::rusage::{self, Rusage};
use unix_core::signal::timer::Timer;
use vm::address_space::MemoryLimits;

const SECOND: u64 = 1_000_000_000;

/// A thread's own account; only that thread writes it.
#[derive(Debug, Default)]
pub struct CpuTime {
    /// Ticks of the clock in the library.
    library: AtomicU64,
    /// When the library began with what it does now, put off by what was waited meanwhile.
    entered: AtomicU64,
    /// The most time in the program that was ever told.
    told: AtomicU64,
    faults: AtomicU64,
    waits: AtomicU64,
    upcalls: AtomicU64,
    transfers: AtomicU64,
    /// See [`Transferred`].
    transferred: [AtomicU64; 4],
}

/// Bytes read and written by calls, and those calls: `/proc/PID/io`. Cost: two additions for each call.
pub type Transferred = [u64; 4];
/// Index of the bytes that were read; the calls stand two places behind.
pub const READ: usize = 0;
/// Index of the bytes that were written.
pub const WRITTEN: usize = 1;

impl CpuTime {
    /// Counts a call that moved bytes, or failed.
    #[inline]
    pub fn count_moved(&self, way: usize, outcome: Result<u64>) {
        add(&self.transferred[way], outcome.unwrap_or(0));
        add(&self.transferred[way + 2], 1);
    }

    fn transferred(&self) -> Transferred {
        [0, 1, 2, 3].map(|index| self.transferred[index].load(Relaxed))
    }

    /// The library begins.
    #[inline]
    pub fn enter_library(&self) {
        self.entered.store(clock::ticks(), Relaxed);
    }

    /// The library has done what it began last; what the thread waited meanwhile does not count.
    #[inline]
    pub fn leave_library(&self) {
        add(&self.library, clock::ticks().wrapping_sub(self.entered.load(Relaxed)));
    }

    /// A wait that began at `since`, in ticks of the clock, is over.
    pub fn note_wait(&self, since: u64) {
        add(&self.entered, clock::ticks().wrapping_sub(since));
        add(&self.waits, 1);
    }

    /// A fault was mended.
    pub fn note_fault(&self) {
        add(&self.faults, 1);
    }

    /// Counts an upcall that the library handles.
    #[inline]
    pub fn count_upcall(&self) {
        add(&self.upcalls, 1);
    }

    /// Counts a call of the server.
    #[inline]
    pub fn count_transfer(&self) {
        add(&self.transfers, 1);
    }

    /// Begins anew, for another thread.
    pub fn clear(&self) {
        let times = [&self.library, &self.entered, &self.told];
        let counts = [&self.faults, &self.waits, &self.upcalls, &self.transfers];
        times.into_iter().chain(counts).chain(&self.transferred).for_each(|word| word.store(0, Relaxed));
    }
}

fn sum(one: Transferred, other: Transferred) -> Transferred {
    core::array::from_fn(|index| one[index].wrapping_add(other[index]))
}

#[inline]
fn add(word: &AtomicU64, more: u64) {
    word.store(word.load(Relaxed).wrapping_add(more), Relaxed);
}

impl Thread {
    /// What it has used.
    pub fn usage(&self) -> Rusage {
        let kernel = exposed::kernel();
        let library = self.cpu_time.library.load(Relaxed);
        let library = clock::scale(library, kernel.tsc_multiplier.load(Relaxed), kernel.tsc_shift.load(Relaxed));
        let time = exposed::environment(EnvironmentId(self.number())).map_or(0, |info| info.time.load(Relaxed));
        let system = rusage::system_time(time, library, self.cpu_time.told.load(Relaxed));
        self.cpu_time.told.fetch_max(time - system, Relaxed);
        Rusage {
            time,
            system,
            faults: self.cpu_time.faults.load(Relaxed),
            peak: 0,
            waits: self.cpu_time.waits.load(Relaxed),
            upcalls: self.cpu_time.upcalls.load(Relaxed),
            transfers: self.cpu_time.transfers.load(Relaxed),
        }
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
        let limits = self.limits.lock().get(u64::from(linux::RLIMIT_CPU)).unwrap_or([UNLIMITED; 2]);
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
        let limits = self.limits.lock().clone();
        let [all, data, stack] =
            [linux::RLIMIT_AS, linux::RLIMIT_DATA, linux::RLIMIT_STACK].map(|one| limits.soft(one));
        let at_once = crate::budget::total_pages() * PAGE_SIZE;
        self.memory.lock().space.room = MemoryLimits { all, data, stack, at_once };
    }

    /// Tells its mailbox and its threads how many signals may be queued.
    pub fn publish_signal_limit(&self) {
        let most = self.limits.lock().soft(linux::RLIMIT_SIGPENDING);
        self.inbox().words.set_limit(most);
        self.threads.lock().iter().for_each(|thread| thread.post().words.set_limit(most));
    }

    /// Threads end, and the process lives. A sum is made under the same lock: it has what a thread did once, with the
    /// thread or with those that ended.
    pub fn remove_threads(&self, ends: impl Fn(&Thread) -> bool) {
        self.threads.lock().retain(|thread| {
            if !ends(thread) {
                return true;
            }
            let mut ended = self.ended.lock();
            *ended = ended.with(thread.usage());
            let mut moved = self.moved_by_ended.lock();
            *moved = sum(*moved, thread.cpu_time.transferred());
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
