//! Walk of an examination: all metadata from the root on, in any condition.

use super::{Damage, Examination, SLOTS, What, names};
use crate::device::Device;
use crate::file::MAX_SIZE;
use crate::layout::hash::{self, MAX_LEVEL};
use crate::layout::indirect::{self, BLOCK_POINTERS, DIRECT, SECTOR_POINTERS, span};
use crate::layout::inode::{self, Inode};
use crate::layout::node::{self, Entry, State, has_inode, inode_place};
use crate::layout::{BLOCK_BITS, Content, Number, RESERVED_BIT, get};
use crate::make::{MAGIC, ROOT_NAME, ROOT_SLOT};
use crate::template::{self, ROOT};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;
use xn::format::{
    BLOCK_SIZE, Block, CONTENT, REGION_BLOCKS, ROOTS, Root, SECTOR_SIZE, SECTORS, Superblock, TEMPLATE_BLOCKS,
    TEMPLATES, bit, set_bit, verify_sector,
};

/// An entry, and where it stands.
pub(super) struct Seen {
    pub(super) directory: Number,
    pub(super) block: u64,
    pub(super) sector: usize,
    pub(super) entry: Entry,
    pub(super) name: Vec<u8>,
}

/// An inode, with the blocks that it was seen to own.
pub(super) struct Held {
    pub(super) inode: Inode,
    pub(super) blocks: u64,
}

/// A metadata block that is still to be visited.
#[derive(Clone, Copy)]
enum Visit {
    Node { block: u64, directory: Number, level: usize, prefix: u64 },
    Indirect { block: u64, file: Number, level: u32, base: u64 },
}

/// The state of an examination.
pub(super) struct Walk<'d, D: Device> {
    device: &'d mut D,
    superblock: Superblock,
    /// Blocks with an owner, a map of bits for each region that has one.
    owned: BTreeMap<u64, Vec<u8>>,
    pub(super) inodes: BTreeMap<Number, Held>,
    pub(super) entries: Vec<Seen>,
    pub(super) root: Number,
    pending: Vec<Visit>,
    damages: Vec<Damage>,
}

impl<'d, D: Device> Walk<'d, D> {
    pub(super) fn new(device: &'d mut D, superblock: Superblock) -> Self {
        let (owned, inodes) = (BTreeMap::new(), BTreeMap::new());
        let (entries, pending, damages) = (Vec::new(), Vec::new(), Vec::new());
        Self { device, superblock, owned, inodes, entries, root: 0, pending, damages }
    }

    pub(super) fn report(&mut self, what: What, block: u64, sector: Option<usize>, inode: Option<Number>) {
        self.damages.push(Damage { what, block, sector, inode, path: None });
    }

    /// Reads a block; reports one that cannot be read.
    pub(super) fn read(&mut self, block: u64, bytes: &mut Block) -> bool {
        let read = self.device.read(block, bytes).is_ok();
        if !read {
            self.report(What::Unreadable, block, None, None);
        }
        read
    }

    /// Reads a metadata block; gives the sectors whose checksum matches.
    fn sectors(&mut self, block: u64, inode: Option<Number>) -> Vec<(usize, Content)> {
        let mut bytes: Block = [0; BLOCK_SIZE];
        if !self.read(block, &mut bytes) {
            return Vec::new();
        }
        let mut good = Vec::new();
        for (index, sector) in bytes.chunks_exact(SECTOR_SIZE).enumerate() {
            let content = sector[..CONTENT].first_chunk().copied();
            match content.filter(|_| verify_sector(&self.superblock.volume, block, index, sector).is_ok()) {
                Some(content) => good.push((index, content)),
                None => self.report(What::Checksum, block, Some(index), inode),
            }
        }
        good
    }

    /// Checks the template catalogue: only checksums, a mount compares the programs.
    pub(super) fn templates(&mut self) {
        for block in TEMPLATES..TEMPLATES + u64::from(SLOTS) * TEMPLATE_BLOCKS {
            self.sectors(block, None);
        }
    }

    /// Marks a block as owned; false if it cannot be entered.
    fn own(&mut self, pointer: u64, holder: (u64, usize), inode: Number) -> bool {
        let block = pointer & BLOCK_BITS;
        if block >= self.superblock.blocks || self.superblock.is_fixed(block) {
            self.report(What::Outside(block), holder.0, Some(holder.1), Some(inode));
            return false;
        }
        let map = self.owned.entry(block / REGION_BLOCKS).or_insert_with(|| vec![0; REGION_BLOCKS as usize / 8]);
        let (byte, mask) = ((block % REGION_BLOCKS / 8) as usize, 1 << (block % 8));
        let taken = map[byte] & mask != 0;
        map[byte] |= mask;
        if taken {
            self.report(What::OwnedTwice(block), holder.0, Some(holder.1), Some(inode));
        }
        !taken
    }

