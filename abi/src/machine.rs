//! The machine as the holder of the root key rules it: its end, and the times that the scheduler goes by.

use core::ops::RangeInclusive;

/// What `machine_set` sets.
#[repr(u64)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// 0: stops the machine in order.
    Stop = 0,
    /// Length of a time slice in nanoseconds, from the next slice on.
    Quantum = 1,
    /// Time an environment has, after its slice ended, to save its state and yield, in nanoseconds.
    SaveWindow = 2,
    /// Excesses after which an environment is destroyed.
    ExcessLimit = 3,
}

impl Setting {
    /// The setting with this number.
    pub const fn from_number(number: u64) -> Option<Self> {
        match number {
            0 => Some(Self::Stop),
            1 => Some(Self::Quantum),
            2 => Some(Self::SaveWindow),
            3 => Some(Self::ExcessLimit),
            _ => None,
        }
    }

    /// The values that it takes.
    pub const fn range(self) -> RangeInclusive<u64> {
        match self {
            Self::Stop => 0..=0,
            Self::Quantum => 200_000..=100_000_000,
            Self::SaveWindow => 10_000..=1_000_000,
            Self::ExcessLimit => 1..=65_536,
        }
    }
}
