//! The mount table: which tree of names is found at which place (mount(2), path_resolution(7)). Pure.
//!
//! A place is a node as it is seen through a mount. A bound directory is one node in two places, and `..` leads out
//! of it to where the walk came from. Invariants: at most one mount lies directly on a place. A mount that lies on
//! another one's place is in the table as long as that one is. A mount that lies nowhere is in the table as long as
//! it has a holder.

use crate::inode::NodeId;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;

/// Number of a mount: given again once the mount is gone.
pub type MountId = u16;

/// The mount that is there from the beginning.
pub const FIRST: MountId = 0;
/// Flags of a mount that are obeyed or told, as in mount(2).
pub const KEPT_FLAGS: u32 = linux::MS_RDONLY
    | linux::MS_NOSUID
    | linux::MS_NODEV
    | linux::MS_NOEXEC
    | linux::MS_NOATIME
    | linux::MS_NODIRATIME
    | linux::MS_NOSYMFOLLOW
    | linux::MS_RELATIME
    | linux::MS_STRICTATIME;

/// A node as it is seen through a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    /// The mount.
    pub mount: MountId,
    /// The node.
    pub node: NodeId,
}

impl Location {
    /// A node as it is seen through the first mount.
    pub const fn first(node: NodeId) -> Self {
        Self { mount: FIRST, node }
    }

    /// As a word, as [`crate::handle::Handle`] has it.
    pub const fn to_word(self) -> u64 {
        crate::handle::Handle::plain(self).to_word()
    }

    /// Another node, seen through the same mount.
    pub const fn beside(self, node: NodeId) -> Self {
        Self { mount: self.mount, node }
    }
}

/// Kinds of file systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Files in memory.
    Memory,
    /// What each process makes itself.
    Processes,
    /// The devices: one folder, wherever it is mounted.
    Devices,
    /// The slaves of pseudo-terminals: one folder, too.
    Terminals,
    /// What is told of the machine.
    Machine,
    /// Files that a disk keeps.
    Disk,
}

impl Kind {
    /// All of them, with their names and their numbers as `statfs` tells them.
    pub const ALL: [(Self, &'static str, u64); 6] = [
        (Self::Memory, "tmpfs", 0x0102_1994),
        (Self::Processes, "proc", 0x9fa0),
        (Self::Devices, "devtmpfs", 0x0102_1994),
        (Self::Terminals, "devpts", 0x1cd1),
        (Self::Machine, "sysfs", 0x6265_6572),
        (Self::Disk, "cffs", 0x6366_6673),
    ];

    /// By the name that mount(2) has for it.
    pub fn from_name(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|(_, known, _)| known.as_bytes() == name).map(|(kind, ..)| kind)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// Its number as `statfs` tells it.
    pub fn magic(self) -> u64 {
        Self::ALL[self as usize].2
    }
}

/// One mount.
#[derive(Clone, Debug)]
pub struct Mount {
    /// The place that it lies on; none for the root of all, and for one that was taken off while it was in use.
    pub on: Option<Location>,
    /// The node that is found there.
    pub root: NodeId,
    /// What kind of file system it is told to be.
    pub kind: Kind,
    /// The bits of [`KEPT_FLAGS`].
    pub flags: u32,
    /// It cannot be bound to other places (`MS_UNBINDABLE`).
    pub unbindable: bool,
    /// `umount2` with `MNT_EXPIRE` found it unused, and no process has used it since.
    pub expiring: bool,
    /// What it was mounted from, as the caller named it.
    pub source: Box<[u8]>,
    /// How often processes hold a node through it.
    pub holds: u32,
    /// How many of them may write.
    pub writers: u32,
}

/// All mounts.
#[derive(Debug)]
pub struct Mounts {
    by_number: BTreeMap<MountId, Mount>,
    by_place: BTreeMap<Location, MountId>,
    /// The mount whose root is the root of all that have no other.
    pub root: MountId,
}

impl Mounts {
    /// A table of one: the root of all.
    pub fn new(root: NodeId) -> Self {
        let first = Mount {
            on: None,
            root,
            kind: Kind::Memory,
            flags: linux::MS_RELATIME,
            unbindable: false,
            expiring: false,
            source: b"memory"[..].into(),
            holds: 0,
            writers: 0,
        };
        Self { by_number: [(FIRST, first)].into(), by_place: BTreeMap::new(), root: FIRST }
    }

