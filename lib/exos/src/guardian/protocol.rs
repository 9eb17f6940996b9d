//! What travels between a process and the guardian of the file system.
//!
//! A message is six words: an operation and its arguments; an answer is an error (0: none, or [`ELSEWHERE`]) and its
//! results. Paths and bytes lie in a window that both map: what the guardian reads there it copies first.

use crate::errno::Errno;

/// Pages of a client's window.
pub const WINDOW_PAGES: usize = 8;
/// Bytes of a client's window.
pub const WINDOW_BYTES: u64 = WINDOW_PAGES as u64 * 4096;
/// In place of an error: the path leads out of the file system; the node is in word 1, the length of the rest, which
/// lies in the window, in word 2.
pub const ELSEWHERE: u64 = 1 << 32;
/// As the offset of a write: at the end.
pub const APPEND: u64 = u64::MAX;
/// As a time to set: now.
pub const TIME_NOW: u64 = u64::MAX;
/// As a time to set: leave it.
pub const TIME_KEEP: u64 = u64::MAX - 1;
/// Bit of the flags of an operation on a path: follow a symbolic link in the last place.
pub const FOLLOW: u64 = 1;
/// Bit of the flags: an empty path means the node itself.
pub const EMPTY_PATH: u64 = 2;
/// Bit of the flags of a removal: of a directory.
pub const DIRECTORY: u64 = 4;

macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident = $number:literal,)*) => {
        /// What a client asks for. `at` is the node where a path without leading slash begins.
        #[repr(u64)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Operation {
            $($(#[$doc])* $name = $number,)*
        }

        impl Operation {
            /// The operation with this number.
            pub const fn from_number(number: u64) -> Option<Self> {
                match number {
                    $($number => Some(Self::$name),)*
                    _ => None,
                }
            }
        }
    };
}

operations! {
    /// () -> page numbers of the window, two in a word.
    Attach = 0,
    /// (environment): it becomes a client that holds what the caller holds.
    Adopt = 1,
    /// (at, flags of `open`, mode, length of path) -> node, mode, device, size. The caller holds the node.
    Open = 2,
    /// (at, flags, length of path) -> the status in the window.
    Status = 3,
    /// (node, offset, count) -> count; the bytes in the window.
    Read = 4,
    /// (node, offset, count) -> count, end of what was written; the bytes in the window.
    Write = 5,
    /// (node, size)
    Truncate = 6,
    /// (node, entries to skip, bytes) -> bytes, entries; records of `getdents64` in the window.
    List = 7,
    /// (node, first index, count) -> count; page numbers in the window, one a word.
    Pages = 8,
    /// (node): the caller holds it no more.
    Release = 9,
    /// (at, mode, device, length of path)
    Make = 10,
    /// (at, flags, length of path)
    Remove = 11,
    /// (from at, to at, lengths of both paths: 0..32 and 32..64, flags of `renameat2`)
    Rename = 12,
    /// (from at, to at, lengths of both paths, flags)
    Link = 13,
    /// (at, lengths of target and path)
    SymbolicLink = 14,
    /// (at, length of path) -> length of the target in the window.
    ReadLink = 15,
    /// (at, wanted, flags, length of path)
    Access = 16,
    /// (at, mode, flags, length of path)
    SetMode = 17,
    /// (at, uid | gid << 32, flags, length of path)
    SetOwner = 18,
    /// (at, accessed, modified, flags, length of path)
    SetTimes = 19,
    /// (node) -> length of its absolute path in the window.
    PathOf = 20,
    /// () -> pages in all, pages free, nodes.
    Space = 21,
    /// (at, length of path) -> node, if a directory is there that may be entered. The caller holds it.
    Enter = 22,
    /// (node): the caller holds it once more.
    Hold = 23,
}

/// Two lengths in one word.
pub const fn pair(low: usize, high: usize) -> u64 {
    low as u64 | (high as u64) << 32
}

/// What an answer's first word says.
pub fn outcome(word: u64) -> Result<(), Errno> {
    match word {
        0 => Ok(()),
        number => Err(Errno::from_register(number.wrapping_neg()).unwrap_or(Errno::EIO)),
    }
}
