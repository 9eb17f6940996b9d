//! Rename without ordered writes.
//!
//! The old entry becomes *leaving*; the new one has the next sequence number of the same lineage. The sectors reach the
//! disk in any order: recovery keeps the youngest entry of a lineage that it finds. A sync erases leaving entries after
//! the new ones are durable. A replaced inode stays until then, too.
//!
//! What forces a sync first, because no order of writes would otherwise be safe:
//! - the old name is taken again while its entry is leaving: two entries could claim it. The same holds for a name that
//!   is removed, and made again in another sector (`Erased`);
//! - the target's other name is not durable: the inode could be left without one;
//! - a directory changes its parent for the second time since the last sync: the two could form a cycle;
//! - every 64th rename of one name: sequence numbers wrap.
//!
//! A rename over an existing name makes a new inode durable first, as users of `write, rename` expect.

use crate::device::Device;
use crate::directory::{Found, Search, check_name};
use crate::edit::Edit;
use crate::error::{Error, Result};
use crate::file_system::{FileSystem, Leaving};
use crate::layout::Number;
use crate::layout::hash;
use crate::layout::inode::{DYING, Inode};
use crate::layout::node::{self, Entry, State};

/// A name in a directory.
pub type Name<'n> = (Number, &'n [u8]);

/// What stands at both ends of a rename.
struct Ends {
    old: Found,
    inode: Inode,
    search: Search,
    replaced: Option<(Number, Inode)>,
}

