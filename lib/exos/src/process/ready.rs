//! Environments that are ready for children: each is made once, and again made of what a child leaves that is gone.
//!
//! One that is ready has its area, with the words that it begins with, and nothing else in its address space; it has no
//! slice. To make one takes some thirty pages from the kernel and gives them to it one by one, and to destroy one takes
//! as much again; the kernel's call `environment_renew` leaves an environment its pages, its area and the tables for it,
//! under another number and another name. One that is ready is kept for the next child of the same process, where all that
//! the child had is gone: whatever a child did, nothing of it is found by the next one. Else it is destroyed.

use super::begin::{self, Inherited};
use super::children::{Child, public};
use super::create::{BORROWED_SLOT, Beginning, Made, Maker, area_words, give_keys, write_words};
use super::record::{Process, state};
use crate::errno::{Errno, Result};
use crate::layout::PAGE_SIZE;
use crate::user_memory::current::{process, thread};
use crate::user_memory::own_pages::AT_HAND;
use crate::user_memory::shared::Shared;
use crate::user_memory::tables::{Editor, Tables, link_common};
use crate::user_memory::{birth, image};
use abi::budget::Resource;
use abi::capability::Rights;
use abi::memory_map::LIBRARY_BASE;
use abi::page_table::MapRow;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Relaxed, Release};
use runtime::address_space::AddressSpace;
use runtime::page::{Allocator, PageKind};
use runtime::{EnvironmentId, Error, Failure, KeyIndex, PageNumber, area, exposed, heap, key, layout, syscall};

/// What a process keeps for its next child, and what it is making a child of. Who makes a child holds it from the beginning
/// to the end.
#[derive(Debug, Default)]
pub struct Nursery {
    /// For the next child of the first thread.
    pub ready: Option<Ready>,
    /// What becomes a child now.
    pub current: Option<Ready>,
    /// What that child finds in its copy of the heap.
    pub inherited: Option<Box<Inherited>>,
    /// How many pages of its own the program began with that the last child executed.
    pub began_with: usize,
    /// A window onto pages that the next child is likely to begin with: copies of its program's, then of ExOS's own data.
    through: Option<Shared>,
}

/// An environment that has not begun.
#[derive(Clone, Debug)]
pub struct Ready {
    /// It.
    pub made: Made,
    /// Its public page, mapped here.
    pub public: Shared,
    /// What else it is made of.
    pub room: Room,
}

/// What an environment is made of, for the one after it.
#[derive(Clone, Debug)]
pub struct Room {
    root: PageNumber,
    private: Vec<PageNumber>,
    /// Takes the place of the first private page in the next one; none: it is yet to be allocated.
    next: PageNumber,
    /// Pages under its list while it is ready, `next` not counted.
    pages: u64,
    /// Pages under its list that its program was given when it began: tables, copies of pages, and what it had at hand for the
    /// program that it executes.
    given: [Vec<PageNumber>; 3],
    /// The same, of the one before, that are to be given again.
    spare: [Vec<PageNumber>; 3],
}

impl Nursery {
    /// The environment that the next child is to be, in the place of the current one.
    ///
    /// # Errors
    /// `EAGAIN` where there are too many environments; what the kernel refuses.
    pub fn prepare(&mut self) -> Result<Ready> {
        let is_first = thread().number() == process().environment();
        let ready = match self.ready.take_if(|_| is_first) {
            Some(ready) => ready,
            None => Ready::make()?,
        };
        self.current = Some(ready.clone());
        Ok(ready)
    }

    /// The number of the next child, which is made ready for it.
    ///
    /// # Errors
    /// As [`Self::prepare`].
    pub fn reserve(&mut self) -> Result<u64> {
        if self.ready.is_none() {
            self.ready = Some(Ready::make()?);
        }
        Ok(self.ready.as_ref().map_or(0, |ready| ready.made.number.0))
    }

    /// Addresses of the windows that a child has no use for.
    pub fn window_addresses(&self) -> impl Iterator<Item = u64> {
        let public = [&self.ready, &self.current].into_iter().flatten().map(|ready| ready.public.address());
        public.chain(self.through.iter().map(Shared::address))
    }

