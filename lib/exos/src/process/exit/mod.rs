//! The end of a process, and of a thread.
//!
//! The first thread of a process ends it, and the status stands in that thread's public page. The thread that asks for
//! the end records the status and wakes all threads, and the first one waits until the others are gone.

pub(super) mod exit_handoff;
pub mod oom;
pub mod reclaim;
pub mod subreaper;
mod zombie;

use super::children::Child;
use super::exec;
use super::fork::child_start;
use super::fork::vfork_sharing;
use super::futex;
use super::thread::Thread;
use super::thread::thread_create;
use crate::hw::current::area_at;
use crate::process::current::{process, thread};
use crate::terminal::job_control;
use crate::wait;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use linux_raw_sys::general as linux;
use runtime::area;
use runtime::predicate::{Operator, Term, clock, word};
use runtime::{EnvironmentId, KeyIndex, exposed, syscall, time_slice};
use unix_core::process::exit_status::{Change, Status};
use unix_core::process::public_page::{self as public, STATUS_WORD};
use unix_core::process::run_state as state;

/// Ends the running process: all its threads.
pub fn end(status: Status) -> ! {
    let process = process();
    // A second request ends with the status of the first.
    let _ = process.ending.compare_exchange(0, status.to_word(), SeqCst, Relaxed);
    leave()
}

/// Ends the running thread because the process ends.
pub fn leave() -> ! {
    let process = process();
    let thread = thread();
    process.signal.stopped.store(state::ENDS, SeqCst);
    futex::release_robust_list(thread);
    if !process.is_first(thread) {
        ring(EnvironmentId(process.environment()));
        die();
    }
    end_other_threads();
    let status = Status::from_word(process.ending.load(Acquire)).unwrap_or(unix_core::process::exit_status::DESTROYED);
    finish(status)
}

/// The running thread ends by itself; with the last one the process ends.
pub fn end_thread(code: u8) -> ! {
    end_thread_as(Status::Exited(code))
}

/// The same with a status for the end of the process, where this is its first thread.
pub fn end_thread_as(status: Status) -> ! {
    let process = process();
    let thread = thread();
    futex::release_robust_list(thread);
    futex::clear_at_end(thread);
    if process.is_first(thread) {
        futex::release_inheriting(thread);
        process.settle_without(thread);
        wait_to_be_alone();
        end(status);
    }
    process.remove_threads(|other| core::ptr::eq(other, thread));
    process.settle_without(thread);
    futex::release_inheriting(thread);
    super::fork::child_start::publish_threads(process);
    thread.has_left.store(true, Release);
    ring(EnvironmentId(process.environment()));
    die()
}

/// The first thread has ended: it waits for the others, and for the end of the process.
fn wait_to_be_alone() {
    // What calls functions of the program is for the others.
    thread().signals.set_blocked(u64::MAX);
    while process().threads.lock().len() > 1 {
        let _ = wait::wait(&[], Some(runtime::clock::now() + LOOK_AGAIN));
    }
}

/// Nanoseconds after which the first thread looks again at the others.
const LOOK_AGAIN: u64 = 20_000_000;

/// Ends every thread but the running one, which is the first, and takes them back.
pub fn end_other_threads() {
    let process = process();
    let is_other = |thread: &Thread| thread.number() != area::number().0;
    let number = |thread: &Thread| EnvironmentId(thread.number());
    let mut others: Vec<EnvironmentId> =
        process.threads.lock().iter().filter(|thread| is_other(thread)).map(|thread| number(thread)).collect();
    others.iter().for_each(|number| ring(*number));
    // Those that are just ending by themselves.
    others.extend(process.remains.lock().iter().filter(|dead| !dead.is_over()).map(|dead| number(dead.thread)));
    wait_for_deaths(&others);
    process.remove_threads(is_other);
    process.futexes.lock().forget_all();
    thread_create::take_everything_back();
}

/// For a pending exec: the first thread enters the new program, all others end.
pub fn leave_for_exec() -> ! {
    let process = process();
    let thread = thread();
    let first = EnvironmentId(process.environment());
    let before = process.signal.stopped.compare_exchange(state::RUNS, state::EXECS, SeqCst, Acquire);
    if before == Err(state::ENDS) {
        leave();
    }
    if area::number() != first {
        futex::release_robust_list(thread);
        ring(first);
        die();
    }
    let request = process.exec.lock().take();
    be_alone_for_exec();
    match request {
        Some(request) => exec::take_over(&request, None),
        None => end(unix_core::process::exit_status::DESTROYED),
    }
}

/// Ends all other threads, for the first thread of a process that continues alone.
pub fn be_alone_for_exec() {
    let process = process();
    if process.threads.lock().len() > 1 {
        let _ = process.signal.stopped.compare_exchange(state::RUNS, state::EXECS, SeqCst, Acquire);
    }
    end_other_threads();
    process.descriptors.end_all_uses();
    process.descriptors.has_threads.store(false, Relaxed);
    let _ = process.signal.stopped.compare_exchange(state::EXECS, state::RUNS, SeqCst, Acquire);
}

