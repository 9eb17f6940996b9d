//! Transactions on metadata (SOSP 1997, section 4.1): the only way to change it.
//!
//! XN applies the change, runs owns before and after, and compares the difference with what the caller declared. Any
//! mismatch restores the old bytes. The difference is taken sector by sector, so no block moves between sectors. A
//! crash may keep one of two changed sectors, and must not find a block with two owners or with none.

use crate::access::{CHANGES, Caller, Operation};
use crate::block::{DIRTY, IN, ORPHAN, OUT, UNSEALED_SHIFT};
use crate::difference::Piece;
use crate::error::{Error, Result};
use crate::format::{CONTENT, SECTOR_SIZE, SECTORS};
use crate::frames::Frames;
use crate::ledger::Record;
use crate::region_map::Use;
use crate::template::{CATALOGUE, Programs, RESERVED};
use crate::tree::Standing;
use crate::volume::Volume;

/// Most blocks shown to the access program.
pub const MAX_SHOWN: usize = 16;
/// Most changed ranges.
pub const MAX_CHANGES: usize = 8;
/// Most changed sectors.
pub const MAX_SECTORS: usize = 4;
/// Most changed bytes.
pub const MAX_BYTES: usize = 512;
/// Most declared ranges.
pub const MAX_DECLARED: usize = 16;
/// Most metadata blocks that one transaction frees: owns runs over all sectors of each.
pub const MAX_EMPTIED: usize = 8;
/// Most blocks that one transaction allocates and frees.
pub const MAX_BLOCKS: u64 = 512;

/// New bytes for a range within the content of one sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<'a> {
    /// Page of the block.
    pub page: usize,
    /// First byte in the block.
    pub offset: usize,
    /// The new bytes.
    pub bytes: &'a [u8],
}

/// What the caller declares to happen to a range of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Free blocks become owned.
    Allocate,
    /// Owned blocks become free, at the latest when nothing on disk leads to them.
    Free,
    /// Blocks of the template `RESERVED` become readable.
    Retype,
    /// The root of an unattached tree becomes part of this tree.
    Attach,
}

/// A declared range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declared {
    /// What happens.
    pub action: Action,
    /// First block.
    pub first: u64,
    /// Number of blocks.
    pub count: u64,
    /// Template after the change; for [`Action::Free`] before it.
    pub template: u8,
}

/// A change of metadata, all or nothing.
#[derive(Clone, Copy, Debug)]
pub struct Transaction<'a> {
    /// Pages shown to the access program, in this order.
    pub shown: &'a [usize],
    /// Changed ranges.
    pub changes: &'a [Change<'a>],
    /// Declared difference.
    pub declared: &'a [Declared],
}

/// The changed sectors: page and index.
struct Touched {
    sectors: [(usize, usize); MAX_SECTORS],
    length: usize,
}

impl Touched {
    fn of(changes: &[Change<'_>]) -> Result<Self> {
        let mut touched = Self { sectors: [(0, 0); MAX_SECTORS], length: 0 };
        for change in changes {
            let sector = (change.page, change.offset / SECTOR_SIZE);
            let within = change.offset % SECTOR_SIZE;
            let inside = !change.bytes.is_empty() && within + change.bytes.len() <= CONTENT && sector.1 < SECTORS;
            if !inside {
                return Err(Error::BadArgument);
            }
            if !touched.list().contains(&sector) {
                *touched.sectors.get_mut(touched.length).ok_or(Error::BadArgument)? = sector;
                touched.length += 1;
            }
        }
        Ok(touched)
    }

    fn list(&self) -> &[(usize, usize)] {
        &self.sectors[..self.length]
    }
}

impl<F: Frames, P: Programs> Volume<'_, F, P> {
    /// Changes metadata. A refused transaction has changed nothing.
    pub fn modify(&mut self, caller: &Caller, transaction: &Transaction<'_>) -> Result<()> {
        self.check_open()?;
        let touched = self.check_form(transaction)?;
        let tree = self.check_blocks(transaction, &touched)?;
        self.bump_versions(&touched);
        self.save_and_apply(transaction.changes);
        let verdict = self.judge(caller, transaction, &touched, tree);
        match &verdict {
            Ok(()) => self.commit(&touched, tree, transaction.declared),
            Err(_) => self.restore(transaction.changes),
        }
        self.bump_versions(&touched);
        verdict
    }

