//! The Linux calls: one function each, reached through a table that a native program can replace (DESIGN.md §5).
//!
//! A call gets the program's registers and gives a number or an error. Calls that are not in the table give `ENOSYS`
//! and are counted.

mod address_space;
mod deferred_vfork;
mod dispatch;
mod eperm;
mod events;
mod files;
mod interposed;
mod processes;
mod seccomp;
mod shared_objects;
mod sockets;
mod table;

pub(crate) use deferred_vfork::UNBORN;
pub use dispatch::*;
pub use table::OPERATIONS;
