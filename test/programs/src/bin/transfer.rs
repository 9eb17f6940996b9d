//! Protected control transfer: who runs, with what, and who is told; who cannot be entered, and what then.
#![no_std]
#![no_main]

extern crate alloc;

use abi::area::PrivateWords;
use abi::budget::Resource;
use abi::exposed::CpuState;
use abi::syscall::{ASYNCHRONOUS, SYNCHRONOUS, number};
use alloc::string::String;
use core::mem::offset_of;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::SeqCst;
use runtime::address_space::Access;
use runtime::area::Area;
use runtime::environment::{Builder, Child};
use runtime::page::Allocator;
use runtime::predicate::{Operator, Predicate, word};
use runtime::transfer::{Kind, Message, call, serve, serve_trusted};
use runtime::{EnvironmentId, Error, Failure, KeyIndex, area, clock, exposed, predicate, syscall, time_slice};
use test_programs::attempt::free_word;
use test_programs::child::{death, eventually, prepare, settle, sleeps, spawn, status};
use test_programs::{Outcome, World, check, granted, guest, refused};

guest! {
    Here a_call_carries_its_registers;
    Here the_callee_knows_the_caller;
    Here a_synchronous_transfer_gives_the_position;
    Here an_asynchronous_transfer_gives_the_slice_only;
    Here an_answer_is_kept_for_who_cannot_be_entered;
    Here the_position_of_a_dead_callee_comes_back;
    Here the_position_comes_back_from_another_slice;
    Here only_the_runner_returns_a_position;
    Here every_position_comes_back_through_a_chain;
    Here who_was_forced_out_in_a_trusting_call_is_answered;
    Here several_positions_are_lent_at_once;
    Here who_was_entered_elsewhere_is_not_forgotten;
    Here the_base_of_fs_passes;
    Here who_is_not_ready_is_not_entered;
    Here fault_43_transfer_to_the_dead_and_to_oneself;
    Here fault_43_calls_in_a_circle;
    Here fault_43_callee_that_never_answers;
    Here fault_43_answer_from_a_stranger;
    Here fault_44_entry_changes_during_transfers;
    Here fault_43_callers_and_callees_die_on_two_cpus;
}

fn without_slice(world: &World, function: extern "C" fn(u64), argument: u64) -> Result<Child, String> {
    let mut builder = prepare(world, function, argument)?;
    builder.budget(Resource::Slice, 1);
    Ok(granted!(builder.create()))
}

extern "C" fn add_up(caller: EnvironmentId, message: &mut Message) {
    let sum = message.iter().fold(0u64, |sum, word| sum.wrapping_mul(31).wrapping_add(*word));
    *message = [sum, caller.0, message[0], message[1], message[2], message[3]];
    Area::current().status(2).fetch_add(1, SeqCst);
}

extern "C" fn serve_sums(_: u64) {
    Area::current().status(1).store(1, SeqCst);
    serve(add_up)
}

fn callee(world: &World) -> Result<Child, String> {
    let child = without_slice(world, serve_sums, 0)?;
    settle(&child)?;
    Ok(child)
}

/// Calls a server as long as it lives, and counts right answers and wrong ones.
extern "C" fn call_for_ever(server: u64) {
    let mut round = 0u64;
    loop {
        round += 1;
        let kind = if round & 1 == 0 { Kind::Synchronous } else { Kind::Asynchronous };
        let sent: Message = core::array::from_fn(|index| round.wrapping_mul(0x9e37_79b9) << index);
        let mut message = sent;
        if call(kind, EnvironmentId(server), &mut message).is_err() {
            time_slice::yield_now();
            continue;
        }
        let sum = sent.iter().fold(0u64, |sum, word| sum.wrapping_mul(31).wrapping_add(*word));
        let right = message == [sum, area::number().0, sent[0], sent[1], sent[2], sent[3]];
        // A server that dies in the middle gives an answer of all ones, or none.
        let status = if right || message[2] == u64::MAX { 2 } else { 3 };
        Area::current().status(status).fetch_add(1, SeqCst);
    }
}

