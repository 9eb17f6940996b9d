//! Blocking: always a wakeup predicate, always ended by a signal that calls a function of the program.

use crate::errno::{Errno, Result};
use crate::signal;
use crate::user_memory::current::{is_adopted, process, thread};
use abi::exposed::CpuState;
use core::sync::atomic::Ordering::{Acquire, SeqCst};
use core::sync::atomic::fence;
use runtime::predicate::{Operator, Predicate, Term, clock, word, word_masked};
use runtime::{exposed, syscall, time_slice};

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// One of the conditions may hold now: look again.
    Condition,
    /// The time has come.
    TimedOut,
}

/// Waits until one of the terms is true, a time in nanoseconds since boot has come, or a signal calls a function of the
/// program: then `EINTR`. Signals that stop the process are obeyed here, and the wait goes on. More terms than the kernel
/// takes are looked at again after a millisecond.
pub fn wait(terms: &[Term], deadline: Option<u64>) -> Result<Woken> {
    const ALMOST_ALL: usize = abi::limits::PREDICATE_TERMS - 5;
    const MILLISECOND: u64 = 1_000_000;
    if signal::settle() {
        return Err(Errno::EINTR);
    }
    let mut predicate = Predicate::new();
    for term in signals() {
        predicate.add(&[term])?;
    }
    for term in terms.iter().take(ALMOST_ALL) {
        predicate.add(&[*term])?;
    }
    if terms.len() > ALMOST_ALL {
        predicate.add(&[clock(runtime::clock::now() + MILLISECOND)])?;
    }
    if let Some(time) = deadline.into_iter().chain(process().alarms.next()).min() {
        predicate.add(&[clock(time)])?;
    }
    sleep(&predicate);
    if signal::settle() {
        return Err(Errno::EINTR);
    }
    let late = deadline.is_some_and(|deadline| runtime::clock::now() >= deadline);
    Ok(if late { Woken::TimedOut } else { Woken::Condition })
}

/// What becomes true when a signal comes that this thread does not block, or when the process stops or ends.
fn signals() -> [Term; 3] {
    let (process, thread) = (process(), thread());
    let wanted = !thread.blocked();
    [
        word_masked(process.mailbox().signals(), wanted, Operator::NotEqual, 0),
        word_masked(thread.post().pending(), wanted, Operator::NotEqual, 0),
        word(&process.stopped, Operator::NotEqual, 0),
    ]
}

/// Gives the CPU away until the predicate is true, or an upcall came.
fn sleep(predicate: &Predicate) {
    let mark = thread().account.mark();
    if predicate.wait().is_err() {
        time_slice::yield_now();
    }
    thread().account.note_wait(mark);
}

/// Waits without a process: the session.
pub fn wait_plainly(terms: &[Term]) {
    let mut predicate = Predicate::new();
    for term in terms {
        if predicate.add(&[*term]).is_err() {
            break;
        }
    }
    if predicate.wait().is_err() {
        time_slice::yield_now();
    }
}

/// Gives the rest of the slice away.
pub fn yield_now() {
    if !is_adopted() {
        return time_slice::yield_now();
    }
    let mark = thread().account.mark();
    time_slice::yield_now();
    thread().account.note_wait(mark);
}

/// After a change of a word that others may watch: idle CPUs look again.
pub fn kick_idle() {
    fence(SeqCst);
    for (number, cpu) in exposed::cpus().enumerate() {
        if cpu.state.load(Acquire) == CpuState::Idle as u64 {
            let _ = syscall::cpu_kick(number as u64);
        }
    }
}

/// Waits whatever signals come: a stopped process.
pub fn wait_stopped(terms: &[Term]) {
    let mark = thread().account.mark();
    wait_plainly(terms);
    thread().account.note_wait(mark);
}