    fn check_form(&self, transaction: &Transaction<'_>) -> Result<Touched> {
        let Transaction { shown, changes, declared } = transaction;
        let bytes: usize = changes.iter().map(|change| change.bytes.len()).sum();
        let blocks = declared.iter().fold(0_u64, |sum, range| sum.saturating_add(range.count));
        let counts = shown.len() <= MAX_SHOWN && changes.len() <= MAX_CHANGES && declared.len() <= MAX_DECLARED;
        let ranges = declared.iter().all(|range| range.count > 0 && range.first <= crate::format::MAX_BLOCKS);
        if counts && ranges && !changes.is_empty() && bytes <= MAX_BYTES && blocks <= MAX_BLOCKS {
            Touched::of(changes)
        } else {
            Err(Error::BadArgument)
        }
    }

    /// All blocks are resident, in one tree; those to change are metadata and not in transit.
    fn check_blocks(&self, transaction: &Transaction<'_>, touched: &Touched) -> Result<u16> {
        let first = self.resident(touched.list()[0].0)?;
        let tree = self.memory.trees.resolve(first.tree);
        for (page, _) in touched.list() {
            let info = self.resident(*page)?;
            if info.is(IN | OUT) {
                return Err(Error::Busy(info.block()));
            }
            if info.template == CATALOGUE || !self.memory.templates.is_metadata(info.template) {
                return Err(Error::NotPermitted);
            }
        }
        let changed = touched.list().iter().map(|(page, _)| page);
        for page in transaction.shown.iter().chain(changed) {
            let info = self.resident(*page)?;
            if info.template == CATALOGUE || self.memory.trees.resolve(info.tree) != tree {
                return Err(Error::NotPermitted);
            }
        }
        Ok(tree)
    }

    /// Makes the versions odd before the change and even after it, also when it is undone.
    fn bump_versions(&mut self, touched: &Touched) {
        for (index, (page, _)) in touched.list().iter().enumerate() {
            let first = touched.list()[..index].iter().all(|(before, _)| before != page);
            let entry = self.entry(*page);
            entry.version += u64::from(first);
            entry.empty = 0;
        }
    }

