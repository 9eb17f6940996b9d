//! The guardian of the memory file system: an ordinary, unprivileged environment that keeps what strangers rely on
//! (DESIGN.md §5, home c; xok-exos-sosp97 §3.3). Processes reach it by protected control transfer.
//!
//! `protocol` is what travels, `handle` is what a client holds, `server` runs in the guardian with `names`, which is about
//! making, naming and removing files, `short_write`, about small writes, `sharing`, about locks, FIFOs and files without names, `terminals`, which is about pseudo-terminals, and `ipc`, which is about System V
//! objects and POSIX queues; `mounts` is about mounts. `keys` gives processes the keys of their users, `audience` opens pages to whom they are told of, `users` says who may
//! become whom and send signals to whom, `set_id` what becomes of who executes a set-id program, `programs` is about files that run, `questions` hands on what
//! processes ask each other, `vouching` who connects and sends to whom, `futexes` who waits for words of shared memory, `precedence` who goes before others on a CPU. `allowance` is what it may have of the memory. `client` runs in each process;
//! `idle` is what a client keeps that it closed, `newborn` are those whom it has made.

pub mod condemned;
pub mod handle;
pub mod idle;
pub mod newborn;
pub mod precedence;
pub mod protocol;

#[cfg(target_os = "none")]
pub mod allowance;
#[cfg(target_os = "none")]
mod audience;
#[cfg(target_os = "none")]
pub mod bequests;
#[cfg(target_os = "none")]
pub mod client;
#[cfg(target_os = "none")]
mod file_pages;
#[cfg(target_os = "none")]
mod futexes;
#[cfg(target_os = "none")]
pub mod ipc;
#[cfg(target_os = "none")]
pub mod keys;
#[cfg(target_os = "none")]
mod left_behind;
#[cfg(target_os = "none")]
mod library_tables;
#[cfg(target_os = "none")]
mod mounts;
#[cfg(target_os = "none")]
mod named_socket;
#[cfg(target_os = "none")]
mod names;
#[cfg(target_os = "none")]
mod programs;
#[cfg(target_os = "none")]
mod questions;
#[cfg(target_os = "none")]
pub mod server;
#[cfg(target_os = "none")]
pub mod service;
#[cfg(target_os = "none")]
pub mod set_id;
#[cfg(target_os = "none")]
mod sharing;
#[cfg(target_os = "none")]
mod short_write;
#[cfg(target_os = "none")]
mod terminals;
#[cfg(target_os = "none")]
mod users;
#[cfg(target_os = "none")]
pub mod vouching;
