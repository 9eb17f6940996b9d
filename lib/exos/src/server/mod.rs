//! The server of the memory file system: an ordinary, unprivileged environment that keeps what strangers rely on
//! (DESIGN.md §5, home c; xok-exos-sosp97 §3.3). Processes reach it by protected control transfer.
//!
//! `protocol` is what travels, `handle` is what a client holds, `server` runs in the server with `names`, which is about
//! making, naming and removing files, `short_write`, about small writes, `sharing`, about locks, FIFOs and files without names, `terminals`, which is about pseudo-terminals, and `ipc`, which is about System V
//! objects and POSIX queues; `mounts` is about mounts. `keys` gives processes the keys of their users, `audience` opens pages to whom they are told of, `users` says who may
//! become whom and send signals to whom, `set_id` what becomes of who executes a set-id program, `programs` is about files that run, `questions` hands on what
//! processes ask each other, `vouching` who connects and sends to whom, `futexes` who waits for words of shared memory, `precedence` who goes before others on a CPU. `allowance` is what it may have of the memory. `client` runs in each process;
//! `idle` is what a client keeps that it closed.

pub mod condemned;
pub mod handle;
pub mod handle_cache;
pub mod priority_table;
pub mod protocol;

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
