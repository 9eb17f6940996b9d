//! Fills a tree from the `root/` folder of the boot archive, and adds what every Unix expects to find.

use crate::cpio::{self, Member};
use crate::file_data::PageStorage;
use crate::inode::{Body, NodeId};
use crate::namespace::{FileTree, Fresh, FsCredentials, ROOT};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;

/// Device nodes: name, permissions, major and minor number (Linux's device list).
const DEVICES: [(&str, u32, (u32, u32)); 12] = [
    ("dev/null", 0o666, device::NULL),
    ("dev/zero", 0o666, device::ZERO),
    ("dev/full", 0o666, device::FULL),
    ("dev/random", 0o666, device::RANDOM),
    ("dev/urandom", 0o666, device::URANDOM),
    ("dev/tty", 0o666, device::TTY),
    ("dev/console", 0o600, device::CONSOLE),
    ("dev/ptmx", 0o666, device::PTMX),
    ("dev/kmsg", 0o644, device::KMSG),
    ("dev/fuse", 0o666, device::FUSE),
    ("dev/net/tun", 0o666, device::TUN),
    ("dev/loop-control", 0o660, device::LOOP_CONTROL),
];

/// Symbolic links that lead into `/proc`.
const LINKS: [(&str, &str); 4] = [
    ("dev/fd", "/proc/self/fd"),
    ("dev/stdin", "/proc/self/fd/0"),
    ("dev/stdout", "/proc/self/fd/1"),
    ("dev/stderr", "/proc/self/fd/2"),
];

/// Folders that are made where the archive has none, with their permissions.
const FOLDERS: [(&str, u32); 7] = [
    ("dev", 0o755),
    ("proc", 0o555),
    ("sys", 0o555),
    ("tmp", 0o1777),
    ("dev/shm", 0o1777),
    ("dev/pts", 0o755),
    ("root", 0o700),
];

/// Where the slaves of pseudo-terminals get their names.
pub const TERMINALS: &str = "/dev/pts";

/// Major and minor numbers of devices.
pub mod device {
    /// `/dev/null`
    pub const NULL: (u32, u32) = (1, 3);
    /// `/dev/zero`
    pub const ZERO: (u32, u32) = (1, 5);
    /// `/dev/full`
    pub const FULL: (u32, u32) = (1, 7);
    /// `/dev/random`
    pub const RANDOM: (u32, u32) = (1, 8);
    /// `/dev/urandom`
    pub const URANDOM: (u32, u32) = (1, 9);
    /// `/dev/tty`
    pub const TTY: (u32, u32) = (5, 0);
    /// `/dev/console`
    pub const CONSOLE: (u32, u32) = (5, 1);
    /// `/dev/ptmx`
    pub const PTMX: (u32, u32) = (5, 2);
    /// `/dev/kmsg`. It has no driver: the kernel's log is the host's.
    pub const KMSG: (u32, u32) = (1, 11);
    /// Major number of devices that share one (Linux's `misc`). None of them has a driver.
    pub const MISC_MAJOR: u32 = 10;
    /// `/dev/net/tun`
    pub const TUN: (u32, u32) = (MISC_MAJOR, 200);
    /// `/dev/fuse`
    pub const FUSE: (u32, u32) = (MISC_MAJOR, 229);
    /// `/dev/loop-control`
    pub const LOOP_CONTROL: (u32, u32) = (MISC_MAJOR, 237);
    /// Major number of the slaves of pseudo-terminals.
    pub const SLAVE_MAJOR: u32 = 136;
}

impl<S: PageStorage> FileTree<S> {
    /// Adds every member below `prefix` of an archive, then what must be there. The error says what is damaged.
    pub fn populate(&mut self, archive: &'static [u8], prefix: &str) -> core::result::Result<(), String> {
        let mut seen = BTreeMap::new();
        for member in cpio::members(archive) {
            let member = member.map_err(|damage| String::from(damage.what))?;
            let Some(name) = member.name.strip_prefix(prefix.as_bytes()) else { continue };
            if !name.is_empty() {
                self.add_member(archive, name, &member, &mut seen)
                    .map_err(|error| format!("/{} cannot be made: {error:?}", String::from_utf8_lossy(name)))?;
            }
        }
        self.add_expected().map_err(|error| format!("the folders that every Unix expects cannot be made: {error:?}"))
    }

