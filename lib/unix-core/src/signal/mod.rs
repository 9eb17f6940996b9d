//! Signals without the machine. `actions` is what a program wants done, `pending` what waits, `set` a set of signals,
//! `frame` what a handler finds, `timer` the timers that send them.

pub mod actions;
pub mod frame;
pub mod pending;
pub mod set;
pub mod timer;
