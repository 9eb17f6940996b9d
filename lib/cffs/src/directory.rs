//! Directories: hash tries of nodes. Lookup walks one path; a new entry goes to the first node on it with room.
//!
//! Invariant: a name is unique on the path of its hash, hence in the directory. Nodes without content are freed, but
//! for the first one.

use crate::device::Device;
use crate::edit::Edit;
use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::layout::hash::{self, MAX_LEVEL};
use crate::layout::node::{self, Placed, Room, State};
use crate::layout::{Number, place};
use crate::template::NODE;
use alloc::vec::Vec;
use xn::format::{BLOCK_SIZE, SECTORS};
use xn::transaction::Action;

/// An entry in core.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) page: usize,
    pub(crate) sector: usize,
    pub(crate) placed: Placed,
}

/// The path of a name, and what it holds.
pub(crate) struct Search {
    pub(crate) path: Vec<usize>,
    pub(crate) hash: u64,
    pub(crate) live: Option<Found>,
    /// An entry of this name waits for the end of its rename.
    pub(crate) leaving: bool,
}

/// Refuses names that no directory can hold.
pub(crate) fn check_name(name: &[u8]) -> Result<()> {
    match name {
        b"" => Err(Error::NotFound),
        b"." | b".." => Err(Error::Invalid),
        long if long.len() > 255 => Err(Error::NameTooLong),
        bad if bad.contains(&b'/') || bad.contains(&0) => Err(Error::Invalid),
        _ => Ok(()),
    }
}

