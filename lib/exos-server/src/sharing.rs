//! What strangers share through the server besides names and bytes: locks on files, the pipes of FIFOs, files without
//! names, and watches on nodes.

use super::dispatch::{Answer, FileServer, NOTHING, Outcome};
use super::sockets::socket_names::NamedSocket;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::SeqCst;
use exos::pipe;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use runtime::{EnvironmentId, PageNumber, exposed};
use unix_core::process::ucred::Ucred;
use unix_core::server::protocol::{FOLLOW, LockHolder, LockKind, LockManner, LockRequest, WATCHERS, WINDOW_BYTES};
use vfs::file_lock::{Lock, Owner};
use vfs::handle::{Handle, right};
use vfs::inode::NodeId;
use vfs::mount_table::Location;
use vfs::namespace::{Fresh, FsCredentials, ROOT, access};
use vfs::superblock::PROC_VOLUME;

impl FileServer {
    /// Takes, asks about, or gives up a lock: see `protocol::Request::Lock`.
    pub(super) fn lock(&mut self, caller: u64, node: NodeId, words: [u64; 4]) -> Result<Answer> {
        let [request, start, last, description] = words;
        let request = LockRequest::from_word(request).ok_or(Errno::EINVAL)?;
        let owner = match request.holder {
            LockHolder::Process => Owner::Process(caller),
            LockHolder::Description => Owner::Description(description),
            LockHolder::Whole => Owner::Whole(description),
        };
        if request.manner == LockManner::GiveUp {
            self.locks.stop_waiting(owner);
            return Ok(NOTHING);
        }
        if start > last {
            return Err(Errno::EINVAL);
        }
        let wanted = Lock { owner, exclusive: request.kind == LockKind::Exclusive, start, last, taker: caller };
        if request.kind == LockKind::None {
            if self.locks.clear(node, owner, start, last) {
                self.tell_of_change();
            }
            return Ok(NOTHING);
        }
        self.forget_dead_holder(node, &wanted);
        if request.manner == LockManner::Ask {
            return Ok(self.locks.conflict(node, &wanted).map_or(NOTHING, in_the_way));
        }
        match self.locks.set(node, wanted) {
            Ok(()) => {
                // A lock that became a shared one, or smaller, may be what others wait for.
                self.tell_of_change();
                Ok(NOTHING)
            }
            Err(conflict) => self.refuse_lock(node, wanted, request.manner, conflict),
        }
    }

    fn refuse_lock(&mut self, node: NodeId, wanted: Lock, manner: LockManner, conflict: Lock) -> Result<Answer> {
        // flock(2): who asks for another kind of lock has given up the one he had.
        if matches!(wanted.owner, Owner::Whole(_)) && self.locks.clear(node, wanted.owner, 0, u64::MAX) {
            self.tell_of_change();
        }
        if manner == LockManner::Wait {
            self.locks.wait(node, wanted)?;
        }
        Ok(in_the_way(conflict))
    }

    fn forget_dead_holder(&mut self, node: NodeId, wanted: &Lock) {
        while let Some(Lock { owner: Owner::Process(holder), .. }) = self.locks.conflict(node, wanted)
            && !exposed::lives(EnvironmentId(holder))
        {
            self.locks.forget(Owner::Process(holder));
        }
    }

    /// A process that closes any descriptor of a file loses its record locks on it (fcntl(2)); a description that
    /// ended (0: none did) loses its own.
    fn unlock_closed(&mut self, caller: u64, node: NodeId, description: u64) {
        let mut any = self.locks.clear(node, Owner::Process(caller), 0, u64::MAX);
        if description != 0 {
            any |= self.locks.clear(node, Owner::Description(description), 0, u64::MAX);
            any |= self.locks.clear(node, Owner::Whole(description), 0, u64::MAX);
        }
        if any {
            self.tell_of_change();
        }
    }

