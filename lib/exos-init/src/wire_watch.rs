//! Restart of the keeper of the wire. An environment that has died, by a panic or by a program's wish, is followed by
//! another one: its connections are reset, and sockets that listen do so again.
//!
//! There is an end to the restarts of keepers that do not live until the card has an address.

use crate::boot::{Session, make_wire_keeper};
use abi::environment::State;
use core::sync::atomic::Ordering::SeqCst;
use runtime::predicate::{Operator, Term, word};
use runtime::{clock, exposed};
use unix_core::server::protocol::NETWORK_DONE;

/// Keepers in a row that are made in the place of such dead ones.
const RESTARTS: u32 = 64;
/// Nanoseconds from one restart to the next.
const APART: u64 = 100_000_000;

/// What the session remembers of it.
#[derive(Debug, Default)]
pub(super) struct WireWatch {
    restarts: u32,
    last: u64,
}

impl WireWatch {
    /// What becomes true when the keeper has died.
    pub(super) fn term(&self, session: &Session) -> Option<Term> {
        let number = session.wire.borrow().as_ref()?.number;
        let info = exposed::environment(number)?;
        Some(word(info.state_word(), Operator::NotEqual, State::Alive as u64))
    }

    /// Makes another one in the place of one that has died.
    pub(super) fn poll(&mut self, session: &Session) {
        let Some(child) = session.wire.take() else { return };
        if child.alive() || self.last > 0 && clock::now() < self.last + APART {
            session.wire.replace(Some(child));
            return;
        }
        let has_served = session.state.lock().server.wire.is_settled;
        let before = if has_served { 0 } else { self.restarts };
        (self.restarts, self.last) = (before + 1, clock::now());
        let number = child.number.0;
        // A dead environment that cannot be taken apart costs its pages and nothing else.
        let _ = child.destroy();
        if self.restarts > RESTARTS {
            runtime::error_line!("chitin: the keeper of the network card died too often: nothing leaves the machine");
        } else {
            match make_wire_keeper(session.name, session.key, session.state) {
                Ok(child) => {
                    session.wire.replace(Some(child));
                    runtime::error_line!("chitin: the keeper of the network card ({number}) died and was made anew");
                }
                Err(why) => runtime::error_line!("chitin: the network card has no keeper any more: {why}"),
            }
        }
        // Requests that wait for the wire ask again.
        session.state.lock().notice_words()[NETWORK_DONE].fetch_add(1, SeqCst);
        exos::wait::kick_idle();
    }
}
