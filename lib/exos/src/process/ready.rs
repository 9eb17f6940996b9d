//! Environments that are ready for children: each is made once, and again made of what a child leaves that is gone.
//!
//! One that is ready has its area, with the words that it begins with, and nothing in its address space but what its maker put
//! there; it has no slice. To make one takes some thirty pages from the kernel and gives them to it one by one, and to destroy one
//! takes as much again; the kernel's call `environment_renew` leaves an environment its pages and its address space, or of
//! that only the area (`kept`), under another number and another name. One that is ready is kept for the next child of the same
//! process, where all that the child did is gone: nothing of it is found by the next one. Else it is destroyed.

use super::begin::{self, Inherited, OwnMemory};
use super::beside::Beside;
use super::children::{Child, public};
use super::create::{self, BORROWED_SLOT, Beginning, Made, Maker, area_words, give_keys, write_words};
use super::dowry::{Descent, Dowry};
use super::exec::Request;
use super::grave::remains;
use super::habit::Habit;
use super::kept::{self, Gone, Kept, Remedy, Shown};
use super::prepared::Prepared;
use super::program::Executable;
use super::record::{Process, state};
use crate::errno::{Errno, Result};
use crate::layout::PAGE_SIZE;
use crate::memory::frames::page_of;
use crate::relatives;
use crate::signal::post::Post;
use crate::user_memory::current::{process, thread};
use crate::user_memory::image;
use crate::user_memory::shared::{PAGE_WORDS, Shared, Windows};
use crate::user_memory::tables::{Editor, Tables};
use abi::budget::Resource;
use abi::capability::Rights;
use abi::page_table::MapRow;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Relaxed, Release};
use runtime::address_space::Access;
use runtime::page::{Allocator, PageKind};
use runtime::{EnvironmentId, Error, Failure, KeyIndex, PageNumber, area, exposed, heap, key, layout, syscall};

/// Pages that a child may have of its own for what it is made of to be left to it for a while.
const SMALL: u64 = 512;
/// Pages for ExOS's data that are kept at most: more than a small process's data takes.
const COPIES: usize = 32;

/// What a process keeps for its next child, and what it is making a child of. Who makes a child holds it from the beginning
/// to the end.
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
}

/// An environment that has not begun.
#[derive(Clone, Debug)]
pub struct Ready {
    /// It.
    pub made: Made,
    /// Its public page and its mailbox, mapped here.
    pub public: Shared,
    /// What else it is made of.
    pub room: Box<Room>,
}

/// What is known of what a child left, when its environment is another one.
#[derive(Debug, Default)]
pub struct Renewed {
    /// Whether its address space is there.
    pub(super) keeps: bool,
    /// What was taken out of that before.
    gone: Gone,
}

/// What an environment is made of, for the one after it.
#[derive(Clone, Debug, Default)]
pub struct Room {
    pub(super) root: PageNumber,
    private: Vec<PageNumber>,
    /// Pages under its list when it was made.
    pages: u64,
    /// Whether a child of this process has been it before.
    pub(super) is_renewed: bool,
    /// Whether it goes with the child: nothing else is noted of it.
    is_forgotten: bool,
    /// What its list tells of its edits, if nobody but its maker has made any.
    pub(super) edits: (u64, u64),
    /// What is in its address space.
    pub(super) kept: Kept,
    /// Pages under its list that its program was given when it began: tables, copies of pages, and what it had at hand for the
    /// program that it executes.
    given: [Vec<PageNumber>; 3],
    /// The same, of the one before, that are to be given again.
    spare: [Vec<PageNumber>; 3],
    /// Pages of who made it for ExOS's data, where it is made for a child of a child.
    pub(super) data: Vec<PageNumber>,
    /// What went along with its child.
    pub(super) dowry: Option<Box<Dowry>>,
    /// Whether the running process has it of its parent, whose its pages are.
    pub(super) is_dowry: bool,
}

impl Room {
    /// No other child is made of it: what would be needed for that is forgotten.
    pub fn forget(&mut self) {
        self.is_forgotten = true;
        (self.private, self.given, self.spare) = Default::default();
        self.kept.forget();
    }

