//! A node of the memory file system: what Linux calls an inode.

use crate::directory::Entries;
use crate::extended_attribute::Attributes;
use crate::mount_table::MountId;
use crate::namespace::{FsCredentials, access};
use crate::on_disk::OnDisk;
use crate::page_index::Pages;
use crate::superblock::VolumeId;
use crate::supplementary_groups::Groups;
use alloc::boxed::Box;
use core::cell::Cell;
use linux_abi::address_map::PAGE_SIZE;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;

/// Number of a node: never given twice, so that an old one never reaches another file.
pub type NodeId = u64;

/// What lies in a node.
#[derive(Debug)]
pub enum Body {
    /// Bytes of the boot archive, not changed yet: where they lie in it.
    Archived {
        /// Offset in the archive.
        start: usize,
    },
    /// Pages by index.
    Pages(Pages),
    /// Names.
    Directory {
        /// The directory above; the root's is itself.
        parent: NodeId,
        /// What it holds.
        entries: Entries,
    },
    /// Where a symbolic link leads.
    Link(Box<[u8]>),
    /// A device or a socket or FIFO: only its name lives here.
    Special,
    /// The place where a file system begins that the library of each process makes, such as `/proc`.
    Elsewhere,
}

/// A node. Times are nanoseconds since 1970, before it in two's complement.
#[derive(Debug)]
pub struct Inode {
    /// Type and permissions, as in `st_mode`.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Names that lead here; a directory's `.` and its children's `..` count.
    pub links: u32,
    /// Bytes of a file, or of a link's target.
    pub size: u64,
    /// Major and minor number.
    pub device: (u32, u32),
    /// Last read.
    pub accessed: u64,
    /// Last change of the contents.
    pub modified: u64,
    /// Last change of anything.
    pub changed: u64,
    /// Processes that hold it open.
    pub holds: u32,
    /// How often it is held to be written.
    pub writers: u32,
    /// The directory that it got its last name in, or one where a name was found when that one was gone.
    pub named_in: Cell<NodeId>,
    /// The number that this name had there when it was last looked for.
    pub named_as: Cell<u64>,
    /// Made without a name, and may get one (`O_TMPFILE`).
    pub nameable: bool,
    /// What is not to be done to its contents: bits `F_SEAL_…`.
    pub seals: u32,
    /// The volume that it lies in.
    pub volume: VolumeId,
    /// Pages that are on a disk; none of a file in memory.
    pub on_disk: OnDisk,
    /// A mount may lie on it: the table knows.
    pub is_point: bool,
    /// Extended attributes.
    pub attributes: Attributes,
    /// Contents.
    pub body: Body,
}

/// Whether a process with these credentials may do `wanted` (bits of `access(2)`) to a node of this mode, owner and
/// group.
#[inline]
pub fn permits([mode, uid, gid]: [u32; 3], who: FsCredentials, groups: &Groups, wanted: u32) -> bool {
    let is_directory = mode & linux::S_IFMT == linux::S_IFDIR;
    let some_execute = mode & 0o111 != 0 || is_directory;
    if who.has(linux::CAP_DAC_OVERRIDE) && (wanted & access::EXECUTE == 0 || some_execute)
        || who.has(linux::CAP_DAC_READ_SEARCH)
            && (wanted == access::READ || is_directory && wanted & access::WRITE == 0)
    {
        return true;
    }
    let shift = match uid {
        _ if who.uid == uid => 6,
        _ if who.gid == gid || groups.has(gid) => 3,
        _ => 0,
    };
    mode >> shift & wanted == wanted
}

/// Whether a read changes the time of the last one (relatime of mount(8)): where that is not later than the last
/// change, or a day old. `times` are those of the last read, and of the last change of the contents and of anything.
pub const fn is_read_noted([accessed, modified, changed]: [u64; 3], now: u64) -> bool {
    const DAY: i64 = 86_400_000_000_000;
    let accessed = accessed as i64;
    accessed <= modified as i64 || accessed <= changed as i64 || (now as i64).saturating_sub(accessed) >= DAY
}

impl Inode {
    /// The directory that it got its last name in.
    pub fn directory_of_name(&self) -> NodeId {
        match self.body {
            Body::Directory { parent, .. } => parent,
            _ => self.named_in.get(),
        }
    }

