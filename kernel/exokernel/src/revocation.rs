//! Revocation and the abort protocol (exokernel-sosp95 §3.3, §3.4): ask, insist, take, and say what was taken.
//!
//! A request stands in the exposed record of the environment with its deadline; giving pages or slices back counts
//! against it. After the deadline the callers of `revocation_enforce` take by force, a step a call. First they take
//! what the environment has listed for that; then, after an emergency upcall and another grace, anything. Each resource
//! taken is written into the repossession vector before the upcall that tells of it.
//!
//! The one policy of the kernel is here, too. When no page is free, an environment below its reservation has the
//! environment asked that is furthest above its own. As long as that lasts, pages that come back are for those below
//! theirs. No environment is asked for its reserved pages, and one that is not below its reservation is refused.

use crate::budget;
use crate::cost;
use crate::device;
use crate::environment::{Environment, first_page};
use crate::free_list;
use crate::kernel::{Kernel, Outcome, Stop, refuse};
use crate::page::access_list;
use abi::area::{PENDING_EMERGENCY, PENDING_REPOSSESSION, PENDING_REVOCATION};
use abi::budget::Resource;
use abi::capability::Rights;
use abi::environment::State;
use abi::limits::{REPOSSESSION_ENTRIES, TAKE_FIRST_ENTRIES, TRANSFER_PATIENCE_ENFORCED};
use abi::page::{ORPHAN, PageInfo, PageKind};
use abi::{EnvironmentId, Error, Failure, KeyIndex, PageNumber};
use core::sync::atomic::Ordering;
use machine::page_table::{ROOT_LEVEL, links};
use machine::{clock, exposed, memory};

/// Slots of the environment table that one step of the search for the richest looks at.
const SLOTS_PER_STEP: usize = 256;
/// Pages of the owner's list that one step looks at for a victim.
const CANDIDATES_PER_STEP: usize = 64;

/// How far the taking of one page has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taking {
    /// The page, plus one; 0: none was chosen.
    page: u32,
    /// Where the scan of the address space continues.
    cursor: u64,
    /// The last page that cannot be taken of those looked at, plus one; 0: none was looked at.
    passed: u32,
    /// How many pages the environment had when nothing of them could be taken; 0: that was never so.
    barren: u32,
    /// Index of the pass in [`PASSES`].
    pass: u8,
    /// Pages given up that others use still, and whether those uses are being broken now.
    pending: u32,
    sweeping: bool,
    /// A device still uses a page that was given up.
    in_transit: bool,
    /// Turn of disks and network cards: which of them is asked about such pages.
    device: u8,
    /// Components of the shortest name by which what is open was asked for.
    asked_by: u8,
}

impl Taking {
    /// Nothing is being taken.
    pub(crate) const NONE: Self = Self {
        page: 0,
        cursor: 0,
        passed: 0,
        barren: 0,
        pass: 0,
        pending: 0,
        sweeping: false,
        in_transit: false,
        device: 0,
        asked_by: 0,
    };
}

/// What one pass through the pages of an environment is after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    /// Ordinary pages. One that is mapped in other address spaces, too, becomes an orphan.
    Ordinary,
    /// Regions, packet rings, and tables that no environment runs in.
    Objects,
    /// Access lists: the pages under them are gone by now.
    Lists,
}

/// The passes, in their order: what is an object goes last.
const PASSES: [Pass; 3] = [Pass::Ordinary, Pass::Objects, Pass::Lists];

/// What is asked of an environment.
#[derive(Clone, Copy, Debug)]
struct Request {
    resource: Resource,
    count: u64,
    deadline: u64,
    /// Components of the name by which it is asked.
    by: u8,
}

/// Where the page into which contents are saved stands, in an entry of the list of pages to take first.
const SAVED_SHIFT: u32 = 32;

