//! Names: create, link, unlink, rmdir.

use crate::device::Device;
use crate::directory::{Found, Search, check_name};
use crate::edit::Edit;
use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::layout::hash;
use crate::layout::inode::{self, Inode, LIVE, SHORT_LINK, SIZE};
use crate::layout::node::{self, Entry, State, inode_place};
use crate::layout::{BLOCK_BITS, Number, put};
use crate::template::DATA;
use xn::format::BLOCK_SIZE;
use xn::transaction::Action;

/// Most names of an inode.
pub const MAX_LINKS: u16 = 65_000;
/// Lineages are numbered with 24 bits.
const MAX_LINEAGE: u32 = (1 << 24) - 1;
/// Longest target of a symbolic link.
const MAX_TARGET: usize = BLOCK_SIZE - 1;

/// What a new inode is.
#[derive(Clone, Copy, Debug, Default)]
pub struct New<'n> {
    /// Kind, set-id bits and permissions.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Number of a device node, at most 48 bits.
    pub device: u64,
    /// Text of a symbolic link.
    pub target: &'n [u8],
}

impl New<'_> {
    fn check(&self) -> Result<()> {
        let known = matches!(
            self.mode & inode::KIND,
            inode::FIFO
                | inode::CHARACTER
                | inode::DIRECTORY
                | inode::BLOCK_DEVICE
                | inode::FILE
                | inode::LINK
                | inode::SOCKET
        );
        let is_link = self.mode & inode::KIND == inode::LINK;
        if !known || self.device >> 48 != 0 || is_link == self.target.is_empty() {
            return Err(Error::Invalid);
        }
        if self.target.len() > MAX_TARGET { Err(Error::NameTooLong) } else { Ok(()) }
    }
}

