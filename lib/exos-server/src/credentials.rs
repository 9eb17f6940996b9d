//! Credentials of clients: what each may become, which keys go with it, and what it may do to processes of other users.
//!
//! Invariant: a process has the session's key only while one of its users is user 0, by the server's own record.

use super::dispatch::{Answer, Client, FileServer, NOTHING};
use super::main_loop::{OWN_KEY, Server};
use abi::budget::{Figure, Resource};
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, SeqCst};
use exos::budget::{left_in_bank, spare_of};
use exos::process::environment::SESSION_SLOT;
use exos::process_table::{ProcessInfo, ProcessTable};
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use runtime::transfer::Message;
use runtime::{EnvironmentId, PageNumber, clock, exposed, syscall};
use unix_core::process::credentials::{FIRST_APART, IdentityChange};
use unix_core::server::condemned::PATIENCE;
use unix_core::server::protocol::{CAPABILITIES, NO_NEW_PRIVILEGES, WINDOW_BYTES};
use unix_core::session::pid_map::{PAIRS, PidMap};
use unix_core::session::status_page;
use unix_core::signal::frame::Information;
use unix_core::signal::set::COUNT;
use vfs::supplementary_groups::{self, Groups};

/// The part of the unused budget that is for user 0 alone.
pub(super) const ROOT_RESERVE: u64 = 32;

impl Server {
    /// See [`unix_core::server::protocol::Request::SetIdentity`]. Keys that the caller may not have any more are
    /// gone when this answers.
    pub(super) fn set_identity(&mut self, caller: u64, message: &mut Message) -> Result<()> {
        let [_, words @ ..] = *message;
        let wish = IdentityChange::from_words(words).ok_or(Errno::EINVAL)?;
        let client = self.server.clients.get(&caller).ok_or(Errno::EPERM)?;
        let mut identity = client.credentials.clone();
        let before = identity.principal();
        match wish.which {
            0 => {
                // What user 0 keeps it might have done before.
                identity.kept |= wish.kept & identity.permitted();
                identity.change_user(wish.change, wish.wanted)?;
            }
            1 => identity.change_group(wish.change, wish.wanted, true)?,
            NO_NEW_PRIVILEGES => identity.no_new_privileges = true,
            CAPABILITIES => {}
            _ => return Err(Errno::EINVAL),
        }
        if wish.which != NO_NEW_PRIVILEGES {
            identity.renounce(wish.missing);
        }
        if !self.has_threads(caller) {
            identity.held = None;
        }
        let principal = identity.principal();
        if principal != before {
            self.give_key(caller, principal)?;
        }
        message[1] = principal;
        let client = self.server.clients.get_mut(&caller).ok_or(Errno::EPERM)?;
        client.credentials = identity;
        // No process reopens a file under its old credentials: cached handles are released.
        self.server.release_idle(caller)
    }

    /// A process holds the key of another principal from now on; what it has open of the server's it may go on using.
    pub(super) fn give_key(&mut self, process: u64, principal: u64) -> Result<()> {
        let environments = self.environments_of(process);
        self.server.tell_of_held(process, principal)?;
        self.server.keys.give(principal, &environments)
    }

    /// Processes as the server sees them: all of the session.
    fn sight(&self) -> ProcessTable {
        ProcessTable { key: OWN_KEY, succession: self.succession() }
    }

