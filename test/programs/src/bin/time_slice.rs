//! Time slices: positions, rounds, directed yields, and what happens to who does not let go.
#![no_std]
#![no_main]

extern crate alloc;

use abi::area::PENDING_SLICE_END;
use abi::budget::Resource;
use abi::environment::DeathReason;
use abi::exposed::CpuState;
use abi::machine::Setting;
use abi::upcall::kind;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use runtime::address_space::Access;
use runtime::area::Area;
use runtime::environment::Child;
use runtime::page::Allocator;
use runtime::predicate::{Operator, wait_any, word};
use runtime::upcall::Context;
use runtime::window::Window;
use runtime::{
    EnvironmentId, Failure, KeyIndex, PageNumber, area, clock, critical_section, exposed, syscall, time_slice,
};
use test_programs::child::{death, eventually, eventually_by, expect_death, prepare, sleeps, spawn, status};
use test_programs::{Outcome, World, check, granted, guest, is_counting, refused};

guest! {
    Here positions_are_allocated_by_name;
    Here a_directed_yield_runs_who_is_named;
    Here yields_to_the_dead_are_refused;
    Here time_from_strangers_lets_nobody_begin;
    Here slices_come_in_the_order_of_positions;
    Here equidistant_positions_bound_the_latency;
    Here contiguous_positions_save_switches;
    Child the_clock_never_goes_back;
    Child slice_ends_keep_every_register;
    Here fault_37_excess_is_paid_and_never_negative;
    Here fault_38_hoarder_of_time;
    Here fault_38_hoarder_of_given_time;
    Here fault_38_critical_section_without_end;
    Here long_work_in_a_critical_section_is_no_excess;
    Here fault_38_others_keep_their_share;
    Here fault_38_who_never_gives_way_is_destroyed;
    Here fault_38_window_given_to_a_victim;
    Here the_root_key_sets_the_times_of_the_scheduler;
    Here fault_155_time_past_the_end_is_paid_back;
    Here a_slice_that_is_over_before_it_began_begins_again;
    Here who_was_passed_over_is_not_forgotten;
    Here who_was_roused_elsewhere_is_not_forgotten;
}

fn own() -> EnvironmentId {
    area::number()
}

fn positions_are_allocated_by_name(_: &World) -> Outcome {
    let free = exposed::slices(0).iter().rposition(|slice| slice.owner.load(SeqCst) == 0).ok_or("none is free")? as u64;
    check!(granted!(time_slice::allocate(KeyIndex::FIRST, own(), 0, free)) == free, "another position came");
    let slice = &exposed::slices(0)[free as usize];
    check!(slice.owner.load(SeqCst) == own().0 && slice.runner.load(SeqCst) == own().0, "the position is not exposed");
    refused!(time_slice::allocate(KeyIndex::FIRST, own(), 0, free), NotFree);
    refused!(time_slice::allocate(KeyIndex::FIRST, own(), 0, abi::limits::SLICES_PER_CPU as u64), NoSuchSlice);
    refused!(time_slice::allocate(KeyIndex::FIRST, own(), 99, 0), NoSuchSlice);
    refused!(time_slice::allocate(KeyIndex::FIRST, own(), u64::MAX, 0), NoSuchSlice);
    refused!(
        time_slice::allocate(KeyIndex::FIRST, EnvironmentId(1 << 40), 0, time_slice::ANY_POSITION),
        NoSuchEnvironment
    );
    granted!(time_slice::free(KeyIndex::FIRST, 0, free));
    check!(slice.owner.load(SeqCst) == 0, "the position is not free");
    check!(time_slice::free(KeyIndex::WELL_KNOWN, 0, free).is_err(), "a free position was freed");
    Ok(())
}

/// Counts, and gives the slice back to its creator each time.
extern "C" fn count_and_return(creator: u64) {
    loop {
        let count = Area::current().status(1);
        count.store(count.load(Relaxed) + 1, SeqCst);
        let _ = time_slice::yield_to(EnvironmentId(creator));
    }
}

