//! Ledger of held blocks: freed blocks to which a pointer on disk, or a transfer, may be left (ordering rule 1).
//!
//! A record is reclaimed when its parent was written after the free and that write is durable. It is also reclaimed
//! when the parent left the core, which only clean and durable blocks do. If the parent is held itself, its children
//! wait with it.

use crate::block::{IN, OUT};
use crate::error::{Error, Result};
use crate::frames::Frames;
use crate::region_map::Use;
use crate::registry::name;
use crate::template::Programs;
use crate::volume::Volume;

/// One range of held blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// First block.
    pub first: u64,
    /// Number of blocks; 0 for an unused record.
    pub count: u64,
    /// Block whose version on disk may lead to them; 0 for none.
    pub parent: u64,
    /// Sequence number of the last write that completed before they were freed.
    pub since: u64,
}

impl<F: Frames, P: Programs> Volume<'_, F, P> {
    /// Whether the disk has a durable version of `parent` that is younger than write `since`.
    pub(crate) fn is_settled(&self, parent: u64, since: u64) -> bool {
        if parent == 0 {
            return true;
        }
        if self.memory.maps.get(parent) == Ok(Use::Held) {
            return false;
        }
        self.find(parent).is_none_or(|page| {
            let info = &self.memory.registry.blocks[page];
            info.written > since && info.durable_at <= self.flushes_done
        })
    }

    fn is_in_transit(&self, block: u64) -> bool {
        let page = self.memory.registry.find(name(self.number, block));
        page.is_some_and(|page| self.memory.registry.blocks[page].is(IN | OUT))
    }

    /// Frees the blocks of the record at `cursor` if nothing leads to them. `Ok` after the last record, with the number
    /// of blocks that this step freed; else `Again`.
    pub fn reclaim(&mut self, cursor: u64) -> Result<u64> {
        let index = cursor as usize;
        let Some(record) = self.memory.ledger.get(index).copied() else { return Ok(0) };
        let mut range = record.first..record.first + record.count;
        let settled = record.count > 0 && self.is_settled(record.parent, record.since);
        if settled && !range.any(|block| self.is_in_transit(block)) {
            (record.first..record.first + record.count).for_each(|block| self.memory.maps.set(block, Use::Free));
            self.memory.ledger[index] = Record::default();
        }
        Err(Error::Again(cursor + 1))
    }

    /// Whether the ledger has room for so many records. The search ends with the last one that is needed.
    pub fn has_ledger_room(&self, records: usize) -> bool {
        self.memory.ledger.iter().filter(|record| record.count == 0).take(records).count() == records
    }

    /// Enters a record; the caller has checked the room. A range that follows one of the same parent and moment extends
    /// it.
    pub(crate) fn hold(&mut self, record: Record) {
        (record.first..record.first + record.count).for_each(|block| self.memory.maps.set(block, Use::Held));
        let continued = |slot: &&mut Record| {
            let same = (slot.parent, slot.since) == (record.parent, record.since);
            let short = slot.count > 0 && slot.count + record.count <= crate::transaction::MAX_BLOCKS;
            short && same && slot.first + slot.count == record.first
        };
        if let Some(slot) = self.memory.ledger.iter_mut().find(continued) {
            slot.count += record.count;
        } else if let Some(slot) = self.memory.ledger.iter_mut().find(|slot| slot.count == 0) {
            *slot = record;
        }
    }
}
