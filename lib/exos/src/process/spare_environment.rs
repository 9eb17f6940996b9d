//! Recycled environments: the environment of a dead child serves the next child of the same process.
//!
//! A fresh environment takes some thirty pages, given one by one, and as much work to destroy. `environment_create`
//! makes an environment from the parts of a dead one (doc/decision/0044): its pages, and its address space or only its
//! area, under another number and key.
//!
//! Invariants:
//! - A spare environment has its area, the words that it begins with, what its maker mapped, and no slice.
//! - The next child finds nothing of the last one: an environment that is not as it was made is destroyed.
//!
//! Gain: fork 221,000 to 146,000 instructions (decision 0015).

use super::child_start::{self, ChildMemory};
use super::children::public;
use super::environment::{self, BORROWED_SLOT, EnvironmentBuilder, EnvironmentRef, GUARD, StartInfo, give_keys};
use super::exec_template::ExecTemplate;
use super::reclaim::still_present;
use super::retained_space::{self, Cleanup, Reclaimed, RetainedSpace, SharedMappings};
use super::spawn_cache::SpawnCache;
use crate::hw::current::{process, thread};
use crate::hw::env_create::create_of_parts;
use crate::hw::library_image;
use crate::hw::mapping::{Mapping, Mappings, PAGE_WORDS};
use crate::hw::page_tables::{PageTables, TableEditor};
use abi::budget::Resource;
use abi::capability::Rights;
use abi::page_table::MapRow;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Relaxed, Release};
use linux_abi::errno::{Errno, Result};
use runtime::page::{Allocator, PageKind};
use runtime::{EnvironmentId, Error, Failure, KeyIndex, PageNumber, area, exposed, heap, key, syscall};
use unix_core::signal::pending::PendingSignals;
use vm::page_record::page_of;

/// An environment that has not begun.
#[derive(Clone, Debug)]
pub struct SpareEnvironment {
    /// It.
    pub made: EnvironmentRef,
    /// Its public page and its mailbox, mapped here.
    pub public: Mapping,
    /// What else it is made of.
    pub parts: Box<EnvironmentParts>,
}

/// What is known of what a child left, when its environment is another one.
#[derive(Debug)]
pub struct Recycled {
    /// Whether its address space is there.
    pub(super) keeps: bool,
    /// What was taken out of that before.
    gone: Reclaimed,
}

/// What an environment is made of, for the one after it.
#[derive(Clone, Debug, Default)]
pub struct EnvironmentParts {
    pub(super) root: PageNumber,
    private: Vec<PageNumber>,
    /// Pages under its list when it was made.
    pages: u64,
    /// Whether a child of this process has been it before.
    pub(super) is_renewed: bool,
    /// Whether it goes with the child: nothing else is noted of it.
    pub(super) is_forgotten: bool,
    /// The edit counters of its list, if only its maker has edited it.
    pub(super) edits: (u64, u64),
    /// What is in its address space.
    pub(super) retained: RetainedSpace,
    /// Pages under its list that its program was given when it began: tables, copies of pages, and what it had at hand
    /// for the program that it executes.
    given: [Vec<PageNumber>; 3],
    /// The same, of the one before, that are to be given again.
    pub(super) spare: [Vec<PageNumber>; 3],
}

impl EnvironmentParts {
    /// No other child is made of it: what would be needed for that is forgotten.
    pub fn forget(&mut self) {
        self.is_forgotten = true;
        (self.private, self.given, self.spare) = Default::default();
        self.retained.forget();
    }

    /// What is forgotten.
    pub(super) fn forgotten() -> Box<Self> {
        Box::new(Self { is_forgotten: true, ..Self::default() })
    }

    /// What there is to know of it while its child lives.
    pub(super) fn to_note(self: Box<Self>) -> Option<Box<Self>> {
        let is_nothing = self.is_forgotten && !self.retained.shows_here();
        if is_nothing { None } else { Some(self) }
    }

    /// Whether its child was given the program that it is to execute.
    pub(super) const fn is_prepared(&self) -> bool {
        !self.given[2].is_empty()
    }
}

