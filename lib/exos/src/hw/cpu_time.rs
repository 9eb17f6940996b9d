//! The account of a thread: CPU time of the library, and counts of faults, waits, upcalls and calls of the server.
//!
//! Invariant: only the thread itself writes its account.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use linux_abi::errno::Result;
use runtime::{EnvironmentId, clock, exposed};
use unix_core::process::rusage::{self, Rusage};

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

    /// What its calls have moved.
    pub fn transferred(&self) -> Transferred {
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

    /// What the thread has used whose environment this is.
    pub fn usage(&self, environment: EnvironmentId) -> Rusage {
        let kernel = exposed::kernel();
        let library = self.library.load(Relaxed);
        let library = clock::scale(library, kernel.tsc_multiplier.load(Relaxed), kernel.tsc_shift.load(Relaxed));
        let time = exposed::environment(environment).map_or(0, |info| info.time.load(Relaxed));
        let system = rusage::system_time(time, library, self.told.load(Relaxed));
        self.told.fetch_max(time - system, Relaxed);
        Rusage {
            time,
            system,
            faults: self.faults.load(Relaxed),
            peak: 0,
            waits: self.waits.load(Relaxed),
            upcalls: self.upcalls.load(Relaxed),
            transfers: self.transfers.load(Relaxed),
        }
    }

    /// Begins anew, for another thread.
    pub fn clear(&self) {
        let times = [&self.library, &self.entered, &self.told];
        let counts = [&self.faults, &self.waits, &self.upcalls, &self.transfers];
        times.into_iter().chain(counts).chain(&self.transferred).for_each(|word| word.store(0, Relaxed));
    }
}

#[inline]
fn add(word: &AtomicU64, more: u64) {
    word.store(word.load(Relaxed).wrapping_add(more), Relaxed);
}
