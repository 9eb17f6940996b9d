//! Signals without the machine: what a program wants done (`actions`), which are pending (`pending`), sets of them
//! (`set`), the frame that a handler finds (`frame`), and timers that send them (`timer`).

pub mod actions;
pub mod frame;
pub mod pending;
pub mod set;
pub mod timer;
