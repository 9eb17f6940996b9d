//! The machine as the holder of the root key rules it: its end, and the numbers that scheduling and revocation go by.

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
    /// Time between the emergency upcall and the first page that is taken after it, in nanoseconds, for emergencies
    /// from then on.
    EmergencyGrace = 4,
    /// Pages that the kernel asks an environment for when none is free.
    ShortagePages = 5,
    /// Time that the environment has to give them, in nanoseconds.
    ShortageDeadline = 6,
}

impl Setting {
    /// The setting with this number.
    pub const fn from_number(number: u64) -> Option<Self> {
        match number {
            0 => Some(Self::Stop),
            1 => Some(Self::Quantum),
            2 => Some(Self::SaveWindow),
            3 => Some(Self::ExcessLimit),
            4 => Some(Self::EmergencyGrace),
            5 => Some(Self::ShortagePages),
            6 => Some(Self::ShortageDeadline),
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
            Self::EmergencyGrace | Self::ShortageDeadline => 100_000..=1_000_000_000,
            Self::ShortagePages => 1..=4096,
        }
    }
}
