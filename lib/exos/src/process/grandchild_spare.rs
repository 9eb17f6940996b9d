//! What a child has of its parent for a child of its own.
//!
//! A shell that runs one command makes one child, and ends: most of what the command costs is to make an environment and to destroy
//! it. So a process whose children had children, one after the other, keeps an environment ready for the child of its next
//! child, too, with the program that the children of its children execute. It goes along with the child, which takes it over by renewing
//! it: from then on it is its own in every way, but that it leaves it behind. Its parent has it back when both who ran there are gone,
//! and makes it ready again as any other (`ready`).
//!
//! Holds always: its pages are charged to who made it; one child has it at a time; and its access list names nobody but the user and
//! the last name that its maker gave it, the key of which only that child has got.

use super::children::public;
use super::environment::{self, DOWRY_SLOT, EnvironmentRef, give_keys};
use super::exec::revalidate_plan;
use super::exec_predictor::ExecPredictor;
use super::exec_template::ExecTemplate;
use super::process_record::Process;
use super::reclaim::still_present;
use super::retained_space::RetainedSpace;
use super::spare_environment::{Recycled, SpareEnvironment, edits, is_mailbox, mark};
use super::spawn_cache::SpawnCache;
use crate::address_map::{NEAR_OWN_WINDOWS, NEAR_WINDOWS_END, PAGE_SIZE};
use crate::errno::{Errno, Result};
use crate::hw::current::{process, thread};
use crate::hw::mapping::Mapping;
use abi::budget::Resource;
use abi::capability::Rights;
use abi::page_table::MapRow;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Relaxed, Release};
use runtime::address_space::Access;
use runtime::page::{Allocator, PageKind};
use runtime::{EnvironmentId, KeyIndex, PageNumber, area, exposed, heap, key, syscall};

/// Room for windows of a child's own that are near, beside the one onto what it fills.
const ROOM_FOR_OTHERS: u64 = 64 << 10;
/// Pages for ExOS's data that go along at first beyond those that this process has for its own.
const DATA_MORE: usize = 2;
/// How many go along at most: more than a small process's data takes.
const DATA_MOST: usize = 32;

/// The environment.
#[derive(Clone, Debug)]
pub struct GrandchildSpare {
    spare: SpareEnvironment,
    /// In the ring of who made it: the key of the name that its list has.
    key: KeyIndex,
    maker: EnvironmentId,
    /// The page with the words that it begins with: they are the same for who made it and for that one's child.
    beginning: PageNumber,
    program: Program,
    /// In the child: a window onto what it fills for its own child, pages of the program and for ExOS's data.
    through: Option<Mapping>,
}

/// The program that is mapped there.
#[derive(Clone, Debug, Default)]
pub struct Program {
    template: Option<Box<ExecTemplate>>,
    /// How many generations there were of programs that were prepared.
    generations: u64,
}

/// What the children of children do.
#[derive(Debug)]
pub struct NestedForkPredictor {
    /// Whether there are any.
    predictor: ExecPredictor,
    /// The next child is likely to have one.
    goes_on: bool,
    /// What they execute.
    programs: ExecPredictor,
}

impl Default for NestedForkPredictor {
    fn default() -> Self {
        // Who has three children with a child each is likely to have them do the same.
        Self { predictor: ExecPredictor::default(), goes_on: false, programs: ExecPredictor::after(1) }
    }
}

impl NestedForkPredictor {
    /// Notes whether a child had one, for which something may have gone along in vain.
    fn note(&mut self, had_child: bool, in_vain: bool) {
        self.goes_on = self.predictor.note(if had_child { b"a child" } else { b"" }, in_vain);
    }
}

impl GrandchildSpare {
    /// Of an environment in which nobody runs. Its list gets a name that nobody has a key to.
    fn of(mut ready: SpareEnvironment, program: Program, data: usize, nursery: &mut SpawnCache) -> Option<Self> {
        let named = ready.go_along(data).and_then(|()| ready.rename());
        match named.and_then(|key| Ok((key, nursery.beginning()?))) {
            Ok((key, beginning)) => {
                Some(Self { spare: ready, key, maker: area::number(), beginning, program, through: None })
            }
            Err(_) => {
                ready.bury();
                None
            }
        }
    }