fn a_directed_yield_runs_who_is_named(world: &World) -> Outcome {
    let mut builder = prepare(world, count_and_return, own().0)?;
    builder.budget(Resource::Slice, 0);
    let child = granted!(builder.create());
    // It has no slices of its own: without a yield that names it, it cannot run at all.
    let mut yields = 0;
    for round in 1..=100 {
        let mut refusal = None;
        // What is left of a slice can be too little for a whole round, on a busy host again and again.
        let came = eventually(|| {
            yields += 1;
            refusal = time_slice::yield_to(child.number).err();
            refusal.is_some() || status(&child, 1) >= round
        });
        check!(refusal.is_none(), "a yield was refused: {refusal:?}");
        let ran = status(&child, 1);
        check!(came && ran <= yields, "in round {round} it had run {ran} times after {yields} yields");
    }
    granted!(child.destroy());
    Ok(())
}

fn yields_to_the_dead_are_refused(world: &World) -> Outcome {
    let child = spawn(world, count_and_return, own().0)?;
    let number = child.number;
    granted!(child.destroy());
    refused!(time_slice::yield_to(number), NoSuchEnvironment);
    refused!(time_slice::yield_to(EnvironmentId(u64::MAX)), NoSuchEnvironment);
    refused!(time_slice::yield_to(EnvironmentId(u64::MAX >> 1)), NoSuchEnvironment);
    let own = time_slice::yield_to(own());
    check!(
        own.is_ok() || own.is_err_and(|failure| failure.error == abi::Error::Busy),
        "a yield to oneself gave {own:?}"
    );
    Ok(())
}

/// Gives its time to the environment of this number, once, and says what came of it.
extern "C" fn give_time_to(number: u64) {
    let told = time_slice::yield_to(EnvironmentId(number)).map_or_else(|failure| failure.error as u64, |()| 0);
    Area::current().status(1).store(told + 1, SeqCst);
    loop {
        time_slice::yield_now();
    }
}

/// An environment that was made and not begun is its maker's to let run: a stranger's time would be its first, and its
/// end where it is not whole.
fn time_from_strangers_lets_nobody_begin(world: &World) -> Outcome {
    let fresh = without_slices(world, count_and_return)?;
    let stranger = spawn(world, give_time_to, fresh.number.0)?;
    while status(&stranger, 1) == 0 {
        time_slice::yield_now();
    }
    check!(status(&stranger, 1) == abi::Error::Busy as u64 + 1, "a stranger was told {}", status(&stranger, 1));
    check!(status(&fresh, 1) == 0, "it has begun");
    granted!(time_slice::yield_to(fresh.number));
    granted!(stranger.destroy());
    granted!(fresh.destroy());
    Ok(())
}

/// Notes the time when each of its slices begins, in a ring of 64 words, and yields.
extern "C" fn note_starts(_: u64) {
    for count in 0.. {
        let area = Area::current();
        area.public_library(count % 64).store(clock::now(), Relaxed);
        area.status(1).store(count as u64 + 1, SeqCst);
        time_slice::yield_now();
    }
}

/// Uses its slices up.
extern "C" fn spin(_: u64) {
    loop {
        let count = Area::current().status(1);
        count.store(count.load(Relaxed) + 1, SeqCst);
    }
}

fn without_slices(world: &World, function: extern "C" fn(u64)) -> Result<Child, String> {
    let mut builder = prepare(world, function, 0)?;
    builder.budget(Resource::Slice, 16);
    Ok(granted!(builder.create()))
}

/// A run of free positions of CPU 0, far from the others.
fn free_run(length: u64) -> Result<u64, String> {
    let slices = exposed::slices(0);
    let free = |start: &u64| (*start..start + length).all(|at| slices[at as usize].owner.load(SeqCst) == 0);
    Ok((0..abi::limits::SLICES_PER_CPU as u64 - length).rev().find(free).ok_or("no run of free positions")?)
}

fn slices_come_in_the_order_of_positions(world: &World) -> Outcome {
    let (first, second) = (without_slices(world, note_starts)?, without_slices(world, note_starts)?);
    let start = free_run(2)?;
    granted!(second.run(0, start + 1));
    granted!(first.run(0, start));
    check!(eventually(|| status(&first, 1) > 20 && status(&second, 1) > 20), "the two do not run");
    let (a, b) = (granted!(first.public()), granted!(second.public()));
    let times = |window: &runtime::window::Window| -> Vec<u64> {
        let mut times: Vec<u64> =
            window.words()[256..320].iter().map(|word| word.load(SeqCst)).filter(|time| *time > 0).collect();
        times.sort_unstable();
        times
    };
    let (a, b) = (times(&a), times(&b));
    let disordered =
        a.windows(2).filter(|pair| b.iter().filter(|time| (pair[0]..pair[1]).contains(*time)).count() > 1).count();
    check!(
        disordered <= if is_counting() { 1 } else { 16 },
        "the second ran more than once between two slices of the first, {disordered} times"
    );
    granted!(first.destroy());
    granted!(second.destroy());
    Ok(())
}

