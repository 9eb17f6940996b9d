//! Other processes, by public data: the exposed table of environments, their public pages and mailboxes.
//!
//! Everything read there was written by a stranger: every value has a meaning, and none is trusted. The session looks
//! at processes in the same way, with its own key.

use crate::attributes::attributes;
use crate::hw::domain::domain;
use crate::signal::{self, GROUP};
use crate::upcalls::upcalls;
use abi::budget::Resource;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use runtime::address_space::Access;
use runtime::page::PageKind;
use runtime::window::Window;
use runtime::{EnvironmentId, KeyIndex, PageNumber, clock, exposed};
use unix_core::process::exit_status::Status;
use unix_core::process::prctl_state::Attributes;
use unix_core::process::public_page::{self as public, STATUS_WORD};
use unix_core::session::pid_map::PidMap;
use unix_core::session::status_page;
use unix_core::signal::frame::Information;
use unix_core::signal::pending::from_user;
use unix_core::signal::set::COUNT;

/// What a process says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessInfo {
    /// Its number.
    pub number: u64,
    /// The number of its environment, which may be another one: see `unix_core::session::pid_map`.
    pub environment: u64,
    /// Its parent.
    pub parent: u64,
    /// Whether it adopts those below it whose parents end.
    pub reaps: bool,
    /// Whether it ends, and gives its children up.
    pub gives_up: bool,
    /// Its process group.
    pub group: u64,
    /// Its session.
    pub session: u64,
    /// Page of its mailbox.
    pub mailbox: PageNumber,
    /// Short name of its program.
    pub name: Vec<u8>,
    /// Its arguments, each with its NUL, as far as they fit into the public page.
    pub arguments: Vec<u8>,
    /// Its users, real and effective, as it says.
    pub user: [u32; 2],
    /// Its groups, in the same way.
    pub groups: [u32; 2],
    /// Its priority and policy, as it says.
    pub attributes: Attributes,
    /// When it began, nanoseconds since boot.
    pub start: u64,
    /// Number of the terminal that controls it, and the first page of that; 0: there is none.
    pub terminal: [u64; 2],
    /// Its threads.
    pub threads: u64,
    /// Signals that are pending, and those that it blocks, ignores and handles.
    pub signals: [u64; 4],
    /// Its last change that was no end: see `process::status::Change`.
    pub change: u32,
    /// Whether it has ended and only waits to be waited for: its number and its group are taken as long.
    pub ended: bool,
}

/// Processes, as far as a key shows them.
#[derive(Clone, Copy, Debug)]
pub struct ProcessTable {
    /// The key.
    pub key: KeyIndex,
    /// The session's table of processes with a successor environment.
    pub succession: PidMap<'static>,
}

/// Processes as the running one sees them.
pub fn sight() -> ProcessTable {
    ProcessTable { key: domain().session_key, succession: status_page::succession(domain().board.words()) }
}

/// The living process with this number.
pub fn find(number: u64) -> Option<ProcessInfo> {
    sight().find(number)
}

/// The process with this number, living or not yet waited for.
pub fn find_any(number: u64) -> Option<ProcessInfo> {
    sight().find_any(number)
}

/// Whether a process runs, or would if it had a CPU: it has no predicate. Each watches words, those of signals at
/// least, and is charged for them while it sleeps.
pub fn is_runnable(number: u64) -> bool {
    let number = EnvironmentId(number);
    let sleeps = |info: exposed::Environment| info.budget[Resource::Predicate as usize].used.load(Relaxed) != 0;
    exposed::runs(number) || exposed::environment(number).is_some_and(|info| !sleeps(info))
}

/// Every living process.
pub fn all() -> Vec<ProcessInfo> {
    sight().all()
}

/// Every process, living or not yet waited for.
pub fn all_and_ended() -> Vec<ProcessInfo> {
    sight().all_and_ended()
}

/// A member of a process group, living or not yet waited for, if it has one: those of a group are of one session.
pub fn member(group: u64) -> Option<ProcessInfo> {
    all_and_ended().into_iter().find(|other| other.group == group)
}

/// Whether no member of a process group has a parent in the same session but in another group.
pub fn is_orphaned(group: u64) -> bool {
    let everybody = all();
    let members: Vec<&ProcessInfo> = everybody.iter().filter(|other| other.group == group).collect();
    !members.iter().any(|member| controls_member(&everybody, member))
}