/// Callers on up to two CPUs, destroyed in the middle of what they do, and the callee, too: nobody is entered who is dead, and
/// nobody gets another's answer.
fn fault_43_callers_and_callees_die_on_two_cpus(world: &World) -> Outcome {
    let cpus = exposed::cpus().count().min(2) as u64;
    for round in 0..2 {
        let server = spawn(world, serve_sums, 0)?;
        let mut callers = alloc::vec::Vec::new();
        for cpu in 0..cpus {
            let caller = without_slice(world, call_for_ever, server.number.0)?;
            granted!(caller.run(cpu, abi::time_slice::ANY_POSITION));
            callers.push(caller);
        }
        let answers = || callers.iter().map(|caller| status(caller, 2)).sum::<u64>();
        check!(eventually(|| answers() > 20), "round {round}: only {} answers came", answers());
        if round % 2 == 0 {
            granted!(server.destroy());
            for caller in callers {
                check!(status(&caller, 3) == 0, "round {round}: {} wrong answers", status(&caller, 3));
                granted!(caller.destroy());
            }
        } else {
            for caller in callers {
                check!(status(&caller, 3) == 0, "round {round}: {} wrong answers", status(&caller, 3));
                granted!(caller.destroy());
            }
            granted!(server.destroy());
        }
    }
    Ok(())
}

fn a_call_carries_its_registers(world: &World) -> Outcome {
    let child = callee(world)?;
    for kind in [Kind::Synchronous, Kind::Asynchronous] {
        for round in 0..200u64 {
            let sent: Message =
                core::array::from_fn(|index| round.wrapping_mul(0x9e37_79b9).rotate_left(index as u32 * 7));
            let mut message = sent;
            granted!(call(kind, child.number, &mut message));
            let sum = sent.iter().fold(0u64, |sum, word| sum.wrapping_mul(31).wrapping_add(*word));
            let expected = [sum, area::number().0, sent[0], sent[1], sent[2], sent[3]];
            check!(message == expected, "{kind:?}, round {round}: {sent:x?} came back as {message:x?}");
        }
    }
    check!(status(&child, 2) == 400, "the callee was entered {} times", status(&child, 2));
    granted!(child.destroy());
    Ok(())
}

fn the_callee_knows_the_caller(world: &World) -> Outcome {
    let child = callee(world)?;
    let mut message: Message = [1 << 40; 6];
    granted!(call(Kind::Synchronous, child.number, &mut message));
    check!(message[1] == area::number().0, "the callee took us for {}", message[1]);
    granted!(child.destroy());
    Ok(())
}

/// Answers after so many milliseconds, which are more than one slice.
extern "C" fn think_long(_: EnvironmentId, message: &mut Message) {
    let end = clock::now() + message[0] * 1_000_000;
    while clock::now() < end {
        core::hint::spin_loop();
    }
    message[1] = exposed::cpu(area::cpu()).map_or(0, |cpu| cpu.position.load(SeqCst));
}

extern "C" fn serve_long(_: u64) {
    Area::current().status(1).store(1, SeqCst);
    serve(think_long)
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
    let lent = message[0];
    while position() == lent {
        time_slice::yield_now();
    }
    message[1] = position();
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

/// Calls a callee that gets slices: it may be running, or was switched out whole by a busy host, and is called again then.
fn call_when_free(kind: Kind, callee: EnvironmentId, message: &mut Message) -> Result<(), Failure> {
    let mut outcome = Ok(());
    eventually(|| {
        outcome = call(kind, callee, message);
        !outcome.is_err_and(|failure| failure.error == Error::Busy)
    });
    outcome
}

/// A position that was lent comes back also when the callee was resumed in another slice: by a yield, or in its own. Who
/// lent it runs in every round after that, and the callee in none but its own.
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
    let outcome = syscall::time_slice_return(here.cpu, here.at);
    let runner = exposed::slices(here.cpu)[here.at as usize].runner.load(SeqCst);
    *message = [outcome.err().map_or(0, |failure| failure.error as u64), here.at, runner, 7, 8, 9];
}

extern "C" fn serve_returning(_: u64) {
    Area::current().status(1).store(1, SeqCst);
    serve(return_first)
}