/// The longest time between two slices, and the median, of an observer that holds the given positions, among spinners
/// in all others.
fn longest_wait(world: &World, mine: &[u64], others: &[u64]) -> Result<(u64, u64), String> {
    let (observer, spinner) = (without_slices(world, note_starts)?, without_slices(world, spin)?);
    for position in others {
        granted!(spinner.run(0, *position));
    }
    for position in mine {
        granted!(observer.run(0, *position));
    }
    check!(eventually(|| status(&observer, 1) > 80), "the observer does not run");
    let window = granted!(observer.public());
    let mut times: Vec<u64> = window.words()[256..320].iter().map(|word| word.load(SeqCst)).collect();
    times.sort_unstable();
    let mut waits: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    waits.sort_unstable();
    drop(window);
    granted!(observer.destroy());
    granted!(spinner.destroy());
    Ok((waits[waits.len() - 1], waits[waits.len() / 2]))
}

fn equidistant_positions_bound_the_latency(world: &World) -> Outcome {
    let start = free_run(16)?;
    let all: Vec<u64> = (start..start + 16).collect();
    let spread = [start, start + 4, start + 8, start + 12];
    let others = |mine: &[u64]| all.iter().copied().filter(|position| !mine.contains(position)).collect::<Vec<_>>();
    let one = longest_wait(world, &spread[..1], &others(&spread))?;
    let four = longest_wait(world, &spread, &others(&spread))?;
    let quantum = exposed::kernel().quantum.load(SeqCst);
    check!(
        !is_counting() || four.1 * 2 < one.1,
        "with one position the wait was {} ns, with four {} ns",
        one.1,
        four.1
    );
    check!(!is_counting() || four.0 <= 8 * quantum, "with four of sixteen positions the wait was up to {} ns", four.0);
    Ok(())
}

fn contiguous_positions_save_switches(world: &World) -> Outcome {
    let start = free_run(8)?;
    let switches = |mine: [u64; 4], others: [u64; 4]| -> Result<(u64, u64), String> {
        let (left, right) = (without_slices(world, spin)?, without_slices(world, spin)?);
        for (mine, other) in mine.iter().zip(&others) {
            granted!(left.run(0, *mine));
            granted!(right.run(0, *other));
        }
        let count = || exposed::cpu(0).map_or((0, 0), |cpu| (cpu.switches.load(SeqCst), cpu.rounds.load(SeqCst)));
        let before = count();
        check!(eventually(|| count().1 >= before.1 + 20), "the rounds do not go on");
        let after = count();
        granted!(left.destroy());
        granted!(right.destroy());
        Ok((after.0 - before.0, after.1 - before.1))
    };
    let place = |index: u64| start + index;
    let mixed = switches([0, 2, 4, 6].map(place), [1, 3, 5, 7].map(place))?;
    let grouped = switches([0, 1, 2, 3].map(place), [4, 5, 6, 7].map(place))?;
    let (mixed, grouped) = (mixed.0 * 100 / mixed.1.max(1), grouped.0 * 100 / grouped.1.max(1));
    check!(grouped * 3 <= mixed * 2, "a round took {mixed} hundredths of a switch mixed, {grouped} grouped");
    Ok(())
}

fn the_clock_never_goes_back() -> Outcome {
    let mut last = clock::now();
    for round in 0..20_000 {
        if round % 100 == 0 {
            time_slice::yield_now();
        }
        let now = clock::now();
        check!(now >= last, "the clock went back from {last} to {now}");
        last = now;
    }
    Ok(())
}

