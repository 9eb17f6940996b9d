//! ExOS, the Unix personality: a library that runs unmodified Linux x86-64 programs (DESIGN.md §5).
//!
//! It lives in the address space of the program it serves. Nothing here is a static that changes: the state of a
//! process hangs from a pointer in its environment area, so that two processes can share an address space. Modules
//! are named after the nouns of Unix; what is pure is tested on the host, what touches the machine is built for it
//! only. Unsafe code stays in `loader`, `entry` and `hw`.

#![no_std]
#![deny(unsafe_code)]

extern crate alloc;

#[cfg(target_os = "none")]
pub mod budget;
pub mod descriptor;
pub mod disk;
#[allow(unsafe_code, reason = "the gate is assembly")]
pub mod entry;
#[cfg(target_os = "none")]
#[allow(unsafe_code, reason = "memory by address is what this module is for")]
pub mod hw;
pub mod init;
#[allow(unsafe_code, reason = "it goes into the program, and sets segment bases")]
pub mod loader;
#[cfg(target_os = "none")]
pub mod override_tables;
pub mod pipe;
pub mod process;
#[cfg(target_os = "none")]
pub mod process_table;
#[cfg(target_os = "none")]
pub mod procfs;
pub mod server;
pub mod signal;
pub mod syscalls;
pub mod terminal;
#[cfg(target_os = "none")]
pub mod wait;
pub mod wire;

pub use linux_abi::{address_map, errno};
pub use unix_core::ipc;
pub use {::vfs, ::vm};

/// For programs that [`image!`] makes.
#[cfg(target_os = "none")]
pub use runtime;