    fn give(&self, child: EnvironmentId) -> Result<()> {
        Ok(syscall::key_copy(self.key, u64::from(Rights::ALL.0), child, DOWRY_SLOT, process().session_key)?)
    }

    /// The running process, which has it of its parent, makes it the environment of its next child.
    ///
    /// # Errors
    /// `ESRCH` where its parent is gone, with which it goes; the kernel's refusals.
    pub fn take_over(self) -> Result<(SpareEnvironment, Program, Option<Mapping>)> {
        let Self { spare: mut ready, mut program, beginning, maker, through, .. } = self;
        let outcome = ready.come_from_parent(maker, beginning, DOWRY_SLOT);
        let _ = key::discard(DOWRY_SLOT);
        outcome?;
        program.template.iter_mut().for_each(|prepared| prepared.begin_elsewhere());
        process().public_word(public::CHILD).store(ready.made.number.0, Release);
        Ok((ready, program, through))
    }

    /// The number that it has, which may be the one that a child told: what is there is this process's to renew or to destroy. Nothing where
    /// it is not there any more, or somebody runs there whose parent is gone.
    fn reclaim_spare(self, taken_as: u64) -> Option<(SpareEnvironment, Program, bool)> {
        let Self { spare: mut ready, key, program, .. } = self;
        let _ = key::discard(key);
        let number = ready.made.number.0;
        let Some(now) = [taken_as, number].into_iter().find(|now| ready.is_called(EnvironmentId(*now))) else {
            // The session has destroyed it, or the child has.
            ready.abandon();
            return None;
        };
        ready.made.number = EnvironmentId(now);
        if now != number && exposed::lives(ready.made.number) {
            // It is the session's.
            ready.close();
            return None;
        }
        ready.mark_dying();
        Some((ready, program, now != number))
    }

    /// It is not needed any more, or not there: a child that is gone may have renewed it under the number `taken_as`.
    pub fn give_up(self, taken_as: u64) {
        if let Some((ready, ..)) = self.reclaim_spare(taken_as) {
            ready.bury();
        }
    }

    /// The pages that a child fills for its own one, and where they show in its memory: behind all windows of its own that are near.
    fn to_fill(&self) -> Option<(u64, Vec<PageNumber>)> {
        let room = &self.spare.parts;
        let pages = [room.program_pages(), &room.data].concat();
        let place = NEAR_WINDOWS_END - pages.len() as u64 * PAGE_SIZE;
        (place >= NEAR_OWN_WINDOWS + ROOM_FOR_OTHERS).then_some((place, pages))
    }

    /// What maps them there.
    pub fn rows(&self) -> impl Iterator<Item = MapRow> {
        let session = process().session_key;
        let shown = self.to_fill();
        let (place, pages) = shown.unwrap_or_default();
        (place..).step_by(PAGE_SIZE as usize).zip(pages).map(move |(address, page)| MapRow {
            address: address | session.0,
            entry: page.address() | Access::WRITE.0,
        })
    }

    /// Pages of this process that whoever runs there may use after it.
    pub fn data(&self) -> &[PageNumber] {
        &self.spare.parts.data
    }

    /// What it is.
    pub fn into_ready(self) -> SpareEnvironment {
        self.spare
    }
}

/// Pages that hold ExOS's data.
fn own_data() -> usize {
    let (start, end) = heap::range();
    ((end - start) / PAGE_SIZE) as usize
}

impl Program {
    /// Gives up what is mapped, and maps another one, if one is likely to be executed.
    fn change(&mut self, ready: &mut SpareEnvironment, likely: Option<(Vec<u8>, u64)>) -> Result<()> {
        if self.template.take().is_some() {
            ready.drop_program(&mut process().mappings.lock())?;
        }
        let Some((path, stack)) = likely else { return Ok(()) };
        let Some(mut prepared) = super::exec::prepare_for_children(&path, stack) else { return Ok(()) };
        ready.put_program(&mut prepared, &mut self.generations)?;
        self.template = Some(Box::new(prepared));
        Ok(())
    }