    /// A descriptor was closed; `how`: 2 for the last of its description, whose locks end (0: it has none).
    pub(super) fn closed(&mut self, caller: u64, handle: Handle, how: u64, locks: u64) {
        self.unlock_closed(caller, handle.at.node, locks);
        let event = if handle.writes() { linux::IN_CLOSE_WRITE } else { linux::IN_CLOSE_NOWRITE };
        if how == 2 && handle.rights != 0 {
            self.tree.note_event(handle.at.node, event);
        }
    }

    /// Tells clients whether files have watchers.
    pub(super) fn tell_watchers(&self) {
        self.notice.words()[WATCHERS].store(self.tree.watches.count(), SeqCst);
    }

    /// An instance of watches: a node that is none of the tree's files, and goes with who holds it.
    pub(super) fn make_watcher(&mut self, caller: u64, who: FsCredentials) -> Result<Answer> {
        let node =
            self.tree.create_unnamed(ROOT, Fresh { mode: 0o600, owner: who, device: (0, 0), target: b"" }, false)?;
        let handle = Handle::plain(Location::first(node));
        self.hold(caller, handle)?;
        self.tree.watches.create(node);
        self.tell_watchers();
        Ok([handle.to_word(), 0, 0, 0, 0])
    }

    /// Watches what a path leads to: who may read it.
    pub(super) fn watch(
        &mut self,
        caller: u64,
        who: FsCredentials,
        at: u64,
        mask: u32,
        [instance, length]: [u64; 2],
    ) -> Result<Outcome> {
        if !self.clients[&caller].holds.contains_key(&instance) {
            return Err(Errno::EBADF);
        }
        let flags = if mask & linux::IN_DONT_FOLLOW != 0 { 0 } else { FOLLOW };
        self.on_path(caller, who, at, flags, length, |server, at| {
            let node = at.node;
            if mask & linux::IN_ONLYDIR != 0 && !server.tree.node(node)?.is_directory() {
                return Err(Errno::ENOTDIR);
            }
            server.tree.check(node, who, access::READ)?;
            let number = server.tree.watches.add(instance, node, mask)?;
            Ok([number as u64, 0, 0, 0, 0].into())
        })
    }

    /// Events of an instance, as many as there is room for.
    pub(super) fn take_events(&mut self, caller: u64, instance: NodeId, room: u64) -> Result<Answer> {
        let bytes = self.tree.watches.take(instance, room.min(WINDOW_BYTES) as usize)?;
        Ok([self.put(caller, &bytes)?, 0, 0, 0, 0])
    }

    /// A client that waits for a change looks again.
    pub(super) fn tell_of_change(&self) {
        self.notice.words()[0].fetch_add(1, SeqCst);
        exos::wait::kick_idle();
    }

    /// The pages of a FIFO's pipe, made for the first who opens it.
    pub(super) fn fifo(&mut self, caller: u64, node: NodeId) -> Result<Answer> {
        if self.tree.node(node)?.mode & linux::S_IFMT != linux::S_IFIFO {
            return Err(Errno::EINVAL);
        }
        if !self.fifos.contains_key(&node) {
            let mut pages = vec![PageNumber::NONE; pipe::PAGES];
            self.pages_for(caller)?.allocate_many(&mut pages)?;
            self.fifos.insert(node, pages);
        }
        let pages = self.fifos[&node].clone();
        self.tell_of_stream(caller, &pages)?;
        let numbers: Vec<u8> = pages.iter().flat_map(|page| page.0.to_le_bytes()).collect();
        Ok([self.put(caller, &numbers)? / 8, 0, 0, 0, 0])
    }

    /// A name for a socket.
    pub(super) fn bind(
        &mut self,
        caller: u64,
        who: FsCredentials,
        [at, length]: [u64; 2],
        mode_kind: u64,
        page: u64,
    ) -> Result<Outcome> {
        self.check_page_of_socket(caller, PageNumber(page))?;
        let path = self.path(caller, 0, length)?;
        let Self { tree, sockets, socket_paths, .. } = self;
        sockets.retain(|node, _| tree.node(*node).is_ok());
        socket_paths.retain(|node, _| sockets.contains_key(node));
        self.on_new_name(caller, who, at, &path, false, |server, directory, name| {
            let (mode, kind) = (linux::S_IFSOCK | mode_kind as u32 & 0o777, mode_kind >> 32);
            let fresh = Fresh { mode, owner: who, device: (0, 0), target: b"" };
            let node = server.tree.create(directory.node, name, fresh)?;
            server.sockets.insert(node, NamedSocket::new(PageNumber(page), caller, who, kind));
            server.socket_paths.insert(node, path.to_vec());
            Ok(())
        })
        .map_err(|error| if error == Errno::EEXIST { Errno::EADDRINUSE } else { error })
    }

