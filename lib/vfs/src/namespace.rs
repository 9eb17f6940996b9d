//! The tree of names: making, linking, renaming and removing nodes.
//!
//! Invariants: every directory's parent holds it under exactly one name. Link counts are the number of names, plus
//! one for a directory's own `.` and one for each child directory. A node without names and holders is gone.

use crate::dcache::{Changes, Dcache, Named};
use crate::directory::{DOTS, Entries};
use crate::extended_attribute::Attributes;
use crate::file_data::PageStorage;
use crate::id_map::{NumberMap, give_room_back};
use crate::inode::{Body, Inode, NodeId, Status};
use crate::inotify::{Watches, directory_bit};
use crate::mount_table::{FIRST, Location, Mounts};
use crate::on_disk::OnDisk;
use crate::page_index::Pages;
use crate::path_walk::LINKS;
use crate::persistent::Backing;
use crate::prefault_set::PrefaultSets;
use crate::superblock::{ROOT_VOLUME, Superblock, VolumeId};
use crate::supplementary_groups::Groups;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cell::Cell;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;

/// Number of the root directory.
pub const ROOT: NodeId = 2;
/// Longest name.
pub const NAME_BYTES: usize = 255;

/// Credentials of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FsCredentials {
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
    /// Capabilities of Linux that count, as bits (capabilities(7)).
    pub capabilities: u64,
}

impl FsCredentials {
    /// A user and group with what they have by themselves: user 0 all capabilities, all others none.
    pub const fn new(uid: u32, gid: u32) -> Self {
        Self { uid, gid, capabilities: if uid == 0 { u64::MAX } else { 0 } }
    }

    /// Whether a capability counts.
    pub const fn has(self, capability: u32) -> bool {
        self.capabilities >> capability & 1 != 0
    }

    /// The same with one more.
    #[must_use]
    pub const fn with(self, capability: u32) -> Self {
        Self { capabilities: self.capabilities | 1 << capability, ..self }
    }

    /// Whether it may do what the owner of a node may.
    pub const fn may_own(self, uid: u32) -> bool {
        self.uid == uid || self.has(linux::CAP_FOWNER)
    }
}

impl Default for FsCredentials {
    fn default() -> Self {
        Self::new(0, 0)
    }
}

/// A kind of access to a node: the bits of `access(2)`.
pub mod access {
    /// Execute a file, search a directory.
    pub const EXECUTE: u32 = 1;
    /// Write.
    pub const WRITE: u32 = 2;
    /// Read.
    pub const READ: u32 = 4;
}

/// A new node, before it has a name.
#[derive(Clone, Copy, Debug)]
pub struct Fresh<'a> {
    /// Type and permissions.
    pub mode: u32,
    /// Owner and group.
    pub owner: FsCredentials,
    /// Major and minor number.
    pub device: (u32, u32),
    /// Target of a symbolic link.
    pub target: &'a [u8],
}

/// The file system. `now` is the time of the operation, nanoseconds since 1970; the caller sets it.
#[derive(Debug)]
pub struct FileTree<S> {
    /// Where pages come from.
    pub store: S,
    /// Time of the operations that follow.
    pub now: u64,
    /// More groups of the caller.
    pub groups: Groups,
    /// Where the caller's absolute paths begin, and where `..` leads no further (chroot(2)).
    pub root: Location,
    /// What is found where.
    pub mounts: Mounts,
    /// The volumes.
    pub volumes: BTreeMap<VolumeId, Superblock>,
    /// Which pages of files programs touch.
    pub working_sets: PrefaultSets,
    /// What changed since it was last shown.
    pub changes: Changes,
    /// The inotify watches of nodes.
    pub watches: Watches,
    /// Nodes that lost their last name while they were held, until the handle caches release them.
    pub nameless: Vec<NodeId>,
    /// What nodes are called that have no name and are held: the last one that they had, or what stands for one.
    pub(crate) former_names: BTreeMap<NodeId, Vec<u8>>,
    pub(crate) nodes: NumberMap<Inode>,
    /// How many of them lie in each volume: `statfs` does not count them.
    pub(crate) node_counts: BTreeMap<VolumeId, u64>,
    /// Volumes that a disk keeps.
    pub backings: BTreeMap<VolumeId, Backing>,
    /// The page on a disk that the last operation lacked.
    pub missing: Option<(NodeId, u64)>,
    /// A write waits for pages or blocks that a write-back may free.
    pub wants_room: bool,
    /// The last write-back freed too little: no write waits for another one.
    pub is_squeezed: bool,
    next: NodeId,
    /// What the hashes of names begin with.
    seed: u64,
}

