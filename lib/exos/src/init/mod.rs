//! The session: what the machine was started for, from the boot archive to the final record.
//!
//! `boot` makes the server and the first process from what the host sent. `event_loop` feeds standard input or the
//! terminal (`console_tty`), passes signals on and waits for the end. `disks` opens and closes what `/disk` keeps.
//! `setuid_spawner` makes successor environments for set-id programs. `reaper` takes care of orphans, `enforcer` of
//! processes that ignore SIGKILL and of those that lost a thread to the kernel (`maimed`), with `robust_locks` for the
//! mutexes that those held. `cost` tells what the run cost.
//!
//! The pure part is `unix_core::session`: the command, what processes are told, load averages, the map of numbers.

pub mod boot;
mod console_tty;
pub mod cost;
mod disks;
mod enforcer;
pub mod event_loop;
mod maimed;
mod reaper;
mod robust_locks;
mod setuid_spawner;