/// What every child of the running thread begins with.
pub(super) fn beginning() -> StartInfo {
    StartInfo {
        function: (child_start::child_entry as *const () as u64, 0),
        heap: heap::address(),
        process: core::ptr::from_ref(process()) as u64,
        thread: core::ptr::from_ref(thread()) as u64,
        borrows: process().borrows_key(),
        ..library_image::beginning()
    }
}

impl SpareEnvironment {
    /// A fresh one.
    ///
    /// # Errors
    /// `EAGAIN` where there are too many environments; what the kernel refuses.
    pub(super) fn make() -> Result<Self> {
        let process = process();
        crate::budget::ensure(Resource::Environment, 1).map_err(|_| Errno::EAGAIN)?;
        let key = process.session_key;
        let maker = EnvironmentBuilder::begin(key, key, process.lists.public(key).list, area::channel_key())?;
        let (root, private) = (maker.space.root, maker.private().to_vec());
        let made = maker.begin_with(&beginning())?;
        if process.borrows_key() {
            let given = syscall::key_copy(BORROWED_SLOT, u64::from(Rights::ALL.0), made.number, BORROWED_SLOT, key);
            given.inspect_err(|_| made.bury(key))?;
        }
        let public = show_public(&made).inspect_err(|_| made.bury(key))?;
        let (pages, kept) = (pages_under(made.list), RetainedSpace::of_fresh(made.list));
        let room = EnvironmentParts {
            root,
            private,
            pages,
            edits: edits(made.list),
            retained: kept,
            ..EnvironmentParts::default()
        };
        let ready = Self { made, public, parts: Box::new(room) };
        mark(&ready.public);
        Ok(ready)
    }

    /// The page of its mailbox.
    pub fn mailbox(&self) -> PageNumber {
        self.public.pages()[1]
    }

    /// How its tables are edited, and pages allocated for it.
    pub fn editor(&self) -> TableEditor {
        TableEditor { root: self.parts.root, key: process().session_key, tables: self.pages() }
    }

    /// Its access list and the key to it.
    pub fn pages(&self) -> Allocator {
        Allocator { key: process().session_key, list: self.made.list }
    }

    /// Maps windows, if there are others than those of the last child, an `own` one, and the pages for ExOS's data,
    /// into its address space.
    ///
    /// # Errors
    /// The kernel's refusals.
    pub fn map_memory(
        &mut self,
        windows: Option<SharedMappings>,
        own: Vec<MapRow>,
        data: impl Iterator<Item = MapRow>,
    ) -> Result<()> {
        self.parts.retained.map_memory(&self.editor(), windows, own, data)
    }

    /// The page of its own window that is mapped at an address there; none where there is no such window.
    pub fn shown_at(&self, address: u64) -> PageNumber {
        self.parts.retained.shown_at(address)
    }

    /// Whether it has the windows of this generation (see `Mappings::generation`).
    pub fn shows(&self, generation: u64) -> bool {
        self.parts.retained.shows(generation)
    }

    /// Maps pages that are its own: no other child is made of what this one leaves.
    ///
    /// # Errors
    /// The kernel's refusals.
    pub fn give(&self, own: impl Iterator<Item = MapRow>) -> Result<()> {
        retained_space::give(&self.editor(), own)
    }

    /// Links the table that maps the library's top-level slot: the ExOS image, and nothing else.
    ///
    /// # Errors
    /// The kernel's refusals.
    pub fn link_image(&mut self, table: PageNumber) -> Result<()> {
        self.parts.retained.link_image(&self.editor(), table)
    }

    /// Takes the program before out of its address space.
    ///
    /// # Errors
    /// The kernel's refusals.
    pub fn drop_program(&mut self, windows: &mut Mappings) -> Result<()> {
        let pages = self.parts.retained.drop_program(&self.editor(), windows)?;
        self.parts.spare[0].extend(pages);
        Ok(())
    }

    /// Takes everything out of its address space that was put there.
    pub(super) fn clear(&mut self) {
        let _ = self.drop_program(&mut process().mappings.lock());
        let _ = self.map_memory(Some(SharedMappings::default()), Vec::new(), core::iter::empty());
    }

    /// Links the uppermost tables of its maker's program, which both have from now on.
    ///
    /// # Errors
    /// The kernel's refusals.
    pub fn link_program(&mut self, tables: &mut PageTables, windows: &mut Mappings) -> Result<()> {
        self.drop_program(windows)?;
        self.parts.retained.share();
        tables.link_into(&self.editor())
    }