impl<S: PageStorage> FileTree<S> {
    /// An empty root directory. `seed`: a secret from all that make names.
    pub fn new(store: S, seed: u64) -> Self {
        let root = Inode {
            mode: linux::S_IFDIR | 0o755,
            uid: 0,
            gid: 0,
            links: 2,
            size: 0,
            device: (0, 0),
            accessed: 0,
            modified: 0,
            changed: 0,
            holds: 0,
            writers: 0,
            named_in: Cell::new(ROOT),
            named_as: Cell::new(0),
            nameable: false,
            seals: linux::F_SEAL_SEAL,
            volume: ROOT_VOLUME,
            on_disk: OnDisk::default(),
            is_point: false,
            attributes: Attributes::default(),
            body: Body::Directory { parent: ROOT, entries: Entries::new(seed) },
        };
        let nodes = NumberMap::from_iter([(ROOT, root)]);
        Self {
            store,
            now: 0,
            groups: Groups::default(),
            root: Location::first(ROOT),
            mounts: Mounts::new(ROOT),
            volumes: BTreeMap::from([(ROOT_VOLUME, Superblock::unlimited(ROOT))]),
            working_sets: PrefaultSets::default(),
            changes: Changes::default(),
            nameless: Vec::new(),
            former_names: BTreeMap::new(),
            watches: Watches::default(),
            nodes,
            node_counts: BTreeMap::from([(ROOT_VOLUME, 1)]),
            backings: BTreeMap::new(),
            missing: None,
            wants_room: false,
            is_squeezed: false,
            next: ROOT + 1,
            seed,
        }
    }

    /// The node with this number.
    pub fn node(&self, id: NodeId) -> Result<&Inode> {
        self.nodes.get(&id).ok_or(Errno::ENOENT)
    }

    /// The same, to change it.
    pub fn node_mut(&mut self, id: NodeId) -> Result<&mut Inode> {
        self.changes.note(id);
        self.mark(id);
        self.nodes.get_mut(&id).ok_or(Errno::ENOENT)
    }

    /// The same, to change what it holds: size and times, and the names in a directory.
    pub(crate) fn contents_mut(&mut self, id: NodeId) -> Result<&mut Inode> {
        self.changes.note_contents(id);
        self.mark(id);
        self.nodes.get_mut(&id).ok_or(Errno::ENOENT)
    }

    /// How many nodes there are.
    pub fn count(&self) -> usize {
        self.nodes.len()
    }

    /// Checks whether a process with these credentials may do this to a node.
    pub fn check(&self, id: NodeId, who: FsCredentials, wanted: u32) -> Result<()> {
        if self.node(id)?.permits(who, &self.groups, wanted) { Ok(()) } else { Err(Errno::EACCES) }
    }

    /// What `name` leads to in a directory, without regard to mounts.
    pub fn look_up(&self, directory: NodeId, name: &[u8]) -> Result<NodeId> {
        self.node(directory)?.look_up(directory, name)
    }

    /// Makes a node under a name that is free.
    pub fn create(&mut self, directory: NodeId, name: &[u8], fresh: Fresh<'_>) -> Result<NodeId> {
        self.check_new_name(directory, name)?;
        self.check_log(directory)?;
        self.make_room(directory)?;
        let id = self.insert(directory, fresh)?;
        let is_directory = self.node(id)?.is_directory();
        self.enter(directory, name, id, is_directory)?;
        self.log_name(directory, name, id);
        self.watches.note(directory, linux::IN_CREATE | directory_bit(is_directory), 0, name);
        Ok(id)
    }

