//! Page cache: which pages hold which blocks, and which page is given up next.
//!
//! XN's registry finds a block. This file binds, reads and replaces. Replacement is second chance over clean pages. A
//! page that the current step has touched, or that is pinned, stays. Cost: one word and one bit a page.

use crate::device::{Change, Device};
use crate::error::{Error, Result};
use crate::file_system::{CALLER, FileSystem};
use crate::layout::indirect::BLOCK_POINTERS;
use crate::layout::inode::Inode;
use crate::layout::node::{child, head, inode_place};
use crate::layout::{BLOCK_BITS, Number, hash, place};
use crate::template::{NODE, ROOT};
use alloc::vec;
use alloc::vec::Vec;
use xn::binding::Bound;
use xn::block::{DIRTY, OPEN};
use xn::format::{BLOCK_SIZE, Block, CONTENT, SECTOR_SIZE, SECTORS, verify_sector};
use xn::frames::Frames;

/// What the file system knows of its pages.
pub(crate) struct Cache {
    /// Step in which each page was last touched.
    touched: Vec<u64>,
    /// Second chance.
    referenced: Vec<bool>,
    /// Inode whose data, indirect blocks or nodes each page holds.
    pub(crate) owner: Vec<Number>,
    pub(crate) pins: Vec<usize>,
    /// Pages that may be dirty, as bits: a superset of those that are.
    dirty: Vec<u64>,
    step: u64,
    hand: usize,
}

impl Cache {
    pub(crate) fn new(pages: usize) -> Self {
        let (touched, referenced, owner) = (vec![0; pages], vec![false; pages], vec![0; pages]);
        Self { touched, referenced, owner, pins: Vec::new(), dirty: vec![0; pages.div_ceil(64)], step: 1, hand: 0 }
    }

    fn touch(&mut self, page: usize) {
        self.touched[page] = self.step;
        self.referenced[page] = true;
    }

    /// Records that a page may be dirty from now on.
    pub(crate) fn mark_dirty(&mut self, page: usize) {
        self.dirty[page / 64] |= 1 << (page % 64);
    }
}