    fn is_owned(&self, block: u64) -> bool {
        let (byte, mask) = ((block % REGION_BLOCKS / 8) as usize, 1 << (block % 8));
        self.owned.get(&(block / REGION_BLOCKS)).is_some_and(|map| map[byte] & mask != 0)
    }

    /// Walks from the root catalogue on.
    pub(super) fn trees(&mut self) {
        let mut catalogue: Block = [0; BLOCK_SIZE];
        for (sector, content) in self.sectors(ROOTS, None) {
            catalogue[sector * SECTOR_SIZE..sector * SECTOR_SIZE + CONTENT].copy_from_slice(&content);
        }
        let root = Root::decode(&catalogue, ROOT_SLOT)
            .filter(|root| root.name.starts_with(ROOT_NAME) && root.template == ROOT);
        let Some(root) = root else { return self.report(What::Root, ROOTS, None, None) };
        self.root = root.block << 5;
        if !self.own(root.block, (ROOTS, 0), self.root) {
            return;
        }
        let block = root.block;
        for (sector, content) in self.sectors(block, Some(self.root)) {
            match sector {
                0 if content[..8] == MAGIC => self.inode(block, 0, 0, &content),
                0 => self.report(What::Root, block, Some(0), None),
                _ => (),
            }
        }
        while let Some(visit) = self.pending.pop() {
            match visit {
                Visit::Node { block, directory, level, prefix } => self.node(block, directory, level, prefix),
                Visit::Indirect { block, file, level, base } => self.indirect(block, file, level, base),
            }
        }
    }

    fn count(&mut self, inode: Number) {
        if let Some(held) = self.inodes.get_mut(&inode) {
            held.blocks += 1;
        }
    }

    fn node(&mut self, block: u64, directory: Number, level: usize, prefix: u64) {
        for (sector, content) in self.sectors(block, Some(directory)) {
            if sector == 0 {
                // A crash can leave a node without its header, and without content.
                let blank = content.iter().all(|byte| *byte == 0);
                if !blank && node::head(&content) != Some((directory, level, prefix)) {
                    self.report(What::Header, block, Some(0), Some(directory));
                }
                self.children(block, directory, level, prefix, &content);
            }
            self.names(block, sector, directory, &content);
            for slot in (0..node::SLOTS).filter(|slot| has_inode(&content, *slot)) {
                self.inode(block, sector, slot, &content);
            }
        }
    }

    fn children(&mut self, block: u64, directory: Number, level: usize, prefix: u64, content: &Content) {
        for index in 0..4 {
            let pointer = node::child(content, index) & BLOCK_BITS;
            if pointer == 0 || !self.own(pointer, (block, 0), directory) {
                continue;
            }
            self.count(directory);
            if level >= MAX_LEVEL {
                self.report(What::Header, block, Some(0), Some(directory));
                continue;
            }
            let prefix = prefix | (index as u64) << (62 - 2 * level);
            self.pending.push(Visit::Node { block: pointer, directory, level: level + 1, prefix });
        }
    }

    fn names(&mut self, block: u64, sector: usize, directory: Number, content: &Content) {
        let Some(list) = node::entries(content) else {
            return self.report(What::Entries, block, Some(sector), Some(directory));
        };
        let head = node::head(content);
        for (index, placed) in list.enumerate().filter(|(_, placed)| placed.entry.state != State::Free) {
            let (entry, name) = (placed.entry, node::name(content, &placed).to_vec());
            let hash = hash::of_name(&name);
            let known = content.get(index) == Some(&hash::fingerprint(hash));
            // Only the first sector says which node it is.
            let on_path = head.is_none_or(|(_, level, prefix)| hash::prefix(hash, level) == prefix);
            if crate::directory::check_name(&name).is_err() || !known || !on_path {
                self.report(What::Name, block, Some(sector), Some(entry.number));
            }
            self.entries.push(Seen { directory, block, sector, entry, name });
        }
    }

    fn inode(&mut self, block: u64, sector: usize, slot: usize, content: &Content) {
        let inode = Inode::decode(&content[inode_place(slot)..]);
        let number = block << 5 | (sector as u64) << 2 | slot as u64;
        let at = (block, sector);
        self.inodes.insert(number, Held { inode, blocks: 0 });
        let known = matches!(inode.mode >> 12, 1 | 2 | 4 | 6 | 8 | 10 | 12);
        if !known || !matches!(inode.state, inode::LIVE | inode::DYING) {
            self.report(What::Inode, block, Some(sector), Some(number));
        }
        let first = inode.pointers[0] & BLOCK_BITS;
        if inode.is_directory() && first != 0 && self.own(first, at, number) {
            self.count(number);
            self.pending.push(Visit::Node { block: first, directory: number, level: 0, prefix: 0 });
        } else if inode.has_long_link() {
            let fits = inode.size < BLOCK_SIZE as u64 && first != 0;
            if !fits {
                self.report(What::Size, block, Some(sector), Some(number));
            }
            if first != 0 && self.own(first, at, number) {
                self.count(number);
            }
        } else if inode.is_file() {
            self.file(number, &inode, at);
        }
    }