    /// Makes a file without a name, as if it were in `directory`: it lives as long as it has a holder.
    pub fn create_unnamed(&mut self, directory: NodeId, fresh: Fresh<'_>, nameable: bool) -> Result<NodeId> {
        self.make_room_for_node()?;
        let id = self.insert(directory, fresh)?;
        let node = self.node_mut(id)?;
        (node.links, node.nameable) = (0, nameable);
        Ok(id)
    }

    /// Makes sure that a directory can have one more name, and the tree one more node: of many there is a table whose
    /// double there may be no memory for.
    fn make_room(&mut self, directory: NodeId) -> Result<()> {
        self.make_room_for_node()?;
        match &mut self.node_mut(directory)?.body {
            Body::Directory { entries, .. } => entries.make_room(),
            _ => Ok(()),
        }
    }

    /// The table of nodes doubles at times, in one piece: the store is asked for the pages first.
    fn make_room_for_node(&mut self) -> Result<()> {
        if self.nodes.len() == self.nodes.capacity() {
            self.store.make_room_for((self.nodes.len() + 1) * 3 * size_of::<(NodeId, Inode)>());
        }
        self.nodes.try_reserve(1).map_err(|_| Errno::ENOSPC)
    }

    fn insert(&mut self, directory: NodeId, fresh: Fresh<'_>) -> Result<NodeId> {
        let id = self.next;
        let is_directory = fresh.mode & linux::S_IFMT == linux::S_IFDIR;
        let body = match fresh.mode & linux::S_IFMT {
            linux::S_IFDIR => Body::Directory { parent: directory, entries: Entries::new(self.seed) },
            linux::S_IFREG => Body::Pages(Pages::default()),
            linux::S_IFLNK => Body::Link(fresh.target.into()),
            _ => Body::Special,
        };
        let inherited = self.node(directory)?.mode & linux::S_ISGID != 0;
        let gid = if inherited { self.node(directory)?.gid } else { fresh.owner.gid };
        // A user cannot make a program that acts for a group which is not his.
        let is_member = fresh.owner.has(linux::CAP_FSETID) || fresh.owner.gid == gid || self.groups.has(gid);
        let mode = match is_directory {
            true if inherited => fresh.mode | linux::S_ISGID,
            false if !is_member => fresh.mode & !linux::S_ISGID,
            _ => fresh.mode,
        };
        let node = Inode {
            mode,
            uid: fresh.owner.uid,
            gid,
            links: 1 + u32::from(is_directory),
            size: fresh.target.len() as u64,
            device: fresh.device,
            accessed: self.now,
            modified: self.now,
            changed: self.now,
            holds: 0,
            writers: 0,
            named_in: Cell::new(directory),
            named_as: Cell::new(0),
            nameable: false,
            seals: linux::F_SEAL_SEAL,
            volume: self.node(directory)?.volume,
            on_disk: OnDisk::default(),
            is_point: false,
            attributes: Attributes::default(),
            body,
        };
        self.next += 1;
        *self.node_counts.entry(node.volume).or_default() += 1;
        self.nodes.insert(id, node);
        Ok(id)
    }

    /// Gives a node one more name.
    pub fn link(&mut self, id: NodeId, directory: NodeId, name: &[u8]) -> Result<()> {
        if self.node(id)?.is_directory() {
            return Err(Errno::EPERM);
        }
        self.check_new_name(directory, name)?;
        self.check_log(directory)?;
        self.make_room(directory)?;
        let now = self.now;
        let node = self.node_mut(id)?;
        if node.links == 0 && !node.nameable {
            return Err(Errno::ENOENT);
        }
        node.links = node.links.checked_add(1).ok_or(Errno::EMLINK)?;
        node.changed = now;
        self.enter(directory, name, id, false)?;
        self.log_name(directory, name, id);
        self.watches.note(id, linux::IN_ATTRIB, 0, b"");
        self.watches.note(directory, linux::IN_CREATE, 0, name);
        Ok(())
    }

