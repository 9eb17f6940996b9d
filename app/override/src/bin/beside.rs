//! Sessions of ExOS that run at the same time: what one of them does to itself the others do not notice.

#![no_std]
#![no_main]
#![forbid(unsafe_code)]

extern crate alloc;

#[path = "../sessions.rs"]
mod sessions;

use alloc::format;
use alloc::string::String;
use runtime::{entry, time_slice};

entry!(main);

fn main() -> u32 {
    entry::status_of(run())
}

fn run() -> Result<(), String> {
    let sessions = sessions::make_all()?;
    for (name, session) in &sessions {
        session.run(0, time_slice::ANY_POSITION).map_err(|why| format!("{name}: {why:?}"))?;
    }
    sessions.iter().try_for_each(sessions::wait)?;
    sessions.into_iter().try_for_each(|(_, session)| session.destroy()).map_err(|why| format!("{why:?}"))
}
