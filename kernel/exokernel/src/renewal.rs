//! Renewal: an environment that is being destroyed begins again as another one, of the same pages.
//!
//! To destroy an environment and to create the next costs most for what both do to the same pages: filling private ones with
//! zeros, unmapping and mapping the area, giving pages back and taking them again (doc/decision/0015). Nothing else of the
//! old one stays: its slices, pins, predicate, children, pages and budget go as by destruction, its address space but for
//! the table that the area lies in, its registers, its key ring and its number. Its upcall stack is filled with zeros as far as
//! it was used. Who knows what is in the address space may keep all of it (doc/decision/0020).

use crate::address_space::UNLINK;
use crate::budget;
use crate::destruction::{LARGEST_STEP, Progress, STEP};
use crate::environment::Environment;
use crate::kernel::{Kernel, Outcome, refuse};
use crate::key::permit;
use crate::page::{access_list, wake_watchers};
use abi::budget::Resource;
use abi::capability::{Capability, Rights};
use abi::environment::{Specification, State};
use abi::page::{self, ORPHAN};
use abi::page_table::{DIRTY, PRESENT, WRITE};
use abi::{EnvironmentId, Error, Failure, KeyIndex, PageNumber};
use core::ops::Range;
use core::sync::atomic::Ordering;
use machine::page_table::{ENTRIES, ROOT_LEVEL, Slot, index, links, page_of, walk};
use machine::tlb::{self, Extent};
use machine::{context, memory};

/// Units of work of the last step, which looks at all pages and builds the environment, and of each page of the stack that it
/// fills with zeros; and how many it takes at most of those of an entry, so that it comes.
const RENEW: u32 = 160;
const CLEAR: u32 = 13;
const RENEW_MOST: u32 = 260;

impl Kernel {
    /// Renews an environment, or goes on releasing what it held (see `abi::syscall`).
    pub(crate) fn renew(
        &mut self,
        key: KeyIndex,
        number: EnvironmentId,
        (name, first): (KeyIndex, PageNumber),
        keeps: u64,
    ) -> Outcome<EnvironmentId> {
        let name = self.key(name)?;
        if keeps > 1 {
            return refuse(Error::BadArgument, 4);
        }
        let Some(environment) = self.known(number).filter(|found| found.is(State::Dying)) else {
            return refuse(Error::NoSuchEnvironment, number.0);
        };
        self.require(key, &environment.name(), Rights::OWN)?;
        self.readable(key, first)?;
        let area = self.find_area(environment)?;
        if !self.context_of(environment).condemn() {
            self.notify(environment);
            return refuse(Error::Again, 0);
        }
        while self.work_left() >= LARGEST_STEP {
            match self.secrets(environment).destruction {
                Progress::AddressSpace => {
                    if keeps == 0 && !self.release_beside(environment) {
                        break;
                    }
                    self.secrets_mut(environment).destruction = Progress::Pages;
                }
                Progress::Private(0) => {
                    let wanted = self.pages_of(environment);
                    let used = used_stack(&wanted, area);
                    if self.work_left() < (RENEW + CLEAR * used.len() as u32).min(RENEW_MOST) {
                        break;
                    }
                    self.check_pages(key, environment, &wanted)?;
                    self.check_area(&wanted, area)?;
                    return Ok(self.begin_again(environment, &name, first, &wanted, (area, used)));
                }
                Progress::Private(_) | Progress::Own => return refuse(Error::NoSuchEnvironment, number.0),
                _ => {
                    self.spend(STEP);
                    self.destruction_step(environment);
                }
            }
        }
        refuse(Error::Again, 0)
    }

    /// Where an area begins in its table; fails where somebody else has the address space, or a part of it.
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

    /// Fails unless the caller may have all pages of an environment, and one environment more.
    fn check_pages(&self, key: KeyIndex, environment: Environment, wanted: &Specification) -> Result<(), Failure> {
        if self.heir(environment) != self.caller() {
            budget::check(self.caller(), Resource::Environment, 1)?;
        }
        let private = &wanted.private[..wanted.private_count as usize];
        // Nearly all of them are under one list.
        let mut allowed = None;
        for number in [wanted.root, wanted.control, wanted.key_ring, wanted.public].iter().chain(private) {
            let info = self.page(PageNumber(*number))?;
            if Some(access_list(info)) != allowed {
                permit(self.rights_on_page(key, info)?, Rights::OWN)?;
                allowed = Some(access_list(info));
            }
            if memory::state(info).flags & ORPHAN != 0 {
                return Err(Error::WrongKind.about(*number));
            }
        }
        Ok(())
    }

