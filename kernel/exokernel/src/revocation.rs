//! Revocation and the abort protocol (exokernel-sosp95 §3.3, §3.4): ask, insist, take, and say what was taken.
//!
//! A request stands in the exposed record of the environment with its deadline; giving pages or slices back counts against
//! it. After the deadline whoever drives `revocation_enforce` takes by force, a step a call: first what the environment has
//! listed to be taken first; then, after an emergency upcall and another grace, anything. Each resource taken is written
//! into the repossession vector before the upcall that tells of it.
//!
//! The one policy of the kernel is here, too: when no page is free, an environment below its reservation has the
//! environment asked that is furthest above its own; as long as that lasts, pages that come back are for those below theirs.
//! Nobody is asked for what it is sure of, and who is not below its reservation is refused.

use crate::budget;
use crate::environment::{Environment, first_page};
use crate::free_list;
use crate::kernel::{Kernel, Outcome, refuse};
use abi::area::{PENDING_EMERGENCY, PENDING_REPOSSESSION, PENDING_REVOCATION};
use abi::budget::Resource;
use abi::capability::Rights;
use abi::environment::State;
use abi::limits::{REPOSSESSION_ENTRIES, TAKE_FIRST_ENTRIES};
use abi::page::{ORPHAN, PageKind};
use abi::{EnvironmentId, Error, Failure, KeyIndex, PageNumber};
use core::sync::atomic::Ordering;
use machine::{clock, exposed, memory};

/// Grace between the emergency upcall and the taking of vital pages, in nanoseconds.
const EMERGENCY_GRACE: u64 = 5_000_000;
/// Slots of the environment table that one step of the search for the richest looks at.
const SLOTS_PER_STEP: usize = 256;
/// Pages asked back at once, and how long the environment has, when memory is short.
const SHORTAGE_PAGES: u64 = 32;
const SHORTAGE_DEADLINE: u64 = 10_000_000;
/// Pages of the owner's list that one step looks at for a victim.
const CANDIDATES_PER_STEP: usize = 64;

/// How far the taking of one page has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taking {
    /// The page, plus one; 0: none was chosen.
    page: u32,
    /// Where the scan of the address space goes on.
    cursor: u64,
    /// The last page that cannot be taken of those looked at, plus one; 0: none was looked at.
    passed: u32,
    /// How many pages the environment had when nothing of them could be taken; 0: that was never so.
    barren: u32,
}

impl Taking {
    /// Nothing is being taken.
    pub(crate) const NONE: Self = Self { page: 0, cursor: 0, passed: 0, barren: 0 };
}

fn numbered(page: u32) -> PageNumber {
    PageNumber(u64::from(page))
}

/// The search for the environment furthest above its reservation, which all who are short go on with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Search {
    slot: usize,
    best: u64,
    excess: u64,
    /// The one before found nobody. That alone proves nothing: it may have begun for somebody else, some time ago.
    again: bool,
}

impl Kernel {
    /// Asks for resources back (see `abi::syscall`).
    pub(crate) fn request_revocation(
        &mut self,
        key: KeyIndex,
        from: EnvironmentId,
        resource: u64,
        count: u64,
        deadline: u64,
    ) -> Outcome<()> {
        let environment = self.living(from)?;
        if environment != self.caller() {
            self.require(key, &environment.name(), Rights::OWN)?;
        }
        let resource = match Resource::from_number(resource) {
            Some(resource @ (Resource::Page | Resource::Slice)) => resource,
            _ => return refuse(Error::BadArgument, 2),
        };
        let open = environment.info().revocation_resource.load(Ordering::Relaxed);
        if open != 0 && count != 0 {
            return refuse(Error::InUse, open - 1);
        }
        self.open_revocation(environment, resource, count, deadline);
        Ok(())
    }

    fn open_revocation(&mut self, environment: Environment, resource: Resource, count: u64, deadline: u64) {
        environment.change(|info| {
            let open = if count == 0 { 0 } else { resource as u64 + 1 };
            info.revocation_resource.store(open, Ordering::Relaxed);
            info.revocation_count.store(count, Ordering::Relaxed);
            info.revocation_deadline.store(deadline, Ordering::Release);
            info.revocation_emergency.store(0, Ordering::Release);
        });
        self.secrets_mut(environment).taking = Taking::NONE;
        if count != 0 {
            self.post(environment, PENDING_REVOCATION);
        }
    }

    /// Takes what was not given back (see `abi::syscall`).
    pub(crate) fn enforce_revocation(&mut self, key: KeyIndex, from: EnvironmentId) -> Outcome<()> {
        let environment = self.living(from)?;
        if environment != self.caller() {
            self.require(key, &environment.name(), Rights::OWN)?;
        }
        self.enforce_step(environment)
    }