    /// An abstract name for a socket: it leads to the page as long as a process holds the node.
    pub(super) fn bind_abstract(&mut self, caller: u64, who: FsCredentials, page: u64, length: u64) -> Result<Answer> {
        self.check_page_of_socket(caller, PageNumber(page))?;
        let name = self.bytes(caller, length)?;
        self.forget_abstract_names();
        if self.abstract_names.contains_key(&name) {
            return Err(Errno::EADDRINUSE);
        }
        let fresh = Fresh { mode: linux::S_IFSOCK | 0o777, owner: who, device: (0, 0), target: b"" };
        let node = self.tree.create_unnamed(ROOT, fresh, false)?;
        let handle = Handle::plain(Location::first(node));
        self.hold(caller, handle)?;
        // Abstract names of different kinds are different names.
        let kind = name.first().copied().map_or(0, u64::from);
        self.sockets.insert(node, NamedSocket::new(PageNumber(page), caller, who, kind));
        self.abstract_names.insert(name, node);
        Ok([handle.to_word(), 0, 0, 0, 0])
    }

    /// What an abstract name leads to; see `Self::listener`.
    pub(super) fn peer_abstract(&mut self, caller: u64, length: u64, request: [u64; 3]) -> Result<Answer> {
        let name = self.bytes(caller, length)?;
        self.forget_abstract_names();
        let node = self.abstract_names.get(&name).ok_or(Errno::ECONNREFUSED)?;
        self.listener(caller, *node, request)
    }

    /// Forgets names whose node has no holder any more.
    fn forget_abstract_names(&mut self) {
        let tree = &self.tree;
        self.abstract_names.retain(|_, node| tree.node(*node).is_ok());
    }

    /// What the name of a socket leads to; see `Self::listener`.
    pub(super) fn peer(
        &mut self,
        (caller, who): (u64, FsCredentials),
        [at, length]: [u64; 2],
        request: [u64; 3],
    ) -> Result<Outcome> {
        self.on_path(caller, who, at, FOLLOW, length, |server, at| {
            server.tree.check(at.node, who, access::WRITE)?;
            server.listener(caller, at.node, request).map(Outcome::Done)
        })
    }

    /// The stamp of its page, who listens there, and its kind; above that the list for the pages of a connection, where
    /// the caller needs one. Where the caller, which may connect there, has given a request to connect: whether it is
    /// in the queue now.
    fn listener(&mut self, caller: u64, node: NodeId, request: [u64; 3]) -> Result<Answer> {
        let named = self.sockets.get(&node).filter(|named| named.is_there()).copied().ok_or(Errno::ECONNREFUSED)?;
        let NamedSocket { page, by, who, kind, .. } = named;
        let is_asked = request[0] != 0 && self.ask_listener(caller, named, request)?;
        let is_other = self.is_other_than_zero(caller) && self.principal_of(caller) != self.principal_of(by);
        let list =
            if is_other && request[0] == 0 { self.list_for_connection(caller, named).ok().flatten() } else { None };
        let [process, numbers] = Ucred::of(by, who).to_words();
        Ok([page.0, process, numbers, kind | list.map_or(0, |list| list.0) << 32, u64::from(is_asked)])
    }

