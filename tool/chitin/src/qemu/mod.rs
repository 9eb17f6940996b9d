//! Machines: what they are made of, how QEMU is told, and how one is started,
//! watched and stopped.

mod accelerator;
mod arguments;
mod machine;
mod running;

pub use accelerator::{Accelerator, AcceleratorChoice};
pub use arguments::{PROGRAM, flags};
pub use machine::{Board, Cpu, Disk, Forward, Link, Machine, NetworkCard, Plugin, Transport};
pub use running::{Files, Running, Stop};
