//! ExOS, the Unix personality: a library that runs unmodified Linux x86-64 programs (DESIGN.md §5).
//!
//! It lives in the address space of the program it serves. Nothing here is a static that changes: the state of a
//! process hangs from words in its environment area, so that two processes can share an address space. Modules
//! are named after the nouns of Unix. It is built for the machine only. What is pure stands in crates of its own
//! (`linux-abi`, `vfs`, `vm`, `unix-core`, `program`), which the host tests. Unsafe code stays in `loader`,
//! `entry` and `hw`.

#![no_std]
#![deny(unsafe_code)]

extern crate alloc;

pub mod attributes;
pub mod budget;
pub mod descriptor;
#[allow(unsafe_code, reason = "the gate is assembly")]
pub mod entry;
#[allow(unsafe_code, reason = "memory by address is what this module is for")]
pub mod hw;
#[allow(unsafe_code, reason = "it goes into the program, and sets segment bases")]
pub mod loader;
pub mod override_tables;
pub mod pipe;
pub mod process;
pub mod process_table;
pub mod procfs;
pub mod server;
pub mod signal;
pub mod syscalls;
pub mod terminal;
pub mod upcalls;
pub mod wait;

/// For programs that [`image!`] makes.
pub use runtime;