    fn enforce_step(&mut self, environment: Environment) -> Outcome<()> {
        let info = environment.info();
        let Some(open) = info.revocation_resource.load(Ordering::Relaxed).checked_sub(1) else { return Ok(()) };
        let deadline = info.revocation_deadline.load(Ordering::Relaxed);
        if clock::now() < deadline {
            return refuse(Error::Again, deadline);
        }
        let taken = if open == Resource::Slice as u64 {
            self.take_slice(environment)
        } else {
            self.take_page_step(environment)
        };
        match taken {
            Taken::Nothing => {
                self.open_revocation(environment, Resource::Page, 0, 0);
                Ok(())
            }
            Taken::NotYet => refuse(Error::Again, clock::now()),
        }
    }

    /// Takes one slice, or looks at one CPU without finding one.
    fn take_slice(&mut self, environment: Environment) -> Taken {
        let number = environment.number().0;
        let cpu = self.secrets(environment).taking.cursor as usize;
        if cpu >= exposed::cpu_count() {
            return Taken::Nothing;
        }
        let mine = |info: &abi::time_slice::SliceInfo| info.owner.load(Ordering::Relaxed) == number;
        match exposed::slices(cpu).iter().rposition(mine) {
            Some(position) => {
                self.release_slice_quietly(environment, cpu, position);
                self.record_taken(environment, Resource::Slice, (cpu as u64) << 32 | position as u64);
            }
            None => self.secrets_mut(environment).taking.cursor += 1,
        }
        Taken::NotYet
    }

    /// Chooses a page, or breaks some of its bindings, or takes it.
    fn take_page_step(&mut self, environment: Environment) -> Taken {
        let taking = self.secrets(environment).taking;
        let Some(page) = taking.page.checked_sub(1).map(numbered).filter(|page| self.is_takable(environment, *page))
        else {
            return self.choose_page(environment);
        };
        let root = self.context_of(environment).root();
        let info = memory::info(page).expect("a takable page has a record");
        if memory::references(info) != 0 {
            let (next, found) = self.unbind_step(page, info, root, taking.cursor);
            if found {
                self.drop_all();
            }
            if let Some(cursor) = next {
                self.secrets_mut(environment).taking.cursor = cursor;
                return Taken::NotYet;
            }
        }
        let taking = &mut self.secrets_mut(environment).taking;
        (taking.page, taking.cursor) = (0, 0);
        self.end_pins(page, info);
        if self.give_up_quietly(page, info).is_ok() {
            self.record_taken(environment, Resource::Page, page.0);
        }
        Taken::NotYet
    }

    fn is_takable(&self, environment: Environment, page: PageNumber) -> bool {
        memory::info(page).is_some_and(|info| {
            let state = memory::state(info);
            state.kind == PageKind::Ordinary
                && state.flags & ORPHAN == 0
                && info.owner.load(Ordering::Relaxed) == environment.number().0
        })
    }

    /// Chooses the next page to take: from the list, or any after an emergency upcall and its grace.
    fn choose_page(&mut self, environment: Environment) -> Taken {
        let words = self.context_of(environment).private_words();
        let count = (words.take_first_count.load(Ordering::Relaxed) as usize).min(TAKE_FIRST_ENTRIES);
        let listed = words.take_first[..count].iter().map(|word| PageNumber(word.load(Ordering::Relaxed)));
        let mut choice = listed.into_iter().find(|page| self.is_takable(environment, *page));
        if choice.is_none() {
            if !self.emergency_passed(environment) {
                return Taken::NotYet;
            }
            match self.next_candidate(environment) {
                Candidate::Page(page) => choice = Some(page),
                Candidate::Later => return Taken::NotYet,
                Candidate::Nothing => return Taken::Nothing,
            }
        }
        let taking = &mut self.secrets_mut(environment).taking;
        (taking.page, taking.cursor) = (choice.map_or(0, |page| page.0 as u32 + 1), 0);
        Taken::NotYet
    }

    /// Looks through the pages of an environment, some a step, for one that can be taken: from the one on that it came to,
    /// if the environment still has that.
    fn next_candidate(&mut self, environment: Environment) -> Candidate {
        let passed = self.secrets(environment).taking.passed.checked_sub(1).map(numbered);
        let is_there = |page: &PageNumber| {
            memory::info(*page).is_some_and(|info| info.owner.load(Ordering::Relaxed) == environment.number().0)
        };
        let mut next = passed.filter(is_there).map_or_else(|| first_page(environment), free_list::next);
        for _ in 0..CANDIDATES_PER_STEP {
            let Some(page) = next else { return Candidate::Nothing };
            if self.is_takable(environment, page) {
                return Candidate::Page(page);
            }
            self.secrets_mut(environment).taking.passed = page.0 as u32 + 1;
            next = free_list::next(page);
        }
        Candidate::Later
    }