    /// Fails unless each page of an area is at its place, to be written, or nowhere: what the old one put there instead would
    /// be the new one's memory.
    fn check_area(&self, wanted: &Specification, at: Slot) -> Result<(), Failure> {
        let private = &wanted.private[..wanted.private_count as usize];
        let pages = core::iter::once(&wanted.public).chain(private);
        for (index, page) in (at.index..).zip(pages) {
            let entry = Slot { index, ..at }.entry();
            let is_mapped = entry & PRESENT != 0;
            if is_mapped && (entry & WRITE == 0 || page_of(entry).0 != *page) {
                return Err(Error::NotMapped.about(wanted.area));
            }
            let references = memory::references(self.page(PageNumber(*page))?);
            if index > at.index && references != u32::from(is_mapped) {
                return Err(Error::InUse.about(*page));
            }
        }
        Ok(())
    }

    /// What an environment is made of.
    fn pages_of(&self, environment: Environment) -> Specification {
        let info = environment.info();
        let secrets = self.secrets(environment);
        let word = |word: &core::sync::atomic::AtomicU64| word.load(Ordering::Relaxed);
        Specification {
            name_key: 0,
            control: word(&info.control),
            key_ring: word(&info.key_ring),
            public: word(&info.public),
            root: self.context_of(environment).root().0,
            area: word(&info.area),
            private_count: u64::from(secrets.private_count),
            private: secrets.private.map(u64::from),
        }
    }

    /// Takes out of an address space what is neither the table that the area lies in nor one on the way to it, as much as there is
    /// room for; true when nothing else is left.
    fn release_beside(&mut self, environment: Environment) -> bool {
        let area = environment.info().area.load(Ordering::Relaxed);
        let mut table = self.context_of(environment).root();
        for level in (2..=ROOT_LEVEL).rev() {
            let way = Slot { table, index: index(area, level) };
            let mut from = 0;
            while let Some(other) = self.first_beside(way, from) {
                if self.work_left() < UNLINK || !self.release_under(other, level) {
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
        wanted: &Specification,
        (at, used): (Slot, Range<usize>),
    ) -> EnvironmentId {
        // From here on no transfer finds the old one; one that has found it has failed when every CPU has left the kernel.
        context::publish(old.slot(), None);
        tlb::quiesce();
        let words = PageNumber(wanted.private[0]);
        wake_watchers(memory::info(words).expect("a private page has a record"));
        self.memory.refill_private(words, first);
        for index in used {
            self.memory.forget_written(stack_slot(at, index));
            self.memory.clear_private(PageNumber(wanted.private[1 + index]));
        }
        let root = PageNumber(wanted.root);
        tlb::drop_everywhere(root, Extent::All);
        self.memory.count_root(root, -1);
        let info = old.info();
        for page in [&info.control, &info.key_ring] {
            self.memory.vacate(PageNumber(page.swap(PageNumber::NONE.0, Ordering::AcqRel)));
        }
        self.leave_record(old);
        let caller = self.caller();
        budget::charge(caller, Resource::Environment, 1);
        let environment = self.take_slot();
        self.build_environment(environment, Some(caller), *name, wanted);
        environment.number()
    }
}

/// Where a page of the upcall stack is mapped, counted from the lowest.
fn stack_slot(area: Slot, index: usize) -> Slot {
    Slot { index: area.index + 2 + index, ..area }
}

/// The pages of the upcall stack that were used, counted from the lowest: a page further than the lowest that was written by the
/// program, because the kernel's frame may be all that is in it.
fn used_stack(wanted: &Specification, area: Slot) -> Range<usize> {
    let stack = &wanted.private[1..wanted.private_count as usize];
    let is_written = |index: &usize| {
        let noted = memory::info(PageNumber(stack[*index])).map_or(0, |info| memory::state(info).flags & page::DIRTY);
        stack_slot(area, *index).entry() & DIRTY != 0 || noted != 0
    };
    let lowest = (0..stack.len()).find(is_written).unwrap_or(stack.len() + 1);
    lowest.saturating_sub(1)..stack.len()
}
