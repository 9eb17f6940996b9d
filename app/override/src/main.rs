//! Sessions of ExOS whose libraries differ: each runs the same unmodified Linux programs on an image of its own, in
//! one machine. A program that links ExOS can replace every table of operations (DESIGN.md §5).
//!
//! All sessions are made before the first one runs; then they run one after the other, so that their output has an
//! order.

#![no_std]
#![no_main]
#![forbid(unsafe_code)]

extern crate alloc;

mod sessions;

use alloc::format;
use alloc::string::String;
use runtime::{entry, println, time_slice};

entry!(main);

fn main() -> u32 {
    entry::status_of(run())
}

fn run() -> Result<(), String> {
    let sessions = sessions::make_all()?;
    for session in &sessions {
        println!("{}:", session.0);
        session.1.run(0, time_slice::ANY_POSITION).map_err(|why| format!("{}: {why:?}", session.0))?;
        sessions::wait(session)?;
    }
    sessions.into_iter().try_for_each(|(_, session)| session.destroy()).map_err(|why| format!("{why:?}"))
}
