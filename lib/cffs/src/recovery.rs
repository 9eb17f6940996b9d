//! Recovery after a crash: one walk over all metadata, for XN's map and for names, then repair.
//!
//! The walk keeps only what needs thought. These are entries that name inodes in other sectors, and inodes whose own
//! sector does not settle their names. Block counts of large files and of directories are kept, too. The repair is
//! idempotent: a second recovery finds nothing to do.

use crate::arena::Arena;
use crate::device::{Device, Overlay};
use crate::edit::Edit;
use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::layout::indirect::{MAX_BLOCKS, SECTOR_POINTERS, level};
use crate::layout::inode::{DYING, Inode};
use crate::layout::node::{self, Entry, Placed, State, has_inode, inode_place};
use crate::layout::{BLOCK_BITS, Content, Number, RESERVED_BIT, get};
use crate::make::ROOT_SLOT;
use crate::mount::Mount;
use crate::template::{INDIRECT, NODE, ROOT};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;
use xn::error::Error as Xn;
use xn::format::{BLOCK_SIZE, Block, REGION_BLOCKS, SECTORS, State as VolumeState, Superblock, bit};
use xn::region_map::Use;

/// What recovery repaired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repairs {
    /// Entries that led nowhere, or that a younger one of the same name replaces.
    pub removed: u64,
    /// Old names of renames whose new name was lost.
    pub restored: u64,
    /// Inodes whose link count, parent, size or block count was corrected.
    pub corrected: u64,
    /// Inodes without names.
    pub freed: u64,
}

impl Repairs {
    /// Whether nothing was repaired.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// An entry that the walk has seen.
#[derive(Clone, Copy, Debug)]
struct Seen {
    directory: Number,
    block: u64,
    sector: usize,
    offset: usize,
    entry: Entry,
}

/// What the walk keeps.
#[derive(Default)]
pub(crate) struct Walk {
    elsewhere: BTreeMap<Number, Vec<Seen>>,
    odd: BTreeSet<Number>,
    /// Block count as recorded, and as found.
    blocks: BTreeMap<Number, (u64, u64)>,
    /// Files with blocks behind their end.
    excess: BTreeSet<Number>,
    /// Inodes by kind: directories, others.
    inodes: (u64, u64),
}

/// A metadata block that the walk is to visit.
#[derive(Clone, Copy)]
struct Child {
    sector: usize,
    block: u64,
    template: u8,
    owner: Number,
    /// First file block below an indirect block, and the file's number of blocks by its size.
    base: u64,
    end: u64,
}

/// A block on the way, with its children that are not visited yet.
struct Step {
    page: usize,
    children: Vec<Child>,
}

impl<D: Device> FileSystem<'_, D> {
    /// Shows XN all metadata from the root on, and collects what the repair needs.
    pub(crate) fn traverse(&mut self) -> Result<Walk> {
        for region in 0..self.xn.superblock().regions() {
            self.xn.load_map(region, region as usize, None)?;
        }
        self.xn.recovery_start()?;
        let mut walk = Walk::default();
        let root = self.xn.root(ROOT_SLOT)?.ok_or(Error::NoFileSystem)?;
        if root.template != ROOT {
            return Err(Error::NoFileSystem);
        }
        self.root = root.block << 5;
        let page = self.bind_root_block()?;
        let origin = Child { sector: 0, block: root.block, template: ROOT, owner: self.root, base: 0, end: 0 };
        let mut way = vec![Step { page, children: self.visit(page, &origin, &mut walk)? }];
        while let Some(step) = way.last_mut() {
            let page = step.page;
            let Some(child) = step.children.pop() else {
                way.pop();
                continue;
            };
            self.step();
            let page = self.child_page(page, child.sector, child.block, child.owner)?;
            let children = self.visit(page, &child, &mut walk)?;
            way.push(Step { page, children });
        }
        self.xn.recovery_end()?;
        Ok(walk)
    }

    fn visit(&mut self, page: usize, at: &Child, walk: &mut Walk) -> Result<Vec<Child>> {
        let mut cursor = 0;
        while let Err(error) = self.xn.check(page, cursor) {
            match error {
                Xn::Again(next) => cursor = next,
                other => return Err(other.into()),
            }
        }
        let mut children = Vec::new();
        for sector in 0..SECTORS {
            let content = *self.sector(page, sector);
            match at.template {
                INDIRECT => visit_indirect(&content, sector, at, walk, &mut children),
                _ => visit_node(&content, sector, at, walk, &mut children).ok_or(Error::Damaged(at.block))?,
            }
        }
        Ok(children)
    }

