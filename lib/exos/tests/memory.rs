//! Areas against a naive model, and faults, fork and protection over simulated pages.

use abi::page_table::{MapRow, PAGE, PRESENT, WRITE};
use exos::errno::{Errno, Result};
use exos::layout::{LEAST_ADDRESS, MMAP_TOP, PAGE_SIZE};
use exos::memory::advice::Advice;
use exos::memory::area::{Area, Areas, Backing, Protection};
use exos::memory::draft::Draft;
use exos::memory::fill::ZEROS;
use exos::memory::frames::{COPY_ON_WRITE, FROM_FILE, Frames, TOGETHER, page_of};
use exos::memory::remap::Remap;
use exos::memory::space::{Access, Pages, Space, Violation};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

const BASE: u64 = 0x10_0000;

/// Of each page its protection and, if it is a file's, its number there; few ranges are long, so that there are many areas.
#[test]
fn areas_agree_with_a_page_by_page_model() {
    const SPAN: u64 = 150;
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut areas = Areas::default();
        let mut model = [None; SPAN as usize];
        for step in 0..200 {
            let start = random.u64(..SPAN);
            let end = (start + if random.u8(..8) == 0 { random.u64(1..SPAN) } else { random.u64(1..4) }).min(SPAN);
            let (from, to) = (BASE + start * PAGE_SIZE, BASE + end * PAGE_SIZE);
            let protection = Protection(random.u8(..4));
            let range = start as usize..end as usize;
            match random.u8(..4) {
                0 | 1 => {
                    // Parts of one file join where they go on.
                    let offset = random.bool().then(|| random.u64(..2) * 10 * PAGE_SIZE + from);
                    let file = |offset| Backing::File { node: 7, offset, writable: true };
                    let backing = offset.map_or(Backing::Anonymous, file);
                    areas.insert(Area { backing, ..Area::anonymous(from, to, protection) });
                    let pages = model[range].iter_mut().zip((0..).step_by(PAGE_SIZE as usize));
                    pages.for_each(|(page, at)| *page = Some((protection, offset.map(|offset| offset + at))));
                }
                2 => {
                    areas.remove(from, to);
                    model[range].fill(None);
                }
                _ => {
                    let hole = model[range.clone()].iter().position(Option::is_none);
                    let covered = hole.unwrap_or(range.len());
                    let mut seen = from;
                    let changed = areas.change(from, to, |area| {
                        assert_eq!((area.start, area.end <= to), (seen, true), "seed {seed}, step {step}");
                        seen = area.end;
                        area.protection = protection;
                        Ok(())
                    });
                    assert_eq!(changed.is_err(), hole.is_some());
                    let pages = model[range.start..range.start + covered].iter_mut().flatten();
                    pages.for_each(|(before, _)| *before = protection);
                }
            }
            areas_are(&areas, &model, &format!("seed {seed}, step {step}"));
            let inside = areas.within(from, to);
            assert_eq!(inside.iter().map(Area::bytes).sum::<u64>(), bytes_of(&model[start as usize..end as usize]));
            assert!(inside.iter().all(|area| from <= area.start && area.end <= to));
            assert_eq!(areas.is_free(from, to), inside.is_empty());
        }
    }
}

fn bytes_of<T>(pages: &[Option<T>]) -> u64 {
    pages.iter().flatten().count() as u64 * PAGE_SIZE
}

type Meaning = (Protection, Option<u64>);

/// Every page means what the model says, and no two areas could be one.
fn areas_are(areas: &Areas, model: &[Option<Meaning>], when: &str) {
    let meaning = |area: &Area, address: u64| {
        let offset = match area.backing {
            Backing::File { offset, .. } => Some(offset + (address - area.start)),
            _ => None,
        };
        (area.protection, offset)
    };
    for (expected, address) in model.iter().zip((BASE..).step_by(PAGE_SIZE as usize)) {
        let found = areas.find(address + 7).map(|area| meaning(area, address));
        assert_eq!(found, *expected, "{when}, {address:#x}");
    }
    let all: Vec<&Area> = areas.iter().collect();
    assert_eq!((all.len(), areas.bytes()), (areas.count(), bytes_of(model)), "{when}");
    for two in all.windows(2) {
        let touch = two[0].end == two[1].start;
        let goes_on = meaning(two[0], two[1].start) == meaning(two[1], two[1].start);
        assert!(two[0].end <= two[1].start && !(touch && goes_on), "{when}");
    }
}

#[test]
fn places_are_found_from_above_and_never_overlap() {
    let mut areas = Areas::default();
    for count in 1..200 {
        let place = areas.find_place(count * PAGE_SIZE).expect("there is room");
        assert!(areas.is_free(place, place + count * PAGE_SIZE) && place + count * PAGE_SIZE <= MMAP_TOP);
        areas.insert(Area::anonymous(place, place + count * PAGE_SIZE, Protection::READ));
    }
    assert_eq!(areas.find_place(MMAP_TOP), Err(Errno::ENOMEM));
    areas.insert(Area::anonymous(LEAST_ADDRESS, MMAP_TOP, Protection::READ));
    assert_eq!(areas.find_place(PAGE_SIZE), Err(Errno::ENOMEM));
}

