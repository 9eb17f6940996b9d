//! What the tests share: a faulty wire with a virtual clock, and ends that speak over it.
#![allow(dead_code, unreachable_pub)]

pub mod ends;
pub mod ethernet;
pub mod memory;
pub mod ours;
pub mod random;
pub mod script;
pub mod strangers;
pub mod talk;
pub mod theirs;
pub mod wire;
