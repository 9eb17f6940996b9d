//! The Linux calls: one function each, reached through a table that a native program can replace (DESIGN.md §5).
//!
//! A call gets the program's registers and gives a number or an error. Calls that are not in the table give `ENOSYS`
//! and are counted.

mod attributes;
mod capability;
mod deferred_vfork;
mod descriptor;
mod dispatch;
mod eperm;
mod event_fds;
mod extended_attribute;
mod fallocate;
mod fcntl_owner;
mod file;
mod futex;
mod identity;
mod inotify;
mod internet;
mod internet_message;
mod internet_option;
mod interposed;
mod ipc;
mod kcmp;
mod limit;
mod lock;
mod memory;
mod memory_advice;
mod memory_lock;
mod mount;
mod mqueue;
mod openat2;
mod path;
mod pidfd;
mod poll;
mod prctl;
mod process;
mod process_vm;
mod schedule;
mod seccomp;
mod semaphore;
mod shared_memory;
mod signal;
mod socket;
mod socket_message;
mod socket_option;
mod splice;
mod system;
mod sysv_msg;
mod table;
mod time;
mod timer;

pub(crate) use deferred_vfork::UNBORN;
pub use dispatch::*;
pub use table::OPERATIONS;
