//! Mounting, binding, moving and unmounting, as mount(2), umount(2) and pivot_root(2) say. Pure.
//!
//! There is one table for all processes; changes of one mount never reach another one (all are private, as
//! mount_namespaces(7) has it), so that `MS_SHARED` is refused.

use crate::disk_number::number_of;
use crate::file_data::PageStorage;
use crate::inode::{Body, NodeId};
use crate::mount_table::{FIRST, KEPT_FLAGS, Kind, Location, Mount, MountId, Mounts, flag_names};
use crate::namespace::{FileTree, Fresh, FsCredentials, ROOT};
use crate::path_walk::PathWalk;
use crate::persistent::FIRST_DISK_VOLUME;
use crate::superblock::{FIRST_FREE, MACHINE_VOLUME, Options, PROC_VOLUME, ROOT_VOLUME, Superblock, VolumeId};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use linux_abi::address_map::PAGE_SIZE;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;

/// What the numbers of mounts begin with where they are told, so that none is 0.
pub const FIRST_TOLD: u64 = 20;
/// Flags of `umount2`.
const FORCE: u32 = 1;
const DETACH: u32 = 2;
const EXPIRE: u32 = 4;
const NO_FOLLOW: u32 = 8;

/// What is asked of `mount`.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// What is mounted, as the caller names it.
    pub source: &'a [u8],
    /// The kind of file system.
    pub kind: &'a [u8],
    /// Options of that kind.
    pub data: &'a [u8],
    /// The flags of mount(2).
    pub flags: u32,
    /// Bytes of memory, which sizes in percent are of.
    pub memory: u64,
}

impl<S: PageStorage> FileTree<S> {
    /// A fresh file system, or another place for one of which there is only one.
    pub fn mount(&mut self, on: Location, request: Request<'_>, who: FsCredentials) -> Result<()> {
        if request.kind.is_empty() {
            return Err(Errno::EINVAL);
        }
        let kind = Kind::from_name(request.kind).ok_or(Errno::ENODEV)?;
        let options = match kind {
            Kind::Memory => Options::parse(request.data, request.memory)?,
            _ => Options::default(),
        };
        self.check_kinds(on.node, true)?;
        let (root, volume) = match kind {
            Kind::Memory => self.fresh_volume(options, who, request.memory)?,
            Kind::Processes => (self.volumes.get(&PROC_VOLUME).ok_or(Errno::ENODEV)?.root, None),
            Kind::Devices => (self.resolve_all(b"/dev")?, None),
            Kind::Terminals => (self.resolve_all(b"/dev/pts")?, None),
            Kind::Disk => (self.root_of_disk(request.source)?, None),
            Kind::Machine => (self.volumes.get(&MACHINE_VOLUME).ok_or(Errno::ENODEV)?.root, None),
        };
        let flags = kept(request.flags);
        let laid = self.lay_new(Mount { kind, source: request.source.into(), flags, ..blank(root) }, on);
        if let (Err(_), Some(volume)) = (laid, volume) {
            self.end_volume(volume);
        }
        laid.map(|_| ())
    }

    /// The root directory of the volume on a disk, by the path of its device.
    fn root_of_disk(&self, source: &[u8]) -> Result<NodeId> {
        let device = self.node(self.resolve_all(source)?)?;
        let number = if device.is_disk() { number_of(device.device) } else { None };
        let number = number.ok_or(Errno::ENOTBLK)?;
        Ok(self.volumes.get(&(FIRST_DISK_VOLUME + number as VolumeId)).ok_or(Errno::EINVAL)?.root)
    }

    /// Another place for what is at a place already, with all that is mounted below it or not.
    pub fn bind(&mut self, from: Location, on: Location, recursive: bool) -> Result<()> {
        if !self.mounts.is_attached(from.mount) || self.mounts.get(from.mount)?.unbindable {
            return Err(Errno::EINVAL);
        }
        self.check_kinds(on.node, self.node(from.node)?.is_directory())?;
        // What is bound below itself is not bound once more there: the list is made first.
        let below = if recursive { self.mounts_below(from)? } else { Vec::new() };
        let copy = |mounts: &Mounts, id: MountId, root: NodeId| {
            mounts.get(id).map(|old| Mount { on: None, holds: 0, writers: 0, root, expiring: false, ..old.clone() })
        };
        let top = self.lay_new(copy(&self.mounts, from.mount, from.node)?, on)?;
        let mut copies = Vec::from([(from.mount, top)]);
        for id in below {
            let old = self.mounts.get(id)?;
            let (Some(place), false) = (old.on, old.unbindable) else { continue };
            let Some((_, parent)) = copies.iter().find(|(of, _)| *of == place.mount).copied() else { continue };
            let made = self.lay_new(copy(&self.mounts, id, old.root)?, Location { mount: parent, node: place.node })?;
            copies.push((id, made));
        }
        Ok(())
    }

