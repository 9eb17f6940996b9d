//! The server of the memory file system: an ordinary, unprivileged environment that keeps what strangers rely on
//! (DESIGN.md §5, home c; xok-exos-sosp97 §3.3). Processes reach it by protected control transfer.
//!
//! `protocol` is what travels, `handle` is what a client holds, `client` runs in each process, `handle_cache` keeps
//! what a client closed. In the server:
//! - Requests: `dispatch`; `name_ops` makes, names and removes files; `fast_write` serves small writes; `mount_ops`
//!   changes mounts.
//! - Sharing: `sharing` has locks, FIFOs and files without names, `pty` pseudo-terminals, `sysv_ipc` System V objects
//!   and POSIX queues, `shared_futex` waiters for words of shared memory.
//! - Rights: `principals` gives processes the keys of their users. `page_acl` opens pages to clients that are told of
//!   them. `credentials` decides what each client may become and which processes it may signal.
//! - Programs: `exec_files` serves executed files, `setuid_exec` successors of processes that execute set-id programs.
//! - Between processes: `process_requests` passes on what they ask each other, `identity_tokens` vouches for peers and
//!   senders, `priority_table` says which run before others on a CPU.
//! - Memory: `page_quota` bounds the server's pages.

pub use unix_core::server::{condemned, handle_cache, protocol};
pub use vfs::handle;
#[cfg(target_os = "none")]
pub mod priority_table;

#[cfg(target_os = "none")]
pub mod client;
#[cfg(target_os = "none")]
mod credentials;
#[cfg(target_os = "none")]
pub mod dispatch;
#[cfg(target_os = "none")]
mod exec_files;
#[cfg(target_os = "none")]
mod fast_write;
#[cfg(target_os = "none")]
mod file_mapping;
#[cfg(target_os = "none")]
pub mod identity_tokens;
#[cfg(target_os = "none")]
mod internet_datagrams;
#[cfg(target_os = "none")]
mod internet_sockets;
#[cfg(target_os = "none")]
pub mod main_loop;
#[cfg(target_os = "none")]
mod mount_ops;
#[cfg(target_os = "none")]
mod name_ops;
#[cfg(target_os = "none")]
pub mod orphaned_pages;
#[cfg(target_os = "none")]
mod page_acl;
#[cfg(target_os = "none")]
pub mod page_quota;
#[cfg(target_os = "none")]
pub mod principals;
#[cfg(target_os = "none")]
mod process_requests;
#[cfg(target_os = "none")]
mod pty;
#[cfg(target_os = "none")]
pub mod setuid_exec;
#[cfg(target_os = "none")]
mod shared_futex;
#[cfg(target_os = "none")]
#[cfg(target_os = "none")]
mod sharing;
#[cfg(target_os = "none")]
mod socket_names;
#[cfg(target_os = "none")]
pub mod sysv_ipc;
#[cfg(target_os = "none")]
mod unaccepted;
#[cfg(target_os = "none")]
pub(crate) mod wire_sockets;
