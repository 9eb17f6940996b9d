//! What the kernel knows of one CPU beyond what it exposes: its slice vector, and where in a slice it is.

use crate::environment::Environment;
use abi::EnvironmentId;
use abi::time_slice::SliceInfo;
use machine::entry::TrapFrame;
use time_slice::{Look, Next, SliceVector};

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

/// An environment that was told that its slice has ended, and a digest of the registers with which it went on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    /// Its number.
    pub(crate) environment: EnvironmentId,
    registers: u64,
}

/// Spreads the bits of a digest.
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

impl Told {
    const NOBODY: Self = Self { environment: EnvironmentId::NONE, registers: 0 };

    /// An environment as it is now.
    pub(crate) fn now(environment: EnvironmentId, frame: &TrapFrame) -> Self {
        let all = frame.registers.iter().chain([&frame.rip, &frame.rsp]);
        Self { environment, registers: all.fold(0, |digest, register| (digest ^ register).wrapping_mul(ODD)) }
    }
}

/// One CPU.
#[derive(Clone, Debug)]
pub(crate) struct Processor {
    /// Which positions are allocated.
    pub(crate) vector: SliceVector,
    /// The position that runs, or was looked at last.
    pub(crate) position: usize,
    /// The position that ran last.
    pub(crate) ran: usize,
    /// The look for who runs next, which may take several entries.
    look: Look,
    /// The earliest time at which an environment that was passed over in it may run.
    pub(crate) earliest: Option<u64>,
    /// The CPU said that it is idle before it began.
    pub(crate) announced: bool,
    /// Where in its slice.
    pub(crate) phase: Phase,
    /// When the slice ends, in nanoseconds since boot.
    pub(crate) slice_end: u64,
    /// When the slice proper ended and the window or the grace began; later than any time before that.
    pub(crate) ended: u64,
    /// The environment that was told last that its slice has ended.
    pub(crate) told: Told,
    /// Since when the time of the slice is not accounted for yet.
    pub(crate) entered: u64,
    /// The environment that is charged for it, as long as it has this number: that for which the slice was begun, or to
    /// which it was yielded.
    pub(crate) payer: (Environment, EnvironmentId),
    /// What is exposed of the position; none if no environment may give it in this slice, for example because it was
    /// freed.
    pub(crate) slice: Option<&'static SliceInfo>,
    /// The number of the environment that ran last; 0: none.
    pub(crate) last: u64,
}

impl Processor {
    /// A CPU with nothing to do.
    pub(crate) fn new() -> Self {
        Self {
            vector: SliceVector::new(),
            position: 0,
            ran: 0,
            look: Look::after(0),
            earliest: None,
            announced: false,
            phase: Phase::Idle,
            slice_end: 0,
            ended: u64::MAX,
            told: Told::NOBODY,
            entered: 0,
            // No environment has this number.
            payer: (Environment::in_slot(0), EnvironmentId(u64::MAX)),
            slice: None,
            last: 0,
        }
    }

    /// Begins a look around the vector.
    pub(crate) fn look_around(&mut self, announced: bool) {
        (self.look, self.earliest, self.announced) = (Look::after(self.position), None, announced);
    }

    /// The next look begins with the position that ran last, not after it.
    pub(crate) fn step_back(&mut self) {
        self.position = self.vector.before(self.ran);
    }

    /// The position to look at next, and whether it is the last of the look.
    pub(crate) fn next_position(&mut self) -> Option<(Next, bool)> {
        let (next, is_last) = self.look.next(&self.vector)?;
        self.position = next.position;
        Some((next, is_last))
    }

    /// An environment was passed over that may run from this time on.
    pub(crate) fn note_later(&mut self, time: u64) {
        self.earliest = Some(self.earliest.map_or(time, |other| other.min(time)));
    }
}