    /// Pages of the program that it is given.
    pub(super) fn program_pages(&self) -> &[PageNumber] {
        &self.given[2]
    }

    /// What it was given is to be given again, just as it is.
    pub(super) fn take_all_back(&mut self) {
        self.spare.iter_mut().zip(&mut self.given).for_each(|(spare, given)| spare.append(given));
    }

    /// The other way round: what is to be given is counted as given.
    pub(super) fn give_all(&mut self) {
        self.given.iter_mut().zip(&mut self.spare).for_each(|(given, spare)| given.append(spare));
    }

    /// Whether its child was given the program that it is to execute.
    const fn is_prepared(&self) -> bool {
        !self.given[2].is_empty()
    }
}

impl Nursery {
    /// The environment that the next child is to be.
    ///
    /// # Errors
    /// `EAGAIN` where there are too many environments; what the kernel refuses.
    pub fn prepare(&mut self) -> Result<Ready> {
        let is_first = thread().number() == process().environment();
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
    fn mapped<'a>(&'a self, pages: &[PageNumber]) -> impl Fn(&PageNumber) -> u64 + use<'a> {
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
    /// A fresh one.
    ///
    /// # Errors
    /// `EAGAIN` where there are too many environments; what the kernel refuses.
    pub(super) fn make() -> Result<Self> {
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
        let public = show_public(&made).inspect_err(|_| made.bury(key))?;
        let (pages, kept) = (pages_under(made.list), Kept::of_fresh(made.list));
        let room = Room { root, private, pages, edits: edits(made.list), kept, ..Room::default() };
        let ready = Self { made, public, room: Box::new(room) };
        mark(&ready.public);
        Ok(ready)
    }

    /// The page of its mailbox.
    pub fn mailbox(&self) -> PageNumber {
        self.public.pages()[1]
    }

    /// How its tables are edited, and pages allocated for it.
    pub fn editor(&self) -> Editor {
        Editor { root: self.room.root, key: process().session_key, tables: self.pages() }
    }

    /// Its access list and the key to it.
    pub fn pages(&self) -> Allocator {
        Allocator { key: process().session_key, list: self.made.list }
    }

    /// Maps windows, if there are others than those of the last child, an `own` one, and the pages for ExOS's data, into its address
    /// space.
    ///
    /// # Errors
    /// The kernel's refusals.
    pub fn show(&mut self, windows: Option<Shown>, own: Vec<MapRow>, data: impl Iterator<Item = MapRow>) -> Result<()> {
        self.room.kept.show(&self.editor(), windows, own, data)
    }

    /// The page of its own window that is mapped at an address there; none where there is no such window.
    pub fn shown_at(&self, address: u64) -> PageNumber {
        self.room.kept.shown_at(address)
    }

    /// Whether it has the windows of this edition (see `Windows::edition`).
    pub fn shows(&self, edition: u64) -> bool {
        self.room.kept.shows(edition)
    }

    /// Maps pages that are its own: no other child is made of what this one leaves.
    ///
    /// # Errors
    /// The kernel's refusals.
    pub fn give(&self, own: impl Iterator<Item = MapRow>) -> Result<()> {
        kept::give(&self.editor(), own)
    }

    /// Links the table that maps the library's top-level slot: the ExOS image, and nothing else.
    ///
    /// # Errors
    /// The kernel's refusals.
    pub fn link_image(&mut self, table: PageNumber) -> Result<()> {
        self.room.kept.link_image(&self.editor(), table)
    }

    /// Takes the program before out of its address space.
    ///
    /// # Errors
    /// The kernel's refusals.
    pub fn drop_program(&mut self, windows: &mut Windows) -> Result<()> {
        let pages = self.room.kept.drop_program(&self.editor(), windows)?;
        self.room.spare[0].extend(pages);
        Ok(())
    }

    /// Takes everything out of its address space that was put there.
    fn clear(&mut self) {
        let _ = self.drop_program(&mut process().windows.lock());
        self.drop_beside();
        let _ = self.show(Some(Shown::default()), Vec::new(), core::iter::empty());
    }

