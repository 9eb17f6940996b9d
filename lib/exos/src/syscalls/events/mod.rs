//! Calls that wait or wake: signals, futexes, timers, clocks, `poll`, and descriptors of events.

pub(super) mod event_fds;
pub(super) mod futex;
pub(super) mod poll;
pub(super) mod signal;
pub(super) mod time;
pub(super) mod timer;
