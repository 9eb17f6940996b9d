//! Packet filters in the kernel: the tree of filters, who may insert one, and the merged classifier in the code arena.
//!
//! A filter of this file is a node of the tree. One that receives something is also a filter of the classifier
//! (`mechanism/packet-filter`), which decides by compiled code. One insertion or removal is under way at a time, and
//! every call about filters drives it.
//!
//! Invariants:
//! - A filter without a parent names its interface in each conjunction.
//! - Any other is contained in its parent, and fixes at least the bytes of a sent header that the parent fixes.
//! - A filter counts as a user of its access list, and is charged to its owner's budget of filters.
//! - No filter of a dead environment is left when its destruction has come past its pins.

use crate::budget;
use crate::cost;
use crate::environment::Environment;
use crate::interface;
use crate::kernel::{Kernel, Outcome, copied, refuse};
use crate::key::permit;
use crate::packet_flight::Flights;
use crate::page::count_user;
use abi::budget::Resource;
use abi::capability::Rights;
use abi::environment::State;
use abi::limits::{FILTER_ATOMS, FILTER_DEPTH, FILTER_OWNERS, FILTER_SHAPES};
use abi::packet_filter::{Atom, FilterSpecification, ROOT};
use abi::{EnvironmentId, Error, Failure, KeyIndex, PageNumber, UserAddress};
use core::mem::MaybeUninit;
use core::sync::atomic::Ordering;
use machine::boot::Boot;
use machine::code_arena::CodeArena;
use machine::dma::DeviceBuffer;
use machine::memory::Generation;
use machine::packet::Piece;
use machine::{exposed, user};
use packet_filter::{
    Account, Classifier, FilterId, Job as ClassifierJob, Parent, Progress, Quota, Reason, Refusal, Sizes, Storage,
    limit,
};

/// In the detail of `BadArgument` and of `NotPermitted`: it is about an atom or a conjunction.
pub(crate) const ABOUT_ATOMS: u64 = 256;
/// Words of a header that a template can fix.
pub(crate) const FIXED_WORDS: usize = 8;
/// In the detail of `NotPermitted`: it is about a byte of the template.
const ABOUT_TEMPLATE: u64 = 512;
/// Conjunctions and atoms for each filter of an owner's budget.
const CONJUNCTIONS: u64 = 4;
const ATOMS: u64 = 24;
/// Shapes of an owner; the second one of an owner of a root.
const SHAPES: [u32; 2] = [8, 64];
/// Records that one step looks at.
const RECORDS_PER_STEP: usize = 256;
/// Atoms of the interface: its first word.
const INTERFACE_ATOM: Atom =
    Atom { conjunction: 0, compare: 0, size: 2, shift: 0, offset: 0, mask: 0xffff, low: 0, high: 0 };

/// The header bytes that a filter fixes of frames sent under it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Template {
    mask: [u64; FIXED_WORDS],
    value: [u64; FIXED_WORDS],
    /// Bytes up to the last one that is fixed.
    pub(crate) end: usize,
}

impl Template {
    fn new(mask: [u64; FIXED_WORDS], value: [u64; FIXED_WORDS]) -> Self {
        let last = mask.iter().rposition(|word| *word != 0);
        let end = last.map_or(0, |word| word * 8 + 8 - mask[word].leading_zeros() as usize / 8);
        Self { mask, value, end }
    }

    /// The bits of a word that a header has otherwise.
    #[inline(always)]
    pub(crate) fn differs(&self, index: usize, word: u64) -> u64 {
        (word ^ self.value[index]) & self.mask[index]
    }

    /// Whether it fixes any bit of a byte.
    pub(crate) fn fixes(&self, byte: usize) -> bool {
        self.mask.get(byte / 8).is_some_and(|word| word >> (byte % 8 * 8) & 0xff != 0)
    }