    /// Links the uppermost tables of its maker's program, which both have from now on.
    ///
    /// # Errors
    /// The kernel's refusals.
    pub fn link_program(&mut self, tables: &mut Tables, windows: &mut Windows) -> Result<()> {
        self.drop_program(windows)?;
        self.room.kept.share();
        tables.link_into(&self.editor())
    }

    /// Takes out what stands beside its memory.
    fn drop_beside(&mut self) {
        let pages = self.room.kept.drop_beside(&self.editor(), &mut process().windows.lock());
        self.room.spare[0].extend(pages.into_iter().flatten());
    }

    /// Lends the program that stands beside its memory to what its child finds.
    pub fn lend_beside(&mut self) -> Option<Box<Beside>> {
        self.room.kept.lend_beside()
    }

    /// It is back.
    pub fn take_back_beside(&mut self, beside: Option<Box<Beside>>) {
        self.room.kept.take_back_beside(beside);
    }

    /// Puts the program beside that a child executed by itself, if it can be; the stack of it began there. Who has threads does not rest,
    /// and would keep it for long.
    #[cold]
    fn put_beside(&mut self, (path, stack): (&[u8], u64)) -> Result<()> {
        if process().has_threads.load(Relaxed) {
            return Ok(());
        }
        let Some(program) = super::exec::prepare_for_children(path, stack) else { return Ok(()) };
        let editor = self.editor();
        let Room { kept, spare, .. } = &mut *self.room;
        kept.put_beside(&editor, &mut spare[0], program)
    }

    /// Notes what is in its address space, before it begins.
    pub fn note(&mut self) {
        self.room.kept.note();
    }

    /// The running process ends, and all pages with it that are charged to it.
    fn leave(self) {
        if self.room.is_dowry {
            // The session would take it for an orphan.
            mark_for(&self.public, process().parent.load(Relaxed));
            self.condemn();
        } else if remains(&self.made) {
            create::release(self.made.number, process().session_key);
        }
    }

    /// Destroys it.
    pub fn bury(self) {
        bury(&self.made, &self.public, self.room);
    }

    /// Makes it ready again, of what a child left that is gone, which may have `executed` another program. Without success there
    /// may be more of it than of one that is ready, and it is to be destroyed.
    fn begin_again(&mut self, nursery: &mut Nursery, executed: bool) -> Result<()> {
        let renewed = self.renew_left(nursery, executed)?;
        // It maps what that one's child is made of, and what is left of that child maps what is this one's.
        let mut dowry = nursery.renew_dowry(
            self.room.dowry.take(),
            public::first_child(&self.public),
            public::gave_up(&self.public),
        );
        let tidied = self.tidy(nursery, renewed, None);
        let kept = &self.room.kept;
        dowry.iter_mut().for_each(|dowry| dowry.tidy(nursery, kept));
        let outcome = tidied.and_then(|()| self.check());
        for dowry in dowry {
            nursery.dowry = dowry.keep(nursery, &self.room.kept).or(nursery.dowry.take());
        }
        outcome
    }

    /// The first step: nobody runs there any more, and nobody will who has not got it from this process.
    pub(super) fn renew_left(&mut self, nursery: &mut Nursery, executed: bool) -> Result<Renewed> {
        let beginning = nursery.beginning()?;
        let editor = self.editor();
        // Of a program that the child mapped itself there is nothing to keep, unless it stood beside its memory.
        let remedy = self.room.kept.remedy(&editor, executed && !self.is_prepared());
        let (mut keeps, mut gone) = (remedy != Remedy::Clean, Gone::default());
        if remedy == Remedy::MendEarly {
            keeps = self.room.kept.mend(&editor).map(|early| gone = early).is_ok();
            self.note();
        }
        self.reclaim_mailbox()?;
        self.renew(beginning, keeps)?;
        Ok(Renewed { keeps, gone })
    }

