//! Positions that are lent by control transfers: which environment runs in them, which one returns them, and how they
//! come back from a callee that answers, calls further or dies.
#![no_std]
#![no_main]

extern crate alloc;

use abi::budget::Resource;
use abi::syscall::{SYNCHRONOUS, number};
use alloc::format;
use alloc::string::String;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::SeqCst;
use runtime::area::Area;
use runtime::environment::{Builder, Child};
use runtime::transfer::{Kind, Message, call, serve, serve_trusted};
use runtime::{EnvironmentId, Error, Failure, KeyIndex, area, clock, exposed, predicate, syscall, time_slice};
use test_programs::callee::{ENTERED, callee, entered, leave_ready, serve_long, spin_unready, without_slice};
use test_programs::child::{LIMIT, death, eventually, settle, spawn, status};
use test_programs::{Outcome, World, check, granted, guest, refused};

guest! {
    Here a_synchronous_transfer_gives_the_position;
    Here an_asynchronous_transfer_gives_the_slice_only;
    Here an_answer_is_kept_for_who_cannot_be_entered;
    Here the_position_of_a_dead_callee_comes_back;
    Here the_position_comes_back_from_another_slice;
    Here only_the_runner_returns_a_position;
    Here every_position_comes_back_through_a_chain;
    Here who_was_forced_out_in_a_trusting_call_is_answered;
    Here several_positions_are_lent_at_once;
}

/// The positions of CPU 0 that an environment was allocated.
fn positions_of(number: EnvironmentId) -> impl Iterator<Item = usize> {
    exposed::slices(0)
        .iter()
        .enumerate()
        .filter(move |(_, slice)| slice.owner.load(SeqCst) == number.0)
        .map(|(at, _)| at)
}

fn a_synchronous_transfer_gives_the_position(world: &World) -> Outcome {
    let child = without_slice(world, serve_long, 0)?;
    settle(&child)?;
    let own: alloc::vec::Vec<usize> = positions_of(area::number()).collect();
    check!(own.len() == 1, "this environment has {} positions", own.len());
    let mut message: Message = [6, 0, 0, 0, 0, 0];
    granted!(call(Kind::Synchronous, child.number, &mut message));
    check!(
        message[1] == own[0] as u64,
        "in later rounds the callee ran in position {}, not in ours, {}",
        message[1],
        own[0]
    );
    // Transfers write nothing down: the slice is told when the CPU changes hands otherwise.
    time_slice::yield_now();
    let runner = exposed::slices(0)[own[0]].runner.load(SeqCst);
    check!(runner == area::number().0, "after the answer {runner} runs in our position");
    granted!(child.destroy());
    Ok(())
}

fn an_asynchronous_transfer_gives_the_slice_only(world: &World) -> Outcome {
    let child = callee(world)?;
    let own = positions_of(area::number()).next().ok_or("no position")?;
    for _ in 0..50 {
        let mut message: Message = [5; 6];
        granted!(call(Kind::Asynchronous, child.number, &mut message));
        let runner = exposed::slices(0)[own].runner.load(SeqCst);
        check!(runner == area::number().0, "our position runs {runner}");
    }
    granted!(child.destroy());
    Ok(())
}

/// Makes the environment whose area it is given unready while it waits to be entered, four seconds at a time.
extern "C" fn close_for_a_while(area: u64) {
    // SAFETY: the area is its creator's, which shares this address space and outlives this thread.
    let ready = &unsafe { Area::at(area) }.private().ready;
    loop {
        if ready.compare_exchange(1, 0, SeqCst, SeqCst).is_ok() {
            Area::current().status(1).fetch_add(1, SeqCst);
            predicate::sleep_until(clock::now() + 4_000_000_000);
            ready.store(1, SeqCst);
        }
        predicate::sleep_until(clock::now() + 1_000_000);
    }
}

