//! A client of XN that issues true and false transactions, and transfers in any order.
//!
//! Invariant: a false transaction is refused and changes neither pages, nor maps, nor the registry. Each readable block
//! that it owns gets a ghost tag before its first write.

use crate::disk::Disk;
use crate::machine::{BLOCKS, Xn, entries, read, unused_page};
use crate::random::Random;
use crate::templates::{Entry, LEAF, LIST, STRANGER, TABLE, TREE};
use std::collections::HashMap;
use xn::access::Caller;
use xn::binding::Bound;
use xn::block::{DIRTY, IN, ORPHAN, OUT, RESIDENT};
use xn::error::Error;
use xn::format::MAX_ROOTS;
use xn::frames::Frames;
use xn::region_map::Use;
use xn::transaction::{Action, Change, Declared, Transaction};
use xn::tree::Standing;

/// Template number of reserved blocks in an entry; the owns program reports `RESERVED`.
const ENTRY_RESERVED: u8 = 254;
const RESERVED: u8 = 255;

/// The client.
pub struct Adversary<'a> {
    pub xn: Xn<'a>,
    pub disk: Disk,
    pub random: Random,
    /// Next ghost tag.
    pub next_tag: u64,
    /// Pages whose write is submitted, with the number of the submission.
    transfers: Vec<(usize, usize)>,
    /// Flushes that are issued: number for XN, number of the disk.
    flushes: Vec<(u64, usize)>,
    /// Ghost tag of the block in each bound page.
    tags: HashMap<usize, u64>,
    /// Ghost tag of the root of each tree.
    roots: HashMap<u64, u64>,
    /// True transactions that XN accepted, and false ones that it refused.
    pub accepted: u64,
    pub refused: u64,
}

/// A place for an entry: page, sector, offset in the block, the entry that stands there.
type Place = (usize, usize, usize, Option<Entry>);

impl<'a> Adversary<'a> {
    /// `next_tag` is above all tags on the disk.
    pub fn new(xn: Xn<'a>, disk: Disk, seed: u64, next_tag: u64) -> Self {
        let (transfers, flushes, tags, roots) = (Vec::new(), Vec::new(), HashMap::new(), HashMap::new());
        let random = Random(seed);
        Self { xn, disk, random, next_tag, transfers, flushes, tags, roots, accepted: 0, refused: 0 }
    }

    /// One random operation. With `loose`, trees without root too.
    pub fn step(&mut self, loose: bool) {
        match self.random.below(25) {
            0..=4 => self.allocate(),
            5..=7 => self.bind(),
            8 | 9 => self.free(),
            10..=13 => self.submit(),
            14..=16 => self.complete(),
            17 | 18 => self.flush(),
            19 => self.release(),
            20 => self.reclaim(),
            21 => self.overwrite(),
            22 => self.retype(),
            23 => self.reuse(),
            _ if loose => self.trees(),
            _ => self.complete(),
        }
    }

    pub(crate) fn tag(&mut self, count: u64) -> u64 {
        self.next_tag += count + 1;
        self.next_tag - count
    }

    /// Pages that hold resident, living metadata of trees.
    pub(crate) fn metadata(&self) -> Vec<usize> {
        let blocks = self.xn.memory.registry.blocks.iter().enumerate();
        let living = blocks.filter(|(_, info)| info.name != 0 && info.is(RESIDENT) && !info.is(ORPHAN));
        living.filter(|(_, info)| info.template < LEAF).map(|(page, _)| page).collect()
    }

    pub(crate) fn places(&mut self, used: bool) -> Vec<Place> {
        let pages = self.metadata();
        let Some(page) = self.random.pick(&pages) else { return Vec::new() };
        let all = entries(&self.xn, page).into_iter().filter(|(_, _, entry)| entry.is_some() == used);
        all.map(|(sector, at, entry)| (page, sector, at, entry)).collect()
    }

    fn snapshot(&self, page: usize) -> (Vec<u8>, Vec<[u64; 512]>, Vec<(u64, u32, u32, u32, u64)>) {
        let blocks = self.xn.memory.registry.blocks.iter();
        let words = blocks.map(|info| (info.name, info.state, info.unready, info.children, info.ready_at)).collect();
        (self.xn.frames.0.borrow()[page].to_vec(), self.xn.memory.maps.pages.to_vec(), words)
    }