/// Gives threads a while to go by themselves: who is in the middle of something finishes it.
fn wait_for_deaths(numbers: &[EnvironmentId]) {
    const PATIENCE: u64 = 200_000_000;
    let deadline = runtime::clock::now() + PATIENCE;
    loop {
        let alive: Vec<Term> = numbers
            .iter()
            .filter(|number| exposed::lives(**number))
            .filter_map(|number| exposed::environment(*number))
            .map(|info| word(info.state_word(), Operator::NotEqual, abi::environment::State::Alive as u64))
            .collect();
        if alive.is_empty() || runtime::clock::now() >= deadline {
            return;
        }
        wait::wait_stopped(&mut [alive[0], clock(deadline)]);
    }
}

/// Lets go of what others see, leaves the status in the public page, and dies. The parent takes back the rest.
fn finish(status: Status) -> ! {
    let process = process();
    child_start::tell_what_was_written(process);
    // One by one: who closes looks for what is still open.
    loop {
        let open = process.descriptors.table.lock().take_last();
        let Some(description) = open else { break };
        description.close();
    }
    process.descriptors.end_all_uses();
    vfork_sharing::end(process);
    super::sysv_holdings::undo_all(process);
    process.publish_usage();
    process.summary.tell(process);
    process.report_cost();
    job_control::process_ends();
    release_children();
    abandon(status)
}

/// Ends the running process without tidying up: its library may be damaged.
pub fn abandon(status: Status) -> ! {
    publish(status);
    crate::signal::tell_parent_of_end(status);
    die_with_the_first()
}

/// Leaves the status where the parent finds it.
fn publish(status: Status) {
    let process = process();
    // Where the thread ends in the middle of something it may hold this lock itself.
    let is_free = process.signal.parent_mailbox.owner() != area::number();
    let parent = if is_free { process.signal.parent_mailbox.lock().clone() } else { None };
    let is_adopted = process.public_word(public::ADOPTED).load(Acquire) != 0;
    let is_unawaited = !is_adopted && parent.is_some_and(|parent| parent.letters().forgets_children());
    let word = if is_unawaited { status.to_unawaited_word() } else { status.to_word() };
    area_at(process.area.load(Relaxed)).status(STATUS_WORD - STATUS_BASE).store(word, Release);
}

/// Destroys the first thread, with which the process ends, and dies.
fn die_with_the_first() -> ! {
    let process = process();
    let first = EnvironmentId(process.environment());
    if first != area::number() {
        let _ = syscall::environment_destroy(KeyIndex::FIRST, first);
    }
    die()
}

/// Ends the running process, killed by SIGKILL, at any point, where there is no memory. Nothing here allocates memory
/// or takes a lock that the running thread may hold already.
pub fn end_on_the_spot() -> ! {
    const STATUS: Status = Status::Killed(linux::SIGKILL);
    let process = process();
    let may_take = |owner: EnvironmentId| owner != area::number();
    let is_adopted = process.public_word(public::ADOPTED).load(Acquire) != 0;
    if !is_adopted && may_take(process.signal.parent_mailbox.owner()) && !process.attributes.credentials.is_held_here()
    {
        abandon(STATUS);
    }
    // Its parent, who is not told, sees it when it looks.
    publish(STATUS);
    die_with_the_first()
}

/// Dies without a word.
pub fn die() -> ! {
    loop {
        let _ = syscall::environment_destroy(KeyIndex::FIRST, area::number());
        let _ = time_slice::yield_to(EnvironmentId::NONE);
    }
}

fn ring(thread: EnvironmentId) {
    let _ = crate::signal::ring(process().session_key, thread);
}

const STATUS_BASE: usize = (abi::area::PUBLIC_STATUS / 8) as usize;

/// Waits until children have claimed what their parent made for them: pages of a parent that dies belong to no process.
/// A child that tells lies delays the end, no more.
fn wait_to_be_needless(children: &[Child]) {
    const PATIENCE: u64 = 1_000_000_000;
    let deadline = runtime::clock::now() + PATIENCE;
    for child in children {
        while let Some([over, begun]) = child.dependence().filter(|_| runtime::clock::now() < deadline) {
            wait::wait_stopped(&mut [over, begun, clock(deadline)]);
        }
    }
}

/// Children that ended are reaped; the session takes care of the others, in addition to the subreaper that adopts them.
pub(super) fn release_children() {
    let process = process();
    let children = core::mem::take(&mut process.children.lock().all);
    if children.is_empty() {
        process.abandon_nursery();
        if process.may_have_heirs() {
            exit_handoff::hand_off_shared_pages(process, &[]);
        }
        return;
    }
    self::subreaper::hand_on(&children);
    let (ended, alive): (Vec<Child>, Vec<Child>) = children.into_iter().partition(|child| child.status().is_some());
    ended.into_iter().for_each(Child::reap);
    process.abandon_nursery();
    alive.iter().for_each(Child::tell_of_parents_end);
    wait_to_be_needless(&alive);
    if process.may_have_heirs() {
        exit_handoff::hand_off_shared_pages(process, &alive);
    }
    let stopped = |child: &Child| matches!(child.last_change(), Some(Change::Stopped(_)));
    let groups: Vec<(u64, bool)> = alive.iter().map(|child| (child.group(), stopped(child))).collect();
    job_control::orphan_groups(&groups);
}
