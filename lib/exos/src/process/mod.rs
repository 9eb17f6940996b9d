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
mod sched;
mod setuid;
pub mod spawn_cache;
mod sysv_holdings;
pub mod thread;
pub mod wait;

use exit::exit_handoff;
pub use exit::{oom, reclaim, subreaper};
pub use fork::{child_start, fork_locks, vfork_deferred, vfork_sharing};
pub use process_record::*;
pub(crate) use sched::change::change_own;
pub use sched::{cpu_placement, cpu_time, priority};
pub use setuid::change_user;
use setuid::{setuid_handover, setuid_resume};
pub use spawn_cache::spare_environment;
use spawn_cache::{child_space, exec_template};
pub use thread::thread_create;