/// Whether the parent of a member of a group controls it: it is in the same session but in another group.
pub fn controls_member(everybody: &[ProcessInfo], member: &ProcessInfo) -> bool {
    let parent = everybody.iter().find(|other| other.number == member.parent);
    parent.is_some_and(|parent| parent.session == member.session && parent.group != member.group)
}

/// The arguments that a process wrote into its public page; a length that cannot be is the longest.
fn arguments(word: impl Fn(usize) -> u64) -> Vec<u8> {
    let length = (word(public::ARGUMENTS) as usize).min(public::ARGUMENT_BYTES);
    let words = (0..length.div_ceil(8)).map(|index| word(public::ARGUMENTS + 1 + index));
    let mut bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    bytes.truncate(length);
    bytes
}

/// The halves of a word.
const fn two(word: u64) -> [u32; 2] {
    [word as u32, (word >> 32) as u32]
}

/// Whether a page can be the mailbox that a process names. The process owns it, or a thread of the process does: they
/// have the same root page. Until the process owns one, its maker owns it, under the list of the public page. A process
/// that names any other page would have senders write where they may and it may not.
fn is_mailbox(page: PageNumber, process: EnvironmentId, public: PageNumber) -> bool {
    let creator = exposed::environment(process).map(|info| EnvironmentId(info.creator.load(Acquire)));
    let (Some(info), Some(public)) = (exposed::page(page), exposed::page(public)) else { return false };
    let is_new = Some(info.owner()) == creator && info.access() == public.access();
    let root = |number| exposed::environment(number).map(|info| info.root.load(Acquire));
    let is_own = |owner| owner == process || root(owner).is_some() && root(owner) == root(process);
    info.kind() == PageKind::Ordinary && (is_new || is_own(info.owner()))
}

impl ProcessTable {
    /// The parent of a process, by who made it and who adopted it: where neither lives, the first process of all.
    pub fn parent(self, made_by: u64, adopted: u64) -> u64 {
        let living = [adopted, made_by].into_iter().find(|number| exposed::lives(EnvironmentId(*number)));
        living.map_or(runtime::entry::FIRST.0, |number| self.succession.process(number))
    }

    /// The living process with this number.
    pub fn find(self, number: u64) -> Option<ProcessInfo> {
        self.find_any(number).filter(|other| !other.ended)
    }

    /// The process with this number, living or not yet waited for. Only its parent may free its parts, and the kernel's
    /// record says until then that it is dying, or a zombie.
    pub fn find_any(self, number: u64) -> Option<ProcessInfo> {
        let environment = EnvironmentId(self.published_environment(number));
        let info = exposed::environment(environment).filter(|info| info.remains())?;
        let ended = !info.alive();
        let process = self.succession.process(environment.0);
        // Its stand-in was waited for: no process asks how it ended.
        if ended && exposed::environment(EnvironmentId(process)).is_none_or(|info| !info.remains()) {
            return None;
        }
        let page = PageNumber(info.public.load(Acquire));
        let public = Window::open(&[page], self.key, Access::READ).ok()?;
        let word = |index: usize| public.words()[index].load(Acquire);
        if word(public::MAGIC) != public::MAGIC_VALUE || ended && Status::is_unawaited(word(STATUS_WORD)) {
            return None;
        }
        let mailbox = PageNumber(word(public::MAILBOX));
        // Nothing is written into the mailbox of an ended process, which may have no owner.
        if !ended && !is_mailbox(mailbox, environment, page) {
            return None;
        }
        let letters = Window::open(&[mailbox], self.key, Access::READ).ok()?;
        let name = [word(public::NAME), word(public::NAME + 1)];
        let name = name.iter().flat_map(|word| word.to_le_bytes()).take_while(|byte| *byte != 0).collect();
        Some(ProcessInfo {
            number: process,
            environment: environment.0,
            parent: self.parent(word(public::PARENT), word(public::ADOPTED)),
            reaps: word(public::REAPS) != 0,
            gives_up: word(public::GIVES_UP) != 0,
            group: letters.words()[GROUP].load(Acquire),
            session: word(public::SESSION),
            mailbox,
            name,
            arguments: arguments(word),
            user: two(word(public::USER)),
            groups: two(word(public::GROUP)),
            attributes: Attributes::from_word(word(public::PRIORITY)),
            start: word(public::START),
            terminal: [word(public::TERMINAL), word(public::TERMINAL + 1)],
            threads: word(public::THREADS).clamp(1, 1 << 20),
            signals: [
                letters.words()[0].load(Acquire),
                word(public::BLOCKED),
                word(public::IGNORED),
                word(public::CAUGHT),
            ],
            change: word(public::CHANGE) as u32,
            ended,
        })
    }

