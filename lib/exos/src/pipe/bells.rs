//! Bells of a pipe: how a thread that waits for many pipes or Unix sockets is told that one of them changed.
//!
//! The first page of a pipe has two words that ask for bells (`wait::bells`), one for each side that may wait.
//! Invariants:
//! - every change that ends a wait at a side rings there;
//! - a process that is destroyed rings nothing: a sleeper watches the end of a process at the other side, too.

use super::pipe_end::{HOLDERS_TO_READ, HOLDERS_TO_WRITE, Pipe, READERS, Side, WRITERS};
use crate::hw::current::is_adopted;
use crate::wait::bells;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use runtime::clock;
use runtime::predicate::{self, Term};

/// Words of the first page: the bells of the side that reads, and of the side that writes.
const WATCH_TO_READ: usize = 52;
const WATCH_TO_WRITE: usize = 53;
/// The session made it, which calls no server when it writes: it has no bells.
const WITHOUT: usize = 54;

impl Pipe {
    pub(super) fn note_maker(&self) {
        self.word(WITHOUT).store(u64::from(!is_adopted()), Relaxed);
    }

    /// Has the bell ring for a side; false where there are no bells.
    pub(crate) fn ask_for_bell(&self, side: Side, bell: u32) -> bool {
        if self.word(WITHOUT).load(Relaxed) != 0 {
            return false;
        }
        let words = [(side.reads(), WATCH_TO_READ), (side.writes(), WATCH_TO_WRITE)];
        words.into_iter().filter(|(has, _)| *has).for_each(|(_, at)| bells::ask(self.word(at), bell));
        true
    }

    /// True when a process ends that has the other end, where one does that lives.
    pub(crate) fn death_term(&self, side: Side) -> Option<Term> {
        let [lets_go, gone] = match side {
            Side::Read => self.closed(WRITERS, HOLDERS_TO_WRITE),
            Side::Write => self.closed(READERS, HOLDERS_TO_READ),
            Side::Both => return None,
        };
        (lets_go != gone).then_some(gone)
    }

    /// Something changed that a reader, or a writer, waits for.
    #[inline]
    pub(super) fn tell_bells(&self, readers: bool) {
        bells::tell(self.word(if readers { WATCH_TO_READ } else { WATCH_TO_WRITE }));
    }

    /// Something changed at a side that the other one waits for.
    pub(super) fn changed(&self, side: Side) {
        if side.writes() {
            self.tell_bells(true);
        }
        if side.reads() {
            self.tell_bells(false);
        }
        crate::wait::kick_idle();
    }
}

/// The terms of a sleep over bells, with what becomes true by the end of a process at the other side of a pipe. Where
/// there are too many of these, the sleeper looks ten times a second.
pub(crate) fn with_deaths(mut terms: Vec<Term>, deaths: Vec<Term>) -> Vec<Term> {
    const INTERVAL: u64 = 100_000_000;
    let own = terms.len();
    for death in deaths {
        if terms.contains(&death) {
            continue;
        }
        if terms.len() >= crate::wait::MOST_TERMS {
            // Without room for the clock, either, the wait looks each millisecond.
            terms.truncate(own);
            terms.push(predicate::clock(clock::now() + INTERVAL));
            break;
        }
        terms.push(death);
    }
    terms
}