    /// Notes what is in its address space, before it begins.
    pub fn note(&mut self) {
        self.parts.retained.note();
    }

    /// The running process ends, and all pages with it that are charged to it.
    pub(super) fn leave(self) {
        if still_present(&self.made) {
            environment::release(self.made.number, process().session_key);
        }
    }

    /// Destroys it.
    pub fn bury(self) {
        bury(&self.made, &self.public, self.parts);
    }

    /// Makes it ready again, of what a child left that is gone, which may have `executed` another program. On failure
    /// it may be only partly repaired, and must be destroyed.
    pub(super) fn begin_again(&mut self, nursery: &mut SpawnCache, executed: bool) -> Result<()> {
        let renewed = self.renew_left(nursery, executed)?;
        self.tidy(nursery, renewed)?;
        self.check()
    }

    /// The first step: no thread runs there any more, and none will but by this process's action.
    fn renew_left(&mut self, nursery: &mut SpawnCache, executed: bool) -> Result<Recycled> {
        let beginning = nursery.beginning()?;
        let editor = self.editor();
        // Of a program that the child mapped itself there is nothing to keep.
        let remedy = self.parts.retained.remedy(executed && !self.is_prepared());
        let (mut keeps, mut gone) = (remedy != Cleanup::Clean, Reclaimed::default());
        if remedy == Cleanup::MendEarly {
            keeps = self.parts.retained.repair(&editor).map(|early| gone = early).is_ok();
            // Of what could not be mended it is still to be seen what was changed.
            if keeps {
                self.note();
            }
        }
        reclaim_mailbox(self.made.number, self.mailbox())?;
        self.renew(beginning, keeps)?;
        Ok(Recycled { keeps, gone })
    }

    /// The second step: what the old one has left in its address space, and in pages.
    fn tidy(&mut self, nursery: &mut SpawnCache, Recycled { keeps, mut gone }: Recycled) -> Result<()> {
        let editor = self.editor();
        // All is still there: the old one may have run on another CPU until it was renewed.
        let late = if keeps { self.parts.retained.repair(&editor) } else { self.parts.retained.reset(&editor) };
        let cleaned = late.map(|late| gone.add(late));
        self.parts.given[0].append(&mut gone.tables);
        self.take_given(nursery, keeps.then_some(&*gone.pages));
        // What stands there goes word by word: the session may be looking.
        unmark(&self.public);
        public::TELLING.into_iter().for_each(|words| self.public.clear(words));
        PendingSignals::new(&self.public.words()[PAGE_WORDS..]).clear();
        mark(&self.public);
        cleaned
    }

    /// The last step: there is nothing else.
    fn check(&mut self) -> Result<()> {
        if !self.is_whole() {
            return Err(Errno::EBUSY);
        }
        let session = process().session_key;
        Ok(give_keys(self.made.number, session, session, area::channel_key())?)
    }

    fn renew(&mut self, beginning: PageNumber, keeps: bool) -> Result<()> {
        let key = key::derive(process().session_key, Rights::ALL, 0)?;
        let outcome = self.renew_as(key, beginning, keeps);
        let _ = key::discard(key);
        self.made.number = outcome?;
        self.parts.is_renewed = true;
        // Its new name stands on its list, in the place of the old one.
        self.parts.edits.1 += 1;
        Ok(())
    }

    /// No holder of the old one's key has the new one's.
    fn renew_as(&self, key: KeyIndex, beginning: PageNumber, keeps: bool) -> Result<EnvironmentId> {
        let session = process().session_key;
        syscall::access_list_set(session, self.made.list, 1, key, u64::from(Rights::ALL.0))?;
        self.renew_by(key, beginning, keeps)
    }

    fn renew_by(&self, name: KeyIndex, beginning: PageNumber, keeps: bool) -> Result<EnvironmentId> {
        let session = process().session_key;
        loop {
            match create_of_parts(session, name, self.made.number, beginning, keeps) {
                Err(Failure { error: Error::Again, .. }) => {}
                outcome => return Ok(outcome?),
            }
        }
    }

