//! The server's side: one call at a time, each finished before the next, nothing believed.

use super::name_ops::without_slashes;
use super::principals::{self, Principals};
use super::programs::process_requests::RequestQueue;
use super::pty::PseudoTerminal;
use super::sockets::internet_sockets::Internet;
use super::sockets::socket_names::NamedSocket;
use super::sysv_ipc::Ipc;
use crate::disk::raw::RawDisks;
use crate::wire::requests::Wire;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use exos::hw::mapping::{Mapping, Mappings};
use exos::hw::page_store::PageStore;
use exos::hw::usercopy::Path;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use runtime::PageNumber;
use runtime::transfer::Message;
use unix_core::process::credentials::Credentials;
use unix_core::server::protocol::{self, ELSEWHERE, EMPTY_PATH, FOLLOW, REAL, Request, WINDOW_BYTES};
use vfs::dcache::{Dcache, word_of};
use vfs::file_data::PageStorage;
use vfs::file_lock::Locks;
use vfs::handle::{Handle, node_of, place_of, right, unmapped};
use vfs::id_map::{NumberMap, give_room_back};
use vfs::inode::NodeId;
use vfs::mount_table::Location;
use vfs::namespace::{FileTree, Fresh, FsCredentials, ROOT, access};
use vfs::path_walk::{PATH_BYTES, PathWalk, WalkResult};
use vfs::persistent::FIRST_DISK_VOLUME;

/// A read of fewer pages copies them: to map them takes as long.
const LEAST_MAPPED: u64 = 4;

/// A process, as the server knows it.
#[derive(Debug)]
pub struct Client {
    /// Its window, once it has attached.
    pub window: Option<Mapping>,
    /// How often it holds each node, by the words of handles.
    pub holds: NumberMap<u32>,
    /// Its credentials.
    pub credentials: Credentials,
    /// Groups that it has begun to tell.
    pub groups_told: Vec<u32>,
    /// Its root directory, which it holds.
    pub root: Location,
}

impl Client {
    /// What it holds, but for what it holds without need, and what is left out, each once.
    pub(super) fn needed_holds(&self, left_out: &[u64]) -> NumberMap<u32> {
        let mut holds = self.holds.clone();
        let idle = self.window.iter().flat_map(|window| protocol::idle_in(window.words()).handles());
        for handle in idle.chain(left_out.iter().copied()) {
            if let Some(count) = holds.get_mut(&handle) {
                *count = count.saturating_sub(1);
            }
        }
        holds.retain(|_, count| *count != 0);
        holds
    }
}

/// The file system and its clients, by environment number.
#[derive(Debug)]
pub struct FileServer {
    /// The files.
    pub tree: FileTree<PageStore>,
    /// The processes.
    pub clients: NumberMap<Client>,
    /// Locks on files.
    pub locks: Locks,
    /// The pipes of FIFOs that a process holds open.
    pub fifos: BTreeMap<NodeId, Vec<PageNumber>>,
    /// Pseudo-terminals.
    pub(super) terminals: Vec<PseudoTerminal>,
    /// Handles in flight between clients, by unguessable numbers.
    pub offered: BTreeMap<u64, u64>,
    /// What the names of sockets lead to.
    pub sockets: BTreeMap<NodeId, NamedSocket>,
    /// Abstract names of sockets, and the nodes that they live as long as.
    pub abstract_names: BTreeMap<Vec<u8>, NodeId>,
    /// The paths of those that have names in the file system, as they were bound.
    pub socket_paths: BTreeMap<NodeId, Vec<u8>>,
    /// System V objects and POSIX queues.
    pub ipc: Ipc,
    /// Internet sockets; none before the first one.
    pub(super) internet: Option<Box<Internet>>,
    /// What it knows of the wire.
    pub wire: Wire,
    /// What it reads and writes of raw disks; nothing before the first request.
    pub(crate) raw: Option<Box<RawDisks>>,
    /// What is asked of the keeper of disks.
    pub keeper: crate::disk::keeper::Requests,
    /// What processes ask each other.
    pub(super) requests: RequestQueue,
    /// The keys of users.
    pub(super) keys: Principals,
    /// The page that clients watch; its first word counts changes.
    pub notice: Mapping,
    /// What clients may read of names and nodes.
    pub dcache: Mapping,
    /// What it has open of its clients' windows and of pseudo-terminals.
    pub mappings: Mappings,
}

/// What an operation answers: up to five words.
pub(crate) type Answer = [u64; 5];
/// An answer, or the way out of the file system.
pub(crate) enum Outcome {
    Done(Answer),
    LeavesFs(Location, Vec<u8>),
}

