//! Up-calls: what a layer below has a layer above do. The image that runs names one function for each.
//!
//! Invariant: an up-call is made only where a process runs.

use crate::hw::current::{Holds, Word, record, word};
use crate::hw::thread_context::ThreadContext;
use crate::signal::{AsyncWatch, ThreadSignals};
use alloc::vec::Vec;
use linux_abi::errno::Result;
use runtime::predicate::Term;
use runtime::upcall::Context;
use unix_core::process::exit_status::Status;
use unix_core::procfs::{Last, Way};

/// The functions.
#[derive(Debug)]
pub struct Upcalls {
    /// Ends the process.
    pub end: fn(Status) -> !,
    /// Reports that a signal ends the process like a crash, before the program resumes at a place.
    pub report: fn(&Context, u32),
    /// The running thread ends, because its process does.
    pub leave: fn() -> !,
    /// The same, because another thread executes a program.
    pub leave_for_exec: fn() -> !,
    /// Answers the oldest request of another process; whether there was one.
    pub answer_request: fn() -> bool,
    /// Where a path below `/proc` leads out of it.
    pub lead_on: fn(&[u8], Last) -> Result<Option<Way>>,
    /// Writes bytes of the program's memory to a file below `/proc`.
    pub write_proc: fn(&[u8], u64, u64) -> Result<u64>,
    /// Does something with each thread of the process, while the list of threads is locked.
    pub each_thread: fn(EachThread<'_>),
    /// A child of the process, by its number.
    pub child: fn(u64) -> Option<ChildInfo>,
    /// Nanoseconds that the process ran: all its threads.
    pub process_time: fn() -> u64,
    /// Gives up pages that only save time for the next child, before a sleep.
    pub trim: fn(),
    /// Ends what the running thread, which slept, watched of descriptors.
    pub end_watches: fn(),
    /// Sends the signals of watched descriptors that something has come to.
    pub look_at_watches: fn(&mut Vec<AsyncWatch>),
    /// What becomes true when something comes to a watched descriptor.
    pub watch_terms: fn(&[AsyncWatch]) -> Vec<Term>,
}

/// What is done with a thread.
pub type EachThread<'a> = &'a mut dyn FnMut(&'static ThreadContext, &'static ThreadSignals);

/// What layers below ask of a child.
#[derive(Clone, Copy, Debug)]
pub struct ChildInfo {
    /// Whether it ended while the process ignored SIGCHLD.
    pub is_unawaited: bool,
    /// What becomes true when it needs nothing of its parent any more, while it does.
    pub dependence: Option<[Term; 2]>,
}

impl Holds for Word<{ word::UPCALLS }> {
    type Record = Upcalls;
}

/// Those of the image that the process runs on.
#[inline]
pub fn upcalls() -> &'static Upcalls {
    record::<{ word::UPCALLS }>()
}
