//! A Linux process: one environment, its memory, its descriptors, its relatives.
//!
//! `create` makes the environment, `fork` copies a process, `exec` changes its program, `exit` and `wait` end it and
//! tell its parent. A process that executes a set-id program hands over to a fresh environment (`setuid_handover`),
//! which continues as the same process (`setuid_resume`) from the state it was left (`exec_state`). All state is here,
//! found through a pointer in the environment area.

pub use unix_core::process::{
    capabilities, credentials, exec_state, exit_status, fs_context, nice_share, prctl_state, remote_request, rlimits,
    rusage, ucred,
};

#[cfg(target_os = "none")]
pub mod change_user;
#[cfg(target_os = "none")]
pub mod child_start;
#[cfg(target_os = "none")]
pub mod children;
#[cfg(target_os = "none")]
pub mod cpu_placement;
#[cfg(target_os = "none")]
pub mod cpu_time;
#[cfg(target_os = "none")]
pub mod environment;
#[cfg(target_os = "none")]
pub mod exec;
#[cfg(target_os = "none")]
mod exec_file;
#[cfg(target_os = "none")]
mod exec_template;
#[cfg(target_os = "none")]
pub mod exit;
#[cfg(target_os = "none")]
mod exit_handoff;
#[cfg(target_os = "none")]
mod exported_pages;
#[cfg(target_os = "none")]
pub mod fork;
#[cfg(target_os = "none")]
pub mod fork_locks;
#[cfg(target_os = "none")]
pub mod futex;
#[cfg(target_os = "none")]
#[cfg(target_os = "none")]
pub mod interpose;
#[cfg(target_os = "none")]
pub mod oom;
#[cfg(target_os = "none")]
#[cfg(target_os = "none")]
pub mod priority;
#[cfg(target_os = "none")]
mod process_record;
#[cfg(target_os = "none")]
pub mod reclaim;
#[cfg(target_os = "none")]
mod retained_space;
#[cfg(target_os = "none")]
pub mod revocation;
#[cfg(target_os = "none")]
mod setuid_handover;
#[cfg(target_os = "none")]
mod setuid_resume;
#[cfg(target_os = "none")]
pub mod spare_environment;
#[cfg(target_os = "none")]
pub mod spawn_cache;
#[cfg(target_os = "none")]
pub mod subreaper;
pub use vfs::supplementary_groups;
#[cfg(target_os = "none")]
pub mod thread;
#[cfg(target_os = "none")]
pub mod thread_create;
#[cfg(target_os = "none")]
pub mod vfork_deferred;
#[cfg(target_os = "none")]
pub mod vfork_sharing;
#[cfg(target_os = "none")]
pub mod wait;
#[cfg(target_os = "none")]
mod zombie;

#[cfg(target_os = "none")]
pub use process_record::*;
