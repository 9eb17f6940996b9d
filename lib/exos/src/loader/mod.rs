//! The last step to a program: its first instruction (`cpu_entry`), and the calls that it finds in memory (`vdso`).
//! The crate `program` checks its file, and lays out its memory and its stack.

pub mod cpu_entry;
pub mod vdso;
