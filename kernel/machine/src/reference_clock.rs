//! Clocks of known frequency, to measure the others by: the CPU's own statement, the power-management timer, the PIT.
//!
//! A reference that is not there is found out by its standing still, never by waiting for ever (FAULTS row 92).

use crate::features::leaf;
use crate::port;
use core::arch::x86_64::_rdtsc;

const PIT_HERTZ: u64 = 1_193_182;
const PIT_DATA_2: u16 = 0x42;
const PIT_COMMAND: u16 = 0x43;
const PIT_GATE: u16 = 0x61;
/// Channel 2, both bytes, mode 0 (count down once).
const PIT_ONE_SHOT_2: u8 = 0b1011_0000;
const PIT_LATCH_2: u8 = 0b1000_0000;
const ACPI_TIMER_HERTZ: u64 = 3_579_545;
/// Readings after which a clock that shows the same value is taken for absent.
const PATIENCE: u32 = 10_000;

/// A clock of known frequency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reference {
    /// The time stamp counter, whose frequency the CPU or the hypervisor states.
    TimeStamp {
        /// Ticks a second.
        hertz: u64,
    },
    /// The power-management timer at this port, 24 bits.
    AcpiTimer(u16),
    /// Channel 2 of the 8254, 16 bits.
    Pit,
}

impl Reference {
    /// The best that this machine has.
    pub(crate) fn find(timer_port: Option<u16>) -> Option<Self> {
        if let Some(hertz) = stated_frequency() {
            return Some(Self::TimeStamp { hertz });
        }
        let timer = timer_port.map(Self::AcpiTimer);
        [timer, Some(Self::Pit)].into_iter().flatten().find(Self::runs)
    }

    fn runs(&self) -> bool {
        self.restart();
        let first = self.read();
        (0..PATIENCE).any(|_| self.read() != first)
    }

    /// Ticks a second.
    pub(crate) fn hertz(&self) -> u64 {
        match self {
            Self::TimeStamp { hertz } => *hertz,
            Self::AcpiTimer(_) => ACPI_TIMER_HERTZ,
            Self::Pit => PIT_HERTZ,
        }
    }

    /// Ticks after which it begins anew, less one.
    pub(crate) fn mask(&self) -> u64 {
        match self {
            Self::TimeStamp { .. } => u64::MAX,
            Self::AcpiTimer(_) => 0xff_ffff,
            Self::Pit => 0xffff,
        }
    }

    /// Makes a clock that must be started count from its beginning.
    pub(crate) fn restart(&self) {
        if *self == Self::Pit {
            // SAFETY: channel 2 of the timer and its gate drive only the speaker, which stays off.
            unsafe {
                port::write_u8(PIT_GATE, port::read_u8(PIT_GATE) & 0b1111_1100 | 1);
                port::write_u8(PIT_COMMAND, PIT_ONE_SHOT_2);
                port::write_u8(PIT_DATA_2, 0xff);
                port::write_u8(PIT_DATA_2, 0xff);
            }
        }
    }

    /// Ticks, counting up, within `mask`.
    pub(crate) fn read(&self) -> u64 {
        match *self {
            Self::TimeStamp { .. } => time_stamp(),
            // SAFETY: reading the timer that the firmware's table names has no effect.
            Self::AcpiTimer(port) => u64::from(unsafe { port::read_u32(port) }) & self.mask(),
            // SAFETY: latching and reading channel 2 has no effect on anything else.
            Self::Pit => unsafe {
                port::write_u8(PIT_COMMAND, PIT_LATCH_2);
                let low = u64::from(port::read_u8(PIT_DATA_2));
                let high = u64::from(port::read_u8(PIT_DATA_2));
                0xffff - (high << 8 | low)
            },
        }
    }
}

/// This CPU's time stamp counter.
pub(crate) fn time_stamp() -> u64 {
    // SAFETY: every 64-bit CPU has it, and the kernel may always read it.
    unsafe { _rdtsc() }
}

/// The frequency of the time stamp counter as the hypervisor (leaf 0x40000010) or the CPU (leaf 0x15) states it.
fn stated_frequency() -> Option<u64> {
    let under_hypervisor = leaf(1, 0).ecx >> 31 != 0;
    let stated = if under_hypervisor { u64::from(leaf(0x4000_0010, 0).eax) * 1000 } else { 0 };
    let ratio = leaf(0x15, 0);
    let crystal = u64::from(ratio.ecx) * u64::from(ratio.ebx);
    let computed = crystal.checked_div(u64::from(ratio.eax)).unwrap_or(0);
    [stated, computed].into_iter().find(|&hertz| hertz != 0)
}
