//! What a process keeps for its next child: an environment that is ready for it (`ready`), the program that it is likely to execute
//! (`prepared`), pages for ExOS's data, and what goes along with it (`dowry`).
//!
//! Who makes a child holds it from the beginning to the end. Holds always: what is kept is charged to the process itself, so that it goes
//! with it; and who sleeps without children keeps little more than the environment.

use super::begin::Inherited;
use super::children::{Child, public};
use super::create::{area_words, write_words};
use super::dowry::{Descent, Dowry};
use super::exec::{Request, look_anew};
use super::grave::remains;
use super::habit::{Editions, Habit};
use super::prepared::Prepared;
use super::program::Executable;
use super::ready::{Ready, beginning, mark, unmark};
use super::record::{Process, state};
use crate::errno::Result;
use crate::guardian::client;
use crate::layout::PAGE_SIZE;
use crate::relatives;
use crate::user_memory::current::{process, thread};
use crate::user_memory::shared::{Shared, Windows};
use crate::user_memory::tables::Tables;
use abi::budget::Resource;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Relaxed, Release};
use runtime::page::Allocator;
use runtime::{PageNumber, area, exposed, layout};

/// Pages that a child may have of its own for what it is made of to be left to it for a while.
const SMALL: u64 = 512;
/// Pages for ExOS's data that are kept at most: more than a small process's data takes.
const COPIES: usize = 32;

/// What a process keeps for its next child, and what it is making a child of.
#[derive(Debug, Default)]
pub struct Nursery {
    /// For the next child of the first thread.
    pub ready: Option<Ready>,
    /// Whether it makes a child now.
    pub is_busy: bool,
    /// What that child finds in its copy of the heap.
    pub inherited: Option<Box<Inherited>>,
    /// The program that the last child executed which began with it.
    pub prepared: Option<Box<Prepared>>,
    /// How many editions there were of programs that were prepared.
    editions: u64,
    /// A window onto pages that the next child is likely to begin with: copies of its program's, then of ExOS's own data.
    through: Option<Shared>,
    /// What its children executed by themselves.
    habit: Habit,
    /// A page with the words that an environment begins with that is renewed.
    beginning: Option<PageNumber>,
    /// The first child, which is gone: it is made ready when there is to be a second one. Many processes have one child and end.
    first: Option<Box<Child>>,
    /// What goes along with the next child.
    pub(super) dowry: Option<Box<Dowry>>,
    /// What this process has of its parent.
    pub(super) received: Option<Box<Dowry>>,
    /// Whether children have children.
    pub(super) descent: Descent,
    /// What is known of the programs that children execute.
    pub(super) known: Editions,
}

impl Nursery {
    /// The environment that the next child is to be.
    ///
    /// # Errors
    /// `EAGAIN` where there are too many environments; what the kernel refuses.
    pub fn prepare(&mut self) -> Result<Ready> {
        let is_first = process().is_first(thread());
        let ready = match self.ready.take_if(|_| is_first) {
            Some(ready) => ready,
            None => self.make_ready(is_first)?,
        };
        self.is_busy = true;
        Ok(ready)
    }

    /// The number of the next child, which is made ready for it.
    ///
    /// # Errors
    /// As [`Self::prepare`].
    pub fn reserve(&mut self) -> Result<u64> {
        if self.ready.is_none() {
            self.ready = Some(self.make_ready(true)?);
        }
        Ok(self.ready.as_ref().map_or(0, |ready| ready.made.number.0))
    }

    /// Of what this process has of its parent, if it has that yet, for a child of the `first` thread.
    fn make_ready(&mut self, first: bool) -> Result<Ready> {
        let received = self.received.take_if(|_| first);
        let taken = received.and_then(|dowry| dowry.take_over().ok());
        let Some((ready, program, through)) = taken else { return Ready::make() };
        (self.prepared, self.editions) = program.into_parts();
        self.through = through;
        Ok(ready)
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
        let here = self.through.as_ref().map_or(&[][..], Shared::pages);
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
        write_words(page, process().session_key, &words).inspect_err(|_| drop(Allocator::own().free(page)))?;
        self.beginning = Some(page);
        Ok(page)
    }

    /// Maps what a child was made of that is gone, for the next one.
    fn look_at(&mut self, pages: Vec<PageNumber>) {
        self.look_away();
        self.through = process().windows.lock().open_own(pages, process().session_key, true).ok();
    }

