//! A machine with processes that are no more than tables: contents by page, and who pays for it.

use abi::page_table::{MapRow, PAGE, PRESENT, WRITE};
use linux_abi::address_map::PAGE_SIZE;
use linux_abi::errno::{Errno, Result};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use vm::address_space::{Access, AddressSpace, FaultError, PageOps};
use vm::fault_around::ZEROS;
use vm::page_record::page_of;

pub(crate) const BASE: u64 = 0x10_0000;

/// Where the pages of files lie in the machine, and how many a file has.
pub(crate) const FILE: u64 = 1 << 20;
pub(crate) const FILE_PAGES: u64 = 50;
/// A file that has more pages, and how many.
pub(crate) const LARGE_FILE: u64 = 5;
/// Pages of files that come after an eviction have numbers so much higher.
const EVICTED: u64 = 1 << 20;
/// What a page holds that was evicted: another file has it.
const OF_ANOTHER: u8 = 0xdd;
pub(crate) const LARGE_FILE_PAGES: u64 = 900;

const fn pages_of_file(node: u64) -> u64 {
    if node == LARGE_FILE { LARGE_FILE_PAGES } else { FILE_PAGES }
}

/// The memory of a machine with two processes: contents by page, and who pays.
#[derive(Default)]
pub(crate) struct Machine {
    pub(crate) contents: BTreeMap<u64, u8>,
    pub(crate) owner: BTreeMap<u64, u32>,
    pub(crate) next: u64,
    /// Number of the last page that there is; 0: there are enough.
    pub(crate) last: u64,
    /// The pages of files that were told: file, index, and number.
    told: BTreeMap<(u64, u64), u64>,
    /// Pages of files that were evicted: what they held.
    evicted: BTreeMap<(u64, u64), u8>,
    /// How often pages may have left files.
    cuts: u64,
}

impl Machine {
    /// The page of a file: at first page `FILE + f * 1000 + n` of the machine for page `n` of file `f`, which holds
    /// `n`; another one when it was evicted.
    fn page_of_file(&mut self, node: u64, index: u64) -> u64 {
        let first = FILE + node * 1000 + index;
        let number = match self.evicted.remove(&(node, index)) {
            None => *self.told.entry((node, index)).or_insert(first),
            Some(held) => {
                let number = first + EVICTED * self.cuts;
                self.contents.insert(number, held);
                self.told.insert((node, index), number);
                number
            }
        };
        self.contents.entry(number).or_insert(index as u8);
        number
    }
}

/// One process's tables over the machine.
pub(crate) struct Process {
    pub(crate) number: u32,
    pub(crate) machine: Rc<RefCell<Machine>>,
    pub(crate) table: BTreeMap<u64, u64>,
    pub(crate) others: Rc<RefCell<Vec<BTreeMap<u64, u64>>>>,
    /// How many rows can still be changed that were not yet, each in a table that takes memory, and those that were;
    /// none: as many as one likes.
    pub(crate) rows_left: Option<(usize, BTreeSet<u64>)>,
    /// Pages that are at hand for a program that begins.
    pub(crate) at_hand: usize,
    /// How often it has given the CPU away in the middle of long work.
    pub(crate) gave_way: u64,
    /// How often each file is held.
    pub(crate) held: BTreeMap<u64, i32>,
    /// Where pages are evicted before they are mapped: when.
    pub(crate) evicts: Option<fastrand::Rng>,
}

impl Process {
    pub(crate) fn publish(&self) {
        self.others.borrow_mut()[self.number as usize] = self.table.clone();
    }

    pub(crate) fn write(
        &mut self,
        space: &mut AddressSpace,
        address: u64,
        value: u8,
    ) -> std::result::Result<(), FaultError> {
        while self.table.get(&address).is_none_or(|entry| entry & WRITE == 0) {
            space.fault(self, address + 5, Access::Write)?;
        }
        self.machine.borrow_mut().contents.insert(page_of(self.table[&address]), value);
        Ok(())
    }

    pub(crate) fn read(&mut self, space: &mut AddressSpace, address: u64) -> std::result::Result<u8, FaultError> {
        loop {
            if let Some(page) = self.page_at(address) {
                return Ok(self.machine.borrow().contents[&page]);
            }
            space.fault(self, address, Access::Read)?;
        }
    }

