//! Environments: a protection domain and an execution context (exokernel-sosp95 §5.1.2; DESIGN.md §4).
//!
//! Owns the environment table, its slots and numbers, and creation. A number is `generation * size of the table +
//! slot`. Slots wait in a queue, the longest dead first, so that the record of a death stays as long as it can.
//! Destruction has a file of its own.

use crate::free_list;
use crate::kernel::{Kernel, Outcome, copied, refuse};
use crate::key::Secrets;
use crate::page::wake_watchers;
use abi::budget::Resource;
use abi::capability::{Capability, Rights};
use abi::environment::{Budget, EnvironmentInfo, Specification, State};
use abi::limits::{PAGE_SIZE, PRIVATE_PAGES, PRIVATE_PAGES_LEAST};
use abi::page::PageKind;
use abi::{EnvironmentId, Error, Failure, KeyIndex, PageNumber, UserAddress};
use core::sync::atomic::Ordering;
use machine::context::Context;
use machine::page_table::Slot;
use machine::{exposed, memory, page_table, user};

/// A slot of the environment table: its exposed record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Environment(&'static EnvironmentInfo);

/// The parts of an environment, but for the private pages of its area.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts {
    /// Root of its page tables.
    pub(crate) root: PageNumber,
    /// Page of its context.
    pub(crate) control: PageNumber,
    /// Page of its secrets.
    pub(crate) key_ring: PageNumber,
    /// Its public page.
    pub(crate) public: PageNumber,
    /// Address of its area.
    pub(crate) area: u64,
}

impl Parts {
    const fn of(wanted: &Specification) -> Self {
        Self {
            root: PageNumber(wanted.root),
            control: PageNumber(wanted.control),
            key_ring: PageNumber(wanted.key_ring),
            public: PageNumber(wanted.public),
            area: wanted.area,
        }
    }
}

impl PartialEq for Environment {
    fn eq(&self, other: &Self) -> bool {
        core::ptr::eq(self.0, other.0)
    }
}

impl Eq for Environment {}

impl Environment {
    /// The environment in a slot that exists.
    pub(crate) fn in_slot(slot: usize) -> Self {
        Self(&exposed::environments()[slot])
    }

    /// The slot that an environment with this number has or had.
    #[inline(always)]
    pub(crate) fn numbered(number: EnvironmentId) -> Self {
        let slots = exposed::environments();
        Self(&slots[number.0 as usize & (slots.len() - 1)])
    }

    /// Whose context this is.
    #[inline(always)]
    pub(crate) fn of(context: &Context) -> Self {
        Self(context.record())
    }

    /// Its slot.
    pub(crate) fn slot(self) -> usize {
        let first = core::ptr::from_ref(&exposed::environments()[0]);
        (core::ptr::from_ref(self.0) as usize - first as usize) / size_of::<EnvironmentInfo>()
    }

    /// Its exposed record.
    #[inline(always)]
    pub(crate) fn info(self) -> &'static EnvironmentInfo {
        self.0
    }

    /// Its number.
    #[inline(always)]
    pub(crate) fn number(self) -> EnvironmentId {
        EnvironmentId(self.info().number.load(Ordering::Relaxed))
    }

    /// Whether it is in this state.
    #[inline(always)]
    pub(crate) fn is(self, state: State) -> bool {
        self.info().state.load(Ordering::Relaxed) == state as u64
    }

    /// Its budget of a resource.
    #[inline(always)]
    pub(crate) fn budget(self, resource: Resource) -> &'static Budget {
        &self.info().budget[resource as usize]
    }

    /// The page of its secrets.
    pub(crate) fn key_ring(self) -> PageNumber {
        PageNumber(self.info().key_ring.load(Ordering::Relaxed))
    }

    /// Its name.
    pub(crate) fn name(self) -> Capability {
        let word = |index: usize| self.info().name[index].load(Ordering::Relaxed);
        Capability {
            length: word(0) as u32,
            rights: Rights::ALL,
            components: core::array::from_fn(|index| word(index + 1)),
        }
    }

    /// Changes the exposed record: odd sequence number, the change, even again.
    pub(crate) fn change<T>(self, change: impl FnOnce(&EnvironmentInfo) -> T) -> T {
        let info = self.info();
        exposed::add(&info.sequence, 1);
        let result = change(info);
        exposed::add(&info.sequence, 1);
        result
    }
}

impl Kernel {
    /// The environment that called.
    #[inline(always)]
    pub(crate) fn caller(&self) -> Environment {
        Environment::of(self.callers_context())
    }

