//! What the server does for processes and their programs: executed files, set-id successors, requests, precedence.

pub(super) mod exec_files;
pub(super) mod priority_table;
pub(super) mod process_requests;
pub mod setuid_exec;
