//! Binding: which page caches which block (SOSP 1997, section 4.3.3), and for whom.
//!
//! A page is bound to a child only if the parent's sector claims the child and the access program permits it. A fresh
//! block gets zeros and is never read from the disk. A block leaves the core only when clean and durable.

use crate::access::{CREDENTIALS, Caller, LAST, Operation};
use crate::block::{BlockInfo, DIRTY, IN, OPEN, ORPHAN, OUT, RESIDENT, UNSEALED};
use crate::error::{Error, Result};
use crate::format::{BLOCK_SIZE, CONTENT, ROOTS, SECTOR_SIZE, SECTORS};
use crate::frames::Frames;
use crate::memo::{Listed, Permission};
use crate::region_map::Use;
use crate::registry::name;
use crate::template::{AccessStep, CATALOGUE, Kind, Programs, RESERVED};
use crate::tree::Standing;
use crate::volume::{Phase, Volume};

/// What the caller does after a bind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The page is zeroed and resident.
    Zeroed,
    /// The caller reads the block into the page and reports with [`Volume::read_done`].
    Reading,
}

impl<F: Frames, P: Programs> Volume<'_, F, P> {
    /// Runs owns on a sector of `page`, unless that was the last one; the sorted claims are in the workspace.
    pub(crate) fn claims_of(&mut self, page: usize, template: u8, sector: usize) -> Result<()> {
        let listed = Some(Listed { page, sector, version: self.memory.registry.blocks[page].version });
        if self.memo.listed == listed {
            return Ok(());
        }
        self.memo.listed = None;
        let mut content = [0; CONTENT];
        self.frames.load(page, sector * SECTOR_SIZE, &mut content);
        let claims = &mut self.memory.workspace.before;
        claims.clear();
        if template != CATALOGUE && self.memory.templates.is_metadata(template) {
            self.programs.owns(template, &content, claims)?;
        }
        claims.sort()?;
        self.memo.listed = listed;
        Ok(())
    }

    /// The entry of a resident, living page.
    pub(crate) fn resident(&self, page: usize) -> Result<BlockInfo> {
        let info = self.info(page)?;
        if info.is(ORPHAN) || !info.is(RESIDENT) { Err(Error::Absent(info.block())) } else { Ok(info) }
    }

    /// Binds `page` to `block`, a child of sector `sector` of the block in page `parent`.
    pub fn bind(&mut self, caller: &Caller, parent: usize, sector: usize, block: u64, page: usize) -> Result<Bound> {
        let owner = self.resident(parent)?;
        if sector >= SECTORS || owner.template == CATALOGUE {
            return Err(Error::BadArgument);
        }
        self.claims_of(parent, owner.template, sector)?;
        let claim = self.memory.workspace.before.find(block).ok_or(Error::Undeclared(block))?;
        let legal = self.memory.templates.get(owner.template).is_some_and(|own| own.may_own(claim.template));
        let known = self.memory.templates.get(claim.template).is_some();
        let inside = block < self.superblock.blocks && !self.superblock.is_fixed(block);
        if claim.template == RESERVED {
            return Err(Error::NotPermitted);
        }
        if !legal || !known || !inside {
            return Err(Error::Damaged(owner.block()));
        }
        self.permit(caller, Operation::Read, parent)?;
        let parent_word = owner.block() << 3 | sector as u64;
        let bound = self.enter(page, block, claim.template, owner.tree, parent_word)?;
        self.entry(parent).children += 1;
        Ok(bound)
    }

    /// Binds `page` to the root block of a tree.
    pub fn bind_root(&mut self, caller: &Caller, tree: u16, page: usize) -> Result<Bound> {
        let record = self.memory.trees.0.get(usize::from(tree)).copied().unwrap_or_default();
        let parent = match record.standing {
            Standing::Attached => ROOTS << 3,
            Standing::None | Standing::Forward(_) => return Err(Error::BadArgument),
            _ => 0,
        };
        if !self.admits(record.template, caller, |volume| {
            let request = caller.request(Operation::Read, 0);
            volume.memory.workspace.scratch.fill(0);
            volume.access(record.template, request, None, 0)
        }) {
            return Err(Error::NotPermitted);
        }
        let bound = self.enter(page, record.root, record.template, tree, parent)?;
        if let Some(catalogue) = self.find(ROOTS).filter(|_| parent != 0) {
            self.entry(catalogue).children += 1;
        }
        Ok(bound)
    }

    fn enter(&mut self, page: usize, block: u64, template: u8, tree: u16, parent: u64) -> Result<Bound> {
        let recovering = matches!(self.phase, Phase::Checking { .. });
        let known = self.memory.maps.get(block);
        if !recovering && known == Ok(Use::Free) {
            // Only a crafted volume has an owner for a block that its map calls free.
            return Err(Error::Damaged(block));
        }
        let fresh = !recovering && known == Ok(Use::Fresh);
        let state = if fresh { RESIDENT | DIRTY | UNSEALED } else { IN };
        let name = name(self.number, block);
        // What the disk has of a block that no page caches is durable, and younger than every change before.
        let written = if fresh { 0 } else { self.sequence };
        let info = BlockInfo { name, state, template, tree, parent, written, ..BlockInfo::default() };
        self.memory.registry.insert(page, info)?;
        self.memo.forget(page);
        if !fresh {
            return Ok(Bound::Reading);
        }
        self.frames.store(page, 0, &[0; BLOCK_SIZE]);
        Ok(Bound::Zeroed)
    }

    /// Runs the access program of the block's tree once for the block in `page` and once to decide, unless it has just
    /// permitted the same.
    fn permit(&mut self, caller: &Caller, operation: Operation, page: usize) -> Result<()> {
        let info = self.resident(page)?;
        let template = self.memory.trees.get(info.tree).template;
        let question = Permission { page, version: info.version, template, operation, caller: *caller };
        if self.memo.permits(&question) {
            return Ok(());
        }
        let is_permitted = self.admits(template, caller, |volume| {
            let request = caller.request(operation, 1);
            volume.memory.workspace.scratch.fill(0);
            volume.access(template, request, Some((0, page)), 0) && volume.access(template, request, None, 0)
        });
        if !is_permitted {
            return Err(Error::NotPermitted);
        }
        self.memo.permit(question);
        Ok(())
    }

    /// Whether a template's access program permits an operation. One that looks at credentials alone says the same of
    /// every operation: it runs once for a caller, and copies no block. Any other one is asked by `ask`.
    pub(crate) fn admits(&mut self, template: u8, caller: &Caller, ask: impl FnOnce(&mut Self) -> bool) -> bool {
        if self.programs.reads(template) & !CREDENTIALS != 0 {
            return ask(self);
        }
        let question = Some((template, caller.credentials));
        if self.memo.admitted == question {
            return true;
        }
        self.memory.workspace.scratch.fill(0);
        let is_admitted = self.access(template, caller.request(Operation::Read, 0), None, 0);
        if is_admitted {
            self.memo.admitted = question;
        }
        is_admitted
    }

    /// Whether the caller may use the block in `page`: the access program sees the parent; of a root, the root itself.
    pub fn permit_child(&mut self, caller: &Caller, operation: Operation, page: usize) -> Result<()> {
        let info = self.resident(page)?;
        if info.template == CATALOGUE {
            return Err(Error::NotPermitted);
        }
        let parent = self.find(info.parent_block()).filter(|_| info.parent_block() > ROOTS);
        self.permit(caller, operation, parent.unwrap_or(page))
    }

    /// One run of an access program, with `changed` bytes of old and new contents in the workspace. The scratch lasts
    /// from run to run; the caller clears it.
    pub(crate) fn access(
        &mut self,
        template: u8,
        mut request: [u64; crate::access::REQUEST_WORDS],
        shown: Option<(usize, usize)>,
        changed: usize,
    ) -> bool {
        let work = &mut *self.memory.workspace;
        match shown {
            Some((index, page)) => {
                request[1] = index as u64;
                request[2] = self.memory.registry.blocks[page].block();
                self.frames.load(page, 0, &mut work.block);
            }
            None => {
                request[1] = LAST;
                work.block.fill(0);
            }
        }
        let (old, new) = (&work.old[..changed], &work.new[..changed]);
        let step = AccessStep { request: &request, old, new, block: &work.block };
        self.programs.access(template, &step, &mut work.scratch)
    }

    /// Permits stores to a leaf: its page may be mapped for writing from now on.
    pub fn open(&mut self, caller: &Caller, page: usize) -> Result<()> {
        self.check_open()?;
        let info = self.resident(page)?;
        let kind = self.memory.templates.get(info.template).map(|template| template.kind);
        if kind != Some(Kind::Leaf) {
            return Err(Error::NotPermitted);
        }
        self.permit_child(caller, Operation::Write, page)?;
        self.entry(page).state |= OPEN | DIRTY;
        self.entry(page).version += 2;
        Ok(())
    }

    /// The last mapping for writing is gone. The page stays dirty until its next write.
    pub fn close_mapping(&mut self, page: usize) -> Result<()> {
        self.info(page)?;
        let entry = self.entry(page);
        if entry.is(OPEN) {
            entry.state = entry.state & !OPEN | DIRTY;
        }
        Ok(())
    }

    /// Whether [`Self::release`] would give up a page.
    pub fn is_releasable(&self, page: usize) -> bool {
        self.check_release(page).is_ok()
    }

    /// Gives up a page: only a clean, durable block without children in core leaves the core.
    pub fn release(&mut self, page: usize) -> Result<()> {
        self.check_release(page)?;
        self.forget(page);
        Ok(())
    }

    fn check_release(&self, page: usize) -> Result<()> {
        let info = self.info(page)?;
        let visiting = matches!(self.phase, Phase::Checking { .. }) && info.ready_at > 0;
        let held_up = visiting || info.is(DIRTY | IN | OUT | OPEN | ORPHAN) || info.children > 0 || info.unready > 0;
        if held_up || info.block() == ROOTS || !self.is_stable(&info) {
            return Err(Error::InUse(info.block()));
        }
        Ok(())
    }
}
