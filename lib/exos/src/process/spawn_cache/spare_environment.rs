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

use crate::hw::env_create::create_of_parts;
use crate::hw::mapping::{Mapping, Mappings, PAGE_WORDS};
use crate::hw::page_tables::{PageTables, TableEditor};
use crate::process::current::{self, process, thread};
use crate::process::environment::{
    self, BORROWED_SLOT, EnvironmentBuilder, EnvironmentRef, GUARD, StartInfo, give_keys,
};
use crate::process::exit::reclaim::still_present;
use crate::process::fork::fork_state::ChildMemory;
use crate::process::spawn_cache::SpawnCache;
use crate::process::spawn_cache::child_space::{self, SpareSpace, TableViews, fresh_tables};
use crate::process::spawn_cache::exec_template::ExecTemplate;
use abi::budget::Resource;
use abi::capability::Rights;
use abi::page_table::MapRow;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Relaxed, Release};
use linux_abi::errno::{Errno, Result};
use runtime::page::{Allocator, PageKind};
use runtime::{EnvironmentId, Error, Failure, KeyIndex, PageNumber, area, exposed, heap, key, syscall};
use unix_core::process::public_page as public;
use unix_core::signal::pending::PendingSignals;
use vm::page_record::page_of;
use vm::spawn_cache::{Cleared, Entry, Given, Makeup, RetainedSpace, Reuse, SharedMappings, State};

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

/// What an environment is made of, for the one after it.
#[derive(Clone, Debug, Default)]
pub struct EnvironmentParts {
    pub(in crate::process) root: PageNumber,
    private: Vec<PageNumber>,
    /// What it is worth for the next child.
    pub(in crate::process) entry: Entry<PageTables>,
    views: TableViews,
}

impl EnvironmentParts {
    /// No other child is made of it: what would be needed for that is discarded.
    pub fn discard(&mut self) {
        self.private = Vec::new();
        self.entry.discard();
    }

    /// What goes with its child.
    pub(in crate::process) fn discarded() -> Box<Self> {
        Box::new(Self { entry: Entry::discarded(), ..Self::default() })
    }

    /// Whether it goes with its child: nothing else is recorded of it.
    pub(in crate::process) fn is_discarded(&self) -> bool {
        self.entry.state() == State::Discarded
    }

    /// What there is to know of it while its child lives.
    pub(in crate::process) fn to_note(self: Box<Self>) -> Option<Box<Self>> {
        let is_nothing = self.is_discarded() && self.views.is_empty();
        if is_nothing { None } else { Some(self) }
    }

    /// What is retained in its address space, that address space, and pages for further tables.
    const fn retained(
        &mut self,
        editor: TableEditor,
    ) -> (&mut RetainedSpace<PageTables>, SpareSpace<'_>, &mut Vec<PageNumber>) {
        let Self { entry, views, .. } = self;
        let (retained, spare) = entry.space_and_spare();
        (retained, SpareSpace { editor, views }, spare)
    }
}

/// What every child of the running thread begins with.
pub(in crate::process) fn beginning() -> StartInfo {
    StartInfo {
        function: (process().calls.image().child_entry as *const () as u64, 0),
        heap: heap::address(),
        records: current::words(process(), thread()),
        borrows: process().borrows_key(),
        ..StartInfo::of_image()
    }
}

impl SpareEnvironment {
    /// A fresh one.
    ///
    /// # Errors
    /// `EAGAIN` where there are too many environments; what the kernel refuses.
    pub(in crate::process) fn make() -> Result<Self> {
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
        let retained = RetainedSpace::of_fresh(fresh_tables(made.list));
        let entry = Entry::made(edits(made.list), pages_under(made.list), retained);
        let room = EnvironmentParts { root, private, entry, views: TableViews::default() };
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
        let (retained, mut space, _) = self.parts.retained(self.editor());
        retained.map_memory(&mut space, windows, own, data)
    }

    /// The page of its own window that is mapped at an address there; none where there is no such window.
    pub fn shown_at(&self, address: u64) -> PageNumber {
        self.parts.entry.space.shown_at(address)
    }

    /// Whether it has the windows of this generation (see `Mappings::generation`).
    pub fn shows(&self, generation: u64) -> bool {
        self.parts.entry.space.shows(generation)
    }

    /// Maps pages that are its own: no other child is made of what this one leaves.
    ///
    /// # Errors
    /// The kernel's refusals.
    pub fn give(&mut self, own: impl Iterator<Item = MapRow>) -> Result<()> {
        let (_, mut space, _) = self.parts.retained(self.editor());
        child_space::give(&mut space, own)
    }

    /// Links the table that maps the library's top-level slot: the ExOS image, and nothing else.
    ///
    /// # Errors
    /// The kernel's refusals.
    pub fn link_image(&mut self, table: PageNumber) -> Result<()> {
        let (retained, mut space, _) = self.parts.retained(self.editor());
        retained.link_image(&mut space, table)
    }