#[test]
fn frames_remember_what_was_set() {
    let mut random = fastrand::Rng::with_seed(1);
    let (mut frames, mut model) = (Frames::default(), BTreeMap::new());
    for _ in 0..5000 {
        let address = random.u64(..2000) * PAGE_SIZE * random.u64(1..4);
        let entry = if random.bool() { 0 } else { random.u64(1..) };
        let before = if entry == 0 { model.remove(&address) } else { model.insert(address, entry) };
        assert_eq!(frames.set(address, entry), before.unwrap_or(0));
        assert_eq!(frames.len(), model.len());
    }
    let all: Vec<(u64, u64)> = frames.within(0, u64::MAX >> 1).collect();
    assert_eq!(all, model.into_iter().collect::<Vec<_>>());
}

/// Every way to change many entries at once agrees with changing one after the other.
#[test]
fn frames_count_what_is_a_files_and_take_out_what_is_asked() {
    const SPAN: u64 = 300;
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut frames, mut model) = (Frames::default(), BTreeMap::new());
        for step in 0..60 {
            let [start, length] = [random.u64(..SPAN), random.u64(1..90)];
            let (from, to) = (start * PAGE_SIZE, (start + length) * PAGE_SIZE);
            let mut entry = || random.u64(1..1 << 30) << 12 | if random.bool() { FROM_FILE } else { 0 };
            match step % 5 {
                0 => {
                    let rows: Vec<MapRow> =
                        (0..length).map(|page| MapRow { address: from + page * PAGE_SIZE, entry: entry() }).collect();
                    frames.set_rows(&rows);
                    model.extend(rows.iter().map(|row| (row.address, row.entry)));
                }
                1 => {
                    let entries: Vec<u64> = (0..length).map(|page| if page % 3 == 0 { 0 } else { entry() }).collect();
                    frames.set_many(from, &entries);
                    let there = (from..).step_by(PAGE_SIZE as usize).zip(entries).filter(|(_, entry)| *entry != 0);
                    model.extend(there);
                }
                2 => {
                    let expected: Vec<(u64, u64)> = model.range(from..to).map(|(at, entry)| (*at, *entry)).collect();
                    assert_eq!(frames.take(from, to), expected, "seed {seed}");
                    expected.iter().for_each(|(at, _)| _ = model.remove(at));
                }
                3 if random.u8(..4) == 0 => {
                    let kept = start / TOGETHER * TOGETHER * PAGE_SIZE;
                    frames.forget_files(&[kept]);
                    let stays = |at: &u64| (kept..kept + TOGETHER * PAGE_SIZE).contains(at);
                    model.retain(|at, entry| *entry & FROM_FILE == 0 || stays(at));
                }
                _ => {
                    let (entry, missing) = frames.look(from, 8);
                    let is_empty = |page: &u64| !model.contains_key(&(page * PAGE_SIZE));
                    assert_eq!(entry, model.get(&from).copied().unwrap_or(0), "seed {seed}, step {step}");
                    // As many as lie together with it in what is kept, or fewer.
                    let empty = (start..start + 8).take_while(is_empty).count();
                    assert!(missing <= empty && (missing > 0) == (entry == 0), "seed {seed}, step {step}");
                    assert!(
                        missing == empty || (start + missing as u64).is_multiple_of(64),
                        "seed {seed}, step {step}"
                    );
                    let within: Vec<(u64, u64)> = frames.within(from + 1, to - 1).collect();
                    assert_eq!(
                        within,
                        model.range(from + 1..to - 1).map(|(at, entry)| (*at, *entry)).collect::<Vec<_>>()
                    );
                }
            }
            let files = || model.iter().filter(|(_, entry)| **entry & FROM_FILE != 0).map(|(at, entry)| (*at, *entry));
            assert_eq!((frames.len(), frames.of_files()), (model.len(), files().count()), "seed {seed}, step {step}");
            assert!(frames.of_files_within(0, u64::MAX >> 1).eq(files()), "seed {seed}, step {step}");
            assert_eq!(frames.all(), model.iter().map(|(at, entry)| (*at, *entry)).collect::<Vec<_>>());
        }
    }
}

/// Where the pages of files lie in the machine, and how many a file has.
const FILE: u64 = 1 << 20;
const FILE_PAGES: u64 = 50;

/// The memory of a machine with two processes: contents by page, and who pays.
#[derive(Default)]
struct Machine {
    contents: BTreeMap<u64, u8>,
    owner: BTreeMap<u64, u32>,
    next: u64,
    /// Number of the last page that there is; 0: there are enough.
    last: u64,
}

/// One process's tables over the machine.
struct Process {
    number: u32,
    machine: Rc<RefCell<Machine>>,
    table: BTreeMap<u64, u64>,
    others: Rc<RefCell<Vec<BTreeMap<u64, u64>>>>,
    /// How many rows can still be changed that were not yet, each in a table that takes memory, and those that were; none:
    /// as many as one likes.
    rows_left: Option<(usize, BTreeSet<u64>)>,
    /// Pages that are at hand for a program that begins.
    at_hand: usize,
}

impl Process {
    fn publish(&self) {
        self.others.borrow_mut()[self.number as usize] = self.table.clone();
    }

    fn write(&mut self, space: &mut Space, address: u64, value: u8) -> std::result::Result<(), Violation> {
        while self.table.get(&address).is_none_or(|entry| entry & WRITE == 0) {
            space.fault(self, address + 5, Access::Write)?;
        }
        self.machine.borrow_mut().contents.insert(page_of(self.table[&address]), value);
        Ok(())
    }