    /// Takes a name away: of a directory with `directory_wanted`, else of anything else.
    pub fn remove(&mut self, directory: NodeId, name: &[u8], directory_wanted: bool) -> Result<()> {
        match name {
            b"." | b".." if !directory_wanted => return Err(Errno::EISDIR),
            b"." => return Err(Errno::EINVAL),
            b".." => return Err(Errno::ENOTEMPTY),
            _ => {}
        }
        let id = self.look_up(directory, name)?;
        self.check_removable(id, directory_wanted)?;
        self.check_log(directory)?;
        // Watchers of a node are told of its end last.
        let is_watched = self.watches.is_watched(id);
        if is_watched {
            self.hold(id, true)?;
        }
        self.leave(directory, name, id)?;
        self.log_removal(directory, name, id, directory_wanted);
        if !directory_wanted {
            self.watches.note(id, linux::IN_ATTRIB, 0, b"");
        }
        self.watches.note(directory, linux::IN_DELETE | directory_bit(directory_wanted), 0, name);
        if is_watched { self.hold(id, false) } else { Ok(()) }
    }

    /// Renames: what `to_name` led to is replaced in the same step. Neither name is `.` or `..`.
    pub fn rename(&mut self, (from, from_name): (NodeId, &[u8]), (to, to_name): (NodeId, &[u8])) -> Result<()> {
        let id = self.look_up(from, from_name)?;
        self.check_log(to)?;
        let is_directory = self.node(id)?.is_directory();
        self.note_moved(is_directory);
        if is_directory && self.is_below(to, id)? {
            return Err(Errno::EINVAL);
        }
        self.check_no_point(id)?;
        let there = self.look_up(to, to_name);
        match there {
            Ok(there) if there == id => return Ok(()),
            Ok(there) => {
                self.check_removable(there, is_directory)?;
                if self.watches.is_watched(there) {
                    self.hold(there, true)?;
                }
                self.leave(to, to_name, there)?;
            }
            Err(error) => self.check_name_is_free(to, to_name, Err(error))?,
        }
        self.make_room(to)?;
        self.detach(from, from_name, is_directory)?;
        if let Body::Directory { parent, .. } = &mut self.node_mut(id)?.body {
            *parent = to;
        }
        self.node_mut(id)?.changed = self.now;
        self.enter(to, to_name, id, is_directory)?;
        self.log_rename((from, from_name), (to, to_name), there.ok());
        self.note_move(id, (from, from_name), (to, to_name));
        let Some(gone) = there.ok().filter(|gone| self.watches.is_watched(*gone)) else { return Ok(()) };
        if !is_directory {
            self.watches.note(gone, linux::IN_ATTRIB, 0, b"");
        }
        self.hold(gone, false)
    }

    /// Swaps what two names lead to. Neither is `.` or `..`.
    pub fn exchange(&mut self, (a, a_name): (NodeId, &[u8]), (b, b_name): (NodeId, &[u8])) -> Result<()> {
        let (first, second) = (self.look_up(a, a_name)?, self.look_up(b, b_name)?);
        if first == second {
            return Ok(());
        }
        self.check_log(a)?;
        let (first_is, second_is) = (self.node(first)?.is_directory(), self.node(second)?.is_directory());
        self.note_moved(first_is || second_is);
        if (first_is && self.is_below(b, first)?) || (second_is && self.is_below(a, second)?) {
            return Err(Errno::EINVAL);
        }
        self.check_no_point(first)?;
        self.check_no_point(second)?;
        self.detach(a, a_name, first_is)?;
        self.detach(b, b_name, second_is)?;
        let now = self.now;
        for (id, new_parent) in [(first, b), (second, a)] {
            let node = self.node_mut(id)?;
            node.changed = now;
            if let Body::Directory { parent, .. } = &mut node.body {
                *parent = new_parent;
            }
        }
        self.enter(a, a_name, second, second_is)?;
        self.enter(b, b_name, first, first_is)?;
        self.log_exchange((first, a, a_name), (second, b, b_name));
        self.note_move(first, (a, a_name), (b, b_name));
        self.note_move(second, (b, b_name), (a, a_name));
        Ok(())
    }