    /// Processes that have a successor environment.
    pub(super) fn succession(&self) -> PidMap<'static> {
        status_page::succession(self.board)
    }

    /// A process and its threads.
    pub(super) fn environments_of(&self, process: u64) -> Vec<EnvironmentId> {
        let threads = self.threads.iter().filter(|(_, speaks_for)| **speaks_for == process);
        [process].into_iter().chain(threads.map(|(thread, _)| *thread)).map(EnvironmentId).collect()
    }

    /// See [`unix_core::server::protocol::Request::ListsForUser`].
    pub(super) fn admit(&mut self, caller: u64, message: &mut Message) -> Result<()> {
        let principal = message[1];
        let identity = &self.server.clients.get(&caller).ok_or(Errno::EPERM)?.credentials;
        if !identity.may_be(principal) && !self.apart_of(caller).any(|own| own.may_be(principal)) {
            return Err(Errno::EPERM);
        }
        // A process that is set apart shares with processes of its user what it has from them.
        let origin = Some(u64::from(identity.user.real)).filter(|_| principal >= FIRST_APART);
        let lists = self.server.keys.admit(principal, origin)?;
        let under = PageNumber(message[2]);
        let is_beside = under != PageNumber::NONE && origin.is_none();
        let common = if is_beside { self.server.keys.admit_beside(principal, under)? } else { lists.common };
        (message[1], message[2]) = (common.0, lists.public.0);
        Ok(())
    }

    /// See [`unix_core::server::protocol::Request::Reowning`]. A process that takes a page over reads the page's
    /// access list, and puts the page under a list that names itself as well. If two processes did so at a time,
    /// one would be lost.
    pub(super) fn note_taking_over(&mut self, caller: u64, message: &mut Message) -> Result<()> {
        const MOST: u64 = 1_000_000_000;
        let (begins, now) = (message[1] != 0, clock::now());
        let is_its = |(holder, until): (u64, u64)| holder == caller && now < until;
        let keeps_out = |(holder, until): (u64, u64)| match holder == caller {
            // Whose time has passed gives others as long.
            true => (until..until + MOST).contains(&now),
            false => now < until && exposed::lives(EnvironmentId(holder)),
        };
        message[1] = 0;
        match (begins, self.taking_over) {
            (true, Some(turn)) if keeps_out(turn) => message[1] = 1,
            (true, Some(turn)) if is_its(turn) => {}
            (true, _) => self.taking_over = Some((caller, now + MOST)),
            (false, Some(turn)) if is_its(turn) => self.taking_over = None,
            (false, _) => {}
        }
        Ok(())
    }

    /// See [`unix_core::server::protocol::Request::DrawBudget`]. A part stays for user 0, so that user 0 can
    /// always end a shortage.
    pub(super) fn draw(&mut self, caller: EnvironmentId, message: &Message) -> Result<()> {
        let [_, to, resource, amount, at_end, _] = *message;
        let resource = Resource::ALL.into_iter().find(|known| *known as u64 == resource).ok_or(Errno::EINVAL)?;
        let info = exposed::environment(EnvironmentId(to)).ok_or(Errno::ESRCH)?;
        let process = self.threads.get(&caller.0).copied().unwrap_or(caller.0);
        let is_client = self.server.clients.contains_key(&process);
        if !is_client || to != caller.0 && info.creator.load(Acquire) != caller.0 {
            return Err(Errno::EPERM);
        }
        // A process that ends may draw more, but not all: any process could claim to end.
        let kept = match (resource, at_end) {
            (Resource::Page, 0) => self.kept_for_zero[resource as usize].max(left_in_bank(caller)),
            _ => self.kept_for_zero[resource as usize] >> at_end.min(1),
        };
        if spare_of(self.bank, resource).saturating_sub(amount) < kept {
            return Err(Errno::EAGAIN);
        }
        let (bank, figure) = (self.bank, Figure::Limit as u64);
        Ok(syscall::budget_move(SESSION_SLOT, bank, EnvironmentId(to), resource as u64, figure, amount)?)
    }

    /// See [`unix_core::server::protocol::Request::Signal`].
    pub(super) fn signal(&mut self, caller: u64, message: &Message) -> Result<()> {
        let [_, target, signal, code, value, _] = *message;
        let sender = &self.server.clients.get(&caller).ok_or(Errno::EPERM)?.credentials;
        let target = self.succession().environment(target);
        let receiver = &self.server.clients.get(&target).ok_or(Errno::ESRCH)?.credentials;
        let sight = self.sight();
        let other = sight.find(target).ok_or(Errno::ESRCH);
        let session_of = |found: Option<&ProcessInfo>| found.map(|other| other.session);
        let is_of_session = || session_of(sight.find(caller).as_ref()) == session_of(other.as_ref().ok());
        let continues = signal == u64::from(linux::SIGCONT) && other.is_ok() && is_of_session();
        if !sender.may_signal(receiver.user.real, receiver.user.saved) && !continues {
            return Err(Errno::EPERM);
        }
        let Some(information) =
            information(self.succession().process(caller), sender.user.real, [signal, code, value])?
        else {
            return Ok(());
        };
        if information.signal != linux::SIGKILL {
            return sight.send(&other?, &information);
        }
        // The kernel's record tells a process that hides its words from one that is gone.
        if other.is_err() && !exposed::lives(EnvironmentId(target)) {
            return Err(Errno::ESRCH);
        }
        self.condemn(target, PATIENCE);
        // A process that has made its words unreadable ends at its deadline.
        other.and_then(|other| sight.send(&other, &information)).or(Ok(()))
    }

    /// Gives a process that is to end a deadline, `patience` nanoseconds from now. Then the session destroys what still
    /// lives of it. The environments that it stands in for see its end by themselves, if their libraries are whole.
    pub fn condemn(&mut self, environment: u64, patience: u64) {
        let succession = self.succession();
        let before = core::iter::successors(succession.predecessor(environment), |one| succession.predecessor(*one));
        let now = clock::now();
        self.condemned.add(environment, now.saturating_add(patience));
        before.take(PAIRS).for_each(|number| self.condemned.add(number, now.saturating_add(PATIENCE)));
        self.board[status_page::KILLS].fetch_add(1, SeqCst);
        exos::wait::kick_idle();
    }

    /// See [`unix_core::server::protocol::Request::Submit`].
    pub(super) fn ask(&mut self, caller: u64, message: &mut Message) -> Result<()> {
        let sight = self.sight();
        let other = sight.find(message[1]).ok_or(Errno::ESRCH)?;
        let words = [other.environment, message[2], message[3], message[4]];
        let answer = self.server.ask(caller, words, || sight.tell_of_question(&other))?;
        message[1] = answer[0];
        Ok(())
    }

    /// Asks a process something for another one, which never takes the answer: it is about to be destroyed.
    pub fn ask_for(&mut self, caller: u64, asked: &ProcessInfo, path: &str) -> Result<()> {
        let sight = self.sight();
        self.server.submit(caller, asked.environment, (path.into(), true), || sight.tell_of_question(asked)).map(drop)
    }

    /// See [`unix_core::server::protocol::Request::NotifyParent`]. The parent is who made the process, by the
    /// kernel's word.
    pub(super) fn tell_parent(&mut self, caller: u64, message: &Message) -> Result<()> {
        let [_, signal, code, value, ..] = *message;
        let creator = exposed::environment(EnvironmentId(caller)).ok_or(Errno::ESRCH)?.creator.load(Acquire);
        let parent = self.threads.get(&creator).copied().unwrap_or(creator);
        let user = self.server.clients.get(&caller).ok_or(Errno::EPERM)?.credentials.user.real;
        let sight = self.sight();
        let other = sight.find(parent).ok_or(Errno::ESRCH)?;
        let allowed = [0, u64::from(linux::SIGCHLD)].contains(&signal);
        let signal = if allowed { signal } else { u64::from(linux::SIGCHLD) };
        let told = Information { signal: signal as u32, code: code as i32, ..Information::default() };
        let detail = self.succession().process(caller) & 0xffff_ffff | u64::from(user) << 32;
        sight.tell_of_child(&other, &Information { detail, value, ..told })
    }
}

