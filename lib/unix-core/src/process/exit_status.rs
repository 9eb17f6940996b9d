//! How a process ended, stopped or went on, as `wait` tells it.

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
/// Bit of that word: the parent ignored SIGCHLD when the process ended, so that it is gone without being waited for.
const UNAWAITED: u64 = 1 << 62;

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

    /// The same of a process whose parent ignores its end.
    pub const fn to_unawaited_word(self) -> u64 {
        self.to_word() | UNAWAITED
    }

    /// Whether a word of the public page is that of an ended process that its parent ignored.
    pub const fn is_unawaited(word: u64) -> bool {
        word & (ENDED | UNAWAITED) == ENDED | UNAWAITED
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

    /// `si_code` and `si_status`.
    pub const fn information(self) -> (u32, u32) {
        match self {
            Self::Exited(code) => (linux::CLD_EXITED, code as u32),
            Self::Killed(signal) => (linux::CLD_KILLED, signal),
        }
    }
}

/// The signal that stands for an end that the process did not choose: its environment was destroyed.
pub const DESTROYED: Status = Status::Killed(linux::SIGKILL);

/// A change that is no end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// By a signal.
    Stopped(u32),
    /// By SIGCONT.
    Continued,
}

impl Change {
    /// As `wait4` stores it, and as the low half of a word of the public page.
    pub const fn to_word(self) -> u32 {
        match self {
            Self::Stopped(signal) => (signal & 0x7f) << 8 | 0x7f,
            Self::Continued => 0xffff,
        }
    }

    /// From the low half of a word; nonsense is no change.
    pub const fn from_word(word: u32) -> Option<Self> {
        match word {
            0xffff => Some(Self::Continued),
            word if word & 0xff == 0x7f && word >> 8 != 0 && word >> 8 <= 64 => Some(Self::Stopped(word >> 8)),
            _ => None,
        }
    }

    /// `si_code` and `si_status`.
    pub const fn information(self) -> (u32, u32) {
        match self {
            Self::Stopped(signal) => (linux::CLD_STOPPED, signal),
            Self::Continued => (linux::CLD_CONTINUED, linux::SIGCONT),
        }
    }
}