    /// Takes a mount off its place and lays it on another one.
    pub fn move_mount(&mut self, from: Location, on: Location) -> Result<()> {
        let mount = self.mounts.get(from.mount)?;
        if mount.root != from.node || mount.on.is_none() || !self.mounts.is_attached(from.mount) {
            return Err(Errno::EINVAL);
        }
        self.check_kinds(on.node, self.node(from.node)?.is_directory())?;
        if self.mounts.with_all_below(from.mount).contains(&on.mount) {
            return Err(Errno::ELOOP);
        }
        self.mounts.take_off(from.mount);
        self.lay(from.mount, on)
    }

    /// Changes the flags of a mount, and, unless it is said that the mount alone is meant, of its volume.
    pub fn remount(&mut self, at: Location, request: Request<'_>) -> Result<()> {
        let mount = self.mounts.get(at.mount)?;
        if mount.root != at.node || !self.mounts.is_attached(at.mount) {
            return Err(Errno::EINVAL);
        }
        let read_only = request.flags & linux::MS_RDONLY != 0;
        let number = self.node(at.node)?.volume;
        if request.flags & linux::MS_BIND != 0 {
            if read_only && mount.writers > 0 {
                return Err(Errno::EBUSY);
            }
            self.mounts.get_mut(at.mount)?.flags = kept(request.flags);
            self.changes.note_everything();
            return Ok(());
        }
        let options = match mount.kind {
            Kind::Memory => Options::parse(request.data, request.memory)?,
            _ => Options::default(),
        };
        let writers: u32 =
            self.mounts.iter().filter(|(_, one)| self.is_in(one.root, number)).map(|(_, one)| one.writers).sum();
        let volume = self.volumes.get_mut(&number).ok_or(Errno::EINVAL)?;
        if read_only && !volume.read_only && writers > 0 {
            return Err(Errno::EBUSY);
        }
        if let Some(size) = options.size {
            let pages = if size == 0 { u64::MAX } else { size.div_ceil(PAGE_SIZE) };
            if pages < volume.pages || volume.most_pages == u64::MAX && number == ROOT_VOLUME {
                return Err(Errno::EINVAL);
            }
            volume.most_pages = pages;
        }
        volume.read_only = read_only;
        self.mounts.get_mut(at.mount)?.flags = kept(request.flags) & !linux::MS_RDONLY;
        Ok(())
    }

    /// Says how a mount is bound to others: all are private, and may be unbindable.
    pub fn set_propagation(&mut self, at: Location, flags: u32) -> Result<()> {
        let kinds = linux::MS_SHARED | linux::MS_PRIVATE | linux::MS_SLAVE | linux::MS_UNBINDABLE;
        let kind = flags & !(linux::MS_REC | linux::MS_SILENT);
        if kind & !kinds != 0 || !kind.is_power_of_two() || kind == linux::MS_SHARED {
            return Err(Errno::EINVAL);
        }
        if self.mounts.get(at.mount)?.root != at.node {
            return Err(Errno::EINVAL);
        }
        let all = self.mounts.with_all_below(at.mount);
        for id in all.into_iter().take(if flags & linux::MS_REC != 0 { usize::MAX } else { 1 }) {
            self.mounts.get_mut(id)?.unbindable = kind == linux::MS_UNBINDABLE;
        }
        Ok(())
    }