    /// A line of `/proc/net/unix` for each socket that has a name.
    pub(super) fn socket_lines(&self) -> Vec<String> {
        const ACCEPTS: u32 = 1 << 16;
        let is_there = |(node, named): &(&NodeId, &NamedSocket)| named.is_there() && self.tree.node(**node).is_ok();
        let named = self.sockets.iter().filter(is_there);
        let line = |(node, named): (&NodeId, &NamedSocket)| {
            let NamedSocket { page, kind, listens, .. } = named;
            let (flags, page) = (if *listens { ACCEPTS } else { 0 }, page.page().0);
            let name = self.name_of_socket(*node)?;
            Some(format!("{:016x}: 00000002 00000000 {flags:08X} {kind:04X} 01 {page:>5} {name}\n", 0))
        };
        named.filter_map(line).collect()
    }

    /// A path, or an abstract name, as a line has it: with @ where a NUL is.
    fn name_of_socket(&self, node: NodeId) -> Option<String> {
        if let Some((name, _)) = self.abstract_names.iter().find(|(_, known)| **known == node) {
            // The name follows its kind and begins with a NUL; a client that bypasses the library may give it any name.
            return Some(name.iter().skip(1).map(|byte| if *byte == 0 { '@' } else { char::from(*byte) }).collect());
        }
        self.socket_paths.get(&node).map(|path| String::from_utf8_lossy(path).into_owned())
    }

    /// Adds seals to a file, or just tells them.
    pub(super) fn seal(&mut self, handle: Handle, seals: u64) -> Result<Answer> {
        let node = handle.at.node;
        if !self.tree.node(node)?.is_file() {
            return Err(Errno::EINVAL);
        }
        if seals != u64::MAX {
            handle.check(right::WRITE).map_err(|_| Errno::EPERM)?;
            let words = self.clients.values().flat_map(|client| client.holds.keys());
            let is_mapped =
                words.map(|word| Handle::from_word(*word)).any(|held| held.at.node == node && held.is_mapped());
            self.tree.seal(node, u32::try_from(seals).map_err(|_| Errno::EINVAL)?, is_mapped)?;
        }
        Ok([u64::from(self.tree.node(node)?.seals), 0, 0, 0, 0])
    }

    /// Whether a user may make a file without a name there. Without a path it is memory, in no directory.
    pub(super) fn check_place_of_unnamed(&self, who: FsCredentials, directory: Location, has_path: bool) -> Result<()> {
        if !self.tree.node(directory.node)?.is_directory() {
            return Err(Errno::ENOTDIR);
        }
        if has_path {
            self.tree.check(directory.node, who, access::WRITE | access::EXECUTE)?;
            self.tree.check_writable(directory)?;
        }
        Ok(())
    }

    /// A file without a name. Its label stands in the window, if the caller gave one.
    pub(super) fn make_unnamed(
        &mut self,
        caller: u64,
        who: FsCredentials,
        directory: Location,
        [mode, manner, called]: [u64; 3],
    ) -> Result<Outcome> {
        const NAMEABLE: u64 = 1;
        const SEALABLE: u64 = 2;
        if self.tree.node(directory.node)?.volume == PROC_VOLUME {
            return Err(Errno::EOPNOTSUPP);
        }
        let name = if called == 0 { None } else { Some(self.path(caller, 0, called)?.to_vec()) };
        let mode = linux::S_IFREG | mode as u32 & 0o7777;
        let node = self.tree.create_unnamed(
            directory.node,
            Fresh { mode, owner: who, device: (0, 0), target: b"" },
            manner & NAMEABLE != 0,
        )?;
        self.tree.set_former_name(node, name.unwrap_or_else(|| format!("#{node}").into_bytes()));
        if manner & SEALABLE != 0 {
            self.tree.node_mut(node)?.seals = 0;
        }
        let at = directory.beside(node);
        let handle = Handle::opened(at, mode, linux::O_RDWR, self.tree.flags_at(at));
        self.hold(caller, handle)?;
        Ok([handle.to_word(), 0, 0, 0, 0].into())
    }
}

/// A lock as an answer tells it.
fn in_the_way(lock: Lock) -> Answer {
    let kind = if lock.exclusive { LockKind::Exclusive } else { LockKind::Shared };
    let process = match lock.owner {
        Owner::Process(number) => number,
        Owner::Description(_) | Owner::Whole(_) => u64::MAX,
    };
    [1, kind as u64, lock.start, lock.last, process]
}
