//! Stopping, and going on: job control's half of signals.

use crate::attributes::attributes;
use crate::hw::current::process;
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
use unix_core::process::run_state as state;
use unix_core::signal::frame::Information;
use unix_core::signal::set::{CONTINUE, STOPS, bit};

/// Stops the process until SIGCONT comes, or a signal that ends it. The signals of the terminal do nothing to an
/// orphaned process group (POSIX.1-2017, 2.4.3).
pub(super) fn stop(signal: u32) {
    let process = process();
    if signal != linux::SIGSTOP && crate::terminal::job_control::is_orphaned(process.group()) {
        return;
    }
    if process.stopped.compare_exchange(state::RUNS, state::STOPPED, SeqCst, Acquire).is_err() {
        return wait_while_stopped();
    }
    let mailbox = process.signal_page;
    let continues = mailbox.post().continues();
    let seen = continues.load(Acquire);
    ring_other_threads();
    announce(Change::Stopped(signal));
    let wanted = CONTINUE | bit(linux::SIGKILL);
    let goes_on = || mailbox.signals().load(Acquire) & wanted != 0 || continues.load(Acquire) != seen;
    while !goes_on() && process.stopped.load(Acquire) == state::STOPPED {
        // What others want to know of it, it tells while it is stopped, too.
        super::answer_questions();
        wait::wait_stopped(&[
            word_masked(mailbox.signals(), wanted, Operator::NotEqual, 0),
            word(continues, Operator::NotEqual, seen),
            word(mailbox.questions(), Operator::NotEqual, 0),
            word(&process.stopped, Operator::NotEqual, state::STOPPED),
        ]);
    }
    if mailbox.signals().load(Acquire) & bit(linux::SIGKILL) != 0 {
        // From here on the parent learns its end, not the stop before.
        note(0);
    } else {
        announce(Change::Continued);
        let_parent_see();
    }
    let _ = process.stopped.compare_exchange(state::STOPPED, state::RUNS, SeqCst, Acquire);
    wait::kick_idle();
}

/// Obeys what another thread decided for all: waits until the process is not stopped, or ends with it.
#[inline]
pub(super) fn wait_while_stopped() {
    if process().stopped.load(Acquire) != state::RUNS {
        obey();
    }
}

#[cold]
fn obey() {
    let stopped = &process().stopped;
    loop {
        match stopped.load(Acquire) {
            state::RUNS => return,
            state::STOPPED => wait::wait_stopped(&[word(stopped, Operator::NotEqual, state::STOPPED)]),
            state::EXECS => (upcalls().leave_for_exec)(),
            _ => (upcalls().leave)(),
        }
    }
}

/// Where the next stop is pending already, a parent that waits for the continued child sees it before that.
fn let_parent_see() {
    let process = process();
    if process.signal_page.signals().load(Acquire) & STOPS != 0 {
        let _ = time_slice::yield_to(EnvironmentId(process.parent.load(Acquire)));
    }
}

fn ring_other_threads() {
    let process = process();
    let own = runtime::area::number().0;
    let others: Vec<u64> =
        process.threads.lock().iter().map(|thread| thread.number()).filter(|number| *number != own).collect();
    for number in others {
        let _ = super::ring(process.session_key, EnvironmentId(number));
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
    let process = process();
    let adopted = process.public_word(public::ADOPTED).load(SeqCst);
    let exit_signal = if adopted == 0 { process.exit_signal.load(Acquire) } else { linux::SIGCHLD };
    let signal = if code <= linux::CLD_DUMPED { exit_signal } else { linux::SIGCHLD };
    let detail = attributes().sender();
    let information = Information { signal, code: code as i32, detail, value: u64::from(value) };
    if adopted != 0 {
        return process_table::tell_adopter(adopted, &information);
    }
    let parent = process.parent_mailbox.lock().clone();
    let Some(parent) = parent else {
        // The session needs no word; a parent that is another user has it from the server.
        if process.principal.load(Acquire) != 0 {
            let _ = crate::server::client::tell_parent(process.server, &information);
        }
        return;
    };
    parent.letters().tell_of_child(&information);
    let number = EnvironmentId(process.parent.load(Acquire));
    let _ = super::ring(process.session_key, number);
}
