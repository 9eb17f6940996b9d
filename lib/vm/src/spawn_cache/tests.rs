//! Random children against a model of the kernel's page tables: what the next child finds is what its parent maps.

use super::*;
use crate::page_record::PageRecord;
use crate::table_scan::SPAN;
use abi::page_table::{ACCESSED, DIRTY, MapRow, PAGE, PRESENT, USER, WRITE};
use alloc::collections::{BTreeMap, BTreeSet};
use core::cell::Cell;
use core::ops::Range;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use linux_abi::address_map::{PAGE_MASK, PAGE_SIZE};

const AREA_PLACE: u64 = 0x7d80_0000_0000;
const AREA_PAGES: u64 = 15;
const IMAGE: u64 = 0x7f00_0000_0000;
const PUBLIC: u64 = 40;
const MAILBOX: u64 = 41;
/// Addresses of a program lie in so many leaf tables.
const LEAVES: u64 = 4;

#[derive(Default)]
struct Table {
    level: u64,
    words: Vec<AtomicU64>,
    edits: Cell<u64>,
}

/// An address space, and the pages under the list of its environment.
struct World {
    tables: BTreeMap<u64, Table>,
    under_list: BTreeSet<u64>,
    next: u64,
}

#[derive(Clone, Debug, Default)]
struct Tables(BTreeMap<(u64, u64), PageNumber>);

impl ProgramTables for Tables {
    fn pages(&self) -> impl Iterator<Item = PageNumber> {
        self.0.values().copied()
    }

    fn base_of(&self, table: PageNumber) -> Option<u64> {
        self.0.iter().find(|(_, page)| **page == table).map(|((_, base), _)| *base)
    }
}

const fn span(level: u64) -> u64 {
    PAGE_SIZE << (9 * level)
}

const fn index(level: u64, address: u64) -> usize {
    (address / span(level - 1) % 512) as usize
}

const fn entry(page: u64) -> u64 {
    page << 12 | PRESENT | WRITE
}

const ROOT: u64 = 1;

impl World {
    fn new() -> Self {
        let mut world = Self { tables: BTreeMap::new(), under_list: BTreeSet::new(), next: 1 };
        assert_eq!(world.table(4), ROOT);
        for level in (1..4).rev() {
            world.link(AREA_PLACE, level);
        }
        (0..AREA_PAGES).for_each(|page| world.set(AREA_PLACE + page * PAGE_SIZE, entry(20 + page)));
        world.next = 100;
        world
    }

    fn table(&mut self, level: u64) -> u64 {
        let number = self.next;
        self.next += 1;
        self.under_list.insert(number);
        self.put_table(number, level);
        number
    }

    fn put_table(&mut self, number: u64, level: u64) {
        let words = (0..512).map(|_| AtomicU64::new(0)).collect();
        self.tables.insert(number, Table { level, words, edits: Cell::new(0) });
    }

    /// The table of a level that translates an address.
    fn find(&self, address: u64, level: u64) -> Option<u64> {
        let mut table = ROOT;
        for above in (level + 1..=4).rev() {
            let entry = self.tables[&table].words[index(above, address)].load(Relaxed);
            table = Some(entry >> 12).filter(|_| entry & PRESENT != 0)?;
        }
        Some(table)
    }

    fn write(&self, table: u64, at: usize, entry: u64) {
        let table = &self.tables[&table];
        table.words[at].store(entry, Relaxed);
        table.edits.set(table.edits.get() + 1);
    }

    fn link(&mut self, address: u64, level: u64) -> u64 {
        let table = self.table(level);
        self.link_table(address, level, table);
        table
    }

    fn link_table(&self, address: u64, level: u64, table: u64) {
        let above = self.find(address, level + 1).expect("the table above");
        self.write(above, index(level + 1, address), entry(table));
    }

    fn set(&self, address: u64, entry: u64) {
        let table = self.find(address, 1).expect("a leaf table");
        self.write(table, index(1, address), entry);
    }

    /// All that a program would find.
    fn mapped(&self) -> BTreeMap<u64, u64> {
        let mut found = BTreeMap::new();
        self.walk(ROOT, 0, &mut found);
        found
    }

    fn walk(&self, table: u64, base: u64, found: &mut BTreeMap<u64, u64>) {
        // A table that the record knows as a page is one that was linked as the image.
        let Some(Table { level, words, .. }) = self.tables.get(&table) else {
            found.insert(base, table);
            return;
        };
        for (at, word) in words.iter().enumerate().filter(|(_, word)| word.load(Relaxed) != 0) {
            let (address, entry) = (base + at as u64 * span(level - 1), word.load(Relaxed));
            if *level == 1 {
                found.insert(address, entry & !(ACCESSED | DIRTY | USER));
            } else {
                self.walk(entry >> 12, address, found);
            }
        }
    }

