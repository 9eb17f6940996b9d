//! The server of the memory file system: an ordinary, unprivileged environment that keeps what strangers rely on
//! (DESIGN.md §5, home c; xok-exos-sosp97 §3.3). Processes reach it by protected control transfer.
//!
//! `unix_core::server::protocol` is what travels, `vfs::handle` is what a client holds, `client` runs in each process.
//! In the server:
//! - Requests: `dispatch`; `name_ops` makes, names and removes files; `fast_write` serves small writes; `mount_ops`
//!   changes mounts.
//! - Sharing: `sharing` has locks, FIFOs and files without names, `pty` pseudo-terminals, `sysv_ipc` System V objects
//!   and POSIX queues, `shared_futex` waiters for words of shared memory.
//! - The machine: `machine` has its names and its clock.
//! - Rights: `principals` gives processes the keys of their users. `page_acl` opens pages to clients that are told of
//!   them. `credentials` decides what each client may become and which processes it may signal, `thread_credentials`
//!   has what single threads became.
//! - Programs: `exec_files` serves executed files, `setuid_exec` successors of processes that execute set-id programs.
//! - Between processes: `process_requests` passes on what they ask each other, `identity_tokens` vouches for peers and
//!   senders, `priority_table` says which run before others on a CPU.
//! - Memory: `hw::page_quota` bounds the server's pages.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod credentials;
pub mod disk;
pub mod dispatch;
mod fast_write;
pub mod identity_tokens;
mod machine;
pub mod main_loop;
mod mount_ops;
mod name_ops;
pub mod pages;
pub mod principals;
pub mod programs;
mod pty;
mod shared_futex;
mod sharing;
mod sockets;
pub mod sysv_ipc;
mod thread_credentials;
pub mod wire;