    /// Takes a mount away: from its place at once with `MNT_DETACH`, and else only if it is unused.
    pub fn unmount(&mut self, at: Location, flags: u32) -> Result<()> {
        let mount = self.mounts.get(at.mount)?;
        if mount.root != at.node || !self.mounts.is_attached(at.mount) {
            return Err(Errno::EINVAL);
        }
        let busy = mount.holds > 0 || !self.mounts.children(at.mount).is_empty();
        if at.mount == self.mounts.root {
            return Err(if flags & DETACH != 0 { Errno::EINVAL } else { Errno::EBUSY });
        }
        if flags & DETACH == 0 && busy {
            return Err(Errno::EBUSY);
        }
        if flags & EXPIRE != 0 && !mount.expiring {
            self.mounts.get_mut(at.mount)?.expiring = true;
            return Err(Errno::EAGAIN);
        }
        self.changes.note_everything();
        let mut all = self.mounts.with_all_below(at.mount);
        all.reverse();
        for id in all {
            self.take_off(id);
            self.forget_unused(id);
        }
        Ok(())
    }

    /// Makes another mount the root of all, and lays the old one on a place below it. Tells the old root and the new
    /// one.
    pub fn pivot_root(&mut self, new: Location, put_old: Location) -> Result<[Location; 2]> {
        let (old, root) = (self.root, self.mounts.root);
        for place in [new, put_old] {
            if !self.node(place.node)?.is_directory() {
                return Err(Errno::ENOTDIR);
            }
            if !self.mounts.is_attached(place.mount) {
                return Err(Errno::EINVAL);
            }
            if place.mount == old.mount {
                return Err(Errno::EBUSY);
            }
        }
        let is_root_of = |place: Location| self.mounts.get(place.mount).is_ok_and(|mount| mount.root == place.node);
        let reaches = put_old == new || self.path_from(put_old, new)?.1;
        if old.mount != root || !is_root_of(old) || !is_root_of(new) || !reaches {
            return Err(Errno::EINVAL);
        }
        self.take_off(new.mount);
        self.mounts.root = new.mount;
        // Onto what lies uppermost there, as ever.
        let put_old = self.uppermost(put_old);
        self.lay(root, put_old)?;
        self.changes.note_everything();
        Ok([old, new])
    }

    /// `EROFS` where nothing can be changed through a mount.
    pub fn check_writable(&self, at: Location) -> Result<()> {
        let flags = self.mounts.get(at.mount)?.flags;
        let volume = self.volumes.get(&self.node(at.node)?.volume);
        let read_only = flags & linux::MS_RDONLY != 0 || volume.is_some_and(|volume| volume.read_only);
        if read_only { Err(Errno::EROFS) } else { Ok(()) }
    }

    /// The flags of the mount that something is seen through.
    pub fn flags_at(&self, at: Location) -> u32 {
        self.mounts.get(at.mount).map_or(0, |mount| mount.flags)
    }

    /// The same, `MS_RDONLY` of the volume among them.
    pub fn all_flags_at(&self, at: Location) -> u32 {
        let flags = self.flags_at(at);
        if self.check_writable(at).is_err() { flags | linux::MS_RDONLY } else { flags }
    }

    /// One holder more or less of what is seen through a mount; one that lies nowhere goes with its last holder.
    pub fn hold_mount(&mut self, id: MountId, hold: bool, writes: bool) {
        self.mounts.hold(id, hold, writes);
        if !hold {
            self.forget_unused(id);
        }
    }

    /// Makes `/proc` a mount of its own, once the tree has its folder.
    pub fn mount_proc(&mut self) -> Result<()> {
        let root = self.mount_kept(PROC_VOLUME, Kind::Processes, b"/proc")?;
        self.node_mut(root)?.body = Body::Elsewhere;
        Ok(())
    }

    /// Lays a volume that is there always onto a folder of the root; its own root, which is empty.
    pub(crate) fn mount_kept(&mut self, volume: VolumeId, kind: Kind, on: &[u8]) -> Result<NodeId> {
        let place = Location::first(self.resolve_all(on)?);
        let fresh =
            Fresh { mode: linux::S_IFDIR | 0o555, owner: FsCredentials::default(), device: (0, 0), target: b"" };
        let root = self.create_volume_root(volume, fresh)?;
        self.volumes.insert(volume, Superblock::unlimited(root));
        let flags = linux::MS_NOSUID | linux::MS_NODEV | linux::MS_NOEXEC | linux::MS_RELATIME;
        self.lay_new(Mount { kind, source: kind.name().as_bytes().into(), flags, ..blank(root) }, place)?;
        Ok(root)
    }

