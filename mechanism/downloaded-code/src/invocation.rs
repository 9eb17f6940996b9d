//! One run of compiled code: the record through which the caller and the code talk.
//!
//! Compiled code is a function `extern "sysv64" fn(*mut Invocation) -> u64`. The caller fills the record, calls, and
//! reads what happened. Layout is part of the interface of the compiler: the emitted code uses these offsets.
//!
//! - Before: `budget`, `stack_top`, `scalars` and `regions` as the context says; `stop` is zero.
//! - After: `stop` says why the code returned; when it is [`Stop::Finished`], what it returned is r0, else zero.
//!   `budget` is what is left, exact unless the verifier proved a bound ([`crate::verifier::Verdict::worst_case`]):
//!   then nothing is charged.
//! - The code uses at most 160 bytes of the native stack, and 64 more for each active function of the program,
//!   besides what helpers use. It keeps every register that the System V convention keeps. It uses no vector
//!   registers.
//! - Helpers are `extern "sysv64" fn(r1, r2, r3, r4, r5, *mut Invocation) -> u64`.

use crate::context::{Context, MAX_ARGUMENTS, MAX_REGIONS, RegionSize};

/// Bytes of a function's stack frame.
pub const FRAME_SIZE: u32 = 512;
/// Most functions active at once, the first one included.
pub const MAX_FRAMES: usize = 8;
/// Bytes of stack that are enough for every program.
pub const STACK_SIZE: usize = FRAME_SIZE as usize * MAX_FRAMES;

/// Regions must not lie within this many bytes of address zero, nor twice as many of the last address. Pointers near
/// them would wrap around, and comparisons would reveal where they are.
pub const NEAR: u64 = 1 << 30;

/// Why compiled code returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Stop {
    /// It reached its last `exit`.
    Finished = 0,
    /// A run-time check found an access outside its region.
    OutOfBounds = 1,
    /// The instruction budget is spent.
    BudgetSpent = 2,
    /// A run-time check found a helper's argument outside its range.
    BadArgument = 3,
    /// A run-time check found an atomic operation at an address that is not a multiple of its size.
    Misaligned = 4,
    /// A helper ended the program.
    Helper = 5,
}

impl Stop {
    /// From [`Invocation::stop`]; any value that is not known means that a helper stopped the program.
    pub fn from_code(code: u32) -> Self {
        match code {
            0 => Self::Finished,
            1 => Self::OutOfBounds,
            2 => Self::BudgetSpent,
            3 => Self::BadArgument,
            4 => Self::Misaligned,
            _ => Self::Helper,
        }
    }
}

/// Where a region is in one run, with its length in the form that checks need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct RegionEntry {
    /// Address of the first byte.
    pub base: u64,
    /// How many start offsets an access of 1, 2, 4 and 8 bytes may have: `length - size + 1`, or zero.
    pub limits: [u64; 4],
}

impl RegionEntry {
    /// Entry of a region of `length` bytes at address `base`.
    #[inline]
    pub fn new(base: u64, length: u32) -> Self {
        let length = u64::from(length);
        Self { base, limits: [1, 2, 4, 8].map(|size| (length + 1).saturating_sub(size)) }
    }

    /// Length of the region in bytes.
    pub fn length(&self) -> u64 {
        self.limits[0]
    }
}

/// The record of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Invocation {
    /// In: instructions that may be executed, at most the context's budget. Out: what is left.
    pub budget: u64,
    /// In: zero. Out: a [`Stop`]; helpers that may stop the program write it too (their values: 5 and above).
    pub stop: u32,
    /// Out: index of the instruction at which the code stopped, if it did not finish.
    pub stop_instruction: u32,
    /// In: address just past the program's stack of [`STACK_SIZE`] bytes (or fewer, as
    /// [`crate::verifier::Verdict::stack`] says); a multiple of 8.
    pub stack_top: u64,
    /// The code's own: its native stack pointer.
    pub native_stack: u64,
    /// In: whatever the helpers need; the code does not look at it.
    pub helper_data: u64,
    /// In: values of the scalar arguments, by argument index.
    pub scalars: [u64; MAX_ARGUMENTS],
    /// In: the regions, by index.
    pub regions: [RegionEntry; MAX_REGIONS],
}

impl Invocation {
    /// Why the code returned.
    pub fn outcome(&self) -> Stop {
        Stop::from_code(self.stop)
    }

    /// Whether the regions have lengths and alignments, and the scalars values, that `context` promises to
    /// programs, and the budget is not more than it gives.
    /// Running code with a record that does not agree breaks what the verifier proved.
    pub fn agrees_with(&self, context: &Context<'_>) -> bool {
        let regions = context.regions.iter().zip(&self.regions).all(|(region, entry)| {
            let length = entry.length();
            let fits = match region.size {
                RegionSize::Fixed(size) => length == u64::from(size),
                RegionSize::Passed { minimum, maximum } => (u64::from(minimum)..=u64::from(maximum)).contains(&length),
            };
            let near_the_ends = entry.base < NEAR || entry.base.checked_add(2 * NEAR).is_none();
            fits && !near_the_ends && entry.base.is_multiple_of(u64::from(region.alignment))
        });
        let scalars = context.arguments.iter().zip(&self.scalars).all(|(argument, value)| match argument {
            crate::context::Argument::Scalar { minimum, maximum } => (minimum..=maximum).contains(&value),
            _ => true,
        });
        let budget = self.budget <= context.budget;
        regions && scalars && budget && self.stack_top.is_multiple_of(8) && self.stop == 0
    }
}