    fn read(&mut self, space: &mut Space, address: u64) -> std::result::Result<u8, Violation> {
        while !self.table.contains_key(&address) {
            space.fault(self, address, Access::Read)?;
        }
        Ok(self.machine.borrow().contents[&page_of(self.table[&address])])
    }
}

impl Process {
    fn copy_page(&self, from: u64, to: u64) -> Result<()> {
        let mut machine = self.machine.borrow_mut();
        let value = machine.contents[&from];
        machine.contents.insert(to, value);
        Ok(())
    }
}

impl Pages for Process {
    fn allocate(&mut self) -> Result<u64> {
        let mut machine = self.machine.borrow_mut();
        if machine.next + 1 > machine.last && machine.last != 0 {
            return Err(Errno::ENOMEM);
        }
        machine.next += 1;
        let page = machine.next;
        machine.contents.insert(page, 0);
        machine.owner.insert(page, self.number);
        Ok(page)
    }
    fn supply(&mut self, start: u64, entries: &mut [u64]) -> usize {
        for (done, entry) in entries.iter_mut().enumerate() {
            let Ok(page) = self.allocate() else { return done };
            let address = start + done as u64 * PAGE_SIZE;
            assert!(*entry & PRESENT != 0, "what is supplied is mapped");
            if page_of(*entry) != ZEROS {
                self.copy_page(page_of(*entry), page).expect("the source is there");
            }
            let mapped = MapRow { address, entry: *entry & !PAGE | page << 12 };
            if self.map(&[mapped]).is_err() {
                self.release(&[page]);
                return done;
            }
            *entry = mapped.entry;
        }
        entries.len()
    }
    fn take_used(&mut self, places: &mut [u64]) -> usize {
        let mut used = 0;
        for place in places.iter_mut().take(self.at_hand) {
            let Ok(page) = self.allocate() else { break };
            // What the program before wrote.
            self.machine.borrow_mut().contents.insert(page, 0xee);
            *place = page;
            used += 1;
        }
        self.at_hand -= used;
        used
    }
    fn owns(&self, pages: &[u64]) -> bool {
        pages.iter().all(|page| self.machine.borrow().owner.get(page) == Some(&self.number))
    }
    fn clear_at(&mut self, addresses: &[u64]) {
        for address in addresses {
            assert!(self.table[address] & WRITE != 0, "it may be written");
            self.machine.borrow_mut().contents.insert(page_of(self.table[address]), 0);
        }
    }
    fn release(&mut self, pages: &[u64]) {
        pages.iter().for_each(|page| {
            let mut machine = self.machine.borrow_mut();
            if machine.owner.get(page) == Some(&self.number) {
                machine.owner.remove(page);
            }
        });
    }
    fn map(&mut self, rows: &[MapRow]) -> Result<()> {
        for row in rows {
            let is_there = row.entry & PRESENT != 0 || self.table.contains_key(&row.address);
            if let Some((left, changed)) = &mut self.rows_left
                && is_there
                && !changed.contains(&row.address)
            {
                *left = left.checked_sub(1).ok_or(Errno::ENOMEM)?;
                changed.insert(row.address);
            }
            match row.entry & PRESENT {
                0 => self.table.remove(&row.address),
                _ => self.table.insert(row.address, row.entry),
            };
        }
        self.publish();
        Ok(())
    }
    fn allocate_copies(&mut self, places: &mut [u64]) -> Result<()> {
        let originals = places.to_vec();
        self.allocate_many(places)?;
        originals.iter().zip(places).try_for_each(|(from, to)| self.copy_page(*from, *to))
    }
    fn copy_to(&mut self, copies: &[(u64, u64)]) -> Result<()> {
        copies.iter().try_for_each(|(page, address)| self.copy_page(*page, page_of(self.table[address])))
    }
    fn fill(&mut self, page: u64, contents: &[u8]) -> Result<()> {
        self.machine.borrow_mut().contents.insert(page, contents[0]);
        Ok(())
    }
    fn read(&mut self, page: u64) -> Result<Vec<u8>> {
        Ok(vec![self.machine.borrow().contents[&page]; PAGE_SIZE as usize])
    }
    fn is_sole(&self, page: u64) -> bool {
        let mapped = |table: &BTreeMap<u64, u64>| table.values().filter(|entry| page_of(**entry) == page).count();
        let references: usize = self.others.borrow().iter().map(mapped).sum();
        self.machine.borrow().owner.get(&page) == Some(&self.number) && references == 1
    }
    /// Page `n` of file `f` is page `FILE + f * 1000 + n` of the machine and holds `n`; every third is not in memory.
    fn file_pages(&mut self, node: u64, wanted: u64, _: bool, first: u64, numbers: &mut [u64]) -> Result<bool> {
        for (index, number) in (first..).zip(numbers).filter(|(index, _)| *index == wanted || index % 3 != 0) {
            if index < FILE_PAGES {
                *number = FILE + node * 1000 + index;
                self.machine.borrow_mut().contents.insert(*number, index as u8);
            }
        }
        Ok(wanted < FILE_PAGES)
    }
    fn working_set(&mut self, node: u64, first: u64, end: u64) -> Result<Vec<(u64, u64)>> {
        let set: Vec<u64> = (first..end.min(FILE_PAGES)).filter(|index| node == 4 && index % 5 == 1).collect();
        set.iter()
            .for_each(|index| _ = self.machine.borrow_mut().contents.insert(FILE + node * 1000 + index, *index as u8));
        Ok(set.into_iter().map(|index| (index, FILE + node * 1000 + index)).collect())
    }
    fn allocate_many(&mut self, places: &mut [u64]) -> Result<()> {
        let machine = self.machine.borrow();
        if machine.last != 0 && machine.next + places.len() as u64 > machine.last {
            return Err(Errno::ENOMEM);
        }
        drop(machine);
        places.iter_mut().try_for_each(|place| self.allocate().map(|page| *place = page))
    }
    fn prepare(&mut self, _: u64) -> Result<()> {
        Ok(())
    }
    fn hold_file(&mut self, _: u64, _: bool) {}
}

