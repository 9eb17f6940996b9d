//! How a process ended, as `wait` tells it.

use linux_raw_sys::general as linux;

/// An end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// By `exit`, with the low eight bits of its argument.
    Exited(u8),
    /// By a signal.
    Killed(u32),
}

/// Bit of the word in the public page: the process has ended, the status is in the low half.
const ENDED: u64 = 1 << 63;

impl Status {
    /// As `wait4` stores it. No core is ever written, so that the bit for it is never set.
    pub const fn to_wait(self) -> u32 {
        match self {
            Self::Exited(code) => (code as u32) << 8,
            Self::Killed(signal) => signal & 0x7f,
        }
    }

    /// As a word of the public page: never 0.
    pub const fn to_word(self) -> u64 {
        ENDED | self.to_wait() as u64
    }

    /// From a word of the public page; every value has a meaning, for others can write nonsense into theirs.
    pub const fn from_word(word: u64) -> Option<Self> {
        if word & ENDED == 0 {
            return None;
        }
        let wait = word as u32;
        Some(match wait & 0x7f {
            0 => Self::Exited((wait >> 8) as u8),
            signal => Self::Killed(signal),
        })
    }
}

/// The signal that stands for an end that the process did not choose: its environment was destroyed.
pub const DESTROYED: Status = Status::Killed(linux::SIGKILL);