    /// One more holder of a node, or one less; the last one of a nameless node lets it go.
    pub fn hold(&mut self, id: NodeId, hold: bool) -> Result<()> {
        let node = self.nodes.get_mut(&id).ok_or(Errno::ENOENT)?;
        node.holds = if hold { node.holds.saturating_add(1) } else { node.holds.saturating_sub(1) };
        if node.is_forgotten() {
            self.forget(id);
        }
        Ok(())
    }

    /// One holder less of a node, unless it is the last one; whether it was another.
    pub fn let_go_if_shared(&mut self, id: NodeId) -> Result<bool> {
        let node = self.nodes.get_mut(&id).ok_or(Errno::ENOENT)?;
        let are_more = node.holds > 1;
        node.holds -= u32::from(are_more);
        Ok(are_more)
    }

    /// Names of a directory were read: the time is kept, as for a file.
    pub fn note_listed(&mut self, id: NodeId) -> Result<()> {
        let now = self.now;
        if self.nodes.get_mut(&id).ok_or(Errno::ENOENT)?.note_read(now) {
            self.changes.note_read(id);
        }
        Ok(())
    }

    /// Changes mode, owner or times. What lies below a directory may be open to others than before.
    pub fn set_attributes(&mut self, id: NodeId, edit: impl FnOnce(&mut Inode) -> Result<()>) -> Result<()> {
        let now = self.now;
        let node = self.node_mut(id)?;
        edit(node)?;
        node.changed = now;
        if node.is_directory() {
            self.changes.note_everything();
        }
        self.note_event(id, linux::IN_ATTRIB);
        Ok(())
    }

    /// What `stat` tells.
    pub fn status(&self, id: NodeId) -> Result<Status> {
        let node = self.node(id)?;
        Ok(Status {
            node: id,
            mode_links: node.mode_links(),
            owner: u64::from(node.uid) | u64::from(node.gid) << 32,
            size: node.stated_size(),
            allocated: node.allocated(),
            device: u64::from(node.device.1) | u64::from(node.device.0) << 32,
            accessed: node.accessed,
            modified: node.modified,
            changed: node.changed,
            place: u64::from(node.volume),
        })
    }

    /// The entries of a directory behind the one with a number, 0 for all; `.` and `..` are the first two. `each`
    /// gets name, node, type and number, and says whether to go on.
    pub fn list(&self, id: NodeId, after: u64, mut each: impl FnMut(&[u8], NodeId, u8, u64) -> bool) -> Result<()> {
        const DIRECTORY: u8 = (linux::S_IFDIR >> 12) as u8;
        let (parent, entries) = self.directory(id)?;
        let dots: [(&[u8], NodeId, u64); 2] = [(b".", id, DOTS[0]), (b"..", parent, DOTS[1])];
        for (name, id, number) in dots.into_iter().filter(|(.., number)| *number > after) {
            if !each(name, id, DIRECTORY, number) {
                return Ok(());
            }
        }
        for entry in entries.after(after) {
            if !each(&entry.name, entry.node, entry.kind, entry.number) {
                break;
            }
        }
        Ok(())
    }

    pub(crate) fn directory(&self, id: NodeId) -> Result<(NodeId, &Entries)> {
        match &self.node(id)?.body {
            Body::Directory { parent, entries } => Ok((*parent, entries)),
            _ => Err(Errno::ENOTDIR),
        }
    }

    fn check_new_name(&self, directory: NodeId, name: &[u8]) -> Result<()> {
        self.check_name_is_free(directory, name, self.look_up(directory, name))
    }

    /// The same, where it has been looked up already.
    fn check_name_is_free(&self, directory: NodeId, name: &[u8], there: Result<NodeId>) -> Result<()> {
        if name.len() > NAME_BYTES {
            return Err(Errno::ENAMETOOLONG);
        }
        if self.node(directory)?.links == 0 || name.is_empty() {
            return Err(Errno::ENOENT);
        }
        match there {
            Err(Errno::ENOENT) => Ok(()),
            Err(other) => Err(other),
            Ok(_) => Err(Errno::EEXIST),
        }
    }