pub(crate) const NOTHING: Answer = [0; 5];

impl From<Answer> for Outcome {
    fn from(answer: Answer) -> Self {
        Self::Done(answer)
    }
}

impl FileServer {
    /// Serves one message of a client that is known.
    pub fn serve(&mut self, caller: u64, message: &mut Message) {
        let [first, rest @ ..] = match self.perform(caller, message) {
            Ok(Outcome::Done([a, b, c, d, e])) => [0, a, b, c, d, e],
            Ok(Outcome::LeavesFs(node, path)) => match self.put(caller, &path) {
                Ok(length) => [ELSEWHERE, node.node, length, 0, 0, 0],
                Err(error) => [u64::from(error.number()), 0, 0, 0, 0, 0],
            },
            Err(error) => [u64::from(error.number()), 0, 0, 0, 0, 0],
        };
        message[0] = first;
        message[1..].copy_from_slice(&rest);
    }

    fn perform(&mut self, caller: u64, message: &Message) -> Result<Outcome> {
        let [number, a, b, c, d, e] = *message;
        let operation = Request::from_number(number).ok_or(Errno::ENOSYS)?;
        let Client { credentials: identity, root, .. } = self.clients.get(&caller).ok_or(Errno::EPERM)?;
        self.tree.root = *root;
        let is_real = operation == Request::Access && c & REAL != 0;
        let (who, acting) = (if is_real { identity.real() } else { identity.acting_on_files() }, identity.acting());
        self.tree.groups.clone_from(&identity.groups);
        if matches!(operation, Request::Mount | Request::Unmount | Request::PivotRoot) {
            self.release_all_idle();
        }
        match operation {
            Request::Attach | Request::Adopt => Err(Errno::EINVAL),
            Request::Open => self.open(caller, who, a, [b as u32, c as u32, e as u32], d),
            Request::Enter => self.enter(caller, who, a, b),
            Request::Status => self.on_path(caller, who, a, b, c, |server, at| server.status(caller, at)),
            Request::Access => self.on_path(caller, who, a, c, d, |server, at| server.access(who, at, b as u32 & 7)),
            Request::SetMode => self.on_path(caller, who, a, c, d, |server, node| server.set_mode(who, node, b as u32)),
            Request::SetOwner => self.on_path(caller, who, a, c, d, |server, node| server.set_owner(who, node, b)),
            Request::SetTimes => self.on_path(caller, who, a, d, e, |server, node| server.set_times(who, node, b, c)),
            Request::Attribute => self.attribute(caller, who, [a, b, c, d, e]),
            Request::OpenExec => self.open_program(caller, who, (a, b), c != 0),
            Request::ReacquireExec => self.hold_programs(caller, who, [a, b]),
            Request::ReadLink => self.on_path(caller, who, a, EMPTY_PATH, b, |server, at| server.read_link(caller, at)),
            Request::Make => self.make(caller, who, a, b as u32, c, d),
            Request::Remove => self.remove(caller, who, a, b, c),
            Request::Rename => self.rename(caller, who, [a, b], c, d as u32),
            Request::Link => self.link(caller, who, [a, b], c, d),
            Request::SymbolicLink => self.symbolic_link(caller, who, a, b),
            Request::Bind => self.bind(caller, who, [a, d], b, c),
            Request::Peer => self.peer((caller, who), [a, b], [c, d, e]),
            Request::BindAbstract => self.bind_abstract(caller, who, a, b).map(Outcome::Done),
            Request::PeerAbstract => self.peer_abstract(caller, a, [b, c, d]).map(Outcome::Done),
            Request::MakeTerminal => self.make_terminal(caller, who).map(Outcome::Done),
            Request::ChangeRoot => {
                self.on_path(caller, who, a, FOLLOW, b, |server, node| server.change_root(caller, who, node))
            }
            Request::Mount => self.mount(caller, who, [a, b], c, d),
            Request::Unmount => self.unmount(caller, who, a, b as u32, c),
            Request::SetMachine => self.set_machine(caller, who.capabilities, a, b).map(Outcome::Done),
            Request::PivotRoot => self.pivot_root(caller, who, [a, b], c),
            Request::Mounts => self.list_mounts(caller, a as usize).map(Outcome::Done),
            Request::Space => self.on_path(caller, who, a, b, c, |server, at| server.space(at)),
            Request::TakeRequest => self.take_question(caller, a, b).map(Outcome::Done),
            Request::Reply => self.answer(caller, [a, b, c, d, e]).map(Outcome::Done),
            Request::TakeReply => self.take_answer(caller, a, b).map(Outcome::Done),
            Request::MakeWatcher => self.make_watcher(caller, who).map(Outcome::Done),
            Request::Watch => self.watch(caller, who, a, b as u32, [c, d]),
            Request::Disk | Request::Unwatch | Request::TakeEvents | Request::EventsWaiting => {
                self.perform_on_node(caller, operation, a, [b, c, d, e]).map(Outcome::Done)
            }
            Request::MakeInternetSocket => self.make_internet_socket(caller, who, [a, b, c]).map(Outcome::Done),
            Request::InternetSocket => self.on_internet_socket(caller, a, b, [c, d, e]).map(Outcome::Done),
            Request::SyncFiles if b != 0 => self.discard_pages(caller, b).map(Outcome::Done),
            Request::SyncFiles => self.sync_files(caller, a, c, d != 0).map(Outcome::Done),
            Request::Ring => Ok(self.count_bells(a).into()),
            Request::SyncDisk => self.sync_disk(caller, a, b).map(Outcome::Done),
            Request::AcceptOffer => self.accept_offer(caller, a).map(Outcome::Done),
            Request::Listen => self.listens(caller, a).map(Outcome::Done),
            Request::Unnamed => self.on_path(caller, who, a, FOLLOW | EMPTY_PATH, d, |server, directory| {
                server.check_place_of_unnamed(who, directory, d != 0)?;
                server.make_unnamed(caller, who, directory, [b, c, e])
            }),
            _ if operation as u64 >= Request::SegmentGet as u64 => {
                self.perform_on_object(caller, acting, operation, [a, b, c, d, e]).map(Outcome::Done)
            }
            _ => self.perform_on_node(caller, operation, a, [b, c, d, e]).map(Outcome::Done),
        }
    }

