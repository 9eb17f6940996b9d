//! The delivery of signals: which comes next, and what comes of it.

use super::frame::Information;
use super::post::{Post, from_user};
use super::set::{self, Default as DefaultAction, UNSTOPPABLE, bit};
use super::{Action, IGNORE, handler, stop};
use crate::errno::Result;
use crate::process::state;
use crate::process::status::Status;
use crate::user_memory::current::{process, thread};
use core::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use linux_raw_sys::general as linux;
use runtime::upcall::Context;

/// A signal that was taken out, and what the program wants done with it.
pub(super) struct Taken {
    /// What came with it.
    pub information: Information,
    /// What is to be done.
    pub action: Action,
    /// Whether it came for this thread alone.
    pub for_thread: bool,
}

/// Sends a signal to the running process itself.
pub fn raise_own(signal: u32) {
    let _ = send_own(signal);
}

/// The same as a program asks for it.
#[inline]
pub fn send_own(signal: u32) -> Result<()> {
    let process = process();
    process.letters.post().put(&from_user(signal, process.sender()))
}

/// Sends a signal to the running thread.
pub fn raise_here(information: &Information) {
    let _ = thread().post().put(information);
}

/// Whether the signal of a fault ends the process: nothing of the program handles it.
pub fn ends_by_fault(signal: u32) -> bool {
    thread().blocked() & bit(signal) != 0 || !process().signals.lock().get(signal).is_handler()
}

/// Sends the signal of a fault: it cannot wait. Where it is blocked or ignored the process ends.
pub fn raise_fault(signal: u32, code: i32, address: u64, fault: [u64; 3]) {
    let thread = thread();
    let ignored = process().signals.lock().get(signal).handler == IGNORE;
    if thread.blocked() & bit(signal) != 0 || ignored {
        crate::process::exit::end(Status::Killed(signal));
    }
    *thread.fault.lock() = Some(fault);
    raise_here(&Information { signal, code, detail: address, value: 0 });
}

/// Signals that wait for the running thread, or for any thread of its process, as far as it does not block them.
pub fn pending() -> u64 {
    waiting() & !thread().blocked()
}

/// Signals that wait for the running thread or its process, blocked or not.
pub fn waiting() -> u64 {
    thread().pending().load(Acquire) | process().letters.signals().load(Acquire)
}

/// Whether there is nothing to act on: no signal that comes through, no question of others, no timer that is due, no mask to put back, and no
/// other thread that decided something for all. That is how nearly every call ends.
#[inline(always)]
pub fn is_quiet() -> bool {
    let (process, thread) = (process(), thread());
    let waiting = thread.pending().load(Acquire) | process.letters.signals().load(Acquire);
    let others = process.stopped.load(Acquire) | process.alarms.soonest() | thread.has_saved_mask.load(Relaxed);
    waiting | others | process.letters.questions().load(Acquire) == 0 || is_quiet_all_the_same(waiting)
}

#[inline(never)]
fn is_quiet_all_the_same(waiting: u64) -> bool {
    let (process, thread) = (process(), thread());
    waiting & !thread.blocked() == 0
        && process.letters.questions().load(Acquire) == 0
        && process.stopped.load(Acquire) == state::RUNS
        && thread.has_saved_mask.load(Relaxed) == 0
        && !process.alarms.is_due()
}

/// Acts on every pending signal that calls no function of the program: drops it, stops, ends. Says whether one is left
/// that does: then a wait is over.
pub fn settle() -> bool {
    if is_quiet() {
        return false;
    }
    let process = process();
    super::expire();
    stop::wait_while_stopped();
    loop {
        answer_questions();
        let Some(signal) = set::first(pending()) else { return false };
        let action = process.signals.lock().get(signal);
        if action.is_handler() {
            return true;
        }
        if let Some(taken) = take(signal) {
            act(&taken);
        }
    }
}

/// Answers what other processes ask.
#[inline]
pub fn answer_questions() {
    if process().letters.questions().load(Acquire) != 0 {
        answer_all();
    }
}

/// Takes the word back before it looks: what is asked after the last look sets it again.
#[cold]
fn answer_all() {
    process().letters.questions().store(0, SeqCst);
    while crate::proc::answer() {}
}

/// Whether a call that the next signal interrupts is made again.
pub fn next_restarts() -> bool {
    let signal = set::first(pending());
    signal.is_none_or(|signal| process().signals.lock().get(signal).has(linux::SA_RESTART))
}

/// Acts on what is pending before the program goes on at `context`.
pub fn deliver_pending(context: &mut Context) {
    if !is_quiet() {
        deliver(context);
    }
}

/// The same where there is something to act on.
pub fn deliver(context: &mut Context) {
    super::expire();
    stop::wait_while_stopped();
    answer_questions();
    while let Some(signal) = set::first(pending()) {
        let Some(taken) = take(signal) else { continue };
        if taken.action.is_handler() {
            return handler::call(context, &taken);
        }
        act(&taken);
    }
    thread().restore_mask();
}

/// Takes a signal out; nothing where another thread was faster.
#[inline(always)]
fn take(signal: u32) -> Option<Taken> {
    let (post, for_thread) = find(signal)?;
    let information = post.take(signal)?;
    let mut actions = process().signals.lock();
    let action = actions.get(signal);
    if action.has(linux::SA_RESETHAND) && action.is_handler() {
        actions.set(signal, Action { handler: Action::default().handler, ..action });
    }
    Some(Taken { information, action, for_thread })
}

#[inline]
fn find(signal: u32) -> Option<(Post<'static>, bool)> {
    let (own, common) = (thread().post(), process().letters.post());
    let has = |post: &Post<'static>| post.pending().load(Acquire) & bit(signal) != 0;
    if has(&own) {
        return Some((own, true));
    }
    has(&common).then_some((common, false))
}

/// Takes one of the signals in `wanted` out for `sigtimedwait` or a descriptor that reads signals.
pub fn take_wanted(wanted: u64) -> Option<Information> {
    let signal = set::first(waiting() & wanted & !UNSTOPPABLE)?;
    find(signal).and_then(|(post, _)| post.take(signal))
}

/// Does what a signal does by itself, where the program does not ignore it.
#[inline(never)]
fn act(taken: &Taken) {
    let signal = taken.information.signal;
    match set::default(signal) {
        _ if taken.action.handler == IGNORE && bit(signal) & UNSTOPPABLE == 0 => {}
        DefaultAction::End => crate::process::exit::end(Status::Killed(signal)),
        DefaultAction::Stop => stop::stop(signal),
        DefaultAction::Ignore | DefaultAction::Continue => {}
    }
}

/// Passes on that the process has signals: to a thread that does not block them, where the one that got the event does.
pub fn pass_on() {
    let process = process();
    let waiting = process.letters.signals().load(Acquire);
    let own = thread();
    if waiting & !own.blocked() == waiting {
        return;
    }
    for other in process.threads.lock().iter().filter(|other| other.number() != own.number()) {
        if waiting & !other.blocked() != 0 {
            let number = runtime::EnvironmentId(other.number.load(Relaxed));
            let _ = super::ring(process.session_key, number);
        }
    }
}
