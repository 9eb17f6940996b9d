//! The program of a session's environment: runs one session. As the first environment it stops the machine in the end.

#![no_std]
#![no_main]
#![forbid(unsafe_code)]

use exos::init::{boot, cost, event_loop};
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
