//! What a process is to others and to itself.
//!
//! - Who it is: `credentials`, `capabilities`, `ucred`.
//! - What it may use: `rlimits`, `nice_share`, `priority_table`, `prctl_state`. What it has used: `rusage`.
//! - How it ended: `exit_status`. What lives through `execve`: `exec_state`, `fs_context`.
//! - What others read of it: `public_page`. What others ask of it: `remote_request`. What its threads obey:
//!   `run_state`.

pub mod capabilities;
pub mod credentials;
pub mod exec_state;
pub mod exit_status;
pub mod fs_context;
pub mod nice_share;
pub mod prctl_state;
pub mod priority_table;
pub mod public_page;
pub mod remote_request;
pub mod rlimits;
pub mod run_state;
pub mod rusage;
pub mod ucred;