#[test]
fn after_fork_each_sees_what_was_and_its_own_writes() {
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let machine = Rc::new(RefCell::new(Machine::default()));
        let others = Rc::new(RefCell::new(vec![BTreeMap::new(); 2]));
        let process = |number| Process {
            number,
            machine: machine.clone(),
            table: BTreeMap::new(),
            others: others.clone(),
            rows_left: None,
            at_hand: 0,
        };
        let (mut parent, mut child) = (process(0), process(1));
        let mut space = Space::default();
        space.map(&mut parent, Area::anonymous(BASE, BASE + 8 * PAGE_SIZE, Protection::READ_WRITE)).expect("it maps");
        let mut expected = [[0u8; 8]; 2];
        for _ in 0..random.usize(..12) {
            let (page, value) = (random.usize(..8), random.u8(..));
            parent.write(&mut space, BASE + page as u64 * PAGE_SIZE, value).expect("it may");
            expected[0][page] = value;
        }
        space.share_for_fork(&mut parent, &[], |_, _| {}).expect("it forks");
        assert!(parent.table.values().all(|entry| entry & WRITE == 0), "seed {seed}");
        expected[1] = expected[0];
        child.table = parent.table.clone();
        child.publish();
        let mut spaces = [space.clone(), space];
        // Some go from page to page, so that several are copied for one fault, in a machine that may have too few.
        let mut last = 0;
        let few = machine.borrow().next + 16;
        machine.borrow_mut().last = if random.bool() { few } else { 0 };
        for step in 0..60 {
            let (who, value) = (random.usize(..2), random.u8(..));
            let page = if random.u8(..3) > 0 { (last + 1) % 8 } else { random.usize(..8) };
            last = page;
            let actor = if who == 0 { &mut parent } else { &mut child };
            let address = BASE + page as u64 * PAGE_SIZE;
            if random.bool() {
                actor.write(&mut spaces[who], address, value).expect("it may");
                expected[who][page] = value;
            }
            assert_eq!(actor.read(&mut spaces[who], address), Ok(expected[who][page]), "seed {seed}, step {step}");
        }
    }
}

/// One process alone in a machine.
fn alone() -> Process {
    let machine = Rc::new(RefCell::new(Machine::default()));
    Process {
        number: 0,
        machine,
        table: BTreeMap::new(),
        others: Rc::new(RefCell::new(vec![BTreeMap::new()])),
        rows_left: None,
        at_hand: 0,
    }
}

#[test]
fn pages_of_a_file_bring_their_neighbours_and_are_copied_when_written() {
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut process, mut space) = (alone(), Space::default());
        let (skipped, count) = (random.u64(..30), random.u64(1..60));
        let start = BASE + random.u64(..20) * PAGE_SIZE;
        // Of file 4 it is known what programs touch.
        let backing = Backing::File { node: random.u64(3..5), offset: skipped * PAGE_SIZE, writable: false };
        let area = Area { backing, ..Area::anonymous(start, start + count * PAGE_SIZE, Protection::READ_WRITE) };
        space.map(&mut process, area).expect("it maps");
        let mut written = BTreeMap::new();
        for step in 0..40 {
            let (page, value) = (random.u64(..count), random.u8(100..));
            let (address, index) = (start + page * PAGE_SIZE, skipped + page);
            let past_end = index >= FILE_PAGES;
            if random.bool() {
                let outcome = process.write(&mut space, address, value);
                assert_eq!(outcome.is_err(), past_end, "seed {seed}, step {step}");
                outcome.into_iter().for_each(|()| _ = written.insert(page, value));
            }
            let expected =
                if past_end { Err(Violation::PastEnd) } else { Ok(written.get(&page).copied().unwrap_or(index as u8)) };
            assert_eq!(process.read(&mut space, address), expected, "seed {seed}, step {step}");
            // What the record says is what the tables hold, all of it in the area, and nobody writes a file's page.
            let recorded: BTreeMap<u64, u64> = space.frames.within(0, u64::MAX >> 1).collect();
            assert_eq!(recorded, process.table, "seed {seed}, step {step}");
            assert!(recorded.keys().all(|at| (area.start..area.end).contains(at)), "seed {seed}, step {step}");
            assert!(recorded.values().all(|entry| (page_of(*entry) >= FILE) == (entry & WRITE == 0)));
        }
    }
}

