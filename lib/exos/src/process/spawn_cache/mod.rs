//! Spawn cache of a process: a recycled environment (`spare_environment`), an exec template (`exec_template`), and
//! pages for the heap of the next child.
//!
//! Its lock is the first in the process's lock order; fork holds it from the beginning to the end.
//!
//! Invariants:
//! - All that is cached is charged to this process and goes with it.
//! - A process that blocks without children keeps little more than the environment ([`Process::trim`]).

pub(super) mod child_space;
pub(super) mod exec_template;
pub mod spare_environment;

use super::children::Child;
use super::environment::{area_words, write_words};
use super::exec_file::ElfFile;
use super::exec_request::ExecRequest;
use super::exit::reclaim::still_present;
use super::fork::fork_state::ForkState;
use super::process_record::Process;
use crate::descriptor::exported_pages;
use crate::hw::mapping::{Mapping, Mappings};
use crate::hw::page_tables::PageTables;
use crate::process::current::{process, thread};
use crate::process_table;
use abi::budget::Resource;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use exec_template::ExecTemplate;
use linux_abi::address_map::PAGE_SIZE;
use linux_abi::errno::Result;
use runtime::page::Allocator;
use runtime::{PageNumber, area, exposed, layout};
use spare_environment::{SpareEnvironment, beginning, mark, unmark};
use unix_core::process::run_state as state;

/// Pages that a child may have of its own for what it is made of to be left to it for a while.
const SMALL: u64 = 512;
/// Pages for ExOS's data that are kept at most: more than a small process's data takes.
const COPIES: usize = 32;

/// What a process keeps for its next child, and what it is making a child of.
#[derive(Debug, Default)]
pub struct SpawnCache {
    /// For the next child of the first thread.
    slot: Slot,
    /// Whether it makes a child now.
    pub is_busy: bool,
    /// What that child finds in its copy of the heap.
    pub inherited: Option<Box<ForkState>>,
    /// The program that the last child executed which began with it.
    pub template: Option<Box<ExecTemplate>>,
    /// How many generations there were of programs that were prepared.
    generations: u64,
    /// A window onto pages that the next child is likely to begin with: copies of its program's, then of ExOS's own
    /// data.
    through: Option<Mapping>,
    /// A page with the words that an environment begins with that is renewed.
    beginning: Option<PageNumber>,
}

/// The one entry that is cached, by its state: a running one is its child's, and a discarded one is destroyed.
#[derive(Debug, Default)]
enum Slot {
    /// There is none.
    #[default]
    Empty,
    /// It has not begun.
    Ready(SpareEnvironment),
    /// The first child, which is gone: it is inspected when a second child is made. Many processes have one child and
    /// end.
    Dirty(Box<Child>),
}

impl Slot {
    const fn is_empty(&self) -> bool {
        matches!(self, Self::Empty)
    }

    const fn ready(&mut self) -> Option<&mut SpareEnvironment> {
        if let Self::Ready(ready) = self { Some(ready) } else { None }
    }

    /// Takes an entry that is ready.
    fn take_ready(&mut self) -> Option<SpareEnvironment> {
        match core::mem::take(self) {
            Self::Ready(ready) => Some(ready),
            other => {
                *self = other;
                None
            }
        }
    }

    /// Takes an entry that is dirty.
    fn take_dirty(&mut self) -> Option<Box<Child>> {
        match core::mem::take(self) {
            Self::Dirty(child) => Some(child),
            other => {
                *self = other;
                None
            }
        }
    }
}

impl SpawnCache {
    /// The environment of the next child.
    ///
    /// # Errors
    /// `EAGAIN` where there are too many environments; what the kernel refuses.
    pub fn prepare(&mut self) -> Result<SpareEnvironment> {
        let is_first = process().is_first(thread());
        let cached = if is_first { self.slot.take_ready() } else { None };
        let ready = cached.map_or_else(SpareEnvironment::make, Ok)?;
        self.is_busy = true;
        Ok(ready)
    }

    /// The number of the next child, which is made ready for it.
    ///
    /// # Errors
    /// As [`Self::prepare`].
    pub fn reserve(&mut self) -> Result<u64> {
        if self.slot.ready().is_none() {
            let ready = SpareEnvironment::make()?;
            if let Slot::Dirty(child) = core::mem::replace(&mut self.slot, Slot::Ready(ready)) {
                discard(*child);
            }
        }
        Ok(self.slot.ready().map_or(0, |ready| ready.made.number.0))
    }

    /// Where pages for the next child are mapped, if they are, in a row: first of all, or `before` others before them.
    pub fn place_of(&self, before: usize, pages: &[PageNumber]) -> Option<u64> {
        let through = self.through.as_ref()?;
        let is_at = |at: &usize| through.pages().get(*at..*at + pages.len()).is_some_and(|here| here == pages);
        let place = [before, 0].into_iter().find(is_at).filter(|_| !pages.is_empty())?;
        Some(through.address() + place as u64 * PAGE_SIZE)
    }

