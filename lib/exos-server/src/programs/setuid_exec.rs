//! Set-id programs (execve(2); DESIGN.md §5): a process that executes one changes its credentials, and must not bring
//! anything along that could act under the new ones. So a fresh environment, which the session makes
//! (`init::setuid_spawner`), continues for it. The only thing in it that is the caller's is the bundle with its
//! arguments, descriptors and the like. The library in it distrusts the bundle, and opens what it names with a key that
//! the caller has too.
//!
//! The same holds for a program that the caller may execute and not read: the fresh environment reads it. It has a
//! principal of its own, so that no other process looks into its memory.
//!
//! Invariant: new credentials are decided here, by the file as it was at the request. They are assumed once, by the
//! environment that the session made for it.

use crate::dispatch::Client;
use crate::main_loop::Server;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, SeqCst};
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use runtime::transfer::Message;
use runtime::{EnvironmentId, exposed};
use unix_core::process::credentials::{Credentials, FIRST_APART, Program};
use unix_core::server::protocol::WINDOW_BYTES;
use unix_core::session::status_page;
use vfs::handle::Handle;
use vfs::mount_table::Location;
use vfs::namespace::access;

/// Processes that may wait for the session at a time.
const MOST: usize = 32;
/// Bytes of a bundle: more than arguments, environment and descriptors of a program can be.
const LONGEST: u64 = 8 << 20;

/// A process that is to go on in a fresh environment.
#[derive(Debug)]
pub struct PendingExec {
    /// Its environment now.
    pub caller: u64,
    /// The environment of its parent.
    pub parent: u64,
    /// Handle of the program.
    pub program: u64,
    /// Handle of the bundle, and its bytes.
    pub exec_state: (u64, u64),
    /// The principal whose key opens what the bundle names.
    pub origin: u64,
    /// What the environment holds in the beginning, by handles.
    holds: BTreeMap<u64, u32>,
    before: Credentials,
    after: Credentials,
    root: Location,
    made: Option<Result<u64>>,
}

/// All of them.
#[derive(Debug, Default)]
pub struct PendingExecs {
    open: Vec<PendingExec>,
    /// How many principals of their own there were.
    apart: u64,
}

impl PendingExecs {
    /// The principal of an environment that is about to take its identity up.
    pub(crate) fn principal_of(&self, environment: u64) -> Option<u64> {
        let made = |wish: &&PendingExec| wish.made == Some(Ok(environment));
        self.open.iter().find(made).map(|wish| wish.after.principal())
    }

    /// The next request that the session has not looked at yet.
    pub fn next(&self) -> Option<&PendingExec> {
        self.open.iter().find(|wish| wish.made.is_none())
    }
}

impl Server {
    /// The caller's credentials before and after it executes a program that it holds and may execute.
    fn after(&self, caller: u64, program: u64) -> Result<(Credentials, Credentials)> {
        let client = self.server.clients.get(&caller).ok_or(Errno::EPERM)?;
        if !client.holds.contains_key(&program) {
            return Err(Errno::EBADF);
        }
        let at = Handle::from_word(program).at;
        let node = self.server.tree.node(at.node)?;
        if node.mode & linux::S_IFMT != linux::S_IFREG {
            return Err(Errno::EACCES);
        }
        // A file that others may write, because it was mapped shared and writable once, grants no credentials.
        let is_plain =
            self.server.tree.flags_at(at) & linux::MS_NOSUID != 0 || self.server.tree.has_shared_pages(at.node)?;
        let mode = if is_plain { node.mode & !(linux::S_ISUID | linux::S_ISGID) } else { node.mode };
        let file = Program { mode, user: node.uid, group: node.gid };
        Ok((client.credentials.clone(), client.credentials.executing(file)))
    }

    /// See [`unix_core::server::protocol::Request::ExecAs`].
    pub(crate) fn succeed(&mut self, caller: u64, message: &Message) -> Result<()> {
        let [_, program, bundle, bytes, count, _] = *message;
        let (before, mut after) = self.after(caller, program)?;
        self.server.tree.groups.clone_from(&before.groups);
        self.server.tree.check(Handle::from_word(program).at.node, before.acting_on_files(), access::EXECUTE)?;
        let at = Handle::from_word(program).at;
        if !before.gains(&after) && self.server.tree.check(at.node, before.acting_on_files(), access::READ).is_ok() {
            return Err(Errno::EINVAL);
        }
        let length = self.server.tree.node(Handle::from_word(bundle).at.node)?.size;
        if bytes > length.min(LONGEST) {
            return Err(Errno::E2BIG);
        }
        if self.pending_execs.open.len() >= MOST || self.pending_execs.open.iter().any(|wish| wish.caller == caller) {
            return Err(Errno::EAGAIN);
        }
        self.pending_execs.apart += 1;
        after.apart = FIRST_APART + self.pending_execs.apart;
        after.held = None;
        // The successor reads a program that the caller need not be allowed to read.
        let readable = self.server.readable_program(at)?;
        let mut holds = self.take_holds(caller, [program, bundle], count)?;
        self.server.hold_for_nobody(readable)?;
        *holds.entry(readable.to_word()).or_default() += 1;
        let program = readable.to_word();
        let client = self.server.clients.get(&caller).ok_or(Errno::EPERM)?;
        let wish = PendingExec {
            caller,
            parent: self.parent_of(caller),
            program,
            exec_state: (bundle, bytes),
            origin: before.principal(),
            holds,
            before,
            after,
            root: client.root,
            made: None,
        };
        self.pending_execs.open.push(wish);
        self.board[status_page::WISHES].fetch_add(1, SeqCst);
        exos::wait::kick_idle();
        Ok(())
    }