/// Memory is moved and taken away whole, or stays as it was, wherever the memory for page tables ends.
#[test]
fn what_cannot_be_moved_or_taken_away_is_still_there() {
    for seed in 0..1000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut process, mut space) = (alone(), Space::default());
        let count = random.u64(1..12);
        let at = |page: u64| BASE + page * PAGE_SIZE;
        let old = Area::anonymous(at(0), at(count), Protection::READ_WRITE);
        space.map(&mut process, old).expect("it maps");
        for page in (0..count).filter(|_| random.bool()).collect::<Vec<_>>() {
            process.write(&mut space, at(page), page as u8 + 1).expect("it may");
        }
        let before: Vec<u8> = (0..count).map(|page| process.read(&mut space, at(page)).expect("it is there")).collect();
        process.rows_left = Some((random.usize(..30), BTreeSet::new()));
        let new = at(20)..at(20 + count + random.u64(..4));
        let outcome = match random.u8(..3) {
            0 => space.unmap(&mut process, at(0), at(count)),
            1 => space.drop_pages(&mut process, at(0), at(count)),
            _ => space.move_area(&mut process, old, new.clone(), random.bool()),
        };
        process.rows_left = None;
        let has_moved = space.areas.find(new.start).is_some();
        if outcome.is_err() || has_moved {
            assert_eq!(has_moved, outcome.is_ok(), "seed {seed}");
            let start = if has_moved { new.start } else { at(0) };
            for (page, expected) in (start..).step_by(PAGE_SIZE as usize).zip(&before) {
                assert_eq!(process.read(&mut space, page), Ok(*expected), "seed {seed}");
            }
        }
        let recorded: BTreeMap<u64, u64> = space.frames.within(0, u64::MAX >> 1).collect();
        assert!(process.table.iter().all(|(at, entry)| recorded.get(at) == Some(entry)), "seed {seed}");
    }
}

/// What comes at the beginning of a program is what would have come by faults, however little memory there is.
#[test]
fn a_program_begins_with_what_it_would_have_faulted_for() {
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut process, mut space) = (alone(), Space::default());
        let last = if random.bool() { 0 } else { random.u64(1..20) };
        process.machine.borrow_mut().last = last;
        process.at_hand = random.usize(..8);
        let node = random.u64(3..5);
        let [text, data, zeros] = [random.u64(1..20), random.u64(1..25), random.u64(1..12)];
        let backing = |page: u64| Backing::File { node, offset: page * PAGE_SIZE, writable: false };
        let at = |page: u64| BASE + page * PAGE_SIZE;
        let area = |from: u64, to: u64, protection| Area::anonymous(at(from), at(to), protection);
        let all = text + data + zeros;
        let areas = [
            Area { backing: backing(0), ..area(0, text, Protection::READ) },
            Area { backing: backing(text), ..area(text, text + data, Protection::READ_WRITE) },
            area(text + data, all, Protection::READ_WRITE),
        ];
        areas.iter().for_each(|area| space.map(&mut process, *area).expect("it maps"));
        let set = process.working_set(node, 0, u64::MAX).expect("it tells");
        space.fill_for_start(&mut process, node, &set, at(0)..at(all));
        let recorded: BTreeMap<u64, u64> = space.frames.within(0, u64::MAX >> 1).collect();
        if last == 0 {
            check_plan(&process, (node, &areas, &set), at(0)..at(all), &recorded);
        }
        assert_eq!(recorded, process.table, "seed {seed}");
        assert!(recorded.values().all(|entry| (page_of(*entry) >= FILE) == (entry & WRITE == 0)), "seed {seed}");
        let owned = process.machine.borrow().owner.len();
        assert_eq!(
            owned,
            recorded.values().filter(|entry| page_of(**entry) < FILE).count(),
            "seed {seed}: pages are lost"
        );
        if last == 0 {
            let is_there = |page: u64| recorded.contains_key(&at(page));
            let known = |page: u64| node == 4 && page % 5 == 1 && page < FILE_PAGES;
            assert!((0..text + data).all(|page| is_there(page) == known(page)), "seed {seed}");
            assert!((text + data..all).all(|page| is_there(page) == (zeros <= 8)), "seed {seed}");
        }
        process.machine.borrow_mut().last = 0;
        for page in (0..all).filter(|page| *page >= text + data || *page < FILE_PAGES) {
            let expected = if page < text + data { page as u8 } else { 0 };
            assert_eq!(process.read(&mut space, at(page)), Ok(expected), "seed {seed}, page {page}");
            if page >= text {
                process.write(&mut space, at(page), 200).expect("it may");
                assert_eq!(process.read(&mut space, at(page)), Ok(200), "seed {seed}, page {page}");
            }
        }
    }
}

/// The same areas, planned, have the same entries but for the numbers of their own pages, and say what these begin with.
fn check_plan(
    process: &Process,
    (node, areas, set): (u64, &[Area], &[(u64, u64)]),
    place: std::ops::Range<u64>,
    recorded: &BTreeMap<u64, u64>,
) {
    let (mut draft, mut plan) = (Draft::default(), Space::default());
    plan.held.push(node);
    areas.iter().for_each(|area| plan.map(&mut draft, *area).expect("it maps"));
    plan.fill_for_start(&mut draft, node, set, place);
    assert!(!draft.is_spoilt && plan.held.is_empty());
    let own: BTreeMap<u64, Option<u64>> = draft.own.into_iter().collect();
    let machine = process.machine.borrow();
    for (address, entry) in recorded {
        let planned = plan.frames.get(*address);
        if page_of(*entry) >= FILE {
            assert_eq!((planned, own.contains_key(address)), (*entry, false));
        } else {
            assert_eq!((page_of(planned), planned), (0, entry & !(page_of(u64::MAX) << 12)));
            let begins_as = own[address].map_or(0, |page| machine.contents[&page]);
            assert_eq!(begins_as, machine.contents[&page_of(*entry)]);
        }
    }
    assert_eq!(plan.frames.rows().len(), recorded.len());
    assert_eq!(own.len(), recorded.values().filter(|entry| page_of(**entry) < FILE).count());
}

