//! Recovery by traversal (SOSP 1997, section 4.4): what the roots reach is used, all else is free.
//!
//! The caller walks the trees with [`Volume::bind`] and reports each metadata page with [`Volume::check`]. XN counts
//! the blocks that are marked and not visited, so the caller's order and mistakes do not matter: the count is zero
//! exactly when the traversal is complete. Recovery writes nothing. In this phase the map state *held* means "not
//! visited yet".

use crate::error::{Error, Result};
use crate::format::{BLOCK_SIZE, MAX_ROOTS, ROOTS, Root, SECTORS};
use crate::frames::Frames;
use crate::region_map::Use;
use crate::template::{CATALOGUE, Programs, RESERVED};
use crate::volume::{Phase, Volume};

impl<F: Frames, P: Programs> Volume<'_, F, P> {
    /// Marks the roots. All region maps are loaded, the catalogue is resident, the templates are loaded.
    pub fn recovery_start(&mut self) -> Result<()> {
        if self.phase != (Phase::Checking { pending: 0 }) {
            return Err(Error::NotPermitted);
        }
        let regions = self.superblock.regions() as usize;
        if let Some(region) = self.memory.maps.directory.iter().take(regions).position(|entry| *entry == 0) {
            return Err(Error::Absent(region as u64 * crate::format::REGION_BLOCKS));
        }
        let page = self.find(ROOTS).ok_or(Error::Absent(ROOTS))?;
        self.resident(page)?;
        let mut catalogue = [0; BLOCK_SIZE];
        self.frames.load(page, 0, &mut catalogue);
        for slot in 0..MAX_ROOTS {
            if let Some(root) = Root::decode(&catalogue, slot) {
                self.mark(CATALOGUE, ROOTS, root.block, root.template);
            }
        }
        Ok(())
    }

    /// Marks one block as owned by a sector of `parent`.
    fn mark(&mut self, owner: u8, parent: u64, block: u64, template: u8) {
        let legal = owner == CATALOGUE && template != RESERVED
            || self.memory.templates.get(owner).is_some_and(|own| own.may_own(template));
        let known = template == RESERVED || self.memory.templates.get(template).is_some();
        let inside = block < self.superblock.blocks && !self.superblock.is_fixed(block);
        let free = inside && self.memory.maps.get(block) == Ok(Use::Free);
        let Phase::Checking { pending } = &mut self.phase else { return };
        if !(legal && known && free) {
            self.phase = Phase::Damaged(if inside { block } else { parent });
            return;
        }
        let metadata = self.memory.templates.is_metadata(template);
        *pending += u64::from(metadata);
        self.memory.maps.set(block, if metadata { Use::Held } else { Use::Used });
    }

    /// Marks the claims in the workspace from the one with number `done` on; whether these were the last ones.
    fn mark_claims(&mut self, owner: u8, parent: u64, done: u64) -> bool {
        let claims = self.memory.workspace.before;
        let (mut skip, mut left) = (done, self.limits.marks);
        for claim in claims.ranges() {
            let first = claim.first + skip.min(claim.count);
            skip = skip.saturating_sub(claim.count);
            for child in first..claim.end() {
                if left == 0 {
                    return false;
                }
                self.mark(owner, parent, child, claim.template);
                left -= 1;
            }
        }
        true
    }

    /// Visits a part of the metadata block in `page`: as many claimed blocks of one sector as the limits say. Fails
    /// with `Again` until the last part is done. The cursor begins with 0.
    pub fn check(&mut self, page: usize, cursor: u64) -> Result<()> {
        match self.phase {
            Phase::Checking { .. } => (),
            Phase::Damaged(block) => return Err(Error::Damaged(block)),
            _ => return Err(Error::NotPermitted),
        }
        let info = self.resident(page)?;
        let (block, sector, done) = (info.block(), (cursor >> 32) as usize, cursor & 0xFFFF_FFFF);
        if sector >= SECTORS || self.memory.maps.get(block)? != Use::Held {
            return Err(Error::BadArgument);
        }
        // Where the visit continues stands in the entry, so that no claim is counted twice.
        if self.entry(page).ready_at != cursor {
            return Err(Error::BadArgument);
        }
        if let Err(error) = self.claims_of(page, info.template, sector) {
            self.phase = Phase::Damaged(block);
            return Err(error);
        }
        let complete = self.mark_claims(info.template, block, done);
        if let Phase::Damaged(block) = self.phase {
            return Err(Error::Damaged(block));
        }
        let next = if complete { (sector as u64 + 1) << 32 } else { cursor + self.limits.marks };
        self.entry(page).ready_at = next;
        if next < (SECTORS as u64) << 32 {
            return Err(Error::Again(next));
        }
        self.entry(page).ready_at = 0;
        self.memory.maps.set(block, Use::Used);
        if let Phase::Checking { pending } = &mut self.phase {
            *pending -= 1;
        }
        Ok(())
    }

    /// Ends the traversal: refused while a marked block was not visited, with their number.
    pub fn recovery_end(&mut self) -> Result<()> {
        match self.phase {
            Phase::Checking { pending: 0 } => {
                self.phase = Phase::ReadOnly;
                Ok(())
            }
            Phase::Checking { pending } => Err(Error::Again(pending)),
            Phase::Damaged(block) => Err(Error::Damaged(block)),
            _ => Err(Error::NotPermitted),
        }
    }
}