impl FileServer {
    /// See [`unix_core::server::protocol::Request::SetGroups`].
    pub(super) fn set_groups(&mut self, caller: u64, first: u64, count: u64, is_last: bool) -> Result<Answer> {
        let bytes = self.bytes(caller, count.saturating_mul(4))?;
        let groups = bytes.as_chunks::<4>().0.iter().map(|four| u32::from_le_bytes(*four));
        let Client { credentials: identity, groups_told, .. } = self.clients.get_mut(&caller).ok_or(Errno::EPERM)?;
        groups_told.truncate(first as usize);
        if !identity.may_change_groups() || groups_told.len() + groups.len() > supplementary_groups::MOST {
            return Err(Errno::EPERM);
        }
        groups_told.extend(groups);
        if is_last {
            identity.set_groups(Groups::new(core::mem::take(groups_told))?)?;
            self.release_idle(caller)?;
        }
        Ok(NOTHING)
    }

    /// See [`unix_core::server::protocol::Request::Groups`].
    pub(super) fn groups(&self, caller: u64, first: u64) -> Result<Answer> {
        let groups = self.clients.get(&caller).ok_or(Errno::EPERM)?.credentials.groups.all();
        let left = groups.get(first as usize..).unwrap_or_default();
        let some = &left[..left.len().min(WINDOW_BYTES as usize / 4)];
        let bytes: Vec<u8> = some.iter().flat_map(|group| group.to_le_bytes()).collect();
        self.put(caller, &bytes)?;
        Ok([some.len() as u64, 0, 0, 0, 0])
    }
}

/// What comes with a signal, with the sender that the server knows; nothing where the sender only asks.
fn information(caller: u64, user: u32, [signal, code, value]: [u64; 3]) -> Result<Option<Information>> {
    if signal > u64::from(COUNT) {
        return Err(Errno::EINVAL);
    }
    let detail = caller & 0xffff_ffff | u64::from(user) << 32;
    Ok((signal != 0).then_some(Information { signal: signal as u32, code: code as i32, detail, value }))
}
