//! The Linux calls: one function each, reached through a table that a native program can replace (DESIGN.md §5).
//!
//! A call gets the program's registers and gives a number or an error. Calls that are not in the table give `ENOSYS` and
//! are counted.

#[cfg(target_os = "none")]
mod attributes;
#[cfg(target_os = "none")]
mod capability;
#[cfg(target_os = "none")]
mod compare;
#[cfg(target_os = "none")]
mod control;
#[cfg(target_os = "none")]
mod cut;
#[cfg(target_os = "none")]
mod descriptor;
#[cfg(target_os = "none")]
mod dispatch;
#[cfg(target_os = "none")]
mod event;
#[cfg(target_os = "none")]
mod extended_attribute;
#[cfg(target_os = "none")]
mod extra;
#[cfg(target_os = "none")]
mod file;
#[cfg(target_os = "none")]
mod foreign_memory;
#[cfg(target_os = "none")]
mod futex;
#[cfg(target_os = "none")]
mod identity;
#[cfg(target_os = "none")]
mod ipc;
pub mod layout;
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
mod message;
#[cfg(target_os = "none")]
mod mount;
#[cfg(target_os = "none")]
mod open_within;
#[cfg(target_os = "none")]
mod owner;
#[cfg(target_os = "none")]
mod path;
#[cfg(target_os = "none")]
mod poll;
#[cfg(target_os = "none")]
pub(crate) mod preloaded;
#[cfg(target_os = "none")]
mod process;
#[cfg(target_os = "none")]
mod process_descriptor;
#[cfg(target_os = "none")]
mod queue;
#[cfg(target_os = "none")]
mod refused;
#[cfg(target_os = "none")]
mod schedule;
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
mod table;
#[cfg(target_os = "none")]
mod time;
#[cfg(target_os = "none")]
mod timer;
#[cfg(target_os = "none")]
mod unborn;
#[cfg(target_os = "none")]
pub(crate) mod walk;
#[cfg(target_os = "none")]
mod watch;

#[cfg(target_os = "none")]
pub(crate) use compare::answer_description;
#[cfg(target_os = "none")]
pub(crate) use cut::answer_cut;
#[cfg(target_os = "none")]
pub use dispatch::*;
#[cfg(target_os = "none")]
pub(crate) use foreign_memory::answer_memory;
#[cfg(target_os = "none")]
pub(crate) use ipc::limit as ipc_limit;
#[cfg(target_os = "none")]
pub(crate) use limit::{answer_limit, file_room};
#[cfg(target_os = "none")]
pub(crate) use path::{open_absolute, open_node, status_of};
#[cfg(target_os = "none")]
pub(crate) use poll::state as poll_state;
#[cfg(target_os = "none")]
pub(crate) use process_descriptor::answer_copy;
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
pub(crate) use unborn::UNBORN;
