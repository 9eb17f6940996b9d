//! Up-calls: what a layer below has a layer above do. The image that runs names one function for each.
//!
//! Invariant: an up-call is made only where a process runs.

use crate::hw::current::process;
use linux_abi::errno::Result;
use unix_core::process::exit_status::Status;
use unix_core::procfs::{Last, Way};

/// The functions.
#[derive(Debug)]
pub struct Upcalls {
    /// Ends the process.
    pub end: fn(Status) -> !,
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
}

/// Those of the image that the process runs on.
pub fn upcalls() -> &'static Upcalls {
    &process().calls.image().upcalls
}