impl<D: Device> FileSystem<'_, D> {
    /// Begins a step: pages found before may be replaced from now on, unless they are pinned.
    pub(crate) fn step(&mut self) {
        self.cache.step += 1;
    }

    /// The page of a block, if it is cached.
    pub(crate) fn cached(&mut self, block: u64) -> Option<usize> {
        let page = self.xn.find(block)?;
        self.cache.touch(page);
        Some(page)
    }

    /// A page that caches nothing, touched so that it stays free for this step.
    pub(crate) fn free_page(&mut self) -> Result<usize> {
        if let Some(page) = self.replace() {
            return Ok(page);
        }
        self.write_back()?;
        self.replace().ok_or(Error::NoMemory)
    }

    /// Whether `count` pages can be had without write-back. Pages found so far may be replaced afterwards.
    pub(crate) fn has_room(&mut self, count: usize) -> bool {
        let clean = |page: &usize| self.xn.memory.registry.blocks[*page].name == 0 || self.xn.is_releasable(*page);
        (0..self.cache.touched.len()).filter(clean).take(count).count() == count
    }

    fn replace(&mut self) -> Option<usize> {
        let count = self.cache.touched.len();
        for _ in 0..2 * count {
            let page = self.cache.hand;
            self.cache.hand = (page + 1) % count;
            if self.cache.touched[page] == self.cache.step || self.cache.pins.contains(&page) {
                continue;
            }
            let empty = self.xn.memory.registry.blocks[page].name == 0;
            if empty || !core::mem::take(&mut self.cache.referenced[page]) && self.xn.release(page).is_ok() {
                // The device has no say in what leaves the cache.
                let _ = self.device.permit(&Change::Release { page });
                self.cache.touch(page);
                return Some(page);
            }
        }
        None
    }

    /// Reads a block of the device.
    pub(crate) fn read_device(&mut self, block: u64, bytes: &mut Block) -> Result<()> {
        self.counts.reads += 1;
        self.device.read(block, bytes).map_err(|_| Error::Io)
    }

    /// Completes a bind: reads the block if XN says so.
    pub(crate) fn fill(&mut self, page: usize, bound: Bound, owner: Number) -> Result<usize> {
        self.cache.owner[page] = owner;
        self.cache.touch(page);
        if bound == Bound::Zeroed {
            return Ok(page);
        }
        let block = self.xn.info(page)?.block();
        let mut bytes = [0; BLOCK_SIZE];
        let read = self.read_device(block, &mut bytes);
        self.xn.frames.store(page, 0, &bytes);
        let done = self.xn.read_done(page, read.is_ok());
        read?;
        done?;
        Ok(page)
    }

    /// Reads neighbouring blocks into the cache in one transfer: `children` are their parents' pages and sectors.
    /// None of the blocks may be cached.
    pub(crate) fn fill_run(&mut self, children: &[(usize, usize)], first: u64, owner: Number) -> Result<()> {
        let mut pages = Vec::with_capacity(children.len());
        let mut outcome = Ok(());
        for (block, (parent, sector)) in (first..).zip(children) {
            outcome = self.free_page().and_then(|page| {
                let bound = self.bind_page(*parent, *sector, block, page)?;
                self.cache.owner[page] = owner;
                self.cache.touch(page);
                if bound != Bound::Zeroed {
                    pages.push(page);
                }
                Ok(())
            });
            if outcome.is_err() || pages.is_empty() {
                break;
            }
        }
        let mut blocks = vec![[0; BLOCK_SIZE]; pages.len()];
        self.counts.reads += pages.len() as u64;
        let read = self.device.read_run(first, &mut blocks).map_err(|_| Error::Io);
        for (page, bytes) in pages.into_iter().zip(&blocks) {
            self.xn.frames.store(page, 0, bytes);
            let done = self.xn.read_done(page, read.is_ok());
            outcome = outcome.and(done.map_err(Error::from));
        }
        outcome.and(read)
    }

    /// The page of `block`, a child of a sector of `parent`. A cached block of another owner is damage: XN gives a
    /// block one owner, so a crafted image made the second one.
    pub(crate) fn child_page(&mut self, parent: usize, sector: usize, block: u64, owner: Number) -> Result<usize> {
        if let Some(page) = self.cached(block) {
            let above = self.xn.info(parent)?.block() << 3 | sector as u64;
            let same = self.xn.info(page)?.parent == above;
            return if same { Ok(page) } else { Err(Error::Damaged(block)) };
        }
        self.cache.touch(parent);
        let page = self.free_page()?;
        self.bind(parent, sector, block, page, owner)
    }

    /// Binds a page that is free.
    pub(crate) fn bind(
        &mut self,
        parent: usize,
        sector: usize,
        block: u64,
        page: usize,
        owner: Number,
    ) -> Result<usize> {
        let bound = self.bind_page(parent, sector, block, page)?;
        self.fill(page, bound, owner)
    }

    fn bind_page(&mut self, parent: usize, sector: usize, block: u64, page: usize) -> Result<Bound> {
        self.device.permit(&Change::Bind { parent: Some((parent, sector)), block, page })?;
        let bound = self.xn.bind(&CALLER, parent, sector, block, page)?;
        if bound == Bound::Zeroed {
            self.cache.mark_dirty(page);
        }
        Ok(bound)
    }

    /// The dirty pages, in ascending order.
    pub(crate) fn dirty_pages(&mut self) -> Vec<usize> {
        let blocks = &self.xn.memory.registry.blocks;
        let is_dirty = |page: &usize| blocks[*page].name != 0 && blocks[*page].is(DIRTY | OPEN);
        let mut pages = Vec::new();
        for (index, word) in self.cache.dirty.iter_mut().enumerate() {
            let mut left = core::mem::take(word);
            while left != 0 {
                let bit = left.trailing_zeros();
                left &= left - 1;
                if is_dirty(&(index * 64 + bit as usize)) {
                    *word |= 1 << bit;
                    pages.push(index * 64 + bit as usize);
                }
            }
        }
        debug_assert!((0..blocks.len()).filter(is_dirty).eq(pages.iter().copied()), "one is missed");
        pages
    }

    /// The page of child node `index` of a node.
    pub(crate) fn child_node(&mut self, page: usize, index: usize, directory: Number) -> Result<Option<usize>> {
        let block = child(self.sector(page, 0), index) & BLOCK_BITS;
        if block == 0 {
            return Ok(None);
        }
        let level = head(self.sector(page, 0)).map_or(0, |head| head.1);
        let page = self.child_page(page, 0, block, directory)?;
        self.check_node(page, directory, level + 1).map(|()| Some(page))
    }

    /// The page of a directory's first node.
    pub(crate) fn root_node(&mut self, directory: Number) -> Result<Option<usize>> {
        let (page, sector, slot) = self.find_inode(directory)?;
        let inode = Inode::decode(&self.sector(page, sector)[inode_place(slot)..]);
        match inode.pointers[0] & BLOCK_BITS {
            _ if !inode.is_directory() => Err(Error::NotDirectory),
            0 => Ok(None),
            block => {
                let page = self.child_page(page, sector, block, directory)?;
                self.check_node(page, directory, 0).map(|()| Some(page))
            }
        }
    }

    /// A node names its directory and its level, so that a walk down always ends. One that a crash left before its
    /// header was written has no content.
    fn check_node(&self, page: usize, directory: Number, level: usize) -> Result<()> {
        let right = match head(self.sector(page, 0)) {
            Some((own, at, _)) => (own, at) == (directory, level),
            None => self.is_empty_node(page),
        };
        if right { Ok(()) } else { Err(Error::Damaged(self.xn.info(page)?.block())) }
    }

    /// The page of a directory node or of the root block, wherever it is. A node that is not cached names its
    /// directory, which is found first: XN binds children of cached parents only.
    pub(crate) fn block_page(&mut self, block: u64) -> Result<usize> {
        if let Some(page) = self.cached(block) {
            // The number of an inode that is gone may lead into data.
            let holds_inodes = matches!(self.xn.info(page)?.template, NODE | ROOT);
            return if holds_inodes { Ok(page) } else { Err(Error::Stale) };
        }
        let mut chain = Vec::new();
        let mut at = block;
        while self.cached(at).is_none() {
            let (directory, level, prefix) = self.peek(at)?;
            chain.push((at, directory, level, prefix));
            at = place(directory).0;
            if chain.len() > self.cache.touched.len() {
                return Err(Error::NoMemory);
            }
        }
        while let Some((at, directory, level, prefix)) = chain.pop() {
            self.descend(directory, level, prefix, at)?;
        }
        self.cached(block).ok_or(Error::Stale)
    }

    /// What the head of a node on disk says, without a bind.
    fn peek(&mut self, block: u64) -> Result<(Number, usize, u64)> {
        if block >= self.xn.superblock().blocks || self.xn.superblock().is_fixed(block) {
            return Err(Error::Stale);
        }
        let mut bytes = [0; BLOCK_SIZE];
        self.read_device(block, &mut bytes)?;
        let volume = self.xn.superblock().volume;
        verify_sector(&volume, block, 0, &bytes[..SECTOR_SIZE]).map_err(|_| Error::Stale)?;
        bytes[..CONTENT].first_chunk().and_then(head).ok_or(Error::Stale)
    }

    fn descend(&mut self, directory: Number, level: usize, prefix: u64, block: u64) -> Result<()> {
        let mut page = self.root_node(directory)?.ok_or(Error::Stale)?;
        for depth in 0..level.min(hash::MAX_LEVEL) {
            page = self.child_node(page, hash::child(prefix, depth), directory)?.ok_or(Error::Stale)?;
        }
        if self.xn.info(page)?.block() == block { Ok(()) } else { Err(Error::Stale) }
    }

    /// Binds a fresh child that no page holds yet, wherever in `parent` its pointer is.
    pub(crate) fn bind_fresh(&mut self, parent: usize, block: u64) -> Result<usize> {
        let owner = self.cache.owner[parent];
        let page = self.replace().ok_or(Error::NoMemory)?;
        let bound = (0..SECTORS).find_map(|sector| self.bind_page(parent, sector, block, page).ok());
        self.fill(page, bound.ok_or(Error::Damaged(block))?, owner)
    }
}

const _: () = assert!(BLOCK_POINTERS as usize == 62 * SECTORS);
