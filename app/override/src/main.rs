//! Sessions of ExOS whose libraries differ: each runs the same unmodified Linux programs on an image of its own, and they
//! stand in the machine beside each other (DESIGN.md §5: every table of operations can be replaced by who links it).
//!
//! All sessions are made before the first one runs; then they run one after the other, so that their output has an order.

#![no_std]
#![no_main]
#![forbid(unsafe_code)]

extern crate alloc;

use abi::budget::Resource;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use runtime::archive::{self, Archive, Entry};
use runtime::environment::{Builder, Child};
use runtime::image::Image;
use runtime::page::Allocator;
use runtime::{area, clock, entry, exposed, println, time_slice};

entry!(main);

/// Where the boot archive keeps sessions, each a boot archive of its own.
const SESSIONS: &str = "session/";
/// How long a session may take, in nanoseconds.
const LIMIT: u64 = 100_000_000_000;

fn main() -> u32 {
    entry::status_of(run())
}

fn run() -> Result<(), String> {
    let found: Vec<Entry<'static>> = archive::boot().filter(|entry| entry.name.starts_with(SESSIONS)).collect();
    let share = found.len() as u64 + 1;
    let sessions = found.iter().map(|entry| make(entry, share)).collect::<Result<Vec<_>, _>>()?;
    for (session, entry) in sessions.iter().zip(&found) {
        println!("{}:", &entry.name[SESSIONS.len()..]);
        session.run(0, time_slice::ANY_POSITION).map_err(|why| format!("{}: {why:?}", entry.name))?;
        if !session.wait(clock::now() + LIMIT) || session.status() != Some(0) {
            return Err(format!("{} ended with status {:?}", entry.name, session.status()));
        }
    }
    sessions.into_iter().try_for_each(Child::destroy).map_err(|why| format!("{why:?}"))
}

/// An environment that will run the session in this file of the archive, with one part in so many of all that there is.
fn make(entry: &Entry<'static>, parts: u64) -> Result<Child, String> {
    let image = Image::init_of(Archive::new(entry.data), Allocator::own());
    let image = image.map_err(|error| format!("{}: {error}", entry.name))?;
    let child = || {
        let mut builder = Builder::new()?;
        builder.program(&image)?.archive(entry.data)?;
        for resource in Resource::ALL {
            builder.budget(resource, limit(resource) / parts);
        }
        builder.create()
    };
    child().map_err(|why| format!("{}: {why:?}", entry.name))
}

/// What the machine has of a resource.
fn limit(resource: Resource) -> u64 {
    exposed::environment(area::number()).map_or(0, |info| info.budget[resource as usize].limit.load(Relaxed))
}
