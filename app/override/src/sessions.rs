//! Sessions of ExOS out of the boot archive, each an environment of its own with its part of the machine.

use abi::budget::Resource;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use runtime::archive::{self, Archive, Entry};
use runtime::environment::{Builder, Child};
use runtime::image::Image;
use runtime::page::Allocator;
use runtime::{area, clock, exposed};

/// Where the boot archive keeps sessions, each a boot archive of its own.
const SESSIONS: &str = "session/";
/// How long a session may take, in nanoseconds.
const LIMIT: u64 = 200_000_000_000;

/// A session that was made, and its name.
pub(crate) type Session = (&'static str, Child);

/// All sessions, made and not begun.
pub(crate) fn make_all() -> Result<Vec<Session>, String> {
    let found: Vec<Entry<'static>> = archive::boot().filter(|entry| entry.name.starts_with(SESSIONS)).collect();
    let share = found.len() as u64 + 1;
    found.iter().map(|entry| Ok((&entry.name[SESSIONS.len()..], make(entry, share)?))).collect()
}

/// Waits for the end of a session that runs.
pub(crate) fn wait((name, session): &Session) -> Result<(), String> {
    if !session.wait(clock::now() + LIMIT) || session.status() != Some(0) {
        return Err(format!("{name} ended with status {:?}", session.status()));
    }
    Ok(())
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