/// A caller that cannot be entered when its answer is there, however long, asks for it afterwards. A position that went
/// with the call comes back with the answer.
fn an_answer_is_kept_for_who_cannot_be_entered(world: &World) -> Outcome {
    let child = without_slice(world, serve_long, 0)?;
    settle(&child)?;
    let mut builder = granted!(Builder::sharing());
    builder.function(close_for_a_while, Area::current().address()).budget(Resource::Slice, 1);
    builder.budget(Resource::Predicate, 8);
    let thread = granted!(builder.create());
    granted!(thread.run(exposed::kernel().cpus.load(SeqCst) - 1, abi::time_slice::ANY_POSITION));
    for (kind, more) in [(Kind::Asynchronous, false), (Kind::Synchronous, false), (Kind::Synchronous, true)] {
        let closings = status(&thread, 1);
        // In a position that was not lent it asks, too.
        let any = time_slice::ANY_POSITION;
        let another =
            if more { Some(granted!(time_slice::allocate(KeyIndex::FIRST, area::number(), 0, any))) } else { None };
        // The thread runs on another CPU, which a busy host may stop for many rounds.
        let end = clock::now() + LIMIT / 2;
        let unchanged = |round: &u64| *round == 0 || clock::now() < end && status(&thread, 1) == closings;
        for round in (0u64..).take_while(unchanged) {
            let mut message: Message = [15, 0, round, 8, 9, 10];
            granted!(call_when_free(kind, child.number, &mut message));
            check!(message[2..] == [round, 8, 9, 10], "{kind:?}, round {round}: the answer was {message:x?}");
            check!(
                eventually(|| runs_in(child.number) == 0),
                "{kind:?}, round {round}: the callee runs in our position"
            );
        }
        check!(status(&thread, 1) > closings, "{kind:?}: the thread never made us unready");
        if let Some(position) = another {
            granted!(time_slice::free(KeyIndex::FIRST, 0, position));
        }
    }
    granted!(thread.destroy());
    granted!(child.destroy());
    Ok(())
}

extern "C" fn die_in_service(_: EnvironmentId, _: &mut Message) {
    runtime::entry::exit(0);
}

extern "C" fn serve_death(_: u64) {
    Area::current().status(1).store(1, SeqCst);
    serve(die_in_service)
}

fn the_position_of_a_dead_callee_comes_back(world: &World) -> Outcome {
    let child = without_slice(world, serve_death, 0)?;
    settle(&child)?;
    let own = positions_of(area::number()).next().ok_or("no position")?;
    let mut message: Message = [0; 6];
    refused!(call(Kind::Synchronous, child.number, &mut message), NoSuchEnvironment);
    let runner = exposed::slices(0)[own].runner.load(SeqCst);
    check!(runner == area::number().0, "our position runs {runner}");
    granted!(child.destroy());
    Ok(())
}

/// Answers only in a slice of another position than it was called in: in its own, or in one that was given to it.
extern "C" fn answer_elsewhere(_: EnvironmentId, message: &mut Message) {
    // Those of CPU 0 have the numbers that they have there.
    let of = |cpu: u64| exposed::cpu(cpu).map_or(0, |info| cpu << 32 | info.position.load(SeqCst));
    let position = || of(area::cpu());
    // What is told is what was looked at: the slice may end after any look.
    message[1] = position();
    while message[1] == message[0] {
        time_slice::yield_now();
        message[1] = position();
    }
}

extern "C" fn serve_elsewhere(_: u64) {
    Area::current().status(1).store(1, SeqCst);
    serve(answer_elsewhere)
}

extern "C" fn give_for_ever(to: u64) {
    loop {
        let _ = time_slice::yield_to(EnvironmentId(to));
        time_slice::yield_now();
    }
}

/// Calls a callee that gets slices: it may be running, or was switched out whole by a busy host, and is called again
/// then.
fn call_when_free(kind: Kind, callee: EnvironmentId, message: &mut Message) -> Result<(), Failure> {
    let mut outcome = Ok(());
    eventually(|| {
        outcome = call(kind, callee, message);
        !outcome.is_err_and(|failure| failure.error == Error::Busy)
    });
    outcome
}

/// A position that was lent comes back also when the callee was resumed in another slice: by a yield, or in its own.
/// The lender runs in every round after that, and the callee in none but its own.
fn the_position_comes_back_from_another_slice(world: &World) -> Outcome {
    for has_slice in [false, true] {
        let child = without_slice(world, serve_elsewhere, 0)?;
        settle(&child)?;
        let giver = if has_slice { None } else { Some(spawn(world, give_for_ever, child.number.0)?) };
        if has_slice {
            granted!(child.run(0, abi::time_slice::ANY_POSITION));
        }
        let own = positions_of(area::number()).next().ok_or("no position")?;
        for round in 0..5 {
            let mut message: Message = [own as u64, 0, 0, 0, 0, 0];
            granted!(call_when_free(Kind::Synchronous, child.number, &mut message));
            check!(message[1] != own as u64, "round {round}: the callee answered in our position");
            let runner = || exposed::slices(0)[own].runner.load(SeqCst);
            let back = eventually(|| runner() == area::number().0);
            check!(back, "round {round}: after the answer {} runs in our position", runner());
            check_rounds(&child, own, has_slice)?;
        }
        if let Some(giver) = giver {
            granted!(giver.destroy());
        }
        granted!(child.destroy());
    }
    Ok(())
}