    /// What is prepared, and how many generations of it there were.
    pub fn into_parts(self) -> (Option<Box<ExecTemplate>>, u64) {
        (self.template, self.generations)
    }
}

/// What came back, and how far it is ready for the next one.
#[derive(Debug)]
pub struct Returned {
    ready: SpareEnvironment,
    program: Program,
    /// What was executed there.
    executed: Option<(Vec<u8>, u64)>,
    /// Pages that its child had for ExOS's data.
    data: usize,
    /// Nothing: it is not to be used again.
    renewed: Option<Recycled>,
    /// What was left in it is taken out.
    is_tidy: bool,
}

impl Returned {
    /// Takes out what was left in it, when what its own maker left is taken out.
    pub fn tidy(&mut self, nursery: &mut SpawnCache, maker: &RetainedSpace) {
        let Some(renewed) = self.renewed.take() else { return };
        self.program.template.take_if(|_| !renewed.keeps);
        self.is_tidy = self.ready.tidy(nursery, renewed, Some(maker)).is_ok();
    }

    /// What goes along with the next child.
    pub fn keep(self, nursery: &mut SpawnCache, maker: &RetainedSpace) -> Option<Box<GrandchildSpare>> {
        let Self { mut ready, mut program, executed, data, is_tidy, .. } = self;
        let is_whole = is_tidy && ready.is_whole() && ready.has_data(maker);
        let checked = if is_whole { Ok(()) } else { Err(Errno::EBUSY) };
        match checked.and_then(|()| nursery.follow(&mut ready, &mut program, executed)) {
            Ok(()) => GrandchildSpare::of(ready, program, data, nursery).map(Box::new),
            Err(_) => {
                ready.bury();
                None
            }
        }
    }
}

impl SpawnCache {
    /// What is to go along with a child that does not run yet, where its child is likely to have one.
    pub fn attach_spare(&mut self, child: EnvironmentId) -> Option<Box<GrandchildSpare>> {
        let is_first = process().is_first(thread());
        let can_be = is_first && !process().has_threads.load(Relaxed) && !process().borrows_key();
        if !can_be || self.grandchild.is_none() && !self.nested_forks.goes_on {
            return None;
        }
        let dowry = match self.grandchild.take() {
            Some(dowry) => dowry,
            None => Box::new(GrandchildSpare::of(
                SpareEnvironment::make().ok()?,
                Program::default(),
                own_data() + DATA_MORE,
                self,
            )?),
        };
        match dowry.give(child) {
            Ok(()) => Some(dowry),
            Err(_) => {
                dowry.give_up(0);
                None
            }
        }
    }

    /// Takes back what went along with a child that is gone, as far as it goes while that one's memory is not in order. Its own first child
    /// had the number `heir` (0: it had none), and so many pages of `data`; `is_waited_for`: somebody else may wait for that one.
    pub fn renew_dowry(
        &mut self,
        dowry: Option<Box<GrandchildSpare>>,
        [heir, data]: [u64; 2],
        is_waited_for: bool,
    ) -> Option<Returned> {
        let Some(dowry) = dowry else {
            self.nested_forks.note(heir != 0, false);
            return None;
        };
        let (mut ready, program, was_used) = dowry.reclaim_spare(heir)?;
        self.nested_forks.note(heir != 0, !was_used);
        let is_over = self.nested_forks.predictor.note_use(was_used);
        let executed = public::program(&ready.public);
        // Whoever adopted it reads in its public page how it ended.
        let is_kept = self.grandchild.is_none() && !is_over && !is_waited_for;
        let renewed = if is_kept { ready.renew_left(self, true).ok() } else { None };
        let data = if data == 0 { own_data() } else { data as usize };
        Some(Returned { ready, program, executed, data, renewed, is_tidy: false })
    }

