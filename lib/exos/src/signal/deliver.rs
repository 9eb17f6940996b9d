//! The delivery of signals: which comes next, and what comes of it.

use super::signal_state::{SignalState, signal_state};
use super::thread_signals::{ThreadSignals, thread_signals};
use super::timer_expiry::timers;
use super::{Action, DEFAULT, IGNORE, Inbox, handler, stop};
use crate::attributes::attributes;
use crate::hw::domain::domain;
use crate::hw::thread_context::{ThreadContext, thread_context};
use crate::upcalls::upcalls;
use crate::wait::wait_state;
use core::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use linux_abi::errno::Result;
use linux_raw_sys::general as linux;
use runtime::EnvironmentId;
use runtime::upcall::Context;
use unix_core::process::exit_status::Status;
use unix_core::process::run_state;
use unix_core::signal::frame::Information;
use unix_core::signal::pending::{FIRST_QUEUED, from_user, is_refused_without_room};
use unix_core::signal::set::{self, CONTINUE, CORES, Default as DefaultAction, FAULTS, STOPS, UNSTOPPABLE, bit};

/// A signal that was taken out, and what the program wants done with it.
struct Taken {
    /// What came with it.
    pub information: Information,
    /// The action.
    pub action: Action,
    /// Error code, trap number and address, where a fault raised it.
    pub fault: Option<[u64; 3]>,
}

/// Signals that a call may send to its own thread without the way over a mailbox: what becomes of the others depends on
/// more than the thread.
const SENT_AT_END: u64 = (bit(FIRST_QUEUED) - 1) & !(STOPS | CONTINUE | UNSTOPPABLE);

/// Sends a signal to the running process itself.
pub fn send_own(information: &Information) -> Result<()> {
    let outcome = signal_state().inbox().put(information);
    pass_on();
    // A full queue is the sender's affair only where it asked for queueing.
    if is_refused_without_room(information.code) { outcome } else { Ok(()) }
}

/// The running thread's call sends a signal to its own process, or to this thread of it (`SI_TKILL`), which the end of
/// the call delivers here. False where that is not as simple, and nothing was sent.
#[inline]
pub fn send_at_end(signal: u32, code: i32) -> bool {
    let thread = thread_signals();
    let signal = bit(signal) & SENT_AT_END & !thread.blocked();
    signal != 0 && thread.send_at_end(signal, code)
}

/// Sends the running thread a signal because of what it did itself.
pub fn raise_here(signal: u32) {
    queue_to_self(&from_user(signal, attributes().sender()));
}

/// Kept apart: what it needs of the stack, a fault that is mended does not set up.
#[inline(never)]
fn queue_to_self(information: &Information) {
    let _ = thread_signals().post().put(information);
}

/// Whether the signal of a fault ends the process: nothing of the program handles it.
pub fn ends_by_fault(signal: u32) -> bool {
    thread_signals().blocked() & bit(signal) != 0 || !signal_state().actions.lock().get(signal).is_handler()
}

/// Sends the signal of a fault: it cannot wait. Where it is blocked or ignored the process ends.
pub fn raise_fault(signal: u32, code: i32, address: u64, fault: [u64; 3]) {
    let thread = thread_signals();
    let ignored = signal_state().actions.lock().get(signal).handler == IGNORE;
    if thread.blocked() & bit(signal) != 0 || ignored {
        (upcalls().end)(Status::Killed(signal));
    }
    *thread.fault.lock() = Some(fault);
    queue_to_self(&Information { signal, code, detail: address, value: 0 });
}

/// Signals that wait for the running thread, or for its process where they are this thread's to take, as far as it does
/// not block them.
#[inline(always)]
pub fn pending() -> u64 {
    let thread = thread_signals();
    let common = signal_state().page.signals().load(Acquire);
    thread.pending().load(Acquire) & !thread.blocked() | common & taken_here()
}

/// Signals that wait for the running thread or its process, blocked or not.
pub fn waiting() -> u64 {
    thread_signals().pending().load(Acquire) | signal_state().page.signals().load(Acquire)
}

/// What there is to act on at the end of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PendingWork {
    /// Nothing.
    Nothing,
    /// Nothing but a signal that the call sent to its own thread.
    Sent,
    /// Anything.
    Anything,
}

