//! Edits: sectors changed in a copy, then given to XN as one transaction of the bytes that differ.

use crate::device::{Change as Offered, Device};
use crate::error::{Error, Result};
use crate::file_system::{CALLER, FileSystem};
use crate::layout::inode::{Inode, SIZE};
use crate::layout::node::inode_place;
use crate::layout::{Content, Number};
use alloc::vec::Vec;
use xn::error::Error as Xn;
use xn::format::{CONTENT, REGION_BLOCKS, SECTOR_SIZE};
use xn::transaction::{Action, Change, Declared, MAX_CHANGES, MAX_DECLARED, Transaction};

/// Ranges that the kernel's XN takes in one transaction.
const MOST_DECLARED: usize = 8;

/// A transaction in the making.
#[derive(Default)]
pub(crate) struct Edit {
    sectors: Vec<(usize, usize, Content)>,
    declared: Vec<Declared>,
}

/// Bytes that are compared at once.
const WORD: usize = 8;

/// A range of changed bytes: index of the sector in the edit, first byte, end.
type Range = (usize, usize, usize);

impl Edit {
    /// Declares what happens to a block; neighbours become one range.
    pub(crate) fn declare(&mut self, action: Action, block: u64, template: u8) {
        let joined = self
            .declared
            .iter_mut()
            .find(|range| range.action == action && range.template == template && range.first + range.count == block);
        match joined {
            Some(range) => range.count += 1,
            None => self.declared.push(Declared { action, first: block, count: 1, template }),
        }
    }

    /// Whether one more range may not fit.
    pub(crate) fn is_full(&self) -> bool {
        self.declared.len() >= MOST_DECLARED
    }

    /// Whether it changes this sector.
    pub(crate) fn changes(&self, page: usize, sector: usize) -> bool {
        self.sectors.iter().any(|(other, index, _)| (*other, *index) == (page, sector))
    }

    fn ranges(&self, pages: &[xn::format::Block]) -> Vec<Range> {
        let mut ranges: Vec<Range> = Vec::new();
        for (index, (page, sector, new)) in self.sectors.iter().enumerate() {
            let old = &pages[*page][sector * SECTOR_SIZE..sector * SECTOR_SIZE + CONTENT];
            let mut compare = |at: usize| {
                if old[at] != new[at] {
                    match ranges.last_mut() {
                        Some((other, _, end)) if *other == index && *end + 2 >= at => *end = at + 1,
                        _ => ranges.push((index, at, at + 1)),
                    }
                }
            };
            // Most words of a sector are equal.
            let ((olds, _), (news, _)) = (old.as_chunks::<WORD>(), new.as_chunks::<WORD>());
            for (word, (old, new)) in olds.iter().zip(news).enumerate() {
                if u64::from_ne_bytes(*old) != u64::from_ne_bytes(*new) {
                    (word * WORD..(word + 1) * WORD).for_each(&mut compare);
                }
            }
            (CONTENT / WORD * WORD..CONTENT).for_each(compare);
        }
        while ranges.len() > MAX_CHANGES {
            let gap = |pair: &[Range]| if pair[0].0 == pair[1].0 { pair[1].1 - pair[0].2 } else { usize::MAX };
            let best = (0..ranges.len() - 1).min_by_key(|index| gap(&ranges[*index..*index + 2])).unwrap_or(0);
            ranges[best].2 = ranges[best + 1].2;
            ranges.remove(best + 1);
        }
        ranges
    }
}

impl<D: Device> FileSystem<'_, D> {
    /// The copy of a sector in an edit.
    pub(crate) fn edit<'e>(&self, edit: &'e mut Edit, page: usize, sector: usize) -> &'e mut Content {
        let known = edit.sectors.iter().position(|(other, index, _)| (*other, *index) == (page, sector));
        let index = known.unwrap_or_else(|| {
            edit.sectors.push((page, sector, *self.sector(page, sector)));
            edit.sectors.len() - 1
        });
        &mut edit.sectors[index].2
    }

    /// Changes an inode within an edit.
    pub(crate) fn edit_inode(
        &mut self,
        edit: &mut Edit,
        number: Number,
        change: impl FnOnce(&mut Inode),
    ) -> Result<()> {
        let (page, sector, slot) = self.find_inode(number)?;
        let content = self.edit(edit, page, sector);
        let bytes = &mut content[inode_place(slot)..inode_place(slot) + SIZE];
        let mut inode = Inode::decode(bytes);
        let before = inode;
        change(&mut inode);
        if (Inode { times: before.times, ..inode }) != before {
            self.pending.changed.insert(number);
        }
        // The pointers' place holds the text of a short link: only what changed is written.
        let text: [u8; 56] = *bytes[72..].first_chunk().ok_or(Error::Stale)?;
        let keeps_text = !inode.is_directory() && !inode.is_file() && !inode.has_long_link();
        inode.encode(bytes);
        if keeps_text {
            bytes[72..].copy_from_slice(&text);
        }
        Ok(())
    }

    /// Carries an edit out. A full ledger or a missing region map is remedied once.
    pub(crate) fn commit(&mut self, edit: &Edit) -> Result<()> {
        self.check_writable()?;
        self.counts.transactions += 1;
        for _ in 0..2 * self.xn.superblock().regions() + 4 {
            match self.try_commit(edit) {
                Err(Error::Refused(Xn::Exhausted)) => {
                    self.reclaim();
                    if self.try_commit(edit).is_ok() {
                        return Ok(());
                    }
                    self.write_back()?;
                    self.reclaim();
                    return self.try_commit(edit);
                }
                Err(Error::Refused(Xn::Absent(block))) => self.load_map(block / xn::format::REGION_BLOCKS)?,
                other => return other,
            }
        }
        Err(Error::NoMemory)
    }

    fn try_commit(&mut self, edit: &Edit) -> Result<()> {
        let ranges = edit.ranges(&self.xn.frames.blocks);
        if ranges.is_empty() {
            return Ok(());
        }
        let change = |(index, start, end): &Range| {
            let (page, sector, content) = &edit.sectors[*index];
            Change { page: *page, offset: sector * SECTOR_SIZE + start, bytes: &content[*start..*end] }
        };
        let changes: Vec<Change<'_>> = ranges.iter().map(change).collect();
        let transaction = Transaction { shown: &[], changes: &changes, declared: &edit.declared };
        // A device with an XN of its own carries the transaction out first. What this one would refuse is asked before.
        for range in &edit.declared {
            self.load_map(range.first / REGION_BLOCKS)?;
            self.load_map((range.first + range.count - 1) / REGION_BLOCKS)?;
        }
        let frees = edit.declared.iter().any(|range| range.action == Action::Free);
        if frees && !self.xn.has_ledger_room(MAX_DECLARED) {
            return Err(Error::Refused(Xn::Exhausted));
        }
        if !edit.declared.is_empty() {
            self.free_blocks = None;
        }
        self.device.permit(&Offered::Modify(&transaction))?;
        self.xn.modify(&CALLER, &transaction)?;
        changes.iter().for_each(|change| self.cache.mark_dirty(change.page));
        Ok(())
    }
}
