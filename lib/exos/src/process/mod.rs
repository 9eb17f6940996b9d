//! A Linux process: one environment, its memory, its descriptors, its relatives.
//!
//! `environment` makes the environment, `fork` copies a process, `exec` changes its program, `exit` and `wait` end
//! it and tell its parent. A process that executes a set-id program hands over to a fresh environment
//! (`setuid_handover`), which continues as the same process (`setuid_resume`) from the state it was left
//! (`unix_core::process::exec_state`). All state is here, found through a pointer in the environment area.

pub mod change_user;
mod child_space;
pub mod child_start;
pub mod children;
pub mod cpu_placement;
pub mod cpu_time;
pub mod environment;
pub mod exec;
mod exec_file;
mod exec_template;
pub mod exit;
mod exit_handoff;
mod exported_pages;
pub mod fork;
pub mod fork_locks;
pub mod futex;
pub mod interpose;
pub mod oom;
pub mod priority;
mod process_record;
pub mod reclaim;

pub mod revocation;
mod setuid_handover;
mod setuid_resume;
pub mod spare_environment;
pub mod spawn_cache;
pub mod subreaper;
pub mod thread;
pub mod thread_create;
pub mod vfork_deferred;
pub mod vfork_sharing;
pub mod wait;
mod zombie;

pub use process_record::*;