    /// Maps the program that the next one is likely to execute, as this one `executed` one.
    fn follow(
        &mut self,
        ready: &mut SpareEnvironment,
        program: &mut Program,
        executed: Option<(Vec<u8>, u64)>,
    ) -> Result<()> {
        let is_same = |prepared: &ExecTemplate| {
            executed.as_ref().is_some_and(|(path, stack)| prepared.is_called(path) && prepared.stack() == *stack)
        };
        let generations = &self.known;
        let is_current =
            |known: &mut ExecTemplate| !generations.is_old(known.edition_of_files()) || revalidate_plan(known);
        if let Some(prepared) = program.template.as_deref_mut().filter(|known| is_same(known))
            && is_current(prepared)
        {
            return ready.map_prepared(prepared).map(drop);
        }
        let what = executed.as_ref().map_or(Vec::new(), |(path, stack)| [path, &stack.to_le_bytes()[..]].concat());
        let is_likely = self.nested_forks.programs.note(&what, program.template.is_some());
        program.change(ready, executed.filter(|_| is_likely))
    }
}

impl SpareEnvironment {
    /// It has come along with the running process, from its `maker`, who lives as long as it is of use: it becomes this process's own child to
    /// be, which begins with what is in a page of the maker's. `name`: the key of the name on its list.
    fn come_from_parent(&mut self, maker: EnvironmentId, beginning: PageNumber, name: KeyIndex) -> Result<()> {
        let (process, session) = (process(), process().session_key);
        crate::budget::ensure(Resource::Environment, 1).map_err(|_| Errno::EAGAIN)?;
        // While they are mapped here they are no other pages.
        self.public = process.mappings.lock().open_own(self.public.pages().to_vec(), session, true)?;
        let outcome = self.become_own(maker, beginning, name);
        outcome.inspect_err(|_| process.mappings.lock().close(&self.public))
    }

    fn become_own(&mut self, maker: EnvironmentId, beginning: PageNumber, name: KeyIndex) -> Result<()> {
        let (process, session) = (process(), process().session_key);
        let has_maker = || if exposed::lives(maker) { Ok(()) } else { Err(Errno::ESRCH) };
        has_maker()?;
        (self.parts.is_dowry, self.parts.is_renewed) = (true, false);
        self.parts.retained.begin_elsewhere();
        self.parts.take_all_back();
        syscall::page_claim(session, self.mailbox(), session, process.lists.public(session).list)?;
        self.mark_dying();
        self.made.number = self.renew_by(name, beginning, true)?;
        mark(&self.public);
        // Else it may have begun with anything.
        let given = has_maker().and_then(|()| give_keys(self.made.number, session, session, area::channel_key()));
        given.inspect_err(|_| environment::release(self.made.number, session))
    }

    /// Whether it is there under a number.
    fn is_called(&self, number: EnvironmentId) -> bool {
        let is_it = |info: exposed::Environment| {
            info.public.load(Relaxed) == self.made.public.0 && info.root.load(Relaxed) == self.parts.root.0
        };
        exposed::environment(number).is_some_and(is_it) && still_present(&EnvironmentRef { number, ..self.made })
    }

    /// Nobody is going to run there who has not begun.
    pub(super) fn mark_dying(&self) {
        if exposed::lives(self.made.number) {
            let _ = syscall::environment_destroy(process().session_key, self.made.number, 0);
        }
    }

    /// It gets another name, which nobody has a key to but this process.
    fn rename(&mut self) -> Result<KeyIndex> {
        let session = process().session_key;
        let key = key::derive(session, Rights::ALL, 0)?;
        let named = syscall::access_list_set(session, self.made.list, 1, key, u64::from(Rights::ALL.0));
        named.inspect_err(|_| drop(key::discard(key)))?;
        self.parts.edits.1 += 1;
        Ok(key)
    }

