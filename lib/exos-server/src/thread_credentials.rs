//! Credentials of threads (credentials(7)): a thread that changes its own by a bare system call differs from the others
//! of its process. `Server::apart` has the records of such threads. The others have that of their process's first
//! thread, which is the client's.
//!
//! While threads differ, the process keeps the key of the principal that it was (`Credentials::held`). Its threads
//! share memory: a key of one would be a key of all. Once they agree, the process's library asks for the key of what
//! they are (`SAME_FOR_ALL`).
//!
//! Invariants: a record of `apart` differs from the client's. A client has `held` while threads of it have records.

use super::main_loop::Server;
use alloc::vec;
use alloc::vec::Vec;
use core::mem::replace;
use linux_abi::errno::{Errno, Result};
use runtime::transfer::Message;
use runtime::{EnvironmentId, exposed};
use unix_core::process::credentials::Credentials;
use unix_core::server::protocol::{Request, SAME_FOR_ALL};

impl Server {
    /// Serves a request with the credentials of the calling thread as those of its process.
    pub(super) fn answer_as_thread(&mut self, environment: EnvironmentId, caller: u64, message: &mut Message) {
        let [first, what, ..] = *message;
        let is = |request: Request| first == request as u64;
        // Of these the process is the subject, not the thread.
        let is_of_process = is(Request::ListsForUser) || is(Request::SetIdentity) && what == SAME_FOR_ALL;
        let changes =
            !is_of_process && [Request::SetIdentity, Request::SetGroups, Request::Execute].into_iter().any(is);
        if changes {
            self.separate(environment.0, caller);
        }
        let own = if is_of_process || self.apart.is_empty() { None } else { self.apart.remove(&environment.0) };
        let of_first = own.and_then(|own| self.replace(caller, own));
        self.answer(environment, caller, message);
        if let Some(own) = of_first.and_then(|of_first| self.replace(caller, of_first)) {
            if is(Request::RegisterThread) && self.threads.get(&what) == Some(&caller) {
                self.apart.insert(what, own.clone());
            }
            self.apart.insert(environment.0, own);
        }
        if changes {
            self.unite(caller);
        }
    }

    /// The credentials of a client before others take their place.
    fn replace(&mut self, client: u64, credentials: Credentials) -> Option<Credentials> {
        self.server.clients.get_mut(&client).map(|client| replace(&mut client.credentials, credentials))
    }

    fn threads_of(&self, process: u64) -> impl Iterator<Item = u64> {
        let is_of = move |(_, speaks_for): &(&u64, &u64)| **speaks_for == process;
        self.threads.iter().filter(is_of).map(|(thread, _)| *thread).filter(|one| exposed::lives(EnvironmentId(*one)))
    }

    /// Whether a process has threads in addition to its first.
    pub(super) fn has_threads(&self, process: u64) -> bool {
        self.threads_of(process).next().is_some()
    }

    /// Records of the threads of a process that differ from its first.
    pub(super) fn apart_of(&self, process: u64) -> impl Iterator<Item = &Credentials> {
        let is_of = move |(number, _): &(&u64, &Credentials)| self.threads.get(*number) == Some(&process);
        self.apart.iter().filter(is_of).map(|(_, own)| own)
    }

    /// A thread is about to change its credentials: the others keep what they have.
    fn separate(&mut self, environment: u64, caller: u64) {
        self.apart.retain(|number, _| exposed::lives(EnvironmentId(*number)));
        let others: Vec<u64> =
            if environment == caller { self.threads_of(caller).collect() } else { vec![environment] };
        let Some(client) = self.server.clients.get_mut(&caller).filter(|_| !others.is_empty()) else { return };
        client.credentials.held = Some(client.credentials.principal());
        let common = &client.credentials;
        for other in others {
            if !self.apart.contains_key(&other) {
                self.apart.insert(other, common.clone());
            }
        }
    }

    /// Threads that have the same credentials as the first of their process have no record of their own.
    fn unite(&mut self, process: u64) {
        let Some(client) = self.server.clients.get_mut(&process) else { return };
        let (threads, common) = (&self.threads, &mut client.credentials);
        let is_of = |number: &u64| threads.get(number) == Some(&process);
        self.apart.retain(|number, own| !is_of(number) || own != common);
        let natural = Credentials { held: None, ..common.clone() };
        if !self.apart.keys().any(is_of) && natural.principal() == common.principal() {
            common.held = None;
        }
    }

    /// See [`SAME_FOR_ALL`]. Threads share memory: what one of them may do, a process can do by it.
    ///
    /// # Errors
    /// `EPERM` for another process's thread, and as for a key; then nothing has changed.
    pub(super) fn give_to_all(&mut self, process: u64, thread: u64) -> Result<()> {
        let common = &self.server.clients.get(&process).ok_or(Errno::EPERM)?.credentials;
        if thread != process && self.threads.get(&thread) != Some(&process) {
            return Err(Errno::EPERM);
        }
        let before = common.principal();
        let wished = Credentials { held: None, ..self.apart.get(&thread).unwrap_or(common).clone() };
        if wished.principal() != before {
            self.give_key(process, wished.principal())?;
        }
        let threads = &self.threads;
        self.apart.retain(|number, _| threads.get(number) != Some(&process));
        self.replace(process, wished);
        self.server.release_idle(process)
    }
}
