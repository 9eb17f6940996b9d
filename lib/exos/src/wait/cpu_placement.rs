//! On which CPUs a thread runs: its slice lies on one of those that it may run on (sched_setaffinity(2)).
//!
//! It begins where the fewest want to run. A thread that computes on a shared CPU moves where fewer share one: it
//! allocates a position on that CPU, and frees its own. Each thread decides that for its own slice alone.
//!
//! A thread that donates the rest of a slice to it lends it the donor's CPU for that while, whichever that is.
//!
//! Invariant: a thread has a position on some CPU, and loses one only while the process's attributes are locked. Which
//! one it loses is read under that lock, too: a position that was read before may be another thread's by now.

use crate::attributes::{attributes, thread_attributes};
use crate::hw::current::is_adopted;
use crate::hw::domain::domain;
use crate::hw::thread_context::thread_context;
use crate::{budget, process_table, wait};
use abi::budget::Resource;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use linux_abi::errno::Result;
use runtime::time_slice::{self, Position};
use runtime::{EnvironmentId, KeyIndex, area, clock, critical_section, entry, exposed};
use unix_core::process::prctl_state::Attributes;

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
    allowed(&attributes().prctl.lock())
}

/// The CPUs that the running thread may run on, in a process with these attributes.
fn allowed(attributes: &Attributes) -> u64 {
    match domain().is_first(thread_context()) {
        true => attributes.cpus,
        false => thread_attributes().cpus.load(Relaxed).into(),
    }
}

/// The one of some CPUs that has the least to do.
pub fn least_busy(cpus: u64) -> u64 {
    let all = 0..exposed::kernel().cpus.load(Relaxed);
    all.filter(|cpu| cpus >> cpu & 1 != 0).min_by_key(|cpu| load(*cpu)).unwrap_or(0)
}

/// Moves a thread of this process to these CPUs, if it is on others.
pub fn pin_to(number: EnvironmentId, cpus: u64) -> Result<()> {
    move_to(number, cpus)?;
    // The thread that has just woken it may have found it where it was.
    wait::kick_idle();
    if number == area::number() {
        come_to(cpus);
    }
    Ok(())
}

fn move_to(number: EnvironmentId, cpus: u64) -> Result<()> {
    let _moves = attributes().prctl.lock();
    let positions: Vec<Position> = positions_of(number).collect();
    let may_stay = |position: &&Position| cpus >> position.cpu & 1 != 0;
    if !positions.iter().any(|position| may_stay(&position)) {
        allocate(number, least_busy(cpus))?;
    }
    for Position { cpu, at } in positions.iter().filter(|position| !may_stay(position)) {
        time_slice::free(KeyIndex::FIRST, *cpu, *at)?;
    }
    Ok(())
}

/// One more position for a thread, on this CPU.
fn allocate(number: EnvironmentId, cpu: u64) -> Result<Position> {
    if budget::spare_of(number, Resource::Slice) == 0 {
        budget::draw_for(number, Resource::Slice, 1)?;
    }
    let at = time_slice::allocate(KeyIndex::FIRST, number, cpu, time_slice::ANY_POSITION)?;
    Ok(Position { cpu, at })
}

/// Gives the CPU to the others because the slice of the running thread, which computes, has ended. A slice that is over
/// before this is done ends here, and not in one more frame on the upcall stack. There may be many such slices where
/// the host has little time for a CPU.
pub fn yield_cpu() {
    let _section = critical_section::enter();
    loop {
        wait(time_slice::yield_now);
        if !critical_section::take_slice_end() {
            break;
        }
    }
    time_slice::make_up_for_excess();
}

/// Does what others have the CPU for. If they have it for a good while and still want it, while fewer want another one
/// that the running thread may run on, it goes there. A thread that only answers requests does not wait so long, and
/// stays on their CPU.
#[inline]
pub fn wait<T>(action: impl FnOnce() -> T) -> T {
    let kernel = exposed::kernel();
    if kernel.cpus.load(Relaxed) == 1 {
        return action();
    }
    let since = clock::now();
    let outcome = action();
    if clock::now().saturating_sub(since) >= kernel.quantum.load(Relaxed) / 2 {
        spread();
    }
    outcome
}

#[cold]
fn spread() {
    if let Some(there) = take_easier() {
        come_to(1 << there.cpu);
    }
}

/// Moves the running thread's position to a CPU that it may run on and that stays less loaded even with this thread, if
/// there is one.
///
/// The thread may have waited for the lock, and moved at the end of a slice meanwhile: its position is read after that.
/// The old one may be another thread's by then.
fn take_easier() -> Option<Position> {
    let attributes = attributes().prctl.lock();
    let (own, cpus, here) = (area::number(), exposed::kernel().cpus.load(Relaxed), time_slice::position());
    let before = load(here.cpu).0;
    // A thread that runs in a donated slice looks for another CPU when it has its own.
    if here.owner() != own || before <= 1 {
        return None;
    }
    let may = |cpu: &u64| *cpu != here.cpu && allowed(&attributes) >> cpu & 1 != 0;
    // Those who look at the same time begin at different CPUs.
    let all = (0..cpus).map(|next| (own.0 + next) % cpus).filter(may);
    let easiest = all.min_by_key(|cpu| load(*cpu).0).filter(|cpu| load(*cpu).0 + 1 < before)?;
    let there = allocate(own, easiest).ok()?;
    // Of the threads that chose the same CPU, the first ones stay, as many as leave it less loaded.
    let stays = wanting(easiest).filter(|(at, _)| *at <= there.at).count() < before;
    let Position { cpu, at } = if stays { here } else { there };
    let _ = time_slice::free(KeyIndex::FIRST, cpu, at);
    stays.then_some(there)
}

/// How many processes and threads want to run on a CPU, and how many have a slice there.
fn load(cpu: u64) -> (usize, usize) {
    (wanting(cpu).count(), slices(cpu).count())
}

/// The positions of a CPU whose owners want to run: who waits for something leaves it to the others, and the session
/// and its server never run for long.
pub(crate) fn wanting(cpu: u64) -> impl Iterator<Item = (u64, EnvironmentId)> {
    let server = if is_adopted() { domain().server } else { EnvironmentId::NONE };
    slices(cpu).filter(move |(_, owner)| ![entry::FIRST, server].contains(owner) && process_table::is_runnable(owner.0))
}

/// The positions of a CPU that have an owner, with the owner. They are taken from the beginning of a vector on; where
/// there are more than is looked at it is full anyway.
fn slices(cpu: u64) -> impl Iterator<Item = (u64, EnvironmentId)> {
    const LOOKED_AT: usize = 64;
    let all = (0..).zip(exposed::slices(cpu).iter().take(LOOKED_AT));
    all.map(|(at, slice)| (at, EnvironmentId(slice.owner.load(Relaxed))))
        .filter(|(_, owner)| *owner != EnvironmentId::NONE)
}

/// Moves to the CPU of its own slice, unless other threads keep donating slices to it.
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
