//! Other environments that use the network: children with a key to it, and what they say.

use crate::wire::KEY;
use abi::budget::Resource;
use abi::capability::{DEVICE, Rights};
use abi::device::kind;
use core::sync::atomic::Ordering::SeqCst;
use runtime::area::Area;
use runtime::environment::Child;
use runtime::{KeyIndex, key, time_slice};
use test_programs::child::{self, eventually};
use test_programs::{Outcome, World, check, granted};

/// A child's key to every interface.
pub(crate) const NETWORK: KeyIndex = KeyIndex(5);
/// A child's key to what its creator gives it a right to.
pub(crate) const GIVEN: KeyIndex = KeyIndex(6);
/// Filters that a child may have.
pub(crate) const FILTERS: u64 = 16;
/// Status words of a child: 1 for done, else 2 and the line; a number for its creator.
const SAID: usize = 20;
const LINE: usize = 21;
pub(crate) const NUMBER: usize = 22;

/// A child that holds a key to all interfaces, where it is said so, and a key `given`.
pub(crate) fn user(
    world: &World,
    function: extern "C" fn(u64),
    argument: u64,
    keys: (bool, Option<KeyIndex>),
) -> Result<Child, alloc::string::String> {
    let mut builder = child::prepare(world, function, argument)?;
    builder.budget(Resource::Filter, FILTERS);
    let child = granted!(builder.create());
    let (network, given) = keys;
    if network {
        let devices = granted!(key::derive(KEY, Rights::ALL, DEVICE));
        let interfaces = granted!(key::derive(devices, Rights::ALL, kind::NETWORK));
        granted!(child.grant(interfaces, Rights::ALL, NETWORK));
        granted!(key::discard(interfaces));
        granted!(key::discard(devices));
    }
    if let Some(given) = given {
        granted!(child.grant(given, Rights::ALL, GIVEN));
    }
    granted!(child.run(0, time_slice::ANY_POSITION));
    Ok(child)
}

/// In the child: how it came out. It stays.
pub(crate) fn say(outcome: Outcome) -> ! {
    let line = outcome.as_ref().err().and_then(|text| text.strip_prefix("line ")?.split(':').next()?.parse().ok());
    Area::current().status(LINE).store(line.unwrap_or(0), SeqCst);
    Area::current().status(SAID).store(if outcome.is_ok() { 1 } else { 2 }, SeqCst);
    loop {
        time_slice::yield_now();
    }
}

/// In the child: a number for its creator.
pub(crate) fn show(number: u64) {
    Area::current().status(NUMBER).store(number, SeqCst);
}

/// Waits until a child has said how it came out.
pub(crate) fn said(child: &Child) -> Outcome {
    check!(eventually(|| child::status(child, SAID) != 0 || !child.alive()), "the child says nothing");
    check!(child.alive(), "the child died");
    check!(child::status(child, SAID) == 1, "the child failed in line {}", child::status(child, LINE));
    Ok(())
}

/// Waits for a number that a child shows.
pub(crate) fn shown(child: &Child) -> Result<u64, alloc::string::String> {
    check!(
        eventually(|| child::status(child, NUMBER) != 0 || child::status(child, SAID) == 2),
        "the child shows nothing"
    );
    let number = child::status(child, NUMBER);
    check!(number != 0, "the child failed in line {}", child::status(child, LINE));
    Ok(number)
}