/// In the next rounds our slice is begun for us, and the callee's for the callee if it has one.
fn check_rounds(child: &Child, own: usize, has_slice: bool) -> Outcome {
    let begun = |number| exposed::environment(number).map_or(0, |info| info.slices.load(SeqCst));
    let (ours, theirs) = (begun(area::number()), begun(child.number));
    for _ in 0..4 {
        time_slice::yield_now();
        let position = exposed::cpu(area::cpu()).map_or(0, |cpu| cpu.position.load(SeqCst));
        check!(position == own as u64, "a slice begins for us in position {position}, not in {own}");
    }
    check!(begun(area::number()) >= ours + 4, "only {} slices began for us", begun(area::number()) - ours);
    let more = begun(child.number) - theirs;
    check!(has_slice || more == 0, "{more} slices began for the callee, which has none");
    Ok(())
}

/// Returns the position that it was lent before it answers, and tells who runs in it then.
extern "C" fn return_first(_: EnvironmentId, message: &mut Message) {
    let here = time_slice::position();
    let outcome = syscall::time_slice_free(KeyIndex::WELL_KNOWN, here.cpu, here.at);
    let runner = exposed::slices(here.cpu)[here.at as usize].runner.load(SeqCst);
    *message = [outcome.err().map_or(0, |failure| failure.error as u64), here.at, runner, 7, 8, 9];
}

extern "C" fn serve_returning(_: u64) {
    Area::current().status(1).store(1, SeqCst);
    serve(return_first)
}

/// The runner of a position returns it. No environment without a key to the owner moves it otherwise.
fn only_the_runner_returns_a_position(world: &World) -> Outcome {
    let own = positions_of(area::number()).next().ok_or("no position")? as u64;
    let runner = |at: u64| exposed::slices(0)[at as usize].runner.load(SeqCst);
    let cpus = exposed::kernel().cpus.load(SeqCst);
    for (cpu, at) in [(cpus, 0), (u64::MAX, 0), (0, abi::limits::SLICES_PER_CPU as u64), (0, u64::MAX)] {
        refused!(syscall::time_slice_free(KeyIndex::WELL_KNOWN, cpu, at), NoSuchSlice);
    }
    let other = spawn(world, spin_unready, 0)?;
    let theirs = positions_of(other.number).next().ok_or("it has no position")? as u64;
    let free = exposed::slices(0).iter().position(|slice| slice.owner.load(SeqCst) == 0).ok_or("no free position")?;
    refused!(syscall::time_slice_free(KeyIndex::WELL_KNOWN, 0, theirs), NotPermitted);
    check!(runner(theirs) == other.number.0, "position {theirs} was moved to {}", runner(theirs));
    refused!(syscall::time_slice_free(KeyIndex::WELL_KNOWN, 0, free as u64), NoSuchSlice);
    check!(runner(free as u64) == 0, "the free position {free} was moved");
    granted!(other.destroy());
    let child = without_slice(world, serve_returning, 0)?;
    settle(&child)?;
    let mut message: Message = [0; 6];
    granted!(call(Kind::Synchronous, child.number, &mut message));
    check!(message == [0, own, area::number().0, 7, 8, 9], "who was lent our position {own} said {message:x?}");
    check!(eventually(|| runner(own) == area::number().0), "our position runs {}", runner(own));
    granted!(child.destroy());
    Ok(())
}

/// Calls the environment that the first word names with the other words, and answers with its answer.
extern "C" fn relay(_: EnvironmentId, message: &mut Message) {
    let [next, words @ ..] = *message;
    let mut asked: Message = core::array::from_fn(|index| words.get(index).copied().unwrap_or(0));
    let outcome = call_when_free(Kind::Synchronous, EnvironmentId(next), &mut asked);
    message[0] = outcome.err().map_or(0, |failure| failure.error as u64);
    message[1..].copy_from_slice(&asked[..5]);
}

extern "C" fn serve_relay(_: u64) {
    Area::current().status(1).store(1, SeqCst);
    serve(relay)
}