    /// Maps the program that a child is to execute where it will find it. Nothing where that cannot be, which is left to the child.
    pub fn prepare_program(&mut self, ready: &mut Ready, request: &Request) -> Option<Tables> {
        let process = process();
        self.prepared = request.prepare(self.prepared.take(), &process.windows);
        let tables = self.map_program(ready, request);
        if tables.is_none() {
            self.forget_program(&mut process.windows.lock());
            ready.take_back_program(&mut process.windows.lock());
        }
        tables
    }

    fn map_program(&mut self, ready: &mut Ready, request: &Request) -> Option<Tables> {
        let (pages, kept) = ready.pages_for_program(self.prepared.as_ref()?)?;
        let place = self.place_of(0, &pages);
        let prepared = self.prepared.as_mut()?;
        prepared.give(&pages, &mut self.editions);
        let tables = ready.map_prepared(prepared).ok()?;
        prepared.fill(kept, place, process().session_key).ok()?;
        // What left the files meanwhile may be another's.
        request.is_current().then_some(tables)
    }

    /// The files of the program that a child executed last.
    pub(super) fn program(&self) -> Option<Vec<Arc<Executable>>> {
        self.prepared.as_ref().map(|prepared| prepared.sources())
    }

    /// How many pages of its own the program begins with that was prepared last.
    fn own(&self) -> usize {
        self.prepared.as_ref().map_or(0, |prepared| prepared.own())
    }

    fn forget_program(&mut self, windows: &mut Windows) {
        self.prepared.take().iter_mut().for_each(|prepared| prepared.look_away(windows));
    }

    /// Pages that held the data of a child are given up: what maps them would keep them.
    fn let_go(&mut self, pages: &[PageNumber]) {
        self.look_away();
        if let Some(ready) = self.ready.as_mut().filter(|ready| ready.room.kept.mapped(pages) > 0) {
            let _ = ready.room.kept.drop_data(&ready.editor());
        }
    }

    fn look_away(&mut self) {
        if let Some(through) = self.through.take() {
            process().windows.lock().close(&through);
        }
    }
}

impl Process {
    /// Takes back what a child was made of, and ExOS's data for it, whose pages are `copies`: for the next one, if there is nothing
    /// for that yet and this process goes on.
    pub fn keep_room(&self, child: Child, copies: &[PageNumber]) {
        let (can_keep, executed) = (self.can_keep(&child), child.has_executed());
        let is_prepared = child.room.as_ref().is_some_and(|room| room.is_prepared());
        let program = child.program().filter(|_| !is_prepared);
        let is_beside = executed && !is_prepared;
        let mut old = child.into_ready();
        let mut nursery = self.nursery.lock();
        let (is_second, had_beside) = (old.room.is_renewed, old.room.kept.has_beside());
        nursery.known.note(client::edition_of_programs());
        if !can_keep || nursery.ready.is_some() {
            drop(nursery);
            return old.bury();
        }
        if old.begin_again(&mut nursery, executed).is_err() {
            nursery.look_away();
            return old.bury();
        }
        if old.room.is_dowry {
            self.public_word(public::CHILD).store(old.made.number.0, Release);
        }
        let (habit, in_vain) = (&mut nursery.habit, had_beside && !old.room.kept.has_beside());
        let program = program.filter(|(path, _)| habit.note(path, in_vain));
        let beside = old.room.kept.prepared_beside();
        let beside = beside.filter(|known| nursery.known.is_old(known.edition_of_files()));
        if beside.is_some_and(|known| !look_anew(known)) {
            old.drop_beside();
        }
        let program = program.filter(|_| is_second && !old.room.kept.has_beside());
        if had_beside && nursery.habit.note_use(is_beside) {
            old.drop_beside();
        }
        if program.is_some_and(|(path, stack)| old.put_beside((&path, stack)).is_err()) {
            return old.bury();
        }
        // Who makes a second child makes a third.
        if is_second {
            let first = if is_prepared { old.last_for_program(nursery.own()) } else { &old.room.spare[1] };
            let pages = first.iter().chain(copies).copied();
            let here = nursery.through.as_ref().map_or(&[][..], Shared::pages);
            if !pages.clone().eq(here.iter().copied()) {
                let pages = pages.collect();
                nursery.look_at(pages);
            }
        }
        nursery.ready = Some(old);
    }

    /// Whether the next child could be made of this one, which is gone.
    fn can_keep(&self, child: &Child) -> bool {
        let is_mine = exposed::environment(child.made.number)
            .is_some_and(|info| info.creator.load(Relaxed) == area::number().0)
            && self.is_first(thread())
            && remains(&child.made);
        // What borrows a key is made anew: the key is not this process's to give to who is not born.
        let can_give = !self.borrows_key() && self.stopped.load(Relaxed) < state::ENDS;
        child.room.as_ref().is_some_and(|room| !room.is_forgotten) && is_mine && can_give
    }