    /// Where pages for the next child are mapped, if they are, in a row: first of all, or `before` others before them.
    pub fn place_of(&self, before: usize, pages: &[PageNumber]) -> Option<u64> {
        let through = self.through.as_ref()?;
        let is_at = |at: &usize| through.pages().get(*at..*at + pages.len()).is_some_and(|here| here == pages);
        let place = [before, 0].into_iter().find(is_at).filter(|_| !pages.is_empty())?;
        Some(through.address() + place as u64 * PAGE_SIZE)
    }

    /// How often this process itself maps each of these pages, which a child was made of.
    fn mapped(&self, pages: &[PageNumber]) -> u64 {
        let own = |through: &Shared| through.pages().starts_with(pages) || through.pages().ends_with(pages);
        u64::from(self.through.as_ref().is_some_and(own))
    }

    /// Maps what a child was made of that is gone, for the next one.
    fn look_at(&mut self, pages: impl Iterator<Item = PageNumber> + Clone) {
        if self.through.as_ref().is_some_and(|through| through.pages().iter().copied().eq(pages.clone())) {
            return;
        }
        self.look_away();
        self.through = process().windows.lock().open(pages.collect(), process().session_key, true).ok();
    }

    /// Notes what the program began with that a child executed, if it did; whether. Who says so may lie.
    fn note_beginning(&mut self, child: &Child) -> bool {
        let told = child.public.words()[public::BEGAN_WITH].load(Relaxed) as usize;
        if told != 0 {
            self.began_with = told.min(AT_HAND);
        }
        told != 0
    }

    fn look_away(&mut self) {
        if let Some(through) = self.through.take() {
            process().windows.lock().close(&through);
        }
    }
}

/// What every child of the running thread begins with.
fn beginning() -> Beginning {
    Beginning {
        function: (begin::forked as *const () as u64, 0),
        heap: heap::address(),
        process: core::ptr::from_ref(process()) as u64,
        thread: core::ptr::from_ref(thread()) as u64,
        borrows: process().borrows_key(),
        ..image::beginning()
    }
}

impl Ready {
    fn make() -> Result<Self> {
        let process = process();
        crate::budget::ensure(Resource::Environment, 1).map_err(|_| Errno::EAGAIN)?;
        let key = process.session_key;
        let maker = Maker::begin(key, key, process.lists.public(key).list, area::channel_key())?;
        let (root, private) = (maker.space.root, maker.private().to_vec());
        let made = maker.begin_with(&beginning())?;
        if process.borrows_key() {
            let given = syscall::key_copy(BORROWED_SLOT, u64::from(Rights::ALL.0), made.number, BORROWED_SLOT, key);
            given.inspect_err(|_| made.bury(key))?;
        }
        let public = process.windows.lock().open(alloc::vec![made.public], key, true);
        let public = public.inspect_err(|_| made.bury(key))?;
        let pages = pages_under(made.list);
        let next = PageNumber::NONE;
        let room = Room { root, private, next, pages, given: Default::default(), spare: Default::default() };
        let ready = Self { made, public, room };
        ready.mark();
        Ok(ready)
    }

    /// How its tables are edited, and pages allocated for it.
    pub fn editor(&self) -> Editor {
        Editor { root: self.room.root, key: process().session_key, tables: self.pages() }
    }

    /// Its access list and the key to it.
    pub fn pages(&self) -> Allocator {
        Allocator { key: process().session_key, list: self.made.list }
    }

    /// Maps pages into its address space.
    pub fn show(&self, rows: &[MapRow]) -> Result<()> {
        let Editor { root, key, tables } = self.editor();
        birth::show(&AddressSpace { root, key, tables }, rows)
    }

    /// Links the table that maps the library's top-level slot: the ExOS image, and nothing else.
    pub fn link_image(&self, table: PageNumber) -> Result<()> {
        link_common(&self.editor(), LIBRARY_BASE, 3, table)
    }

    /// Says in its public page whose it is, for the case that its maker is destroyed.
    fn mark(&self) {
        let words = self.public.words();
        words[public::PARENT].store(process().environment(), Relaxed);
        words[public::MAGIC].store(public::MAGIC_READY, Release);
    }

    /// Destroys it.
    pub fn bury(&self) {
        process().windows.lock().close(&self.public);
        self.made.bury(process().session_key);
    }

