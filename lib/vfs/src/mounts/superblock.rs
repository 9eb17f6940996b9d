//! Volumes: what has nodes of its own and a limit of its own, as a superblock of Linux. A name never leads from one
//! into another, and links and renames do not either (`EXDEV`); mounts do. Pure.

use crate::file_data::PageStorage;
use crate::inode::{Body, NodeId};
use crate::inotify::directory_bit;
use crate::namespace::FileTree;
use alloc::vec::Vec;
use linux_abi::address_map::PAGE_SIZE;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;

/// Number of a volume, which `stat` tells as the minor number of the device.
pub type VolumeId = u32;

/// The volume that the root archive fills.
pub const ROOT_VOLUME: VolumeId = 1;
/// That of `/proc`.
pub const PROC_VOLUME: VolumeId = 2;
/// Where pipes, sockets and the like are told to be.
pub const UNNAMED_VOLUME: VolumeId = 3;
/// That of `/sys`.
pub const MACHINE_VOLUME: VolumeId = 4;
/// The first one that is mounted later.
pub const FIRST_FREE: VolumeId = 5;

/// A volume.
#[derive(Clone, Debug)]
pub struct Superblock {
    /// Its root directory.
    pub root: NodeId,
    /// Nothing in it can be changed.
    pub read_only: bool,
    /// Pages that its files have.
    pub pages: u64,
    /// Pages that they may have.
    pub most_pages: u64,
}

impl Superblock {
    /// One without a limit of its own.
    pub const fn unlimited(root: NodeId) -> Self {
        Self { root, read_only: false, pages: 0, most_pages: u64::MAX }
    }
}

/// What `mount` says of a memory file system in its last argument (tmpfs(5)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Bytes that its files may have.
    pub size: Option<u64>,
    /// Permissions of the root directory.
    pub mode: Option<u32>,
    /// Owner of the root directory.
    pub uid: Option<u32>,
    /// Its group.
    pub gid: Option<u32>,
}

impl Options {
    /// From words with commas between them; `vm` is what a size in percent is of.
    pub fn parse(text: &[u8], memory: u64) -> Result<Self> {
        let mut options = Self::default();
        for word in text.split(|byte| *byte == b',').filter(|word| !word.is_empty()) {
            let word = core::str::from_utf8(word).map_err(|_| Errno::EINVAL)?;
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            match name {
                "size" => options.size = Some(size(value, memory)?),
                "nr_blocks" => options.size = Some(size(value, memory)?.checked_mul(PAGE_SIZE).ok_or(Errno::EINVAL)?),
                "mode" => options.mode = Some(number(value, 8)? & 0o7777),
                "uid" => options.uid = Some(number(value, 10)?),
                "gid" => options.gid = Some(number(value, 10)?),
                // Nodes take no more room than their names, and lie where there is only one node of memory.
                "nr_inodes" => drop(size(value, memory)?),
                "huge" | "mpol" if !value.is_empty() => {}
                "inode32" | "inode64" if value.is_empty() => {}
                _ => return Err(Errno::EINVAL),
            }
        }
        Ok(options)
    }
}

fn number(text: &str, radix: u32) -> Result<u32> {
    u32::from_str_radix(text, radix).map_err(|_| Errno::EINVAL)
}

/// A number of bytes, with `k`, `m` or `g` behind it, or in percent of the memory.
fn size(text: &str, memory: u64) -> Result<u64> {
    let digits = text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let value: u64 = digits.parse().map_err(|_| Errno::EINVAL)?;
    let unit = match &text[digits.len()..] {
        "" => 1,
        "k" | "K" => 1 << 10,
        "m" | "M" => 1 << 20,
        "g" | "G" => 1 << 30,
        "%" => return Ok((u128::from(memory) * u128::from(value) / 100).min(u128::from(u64::MAX)) as u64),
        _ => return Err(Errno::EINVAL),
    };
    value.checked_mul(unit).ok_or(Errno::EINVAL)
}

impl<S: PageStorage> FileTree<S> {
    /// A page for a file, as far as its volume may have one more.
    pub(crate) fn take_page(&mut self, id: NodeId) -> Result<u32> {
        self.take_page_from(id, true, S::allocate)
    }

    /// The same for a page that has a block on its disk.
    pub(crate) fn take_page_of_block(&mut self, id: NodeId) -> Result<u32> {
        self.take_page_from(id, false, S::allocate)
    }