    /// The lines of `/proc/self/mountinfo` from the `skip`-th on, as the caller's root shows them.
    pub fn mount_lines(&self, skip: usize) -> Vec<String> {
        let visible = self.mounts.iter().filter_map(|(id, mount)| self.mount_line(id, mount));
        visible.skip(skip).collect()
    }

    fn mount_line(&self, id: MountId, mount: &Mount) -> Option<String> {
        let (point, reached) = self.path_from(Location { mount: id, node: mount.root }, self.root).ok()?;
        if !reached {
            return None;
        }
        let number = self.node(mount.root).ok()?.volume;
        let volume = self.volumes.get(&number)?;
        let own_root = if matches!(mount.kind, Kind::Devices | Kind::Terminals) { mount.root } else { volume.root };
        let within = self.path_within(mount.root, own_root);
        let above = mount.on.map_or(1, |place| u64::from(place.mount) + FIRST_TOLD);
        let flags: Vec<&str> = flag_names(mount.flags).collect();
        let (flags, propagation) = (flags.join(","), if mount.unbindable { "unbindable " } else { "" });
        let volume_options = volume_options(volume, mount.kind);
        let [within, point, source] = [&within, &point, &mount.source[..]].map(escaped);
        Some(format!(
            "{} {above} 0:{number} {within} {point} {flags} {propagation}- {} {source} {volume_options}\n",
            u64::from(id) + FIRST_TOLD,
            mount.kind.name()
        ))
    }

    /// The path of a node in its volume.
    fn path_within(&self, mut node: NodeId, root: NodeId) -> Vec<u8> {
        let mut path = Vec::new();
        while node != root {
            let Ok((name, parent)) = self.name_of(Location::first(node)) else { break };
            path.splice(..0, [b"/", name].concat());
            node = parent;
        }
        if path.is_empty() { b"/".to_vec() } else { path }
    }

    fn is_in(&self, node: NodeId, volume: VolumeId) -> bool {
        self.nodes.get(&node).is_some_and(|node| node.volume == volume)
    }

    /// A directory takes a directory, and anything else anything else.
    fn check_kinds(&self, on: NodeId, is_directory: bool) -> Result<()> {
        if self.node(on)?.is_directory() == is_directory { Ok(()) } else { Err(Errno::ENOTDIR) }
    }

    pub(crate) fn resolve_all(&self, path: &[u8]) -> Result<NodeId> {
        let everything = PathWalk {
            from: Location::first(ROOT),
            follow: true,
            makes: false,
            who: FsCredentials::default(),
            resolve: 0,
        };
        Ok(self.resolve(everything, path)?.node)
    }

    fn fresh_volume(
        &mut self,
        options: Options,
        who: FsCredentials,
        memory: u64,
    ) -> Result<(NodeId, Option<VolumeId>)> {
        let number = (FIRST_FREE..).find(|number| !self.volumes.contains_key(number)).ok_or(Errno::ENOSPC)?;
        let owner = FsCredentials::new(options.uid.unwrap_or(who.uid), options.gid.unwrap_or(who.gid));
        let mode = linux::S_IFDIR | options.mode.unwrap_or(0o1777);
        let root = self.create_volume_root(number, Fresh { mode, owner, device: (0, 0), target: b"" })?;
        let most_pages = match options.size.unwrap_or(memory / 2) {
            0 => u64::MAX,
            bytes => bytes.div_ceil(PAGE_SIZE),
        };
        self.volumes.insert(number, Superblock { most_pages, ..Superblock::unlimited(root) });
        Ok((root, Some(number)))
    }

    /// A directory above which there is none.
    pub(crate) fn create_volume_root(&mut self, volume: VolumeId, fresh: Fresh<'_>) -> Result<NodeId> {
        let id = self.create_unnamed(ROOT, fresh, false)?;
        self.move_to_volume(id, volume)?;
        let node = self.node_mut(id)?;
        (node.links, node.named_in) = (2, id.into());
        if let Body::Directory { parent, .. } = &mut node.body {
            *parent = id;
        }
        Ok(id)
    }