    /// What the kernel leaves of an address space of which only the area stays.
    fn keep_area(&mut self) {
        for level in 2..=4 {
            let table = self.find(AREA_PLACE, level).expect("a table of the area");
            let (words, kept) = (&self.tables[&table].words, index(level, AREA_PLACE));
            words.iter().enumerate().filter(|(at, _)| *at != kept).for_each(|(_, word)| word.store(0, Relaxed));
        }
        let way: Vec<u64> = (1..=4).filter_map(|level| self.find(AREA_PLACE, level)).collect();
        self.tables.retain(|table, _| way.contains(table));
    }
}

impl ChildSpace for World {
    type Tables = Tables;
    const AREA: Range<u64> = AREA_PLACE..AREA_PLACE + AREA_PAGES * PAGE_SIZE;

    fn level(&self, table: PageNumber) -> u64 {
        self.tables.get(&table.0).map_or(0, |table| table.level)
    }

    fn used(&self, _table: PageNumber) -> u8 {
        0xff
    }

    fn edits(&self, table: PageNumber) -> (u64, u64) {
        (1, self.tables.get(&table.0).map_or(0, |table| table.edits.get()))
    }

    fn words(&mut self, table: PageNumber) -> Result<&[AtomicU64]> {
        self.tables.get(&table.0).map(|table| &*table.words).ok_or(Errno::EFAULT)
    }

    fn map(&mut self, rows: &[MapRow]) -> Result<()> {
        rows.iter().for_each(|row| self.set(row.address & PAGE_MASK, row.entry));
        Ok(())
    }

    fn edit(&mut self, tables: &mut Tables, spare: &mut Vec<PageNumber>, rows: &[MapRow]) -> Result<()> {
        for row in rows {
            for level in (1..4).rev() {
                let base = row.address & !(span(level) - 1);
                if tables.0.contains_key(&(level, base)) {
                    continue;
                }
                let table = match spare.pop() {
                    Some(page) => {
                        self.put_table(page.0, level);
                        page.0
                    }
                    None => self.table(level),
                };
                self.link_table(base, level, table);
                tables.0.insert((level, base), PageNumber(table));
            }
        }
        self.map(rows)
    }

    fn unlink_all(&mut self, tables: &mut Tables) -> Result<Vec<PageNumber>> {
        let tops: Vec<u64> = tables.0.keys().filter(|(level, _)| *level == 3).map(|(_, base)| *base).collect();
        tops.into_iter().for_each(|base| self.write(ROOT, index(4, base), 0));
        let pages: Vec<PageNumber> = core::mem::take(tables).0.into_values().collect();
        pages.iter().for_each(|page| drop(self.tables.remove(&page.0)));
        Ok(pages)
    }

    fn link_image(&mut self, table: PageNumber) -> Result<()> {
        self.write(ROOT, index(4, IMAGE), entry(table.0));
        Ok(())
    }
}

/// What a parent maps for its next child.
#[derive(Clone, Default)]
struct Wanted {
    windows: Vec<MapRow>,
    own: Vec<MapRow>,
    data: Vec<MapRow>,
    program: Vec<MapRow>,
}

impl Wanted {
    fn random(random: &mut fastrand::Rng) -> Self {
        let mut page = 200;
        let mut at = |base: u64, count: u64| -> Vec<MapRow> {
            let all = 0..count;
            let taken = all.filter(|_| random.u8(..3) == 0);
            let places: Vec<u64> = taken.collect();
            let row = |place: u64| {
                page += 1;
                MapRow { address: base + place * PAGE_SIZE | 3, entry: entry(page + 7 * random.u64(..2)) }
            };
            places.into_iter().map(row).collect()
        };
        let near = AREA_PLACE + 128 * PAGE_SIZE;
        let (mut windows, own, data) = (at(near, 20), at(near + (40 << 12), 3), at(near + (64 << 12), 20));
        if let Some(first) = windows.first_mut() {
            first.entry = entry(MAILBOX);
        }
        let program = (0..LEAVES).flat_map(|leaf| at(leaf * SPAN + 0x1000, 9)).collect();
        Self { windows, own, data, program }
    }

