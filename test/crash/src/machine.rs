//! The memory of one XN, and what a kernel does around it: transfers, mount, recovery.

use crate::disk::{Cell, Disk};
use crate::templates::{ENTRIES, Entry, FIRST_ENTRY, LEAF, Native, records};
use std::cell::RefCell;
use std::rc::Rc;
use xn::access::Caller;
use xn::binding::Bound;
use xn::block::BlockInfo;
use xn::error::Error;
use xn::format::{BLOCK_SIZE, Block, MAX_TEMPLATES, SECTOR_SIZE, SECTORS, State, Superblock, initial_block};
use xn::frames::Frames;
use xn::ledger::Record;
use xn::region_map::{MAP_WORDS, Maps, Use};
use xn::registry::Registry;
use xn::template::{Template, Templates};
use xn::tree::{Tree, Trees};
use xn::volume::{Memory, Volume, Work, Workspace};

/// Blocks of a volume: the fixed ones, and few enough others that they are reused soon.
pub const BLOCKS: u64 = 380;
/// Pages of the registry.
pub const PAGES: usize = 160;

/// Pages that XN and the client share.
#[derive(Clone)]
pub struct Pages(pub Rc<RefCell<Vec<Block>>>);

impl Frames for Pages {
    fn load(&self, page: usize, offset: usize, into: &mut [u8]) {
        into.copy_from_slice(&self.0.borrow()[page][offset..offset + into.len()]);
    }

    fn store(&mut self, page: usize, offset: usize, from: &[u8]) {
        self.0.borrow_mut()[page][offset..offset + from.len()].copy_from_slice(from);
    }
}

/// Memory for one volume.
pub struct Arena {
    blocks: Vec<BlockInfo>,
    slots: Vec<u32>,
    maps: Vec<[u64; MAP_WORDS]>,
    directory: Vec<u32>,
    templates: [Template; MAX_TEMPLATES],
    trees: Vec<Tree>,
    ledger: Vec<Record>,
    workspace: Workspace,
    pages: Pages,
}

pub type Xn<'a> = Volume<'a, Pages, Native>;

impl Default for Arena {
    fn default() -> Self {
        Self {
            blocks: vec![BlockInfo::default(); PAGES],
            slots: vec![0; 512],
            maps: vec![[0; MAP_WORDS]; 1],
            directory: vec![0],
            templates: [Template::NONE; MAX_TEMPLATES],
            trees: vec![Tree::default(); 24],
            ledger: vec![Record::default(); 64],
            workspace: Workspace::default(),
            pages: Pages(Rc::new(RefCell::new(vec![[0; BLOCK_SIZE]; PAGES]))),
        }
    }
}

impl Arena {
    /// Mounts what the disk holds: by its maps if it is clean, else by recovery. Page 0 holds the catalogue.
    pub fn mount(&mut self, cells: &[Cell]) -> Result<Xn<'_>, Error> {
        self.blocks.fill(BlockInfo::default());
        self.slots.fill(0);
        self.templates.fill(Template::NONE);
        let superblock = Superblock::decode(&cells[0], 0)?;
        let memory = Memory {
            registry: Registry { blocks: &mut self.blocks, slots: &mut self.slots },
            maps: Maps { pages: &mut self.maps, directory: &mut self.directory },
            templates: Templates(&mut self.templates),
            trees: Trees(&mut self.trees),
            ledger: &mut self.ledger,
            workspace: &mut self.workspace,
        };
        let mut xn = Volume::new(1, superblock, memory, self.pages.clone(), Native)?;
        for (slot, record) in records().into_iter().enumerate() {
            xn.memory.templates.load(slot as u8, record, &Native)?;
        }
        xn.open_catalogue(0)?;
        read(&mut xn, 0, cells)?;
        if superblock.state == State::Clean {
            xn.load_map(0, 0, Some(&cells[superblock.map_block(0) as usize]))?;
        } else {
            xn.load_map(0, 0, None)?;
            recover(&mut xn, cells)?;
        }
        Ok(xn)
    }
}

