//! Volumes that a disk keeps: the log of changes since the last write-back, and pages that are still on the disk. Pure.
//!
//! Names and attributes of such a volume lie in memory as those of every other. The writer takes the log of names and
//! the dirty nodes, and repeats them on the file system of the disk.
//!
//! Invariants:
//! - what differs between memory and disk is in the log or in the dirty nodes.
//! - a page that is not in memory is on the disk where `Inode::on_disk` has it, else a hole.
//! - an operation that needs such a page fails with [`Errno::NOT_LOADED`] before it has changed anything.

use crate::file_data::{LARGEST, PageStorage};
use crate::inode::{Body, Inode, NodeId};
use crate::mount::blank;
use crate::mount_table::{FIRST, Kind, Location, Mount};
use crate::namespace::{FileTree, Fresh, FsCredentials, ROOT};
use crate::on_disk::OnDisk;
use crate::superblock::{Superblock, VolumeId};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use linux_abi::address_map::PAGE_SIZE;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;

/// The volume of the first disk; the others follow.
pub const FIRST_DISK_VOLUME: VolumeId = 0x100;
/// Directories that stay in memory where a disk has the root. The disk has empty ones, or none.
pub const KEPT_IN_MEMORY: [&[u8]; 5] = [b"dev", b"proc", b"sys", b"tmp", b".chitin"];
/// What `populate` adds to every root, and a disk has itself.
const NOT_KEPT: [&[u8]; 1] = [b"root"];
/// Changes of names that a volume collects between two write-backs; the next one waits. Each takes some 150 bytes.
pub const LOG_MOST: usize = 16 << 10;
/// Bytes of the largest file that a disk can have.
pub const LARGEST_ON_DISK: u64 = (4 + 496 + 496 * 496 + 496 * 496 * 496) * PAGE_SIZE;
/// Holes made in a file between two write-backs; the next one waits.
const PUNCHED_MOST: usize = 1 << 10;
/// Pages that stay free for what cannot wait for a write-back.
const LOW: u64 = 64;

/// What a node was made as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// Type and permissions.
    pub mode: u32,
    /// Owner and group.
    pub owner: (u32, u32),
    /// Device number.
    pub device: (u32, u32),
    /// Target of a symbolic link.
    pub target: Box<[u8]>,
}

/// A change of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A node got a name: one more, or its first one.
    Name(NodeId, Box<[u8]>, NodeId, Made),
    /// A name went: of a directory, and of the node's last one, or not.
    Remove(NodeId, Box<[u8]>, NodeId, bool, bool),
    /// A name moved to a place, whose node lost its last name, or there was none.
    Rename((NodeId, Box<[u8]>), (NodeId, Box<[u8]>), Option<NodeId>),
}

/// Where the disk has a name: its directory, and the place there.
type Place = (NodeId, u64);

/// What changes that commute have changed, in which only those of one place keep their order. No node has a name in two
/// places, and names change either in a node or of it.
#[derive(Debug, Default)]
struct Batch {
    places: BTreeMap<NodeId, Place>,
    directories: BTreeSet<NodeId>,
}

impl Batch {
    /// Adds a change, if it commutes with those that are there.
    fn admits(&mut self, (id, place): (NodeId, Place)) -> bool {
        let is_elsewhere = self.places.get(&id).is_some_and(|known| *known != place);
        if is_elsewhere || self.directories.contains(&id) || self.places.contains_key(&place.0) {
            return false;
        }
        self.places.insert(id, place);
        self.directories.insert(place.0);
        true
    }
}

/// Puts changes of names into an order of the same outcome, in which the disk reads and writes each part of a directory
/// once. Programs may have changed several directories in turn. `place` gives the place of a name in its directory. A
/// new name that is removed at once is left out where the disk has not its node.
pub fn order_by_place(
    mut log: Vec<Change>,
    place: impl Fn(&[u8]) -> u64,
    is_on_disk: impl Fn(NodeId) -> bool,
) -> Vec<Change> {
    let part = |change: &Change| match change {
        Change::Name(directory, name, id, _) | Change::Remove(directory, name, id, ..) => {
            Some((*id, (*directory, place(name))))
        }
        Change::Rename(..) => None,
    };
    let (mut batch, mut first) = (Batch::default(), 0);
    for at in 0..=log.len() {
        let next = log.get(at).and_then(part);
        if next.is_some_and(|next| batch.admits(next)) {
            continue;
        }
        log[first..at].sort_by_cached_key(|change| part(change).map(|(_, place)| place));
        (batch, first) = (Batch::default(), at);
        if let Some(next) = next {
            batch.admits(next);
        }
    }
    let mut kept = 0;
    for at in 0..log.len() {
        if kept > 0 && is_undone(&log[kept - 1], &log[at], &is_on_disk) {
            kept -= 1;
        } else {
            log.swap(kept, at);
            kept += 1;
        }
    }
    log.truncate(kept);
    log
}

