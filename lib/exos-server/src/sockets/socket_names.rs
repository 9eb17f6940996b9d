//! What the names of sockets lead to, in the file system and outside it.
//!
//! A name leads to a page that the binder of the socket gave. Invariant: no client is told of a page that was given up
//! and reused since. A client that has mapped the page looks whether that still holds (`Mappings::open_noted`).
//!
//! The queue of a listener no other user opens, but for user 0: the server puts their requests there.

use crate::dispatch::FileServer;
use crate::pages::page_acl::{Access, PageAcl};
use crate::principals::{own_list, with_key_of};
use alloc::vec::Vec;
use core::sync::atomic::Ordering::SeqCst;
use exos::descriptor::sockets::listen_queue::{Request, WATCH, put_request};
use exos::hw::mapping::lock_in;
use exos::process::environment::SESSION_SLOT;
use internet::bell::Watch;
use linux_abi::errno::{Errno, Result};
use runtime::exposed::PageStamp;
use runtime::{EnvironmentId, PageNumber, clock, exposed};
use unix_core::process::credentials::FIRST_APART;
use unix_core::server::socket_kind::Kind;
use vfs::namespace::FsCredentials;

/// How long the server waits for the lock of a queue, in nanoseconds.
const PATIENCE: u64 = 10_000_000;

/// What the name of a socket leads to.
#[derive(Clone, Copy, Debug)]
pub struct NamedSocket {
    /// Page of its queue, or of the pipe for its datagrams.
    pub page: PageStamp,
    /// The client that gave it the name, and listens there.
    pub by: u64,
    /// The credentials of that client.
    pub who: FsCredentials,
    /// What the library calls its kind: who asks for it is told.
    pub kind: u64,
    /// Whether that one said that it listens.
    pub listens: bool,
}

impl NamedSocket {
    /// One that does not listen yet.
    pub fn new(page: PageNumber, by: u64, who: FsCredentials, kind: u64) -> Self {
        Self { page: PageStamp::of(page), by, who, kind, listens: false }
    }

    /// Whether its page is still what it was: one that was given up may belong to any process.
    pub fn is_there(&self) -> bool {
        self.page.is_current()
    }
}

impl FileServer {
    /// Whether a client may open the page that it gives to a name: other processes are going to write there.
    pub(crate) fn check_page_of_socket(&mut self, caller: u64, page: PageNumber) -> Result<()> {
        let principal = self.clients.get(&caller).ok_or(Errno::EPERM)?.credentials.principal();
        with_key_of(SESSION_SLOT, principal, |key| {
            let window = self.mappings.open_of_others(Vec::from([page]), key, true)?;
            self.mappings.close(&window);
            Ok(())
        })
        .map_err(|_| Errno::EPERM)
    }

    /// Puts a request to connect into the queue of a listener; false where the queue is full, or locked for long. The
    /// pages have to be the caller's own, under the list for this connection: a process that accepts opens them, and
    /// may open more than the caller.
    ///
    /// # Errors
    /// `ECONNREFUSED` where that is not so, and as [`Self::list_for_connection`].
    pub(crate) fn ask_listener(&mut self, caller: u64, named: NamedSocket, request: Request) -> Result<bool> {
        let own = own_list(EnvironmentId(caller));
        let list = self.list_for_connection(caller, named)?.or(own);
        let is_own = |stamp: PageStamp| {
            stamp.is_current()
                && exposed::page(stamp.page())
                    .is_some_and(|info| Some(info.access()) == list && own_list(info.owner()) == own)
        };
        let [outgoing, incoming, _] = request;
        if ![outgoing, incoming].map(PageStamp).into_iter().all(is_own) {
            return Err(Errno::ECONNREFUSED);
        }
        let page = named.page;
        let queue = Vec::from([page.page()]);
        let queue = self.mappings.open_of_others(queue, SESSION_SLOT, true).map_err(|_| Errno::ECONNREFUSED)?;
        let held = lock_in(&queue).acquire_until(clock::now() + PATIENCE);
        let outcome = match held {
            _ if !page.is_current() => Err(Errno::ECONNREFUSED),
            Some(_held) => put_request(queue.words(), request),
            None => Ok(false),
        };
        let asked = Watch(queue.words()[WATCH].swap(0, SeqCst)).bells();
        self.mappings.close(&queue);
        self.count_bells(asked);
        outcome
    }

    /// The list under which the pipes lie that a client makes to connect to a listener of another user: both may use
    /// them. None where user 0 alone listens, which opens the caller's own. With user 0 those may accept that share its
    /// queue: it gave it to them. With another user none may: who connects trusts what comes from there as coming from
    /// the listener.
    ///
    /// # Errors
    /// `ECONNREFUSED` where others share it, or it is no queue; and as [`PageAcls::list_for`].
    ///
    /// [`PageAcls::list_for`]: crate::pages::page_acl::PageAcls::list_for
    pub(crate) fn list_for_connection(&mut self, caller: u64, named: NamedSocket) -> Result<Option<PageNumber>> {
        let listener =
            self.clients.get(&named.by).map_or(named.who.uid.into(), |client| client.credentials.principal());
        let queue_list = exposed::page(named.page.page()).map(|info| info.access()).ok_or(Errno::ECONNREFUSED)?;
        let is_queue = named.kind == Kind::Stream as u64 || named.kind == Kind::Packets as u64;
        let others: Vec<u64> = self.keys.sharers(queue_list).filter(|sharer| ![0, listener].contains(sharer)).collect();
        if !is_queue || listener != 0 && !others.is_empty() {
            return Err(Errno::ECONNREFUSED);
        }
        let own = self.principal_of(caller);
        if listener == 0 && others.iter().all(|other| *other == own) {
            return Ok(None);
        }
        let audience = [0, own, listener].into_iter().chain(others);
        let audience: PageAcl = audience.map(|principal| (principal, Access::Own)).collect();
        // A user takes descriptors from its own processes, and those that are set apart from it look the same to it.
        if audience.keys().any(|principal| *principal >= FIRST_APART) {
            return Err(Errno::ECONNREFUSED);
        }
        self.keys.acls.list_for(audience).map(Some)
    }
}