    fn add_member(
        &mut self,
        archive: &'static [u8],
        name: &[u8],
        member: &Member<'static>,
        seen: &mut BTreeMap<u32, NodeId>,
    ) -> Result<()> {
        let (directory, last) = self.make_folders(name)?;
        let first = seen
            .get(&member.inode)
            .copied()
            .filter(|_| member.links > 1 && member.mode & linux::S_IFMT == linux::S_IFREG);
        let id = match (first, self.look_up(directory, last)) {
            (Some(first), _) => {
                return self.link(first, directory, last).and_then(|()| self.fill(archive, first, member));
            }
            (None, Ok(there)) => there,
            (None, Err(_)) => self.create(directory, last, fresh(member))?,
        };
        seen.insert(member.inode, id);
        let node = self.node_mut(id)?;
        node.mode = member.mode;
        let time = u64::from(member.modified) * 1_000_000_000;
        (node.accessed, node.modified, node.changed) = (time, time, time);
        self.fill(archive, id, member)
    }

    /// Contents of a member that has some: they stay where they are.
    fn fill(&mut self, archive: &'static [u8], id: NodeId, member: &Member<'static>) -> Result<()> {
        let node = self.node_mut(id)?;
        if node.is_file() && !member.contents.is_empty() {
            node.size = member.contents.len() as u64;
            node.body = Body::Archived { start: offset_in(archive, member.contents) };
        }
        Ok(())
    }

    fn add_expected(&mut self) -> Result<()> {
        for (name, mode) in FOLDERS {
            let (directory, last) = self.make_folders(name.as_bytes())?;
            let fresh = Fresh { mode: linux::S_IFDIR | mode, ..FRESH };
            ignore_existing(self.create(directory, last, fresh))?;
        }
        for (name, mode, device) in DEVICES {
            let (directory, last) = self.make_folders(name.as_bytes())?;
            ignore_existing(self.create(directory, last, Fresh { mode: linux::S_IFCHR | mode, device, ..FRESH }))?;
        }
        for (name, target) in LINKS {
            let (directory, last) = self.make_folders(name.as_bytes())?;
            let fresh = Fresh { mode: linux::S_IFLNK | 0o777, target: target.as_bytes(), ..FRESH };
            ignore_existing(self.create(directory, last, fresh))?;
        }
        self.mount_proc()
    }

    /// The folder of a name, made where it is missing, and the last part of the name.
    fn make_folders<'n>(&mut self, name: &'n [u8]) -> Result<(NodeId, &'n [u8])> {
        let mut directory = ROOT;
        let mut parts = name.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".").peekable();
        loop {
            let part = parts.next().ok_or(Errno::EINVAL)?;
            if part == b".." {
                return Err(Errno::EINVAL);
            }
            if parts.peek().is_none() {
                return Ok((directory, part));
            }
            directory = match self.look_up(directory, part) {
                Ok(there) => there,
                Err(_) => self.create(directory, part, Fresh { mode: linux::S_IFDIR | 0o755, ..FRESH })?,
            };
        }
    }
}

const FRESH: Fresh<'static> = Fresh { mode: 0, owner: FsCredentials::new(0, 0), device: (0, 0), target: b"" };

fn fresh(member: &Member<'static>) -> Fresh<'static> {
    let is_link = member.mode & linux::S_IFMT == linux::S_IFLNK;
    Fresh {
        mode: member.mode,
        owner: FsCredentials::new(member.uid, member.gid),
        device: member.device,
        target: if is_link { member.contents } else { b"" },
    }
}

fn ignore_existing(outcome: Result<NodeId>) -> Result<()> {
    match outcome {
        Ok(_) | Err(Errno::EEXIST) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Where a part of a slice lies in it.
fn offset_in(whole: &[u8], part: &[u8]) -> usize {
    part.as_ptr().addr() - whole.as_ptr().addr()
}