    fn check_removable(&self, id: NodeId, directory_wanted: bool) -> Result<()> {
        let node = self.node(id)?;
        self.check_no_point(id)?;
        match &node.body {
            Body::Directory { .. } if !directory_wanted => Err(Errno::EISDIR),
            Body::Directory { entries, .. } if !entries.is_empty() => Err(Errno::ENOTEMPTY),
            Body::Directory { .. } => Ok(()),
            _ if directory_wanted => Err(Errno::ENOTDIR),
            _ => Ok(()),
        }
    }

    /// What a mount lies on keeps its name.
    fn check_no_point(&self, id: NodeId) -> Result<()> {
        if self.node(id)?.is_point && self.mounts.is_point(id) { Err(Errno::EBUSY) } else { Ok(()) }
    }

    /// A directory goes to another place: what lies below it may be open to others than before.
    const fn note_moved(&mut self, is_directory: bool) {
        if is_directory {
            self.changes.note_everything();
        }
    }

    /// Brings a dentry cache up to date with what changed: permissions have not changed where only contents did.
    pub fn carry_out(&mut self, catalogue: Dcache<'_>) {
        for id in self.changes.read() {
            if let Ok(node) = self.node(*id) {
                catalogue.show_accessed(*id, node.accessed);
            }
        }
        for id in self.changes.contents() {
            match self.node(*id) {
                Ok(node) => catalogue.show_contents(*id, node),
                Err(_) => catalogue.hide_node(*id),
            }
        }
        self.changes.carry_out(catalogue);
    }

    /// Publishes what a walk along a path finds, as far as all users may see it.
    pub fn publish(&self, catalogue: Dcache<'_>, from: Location, path: &[u8]) -> Result<()> {
        if self.mounts.root == FIRST {
            let mut links = LINKS;
            self.show_from(catalogue, from, path, &mut links)?;
        }
        Ok(())
    }