    /// Carries out what the walk showed to be necessary.
    pub(crate) fn repair(&mut self, walk: Walk) -> Result<Repairs> {
        let mut repairs = Repairs::default();
        let mut work: Vec<Number> = walk.odd.iter().chain(walk.elsewhere.keys()).copied().collect();
        work.sort_unstable();
        work.dedup();
        while let Some(number) = work.pop() {
            let seen = walk.elsewhere.get(&number).map_or(&[][..], |list| list);
            self.settle(number, seen, &mut work, &mut repairs)?;
        }
        for (number, (recorded, found)) in &walk.blocks {
            self.step();
            if recorded != found && self.is_used(*number) {
                let mut edit = Edit::default();
                self.edit_inode(&mut edit, *number, |inode| {
                    inode.blocks = *found;
                    if inode.is_directory() {
                        inode.size = found * BLOCK_SIZE as u64;
                    }
                })?;
                self.commit(&edit)?;
                repairs.corrected += 1;
            }
        }
        for number in &walk.excess {
            self.step();
            if self.is_used(*number) {
                let end = self.raw_inode(*number)?.size.div_ceil(BLOCK_SIZE as u64);
                self.clear_blocks(*number, end, MAX_BLOCKS)?;
                repairs.corrected += 1;
            }
        }
        self.sync()?;
        Ok(repairs)
    }

    /// The entries that name an inode now: those of its own sector, and those seen elsewhere.
    fn names(&mut self, number: Number, seen: &[Seen]) -> Result<Vec<Seen>> {
        let mut names = Vec::new();
        let (block, sector) = (number >> 5, (number >> 2 & 7) as usize);
        // An old name outlives its inode if that was renamed and then removed: its sector is searched in any case.
        let page = match self.block_page(block) {
            Err(Error::Stale) => None,
            found => Some(found?),
        };
        if let Some(page) = page.filter(|_| block != self.root >> 5) {
            let directory = node::head(self.sector(page, 0)).map_or(0, |head| head.0);
            let local = node::entries(self.sector(page, sector)).ok_or(Error::Damaged(block))?;
            for placed in local.filter(|placed| placed.entry.state != State::Free && placed.entry.number == number) {
                names.push(Seen { directory, block, sector, offset: placed.offset, entry: placed.entry });
            }
        }
        for one in seen.iter().filter(|one| (one.block, one.sector) != (block, sector)) {
            self.step();
            let Ok(page) = self.block_page(one.block) else { continue };
            let found = node::entry_at(self.sector(page, one.sector), one.offset).map(|placed| placed.entry);
            if found.is_some_and(|entry| entry.number == number) {
                names.push(Seen { entry: found.unwrap_or(one.entry), ..*one });
            }
        }
        Ok(names)
    }

    /// Leaves an inode its true names, or frees it.
    fn settle(&mut self, number: Number, seen: &[Seen], work: &mut Vec<Number>, repairs: &mut Repairs) -> Result<()> {
        self.step();
        let names = self.names(number, seen)?;
        self.step();
        let inode = if self.is_used(number) { Some(self.raw_inode(number)?) } else { None };
        let living = inode.filter(|inode| inode.state != DYING);
        let is_true = |name: &&Seen| living.is_some_and(|inode| inode.generation == name.entry.generation);
        let mut kept: Vec<Seen> = Vec::new();
        for name in names.iter().filter(is_true) {
            let same =
                |other: &Seen| other.entry.lineage == name.entry.lineage || living.is_some_and(|i| i.is_directory());
            match kept.iter_mut().find(|other| same(other)) {
                Some(other) => {
                    if (name.entry.sequence.wrapping_sub(other.entry.sequence) as i8) > 0 {
                        *other = *name;
                    }
                }
                None => kept.push(*name),
            }
        }
        for name in &names {
            let place = (name.block, name.sector, name.offset);
            let keeps = kept.iter().any(|other| (other.block, other.sector, other.offset) == place);
            match (keeps, name.entry.state) {
                (true, State::Leaving) => self.restore(name, repairs)?,
                (true, _) => (),
                (false, _) => self.remove_name(name, repairs)?,
            }
        }
        match inode {
            Some(inode) if number != self.root => self.correct(number, &inode, &kept, work, repairs),
            _ => Ok(()),
        }
    }

    fn restore(&mut self, name: &Seen, repairs: &mut Repairs) -> Result<()> {
        self.step();
        let (page, mut edit) = (self.block_page(name.block)?, Edit::default());
        let entry = Entry { state: State::Live, ..name.entry };
        node::replace(self.edit(&mut edit, page, name.sector), name.offset, &entry);
        repairs.restored += 1;
        self.commit(&edit)
    }