    /// Whether the environment was warned that anything may go now, and the grace is over.
    fn emergency_passed(&mut self, environment: Environment) -> bool {
        let word = &environment.info().revocation_emergency;
        match word.load(Ordering::Relaxed) {
            0 => {
                word.store(clock::now() + EMERGENCY_GRACE, Ordering::Release);
                self.post(environment, PENDING_EMERGENCY);
                false
            }
            end => clock::now() >= end,
        }
    }

    /// Writes what was taken into the repossession vector.
    fn record_taken(&mut self, environment: Environment, resource: Resource, name: u64) {
        let words = self.context_of(environment).private_words();
        let count = words.repossessed.load(Ordering::Relaxed);
        let entry = &words.repossession[count as usize % REPOSSESSION_ENTRIES];
        entry.resource.store(resource as u64, Ordering::Relaxed);
        entry.name.store(name, Ordering::Relaxed);
        words.repossessed.store(count.wrapping_add(1), Ordering::Release);
        self.note_returned(environment, resource, 1);
        self.post(environment, PENDING_REPOSSESSION);
    }

    /// Counts something given back, or taken, so often, against an open request.
    #[inline]
    pub(crate) fn note_returned(&mut self, environment: Environment, resource: Resource, count: u64) {
        let info = environment.info();
        if info.revocation_resource.load(Ordering::Relaxed) != resource as u64 + 1 {
            return;
        }
        let left = info.revocation_count.load(Ordering::Relaxed).saturating_sub(count);
        info.revocation_count.store(left, Ordering::Release);
        if left == 0 {
            info.revocation_resource.store(0, Ordering::Release);
        }
    }

    /// No page is free. Whoever is below its reservation has somebody else asked, a step a call; anybody else is refused.
    pub(crate) fn shortage(&mut self, caller: Environment) -> Outcome<PageNumber> {
        if !budget::is_below_reservation(caller, Resource::Page) {
            return refuse(Error::Exhausted, Resource::Page as u64);
        }
        let now = clock::now();
        if now >= self.short_until {
            self.search = Search::default();
        }
        self.short_until = now + SHORTAGE_DEADLINE;
        let slots = exposed::environments().len();
        let first = self.search.slot;
        for slot in first..(first + SLOTS_PER_STEP).min(slots) {
            let environment = Environment::in_slot(slot);
            let excess = budget::above_reservation(environment, Resource::Page);
            if environment.is(State::Alive) && excess > self.search.excess && self.can_be_pressed(environment) {
                (self.search.best, self.search.excess) = (environment.number().0, excess);
            }
        }
        self.search.slot = first + SLOTS_PER_STEP;
        if self.search.slot < slots {
            return refuse(Error::Again, Resource::Page as u64);
        }
        let found = core::mem::take(&mut self.search);
        match self.living(EnvironmentId(found.best)) {
            Ok(richest) => self.press(richest),
            Err(_) if found.again => refuse(Error::Exhausted, Resource::Page as u64),
            Err(_) => {
                self.search.again = true;
                refuse(Error::Again, Resource::Page as u64)
            }
        }
    }

    /// Fails while pages that come back are for others: for whoever is below its reservation, and had them asked for.
    #[cold]
    pub(crate) fn check_shortage(&mut self, caller: Environment) -> Result<(), Failure> {
        if clock::now() >= self.short_until {
            self.short_until = 0;
        }
        if self.short_until == 0 || budget::is_below_reservation(caller, Resource::Page) {
            return Ok(());
        }
        Err(Error::Exhausted.about(Resource::Page as u64))
    }

    /// Whether asking an environment for pages is of use: it is not being asked for something else, and the last time that
    /// it was asked there was something to take, or it has taken or given back something since.
    fn can_be_pressed(&self, environment: Environment) -> bool {
        let open = environment.info().revocation_resource.load(Ordering::Relaxed);
        let used = environment.budget(Resource::Page).used.load(Ordering::Relaxed);
        (open == 0 || open == Resource::Page as u64 + 1) && u64::from(self.secrets(environment).taking.barren) != used
    }

    /// Asks an environment for pages, or goes on taking them.
    fn press(&mut self, environment: Environment) -> Outcome<PageNumber> {
        if environment.info().revocation_resource.load(Ordering::Relaxed) == 0 {
            self.open_revocation(environment, Resource::Page, SHORTAGE_PAGES, clock::now() + SHORTAGE_DEADLINE);
        } else if self.enforce_step(environment).is_ok() {
            let used = environment.budget(Resource::Page).used.load(Ordering::Relaxed);
            self.secrets_mut(environment).taking.barren = used as u32;
        }
        refuse(Error::Again, Resource::Page as u64)
    }
}

/// How a look at some pages ended.
enum Candidate {
    /// This one can be taken.
    Page(PageNumber),
    /// None of those; there are more.
    Later,
    /// None.
    Nothing,
}

/// How a step of taking ended.
enum Taken {
    /// There is more to do.
    NotYet,
    /// There is nothing left to take.
    Nothing,
}