impl<D: Device> FileSystem<'_, D> {
    /// A path without the name, neither living nor leaving, for an entry that comes with an inode or without one.
    fn vacant(&mut self, directory: Number, name: &[u8], with_inode: bool) -> Result<Search> {
        for _ in 0..2 {
            self.step();
            self.directory(directory)?;
            let search = self.search(directory, name)?;
            if search.live.is_some() {
                return Err(Error::Exists);
            }
            if !search.leaving && !self.would_double(directory, &search, name.len(), with_inode)? {
                return Ok(search);
            }
            // After a crash the old name could come back, and two entries would have it.
            self.sync()?;
        }
        Err(Error::Damaged(0))
    }

    /// Makes an inode of any kind with its first name.
    pub fn create(&mut self, directory: Number, name: &[u8], new: &New<'_>) -> Result<Number> {
        self.check_writable()?;
        check_name(name)?;
        new.check()?;
        let search = self.vacant(directory, name, true)?;
        let (page, sector, room) = self.make_room(directory, &search, name.len(), true)?;
        let block = self.xn.info(page)?.block();
        let number = block << 5 | (sector as u64) << 2 | room.slot as u64;
        let long = new.target.len() as u64 > SHORT_LINK;
        let text = if long { Some((self.free_page()?, self.choose(block + 1)?)) } else { None };
        let mut edit = Edit::default();
        let inode = self.new_inode(directory, new, text.map(|(_, block)| block));
        let entry = Entry {
            number,
            generation: inode.generation,
            kind: (new.mode >> 12) as u8,
            state: State::Live,
            lineage: 0,
            sequence: 0,
        };
        let content = self.edit(&mut edit, page, sector);
        node::insert(content, &room, &entry, name);
        node::set_inode(content, room.slot, true);
        let bytes = &mut content[inode_place(room.slot)..inode_place(room.slot) + SIZE];
        inode.encode(bytes);
        if !new.target.is_empty() && !long {
            bytes[inode::POINTERS..inode::POINTERS + new.target.len()].copy_from_slice(new.target);
        }
        if let Some((_, block)) = text {
            edit.declare(Action::Allocate, block, DATA);
        }
        self.touch_directory(&mut edit, directory)?;
        self.commit(&edit)?;
        self.pending.young.insert(number);
        if let Some((free, block)) = text {
            let free = self.bind(page, sector, block, free, number)?;
            self.store(free, 0, new.target)?;
        }
        Ok(number)
    }

    fn new_inode(&mut self, parent: Number, new: &New<'_>, text: Option<u64>) -> Inode {
        self.next_generation = self.next_generation.wrapping_add(1);
        let is_device = matches!(new.mode & inode::KIND, inode::CHARACTER | inode::BLOCK_DEVICE);
        let mut inode = Inode {
            mode: new.mode,
            nlink: 1,
            state: LIVE,
            next_lineage: 1,
            uid: new.uid,
            gid: new.gid,
            size: new.target.len() as u64,
            times: [self.now; 4],
            generation: self.next_generation,
            parent: if is_device { new.device } else { parent },
            ..Inode::default()
        };
        if let Some(block) = text {
            inode.pointers[0] = block;
            inode.blocks = 1;
        }
        inode
    }

    /// Gives an inode one more name. Directories have one only.
    pub fn link(&mut self, target: Number, directory: Number, name: &[u8]) -> Result<()> {
        self.check_writable()?;
        check_name(name)?;
        let inode = self.inode(target)?;
        if inode.is_directory() {
            return Err(Error::NotPermitted);
        }
        if inode.nlink == 0 {
            return Err(Error::NotFound);
        }
        if inode.nlink >= MAX_LINKS || inode.next_lineage >= MAX_LINEAGE {
            return Err(Error::TooManyLinks);
        }
        let search = self.vacant(directory, name, false)?;
        let (page, sector, room) = self.make_room(directory, &search, name.len(), false)?;
        let entry = Entry {
            number: target,
            generation: inode.generation,
            kind: (inode.mode >> 12) as u8,
            state: State::Live,
            lineage: inode.next_lineage,
            sequence: 0,
        };
        let (mut edit, now) = (Edit::default(), self.now);
        node::insert(self.edit(&mut edit, page, sector), &room, &entry, name);
        self.edit_inode(&mut edit, target, |inode| {
            inode.nlink += 1;
            inode.next_lineage += 1;
            inode.times[2] = now;
        })?;
        self.touch_directory(&mut edit, directory)?;
        self.commit(&edit)?;
        self.pending.unsettled.insert(target);
        Ok(())
    }

    /// Finds a living name; the target with it.
    pub(crate) fn named(&mut self, directory: Number, name: &[u8]) -> Result<(Found, Inode)> {
        self.step();
        self.directory(directory)?;
        if name.len() > 255 {
            return Err(Error::NameTooLong);
        }
        let found = self.search(directory, name)?.live.ok_or(Error::NotFound)?;
        let inode = self.inode(found.placed.entry.number)?;
        Ok((found, inode))
    }

    /// Removes a name of an inode that is no directory. The inode lives on while it has names or is open.
    pub fn unlink(&mut self, directory: Number, name: &[u8]) -> Result<()> {
        self.check_writable()?;
        let (mut found, mut inode) = self.named(directory, name)?;
        if inode.is_directory() {
            return Err(Error::IsDirectory);
        }
        let target = found.placed.entry.number;
        if inode.nlink > 1 && self.pending.unsettled.contains(&target) {
            // Another name may not be on disk yet: after a crash the inode would have none.
            self.sync()?;
            (found, inode) = self.named(directory, name)?;
        }
        let (mut edit, now) = (Edit::default(), self.now);
        node::remove(self.edit(&mut edit, found.page, found.sector), found.placed.offset);
        self.touch_directory(&mut edit, directory)?;
        let last = inode.nlink <= 1;
        let frees = last && !self.opens.contains_key(&target);
        let at_once = frees && self.free_within(&mut edit, target, &inode)?;
        if !at_once {
            let dies = frees && self.lies_in(target, found.page, found.sector);
            self.edit_inode(&mut edit, target, |inode| {
                inode.nlink = inode.nlink.saturating_sub(1);
                inode.times[2] = now;
                inode.state = if dies { inode::DYING } else { inode.state };
            })?;
        }
        self.commit(&edit)?;
        let node = self.xn.info(found.page)?.block();
        self.pending.erased.insert(directory, hash::of_name(name), (node, found.sector));
        if !last && !self.lies_in(target, found.page, found.sector) {
            self.pending.lessened.insert(target);
        }
        match (at_once, frees) {
            (true, _) => self.forget_inode(target)?,
            (false, true) => self.reap(target)?,
            _ => (),
        }
        self.prune(node)
    }

    /// Removes a directory without entries.
    pub fn rmdir(&mut self, directory: Number, name: &[u8]) -> Result<()> {
        self.check_writable()?;
        if name == b"." {
            return Err(Error::Invalid);
        }
        let (found, inode) = self.named(directory, name)?;
        if !inode.is_directory() {
            return Err(Error::NotDirectory);
        }
        let target = found.placed.entry.number;
        self.clear_out(target)?;
        let (found, _) = self.named(directory, name)?;
        let (mut edit, now) = (Edit::default(), self.now);
        node::remove(self.edit(&mut edit, found.page, found.sector), found.placed.offset);
        self.edit_inode(&mut edit, target, |inode| {
            inode.nlink = 0;
            inode.times[2] = now;
        })?;
        self.touch_directory(&mut edit, directory)?;
        self.commit(&edit)?;
        let node = self.xn.info(found.page)?.block();
        self.pending.erased.insert(directory, hash::of_name(name), (node, found.sector));
        self.reap(target)?;
        self.prune(node)
    }

    /// Refuses a directory with entries. Entries that wait for the end of their rename are settled.
    pub(crate) fn clear_out(&mut self, directory: Number) -> Result<()> {
        let (live, leaving) = self.occupancy(directory)?;
        if live {
            return Err(Error::NotEmpty);
        }
        if leaving {
            // In a directory without a name the old name would be lost.
            self.sync()?;
        }
        Ok(())
    }

    /// Text of a symbolic link.
    pub fn read_link(&mut self, number: Number) -> Result<alloc::vec::Vec<u8>> {
        self.step();
        let (page, sector, slot) = self.find_inode(number)?;
        let bytes = &self.sector(page, sector)[inode_place(slot)..];
        let inode = Inode::decode(bytes);
        let length = inode.size as usize;
        if inode.kind() != inode::LINK {
            return Err(Error::Invalid);
        }
        if !inode.has_long_link() {
            return Ok(bytes[inode::POINTERS..inode::POINTERS + length].to_vec());
        }
        let page = self.child_page(page, sector, inode.pointers[0] & BLOCK_BITS, number)?;
        Ok(self.xn.frames.blocks[page].get(..length).ok_or(Error::Damaged(number >> 5))?.to_vec())
    }

    /// Clears an inode's slot in an edit, with its blocks, if they all hang directly from it and it lies in a sector
    /// that the edit changes anyway.
    pub(crate) fn free_within(&mut self, edit: &mut Edit, number: Number, inode: &Inode) -> Result<bool> {
        let (page, sector, slot) = self.find_inode(number)?;
        let has_trees = inode.is_file() && inode.pointers[4..].iter().any(|pointer| pointer & BLOCK_BITS != 0);
        if has_trees || inode.is_directory() || !edit.changes(page, sector) {
            return Ok(false);
        }
        self.free_slot(edit, (page, sector, slot), inode);
        Ok(true)
    }

    /// Clears an inode's slot and frees the blocks that hang directly from it.
    pub(crate) fn free_slot(&self, edit: &mut Edit, (page, sector, slot): (usize, usize, usize), inode: &Inode) {
        let content = self.edit(edit, page, sector);
        node::set_inode(content, slot, false);
        put(content, inode_place(slot) + 4, 1, 0);
        let direct = if inode.is_file() || inode.has_long_link() { &inode.pointers[..4] } else { &[] };
        let count = if inode.has_long_link() { 1 } else { 4 };
        for pointer in direct.iter().take(count).filter(|pointer| **pointer & BLOCK_BITS != 0) {
            let reserved = pointer & crate::layout::RESERVED_BIT != 0;
            let template = if reserved { xn::template::RESERVED } else { DATA };
            edit.declare(Action::Free, pointer & BLOCK_BITS, template);
        }
    }
}