    /// The same; where it ended, if all of the way may be seen by all. What symbolic links lead to is shown, too, so
    /// many of them on all of the way: links of links of links could take for ever.
    fn show_from(
        &self,
        catalogue: Dcache<'_>,
        from: Location,
        path: &[u8],
        links: &mut usize,
    ) -> Result<Option<Location>> {
        let mut at = if path.first() == Some(&b'/') { Location::first(ROOT) } else { from };
        if !self.is_open_to_all(at)? {
            return Ok(None);
        }
        catalogue.show_node(&self.status(at.node)?);
        let names = || path.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b"."));
        let last = names().count();
        for (index, name) in names().enumerate() {
            let Some(mut found) = self.find_to_show(at, name)? else { return Ok(None) };
            if found.node == 0 {
                catalogue.show_name(at.to_word(), name, Named { place: 0, kind: 0 });
                return Ok(None);
            }
            let node = self.node(found.node)?;
            catalogue.show_name(at.to_word(), name, Named { place: found.to_word(), kind: node.directory_type() });
            catalogue.show_node(&self.status(found.node)?);
            if let Body::Link(target) = &node.body {
                catalogue.show_target(found.node, target);
                let Some(left) = links.checked_sub(1) else { return Ok(None) };
                *links = left;
                let Some(end) = self.show_from(catalogue, at, target, links)? else { return Ok(None) };
                found = end;
            }
            if index + 1 < last && !self.node(found.node)?.is_open_to_all() {
                return Ok(None);
            }
            at = found;
        }
        Ok(Some(at))
    }

    /// What a name leads to, node 0 for nowhere; nothing where processes cannot follow: to what each process makes
    /// itself, and through a link that its mount forbids to follow.
    fn find_to_show(&self, at: Location, name: &[u8]) -> Result<Option<Location>> {
        let found = match self.look_up(at.node, name) {
            _ if name == b".." => return Ok(None),
            Err(Errno::ENOENT) => return Ok(Some(at.beside(0))),
            found => self.uppermost(at.beside(found?)),
        };
        let is_hidden = match self.node(found.node)?.body {
            Body::Elsewhere => true,
            Body::Link(_) => self.flags_at(found) & linux::MS_NOSYMFOLLOW != 0,
            _ => false,
        };
        Ok((!is_hidden).then_some(found))
    }

    /// Whether all users find a place by the name that its node got last.
    pub fn is_found_by_all(&self, at: Location) -> Result<bool> {
        let node = self.node(at.node)?;
        if node.links == 0 || node.is_point && self.mounts.on(at).is_some() {
            return Ok(false);
        }
        match self.found_in(at)? {
            Some(directory) => self.is_open_to_all(directory),
            None => Ok(at == Location::first(ROOT)),
        }
    }

    /// Whether a place is a directory that all users may search and read, and so are all on the way to it from the
    /// first root. No mount may cover any of them.
    fn is_open_to_all(&self, mut at: Location) -> Result<bool> {
        loop {
            let node = self.node(at.node)?;
            if !node.is_open_to_all() || node.is_point && self.mounts.on(at).is_some() {
                return Ok(false);
            }
            match self.found_in(at)? {
                Some(above) => at = above,
                None => return Ok(at == Location::first(ROOT)),
            }
        }
    }

    /// The directory in which a walk finds a place, below the mounts that lead to it; none for a root of all, and for
    /// what is in no directory.
    fn found_in(&self, mut at: Location) -> Result<Option<Location>> {
        loop {
            let mount = self.mounts.get(at.mount)?;
            if at.node != mount.root {
                let above = self.node(at.node)?.directory_of_name();
                return Ok((above != at.node).then(|| at.beside(above)));
            }
            match mount.on {
                Some(place) => at = place,
                None => return Ok(None),
            }
        }
    }

    /// Whether `id` is `above` or lies somewhere below it.
    fn is_below(&self, mut id: NodeId, above: NodeId) -> Result<bool> {
        while id != above {
            let parent = self.directory(id)?.0;
            if parent == id {
                return Ok(false);
            }
            id = parent;
        }
        Ok(true)
    }

    fn enter(&mut self, directory: NodeId, name: &[u8], id: NodeId, is_directory: bool) -> Result<()> {
        let now = self.now;
        self.changes.note_name(directory, name);
        self.former_names.remove(&id);
        let named = self.node_mut(id)?;
        named.named_in.set(directory);
        let kind = named.directory_type();
        let node = self.contents_mut(directory)?;
        node.links += u32::from(is_directory);
        (node.modified, node.changed) = (now, now);
        if let Body::Directory { entries, .. } = &mut node.body {
            entries.insert(name, id, kind);
        }
        Ok(())
    }

    /// Takes a name out of a directory; the node keeps its link count.
    fn detach(&mut self, directory: NodeId, name: &[u8], is_directory: bool) -> Result<()> {
        let now = self.now;
        self.changes.note_name(directory, name);
        let node = self.contents_mut(directory)?;
        node.links -= u32::from(is_directory);
        (node.modified, node.changed) = (now, now);
        if let Body::Directory { entries, .. } = &mut node.body {
            entries.remove(name);
        }
        Ok(())
    }

    fn leave(&mut self, directory: NodeId, name: &[u8], id: NodeId) -> Result<()> {
        let is_directory = self.node(id)?.is_directory();
        self.detach(directory, name, is_directory)?;
        let now = self.now;
        let node = self.node_mut(id)?;
        node.links -= 1 + u32::from(is_directory);
        node.changed = now;
        if node.links == 0 && node.holds != 0 {
            self.nameless.push(id);
            self.former_names.insert(id, name.to_vec());
        }
        self.forget(id);
        Ok(())
    }

    pub(crate) fn forget(&mut self, id: NodeId) {
        self.changes.note(id);
        if self.nodes.get(&id).is_some_and(Inode::is_forgotten)
            && let Some(Inode { body, volume, attributes, .. }) = self.nodes.remove(&id)
        {
            give_room_back(&mut self.nodes);
            self.former_names.remove(&id);
            self.count_one_less(volume);
            self.give_pages(volume, attributes.pages);
            if let Body::Pages(pages) = body {
                self.give_pages(volume, pages.from(0).map(|(_, page)| page));
                self.working_sets.forget(id);
            }
        }
        if self.watches.is_watched(id) && !self.nodes.contains_key(&id) {
            self.watches.note_gone(id, linux::IN_DELETE_SELF);
        }
    }
}