/// Reads the block of a page that was just bound.
pub fn read(xn: &mut Xn<'_>, page: usize, cells: &[Cell]) -> Result<(), Error> {
    let block = xn.info(page)?.block();
    xn.frames.store(page, 0, &cells[block as usize][..]);
    xn.read_done(page, true)
}

/// A page that caches nothing.
pub fn unused_page(xn: &Xn<'_>) -> Option<usize> {
    xn.memory.registry.blocks.iter().position(|info| info.name == 0)
}

/// The entries of a metadata page: sector, offset in the block, entry.
pub fn entries(xn: &Xn<'_>, page: usize) -> Vec<(usize, usize, Option<Entry>)> {
    let template = usize::from(xn.memory.registry.blocks[page].template);
    let pages = xn.frames.0.borrow();
    let Some(count) = ENTRIES.get(template) else { return Vec::new() };
    let places = (0..SECTORS).flat_map(|sector| (0..*count).map(move |index| (sector, index)));
    let at = places.map(|(sector, index)| (sector, sector * SECTOR_SIZE + FIRST_ENTRY + index * 16));
    at.map(|(sector, at)| (sector, at, Entry::decode(&pages[page][at..at + 16]))).collect()
}

/// Walks all trees depth first; pages of the way stay bound.
fn recover(xn: &mut Xn<'_>, cells: &[Cell]) -> Result<(), Error> {
    xn.recovery_start()?;
    for slot in 0..xn::format::MAX_ROOTS {
        if xn.root(slot)?.is_none() {
            continue;
        }
        let tree = xn.root_mount(slot)?;
        if xn.memory.trees.get(tree).template == LEAF {
            continue;
        }
        let page = unused_page(xn).ok_or(Error::Exhausted)?;
        xn.bind_root(&Caller::default(), tree, page)?;
        read(xn, page, cells)?;
        visit(xn, page, cells)?;
    }
    xn.recovery_end()
}

fn visit(xn: &mut Xn<'_>, page: usize, cells: &[Cell]) -> Result<(), Error> {
    let mut cursor = 0;
    while let Err(error) = xn.check(page, cursor) {
        match error {
            Error::Again(next) => cursor = next,
            other => return Err(other),
        }
    }
    for (sector, _, entry) in entries(xn, page) {
        let Some(entry) = entry.filter(|entry| entry.template < LEAF) else { continue };
        for block in entry.block..entry.block + entry.count {
            let child = unused_page(xn).ok_or(Error::Exhausted)?;
            if xn.bind(&Caller::default(), page, sector, block, child)? == Bound::Reading {
                read(xn, child, cells)?;
            }
            visit(xn, child, cells)?;
        }
    }
    xn.release(page)
}

/// The blocks that the map calls owned, without the fixed ones.
pub fn owned(xn: &Xn<'_>) -> Vec<u64> {
    let superblock = xn.superblock();
    let trees = (0..BLOCKS).filter(|block| !superblock.is_fixed(*block));
    trees.filter(|block| xn.memory.maps.get(*block) != Ok(Use::Free)).collect()
}

/// Drives `start` or `stop` to its end, each step awaited.
pub fn drive(xn: &mut Xn<'_>, disk: &mut Disk, stop: bool) -> Result<(), Error> {
    let mut buffer = [0; BLOCK_SIZE];
    loop {
        let work = if stop { xn.stop(&mut buffer)? } else { xn.start(&mut buffer)? };
        if let Work::Seal(block) = work {
            xn::format::seal(&xn.superblock().volume, block, &mut buffer);
        }
        match work {
            Work::Seal(block) => disk.write(block, &buffer),
            Work::Flush => disk.flush(),
            Work::Again => (),
            Work::Done => return Ok(()),
        }
    }
}

/// A new, clean volume. Blocks that no one has written hold a pattern that no tag equals.
pub fn format() -> Vec<Cell> {
    let superblock = Superblock { state: State::Clean, blocks: BLOCKS, volume: *b"ghosts and tags!", mounts: 0 };
    let cell = |block| {
        let mut bytes = [0; BLOCK_SIZE];
        if !initial_block(&superblock, block, &mut bytes) {
            bytes.fill(0xA5);
        }
        Rc::new(bytes)
    };
    (0..BLOCKS).map(cell).collect()
}
