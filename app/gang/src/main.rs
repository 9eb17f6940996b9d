//! Gang scheduling in user space: the same slice position on every CPU (DESIGN.md §4, "Time slice";
//! exokernel-sosp95 §5.1.1).
//!
//! The threads of the gang meet at a barrier over and over, which goes fast only while all of them run. Each holds
//! one position of its CPU's slice vector, and strangers hold the others. The threads start the rounds of two CPUs
//! together by themselves, because the kernel does not. It exposes when each slice ends. So a thread whose slice
//! began later than its leader's ends it with the leader's, and by that begins its next one together with it. For
//! comparison the same threads then keep their slices one position apart.

#![no_std]
#![no_main]
#![forbid(unsafe_code)]

extern crate alloc;

use abi::budget::Resource;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use runtime::area::Area;
use runtime::environment::{Builder, Child};
use runtime::predicate::sleep_until;
use runtime::{Failure, clock, entry, error_line, exposed, println, time_slice};

entry!(main);

/// The positions that take part, on each CPU: a round is as many slices.
const POSITIONS: core::ops::Range<u64> = 100..104;
/// Rounds until all slices begin where they should, and rounds that are measured.
const ROUNDS: u64 = 24;
/// How far two slices may be from beginning together, as a part of the quantum.
const TOLERANCE: u64 = 8;

/// Threads of the gang.
static THREADS: AtomicU64 = AtomicU64::new(0);
/// How far each thread's slice is to begin after that of the thread before it, in nanoseconds.
static ISOLATED: AtomicU64 = AtomicU64::new(0);
/// When the leader's last slice began.
static LEADER: AtomicU64 = AtomicU64::new(0);
/// Threads that have arrived at the barrier, ever.
static ARRIVED: AtomicU64 = AtomicU64::new(0);

fn main() -> u32 {
    entry::status_of(run())
}

fn run() -> Result<(), String> {
    let cpus = exposed::kernel().cpus.load(Relaxed);
    if cpus < 2 || cpus > POSITIONS.end - POSITIONS.start {
        return Err(format!("a gang wants 2 to 4 CPUs, this machine has {cpus}"));
    }
    THREADS.store(cpus, SeqCst);
    let together = measure(cpus, 0).map_err(|failure| format!("{failure:?}"))?;
    let apart = measure(cpus, quantum()).map_err(|failure| format!("{failure:?}"))?;
    error_line!("in {ROUNDS} rounds the threads met {together} times, one position apart {apart} times");
    if together < 20 * apart.max(ROUNDS) {
        return Err(format!("together they met {together} times, apart {apart} times"));
    }
    println!("{cpus} threads on {cpus} CPUs met more than 20 times as often with their slices side by side");
    Ok(())
}

fn quantum() -> u64 {
    exposed::kernel().quantum.load(Relaxed)
}

/// How often the threads met in so many rounds.
fn measure(cpus: u64, apart: u64) -> Result<u64, Failure> {
    ISOLATED.store(apart, SeqCst);
    let step = u64::from(apart != 0);
    let mut children = Vec::new();
    for cpu in 0..cpus {
        let mine = POSITIONS.start + cpu * step;
        children.push(launch(thread, cpu, &[mine])?);
        let others: Vec<u64> = POSITIONS.filter(|position| *position != mine).collect();
        children.push(launch(stranger, cpu, &others)?);
    }
    sleep_for_rounds();
    let before = meetings();
    sleep_for_rounds();
    let met = meetings() - before;
    children.into_iter().try_for_each(Child::destroy)?;
    ARRIVED.store(0, SeqCst);
    Ok(met)
}

fn meetings() -> u64 {
    ARRIVED.load(SeqCst) / THREADS.load(Relaxed)
}

/// An environment in this address space, at these positions of a CPU.
fn launch(function: extern "C" fn(u64), cpu: u64, positions: &[u64]) -> Result<Child, Failure> {
    let mut builder = Builder::sharing()?;
    builder.function(function, cpu).silent().budget(Resource::Slice, positions.len() as u64);
    let child = builder.create()?;
    positions.iter().try_for_each(|position| child.run(cpu, *position).map(drop))?;
    Ok(child)
}

fn sleep_for_rounds() {
    sleep_until(clock::now() + ROUNDS * (POSITIONS.end - POSITIONS.start) * quantum());
}

/// Uses its slices up.
extern "C" fn stranger(_: u64) {
    let counter = Area::current().status(1);
    loop {
        (0..1000).for_each(|step| counter.store(step, Relaxed));
        core::hint::spin_loop();
    }
}

/// Meets the others at the barrier, without end; the one on CPU 0 leads.
extern "C" fn thread(cpu: u64) {
    let threads = THREADS.load(Relaxed);
    loop {
        let meeting = ARRIVED.fetch_add(1, SeqCst) / threads + 1;
        keep_step(cpu);
        while ARRIVED.load(SeqCst) < meeting * threads {
            keep_step(cpu);
            core::hint::spin_loop();
        }
    }
}

/// The leader says when its slice began; any other ends its slice where that brings it into step.
fn keep_step(cpu: u64) {
    let Some(info) = exposed::cpu(cpu) else { return };
    let began = info.slice_end.load(Relaxed).wrapping_sub(quantum());
    if cpu == 0 {
        LEADER.store(began, Relaxed);
    } else if !in_step(clock::now(), began, LEADER.load(Relaxed) + cpu * ISOLATED.load(Relaxed)) {
        time_slice::yield_now();
    }
}

/// Whether a slice that has begun at `began` and should have at `wanted` runs now. A thread that is late ends when it
/// should have ended, and is in time in the next round. A thread that is later than a whole slice, or early, counts
/// as late by the rest of the round. It makes that up by whole slices.
fn in_step(now: u64, began: u64, wanted: u64) -> bool {
    let tolerance = quantum() / TOLERANCE;
    // The leader, which is expected to begin just now, gets the time to say so.
    now < began + tolerance || (now < wanted + quantum() && wanted <= began + tolerance)
}
