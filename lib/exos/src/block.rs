//! Blocking: always a wakeup predicate, always ended by a signal that is not blocked.

use crate::errno::{Errno, Result};
use crate::user_memory::current::{is_adopted, process};
use crate::user_memory::vectors;
use abi::exposed::CpuState;
use core::sync::atomic::Ordering::{Acquire, SeqCst};
use core::sync::atomic::fence;
use runtime::predicate::{Operator, Predicate, Term, clock, word_masked};
use runtime::{exposed, syscall, time_slice};

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// One of the conditions may hold now: look again.
    Condition,
    /// The time has come.
    TimedOut,
}

/// Waits until one of the terms is true, a time in nanoseconds since boot has come, or a signal came: then `EINTR`.
/// More terms than the kernel takes are looked at again after a millisecond.
pub fn wait(terms: &[Term], deadline: Option<u64>) -> Result<Woken> {
    const ALMOST_ALL: usize = abi::limits::PREDICATE_TERMS - 3;
    const MILLISECOND: u64 = 1_000_000;
    let process = process();
    if process.signals.lock().is_interrupted(&process.mailbox()) {
        return Err(Errno::EINTR);
    }
    let blocked = process.signals.lock().blocked;
    let signal = word_masked(process.mailbox().signals(), !blocked, Operator::NotEqual, 0);
    let mut predicate = Predicate::new().or(&[signal])?;
    for term in terms.iter().take(ALMOST_ALL) {
        predicate = predicate.or(&[*term])?;
    }
    if terms.len() > ALMOST_ALL {
        predicate = predicate.or(&[clock(runtime::clock::now() + MILLISECOND)])?;
    }
    if let Some(deadline) = deadline {
        predicate = predicate.or(&[clock(deadline)])?;
    }
    sleep(&predicate);
    if process.signals.lock().is_interrupted(&process.mailbox()) {
        return Err(Errno::EINTR);
    }
    let late = deadline.is_some_and(|deadline| runtime::clock::now() >= deadline);
    Ok(if late { Woken::TimedOut } else { Woken::Condition })
}

/// Gives the CPU away until the predicate is true, or an upcall came.
fn sleep(predicate: &Predicate) {
    let _vectors = vectors::keep();
    if predicate.wait().is_err() {
        time_slice::yield_now();
    }
}

/// Waits without a process: the session.
pub fn wait_plainly(terms: &[Term]) {
    let mut predicate = Predicate::new();
    for term in terms {
        predicate = match predicate.clone().or(&[*term]) {
            Ok(longer) => longer,
            Err(_) => break,
        };
    }
    if predicate.wait().is_err() {
        time_slice::yield_now();
    }
}

/// Gives the rest of the slice away.
pub fn yield_now() {
    let _vectors = is_adopted().then(vectors::keep);
    time_slice::yield_now();
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
    let _vectors = vectors::keep();
    wait_plainly(terms);
}