/// A position in which an environment other than its owner runs.
fn stray() -> Option<(u64, usize, u64, u64)> {
    let cpus = 0..exposed::kernel().cpus.load(SeqCst);
    cpus.flat_map(|cpu| exposed::slices(cpu).iter().enumerate().map(move |(at, slice)| (cpu, at, slice)))
        .map(|(cpu, at, slice)| (cpu, at, slice.owner.load(SeqCst), slice.runner.load(SeqCst)))
        .find(|(_, _, owner, runner)| owner != runner)
}

/// We call one that calls another, each lending the position, and the last answers in another slice: in one that is
/// given to it, or in its own. The one in the middle, and we, may have slices besides in which no answer comes. In the
/// end everybody runs in its own positions, and everybody had its answer.
fn every_position_comes_back_through_a_chain(world: &World) -> Outcome {
    for case in 0..8 {
        let [last_has, middle_has, more] = [1, 2, 4].map(|bit| case & bit != 0);
        let (last, middle) = (without_slice(world, serve_elsewhere, 0)?, without_slice(world, serve_relay, 0)?);
        settle(&last)?;
        settle(&middle)?;
        let own = positions_of(area::number()).next().ok_or("no position")?;
        let giver = if last_has { None } else { Some(spawn(world, give_for_ever, last.number.0)?) };
        if last_has {
            granted!(last.run(exposed::kernel().cpus.load(SeqCst) - 1, time_slice::ANY_POSITION));
        }
        if middle_has {
            granted!(middle.run(0, time_slice::ANY_POSITION));
        }
        let any = time_slice::ANY_POSITION;
        let another =
            if more { Some(granted!(time_slice::allocate(KeyIndex::FIRST, area::number(), 0, any))) } else { None };
        for round in 0..6u64 {
            let lent = exposed::cpu(0).map_or(own as u64, |cpu| cpu.position.load(SeqCst));
            let mut message: Message = [last.number.0, lent, 0, 7, 8, round];
            granted!(call_when_free(Kind::Synchronous, middle.number, &mut message));
            check!(message[0] == 0, "case {case}, round {round}: the middle was told {}: {}", message[0], death(&last));
            check!(message[3..] == [7, 8, round], "case {case}, round {round}: the answer was {message:x?}");
            check!(message[2] != lent, "case {case}, round {round}: the last answered in our position");
            let settled = eventually(|| stray().is_none());
            check!(settled, "case {case}, round {round}: {:?} is lent", stray());
        }
        if let Some(position) = another {
            granted!(time_slice::free(KeyIndex::FIRST, 0, position));
        }
        for child in [giver, Some(middle), Some(last)].into_iter().flatten() {
            granted!(child.destroy());
        }
    }
    Ok(())
}

fn excess(number: u64) -> u64 {
    exposed::environment(EnvironmentId(number)).map_or(u64::MAX, |info| info.excess.load(SeqCst))
}

/// Answers when its caller was forced out.
extern "C" fn answer_when_forced(caller: EnvironmentId, message: &mut Message) {
    while excess(caller.0) == 0 {
        time_slice::yield_now();
    }
    *message = [1, 2, 3, 4, 5, 6];
}

extern "C" fn serve_when_forced(_: u64) {
    Area::current().status(1).store(1, SeqCst);
    serve_trusted(answer_when_forced)
}

/// Gives its slices to an environment until that was forced out.
extern "C" fn give_until_forced(to: u64) {
    loop {
        if excess(to) == 0 {
            let _ = time_slice::yield_to(EnvironmentId(to));
        }
        time_slice::yield_now();
    }
}

/// Lends its position by a call, overruns a slice that is given to it meanwhile, and waits for its answer.
extern "C" fn overrun_in_a_call(callee: u64) {
    core::mem::forget(runtime::critical_section::enter());
    let area = Area::current();
    area.private().synchronous_entry.store(entered as *const () as u64, SeqCst);
    area.private().asynchronous_entry.store(entered as *const () as u64, SeqCst);
    let mut went = Error::Busy as u64;
    // A busy host may have switched the callee out whole.
    while went == Error::Busy as u64 {
        time_slice::yield_now();
        // A slice that was given to us is not ours to lend.
        while time_slice::position().owner() != area::number() {
            time_slice::yield_now();
        }
        went = leave_ready(SYNCHRONOUS | callee, 0, 0);
    }
    while went != ENTERED {
        while excess(area::number().0) == 0 {
            core::hint::spin_loop();
        }
        went = leave_ready(number::time_slice_yield, 0, 0);
    }
    area.status(1).store(1, SeqCst);
    eventually(|| false);
}