    /// Makes it of what a child left that is gone. Where there is more than that it is destroyed, and the result is nothing;
    /// after an error the child is what it was.
    fn of(child: &Child, nursery: &Nursery) -> Result<Option<Self>> {
        let mut ready = Self { made: child.made.clone(), public: child.public.clone(), room: child.room.clone() };
        ready.renew()?;
        ready.take_given(nursery);
        ready.public.clear();
        ready.mark();
        let session = process().session_key;
        if ready.is_whole() && give_keys(ready.made.number, session, session, area::channel_key()).is_ok() {
            return Ok(Some(ready));
        }
        ready.bury();
        Ok(None)
    }

    fn renew(&mut self) -> Result<()> {
        let session = process().session_key;
        if self.room.next == PageNumber::NONE {
            self.room.next = self.pages().allocate()?;
        }
        let words = area_words(&beginning(), layout::AREA, area::channel_key().is_some());
        write_words(self.room.next, session, &words)?;
        let key = key::derive(session, Rights::ALL, 0)?;
        let outcome = self.renew_as(session, key);
        let _ = key::discard(key);
        self.made.number = outcome?;
        core::mem::swap(&mut self.room.next, &mut self.room.private[0]);
        Ok(())
    }

    /// Nobody who had the old one's key has the new one's.
    fn renew_as(&self, session: KeyIndex, key: KeyIndex) -> Result<EnvironmentId> {
        syscall::access_list_set(session, self.made.list, 1, key, u64::from(Rights::ALL.0))?;
        loop {
            match syscall::environment_renew(session, self.made.number, key, self.room.next) {
                Err(Failure { error: Error::Again, .. }) => {}
                outcome => return Ok(outcome?),
            }
        }
    }

    /// What the program of the old one was given, and nobody uses any more, is for the next one's.
    fn take_given(&mut self, nursery: &Nursery) {
        let list = self.made.list;
        for (spare, given) in self.room.spare.iter_mut().zip(&mut self.room.given) {
            let mapped = nursery.mapped(given);
            let is_free = |page: &PageNumber| {
                exposed::page(*page).is_some_and(|info| {
                    info.access() == list
                        && info.kind() == PageKind::Ordinary
                        && !info.is_orphan()
                        && info.references() == mapped
                })
            };
            spare.extend(given.drain(..).filter(is_free));
        }
    }

    /// Whether there is no more, and no less, than there is to one that was just made.
    fn is_whole(&self) -> bool {
        let references = |page: PageNumber| exposed::page(page).map_or(0, |info| info.references());
        let spare: usize = self.room.spare.iter().map(Vec::len).sum();
        pages_under(self.made.list) == self.room.pages + 1 + spare as u64
            && references(self.made.public) == 2
            && self.room.private.iter().all(|page| references(*page) == 1)
    }
}

impl Ready {
    /// Pages for copies that its program is given, all of which are to be written before it begins.
    ///
    /// # Errors
    /// The kernel's refusals of `page_allocate`.
    pub fn pages_for_copies(&mut self, count: usize) -> Result<Vec<PageNumber>> {
        let mut copies = core::mem::take(&mut self.room.spare[1]);
        // What the one before had in them is not for this one.
        self.pages().free_many(&copies[copies.len().min(count)..]);
        let kept = copies.len().min(count);
        copies.resize(kept, PageNumber::NONE);
        copies.resize(count, PageNumber::NONE);
        self.pages().allocate_many(&mut copies[kept..])?;
        self.room.given[1].clone_from(&copies);
        Ok(copies)
    }

    /// How many pages of its program are copies.
    pub const fn copies(&self) -> usize {
        self.room.given[1].len()
    }

    /// Gives its program tables that map what `rows` say.
    ///
    /// # Errors
    /// The kernel's refusals.
    pub fn map(&mut self, rows: &[MapRow]) -> Result<Tables> {
        let mut tables = Tables::of_spare(core::mem::take(&mut self.room.spare[0]));
        let outcome = tables.edit(&self.editor(), rows);
        self.room.spare[0] = tables.take_spare();
        self.room.given[0].extend(tables.pages());
        outcome.map(|()| tables)
    }