/// Registers hold their values over many ends of slices.
fn slice_ends_keep_every_register() -> Outcome {
    let info = exposed::environment(own()).ok_or("no record")?;
    let from = info.slices.load(SeqCst);
    while info.slices.load(SeqCst) < from + 40 {
        let wrong: u64;
        // SAFETY: every register is declared lost but rbx and rbp, which are kept on the stack.
        unsafe {
            core::arch::asm!(
                "push rbx", "push rbp",
                "mov rbx, 1", "mov rbp, 2", "mov rsi, 3", "mov rdi, 4", "mov r8, 5", "mov r9, 6", "mov r10, 7", "mov r11, 8",
                "mov r12, 9", "mov r13, 10", "mov r14, 11", "mov r15, 12", "mov rdx, 13", "mov rcx, 200000",
                "2:", "dec rcx", "jnz 2b",
                "lea rax, [rbx + rbp]", "add rax, rsi", "add rax, rdi", "add rax, r8", "add rax, r9", "add rax, r10",
                "add rax, r11", "add rax, r12", "add rax, r13", "add rax, r14", "add rax, r15", "add rax, rdx", "sub rax, 91",
                "pop rbp", "pop rbx",
                out("rax") wrong, out("rcx") _, out("rdx") _, out("rsi") _, out("rdi") _, out("r8") _, out("r9") _,
                out("r10") _, out("r11") _, out("r12") _, out("r13") _, out("r14") _, out("r15") _
            );
        }
        check!(wrong == 0, "a register changed: the sum is off by {wrong:#x}");
    }
    Ok(())
}

/// Something that changes registers.
fn compute() {
    (0..1000u64).for_each(|number| {
        core::hint::black_box(number);
    });
}

extern "C" fn ignore_the_end(_: &mut Context) {
    let ends = Area::current().status(2);
    ends.store(ends.load(Relaxed) + 1, SeqCst);
}

/// Runs on when its slice ends: so many times, then behaves.
extern "C" fn overrun(times: u64) {
    runtime::upcall::set_handler(kind::SLICE_END, ignore_the_end);
    let ends = Area::current().status(2);
    while ends.load(SeqCst) < times {
        compute();
    }
    runtime::upcall::set_entry(kind::SLICE_END, runtime::upcall::slice_end_entry as *const () as u64);
    loop {
        let count = Area::current().status(1);
        count.store(count.load(Relaxed) + 1, SeqCst);
        time_slice::yield_now();
    }
}

fn fault_37_excess_is_paid_and_never_negative(world: &World) -> Outcome {
    let child = spawn(world, overrun, 5)?;
    let excess = || child.info().map_or(u64::MAX, |info| info.excess.load(SeqCst));
    let mut seen = 0;
    check!(
        eventually(|| {
            seen = seen.max(excess());
            status(&child, 1) > 3
        }),
        "the child does not come to behave"
    );
    check!(eventually(|| excess() == 0), "its excess stays at {}", excess());
    // On a busy host another slice may end between the fifth and the change of the entry.
    let ends = status(&child, 2);
    check!(ends == 5 || !is_counting() && ends > 5, "its slice ended {ends} times");
    granted!(child.destroy());
    Ok(())
}

/// Each slice that it overruns is paid with its next one, so that it gets no more than half of them.
fn fault_38_hoarder_of_time(world: &World) -> Outcome {
    let time = |number| exposed::environment(number).map_or(0, |info| info.time.load(Relaxed));
    let rounds = || exposed::cpu(0).map_or(0, |cpu| cpu.rounds.load(SeqCst));
    let (begun, before) = (rounds(), time(world.victim.number()));
    let child = spawn(world, overrun, u64::MAX)?;
    check!(eventually(|| rounds() > begun + 100), "the rounds do not go on");
    let slices = child.info().map_or(0, |info| info.slices.load(SeqCst));
    check!(slices * 10 <= (rounds() - begun) * 6, "it had {slices} slices in {} rounds", rounds() - begun);
    let (victim, hoarder) = (time(world.victim.number()) - before, time(child.number));
    check!(!is_counting() || hoarder * 10 <= victim * 7, "the victim had {victim} ns, the hoarder {hoarder} ns");
    granted!(child.destroy());
    Ok(())
}

/// An environment without a slice to pay with, which overruns slices that others give it, dies of it.
fn fault_38_hoarder_of_given_time(world: &World) -> Outcome {
    let mut builder = prepare(world, overrun, u64::MAX)?;
    builder.budget(Resource::Slice, 0);
    let child = granted!(builder.create());
    let mut given = 0;
    let excess = || child.info().map_or(0, |info| info.excess.load(SeqCst));
    // Not every slice that is given is overrun: where the host has no time for the CPU, some end before an instruction
    // of it. So hundreds of overruns take as long as they take, as long as they become more.
    let dies = eventually_by(excess, || {
        given += u64::from(time_slice::yield_to(child.number).is_ok());
        !child.alive()
    });
    check!(dies, "it lives on after {given} slices, with an excess of {}", excess());
    check!(given >= abi::limits::EXCESS_LIMIT, "it died after {given} slices");
    expect_death(child, DeathReason::ExcessTime)
}