    fn file(&mut self, number: Number, inode: &Inode, at: (u64, usize)) {
        if inode.size > MAX_SIZE {
            self.report(What::Size, at.0, Some(at.1), Some(number));
        }
        for (index, pointer) in inode.pointers[..4].iter().enumerate() {
            self.data(number, *pointer, index as u64, at);
        }
        let mut base = DIRECT;
        for level in 1..=3_u32 {
            let block = inode.pointers[3 + level as usize] & BLOCK_BITS;
            if block != 0 && self.own(block, at, number) {
                self.count(number);
                self.pending.push(Visit::Indirect { block, file: number, level, base });
            }
            base += span(level) * BLOCK_POINTERS;
        }
    }

    fn data(&mut self, file: Number, pointer: u64, index: u64, at: (u64, usize)) {
        if pointer & BLOCK_BITS == 0 || !self.own(pointer, at, file) {
            return;
        }
        self.count(file);
        let end = self.inodes.get(&file).map_or(0, |held| held.inode.size.div_ceil(BLOCK_SIZE as u64));
        if pointer & RESERVED_BIT == 0 && index >= end {
            self.report(What::Size, at.0, Some(at.1), Some(file));
        }
    }

    fn indirect(&mut self, block: u64, file: Number, level: u32, base: u64) {
        for (sector, content) in self.sectors(block, Some(file)) {
            let stated = indirect::level(&content);
            if stated == 0 {
                continue;
            }
            if (indirect::owner(&content), stated, get(&content, 504, 4)) != (file, level, base & 0xFFFF_FFFF) {
                self.report(What::Header, block, Some(sector), Some(file));
                continue;
            }
            for entry in 0..SECTOR_POINTERS {
                let pointer = get(&content, 8 * entry as usize, 8);
                let first = base + (sector as u64 * SECTOR_POINTERS + entry) * span(level);
                if level == 1 {
                    self.data(file, pointer, first, (block, sector));
                } else if pointer & BLOCK_BITS != 0 && self.own(pointer, (block, sector), file) {
                    self.count(file);
                    let block = pointer & BLOCK_BITS;
                    self.pending.push(Visit::Indirect { block, file, level: level - 1, base: first });
                }
            }
        }
    }

    /// Compares the free maps of a closed volume with the owners that were found.
    pub(super) fn maps(&mut self) {
        for region in 0..self.superblock.regions() {
            let map = self.superblock.map_block(region);
            let mut bytes: Block = [0; BLOCK_SIZE];
            let good = self.sectors(map, None);
            let mut known = [false; SECTORS];
            for (sector, content) in good {
                known[sector] = true;
                bytes[sector * SECTOR_SIZE..sector * SECTOR_SIZE + CONTENT].copy_from_slice(&content);
            }
            for index in 0..REGION_BLOCKS {
                let block = region * REGION_BLOCKS + index;
                let outside = block >= self.superblock.blocks || self.superblock.is_fixed(block);
                if !known[(index / xn::format::BITS_A_SECTOR) as usize] {
                    continue;
                }
                match (outside || self.is_owned(block), bit(&bytes, index)) {
                    (true, false) => self.report(What::InUse, block, None, None),
                    (false, true) => self.report(What::Leaked, block, None, None),
                    _ => (),
                }
            }
        }
    }

    /// Checks what names and inodes say of each other.
    pub(super) fn settle(&mut self) {
        for (what, block, sector, inode) in names::faults(self) {
            self.report(what, block, sector, Some(inode));
        }
    }

    /// Adds the paths.
    pub(super) fn finish(mut self, closed: bool) -> Examination {
        let mut fixed: Block = [0; BLOCK_SIZE];
        let mut used = 0;
        for region in 0..self.superblock.regions() {
            let first = region * REGION_BLOCKS;
            let end = (first + REGION_BLOCKS).min(self.superblock.blocks);
            fixed.fill(0);
            (first..end)
                .filter(|block| self.superblock.is_fixed(*block))
                .for_each(|block| set_bit(&mut fixed, block - first));
            used += (first..end).filter(|block| bit(&fixed, block - first) || self.is_owned(*block)).count() as u64;
        }
        let mut damages = core::mem::take(&mut self.damages);
        let wanted: BTreeSet<Number> = damages.iter().filter_map(|damage| damage.inode).collect();
        let paths = names::paths(&self, &wanted);
        for damage in &mut damages {
            damage.path = damage.inode.and_then(|number| paths.get(&number).cloned());
        }
        damages.sort_by_key(|damage| (damage.block, damage.sector, damage.what));
        damages.dedup();
        let directories = self.inodes.values().filter(|held| held.inode.is_directory()).count() as u64;
        let inodes = (directories, self.inodes.len() as u64 - directories);
        Examination { closed, blocks: (self.superblock.blocks, used), inodes, damages }
    }
}

const _: () = assert!(template::COUNT <= u8::MAX as usize);