    /// The second step: what the old one has left in its address space, and in pages, which its `maker` may map, if that is another.
    pub(super) fn tidy(
        &mut self,
        nursery: &mut Nursery,
        Renewed { keeps, mut gone }: Renewed,
        maker: Option<&Kept>,
    ) -> Result<()> {
        let editor = self.editor();
        // All is still there: the old one may have run on another CPU until it was renewed.
        let late = if keeps { self.room.kept.mend(&editor) } else { self.room.kept.clean(&editor) };
        let filled = late.and_then(|late| self.room.kept.fill_beside(&editor).map(|()| gone.add(late)));
        self.room.given[0].append(&mut gone.tables);
        self.take_given(nursery, keeps.then_some(&*gone.pages), maker);
        // What stands there goes word by word: the session may be looking.
        unmark(&self.public);
        public::TELLING.into_iter().for_each(|words| self.public.clear(words));
        Post::new(&self.public.words()[PAGE_WORDS..]).clear();
        mark(&self.public);
        filled
    }

    /// The last step: there is nothing else.
    fn check(&mut self) -> Result<()> {
        if !self.is_whole() {
            return Err(Errno::EBUSY);
        }
        let session = process().session_key;
        Ok(give_keys(self.made.number, session, session, area::channel_key())?)
    }

    /// What is charged to the old one goes with it: the mailbox, if it has begun.
    fn reclaim_mailbox(&self) -> Result<()> {
        let (session, mailbox) = (process().session_key, self.mailbox());
        let is_theirs = exposed::page(mailbox).is_some_and(|info| info.owner() == self.made.number);
        if is_theirs {
            syscall::page_claim(session, mailbox, session, process().lists.public(session).list)?;
        }
        Ok(())
    }

    fn renew(&mut self, beginning: PageNumber, keeps: bool) -> Result<()> {
        let key = key::derive(process().session_key, Rights::ALL, 0)?;
        let outcome = self.renew_as(key, beginning, keeps);
        let _ = key::discard(key);
        self.made.number = outcome?;
        self.room.is_renewed = true;
        // Its new name stands on its list, in the place of the old one.
        self.room.edits.1 += 1;
        Ok(())
    }

    /// Nobody who had the old one's key has the new one's.
    fn renew_as(&self, key: KeyIndex, beginning: PageNumber, keeps: bool) -> Result<EnvironmentId> {
        let session = process().session_key;
        syscall::access_list_set(session, self.made.list, 1, key, u64::from(Rights::ALL.0))?;
        self.renew_by(key, beginning, keeps)
    }

    pub(super) fn renew_by(&self, name: KeyIndex, beginning: PageNumber, keeps: bool) -> Result<EnvironmentId> {
        let session = process().session_key;
        loop {
            match syscall::environment_renew(session, self.made.number, name, beginning, u64::from(keeps)) {
                Err(Failure { error: Error::Again, .. }) => {}
                outcome => return Ok(outcome?),
            }
        }
    }

    /// What the program of the old one was given, and nobody uses any more, is for the next one's. `gone`: the tables that mapped it
    /// stay, and map all of it but these pages.
    fn take_given(&mut self, nursery: &Nursery, gone: Option<&[PageNumber]>, maker: Option<&Kept>) {
        let list = self.made.list;
        let Room { spare, given, .. } = &mut *self.room;
        for (spare, given) in spare.iter_mut().zip(given) {
            let mapped = nursery.mapped(given);
            let in_maker = maker.is_some_and(|maker| maker.own_windows_map(given));
            let is_free = |page: &PageNumber| {
                let is_here = gone.is_some_and(|gone| !gone.contains(page));
                exposed::page(*page).is_some_and(|info| {
                    info.access() == list
                        && info.kind() == PageKind::Ordinary
                        && !info.is_orphan()
                        && info.references() == mapped(page) + u64::from(is_here) + u64::from(in_maker)
                })
            };
            spare.reserve(given.len());
            spare.extend(given.drain(..).filter(is_free));
        }
    }