/// Whether a change ends what the one before began, so that the disk needs neither.
fn is_undone(before: &Change, change: &Change, is_on_disk: &impl Fn(NodeId) -> bool) -> bool {
    match (before, change) {
        (Change::Name(there, made, id, _), Change::Remove(directory, name, gone, _, true)) => {
            (there, made, id) == (directory, name, gone) && !is_on_disk(*id)
        }
        _ => false,
    }
}

/// What of a node differs from the disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dirty {
    /// Pages by index.
    pub pages: BTreeSet<u64>,
    /// The least size that it had.
    pub cut: Option<u64>,
    /// Ranges of pages that became holes, before the pages above were written.
    pub punched: Vec<(u64, u64)>,
}

impl Dirty {
    /// Adds what could not be written. Of its pages those are written that the file still has then.
    pub fn restore(&mut self, before: Self) {
        self.pages.extend(before.pages);
        self.cut = self.cut.into_iter().chain(before.cut).min();
        self.punched.extend(before.punched);
    }
}

/// What a volume on a disk has beyond one in memory.
#[derive(Debug, Default)]
pub struct Backing {
    /// Changes of names, in their order.
    pub log: Vec<Change>,
    /// Nodes whose attributes or contents changed.
    pub dirty: BTreeMap<NodeId, Dirty>,
    /// Blocks in all.
    pub blocks: u64,
    /// Blocks that are free, but for those of pages that were added since.
    pub free: u64,
    /// The disk holds zeros: it becomes a volume when a name is made here, or what a program writes to it as a disk.
    pub is_blank: bool,
    /// Blocks became free since `free` was counted.
    pub has_freed: bool,
}

/// A node of a volume as the disk has it, with the name that leads to it.
#[derive(Clone, Debug)]
pub struct Restored {
    /// Where in the list the directory is; of the root itself.
    pub directory: usize,
    /// The name; empty for the root.
    pub name: Vec<u8>,
    /// Where in the list the node stands already, under another name.
    pub same: Option<usize>,
    /// What it is.
    pub made: Made,
    /// Bytes of a file.
    pub size: u64,
    /// Ranges of its pages that the disk has not.
    pub holes: Vec<(u64, u64)>,
    /// Times of access, data change and inode change.
    pub times: [u64; 3],
}

/// What the writer copies of a dirty node.
#[derive(Debug)]
pub struct Snapshot {
    /// Type and permissions.
    pub mode: u32,
    /// Owner and group.
    pub owner: (u32, u32),
    /// Bytes.
    pub size: u64,
    /// Times of access, data change and inode change.
    pub times: [u64; 3],
    /// It has a name.
    pub is_named: bool,
}

impl<S: PageStorage> FileTree<S> {
    /// Whether anything of a volume is still to be written.
    pub fn is_changed(&self, volume: VolumeId) -> bool {
        self.backings.get(&volume).is_some_and(|backing| !backing.log.is_empty() || !backing.dirty.is_empty())
    }

    /// A program opens a disk itself to write it.
    ///
    /// # Errors
    /// `EBUSY` where the volume on it is in use. A blank one is given up: it cannot be changed any more.
    pub fn take_raw(&mut self, volume: VolumeId) -> Result<()> {
        let Some(backing) = self.backings.get(&volume) else { return Ok(()) };
        if !backing.is_blank || !backing.log.is_empty() {
            return Err(Errno::EBUSY);
        }
        if let Some(volume) = self.volumes.get_mut(&volume) {
            volume.read_only = true;
        }
        self.changes.note_everything();
        Ok(())
    }

    fn backing_of(&mut self, id: NodeId) -> Option<&mut Backing> {
        if self.backings.is_empty() {
            return None;
        }
        let volume = self.nodes.get(&id)?.volume;
        self.backings.get_mut(&volume)
    }

    /// Records that something of a node changed; whether a disk keeps it.
    pub(crate) fn mark(&mut self, id: NodeId) -> bool {
        let Some(backing) = self.backing_of(id) else { return false };
        backing.dirty.entry(id).or_default();
        true
    }

