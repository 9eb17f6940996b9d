//! Enforcer of SIGKILL: destroys the environments of a killed process whose library has not ended it by its deadline.
//! It does the same at once to a process that lost an environment to the kernel (`maimed`).
//!
//! The server checks the sender and records the deadline (`exos_server::condemned`). The session holds the key that
//! opens every process. Nothing that the process says is needed for its end: threads are found by the root of the
//! address space, which the kernel records. After that the end looks like any other. The status is in the public page,
//! the parent gets SIGCHLD, and children get the signal that they asked for. Robust mutexes are released. The
//! next look for orphans releases the rest.
//!
//! A subreaper above the process adopts its children. It checks that the process lives and gives them up, so the
//! session asks it first, and destroys the process once they are adopted.

use crate::boot::Session;
use crate::maimed;
use crate::robust_locks::{DeadMemory, RobustList};
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, SeqCst};
use exos::process::exit::subreaper;
use exos::process_table::{ProcessInfo, ProcessTable};
use exos::signal::forgets_children;
use linux_raw_sys::general as linux;
use runtime::address_space::Access;
use runtime::predicate::{Operator, Term, clock, word};
use runtime::window::Window;
use runtime::{EnvironmentId, PageNumber, exposed, syscall};
use unix_core::process::exit_status::DESTROYED;
use unix_core::process::public_page::{self as public, STATUS_WORD};
use unix_core::server::condemned::PATIENCE;
use unix_core::session::status_page;
use unix_core::signal::frame::Information;
use unix_core::signal::pending::from_user;

/// Searches for threads that other threads make meanwhile.
const SEARCHES: usize = 1000;

/// Nanoseconds that a subreaper has to adopt the children of a process, and between two looks whether it has.
const ADOPTION: u64 = 40_000_000;
const BETWEEN_LOOKS: u64 = 2_000_000;

/// A process whose children a subreaper was asked to adopt.
#[derive(Debug)]
struct HandingOn {
    first: u64,
    /// When the session looks whether they are adopted, and when it waits no longer.
    next: u64,
    deadline: u64,
}

impl HandingOn {
    /// Whether the session destroys the process now. Else it looks again later.
    fn is_over(&mut self, session: &Session, now: u64) -> bool {
        if now < self.next {
            return false;
        }
        self.next = now + BETWEEN_LOOKS;
        let sight = session.sight();
        let number = sight.succession.process(self.first);
        now >= self.deadline || !sight.all_and_ended().iter().any(|other| other.parent == number)
    }
}

/// What the session remembers of killed processes.
#[derive(Debug, Default)]
pub(super) struct Enforcer {
    seen: u64,
    next: Option<u64>,
    handing_on: Vec<HandingOn>,
}

impl Enforcer {
    /// What becomes true when another process was killed, or a deadline comes.
    pub(super) fn terms(&self, session: &Session) -> impl Iterator<Item = Term> {
        let killed = word(&session.board.words()[status_page::KILLS], Operator::NotEqual, self.seen);
        [killed].into_iter().chain(self.deadline().map(clock))
    }

    fn deadline(&self) -> Option<u64> {
        self.handing_on.iter().map(|one| one.next).chain(self.next).min()
    }

    /// Destroys those whose deadline has passed; whether there was one.
    pub(super) fn poll(&mut self, session: &Session) -> bool {
        let now = runtime::clock::now();
        let kills = session.board.words()[status_page::KILLS].load(Acquire);
        if kills == self.seen && self.deadline().is_none_or(|next| now < next) {
            return false;
        }
        self.seen = kills;
        let due = {
            let mut server = session.state.lock();
            let due = server.condemned.take_due(now);
            self.next = server.condemned.next();
            due
        };
        let handed_on = self.handing_on.extract_if(.., |one| one.is_over(session, now)).map(|one| one.first);
        let mut ready: Vec<u64> = handed_on.collect();
        for number in due {
            match hand_children_on(session, EnvironmentId(number)) {
                true => self.handing_on.push(HandingOn {
                    first: number,
                    next: now + BETWEEN_LOOKS,
                    deadline: now + ADOPTION,
                }),
                false => ready.push(number),
            }
        }
        let destroyed = ready.into_iter().filter(|number| destroy(session, EnvironmentId(*number))).count();
        destroyed > 0
    }
}

/// Asks a subreaper to adopt the children of a process; whether there is one, and children.
fn hand_children_on(session: &Session, first: EnvironmentId) -> bool {
    let sight = session.sight();
    let Some(info) = exposed::environment(first).filter(|info| info.alive()) else { return false };
    let number = sight.succession.process(first.0);
    let of_process = |other: &ProcessInfo| other.parent == number;
    let children: Vec<u64> =
        sight.all_and_ended().iter().filter(|other| of_process(other)).map(|child| child.environment).collect();
    let public = Window::open(&[PageNumber(info.public.load(Acquire))], sight.key, Access::WRITE);
    let ask = |reaper: &ProcessInfo, path: &str| session.state.lock().ask_for(first.0, reaper, path);
    !children.is_empty() && public.is_ok_and(|public| subreaper::hand_on_for(sight, number, &children, &public, &ask))
}

/// Destroys a process that still lives, or whose first thread the kernel destroyed, with its threads; whether it did.
fn destroy(session: &Session, first: EnvironmentId) -> bool {
    let sight = session.sight();
    let is_due = |info: &exposed::Environment| info.alive() || maimed::process_of(*info, sight.key) == Some(first);
    let Some(info) = exposed::environment(first).filter(is_due) else { return false };
    let root = info.root.load(Acquire);
    let public = Window::open(&[PageNumber(info.public.load(Acquire))], sight.key, Access::WRITE).ok();
    let parent = parent_of(sight, EnvironmentId(info.creator.load(Acquire)), public.as_ref());
    let number = sight.succession.process(first.0);
    let user = public.as_ref().map_or(0, |public| public.words()[public::USER].load(Acquire) & 0xffff_ffff);
    let sender = number & 0xffff_ffff | user << 32;
    let children: Vec<ProcessInfo> = sight.all().into_iter().filter(|other| other.parent == number).collect();
    runtime::log_line!("process {number} is destroyed: its library does not end it");
    let mut memory = DeadMemory::open(PageNumber(root), sight.key);
    let died_before = maimed::threads_of(root);
    let mut threads = destroy_threads(sight, root);
    threads.extend(died_before);
    let shown = |thread: &EnvironmentId| if *thread == first { number } else { thread.0 };
    let lists = threads.iter().filter_map(|thread| RobustList::of(*thread, shown(thread), sight.key));
    for list in lists {
        memory.iter_mut().for_each(|memory| list.release(session, first.0, memory));
    }
    // The program could have written any other status there.
    if let Some(public) = public.as_ref().filter(|_| info.remains()) {
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

/// Destroys all threads below a root: what they were.
fn destroy_threads(sight: ProcessTable, root: u64) -> Vec<EnvironmentId> {
    let mut destroyed = Vec::new();
    for _ in 0..SEARCHES {
        let alive = alive_with_root(root);
        if alive.is_empty() {
            break;
        }
        // One call is enough: it never runs again, and its parent takes the rest back.
        alive.iter().for_each(|number| _ = syscall::environment_destroy(sight.key, *number));
        destroyed.extend(alive);
    }
    destroyed
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
        session.state.lock().condemn(child.environment, PATIENCE);
    }
}
