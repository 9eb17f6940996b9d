//! ExOS, the Unix personality: a library that runs unmodified Linux x86-64 programs (DESIGN.md §5).
//!
//! It lives in the address space of the program it serves. Nothing here is a static that changes: the state of a
//! process hangs from a pointer in its environment area, so that two processes can share an address space. Modules
//! are named after the nouns of Unix; what is pure is tested on the host, what touches the machine is built for it
//! only. Unsafe code stays in `loader`, `rewriter` and `user_memory`.

#![no_std]
#![deny(unsafe_code)]

extern crate alloc;

#[cfg(target_os = "none")]
pub mod block;
#[cfg(target_os = "none")]
pub mod budget;
pub mod call;
pub mod descriptor;
pub mod errno;
pub mod file_system;
pub mod guardian;
pub mod ipc;
pub mod layout;
#[allow(unsafe_code, reason = "it goes into the program, and sets segment bases")]
pub mod loader;
pub mod memory;
pub mod pipe;
#[cfg(target_os = "none")]
pub mod proc;
pub mod process;
#[cfg(target_os = "none")]
pub mod relatives;
#[allow(unsafe_code, reason = "the gate is assembly")]
pub mod rewriter;
pub mod session;
pub mod signal;
#[cfg(target_os = "none")]
pub mod tables;
pub mod terminal;
#[cfg(target_os = "none")]
#[allow(unsafe_code, reason = "memory by address is what this module is for")]
pub mod user_memory;

/// For programs that [`image!`] makes.
#[cfg(target_os = "none")]
pub use runtime;
