//! On which CPUs a thread runs: its slice lies on one of those that it may run on (sched_setaffinity(2)).
//!
//! Who gives the rest of a slice to it lends it his CPU for that while, whichever it is.

use super::create::load;
use crate::errno::Result;
use crate::user_memory::current::{is_adopted, process, thread};
use crate::{block, budget};
use abi::budget::Resource;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use runtime::time_slice::{self, Position};
use runtime::{EnvironmentId, KeyIndex, area, exposed};

const _: () = assert!(abi::limits::CPUS < u32::BITS as usize);

/// The CPUs of the machine, as bits.
pub fn machine() -> u64 {
    (1 << exposed::kernel().cpus.load(Relaxed)) - 1
}

/// The CPUs that the running thread may run on, and those that it makes; all for the session.
pub fn own() -> u64 {
    if !is_adopted() {
        return u64::MAX;
    }
    let thread = thread();
    match thread.number() == process().environment() {
        true => process().attributes.lock().cpus,
        false => thread.cpus.load(Relaxed).into(),
    }
}

/// The one of some CPUs that has the least to do.
pub fn least_busy(cpus: u64) -> u64 {
    let all = 0..exposed::kernel().cpus.load(Relaxed);
    all.filter(|cpu| cpus >> cpu & 1 != 0).min_by_key(|cpu| load(*cpu)).unwrap_or(0)
}

/// Moves a thread of this process to these CPUs, if it is on others.
pub fn keep_on(number: EnvironmentId, cpus: u64) -> Result<()> {
    let positions: Vec<Position> = positions_of(number).collect();
    let may_stay = |position: &&Position| cpus >> position.cpu & 1 != 0;
    if !positions.iter().any(|position| may_stay(&position)) {
        if budget::spare_of(number, Resource::Slice) == 0 {
            budget::draw_for(number, Resource::Slice, 1)?;
        }
        time_slice::allocate(KeyIndex::FIRST, number, least_busy(cpus), time_slice::ANY_POSITION)?;
    }
    for Position { cpu, at } in positions.iter().filter(|position| !may_stay(position)) {
        time_slice::free(KeyIndex::FIRST, *cpu, *at)?;
    }
    // Who has just woken it may have found it where it was.
    block::kick_idle();
    if number == area::number() {
        come_to(cpus);
    }
    Ok(())
}

/// Goes on where its slice lies, unless it is lent others over and over.
fn come_to(cpus: u64) {
    const TIMES: usize = 100;
    for _ in 0..TIMES {
        if cpus >> area::cpu() & 1 != 0 {
            return;
        }
        time_slice::yield_now();
    }
}

fn positions_of(number: EnvironmentId) -> impl Iterator<Item = Position> {
    let on = |cpu: u64| (0..exposed::slices(cpu).len() as u64).map(move |at| Position { cpu, at });
    (0..exposed::kernel().cpus.load(Relaxed)).flat_map(on).filter(move |position| position.owner() == number)
}
