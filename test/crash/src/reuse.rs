//! Attack of the adversary on held blocks: blocks that the disk still points to are freed and used again at once.
//!
//! A right XN holds each block until the write of its parent is durable, so the second half of the attack finds nothing
//! to use. A wrong one gives the block to another parent, and a crash state shows foreign content below the old one.

use crate::adversary::Adversary;
use crate::machine::entries;
use crate::templates::{Entry, LEAF};
use xn::block::{OUT, RESIDENT};
use xn::region_map::Use;
use xn::transaction::{Action, Change, Declared};

/// Entry of a page with its place: page, offset in the block, entry.
type Held = (usize, usize, Entry);

impl Adversary<'_> {
    /// Frees a block, perhaps with what it owns, brings its parent some steps towards the disk, and uses it again.
    pub fn reuse(&mut self) {
        let all: Vec<Held> = self.metadata().into_iter().flat_map(|page| self.owned(page)).collect();
        let Some((page, at, entry)) = self.random.pick(&all) else { return };
        let mut freed = Vec::new();
        if entry.template < LEAF {
            let Some(child) = self.xn.find(entry.block) else { return };
            for (page, at, entry) in self.owned(child) {
                freed.extend(self.free_entry(page, at, entry));
            }
        }
        freed.extend(self.free_entry(page, at, entry));
        let steps = self.random.below(4);
        let submitted = steps > 0 && self.submit_page(page).is_ok();
        if steps > 1 && submitted {
            self.complete_all();
        }
        if steps > 2 && self.xn.release(page).is_ok() {
            self.forget(page);
        }
        self.reclaim();
        for block in freed {
            self.take(block);
        }
    }

    /// Entries of a page that can be freed one by one.
    fn owned(&self, page: usize) -> Vec<Held> {
        if !self.xn.memory.registry.blocks[page].is(RESIDENT) {
            return Vec::new();
        }
        let all = entries(&self.xn, page).into_iter();
        all.filter_map(|(_, at, entry)| Some((page, at, entry.filter(|entry| entry.template <= LEAF)?))).collect()
    }

    fn free_entry(&mut self, page: usize, at: usize, entry: Entry) -> std::ops::Range<u64> {
        let declared =
            [Declared { action: Action::Free, first: entry.block, count: entry.count, template: entry.template }];
        let change = Change { page, offset: at, bytes: &[0; 16] };
        let done = self.propose(page, &[change], &declared, false).is_ok();
        self.forget_freed();
        entry.block..entry.block + if done { entry.count } else { 0 }
    }

    /// Makes a free block a leaf of another place, and writes it.
    fn take(&mut self, block: u64) {
        if self.xn.memory.maps.get(block) != Ok(Use::Free) {
            return;
        }
        let places = self.places(false);
        let Some((page, sector, at, _)) = self.random.pick(&places) else { return };
        let entry = Entry { block, count: 1, template: LEAF, tag: self.tag(1) };
        let declared = [Declared { action: Action::Allocate, first: block, count: 1, template: LEAF }];
        let change = Change { page, offset: at, bytes: &entry.encode() };
        if self.propose(page, &[change], &declared, false).is_ok() {
            self.bind_child(page, sector, entry, 0);
            let leaf = self.xn.find(block).filter(|leaf| !self.xn.memory.registry.blocks[*leaf].is(OUT));
            if leaf.is_some_and(|leaf| self.submit_page(leaf).is_ok()) {
                self.complete_all();
            }
        }
    }
}