    /// Gives it pages for what the program begins with that it is to execute: so many, as far as there are, some with what was in
    /// them.
    pub fn pages_for_program(&mut self, count: usize) -> Vec<u64> {
        let spare = &mut self.room.spare[2];
        let mut pages = spare.split_off(spare.len().saturating_sub(count));
        let kept = pages.len();
        pages.resize(count, PageNumber::NONE);
        if self.pages().allocate_many(&mut pages[kept..]).is_err() {
            pages.truncate(kept);
        }
        self.room.given[2].clone_from(&pages);
        pages.iter().map(|page| page.0).collect()
    }
}

fn pages_under(list: PageNumber) -> u64 {
    exposed::page(list).map_or(0, |info| u64::from(info.links()))
}

impl Process {
    /// Takes back what a child was made of, for the next one, if there is nothing for that yet and this process goes on. False
    /// where it is still there.
    pub fn keep_room(&self, child: &Child) -> bool {
        let is_mine = exposed::environment(child.made.number)
            .is_some_and(|info| info.creator.load(Relaxed) == area::number().0)
            && thread().number() == self.environment();
        // What borrows a key is made anew: the key is not this process's to give to who is not born.
        if !is_mine || self.borrows_key() || self.stopped.load(Relaxed) >= state::ENDS {
            return false;
        }
        let mut nursery = self.nursery.lock();
        if nursery.ready.is_some() {
            return false;
        }
        let executed = nursery.note_beginning(child);
        let Ok(ready) = Ready::of(child, &nursery) else { return false };
        nursery.ready = ready;
        match &nursery.ready {
            None => nursery.look_away(),
            // Who makes a second child makes a third.
            Some(ready) if child.room.next != PageNumber::NONE => {
                // Who executes another program has those of the one before for that, as long as nobody else maps them.
                let copies = if executed { Vec::new() } else { ready.room.spare[1].clone() };
                nursery.look_at(copies.iter().chain(&child.copies).copied());
            }
            Some(_) => {}
        }
        true
    }

    /// Gives up the pages that only save time for the next child, where that may not come soon: who sleeps without children.
    /// What it will be made of stays. A thread leaves it to its process alone: another one may be making a child, and holds then
    /// the children while it asks for the nursery.
    pub fn rest(&self) {
        if self.has_threads.load(Relaxed) || thread().number() != self.environment() || self.copies.lock().is_empty() {
            return;
        }
        let mut nursery = self.nursery.lock();
        if nursery.current.is_some() || !self.children.lock().all.is_empty() {
            return;
        }
        nursery.look_away();
        if let Some(ready) = &mut nursery.ready {
            for spare in core::mem::take(&mut ready.room.spare) {
                ready.pages().free_many(&spare);
            }
        }
        drop(nursery);
        let copies = core::mem::take(&mut *self.copies.lock());
        Allocator::own().free_many(&copies);
    }

    /// Gives up what is kept for the next child.
    pub fn empty_nursery(&self) {
        let mut nursery = self.nursery.lock();
        nursery.look_away();
        let ready = nursery.ready.take();
        drop(nursery);
        ready.iter().for_each(Ready::bury);
    }

    /// Takes back pages of its first thread's that held the data of a child that is gone: for the next child, as far as
    /// nobody else maps them and there is room.
    pub fn keep_copies(&self, pages: &[PageNumber]) {
        let nursery = self.nursery.lock();
        self.keep_copies_beside(&nursery, pages);
    }

    /// The same for who makes a child.
    pub fn keep_copies_beside(&self, nursery: &Nursery, pages: &[PageNumber]) {
        // More than a small process's data takes.
        const MOST: usize = 32;
        let mut copies = self.copies.lock();
        let mapped = nursery.mapped(pages);
        let is_unused = |page: &PageNumber| exposed::page(*page).is_some_and(|info| info.references() == mapped);
        let (unused, mut others): (Vec<PageNumber>, Vec<PageNumber>) = pages.iter().partition(|page| is_unused(page));
        let (kept, rest) = unused.split_at(unused.len().min(MOST.saturating_sub(copies.len())));
        copies.extend_from_slice(kept);
        others.extend_from_slice(rest);
        Allocator::own().free_many(&others);
    }
}