extern "C" fn never_leave(_: u64) {
    core::mem::forget(runtime::critical_section::enter());
    loop {
        compute();
    }
}

fn fault_38_critical_section_without_end(world: &World) -> Outcome {
    let rounds = || exposed::cpu(0).map_or(0, |cpu| cpu.rounds.load(SeqCst));
    let begun = rounds();
    let child = spawn(world, never_leave, 0)?;
    check!(eventually(|| rounds() > begun + 100), "the rounds do not go on");
    let slices = child.info().map_or(0, |info| info.slices.load(SeqCst));
    check!(slices * 10 <= (rounds() - begun) * 6, "it had {slices} slices in {} rounds", rounds() - begun);
    granted!(child.destroy());
    Ok(())
}

fn set(setting: Setting, value: u64) -> Result<(), Failure> {
    syscall::machine_set(KeyIndex::FIRST, setting as u64, value)
}

/// A longer quantum makes longer slices, and a lower limit an earlier death. Values without sense are refused, also of
/// the numbers that revocation goes by.
fn the_root_key_sets_the_times_of_the_scheduler(world: &World) -> Outcome {
    let kernel = exposed::kernel();
    let words = [
        (Setting::Quantum, &kernel.quantum),
        (Setting::SaveWindow, &kernel.save_window),
        (Setting::ExcessLimit, &kernel.excess_limit),
        (Setting::EmergencyGrace, &kernel.emergency_grace),
        (Setting::ShortagePages, &kernel.shortage_pages),
        (Setting::ShortageDeadline, &kernel.shortage_deadline),
    ];
    for (setting, word) in words {
        let (before, range) = (word.load(SeqCst), setting.range());
        check!(range.contains(&before), "{setting:?} is {before} at the start");
        for wrong in [range.start() - 1, range.end() + 1, u64::MAX] {
            refused!(set(setting, wrong), BadArgument);
        }
        check!(word.load(SeqCst) == before, "a refused call has set {setting:?}");
        granted!(set(setting, before + 1));
        check!(word.load(SeqCst) == before + 1, "{setting:?} is {}", word.load(SeqCst));
        granted!(set(setting, before));
    }
    refused!(syscall::machine_set(KeyIndex::FIRST, 7, 1), BadArgument);
    refused!(set(Setting::Stop, 1), BadArgument);
    let quantum = kernel.quantum.load(SeqCst);
    granted!(set(Setting::Quantum, 8 * quantum));
    let left = || {
        time_slice::yield_now();
        exposed::cpu(area::cpu()).map_or(0, |cpu| cpu.slice_end.load(SeqCst)).saturating_sub(clock::now())
    };
    let is_longer = eventually(|| left() > 4 * quantum);
    granted!(set(Setting::Quantum, quantum));
    check!(is_longer, "no slice is longer than four old ones");
    granted!(set(Setting::ExcessLimit, 4));
    let child = spawn(world, overrun, u64::MAX)?;
    let dies = eventually(|| !child.alive());
    granted!(set(Setting::ExcessLimit, abi::limits::EXCESS_LIMIT));
    check!(dies, "it lives after {} slices", slices_of(&child));
    expect_death(child, DeathReason::ExcessTime)
}

/// Slices of its own are cancelled, one for each that it overran; that does not save it.
fn fault_38_who_never_gives_way_is_destroyed(world: &World) -> Outcome {
    for hoarder in [overrun as extern "C" fn(u64), never_leave] {
        let child = spawn(world, hoarder, u64::MAX)?;
        let excess = || child.info().map_or(0, |info| info.excess.load(SeqCst));
        check!(eventually_by(excess, || !child.alive()), "it lives after {} slices", slices_of(&child));
        check!(slices_of(&child) >= abi::limits::EXCESS_LIMIT, "it died after {} slices", slices_of(&child));
        expect_death(child, DeathReason::ExcessTime)?;
    }
    Ok(())
}

fn slices_of(child: &Child) -> u64 {
    child.info().map_or(0, |info| info.slices.load(SeqCst))
}

/// Stays at one instruction for ever. As the entry of the start of a slice it is one that never begins.
#[unsafe(naked)]
extern "C" fn stay_here() {
    core::arch::naked_asm!("2:", "jmp 2b")
}