    fn remove_name(&mut self, name: &Seen, repairs: &mut Repairs) -> Result<()> {
        self.step();
        let (page, mut edit) = (self.block_page(name.block)?, Edit::default());
        node::remove(self.edit(&mut edit, page, name.sector), name.offset);
        repairs.removed += 1;
        self.commit(&edit)?;
        self.prune(name.block)
    }

    /// Makes an inode say what its names say.
    fn correct(
        &mut self,
        number: Number,
        inode: &Inode,
        kept: &[Seen],
        work: &mut Vec<Number>,
        repairs: &mut Repairs,
    ) -> Result<()> {
        self.step();
        let Some(first) = kept.first() else { return self.free_nameless(number, inode, work, repairs) };
        let mut right = *inode;
        right.nlink = if inode.is_directory() { 1 } else { kept.len() as u16 };
        let youngest = kept.iter().map(|name| name.entry.lineage + 1).max().unwrap_or(1);
        right.next_lineage = inode.next_lineage.max(youngest);
        if inode.is_directory() {
            right.parent = first.directory;
        }
        if right == *inode {
            return Ok(());
        }
        repairs.corrected += 1;
        let mut edit = Edit::default();
        self.edit_inode(&mut edit, number, |inode| *inode = right)?;
        self.commit(&edit)
    }

    /// Frees an inode without names. Entries in a directory without name are removed first; their inodes are settled
    /// again.
    fn free_nameless(
        &mut self,
        number: Number,
        inode: &Inode,
        work: &mut Vec<Number>,
        repairs: &mut Repairs,
    ) -> Result<()> {
        if inode.is_directory() {
            for block in self.nodes(number)? {
                self.step();
                let Ok(page) = self.block_page(block) else { continue };
                let found = self.entries_of(page)?;
                for (sector, placed) in found {
                    let name = Seen { directory: number, block, sector, offset: placed.offset, entry: placed.entry };
                    self.remove_name(&name, repairs)?;
                    work.push(placed.entry.number);
                }
            }
        }
        if inode.nlink > 0 {
            let mut edit = Edit::default();
            self.edit_inode(&mut edit, number, |inode| inode.nlink = 0)?;
            self.commit(&edit)?;
        }
        self.reap(number)?;
        self.step();
        if !self.is_used(number) {
            repairs.freed += 1;
        }
        Ok(())
    }

    fn entries_of(&mut self, page: usize) -> Result<Vec<(usize, Placed)>> {
        let damaged = Error::Damaged(self.xn.info(page)?.block());
        let mut found = Vec::new();
        for sector in 0..SECTORS {
            let list = node::entries(self.sector(page, sector)).ok_or(damaged)?;
            found.extend(list.filter(|placed| placed.entry.state != State::Free).map(|placed| (sector, placed)));
        }
        Ok(found)
    }
}

/// One sector of a directory node or of the root block: entries and inodes.
fn visit_node(content: &Content, sector: usize, at: &Child, walk: &mut Walk, children: &mut Vec<Child>) -> Option<()> {
    let mut local: Vec<Entry> = Vec::new();
    if at.template == NODE {
        if sector == 0 {
            walk.blocks.entry(at.owner).or_default().1 += 1;
        }
        for index in 0..4 {
            push(children, sector, node::child(content, index), NODE, at.owner);
        }
        for placed in node::entries(content)?.filter(|placed| placed.entry.state != State::Free) {
            let number = placed.entry.number;
            if number >> 5 == at.block && (number >> 2 & 7) as usize == sector {
                local.push(placed.entry);
            } else {
                let (directory, block) = (at.owner, at.block);
                let seen = Seen { directory, block, sector, offset: placed.offset, entry: placed.entry };
                walk.elsewhere.entry(number).or_default().push(seen);
            }
        }
    }
    for slot in (0..node::SLOTS).filter(|slot| has_inode(content, *slot)) {
        let inode = Inode::decode(&content[inode_place(slot)..]);
        let number = at.block << 5 | (sector as u64) << 2 | slot as u64;
        visit_inode(number, &inode, sector, walk, children);
        let mut own = local.iter().filter(|entry| entry.number == number);
        let plain = own.next().is_some_and(|entry| {
            entry.state == State::Live && entry.generation == inode.generation && inode.parent == at.owner
        });
        let settled = plain && own.next().is_none() && inode.nlink == 1 && inode.state != DYING;
        if !settled && at.template == NODE {
            walk.odd.insert(number);
        }
    }
    let dangling = local.iter().filter(|entry| !has_inode(content, (entry.number & 3) as usize));
    walk.odd.extend(dangling.map(|entry| entry.number));
    Some(())
}

fn push(children: &mut Vec<Child>, sector: usize, pointer: u64, template: u8, owner: Number) {
    if pointer & BLOCK_BITS != 0 {
        children.push(Child { sector, block: pointer & BLOCK_BITS, template, owner, base: 0, end: 0 });
    }
}