    /// How often this process itself maps each of these pages, which a child was made of.
    pub(super) fn mapped<'a>(&'a self, pages: &[PageNumber]) -> impl Fn(&PageNumber) -> u64 + use<'a> {
        let here = self.through.as_ref().map_or(&[][..], Mapping::pages);
        let all = here.starts_with(pages) || here.ends_with(pages);
        move |page| u64::from(all || here.contains(page))
    }

    /// The page that renewed environments begin with.
    pub(super) fn beginning(&mut self) -> Result<PageNumber> {
        if let Some(page) = self.beginning {
            return Ok(page);
        }
        let page = Allocator::own().allocate()?;
        let words = area_words(&beginning(), layout::AREA, area::channel_key().is_some());
        write_words(page, process().session_key, &words).inspect_err(|_| _ = Allocator::own().free(page))?;
        self.beginning = Some(page);
        Ok(page)
    }

    /// Maps what a child was made of that is gone, for the next one.
    fn map_pages(&mut self, pages: Vec<PageNumber>) {
        self.unmap_pages();
        self.through = process().mappings.lock().open_own(pages, process().session_key, true).ok();
    }

    /// Maps the program that a child is to execute where it will find it. Nothing where that cannot be, which is left
    /// to the child.
    pub fn prepare_program(&mut self, ready: &mut SpareEnvironment, request: &ExecRequest) -> Option<PageTables> {
        let process = process();
        self.template = ExecTemplate::prepare(request, self.template.take(), &process.mappings);
        let tables = self.map_program(ready, request);
        if tables.is_none() {
            self.forget_program(&mut process.mappings.lock());
            ready.reclaim_program(&mut process.mappings.lock());
        }
        tables
    }

    fn map_program(&mut self, ready: &mut SpareEnvironment, request: &ExecRequest) -> Option<PageTables> {
        let (pages, kept) = ready.pages_for_program(self.template.as_ref()?)?;
        let place = self.place_of(0, &pages);
        let prepared = self.template.as_mut()?;
        prepared.give(&pages, &mut self.generations);
        let tables = ready.map_prepared(prepared).ok()?;
        prepared.fill(kept, place, process().session_key).ok()?;
        // What left the files meanwhile may be another's.
        request.is_current(&process().files.lock()).then_some(tables)
    }

    /// The files of the program that a child executed last.
    pub(super) fn program(&self) -> Option<Vec<Arc<ElfFile>>> {
        self.template.as_ref().map(|prepared| prepared.sources())
    }

    /// How many pages of its own the program begins with that was prepared last.
    fn own(&self) -> usize {
        self.template.as_ref().map_or(0, |prepared| prepared.own())
    }

    fn forget_program(&mut self, windows: &mut Mappings) {
        self.template.take().iter_mut().for_each(|prepared| prepared.look_away(windows));
    }

    /// Pages that held the data of a child are given up: what maps them would keep them.
    fn let_go(&mut self, pages: &[PageNumber]) {
        self.unmap_pages();
        if let Some(ready) = self.slot.ready().filter(|ready| ready.parts.entry.space.mapped(pages) > 0) {
            let _ = ready.drop_data();
        }
    }

    fn unmap_pages(&mut self) {
        if let Some(through) = self.through.take() {
            process().mappings.lock().close(&through);
        }
    }
}

/// Destroys what a child left that is gone, with the pages of ExOS's data for it.
fn discard(mut child: Child) {
    let copies = core::mem::take(&mut child.heap_pages);
    child.into_ready().bury();
    Allocator::own().free_many(&copies);
}

impl Process {
    /// Reclaims the parts of a child, and ExOS's data for it in the pages `copies`. They are for the next child, if
    /// there are none for it yet and this process lives.
    pub fn retain_parts(&self, child: Child, copies: &[PageNumber]) {
        let (can_keep, executed) = (self.can_keep(&child), child.has_executed());
        let is_prepared = child.parts.as_ref().is_some_and(|room| room.entry.is_prepared());
        let mut old = child.into_ready();
        let mut nursery = self.spawn_cache.lock();
        let is_second = old.parts.entry.has_served();
        if !can_keep || !nursery.slot.is_empty() {
            drop(nursery);
            return old.bury();
        }
        if old.begin_again(&mut nursery, executed).is_err() {
            nursery.unmap_pages();
            return old.bury();
        }
        // A process that makes a second child makes a third.
        if is_second {
            let first = old.first_pages(is_prepared, nursery.own());
            let pages = first.iter().chain(copies).copied();
            let here = nursery.through.as_ref().map_or(&[][..], Mapping::pages);
            if !pages.clone().eq(here.iter().copied()) {
                let pages = pages.collect();
                nursery.map_pages(pages);
            }
        }
        nursery.slot = Slot::Ready(old);
    }

    /// Whether the next child could be made of this one, which is gone.
    fn can_keep(&self, child: &Child) -> bool {
        let is_mine = exposed::environment(child.made.number)
            .is_some_and(|info| info.creator.load(Relaxed) == area::number().0)
            && self.is_first(thread())
            && still_present(&child.made);
        // What borrows a key is made anew: the key is not this process's to give to who is not born.
        let can_give = !self.borrows_key() && self.signal.stopped.load(Relaxed) < state::ENDS;
        child.parts.as_ref().is_some_and(|room| !room.is_discarded()) && is_mine && can_give
    }