    /// The mounts on places below one, each behind the one that it lies on.
    fn mounts_below(&self, from: Location) -> Result<Vec<MountId>> {
        let mut below = Vec::new();
        for child in self.mounts.children(from.mount) {
            let Some(place) = self.mounts.get(child)?.on else { continue };
            // A mount on the place itself covers it, and is found through its root.
            let is_below = place != from && self.path_from(place, from).is_ok_and(|(_, reached)| reached);
            if is_below {
                below.extend(self.mounts.with_all_below(child));
            }
        }
        Ok(below)
    }

    pub(crate) fn lay_new(&mut self, mount: Mount, on: Location) -> Result<MountId> {
        let id = self.mounts.add(mount)?;
        if let Err(error) = self.lay(id, on) {
            self.mounts.forget(id);
            return Err(error);
        }
        Ok(id)
    }

    fn lay(&mut self, id: MountId, on: Location) -> Result<()> {
        self.node_mut(on.node)?.is_point = true;
        self.changes.note_everything();
        // The node under a mount stays as long as it is covered.
        self.hold(on.node, true)?;
        self.mounts.lay(id, on)
    }

    fn take_off(&mut self, id: MountId) {
        let Some(place) = self.mounts.take_off(id) else { return };
        let is_point = self.mounts.is_point(place.node);
        if let Some(node) = self.nodes.get_mut(&place.node) {
            node.is_point = is_point;
        }
        // It is there: the mount held it.
        let _ = self.hold(place.node, false);
        self.changes.note_everything();
    }

    /// Frees a mount that lies nowhere and has no holder, and its volume with the last mount of it.
    fn forget_unused(&mut self, id: MountId) {
        let is_kept = id == FIRST || id == self.mounts.root;
        let is_unused = || self.mounts.get(id).is_ok_and(|mount| mount.on.is_none() && mount.holds == 0);
        if is_kept || !is_unused() || !self.mounts.children(id).is_empty() {
            return;
        }
        let Some(mount) = self.mounts.forget(id) else { return };
        let Ok(volume) = self.node(mount.root).map(|node| node.volume) else { return };
        let is_own = volume >= FIRST_FREE && !self.backings.contains_key(&volume);
        if is_own && !self.mounts.iter().any(|(_, other)| self.is_in(other.root, volume)) {
            self.end_volume(volume);
        }
    }
}

pub(crate) fn blank(root: NodeId) -> Mount {
    Mount {
        on: None,
        root,
        kind: Kind::Memory,
        flags: 0,
        unbindable: false,
        expiring: false,
        source: Box::default(),
        holds: 0,
        writers: 0,
    }
}

/// The flags of a mount: times of reads are kept as relatime has it, unless another way is asked for.
const fn kept(flags: u32) -> u32 {
    let kept = flags & KEPT_FLAGS & !linux::MS_STRICTATIME;
    let other_way = linux::MS_NOATIME | linux::MS_STRICTATIME;
    if flags & other_way == 0 { kept | linux::MS_RELATIME } else { kept & !linux::MS_RELATIME }
}

/// Whether flags of `umount2` mean something.
pub const fn are_unmount_flags(flags: u32) -> bool {
    flags & !(FORCE | DETACH | EXPIRE | NO_FOLLOW) == 0 && !(flags & EXPIRE != 0 && flags & (FORCE | DETACH) != 0)
}

/// Whether `umount2` does not follow a symbolic link.
pub const fn follows(flags: u32) -> bool {
    flags & NO_FOLLOW == 0
}

fn volume_options(volume: &Superblock, kind: Kind) -> String {
    let first = if volume.read_only { "ro" } else { "rw" };
    match volume.most_pages {
        most if kind == Kind::Memory && most != u64::MAX => format!("{first},size={}k", most * (PAGE_SIZE / 1024)),
        _ => String::from(first),
    }
}

/// Spaces, tabs, line ends and backslashes as three octal digits.
fn escaped(text: &[u8]) -> String {
    let mut told = Vec::with_capacity(text.len());
    for byte in text {
        match byte {
            b' ' | b'\t' | b'\n' | b'\\' => told.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
            _ => told.push(*byte),
        }
    }
    String::from_utf8_lossy(&told).into_owned()
}