extern "C" fn never_begin(_: u64) {
    Area::current().status(1).store(1, SeqCst);
    let stay = stay_here as *const () as u64;
    Area::current().private().slice_end_entry.store(stay, SeqCst);
    Area::current().private().slice_start_entry.store(stay, SeqCst);
    time_slice::yield_now();
}

/// A host that has no time for a virtual CPU lets slices go by in which not one instruction is executed. However many
/// they are, no frames pile up on the upcall stack, and no victim is taken for a hoarder.
fn a_slice_that_is_over_before_it_began_begins_again(world: &World) -> Outcome {
    let child = spawn(world, never_begin, 0)?;
    check!(eventually(|| status(&child, 1) == 1), "the child does not run");
    let begun = slices_of(&child);
    check!(eventually(|| !child.alive() || slices_of(&child) > begun + 400), "the child gets no slices");
    check!(child.alive(), "the child died: {}", test_programs::child::death(&child));
    let excess = child.info().map_or(0, |info| info.excess.load(SeqCst));
    check!(excess <= 1, "its excess is {excess}");
    granted!(child.destroy());
    Ok(())
}

/// Allocates pages and gives them up again, many times, in one critical section that lasts for many slices. Tells the
/// most of its own excess.
extern "C" fn work_long(pages: u64) {
    let mut pages = alloc::vec![PageNumber::NONE; pages as usize];
    let excess = || exposed::environment(own()).map_or(u64::MAX, |info| info.excess.load(SeqCst));
    let section = critical_section::enter();
    let most = (0..60).map(|_| {
        let had = Allocator::own().allocate_many(&mut pages).is_ok();
        let freed = Allocator::own().free_many(&pages);
        if had && freed == pages.len() { excess() } else { u64::MAX }
    });
    let most = most.max().unwrap_or(u64::MAX);
    drop(section);
    let area = Area::current();
    area.status(1).store(most, SeqCst);
    area.status(2).store(1, SeqCst);
    loop {
        time_slice::yield_now();
    }
}

/// The runtime gives the CPU away between two calls of the kernel where a slice has ended.
fn long_work_in_a_critical_section_is_no_excess(world: &World) -> Outcome {
    const PAGES: u64 = 300;
    let child = spawn(world, work_long, PAGES)?;
    check!(eventually(|| status(&child, 2) == 1), "it does not come to its end");
    let (most, slices) = (status(&child, 1), child.info().map_or(0, |info| info.slices.load(SeqCst)));
    check!(most != u64::MAX, "it could not have its pages");
    check!(slices > 8, "the work took {slices} slices only");
    // A busy host may stop the machine between any two instructions.
    check!(if is_counting() { most == 0 } else { most < slices }, "its excess was {most} in {slices} slices");
    granted!(child.destroy());
    Ok(())
}

/// Where a wanderer is shown the word that it waits for, and its own status words. These are rounds done, rounds in
/// which it ran away from its CPU, and those of them in which its CPU was woken when it stopped there.
const SHOWN: u64 = 0x2200_0000;
const DONE: usize = 1;
const AWAY: usize = 2;
const WOKEN: usize = 3;
/// The only CPU on which a wanderer has a position.
const HOME: u64 = 1;

/// Run on another CPU, it makes its own look at it and pass it over. Then it stops, with a predicate that is true
/// already: no word changes any more, so that only its stopping can wake its CPU.
extern "C" fn wander(_: u64) {
    // SAFETY: the creator shows its page here, which holds atomics only.
    let shown = unsafe { &*(SHOWN as *const AtomicU64) };
    let (area, home) = (Area::current(), exposed::cpu(HOME).expect("the creator looked"));
    let kicks = || home.kicks.load(SeqCst);
    for round in 1.. {
        let called = [word(shown, Operator::GreaterOrEqual, round)];
        let _ = wait_any(&[&called], None);
        if area::cpu() != HOME {
            let looks = home.rounds.load(SeqCst);
            let _ = syscall::cpu_kick(HOME);
            let end = clock::now() + 1_000_000_000;
            let has_looked = || home.rounds.load(SeqCst) != looks && home.state.load(SeqCst) == CpuState::Idle as u64;
            // Where the host took the rest of the slice it resumes at home, which is not idle then.
            while area::cpu() != HOME && !has_looked() && clock::now() < end {
                core::hint::spin_loop();
            }
            let before = kicks();
            let _ = wait_any(&[&called], None);
            area.status(AWAY).fetch_add(1, SeqCst);
            area.status(WOKEN).fetch_add(u64::from(kicks() > before), SeqCst);
        }
        area.status(DONE).store(round, SeqCst);
    }
}