    /// The first byte that it leaves free, or fixes otherwise, where the parent fixes it.
    fn exceeds(&self, parent: &Self) -> Option<usize> {
        first_byte(core::array::from_fn(|index| {
            parent.mask[index] & !self.mask[index] | (self.value[index] ^ parent.value[index]) & parent.mask[index]
        }))
    }
}

/// The first byte that is not 0 in a row of words.
#[cold]
pub(crate) fn first_byte(words: [u64; FIXED_WORDS]) -> Option<usize> {
    let (index, word) = words.into_iter().enumerate().find(|(_, word)| *word != 0)?;
    Some(index * 8 + word.trailing_zeros() as usize / 8)
}

/// A node of the tree.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Filter {
    pub(crate) number: u64,
    /// It is installed, and not being removed.
    live: bool,
    /// Its part in the classifier.
    inner: Option<FilterId>,
    owner: EnvironmentId,
    parent: u64,
    /// How many filters it lay in when it was inserted.
    depth: u64,
    pub(crate) interface: u64,
    pub(crate) tag: u64,
    pub(crate) list: PageNumber,
    pub(crate) ring: Option<(PageNumber, Generation)>,
    pub(crate) template: Template,
    /// The next record that is free, plus one.
    next_free: u32,
}

/// An environment whose filters the classifier has, by the number of its account there.
#[derive(Clone, Copy, Debug, Default)]
struct Owner {
    environment: EnvironmentId,
    /// How the insertion ended that it has not heard of yet.
    outcome: Option<Result<u64, Failure>>,
}

/// What is under way.
#[derive(Clone, Copy, Debug)]
struct Job {
    /// The record of the filter.
    index: usize,
    /// Of an insertion: its account, and the key that it was asked for by.
    insertion: Option<(usize, KeyIndex)>,
    /// Of a removal: whether the classifier has done its part, and the record to look at next for children.
    is_out: bool,
    next: usize,
}

/// All that the kernel keeps of the network, set aside at boot.
#[derive(Debug)]
pub(crate) struct Network {
    classifier: &'static mut Classifier<'static>,
    arena: CodeArena,
    filters: &'static mut [Filter],
    /// The record of each filter of the classifier.
    records: &'static mut [u32],
    owners: [Owner; FILTER_OWNERS],
    free: u32,
    inserted: u64,
    job: Option<Job>,
    /// Where the search for filters of the dead resumes.
    search: usize,
    /// Where frames to the machine itself are put together.
    pub(crate) frame: DeviceBuffer,
    /// Frames that cards have.
    pub(crate) flights: Flights,
}

/// Sets everything aside where the machine has a network. None: it has none, or too little memory for it.
pub(crate) fn prepare(boot: &mut Boot) -> Option<&'static mut Network> {
    let mut arena = boot.code_arena.take()?;
    let count = arena.bytes() / abi::limits::PAGE_SIZE as usize * abi::limits::FILTERS_PER_CODE_PAGE as usize;
    let sizes = Sizes { shapes: FILTER_SHAPES, code: arena.bytes(), ..Sizes::for_filters(FILTER_OWNERS, count) };
    let mut secret = [0; 8];
    if !driver::entropy::fill(&mut secret) {
        secret = machine::clock::now().to_le_bytes();
    }
    let mut memory = boot.memory();
    let mut storage = Some(storage(&mut memory, &sizes)?);
    let mut make = || {
        let storage = storage.take().expect("one classifier is made");
        Classifier::new(storage, u64::from_le_bytes(secret)).expect("the sizes fit")
    };
    let classifier = memory.slice(1, &mut make)?.first_mut()?;
    while classifier.step(&mut |_, _| false) == Progress::Commit {
        let patch = classifier.patch();
        arena.write(patch.offset, patch.bytes);
    }
    let filters = memory.slice(count, Filter::default)?;
    (1..count).for_each(|index| filters[index - 1].next_free = index as u32 + 1);
    let records = memory.slice(sizes.filters, || 0)?;
    let frame = DeviceBuffer::allocate(&mut memory, interface::FRAME_PAGES)?;
    let flights = Flights::new(&mut memory)?;
    let mut network = Some(Network {
        classifier,
        arena,
        filters,
        records,
        owners: [Owner::default(); FILTER_OWNERS],
        free: 1,
        inserted: 0,
        job: None,
        search: 0,
        frame,
        flights,
    });
    memory.slice(1, || network.take().expect("one is made"))?.first_mut()
}