/// A caller is switched out whole while a trusted callee runs in its only position. The callee, which cannot answer,
/// gives it the CPU until it can be entered.
fn who_was_forced_out_in_a_trusting_call_is_answered(world: &World) -> Outcome {
    let callee = without_slice(world, serve_when_forced, 0)?;
    settle(&callee)?;
    let caller = spawn(world, overrun_in_a_call, callee.number.0)?;
    let giver = spawn(world, give_until_forced, caller.number.0)?;
    let answered = eventually(|| status(&caller, 1) == 1 || !callee.alive());
    check!(callee.alive(), "the callee died: {}", death(&callee));
    check!(answered, "no answer came");
    for child in [giver, caller, callee] {
        granted!(child.destroy());
    }
    Ok(())
}

/// Which callee is to answer. The callees share this address space.
static TOLD: AtomicU64 = AtomicU64::new(0);

extern "C" fn answer_when_told(_: EnvironmentId, _: &mut Message) {
    while TOLD.load(SeqCst) != area::number().0 {
        time_slice::yield_now();
    }
}

extern "C" fn serve_when_told(_: u64) {
    Area::current().status(1).store(1, SeqCst);
    serve(answer_when_told)
}

fn callee_beside() -> Result<Child, String> {
    let mut builder = granted!(Builder::sharing());
    builder.function(serve_when_told, 0).budget(Resource::Predicate, 8);
    let callee = granted!(builder.create());
    settle(&callee)?;
    Ok(callee)
}

/// Lends three positions to three callees, one after the other, and gets them back in every order.
fn several_positions_are_lent_at_once(_: &World) -> Outcome {
    let _section = runtime::critical_section::enter();
    let private = Area::current().private();
    private.synchronous_entry.store(entered as *const () as u64, SeqCst);
    private.asynchronous_entry.store(entered as *const () as u64, SeqCst);
    let first = positions_of(area::number()).next().ok_or("no position")? as u64;
    let mut more = [0; 3];
    for position in &mut more {
        *position = granted!(time_slice::allocate(KeyIndex::FIRST, area::number(), 0, abi::time_slice::ANY_POSITION));
    }
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let callees = lend_to_three()?;
        let lent = || callees.each_ref().map(|callee| runs_in(callee.number));
        let mut wanted = [1; 3];
        for which in order {
            TOLD.store(callees[which].number.0, SeqCst);
            let back = eventually(|| leave_ready(number::time_slice_yield, callees[which].number.0, 0) == ENTERED);
            check!(back, "callee {which} does not answer");
            wanted[which] = 0;
            time_slice::yield_now();
            check!(lent() == wanted, "after the answer of {which} the callees run in {:?} positions", lent());
        }
        for callee in callees {
            granted!(callee.destroy());
        }
    }
    for position in more {
        granted!(syscall::time_slice_free(KeyIndex::FIRST, 0, position));
    }
    check!(positions_of(area::number()).eq([first as usize]), "other positions are left than in the beginning");
    Ok(())
}

/// Callees that hold a position of ours each. Where the host has no time for this CPU, we are forced out in our
/// critical section. The transfer that we stood before gives no position then, and all begins again.
fn lend_to_three() -> Result<[Child; 3], String> {
    let mut lent = [0; 3];
    for _ in 0..LENDINGS {
        TOLD.store(0, SeqCst);
        let callees = [callee_beside()?, callee_beside()?, callee_beside()?];
        for callee in &callees {
            let went = leave_ready(SYNCHRONOUS | callee.number.0, 0, 0);
            check!(went == 0, "after the transfer came {went:#x}");
        }
        time_slice::yield_now();
        lent = callees.each_ref().map(|callee| runs_in(callee.number));
        if lent == [1, 1, 1] {
            return Ok(callees);
        }
        for callee in callees {
            granted!(callee.destroy());
        }
    }
    Err(format!("the callees run in {lent:?} positions of ours"))
}

/// So often three positions are lent before a position that was not is taken for lost.
const LENDINGS: u32 = 4;

/// In how many of our positions `runner` runs.
fn runs_in(runner: EnvironmentId) -> usize {
    positions_of(area::number()).filter(|at| exposed::slices(0)[*at].runner.load(SeqCst) == runner.0).count()
}
