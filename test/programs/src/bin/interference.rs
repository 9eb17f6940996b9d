//! What an attacker takes from environments that compute, against the same run in which it only computes (FAULTS 155).
//! On each CPU an environment computes without end.
#![no_std]
#![no_main]

extern crate alloc;

use abi::area::PENDING_SLICE_END;
use abi::budget::Resource;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use runtime::area::Area;
use runtime::environment::Child;
use runtime::{channel, clock, critical_section, exposed, time_slice};
use test_programs::child::{eventually_by, prepare, with_quantum};
use test_programs::{Outcome, World, check, granted, guest, is_counting};

guest! {
    Here fault_155_time_past_the_end_takes_nothing_from_others;
}

/// Slices of the attacker in a measured run.
const SLICES: u64 = 1_000;
/// The quantum of a measured run, in nanoseconds: a short one, so that the run is short.
const QUANTUM: u64 = 400_000;
/// Nanoseconds before the end of the grace at which [`linger`] gives way.
const MARGIN: u64 = 15_000;

/// A pause would be dear for the emulator.
extern "C" fn compute(_: u64) {
    let mut count = 0u64;
    loop {
        count = core::hint::black_box(count.wrapping_add(1));
    }
}

/// Holds a critical section for ever, and gives way just before that counts as an excess.
extern "C" fn linger(_: u64) {
    core::mem::forget(critical_section::enter());
    let pending = &Area::current().private().pending;
    loop {
        while pending.load(SeqCst) & PENDING_SLICE_END == 0 {
            core::hint::black_box(());
        }
        let end = clock::now() + abi::limits::CRITICAL_SECTION_GRACE - MARGIN;
        while clock::now() < end {
            core::hint::black_box(());
        }
        pending.fetch_and(!PENDING_SLICE_END, SeqCst);
        time_slice::yield_now();
    }
}

/// A child that runs on one CPU.
fn on_cpu(world: &World, function: extern "C" fn(u64), cpu: u64) -> Result<Child, String> {
    let mut builder = prepare(world, function, 0)?;
    builder.budget(Resource::Slice, 4);
    let child = granted!(builder.create());
    granted!(child.run(cpu, time_slice::ANY_POSITION));
    Ok(child)
}

fn cpus() -> u64 {
    exposed::kernel().cpus.load(Relaxed)
}

fn on_each_cpu(world: &World, function: extern "C" fn(u64)) -> Result<Vec<Child>, String> {
    (0..cpus()).map(|cpu| on_cpu(world, function, cpu)).collect()
}

fn slices_of(child: &Child) -> u64 {
    child.info().map_or(0, |info| info.slices.load(SeqCst))
}

fn time_of(child: &Child) -> u64 {
    child.info().map_or(0, |info| info.time.load(SeqCst))
}

/// Thousandths of the time that the victim of each CPU has while attackers on all CPUs have so many slices.
fn shares(world: &World, attack: extern "C" fn(u64)) -> Result<Vec<u64>, String> {
    let (victims, attackers) = (on_each_cpu(world, compute)?, on_each_cpu(world, attack)?);
    let fewest = || attackers.iter().map(slices_of).min().unwrap_or(0);
    check!(eventually_by(fewest, || fewest() > 8), "the attackers do not run");
    let (begun, had, first): (u64, Vec<u64>, u64) = (clock::now(), victims.iter().map(time_of).collect(), fewest());
    check!(eventually_by(fewest, || fewest() > first + SLICES), "the attackers had {} slices", fewest());
    let took = clock::now() - begun;
    let shares = victims.iter().zip(had).map(|(victim, had)| (time_of(victim) - had) * 1000 / took).collect();
    for child in victims.into_iter().chain(attackers) {
        granted!(child.destroy());
    }
    Ok(shares)
}

/// Environments that overrun each slice, as far as they may, take nothing from those that compute. By the counting
/// clock that is exact to a hundredth.
fn fault_155_time_past_the_end_takes_nothing_from_others(world: &World) -> Outcome {
    if !is_counting() {
        return Ok(());
    }
    let (honest, attacked) = with_quantum(QUANTUM, || Ok((shares(world, compute)?, shares(world, linger)?)))?;
    for (cpu, (honest, attacked)) in honest.iter().zip(&attacked).enumerate() {
        channel::measurement("155, the honest run", *honest, "thousandths");
        channel::measurement("155, the attacked run", *attacked, "thousandths");
        check!(attacked * 100 >= honest * 99, "CPU {cpu}: {attacked} thousandths of the time, not {honest}");
    }
    Ok(())
}
