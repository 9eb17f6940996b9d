//! Packet filters in the kernel: who may insert one, what it is charged to, and the compiled classifier in the code
//! arena.
//!
//! The tree of filters and the classifier are `mechanism/packet-filter`. Every call about filters drives what is under
//! way there, as far as its entry may.
//!
//! Invariants:
//! - A filter counts as a user of its access list, and is charged to its owner's budget of filters.
//! - No filter of a dead environment is left when its destruction has come past its pins.

use crate::budget;
use crate::cost;
use crate::environment::Environment;
use crate::interface;
use crate::kernel::{Kernel, Outcome, copied, refuse};
use crate::key::permit;
use crate::page::count_user;
use abi::budget::Resource;
use abi::capability::Rights;
use abi::environment::State;
use abi::limits::{FILTER_ATOMS, FILTER_OWNERS, FILTER_SHAPES, FILTERS_PER_CODE_PAGE, PAGE_SIZE};
use abi::packet_filter::{Atom, FilterSpecification, ROOT};
use abi::{EnvironmentId, Error, Failure, KeyIndex, PageNumber, UserAddress};
use core::cell::Cell;
use core::mem::MaybeUninit;
use core::sync::atomic::Ordering;
use machine::boot::Boot;
use machine::boot_memory::BootMemory;
use machine::code_arena::{CodeArena, NO_MEMORY};
use machine::dma::DeviceBuffer;
use machine::memory::Generation;
use machine::packet::Piece;
use machine::{exposed, stop, user};
use packet_filter::{Account, Classifier, Job, Keeper, Node, Progress, Quota, Request, Sizes, Step, Storage, limit};

/// What the kernel keeps with a filter.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Attachment {
    pub(crate) tag: u64,
    pub(crate) list: PageNumber,
    pub(crate) ring: Option<(PageNumber, Generation)>,
}

pub(crate) type Filter = Node<Attachment>;
type Tree<'a> = packet_filter::Tree<'a, Attachment>;

/// All that the kernel keeps of the network, set aside at boot.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) tree: Tree<'static>,
    arena: CodeArena,
    /// Where frames to the machine itself are put together.
    pub(crate) frame: DeviceBuffer,
    /// Cards that were given frames and do not know of them yet, as bits.
    pub(crate) to_notify: Cell<u64>,
}

/// Sets everything aside where the machine has a network.
pub(crate) fn prepare(boot: &mut Boot) -> Option<&'static mut Network> {
    let arena = boot.code_arena.take()?;
    Some(set_aside(boot, arena).unwrap_or_else(|| stop::boot_failure(NO_MEMORY)))
}

fn set_aside(boot: &mut Boot, mut arena: CodeArena) -> Option<&'static mut Network> {
    let count = arena.bytes() / PAGE_SIZE as usize * FILTERS_PER_CODE_PAGE as usize;
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
    let (nodes, records) = (memory.slice(count, Node::default)?, memory.slice(sizes.filters, || 0)?);
    let frame = DeviceBuffer::allocate(&mut memory, interface::FRAME_PAGES)?;
    let tree = Tree::new(classifier, nodes, records);
    let mut network = Some(Network { tree, arena, frame, to_notify: Cell::new(0) });
    memory.slice(1, || network.take().expect("one is made"))?.first_mut()
}

fn storage(memory: &mut BootMemory<'_>, sizes: &Sizes) -> Option<Storage<'static>> {
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
        job: memory.slice(1, Job::new)?.first_mut()?,
    })
}

impl Network {
    /// The record of the filter that wins a frame whose prefix was written.
    #[inline(always)]
    pub(crate) fn winner(&self, frame: &Piece) -> Option<u32> {
        let classifier = self.tree.classifier();
        self.tree.winner(self.arena.classify(classifier.entry(), frame, classifier.words()))
    }
}

/// Writes the exposed record of a filter.
fn expose(tree: &Tree<'_>, index: u32) {
    let (info, filter) = (&exposed::filters()[index as usize], tree.node(index));
    let number = if filter.is_live { filter.number } else { 0 };
    if info.number.load(Ordering::Relaxed) != number {
        [&info.packets, &info.bytes, &info.drops].iter().for_each(|count| count.store(0, Ordering::Relaxed));
    }
    let Attachment { tag, list, ring } = filter.attached;
    let ring = ring.map_or(u64::from(u32::MAX), |(page, _)| page.0);
    let words = [
        (&info.owner, filter.owner.0),
        (&info.parent, filter.parent),
        (&info.target, ring | filter.interface << 32 | tag << 48),
        (&info.list, list.0),
        (&info.number, number),
    ];
    words.iter().for_each(|(word, value)| word.store(*value, Ordering::Release));
    if let Some(facts) = exposed::interfaces().first() {
        facts.filters.store(tree.classifier().filter_count() as u64, Ordering::Release);
        facts.shapes.store(tree.classifier().shape_count() as u64, Ordering::Release);
    }
}

impl Keeper<Attachment> for Kernel {
    fn may_overlap(&self, inserter: EnvironmentId, key: KeyIndex, other: &Attachment) -> bool {
        self.rights_of(inserter, key, other.list).contains(Rights::OWN)
    }

