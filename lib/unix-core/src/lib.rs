//! The parts of a Unix process that need no machine: signals, terminals, pipes, descriptors, limits, and objects that
//! processes share.
//!
//! Pure: words that several processes write are atomics, and each value in them has a meaning.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod block_cache;
pub mod fd_table;
pub mod ipc;
pub mod pipe;
pub mod process;
pub mod procfs;
pub mod server;
pub mod session;
pub mod signal;
pub mod terminal;
pub mod trace_format;
pub mod trace_values;
pub mod uapi;
