//! The session: what the machine was started for, from the boot archive to the final record.
//!
//! `boot` makes the server and the first process from what the host sent. `event_loop` feeds standard input or the
//! terminal (`console_tty`), passes signals on and waits for the end. `disks` opens and closes what `/disk` keeps.
//! `setuid_spawner` makes successor environments for set-id programs. `reaper` takes care of orphans, `enforcer` of
//! processes that ignore SIGKILL and of those that lost a thread to the kernel (`maimed`), with `robust_locks` for the
//! mutexes that those held. `wire_watch` makes another keeper of the wire where one has died. `cost` tells what the
//! run cost.
//!
//! The pure part is `unix_core::session`: the command, what processes are told, load averages, the map of numbers.
//! As the first environment it stops the machine in the end.

#![no_std]
#![no_main]
#![forbid(unsafe_code)]

extern crate alloc;

mod boot;
mod console_tty;
mod cost;
mod disks;
mod enforcer;
mod event_loop;
mod maimed;
mod reaper;
mod robust_locks;
mod setuid_spawner;
mod wire_watch;

use runtime::{Kind, archive, channel, entry};
use unix_core::process::exit_status::Status;

runtime::entry!(main);

fn main() -> u32 {
    let session = match boot::start(archive::boot_bytes()) {
        Ok(session) => session,
        Err(error) => {
            runtime::error_line!("chitin: {error}");
            return entry::START_FAILURE_STATUS;
        }
    };
    if !session.wait_for_disks() {
        return entry::START_FAILURE_STATUS;
    }
    if let Err(error) = session.first.run(session.key) {
        runtime::error_line!("chitin: the first process gets no time slice: error {}", error.number());
        return entry::START_FAILURE_STATUS;
    }
    let status = event_loop::run(&session);
    let is_kept = session.end_disks();
    cost::report(&session);
    if !is_kept {
        runtime::error_line!("chitin: not everything on /disk could be written");
    }
    match status {
        Status::Exited(code) => u32::from(code),
        Status::Killed(signal) => {
            channel::send(Kind::Killed, &signal.to_le_bytes());
            entry::stop_machine();
            entry::FAULT_STATUS
        }
    }
}
