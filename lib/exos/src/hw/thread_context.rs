//! The context of a thread: what the CPU and the copies of the program's memory need of its record.
//!
//! Invariant: the thread itself changes its context, but for the number, which its maker sets before it begins.

use super::cpu_time::CpuTime;
use super::current::{Holds, Word, find_record, record, word};
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU64};
use linux_abi::errno::Result;
use runtime::lock::Lock;
use runtime::vector::State;

/// The context of a thread.
#[derive(Debug)]
pub struct ThreadContext {
    /// Its number: that of its environment.
    pub number: AtomicU64,
    /// Room for the vector registers while the CPU runs another thread.
    pub vectors: Lock<State>,
    /// Base of FS as the program set it.
    pub segment_base: AtomicU64,
    /// What it has used.
    pub cpu_time: CpuTime,
    /// The last copy of the program's memory that failed held a lock that the page fault handler needs.
    pub fault_under_lock: AtomicBool,
}

impl Holds for Word<{ word::THREAD_CONTEXT }> {
    type Record = ThreadContext;
}

/// The context of the running thread.
#[inline]
pub fn thread_context() -> &'static ThreadContext {
    record::<{ word::THREAD_CONTEXT }>()
}

/// The same in an environment that may run no thread, as the session's.
pub fn thread_context_if_any() -> Option<&'static ThreadContext> {
    find_record::<{ word::THREAD_CONTEXT }>()
}

impl ThreadContext {
    /// That of a thread that does not run yet.
    ///
    /// # Errors
    /// `ENOMEM` without room for the vector registers.
    pub fn new() -> Result<Self> {
        Ok(Self {
            number: AtomicU64::new(0),
            vectors: Lock::new(State::new()?),
            segment_base: AtomicU64::new(0),
            cpu_time: CpuTime::default(),
            fault_under_lock: AtomicBool::new(false),
        })
    }

    /// Its number.
    pub fn number(&self) -> u64 {
        self.number.load(Relaxed)
    }
}