    /// The context of who called.
    #[inline(always)]
    pub(crate) fn callers_context(&self) -> &'static Context {
        machine::entry::current().expect("a call has a caller")
    }

    /// The living environment with this number.
    #[inline]
    pub(crate) fn living(&self, number: EnvironmentId) -> Result<Environment, Failure> {
        self.known(number).filter(|found| found.is(State::Alive)).ok_or(Error::NoSuchEnvironment.about(number.0))
    }

    /// The environment with this number, if it is not gone: it may be dying.
    pub(crate) fn remaining(&self, number: EnvironmentId) -> Result<Environment, Failure> {
        self.known(number).filter(|found| !found.is(State::Dead)).ok_or(Error::NoSuchEnvironment.about(number.0))
    }

    /// The environment with this number, if its slot was not used again.
    #[inline]
    pub(crate) fn known(&self, number: EnvironmentId) -> Option<Environment> {
        let found = Environment::numbered(number);
        (number != EnvironmentId::NONE && found.number() == number).then_some(found)
    }

    /// The context of an environment that is not gone.
    pub(crate) fn context_of(&self, environment: Environment) -> &'static Context {
        let control = PageNumber(environment.info().control.load(Ordering::Relaxed));
        self.memory.context(control).expect("an environment has a context")
    }

    /// Creates an environment (see `abi::syscall`).
    pub(crate) fn create_environment(&mut self, key: KeyIndex, specification: UserAddress) -> Outcome<EnvironmentId> {
        let wanted: Specification = copied(user::read(specification), specification)?;
        let name = *self.key(KeyIndex(wanted.name_key))?;
        if wanted.parts_of != 0 {
            return self.create_of_parts(key, EnvironmentId(wanted.parts_of), &name, (wanted.first, wanted.space));
        }
        if !self.has_room_for(crate::cost::CREATION) {
            return refuse(Error::Again, 0);
        }
        self.spend(crate::cost::CREATION);
        self.check_specification(key, &wanted)?;
        let creator = self.caller();
        crate::budget::check(creator, Resource::Environment, 1)?;
        if self.free_slots.0 == 0 {
            return refuse(Error::Exhausted, Resource::Environment as u64);
        }
        crate::budget::charge(creator, Resource::Environment, 1);
        let environment = self.take_slot();
        self.make_area(&wanted);
        self.build_environment(environment, Some(creator), name, &wanted);
        Ok(environment.number())
    }

    /// All that can be wrong with a specification.
    fn check_specification(&self, key: KeyIndex, wanted: &Specification) -> Outcome<()> {
        let count = wanted.private_count as usize;
        if !(PRIVATE_PAGES_LEAST..=PRIVATE_PAGES).contains(&count) {
            return refuse(Error::BadArgument, 1);
        }
        let bytes = (wanted.private_count + 1) * PAGE_SIZE;
        if !wanted.area.is_multiple_of(PAGE_SIZE) || !abi::memory_map::in_user_half(wanted.area, bytes) {
            return refuse(Error::BadAddress, wanted.area);
        }
        let root = PageNumber(wanted.root);
        self.root(key, root, Rights::OWN)?;
        for page in [wanted.control, wanted.key_ring] {
            self.donatable(key, PageNumber(page))?;
        }
        let addresses = (wanted.area..).step_by(PAGE_SIZE as usize);
        let mut first = None;
        for (address, page) in addresses.zip(core::iter::once(&wanted.public).chain(&wanted.private[..count])) {
            let index = page_table::index(address, 1);
            if address == wanted.area || index == 0 {
                // Through a shared table others would see it.
                let found = page_table::walk(root, address, 1).ok();
                first = found.filter(|walk| walk.shared.is_none()).map(|walk| walk.slot);
            }
            self.area_page(key, PageNumber(*page), first.map(|first| Slot { index, ..first }))?;
        }
        check_distinct(wanted)
    }

    /// A page that becomes part of an area: the caller's, ordinary, mapped at its place or nowhere.
    fn area_page(&self, key: KeyIndex, page: PageNumber, place: Option<Slot>) -> Outcome<()> {
        let info = self.owned_page(key, page)?;
        let at_its_place = place.is_some_and(|place| {
            let entry = place.entry();
            entry & abi::page_table::PRESENT != 0 && page_table::page_of(entry) == page
        });
        let references = memory::references(info);
        if references != u32::from(at_its_place) || machine::dma::device_pins(info) != 0 {
            return refuse(Error::InUse, u64::from(references));
        }
        Ok(())
    }

    /// Makes ordinary pages those of an area.
    pub(crate) fn make_area(&mut self, wanted: &Specification) {
        let addresses = (wanted.area + PAGE_SIZE..).step_by(PAGE_SIZE as usize);
        let mut noted = None;
        for (page, address) in wanted.private[..wanted.private_count as usize].iter().zip(addresses) {
            let info = memory::info(PageNumber(*page)).expect("a page of an area was checked");
            wake_watchers(info);
            self.memory.make_area_page(PageNumber(*page), PageKind::EnvironmentPrivate);
            let table = address / page_table::span(2);
            if memory::references(info) != 0 && noted != Some(table) {
                self.memory.note_private(PageNumber(wanted.root), address);
                noted = Some(table);
            }
        }
        self.memory.make_area_page(PageNumber(wanted.public), PageKind::EnvironmentPublic);
    }

    /// Puts everything in place; every check is behind us, and the pages of the area are made. The first environment
    /// has no creator.
    pub(crate) fn build_environment(
        &mut self,
        environment: Environment,
        creator: Option<Environment>,
        name: Capability,
        wanted: &Specification,
    ) {
        let root = PageNumber(wanted.root);
        let count = wanted.private_count as usize;
        let private: [PageNumber; PRIVATE_PAGES] = wanted.private.map(PageNumber);
        self.memory.count_root(root, 1);
        let stack_base = wanted.area + abi::area::UPCALL_STACK;
        let (number, control) = (environment.number(), PageNumber(wanted.control));
        self.memory.create_context(control, number, root, stack_base, &private[..count], environment.info());
        self.memory.create(PageNumber(wanted.key_ring), PageKind::KeyRing, Secrets::FRESH);
        let secrets = self.memory.get_mut::<Secrets>(PageNumber(wanted.key_ring)).expect("made just now");
        secrets.keys[KeyIndex::FIRST.0 as usize] = name;
        (secrets.private, secrets.private_count) = (private.map(|page| page.0 as u32), count as u8);
        self.introduce(environment, creator, &name, Parts::of(wanted));
    }

    /// An environment that is made becomes known: to its creator, to everybody who reads its record, to transfers.
    pub(crate) fn introduce(
        &mut self,
        environment: Environment,
        creator: Option<Environment>,
        name: &Capability,
        parts: Parts,
    ) {
        environment.change(|info| fill_record(info, creator, name, parts));
        if let Some(creator) = creator {
            crate::destruction::adopt(creator, environment);
        }
        let context = self.context_of(environment);
        context.private_words().number.store(environment.number().0, Ordering::Relaxed);
        machine::context::publish(environment.slot(), Some(context));
    }

    /// Takes the slot that has waited longest and gives it its next number.
    pub(crate) fn take_slot(&mut self) -> Environment {
        let (first, last) = self.free_slots;
        let environment = Environment::in_slot(first as usize - 1);
        let info = environment.info();
        let next = info.siblings.load(Ordering::Relaxed);
        self.free_slots = if next == 0 { (0, 0) } else { (next, last) };
        let slots = exposed::environments().len() as u64;
        let old = info.number.load(Ordering::Relaxed);
        let number = match old {
            // Slot 0 has no number 0: that one means "none".
            0 if environment.slot() == 0 => slots,
            0 => environment.slot() as u64,
            old => old + slots,
        };
        clear_record(info);
        info.number.store(number, Ordering::Release);
        environment
    }

    /// Puts a slot at the end of the queue.
    pub(crate) fn give_slot(&mut self, environment: Environment) {
        let entry = environment.slot() as u64 + 1;
        environment.info().siblings.store(0, Ordering::Release);
        match self.free_slots {
            (0, _) => self.free_slots = (entry, entry),
            (first, last) => {
                Environment::in_slot(last as usize - 1).info().siblings.store(entry, Ordering::Release);
                self.free_slots = (first, entry);
            }
        }
    }
}

