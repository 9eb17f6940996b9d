//! Trees and roots: creation, entry into the catalogue, removal.
//!
//! A tree enters the catalogue only when its root block is good and durable; from then on the catalogue is its parent.

use crate::block::{DIRTY, IN, OUT, UNSEALED};
use crate::error::{Error, Result};
use crate::format::{BLOCK_SIZE, MAX_ROOTS, ROOTS, Root};
use crate::frames::Frames;
use crate::ledger::Record;
use crate::region_map::Use;
use crate::template::{Kind, Programs};
use crate::tree::{Standing, Tree};
use crate::volume::{Phase, Volume};

impl<F: Frames, P: Programs> Volume<'_, F, P> {
    /// Makes an unattached or temporary tree of one fresh block.
    pub fn tree_create(&mut self, block: u64, template: u8, temporary: bool) -> Result<u16> {
        self.check_open()?;
        let known = self.memory.templates.get(template).is_some_and(|template| template.kind != Kind::None);
        if !known {
            return Err(Error::BadArgument);
        }
        self.check_free_block(block)?;
        let index = self.memory.trees.unused().ok_or(Error::Exhausted)?;
        let standing = if temporary { Standing::Temporary } else { Standing::Unattached };
        self.memory.trees.0[usize::from(index)] = Tree { standing, template, root: block };
        self.memory.maps.set(block, Use::Fresh);
        Ok(index)
    }

    /// Frees the root block, and the record, of a tree without parent. The root must own nothing.
    pub fn tree_drop(&mut self, tree: u16) -> Result<()> {
        self.check_open()?;
        let record = self.memory.trees.0.get(usize::from(tree)).copied().unwrap_or_default();
        let since = match record.standing {
            Standing::Unattached | Standing::Temporary => None,
            Standing::Detached { since } => Some(since),
            _ => return Err(Error::BadArgument),
        };
        let fresh = self.memory.maps.get(record.root)? == Use::Fresh;
        let page = self.find(record.root);
        match page {
            Some(page) if self.memory.templates.is_metadata(record.template) => self.check_empty(page, record.root)?,
            None if !fresh && self.memory.templates.is_metadata(record.template) => {
                return Err(Error::Absent(record.root));
            }
            _ => (),
        }
        if !self.has_ledger_room(1) {
            return Err(Error::Exhausted);
        }
        let in_transit = page.is_some_and(|page| self.drop_page(page));
        let parent = if since.is_some() { ROOTS } else { 0 };
        if in_transit || since.is_some() {
            self.hold(Record { first: record.root, count: 1, parent, since: since.unwrap_or(0) });
        } else {
            self.memory.maps.set(record.root, Use::Free);
        }
        for other in self.memory.trees.0.iter_mut() {
            if other.standing == Standing::Forward(tree) {
                *other = Tree::default();
            }
        }
        self.memory.trees.0[usize::from(tree)] = Tree::default();
        Ok(())
    }

    /// The page of the root catalogue, resident and not in transit.
    fn catalogue(&self) -> Result<usize> {
        let page = self.find(ROOTS).ok_or(Error::Absent(ROOTS))?;
        if self.resident(page)?.is(IN | OUT) { Err(Error::Busy(ROOTS)) } else { Ok(page) }
    }

    fn set_entry(&mut self, catalogue: usize, slot: usize, root: Option<&Root>) {
        let bytes = &mut self.memory.workspace.block;
        self.frames.load(catalogue, 0, bytes);
        Root::encode(root, bytes, slot);
        self.frames.store(catalogue, 0, bytes);
        let entry = self.entry(catalogue);
        entry.state |= DIRTY | UNSEALED;
        entry.version += 2;
    }

    /// The root in `slot`.
    pub fn root(&mut self, slot: usize) -> Result<Option<Root>> {
        let page = self.find(ROOTS).ok_or(Error::Absent(ROOTS))?;
        self.resident(page)?;
        let mut bytes = [0; BLOCK_SIZE];
        self.frames.load(page, 0, &mut bytes);
        Ok(Root::decode(&bytes, slot))
    }

    /// Enters a tree as root `slot` of the catalogue. Its root block must be good on disk.
    pub fn root_set(&mut self, slot: usize, name: [u8; 48], tree: u16) -> Result<()> {
        self.check_open()?;
        let catalogue = self.catalogue()?;
        let record = self.memory.trees.0.get(usize::from(tree)).copied().unwrap_or_default();
        let loose = matches!(record.standing, Standing::Unattached | Standing::Detached { .. });
        if slot >= MAX_ROOTS || !loose {
            return Err(Error::BadArgument);
        }
        if self.root(slot)?.is_some() {
            return Err(Error::NotFree(slot as u64));
        }
        if let Standing::Detached { since } = record.standing
            && !self.is_settled(ROOTS, since)
        {
            return Err(Error::Unready(ROOTS));
        }
        if self.memory.maps.get(record.root)? != Use::Used {
            return Err(Error::Unready(record.root));
        }
        let page = self.find(record.root);
        if let Some(info) = page.map(|page| self.memory.registry.blocks[page])
            && info.durable_at > self.flushes_done
        {
            return Err(Error::Unflushed(info.durable_at));
        }
        let root = Root { name, block: record.root, quota: 0, template: record.template };
        self.set_entry(catalogue, slot, Some(&root));
        self.memory.trees.0[usize::from(tree)].standing = Standing::Attached;
        if let Some(page) = page {
            self.entry(page).parent = ROOTS << 3;
            self.entry(catalogue).children += 1;
        }
        Ok(())
    }

    /// Removes root `slot`. Its tree stays, and may be attached again or emptied.
    pub fn root_clear(&mut self, slot: usize) -> Result<u16> {
        self.check_open()?;
        let catalogue = self.catalogue()?;
        let root = self.root(slot)?.ok_or(Error::BadArgument)?;
        let tree = self.root_tree(root.block).ok_or(Error::Absent(root.block))?;
        self.set_entry(catalogue, slot, None);
        let since = self.sequence;
        self.memory.trees.0[usize::from(tree)].standing = Standing::Detached { since };
        if let Some(page) = self.find(root.block) {
            self.entry(page).parent = 0;
            let entry = self.entry(catalogue);
            entry.children = entry.children.saturating_sub(1);
        }
        Ok(tree)
    }

    fn root_tree(&self, block: u64) -> Option<u16> {
        let is_root = |tree: &Tree| tree.root == block && tree.standing == Standing::Attached;
        self.memory.trees.0.iter().position(is_root).map(|index| index as u16)
    }

    /// The tree of root `slot`, with a record made at its first mount.
    pub fn root_mount(&mut self, slot: usize) -> Result<u16> {
        if matches!(self.phase, Phase::Failed) {
            return Err(Error::Failed(0));
        }
        let root = self.root(slot)?.ok_or(Error::BadArgument)?;
        if self.memory.templates.get(root.template).is_none() {
            return Err(Error::Damaged(ROOTS));
        }
        if let Some(tree) = self.root_tree(root.block) {
            return Ok(tree);
        }
        let index = self.memory.trees.unused().ok_or(Error::Exhausted)?;
        let (standing, template) = (Standing::Attached, root.template);
        self.memory.trees.0[usize::from(index)] = Tree { standing, template, root: root.block };
        Ok(index)
    }
}