/// A child is given the pages of files that children before it touched, and finds the others again.
#[test]
fn a_child_has_the_pages_of_files_that_others_touched() {
    let (mut process, mut space) = (alone(), Space::default());
    let backing = Backing::File { node: 3, offset: 0, writable: false };
    let area = Area { backing, ..Area::anonymous(BASE, BASE + 40 * PAGE_SIZE, Protection::READ) };
    space.map(&mut process, area).expect("it maps");
    (0..40).for_each(|page| _ = process.read(&mut space, BASE + page * PAGE_SIZE));
    assert_eq!(space.files_for_child(true).count(), 40);
    assert_eq!(space.files_for_child(false).count(), 0);
    let mut child = space.clone();
    child.forget_files();
    assert!(child.frames.is_empty());
    let mut other = alone();
    assert_eq!(other.read(&mut child, BASE + 20 * PAGE_SIZE), Ok(20));
    // Whatever else a child says is nothing that can be given.
    let said = child.touched().iter().copied().chain([0, u64::MAX, 0x7d00_0000_0000, BASE + 1]);
    said.for_each(|address| space.note_touched(address));
    let given: Vec<u64> = space.files_for_child(false).map(|row| (row.address - BASE) / PAGE_SIZE).collect();
    let touched = (BASE / PAGE_SIZE + 20) / TOGETHER * TOGETHER;
    let ranges = [BASE / PAGE_SIZE / TOGETHER * TOGETHER, touched];
    let is_given =
        |page: &u64| ranges.iter().any(|first| (*first..first + TOGETHER).contains(&(BASE / PAGE_SIZE + page)));
    let mut expected: Vec<u64> = (0..40).filter(is_given).collect();
    let mut given_sorted = given;
    given_sorted.sort_unstable();
    expected.sort_unstable();
    assert_eq!(given_sorted, expected);
    let mut next = space.clone();
    next.forget_files();
    assert_eq!(next.frames.within(0, u64::MAX >> 1).count(), expected.len());
}

#[test]
fn who_walks_over_fresh_memory_faults_less_and_less() {
    let (mut process, mut space) = (alone(), Space::default());
    space.map(&mut process, Area::anonymous(BASE, BASE + 20 * PAGE_SIZE, Protection::READ_WRITE)).expect("it maps");
    let mut came = Vec::new();
    for page in 0..20 {
        let before = process.table.len();
        process.write(&mut space, BASE + page * PAGE_SIZE, page as u8).expect("it may");
        came.push(process.table.len() - before);
    }
    assert_eq!(came.iter().copied().filter(|pages| *pages > 0).collect::<Vec<_>>(), [1, 1, 2, 4, 8, 4]);
    assert_eq!(space.frames.within(0, u64::MAX >> 1).collect::<BTreeMap<_, _>>(), process.table);
    space.unmap(&mut process, BASE, BASE + 20 * PAGE_SIZE).expect("it unmaps");
    space.map(&mut process, Area::anonymous(BASE, BASE + 20 * PAGE_SIZE, Protection::READ_WRITE)).expect("it maps");
    for page in [3, 1, 9, 5, 6, 19, 0] {
        let before = process.table.len();
        process.write(&mut space, BASE + page * PAGE_SIZE, 1).expect("it may");
        assert_eq!(process.table.len(), before + 1, "who jumps about gets what it touches");
    }
}

/// Far apart, or side by side: after any faults, and pages dropped, the record is what the tables hold, and a page is what was
/// written last, or zeros.
#[test]
fn sparse_memory_is_recorded_as_it_is_mapped() {
    const SPAN: u64 = 1 << 24;
    for seed in 0..60 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut process, mut space) = (alone(), Space::default());
        let area = Area::anonymous(BASE, BASE + SPAN * PAGE_SIZE, Protection::READ_WRITE);
        space.map(&mut process, area).expect("it maps");
        let mut expected = BTreeMap::new();
        let mut place = 0;
        for step in 0..150 {
            place = if random.bool() { (place + random.u64(..3)) % SPAN } else { random.u64(..SPAN) };
            let address = BASE + place * PAGE_SIZE;
            match random.u8(..8) {
                0 => {
                    let end = area.end.min(address + random.u64(1..100) * PAGE_SIZE);
                    space.drop_pages(&mut process, address, end).expect("they go");
                    expected.retain(|at, _| !(address..end).contains(at));
                }
                1 => {
                    let is = expected.get(&address).copied().unwrap_or(0);
                    assert_eq!(process.read(&mut space, address), Ok(is), "seed {seed}, step {step}");
                }
                _ => {
                    // Now and then there are no pages, or too few for all that would come together.
                    let next = process.machine.borrow().next;
                    process.machine.borrow_mut().last = if random.u8(..4) == 0 { next + random.u64(..3) } else { 0 };
                    match process.write(&mut space, address, step) {
                        Ok(()) => _ = expected.insert(address, step),
                        Err(violation) => assert_eq!(violation, Violation::OutOfMemory, "seed {seed}, step {step}"),
                    }
                    process.machine.borrow_mut().last = 0;
                }
            }
            let recorded: BTreeMap<u64, u64> = space.frames.all().into_iter().collect();
            assert_eq!(recorded, process.table, "seed {seed}, step {step}");
            assert_eq!(space.frames.len(), recorded.len(), "seed {seed}, step {step}");
        }
    }
}