/// Fails if a page is named twice.
fn check_distinct(wanted: &Specification) -> Outcome<()> {
    let count = wanted.private_count as usize;
    let others = [wanted.control, wanted.key_ring, wanted.public, wanted.root];
    for (index, page) in wanted.private[..count].iter().enumerate() {
        if others.contains(page) || wanted.private[..index].contains(page) {
            return refuse(Error::BadArgument, 1);
        }
    }
    if others.iter().enumerate().any(|(index, page)| others[..index].contains(page)) {
        return refuse(Error::BadArgument, 1);
    }
    Ok(())
}

/// Writes the exposed record of a new environment. Its number is there already.
fn fill_record(info: &EnvironmentInfo, creator: Option<Environment>, name: &Capability, parts: Parts) {
    let creator = creator.map_or(0, |creator| creator.number().0);
    let words = [
        (&info.creator, creator),
        (&info.root, parts.root.0),
        (&info.control, parts.control.0),
        (&info.public, parts.public.0),
        (&info.key_ring, parts.key_ring.0),
        (&info.area, parts.area),
        (&info.state, State::Alive as u64),
    ];
    words.iter().for_each(|(word, value)| word.store(*value, Ordering::Release));
    info.name[0].store(u64::from(name.length), Ordering::Relaxed);
    for (word, component) in info.name[1..].iter().zip(name.components) {
        word.store(component, Ordering::Relaxed);
    }
}

/// Empties the record of a slot that is used again.
fn clear_record(info: &EnvironmentInfo) {
    info.pages.store(PageNumber::NONE.0, Ordering::Relaxed);
    let links = [&info.first_child, &info.siblings];
    let counts = [&info.time, &info.slices, &info.excess, &info.predicate_terms, &info.owed];
    let death =
        [&info.death_reason, &info.death_kind, &info.death_address, &info.death_rip, &info.death_by, &info.death_time];
    let revocation =
        [&info.revocation_resource, &info.revocation_count, &info.revocation_deadline, &info.revocation_emergency];
    links.into_iter().chain(counts).chain(death).chain(revocation).for_each(|word| word.store(0, Ordering::Relaxed));
    for budget in &info.budget {
        [&budget.limit, &budget.reserved, &budget.used].iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }
}

/// The pages charged to an environment.
pub(crate) fn first_page(environment: Environment) -> Option<PageNumber> {
    free_list::first(&environment.info().pages)
}