    /// Records that a page of a file changed.
    pub(crate) fn mark_page(&mut self, id: NodeId, index: u64) {
        if let Some(backing) = self.backing_of(id) {
            backing.dirty.entry(id).or_default().pages.insert(index);
        }
    }

    /// Records that a file was cut.
    pub(crate) fn mark_cut(&mut self, id: NodeId, size: u64) {
        let Some(backing) = self.backing_of(id) else { return };
        backing.has_freed = true;
        let dirty = backing.dirty.entry(id).or_default();
        dirty.cut = Some(dirty.cut.map_or(size, |cut| cut.min(size)));
        dirty.pages.split_off(&size.div_ceil(PAGE_SIZE));
        let end = size.div_ceil(PAGE_SIZE);
        if let Some(node) = self.nodes.get_mut(&id) {
            node.on_disk.in_memory -= node.count_on_disk(end, u64::MAX);
            node.on_disk.cut(end);
        }
    }

    /// Makes a new hole wait for a write-back where many of the file wait to be written.
    pub(crate) fn check_punched(&mut self, id: NodeId) -> Result<()> {
        let dirty = self.backing_of(id).and_then(|backing| backing.dirty.get(&id));
        if dirty.is_none_or(|dirty| dirty.punched.len() < PUNCHED_MOST) {
            return Ok(());
        }
        self.wants_room = true;
        Err(Errno::NOT_LOADED)
    }

    /// Records that a range of pages of a file becomes a hole, before the pages go.
    pub(crate) fn mark_punched(&mut self, id: NodeId, first: u64, end: u64) {
        let Some(backing) = self.backing_of(id) else { return };
        backing.has_freed = true;
        let dirty = backing.dirty.entry(id).or_default();
        let mut beyond = dirty.pages.split_off(&first);
        dirty.pages.append(&mut beyond.split_off(&end));
        match dirty.punched.last_mut() {
            Some(last) if last.0 <= end && first <= last.1 => *last = (last.0.min(first), last.1.max(end)),
            _ => dirty.punched.push((first, end)),
        }
        if let Some(node) = self.nodes.get_mut(&id) {
            node.on_disk.in_memory -= node.count_on_disk(first, end);
            node.on_disk.punch(first, end);
        }
    }

    /// Bytes of the largest file where a node lies.
    pub(crate) fn largest(&self, id: NodeId) -> u64 {
        let is_on_disk = self.nodes.get(&id).is_some_and(|node| self.backings.contains_key(&node.volume));
        if is_on_disk { LARGEST_ON_DISK } else { LARGEST }
    }

    /// Makes a change of names in a directory wait for a write-back where the log of its volume is full.
    pub(crate) fn check_log(&mut self, directory: NodeId) -> Result<()> {
        if self.backing_of(directory).is_none_or(|backing| backing.log.len() < LOG_MOST) {
            return Ok(());
        }
        self.wants_room = true;
        Err(Errno::NOT_LOADED)
    }

    fn log(&mut self, node: NodeId, change: impl FnOnce() -> Change) {
        if let Some(backing) = self.backing_of(node) {
            backing.log.push(change());
        }
    }

    /// Records that a node got a name. One that had none is written whole.
    pub(crate) fn log_name(&mut self, directory: NodeId, name: &[u8], id: NodeId) {
        if self.backings.is_empty() || !self.mark(id) {
            return;
        }
        let Ok(node) = self.node(id) else { return };
        let target: Box<[u8]> = if let Body::Link(target) = &node.body { target.clone() } else { Box::default() };
        let made = Made { mode: node.mode, owner: (node.uid, node.gid), device: node.device, target };
        let pages: Vec<u64> = match &node.body {
            Body::Pages(pages) if node.links == 1 => pages.from(0).map(|(index, _)| index).collect(),
            _ => Vec::new(),
        };
        pages.into_iter().for_each(|index| self.mark_page(id, index));
        self.log(directory, || Change::Name(directory, name.into(), id, made));
    }

    /// Records that a name of a node went.
    pub(crate) fn log_removal(&mut self, directory: NodeId, name: &[u8], id: NodeId, is_directory: bool) {
        if !self.backings.is_empty() {
            let is_last = self.nodes.get(&id).is_none_or(|node| node.links == 0);
            self.freed_in(directory, is_last);
            self.log(directory, || Change::Remove(directory, name.into(), id, is_directory, is_last));
        }
    }

