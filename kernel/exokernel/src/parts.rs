//! Creation from parts: an environment is made of the pages of a dead one (doc/decision/0044).
//!
//! To destroy an environment and to create the next costs most for what both do to the same pages. They fill private
//! ones with zeros, unmap and map the area, and give pages back to take them again (doc/decision/0015).
//!
//! Invariants:
//! - nothing else of the old one stays: slices, pins, predicate, children, pages and budget go as by destruction, and
//!   registers, keys and number are new;
//! - the first private page gets the caller's words;
//! - a page of the upcall stack is filled with zeros if the old environment wrote it, or the kernel for that one;
//! - the address space goes except the table of the area, or stays as it is: its creator knows what is in it.

use crate::budget;
use crate::cost;
use crate::destruction::Progress;
use crate::environment::{Environment, Parts};
use crate::kernel::{Kernel, Outcome, refuse};
use crate::key::{Secrets, permit};
use crate::page::{access_list, wake_watchers};
use abi::budget::Resource;
use abi::capability::{Capability, Rights};
use abi::environment::State;
use abi::limits::PRIVATE_PAGES;
use abi::page::{self, ORPHAN, PageInfo};
use abi::page_table::{DIRTY, PAGE, PRESENT, WRITE};
use abi::{EnvironmentId, Error, Failure, KeyIndex, PageNumber};
use core::sync::atomic::Ordering;
use machine::page_table::{ENTRIES, ROOT_LEVEL, Slot, index, links, page_of, walk};
use machine::tlb::{self, Extent};
use machine::{context, memory};

impl Kernel {
    /// Creates an environment from the parts of a dead one, or resumes releasing what that one held (see
    /// `abi::environment::Specification`).
    pub(crate) fn create_of_parts(
        &mut self,
        key: KeyIndex,
        number: EnvironmentId,
        name: &Capability,
        (first, space): (u64, u64),
    ) -> Outcome<EnvironmentId> {
        let first = PageNumber(first);
        self.key(key)?;
        if space > 1 {
            return refuse(Error::BadArgument, 1);
        }
        let Some(environment) = self.known(number).filter(|found| found.is(State::Dying)) else {
            return refuse(Error::NoSuchEnvironment, number.0);
        };
        self.require(key, &environment.name(), Rights::OWN)?;
        if environment.info().creator.load(Ordering::Relaxed) != self.caller().number().0 {
            return refuse(Error::NotPermitted, number.0);
        }
        self.readable(key, first)?;
        let area = self.find_area(environment)?;
        if !self.context_of(environment).condemn() {
            self.notify(environment);
            return refuse(Error::Again, 0);
        }
        while self.work_left() >= cost::DESTRUCTION_LEFT {
            match self.secrets(environment).destruction {
                Progress::AddressSpace => {
                    if space == 0 && !self.release_beside(environment) {
                        break;
                    }
                    self.secrets_mut(environment).destruction = Progress::Pages;
                }
                Progress::Private(0) => {
                    let parts = self.parts_of(environment);
                    let allowed = self.check_parts(key, parts)?;
                    let written = self.check_area(key, environment, (parts.public, area), allowed)?;
                    if self.work_left() < (cost::PARTS + cost::PARTS_CLEAR * written.count_ones()).min(cost::PARTS_MOST)
                    {
                        break;
                    }
                    return Ok(self.begin_again(environment, name, first, parts, (area, written)));
                }
                Progress::Private(_) | Progress::Own => return refuse(Error::NoSuchEnvironment, number.0),
                _ => {
                    self.spend(cost::DESTRUCTION_STEP);
                    self.destruction_step(environment);
                }
            }
        }
        refuse(Error::Again, 0)
    }

    /// Where an area begins in its table; fails where another environment has the address space, or a part of it.
    fn find_area(&self, environment: Environment) -> Result<Slot, Failure> {
        let root = self.context_of(environment).root();
        let area = environment.info().area.load(Ordering::Relaxed);
        if links(self.page(root)?) != 1 {
            return Err(Error::InUse.about(root.0));
        }
        let found = walk(root, area, 1).map_err(|_| Error::NotMapped.about(area))?;
        let last = found.slot.index + usize::from(self.secrets(environment).private_count);
        match found.shared {
            Some(table) => Err(Error::InUse.about(table.0)),
            // An area in two tables is not worth the code.
            None if last >= ENTRIES => Err(Error::NotMapped.about(area)),
            None => Ok(found.slot),
        }
    }

    /// Fails unless the caller may have what an environment is made of. The result is a list whose pages the caller may
    /// have. The charge for the old environment serves the new one.
    fn check_parts(&self, key: KeyIndex, parts: Parts) -> Result<Option<PageNumber>, Failure> {
        let mut allowed = None;
        for page in [parts.public, parts.root, parts.control, parts.key_ring] {
            self.check_page(key, page, self.page(page)?, &mut allowed)?;
        }
        Ok(allowed)
    }

    /// Fails unless the caller may have a page. Nearly all of them are under one list.
    #[inline(always)]
    fn check_page(
        &self,
        key: KeyIndex,
        page: PageNumber,
        info: &PageInfo,
        allowed: &mut Option<PageNumber>,
    ) -> Result<(), Failure> {
        if *allowed != Some(access_list(info)) {
            permit(self.rights_on_page(key, info)?, Rights::OWN)?;
            *allowed = Some(access_list(info));
        }
        if memory::state(info).flags & ORPHAN != 0 {
            return Err(Error::WrongKind.about(page.0));
        }
        Ok(())
    }