/// A CPU that passes over an environment which runs elsewhere is told when that one stops there. Where the host is busy
/// it has often looked again by itself before that, and needs no kick: so there are as many rounds as it takes.
fn who_was_passed_over_is_not_forgotten(world: &World) -> Outcome {
    const ENOUGH: u64 = 3;
    const ROUNDS: u64 = 3000;
    let Some(home) = exposed::cpu(HOME) else { return Ok(()) };
    let page = granted!(Allocator::own().allocate());
    let window = granted!(Window::open(&[page], KeyIndex::FIRST, Access::WRITE));
    let mut builder = prepare(world, wander, 0)?;
    granted!(builder.show(SHOWN, &[page], Access::READ));
    let child = granted!(builder.create());
    granted!(child.run(HOME, time_slice::ANY_POSITION));
    let asleep = || !exposed::runs(child.number) && home.state.load(SeqCst) == CpuState::Idle as u64;
    for round in (1..=ROUNDS).take_while(|_| status(&child, WOKEN) < ENOUGH) {
        check!(eventually(asleep), "round {round}: the child does not sleep");
        window.words()[0].store(round, SeqCst);
        while time_slice::yield_to(child.number).is_err() && status(&child, DONE) < round {}
        let done = || status(&child, DONE);
        check!(eventually(|| done() == round), "round {round}: the child is at {}: {}", done(), death(&child));
    }
    let (away, woken) = (status(&child, AWAY), status(&child, WOKEN));
    check!(woken >= ENOUGH, "its CPU was woken in {woken} of {away} rounds");
    granted!(child.destroy());
    drop(window);
    granted!(Allocator::own().free(page));
    Ok(())
}

/// Waits for a round, and gives the CPU away in it while it could go on.
extern "C" fn pause(_: u64) {
    // SAFETY: the creator shows its page here, which holds atomics only.
    let shown = unsafe { &*(SHOWN as *const AtomicU64) };
    for round in 1.. {
        let _ = wait_any(&[&[word(shown, Operator::GreaterOrEqual, round)]], None);
        time_slice::yield_now();
        Area::current().status(DONE).store(round, SeqCst);
    }
}

/// A slice given on another CPU rouses a sleeper, which stops there before it is done. Its own CPU, which halts without
/// a time to look again, is told, though no environment kicked it.
fn who_was_roused_elsewhere_is_not_forgotten(world: &World) -> Outcome {
    let Some(home) = exposed::cpu(HOME) else { return Ok(()) };
    let page = granted!(Allocator::own().allocate());
    let window = granted!(Window::open(&[page], KeyIndex::FIRST, Access::WRITE));
    let mut builder = prepare(world, pause, 0)?;
    granted!(builder.show(SHOWN, &[page], Access::READ));
    let child = granted!(builder.create());
    granted!(child.run(HOME, time_slice::ANY_POSITION));
    for round in 1..=20 {
        let is_idle = || sleeps(&child) && home.state.load(SeqCst) == CpuState::Idle as u64;
        check!(eventually(is_idle), "round {round}: the child does not sleep");
        window.words()[0].store(round, SeqCst);
        while time_slice::yield_to(child.number).is_err() && status(&child, DONE) < round {}
        let done = || status(&child, DONE);
        check!(eventually(|| done() == round), "round {round}: the child is at {}: {}", done(), death(&child));
    }
    granted!(child.destroy());
    drop(window);
    granted!(Allocator::own().free(page));
    Ok(())
}

/// Ends each of its slices by giving what is left of its save window to the environment whose number it was given.
extern "C" fn give_the_window_away(victim: u64) {
    runtime::upcall::set_handler(kind::SLICE_END, give_window);
    Area::current().library().free[0].store(victim, SeqCst);
    loop {
        compute();
    }
}

extern "C" fn give_window(_: &mut Context) {
    let area = Area::current();
    let victim = area.library().free[0].load(SeqCst);
    if time_slice::yield_to(EnvironmentId(victim)).is_ok() {
        area.status(1).fetch_add(1, SeqCst);
    }
    time_slice::yield_now();
}

