//! A Linux process: one environment, its memory, its descriptors, its relatives.
//!
//! `environment` makes the environment, `fork` copies a process, `exec` changes its program, `exit` and `wait` end
//! it and tell its parent. A process that executes a set-id program hands over to a fresh environment
//! (`setuid_handover`), which continues as the same process (`setuid_resume`) from the state it was left
//! (`unix_core::process::exec_state`). What a parent caches for its next child is `spawn_cache`. The records of a
//! process and of its threads are `process_record` and `thread`: words of the environment area lead to their parts
//! (`current`).
//!
//! Invariant: the record of a process names types of data (`fork::fork_state`, `exec_request`, `spawn_cache`). The
//! functions that end a process, begin one or change its program import the record, and the record imports none of
//! them.

pub mod call;
pub mod children;
pub mod cost;
pub mod current;
pub mod environment;
pub mod exec;
mod exec_file;
pub mod exec_request;
pub mod exit;
pub mod fork;
pub mod futex;
pub mod image;
pub mod interpose;
mod load_layout;
pub mod pager;
pub(crate) mod proc_links;
mod process_record;
pub(crate) mod resource_limits;
pub mod revocation;
pub mod sched;
pub mod setuid;
pub mod spawn_cache;
mod sysv_holdings;
pub mod thread;
pub mod wait;

pub use process_record::*;