    /// Fails unless the caller may have each private page, and each page of the area is at its place, writable, or
    /// nowhere. What the old environment put there instead would be the new one's memory. The result is the pages of
    /// the upcall stack that were written, as bits from the lowest on: by the program, or by the kernel with a frame.
    fn check_area(
        &self,
        key: KeyIndex,
        environment: Environment,
        (public, area): (PageNumber, Slot),
        mut allowed: Option<PageNumber>,
    ) -> Result<u32, Failure> {
        let misplaced = || Error::NotMapped.about(environment.info().area.load(Ordering::Relaxed));
        is_in_place(area.entry(), public).ok_or_else(misplaced)?;
        let private = self.secrets(environment).private();
        let entries = Slot { index: area.index + 1, ..area }.entries(private.len());
        let mut written = self.context_of(environment).written();
        for (index, (number, entry)) in private.iter().zip(entries).enumerate() {
            let page = PageNumber(u64::from(*number));
            let info = memory::info(page).expect("a private page has a record");
            self.check_page(key, page, info, &mut allowed)?;
            let is_mapped = is_in_place(entry, page).ok_or_else(misplaced)?;
            if memory::references(info) != u32::from(is_mapped) {
                return Err(Error::InUse.about(page.0));
            }
            // The first is no part of the stack.
            let Some(place) = index.checked_sub(1) else { continue };
            if entry & DIRTY != 0 || memory::state(info).flags & page::DIRTY != 0 {
                written |= 1 << place;
            }
        }
        Ok(written)
    }

    /// The parts of an environment, but for the private pages of its area.
    fn parts_of(&self, environment: Environment) -> Parts {
        let info = environment.info();
        let page = |word: &core::sync::atomic::AtomicU64| PageNumber(word.load(Ordering::Relaxed));
        Parts {
            root: self.context_of(environment).root(),
            control: page(&info.control),
            key_ring: environment.key_ring(),
            public: page(&info.public),
            area: info.area.load(Ordering::Relaxed),
        }
    }

    /// Takes out of an address space all but the table that the area lies in and those on the way to it, as much as
    /// there is room for. True when nothing else is left.
    fn release_beside(&mut self, environment: Environment) -> bool {
        let area = environment.info().area.load(Ordering::Relaxed);
        let mut table = self.context_of(environment).root();
        for level in (2..=ROOT_LEVEL).rev() {
            let way = Slot { table, index: index(area, level) };
            let mut from = 0;
            while let Some(other) = self.first_beside(way, from) {
                if self.work_left() < cost::TABLE_UNLINK || !self.release_under(other, level) {
                    return false;
                }
                from = other.index + 1;
            }
            table = page_of(way.entry());
        }
        true
    }

    /// The first present entry of a table from an index on, but for one.
    fn first_beside(&self, way: Slot, from: usize) -> Option<Slot> {
        let mut slot = self.memory.first_used(way.table, from)?;
        while slot.index == way.index || slot.entry() & PRESENT == 0 {
            slot = self.memory.first_used(way.table, slot.index + 1)?;
        }
        Some(slot)
    }

    /// The old environment becomes a record, and the new one begins; every check is behind us.
    fn begin_again(
        &mut self,
        old: Environment,
        name: &Capability,
        first: PageNumber,
        parts: Parts,
        (area, mut written): (Slot, u32),
    ) -> EnvironmentId {
        // From here on no transfer finds the old one; one that has found it has failed when every CPU has left the
        // kernel.
        context::publish(old.slot(), None);
        tlb::quiesce();
        let private = self.secrets(old).private;
        let page = |index: usize| PageNumber(u64::from(private[index % PRIVATE_PAGES]));
        wake_watchers(memory::info(page(0)).expect("a private page has a record"));
        self.memory.refill_private(page(0), first);
        while written != 0 {
            let index = written.trailing_zeros() as usize;
            written &= written - 1;
            self.memory.forget_written(stack_slot(area, index));
            self.memory.clear_private(page(1 + index));
        }
        tlb::drop_everywhere(parts.root, Extent::All);
        for page in [&old.info().control, &old.info().key_ring] {
            page.store(PageNumber::NONE.0, Ordering::Release);
        }
        self.leave_record(old);
        let caller = self.caller();
        budget::charge(caller, Resource::Environment, 1);
        let environment = self.take_slot();
        self.memory.renew_context(parts.control, environment.number(), environment.info());
        self.memory.get_mut::<Secrets>(parts.key_ring).expect("it has secrets").begin_again(*name);
        self.introduce(environment, Some(caller), name, parts);
        environment.number()
    }
}

/// Where a page of the upcall stack is mapped, counted from the lowest.
fn stack_slot(area: Slot, index: usize) -> Slot {
    Slot { index: area.index + 2 + index, ..area }
}

/// Whether an entry maps a page, to be written; nothing where it maps anything else.
#[inline(always)]
fn is_in_place(entry: u64, page: PageNumber) -> Option<bool> {
    let bits = PRESENT | WRITE;
    if entry & (PAGE | bits) == page.address() | bits { Some(true) } else { (entry & PRESENT == 0).then_some(false) }
}