fn storage(memory: &mut machine::boot_memory::BootMemory<'_>, sizes: &Sizes) -> Option<Storage<'static>> {
    Some(Storage {
        accounts: memory.slice(sizes.owners, || Account::new(Quota::default()))?,
        filters: memory.slice(sizes.filters, Default::default)?,
        conjunctions: memory.slice(sizes.conjunctions, Default::default)?,
        cells: memory.slice(sizes.cells, Default::default)?,
        shapes: memory.slice(sizes.shapes, Default::default)?,
        states: memory.slice(sizes.states, Default::default)?,
        branches: memory.slice(sizes.branches, Default::default)?,
        tails: memory.slice(sizes.tails, Default::default)?,
        words: memory.slice(sizes.words(), Default::default)?,
        word_map: memory.slice(sizes.word_map(), Default::default)?,
        code_map: memory.slice(sizes.code_map(), Default::default)?,
        staging: memory.slice(limit::PIECE, Default::default)?,
        incoming: memory.slice(limit::FILTER_ATOMS, Default::default)?,
        job: memory.slice(1, ClassifierJob::new)?.first_mut()?,
    })
}

impl Network {
    /// The record of the filter that wins a frame whose prefix was written.
    #[inline(always)]
    pub(crate) fn winner(&self, frame: &Piece) -> Option<usize> {
        let answer = self.arena.classify(self.classifier.entry(), frame, self.classifier.words());
        let found = self.classifier.resolve(answer)?;
        Some(self.records[found.filter.slot() as usize] as usize)
    }

    /// A record.
    #[inline]
    pub(crate) fn filter(&self, index: usize) -> &Filter {
        &self.filters[index]
    }

    /// Tests that a frame is put to at most.
    pub(crate) fn shapes(&self) -> usize {
        self.classifier.shape_count()
    }

    /// The record of the filter with this number, which may be under way.
    #[inline]
    fn index_of(&self, number: u64) -> Result<usize, Failure> {
        let index = (number & 0xffff) as usize;
        let is_it = number != ROOT && self.filters.get(index).is_some_and(|filter| filter.number == number);
        if is_it { Ok(index) } else { Err(Error::Gone.about(number)) }
    }

    /// The record of the installed filter with this number.
    #[inline]
    pub(crate) fn installed(&self, number: u64) -> Result<usize, Failure> {
        let index = self.index_of(number)?;
        if self.filters[index].live { Ok(index) } else { Err(Error::Gone.about(number)) }
    }

    /// How an insertion of the caller's ended, said once.
    fn take_outcome(&mut self, environment: EnvironmentId) -> Option<Result<u64, Failure>> {
        self.owners.iter_mut().find(|owner| owner.environment == environment)?.outcome.take()
    }

    /// Takes a free record.
    fn take_record(&mut self, filter: Filter) -> Option<usize> {
        let index = self.free.checked_sub(1)? as usize;
        self.free = self.filters[index].next_free;
        self.inserted += 1;
        self.filters[index] = Filter { number: self.inserted << 16 | index as u64, next_free: 0, ..filter };
        Some(index)
    }

    /// Writes the exposed record.
    fn expose(&self, index: usize) {
        let (info, filter) = (&exposed::filters()[index], &self.filters[index]);
        let number = if filter.live { filter.number } else { 0 };
        if info.number.load(Ordering::Relaxed) != number {
            [&info.packets, &info.bytes, &info.drops].iter().for_each(|count| count.store(0, Ordering::Relaxed));
        }
        let ring = filter.ring.map_or(u64::from(u32::MAX), |(page, _)| page.0);
        let words = [
            (&info.owner, filter.owner.0),
            (&info.parent, filter.parent),
            (&info.target, ring | filter.interface << 32 | filter.tag << 48),
            (&info.list, filter.list.0),
            (&info.number, number),
        ];
        words.iter().for_each(|(word, value)| word.store(*value, Ordering::Release));
        let facts = exposed::interfaces().first();
        if let Some(facts) = facts {
            facts.filters.store(self.classifier.filter_count() as u64, Ordering::Release);
            facts.shapes.store(self.classifier.shape_count() as u64, Ordering::Release);
        }
    }

    /// Does a step of what is under way; the record of a filter that is gone now.
    fn step(&mut self, mut job: Job, kernel: &Kernel) -> Option<usize> {
        if job.insertion.is_none() && job.is_out {
            return self.pass_children(job);
        }
        let Self { classifier, records, filters, .. } = self;
        let may_overlap = |index: usize| {
            let Some((account, key)) = job.insertion else { return false };
            let inserter = self.owners[account].environment;
            kernel.rights_of(inserter, key, filters[index].list).contains(Rights::OWN)
        };
        let progress = {
            // The chain above is asked before the rights, which cost more.
            let chain = ancestors(filters, job.index);
            classifier.step(&mut |inner, _| {
                let index = records[inner.slot() as usize] as usize;
                chain.contains(&Some(index)) || may_overlap(index)
            })
        };
        match progress {
            Progress::Commit => {
                let patch = self.classifier.patch();
                self.arena.write(patch.offset, patch.bytes);
            }
            Progress::Installed(_) => {
                self.filters[job.index].live = true;
                self.expose(job.index);
                self.end(job, Ok(self.filters[job.index].number));
            }
            Progress::Refused(refusal) => {
                let failure = self.failure(&refusal, &self.filters[job.index]);
                self.end(job, Err(failure));
                return Some(job.index);
            }
            Progress::Removed(_) | Progress::Idle => {
                job.is_out = true;
                self.job = Some(job);
            }
            Progress::Again => {}
        }
        None
    }

    /// Ends an insertion.
    fn end(&mut self, job: Job, outcome: Result<u64, Failure>) {
        self.job = None;
        if let Some((account, _)) = job.insertion {
            self.owners[account].outcome = Some(outcome);
        }
    }

    /// Hands some children of a removed filter to its parent; its record when that was all.
    fn pass_children(&mut self, job: Job) -> Option<usize> {
        let Filter { number, parent, .. } = self.filters[job.index];
        let until = self.filters.len().min(job.next + RECORDS_PER_STEP);
        for index in job.next..until {
            if self.filters[index].parent == number && self.filters[index].number != 0 {
                self.filters[index].parent = parent;
                self.expose(index);
            }
        }
        let is_done = until == self.filters.len();
        self.job = if is_done { None } else { Some(Job { next: until, ..job }) };
        is_done.then_some(job.index)
    }

    /// What the classifier refused, as the caller gets it.
    fn failure(&self, refusal: &Refusal, filter: &Filter) -> Failure {
        let conjunction = u64::from(refusal.conjunction.unwrap_or(0));
        match refusal.reason {
            Reason::Overlap { filter, .. } => {
                let other = self.records[filter.slot() as usize] as usize;
                Error::Overlap.about(self.filters[other].number)
            }
            Reason::NotContained => Error::NotPermitted.about(ABOUT_ATOMS + conjunction),
            Reason::NoSuchFilter => Error::Gone.about(filter.parent),
            Reason::Quota(_) => Error::OverBudget.about(Resource::Filter as u64),
            Reason::Full(_) | Reason::TooCostly | Reason::Busy => Error::Exhausted.about(Resource::Filter as u64),
            _ => Error::BadArgument.about(ABOUT_ATOMS + conjunction * 32 + u64::from(refusal.atom.unwrap_or(0))),
        }
    }
}

/// The records of the filters that a filter lies in.
fn ancestors(filters: &[Filter], index: usize) -> [Option<usize>; FILTER_DEPTH as usize] {
    let mut number = filters[index].parent;
    core::array::from_fn(|_| {
        let parent = (number & 0xffff) as usize;
        let found = (number != ROOT && filters.get(parent)?.number == number).then_some(parent);
        number = found.map_or(ROOT, |parent| filters[parent].parent);
        found
    })
}

impl Kernel {
    pub(crate) fn network(&self) -> Result<&Network, Failure> {
        self.network.as_deref().ok_or(Error::Absent.about(0))
    }

    fn network_mut(&mut self) -> Result<&mut Network, Failure> {
        self.network.as_deref_mut().ok_or(Error::Absent.about(0))
    }

    /// Inserts a filter (see `abi::syscall`).
    pub(crate) fn insert_filter(&mut self, key: KeyIndex, specification: UserAddress) -> Outcome<u64> {
        self.key(key)?;
        self.network()?;
        self.drive_filters();
        let caller = self.caller().number();
        if let Some(outcome) = self.network_mut()?.take_outcome(caller) {
            return Ok(outcome?);
        }
        if self.network()?.job.is_some() || self.is_spent() {
            return refuse(Error::Again, 0);
        }
        let number = self.begin_insertion(key, specification)?;
        if self.network()?.job.is_none() {
            return Ok(number);
        }
        self.drive_filters();
        match self.network_mut()?.take_outcome(caller) {
            Some(outcome) => Ok(outcome?),
            None => refuse(Error::Again, 0),
        }
    }

    /// Checks all of a filter but its atoms, and begins to install it.
    fn begin_insertion(&mut self, key: KeyIndex, address: UserAddress) -> Outcome<u64> {
        let wanted: FilterSpecification = copied(user::read(address), address)?;
        let filter = self.check_filter(key, &wanted)?;
        let count = usize::try_from(wanted.atom_count).unwrap_or(usize::MAX);
        if count > FILTER_ATOMS {
            return refuse(Error::TooMany, FILTER_ATOMS as u64);
        }
        let mut copy = [const { MaybeUninit::uninit() }; FILTER_ATOMS];
        let from = UserAddress(wanted.atoms);
        let atoms: &[Atom] = copied(user::copy_rows_in(&mut copy[..count], from), from)?;
        let caller = self.caller();
        budget::check(caller, Resource::Filter, 1)?;
        let limit = caller.budget(Resource::Filter).limit.load(Ordering::Relaxed);
        let account = if count > 0 { Some(self.account_of(caller)?) } else { None };
        let network = self.network_mut()?;
        let Some(index) = network.take_record(filter) else {
            return refuse(Error::Exhausted, Resource::Filter as u64);
        };
        match account {
            None => {
                network.filters[index].live = true;
                network.expose(index);
            }
            Some(account) => {
                if let Err(refusal) = network.begin(index, account, limit, key, atoms) {
                    let failure = network.failure(&refusal, &filter);
                    network.give_record(index);
                    return Err(failure.into());
                }
            }
        }
        let number = network.filters[index].number;
        budget::charge(caller, Resource::Filter, 1);
        count_user(filter.list, 1);
        Ok(number)
    }

    /// Fails unless the caller may have such a filter; what it would be.
    fn check_filter(&mut self, key: KeyIndex, wanted: &FilterSpecification) -> Outcome<Filter> {
        let interface = wanted.interface;
        interface::record(interface)?;
        let (parent, depth) = match wanted.parent {
            ROOT => {
                self.require(key, &interface::name(interface), Rights::OWN)?;
                (Filter::default(), 0)
            }
            number => {
                let parent = *self.network()?.filter(self.network()?.installed(number)?);
                permit(self.rights_on_list(key, parent.list)?, Rights::OWN)?;
                (parent, parent.depth + 1)
            }
        };
        if wanted.tag > 0xffff || wanted.parent != ROOT && parent.interface != interface {
            return refuse(Error::BadArgument, 1);
        }
        if depth >= FILTER_DEPTH {
            return refuse(Error::TooMany, FILTER_DEPTH);
        }
        let list = PageNumber(wanted.list);
        permit(self.rights_on_list(KeyIndex(wanted.list_key), list)?, Rights::OWN)?;
        let ring = self.ring_for(KeyIndex(wanted.ring_key), PageNumber(wanted.ring))?;
        let template = Template::new(wanted.send_mask, wanted.send_value);
        let is_odd = wanted.send_value.iter().zip(&wanted.send_mask).any(|(value, mask)| value & !mask != 0);
        if is_odd {
            return refuse(Error::BadArgument, 1);
        }
        if let Some(byte) = template.exceeds(&parent.template) {
            return refuse(Error::NotPermitted, ABOUT_TEMPLATE + byte as u64);
        }
        let owner = self.caller().number();
        let parent = wanted.parent;
        Ok(Filter { owner, parent, depth, interface, tag: wanted.tag, list, ring, template, ..Filter::default() })
    }

    /// The account of an environment in the classifier: its own, or one whose owner has no filters or is gone.
    fn account_of(&mut self, environment: Environment) -> Outcome<usize> {
        let number = environment.number();
        let network = self.network()?;
        if let Some(own) = network.owners.iter().position(|owner| owner.environment == number) {
            return Ok(own);
        }
        let is_free = |(account, owner): &(usize, &Owner)| {
            let is_used = network.classifier.account(*account as u32).is_some_and(|(_, used)| used.filters > 0);
            let waits = owner.outcome.is_some() && self.known(owner.environment).is_some_and(|it| it.is(State::Alive));
            !is_used && !waits
        };
        let found = network.owners.iter().enumerate().find(is_free).map(|(account, _)| account);
        let Some(account) = found else { return refuse(Error::Exhausted, Resource::Filter as u64) };
        self.network_mut()?.owners[account] = Owner { environment: number, outcome: None };
        Ok(account)
    }

    /// Drives what is under way, as far as this entry may.
    fn drive_filters(&mut self) {
        loop {
            let Some(network) = self.network.take() else { return };
            let room = self.has_room_for(cost::FILTER_STEP);
            let gone = match network.job {
                Some(job) if room => {
                    self.spend(cost::FILTER_STEP);
                    network.step(job, self)
                }
                _ => {
                    self.network = Some(network);
                    return;
                }
            };
            self.network = Some(network);
            if let Some(index) = gone {
                self.forget_filter(index);
            }
        }
    }

    /// A filter is gone from the classifier: nothing of it is left.
    fn forget_filter(&mut self, index: usize) {
        let Some(network) = self.network.as_deref_mut() else { return };
        let Filter { owner, list, .. } = network.filters[index];
        network.give_record(index);
        if let Some(owner) = self.known(owner) {
            budget::discharge(owner, Resource::Filter, 1);
        }
        count_user(list, -1);
        self.settle(list);
    }

    /// Removes a filter (see `abi::syscall`).
    pub(crate) fn remove_filter(&mut self, key: KeyIndex, number: u64) -> Outcome<()> {
        self.key(key)?;
        let index = self.network()?.index_of(number)?;
        let Filter { owner, list, .. } = *self.network()?.filter(index);
        let given = self.rights_on_list(key, list)?;
        if owner != self.caller().number() {
            permit(given, Rights::OWN)?;
        }
        let is_going = self.network()?.job.is_some_and(|job| job.index == index && job.insertion.is_none());
        self.drive_filters();
        if self.network()?.job.is_some() {
            return refuse(Error::Again, 0);
        }
        if is_going {
            return Ok(());
        }
        let index = self.network()?.installed(number)?;
        self.network_mut()?.begin_removal(index);
        self.drive_filters();
        if self.network()?.job.is_some() { refuse(Error::Again, 0) } else { Ok(()) }
    }

    /// Gives a filter another ring (see `abi::syscall`).
    pub(crate) fn direct_filter(
        &mut self,
        key: KeyIndex,
        number: u64,
        ring_key: KeyIndex,
        ring: PageNumber,
    ) -> Outcome<()> {
        self.key(key)?;
        let index = self.network()?.installed(number)?;
        permit(self.rights_on_list(key, self.network()?.filter(index).list)?, Rights::OWN)?;
        let ring = self.ring_for(ring_key, ring)?;
        let network = self.network_mut()?;
        network.filters[index].ring = ring;
        network.expose(index);
        Ok(())
    }

    /// Removes some of what is left of an environment that dies; whether there is more.
    pub(crate) fn release_filters(&mut self, environment: Environment) -> bool {
        if self.network.is_none() || environment.budget(Resource::Filter).used.load(Ordering::Relaxed) == 0 {
            return false;
        }
        self.drive_filters();
        let Some(network) = self.network.as_deref_mut() else { return false };
        if network.job.is_none() {
            let (first, count) = (network.search, network.filters.len());
            let number = environment.number();
            let until = count.min(first + RECORDS_PER_STEP);
            let found =
                (first..until).find(|index| network.filters[*index].live && network.filters[*index].owner == number);
            network.search = if until == count { 0 } else { until };
            if let Some(index) = found {
                network.search = index;
                network.begin_removal(index);
            }
            self.spend(cost::FILTER_SEARCH);
        }
        true
    }
}

impl Network {
    /// Begins to install the filter of a record.
    fn begin(
        &mut self,
        index: usize,
        account: usize,
        limit: u64,
        key: KeyIndex,
        atoms: &[Atom],
    ) -> Result<(), Refusal> {
        let Filter { parent, interface, .. } = self.filters[index];
        let limit = limit.min(self.filters.len() as u64);
        let known = self.classifier.account(account as u32).map_or(0, |(quota, used)| quota.shapes.max(used.shapes));
        let is_new = !self.classifier.account(account as u32).is_some_and(|(_, used)| used.filters > 0);
        let shapes = SHAPES[usize::from(parent == ROOT)];
        let quota = Quota {
            filters: limit as u32,
            conjunctions: (limit * CONJUNCTIONS) as u32,
            atoms: (limit * ATOMS) as u32,
            shapes: if is_new { shapes } else { shapes.max(known) },
        };
        self.classifier.set_quota(account as u32, quota)?;
        let parent = match parent {
            ROOT => Parent::Atom(Atom { low: interface as u32, ..INTERFACE_ATOM }),
            number => {
                let above = self.index_of(number).ok().and_then(|above| self.filters[above].inner);
                // A parent that receives nothing contains nothing that does.
                above.map(Parent::Filter).ok_or(NOT_CONTAINED)?
            }
        };
        let inner = self.classifier.insert_in(parent, account as u32, atoms)?;
        self.records[inner.slot() as usize] = index as u32;
        self.filters[index].inner = Some(inner);
        self.job = Some(Job { index, insertion: Some((account, key)), is_out: false, next: 0 });
        Ok(())
    }

    fn begin_removal(&mut self, index: usize) {
        let filter = &mut self.filters[index];
        filter.live = false;
        let is_out = filter.inner.is_none_or(|inner| self.classifier.remove(inner).is_err());
        self.expose(index);
        self.job = Some(Job { index, insertion: None, is_out, next: 0 });
    }

    fn give_record(&mut self, index: usize) {
        self.filters[index] = Filter { next_free: self.free, ..Filter::default() };
        self.free = index as u32 + 1;
        self.expose(index);
    }
}

const NOT_CONTAINED: Refusal = Refusal { conjunction: Some(0), atom: None, reason: Reason::NotContained };