/// Whether there is work: a signal that comes through, a request of others, a timer that is due, a mask to restore, or
/// what another thread decided for all. Nearly every call ends with nothing. `state` and `thread` are those of the
/// running thread.
#[inline(always)]
pub fn left(state: &SignalState, thread: &ThreadSignals) -> PendingWork {
    let waiting = thread.pending().load(Acquire) | state.page.signals().load(Acquire);
    let others = waiting | state.stopped.load(Acquire) | state.next_timer.load(Acquire);
    let others = others | state.page.questions().load(Acquire);
    let at_end = thread.at_end.load(Relaxed);
    if others | at_end == 0 {
        return PendingWork::Nothing;
    }
    match others {
        0 if thread.has_sent() => PendingWork::Sent,
        _ if at_end == 0 && is_quiet_all_the_same(waiting) => PendingWork::Nothing,
        _ => PendingWork::Anything,
    }
}

/// Whether there is nothing to act on.
#[inline(always)]
pub fn is_quiet() -> bool {
    left(signal_state(), thread_signals()) == PendingWork::Nothing
}

#[inline(never)]
fn is_quiet_all_the_same(waiting: u64) -> bool {
    let (state, thread) = (signal_state(), thread_signals());
    (waiting & !thread.blocked() == 0 || pending() == 0)
        && state.page.questions().load(Acquire) == 0
        && state.stopped.load(Acquire) == run_state::RUNS
        && !state.is_timer_due()
}

/// Acts on every pending signal that calls no function of the program: drops it, stops, ends. Says whether one is left
/// that does: then a wait is over.
pub fn handle_non_handler_signals() -> bool {
    if is_quiet() {
        return false;
    }
    if let Some(sent) = thread_signals().take_sent() {
        put_sent(sent);
    }
    super::expire();
    stop::wait_while_stopped();
    loop {
        answer_questions();
        let Some(signal) = set::first(pending()) else { return false };
        let action = signal_state().actions.lock().get(signal);
        if action.is_handler() {
            return true;
        }
        if let Some(taken) = take(signal) {
            act(&taken);
        }
    }
}

/// Answers what other processes ask, and makes room for signals that find none.
#[inline]
pub fn answer_questions() {
    if signal_state().page.questions().load(Acquire) != 0 {
        answer_all();
    }
}

/// Takes the word back before it looks: what is asked after the last look sets it again.
#[cold]
fn answer_all() {
    signal_state().page.questions().store(0, SeqCst);
    if signal_state().inbox().words.is_full() {
        signal_state().inbox().make_room();
    }
    while (upcalls().answer_request)() {}
}

/// Whether a call that the next signal interrupts is made again.
pub fn next_restarts() -> bool {
    let signal = set::first(pending());
    signal.is_none_or(|signal| signal_state().actions.lock().get(signal).has(linux::SA_RESTART))
}

/// Whether a function of the program handles the next signal.
pub fn next_is_handled() -> bool {
    set::first(pending()).is_some_and(|signal| signal_state().actions.lock().get(signal).is_handler())
}

/// Acts on what is pending before the program resumes at `context`.
pub fn deliver_pending(context: &mut Context) {
    if !is_quiet() {
        deliver(context);
    }
}

/// The same where there is something to act on.
pub fn deliver(context: &mut Context) {
    wait_state().signalled.store(false, Relaxed);
    if let Some(sent) = thread_signals().take_sent() {
        put_sent(sent);
    }
    super::expire();
    stop::wait_while_stopped();
    answer_questions();
    while let Some(signal) = set::first(pending()) {
        let Some(taken) = take(signal) else { continue };
        let Taken { information, action, fault } = &taken;
        if action.is_handler() {
            let parts = (signal_state(), thread_signals());
            let blocked = parts.1.take_saved_mask();
            return handler::call(context, parts, (signal, bit(signal)), action, (blocked, *fault), || *information);
        }
        if fault.is_none() && action.handler == DEFAULT && CORES & bit(signal) != 0 {
            (upcalls().report)(context, signal);
        }
        act(&taken);
    }
    thread_signals().restore_mask();
}

