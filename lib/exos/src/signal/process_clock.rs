//! Clocks that calls and timers read: the CPU time of the process and of its threads.

use core::sync::atomic::Ordering::Relaxed;
use runtime::{EnvironmentId, exposed};

/// Nanoseconds that an environment ran.
pub(crate) fn ran(environment: u64) -> u64 {
    exposed::environment(EnvironmentId(environment)).map_or(0, |info| info.time.load(Relaxed))
}