impl<D: Device> FileSystem<'_, D> {
    /// The inode of a name.
    pub fn lookup(&mut self, directory: Number, name: &[u8]) -> Result<Number> {
        self.step();
        self.directory(directory)?;
        if name.len() > 255 {
            return Err(Error::NameTooLong);
        }
        self.search(directory, name)?.live.map(|found| found.placed.entry.number).ok_or(Error::NotFound)
    }

    /// Walks the path of a name.
    pub(crate) fn search(&mut self, directory: Number, name: &[u8]) -> Result<Search> {
        let hash = hash::of_name(name);
        let mut search = Search { path: Vec::new(), hash, live: None, leaving: false };
        let mut next = self.root_node(directory)?;
        while let Some(page) = next {
            self.counts.nodes += 1;
            for sector in 0..SECTORS {
                let damaged = Error::Damaged(self.xn.memory.registry.blocks[page].block());
                for placed in node::find(self.sector(page, sector), name, hash).ok_or(damaged)? {
                    match placed.entry.state {
                        State::Live => search.live = Some(Found { page, sector, placed }),
                        _ => search.leaving = true,
                    }
                }
            }
            let level = search.path.len();
            search.path.push(page);
            let more = level < MAX_LEVEL;
            next = if more { self.child_node(page, hash::child(hash, level), directory)? } else { None };
        }
        Ok(search)
    }

    /// Whether a crash could leave a name twice if it were made now: it was removed from another sector since the last
    /// sync.
    pub(crate) fn would_double(
        &self,
        directory: Number,
        search: &Search,
        length: usize,
        with_inode: bool,
    ) -> Result<bool> {
        let Some(removed) = self.pending.erased.place(directory, search.hash) else { return Ok(false) };
        let has_room = |page, sector| node::room(self.sector(page, sector), length, with_inode).is_some();
        let sectors = search.path.iter().flat_map(|page| (0..SECTORS).map(|sector| (*page, sector)));
        for (page, sector) in sectors {
            if has_room(page, sector) {
                return Ok(removed != Some((self.xn.info(page)?.block(), sector)));
            }
        }
        Ok(true)
    }

    /// Room for an entry, in a new node if the path has none.
    pub(crate) fn make_room(
        &mut self,
        directory: Number,
        search: &Search,
        length: usize,
        with_inode: bool,
    ) -> Result<(usize, usize, Room)> {
        for (level, page) in search.path.iter().enumerate() {
            if node::head(self.sector(*page, 0)).is_none() {
                // A crash left the node before its header was written.
                let mut edit = Edit::default();
                let prefix = hash::prefix(search.hash, level);
                node::set_head(self.edit(&mut edit, *page, 0), directory, level, prefix);
                self.commit(&edit)?;
            }
            for sector in 0..SECTORS {
                if let Some(room) = node::room(self.sector(*page, sector), length, with_inode) {
                    return Ok((*page, sector, room));
                }
            }
        }
        let page = self.add_node(directory, search)?;
        let room = node::room(self.sector(page, 0), length, with_inode).ok_or(Error::Invalid)?;
        Ok((page, 0, room))
    }

    fn add_node(&mut self, directory: Number, search: &Search) -> Result<usize> {
        let level = search.path.len();
        if level > MAX_LEVEL {
            return Err(Error::NoSpace);
        }
        let page = self.free_page()?;
        let (parent, sector) = match search.path.last() {
            Some(last) => (*last, 0),
            None => self.find_inode(directory).map(|(page, sector, _)| (page, sector))?,
        };
        let goal = self.xn.info(parent)?.block() + 1;
        let block = if level == 0 { self.choose_group(goal)? } else { self.choose(goal)? };
        let mut edit = Edit::default();
        edit.declare(Action::Allocate, block, NODE);
        if level > 0 {
            node::set_child(self.edit(&mut edit, parent, 0), hash::child(search.hash, level - 1), block);
        }
        self.edit_inode(&mut edit, directory, |inode| {
            inode.blocks += 1;
            inode.size += BLOCK_SIZE as u64;
            if level == 0 {
                inode.pointers[0] = block;
            }
        })?;
        self.commit(&edit)?;
        self.bind(parent, sector, block, page, directory)?;
        let mut edit = Edit::default();
        let prefix = hash::prefix(search.hash, level);
        node::set_head(self.edit(&mut edit, page, 0), directory, level, prefix);
        self.commit(&edit)?;
        Ok(page)
    }

    /// Whether no sector of a node has content.
    pub(crate) fn is_empty_node(&self, page: usize) -> bool {
        (0..SECTORS).all(|sector| node::is_empty(self.sector(page, sector)))
    }

    /// Frees the node in `block` if it has no content, and then its parents. The first node stays.
    pub(crate) fn prune(&mut self, block: u64) -> Result<()> {
        let mut block = block;
        loop {
            let Some(page) = self.cached(block) else { return Ok(()) };
            let Some((directory, level, prefix)) = node::head(self.sector(page, 0)) else { return Ok(()) };
            if level == 0 || !self.is_empty_node(page) {
                return Ok(());
            }
            let parent = self.xn.info(page)?.parent_block();
            let owner = self.cached(parent).ok_or(Error::Damaged(block))?;
            let mut edit = Edit::default();
            edit.declare(Action::Free, block, NODE);
            node::set_child(self.edit(&mut edit, owner, 0), hash::child(prefix, level - 1), 0);
            self.edit_inode(&mut edit, directory, |inode| {
                inode.blocks = inode.blocks.saturating_sub(1);
                inode.size = inode.size.saturating_sub(BLOCK_SIZE as u64);
            })?;
            self.commit(&edit)?;
            block = parent;
        }
    }

    /// Sets the times of a directory whose entries changed.
    pub(crate) fn touch_directory(&mut self, edit: &mut Edit, directory: Number) -> Result<()> {
        let now = self.now;
        self.edit_inode(edit, directory, |inode| {
            inode.times[1] = now;
            inode.times[2] = now;
        })
    }

    /// All pages' blocks of a directory's nodes, the first one first.
    pub(crate) fn nodes(&mut self, directory: Number) -> Result<Vec<u64>> {
        let mut pending: Vec<(u64, usize)> = Vec::new();
        let mut blocks = Vec::new();
        if let Some(page) = self.root_node(directory)? {
            pending.push((self.xn.info(page)?.block(), 0));
        }
        while let Some((block, level)) = pending.pop() {
            self.step();
            let page = self.block_page(block)?;
            blocks.push(block);
            for index in (0..4).filter(|_| level < MAX_LEVEL) {
                if let Some(child) = self.child_node(page, index, directory)? {
                    pending.push((self.xn.info(child)?.block(), level + 1));
                }
            }
        }
        Ok(blocks)
    }

    /// Whether a directory has living entries, and whether it has leaving ones.
    pub(crate) fn occupancy(&mut self, directory: Number) -> Result<(bool, bool)> {
        let (mut live, mut leaving) = (false, false);
        for block in self.nodes(directory)? {
            let page = self.block_page(block)?;
            for sector in 0..SECTORS {
                let list = node::entries(self.sector(page, sector)).ok_or(Error::Damaged(block))?;
                for placed in list {
                    live |= placed.entry.state == State::Live;
                    leaving |= placed.entry.state == State::Leaving;
                }
            }
            if live {
                break;
            }
        }
        Ok((live, leaving))
    }

    /// Whether an inode lies in the given sector.
    pub(crate) fn lies_in(&self, number: Number, page: usize, sector: usize) -> bool {
        let (block, own, _) = place(number);
        own == sector && self.xn.find(block) == Some(page)
    }
}
