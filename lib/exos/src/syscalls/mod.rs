//! The Linux calls: one function each, reached through a table that a native program can replace (DESIGN.md §5).
//!
//! A call gets the program's registers and gives a number or an error. Calls that are not in the table give `ENOSYS`
//! and are counted.

pub use unix_core::{trace_format, trace_values, uapi};

#[cfg(target_os = "none")]
mod attributes;
#[cfg(target_os = "none")]
mod capability;
#[cfg(target_os = "none")]
mod deferred_vfork;
#[cfg(target_os = "none")]
mod descriptor;
#[cfg(target_os = "none")]
mod device_request;
#[cfg(target_os = "none")]
mod dispatch;
#[cfg(target_os = "none")]
mod eperm;
#[cfg(target_os = "none")]
mod event_fds;
#[cfg(target_os = "none")]
mod extended_attribute;
#[cfg(target_os = "none")]
mod fallocate;
#[cfg(target_os = "none")]
mod fcntl_owner;
#[cfg(target_os = "none")]
mod file;
#[cfg(target_os = "none")]
mod futex;
#[cfg(target_os = "none")]
mod identity;
#[cfg(target_os = "none")]
mod inotify;
#[cfg(target_os = "none")]
mod internet;
#[cfg(target_os = "none")]
mod internet_message;
#[cfg(target_os = "none")]
mod internet_option;
#[cfg(target_os = "none")]
pub(crate) mod interposed;
#[cfg(target_os = "none")]
mod ipc;
#[cfg(target_os = "none")]
mod kcmp;
#[cfg(target_os = "none")]
mod limit;
#[cfg(target_os = "none")]
mod lock;
#[cfg(target_os = "none")]
mod memory;
#[cfg(target_os = "none")]
mod memory_advice;
#[cfg(target_os = "none")]
mod memory_lock;
#[cfg(target_os = "none")]
mod mount;
#[cfg(target_os = "none")]
mod mqueue;
#[cfg(target_os = "none")]
mod openat2;
#[cfg(target_os = "none")]
mod path;
#[cfg(target_os = "none")]
mod pidfd;
#[cfg(target_os = "none")]
mod poll;
#[cfg(target_os = "none")]
mod prctl;
#[cfg(target_os = "none")]
pub(crate) mod proc_links;
#[cfg(target_os = "none")]
mod process;
#[cfg(target_os = "none")]
mod process_vm;
#[cfg(target_os = "none")]
mod schedule;
#[cfg(target_os = "none")]
mod seccomp;
#[cfg(target_os = "none")]
mod semaphore;
#[cfg(target_os = "none")]
mod shared_memory;
#[cfg(target_os = "none")]
mod signal;
#[cfg(target_os = "none")]
mod socket;
#[cfg(target_os = "none")]
mod socket_message;
#[cfg(target_os = "none")]
mod socket_option;
#[cfg(target_os = "none")]
mod splice;
#[cfg(target_os = "none")]
mod system;
#[cfg(target_os = "none")]
mod sysv_msg;
#[cfg(target_os = "none")]
mod table;
#[cfg(target_os = "none")]
mod time;
#[cfg(target_os = "none")]
mod timer;
#[cfg(target_os = "none")]
mod truncate_notify;

#[cfg(target_os = "none")]
pub(crate) use deferred_vfork::UNBORN;
#[cfg(target_os = "none")]
pub(crate) use device_request::device_request;
#[cfg(target_os = "none")]
pub use dispatch::*;
#[cfg(target_os = "none")]
pub(crate) use ipc::limit as ipc_limit;
#[cfg(target_os = "none")]
pub(crate) use kcmp::{answer_description, answer_status};
#[cfg(target_os = "none")]
pub(crate) use limit::{answer_limit, file_room};
#[cfg(target_os = "none")]
pub(crate) use path::{open_absolute, open_node, status_of};
#[cfg(target_os = "none")]
pub(crate) use pidfd::answer_copy;
#[cfg(target_os = "none")]
pub(crate) use poll::state as poll_state;
#[cfg(target_os = "none")]
pub(crate) use schedule::answer_schedule;
#[cfg(target_os = "none")]
pub(crate) use semaphore::undo_all;
#[cfg(target_os = "none")]
pub(crate) use shared_memory::detach_all;
#[cfg(target_os = "none")]
pub use table::OPERATIONS;
#[cfg(target_os = "none")]
pub(crate) use time::{own_time, ran, wall_clock};
#[cfg(target_os = "none")]
pub(crate) use truncate_notify::answer_cut;