    /// Proposes a transaction; a false one must be refused and change nothing.
    pub(crate) fn propose(
        &mut self,
        page: usize,
        changes: &[Change<'_>],
        declared: &[Declared],
        lie: bool,
    ) -> Result<(), Error> {
        let before = self.snapshot(page);
        let stranger = lie && self.random.one_in(6);
        let credentials = if stranger { [STRANGER, 0, 0, 0] } else { [0; 4] };
        let caller = Caller { credentials, clock: 0 };
        let mut declared = declared.to_vec();
        let mut bytes: Vec<Vec<u8>> = changes.iter().map(|change| change.bytes.to_vec()).collect();
        if lie && !stranger {
            self.falsify(&mut declared, &mut bytes);
        }
        let parts = changes.iter().zip(&bytes).map(|(change, bytes)| Change { bytes, ..*change });
        let changes: Vec<Change<'_>> = parts.collect();
        let transaction = Transaction { shown: &[page], changes: &changes, declared: &declared };
        let verdict = self.xn.modify(&caller, &transaction);
        assert!(!(lie && verdict.is_ok()), "a false transaction was accepted: {declared:?} {bytes:?}");
        if verdict.is_err() {
            assert!(before == self.snapshot(page), "a refused transaction changed something");
        }
        self.accepted += u64::from(verdict.is_ok());
        self.refused += u64::from(lie);
        verdict
    }

    fn falsify(&mut self, declared: &mut Vec<Declared>, bytes: &mut [Vec<u8>]) {
        let last = declared.len() - 1;
        match self.random.below(6) {
            0 => drop(declared.pop()),
            1 => declared[last].count += 1,
            2 => declared[last].template ^= 1,
            3 => declared[last].first += 1,
            4 => declared.push(Declared { first: declared[last].first + 600, ..declared[last] }),
            _ => {
                let entry = bytes.iter_mut().find(|bytes| bytes.len() == 16).expect("an entry");
                let foreign = Entry { block: 1 + self.random.next() % 259, count: 1, template: LEAF, tag: 1 };
                entry.copy_from_slice(&foreign.encode());
            }
        }
    }

    fn is_lie(&mut self) -> bool {
        self.random.one_in(6)
    }

    /// The first run of `count` free blocks from a random place on.
    fn free_run(&mut self, count: u64) -> Option<u64> {
        let start = self.random.below(BLOCKS as usize) as u64;
        let is_free = |block: u64| self.xn.memory.maps.get(block) == Ok(Use::Free) && block < BLOCKS;
        let mut firsts = (start..BLOCKS).chain(0..start);
        firsts.find(|first| (*first..first + count).all(is_free))
    }

    fn allocate(&mut self) {
        let places = self.places(false);
        let Some((page, _, at, _)) = self.random.pick(&places) else { return };
        let template = match self.xn.memory.registry.blocks[page].template {
            TREE => self.random.below(4) as u8,
            LIST => [LIST, LEAF, LEAF, ENTRY_RESERVED][self.random.below(4)],
            _ => LEAF,
        };
        let count = if template < LEAF { 1 } else { 1 + self.random.below(3) as u64 };
        let Some(block) = self.free_run(count) else { return };
        let entry = Entry { block, count, template, tag: self.tag(count) };
        let action = Action::Allocate;
        let template = if template == ENTRY_RESERVED { RESERVED } else { template };
        let declared = [Declared { action, first: block, count, template }];
        let lie = self.is_lie();
        let change = Change { page, offset: at, bytes: &entry.encode() };
        let _ = self.propose(page, &[change], &declared, lie);
    }

    fn free(&mut self) {
        let places = self.places(true);
        let Some((page, _, at, Some(entry))) = self.random.pick(&places) else { return };
        let template = if entry.template == ENTRY_RESERVED { RESERVED } else { entry.template };
        let declared = [Declared { action: Action::Free, first: entry.block, count: entry.count, template }];
        let lie = self.is_lie();
        let _ = self.propose(page, &[Change { page, offset: at, bytes: &[0; 16] }], &declared, lie);
        self.forget_freed();
    }

    /// Forgets the tags of pages that XN emptied.
    pub(crate) fn forget_freed(&mut self) {
        let registry = &self.xn.memory.registry;
        self.tags.retain(|page, _| registry.blocks[*page].name != 0);
    }

    pub(crate) fn forget(&mut self, page: usize) {
        self.tags.remove(&page);
    }

    /// Makes reserved blocks readable, with new tags.
    fn retype(&mut self) {
        let mut places = self.places(true);
        places.retain(|place| place.3.is_some_and(|entry| entry.template == ENTRY_RESERVED));
        let Some((page, _, at, Some(entry))) = self.random.pick(&places) else { return };
        let new = Entry { template: LEAF, tag: self.tag(entry.count), ..entry };
        let declared = [Declared { action: Action::Retype, first: entry.block, count: entry.count, template: LEAF }];
        let _ = self.propose(page, &[Change { page, offset: at, bytes: &new.encode() }], &declared, false);
    }

    fn bind(&mut self) {
        let places = self.places(true);
        if let Some((page, sector, _, Some(entry))) = self.random.pick(&places) {
            let index = self.random.below(entry.count as usize) as u64;
            self.bind_child(page, sector, entry, index);
        }
    }

    pub(crate) fn bind_child(&mut self, parent: usize, sector: usize, entry: Entry, index: u64) {
        let Some(page) = unused_page(&self.xn) else { return };
        let block = entry.block + index;
        let known = self.xn.find(block).is_some();
        match self.xn.bind(&Caller::default(), parent, sector, block, page) {
            Ok(bound) => {
                assert!(!known, "a block has two pages");
                assert!(entry.template != ENTRY_RESERVED, "a reserved block was bound");
                self.arrive(page, bound, entry.tag + index);
            }
            Err(Error::NotFree(_)) => assert!(known),
            Err(Error::NotPermitted) => assert_eq!(entry.template, ENTRY_RESERVED),
            Err(other) => panic!("bind refused: {other:?}"),
        }
    }

    /// A page was bound: gives a fresh one its tag, reads an old one and checks it.
    fn arrive(&mut self, page: usize, bound: Bound, tag: u64) {
        let leaf = self.xn.memory.registry.blocks[page].template == LEAF;
        self.tags.insert(page, tag);
        match bound {
            Bound::Reading => {
                let block = self.xn.memory.registry.blocks[page].block();
                read(&mut self.xn, page, &self.disk.current)
                    .unwrap_or_else(|error| panic!("block {block} cannot be read: {error:?}"));
                let found = self.xn.frames.0.borrow()[page][..8].to_vec();
                assert_eq!(found, tag.to_le_bytes(), "block {block} was read with foreign content");
            }
            Bound::Zeroed if leaf => self.fill_leaf(page, tag),
            Bound::Zeroed => {
                let change = Change { page, offset: 0, bytes: &tag.to_le_bytes() };
                let transaction = Transaction { shown: &[], changes: &[change], declared: &[] };
                self.xn.modify(&Caller::default(), &transaction).expect("a tag owns nothing");
            }
        }
    }

    fn fill_leaf(&mut self, page: usize, tag: u64) {
        self.xn.open(&Caller::default(), page).expect("a leaf can be opened");
        let word = self.random.next();
        for sector in 0..8 {
            self.xn.frames.store(page, sector * 512, &tag.to_le_bytes());
            self.xn.frames.store(page, sector * 512 + 8, &word.to_le_bytes());
        }
        self.xn.close_mapping(page).expect("it is bound");
    }

    fn overwrite(&mut self) {
        let leaf = |(page, tag): (&usize, &u64)| {
            let info = &self.xn.memory.registry.blocks[*page];
            (info.template == LEAF && info.name != 0 && !info.is(IN | OUT | ORPHAN)).then_some((*page, *tag))
        };
        let mut leaves: Vec<(usize, u64)> = self.tags.iter().filter_map(leaf).collect();
        leaves.sort_unstable();
        if let Some((page, tag)) = self.random.pick(&leaves) {
            self.fill_leaf(page, tag);
        }
    }

    /// Submits a random dirty page; XN may refuse.
    fn submit(&mut self) {
        let blocks = self.xn.memory.registry.blocks.iter().enumerate();
        let dirty: Vec<usize> = blocks.filter(|(_, info)| info.is(DIRTY)).map(|(page, _)| page).collect();
        if let Some(page) = self.random.pick(&dirty) {
            let _ = self.submit_page(page);
        }
    }

    pub(crate) fn submit_page(&mut self, page: usize) -> Result<(), Error> {
        let block = self.xn.submit(page)?;
        let bytes = self.xn.frames.0.borrow()[page];
        self.transfers.push((page, self.disk.submit(block, &bytes)));
        Ok(())
    }

    /// Completes a random write; one in sixteen fails and leaves the disk as it was.
    fn complete(&mut self) {
        if self.transfers.is_empty() {
            return;
        }
        let index = self.random.below(self.transfers.len());
        let (page, write) = self.transfers.swap_remove(index);
        let succeeded = !self.random.one_in(16);
        if succeeded {
            self.disk.complete(write);
        }
        self.xn.write_done(page, succeeded).expect("it was in transit");
        if self.xn.memory.registry.blocks[page].name == 0 {
            self.tags.remove(&page);
        }
    }

    /// Completes all writes.
    pub(crate) fn complete_all(&mut self) {
        while let Some((page, write)) = self.transfers.pop() {
            self.disk.complete(write);
            self.xn.write_done(page, true).expect("it was in transit");
        }
        self.forget_freed();
    }

    fn flush(&mut self) {
        if self.flushes.len() < 2 && self.random.one_in(2) {
            self.flushes.push((self.xn.flush_start(), self.disk.flush_issue()));
        } else if !self.flushes.is_empty() {
            let index = self.random.below(self.flushes.len());
            let (number, flush) = self.flushes.swap_remove(index);
            self.disk.flush_complete(flush);
            self.xn.flush_done(number, true);
        }
    }

    fn release(&mut self) {
        let page = self.random.below(self.xn.memory.registry.blocks.len());
        if self.xn.release(page).is_ok() {
            self.tags.remove(&page);
        }
    }

    pub(crate) fn reclaim(&mut self) {
        let mut cursor = 0;
        while let Err(Error::Again(next)) = self.xn.reclaim(cursor) {
            cursor = next;
        }
    }

    fn roots_by(&self, wanted: impl Fn(Standing) -> bool) -> Vec<u16> {
        let trees = self.xn.memory.trees.0.iter().enumerate();
        trees.filter(|(_, tree)| wanted(tree.standing)).map(|(index, _)| index as u16).collect()
    }

    /// Creates, binds, attaches, roots, removes or drops a tree.
    fn trees(&mut self) {
        let is_loose = |standing| matches!(standing, Standing::Unattached | Standing::Detached { .. });
        let loose = self.roots_by(is_loose);
        match self.random.below(8) {
            0 | 1 => drop(self.create_tree()),
            2 | 3 => {
                let slot = self.random.below(MAX_ROOTS);
                if let Some(tree) = self.random.pick(&loose) {
                    let _ = self.root_set(slot, tree);
                }
            }
            4 => {
                let slot = self.random.below(MAX_ROOTS);
                let _ = self.xn.root_clear(slot);
            }
            5 => {
                let tree = self.random.pick(&loose);
                let _ = tree.map(|tree| self.xn.tree_drop(tree));
            }
            _ => {
                let tree = self.random.pick(&loose);
                tree.into_iter().for_each(|tree| self.attach(tree));
            }
        }
        self.forget_freed();
    }

    /// A new unattached tree whose root is bound and tagged.
    pub fn create_tree(&mut self) -> Option<u16> {
        let (block, page) = (self.free_run(1)?, unused_page(&self.xn)?);
        let template = [TREE, LIST, TABLE][self.random.below(3)];
        let tree = self.xn.tree_create(block, template, false).ok()?;
        let tag = self.tag(1);
        self.roots.insert(block, tag);
        let bound = self.xn.bind_root(&Caller::default(), tree, page).expect("a new root can be bound");
        assert_eq!(bound, Bound::Zeroed);
        self.arrive(page, bound, tag);
        Some(tree)
    }

    fn root_set(&mut self, slot: usize, tree: u16) -> Result<(), Error> {
        let mut name = [b'r'; 48];
        let root = self.xn.memory.trees.get(tree).root;
        name[..8].copy_from_slice(&self.roots[&root].to_le_bytes());
        self.xn.root_set(slot, name, tree)
    }

    fn attach(&mut self, tree: u16) {
        let record = self.xn.memory.trees.get(tree);
        let places = self.places(false);
        let Some((page, _, at, _)) = self.random.pick(&places) else { return };
        let entry = Entry { block: record.root, count: 1, template: record.template, tag: self.roots[&record.root] };
        let (action, template) = (Action::Attach, record.template);
        let declared = [Declared { action, first: record.root, count: 1, template }];
        let change = Change { page, offset: at, bytes: &entry.encode() };
        let _ = self.propose(page, &[change], &declared, false);
    }

    /// Completes all transfers and writes everything that can be written. Whether nothing is dirty or held in the end.
    pub fn settle(&mut self, rounds: usize) -> bool {
        for _ in 0..rounds {
            let blocks = self.xn.memory.registry.blocks.iter().enumerate();
            let dirty: Vec<usize> = blocks.filter(|(_, info)| info.is(DIRTY)).map(|(page, _)| page).collect();
            for page in &dirty {
                if let Err(Error::Unready(child)) = self.submit_page(*page) {
                    self.bind_unready(*page, child);
                }
            }
            self.complete_all();
            self.flushes.push((self.xn.flush_start(), self.disk.flush_issue()));
            while let Some((number, flush)) = self.flushes.pop() {
                self.disk.flush_complete(flush);
                self.xn.flush_done(number, true);
            }
            self.reclaim();
            let held = self.xn.memory.ledger.iter().any(|record| record.count > 0);
            if dirty.is_empty() && !held {
                return true;
            }
        }
        false
    }

    /// The same for trees that all have a root: they come to an end.
    pub fn sync(&mut self) {
        if self.settle(400) {
            return;
        }
        let stuck: Vec<_> = self.xn.memory.registry.blocks.iter().filter(|info| info.is(DIRTY)).collect();
        let held: Vec<_> = self.xn.memory.ledger.iter().filter(|record| record.count > 0).collect();
        panic!("sync makes no progress: {stuck:?}, {held:?}, unused page: {:?}", unused_page(&self.xn));
    }

    /// Brings a fresh block that a parent waits for into core.
    fn bind_unready(&mut self, parent: usize, child: u64) {
        let holds = |entry: &Entry| (entry.block..entry.block + entry.count).contains(&child);
        let all = entries(&self.xn, parent).into_iter();
        let place = all.filter_map(|(sector, _, entry)| Some((sector, entry.filter(holds)?))).next();
        if let Some((sector, entry)) = place.filter(|_| self.xn.find(child).is_none()) {
            if unused_page(&self.xn).is_none() {
                for page in 0..self.xn.memory.registry.blocks.len() {
                    let _ = self.xn.release(page);
                }
            }
            self.bind_child(parent, sector, entry, child - entry.block);
        }
    }

    /// Makes two trees with roots in the catalogue, so that there is something to attack.
    pub fn plant(&mut self) {
        for slot in 0..2 {
            let tree = self.create_tree().expect("a new volume has room");
            self.sync();
            self.root_set(slot, tree).expect("a durable root can be entered");
        }
        self.sync();
    }

    /// Binds the roots of a mounted volume.
    pub fn adopt(&mut self) {
        for slot in 0..MAX_ROOTS {
            let Some(root) = self.xn.root(slot).expect("the catalogue is resident") else { continue };
            let tag = u64::from_le_bytes(root.name[..8].try_into().expect("eight bytes"));
            self.roots.insert(root.block, tag);
            let tree = self.xn.root_mount(slot).expect("a root can be mounted");
            if let Some(page) = unused_page(&self.xn).filter(|_| self.xn.find(root.block).is_none()) {
                let bound = self.xn.bind_root(&Caller::default(), tree, page).expect("a root can be bound");
                self.arrive(page, bound, tag);
            }
        }
    }
}