    fn perform_on_node(&mut self, caller: u64, operation: Request, word: u64, words: [u64; 4]) -> Result<Answer> {
        let [b, c, d, e] = words;
        let holds = &self.clients[&caller].holds;
        // A mapping has a hold of its own, in addition to that of the descriptor that it was made from.
        let begins_to_hold = operation == Request::Hold && holds.contains_key(&unmapped(word));
        if !begins_to_hold && !holds.contains_key(&word) {
            return Err(Errno::EBADF);
        }
        let handle = Handle::from_word(word);
        let node = handle.at.node;
        handle.check(right_for(operation, e != 0))?;
        if matches!(operation, Request::Write | Request::Truncate | Request::Allocate) {
            self.make_plain(caller, node)?;
        }
        match operation {
            Request::Read => self.read(caller, handle, b, c),
            Request::Write => self.write(caller, node, b, c),
            Request::Truncate => {
                self.tree.check_size(node, b)?;
                self.tell_of_cut();
                self.tree.truncate(node, b)?;
                Ok([self.left_pages_mapped(), 0, 0, 0, 0])
            }
            Request::Seal => self.seal(handle, b),
            Request::List => self.list(caller, handle, b, c),
            Request::Pages => {
                if e != 0 {
                    self.tree.check_mapping(node, handle.is_mapped())?;
                }
                self.pages(caller, node, [b, c, d], e != 0)
            }
            Request::WorkingSet => self.working_set(caller, node, b, c),
            Request::Holders => self.holders(caller, node),
            Request::Release => {
                if b != 0 {
                    self.closed(caller, handle, b, c);
                }
                if d != 0 {
                    self.release_idle(caller)?;
                }
                self.release(caller, handle).map(|()| NOTHING)
            }
            Request::Seek => self.tree.seek(node, b, c != 0).map(|place| [place, 0, 0, 0, 0]),
            Request::Allocate => {
                self.tree.check_allocation(node, b as u32, c.saturating_add(d))?;
                self.tell_of_cut();
                self.tree.allocate(node, b as u32, c, d)?;
                Ok([self.left_pages_mapped(), 0, 0, 0, 0])
            }
            Request::Lock => self.lock(caller, node, words),
            Request::Disk => self.disk(caller, handle, words),
            Request::Fifo => self.fifo(caller, node),
            Request::Unwatch => self.tree.watches.remove(node, b as i32).map(|()| NOTHING),
            Request::TakeEvents => self.take_events(caller, node, b),
            Request::EventsWaiting => Ok([self.tree.watches.waiting(node) as u64, 0, 0, 0, 0]),
            Request::Terminal => self.terminal(caller, node),
            Request::Offer => self.offer(handle),
            Request::Hold => {
                if begins_to_hold && handle.is_mapped() {
                    self.tree.check_mapping(node, false)?;
                }
                self.hold(caller, handle).map(|()| NOTHING)
            }
            Request::PathOf => {
                let path = if b != 0 { self.tree.shown_path_of(handle.at) } else { self.tree.path_of(handle.at) }?;
                Ok([self.put(caller, &path)?, 0, 0, 0, 0])
            }
            _ => Err(Errno::ENOSYS),
        }
    }

