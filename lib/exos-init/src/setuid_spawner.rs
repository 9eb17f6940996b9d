//! Successor environments of processes that execute set-id programs. The session makes them like that of the first
//! process, of the image of the library and nothing else, so that no process influences them.
//! `exos_server::programs::setuid_exec` says for which process, and with which credentials.

use crate::boot::{FIRST_BUDGETS, Session};
use abi::capability::Rights;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Acquire;
use exos::process::environment::{self, BORROWED_SLOT, EnvironmentBuilder, EnvironmentRef, PublicPage, StartInfo};
use exos_server::principals::with_key_of;
use linux_abi::address_map::BIRTH;
use linux_abi::errno::{Errno, Result};
use runtime::address_space::Access;
use runtime::predicate::{Operator, Term, word};
use runtime::{EnvironmentId, KeyIndex, PageNumber, exposed, syscall};
use unix_core::session::{first_process, status_page};

/// What the session remembers of them.
#[derive(Debug, Default)]
pub(super) struct SetuidSpawner {
    seen: u64,
    alive: Vec<EnvironmentId>,
    /// Those that have died since the last look for orphans.
    dead: Vec<EnvironmentId>,
}

impl SetuidSpawner {
    /// What becomes true when the server has another wish.
    pub(super) fn term(&self, session: &Session) -> Term {
        word(&session.board.words()[status_page::WISHES], Operator::NotEqual, self.seen)
    }

    /// Those whose end is worth a look.
    pub(super) fn alive(&self) -> impl Iterator<Item = EnvironmentId> {
        self.alive.iter().copied()
    }

    /// Records successors that have died; whether there are any.
    pub(super) fn note_dead(&mut self) -> bool {
        let dead = self.alive.extract_if(.., |number| !exposed::lives(*number));
        self.dead.extend(dead);
        !self.dead.is_empty()
    }

    /// Makes what is wished for.
    pub(super) fn make(&mut self, session: &Session) {
        let now = session.board.words()[status_page::WISHES].load(Acquire);
        if core::mem::replace(&mut self.seen, now) == now {
            return;
        }
        loop {
            let wish = {
                let server = session.state.lock();
                let Some(wish) = server.pending_execs.next() else { return };
                [wish.caller, wish.parent, wish.program, wish.exec_state.0, wish.exec_state.1, wish.origin]
            };
            let made = make(session, wish);
            let number = made.as_ref().map(|made| made.number.0).map_err(|error| *error);
            session.state.lock().start_pending(wish[0], number);
            let Ok(made) = made else { continue };
            match made.run(session.key) {
                Ok(()) => self.alive.push(made.number),
                Err(_) => environment::release(made.number, KeyIndex::FIRST),
            }
        }
    }

    /// Whether an environment is one of them.
    pub(super) fn has(&self, number: EnvironmentId) -> bool {
        self.alive.contains(&number) || self.dead.contains(&number)
    }

    /// Reaps those that had died, and removes them from the table of successors.
    pub(super) fn forget_dead(&mut self, session: &Session) {
        if core::mem::take(&mut self.dead).is_empty() {
            return;
        }
        status_page::succession(session.board.words()).forget(|number| !exposed::lives(EnvironmentId(number)));
    }
}

/// Makes a successor environment for the first of these, which finds the others, by
/// `exos_server::programs::setuid_exec::PendingExec`.
fn make(session: &Session, [caller, parent, program, bundle, bytes, origin]: [u64; 6]) -> Result<EnvironmentRef> {
    let common = &session.common;
    let mut words = session.words;
    for (index, value) in [
        (first_process::COMMAND_WORD, 0),
        (first_process::PREDECESSOR_WORD, caller),
        (first_process::PARENT_WORD, parent),
        (first_process::PROGRAM_WORD, program),
        (first_process::BUNDLE_WORD, bundle),
        (first_process::BUNDLE_BYTES_WORD, bytes),
    ] {
        words[index] = value;
    }
    let public = PageNumber(words[first_process::PUBLIC_WORD]);
    let mut maker = EnvironmentBuilder::begin(common.session, KeyIndex::FIRST, public, Some(common.channel))?;
    maker.link_image(common.image_table)?;
    maker.place(BIRTH, &first_process::build(&words, b""), Access::READ)?;
    let made = maker.begin_with(&StartInfo { borrows: true, ..common.image })?;
    let prepared = prepare(session, &made, origin, caller);
    prepared.map(|()| made.clone()).inspect_err(|_| {
        let page = PublicPage::of(made.public);
        environment::release(made.number, KeyIndex::FIRST);
        page.free(KeyIndex::FIRST);
    })
}

/// Gives it the key of whom it comes from, a budget, and its place in the table.
fn prepare(session: &Session, made: &EnvironmentRef, origin: u64, caller: u64) -> Result<()> {
    with_key_of(session.common.session, origin, |key| {
        Ok(syscall::key_copy(key, u64::from(Rights::ALL.0), made.number, BORROWED_SLOT, KeyIndex::FIRST)?)
    })?;
    made.endow_from(session.key, session.bank, &FIRST_BUDGETS)?;
    let is_noted = status_page::succession(session.board.words()).add(caller, made.number.0);
    if is_noted { Ok(()) } else { Err(Errno::EAGAIN) }
}