    /// Takes the program before out of its address space.
    ///
    /// # Errors
    /// The kernel's refusals.
    pub fn drop_program(&mut self, windows: &mut Mappings) -> Result<()> {
        self.close_program_views(windows);
        let (retained, mut space, spare) = self.parts.retained(self.editor());
        spare.extend(retained.drop_program(&mut space)?);
        Ok(())
    }

    fn close_program_views(&mut self, windows: &mut Mappings) {
        let EnvironmentParts { entry, views, .. } = &mut *self.parts;
        views.close_program(&entry.space, windows);
    }

    /// Takes out the pages for ExOS's data.
    ///
    /// # Errors
    /// The kernel's refusals.
    pub(in crate::process) fn drop_data(&mut self) -> Result<()> {
        let (retained, mut space, _) = self.parts.retained(self.editor());
        retained.drop_data(&mut space)
    }

    /// Takes everything out of its address space that was put there.
    pub(in crate::process) fn clear(&mut self) {
        let _ = self.drop_program(&mut process().mappings.lock());
        let _ = self.map_memory(Some(SharedMappings::default()), Vec::new(), core::iter::empty());
    }

    /// Links the uppermost tables of its maker's program, which both have from now on.
    ///
    /// # Errors
    /// The kernel's refusals.
    pub fn link_program(&mut self, tables: &mut PageTables, windows: &mut Mappings) -> Result<()> {
        self.drop_program(windows)?;
        self.parts.entry.space.share();
        tables.link_into(&self.editor())
    }

    /// A child begins there.
    pub fn begin(&mut self) {
        let editor = self.editor();
        let EnvironmentParts { entry, views, .. } = &mut *self.parts;
        entry.begin(&SpareSpace { editor, views });
    }

    /// The running process ends, and all pages with it that are charged to it.
    pub(in crate::process) fn leave(self) {
        if still_present(&self.made) {
            environment::release(self.made.number, process().session_key);
        }
    }

    /// Destroys it.
    pub fn bury(self) {
        bury(&self.made, &self.public, self.parts);
    }

    /// Makes it ready again, of what a child left that is gone, which may have `executed` another program. After an
    /// error it is not as expected, and must be destroyed.
    pub(in crate::process) fn begin_again(&mut self, nursery: &mut SpawnCache, executed: bool) -> Result<()> {
        let reuse = self.renew_left(nursery, executed)?;
        self.clear_left(nursery, reuse)?;
        self.check()
    }

    /// The first step: no thread runs there any more, and none will but by this process's action.
    fn renew_left(&mut self, nursery: &mut SpawnCache, executed: bool) -> Result<Reuse> {
        let (beginning, editor) = (nursery.beginning()?, self.editor());
        let EnvironmentParts { entry, views, .. } = &mut *self.parts;
        let reuse = entry.inspect(&SpareSpace { editor, views }, executed)?;
        reclaim_mailbox(self.made.number, self.mailbox())?;
        self.renew(beginning, reuse == Reuse::Memory)?;
        Ok(reuse)
    }

    /// The second step: what the old one has left in its address space, and in pages.
    fn clear_left(&mut self, nursery: &mut SpawnCache, reuse: Reuse) -> Result<()> {
        if reuse == Reuse::Area {
            self.close_program_views(&mut process().mappings.lock());
        }
        // All is still there: the old one may have run on another CPU until it was renewed.
        let editor = self.editor();
        let EnvironmentParts { entry, views, .. } = &mut *self.parts;
        let cleared = entry.clear(&mut SpareSpace { editor, views }, reuse).map(|cleared| {
            self.reclaim_given(nursery, &cleared);
        });
        // What stands there goes word by word: the session may be looking.
        unmark(&self.public);
        public::TELLING.into_iter().for_each(|words| self.public.clear(words));
        PendingSignals::new(&self.public.words()[PAGE_WORDS..]).clear();
        mark(&self.public);
        cleared
    }