    fn open(
        &mut self,
        caller: u64,
        who: FsCredentials,
        at: u64,
        [flags, mode, resolve]: [u32; 3],
        length: u64,
    ) -> Result<Outcome> {
        if length == 0 && at != ROOT {
            return self.open_node(caller, who, at, flags);
        }
        let path = self.path(caller, 0, length)?;
        let makes = flags & linux::O_CREAT != 0;
        let exclusive = makes && flags & linux::O_EXCL != 0;
        let follow = flags & linux::O_NOFOLLOW == 0 && !exclusive;
        let walk = PathWalk { resolve, makes, ..self.from(caller, at, who, follow)? };
        let (directory, name, node, slash) = match self.walk_and_show(walk, at, &path)? {
            WalkResult::LeavesFs { node, rest } => return Ok(Outcome::LeavesFs(node, rest)),
            WalkResult::Here { directory, name, node, slash } => (directory, name, node, slash),
        };
        let id = match node {
            Some(_) if exclusive => return Err(Errno::EEXIST),
            Some(id) => id,
            None if !makes => {
                self.publish(at, &path);
                return Err(Errno::ENOENT);
            }
            None => {
                self.tree.check_writable(directory)?;
                self.tree.check(directory.node, who, access::WRITE | access::EXECUTE)?;
                let mode = linux::S_IFREG | mode & 0o7777;
                let fresh = Fresh { mode, owner: who, device: (0, 0), target: b"" };
                directory.beside(self.tree.create(directory.node, &name, fresh)?)
            }
        };
        if node.is_some() {
            self.check_open(id, who, flags, slash)?;
            if flags & protocol::SHOW != 0 {
                self.publish(at, &path);
            }
        }
        // What was made by this has nothing to lose.
        self.opened(caller, id, if node.is_some() { flags } else { flags & !linux::O_TRUNC })
    }

    /// Opens a node by its number: one that the caller holds, as `/proc` or a descriptor says, or one that everybody
    /// can find.
    fn open_node(&mut self, caller: u64, who: FsCredentials, word: u64, flags: u32) -> Result<Outcome> {
        let Handle { at, rights } = Handle::from_word(word);
        let is_place = rights == 0 && self.tree.root == Location::first(ROOT);
        let is_found = is_place && self.tree.is_found_by_all(at).unwrap_or(false);
        let at = if is_found { at } else { self.start(caller, word)? };
        self.check_open(at, who, flags, false)?;
        self.opened(caller, at, flags)
    }

    pub(super) fn opened(&mut self, caller: u64, at: Location, flags: u32) -> Result<Outcome> {
        let mut left = 0;
        if flags & linux::O_TRUNC != 0 && flags & linux::O_PATH == 0 && self.tree.node(at.node)?.is_file() {
            self.tree.check_size(at.node, 0)?;
            self.make_plain(caller, at.node)?;
            self.tell_of_cut();
            self.tree.truncate(at.node, 0)?;
            left = self.left_pages_mapped();
        }
        if flags & (linux::O_PATH | protocol::QUIET) == 0 {
            self.tree.note_event(at.node, linux::IN_OPEN);
        }
        let found = self.tree.node(at.node)?;
        let device = u64::from(found.device.1) | u64::from(found.device.0) << 32;
        let (mode, size) = (found.mode, found.size);
        let handle = Handle::opened(at, mode, flags, self.tree.flags_at(at));
        self.hold(caller, handle)?;
        Ok([handle.to_word(), u64::from(mode), device, size, left].into())
    }

    /// Pages may leave a file in use: clients that were told its page numbers ask again.
    pub(crate) fn tell_of_cut(&self) {
        self.notice.words()[protocol::CUTS].fetch_add(1, SeqCst);
    }

    /// 1 where bytes that were cut are still mapped by a process, which must be told.
    fn left_pages_mapped(&mut self) -> u64 {
        u64::from(self.tree.store.left_pages_mapped())
    }

    /// See [`Request::Holders`].
    fn holders(&mut self, caller: u64, node: NodeId) -> Result<Answer> {
        let holds = |client: &Client| client.holds.keys().any(|word| node_of(*word) == node);
        let others = self.clients.iter().filter(|(number, client)| **number != caller && holds(client));
        let most = WINDOW_BYTES as usize / 8;
        let bytes: Vec<u8> = others.take(most).flat_map(|(number, _)| number.to_le_bytes()).collect();
        Ok([self.put(caller, &bytes)?, 0, 0, 0, 0])
    }