/// An environment that runs in what is left of another's window was told nothing: it neither pays nor comes nearer to
/// the threshold.
fn fault_38_window_given_to_a_victim(world: &World) -> Outcome {
    let victim = world.victim.number();
    let child = spawn(world, give_the_window_away, victim.0)?;
    let excess = || exposed::environment(victim).map_or(u64::MAX, |info| info.excess.load(SeqCst));
    let before = excess();
    check!(eventually(|| status(&child, 1) > 300), "the window was given away {} times", status(&child, 1));
    check!(excess() <= before + 8, "the victim's excess went from {before} to {}", excess());
    granted!(child.destroy());
    Ok(())
}

/// A hoarder has taken as many positions as all others and ignores every end; each of these still has its share. By the
/// counting clock that is within five hundredths of the time. Where time goes by in which the host runs no environment,
/// it is within that of the slices.
fn fault_38_others_keep_their_share(world: &World) -> Outcome {
    let start = free_run(8)?;
    let hoarder = {
        let mut builder = prepare(world, overrun, u64::MAX)?;
        builder.budget(Resource::Slice, 4);
        granted!(builder.create())
    };
    let mut others = Vec::new();
    for place in 0..4 {
        others.push(without_slices(world, spin)?);
        granted!(others[place as usize].run(0, start + 2 * place));
        granted!(hoarder.run(0, start + 2 * place + 1));
    }
    let rounds = || exposed::cpu(0).map_or(0, |cpu| cpu.rounds.load(SeqCst));
    let had = |child: &Child| [child.info().map_or(0, |info| info.time.load(Relaxed)), slices_of(child)];
    let settled = rounds() + 4;
    check!(eventually(|| rounds() >= settled), "the rounds do not go on");
    let (begun, before): (u64, Vec<[u64; 2]>) = (clock::now(), others.iter().map(had).collect());
    let first = rounds();
    check!(eventually(|| rounds() >= settled + 50), "the rounds do not go on");
    // The positions of the eight, of the victim, and of this environment.
    let (share, passed) = ((clock::now() - begun) / 10, rounds() - first);
    for (child, before) in others.iter().zip(before) {
        let [time, slices] = core::array::from_fn(|what| had(child)[what] - before[what]);
        check!(!is_counting() || time * 100 >= share * 95, "one had {time} ns where its share was {share} ns");
        // A slice in which the host did not run it costs it the next.
        let least = if is_counting() { passed } else { passed / 2 };
        check!(slices + 2 >= least, "one had {slices} slices in {passed} rounds");
    }
    for child in others {
        granted!(child.destroy());
    }
    granted!(hoarder.destroy());
    Ok(())
}

/// Nanoseconds before the end of the grace at which [`linger`] gives way.
const MARGIN: u64 = 15_000;

/// Holds a critical section for ever, and gives way just before that counts as an excess.
extern "C" fn linger(_: u64) {
    core::mem::forget(critical_section::enter());
    let pending = &Area::current().private().pending;
    loop {
        while pending.load(SeqCst) & PENDING_SLICE_END == 0 {
            core::hint::spin_loop();
        }
        let end = clock::now() + abi::limits::CRITICAL_SECTION_GRACE - MARGIN;
        while clock::now() < end {
            core::hint::spin_loop();
        }
        pending.fetch_and(!PENDING_SLICE_END, SeqCst);
        time_slice::yield_now();
    }
}

/// What a critical section takes past the end of a slice comes off the next one. Over many slices it has no more than
/// an environment that only computes.
fn fault_155_time_past_the_end_is_paid_back(world: &World) -> Outcome {
    let [honest, lingering] = [spawn(world, spin, 0)?, spawn(world, linger, 0)?];
    let had = |child: &Child| [child.info().map_or(0, |info| info.time.load(Relaxed)), slices_of(child)];
    check!(eventually(|| had(&honest)[1] > 8 && had(&lingering)[1] > 8), "they do not run");
    let before = [had(&honest), had(&lingering)];
    check!(eventually(|| had(&lingering)[1] > before[1][1] + 300), "the one that lingers had too few slices");
    let [honest_time, lingering_time] = [had(&honest)[0] - before[0][0], had(&lingering)[0] - before[1][0]];
    let excess = lingering.info().map_or(0, |info| info.excess.load(SeqCst));
    if is_counting() {
        check!(excess == 0, "it came to an excess of {excess}");
        check!(
            lingering_time * 100 <= honest_time * 101,
            "it had {lingering_time} ns where the other had {honest_time} ns"
        );
    }
    granted!(honest.destroy());
    granted!(lingering.destroy());
    Ok(())
}
