//! Time: nanoseconds since boot from the time stamp counter, and the one-shot timer of each CPU.
//!
//! All CPUs use one scale, measured at boot. A counter that differs from the bootstrap CPU's is set to it; what
//! cannot be set is corrected by its CPU's offset. So time is one and never runs backwards on a CPU.

use crate::features::{Features, write_msr};
use crate::interrupt_table::{take_pending_interrupts, wait_for_interrupt};
use crate::reference_clock::{Reference, time_stamp};
use crate::time_scale::{NANOSECONDS, TimeScale};
use crate::{apic, calibration, per_cpu};
use abi::limits::CPUS;
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const MSR_TSC_DEADLINE: u32 = 0x6e0;

/// Why there is no clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ClockError {
    /// No clock of known frequency.
    NoReference,
    /// The local timer or the time stamp counter stands still, or no two measurements agree.
    Unsteady,
}

impl fmt::Display for ClockError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::NoReference => "no clock to measure time by: give the machine a PIT or a power-management timer",
            Self::Unsteady => "the CPU's timer cannot be measured: it stands still or jumps",
        })
    }
}

/// A scale that is set once at boot.
struct Shared {
    multiplier: AtomicU64,
    shift: AtomicU64,
}

impl Shared {
    const fn new() -> Self {
        Self { multiplier: AtomicU64::new(0), shift: AtomicU64::new(0) }
    }

    fn set(&self, scale: TimeScale) {
        self.multiplier.store(scale.multiplier, Ordering::Relaxed);
        self.shift.store(u64::from(scale.shift), Ordering::Relaxed);
    }

    fn get(&self) -> TimeScale {
        TimeScale {
            multiplier: self.multiplier.load(Ordering::Relaxed),
            shift: self.shift.load(Ordering::Relaxed) as u32,
        }
    }
}

/// Time stamps to nanoseconds.
static STAMPS: Shared = Shared::new();
/// Nanoseconds to what the timer counts: its own ticks, or time stamps if it goes by deadline.
static TIMER: Shared = Shared::new();
static BY_DEADLINE: AtomicBool = AtomicBool::new(false);
/// Time stamp of the kernel's first instruction.
static START: AtomicU64 = AtomicU64::new(0);

/// Measures the clocks and starts time: it was zero at time stamp `start`. On the bootstrap CPU.
pub(crate) fn start(start: u64, timer_port: Option<u16>, features: &Features) -> Result<(), ClockError> {
    let reference = Reference::find(timer_port).ok_or(ClockError::NoReference)?;
    let frequencies = calibration::measure(&reference).ok_or(ClockError::Unsteady)?;
    let timer = if features.tsc_deadline { frequencies.stamp } else { frequencies.timer };
    STAMPS.set(TimeScale::new(frequencies.stamp, NANOSECONDS).ok_or(ClockError::Unsteady)?);
    TIMER.set(TimeScale::new(NANOSECONDS, timer).ok_or(ClockError::Unsteady)?);
    START.store(start, Ordering::Relaxed);
    (0..CPUS).for_each(|cpu| per_cpu::get(cpu).start_stamp.store(start, Ordering::Relaxed));
    BY_DEADLINE.store(features.tsc_deadline, Ordering::Relaxed);
    start_timer();
    Ok(())
}

/// Prepares this CPU's timer; nothing is armed.
pub(crate) fn start_timer() {
    if BY_DEADLINE.load(Ordering::Relaxed) {
        apic::start_deadline_mode();
    } else {
        apic::stop_timer();
    }
}

/// The scale from time stamps to nanoseconds.
pub fn scale() -> TimeScale {
    STAMPS.get()
}

/// The time stamp at which time was zero.
pub fn start_stamp() -> u64 {
    START.load(Ordering::Relaxed)
}

/// Exposes how long the boot took, on the bootstrap CPU when the first program is about to run.
pub fn note_boot_ended() {
    let ticks = time_stamp().saturating_sub(start_stamp());
    crate::exposed::kernel().boot_ticks.store(ticks, Ordering::Release);
}

/// Nanoseconds since the kernel's first instruction.
#[inline(always)]
pub fn now() -> u64 {
    // Negative where this CPU is a little behind the one on which time began.
    let stamps = time_stamp().wrapping_sub(per_cpu::current().start_stamp.load(Ordering::Relaxed)) as i64;
    scale().convert_fitting(stamps.max(0) as u64)
}

/// Lets this CPU's timer interrupt once, with [`apic::TIMER_VECTOR`], when [`now`] reaches `deadline` or soon after;
/// at once if it has. It may come too early when the deadline is further away than the timer can count.
pub fn set_timer(deadline: u64) {
    if BY_DEADLINE.load(Ordering::Relaxed) {
        let start = per_cpu::current().start_stamp.load(Ordering::Relaxed);
        let stamp = start.saturating_add(TIMER.get().convert(deadline));
        // SAFETY: the register exists where CPUID announced the mode; it only makes the timer interrupt. 0 would stop
        // it.
        unsafe { write_msr(MSR_TSC_DEADLINE, stamp.max(1)) };
        return;
    }
    let ticks = TIMER.get().convert(deadline.saturating_sub(now()));
    apic::start_timer(u32::try_from(ticks).unwrap_or(u32::MAX).max(1));
}

/// Stops this CPU's timer.
pub fn stop_timer() {
    if BY_DEADLINE.load(Ordering::Relaxed) {
        // SAFETY: as in `set_timer`; 0 disarms.
        unsafe { write_msr(MSR_TSC_DEADLINE, 0) };
    } else {
        apic::stop_timer();
    }
}

/// Halts until `deadline` or until `done`; only while booting.
pub(crate) fn halt_until(deadline: u64, done: impl Fn() -> bool) {
    while !done() && now() < deadline {
        set_timer(deadline);
        wait_for_interrupt();
    }
    stop_timer();
    take_pending_interrupts();
}
