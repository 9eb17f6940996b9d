//! Recovery by traversal (SOSP 1997, section 4.4): what the roots reach is used, all else is free.
//!
//! The caller walks the trees with [`Volume::bind`] and reports each metadata page with [`Volume::check`]. XN counts
//! the blocks that are marked and not visited, so the caller's order and mistakes do not matter: the count is zero
//! exactly when the traversal is complete. Recovery writes nothing. In this phase the map state *held* means "not
//! visited yet".

use crate::error::{Error, Result};
use crate::format::{MAX_ROOTS, ROOTS, SECTORS};
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
        if let Some(region) = self.memory.maps.directory.iter().position(|entry| *entry == 0) {
            return Err(Error::Absent(region as u64 * crate::format::REGION_BLOCKS));
        }
        for slot in 0..MAX_ROOTS {
            if let Some(root) = self.root(slot)? {
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

    /// Visits one sector of the metadata block in `page`; `Again` until the last one is done.
    pub fn check(&mut self, page: usize, cursor: u64) -> Result<()> {
        match self.phase {
            Phase::Checking { .. } => (),
            Phase::Damaged(block) => return Err(Error::Damaged(block)),
            _ => return Err(Error::NotPermitted),
        }
        let info = self.resident(page)?;
        let (block, sector) = (info.block(), cursor as usize);
        if sector >= SECTORS || self.memory.maps.get(block)? != Use::Held {
            return Err(Error::BadArgument);
        }
        // The number of the next sector to visit stands in the entry, so that no sector is counted twice.
        if self.entry(page).ready_at != cursor {
            return Err(Error::BadArgument);
        }
        if let Err(error) = self.claims_of(page, info.template, sector) {
            self.phase = Phase::Damaged(block);
            return Err(error);
        }
        let claims = self.memory.workspace.before;
        for claim in claims.ranges() {
            for child in claim.first..claim.end() {
                self.mark(info.template, block, child, claim.template);
            }
        }
        if let Phase::Damaged(block) = self.phase {
            return Err(Error::Damaged(block));
        }
        self.entry(page).ready_at = cursor + 1;
        if sector + 1 < SECTORS {
            return Err(Error::Again(cursor + 1));
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
