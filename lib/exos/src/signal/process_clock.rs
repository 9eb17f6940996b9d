//! Clocks that calls and timers read: the wall clock, and the CPU time of the process and of its threads.

use core::sync::atomic::Ordering::Relaxed;
use runtime::{EnvironmentId, clock, exposed};

/// Nanoseconds since 1970; since boot where the machine has no clock.
pub(crate) fn wall_clock() -> u64 {
    clock::wall_clock().unwrap_or_else(clock::now)
}

/// Nanoseconds that an environment ran.
pub(crate) fn ran(environment: u64) -> u64 {
    exposed::environment(EnvironmentId(environment)).map_or(0, |info| info.time.load(Relaxed))
}