    /// Whether a child that is gone may stay as it is until there is need of what it was made of: the first one, if it is small.
    pub fn can_wait(&self, child: &Child) -> bool {
        let pages = || {
            exposed::environment(child.made.number)
                .map_or(0, |info| info.budget[Resource::Page as usize].used.load(Relaxed))
        };
        // Who goes on for it is known by its number as long as it is there itself.
        let is_itself = || relatives::sight().succession.environment(child.number()) == child.number();
        let is_first = || {
            let nursery = self.nursery.lock();
            nursery.ready.is_none() && nursery.first.is_none()
        };
        child.room.as_ref().is_some_and(|room| !room.is_renewed && room.dowry.is_none())
            && !self.has_threads.load(Relaxed)
            && self.can_keep(child)
            && pages() < SMALL
            && is_itself()
            && is_first()
    }

    /// Leaves it.
    pub fn put_off(&self, child: Child) {
        // It is no process any more.
        unmark(&child.public);
        mark(&child.public);
        self.nursery.lock().first = Some(Box::new(child));
    }

    /// Takes back what the first child was made of, if that was put off.
    pub fn take_back_first(&self) {
        let first = self.nursery.lock().first.take_if(|_| self.is_first(thread()));
        first.into_iter().for_each(|child| child.take_back());
    }

    /// Gives up the pages that only save time for the next child, where that may not come soon: who sleeps without children.
    /// What it will be made of stays. A thread leaves it to its process alone: another one may be making a child, and holds then
    /// the children while it asks for the nursery.
    pub fn rest(&self) {
        if self.has_threads.load(Relaxed) || !self.is_first(thread()) {
            return;
        }
        if self.children.lock().all.is_empty() {
            self.give_up_spare();
            self.forget_memory_before();
            self.give_up_dowry();
        }
        self.take_back_first();
        if self.copies.lock().is_empty() {
            return;
        }
        let mut nursery = self.nursery.lock();
        if nursery.is_busy || !self.children.lock().all.is_empty() {
            return;
        }
        nursery.look_away();
        nursery.forget_program(&mut self.windows.lock());
        if let Some(ready) = &mut nursery.ready {
            ready.clear();
            for spare in core::mem::take(&mut ready.room.spare) {
                ready.pages().free_many(&spare);
            }
        }
        let beginning = nursery.beginning.take();
        drop(nursery);
        let mut copies = core::mem::take(&mut *self.copies.lock());
        copies.extend(beginning);
        Allocator::own().free_many(&copies);
        crate::budget::give_back_all();
    }

    /// Gives up what is kept for the next child.
    pub fn empty_nursery(&self) {
        let mut nursery = self.nursery.lock();
        nursery.look_away();
        nursery.forget_program(&mut self.windows.lock());
        let (ready, first, beginning) = (nursery.ready.take(), nursery.first.take(), nursery.beginning.take());
        let dowry = nursery.dowry.take();
        drop(nursery);
        ready.into_iter().for_each(Ready::bury);
        dowry.into_iter().for_each(|dowry| dowry.give_up(0));
        for mut child in first {
            let copies = core::mem::take(&mut child.copies);
            child.into_ready().bury();
            self.keep_copies(&copies);
        }
        beginning.into_iter().for_each(|page| drop(Allocator::own().free(page)));
    }

    /// The same where this process ends, and all pages that are charged to it go with it.
    pub fn abandon_nursery(&self) {
        let mut nursery = self.nursery.lock();
        let ready = nursery.ready.take();
        let first = nursery.first.take().map(|child| child.into_ready());
        let dowry = nursery.dowry.take().map(|dowry| dowry.into_ready());
        ready.into_iter().chain(first).chain(dowry).for_each(Ready::leave);
    }

    /// Takes back pages of its first thread's that held the data of a child that is gone: for the next child, as far as
    /// nobody else maps them and there is room.
    pub fn keep_copies(&self, pages: &[PageNumber]) {
        let mut nursery = self.nursery.lock();
        if self.copies.lock().len() + pages.len() > COPIES {
            nursery.let_go(pages);
        }
        self.keep_copies_beside(&nursery, pages);
    }

    /// The same for who makes a child.
    pub fn keep_copies_beside(&self, nursery: &Nursery, pages: &[PageNumber]) {
        let mut copies = self.copies.lock();
        let kept = nursery.ready.as_ref().map_or(0, |ready| ready.room.kept.mapped(pages));
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
