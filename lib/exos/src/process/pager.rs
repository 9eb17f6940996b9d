//! What the kernel does for the memory of the running process: [`Pages`] for real.

use crate::budget;
use crate::hw::page_tables::{PageTables, TableEditor, supply};
use crate::hw::usercopy;
use crate::server::client::{self, Client};
use abi::budget::Resource;
use abi::page_table::MapRow;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::Cell;
use linux_abi::address_map::PAGE_SIZE;
use linux_abi::errno::{Errno, Result};
use runtime::address_space::Access;
use runtime::lock::Lock;
use runtime::page::{Allocator, PageKind};
use runtime::window::{WINDOW_PAGES, Window};
use runtime::{Error, Failure, KeyIndex, PageNumber, area, critical_section, exposed};
use vm::address_space::PageOps;
use vm::fault_around::READAHEAD;

/// Pages at most that stay for the next program.
const AT_HAND: usize = 24;

/// Pages with which so many have gone that there may be something to give back.
const MANY: usize = 32;
/// Pages that a process can have at any time without asking: those that a fault brings, and as many besides.
const SPARE: u64 = 2 * READAHEAD as u64;
const _: () = assert!(READAHEAD <= runtime::page::FEW);

/// Pages of the running process.
#[derive(Debug)]
pub struct OwnPages<'a> {
    /// Its tables.
    pub tables: &'a mut PageTables,
    /// What is at hand for a program that begins.
    pub at_hand: &'a mut Vec<u64>,
    /// Key to whatever it may map.
    pub key: KeyIndex,
    /// Where the pages of files come from.
    pub files: &'a Lock<Client>,
    /// The access list of its pages, once it was looked up.
    pub list: Cell<Option<PageNumber>>,
}

impl OwnPages<'_> {
    fn list(&self) -> PageNumber {
        let list = self.list.get().unwrap_or_else(area::access_list);
        self.list.set(Some(list));
        list
    }

    /// How this process's tables are edited.
    pub fn editor(&self) -> TableEditor {
        TableEditor { root: area::root(), key: self.key, tables: Allocator::own() }
    }

    /// Unmaps all that the program has; `there` is what there is. A few tables stay for the next program.
    pub fn clear(&mut self, there: &[(u64, u64)]) -> Result<()> {
        if there.is_empty() {
            // The tables may be those of a program that was prepared.
            return Ok(());
        }
        if self.tables.are_own_and_few() {
            let rows: Vec<MapRow> = there.iter().map(|(address, _)| MapRow { address: *address, entry: 0 }).collect();
            return self.map(&rows);
        }
        let editor = self.editor();
        let free = self.tables.unlink_all(&editor)?;
        self.release(&free);
        Ok(())
    }

    /// Maps fresh pages as far as nothing has to be seen to; how many, and what has to.
    #[inline(always)]
    fn supply_some(&self, start: u64, entries: &mut [u64]) -> (usize, Option<Error>) {
        let root = area::root();
        // As `area::access_list` says, which would look the root up again.
        let list =
            self.list.get().or_else(|| exposed::page(root).map(|info| info.access())).unwrap_or(PageNumber::NONE);
        self.list.set(Some(list));
        supply(Allocator { key: self.key, list }, root, start, entries)
    }

    /// Resolves what kept pages from being supplied, once for each, and continues; how many there are in all.
    #[cold]
    fn supply_rest(&mut self, start: u64, entries: &mut [u64], first: usize, refusal: Error) -> usize {
        let (mut done, mut refused) = (first, Some(refusal));
        while let Some(refusal) = refused {
            let (at, before) = (start + done as u64 * PAGE_SIZE, done);
            if !self.see_to(refusal, at, entries.len() - done) {
                break;
            }
            let (more, next) = self.supply_some(at, &mut entries[done..]);
            (done, refused) = (done + more, next);
            // What stays refused when it has been seen to is not to be had.
            if done == before && refused == Some(refusal) {
                break;
            }
        }
        done
    }

    /// Sees to what kept pages from being supplied at an address; whether that is of use.
    fn see_to(&mut self, refusal: Error, address: u64, pages: usize) -> bool {
        match refusal {
            Error::OverBudget => {
                budget::reserve(pages as u64);
                budget::spare(Resource::Page) > 0 || budget::await_pages(1)
            }
            Error::NotMapped | Error::Shared => self.prepare(address).is_ok(),
            _ => false,
        }
    }

    /// Keeps some of the pages that nothing maps any more for the next program, and gives the others up.
    pub fn keep_at_hand(&mut self, pages: &[u64]) {
        let own = self.list();
        let is_alone = |page: &u64| {
            exposed::page(PageNumber(*page)).is_some_and(|info| {
                let is_unused = info.references() + info.device_pins() == 0 && !info.is_orphan();
                info.access() == own && is_unused && info.kind() == PageKind::Ordinary
            })
        };
        let (alone, mut others): (Vec<u64>, Vec<u64>) = pages.iter().partition(|page| is_alone(page));
        let (kept, rest) = alone.split_at(alone.len().min(AT_HAND.saturating_sub(self.at_hand.len())));
        self.at_hand.extend_from_slice(kept);
        others.extend_from_slice(rest);
        self.release(&others);
    }

    /// The program has begun: what it had no need of goes.
    pub fn give_up_at_hand(&mut self) {
        let left = core::mem::take(self.at_hand);
        self.release(&left);
    }
}