    fn changed(&self, tree: &Tree<'_>, index: u32) {
        expose(tree, index);
    }
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
        if let Some(outcome) = self.network_mut()?.tree.take_outcome(caller) {
            return Ok(outcome?);
        }
        if self.network()?.tree.is_busy() || self.is_spent() {
            return refuse(Error::Again, 0);
        }
        let number = self.begin_insertion(key, specification)?;
        if !self.network()?.tree.is_busy() {
            return Ok(number);
        }
        self.drive_filters();
        match self.network_mut()?.tree.take_outcome(caller) {
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
        let is_alive = |owner| self.known(owner).is_some_and(|owner| owner.is(State::Alive));
        let request = if count > 0 {
            let limit = caller.budget(Resource::Filter).limit.load(Ordering::Relaxed);
            let account = self.network()?.tree.account_for(filter.owner, is_alive)?;
            Some(Request { atoms, account, limit, key })
        } else {
            None
        };
        let tree = &mut self.network_mut()?.tree;
        let index = tree.insert(&filter, request.as_ref())?;
        if request.is_none() {
            expose(tree, index);
        }
        let number = tree.node(index).number;
        budget::charge(caller, Resource::Filter, 1);
        count_user(filter.attached.list, 1);
        Ok(number)
    }

    /// Fails unless the caller may have such a filter; what it would be.
    fn check_filter(&mut self, key: KeyIndex, wanted: &FilterSpecification) -> Outcome<Filter> {
        interface::record(wanted.interface)?;
        let parent = match wanted.parent {
            ROOT => {
                self.require(key, &interface::name(wanted.interface), Rights::OWN)?;
                None
            }
            number => {
                let tree = &self.network()?.tree;
                let parent = tree.node(tree.installed(number)?);
                permit(self.rights_on_list(key, parent.attached.list)?, Rights::OWN)?;
                Some(parent)
            }
        };
        let list = PageNumber(wanted.list);
        permit(self.rights_on_list(KeyIndex(wanted.list_key), list)?, Rights::OWN)?;
        let ring = self.ring_for(KeyIndex(wanted.ring_key), PageNumber(wanted.ring))?;
        Ok(Node::new(wanted, parent, self.caller().number(), Attachment { tag: wanted.tag, list, ring })?)
    }

    /// Drives what is under way, as far as this entry may.
    fn drive_filters(&mut self) {
        while self.has_room_for(cost::FILTER_STEP)
            && let Some(network) = self.network.take_if(|network| network.tree.is_busy())
        {
            self.spend(cost::FILTER_STEP);
            let step = network.tree.step(self);
            if let Step::Commit = step {
                let patch = network.tree.classifier().patch();
                network.arena.write(patch.offset, patch.bytes);
            }
            self.network = Some(network);
            if let Step::Gone(filter) = step {
                self.forget_filter(&filter);
            }
        }
    }

    /// A filter is gone from the tree: nothing of it is left.
    fn forget_filter(&mut self, filter: &Filter) {
        if let Some(owner) = self.known(filter.owner) {
            budget::discharge(owner, Resource::Filter, 1);
        }
        count_user(filter.attached.list, -1);
        self.settle(filter.attached.list);
    }

    /// Removes a filter (see `abi::syscall`).
    pub(crate) fn remove_filter(&mut self, key: KeyIndex, number: u64) -> Outcome<()> {
        self.key(key)?;
        let tree = &self.network()?.tree;
        let index = tree.find(number)?;
        let (filter, is_going) = (tree.node(index), tree.is_removing(index));
        let given = self.rights_on_list(key, filter.attached.list)?;
        if filter.owner != self.caller().number() {
            permit(given, Rights::OWN)?;
        }
        self.drive_filters();
        let tree = &self.network()?.tree;
        if !tree.is_busy() && !is_going {
            let index = tree.installed(number)?;
            self.begin_removal(index);
            self.drive_filters();
        }
        if self.network()?.tree.is_busy() { refuse(Error::Again, 0) } else { Ok(()) }
    }

    fn begin_removal(&mut self, index: u32) {
        if let Some(network) = &mut self.network {
            network.tree.remove(index);
            expose(&network.tree, index);
        }
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
        let index = self.network()?.tree.installed(number)?;
        permit(self.rights_on_list(key, self.network()?.tree.node(index).attached.list)?, Rights::OWN)?;
        let ring = self.ring_for(ring_key, ring)?;
        let tree = &mut self.network_mut()?.tree;
        tree.attached_mut(index).ring = ring;
        expose(tree, index);
        Ok(())
    }

    /// Removes some of what is left of an environment that dies; whether there is more.
    pub(crate) fn release_filters(&mut self, environment: Environment) -> bool {
        if self.network.is_none() || environment.budget(Resource::Filter).used.load(Ordering::Relaxed) == 0 {
            return false;
        }
        self.drive_filters();
        let Some(network) = self.network.as_deref_mut() else { return false };
        if !network.tree.is_busy() {
            let found = network.tree.search(environment.number());
            if let Some(index) = found {
                self.begin_removal(index);
            }
            self.spend(cost::FILTER_SEARCH);
        }
        true
    }
}