    /// What `name` leads to in this directory, whose number is `own`.
    pub fn look_up(&self, own: NodeId, name: &[u8]) -> Result<NodeId> {
        match (&self.body, name) {
            (Body::Directory { .. }, b".") => Ok(own),
            (Body::Directory { parent, .. }, b"..") => Ok(*parent),
            (Body::Directory { entries, .. }, name) => entries.get(name).ok_or(Errno::ENOENT),
            _ => Err(Errno::ENOTDIR),
        }
    }

    /// A name that this directory has for a node.
    pub fn name_of(&self, id: NodeId) -> Option<&[u8]> {
        let Body::Directory { entries, .. } = &self.body else { return None };
        entries.of_node(id, 0).map(|entry| &*entry.name)
    }

    /// Whether a process with these credentials may do this to it.
    pub fn permits(&self, who: FsCredentials, groups: &Groups, wanted: u32) -> bool {
        permits([self.mode, self.uid, self.gid], who, groups, wanted)
    }

    /// Whether it is a directory in which all users may look.
    pub fn is_open_to_all(&self) -> bool {
        const ALL_READ_AND_SEARCH: u32 = 0o555;
        self.mode & ALL_READ_AND_SEARCH == ALL_READ_AND_SEARCH && matches!(self.body, Body::Directory { .. })
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.mode & linux::S_IFMT == linux::S_IFDIR
    }

    /// The size that `stat` tells: of a directory as Linux's tmpfs counts it, 20 bytes a name, `.` and `..` among them.
    pub fn stated_size(&self) -> u64 {
        const NAME: usize = 20;
        match &self.body {
            Body::Directory { entries, .. } => ((entries.len() + 2) * NAME) as u64,
            _ => self.size,
        }
    }

    /// Bytes of its pages, in memory or on the disk: holes do not count.
    pub const fn allocated(&self) -> u64 {
        match &self.body {
            Body::Archived { .. } => self.size.div_ceil(PAGE_SIZE) * PAGE_SIZE,
            Body::Pages(pages) => (pages.count() + self.on_disk.count() - self.on_disk.in_memory) * PAGE_SIZE,
            _ => 0,
        }
    }

    /// The first page from one on that is in memory or on the disk.
    pub fn next_data(&self, from: u64) -> Option<u64> {
        let Body::Pages(pages) = &self.body else { return None };
        let in_memory = pages.from(from).next().map(|(index, _)| index);
        in_memory.into_iter().chain(self.on_disk.next_data(from)).min()
    }

    /// The first page from one on that is neither.
    pub fn next_hole(&self, from: u64) -> u64 {
        let Body::Pages(pages) = &self.body else { return from };
        let mut at = from;
        loop {
            let next = self.on_disk.next_hole(pages.hole_from(at));
            if next == at {
                return at;
            }
            at = next;
        }
    }

    /// How many pages in memory of a range the disk has, too.
    pub(crate) fn count_on_disk(&self, first: u64, end: u64) -> u64 {
        let Body::Pages(pages) = &self.body else { return 0 };
        if self.on_disk.in_memory == 0 {
            return 0;
        }
        let within = pages.from(first).take_while(|(index, _)| *index < end);
        within.filter(|(index, _)| self.on_disk.has(*index)).count() as u64
    }

    /// Its pages, in their order.
    pub fn pages(&self) -> impl Iterator<Item = u32> {
        let pages = if let Body::Pages(pages) = &self.body { Some(pages) } else { None };
        pages.into_iter().flat_map(|pages| pages.from(0)).map(|(_, page)| page)
    }

    /// It was read: the time is kept, where it tells more than the one before; whether it does.
    pub fn note_read(&mut self, now: u64) -> bool {
        let is_noted = is_read_noted([self.accessed, self.modified, self.changed], now);
        if is_noted {
            self.accessed = now;
        }
        is_noted
    }

    /// Whether it is a file with contents.
    pub fn is_file(&self) -> bool {
        self.mode & linux::S_IFMT == linux::S_IFREG
    }

    /// Whether it is a disk.
    pub const fn is_disk(&self) -> bool {
        self.mode & linux::S_IFMT == linux::S_IFBLK
    }

