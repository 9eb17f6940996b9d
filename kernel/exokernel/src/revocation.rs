//! Revocation and the abort protocol (exokernel-sosp95 §3.3, §3.4): ask, insist, take, and say what was taken.
//!
//! A request stands in the exposed record of the environment with its deadline; giving pages or slices back counts against
//! it. After the deadline whoever drives `revocation_enforce` takes by force, a step a call: first what the environment has
//! listed to be taken first; then, after an emergency upcall and another grace, anything. Each resource taken is written
//! into the repossession vector before the upcall that tells of it.
//!
//! The one policy of the kernel is here, too: when no page is free, an environment below its reservation has the
//! environment asked that is furthest above its own.

use crate::environment::{Environment, first_page};
use crate::free_list;
use crate::kernel::{Kernel, Outcome, refuse};
use crate::page::pins;
use abi::area::{PENDING_EMERGENCY, PENDING_REPOSSESSION, PENDING_REVOCATION};
use abi::budget::Resource;
use abi::capability::Rights;
use abi::environment::State;
use abi::limits::{REPOSSESSION_ENTRIES, TAKE_FIRST_ENTRIES};
use abi::page::{ORPHAN, PageKind};
use abi::{EnvironmentId, Error, KeyIndex, PageNumber};
use core::sync::atomic::Ordering;
use machine::{clock, exposed, memory, tlb};

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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taking {
    /// The page, plus one; 0: none was chosen.
    page: u64,
    /// Where the scan of the address space goes on.
    cursor: u64,
}

/// The search for the environment furthest above its reservation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Search {
    slot: usize,
    best: u64,
    excess: u64,
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
        self.secrets_mut(environment).taking = Taking::default();
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
        let Some(page) = taking.page.checked_sub(1).map(PageNumber).filter(|page| self.is_takable(environment, *page))
        else {
            return self.choose_page(environment);
        };
        let root = self.context_of(environment).root();
        let info = memory::info(page).expect("a takable page has a record");
        if memory::references(info) != 0 {
            let (next, found) = self.unbind_step(page, root, taking.cursor);
            if found {
                tlb::drop_all();
            }
            if let Some(cursor) = next {
                self.secrets_mut(environment).taking.cursor = cursor;
                return Taken::NotYet;
            }
        }
        self.secrets_mut(environment).taking = Taking::default();
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
                && pins(info) == 0
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
            let owned = core::iter::successors(first_page(environment), |page| free_list::next(*page));
            choice = owned.take(CANDIDATES_PER_STEP).find(|page| self.is_takable(environment, *page));
        }
        match choice {
            Some(page) => {
                self.secrets_mut(environment).taking = Taking { page: page.0 + 1, cursor: 0 };
                Taken::NotYet
            }
            None => Taken::Nothing,
        }
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
        self.note_returned(environment, resource);
        self.post(environment, PENDING_REPOSSESSION);
    }

    /// Counts something given back, or taken, against an open request.
    pub(crate) fn note_returned(&mut self, environment: Environment, resource: Resource) {
        let info = environment.info();
        if info.revocation_resource.load(Ordering::Relaxed) != resource as u64 + 1 {
            return;
        }
        let left = info.revocation_count.load(Ordering::Relaxed).saturating_sub(1);
        info.revocation_count.store(left, Ordering::Release);
        if left == 0 {
            info.revocation_resource.store(0, Ordering::Release);
        }
    }

    /// No page is free. Whoever is below its reservation has somebody else asked; anybody else is refused.
    pub(crate) fn shortage(&mut self, caller: Environment) -> Outcome<PageNumber> {
        let own = caller.budget(Resource::Page);
        if own.used.load(Ordering::Relaxed) >= own.reserved.load(Ordering::Relaxed) {
            return refuse(Error::Exhausted, Resource::Page as u64);
        }
        let slots = exposed::environments().len();
        let Search { slot, .. } = self.search;
        for slot in slot..(slot + SLOTS_PER_STEP).min(slots) {
            let environment = Environment::in_slot(slot);
            let excess = above_reservation(environment);
            if environment.is(State::Alive) && excess > self.search.excess {
                (self.search.best, self.search.excess) = (environment.number().0, excess);
            }
        }
        self.search.slot = slot + SLOTS_PER_STEP;
        if self.search.slot < slots {
            return refuse(Error::Again, Resource::Page as u64);
        }
        let found = core::mem::take(&mut self.search);
        match self.living(EnvironmentId(found.best)) {
            Ok(richest) => self.press(richest),
            Err(_) => refuse(Error::Exhausted, Resource::Page as u64),
        }
    }

    /// Asks an environment for pages, or goes on taking them.
    fn press(&mut self, environment: Environment) -> Outcome<PageNumber> {
        if environment.info().revocation_resource.load(Ordering::Relaxed) == 0 {
            self.open_revocation(environment, Resource::Page, SHORTAGE_PAGES, clock::now() + SHORTAGE_DEADLINE);
        } else {
            let _again_or_done = self.enforce_step(environment);
        }
        refuse(Error::Again, Resource::Page as u64)
    }
}

fn above_reservation(environment: Environment) -> u64 {
    let budget = environment.budget(Resource::Page);
    budget.used.load(Ordering::Relaxed).saturating_sub(budget.reserved.load(Ordering::Relaxed))
}

/// How a step of taking ended.
enum Taken {
    /// There is more to do.
    NotYet,
    /// There is nothing left to take.
    Nothing,
}