impl<D: Device> FileSystem<'_, D> {
    /// Renames, and replaces what had the new name. With `no_replace` an existing new name is refused.
    pub fn rename(&mut self, from: Name<'_>, to: Name<'_>, no_replace: bool) -> Result<()> {
        self.check_writable()?;
        check_name(from.1)?;
        check_name(to.1)?;
        for _ in 0..4 {
            let ends = self.ends(from, to)?;
            let target = ends.old.placed.entry.number;
            if ends.search.live.is_some() && no_replace {
                return Err(Error::Exists);
            }
            if ends.replaced.as_ref().is_some_and(|(number, _)| *number == target) {
                return Ok(());
            }
            self.check_kinds(&ends, from.0, to.0)?;
            if !self.prepare(&ends, from.0, to)? {
                return self.carry_out(from, to);
            }
        }
        Err(Error::Damaged(0))
    }

    fn ends(&mut self, from: Name<'_>, to: Name<'_>) -> Result<Ends> {
        let (old, inode) = self.named(from.0, from.1)?;
        self.directory(to.0)?;
        let search = self.search(to.0, to.1)?;
        let replaced = match &search.live {
            Some(found) => {
                let number = found.placed.entry.number;
                Some((number, self.inode(number)?))
            }
            None => None,
        };
        Ok(Ends { old, inode, search, replaced })
    }

    /// A directory replaces only an empty directory, and does not become its own ancestor.
    fn check_kinds(&mut self, ends: &Ends, from: Number, to: Number) -> Result<()> {
        let target = ends.old.placed.entry.number;
        if ends.inode.is_directory() && from != to {
            self.check_ancestors(target, to)?;
        }
        match &ends.replaced {
            Some((_, other)) if ends.inode.is_directory() && !other.is_directory() => Err(Error::NotDirectory),
            Some((_, other)) if !ends.inode.is_directory() && other.is_directory() => Err(Error::IsDirectory),
            Some((number, other)) if other.is_directory() => {
                let number = *number;
                if self.occupancy(number)?.0 { Err(Error::NotEmpty) } else { Ok(()) }
            }
            _ => Ok(()),
        }
    }

    fn check_ancestors(&mut self, moved: Number, to: Number) -> Result<()> {
        let mut at = to;
        for _ in 0..=self.xn.superblock().blocks {
            if at == moved {
                return Err(Error::Invalid);
            }
            if at == self.root {
                return Ok(());
            }
            self.step();
            at = self.inode(at)?.parent;
        }
        Err(Error::Damaged(to >> 5))
    }

    /// Makes durable what must be so before the rename. True if something was done: what was found may have changed.
    fn prepare(&mut self, ends: &Ends, from: Number, to: Name<'_>) -> Result<bool> {
        let target = ends.old.placed.entry.number;
        let moved = ends.inode.is_directory() && from != to.0 && self.pending.directory_moved;
        let wraps = ends.old.placed.entry.sequence % 64 == 63 && self.pending.unsettled.contains(&target);
        let doubles = ends.search.live.is_none()
            && (ends.search.leaving || self.would_double(to.0, &ends.search, to.1.len(), false)?);
        let mut sync = moved || wraps || doubles;
        if let Some((number, inode)) = &ends.replaced {
            sync |= inode.nlink > 1 && self.pending.unsettled.contains(number);
            sync |= inode.is_directory() && self.occupancy(*number)?.1;
            if !sync && self.pending.young.contains(&target) {
                self.fsync(target, false)?;
                return Ok(true);
            }
        }
        if sync {
            self.sync()?;
        }
        Ok(sync)
    }

    fn carry_out(&mut self, from: Name<'_>, to: Name<'_>) -> Result<()> {
        let ends = self.ends(from, to)?;
        let (old, target) = (ends.old, ends.old.placed.entry.number);
        let entry = Entry { sequence: old.placed.entry.sequence.wrapping_add(1), ..old.placed.entry };
        let mut edit = Edit::default();
        let (page, sector) = self.place_new(&mut edit, to, &ends.search, &entry)?;
        let same_sector = (page, sector) == (old.page, old.sector);
        let content = self.edit(&mut edit, old.page, old.sector);
        if same_sector {
            node::remove(content, old.placed.offset);
        } else {
            node::replace(content, old.placed.offset, &Entry { state: State::Leaving, ..old.placed.entry });
        }
        let (now, parent) = (self.now, to.0);
        self.edit_inode(&mut edit, target, |inode| {
            inode.times[2] = now;
            inode.parent = if inode.is_device() { inode.parent } else { parent };
        })?;
        let reaps = self.drop_replaced(&mut edit, &ends, (page, sector))?;
        self.commit(&edit)?;
        let (block, sector, offset) = (self.xn.info(old.page)?.block(), old.sector, old.placed.offset);
        if same_sector {
            self.pending.erased.insert(from.0, hash::of_name(from.1), (block, sector));
        } else {
            self.pending.leaving.push(Leaving { directory: from.0, block, sector, offset, target });
        }
        self.pending.changed.insert(target);
        if !self.lies_in(target, page, sector) {
            self.pending.unsettled.insert(target);
        }
        self.pending.directory_moved |= ends.inode.is_directory() && from.0 != to.0;
        self.finish(from.0, to.0, same_sector.then_some(old.page), reaps)
    }

    /// Times of both directories; the replaced inode and an emptied node are freed.
    fn finish(&mut self, from: Number, to: Number, emptied: Option<usize>, reaps: Option<Number>) -> Result<()> {
        let mut edit = Edit::default();
        self.touch_directory(&mut edit, from)?;
        self.touch_directory(&mut edit, to)?;
        let emptied = emptied.map(|page| self.xn.info(page)).transpose()?;
        self.commit(&edit)?;
        if let Some(number) = reaps {
            self.reap(number)?;
        }
        emptied.map_or(Ok(()), |info| self.prune(info.block()))
    }

    /// Overwrites the entry of the new name, or inserts one.
    fn place_new(&mut self, edit: &mut Edit, to: Name<'_>, search: &Search, entry: &Entry) -> Result<(usize, usize)> {
        if let Some(found) = search.live {
            node::replace(self.edit(edit, found.page, found.sector), found.placed.offset, entry);
            return Ok((found.page, found.sector));
        }
        let (page, sector, room) = self.make_room(to.0, search, to.1.len(), false)?;
        node::insert(self.edit(edit, page, sector), &room, entry, to.1);
        Ok((page, sector))
    }

    /// Takes one name from the replaced inode. Gives its number if it can be freed now: then its sector is that of the
    /// new entry, and both reach the disk together.
    fn drop_replaced(&mut self, edit: &mut Edit, ends: &Ends, new: (usize, usize)) -> Result<Option<Number>> {
        let Some((number, inode)) = ends.replaced else { return Ok(None) };
        let (now, last) = (self.now, inode.nlink <= 1);
        let together = last && self.lies_in(number, new.0, new.1) && !self.opens.contains_key(&number);
        self.edit_inode(edit, number, |inode| {
            inode.nlink = inode.nlink.saturating_sub(1);
            inode.times[2] = now;
            inode.state = if together && !inode.is_directory() { DYING } else { inode.state };
        })?;
        if last && !together {
            self.pending.doomed.push(number);
        }
        if !last && !self.lies_in(number, new.0, new.1) {
            self.pending.lessened.insert(number);
        }
        Ok(together.then_some(number))
    }
}