    /// Whether a child that is gone may stay as it is until there is need of what it was made of: the first one, if it
    /// is small.
    pub fn can_wait(&self, child: &Child) -> bool {
        let pages = || {
            exposed::environment(child.made.number)
                .map_or(0, |info| info.budget[Resource::Page as usize].used.load(Relaxed))
        };
        // A successor is known by this number as long as the stand-in exists.
        let is_itself = || process_table::sight().succession.environment(child.number()) == child.number();
        let is_first = || self.spawn_cache.lock().slot.is_empty();
        child.parts.as_ref().is_some_and(|room| !room.entry.has_served())
            && !self.descriptors.has_threads.load(Relaxed)
            && self.can_keep(child)
            && pages() < SMALL
            && is_itself()
            && is_first()
    }

    /// Leaves it.
    pub fn defer_first(&self, child: Child) {
        // It is no process any more.
        unmark(&child.public);
        mark(&child.public);
        self.spawn_cache.lock().slot = Slot::Dirty(Box::new(child));
    }

    /// Takes back what the first child was made of, if that was put off.
    pub fn reclaim_first(&self) {
        let first = if self.is_first(thread()) { self.spawn_cache.lock().slot.take_dirty() } else { None };
        first.into_iter().for_each(|child| child.recycle());
    }

    /// Gives up the pages that only save time for the next child, where that may not come soon: who sleeps without
    /// children. What it will be made of stays. A thread leaves it to its process alone: another one may be making a
    /// child, and holds then the children while it asks for the nursery.
    pub fn trim(&self) {
        if self.descriptors.has_threads.load(Relaxed) || !self.is_first(thread()) {
            return;
        }
        if self.children.lock().all.is_empty() {
            exported_pages::give_up_spare();
        }
        self.reclaim_first();
        if self.heap_pages.lock().is_empty() {
            return;
        }
        let mut nursery = self.spawn_cache.lock();
        if nursery.is_busy || !self.children.lock().all.is_empty() {
            return;
        }
        nursery.unmap_pages();
        nursery.forget_program(&mut self.mappings.lock());
        if let Some(ready) = nursery.slot.ready() {
            ready.clear();
            for spare in ready.parts.entry.take_spare() {
                ready.pages().free_many(&spare);
            }
        }
        let beginning = nursery.beginning.take();
        drop(nursery);
        let mut copies = core::mem::take(&mut *self.heap_pages.lock());
        copies.extend(beginning);
        Allocator::own().free_many(&copies);
        crate::budget::give_back_all();
    }

    /// Gives up what is kept for the next child.
    pub fn empty_nursery(&self) {
        let mut nursery = self.spawn_cache.lock();
        nursery.unmap_pages();
        nursery.forget_program(&mut self.mappings.lock());
        let (slot, beginning) = (core::mem::take(&mut nursery.slot), nursery.beginning.take());
        drop(nursery);
        match slot {
            Slot::Empty => {}
            Slot::Ready(ready) => ready.bury(),
            Slot::Dirty(child) => discard(*child),
        }
        beginning.into_iter().for_each(|page| _ = Allocator::own().free(page));
    }

    /// The same where this process ends, and all pages that are charged to it go with it.
    pub fn abandon_nursery(&self) {
        let mut nursery = self.spawn_cache.lock();
        match core::mem::take(&mut nursery.slot) {
            Slot::Empty => {}
            Slot::Ready(ready) => ready.leave(),
            Slot::Dirty(child) => child.into_ready().leave(),
        }
    }

    /// Reclaims pages of its first thread that held the data of a child that is gone. They are for the next child, as
    /// far as no other process maps them and there is room.
    pub fn keep_copies(&self, pages: &[PageNumber]) {
        let mut nursery = self.spawn_cache.lock();
        if self.heap_pages.lock().len() + pages.len() > COPIES {
            nursery.let_go(pages);
        }
        self.keep_copies_beside(&nursery, pages);
    }

    /// The same for who makes a child.
    pub fn keep_copies_beside(&self, nursery: &SpawnCache, pages: &[PageNumber]) {
        let mut copies = self.heap_pages.lock();
        let kept = if let Slot::Ready(ready) = &nursery.slot { ready.parts.entry.space.mapped(pages) } else { 0 };
        let mapped = nursery.mapped(pages);
        let is_unused =
            |page: &PageNumber| exposed::page(*page).is_some_and(|info| info.references() == mapped(page) + kept);
        if pages.len() + copies.len() <= COPIES && pages.iter().all(is_unused) {
            // Nearly always.
            copies.extend_from_slice(pages);
            return;
        }
        let (unused, mut others): (Vec<PageNumber>, Vec<PageNumber>) = pages.iter().partition(|page| is_unused(page));
        let (kept, rest) = unused.split_at(unused.len().min(COPIES.saturating_sub(copies.len())));
        copies.extend_from_slice(kept);
        others.extend_from_slice(rest);
        Allocator::own().free_many(&others);
    }
}

/// [`Process::trim`] of the running process.
pub fn trim() {
    process().trim();
}