#[test]
fn who_walks_over_shared_memory_faults_less_and_less() {
    const COUNT: u64 = 60;
    let (mut process, mut space) = (alone(), Space::default());
    process.others.borrow_mut().push(BTreeMap::new());
    space.map(&mut process, Area::anonymous(BASE, BASE + COUNT * PAGE_SIZE, Protection::READ_WRITE)).expect("it maps");
    let at = |page: u64| BASE + page * PAGE_SIZE;
    (0..COUNT).for_each(|page| process.write(&mut space, at(page), page as u8).expect("it may"));
    space.share_for_fork(&mut process, &[], |_, _| {}).expect("it forks");
    let child = process.table.clone();
    // The child has given up some of them: those are written where they lie.
    process.others.borrow_mut()[1] = child.into_iter().filter(|(address, _)| address / PAGE_SIZE % 3 > 0).collect();
    let before = process.machine.borrow().next;
    let mut faults = 0;
    for page in 0..COUNT {
        faults += usize::from(process.table[&at(page)] & WRITE == 0);
        process.write(&mut space, at(page), 100 + page as u8).expect("it may");
        assert_eq!(process.read(&mut space, at(page)), Ok(100 + page as u8));
    }
    assert!(faults < 14, "{faults} faults");
    assert_eq!(process.machine.borrow().next - before, COUNT - COUNT / 3);
    let child = process.others.borrow()[1].clone();
    for (address, entry) in child {
        assert_eq!(process.machine.borrow().contents[&page_of(entry)], ((address - BASE) / PAGE_SIZE) as u8);
    }
}

/// Who becomes another user keeps what is its own, and asks for the pages of files anew.
#[test]
fn pages_of_files_are_let_go_of_and_come_again() {
    const COUNT: u64 = 8;
    let (mut process, mut space) = (alone(), Space::default());
    let at = |place: u64, page: u64| BASE + (place * COUNT + page) * PAGE_SIZE;
    let areas = [(true, false), (true, true), (false, false), (false, true)];
    for (place, (is_file, shared)) in (0..).zip(areas) {
        let file = Backing::File { node: 3, offset: 0, writable: true };
        let backing = if is_file { file } else { Backing::Anonymous };
        let area = Area::anonymous(at(place, 0), at(place, COUNT), Protection::READ_WRITE);
        space.map(&mut process, Area { backing, shared, ..area }).expect("it maps");
        (0..COUNT).for_each(|page| _ = process.read(&mut space, at(place, page)).expect("it may"));
        process.write(&mut space, at(place, 2), 200 + place as u8).expect("it may");
    }
    space.protect(&mut process, at(0, 4), at(0, 6), Protection::NONE).expect("it may");
    let is_own = |entry: &u64| page_of(*entry) < FILE;
    let recorded = |space: &Space| space.frames.within(0, u64::MAX >> 1).collect::<BTreeMap<_, _>>();
    let (mut own, mut there) = (recorded(&space), process.table.clone());
    own.retain(|_, entry| is_own(entry));
    there.retain(|_, entry| is_own(entry));
    assert!(own.len() > there.len() && there.len() as u64 > 2 * COUNT && there.len() < process.table.len());
    space.let_go_of_files(&mut process).expect("it may");
    assert_eq!((&process.table, recorded(&space)), (&there, own));
    for (place, page, value) in [(0, 2, 200), (0, 1, 1), (1, 3, 3), (2, 2, 202), (3, 2, 203), (3, 1, 0)] {
        assert_eq!(process.read(&mut space, at(place, page)), Ok(value));
    }
}

#[test]
fn violations_are_told_apart() {
    let machine = Rc::new(RefCell::new(Machine::default()));
    let others = Rc::new(RefCell::new(vec![BTreeMap::new()]));
    let mut process = Process { number: 0, machine, table: BTreeMap::new(), others, rows_left: None, at_hand: 0 };
    let mut space = Space::default();
    space.map(&mut process, Area::anonymous(BASE, BASE + PAGE_SIZE, Protection::READ)).expect("it maps");
    assert_eq!(space.fault(&mut process, BASE - 1, Access::Read), Err(Violation::NotMapped));
    assert_eq!(space.fault(&mut process, BASE, Access::Write), Err(Violation::NotAllowed));
    assert_eq!(space.fault(&mut process, BASE, Access::Execute), Err(Violation::NotAllowed));
    assert_eq!(space.fault(&mut process, BASE, Access::Read), Ok(()));
    space.protect(&mut process, BASE, BASE + PAGE_SIZE, Protection::NONE).expect("it may");
    assert_eq!(space.fault(&mut process, BASE, Access::Read), Err(Violation::NotAllowed));
    assert!(process.table.is_empty(), "nothing is present that may not be read");
    space.protect(&mut process, BASE, BASE + PAGE_SIZE, Protection::READ_WRITE).expect("it may");
    process.write(&mut space, BASE, 3).expect("it may");
    assert_eq!(space.frames.get(BASE) & COPY_ON_WRITE, 0);
}