    /// The environment that speaks for a process. A successor that lives and has not published itself takes no signals
    /// yet: until then its predecessor takes them, and forwards them.
    fn published_environment(self, number: u64) -> u64 {
        let last = self.succession.environment(number);
        let Some(before) = self.succession.predecessor(last) else { return last };
        let Some(info) = exposed::environment(EnvironmentId(last)).filter(|info| info.alive()) else { return last };
        let page = PageNumber(info.public.load(Acquire));
        // A page that this process may not read is one of another user, which has been published.
        let Ok(public) = Window::open(&[page], self.key, Access::READ) else { return last };
        if public.words()[public::MAGIC].load(Acquire) == public::MAGIC_VALUE { last } else { before }
    }

    /// Every living process.
    pub fn all(self) -> Vec<ProcessInfo> {
        self.those(exposed::Environment::alive)
    }

    /// Every process, living or not yet waited for.
    pub fn all_and_ended(self) -> Vec<ProcessInfo> {
        self.those(exposed::Environment::remains)
    }

    fn those(self, wanted: fn(exposed::Environment) -> bool) -> Vec<ProcessInfo> {
        let slots = 0..exposed::kernel().environments.load(Acquire);
        let numbers = slots
            .filter_map(exposed::environment_slot)
            .filter(|info| wanted(*info))
            .map(|info| info.number.load(Acquire));
        // A stand-in is no process of its own.
        numbers
            .filter(|number| self.succession.successor(*number).is_none())
            .filter_map(|number| self.find_any(number))
            .collect()
    }

    /// Tells a process that something happened to a child of it.
    pub fn tell_of_child(self, other: &ProcessInfo, information: &Information) -> Result<()> {
        signal::send_of_child(self.key, EnvironmentId(other.environment), other.mailbox, information)
    }

    /// Tells a process that the server has a question for it.
    pub fn tell_of_question(self, other: &ProcessInfo) -> Result<()> {
        signal::send_of_question(self.key, EnvironmentId(other.environment), other.mailbox)
    }

    /// Sends a signal to a process. One that has ended takes every signal, without effect.
    pub fn send(self, other: &ProcessInfo, information: &Information) -> Result<()> {
        if other.ended {
            return Ok(());
        }
        signal::send(self.key, EnvironmentId(other.environment), other.mailbox, information)
    }

    /// Sends a signal to every process of a group.
    pub fn send_to_group(self, group: u64, information: &Information) -> Result<()> {
        self.send_to_some(|other| other.group == group, |other| self.send(other, information))
    }

    /// Looks again until there is no other one. A process that has the signal makes no child before it has acted on it
    /// (`process::fork`), so this finds the children that were being made.
    fn send_to_some(
        self,
        wanted: impl Fn(&ProcessInfo) -> bool,
        send: impl Fn(&ProcessInfo) -> Result<()>,
    ) -> Result<()> {
        /// Processes that handle the signal may go on making children.
        const LOOKS: usize = 20;
        let mut told: Vec<(u64, Result<()>)> = Vec::new();
        for _ in 0..LOOKS {
            let is_new = |other: &ProcessInfo| told.iter().all(|(number, _)| *number != other.number);
            let all = self.all_and_ended();
            let new: Vec<_> = all.iter().filter(|other| wanted(other) && is_new(other)).collect();
            if new.is_empty() {
                break;
            }
            told.extend(new.into_iter().map(|other| (other.number, send(other))));
        }
        match told.iter().any(|(_, outcome)| outcome.is_ok()) {
            true => Ok(()),
            false => Err(told.into_iter().find_map(|(_, outcome)| outcome.err()).unwrap_or(Errno::ESRCH)),
        }
    }
}

/// Sends a signal to one process; 0 only asks whether it is there.
pub fn send(number: u64, information: &Information) -> Result<u64> {
    check(information.signal)?;
    // The number of a thread means its process.
    let is_own = number == domain().number() || is_own_thread(number);
    if is_own {
        return if information.signal == 0 { Ok(0) } else { signal::send_own(information).map(|()| 0) };
    }
    let Some(other) = find_any(number) else { return send_to_unknown(number, information) };
    deliver(&other, information).map(|()| 0)
}

