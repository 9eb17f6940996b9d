//! Extended attributes of nodes: names and values that programs attach to a file (xattr(7)). Those of users, and
//! those that only user 0 sees (`trusted.`); those by which a kernel gives rights are not kept, because they would
//! give none. Pure.
//!
//! They lie one behind the other in pages of the node's volume, at most four, which count as those of its contents
//! do. Each is: length of name and value (8 and 16 bits, low byte first), name, value.

use crate::file_data::PageStorage;
use crate::inode::{Inode, NodeId};
use crate::namespace::{FileTree, FsCredentials, access};
use alloc::vec::Vec;
use linux_abi::address_map::PAGE_SIZE;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;

/// Where the attributes of a node lie.
#[derive(Clone, Debug, Default)]
pub struct Attributes {
    /// Pages of the store.
    pub pages: Vec<u32>,
    bytes: usize,
}

/// Bytes of all names and values of a node, with three for each.
pub const MOST_BYTES: usize = 4 * PAGE_SIZE as usize;
/// Bytes of a name.
pub const NAME_BYTES: usize = 255;

const USERS: &[u8] = b"user.";
const TRUSTED: &[u8] = b"trusted.";
const SECURITY: &[u8] = b"security.";
/// Capabilities of a program, which nothing here heeds.
const CAPABILITY: &[u8] = b"security.capability";

/// Names with what they stand for, as they lie one behind the other.
fn pairs(mut bytes: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    core::iter::from_fn(move || {
        let ([name, low, high], rest) = bytes.split_first_chunk::<3>()?;
        let (name, rest) = rest.split_at_checked(usize::from(*name))?;
        let (value, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes([*low, *high])))?;
        bytes = rest;
        Some((name, value))
    })
}

impl<S: PageStorage> FileTree<S> {
    /// What a name stands for.
    pub fn attribute(&self, id: NodeId, who: FsCredentials, name: &[u8]) -> Result<Vec<u8>> {
        self.check_attribute(id, who, name, false)?;
        let all = self.attributes(id)?;
        let found = pairs(&all).find(|(known, _)| *known == name);
        found.map(|(_, value)| value.to_vec()).ok_or(Errno::ENODATA)
    }

    /// The names that a process with these credentials may know, each with a NUL behind it.
    pub fn attribute_names(&self, id: NodeId, who: FsCredentials) -> Result<Vec<u8>> {
        let all = self.attributes(id)?;
        let shown = pairs(&all).filter(|(name, _)| who.has(linux::CAP_SYS_ADMIN) || !name.starts_with(TRUSTED));
        Ok(shown.flat_map(|(name, _)| name.iter().copied().chain([0])).collect())
    }

    /// Sets what a name stands for; `flags` of setxattr(2) say whether it must be new, or there.
    pub fn set_attribute(
        &mut self,
        id: NodeId,
        who: FsCredentials,
        name: &[u8],
        value: &[u8],
        flags: u32,
    ) -> Result<()> {
        let is_on_disk = self.backings.contains_key(&self.node(id)?.volume);
        if is_on_disk || name == CAPABILITY {
            return Err(Errno::EOPNOTSUPP);
        }
        self.check_attribute(id, who, name, true)?;
        let (is_there, mut others) = self.attributes_but(id, name)?;
        match flags {
            _ if flags & linux::XATTR_CREATE != 0 && is_there => return Err(Errno::EEXIST),
            _ if flags & linux::XATTR_REPLACE != 0 && !is_there => return Err(Errno::ENODATA),
            _ => {}
        }
        append(&mut others, name, value)?;
        self.keep_attributes(id, &others)
    }

    /// Takes a name away.
    pub fn remove_attribute(&mut self, id: NodeId, who: FsCredentials, name: &[u8]) -> Result<()> {
        self.check_attribute(id, who, name, true)?;
        match self.attributes_but(id, name)? {
            (true, others) => self.keep_attributes(id, &others),
            (false, _) => Err(Errno::ENODATA),
        }
    }