    /// Whether there is no more, and no less, than there is to one that was just made, open to whom that is open to: who was named
    /// on the list of the one before, as the user is that it became, would be on that of the next (doc/decision/0022).
    pub(super) fn is_whole(&mut self) -> bool {
        let references = |page: PageNumber| exposed::page(page).map_or(0, |info| info.references());
        let spare: usize = self.room.spare.iter().map(Vec::len).sum();
        edits(self.made.list) == self.room.edits
            && pages_under(self.made.list) == self.room.pages + (self.room.kept.pages() + spare) as u64
            && references(self.made.public) == 2
            && references(self.mailbox()) == 1 + self.room.kept.maps(self.mailbox())
            && is_mailbox(self.mailbox())
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

    /// Whether it has a program that the child is to execute, or has executed.
    const fn is_prepared(&self) -> bool {
        self.room.is_prepared()
    }

    /// How many pages it was given that are filled before it begins: copies, or its program's.
    pub const fn filled(&self) -> usize {
        self.room.given[1].len() + self.room.given[2].len()
    }

    /// Gives its program tables that map what `rows` say.
    ///
    /// # Errors
    /// The kernel's refusals.
    pub fn map(&mut self, rows: Vec<MapRow>) -> Result<Tables> {
        let editor = self.editor();
        let Room { kept, spare, .. } = &mut *self.room;
        kept.map(&editor, &mut spare[0], rows)
    }

    /// Notes that its program is a copy of its maker's memory of an edition (see `Space::edition`).
    pub fn note_copy(&mut self, edition: u64, memory: &OwnMemory) {
        self.room.kept.note_copy(edition, &memory.copied);
    }

    /// The memory of its child, if that is to be a copy of this edition and the last child's was one, too: what its own pages hold is
    /// the last one's.
    pub fn copy_of(&mut self, edition: u64) -> Option<OwnMemory> {
        let Room { kept, spare, given, .. } = &mut *self.room;
        let (tables, copied) = kept.copy_of(edition)?;
        let pages = copied.iter().map(|(_, entry)| PageNumber(page_of(*entry)));
        if !pages.eq(spare[1].iter().copied()) {
            return None;
        }
        given[1] = core::mem::take(&mut spare[1]);
        Some(OwnMemory { tables: tables.clone(), copied: copied.to_vec(), has_files: false })
    }

    pub(super) fn map_prepared(&mut self, prepared: &Prepared) -> Result<Tables> {
        let editor = self.editor();
        let Room { kept, spare, .. } = &mut *self.room;
        kept.map_prepared(&editor, &mut spare[0], prepared.edition())
    }

    /// Gives it pages for what the program begins with that it is to execute; nothing where there are not so many. Those that the
    /// program before began with come first, in their order and with what was in them, so many; the others begin as they are to be.
    pub(super) fn pages_for_program(&mut self, prepared: &Prepared) -> Option<(Vec<PageNumber>, usize)> {
        let spare = &mut self.room.spare[2];
        let mut pages = spare.split_off(spare.len().saturating_sub(prepared.own()));
        let kept = pages.len();
        pages.extend(prepared.begins_as().skip(kept));
        if self.pages().copy_many(process().session_key, &mut pages[kept..]).is_err() {
            self.room.spare[2].extend_from_slice(&pages[..kept]);
            return None;
        }
        self.room.given[2].clone_from(&pages);
        Some((pages, kept))
    }

    /// The pages that the last program began with, of so many pages.
    fn last_for_program(&self, count: usize) -> &[PageNumber] {
        let spare = &self.room.spare[2];
        &spare[spare.len().saturating_sub(count)..]
    }

    /// The program that its child was to find is not there.
    fn take_back_program(&mut self, windows: &mut Windows) {
        let _ = self.drop_program(windows);
        let Room { spare, given, .. } = &mut *self.room;
        spare[2].append(&mut given[2]);
    }
}

/// Shows the public page of an environment that was just made, and a mailbox for it.
fn show_public(made: &Made) -> Result<Shared> {
    let process = process();
    let source = process.lists.public(process.session_key);
    let mailbox = source.allocate()?;
    let window = process.windows.lock().open_own(alloc::vec![made.public, mailbox], source.key, true);
    window.inspect_err(|_| drop(source.free(mailbox)))
}

/// Says in a public page whose it is, for the case that its maker is destroyed.
pub(super) fn mark(public: &Shared) {
    mark_for(public, process().environment());
}

fn mark_for(public: &Shared, maker: u64) {
    let words = public.words();
    words[public::PARENT].store(maker, Relaxed);
    words[public::MAGIC].store(public::MAGIC_READY, Release);
}

/// Has a public page say nothing.
fn unmark(public: &Shared) {
    public.words()[public::MAGIC].store(0, Release);
}

/// Whether a page is this process's, for mailboxes.
pub(super) fn is_mailbox(page: PageNumber) -> bool {
    let process = process();
    let list = process.lists.public(process.session_key).list;
    exposed::page(page).is_some_and(|info| {
        info.owner() == area::number()
            && info.access() == list
            && info.kind() == PageKind::Ordinary
            && !info.is_orphan()
    })
}

/// Destroys an environment that was to be a child, or was one, with what shows of it here.
pub fn bury(made: &Made, public: &Shared, mut room: Box<Room>) {
    let process = process();
    let mailbox = public.pages()[1];
    if is_mailbox(mailbox) {
        let _ = process.lists.public(process.session_key).free(mailbox);
    }
    // Nothing here keeps the pages that go with it; but the public page, which is no other one until then, even if the thread that it is
    // charged to ends.
    room.kept.close(&mut process.windows.lock());
    if room.is_dowry {
        // The parent has use of what it was made of, when this process is gone.
        create::release(made.number, process.session_key);
    } else {
        made.bury(process.session_key);
        process.lend(&room.data);
    }
    let [heir, _] = public::first_child(public);
    process.windows.lock().close(public);
    room.dowry.into_iter().for_each(|dowry| dowry.give_up(heir));
}

pub(super) fn edits(list: PageNumber) -> (u64, u64) {
    exposed::page(list).map_or((0, 0), |info| info.edits())
}

fn pages_under(list: PageNumber) -> u64 {
    exposed::page(list).map_or(0, |info| u64::from(info.links()))
}

impl Process {
    /// Takes back what a child was made of, and ExOS's data for it, whose pages are `copies`: for the next one, if there is nothing
    /// for that yet and this process goes on.
    pub fn keep_room(&self, child: Child, copies: &[PageNumber]) {
        let (can_keep, executed, is_prepared) = (self.can_keep(&child), child.has_executed(), child.room.is_prepared());
        let program = child.program().filter(|_| !is_prepared);
        let is_beside = executed && !is_prepared;
        let Child { made, public, room, .. } = child;
        let mut old = Ready { made, public, room };
        let mut nursery = self.nursery.lock();
        let (is_second, had_beside) = (old.room.is_renewed, old.room.kept.has_beside());
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
            && thread().number() == self.environment()
            && remains(&child.made);
        // What borrows a key is made anew: the key is not this process's to give to who is not born.
        let can_give = !self.borrows_key() && self.stopped.load(Relaxed) < state::ENDS;
        !child.room.is_forgotten && is_mine && can_give
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
        !child.room.is_renewed
            && child.room.dowry.is_none()
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
        let first = self.nursery.lock().first.take_if(|_| thread().number() == self.environment());
        first.into_iter().for_each(|child| child.take_back());
    }

    /// Gives up the pages that only save time for the next child, where that may not come soon: who sleeps without children.
    /// What it will be made of stays. A thread leaves it to its process alone: another one may be making a child, and holds then
    /// the children while it asks for the nursery.
    pub fn rest(&self) {
        if self.has_threads.load(Relaxed) || thread().number() != self.environment() {
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
        drop(nursery);
        let copies = core::mem::take(&mut *self.copies.lock());
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
        for child in first {
            bury(&child.made, &child.public, child.room);
            self.keep_copies(&child.copies);
        }
        beginning.into_iter().for_each(|page| drop(Allocator::own().free(page)));
    }

    /// The same where this process ends, and all pages that are charged to it go with it.
    pub fn abandon_nursery(&self) {
        let mut nursery = self.nursery.lock();
        let ready = nursery.ready.take();
        let first =
            nursery.first.take().map(|child| Ready { made: child.made, public: child.public, room: child.room });
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
