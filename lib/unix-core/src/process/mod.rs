//! What a process is to others and to itself: who it is (`credentials`, `capabilities`, `ucred`), what it may use
//! (`rlimits`, `nice_share`, `priority_table`, `prctl_state`), what it has used (`rusage`), how it ended (`exit_status`), what lives
//! through `execve` (`exec_state`, `fs_context`), and what others ask of it (`remote_request`).

pub mod capabilities;
pub mod credentials;
pub mod exec_state;
pub mod exit_status;
pub mod fs_context;
pub mod nice_share;
pub mod prctl_state;
pub mod priority_table;
pub mod remote_request;
pub mod rlimits;
pub mod rusage;
pub mod ucred;
