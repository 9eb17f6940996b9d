//! The host channel: frames between the machine and the tool that started it, over one virtio-console port.
//!
//! Each frame is a header of 8 bytes and up to [`PAYLOAD`] bytes. The kernel passes whole frames on and never looks at
//! a payload. It checks that a frame it sends has a length that fits, so that frames of two senders never mix.
//!
//! Input is sent by credit: the machine says how many bytes of standard input it has room for
//! ([`Kind::InputCredit`]); the host sends no more.

/// Bytes of payload in one frame, at most.
pub const PAYLOAD: usize = 4096;
/// Bytes of a frame's header.
pub const HEADER: usize = 8;
/// First byte of each frame, so that a stream out of step is seen at once.
pub const MAGIC: u8 = 0xc7;

/// What a frame carries.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// To the machine: bytes of standard input.
    Input = 1,
    /// To the machine: standard input has ended.
    InputEnd = 2,
    /// To the machine: `u16` columns, `u16` rows.
    WindowSize = 3,
    /// To the machine: `u32`, a signal (Linux number) that was sent to the tool.
    Signal = 4,
    /// From the machine: bytes of standard output.
    Output = 16,
    /// From the machine: bytes of standard error.
    Error = 17,
    /// From the machine: `u32`, the exit status of the program. The last frame of a run.
    Exit = 18,
    /// From the machine: `u32`, the signal that killed the program. The last frame of a run.
    Killed = 19,
    /// From the machine: one line of log, UTF-8.
    Log = 20,
    /// From the machine: a test result: `u8` 1 passed or 0 failed, then the name and, after a NUL, the detail, UTF-8.
    TestResult = 21,
    /// From the machine: `u32`, bytes of standard input that it has room for, beyond those granted before.
    InputCredit = 22,
    /// From the machine: raise this line in a report: a measurement, `name\0value\0unit`, UTF-8.
    Measurement = 23,
    /// From the machine: what an environment cost, at its end: a `u64` for each of [`cost::NAMES`], then the name of
    /// its program, UTF-8. Sent where the boot archive has the option `stats`.
    Cost = 24,
}

impl Kind {
    /// The kind with this number, if there is one.
    pub const fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Input,
            2 => Self::InputEnd,
            3 => Self::WindowSize,
            4 => Self::Signal,
            16 => Self::Output,
            17 => Self::Error,
            18 => Self::Exit,
            19 => Self::Killed,
            20 => Self::Log,
            21 => Self::TestResult,
            22 => Self::InputCredit,
            23 => Self::Measurement,
            24 => Self::Cost,
            _ => return None,
        })
    }
}

/// The header of a frame, unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What follows; a number, because kinds unknown to the kernel pass through it.
    pub kind: u8,
    /// Bytes that follow.
    pub length: u32,
}

impl Header {
    /// As it stands on the wire: magic, kind, two zero bytes, length (little-endian).
    pub const fn to_bytes(self) -> [u8; HEADER] {
        let length = self.length.to_le_bytes();
        [MAGIC, self.kind, 0, 0, length[0], length[1], length[2], length[3]]
    }

    /// Reads a header; `None` where the magic, the zero bytes or the length are wrong.
    pub const fn from_bytes(bytes: [u8; HEADER]) -> Option<Self> {
        let length = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        if bytes[0] != MAGIC || bytes[2] != 0 || bytes[3] != 0 || length as usize > PAYLOAD {
            return None;
        }
        Some(Self { kind: bytes[1], length })
    }
}

/// Figures of a frame of [`Kind::Cost`], each a little-endian `u64`.
pub mod cost {
    /// Their names, in the order in which they stand. Times are nanoseconds.
    pub const NAMES: [&str; 10] = [
        "environment",
        "creator",
        "time",
        "library_time",
        "slices",
        "faults",
        "upcalls",
        "transfers",
        "waits",
        "peak_pages",
    ];
    /// Bytes of the figures.
    pub const BYTES: usize = NAMES.len() * 8;
    /// Stands for a figure that the sender does not count.
    pub const NOT_COUNTED: u64 = u64::MAX;
    /// Name of the [`super::Kind::Measurement`] of the ticks from the kernel's first instruction to the first user
    /// instruction.
    pub const BOOT: &str = "cost: boot";
    /// The same for the ticks from there to the end of the run.
    pub const RUN: &str = "cost: run";
    /// The same for ticks in a second.
    pub const RATE: &str = "cost: ticks in a second";
    /// The same for nanoseconds that the CPUs were idle, in all.
    pub const IDLE: &str = "cost: idle";
    /// The same for changes from one environment to another, transfers not counted.
    pub const SWITCHES: &str = "cost: switches";
}

/// Values written to the debug-exit port (its exit status is twice the value, plus one).
pub mod stop {
    /// Stopped in order: QEMU exits with 33.
    pub const IN_ORDER: u32 = 0x10;
    /// Kernel panic: QEMU exits with 35.
    pub const PANIC: u32 = 0x11;
    /// The machine could not boot: QEMU exits with 37.
    pub const BOOT_FAILURE: u32 = 0x12;
}