    /// It goes along with a child, for whose own child it has what that will find: windows as that one has them by then, but for a few,
    /// and so many pages for ExOS's data.
    fn go_along(&mut self, data: usize) -> Result<()> {
        let (process, (start, _)) = (process(), heap::range());
        self.link_image(process.image_table)?;
        let wanted = data.min(DATA_MOST);
        let kept = self.parts.data.len().min(wanted);
        // They are free when they are not mapped any more.
        process.lend(&self.parts.data.split_off(kept));
        let mut more = vec![PageNumber::NONE; wanted - kept];
        Allocator::own().allocate_many(&mut more)?;
        self.parts.data.append(&mut more);
        let mailbox = process.mailbox.lock().clone();
        let windows = super::fork::windows_to_show(self, &process.mappings.lock(), &mailbox);
        let data: Vec<MapRow> =
            environment::rows(process.session_key, start, &self.parts.data, Access::WRITE).collect();
        self.map_memory(windows, Vec::new(), data.into_iter())?;
        self.parts.give_all();
        self.note();
        Ok(())
    }

    /// Maps a program that its child is likely to execute.
    fn put_program(&mut self, prepared: &mut ExecTemplate, generations: &mut u64) -> Result<()> {
        let (pages, _) = self.pages_for_program(prepared).ok_or(Errno::ENOMEM)?;
        prepared.give(&pages, generations);
        self.map_prepared(prepared).map(drop)
    }

    /// Puts the pages for ExOS's data that came along with it into the first places; how many.
    pub fn take_data(&self, places: &mut [PageNumber]) -> usize {
        places.iter_mut().zip(&self.parts.data).map(|(place, page)| *place = *page).count()
    }

    /// Whether nobody has those pages any more, but for its `maker`'s window.
    fn has_data(&self, maker: &RetainedSpace) -> bool {
        let (own, list) = (area::number(), area::access_list());
        let in_maker = u64::from(maker.own_windows_map(&self.parts.data));
        let is_free = |(page, is_mapped): (&PageNumber, bool)| {
            exposed::page(*page).is_some_and(|info| {
                let is_ours = info.owner() == own && info.access() == list && info.kind() == PageKind::Ordinary;
                is_ours && !info.is_orphan() && info.references() == u64::from(is_mapped) + in_maker
            })
        };
        self.parts.data.iter().zip(self.parts.retained.maps_data()).all(is_free)
    }

    /// Somebody else destroys it.
    fn close(mut self) {
        let mut windows = process().mappings.lock();
        self.parts.retained.close(&mut windows);
        windows.close(&self.public);
        drop(windows);
        process().lend(&self.parts.data);
    }

    /// Somebody has destroyed it: gives up those of its pages that are this process's.
    fn abandon(self) {
        let (session, mailbox, made) = (process().session_key, self.mailbox(), self.made.clone());
        // A list in the place of the one that it was is another one's.
        let has_list = edits(made.list).0 == self.parts.edits.0;
        self.close();
        let public = process().lists.public(session);
        let is_left =
            |page: &PageNumber| is_mailbox(*page) && exposed::page(*page).is_some_and(|info| info.references() == 0);
        public.free_many(&[made.public, mailbox].into_iter().filter(is_left).collect::<Vec<_>>());
        if has_list {
            environment::free_all(Allocator { key: session, list: made.list });
        }
    }
}

impl Process {
    /// Notes what this process, which just began, has of its parent.
    pub fn accept_spare(&self, dowry: Option<Box<GrandchildSpare>>) {
        let Some(mut dowry) = dowry else { return };
        key::note_slot(DOWRY_SLOT);
        dowry.through = dowry.to_fill().map(|(place, pages)| self.mappings.lock().note_own(place, pages));
        self.spawn_cache.lock().received = Some(dowry);
    }

    /// What this process has of its parent is of no use to whom it becomes.
    pub fn forget_received(&self) {
        let received = self.spawn_cache.lock().received.take();
        if let Some(dowry) = received {
            let _ = key::discard(DOWRY_SLOT);
            dowry.through.iter().for_each(|window| self.mappings.lock().close(window));
        }
    }

    /// What is kept for the child of the next child is given up.
    pub fn give_up_dowry(&self) {
        let dowry = self.spawn_cache.lock().grandchild.take();
        dowry.into_iter().for_each(|dowry| dowry.give_up(0));
    }
}
