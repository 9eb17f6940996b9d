//! Enforcer of SIGKILL: destroys the environments of a killed process whose library has not ended it by its deadline.
//!
//! The server checks the sender and records the deadline (`server::condemned`). The session holds the key that
//! opens every process. Nothing that the process says is needed for its end: threads are found by the root of the
//! address space, which the kernel records. After that the end looks like any other. The status is in the public page,
//! the parent gets SIGCHLD, and children get the signal that they asked for. The next look for orphans releases the
//! rest.

use super::boot::Session;
use super::status_page;
use crate::process::children::{STATUS_WORD, public};
use crate::process::exit_status::DESTROYED;
use crate::process_table::{ProcessInfo, ProcessTable};
use crate::signal::forgets_children;
use crate::signal::frame::Information;
use crate::signal::pending::from_user;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, SeqCst};
use linux_raw_sys::general as linux;
use runtime::address_space::Access;
use runtime::predicate::{Operator, Term, clock, word};
use runtime::window::Window;
use runtime::{EnvironmentId, PageNumber, exposed, syscall};

/// Searches for threads that other threads make meanwhile.
const SEARCHES: usize = 1000;

/// What the session remembers of killed processes.
#[derive(Debug, Default)]
pub struct Enforcer {
    seen: u64,
    next: Option<u64>,
}

impl Enforcer {
    /// What becomes true when another process was killed, or a deadline comes.
    pub fn terms(&self, session: &Session) -> impl Iterator<Item = Term> {
        let killed = word(&session.board.words()[status_page::KILLS], Operator::NotEqual, self.seen);
        [killed].into_iter().chain(self.next.map(clock))
    }

    /// Destroys those whose deadline has passed; whether there was one.
    pub fn poll(&mut self, session: &Session) -> bool {
        let now = runtime::clock::now();
        let kills = session.board.words()[status_page::KILLS].load(Acquire);
        if kills == self.seen && self.next.is_none_or(|next| now < next) {
            return false;
        }
        self.seen = kills;
        let due = {
            let mut server = session.state.lock();
            let due = server.condemned.take_due(now);
            self.next = server.condemned.next();
            due
        };
        let destroyed = due.into_iter().filter(|number| destroy(session, EnvironmentId(*number))).count();
        destroyed > 0
    }
}

/// Destroys a process that still lives, with its threads; whether it did.
fn destroy(session: &Session, first: EnvironmentId) -> bool {
    let sight = session.sight();
    let Some(info) = exposed::environment(first).filter(|info| info.alive()) else { return false };
    let root = info.root.load(Acquire);
    let public = Window::open(&[PageNumber(info.public.load(Acquire))], sight.key, Access::WRITE).ok();
    let parent = parent_of(sight, EnvironmentId(info.creator.load(Acquire)), public.as_ref());
    let number = sight.succession.process(first.0);
    let user = public.as_ref().map_or(0, |public| public.words()[public::USER].load(Acquire) & 0xffff_ffff);
    let sender = number & 0xffff_ffff | user << 32;
    let children: Vec<ProcessInfo> = sight.all().into_iter().filter(|other| other.parent == number).collect();
    for _ in 0..SEARCHES {
        let alive = alive_with_root(root);
        if alive.is_empty() {
            break;
        }
        // One call is enough: it never runs again, and its parent takes the rest back.
        alive.into_iter().for_each(|number| drop(syscall::environment_destroy(sight.key, number, 0)));
    }
    // The program could have written any other status there.
    if let Some(public) = &public {
        let is_unawaited = parent.as_ref().is_some_and(|parent| forgets_children(sight.key, parent.mailbox));
        let word = if is_unawaited { DESTROYED.to_unawaited_word() } else { DESTROYED.to_word() };
        public.words()[STATUS_WORD].store(word, SeqCst);
    }
    children.iter().for_each(|child| tell_of_parents_end(session, child, sender));
    if let Some(parent) = parent {
        let (code, value) = DESTROYED.information();
        let told = Information { signal: linux::SIGCHLD, code: code as i32, detail: sender, value: u64::from(value) };
        let _ = sight.tell_of_child(&parent, &told);
    }
    true
}

/// A process and its threads share one root, and no other process has it.
fn alive_with_root(root: u64) -> Vec<EnvironmentId> {
    let slots = 0..exposed::kernel().environments.load(Acquire);
    let has_root = |info: &exposed::Environment| info.alive() && info.root.load(Acquire) == root;
    let alive = slots.filter_map(exposed::environment_slot).filter(has_root);
    alive.map(|info| EnvironmentId(info.number.load(Acquire))).collect()
}

/// The parent of a process: its creator by the kernel's record, which may be a thread. Where that is gone, the process
/// that adopted it.
fn parent_of(sight: ProcessTable, creator: EnvironmentId, public: Option<&Window>) -> Option<ProcessInfo> {
    let process_of = |thread: EnvironmentId| {
        let page = PageNumber(exposed::environment(thread)?.public.load(Acquire));
        let public = Window::open(&[page], sight.key, Access::READ).ok()?;
        Some(public.words()[public::PROCESS].load(Acquire)).filter(|process| *process != 0)
    };
    let creator = process_of(creator).unwrap_or(creator.0);
    let adopted = public.map_or(0, |public| public.words()[public::ADOPTED].load(Acquire));
    sight.find(creator).or_else(|| sight.find(adopted).filter(|other| other.reaps))
}

/// Sends a child the signal that it asked for (`PR_SET_PDEATHSIG`).
fn tell_of_parents_end(session: &Session, child: &ProcessInfo, sender: u64) {
    let sight = session.sight();
    let Some(info) = exposed::environment(EnvironmentId(child.environment)) else { return };
    let page = PageNumber(info.public.load(Acquire));
    let Ok(public) = Window::open(&[page], sight.key, Access::READ) else { return };
    let signal = public.words()[public::DEATH_SIGNAL].load(Acquire) as u32;
    if signal != 0 {
        let _ = sight.send(child, &from_user(signal, sender));
    }
    if signal == linux::SIGKILL {
        session.state.lock().condemn(child.environment);
    }
}
