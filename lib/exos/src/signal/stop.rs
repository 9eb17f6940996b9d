//! Stopping, and going on: job control's half of signals.

use super::signal_state::signal_state;
use crate::attributes::attributes;
use crate::hw::domain::domain;
use crate::process_table;
use crate::upcalls::upcalls;
use crate::wait;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, SeqCst};
use linux_raw_sys::general as linux;
use runtime::EnvironmentId;
use runtime::predicate::{Operator, word, word_masked};
use runtime::time_slice;
use unix_core::process::exit_status::{Change, Status};
use unix_core::process::public_page as public;
use unix_core::process::run_state;
use unix_core::signal::frame::Information;
use unix_core::signal::set::{CONTINUE, STOPS, bit};

/// Stops the process until SIGCONT comes, or a signal that ends it. The signals of the terminal do nothing to an
/// orphaned process group (POSIX.1-2017, 2.4.3).
pub(super) fn stop(signal: u32) {
    let state = signal_state();
    if signal != linux::SIGSTOP && process_table::is_orphaned(state.group()) {
        return;
    }
    if state.stopped.compare_exchange(run_state::RUNS, run_state::STOPPED, SeqCst, Acquire).is_err() {
        return wait_while_stopped();
    }
    let mailbox = state.page;
    let continues = mailbox.post().continues();
    let seen = continues.load(Acquire);
    ring_other_threads();
    announce(Change::Stopped(signal));
    let wanted = CONTINUE | bit(linux::SIGKILL);
    let goes_on = || mailbox.signals().load(Acquire) & wanted != 0 || continues.load(Acquire) != seen;
    while !goes_on() && state.stopped.load(Acquire) == run_state::STOPPED {
        // What others want to know of it, it tells while it is stopped, too.
        super::answer_questions();
        wait::wait_stopped(&mut [
            word_masked(mailbox.signals(), wanted, Operator::NotEqual, 0),
            word(continues, Operator::NotEqual, seen),
            word(mailbox.questions(), Operator::NotEqual, 0),
            word(&state.stopped, Operator::NotEqual, run_state::STOPPED),
        ]);
    }
    if mailbox.signals().load(Acquire) & bit(linux::SIGKILL) != 0 {
        // From here on the parent learns its end, not the stop before.
        note(0);
    } else {
        announce(Change::Continued);
        let_parent_see();
    }
    let _ = state.stopped.compare_exchange(run_state::STOPPED, run_state::RUNS, SeqCst, Acquire);
    wait::kick_idle();
}

/// Obeys what another thread decided for all: waits until the process is not stopped, or ends with it.
#[inline]
pub(super) fn wait_while_stopped() {
    if signal_state().stopped.load(Acquire) != run_state::RUNS {
        obey();
    }
}

#[cold]
fn obey() {
    let stopped = &signal_state().stopped;
    loop {
        match stopped.load(Acquire) {
            run_state::RUNS => return,
            run_state::STOPPED => wait::wait_stopped(&mut [word(stopped, Operator::NotEqual, run_state::STOPPED)]),
            run_state::EXECS => (upcalls().leave_for_exec)(),
            _ => (upcalls().leave)(),
        }
    }
}

/// Where the next stop is pending already, a parent that waits for the continued child sees it before that.
fn let_parent_see() {
    let state = signal_state();
    if state.page.signals().load(Acquire) & STOPS != 0 {
        let _ = time_slice::yield_to(EnvironmentId(state.parent.load(Acquire)));
    }
}

fn ring_other_threads() {
    let (own, mut others) = (runtime::area::number().0, Vec::new());
    (upcalls().each_thread)(&mut |thread, _| others.push(thread.number()));
    for number in others.into_iter().filter(|number| *number != own) {
        let _ = super::ring(domain().session_key, EnvironmentId(number));
    }
}

/// Writes a change where the parent looks, and tells it. The stand-in of this process learns of it only here.
pub fn announce(change: Change) {
    note(change.to_word());
    wait::kick_idle();
    tell_parent(change.information());
}

/// Writes a change, or 0 for none, where the parent looks.
fn note(change: u32) {
    let word = domain().public_word(public::CHANGE);
    let sequence = (word.load(Acquire) >> 32).wrapping_add(1);
    word.store(sequence << 32 | u64::from(change), SeqCst);
}

/// How a process tells its parent of its end.
pub fn tell_parent_of_end(status: Status) {
    tell_parent(status.information());
}

fn tell_parent((code, value): (u32, u32)) {
    let state = signal_state();
    let adopted = domain().public_word(public::ADOPTED).load(SeqCst);
    let exit_signal = if adopted == 0 { state.exit_signal.load(Acquire) } else { linux::SIGCHLD };
    let signal = if code <= linux::CLD_DUMPED { exit_signal } else { linux::SIGCHLD };
    let detail = attributes().sender();
    let information = Information { signal, code: code as i32, detail, value: u64::from(value) };
    if adopted != 0 {
        return process_table::tell_adopter(adopted, &information);
    }
    let parent = state.parent_mailbox.lock().clone();
    let Some(parent) = parent else {
        // The session needs no word; a parent that is another user has it from the server.
        if domain().principal.load(Acquire) != 0 {
            let _ = crate::server::client::tell_parent(domain().server, &information);
        }
        return;
    };
    parent.letters().tell_of_child(&information);
    let number = EnvironmentId(state.parent.load(Acquire));
    let _ = super::ring(domain().session_key, number);
}
