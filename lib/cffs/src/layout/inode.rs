//! Inode: 128 bytes in a sector of a directory node, at a place that never changes.
//!
//! | byte | content |
//! |---|---|
//! | 0, 2 | mode, nlink (u16 each) |
//! | 4 | state (u8) |
//! | 5 | lineage of the next name (u24) |
//! | 8, 12 | uid, gid (u32 each) |
//! | 16 | size (u64) |
//! | 24 | times of access, data change, inode change, birth (i64 each, ns) |
//! | 56 | generation (u32) |
//! | 60 | parent directory, or device number (u48) |
//! | 66 | blocks (u48) |
//! | 72 | 7 pointers (u64): 4 direct, single, double, triple indirect |
//!
//! A directory has its root node in the first pointer. A symbolic link of at most 56 bytes lies in their place.

use super::{Number, get, put};

/// Bytes of an inode.
pub const SIZE: usize = 128;
/// Where the pointers begin.
pub const POINTERS: usize = 72;
/// Longest symbolic link within an inode.
pub const SHORT_LINK: u64 = 56;
/// The inode is in use.
pub const LIVE: u8 = 1;
/// The inode is being freed: recovery ignores its names.
pub const DYING: u8 = 2;

/// Bits of the mode that say what an inode is.
pub const KIND: u16 = 0o170_000;
/// FIFO.
pub const FIFO: u16 = 0o010_000;
/// Character device.
pub const CHARACTER: u16 = 0o020_000;
/// Directory.
pub const DIRECTORY: u16 = 0o040_000;
/// Block device.
pub const BLOCK_DEVICE: u16 = 0o060_000;
/// Regular file.
pub const FILE: u16 = 0o100_000;
/// Symbolic link.
pub const LINK: u16 = 0o120_000;
/// Socket.
pub const SOCKET: u16 = 0o140_000;

/// An inode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inode {
    /// Kind, set-id bits and permissions.
    pub mode: u16,
    /// Number of names; 1 for a directory, 0 for an orphan.
    pub nlink: u16,
    /// [`LIVE`] or [`DYING`].
    pub state: u8,
    /// Lineage of the next name ([`super::node::Entry::lineage`]).
    pub next_lineage: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes.
    pub size: u64,
    /// Times of access, data change, inode change and birth, in nanoseconds since 1970.
    pub times: [i64; 4],
    /// Tells inodes apart that had the same place.
    pub generation: u32,
    /// The directory with the name; of a device node its number.
    pub parent: Number,
    /// Blocks that it owns.
    pub blocks: u64,
    /// Pointers.
    pub pointers: [u64; 7],
}

impl Inode {
    /// Reads an inode.
    pub fn decode(bytes: &[u8]) -> Self {
        let mut inode = Self {
            mode: get(bytes, 0, 2) as u16,
            nlink: get(bytes, 2, 2) as u16,
            state: get(bytes, 4, 1) as u8,
            next_lineage: get(bytes, 5, 3) as u32,
            uid: get(bytes, 8, 4) as u32,
            gid: get(bytes, 12, 4) as u32,
            size: get(bytes, 16, 8),
            generation: get(bytes, 56, 4) as u32,
            parent: get(bytes, 60, 6),
            blocks: get(bytes, 66, 6),
            ..Self::default()
        };
        (0..4).for_each(|index| inode.times[index] = get(bytes, 24 + 8 * index, 8) as i64);
        (0..7).for_each(|index| inode.pointers[index] = get(bytes, POINTERS + 8 * index, 8));
        inode
    }

    /// Writes an inode.
    pub fn encode(&self, bytes: &mut [u8]) {
        put(bytes, 0, 2, self.mode.into());
        put(bytes, 2, 2, self.nlink.into());
        put(bytes, 4, 1, self.state.into());
        put(bytes, 5, 3, self.next_lineage.into());
        put(bytes, 8, 4, self.uid.into());
        put(bytes, 12, 4, self.gid.into());
        put(bytes, 16, 8, self.size);
        put(bytes, 56, 4, self.generation.into());
        put(bytes, 60, 6, self.parent);
        put(bytes, 66, 6, self.blocks);
        (0..4).for_each(|index| put(bytes, 24 + 8 * index, 8, self.times[index] as u64));
        (0..7).for_each(|index| put(bytes, POINTERS + 8 * index, 8, self.pointers[index]));
    }

    /// What it is: bits of [`KIND`].
    pub fn kind(&self) -> u16 {
        self.mode & KIND
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.kind() == DIRECTORY
    }

    /// Whether it is a regular file.
    pub fn is_file(&self) -> bool {
        self.kind() == FILE
    }

    /// Whether its first pointer leads to the text of a symbolic link.
    pub fn has_long_link(&self) -> bool {
        self.kind() == LINK && self.size > SHORT_LINK
    }

    /// Whether the parent field holds a device number.
    pub fn is_device(&self) -> bool {
        matches!(self.kind(), CHARACTER | BLOCK_DEVICE)
    }
}