    /// The mount with this number.
    pub fn get(&self, id: MountId) -> Result<&Mount> {
        self.by_number.get(&id).ok_or(Errno::EINVAL)
    }

    /// The same, to change it.
    pub fn get_mut(&mut self, id: MountId) -> Result<&mut Mount> {
        self.by_number.get_mut(&id).ok_or(Errno::EINVAL)
    }

    /// All of them, by number.
    pub fn iter(&self) -> impl Iterator<Item = (MountId, &Mount)> {
        self.by_number.iter().map(|(id, mount)| (*id, mount))
    }

    /// The mount that lies directly on a place.
    pub fn on(&self, place: Location) -> Option<MountId> {
        self.by_place.get(&place).copied()
    }

    /// Whether any mount lies on this node, through whichever mount it is seen.
    pub fn is_point(&self, node: NodeId) -> bool {
        self.by_place.keys().any(|place| place.node == node)
    }

    /// Adds a mount that lies nowhere yet.
    pub fn add(&mut self, mount: Mount) -> Result<MountId> {
        let id = (FIRST + 1..MountId::MAX).find(|id| !self.by_number.contains_key(id)).ok_or(Errno::ENOSPC)?;
        self.by_number.insert(id, mount);
        Ok(id)
    }

    /// Lays a mount on a place where none lies.
    pub fn lay(&mut self, id: MountId, place: Location) -> Result<()> {
        self.get_mut(id)?.on = Some(place);
        self.by_place.insert(place, id);
        Ok(())
    }

    /// Takes a mount off its place; the place is told.
    pub fn take_off(&mut self, id: MountId) -> Option<Location> {
        let place = self.by_number.get_mut(&id)?.on.take()?;
        self.by_place.remove(&place);
        Some(place)
    }

    /// Forgets a mount that lies nowhere and is not held.
    pub fn forget(&mut self, id: MountId) -> Option<Mount> {
        self.by_number.remove(&id)
    }

    /// The mounts that lie on places of this one.
    pub fn children(&self, id: MountId) -> Vec<MountId> {
        self.by_place.iter().filter(|(place, _)| place.mount == id).map(|(_, child)| *child).collect()
    }

    /// This mount and all that lie on it, each behind the one that it lies on.
    pub fn with_all_below(&self, id: MountId) -> Vec<MountId> {
        let mut all = Vec::from([id]);
        let mut at = 0;
        while let Some(next) = all.get(at) {
            all.extend(self.children(*next));
            at += 1;
        }
        all
    }

    /// Whether a mount is found from the root of all.
    pub fn is_attached(&self, mut id: MountId) -> bool {
        while id != self.root {
            match self.by_number.get(&id).and_then(|mount| mount.on) {
                Some(place) => id = place.mount,
                None => return false,
            }
        }
        true
    }

    /// One holder of a node more or less; `writes`: it may write the node.
    pub fn hold(&mut self, id: MountId, hold: bool, writes: bool) {
        let Some(mount) = self.by_number.get_mut(&id) else { return };
        let change = |count: &mut u32| *count = if hold { count.saturating_add(1) } else { count.saturating_sub(1) };
        change(&mut mount.holds);
        if writes {
            change(&mut mount.writers);
        }
        mount.expiring = false;
    }
}

/// The words that `/proc/self/mountinfo` has for flags of a mount, behind `rw` or `ro`.
pub fn flag_names(flags: u32) -> impl Iterator<Item = &'static str> {
    const NAMES: [(u32, &str); 7] = [
        (linux::MS_NOSUID, "nosuid"),
        (linux::MS_NODEV, "nodev"),
        (linux::MS_NOEXEC, "noexec"),
        (linux::MS_NOATIME, "noatime"),
        (linux::MS_NODIRATIME, "nodiratime"),
        (linux::MS_RELATIME, "relatime"),
        (linux::MS_NOSYMFOLLOW, "nosymfollow"),
    ];
    let first = if flags & linux::MS_RDONLY != 0 { "ro" } else { "rw" };
    [first].into_iter().chain(NAMES.into_iter().filter(move |(bit, _)| flags & bit != 0).map(|(_, name)| name))
}