    pub(super) fn check_open(&mut self, at: Location, who: FsCredentials, flags: u32, slash: bool) -> Result<()> {
        let node = self.tree.node(at.node)?;
        if (flags & linux::O_DIRECTORY != 0 || slash) && !node.is_directory() {
            return Err(Errno::ENOTDIR);
        }
        if flags & linux::O_PATH != 0 {
            return Ok(());
        }
        if node.mode & linux::S_IFMT == linux::S_IFLNK {
            return Err(Errno::ELOOP);
        }
        let (read, write) = match flags & linux::O_ACCMODE {
            linux::O_RDONLY => (access::READ, 0),
            linux::O_WRONLY => (0, access::WRITE),
            _ => (access::READ, access::WRITE),
        };
        if node.is_directory() && (write != 0 || flags & (linux::O_CREAT | linux::O_TRUNC) != 0) {
            return Err(Errno::EISDIR);
        }
        let truncating = if flags & linux::O_TRUNC != 0 { access::WRITE } else { 0 };
        self.tree.check(at.node, who, read | write | truncating)?;
        if flags & linux::O_NOATIME != 0 && !who.may_own(node.uid) {
            return Err(Errno::EPERM);
        }
        match node.mode & linux::S_IFMT {
            linux::S_IFREG if write | truncating != 0 => {
                self.tree.check_writable(at)?;
                self.check_at_rest(at.node)
            }
            linux::S_IFCHR | linux::S_IFBLK if self.tree.flags_at(at) & linux::MS_NODEV != 0 => Err(Errno::EACCES),
            linux::S_IFBLK if write != 0 => match vfs::disk_number::number_of(node.device) {
                Some(number) => self.tree.take_raw(FIRST_DISK_VOLUME + number as u32),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// `access`: beyond the permissions, what the mount forbids.
    pub(super) fn access(&self, who: FsCredentials, at: Location, wanted: u32) -> Result<Outcome> {
        self.tree.check(at.node, who, wanted)?;
        let node = self.tree.node(at.node)?;
        let is_special = !matches!(node.mode & linux::S_IFMT, linux::S_IFREG | linux::S_IFDIR | linux::S_IFLNK);
        if wanted & access::EXECUTE != 0 && node.is_file() && self.tree.flags_at(at) & linux::MS_NOEXEC != 0 {
            return Err(Errno::EACCES);
        }
        if wanted & access::WRITE != 0 && !is_special {
            self.tree.check_writable(at)?;
        }
        Ok(NOTHING.into())
    }

    fn enter(&mut self, caller: u64, who: FsCredentials, at: u64, length: u64) -> Result<Outcome> {
        self.on_path(caller, who, at, FOLLOW | EMPTY_PATH, length, |server, at| {
            if !server.tree.node(at.node)?.is_directory() {
                return Err(Errno::ENOTDIR);
            }
            server.tree.check(at.node, who, access::EXECUTE)?;
            server.hold(caller, Handle::plain(at))?;
            Ok([Handle::plain(at).to_word(), 0, 0, 0, 0].into())
        })
    }

    /// The root that the caller had stays with its holds: it may have been taken as a working directory.
    fn change_root(&mut self, caller: u64, who: FsCredentials, at: Location) -> Result<Outcome> {
        if !self.tree.node(at.node)?.is_directory() {
            return Err(Errno::ENOTDIR);
        }
        self.tree.check(at.node, who, access::EXECUTE)?;
        if !who.has(linux::CAP_SYS_CHROOT) {
            return Err(Errno::EPERM);
        }
        self.set_root(caller, at)?;
        self.release_idle(caller)?;
        Ok(NOTHING.into())
    }

    pub(super) fn set_root(&mut self, caller: u64, at: Location) -> Result<()> {
        self.hold(caller, Handle::plain(at))?;
        self.clients.entry(caller).and_modify(|client| client.root = at);
        Ok(())
    }

    fn status(&mut self, caller: u64, at: Location) -> Result<Outcome> {
        let words = self.tree.status(at.node)?.through(at.mount).to_words();
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.put(caller, &bytes)?;
        Ok(NOTHING.into())
    }

    pub(super) fn read(&mut self, caller: u64, handle: Handle, offset: u64, count: u64) -> Result<Answer> {
        let window = self.window(caller)?;
        let noted = !handle.is_unnoted();
        // Its own user alone needs no other list for the pages.
        if count > WINDOW_BYTES && !self.is_other_than_zero(caller) {
            let (range, least) = ([offset, count.min(protocol::READ_BYTES)], LEAST_MAPPED);
            let mut words = window.words().iter();
            let tell = |number| words.next().into_iter().for_each(|word| word.store(number, Relaxed));
            if let Some(count) = self.tree.read_by_pages(handle.at.node, range, least, noted, tell)? {
                return Ok([count, 1, 0, 0, 0]);
            }
        }
        let mut outcome = Ok(());
        let range = [offset, count.min(WINDOW_BYTES)];
        let count = self.tree.read_noted(handle.at.node, range, noted, |place, bytes| {
            outcome = outcome.and(window.write(place as u64, bytes));
        })?;
        outcome?;
        Ok([count, 0, 0, 0, 0])
    }

    fn write(&mut self, caller: u64, node: NodeId, offset: u64, count: u64) -> Result<Answer> {
        let window = self.window(caller)?;
        let offset = if offset == protocol::APPEND { self.tree.node(node)?.size } else { offset };
        let count = count.min(WINDOW_BYTES);
        self.tree.check_write(node, offset, count)?;
        let mut outcome = Ok(());
        let count = self.tree.write(node, offset, count, |place, bytes| {
            outcome = outcome.and(window.read(place as u64, bytes));
        })?;
        outcome.map(|()| [count, offset + count, 0, 0, 0])
    }

    /// Records of `getdents64` for the entries behind the one with a number.
    fn list(&mut self, caller: u64, handle: Handle, after: u64, bytes: u64) -> Result<Answer> {
        let at = handle.at;
        if self.tree.node(at.node)?.links == 0 {
            return Err(Errno::ENOENT);
        }
        let window = self.window(caller)?;
        let records = &window.words()[..(bytes.min(WINDOW_BYTES) / 8) as usize];
        let (mut end, mut last, mut full) = (0, after, false);
        self.tree.list(at.node, after, |name, id, kind, number| {
            let words = record_words(name);
            let Some(record) = records.get(end..end + words) else {
                full = true;
                return false;
            };
            put_record(record, name, [id, number, u64::from(kind)]);
            (end, last) = (end + words, number);
            true
        })?;
        self.tree.note_event(at.node, linux::IN_ACCESS);
        if !handle.is_unnoted() && self.tree.flags_at(at) & linux::MS_NODIRATIME == 0 {
            self.tree.note_listed(at.node)?;
        }
        if end == 0 && full {
            return Err(Errno::EINVAL);
        }
        Ok([end as u64 * 8, last, 0, 0, 0])
    }

    /// A set-id file that a user other than user 0 changes becomes a plain one: its contents are not its owner's any
    /// more.
    fn make_plain(&mut self, caller: u64, node: NodeId) -> Result<()> {
        let mode = self.tree.node(node)?.mode;
        let is_kept = self.clients[&caller].credentials.has(linux::CAP_FSETID);
        if plain(mode) == mode || is_kept || !self.tree.node(node)?.is_file() {
            return Ok(());
        }
        self.tree.set_attributes(node, |node| {
            node.mode = plain(mode);
            Ok(())
        })
    }

    /// Walks to a name that must be free, in a directory that may be written.
    pub(super) fn on_new_name(
        &mut self,
        caller: u64,
        who: FsCredentials,
        at: u64,
        path: &[u8],
        is_directory: bool,
        action: impl FnOnce(&mut Self, Location, &[u8]) -> Result<()>,
    ) -> Result<Outcome> {
        let (named, slash) = without_slashes(path);
        match self.tree.walk(self.from(caller, at, who, false)?, named)? {
            WalkResult::LeavesFs { node, rest } => Ok(Outcome::LeavesFs(node, rest)),
            WalkResult::Here { node: Some(_), .. } => Err(Errno::EEXIST),
            WalkResult::Here { .. } if slash && !is_directory => Err(Errno::ENOENT),
            WalkResult::Here { directory, name, .. } => {
                self.tree.check_writable(directory)?;
                self.tree.check(directory.node, who, access::WRITE | access::EXECUTE)?;
                action(self, directory, &name)?;
                Ok(NOTHING.into())
            }
        }
    }

    /// Walks to something that is there.
    pub(super) fn on_path(
        &mut self,
        caller: u64,
        who: FsCredentials,
        at: u64,
        flags: u64,
        length: u64,
        action: impl FnOnce(&mut Self, Location) -> Result<Outcome>,
    ) -> Result<Outcome> {
        if length == 0 && flags & EMPTY_PATH != 0 {
            let at = self.start(caller, at)?;
            return action(self, at);
        }
        let path = self.path(caller, 0, length)?;
        let walk = self.from(caller, at, who, flags & FOLLOW != 0)?;
        let found = match self.walk_and_show(walk, at, &path)? {
            WalkResult::LeavesFs { node, rest } if !rest.is_empty() => return Ok(Outcome::LeavesFs(node, rest)),
            WalkResult::LeavesFs { node, .. } => action(self, node),
            WalkResult::Here { node: None, .. } => Err(Errno::ENOENT),
            WalkResult::Here { node: Some(node), slash: true, .. } if !self.tree.node(node.node)?.is_directory() => {
                return Err(Errno::ENOTDIR);
            }
            WalkResult::Here { node: Some(node), .. } => action(self, node),
        };
        self.publish(at, &path);
        found
    }

    /// Walks along a path; where a directory on the way is missing, that is shown: programs look for files in many of
    /// these.
    fn walk_and_show<'p>(&self, walk: PathWalk, at: NodeId, path: &'p [u8]) -> Result<WalkResult<'p>> {
        self.tree.walk(walk, path).inspect_err(|error| {
            if *error == Errno::ENOENT {
                self.publish(at, path);
            }
        })
    }

    /// Shows what a path leads to, for the next who asks; what changed is not shown before everybody can see it.
    pub(super) fn publish(&self, at: NodeId, path: &[u8]) {
        if self.tree.root == Location::first(ROOT) && self.tree.changes.is_empty() {
            // Only what could be found is shown.
            let _ = self.tree.publish(Dcache::new(self.dcache.words()), Handle::from_word(at).at, path);
        }
    }

    /// The same of what who asks does not look for there first: mostly it is shown.
    pub(super) fn show_once(&self, at: NodeId, path: &[u8]) {
        if Dcache::new(self.dcache.words()).find_owned(place_of(at), path, true).is_none() {
            self.publish(at, path);
        }
    }

    /// Takes out of the catalogue what changed: before the answer that tells of it.
    pub fn hide_changes(&mut self) {
        if !self.tree.changes.is_empty() {
            self.tree.carry_out(Dcache::new(self.dcache.words()));
        }
    }

    /// Lets go of what lost its last name and is held without need. A client that caches such a node from now on sees
    /// that the dcache does not show it: see `Client::close` of the other side.
    pub fn reclaim_idle_handles(&mut self) {
        for node in core::mem::take(&mut self.tree.nameless) {
            self.reclaim_idle_handles_of(node);
        }
    }

    /// Lets go of a node where it is held without need.
    pub(super) fn reclaim_idle_handles_of(&mut self, node: NodeId) {
        let take = |(number, client): (&u64, &Client)| {
            let idle = protocol::idle_in(client.window.as_ref()?.words());
            idle.find_node(node).filter(|handle| idle.take(*handle)).map(|handle| (*number, handle))
        };
        let idle: Vec<(u64, u64)> = self.clients.iter().filter_map(take).collect();
        // What a client says that it holds is let go only where it does.
        for (client, handle) in idle {
            let _ = self.release(client, Handle::from_word(handle));
        }
    }

    /// Lets go of all that is held without need, before a change of mounts that what is held could forbid.
    fn release_all_idle(&mut self) {
        self.tree.changes.note_everything();
        self.hide_changes();
        let clients: Vec<u64> = self.clients.keys().copied().collect();
        for client in clients {
            let _ = self.release_idle(client);
        }
    }

    /// Lets go of all that a client holds without need.
    pub(super) fn release_idle(&mut self, caller: u64) -> Result<()> {
        let Ok(window) = self.window(caller) else { return Ok(()) };
        for handle in protocol::idle_in(window.words()).take_all() {
            let _ = self.release(caller, Handle::from_word(handle));
        }
        Ok(())
    }

    pub(super) fn from(&self, caller: u64, at: u64, who: FsCredentials, follow: bool) -> Result<PathWalk> {
        Ok(PathWalk { from: self.start(caller, at)?, follow, makes: false, who, resolve: 0 })
    }

    /// A walk begins only at what the caller holds, or at its root, which may be called by the number of the tree's.
    pub(crate) fn start(&self, caller: u64, at: u64) -> Result<Location> {
        let client = &self.clients[&caller];
        match at {
            held if client.holds.contains_key(&held) => Ok(Handle::from_word(held).at),
            root if root == ROOT || Location::first(root) == client.root => Ok(client.root),
            _ => Err(Errno::EBADF),
        }
    }

    pub(super) fn hold(&mut self, caller: u64, handle: Handle) -> Result<()> {
        self.hold_for_nobody(handle)?;
        if let Some(client) = self.clients.get_mut(&caller) {
            *client.holds.entry(handle.to_word()).or_default() += 1;
        }
        Ok(())
    }

    /// One hold more, on behalf of no client.
    pub(super) fn hold_for_nobody(&mut self, handle: Handle) -> Result<()> {
        self.tree.hold(handle.at.node, true)?;
        self.note_writer(handle, true);
        self.tree.hold_mount(handle.at.mount, true, handle.writes());
        Ok(())
    }

    pub(super) fn release(&mut self, caller: u64, handle: Handle) -> Result<()> {
        let client = self.clients.get_mut(&caller).ok_or(Errno::EPERM)?;
        let count = client.holds.get_mut(&handle.to_word()).ok_or(Errno::EBADF)?;
        *count -= 1;
        if *count == 0 {
            client.holds.remove(&handle.to_word());
            give_room_back(&mut client.holds);
        }
        self.let_go(handle)
    }

    /// One hold less. With the last one the pipe of a FIFO is emptied and locks on the node are released.
    pub fn let_go(&mut self, handle: Handle) -> Result<()> {
        let node = handle.at.node;
        let outcome = if self.tree.let_go_if_shared(node)? {
            self.note_writer(handle, false);
            Ok(())
        } else {
            self.is_left(node)?;
            self.note_writer(handle, false);
            self.tree.hold(node, false)
        };
        self.tree.hold_mount(handle.at.mount, false, handle.writes());
        outcome
    }

    fn is_left(&mut self, node: NodeId) -> Result<()> {
        self.locks.forget_node(node);
        if !self.tree.node(node)?.is_file() {
            if let Some(pages) = self.fifos.remove(&node) {
                principals::ANY_WINDOW.free_many(&pages);
            }
            self.terminal_is_left(node);
            self.internet_socket_is_left(node);
            self.tree.watches.destroy(node);
            self.tell_watchers();
        }
        Ok(())
    }

    pub(crate) fn window(&self, caller: u64) -> Result<Mapping> {
        self.clients.get(&caller).and_then(|client| client.window.clone()).ok_or(Errno::EPERM)
    }

    pub(super) fn put(&self, caller: u64, bytes: &[u8]) -> Result<u64> {
        if bytes.len() as u64 > WINDOW_BYTES {
            return Err(Errno::ENAMETOOLONG);
        }
        self.window(caller)?.write(0, bytes)?;
        Ok(bytes.len() as u64)
    }

    #[inline]
    pub(super) fn path(&self, caller: u64, at: u64, length: u64) -> Result<Path> {
        if length >= PATH_BYTES as u64 {
            return Err(Errno::ENAMETOOLONG);
        }
        self.window(caller)?.path(at, length as usize)
    }

    #[inline]
    pub(super) fn two_paths(&self, caller: u64, lengths: u64) -> Result<(Path, Path)> {
        let first = lengths & 0xffff_ffff;
        Ok((self.path(caller, 0, first)?, self.path(caller, first, lengths >> 32)?))
    }
}

/// Words of a record of `getdents64`: node, number, length and type, and the name with its NUL.
const fn record_words(name: &[u8]) -> usize {
    const HEAD: usize = 19;
    (HEAD + name.len()) / 8 + 1
}

/// Writes one: node, number and type of what bears the name.
fn put_record(record: &[AtomicU64], name: &[u8], [node, number, kind]: [u64; 3]) {
    const IN_HEAD: usize = 5;
    let (first, rest) = name.split_at(name.len().min(IN_HEAD));
    let head = record.len() as u64 * 8 | kind << 16 | word_of(first) << 24;
    for (word, value) in record.iter().zip([node, number, head]) {
        word.store(value, Relaxed);
    }
    // A last piece that is empty is the NUL behind a name that ends with a word.
    for (index, word) in record[3..].iter().enumerate() {
        word.store(word_of(rest.get(index * 8..).unwrap_or_default()), Relaxed);
    }
}

/// A mode without the bits that change the credentials of a process that executes the file. That of a group that may
/// not is one for locks.
pub(super) const fn plain(mode: u32) -> u32 {
    let group = if mode & linux::S_IXGRP != 0 { linux::S_ISGID } else { 0 };
    mode & !(linux::S_ISUID | group)
}

/// The right that an operation on a handle needs; `writes`: a page is asked for that the client may write.
const fn right_for(operation: Request, writes: bool) -> u8 {
    match operation {
        Request::Pages if writes => right::WRITE,
        Request::Read | Request::List | Request::Pages | Request::WorkingSet => right::READ,
        Request::Write | Request::Truncate | Request::Allocate => right::WRITE,
        _ => 0,
    }
}
