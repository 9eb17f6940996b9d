//! An image of ExOS in which every process has its own file offsets.
//!
//! On Unix a parent and its children share the offset of what they inherited, for which ExOS keeps it in a page that
//! all of them map. Here it lies in the process: a child begins where its parent was, and from then on no process
//! moves another's offset. What else ExOS does is as always.

#![no_std]
#![no_main]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::collections::BTreeMap;
use exos::descriptor::open_file::{Offsets, OpenFile};
use exos::override_tables::OverrideTables;
use exos::process::current::process;

exos::image!(OverrideTables::EXOS.with_offsets(OWN_OFFSETS));

const OWN_OFFSETS: Offsets = Offsets {
    opened: |description| set(description, 0),
    get: |description| with(|own| own.0.get(&description.number()).copied()).unwrap_or(0),
    set,
};

/// Offsets of this process, by the number of the open description.
#[derive(Default)]
struct Own(BTreeMap<u64, u64>);

fn set(description: &OpenFile, offset: u64) {
    with(|own| own.0.insert(description.number(), offset));
}

fn with<T>(action: impl FnOnce(&mut Own) -> T) -> T {
    process().with_extension(action)
}
