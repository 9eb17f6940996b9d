//! Examination of a volume: every damage by block and by name, without writing and without XN.
//!
//! A mount stops at the first damaged block. The examination continues behind it. It reads each metadata block once and
//! trusts nothing in it: a block that is owned for the second time is reported and not entered, so that it always ends.
//! Its memory is about 150 bytes an inode.

mod names;
mod walk;

use crate::device::Device;
use crate::error::Result;
use crate::layout::Number;
use crate::mount::superblock;
use crate::template;
use alloc::vec::Vec;
use core::fmt;
use walk::Walk;
use xn::format::{BLOCK_SIZE, Block, State};

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// The device cannot read the block.
    Unreadable,
    /// A sector's checksum does not match its content and place.
    Checksum,
    /// The copy of the superblock differs from the superblock.
    SuperblockCopy,
    /// The catalogue has no root of C-FFS, or the root block is none.
    Root,
    /// A pointer leads out of the volume or into its fixed areas.
    Outside(u64),
    /// A pointer leads to a block that has an owner already.
    OwnedTwice(u64),
    /// The block says that it belongs elsewhere.
    Header,
    /// The entries of a sector contradict the format.
    Entries,
    /// A name is illegal, or its directory lookup does not find it.
    Name,
    /// Two entries of a directory have the same name.
    SameName,
    /// An entry leads to no inode, or to an inode of another generation or kind.
    Entry,
    /// The old entry of a rename in a closed volume.
    Leaving,
    /// An inode of no known kind or state.
    Inode,
    /// An inode without a name that does not wait to be freed.
    Nameless,
    /// The link count differs from the number of names, which is given.
    Links(u64),
    /// A directory names another parent than the one that names it.
    Parent,
    /// A directory is its own ancestor.
    Cycle,
    /// The number of blocks differs from what the inode owns, which is given.
    Blocks(u64),
    /// A file has content behind its end, or an impossible size.
    Size,
    /// The free map says free for a block in use.
    InUse,
    /// The free map says used for a block without an owner.
    Leaked,
}

impl fmt::Display for What {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable => formatter.write_str("cannot be read"),
            Self::Checksum => formatter.write_str("the checksum does not match"),
            Self::SuperblockCopy => formatter.write_str("the copy of the superblock differs"),
            Self::Root => formatter.write_str("no root of C-FFS"),
            Self::Outside(block) => write!(formatter, "a pointer leads outside, to block {block}"),
            Self::OwnedTwice(block) => {
                write!(formatter, "a pointer leads to block {block}, which has an owner already")
            }
            Self::Header => formatter.write_str("the block belongs elsewhere by its own header"),
            Self::Entries => formatter.write_str("the entries contradict the format"),
            Self::Name => formatter.write_str("the name is illegal or at the wrong place"),
            Self::SameName => formatter.write_str("the name occurs twice"),
            Self::Entry => formatter.write_str("the name leads to no inode of its kind"),
            Self::Leaving => formatter.write_str("the name was renamed and not erased"),
            Self::Inode => formatter.write_str("the inode is of no known kind"),
            Self::Nameless => formatter.write_str("the inode has no name"),
            Self::Links(count) => write!(formatter, "the link count is wrong: there are {count} names"),
            Self::Parent => formatter.write_str("the directory names another parent"),
            Self::Cycle => formatter.write_str("the directory is its own ancestor"),
            Self::Blocks(count) => write!(formatter, "the number of blocks is wrong: there are {count}"),
            Self::Size => formatter.write_str("the size contradicts the content"),
            Self::InUse => formatter.write_str("in use, and free in the free map"),
            Self::Leaked => formatter.write_str("without an owner, and used in the free map"),
        }
    }
}

/// One damage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// What is wrong.
    pub what: What,
    /// The block that is wrong, or that holds what is wrong.
    pub block: u64,
    /// Its sector, where only one is concerned.
    pub sector: Option<usize>,
    /// The file or directory that suffers.
    pub inode: Option<Number>,
    /// Its path from the root without the first slash, if it has one.
    pub path: Option<Vec<u8>>,
}

/// What an examination found.
#[derive(Clone, Debug, Default)]
pub struct Examination {
    /// Whether the volume was closed. What only recovery settles is not reported for one that was not.
    pub closed: bool,
    /// Blocks of the volume, and how many of them have an owner or are fixed.
    pub blocks: (u64, u64),
    /// Directories, and other inodes.
    pub inodes: (u64, u64),
    /// All damages, by block.
    pub damages: Vec<Damage>,
}

/// Examines a volume. An error means that the device holds none, or that its superblock cannot be used.
pub fn examine<D: Device>(device: &mut D) -> Result<Examination> {
    let found = superblock(device)?;
    let mut copy: Block = [0; BLOCK_SIZE];
    let mut walk = Walk::new(device, found);
    if walk.read(found.blocks - 1, &mut copy) {
        let other = xn::format::Superblock::decode(&copy, found.blocks - 1);
        // The copy is written after the superblock: it may be one step behind after a crash.
        let same = other.is_ok_and(|other| (other.blocks, other.volume) == (found.blocks, found.volume));
        if !same {
            walk.report(What::SuperblockCopy, found.blocks - 1, None, None);
        }
    }
    walk.templates();
    walk.trees();
    let closed = found.state == State::Clean;
    if closed {
        walk.maps();
        walk.settle();
    }
    Ok(walk.finish(closed))
}

/// Number of template slots in use.
const SLOTS: u8 = template::COUNT as u8;