#[test]
fn mappings_move_with_what_they_hold_and_what_is_locked_counts() {
    let (mut process, mut space) = (alone(), Space::default());
    space.map(&mut process, Area::anonymous(BASE, BASE + 4 * PAGE_SIZE, Protection::READ_WRITE)).expect("it maps");
    for page in 0..4 {
        process.write(&mut space, BASE + page * PAGE_SIZE, 10 + page as u8).expect("it may");
    }
    let two = Remap {
        start: BASE + PAGE_SIZE,
        bytes: 2 * PAGE_SIZE,
        new_bytes: 3 * PAGE_SIZE,
        may_move: true,
        stays: false,
        to: None,
        most_locked: 0,
    };
    let fixed = Remap { may_move: false, ..two };
    assert_eq!(space.remap(&mut process, fixed), Err(Errno::ENOMEM), "somebody is behind it");
    let to = space.remap(&mut process, two).expect("it moves");
    assert_eq!(process.read(&mut space, to), Ok(11));
    assert_eq!(process.read(&mut space, to + 2 * PAGE_SIZE), Ok(0));
    assert_eq!(space.fault(&mut process, BASE + PAGE_SIZE, Access::Read), Err(Violation::NotMapped));
    let across = Remap { start: BASE, bytes: 2 * PAGE_SIZE, ..two };
    assert_eq!(space.remap(&mut process, across), Err(Errno::EFAULT), "a hole is in it");
    let all = (to, to + 3 * PAGE_SIZE);
    assert_eq!(space.lock(&mut process, all, 2 * PAGE_SIZE, true), Err(Errno::ENOMEM));
    assert_eq!(space.lock(&mut process, all, 3 * PAGE_SIZE, true), Ok(()));
    assert_eq!(space.locked_bytes(), 3 * PAGE_SIZE);
    let advice = Advice::Drop { locked: false };
    assert_eq!(space.advise(&mut process, all, advice).map(|_| ()), Err(Errno::EINVAL));
    space.advise(&mut process, (to, to + PAGE_SIZE), Advice::Absent(true)).expect("it may");
    space.advise(&mut process, (to + PAGE_SIZE, all.1), Advice::Wiped(true)).expect("it may");
    space.begin_child(&mut process).expect("it begins");
    assert_eq!(space.locked_bytes(), 0, "a child locks nothing");
    assert_eq!(space.fault(&mut process, to, Access::Read), Err(Violation::NotMapped));
    assert_eq!(process.read(&mut space, to + PAGE_SIZE), Ok(0));
    assert_eq!(process.read(&mut space, BASE), Ok(10));
}

#[test]
fn the_stack_grows_and_brk_moves() {
    let machine = Rc::new(RefCell::new(Machine::default()));
    let others = Rc::new(RefCell::new(vec![BTreeMap::new()]));
    let mut process = Process { number: 0, machine, table: BTreeMap::new(), others, rows_left: None, at_hand: 0 };
    let mut space = Space::default();
    space.brk = (BASE, BASE);
    let top = MMAP_TOP + (64 << 20);
    let stack = Area { grows: true, ..Area::anonymous(top - PAGE_SIZE, top, Protection::READ_WRITE) };
    space.map(&mut process, stack).expect("it maps");
    assert_eq!(space.fault(&mut process, top - 5 * PAGE_SIZE, Access::Write), Ok(()));
    assert_eq!(space.fault(&mut process, top - (9 << 20), Access::Write), Err(Violation::NotMapped));
    assert_eq!(space.move_brk(&mut process, BASE + 100), BASE + 100);
    assert_eq!(space.fault(&mut process, BASE, Access::Write), Ok(()));
    assert_eq!(space.move_brk(&mut process, BASE - 1), BASE + 100);
    assert_eq!(space.move_brk(&mut process, BASE), BASE);
    assert_eq!(space.fault(&mut process, BASE, Access::Write), Err(Violation::NotMapped));
}

#[test]
fn a_journal_tells_which_bytes_differ_and_only_those() {
    use exos::memory::journal::Journal;
    for seed in 0..50 {
        let mut random = fastrand::Rng::with_seed(seed);
        let before: Vec<u8> = (0..PAGE_SIZE).map(|_| random.u8(..4)).collect();
        let mut now = before.clone();
        for _ in 0..random.usize(..40) {
            let (at, length) = (random.usize(..now.len()), random.usize(1..60));
            let end = now.len().min(at + length);
            now[at..end].fill_with(|| random.u8(..4));
        }
        let mut journal = Journal::default();
        journal.note(BASE, before.clone());
        // What is noted later is not what was there at first.
        journal.note(BASE, now.clone());
        let mut target = before.clone();
        let mut written = 0;
        for change in journal.changes(BASE, &now) {
            let at = (change.address - BASE) as usize;
            target[at..at + change.bytes.len()].copy_from_slice(&change.bytes);
            written += change.bytes.len();
        }
        assert_eq!(target, now, "seed {seed}");
        assert_eq!(written, before.iter().zip(&now).filter(|(old, new)| old != new).count(), "seed {seed}");
    }
    assert_eq!(Journal::default().changes(BASE, &[1]), []);
}