    /// The same for what the boot archive holds.
    pub(crate) fn take_page_for_archive(&mut self, id: NodeId) -> Result<u32> {
        self.take_page_from(id, true, S::allocate_for_archive)
    }

    fn take_page_from(&mut self, id: NodeId, is_new: bool, allocate: fn(&mut S) -> Result<u32>) -> Result<u32> {
        let volume = self.volume_of(id)?;
        if volume.pages >= volume.most_pages {
            return Err(Errno::ENOSPC);
        }
        volume.pages += 1;
        let number = self.node(id)?.volume;
        let block = if is_new { self.reserve_block(number) } else { Ok(()) };
        let page = block.and_then(|()| allocate(&mut self.store));
        if page.is_err() {
            self.volume_of(id)?.pages -= 1;
        }
        page
    }

    /// Pages that a file has no more.
    pub(crate) fn give_pages(&mut self, volume: VolumeId, pages: impl IntoIterator<Item = u32>) {
        for page in pages {
            self.store.free(page);
            if let Some(volume) = self.volumes.get_mut(&volume) {
                volume.pages = volume.pages.saturating_sub(1);
            }
        }
    }

    fn volume_of(&mut self, id: NodeId) -> Result<&mut Superblock> {
        let volume = self.node(id)?.volume;
        self.volumes.get_mut(&volume).ok_or(Errno::EIO)
    }

    /// Pages in all, free pages and nodes of the volume that a node lies in; `capacity` and `room` are those of the
    /// store.
    pub fn space(&self, id: NodeId, capacity: u64, room: u64) -> Result<[u64; 3]> {
        let number = self.node(id)?.volume;
        let volume = self.volumes.get(&number).ok_or(Errno::EIO)?;
        let nodes = self.node_counts.get(&number).copied().unwrap_or(0);
        if let Some(backing) = self.backings.get(&number) {
            return Ok([backing.blocks, backing.free, nodes]);
        }
        Ok(match volume.most_pages {
            u64::MAX => [capacity, room, nodes],
            most => [most, most.saturating_sub(volume.pages).min(room), nodes],
        })
    }

    /// Has a node lie in another volume.
    pub(crate) fn move_to_volume(&mut self, id: NodeId, volume: VolumeId) -> Result<()> {
        let before = core::mem::replace(&mut self.node_mut(id)?.volume, volume);
        self.count_one_less(before);
        *self.node_counts.entry(volume).or_default() += 1;
        Ok(())
    }

    pub(crate) fn count_one_less(&mut self, volume: VolumeId) {
        match self.node_counts.get_mut(&volume) {
            Some(count) if *count > 1 => *count -= 1,
            _ => _ = self.node_counts.remove(&volume),
        }
    }

    /// Ends a volume that is mounted nowhere any more: all its names and nodes go.
    pub(crate) fn end_volume(&mut self, id: VolumeId) {
        let all: Vec<NodeId> =
            self.nodes.iter().filter(|(_, node)| node.volume == id).map(|(number, _)| *number).collect();
        for number in all {
            if let Some(node) = self.nodes.get_mut(&number) {
                self.watches.note_gone(number, linux::IN_UNMOUNT | directory_bit(node.is_directory()));
                node.links = 0;
                if let Body::Directory { entries, .. } = &mut node.body {
                    entries.clear();
                }
            }
            self.forget(number);
        }
        self.volumes.remove(&id);
        self.changes.note_everything();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_a_memory_file_system_are_those_of_tmpfs() {
        let parse = |text: &str| Options::parse(text.as_bytes(), 1000);
        assert_eq!(parse(""), Ok(Options::default()));
        let all = Options { size: Some(2 << 20), mode: Some(0o1777), uid: Some(5), gid: Some(6) };
        assert_eq!(parse("size=2m,mode=1777,uid=5,gid=6,nr_inodes=1k,huge=never"), Ok(all));
        assert_eq!(parse("size=50%").map(|options| options.size), Ok(Some(500)));
        assert_eq!(parse("nr_blocks=3").map(|options| options.size), Ok(Some(3 * 4096)));
        for wrong in
            ["size", "size=", "size=x", "size=1x", "mode=9", "uid=-1", "size=99999999999999999999", "loop", "huge"]
        {
            assert_eq!(parse(wrong), Err(Errno::EINVAL), "{wrong}");
        }
    }
}
