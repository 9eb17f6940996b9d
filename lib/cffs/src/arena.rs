//! Memory of one mounted volume: XN's tables and the pages of the cache.

use crate::template::Native;
use alloc::vec;
use alloc::vec::Vec;
use xn::block::BlockInfo;
use xn::error::Result;
use xn::format::{BLOCK_SIZE, Block, MAX_TEMPLATES, Superblock};
use xn::frames::Frames;
use xn::ledger::Record;
use xn::region_map::{MAP_WORDS, Maps};
use xn::registry::Registry;
use xn::template::{Template, Templates};
use xn::tree::{Tree, Trees};
use xn::volume::{Memory, Volume, Workspace};

/// Contents of the cached blocks.
#[derive(Default)]
pub struct Pages {
    pub(crate) blocks: Vec<Block>,
    /// Whether they get checksums before they are written: see `Device::seals`.
    pub(crate) sealed: bool,
}

impl Frames for Pages {
    fn load(&self, page: usize, offset: usize, into: &mut [u8]) {
        into.copy_from_slice(&self.blocks[page][offset..offset + into.len()]);
    }

    fn are_sealed(&self) -> bool {
        self.sealed
    }

    fn store(&mut self, page: usize, offset: usize, from: &[u8]) {
        self.blocks[page][offset..offset + from.len()].copy_from_slice(from);
    }
}

/// The tables. Their sizes follow from the number of cached blocks and from the volume.
pub struct Arena {
    blocks: Vec<BlockInfo>,
    slots: Vec<u32>,
    maps: Vec<[u64; MAP_WORDS]>,
    directory: Vec<u32>,
    templates: [Template; MAX_TEMPLATES],
    trees: Vec<Tree>,
    ledger: Vec<Record>,
    workspace: Workspace,
}

/// Least number of cached blocks: the deepest path, twice, and one transaction.
pub const MIN_PAGES: usize = 64;

impl Arena {
    /// Tables for a cache of `pages` blocks (at least [`MIN_PAGES`]) and `records` ranges of held blocks (at least
    /// 128).
    pub fn new(pages: usize, records: usize) -> Self {
        let pages = pages.max(MIN_PAGES);
        Self {
            blocks: vec![BlockInfo::default(); pages],
            slots: vec![0; (2 * pages).next_power_of_two()],
            maps: Vec::new(),
            directory: Vec::new(),
            templates: [Template::NONE; MAX_TEMPLATES],
            trees: vec![Tree::default(); 4],
            ledger: vec![Record::default(); records.max(128)],
            workspace: Workspace::default(),
        }
    }

    /// Number of cached blocks.
    pub fn pages(&self) -> usize {
        self.blocks.len()
    }

    /// Clears the tables and makes an XN volume of them.
    pub(crate) fn volume(&mut self, superblock: Superblock) -> Result<Volume<'_, Pages, Native>> {
        let regions = superblock.regions() as usize;
        self.blocks.fill(BlockInfo::default());
        self.slots.fill(0);
        self.templates.fill(Template::NONE);
        self.maps.resize(regions, [0; MAP_WORDS]);
        self.directory.clear();
        self.directory.resize(regions, 0);
        let pages = Pages { blocks: vec![[0; BLOCK_SIZE]; self.blocks.len()], sealed: true };
        let memory = Memory {
            registry: Registry { blocks: &mut self.blocks, slots: &mut self.slots },
            maps: Maps { pages: &mut self.maps, directory: &mut self.directory },
            templates: Templates(&mut self.templates),
            trees: Trees(&mut self.trees),
            ledger: &mut self.ledger,
            workspace: &mut self.workspace,
        };
        Volume::new(1, superblock, memory, pages, Native)
    }
}