/// The page of an entry of that list.
const fn listed(entry: u64) -> PageNumber {
    PageNumber(entry & 0xffff_ffff)
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
    /// The one before found none. That alone proves nothing: it may have begun for another environment, some time ago.
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
        if environment == self.caller() {
            return refuse(Error::NotPermitted, 0);
        }
        let name = environment.name();
        self.require(key, &name, Rights::OWN)?;
        let resource = match Resource::from_number(resource) {
            Some(resource @ (Resource::Page | Resource::Slice)) => resource,
            _ => return refuse(Error::BadArgument, 2),
        };
        let by = self.key(key)?.length;
        let wanted = Request { resource, count, deadline, by: by as u8 };
        let Some(open) = self.open_request(environment) else {
            self.open_revocation(environment, wanted);
            return Ok(());
        };
        if by < name.length && wanted.by <= open.by {
            self.open_revocation(environment, wanted);
            return Ok(());
        }
        if resource != open.resource || count == 0 {
            return refuse(Error::InUse, open.resource as u64);
        }
        self.extend_revocation(environment, open, wanted);
        Ok(())
    }

    /// What is being asked of an environment.
    fn open_request(&self, environment: Environment) -> Option<Request> {
        let info = environment.info();
        let resource = info.revocation_resource.load(Ordering::Relaxed).checked_sub(1)?;
        Some(Request {
            resource: if resource == Resource::Slice as u64 { Resource::Slice } else { Resource::Page },
            count: info.revocation_count.load(Ordering::Relaxed),
            deadline: info.revocation_deadline.load(Ordering::Relaxed),
            by: self.secrets(environment).taking.asked_by,
        })
    }

    /// Makes an open request as large and as early as another one.
    fn extend_revocation(&mut self, environment: Environment, open: Request, wanted: Request) {
        environment.change(|info| {
            info.revocation_count.store(open.count.max(wanted.count), Ordering::Relaxed);
            info.revocation_deadline.store(open.deadline.min(wanted.deadline), Ordering::Release);
        });
        let asked_by = &mut self.secrets_mut(environment).taking.asked_by;
        *asked_by = open.by.min(wanted.by);
        self.post(environment, PENDING_REVOCATION);
    }

    /// Puts a request in the place of what was open; a count of 0 is none.
    fn open_revocation(&mut self, environment: Environment, wanted: Request) {
        environment.change(|info| {
            let open = if wanted.count == 0 { 0 } else { wanted.resource as u64 + 1 };
            info.revocation_resource.store(open, Ordering::Relaxed);
            info.revocation_count.store(wanted.count, Ordering::Relaxed);
            info.revocation_deadline.store(wanted.deadline, Ordering::Release);
            info.revocation_emergency.store(0, Ordering::Release);
        });
        self.secrets_mut(environment).taking = Taking { asked_by: wanted.by, ..Taking::NONE };
        if wanted.count != 0 {
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
        let Some(open) = self.open_request(environment) else { return Ok(()) };
        if clock::now() < open.deadline {
            return refuse(Error::Again, open.count);
        }
        let taken = match open.resource {
            Resource::Slice => self.take_slice(environment),
            _ => self.take_page_step(environment),
        };
        match (taken, self.open_request(environment)) {
            (_, None) => Ok(()),
            (Taken::NotYet, Some(left)) => refuse(Error::Again, left.count),
            (Taken::Nothing, Some(left)) => {
                self.open_revocation(environment, Request { count: 0, ..left });
                refuse(Error::Exhausted, left.count)
            }
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
                self.release_slice(environment, cpu, position);
                self.record_taken(environment, Resource::Slice, (cpu as u64) << 32 | position as u64);
            }
            None => self.secrets_mut(environment).taking.cursor += 1,
        }
        Taken::NotYet
    }

    /// Chooses a page, or breaks some of its bindings, or takes it.
    fn take_page_step(&mut self, environment: Environment) -> Taken {
        let taking = self.secrets(environment).taking;
        if taking.sweeping {
            return self.break_uses(environment, taking.cursor);
        }
        let Some(pass) = PASSES.get(usize::from(taking.pass)).copied() else {
            return self.look_again_for_devices(environment);
        };
        let chosen = taking.page.checked_sub(1).map(numbered);
        let Some(page) = chosen.filter(|page| self.is_takable(environment, *page, pass)) else {
            return self.choose_page(environment, pass);
        };
        let info = memory::info(page).expect("a takable page has a record");
        if pass == Pass::Ordinary {
            if let Some(cursor) = self.unbind_own(environment, page, taking.cursor) {
                self.secrets_mut(environment).taking.cursor = cursor;
                return Taken::NotYet;
            }
            if self.is_spent() {
                return Taken::NotYet;
            }
            self.end_ring_and_watches(page, info);
        }
        let saved = if pass == Pass::Ordinary { self.save_contents(environment, page, info) } else { 0 };
        match self.give_up(page, info) {
            Ok(()) => self.note_taken(environment, page, info, saved),
            Err(Stop::Refused(Failure { error: Error::Again, .. })) => return Taken::NotYet,
            Err(_) => self.secrets_mut(environment).taking.passed = page.0 as u32 + 1,
        }
        let taking = &mut self.secrets_mut(environment).taking;
        (taking.page, taking.cursor) = (0, 0);
        Taken::NotYet
    }

    /// Saves the contents of a page that is taken into the page that the environment named for it (exokernel-sosp95
    /// §3.4). The environment pays for both, and a key of its reads the one and writes the other. The result is the
    /// other page; 0: nothing was saved.
    fn save_contents(&mut self, environment: Environment, page: PageNumber, info: &PageInfo) -> u64 {
        let words = self.context_of(environment).private_words();
        let count = (words.take_first_count.load(Ordering::Relaxed) as usize).min(TAKE_FIRST_ENTRIES);
        let named = words.take_first[..count].iter().map(|word| word.load(Ordering::Relaxed));
        let Some(entry) = named.into_iter().find(|entry| listed(*entry) == page && entry >> SAVED_SHIFT != 0) else {
            return 0;
        };
        let (target, key) = (PageNumber(entry >> SAVED_SHIFT), KeyIndex(words.save_key.load(Ordering::Relaxed)));
        let Some(other) = memory::info(target).filter(|_| target != page) else { return 0 };
        let state = memory::state(other);
        let is_own = other.owner.load(Ordering::Relaxed) == environment.number().0;
        if state.kind != PageKind::Ordinary || state.flags & ORPHAN != 0 || !is_own {
            return 0;
        }
        self.spend(cost::PAGE_SAVE);
        let rights = |info| self.rights_of(environment.number(), key, access_list(info));
        if !rights(info).contains(Rights::READ) || !rights(other).contains(Rights::WRITE) {
            return 0;
        }
        self.memory.save(page, target);
        target.0
    }

    /// A page was given up for an environment. While others use it, it is not back. When as many pages as are missing
    /// wait for others, those uses are broken before more is taken.
    fn note_taken(&mut self, environment: Environment, page: PageNumber, info: &PageInfo, saved: u64) {
        self.record_taken(environment, Resource::Page, page.0 | saved << SAVED_SHIFT);
        let missing = environment.info().revocation_count.load(Ordering::Relaxed);
        let is_charged = info.owner.load(Ordering::Relaxed) == environment.number().0;
        let taking = &mut self.secrets_mut(environment).taking;
        taking.pending += u32::from(is_charged);
        taking.sweeping = is_charged && u64::from(taking.pending) >= missing;
    }

    /// Breaks some bindings of a page in the environment's own address space; where to go on, if that is not done.
    fn unbind_own(&mut self, environment: Environment, page: PageNumber, cursor: u64) -> Option<u64> {
        let info = memory::info(page).expect("a takable page has a record");
        if memory::references(info) == 0 {
            return None;
        }
        let root = self.context_of(environment).root();
        let (next, found) = self.unbind_step(page, info, root, cursor);
        if found {
            self.drop_all();
        }
        next
    }

    /// Breaks some of what uses the orphans of an environment.
    fn break_uses(&mut self, environment: Environment, from: u64) -> Taken {
        match self.sweep(environment, from) {
            Some(next) => self.secrets_mut(environment).taking.cursor = next,
            None => {
                let taking = &mut self.secrets_mut(environment).taking;
                (taking.sweeping, taking.pending, taking.cursor) = (false, 0, 0);
            }
        }
        Taken::NotYet
    }

    /// An orphan of an environment stays because a device uses it. Past the patience with an environment under
    /// enforcement the device is reset. Each pass asks another device.
    pub(crate) fn wait_for_device(&mut self, environment: Environment, page: PageNumber) {
        self.secrets_mut(environment).taking.in_transit = true;
        self.spend(cost::DISK_PAGE);
        let (now, deadline) = (clock::now(), environment.info().revocation_deadline.load(Ordering::Relaxed));
        if now >= deadline.saturating_add(TRANSFER_PATIENCE_ENFORCED) {
            let turn = usize::from(self.secrets(environment).taking.device);
            device::give_up_on(turn, page, now, TRANSFER_PATIENCE_ENFORCED);
        }
    }

    /// Every pass is over. What devices still use comes free when they are done: the sweep begins again.
    fn look_again_for_devices(&mut self, environment: Environment) -> Taken {
        let taking = &mut self.secrets_mut(environment).taking;
        if !taking.in_transit {
            return Taken::Nothing;
        }
        taking.device = taking.device.wrapping_add(1);
        (taking.in_transit, taking.sweeping, taking.cursor) = (false, true, 0);
        Taken::NotYet
    }

    /// Whether pages that were asked of an environment are overdue: its pages get no new device pin.
    pub(crate) fn is_under_enforcement(&self, environment: Environment) -> bool {
        let info = environment.info();
        let open = info.revocation_resource.load(Ordering::Relaxed) == Resource::Page as u64 + 1;
        open && clock::now() >= info.revocation_deadline.load(Ordering::Relaxed)
    }

    /// Nothing is left for a pass but what others use.
    fn next_pass(&mut self, environment: Environment) {
        let taking = &mut self.secrets_mut(environment).taking;
        (taking.pass, taking.page, taking.cursor, taking.passed) = (taking.pass + 1, 0, 0, 0);
        taking.sweeping = true;
    }

    /// Whether a page of an environment is one that a pass takes. What an environment runs in is part of it, and not
    /// taken.
    fn is_takable(&self, environment: Environment, page: PageNumber, pass: Pass) -> bool {
        memory::info(page).is_some_and(|info| {
            let state = memory::state(info);
            let is_wanted = match state.kind {
                PageKind::Ordinary => pass == Pass::Ordinary,
                PageKind::Region | PageKind::PacketRing => pass == Pass::Objects,
                PageKind::PageTable => pass == Pass::Objects && (state.level != ROOT_LEVEL || links(info) == 0),
                PageKind::AccessList => pass == Pass::Lists,
                _ => false,
            };
            is_wanted && state.flags & ORPHAN == 0 && info.owner.load(Ordering::Relaxed) == environment.number().0
        })
    }

    /// Chooses the next page to take: from the list, or any after an emergency upcall and its grace.
    fn choose_page(&mut self, environment: Environment, pass: Pass) -> Taken {
        let words = self.context_of(environment).private_words();
        let count = (words.take_first_count.load(Ordering::Relaxed) as usize).min(TAKE_FIRST_ENTRIES);
        let named = words.take_first[..count].iter().map(|word| listed(word.load(Ordering::Relaxed)));
        let mut choice = named.into_iter().find(|page| self.is_takable(environment, *page, pass));
        if choice.is_none() {
            if !self.emergency_passed(environment) {
                return Taken::NotYet;
            }
            match self.next_candidate(environment, pass) {
                Candidate::Page(page) => choice = Some(page),
                Candidate::Later => return Taken::NotYet,
                Candidate::Nothing => {
                    self.next_pass(environment);
                    return Taken::NotYet;
                }
            }
        }
        let taking = &mut self.secrets_mut(environment).taking;
        (taking.page, taking.cursor) = (choice.map_or(0, |page| page.0 as u32 + 1), 0);
        Taken::NotYet
    }

    /// Looks through the pages of an environment, some a step, for one that can be taken: from the one on that it came
    /// to, if the environment still has that.
    fn next_candidate(&mut self, environment: Environment, pass: Pass) -> Candidate {
        let passed = self.secrets(environment).taking.passed.checked_sub(1).map(numbered);
        let is_there = |page: &PageNumber| {
            memory::info(*page).is_some_and(|info| info.owner.load(Ordering::Relaxed) == environment.number().0)
        };
        let mut next = passed.filter(is_there).map_or_else(|| first_page(environment), free_list::next);
        for _ in 0..CANDIDATES_PER_STEP {
            let Some(page) = next else { return Candidate::Nothing };
            if self.is_takable(environment, page, pass) {
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
                let grace = exposed::kernel().emergency_grace.load(Ordering::Relaxed);
                word.store(clock::now() + grace, Ordering::Release);
                self.post(environment, PENDING_EMERGENCY);
                false
            }
            end => clock::now() >= end,
        }
    }

    /// Writes what was taken into the repossession vector. A page counts against the request as soon as it is free.
    pub(crate) fn record_taken(&mut self, environment: Environment, resource: Resource, name: u64) {
        let words = self.context_of(environment).private_words();
        let count = words.repossessed.load(Ordering::Relaxed);
        let entry = &words.repossession[count as usize % REPOSSESSION_ENTRIES];
        entry.resource.store(resource as u64, Ordering::Relaxed);
        entry.name.store(name, Ordering::Relaxed);
        words.repossessed.store(count.wrapping_add(1), Ordering::Release);
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

    /// No page is free. A caller below its reservation has another environment asked, a step a call; any other caller
    /// is refused.
    pub(crate) fn shortage(&mut self, caller: Environment) -> Outcome<PageNumber> {
        if !budget::is_below_reservation(caller, Resource::Page) {
            return refuse(Error::Exhausted, Resource::Page as u64);
        }
        let now = clock::now();
        if now >= self.short_until {
            self.search = Search::default();
        }
        self.short_until = now + exposed::kernel().shortage_deadline.load(Ordering::Relaxed);
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

    /// Fails while pages that come back are for environments below their reservation that had them asked for.
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

    /// Whether asking an environment for pages is of use. It is not when the last request found nothing to take, and
    /// the environment has as many pages as then.
    fn can_be_pressed(&self, environment: Environment) -> bool {
        let used = environment.budget(Resource::Page).used.load(Ordering::Relaxed);
        u64::from(self.secrets(environment).taking.barren) != used
    }

    /// Asks an environment for pages, or takes more of them. No request of others stands in the way: the kernel's has
    /// the shortest name there is.
    fn press(&mut self, environment: Environment) -> Outcome<PageNumber> {
        let kernel = exposed::kernel();
        let latest = clock::now() + kernel.shortage_deadline.load(Ordering::Relaxed);
        let count = kernel.shortage_pages.load(Ordering::Relaxed);
        let wanted = Request { resource: Resource::Page, count, deadline: latest, by: 0 };
        match self.open_request(environment) {
            Some(open) if open.resource == Resource::Page && open.deadline <= latest => {
                if let Err(Stop::Refused(Failure { error: Error::Exhausted, .. })) = self.enforce_step(environment) {
                    let used = environment.budget(Resource::Page).used.load(Ordering::Relaxed);
                    self.secrets_mut(environment).taking.barren = used as u32;
                }
            }
            Some(open) if open.resource == Resource::Page => self.extend_revocation(environment, open, wanted),
            _ => self.open_revocation(environment, wanted),
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