    fn mapped(&self) -> BTreeMap<u64, u64> {
        let area = (0..AREA_PAGES).map(|page| (AREA_PLACE + page * PAGE_SIZE, entry(20 + page)));
        let all = [&self.windows, &self.own, &self.data, &self.program].into_iter().flatten();
        area.chain(all.map(|row| (row.address & PAGE_MASK, row.entry))).chain([(IMAGE, 90)]).collect()
    }
}

/// What a child did that decides about its entry.
#[derive(Debug, Default)]
struct Deeds {
    tables: bool,
    executed: bool,
    is_spoilt: bool,
}

/// A parent with an entry, and what it has mapped there.
struct Parent {
    world: World,
    entry: Entry<Tables>,
    wanted: Wanted,
    generation: u64,
}

impl Parent {
    fn new() -> Self {
        let world = World::new();
        let way = (1..=4).filter_map(|level| world.find(AREA_PLACE, level)).map(PageNumber).collect();
        let entry = Entry::made((0, 0), world.under_list.len() as u64, RetainedSpace::of_fresh(way));
        Self { world, entry, wanted: Wanted::default(), generation: 0 }
    }

    /// Maps what the next child finds, and has it begin.
    fn fork(&mut self, random: &mut fastrand::Rng) {
        let before = core::mem::take(&mut self.wanted);
        let is_other = self.generation == 0 || random.bool();
        self.wanted = if is_other { Wanted::random(random) } else { before };
        self.generation += u64::from(is_other);
        let Self { world, entry, wanted, generation } = self;
        entry.space.link_image(world, PageNumber(90)).expect("it links");
        match random.u8(..3) {
            0 if entry.space.copy_of(*generation).is_some() => {}
            0 => {
                let (space, spare) = entry.space_and_spare();
                space.map(world, spare, wanted.program.clone()).expect("it maps");
                space.record_copy(*generation, &[]);
            }
            1 => {
                let mut frames = PageRecord::default();
                wanted.program.iter().for_each(|row| _ = frames.set(row.address & PAGE_MASK, row.entry));
                wanted.program = frames.rows();
                let (space, spare) = entry.space_and_spare();
                space.map_prepared(world, spare, (*generation, &frames)).expect("it maps");
            }
            _ => {
                wanted.program.clear();
                let tables = entry.space.drop_program(world).expect("it unlinks");
                entry.spare(Given::Tables).extend(tables);
            }
        }
        let windows = (!entry.space.shows(*generation))
            .then(|| SharedMappings { generation: *generation, rows: wanted.windows.clone() });
        let data = wanted.data.clone().into_iter();
        entry.space.map_memory(world, windows, wanted.own.clone(), data).expect("it maps");
        assert_eq!(world.mapped(), wanted.mapped(), "the next child finds what its parent mapped");
        entry.begin(world);
        assert_eq!(entry.state(), State::Running);
    }

    /// What the parent reads when the child is gone.
    fn observe(&self, list_edits: u64, more: u64, public: u64) -> Makeup {
        let mailboxes = self.world.mapped().values().filter(|entry| *entry & PAGE == MAILBOX << 12).count() as u64;
        Makeup {
            list_edits: (0, list_edits),
            pages: self.world.under_list.len() as u64 + more,
            public,
            mailbox: 1 + mailboxes,
            owns_mailbox: true,
            private_as_made: true,
        }
    }
}

/// The child changes entries of leaf tables, as every child does.
fn change_leaves(world: &World, random: &mut fastrand::Rng) {
    let near = AREA_PLACE + (random.u64(128..300) << 12);
    let program = random.u64(..LEAVES) * SPAN + (random.u64(..12) << 12);
    for address in [near, program] {
        if world.find(address, 1).is_some() {
            let other = [0, entry(random.u64(400..410)), entry(PUBLIC)][random.usize(..3)];
            world.set(address, other);
        }
    }
    // The CPU sets bits by itself.
    for table in world.tables.values().filter(|table| table.level == 1) {
        let used = table.words.iter().filter(|word| word.load(Relaxed) & PRESENT != 0);
        used.for_each(|word| _ = word.fetch_or(ACCESSED | USER, Relaxed));
    }
}

/// The child links tables of its own, which go with it.
fn change_tables(world: &mut World, random: &mut fastrand::Rng) {
    let address = random.u64(..LEAVES + 2) * SPAN;
    let lowest = if world.find(address, 2).is_some() { 1 } else { 3 };
    let leaf = world.link(address, lowest);
    world.under_list.remove(&leaf);
    if lowest == 1 {
        world.set(address, entry(444));
    }
}

