//! Timers of a block: retransmission, persist, delayed acknowledgement, keep-alive, and the end of FIN_WAIT_2.
//! The engine arms one entry of its wheel for the earliest of them.

use crate::time::{SECOND, Time};

/// Data is acknowledged after this time at the latest.
pub const DELAYED_ACKNOWLEDGEMENT: u64 = 40_000;
/// A corked partial segment waits no longer.
pub const CORK: u64 = 200_000;
/// An end that its owner closed waits for the peer's FIN.
pub const FIN_WAIT_2: u64 = 60 * SECOND;
pub const TIME_WAIT: u64 = 60 * SECOND;
/// What an owner that has gone left to be sent waits no longer for a closed window to open, as on Linux.
pub const ORPHAN: u64 = 200 * SECOND;

#[derive(Clone, Copy, Debug)]
pub struct Timers {
    pub retransmit: Time,
    pub persist: Time,
    pub acknowledge: Time,
    pub alive: Time,
    pub linger: Time,
    /// When the oldest unacknowledged byte was sent, or the window closed: the user time-out runs from here.
    pub waiting_since: Time,
}

impl Default for Timers {
    fn default() -> Self {
        let never = Time::NEVER;
        Self {
            retransmit: never,
            persist: never,
            acknowledge: never,
            alive: never,
            linger: never,
            waiting_since: never,
        }
    }
}

impl Timers {
    pub fn deadline(&self) -> Time {
        let others = self.acknowledge.min(self.alive).min(self.linger);
        self.retransmit.min(self.persist).min(others)
    }
}

/// Takes a timer that is due: it is not armed afterwards.
pub fn take(timer: &mut Time, now: Time) -> bool {
    let is_due = *timer <= now;
    if is_due {
        *timer = Time::NEVER;
    }
    is_due
}
