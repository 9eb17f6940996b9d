//! Protected control transfer: what it carries, who is told, who cannot be entered, and what then.
#![no_std]
#![no_main]

extern crate alloc;

use abi::budget::Resource;
use abi::exposed::CpuState;
use abi::syscall::{ASYNCHRONOUS, number};
use abi::upcall::kind;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::SeqCst;
use runtime::address_space::Access;
use runtime::area::Area;
use runtime::environment::Builder;
use runtime::page::Allocator;
use runtime::predicate::{Operator, Predicate, word};
use runtime::transfer::{Kind, Message, call, serve};
use runtime::upcall::{Context, set_handler};
use runtime::{EnvironmentId, area, exposed, time_slice};
use test_programs::attempt::free_word;
use test_programs::callee::{
    ENTERED, callee, entered, leave_ready, serve_long, serve_sums, spin_unready, without_slice,
};
use test_programs::child::{death, eventually, prepare, settle, sleeps, spawn, status};
use test_programs::{Outcome, World, check, granted, guest, refused};

guest! {
    Here a_call_carries_its_registers;
    Here the_callee_knows_the_caller;
    Here who_was_entered_elsewhere_is_not_forgotten;
    Here the_base_of_fs_passes;
    Here who_is_not_ready_is_not_entered;
    Here fault_43_transfer_to_the_dead_and_to_oneself;
    Here fault_43_calls_in_a_circle;
    Here fault_43_callee_that_never_answers;
    Here fault_43_answer_from_a_stranger;
    Here fault_44_entry_changes_during_transfers;
    Here fault_44_callee_without_an_entry;
    Here fault_43_callers_and_callees_die_on_two_cpus;
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

/// Where [`wait_ready`] is shown the word that it waits for, and its own status words: rounds done, and those in which
/// it was entered.
const SHOWN: u64 = 0x2200_0000;
const DONE: usize = 1;
const ENTERINGS: usize = 2;
/// The only CPU on which it has a position.
const HOME: u64 = 1;

/// Sleeps over a word, ready to be entered meanwhile, and gives the CPU away in each round in which it was entered,
/// while it could go on.
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

/// A sleeper is entered by a transfer on another CPU, and stops there before it is done. Its own CPU, which halts
/// without a time to look again, is told, though no environment kicked it and the awaited word has not changed.
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

/// The caller loses its own position and nothing else, until the callee is gone.
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

/// A call goes to the entry of that moment, and nowhere else.
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

/// Tells where it was entered, and ends.
extern "C" fn tell_where(context: &mut Context) {
    Area::current().status(2).store(1 + context.frame.rip, SeqCst);
    runtime::entry::exit(9);
}

/// Lets itself be called, and has declared an entry where nothing is.
extern "C" fn serve_nowhere(entry: u64) {
    let area = Area::current();
    set_handler(kind::PAGE_FAULT, tell_where);
    set_handler(kind::GENERAL_PROTECTION, tell_where);
    area.private().synchronous_entry.store(entry, SeqCst);
    area.private().asynchronous_entry.store(entry, SeqCst);
    area.private().ready.store(1, SeqCst);
    area.status(1).store(1, SeqCst);
    let never = word(area.status(9), Operator::Equal, 5);
    let _ = Predicate::new().or(&[never]).map(|never| never.wait());
}

/// A callee without an entry, or with one that is not in the user half, is not entered, or meets its own fault there;
/// the caller resumes.
fn fault_44_callee_without_an_entry(world: &World) -> Outcome {
    const USER_HALF: u64 = (1 << 47) - 1;
    for entry in [0, 0x10, 1 << 47, abi::memory_map::KERNEL_IMAGE, 1 << 63 | 0x10, u64::MAX] {
        for way in [Kind::Synchronous, Kind::Asynchronous] {
            let child = without_slice(world, serve_nowhere, entry)?;
            settle(&child)?;
            let mut message: Message = [1; 6];
            let outcome = call(way, child.number, &mut message);
            let entered = status(&child, 2);
            if entered == 0 {
                let is_busy = outcome.is_err_and(|failure| failure.error == abi::Error::Busy);
                check!(is_busy && child.alive(), "entry {entry:#x}: {outcome:?}; {}", death(&child));
            } else {
                check!(entered == 1 + (entry & USER_HALF), "entry {entry:#x}: it was entered at {:#x}", entered - 1);
                check!(child.status() == Some(9), "entry {entry:#x}: {:?}; {}", child.status(), death(&child));
            }
            granted!(child.destroy());
            world.still_whole()?;
        }
    }
    Ok(())
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

/// Callers on up to two CPUs, and the callee, are destroyed in the middle of what they do. No dead environment is
/// entered, and none gets another's answer.
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