fn visit_inode(number: Number, inode: &Inode, sector: usize, walk: &mut Walk, children: &mut Vec<Child>) {
    if inode.is_directory() {
        walk.inodes.0 += 1;
        walk.blocks.entry(number).or_default().0 = inode.blocks;
        push(children, sector, inode.pointers[0], NODE, number);
        return;
    }
    walk.inodes.1 += 1;
    if !inode.is_file() {
        return;
    }
    let end = inode.size.div_ceil(BLOCK_SIZE as u64);
    let direct = inode.pointers[..4].iter().filter(|pointer| **pointer & BLOCK_BITS != 0).count() as u64;
    let beyond = |(index, pointer): (usize, &u64)| is_excess(*pointer, index as u64, end);
    if inode.pointers[..4].iter().enumerate().any(beyond) {
        walk.excess.insert(number);
    }
    if direct == inode.blocks && inode.pointers[4..].iter().all(|pointer| pointer & BLOCK_BITS == 0) {
        return;
    }
    walk.blocks.insert(number, (inode.blocks, direct));
    let mut base = crate::layout::indirect::DIRECT;
    for level in 1..=3_u32 {
        let block = inode.pointers[3 + level as usize] & BLOCK_BITS;
        if block != 0 {
            children.push(Child { sector, block, template: INDIRECT, owner: number, base, end });
        }
        base += crate::layout::indirect::span(level) * crate::layout::indirect::BLOCK_POINTERS;
    }
}

fn is_excess(pointer: u64, index: u64, end: u64) -> bool {
    pointer & BLOCK_BITS != 0 && pointer & RESERVED_BIT == 0 && index >= end
}

/// One sector of an indirect block.
fn visit_indirect(content: &Content, sector: usize, at: &Child, walk: &mut Walk, children: &mut Vec<Child>) {
    let level = level(content);
    let counted = walk.blocks.entry(at.owner).or_default();
    counted.1 += u64::from(sector == 0);
    for index in 0..SECTOR_POINTERS {
        let pointer = get(content, 8 * index as usize, 8);
        if pointer & BLOCK_BITS == 0 || level == 0 {
            continue;
        }
        let below = crate::layout::indirect::span(level.min(3));
        let base = at.base + (sector as u64 * SECTOR_POINTERS + index) * below;
        if level == 1 {
            counted.1 += 1;
            if is_excess(pointer, base, at.end) {
                walk.excess.insert(at.owner);
            }
        } else {
            let (owner, end) = (at.owner, at.end);
            children.push(Child { sector, block: pointer & BLOCK_BITS, template: INDIRECT, owner, base, end });
        }
    }
}

/// What a check found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Whether the volume was closed.
    pub clean: bool,
    /// Directories, and other inodes.
    pub inodes: (u64, u64),
    /// Blocks that are reachable or fixed.
    pub used: u64,
    /// Blocks whose bit in the free map of a closed volume is wrong.
    pub map_errors: u64,
    /// What a mount repairs.
    pub repairs: Repairs,
}

impl Arena {
    /// Checks a file system without writing: walks it as recovery does, compares the free maps of a closed volume, and
    /// repairs a copy in memory.
    pub fn check<D: Device>(&mut self, device: D, how: Mount) -> Result<Report> {
        let mut overlay = Overlay::new(device);
        let mut bytes: Block = [0; BLOCK_SIZE];
        let (system, _) = self.mount(&mut overlay, Mount { read_only: true, ..how })?;
        let superblock: Superblock = system.xn.superblock();
        drop(system);
        let mut report = Report { clean: superblock.state == VolumeState::Clean, ..Report::default() };
        let dirty = Superblock { state: VolumeState::Dirty, ..superblock };
        dirty.encode(0, &mut bytes);
        overlay.write(0, &bytes).map_err(|_| Error::Io)?;
        let xn = self.open_volume(&mut overlay, dirty)?;
        let mut system = FileSystem::over(xn, &mut overlay, how);
        let walk = system.traverse()?;
        report.inodes = walk.inodes;
        for region in 0..superblock.regions() {
            system.read_device(superblock.map_block(region), &mut bytes)?;
            for block in region * REGION_BLOCKS..((region + 1) * REGION_BLOCKS).min(superblock.blocks) {
                let used = system.xn.memory.maps.get(block)? != Use::Free;
                report.used += u64::from(used);
                report.map_errors += u64::from(report.clean && used != bit(&bytes, block % REGION_BLOCKS));
            }
        }
        drop(system);
        report.repairs = self.mount(&mut overlay, how)?.1;
        Ok(report)
    }
}