/// Has `take` put pages of this process's in the places of these, a few.
fn in_places(
    places: &mut [u64],
    take: impl FnOnce(&mut [PageNumber]) -> core::result::Result<(), Failure>,
) -> Result<()> {
    let mut pages = [PageNumber::NONE; READAHEAD];
    let pages = pages.get_mut(..places.len()).ok_or(Errno::ENOMEM)?;
    pages.iter_mut().zip(&*places).for_each(|(page, place)| *page = PageNumber(*place));
    budget::reserve(places.len() as u64);
    take(pages)?;
    places.iter_mut().zip(pages).for_each(|(place, page)| *place = page.0);
    Ok(())
}

impl PageOps for OwnPages<'_> {
    fn allocate(&mut self) -> Result<u64> {
        Ok(budget::allocate()?.0)
    }

    fn allocate_many(&mut self, places: &mut [u64]) -> Result<()> {
        in_places(places, |pages| Allocator::own().allocate_many(pages))
    }

    fn allocate_copies(&mut self, places: &mut [u64]) -> Result<()> {
        in_places(places, |pages| Allocator::own().copy_many(self.key, pages))
    }

    fn supply(&mut self, start: u64, entries: &mut [u64]) -> usize {
        // What faults take is not what ExOS's own heap grows by, or tables are made of.
        budget::reserve(SPARE);
        match self.supply_some(start, entries) {
            (done, None) => done,
            (done, Some(refusal)) => self.supply_rest(start, entries, done, refusal),
        }
    }

    fn give_way(&mut self) {
        critical_section::give_way();
    }

    fn take_used(&mut self, places: &mut [u64]) -> usize {
        let taken = self.at_hand.drain(self.at_hand.len().saturating_sub(places.len())..);
        places.iter_mut().zip(taken).map(|(place, page)| *place = page).count()
    }

    fn owns(&self, pages: &[u64]) -> bool {
        let own = self.list();
        pages.iter().all(|page| exposed::page(PageNumber(*page)).is_some_and(|info| info.access() == own))
    }

    fn clear_at(&mut self, addresses: &[u64]) {
        addresses.iter().for_each(|address| usercopy::clear_page(*address));
    }

    fn release(&mut self, pages: &[u64]) {
        if pages.is_empty() {
            return;
        }
        let own = Allocator { key: KeyIndex::FIRST, list: self.list() };
        let is_own = |page: &PageNumber| {
            exposed::page(*page).is_some_and(|info| {
                info.access() == own.list
                    && !info.is_orphan()
                    && matches!(info.kind(), PageKind::Ordinary | PageKind::PageTable)
            })
        };
        own.free_each(pages.iter().map(|page| PageNumber(*page)).filter(is_own));
        if pages.len() >= MANY {
            budget::give_back();
        }
    }

    fn map(&mut self, rows: &[MapRow]) -> Result<()> {
        let editor = self.editor();
        budget::with_reserve(|| self.tables.edit(&editor, rows))
    }

    fn map_run(&mut self, start: u64, entries: &[u64]) -> Result<()> {
        let editor = self.editor();
        budget::with_reserve(|| self.tables.edit_run(&editor, start, entries))
    }

    fn copy_to(&mut self, copies: &[(u64, u64)]) -> Result<()> {
        for some in copies.chunks(WINDOW_PAGES) {
            let sources: Vec<PageNumber> = some.iter().map(|(page, _)| PageNumber(*page)).collect();
            let window = Window::open(&sources, self.key, Access::READ)?;
            for (index, (_, address)) in some.iter().enumerate() {
                usercopy::fill_page(*address, &window, index);
            }
        }
        Ok(())
    }

    fn fill(&mut self, page: u64, contents: &[u8]) -> Result<()> {
        Window::open(&[PageNumber(page)], self.key, Access::WRITE)?.write(0, contents);
        Ok(())
    }

    fn read(&mut self, page: u64) -> Result<Vec<u8>> {
        let mut contents = vec![0; PAGE_SIZE as usize];
        Window::open(&[PageNumber(page)], self.key, Access::READ)?.read(0, &mut contents);
        Ok(contents)
    }

    fn is_sole(&self, page: u64) -> bool {
        let own = self.list();
        exposed::page(PageNumber(page)).is_some_and(|info| info.access() == own && info.references() == 1)
    }

    fn file_pages(&mut self, node: u64, wanted: u64, write: bool, first: u64, numbers: &mut [u64]) -> Result<bool> {
        self.files.lock().pages(node, wanted, write, first, numbers)
    }

    fn working_set(&mut self, node: u64, first: u64, end: u64) -> Result<Vec<(u64, u64)>> {
        self.files.lock().working_set(node, first, end)
    }

    fn cuts(&self) -> u64 {
        client::cuts()
    }

    fn prepare(&mut self, address: u64) -> Result<()> {
        let editor = self.editor();
        budget::with_reserve(|| self.tables.prepare(&editor, address, true))
    }

    fn hold_file(&mut self, node: u64, hold: bool) {
        self.files.lock().hold(node, hold);
    }
}
