//! What the kernel knows of one CPU beyond what it exposes: its slice vector, and where in a slice it is.

use time_slice::SliceVector;

/// Where in a time slice a CPU is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// No environment runs.
    Idle,
    /// Within the slice.
    Running,
    /// The slice has ended; the environment saves its state.
    SaveWindow,
    /// The slice has ended in a critical section.
    Grace,
}

/// One CPU.
#[derive(Clone, Debug)]
pub(crate) struct Processor {
    /// Which positions are allocated.
    pub(crate) vector: SliceVector,
    /// The position that runs, or ran last.
    pub(crate) position: usize,
    /// Where in its slice.
    pub(crate) phase: Phase,
    /// When the slice ends, in nanoseconds since boot.
    pub(crate) slice_end: u64,
    /// When the environment that runs was entered.
    pub(crate) entered: u64,
    /// The number of the environment that ran last; 0: none.
    pub(crate) last: u64,
}

impl Processor {
    /// A CPU with nothing to do.
    pub(crate) const fn new() -> Self {
        Self { vector: SliceVector::new(), position: 0, phase: Phase::Idle, slice_end: 0, entered: 0, last: 0 }
    }
}