    /// Records that a name moved, over that of a node or to a free place.
    pub(crate) fn log_rename(&mut self, from: (NodeId, &[u8]), to: (NodeId, &[u8]), over: Option<NodeId>) {
        if !self.backings.is_empty() {
            let gone = over.filter(|id| self.nodes.get(id).is_none_or(|node| node.links == 0));
            self.freed_in(to.0, gone.is_some());
            self.log(to.0, || Change::Rename((from.0, from.1.into()), (to.0, to.1.into()), gone));
        }
    }

    /// Records that two nodes swapped their names. The disk has no such step: it gets three renames. The first node has
    /// a name of its own meanwhile, which a crash may leave.
    pub(crate) fn log_exchange(&mut self, first: (NodeId, NodeId, &[u8]), second: (NodeId, NodeId, &[u8])) {
        if self.backings.is_empty() || !self.mark(first.0) || !self.mark(second.0) {
            return;
        }
        let (a, b) = ((first.1, first.2), (second.1, second.2));
        let is_free = |name: &String| self.look_up(a.0, name.as_bytes()).is_err();
        let Some(between) = (0..u64::MAX).map(|number| format!(".exchanged-{number}")).find(is_free) else { return };
        let between = (a.0, between.as_bytes());
        for (from, to) in [(a, between), (b, a), (between, b)] {
            self.log_rename(from, to, None);
        }
    }

    fn freed_in(&mut self, directory: NodeId, is_last: bool) {
        if let Some(backing) = self.backing_of(directory).filter(|_| is_last) {
            backing.has_freed = true;
        }
    }

    /// Makes a change of a range of bytes wait where pages or blocks run short and a write-back may free some.
    pub(crate) fn check_room(&mut self, id: NodeId, start: u64, end: u64) -> Result<()> {
        if self.backings.is_empty() {
            return Ok(());
        }
        let node = self.node(id)?;
        let Body::Pages(pages) = &node.body else { return Ok(()) };
        let (first, end) = (start / PAGE_SIZE, end.div_ceil(PAGE_SIZE));
        let fresh = (first..end).filter(|index| pages.get(*index).is_none()).count() as u64;
        let is_new = |index: &u64| pages.get(*index).is_none() && !node.on_disk.has(*index);
        let blocks = (first..end).filter(is_new).count() as u64;
        if fresh == 0 {
            return Ok(());
        }
        let is_full = self.backings.get(&node.volume).is_some_and(|backing| backing.has_freed && backing.free < blocks);
        let is_short = self.store.room() < fresh + LOW;
        if !is_short {
            self.is_squeezed = false;
        }
        if is_full || is_short && !self.is_squeezed {
            self.wants_room = true;
            return Err(Errno::NOT_LOADED);
        }
        Ok(())
    }

    /// Fails where a page of a range lies on the disk only.
    pub(crate) fn check_loaded(&mut self, id: NodeId, first: u64, end: u64) -> Result<()> {
        let node = self.node(id)?;
        let Body::Pages(pages) = &node.body else { return Ok(()) };
        let mut at = first;
        while let Some(data) = node.on_disk.next_data(at).filter(|index| *index < end) {
            at = node.on_disk.next_hole(data).min(end);
            if let Some(index) = pages.hole_within(data, at) {
                self.missing = Some((id, index));
                return Err(Errno::NOT_LOADED);
            }
        }
        Ok(())
    }

