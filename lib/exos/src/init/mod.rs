//! The session: what the machine was started for, from the boot archive to the final record.
//!
//! `cpio`, `stored_gzip` and `command` read what the host sent, `boot` makes the server and the first process. `event_loop`
//! feeds its standard input or its terminal (`console_tty`), passes signals on and waits for its end. `loadavg`
//! averages how much there is to do, `setuid_spawner` makes successor environments for set-id programs, and `pid_map`
//! publishes them. `reaper` takes care of orphans, `enforcer` of processes that ignore SIGKILL.

pub use unix_core::session::{command, first_process, loadavg, pid_map, status_page, stored_gzip};

#[cfg(target_os = "none")]
pub mod boot;
#[cfg(target_os = "none")]
mod console_tty;
#[cfg(target_os = "none")]
pub mod cost;
pub use vfs::cpio;
#[cfg(target_os = "none")]
mod disks;
#[cfg(target_os = "none")]
mod enforcer;
#[cfg(target_os = "none")]
pub mod event_loop;
#[cfg(target_os = "none")]
mod reaper;
#[cfg(target_os = "none")]
mod robust_locks;
#[cfg(target_os = "none")]
mod setuid_spawner;

/// The first word of the ExOS image.
pub const IMAGE_MAGIC: u64 = 0x0053_4f78_4e69_7443;