    /// All of a node's, as they lie one behind the other.
    fn attributes(&self, id: NodeId) -> Result<Vec<u8>> {
        let Attributes { pages, bytes } = &self.node(id)?.attributes;
        let mut all = Vec::with_capacity(*bytes);
        for page in pages {
            let left = (bytes - all.len()).min(PAGE_SIZE as usize);
            all.extend_from_slice(&self.store.bytes(*page)[..left]);
        }
        Ok(all)
    }

    /// Whether a name is among them, and all others.
    fn attributes_but(&self, id: NodeId, name: &[u8]) -> Result<(bool, Vec<u8>)> {
        let all = self.attributes(id)?;
        let (mut is_there, mut others) = (false, Vec::with_capacity(all.len()));
        for (other, value) in pairs(&all) {
            match other == name {
                true => is_there = true,
                false => append(&mut others, other, value)?,
            }
        }
        Ok((is_there, others))
    }

    /// Puts others in their place: all, or none where there is no room.
    fn keep_attributes(&mut self, id: NodeId, all: &[u8]) -> Result<()> {
        let wanted = all.len().div_ceil(PAGE_SIZE as usize);
        let had = self.node(id)?.attributes.pages.len();
        for _ in had..wanted {
            let page = self.take_page(id).inspect_err(|_| self.drop_attribute_pages(id, had))?;
            self.node_mut(id)?.attributes.pages.push(page);
        }
        self.drop_attribute_pages(id, wanted);
        for (index, piece) in all.chunks(PAGE_SIZE as usize).enumerate() {
            let page = self.node(id)?.attributes.pages[index];
            self.store.bytes_mut(page)[..piece.len()].copy_from_slice(piece);
        }
        self.set_attributes(id, |node| {
            node.attributes.bytes = all.len();
            Ok(())
        })
    }

    /// Gives up all of a node's pages for attributes but the first ones.
    fn drop_attribute_pages(&mut self, id: NodeId, kept: usize) {
        if let Some(node) = self.nodes.get_mut(&id) {
            let volume = node.volume;
            let dropped = node.attributes.pages.split_off(kept.min(node.attributes.pages.len()));
            self.give_pages(volume, dropped);
        }
    }

    /// Whether a process with these credentials may read or change what a name stands for.
    fn check_attribute(&self, id: NodeId, who: FsCredentials, name: &[u8], write: bool) -> Result<()> {
        let node = self.node(id)?;
        let known =
            [USERS, TRUSTED, SECURITY].into_iter().find(|kind| name.starts_with(kind)).ok_or(Errno::EOPNOTSUPP)?;
        if name.len() == known.len() {
            return Err(Errno::EINVAL);
        }
        match known {
            SECURITY if write && !who.has(linux::CAP_SYS_ADMIN) => Err(Errno::EPERM),
            TRUSTED if !who.has(linux::CAP_SYS_ADMIN) => Err(if write { Errno::EPERM } else { Errno::ENODATA }),
            USERS if !has_users(node) => Err(if write { Errno::EPERM } else { Errno::ENODATA }),
            USERS if write && is_common(node) && !who.may_own(node.uid) => Err(Errno::EPERM),
            USERS => self.check(id, who, if write { access::WRITE } else { access::READ }),
            _ => Ok(()),
        }
    }
}

/// Puts one more behind what is there.
fn append(all: &mut Vec<u8>, name: &[u8], value: &[u8]) -> Result<()> {
    if all.len() + 3 + name.len() + value.len() > MOST_BYTES {
        return Err(Errno::ENOSPC);
    }
    let [low, high] = (value.len() as u16).to_le_bytes();
    all.extend_from_slice(&[name.len() as u8, low, high]);
    all.extend_from_slice(name);
    all.extend_from_slice(value);
    Ok(())
}

/// Whether users may attach attributes to it: only to what has contents of its own.
fn has_users(node: &Inode) -> bool {
    node.is_file() || node.is_directory()
}

/// Whether it is a folder in which all users have files.
fn is_common(node: &Inode) -> bool {
    node.is_directory() && node.mode & linux::S_ISVTX != 0
}