/// One child. Whether its entry serves the next one.
fn child(parent: &mut Parent, random: &mut fastrand::Rng) -> bool {
    parent.fork(random);
    let mut deeds = Deeds { executed: random.u8(..8) == 0, ..Deeds::default() };
    (0..random.u8(..6)).for_each(|_| change_leaves(&parent.world, random));
    if random.u8(..6) == 0 {
        change_tables(&mut parent.world, random);
        deeds.tables = true;
    }
    let (list, more, public) = match random.u8(..40) {
        0 => (1, 0, 2),
        1 => (0, 1, 2),
        2 => (0, 0, 3),
        _ => (0, 0, 2),
    };
    deeds.is_spoilt = (list, more, public) != (0, 0, 2);
    let Parent { world, entry, .. } = parent;
    assert!(entry.inspect(world, false).is_err(), "its child runs");
    entry.end();
    let reuse = entry.inspect(world, deeds.executed).expect("it has ended");
    assert_eq!(reuse == Reuse::Area, deeds.tables || deeds.executed, "{deeds:?}");
    if random.u8(..20) == 0 {
        change_tables(world, random);
        deeds.is_spoilt |= reuse == Reuse::Memory;
    }
    if reuse == Reuse::Area {
        world.keep_area();
    }
    entry.renew();
    let served = entry.list_edits.1;
    let Ok(cleared) = entry.clear(world, reuse) else {
        assert!(deeds.is_spoilt, "{deeds:?}");
        assert_eq!(entry.state(), State::Discarded);
        return false;
    };
    for kind in Given::ALL {
        entry.reclaim(kind, &cleared, |_, _| true);
    }
    let observed = parent.observe(served + list, more, public);
    let is_ready = parent.entry.accept(&observed, PageNumber(MAILBOX));
    assert_eq!(is_ready, !deeds.is_spoilt, "{deeds:?} {observed:?}");
    assert_eq!(parent.entry.state(), if is_ready { State::Ready } else { State::Discarded });
    is_ready
}

#[test]
fn the_next_child_finds_nothing_of_the_last_one() {
    let mut served = 0;
    for seed in 0..400 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut parent = Parent::new();
        served += (0..30).take_while(|_| child(&mut parent, &mut random)).count();
    }
    assert!(served > 2_000, "{served} entries served another child");
}

#[test]
fn a_discarded_entry_never_becomes_ready() {
    let mut parent = Parent::new();
    parent.fork(&mut fastrand::Rng::with_seed(1));
    parent.entry.discard();
    parent.entry.end();
    let observed = parent.observe(0, 0, 2);
    assert!(parent.entry.inspect(&parent.world, false).is_err());
    assert!(!parent.entry.accept(&observed, PageNumber(MAILBOX)));
    parent.entry.begin(&parent.world);
    assert_eq!(parent.entry.state(), State::Discarded);
}

#[test]
fn an_entry_whose_child_runs_is_discarded_and_not_given_to_another() {
    let mut parent = Parent::new();
    assert_eq!(Entry::<Tables>::default().state(), State::Empty);
    parent.fork(&mut fastrand::Rng::with_seed(2));
    parent.entry.begin(&parent.world);
    assert_eq!(parent.entry.state(), State::Discarded);
}

#[test]
fn a_child_of_its_parents_tables_leaves_only_its_area() {
    let mut parent = Parent::new();
    parent.entry.space.share();
    parent.fork(&mut fastrand::Rng::with_seed(3));
    parent.entry.end();
    assert_eq!(parent.entry.inspect(&parent.world, false), Ok(Reuse::Area));
}

#[test]
fn each_part_of_the_makeup_counts() {
    let spoil: [fn(&mut Makeup); 6] = [
        |made| made.list_edits.0 += 1,
        |made| made.pages -= 1,
        |made| made.public -= 1,
        |made| made.mailbox += 1,
        |made| made.owns_mailbox = false,
        |made| made.private_as_made = false,
    ];
    for (at, spoil) in spoil.iter().enumerate() {
        let mut parent = Parent::new();
        parent.fork(&mut fastrand::Rng::with_seed(4));
        parent.entry.end();
        let _ = parent.entry.clear(&mut parent.world, Reuse::Memory);
        let mut observed = parent.observe(0, 0, 2);
        let mut other = parent.entry.clone();
        assert!(other.accept(&observed, PageNumber(MAILBOX)));
        spoil(&mut observed);
        assert!(!parent.entry.accept(&observed, PageNumber(MAILBOX)), "part {at}");
    }
}
