//! The pace of environments on other CPUs while an environment without any right makes calls that concern other CPUs
//! (FAULTS 156). On each CPU an environment computes without end.
//!
//! By the counting clock the emulator runs all CPUs in turn, and an interrupt ends a turn: the share of a CPU says
//! nothing about its pace. So the interrupts that the attacker's CPU sends are counted, and what each takes is known.
//!
//! The emulator also turns to the next CPU where one sets its timer. Slices that all last as long can fall into step
//! with the turns. Then a CPU whose slice has just begun has its next turn when that slice is over: its environments
//! stand still. So environments that compute end slices early, at random.
#![no_std]
#![no_main]

extern crate alloc;

use abi::budget::Resource;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use runtime::area::Area;
use runtime::environment::Child;
use runtime::predicate::{Predicate, clock as until};
use runtime::{EnvironmentId, KeyIndex, area, channel, clock, exposed, syscall, time_slice};
use test_programs::child::{eventually, eventually_by, prepare, status, with_quantum};
use test_programs::random::Random;
use test_programs::{Outcome, World, check, granted, guest};

guest! {
    Here fault_156_events_without_bits_slow_no_other_cpu;
    Here fault_156_kicks_slow_no_other_cpu;
    Here fault_156_yields_slow_no_other_cpu;
}

/// Nanoseconds that a run is observed, and what the attacker must have done by then. Where each interrupt ends a turn
/// of the emulator, an attacker on four CPUs needs longer for that.
const OBSERVED: u64 = 50_000_000;
const DONE_AT_LEAST: u64 = 200;
/// The quantum meanwhile, in nanoseconds. The emulator turns to the next CPU at the end of a slice, and each of four
/// CPUs must have many turns.
const QUANTUM: u64 = 400_000;
/// What an interrupt takes of a program that computes, at most, in nanoseconds of the counting clock.
const INTERRUPT: u64 = 2_000;
/// Status word: loops of a computing environment, calls of an attacker.
const DONE: usize = 1;
/// Loops between two records.
const LOOPS: u64 = 64;
/// Records until an environment ends a slice early, on average: somewhat fewer than it makes in a whole one.
const RECORDS_OF_A_SLICE: u64 = 2048;
/// Slices of the attacker: of five on its CPU it has four.
const SLICES: u64 = 4;

extern "C" fn compute(_: u64) {
    let mut random = Random(area::number().0 + 1);
    attack(|| {
        (0..LOOPS).for_each(|loops| {
            core::hint::black_box(loops);
        });
        if random.below(RECORDS_OF_A_SLICE) == 0 {
            time_slice::yield_now();
        }
    })
}

/// Does something over and over.
fn attack(mut something: impl FnMut()) -> ! {
    loop {
        something();
        Area::current().status(DONE).fetch_add(1, Relaxed);
    }
}

extern "C" fn raise_nothing(victim: u64) {
    attack(|| {
        let _ = syscall::event_raise(KeyIndex::WELL_KNOWN, EnvironmentId(victim), 0);
    })
}

extern "C" fn kick_all(_: u64) {
    let cpus = exposed::kernel().cpus.load(Relaxed);
    attack(|| {
        for cpu in 1..cpus {
            let _ = syscall::cpu_kick(cpu);
        }
    })
}

extern "C" fn yield_to(victim: u64) {
    attack(|| {
        let _ = time_slice::yield_to(EnvironmentId(victim));
    })
}

fn on_cpu(world: &World, function: extern "C" fn(u64), argument: u64, cpu: u64) -> Result<Child, String> {
    let mut builder = prepare(world, function, argument)?;
    builder.budget(Resource::Slice, SLICES);
    let child = granted!(builder.create());
    granted!(child.run(cpu, time_slice::ANY_POSITION));
    Ok(child)
}

/// What other CPUs sent to all but the first one.
fn requests() -> u64 {
    exposed::cpus().skip(1).map(|cpu| cpu.requests.load(SeqCst)).sum()
}

/// What a run showed.
struct Observed {
    /// Interrupts that the first CPU sent to each other one, and loops done there, on average.
    requests: u64,
    loops: u64,
    /// How long it took.
    time: u64,
}

/// A run in which an environment without rights does this on the first CPU, while one computes on each.
fn observe(world: &World, attack: extern "C" fn(u64)) -> Result<Observed, String> {
    let cpus = exposed::kernel().cpus.load(Relaxed);
    let computing = (0..cpus).map(|cpu| on_cpu(world, compute, 0, cpu)).collect::<Result<Vec<_>, _>>()?;
    let victim = computing.last().map_or(0, |child| child.number.0);
    let attacker = on_cpu(world, attack, victim, 0)?;
    for _ in 1..SLICES {
        granted!(attacker.run(0, time_slice::ANY_POSITION));
    }
    let all_run = || computing.iter().chain([&attacker]).all(|child| status(child, DONE) > 0);
    check!(eventually(all_run), "they do not all run");
    let loops = || computing[1..].iter().map(|child| status(child, DONE)).sum::<u64>();
    let before = (requests(), loops(), status(&attacker, DONE), clock::now());
    granted!(granted!(Predicate::new().or(&[until(before.3 + OBSERVED)])).wait());
    let calls = || status(&attacker, DONE) - before.2;
    check!(eventually_by(calls, || calls() >= DONE_AT_LEAST), "the attacker did no more than {}", calls());
    let time = clock::now() - before.3;
    let (requests, loops) = ((requests() - before.0) / (cpus - 1), (loops() - before.1) / (cpus - 1));
    check!(attacker.alive(), "the attacker is dead");
    for child in computing.into_iter().chain([attacker]) {
        granted!(child.destroy());
    }
    Ok(Observed { requests, loops, time })
}

/// The interrupts of an attack take less than a fiftieth of an environment on another CPU, beyond those of the same
/// run in which the attacker computes.
fn costs_little(world: &World, name: &str, attack: extern "C" fn(u64)) -> Outcome {
    let (honest, attacked) = with_quantum(QUANTUM, || Ok((observe(world, compute)?, observe(world, attack)?)))?;
    for (what, run) in [("computes", &honest), ("attacks", &attacked)] {
        channel::measurement(&format!("156, {name}: requests, it {what}"), run.requests, "interrupts");
        channel::measurement(&format!("156, {name}: pace, it {what}"), run.loops * 1_000_000 / run.time, "loops a ms");
    }
    let (more, most) = (attacked.requests.saturating_sub(honest.requests), attacked.time / 50 / INTERRUPT);
    check!(more <= most, "{more} interrupts of other CPUs in {} ns, not {most} at most", attacked.time);
    Ok(())
}

fn fault_156_events_without_bits_slow_no_other_cpu(world: &World) -> Outcome {
    costs_little(world, "events", raise_nothing)
}

fn fault_156_kicks_slow_no_other_cpu(world: &World) -> Outcome {
    costs_little(world, "kicks", kick_all)
}

fn fault_156_yields_slow_no_other_cpu(world: &World) -> Outcome {
    costs_little(world, "yields", yield_to)
}
