//! The session: what the machine was started for, from the boot archive to the final record.
//!
//! `cpio`, `stored_gzip` and `command` read what the host sent, `boot` makes the server and the first process. `event_loop`
//! feeds its standard input or its terminal (`console_tty`), passes signals on and waits for its end. `loadavg`
//! averages how much there is to do, `setuid_spawner` makes successor environments for set-id programs, and `pid_map`
//! publishes them. `reaper` takes care of orphans, `enforcer` of processes that ignore SIGKILL.

pub mod boot;
mod console_tty;
pub mod cost;
mod disks;
mod enforcer;
pub mod event_loop;
mod reaper;
mod robust_locks;
mod setuid_spawner;

/// The first word of the ExOS image.
pub const IMAGE_MAGIC: u64 = 0x0053_4f78_4e69_7443;