fn is_own_thread(number: u64) -> bool {
    let mut is_own = false;
    (upcalls().each_thread)(&mut |thread, _| is_own |= domain().shown_number(thread) == number);
    is_own
}

/// Sends a signal to another process. To one of this user the way is short: its mailbox can be opened. Else the server
/// decides, who knows the users of both. SIGKILL always goes to the server, who sees to it that the process ends.
fn deliver(other: &ProcessInfo, information: &Information) -> Result<()> {
    let direct = match information.signal {
        _ if !may_signal(other, information.signal) => Err(Errno::EPERM),
        0 => Ok(()),
        linux::SIGKILL if !other.ended => Err(Errno::EPERM),
        _ => sight().send(other, information),
    };
    match direct {
        Err(Errno::EPERM) if !other.ended => signal_by_server(other.environment, information),
        outcome => outcome,
    }
}

/// By the server, which only asks a receiver without room to make some: the sender tries again.
fn signal_by_server(environment: u64, information: &Information) -> Result<()> {
    const TRIES: usize = 20;
    const PAUSE: u64 = 1_000_000;
    let send = || crate::server::client::signal(domain().server, environment, information);
    for _ in 1..TRIES {
        match send() {
            Err(Errno::EAGAIN) => drop(crate::wait::wait(&[], Some(clock::now() + PAUSE))),
            outcome => return outcome,
        }
    }
    send()
}

/// Whether the running process may send a signal to another one: to those of its users, and SIGCONT within its session.
fn may_signal(other: &ProcessInfo, signal: u32) -> bool {
    let [real, effective] = other.user;
    attributes().credentials.lock().may_signal(real, effective)
        || signal == linux::SIGCONT && other.session == attributes().session.load(Relaxed)
}

/// A process that has made its own words unreadable is not found, but the server knows it and can end it. A child
/// that this process has waited for is gone, also while its environment is cached for the next child.
fn send_to_unknown(number: u64, information: &Information) -> Result<u64> {
    let kill = || crate::server::client::signal(domain().server, number, information);
    if information.signal == linux::SIGKILL && !is_reaped_child(number) && kill().is_ok() {
        Ok(0)
    } else {
        send_to_nobody(number)
    }
}

fn is_reaped_child(number: u64) -> bool {
    let creator = exposed::environment(EnvironmentId(number)).map(|info| info.creator.load(Acquire));
    creator == Some(domain().environment()) && (upcalls().child)(number).is_none()
}

/// The first process of all is the session, which has no handlers and takes every signal from user 0, without effect.
/// So does a child that ended before it had begun.
fn send_to_nobody(number: u64) -> Result<u64> {
    if number == runtime::entry::FIRST.0 {
        return if attributes().credentials.lock().may_signal(0, 0) { Ok(0) } else { Err(Errno::EPERM) };
    }
    let is_child = (upcalls().child)(number).is_some_and(|child| !child.is_unawaited);
    if is_child { Ok(0) } else { Err(Errno::ESRCH) }
}

/// Sends a signal to every process of a group.
pub fn send_to_group(group: u64, signal: u32) -> Result<u64> {
    check(signal)?;
    inform_group(group, &from_user(signal, attributes().sender())).map(|()| 0)
}

/// Sends a signal with what came to every process of a group.
pub fn inform_group(group: u64, information: &Information) -> Result<()> {
    sight().send_to_some(|other| other.group == group, |other| deliver(other, information))
}

/// Sends a signal to every other process.
pub fn send_to_all(signal: u32) -> Result<u64> {
    check(signal)?;
    let own = domain().number();
    let information = from_user(signal, attributes().sender());
    sight().send_to_some(|other| other.number != own, |other| deliver(other, &information)).map(|()| 0)
}

fn check(signal: u32) -> Result<()> {
    if signal > COUNT { Err(Errno::EINVAL) } else { Ok(()) }
}

/// Tells who adopted the running process that something happened to it. One of another user looks by itself.
pub fn tell_adopter(adopted: u64, information: &Information) {
    if let Some(other) = find(adopted) {
        let _ = sight().tell_of_child(&other, information);
    }
}
