//! What the threads of a process have to obey, as the word `Process::stopped` has it.

/// Nothing.
pub const RUNS: u64 = 0;
/// To wait until the process continues.
pub const STOPPED: u64 = 1;
/// To end.
pub const ENDS: u64 = 2;
/// To leave the process to its first thread, which enters another program.
pub const EXECS: u64 = 3;