    fn save_and_apply(&mut self, changes: &[Change<'_>]) {
        let mut at = 0;
        for change in changes {
            let end = at + change.bytes.len();
            self.frames.load(change.page, change.offset, &mut self.memory.workspace.old[at..end]);
            self.memory.workspace.new[at..end].copy_from_slice(change.bytes);
            self.frames.store(change.page, change.offset, change.bytes);
            at = end;
        }
    }

    /// Writes the old bytes back, the last change first: ranges may overlap.
    fn restore(&mut self, changes: &[Change<'_>]) {
        let mut end: usize = changes.iter().map(|change| change.bytes.len()).sum();
        for change in changes.iter().rev() {
            let start = end - change.bytes.len();
            self.frames.store(change.page, change.offset, &self.memory.workspace.old[start..end]);
            end = start;
        }
    }

    /// Compares the claims of the changed sectors before and after. The pieces are in the workspace.
    fn judge(&mut self, caller: &Caller, transaction: &Transaction<'_>, touched: &Touched, tree: u16) -> Result<()> {
        self.memory.workspace.difference.clear();
        for (page, sector) in touched.list() {
            self.add_difference(transaction.changes, *page, *sector)?;
        }
        let difference = &mut self.memory.workspace.difference;
        difference.sort()?;
        check_declared(difference.pieces(), transaction.declared)?;
        let (mut records, mut emptied, mut next) = (0, 0, 0);
        while let Some(piece) = self.piece(next) {
            next += 1;
            let empties =
                piece.after.is_none() && piece.before.is_some_and(|own| self.memory.templates.is_metadata(own));
            emptied += if empties { piece.count } else { 0 };
            if emptied > MAX_EMPTIED as u64 {
                return Err(Error::BadArgument);
            }
            self.check_piece(&piece, touched, tree, transaction.declared)?;
            records += usize::from(piece.after.is_none());
        }
        if !self.has_ledger_room(records) {
            return Err(Error::Exhausted);
        }
        self.ask(caller, transaction, tree)
    }

    /// A piece of the difference.
    fn piece(&self, index: usize) -> Option<Piece> {
        self.memory.workspace.difference.pieces().get(index).copied()
    }

    /// Runs owns on the old and the new content of a sector.
    fn add_difference(&mut self, changes: &[Change<'_>], page: usize, sector: usize) -> Result<()> {
        let template = self.info(page)?.template;
        let mut content = [0; CONTENT];
        self.frames.load(page, sector * SECTOR_SIZE, &mut content);
        self.memo.listed = None;
        let work = &mut *self.memory.workspace;
        work.after.clear();
        self.programs.owns(template, &content, &mut work.after)?;
        work.after.sort()?;
        let mut end: usize = changes.iter().map(|change| change.bytes.len()).sum();
        for change in changes.iter().rev() {
            let start = end - change.bytes.len();
            if (change.page, change.offset / SECTOR_SIZE) == (page, sector) {
                let within = change.offset % SECTOR_SIZE;
                content[within..within + change.bytes.len()].copy_from_slice(&work.old[start..end]);
            }
            end = start;
        }
        work.before.clear();
        self.programs.owns(template, &content, &mut work.before)?;
        work.before.sort()?;
        work.difference.add(work.before.ranges(), work.after.ranges(), page, sector)
    }

    fn check_piece(&mut self, piece: &Piece, touched: &Touched, tree: u16, declared: &[Declared]) -> Result<()> {
        let owner = self.info(piece.page)?;
        if let Some(template) = piece.after {
            let legal = self.memory.templates.get(owner.template).is_some_and(|own| own.may_own(template));
            if !legal || template != RESERVED && self.memory.templates.get(template).is_none() {
                return Err(Error::Undeclared(piece.first));
            }
        }
        if is_attached(piece, declared) {
            return self.check_attach(piece, tree);
        }
        for block in piece.first..piece.first + piece.count {
            match (piece.before, piece.after) {
                (None, _) => self.check_free_block(block)?,
                (Some(template), None) => self.check_owned_block(block, template, touched)?,
                (Some(template), Some(_)) if template == RESERVED => {
                    self.memory.maps.get(block)?;
                }
                _ => return Err(Error::Undeclared(block)),
            }
        }
        Ok(())
    }

    /// A block to allocate is free in its map, hence not fixed, not held and not in transit.
    pub(crate) fn check_free_block(&self, block: u64) -> Result<()> {
        if block >= self.superblock.blocks || self.superblock.is_fixed(block) {
            return Err(Error::BadArgument);
        }
        if self.memory.maps.get(block)? == Use::Free { Ok(()) } else { Err(Error::NotFree(block)) }
    }

    /// A block to free owns nothing and has no children in core.
    fn check_owned_block(&mut self, block: u64, template: u8, touched: &Touched) -> Result<()> {
        let state = self.memory.maps.get(block)?;
        let page = self.find(block);
        if touched.list().iter().any(|(changed, _)| Some(*changed) == page) {
            return Err(Error::InUse(block));
        }
        if !self.memory.templates.is_metadata(template) {
            return Ok(());
        }
        match page {
            Some(page) => self.check_empty(page, block),
            None if state == Use::Fresh => Ok(()),
            None => Err(Error::Absent(block)),
        }
    }

    /// The metadata block in `page` owns nothing.
    pub(crate) fn check_empty(&mut self, page: usize, block: u64) -> Result<()> {
        self.examine(page, SECTORS)?;
        if self.resident(page)?.children > 0 { Err(Error::InUse(block)) } else { Ok(()) }
    }

    /// Runs owns on at most so many sectors of the block in `page` of which it is not known that they own nothing.
    /// Refused where one owns something. The result is how many are left.
    pub fn examine(&mut self, page: usize, sectors: usize) -> Result<usize> {
        let info = self.resident(page)?;
        let unknown = (0..SECTORS).filter(|sector| info.empty >> sector & 1 == 0);
        for sector in unknown.clone().take(sectors) {
            self.claims_of(page, info.template, sector)?;
            if !self.memory.workspace.before.ranges().is_empty() {
                return Err(Error::InUse(info.block()));
            }
            self.entry(page).empty |= 1 << sector;
        }
        Ok(unknown.count().saturating_sub(sectors))
    }

    /// The tree with this root that may be attached.
    fn loose_tree(&self, root: u64) -> Option<u16> {
        let index = self.memory.trees.0.iter().position(|tree| {
            tree.root == root && matches!(tree.standing, Standing::Unattached | Standing::Detached { .. })
        });
        index.map(|index| index as u16)
    }

    fn check_attach(&self, piece: &Piece, tree: u16) -> Result<()> {
        let loose = self.loose_tree(piece.first).ok_or(Error::NotFree(piece.first))?;
        let record = self.memory.trees.get(loose);
        if piece.count != 1 || loose == tree || piece.before.is_some() || piece.after != Some(record.template) {
            return Err(Error::Undeclared(piece.first));
        }
        if self.find(piece.first).is_some_and(|page| self.memory.registry.blocks[page].is(IN | OUT)) {
            return Err(Error::Busy(piece.first));
        }
        match record.standing {
            Standing::Detached { since } if !self.is_settled(crate::format::ROOTS, since) => {
                Err(Error::Unready(crate::format::ROOTS))
            }
            _ => self.memory.maps.get(piece.first).map(|_| ()),
        }
    }

    /// Runs the access program over the shown blocks as they are after the change.
    fn ask(&mut self, caller: &Caller, transaction: &Transaction<'_>, tree: u16) -> Result<()> {
        let template = self.memory.trees.get(tree).template;
        if self.admits(template, caller, |volume| volume.ask_of(caller, transaction, template)) {
            Ok(())
        } else {
            Err(Error::NotPermitted)
        }
    }

    fn ask_of(&mut self, caller: &Caller, transaction: &Transaction<'_>, template: u8) -> bool {
        let mut request = caller.request(Operation::Modify, transaction.shown.len());
        let mut bytes = 0;
        for (index, change) in transaction.changes.iter().enumerate() {
            request[8] += 1;
            request[CHANGES + 2 * index] = self.memory.registry.blocks[change.page].block();
            request[CHANGES + 2 * index + 1] = (change.offset as u64) << 32 | change.bytes.len() as u64;
            bytes += change.bytes.len();
        }
        self.memory.workspace.scratch.fill(0);
        let mut shown = transaction.shown.iter().enumerate();
        shown.all(|(index, page)| self.access(template, request, Some((index, *page)), bytes))
            && self.access(template, request, None, bytes)
    }

    /// Cannot fail.
    fn commit(&mut self, touched: &Touched, tree: u16, declared: &[Declared]) {
        for (page, sector) in touched.list() {
            self.entry(*page).state |= DIRTY | 1 << (UNSEALED_SHIFT + *sector as u32);
        }
        let mut next = 0;
        while let Some(piece) = self.piece(next) {
            next += 1;
            if is_attached(&piece, declared) {
                self.commit_attach(&piece, tree);
                continue;
            }
            match (piece.before, piece.after) {
                (Some(_), None) => self.commit_free(&piece),
                (_, Some(RESERVED)) => self.set_range(&piece, Use::Used),
                _ => {
                    self.set_range(&piece, Use::Fresh);
                    self.entry(piece.page).unready += piece.count as u32;
                }
            }
        }
    }

    fn set_range(&mut self, piece: &Piece, state: Use) {
        (piece.first..piece.first + piece.count).for_each(|block| self.memory.maps.set(block, state));
    }

    fn commit_attach(&mut self, piece: &Piece, tree: u16) {
        let Some(loose) = self.loose_tree(piece.first) else { return };
        self.memory.trees.0[usize::from(loose)].standing = Standing::Forward(tree);
        if self.memory.maps.get(piece.first) == Ok(Use::Fresh) {
            self.entry(piece.page).unready += 1;
        }
        let parent = self.memory.registry.blocks[piece.page].block() << 3 | piece.sector as u64;
        if let Some(page) = self.find(piece.first) {
            let durable_at = self.memory.registry.blocks[page].durable_at;
            self.entry(page).parent = parent;
            let owner = self.entry(piece.page);
            owner.children += 1;
            owner.ready_at = owner.ready_at.max(durable_at);
        }
    }

    /// Frees the blocks of a piece: at once if nothing on disk leads to them and none is in transit, else by the
    /// ledger.
    fn commit_free(&mut self, piece: &Piece) {
        let owner = self.memory.registry.blocks[piece.page];
        let owner_reserves = self.memory.templates.get(owner.template).is_some_and(|own| own.may_own(RESERVED));
        let mut hold = owner_reserves;
        for block in piece.first..piece.first + piece.count {
            let fresh = self.memory.maps.get(block) == Ok(Use::Fresh);
            hold |= !fresh;
            if fresh {
                let entry = self.entry(piece.page);
                entry.unready = entry.unready.saturating_sub(1);
            }
            if let Some(page) = self.find(block) {
                hold |= self.drop_page(page);
            }
        }
        if hold {
            let (first, count, parent) = (piece.first, piece.count, owner.block());
            self.hold(Record { first, count, parent, since: self.sequence });
        } else {
            self.set_range(piece, Use::Free);
        }
    }

    /// The page of a freed block leaves the registry, or becomes an orphan until its transfer ends.
    pub(crate) fn drop_page(&mut self, page: usize) -> bool {
        if !self.memory.registry.blocks[page].is(IN | OUT) {
            self.forget(page);
            return false;
        }
        let parent = self.memory.registry.blocks[page].parent_block();
        if let Some(parent) = self.find(parent).filter(|_| parent != 0) {
            let entry = self.entry(parent);
            entry.children = entry.children.saturating_sub(1);
        }
        let entry = self.entry(page);
        entry.state = entry.state & !DIRTY | ORPHAN;
        entry.parent = 0;
        true
    }
}

fn is_attached(piece: &Piece, declared: &[Declared]) -> bool {
    declared.iter().any(|range| range.action == Action::Attach && range.first == piece.first)
}

/// The pieces are exactly the declared ranges: each lies in one, and together they have as many blocks. A declared
/// range that overlaps another one has blocks that no piece can fill.
fn check_declared(pieces: &[Piece], declared: &[Declared]) -> Result<()> {
    for piece in pieces {
        let matches = |range: &&Declared| {
            let inside = piece.first >= range.first && piece.first + piece.count <= range.first + range.count;
            let same = match (range.action, piece.before, piece.after) {
                (Action::Free, Some(before), None) => before == range.template,
                (Action::Allocate | Action::Attach, None, Some(after)) => after == range.template,
                (Action::Retype, Some(_), Some(after)) => after == range.template,
                _ => false,
            };
            inside && same
        };
        if !declared.iter().any(|range| matches(&range)) {
            return Err(Error::Undeclared(piece.first));
        }
    }
    let count = |blocks: &mut dyn Iterator<Item = u64>| blocks.sum::<u64>();
    let found = count(&mut pieces.iter().map(|piece| piece.count));
    let named = count(&mut declared.iter().map(|range| range.count));
    let missing = declared.first().map_or(0, |range| range.first);
    if found == named { Ok(()) } else { Err(Error::Undeclared(missing)) }
}
