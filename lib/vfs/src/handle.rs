//! What a client holds: a node as it is seen through a mount, and what may be done with it. Pure.
//!
//! A handle is a word that the server gives out when it opens something and believes only from who holds it.
//!
//! Files, directories and disks bear the rights that they were opened with. Everything else bears none: all processes
//! that have a FIFO or a terminal open have the same word for it.

use crate::mount_table::Location;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;

const NODE_BITS: u32 = 40;
const MOUNT_BITS: u32 = 16;

/// Rights of a handle.
pub mod right {
    /// Read bytes, or list names.
    pub const READ: u8 = 1;
    /// Change the bytes.
    pub const WRITE: u8 = 2;
    /// Map it to execute: its mount does not forbid it.
    pub const EXECUTE: u8 = 4;
    /// It is held by a mapping through which others see what is written.
    pub const MAPPED: u8 = 8;
    /// Reading leaves the time of the last read: `O_NOATIME`, or its mount says so.
    pub const NOATIME: u8 = 16;
    /// A process runs it.
    pub const RUNS: u8 = 32;
}

/// A node that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle {
    /// Where it was found.
    pub at: Location,
    /// Bits of [`right`].
    pub rights: u8,
}

impl Handle {
    /// A node that is held for its name, or that needs no rights.
    pub const fn plain(at: Location) -> Self {
        Self { at, rights: 0 }
    }

    /// What opening a node of this mode with these flags of `open` gives, through a mount with these flags.
    pub fn opened(at: Location, mode: u32, flags: u32, mount_flags: u32) -> Self {
        let kind = mode & linux::S_IFMT;
        let is_file = kind == linux::S_IFREG;
        if flags & linux::O_PATH != 0 || !is_file && kind != linux::S_IFDIR && kind != linux::S_IFBLK {
            return Self::plain(at);
        }
        let rights = match flags & linux::O_ACCMODE {
            linux::O_RDONLY => right::READ,
            linux::O_WRONLY => right::WRITE,
            _ => right::READ | right::WRITE,
        };
        let execute = if is_file && mount_flags & linux::MS_NOEXEC == 0 { right::EXECUTE } else { 0 };
        let is_unnoted = flags & linux::O_NOATIME != 0 || mount_flags & linux::MS_NOATIME != 0;
        let unnoted = if is_unnoted { right::NOATIME } else { 0 };
        Self { at, rights: rights | execute | unnoted }
    }

    /// `EBADF` where it lacks a right.
    pub const fn check(self, wanted: u8) -> Result<()> {
        if self.rights & wanted == wanted { Ok(()) } else { Err(Errno::EBADF) }
    }

    /// Whether what it holds may be changed by it.
    pub const fn writes(self) -> bool {
        self.rights & right::WRITE != 0
    }

    /// Whether a process runs what it holds.
    pub const fn runs(self) -> bool {
        self.rights & right::RUNS != 0
    }

    /// The same where none does.
    pub const fn without_exec(self) -> Self {
        Self { rights: self.rights & !right::RUNS, ..self }
    }

    /// Whether reading leaves the time of the last read.
    pub const fn is_unnoted(self) -> bool {
        self.rights & right::NOATIME != 0
    }

    /// Whether a mapping holds it, through which it may be written.
    pub const fn is_mapped(self) -> bool {
        self.rights & right::MAPPED != 0
    }

    /// As a word: node, mount, rights.
    pub const fn to_word(self) -> u64 {
        self.at.node | (self.at.mount as u64) << NODE_BITS | (self.rights as u64) << (NODE_BITS + MOUNT_BITS)
    }

    /// From such a word, whatever it is.
    pub const fn from_word(word: u64) -> Self {
        let at = Location { mount: (word >> NODE_BITS) as u16, node: node_of(word) };
        Self { at, rights: (word >> (NODE_BITS + MOUNT_BITS)) as u8 }
    }
}

/// The node of a handle's word.
pub const fn node_of(word: u64) -> u64 {
    word & ((1 << NODE_BITS) - 1)
}

/// The place of a handle's word: node and mount, without rights. In the first mount it is the number of the node.
pub const fn place_of(word: u64) -> u64 {
    word & ((1 << (NODE_BITS + MOUNT_BITS)) - 1)
}

/// Whether what a handle holds may be mapped to execute.
pub const fn is_executable(word: u64) -> bool {
    Handle::from_word(word).rights & right::EXECUTE != 0
}

/// The word by which a mapping holds what a handle that may write holds, if others see what it writes.
pub const fn mapped(word: u64) -> u64 {
    let handle = Handle::from_word(word);
    if handle.writes() { Handle { rights: handle.rights | right::MAPPED, ..handle }.to_word() } else { word }
}

/// The word of the handle that a mapping was made with.
pub const fn unmapped(word: u64) -> u64 {
    let handle = Handle::from_word(word);
    Handle { rights: handle.rights & !right::MAPPED, ..handle }.to_word()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_are_words_and_bear_what_they_were_opened_for() {
        let at = Location { mount: 0xfffe, node: (1 << NODE_BITS) - 1 };
        for flags in [linux::O_RDONLY, linux::O_WRONLY, linux::O_RDWR, linux::O_PATH] {
            let handle = Handle::opened(at, linux::S_IFREG | 0o644, flags, 0);
            assert_eq!(Handle::from_word(handle.to_word()), handle);
            assert_eq!(handle.check(right::READ).is_ok(), matches!(flags, linux::O_RDONLY | linux::O_RDWR));
            assert_eq!(handle.writes(), matches!(flags, linux::O_WRONLY | linux::O_RDWR));
        }
        let first = Handle::opened(Location::first(7), linux::S_IFCHR, linux::O_RDWR, 0).to_word();
        assert_eq!(first, 7, "a device is held by the number of its node");
        let disk = Handle::opened(at, linux::S_IFBLK | 0o660, linux::O_RDONLY, 0);
        assert!(disk.check(right::READ).is_ok() && !disk.writes() && !is_executable(disk.to_word()));
        let kept_from = Handle::opened(at, linux::S_IFREG, linux::O_RDONLY, linux::MS_NOEXEC).to_word();
        assert!(!is_executable(kept_from));
        assert_eq!((place_of(kept_from), place_of(first)), (Handle::plain(at).to_word(), first));
    }
}