    /// Whether it can go: no name leads to it and no process holds it.
    pub fn is_forgotten(&self) -> bool {
        self.links == 0 && self.holds == 0
    }

    /// Type and permissions, and links in the upper half, as a [`Status`] has them.
    pub fn mode_links(&self) -> u64 {
        u64::from(self.mode) | u64::from(self.links) << 32
    }

    /// The type as `getdents64` tells it.
    pub fn directory_type(&self) -> u8 {
        (self.mode >> 12 & 15) as u8
    }
}

/// Owner and permissions of a node.
#[derive(Clone, Copy, Debug)]
pub struct OwnerAndMode {
    /// The place of the node: see [`crate::handle::place_of`].
    pub place: u64,
    /// Type and permissions (0..32).
    pub mode_links: u64,
    /// Owner (0..32), group (32..64).
    pub owner: u64,
}

/// What `stat` tells of a node, in words that cross to the process.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Number of the node.
    pub node: u64,
    /// Type and permissions (0..32), links (32..64).
    pub mode_links: u64,
    /// Owner (0..32), group (32..64).
    pub owner: u64,
    /// Bytes.
    pub size: u64,
    /// Bytes in memory.
    pub allocated: u64,
    /// Minor (0..32) and major (32..64) number of a device.
    pub device: u64,
    /// Last read, nanoseconds since 1970.
    pub accessed: u64,
    /// Last change of the contents.
    pub modified: u64,
    /// Last change of anything.
    pub changed: u64,
    /// Volume (0..32), and the mount that the node was seen through (32..64).
    pub place: u64,
}

impl OwnerAndMode {
    /// What kind of node it is: the type bits of the mode.
    #[inline]
    pub const fn kind(&self) -> u32 {
        self.mode_links as u32 & linux::S_IFMT
    }

    /// Whether all users may read or write it.
    #[inline]
    pub const fn permits_all(&self, wanted: u32) -> bool {
        let mode = self.mode_links as u32;
        mode & mode >> 3 & mode >> 6 & wanted == wanted
    }

    /// Whether a process with these credentials may do this to it.
    pub fn permits(&self, who: FsCredentials, groups: &Groups, wanted: u32) -> bool {
        permits([self.mode_links as u32, self.owner as u32, (self.owner >> 32) as u32], who, groups, wanted)
    }
}

impl Status {
    /// Words in a status.
    pub const WORDS: usize = 10;
    /// Indices of words that tell type, permissions and links, size, bytes in memory, and three times. These are the
    /// last read, the last change of the contents and the last change of anything.
    pub const MODE_LINKS: usize = 1;
    /// See above.
    pub const SIZE: usize = 3;
    /// See above.
    pub const ALLOCATED: usize = 4;
    /// See above.
    pub const ACCESSED: usize = 6;
    /// See above.
    pub const MODIFIED: usize = 7;
    /// See above.
    pub const CHANGED: usize = 8;

    /// The same, as seen through a mount.
    #[must_use]
    pub const fn through(self, mount: MountId) -> Self {
        Self { place: self.place & 0xffff_ffff | (mount as u64) << 32, ..self }
    }

    /// The volume that it lies in.
    pub const fn volume(&self) -> VolumeId {
        self.place as u32
    }

    /// Type and permissions.
    pub const fn mode(&self) -> u32 {
        self.mode_links as u32
    }

    /// What kind of node it is: the type bits of the mode.
    pub const fn kind(&self) -> u32 {
        self.mode() & linux::S_IFMT
    }

    /// As words, in the order of the fields.
    pub const fn to_words(self) -> [u64; Self::WORDS] {
        [
            self.node,
            self.mode_links,
            self.owner,
            self.size,
            self.allocated,
            self.device,
            self.accessed,
            self.modified,
            self.changed,
            self.place,
        ]
    }

    /// From words in the order of the fields.
    pub const fn from_words(words: [u64; Self::WORDS]) -> Self {
        let [node, mode_links, owner, size, allocated, device, accessed, modified, changed, place] = words;
        Self { node, mode_links, owner, size, allocated, device, accessed, modified, changed, place }
    }
}