/// Who runs in a position returns it, its owner to itself; nobody else moves it.
fn only_the_runner_returns_a_position(world: &World) -> Outcome {
    let own = positions_of(area::number()).next().ok_or("no position")? as u64;
    let runner = |at: u64| exposed::slices(0)[at as usize].runner.load(SeqCst);
    granted!(syscall::time_slice_return(0, own));
    check!(runner(own) == area::number().0, "our position runs {}", runner(own));
    let cpus = exposed::kernel().cpus.load(SeqCst);
    for (cpu, at) in [(cpus, 0), (u64::MAX, 0), (0, abi::limits::SLICES_PER_CPU as u64), (0, u64::MAX)] {
        refused!(syscall::time_slice_return(cpu, at), NoSuchSlice);
    }
    let other = spawn(world, spin_unready, 0)?;
    let theirs = positions_of(other.number).next().ok_or("it has no position")? as u64;
    let free = exposed::slices(0).iter().position(|slice| slice.owner.load(SeqCst) == 0).ok_or("no free position")?;
    for at in [theirs, free as u64] {
        let before = runner(at);
        refused!(syscall::time_slice_return(0, at), NotPermitted);
        check!(runner(at) == before, "position {at} was moved from {before} to {}", runner(at));
    }
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

/// A position that somebody else runs in than its owner.
fn stray() -> Option<(u64, usize, u64, u64)> {
    let cpus = 0..exposed::kernel().cpus.load(SeqCst);
    cpus.flat_map(|cpu| exposed::slices(cpu).iter().enumerate().map(move |(at, slice)| (cpu, at, slice)))
        .map(|(cpu, at, slice)| (cpu, at, slice.owner.load(SeqCst), slice.runner.load(SeqCst)))
        .find(|(_, _, owner, runner)| owner != runner)
}

/// We call one that calls another, each lending the position, and the last answers in another slice: in one that is given to
/// it, or in its own. The one in the middle, and we, may have slices besides in which no answer comes. In the end everybody
/// runs in its own positions, and everybody had its answer.
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

/// The stack of [`leave_ready`], and what it returns when it is entered by a transfer.
static LEFT_AT: AtomicU64 = AtomicU64::new(0);
const ENTERED: u64 = 0x100;

/// Makes a call that gives the CPU away, ready to be entered meanwhile: returns [`ENTERED`], or what the call did.
#[unsafe(naked)]
extern "C" fn leave_ready(_word: u64, _first: u64, _second: u64) -> u64 {
    core::arch::naked_asm!(
        "push rbp; push rbx; push r12; push r13; push r14; push r15",
        "mov [rip + {left_at}], rsp",
        "mov rax, rdi",
        "mov rdi, rsi",
        "mov rsi, rdx",
        // To a service this is a call, and not a question for an answer that it kept.
        "xor r12d, r12d",
        "mov qword ptr gs:[{ready}], 1",
        "syscall",
        "mov qword ptr gs:[{ready}], 0",
        "pop r15; pop r14; pop r13; pop r12; pop rbx; pop rbp",
        "ret",
        left_at = sym LEFT_AT, ready = const offset_of!(PrivateWords, ready),
    )
}

#[unsafe(naked)]
extern "C" fn entered() {
    core::arch::naked_asm!(
        "mov qword ptr gs:[{ready}], 0",
        "mov rsp, [rip + {left_at}]",
        "mov eax, {entered}",
        "pop r15; pop r14; pop r13; pop r12; pop rbx; pop rbp",
        "ret",
        left_at = sym LEFT_AT, ready = const offset_of!(PrivateWords, ready), entered = const ENTERED,
    )
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

/// A caller is switched out whole while a trusted callee runs in its only position: the callee, which nobody can answer for,
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
        TOLD.store(0, SeqCst);
        let callees = [callee_beside()?, callee_beside()?, callee_beside()?];
        for callee in &callees {
            let went = leave_ready(SYNCHRONOUS | callee.number.0, 0, 0);
            check!(went == 0, "after the transfer came {went:#x}");
        }
        time_slice::yield_now();
        let lent = || callees.each_ref().map(|callee| runs_in(callee.number));
        check!(lent() == [1, 1, 1], "the callees run in {:?} positions of ours", lent());
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

/// In how many positions of ours somebody runs.
fn runs_in(runner: EnvironmentId) -> usize {
    positions_of(area::number()).filter(|at| exposed::slices(0)[*at].runner.load(SeqCst) == runner.0).count()
}

/// Where [`wait_ready`] is shown the word that it waits for, and its own status words: rounds done, and those in which it was
/// entered.
const SHOWN: u64 = 0x2200_0000;
const DONE: usize = 1;
const ENTERINGS: usize = 2;
/// The only CPU on which it has a position.
const HOME: u64 = 1;

/// Sleeps over a word, ready to be entered meanwhile, and gives the CPU away in each round in which it was entered, while it
/// could go on.
extern "C" fn wait_ready(_: u64) {
    // SAFETY: the creator shows its page here, which holds atomics only.
    let shown = unsafe { &*(SHOWN as *const AtomicU64) };
    let _section = runtime::critical_section::enter();
    let area = Area::current();
    area.private().asynchronous_entry.store(entered as *const () as u64, SeqCst);
    for round in 1.. {
        let Ok(called) = Predicate::new().or(&[word(shown, Operator::GreaterOrEqual, round)]) else { return };
        let terms = called.terms();
        if leave_ready(number::predicate_wait, terms.as_ptr() as u64, terms.len() as u64) == ENTERED {
            area.status(ENTERINGS).fetch_add(1, SeqCst);
            time_slice::yield_now();
        }
        area.status(DONE).store(round, SeqCst);
    }
}

/// Who sleeps is entered by a transfer on another CPU, and stops there before it is done: its own CPU, which halts without a
/// time to look again, is told, though nobody kicked it and the word that was waited for has not changed.
fn who_was_entered_elsewhere_is_not_forgotten(world: &World) -> Outcome {
    let Some(home) = exposed::cpu(HOME) else { return Ok(()) };
    let _section = runtime::critical_section::enter();
    let page = granted!(Allocator::own().allocate());
    let mut builder = prepare(world, wait_ready, 0)?;
    granted!(builder.show(SHOWN, &[page], Access::READ));
    let child = granted!(builder.create());
    granted!(child.run(HOME, time_slice::ANY_POSITION));
    for round in 1..=20 {
        let is_idle = || sleeps(&child) && home.state.load(SeqCst) == CpuState::Idle as u64;
        check!(eventually(is_idle), "round {round}: the child does not sleep");
        let went = leave_ready(ASYNCHRONOUS | child.number.0, 0, 0);
        check!(went == 0, "round {round}: after the transfer came {went:#x}");
        let done = || status(&child, DONE);
        check!(eventually(|| done() == round), "round {round}: the child is at {}: {}", done(), death(&child));
        check!(status(&child, ENTERINGS) == round, "it was entered in {} of {round} rounds", status(&child, ENTERINGS));
    }
    granted!(child.destroy());
    granted!(Allocator::own().free(page));
    Ok(())
}

/// The base of FS, where the CPU has the instruction.
fn fs_base() -> u64 {
    let base: u64;
    // SAFETY: the callers have looked whether the CPU has the instruction.
    unsafe { core::arch::asm!("rdfsbase {}", out(reg) base, options(nomem, nostack, preserves_flags)) };
    base
}

extern "C" fn tell_base(_: EnvironmentId, message: &mut Message) {
    message[0] = fs_base();
    // SAFETY: nothing of this program uses FS.
    unsafe { core::arch::asm!("wrfsbase {}", in(reg) message[1], options(nostack, preserves_flags)) };
}

extern "C" fn serve_base(_: u64) {
    Area::current().status(1).store(1, SeqCst);
    serve(tell_base)
}

/// The base of FS is part of the message, both ways; GS base is not: the runtime would not find its area.
fn the_base_of_fs_passes(world: &World) -> Outcome {
    if !exposed::has(abi::feature::FSGSBASE) {
        return Ok(());
    }
    let child = without_slice(world, serve_base, 0)?;
    settle(&child)?;
    for kind in [Kind::Synchronous, Kind::Asynchronous] {
        let mut message: Message = [0, 0x7654_3000, 0, 0, 0, 0];
        // SAFETY: nothing of this program uses FS.
        unsafe { core::arch::asm!("wrfsbase {}", in(reg) 0x1234_5000u64, options(nostack, preserves_flags)) };
        granted!(call(kind, child.number, &mut message));
        check!((message[0], fs_base()) == (0x1234_5000, 0x7654_3000), "{kind:?}: {:#x}, {:#x}", message[0], fs_base());
    }
    granted!(child.destroy());
    Ok(())
}

extern "C" fn spin_unready(_: u64) {
    Area::current().status(1).store(1, SeqCst);
    loop {
        time_slice::yield_now();
    }
}

fn who_is_not_ready_is_not_entered(world: &World) -> Outcome {
    let child = spawn(world, spin_unready, 0)?;
    check!(eventually(|| status(&child, 1) == 1), "the child does not run");
    let mut message: Message = [0; 6];
    for _ in 0..20 {
        refused!(call(Kind::Synchronous, child.number, &mut message), Busy);
        refused!(call(Kind::Asynchronous, child.number, &mut message), Busy);
    }
    granted!(child.destroy());
    Ok(())
}

fn fault_43_transfer_to_the_dead_and_to_oneself(world: &World) -> Outcome {
    let mut message: Message = [0; 6];
    refused!(call(Kind::Synchronous, area::number(), &mut message), Busy);
    refused!(call(Kind::Asynchronous, area::number(), &mut message), Busy);
    for number in [0u64, 1 << 20, 0xffff_ffff] {
        refused!(call(Kind::Synchronous, EnvironmentId(number), &mut message), NoSuchEnvironment);
    }
    let child = spawn(world, spin_unready, 0)?;
    let number = child.number;
    granted!(child.destroy());
    refused!(call(Kind::Synchronous, number, &mut message), NoSuchEnvironment);
    Ok(())
}

/// Passes the call on to the environment in the message, with a smaller count.
extern "C" fn pass_on(caller: EnvironmentId, message: &mut Message) {
    if message[0] == 0 {
        message[2] = 0x5eed;
        return;
    }
    let mut next: Message = [message[0] - 1, caller.0, 0, 0, 0, 0];
    let outcome = call(Kind::Synchronous, EnvironmentId(message[1]), &mut next);
    message[2] = next[2];
    message[3] = outcome.err().map_or(0, |failure| failure.error as u64);
}

extern "C" fn serve_circle(_: u64) {
    Area::current().status(1).store(1, SeqCst);
    serve(pass_on)
}

/// A calls B, B calls A, which waits for B's answer and cannot serve: the call comes back refused or unanswered.
fn fault_43_calls_in_a_circle(world: &World) -> Outcome {
    let (left, right) = (without_slice(world, serve_circle, 0)?, without_slice(world, serve_circle, 0)?);
    settle(&left)?;
    settle(&right)?;
    let mut straight: Message = [1, right.number.0, 0, 0, 0, 0];
    granted!(call(Kind::Synchronous, left.number, &mut straight));
    check!(straight[2] == 0x5eed, "a call through two gave {straight:x?}");
    for _ in 0..50 {
        let mut circle: Message = [2, right.number.0, 0, 0, 0, 0];
        granted!(call(Kind::Synchronous, left.number, &mut circle));
        check!(circle[2] != 0x5eed, "the circle was served: {circle:x?}");
        let mut straight: Message = [1, right.number.0, 0, 0, 0, 0];
        granted!(call(Kind::Synchronous, left.number, &mut straight));
        check!(straight[2] == 0x5eed, "after a circle a call through two gave {straight:x?}");
    }
    granted!(left.destroy());
    granted!(right.destroy());
    Ok(())
}

extern "C" fn never_answer(_: EnvironmentId, _: &mut Message) {
    Area::current().status(2).store(1, SeqCst);
    loop {
        core::hint::spin_loop();
    }
}

extern "C" fn serve_never(_: u64) {
    Area::current().status(1).store(1, SeqCst);
    serve(never_answer)
}

extern "C" fn call_once(callee: u64) {
    Area::current().status(1).store(1, SeqCst);
    let mut message: Message = [0; 6];
    let outcome = call(Kind::Synchronous, EnvironmentId(callee), &mut message);
    Area::current().status(2).store(outcome.err().map_or(99, |failure| failure.error as u64), SeqCst);
}

/// Who calls loses its own position and nothing else, until the callee is gone.
fn fault_43_callee_that_never_answers(world: &World) -> Outcome {
    let silent = without_slice(world, serve_never, 0)?;
    settle(&silent)?;
    let caller = spawn(world, call_once, silent.number.0)?;
    check!(eventually(|| status(&silent, 2) == 1), "the callee is not entered");
    world.victim.check()?;
    check!(caller.alive() && status(&caller, 2) == 0, "the caller went on without an answer");
    granted!(silent.destroy());
    let gone = abi::Error::NoSuchEnvironment as u64;
    check!(eventually(|| status(&caller, 2) == gone), "the caller was told {}", status(&caller, 2));
    granted!(caller.destroy());
    Ok(())
}

extern "C" fn break_in(target: u64) {
    Area::current().status(1).store(1, SeqCst);
    loop {
        let mut message: Message = [0x666; 6];
        if call(Kind::Asynchronous, EnvironmentId(target), &mut message).is_ok() {
            Area::current().status(2).fetch_add(1, SeqCst);
            Area::current().status(3).store(message[2], SeqCst);
        }
        time_slice::yield_now();
    }
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

/// Who cannot be entered when its answer is there, however long, asks for it afterwards. A position that went with the call
/// comes back with the answer.
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
        for round in (0..8u64).take_while(|round| *round == 0 || status(&thread, 1) == closings) {
            let mut message: Message = [15, 0, round, 8, 9, 10];
            granted!(call_when_free(kind, child.number, &mut message));
            check!(message[2..] == [round, 8, 9, 10], "{kind:?}, round {round}: the answer was {message:x?}");
            check!(eventually(|| runs_in(child.number) == 0), "{kind:?}, round {round}: the callee runs in our position");
        }
        check!(status(&thread, 1) > closings, "{kind:?}: nobody was made unready");
        if let Some(position) = another {
            granted!(time_slice::free(KeyIndex::FIRST, 0, position));
        }
    }
    granted!(thread.destroy());
    granted!(child.destroy());
    Ok(())
}

/// While we wait for one answer another environment enters us: it gets an empty answer, we get ours.
fn fault_43_answer_from_a_stranger(world: &World) -> Outcome {
    let child = without_slice(world, serve_long, 0)?;
    settle(&child)?;
    let stranger = spawn(world, break_in, area::number().0)?;
    for _ in 0..10 {
        let mut message: Message = [4, 0, 7, 8, 9, 10];
        let outcome = call(Kind::Asynchronous, child.number, &mut message);
        check!(outcome.is_ok(), "the call gave {outcome:?}; the callee: {}", death(&child));
        check!(message[2..] == [7, 8, 9, 10], "the answer was {message:x?}");
    }
    check!(stranger.alive(), "the stranger died: {}", death(&stranger));
    if status(&stranger, 2) > 0 {
        check!(status(&stranger, 3) == u64::MAX, "the stranger was answered {:#x}", status(&stranger, 3));
    }
    granted!(stranger.destroy());
    granted!(child.destroy());
    Ok(())
}

/// Free word of the callee's area: the entry that the runtime declared.
const DECLARED: usize = 9;

/// Another entry, which leads to the declared one and changes no register.
#[unsafe(naked)]
extern "C" fn other_entry() {
    core::arch::naked_asm!("jmp gs:[{declared}]", declared = const free_word(DECLARED))
}

/// Changes the entry of the environment whose area it is given, over and over, between the declared one and another.
extern "C" fn flip_entry(area: u64) {
    // SAFETY: the area is its creator's, which shares this address space and outlives this thread.
    let area = unsafe { Area::at(area) };
    let entry = &area.private().synchronous_entry;
    while entry.load(SeqCst) == 0 {
        time_slice::yield_now();
    }
    let declared = entry.load(SeqCst);
    area.library().free[DECLARED].store(declared, SeqCst);
    loop {
        entry.store(other_entry as *const () as u64, SeqCst);
        core::hint::spin_loop();
        entry.store(declared, SeqCst);
        Area::current().status(1).fetch_add(1, SeqCst);
    }
}

extern "C" fn serve_while_flipped(_: u64) {
    let thread = Builder::sharing().and_then(|mut builder| {
        builder.function(flip_entry, Area::current().address()).budget(Resource::Slice, 1);
        let thread = builder.create()?;
        thread.run(exposed::kernel().cpus.load(SeqCst) - 1, time_slice::ANY_POSITION)?;
        Ok(thread)
    });
    if thread.is_ok() {
        serve_sums(0);
    }
}

/// Whatever the entry is just then, a call goes there; nobody is entered anywhere else.
fn fault_44_entry_changes_during_transfers(world: &World) -> Outcome {
    let child = without_slice(world, serve_while_flipped, 0)?;
    settle(&child)?;
    let mut done = 0;
    for round in 0..600u64 {
        let mut message: Message = [round; 6];
        match call(Kind::Synchronous, child.number, &mut message) {
            Ok(()) => {
                check!(message[1] == area::number().0 && message[2] == round, "round {round}: {message:x?} came back");
                done += 1;
            }
            Err(failure) => check!(failure.error == abi::Error::Busy, "round {round}: the call gave {failure:?}"),
        }
        if round % 16 == 0 {
            time_slice::yield_now();
        }
    }
    check!(done > 50 && child.alive(), "{done} calls were answered; {}", death(&child));
    granted!(child.destroy());
    Ok(())
}