    /// The page that lies at an address, if any does.
    fn page_at(&self, address: u64) -> Option<u64> {
        self.table.get(&address).map(|entry| page_of(*entry))
    }
}

impl Process {
    /// Evicts all pages of files that no process maps.
    pub(crate) fn evict(&self) {
        let others = self.others.borrow();
        let mapped: BTreeSet<u64> =
            others.iter().flat_map(|table| table.values().map(|entry| page_of(*entry))).collect();
        let machine = &mut *self.machine.borrow_mut();
        machine.cuts += 1;
        for (place, number) in machine.told.extract_if(.., |_, number| !mapped.contains(number)) {
            let held = machine.contents.insert(number, OF_ANOTHER);
            machine.evicted.extend(held.map(|held| (place, held)));
        }
    }

    /// The same at times, in the middle of an operation.
    fn evict_at_times(&mut self) {
        if self.evicts.as_mut().is_some_and(|random| random.u8(..3) == 0) {
            self.evict();
        }
    }

    fn copy_page(&self, from: u64, to: u64) -> Result<()> {
        let mut machine = self.machine.borrow_mut();
        let value = machine.contents[&from];
        machine.contents.insert(to, value);
        Ok(())
    }
}

impl PageOps for Process {
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
        self.evict_at_times();
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
        self.evict_at_times();
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
        self.evict_at_times();
        copies.iter().try_for_each(|(page, address)| self.copy_page(*page, page_of(self.table[address])))
    }
    fn fill(&mut self, page: u64, contents: &[u8]) -> Result<()> {
        self.machine.borrow_mut().contents.insert(page, contents[0]);
        Ok(())
    }
    fn read(&mut self, page: u64) -> Result<Vec<u8>> {
        self.evict_at_times();
        Ok(vec![self.machine.borrow().contents[&page]; PAGE_SIZE as usize])
    }
    fn is_sole(&self, page: u64) -> bool {
        let mapped = |table: &BTreeMap<u64, u64>| table.values().filter(|entry| page_of(**entry) == page).count();
        let references: usize = self.others.borrow().iter().map(mapped).sum();
        self.machine.borrow().owner.get(&page) == Some(&self.number) && references == 1
    }
    /// Every third page of a file is not in memory.
    fn file_pages(&mut self, node: u64, wanted: u64, _: bool, first: u64, numbers: &mut [u64]) -> Result<bool> {
        for (index, number) in (first..).zip(numbers).filter(|(index, _)| *index == wanted || index % 3 != 0) {
            if index < pages_of_file(node) {
                *number = self.machine.borrow_mut().page_of_file(node, index);
            }
        }
        Ok(wanted < pages_of_file(node))
    }
    fn working_set(&mut self, node: u64, first: u64, end: u64) -> Result<Vec<(u64, u64)>> {
        let is_touched = |index: &u64| node >= 4 && index % 5 == 1;
        let set = (first..end.min(pages_of_file(node))).filter(is_touched);
        Ok(set.map(|index| (index, self.machine.borrow_mut().page_of_file(node, index))).collect())
    }
    fn allocate_many(&mut self, places: &mut [u64]) -> Result<()> {
        let machine = self.machine.borrow();
        if machine.last != 0 && machine.next + places.len() as u64 > machine.last {
            return Err(Errno::ENOMEM);
        }
        drop(machine);
        places.iter_mut().try_for_each(|place| self.allocate().map(|page| *place = page))
    }
    fn cuts(&self) -> u64 {
        self.machine.borrow().cuts
    }
    fn prepare(&mut self, _: u64) -> Result<()> {
        Ok(())
    }
    fn give_way(&mut self) {
        self.gave_way += 1;
    }
    fn hold_file(&mut self, node: u64, hold: bool) {
        *self.held.entry(node).or_default() += if hold { 1 } else { -1 };
    }
}

/// One process alone in a machine.
pub(crate) fn alone() -> Process {
    let machine = Rc::new(RefCell::new(Machine::default()));
    Process {
        number: 0,
        machine,
        table: BTreeMap::new(),
        others: Rc::new(RefCell::new(vec![BTreeMap::new()])),
        rows_left: None,
        at_hand: 0,
        gave_way: 0,
        held: BTreeMap::new(),
        evicts: None,
    }
}
