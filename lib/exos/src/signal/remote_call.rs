//! Requests to other processes: the library of the other process is asked, by way of the server, which knows who may
//! (`exos_server::programs::process_requests`).
//!
//! A process that is stopped, or that waits for another one to hand its memory back, does not answer in time.

use super::signal_state::signal_state;
use crate::server::client;
use crate::upcalls::upcalls;
use crate::wait;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Acquire;
use linux_abi::errno::{Errno, Result};
use runtime::predicate::{Operator, clock, word};
use unix_core::server::protocol::{NO_LONGER_WANTED, Request, WINDOW_BYTES};

/// Nanoseconds that a process may take to take a request.
const PATIENCE: u64 = 1_000_000_000;
/// Nanoseconds that it may take for the answer, or for the next part of it: it may have to wait for its CPU.
const PATIENCE_AT_WORK: u64 = 10 * PATIENCE;
/// Kind of an answer that is bytes.
pub(crate) const TEXT: u64 = 0;

/// Has another process do what a request says (`process::request`): its answer.
pub(crate) fn request(number: u64, path: &str) -> Result<Vec<u8>> {
    request_bytes(number, path.as_bytes())
}

/// The same of a request that carries bytes as they are.
pub(crate) fn request_bytes(number: u64, path: &[u8]) -> Result<Vec<u8>> {
    match ask_path(number, path)? {
        (TEXT, bytes) => Ok(bytes),
        _ => Err(Errno::EIO),
    }
}

/// Asks a process by way of the server: the kind of the answer, and its bytes.
pub(crate) fn ask_path(number: u64, path: &[u8]) -> Result<(u64, Vec<u8>)> {
    await_beginning(number);
    let changes = client::changes();
    let question = submit(number, path)?;
    let mut deadline = runtime::clock::now() + PATIENCE;
    let (mut bytes, mut before) = (Vec::new(), 0);
    loop {
        let seen = changes.load(Acquire);
        match take(question, &mut bytes)? {
            Progress::Whole { error: 0, kind } => return Ok((kind, bytes)),
            Progress::Whole { error, .. } => {
                return Err(Errno::from_register(error.wrapping_neg()).unwrap_or(Errno::EIO));
            }
            Progress::Part(now) if now != before => {
                before = now;
                deadline = runtime::clock::now() + PATIENCE_AT_WORK;
            }
            Progress::Part(_) if runtime::clock::now() >= deadline => {
                let words = [question, NO_LONGER_WANTED, 0, 0, 0];
                let _ = client::files().lock().on_object(Request::TakeReply, words);
                return Err(Errno::EACCES);
            }
            Progress::Part(_) => {}
        }
        // The process that is asked may be asking, too.
        super::answer_questions();
        let asked = word(signal_state().page.questions(), Operator::NotEqual, 0);
        wait::wait_stopped(&mut [word(changes, Operator::NotEqual, seen), asked, clock(deadline)]);
    }
}

/// Hands a request to the server, in as many windows as it fills: its number.
fn submit(number: u64, request: &[u8]) -> Result<u64> {
    let (mut question, mut rest) = (0, request);
    loop {
        let (some, more) = rest.split_at(rest.len().min(WINDOW_BYTES as usize));
        let words = [number, some.len() as u64, question, u64::from(!more.is_empty()), 0];
        [question, ..] = client::files().lock().on_object_with(Request::Submit, words, some)?;
        if more.is_empty() {
            return Ok(question);
        }
        rest = more;
    }
}

/// Waits until a child that was just made has begun. Before that, the server may not know it and refuse the request.
fn await_beginning(number: u64) {
    let dependence = || (upcalls().child)(number)?.dependence;
    let deadline = runtime::clock::now() + PATIENCE;
    while let Some([over, begun]) = dependence().filter(|_| runtime::clock::now() < deadline) {
        wait::wait_stopped(&mut [over, begun, clock(deadline)]);
    }
}

/// What there is of an answer.
enum Progress {
    /// 0 until the process that is asked has taken the request; grows with each part of the answer.
    Part(u64),
    /// All of it.
    Whole { error: u64, kind: u64 },
}

/// Takes as much of an answer as is there, once it is whole.
fn take(question: u64, bytes: &mut Vec<u8>) -> Result<Progress> {
    let mut files = client::files().lock();
    loop {
        let words = [question, bytes.len() as u64, 0, 0, 0];
        let [there, error, kind, some, last] = files.on_object(Request::TakeReply, words)?;
        if there == 0 {
            return Ok(Progress::Part(error));
        }
        bytes.extend(files.left(some)?);
        if last != 0 {
            return Ok(Progress::Whole { error, kind });
        }
    }
}