/// Delivers the signal that the call sent to its own thread, where that is the only work: to a function of the program,
/// without the mailbox. `state` and `thread` are those of the running thread. Where it was blocked after all, or calls
/// none, it goes the way of all signals.
#[inline(always)]
pub fn deliver_sent(context: &mut Context, (state, thread): (&SignalState, &ThreadSignals)) {
    let Some((one, code)) = thread.take_sent() else { return };
    let blocked = thread.blocked();
    if blocked & one == 0 {
        let signal = one.trailing_zeros() + 1;
        let action = take_action(state, signal);
        if action.is_handler() {
            let information = || sent_information(one, code);
            return handler::call(context, (state, thread), (signal, one), &action, (blocked, None), information);
        }
    }
    put_sent((one, code));
    deliver(context);
}

#[inline(never)]
fn sent_information(one: u64, code: i32) -> Information {
    Information { code, ..from_user(one.trailing_zeros() + 1, attributes().sender()) }
}

/// A signal that is not queued always finds room.
#[cold]
fn put_sent((one, code): (u64, i32)) {
    let post = if code == linux::SI_TKILL { thread_signals().post() } else { signal_state().inbox() };
    let _ = post.put(&sent_information(one, code));
}

/// Takes a signal out; nothing where another thread was faster.
#[inline]
fn take(signal: u32) -> Option<Taken> {
    let (post, for_thread) = find(signal)?;
    let information = note(post.take(signal)?);
    let action = take_action(signal_state(), signal);
    let fault = if for_thread && FAULTS & bit(signal) != 0 { thread_signals().fault.lock().take() } else { None };
    Some(Taken { information, action, fault })
}

/// What the program wants done with a signal, this time.
#[inline]
pub(super) fn take_action(state: &SignalState, signal: u32) -> Action {
    let mut actions = state.actions.lock();
    let action = actions.get(signal);
    if action.has(linux::SA_RESETHAND) {
        actions.reset(signal);
    }
    action
}

#[inline]
fn find(signal: u32) -> Option<(Inbox<'static>, bool)> {
    let (own, common) = (thread_signals().post(), signal_state().inbox());
    let has = |post: &Inbox<'static>| post.words.pending().load(Acquire) & bit(signal) != 0;
    if has(&own) {
        return Some((own, true));
    }
    has(&common).then_some((common, false))
}

/// Takes one of the signals in `wanted` out for `sigtimedwait` or a descriptor that reads signals.
pub fn take_wanted(wanted: u64) -> Option<Information> {
    let signal = set::first(waiting() & wanted & !UNSTOPPABLE)?;
    find(signal).and_then(|(post, _)| post.take(signal)).map(note)
}

/// What a timer has to remember of a signal that is delivered.
#[inline]
fn note(taken: Information) -> Information {
    if taken.code == linux::SI_TIMER {
        timers().change(|timers| timers.delivered(&taken));
    }
    taken
}

/// Does what a signal does by itself, where the program does not ignore it.
#[inline(never)]
fn act(taken: &Taken) {
    let signal = taken.information.signal;
    match set::default(signal) {
        _ if taken.action.handler == IGNORE && bit(signal) & UNSTOPPABLE == 0 => {}
        DefaultAction::End => (upcalls().end)(Status::Killed(signal)),
        DefaultAction::Stop => stop::stop(signal),
        DefaultAction::Ignore | DefaultAction::Continue => {}
    }
}

/// Passes on that the process has signals: to the threads that take those which the running one does not.
pub fn pass_on() {
    let waiting = signal_state().page.signals().load(Acquire);
    let left = waiting & !taken_here();
    if left == 0 {
        return;
    }
    let (domain, own) = (domain(), thread_context().number());
    (upcalls().each_thread)(&mut |other, signals| {
        if other.number() != own && left & signals.takes(domain.is_first(other)) != 0 {
            let _ = super::ring(domain.session_key, EnvironmentId(other.number()));
        }
    });
}

/// Signals for the process that the running thread takes.
#[inline]
pub(crate) fn taken_here() -> u64 {
    thread_signals().takes(domain().is_first(thread_context()))
}

/// The first thread of the running process that a test is true of.
pub(crate) fn find_thread(
    test: impl Fn(&ThreadContext) -> bool,
) -> Option<(&'static ThreadContext, &'static ThreadSignals)> {
    let mut found = None;
    (upcalls().each_thread)(&mut |context, signals| {
        if found.is_none() && test(context) {
            found = Some((context, signals));
        }
    });
    found
}