    /// The pages that the program of the old one was given and that no process uses any more are for the next
    /// one's. `gone`: the tables that mapped it stay, and map all of it but these pages.
    fn take_given(&mut self, nursery: &SpawnCache, gone: Option<&[PageNumber]>) {
        let list = self.made.list;
        let EnvironmentParts { spare, given, .. } = &mut *self.parts;
        for (spare, given) in spare.iter_mut().zip(given) {
            let mapped = nursery.mapped(given);
            let is_free = |page: &PageNumber| {
                let is_here = gone.is_some_and(|gone| !gone.contains(page));
                exposed::page(*page).is_some_and(|info| {
                    info.access() == list
                        && info.kind() == PageKind::Ordinary
                        && !info.is_orphan()
                        && info.references() == mapped(page) + u64::from(is_here)
                })
            };
            spare.reserve(given.len());
            spare.extend(given.drain(..).filter(is_free));
        }
    }

    /// Whether it has exactly what a new one has, open to the same principals. A principal on the list of the last
    /// child, such as the user that this child changed to, would be on that of the next (doc/decision/0022).
    fn is_whole(&mut self) -> bool {
        let spare: usize = self.parts.spare.iter().map(Vec::len).sum();
        edits(self.made.list) == self.parts.edits
            && pages_under(self.made.list) == self.parts.pages + (self.parts.retained.pages() + spare) as u64
            && references(self.made.public) == 2
            && references(self.mailbox()) == 1 + self.parts.retained.maps(self.mailbox())
            && is_mailbox(self.mailbox())
            && is_as_made(&self.parts.private)
    }
}

fn references(page: PageNumber) -> u64 {
    exposed::page(page).map_or(0, |info| info.references())
}

/// Whether private pages are mapped where the area is, all but the one of the stack that is not, and nowhere else.
fn is_as_made(private: &[PageNumber]) -> bool {
    const _: () = assert!(GUARD == 1);
    let [words, guard, stack @ ..] = private else { return false };
    references(*guard) == 0 && references(*words) == 1 && stack.iter().all(|page| references(*page) == 1)
}

impl SpareEnvironment {
    /// Pages for copies that its program is given, all of which are to be written before it begins.
    ///
    /// # Errors
    /// The kernel's refusals of `page_allocate`.
    pub fn pages_for_copies(&mut self, count: usize) -> Result<Vec<PageNumber>> {
        let mut copies = core::mem::take(&mut self.parts.spare[1]);
        // What the one before had in them is not for this one.
        self.pages().free_many(&copies[copies.len().min(count)..]);
        let kept = copies.len().min(count);
        copies.resize(kept, PageNumber::NONE);
        copies.resize(count, PageNumber::NONE);
        self.pages().allocate_many(&mut copies[kept..])?;
        self.parts.given[1].clone_from(&copies);
        Ok(copies)
    }

    /// Whether it has a program that the child is to execute, or has executed.
    pub(super) const fn is_prepared(&self) -> bool {
        self.parts.is_prepared()
    }

    /// How many pages it was given that are filled before it begins: copies, or its program's.
    pub const fn filled(&self) -> usize {
        self.parts.given[1].len() + self.parts.given[2].len()
    }

    /// Gives its program tables that map what `rows` say.
    ///
    /// # Errors
    /// The kernel's refusals.
    pub fn map(&mut self, rows: Vec<MapRow>) -> Result<PageTables> {
        let editor = self.editor();
        let EnvironmentParts { retained: kept, spare, .. } = &mut *self.parts;
        kept.map(&editor, &mut spare[0], rows)
    }

    /// Notes that its program is a copy of its maker's memory of an generation (see `Space::generation`).
    pub fn note_copy(&mut self, generation: u64, memory: &ChildMemory) {
        self.parts.retained.note_copy(generation, &memory.copied);
    }

    /// The memory of its child, if the next child is a copy of this generation and the last one was, too. The contents
    /// of its own pages are the last child's.
    pub fn copy_of(&mut self, generation: u64) -> Option<ChildMemory> {
        let EnvironmentParts { retained: kept, spare, given, .. } = &mut *self.parts;
        let (tables, copied) = kept.copy_of(generation)?;
        let pages = copied.iter().map(|(_, entry)| PageNumber(page_of(*entry)));
        if !pages.eq(spare[1].iter().copied()) {
            return None;
        }
        given[1] = core::mem::take(&mut spare[1]);
        Some(ChildMemory { tables: tables.clone(), copied: copied.to_vec(), has_files: false })
    }