    /// Whether a volume has room for one more page, which it has then.
    pub(crate) fn reserve_block(&mut self, volume: VolumeId) -> Result<()> {
        match self.backings.get_mut(&volume) {
            Some(backing) => {
                backing.free = backing.free.checked_sub(1).ok_or(Errno::ENOSPC)?;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Makes a volume of what a disk holds, and mounts it on a directory of the root. The result: the numbers of the
    /// nodes, in the order of `all`, which begins with the root and has directories before what they hold.
    pub fn restore(&mut self, volume: VolumeId, source: &[u8], on: &[u8], all: &[Restored]) -> Result<Vec<NodeId>> {
        let first = all.first().ok_or(Errno::EINVAL)?;
        let name = on.strip_prefix(b"/").unwrap_or(on);
        let (root, place) = if name.is_empty() {
            self.clear_root(volume, source)?;
            (ROOT, None)
        } else {
            let place = match self.look_up(ROOT, name) {
                Ok(there) => there,
                Err(_) => self.create(ROOT, name, made_as(&directory()))?,
            };
            (self.create_volume_root(volume, made_as(&first.made))?, Some(place))
        };
        self.volumes.insert(volume, Superblock::unlimited(root));
        let mut numbers = Vec::with_capacity(all.len());
        numbers.push(root);
        for entry in &all[1..] {
            let directory = *numbers.get(entry.directory).ok_or(Errno::EINVAL)?;
            let id = match entry.same.and_then(|same| numbers.get(same)) {
                Some(there) => {
                    self.link(*there, directory, &entry.name)?;
                    *there
                }
                None => self.create(directory, &entry.name, made_as(&entry.made))?,
            };
            numbers.push(id);
        }
        for (id, entry) in numbers.iter().zip(all) {
            let node = self.node_mut(*id)?;
            [node.accessed, node.modified, node.changed] = entry.times;
            (node.mode, node.uid, node.gid) = (entry.made.mode, entry.made.owner.0, entry.made.owner.1);
            if node.is_file() {
                node.size = entry.size;
                node.on_disk = OnDisk::new(entry.size.div_ceil(PAGE_SIZE), &entry.holes);
            }
        }
        let flags = linux::MS_RELATIME;
        let mount = Mount { kind: Kind::Disk, source: source.into(), flags, ..blank(root) };
        if let Some(place) = place {
            self.lay_new(mount, Location::first(place))?;
        }
        self.backings.insert(volume, Backing::default());
        Ok(numbers)
    }

    /// Makes the root directory that of a volume on a disk. The directories of [`KEPT_IN_MEMORY`] become mounts of
    /// their own, so that no name moves between them and the disk. Others of the boot archive's root go.
    fn clear_root(&mut self, volume: VolumeId, source: &[u8]) -> Result<()> {
        for name in KEPT_IN_MEMORY {
            let Ok(there) = self.look_up(ROOT, name) else { continue };
            if !self.node(there)?.is_point {
                self.bind(Location::first(there), Location::first(there), true)?;
            }
        }
        for name in NOT_KEPT {
            match self.remove(ROOT, name, true) {
                Ok(()) | Err(Errno::ENOENT) => (),
                Err(error) => return Err(error),
            }
        }
        self.move_to_volume(ROOT, volume)?;
        let mount = self.mounts.get_mut(FIRST)?;
        (mount.kind, mount.source, mount.flags) = (Kind::Disk, source.into(), linux::MS_RELATIME);
        Ok(())
    }

    /// How many pages of a file from an index on are on the disk only, up to so many.
    pub fn count_missing(&self, id: NodeId, first: u64, most: u64) -> u64 {
        let Some(node) = self.nodes.get(&id) else { return 0 };
        let Body::Pages(pages) = &node.body else { return 0 };
        let end = node.on_disk.next_hole(first).min(first.saturating_add(most));
        (first..end).take_while(|index| pages.get(*index).is_none()).count() as u64
    }

    /// Puts pages of the store that were filled from the disk into a file, each at its index, or frees those that are
    /// not missing any more.
    pub fn put_loaded(&mut self, id: NodeId, loaded: impl IntoIterator<Item = (u64, u32)>) {
        let mut node = self.nodes.get_mut(&id);
        let mut count = 0;
        for (index, page) in loaded {
            let file = node.as_deref_mut().filter(|node| node.on_disk.has(index)).map(|node| &mut node.body);
            let is_put = if let Some(Body::Pages(pages)) = file { pages.put(index, page) } else { false };
            count += u64::from(is_put);
            if !is_put {
                self.store.free(page);
            }
        }
        let Some(node) = node else { return };
        node.on_disk.in_memory += count;
        if let Some(volume) = self.volumes.get_mut(&node.volume) {
            volume.pages += count;
        }
    }

    /// What a dirty node is now; nothing where it is gone.
    pub fn snapshot(&self, id: NodeId) -> Option<Snapshot> {
        let node = self.nodes.get(&id)?;
        Some(Snapshot {
            mode: node.mode,
            owner: (node.uid, node.gid),
            size: if node.is_file() { node.size } else { 0 },
            times: [node.accessed, node.modified, node.changed],
            is_named: node.links > 0,
        })
    }

    /// The bytes of a page of a file; nothing where it is a hole.
    pub fn page_bytes(&self, id: NodeId, index: u64) -> Option<&[u8]> {
        let Body::Pages(pages) = &self.nodes.get(&id)?.body else { return None };
        pages.get(index).map(|page| self.store.bytes(page))
    }

    /// Marks the pages of a volume that programs write through mappings, which nothing else tells of. A page that no
    /// process can write any more is marked for the last time. `only`: of these files, else of all.
    pub fn mark_shared(&mut self, volume: VolumeId, only: Option<&BTreeSet<NodeId>>) {
        if !self.store.has_shared() {
            return;
        }
        let mut found = Vec::new();
        let mut find = |id: NodeId, node: &Inode| {
            let Body::Pages(pages) = &node.body else { return };
            let shared = pages.from(0).filter(|(_, page)| self.store.is_shared(*page));
            found.extend(shared.map(|(index, page)| (id, index, page, node.holds == 0)));
        };
        match only {
            Some(ids) => ids.iter().filter_map(|id| Some((*id, self.nodes.get(id)?))).for_each(|(id, node)| {
                if node.volume == volume {
                    find(id, node);
                }
            }),
            None => self.nodes.iter().filter(|(_, node)| node.volume == volume).for_each(|(id, node)| find(*id, node)),
        }
        for (id, index, page, is_closed) in found {
            if is_closed {
                self.store.unshare(page);
            }
            self.mark_page(id, index);
        }
    }

    /// Records that a file is on the disk in this size, with the pages that were written.
    pub fn is_stored(&mut self, id: NodeId, size: u64, written: &BTreeSet<u64>) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        // What was cut off or punched meanwhile is a hole, though the disk has it still.
        let since = self.backings.get(&node.volume).and_then(|backing| backing.dirty.get(&id));
        let cut = since.and_then(|dirty| dirty.cut).unwrap_or(u64::MAX);
        node.on_disk.grow(size.min(node.size).min(cut).div_ceil(PAGE_SIZE));
        let Body::Pages(pages) = &node.body else { return };
        for index in written.range(..node.on_disk.end()) {
            if !node.on_disk.has(*index) && pages.get(*index).is_some() {
                node.on_disk.fill(*index);
                node.on_disk.in_memory += 1;
            }
        }
    }

    /// Gives up clean pages of a volume that no process maps, until the store has this much room. Only the writer
    /// calls this, between two write-backs: what it took and has not written yet counts as clean.
    pub fn evict(&mut self, volume: VolumeId, room: u64) {
        let mut wanted = room.saturating_sub(self.store.room());
        let files = self.nodes.iter().filter(|(_, node)| node.volume == volume && node.on_disk.end() > 0);
        let files: Vec<NodeId> = files.map(|(id, _)| *id).collect();
        for id in files {
            if wanted == 0 {
                break;
            }
            wanted -= self.evict_file(id, wanted);
        }
    }

    /// Gives up at most so many clean pages of a file; how many. The same holds as for [`Self::evict`].
    pub fn evict_file(&mut self, id: NodeId, most: u64) -> u64 {
        let Some(node) = self.nodes.get(&id) else { return 0 };
        let (Some(backing), Body::Pages(pages)) = (self.backings.get(&node.volume), &node.body) else { return 0 };
        let dirty = backing.dirty.get(&id).map(|dirty| &dirty.pages);
        let is_clean = |index: u64, page: u32| {
            dirty.is_none_or(|dirty| !dirty.contains(&index)) && !self.store.is_shared(page) && self.store.is_idle(page)
        };
        let stored = pages.from(0).take_while(|(index, _)| *index < node.on_disk.end());
        let clean = stored.filter(|(index, page)| is_clean(*index, *page)).map(|(index, _)| index);
        let (clean, volume): (Vec<u64>, _) = (clean.take(most.min(1 << 40) as usize).collect(), node.volume);
        for index in &clean {
            let Some(node) = self.nodes.get_mut(&id) else { break };
            let Body::Pages(pages) = &mut node.body else { break };
            let pages = pages.take(*index, index + 1);
            // A page of a hole counted while it was in memory.
            match node.on_disk.has(*index) {
                true => node.on_disk.in_memory -= 1,
                false => self.changes.note_contents(id),
            }
            self.give_pages(volume, pages);
        }
        clean.len() as u64
    }
}

fn directory() -> Made {
    Made { mode: linux::S_IFDIR | 0o755, owner: (0, 0), device: (0, 0), target: Box::default() }
}

fn made_as(made: &Made) -> Fresh<'_> {
    let owner = FsCredentials::new(made.owner.0, made.owner.1);
    Fresh { mode: made.mode, owner, device: made.device, target: &made.target }
}