    /// Takes the caller's holds, as often as it says, for the environment that the session will make.
    fn take_holds(&mut self, caller: u64, fixed: [u64; 2], count: u64) -> Result<BTreeMap<u64, u32>> {
        let nodes = self.server.bytes(caller, count.min(WINDOW_BYTES / 8) * 8)?;
        let nodes = nodes.chunks_exact(8).map(|bytes| u64::from_le_bytes(core::array::from_fn(|index| bytes[index])));
        let client = self.server.clients.get(&caller).ok_or(Errno::EPERM)?;
        let root = Handle::plain(client.root).to_word();
        let all: Vec<u64> = fixed.into_iter().chain(nodes).collect();
        if all.iter().any(|node| !client.holds.contains_key(node)) {
            return Err(Errno::EBADF);
        }
        let mut holds = BTreeMap::new();
        for node in all.into_iter().chain([root]) {
            self.server.hold_for_nobody(Handle::from_word(node))?;
            *holds.entry(node).or_default() += 1;
        }
        Ok(holds)
    }

    /// The environment of the process that made a process, by the kernel's word.
    fn parent_of(&self, process: u64) -> u64 {
        let first = EnvironmentId(self.succession().process(process));
        let creator = exposed::environment(first).map_or(0, |info| info.creator.load(Acquire));
        self.threads.get(&creator).copied().unwrap_or(creator)
    }

    /// See [`unix_core::server::protocol::Request::SuccessorOf`].
    pub(crate) fn successor(&mut self, caller: u64, message: &mut Message) -> Result<()> {
        message[1] = self.succession().successor(caller).unwrap_or(0);
        let Some(at) = self.pending_execs.open.iter().position(|wish| wish.caller == caller) else {
            return if message[1] == 0 { Err(Errno::EAGAIN) } else { Ok(()) };
        };
        match self.pending_execs.open[at].made {
            Some(Err(error)) => {
                self.drop_wish(at);
                Err(error)
            }
            _ => Ok(()),
        }
    }

    /// The session has made an environment for a wish, or could not. What the environment holds is in its name from now
    /// on.
    pub fn start_pending(&mut self, caller: u64, made: Result<u64>) {
        let Some(wish) = self.pending_execs.open.iter_mut().find(|wish| wish.caller == caller) else { return };
        wish.made = Some(made);
        if let Ok(number) = made {
            let (holds, root) = (core::mem::take(&mut wish.holds).into_iter().collect(), wish.root);
            let identity = wish.before.clone();
            self.server
                .clients
                .insert(number, Client { window: None, holds, credentials: identity, groups_told: Vec::new(), root });
        }
        self.server.tell_of_change();
    }

    fn drop_wish(&mut self, at: usize) {
        let wish = self.pending_execs.open.remove(at);
        for (node, count) in wish.holds {
            (0..count).for_each(|_| {
                // It was held for this wish.
                let _ = self.server.let_go(Handle::from_word(node));
            });
        }
    }

    /// See [`unix_core::server::protocol::Request::AssumeIdentity`].
    pub(crate) fn raise(&mut self, caller: u64, message: &mut Message) -> Result<()> {
        let at = self.pending_execs.open.iter().position(|wish| wish.made == Some(Ok(caller))).ok_or(Errno::EPERM)?;
        let (after, origin) = (self.pending_execs.open[at].after.clone(), self.pending_execs.open[at].origin);
        let principal = after.principal();
        if message[1] != 0 {
            self.give_key(caller, principal)?;
            self.drop_wish(at);
            return Ok(());
        }
        let lists = self.server.keys.admit(principal, Some(origin))?;
        let bytes: Vec<u8> = after.to_words().into_iter().flat_map(u64::to_le_bytes).collect();
        self.server.put(caller, &bytes)?;
        let client = self.server.clients.get_mut(&caller).ok_or(Errno::EPERM)?;
        (message[1], message[2], message[3]) = (lists.common.0, lists.public.0, principal);
        (message[4], message[5]) = (after.groups.all().len() as u64, after.apart);
        client.credentials = after;
        Ok(())
    }

    /// See [`unix_core::server::protocol::Request::Execute`].
    pub(crate) fn execute(&mut self, caller: u64, message: &mut Message) -> Result<()> {
        let (before, mut after) = self.after(caller, message[1])?;
        if before.gains(&after) {
            return Err(Errno::EPERM);
        }
        if !self.has_threads(caller) {
            after.held = None;
        }
        message[1] = after.principal();
        if before.principal() != message[1] {
            self.give_key(caller, message[1])?;
        }
        self.server.clients.entry(caller).and_modify(|client| client.credentials = after);
        Ok(())
    }

    /// Forgets requests of dead processes, and principals without processes.
    pub(crate) fn forget_wishes(&mut self) {
        let dead = |wish: &PendingExec| match wish.made {
            Some(Ok(number)) => !exposed::lives(EnvironmentId(number)),
            _ => !exposed::lives(EnvironmentId(wish.caller)),
        };
        while let Some(at) = self.pending_execs.open.iter().position(dead) {
            self.drop_wish(at);
        }
        let (clients, wishes) = (&self.server.clients, &self.pending_execs.open);
        let is_used = |principal: u64| {
            let is_of = |one: &Credentials| one.apart == principal || one.principal() == principal;
            clients.values().any(|client| is_of(&client.credentials))
                || wishes.iter().any(|wish| wish.after.apart == principal)
        };
        self.server.keys.forget_unused(is_used);
    }
}