    pub(super) fn map_prepared(&mut self, prepared: &ExecTemplate) -> Result<PageTables> {
        let editor = self.editor();
        let EnvironmentParts { retained: kept, spare, .. } = &mut *self.parts;
        kept.map_prepared(&editor, &mut spare[0], prepared.generation())
    }

    /// Gives it pages for what the program begins with that it is to execute; nothing where there are not so many.
    /// Those that the program before began with come first, in their order and with what was in them, so many; the
    /// others begin as they are to be.
    pub(super) fn pages_for_program(&mut self, prepared: &ExecTemplate) -> Option<(Vec<PageNumber>, usize)> {
        let spare = &mut self.parts.spare[2];
        let mut pages = spare.split_off(spare.len().saturating_sub(prepared.own()));
        let kept = pages.len();
        pages.extend(prepared.begins_as().skip(kept));
        if self.pages().copy_many(process().session_key, &mut pages[kept..]).is_err() {
            self.parts.spare[2].extend_from_slice(&pages[..kept]);
            return None;
        }
        self.parts.given[2].clone_from(&pages);
        Some((pages, kept))
    }

    /// The pages that the last program began with, of so many pages.
    pub(super) fn last_for_program(&self, count: usize) -> &[PageNumber] {
        let spare = &self.parts.spare[2];
        &spare[spare.len().saturating_sub(count)..]
    }

    /// The program that its child was to find is not there.
    pub(super) fn reclaim_program(&mut self, windows: &mut Mappings) {
        let _ = self.drop_program(windows);
        let EnvironmentParts { spare, given, .. } = &mut *self.parts;
        spare[2].append(&mut given[2]);
    }
}

/// Shows the public page of an environment that was just made, and a mailbox for it.
fn show_public(made: &EnvironmentRef) -> Result<Mapping> {
    let process = process();
    let source = process.lists.public(process.session_key);
    let mailbox = source.allocate()?;
    let window = process.mappings.lock().open_own(alloc::vec![made.public, mailbox], source.key, true);
    window.inspect_err(|_| _ = source.free(mailbox))
}

/// Says in a public page whose it is, for the case that its maker is destroyed.
pub(super) fn mark(public: &Mapping) {
    let words = public.words();
    words[public::PARENT].store(process().environment(), Relaxed);
    words[public::MAGIC].store(public::MAGIC_READY, Release);
}

/// Has a public page say nothing.
pub(super) fn unmark(public: &Mapping) {
    public.words()[public::MAGIC].store(0, Release);
}

/// Whether a page is this process's, for mailboxes.
fn is_mailbox(page: PageNumber) -> bool {
    let process = process();
    let list = process.lists.public(process.session_key).list;
    exposed::page(page).is_some_and(|info| {
        info.owner() == area::number()
            && info.access() == list
            && info.kind() == PageKind::Ordinary
            && !info.is_orphan()
    })
}

/// What is charged to one that is gone goes with it: the mailbox, if it has begun.
pub(super) fn reclaim_mailbox(number: EnvironmentId, mailbox: PageNumber) -> Result<()> {
    let session = process().session_key;
    let is_theirs = exposed::page(mailbox).is_some_and(|info| info.owner() == number);
    if is_theirs {
        syscall::page_claim(session, mailbox, session, process().lists.public(session).list)?;
    }
    Ok(())
}

/// Destroys an environment that was to be a child, or was one, with what shows of it here.
pub fn bury(made: &EnvironmentRef, public: &Mapping, mut room: Box<EnvironmentParts>) {
    let process = process();
    let mailbox = public.pages()[1];
    if is_mailbox(mailbox) {
        let _ = process.lists.public(process.session_key).free(mailbox);
    }
    // Nothing here keeps the pages that go with it; but the public page, which is no other one until then, even if the
    // thread that it is charged to ends.
    room.retained.close(&mut process.mappings.lock());
    made.bury(process.session_key);
    process.mappings.lock().close(public);
}

fn edits(list: PageNumber) -> (u64, u64) {
    exposed::page(list).map_or((0, 0), |info| info.edits())
}

fn pages_under(list: PageNumber) -> u64 {
    exposed::page(list).map_or(0, |info| u64::from(info.links()))
}