    /// The last step: it is as expected.
    fn check(&mut self) -> Result<()> {
        let (observed, mailbox) = (self.observe(), self.mailbox());
        if !self.parts.entry.accept(&observed, mailbox) {
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
        self.parts.entry.renew();
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

    /// The pages that the program of the old one was given and that no process uses any more are for the next one's.
    fn reclaim_given(&mut self, nursery: &SpawnCache, cleared: &Cleared) {
        let (list, entry) = (self.made.list, &mut self.parts.entry);
        for kind in Given::ALL {
            let mapped = nursery.mapped(entry.given(kind));
            let is_free = |page: PageNumber, is_here: bool| {
                exposed::page(page).is_some_and(|info| {
                    info.access() == list
                        && info.kind() == PageKind::Ordinary
                        && !info.is_orphan()
                        && info.references() == mapped(&page) + u64::from(is_here)
                })
            };
            entry.reclaim(kind, cleared, is_free);
        }
    }

    /// What it is made of.
    fn observe(&self) -> Makeup {
        Makeup {
            list_edits: edits(self.made.list),
            pages: pages_under(self.made.list),
            public: references(self.made.public),
            mailbox: references(self.mailbox()),
            owns_mailbox: is_mailbox(self.mailbox()),
            private_as_made: is_as_made(&self.parts.private),
        }
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
        let mut copies = core::mem::take(self.parts.entry.spare(Given::Copies));
        // What the one before had in them is not for this one.
        self.pages().free_many(&copies[copies.len().min(count)..]);
        let kept = copies.len().min(count);
        copies.resize(kept, PageNumber::NONE);
        copies.resize(count, PageNumber::NONE);
        self.pages().allocate_many(&mut copies[kept..])?;
        self.parts.entry.give(Given::Copies, &copies);
        Ok(copies)
    }

    /// How many pages it was given that are filled before it begins: copies, or its program's.
    pub const fn filled(&self) -> usize {
        self.parts.entry.given(Given::Copies).len() + self.parts.entry.given(Given::Program).len()
    }

    /// Gives its program tables that map what `rows` say.
    ///
    /// # Errors
    /// The kernel's refusals.
    pub fn map(&mut self, rows: Vec<MapRow>) -> Result<PageTables> {
        let (retained, mut space, spare) = self.parts.retained(self.editor());
        retained.map(&mut space, spare, rows)
    }

    /// Records that its program is a copy of its maker's memory of a generation (see `AddressSpace::generation`).
    pub fn note_copy(&mut self, generation: u64, memory: &ChildMemory) {
        self.parts.entry.space.record_copy(generation, &memory.copied);
    }

    /// The memory of its child, if the next child is a copy of this generation and the last one was, too. The contents
    /// of its own pages are the last child's.
    pub fn copy_of(&mut self, generation: u64) -> Option<ChildMemory> {
        let entry = &mut self.parts.entry;
        let (tables, copied) = entry.space.copy_of(generation)?;
        let (tables, copied) = (tables.clone(), copied.to_vec());
        let pages = copied.iter().map(|(_, entry)| PageNumber(page_of(*entry)));
        if !pages.eq(entry.spare(Given::Copies).iter().copied()) {
            return None;
        }
        entry.give_again(Given::Copies);
        Some(ChildMemory { tables, copied, has_files: false })
    }

    pub(in crate::process) fn map_prepared(&mut self, prepared: &ExecTemplate) -> Result<PageTables> {
        let (retained, mut space, spare) = self.parts.retained(self.editor());
        retained.map_prepared(&mut space, spare, prepared.generation())
    }

    /// Gives it pages for what the program begins with that it is to execute; nothing where there are not so many.
    /// Those that the program before began with come first, in their order and with what was in them, so many; the
    /// others begin as they are to be.
    pub(in crate::process) fn pages_for_program(
        &mut self,
        prepared: &ExecTemplate,
    ) -> Option<(Vec<PageNumber>, usize)> {
        let spare = self.parts.entry.spare(Given::Program);
        let mut pages = spare.split_off(spare.len().saturating_sub(prepared.own()));
        let kept = pages.len();
        pages.extend(prepared.begins_as().skip(kept));
        if self.pages().copy_many(process().session_key, &mut pages[kept..]).is_err() {
            self.parts.entry.spare(Given::Program).extend_from_slice(&pages[..kept]);
            return None;
        }
        self.parts.entry.give(Given::Program, &pages);
        Some((pages, kept))
    }

    /// The pages that the next child begins with if it is as the last one: those of a program of so many pages, or
    /// copies.
    pub(in crate::process) fn first_pages(&mut self, is_prepared: bool, count: usize) -> &[PageNumber] {
        let spare = self.parts.entry.spare(if is_prepared { Given::Program } else { Given::Copies });
        if is_prepared { &spare[spare.len().saturating_sub(count)..] } else { spare }
    }

    /// The program that its child was to find is not there.
    pub(in crate::process) fn reclaim_program(&mut self, windows: &mut Mappings) {
        let _ = self.drop_program(windows);
        self.parts.entry.take_back_program();
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
pub(in crate::process) fn mark(public: &Mapping) {
    let words = public.words();
    words[public::PARENT].store(process().environment(), Relaxed);
    words[public::MAGIC].store(public::MAGIC_READY, Release);
}

/// Has a public page say nothing.
pub(in crate::process) fn unmark(public: &Mapping) {
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
pub(in crate::process) fn reclaim_mailbox(number: EnvironmentId, mailbox: PageNumber) -> Result<()> {
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
    room.views.close(&mut process.mappings.lock());
    made.bury(process.session_key);
    process.mappings.lock().close(public);
}

fn edits(list: PageNumber) -> (u64, u64) {
    exposed::page(list).map_or((0, 0), |info| info.edits())
}

fn pages_under(list: PageNumber) -> u64 {
    exposed::page(list).map_or(0, |info| u64::from(info.links()))
}
