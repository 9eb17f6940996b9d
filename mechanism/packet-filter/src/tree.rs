//! The tree of filters: which filter lies in which, what may be sent under each, and whose they are.
//!
//! A filter of the tree that receives something is one of the [`Classifier`], too. One insertion or removal is under
//! way at a time; every call about filters drives it ([`Tree::step`]).
//!
//! Invariants:
//! - A filter without a parent names its interface in each conjunction.
//! - Any other is contained in its parent, and fixes at least the bytes of a sent header that the parent fixes.
//! - The children of a filter that is gone lie in its parent.

use crate::account::Quota;
use crate::atom::Atom;
use crate::classifier::{Classifier, FilterId, Parent, Progress};
use crate::pool::{Linked, Pool};
use crate::refusal::{Reason, Refusal};
use crate::template::Template;
use abi::budget::Resource;
use abi::limits::{FILTER_DEPTH, FILTER_OWNERS};
use abi::packet_filter::{FilterSpecification, ROOT};
use abi::{EnvironmentId, Error, Failure, KeyIndex};

/// In the detail of `BadArgument` and of `NotPermitted`: it is about an atom or a conjunction.
pub const ABOUT_ATOMS: u64 = 256;
/// In the detail of `NotPermitted`: it is about a byte of the template.
const ABOUT_TEMPLATE: u64 = 512;
/// Conjunctions and atoms for each filter of an owner's budget.
const CONJUNCTIONS: u64 = 4;
const ATOMS: u64 = 24;
/// Shapes of an owner; the second one of an owner of a root.
const SHAPES: [u32; 2] = [8, 64];
/// Records that one step looks at.
const RECORDS_PER_STEP: u32 = 256;
/// Atoms of the interface: its first word.
const INTERFACE_ATOM: Atom =
    Atom { conjunction: 0, compare: 0, size: 2, shift: 0, offset: 0, mask: 0xffff, low: 0, high: 0 };
const NOT_CONTAINED: Refusal = Refusal { conjunction: Some(0), atom: None, reason: Reason::NotContained };

/// A filter of the tree, with what its keeper attaches to it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Node<T> {
    /// Its number, which no other filter ever has: its record (0..16), and how often one was inserted before (16..64).
    pub number: u64,
    /// It is installed, and not being removed.
    pub is_live: bool,
    /// The environment that inserted it.
    pub owner: EnvironmentId,
    /// The filter that it lies in, or [`ROOT`].
    pub parent: u64,
    /// The interface that it is about.
    pub interface: u64,
    /// What it fixes of frames that are sent.
    pub template: Template,
    /// What else belongs to it.
    pub attached: T,
    /// Its part in the classifier.
    inner: Option<FilterId>,
    /// How many filters it lay in when it was inserted.
    depth: u64,
    /// The next record that is free.
    next_free: u32,
}

impl<T: Default> Linked for Node<T> {
    fn link(&mut self) -> &mut u32 {
        &mut self.next_free
    }
}

impl<T: Default> Node<T> {
    /// Such a filter, in this parent if in any.
    ///
    /// # Errors
    /// `BadArgument` (1), `TooMany` and `NotPermitted` as `filter_insert` says, but for its atoms.
    pub fn new(
        wanted: &FilterSpecification,
        parent: Option<&Self>,
        owner: EnvironmentId,
        attached: T,
    ) -> Result<Self, Failure> {
        let template = Template::new(wanted.send_mask, wanted.send_value).ok_or(Error::BadArgument.about(1))?;
        let interface = wanted.interface;
        if wanted.tag > 0xffff || parent.is_some_and(|parent| parent.interface != interface) {
            return Err(Error::BadArgument.about(1));
        }
        let depth = parent.map_or(0, |parent| parent.depth + 1);
        if depth >= FILTER_DEPTH {
            return Err(Error::TooMany.about(FILTER_DEPTH));
        }
        if let Some(byte) = parent.and_then(|parent| template.exceeds(&parent.template)) {
            return Err(Error::NotPermitted.about(ABOUT_TEMPLATE + byte as u64));
        }
        Ok(Self { owner, parent: wanted.parent, interface, template, attached, depth, ..Self::default() })
    }
}

/// How a filter that receives something is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Request<'r> {
    /// What it accepts.
    pub atoms: &'r [Atom],
    /// The account of its owner ([`Tree::account_for`]), and how many filters that one may have.
    pub account: usize,
    /// See `account`.
    pub limit: u64,
    /// The key that it is asked for by.
    pub key: KeyIndex,
}

/// What a change of the tree asks its keeper, and tells it.
pub trait Keeper<T> {
    /// Whether a filter that this environment inserts by this key may overlap another one.
    fn may_overlap(&self, inserter: EnvironmentId, key: KeyIndex, other: &T) -> bool;
    /// A record has changed.
    fn changed(&self, tree: &Tree<'_, T>, index: u32);
}

/// What a step has done.
#[derive(Clone, Copy, Debug)]
pub enum Step<T> {
    /// Part of the work, or the last of an insertion.
    Done,
    /// The classifier's patch must be put into the code arena before the next step.
    Commit,
    /// This filter is gone, by removal or because it was refused.
    Gone(Node<T>),
}

/// An environment whose filters the classifier has, by the number of its account there.
#[derive(Clone, Copy, Debug, Default)]
struct Owner {
    environment: EnvironmentId,
    /// How the insertion ended that it has not heard of yet.
    outcome: Option<Result<u64, Failure>>,
}

/// What is under way, about the filter of a record.
#[derive(Clone, Copy, Debug)]
enum Job {
    /// The classifier installs it; the key that it was asked for by.
    Insertion { index: u32, key: KeyIndex },
    /// The classifier removes it.
    Removal { index: u32 },
    /// Its children go to its parent, from a record on.
    Passing { index: u32, next: u32 },
}

/// See the module.
#[derive(Debug)]
pub struct Tree<'a, T> {
    classifier: &'a mut Classifier<'a>,
    nodes: Pool<'a, Node<T>>,
    /// The record of each filter of the classifier.
    records: &'a mut [u32],
    owners: [Owner; FILTER_OWNERS],
    inserted: u64,
    job: Option<Job>,
    /// Where the search for filters of the dead resumes.
    search: u32,
}

impl<'a, T: Copy + Default> Tree<'a, T> {
    /// An empty tree above an empty classifier whose entry code was committed. `records` are as many as the classifier
    /// has filters; record 0 of `nodes` stays unused.
    pub fn new(classifier: &'a mut Classifier<'a>, nodes: &'a mut [Node<T>], records: &'a mut [u32]) -> Self {
        let owners = [Owner::default(); FILTER_OWNERS];
        Self { classifier, nodes: Pool::new(nodes), records, owners, inserted: 0, job: None, search: 1 }
    }

    /// The classifier.
    #[inline(always)]
    pub fn classifier(&self) -> &Classifier<'a> {
        self.classifier
    }

    /// The record of the filter that an answer of the compiled code means.
    #[inline(always)]
    pub fn winner(&self, answer: u32) -> Option<u32> {
        let found = self.classifier.resolve(answer)?;
        Some(self.records[found.filter.slot() as usize])
    }

    /// A record.
    #[inline(always)]
    pub fn node(&self, index: u32) -> &Node<T> {
        &self.nodes[index]
    }

    /// What belongs to the filter of a record.
    pub fn attached_mut(&mut self, index: u32) -> &mut T {
        &mut self.nodes[index].attached
    }

    /// The record of the filter with this number, which may be under way.
    ///
    /// # Errors
    /// `Gone`.
    #[inline(always)]
    pub fn find(&self, number: u64) -> Result<u32, Failure> {
        record(&self.nodes, number).map(|(index, _)| index).ok_or(Error::Gone.about(number))
    }

    /// The record of the installed filter with this number.
    ///
    /// # Errors
    /// `Gone`.
    #[inline(always)]
    pub fn installed(&self, number: u64) -> Result<u32, Failure> {
        let found = record(&self.nodes, number).filter(|(_, node)| node.is_live);
        found.map(|(index, _)| index).ok_or(Error::Gone.about(number))
    }

    /// Whether something is under way.
    pub fn is_busy(&self) -> bool {
        self.job.is_some()
    }

    /// Whether the removal of a filter is under way.
    pub fn is_removing(&self, index: u32) -> bool {
        match self.job {
            Some(Job::Removal { index: going } | Job::Passing { index: going, .. }) => going == index,
            _ => false,
        }
    }

    /// How an insertion of this environment's ended, said once.
    pub fn take_outcome(&mut self, environment: EnvironmentId) -> Option<Result<u64, Failure>> {
        self.owners.iter_mut().find(|owner| owner.environment == environment)?.outcome.take()
    }

    /// The account of an environment: its own, or one whose owner has no filters and waits for no outcome.
    ///
    /// # Errors
    /// `Exhausted`: all are in use.
    pub fn account_for(
        &self,
        environment: EnvironmentId,
        is_alive: impl Fn(EnvironmentId) -> bool,
    ) -> Result<usize, Failure> {
        let is_free = |account: &usize| {
            let owner = &self.owners[*account];
            let waits = owner.outcome.is_some() && is_alive(owner.environment);
            !waits && self.classifier.account(*account as u32).is_none_or(|(_, used)| used.filters == 0)
        };
        let own = self.owners.iter().position(|owner| owner.environment == environment);
        own.or_else(|| (0..FILTER_OWNERS).find(is_free)).ok_or(Error::Exhausted.about(Resource::Filter as u64))
    }

    /// Takes a record for a filter and begins to install it; the record. A filter without a request receives nothing,
    /// and is installed at once.
    ///
    /// # Errors
    /// `Exhausted`, and what can be said of its atoms at once; nothing has changed.
    pub fn insert(&mut self, node: &Node<T>, request: Option<&Request<'_>>) -> Result<u32, Failure> {
        debug_assert!(self.job.is_none(), "one insertion or removal at a time");
        let Some(index) = self.nodes.take() else {
            return Err(Error::Exhausted.about(Resource::Filter as u64));
        };
        self.inserted += 1;
        let number = self.inserted << 16 | u64::from(index);
        self.nodes[index] = Node { number, is_live: request.is_none(), ..*node };
        if let Some(request) = request
            && let Err(refusal) = self.begin(index, request)
        {
            self.give(index);
            return Err(self.failure(&refusal, node.parent));
        }
        Ok(index)
    }

    /// Begins to install the filter of a record.
    fn begin(&mut self, index: u32, request: &Request<'_>) -> Result<(), Refusal> {
        let Node { parent, interface, owner, .. } = self.nodes[index];
        let account = request.account as u32;
        let limit = request.limit.min(self.records.len() as u64);
        let own = SHAPES[usize::from(parent == ROOT)];
        // It keeps the shapes that it was allowed as long as it has filters.
        let shapes = match self.classifier.account(account) {
            Some((quota, used)) if used.filters > 0 => own.max(quota.shapes).max(used.shapes),
            _ => own,
        };
        let (conjunctions, atoms) = ((limit * CONJUNCTIONS) as u32, (limit * ATOMS) as u32);
        self.classifier.set_quota(account, Quota { filters: limit as u32, conjunctions, atoms, shapes })?;
        let parent = match parent {
            ROOT => Parent::Atom(Atom { low: interface as u32, ..INTERFACE_ATOM }),
            number => {
                let above = self.find(number).ok().and_then(|above| self.nodes[above].inner);
                // A parent that receives nothing contains nothing that does.
                above.map(Parent::Filter).ok_or(NOT_CONTAINED)?
            }
        };
        let inner = self.classifier.insert_in(parent, account, request.atoms)?;
        self.records[inner.slot() as usize] = index;
        self.nodes[index].inner = Some(inner);
        self.owners[request.account] = Owner { environment: owner, outcome: None };
        self.job = Some(Job::Insertion { index, key: request.key });
        Ok(())
    }

    /// Begins to remove an installed filter, while nothing is under way.
    pub fn remove(&mut self, index: u32) {
        let node = &mut self.nodes[index];
        node.is_live = false;
        let is_out = node.inner.is_none_or(|inner| self.classifier.remove(inner).is_err());
        self.job = Some(if is_out { Job::Passing { index, next: 1 } } else { Job::Removal { index } });
    }

    /// Looks for an installed filter of an environment, in a bounded number of records, from where it has looked
    /// before.
    pub fn search(&mut self, owner: EnvironmentId) -> Option<u32> {
        let until = self.nodes.end().min(self.search + RECORDS_PER_STEP);
        let is_own = |index: &u32| self.nodes[*index].is_live && self.nodes[*index].owner == owner;
        let found = (self.search..until).find(is_own);
        self.search = found.unwrap_or(if until == self.nodes.end() { 1 } else { until });
        found
    }

    /// Does a step of what is under way.
    pub fn step(&mut self, keeper: &impl Keeper<T>) -> Step<T> {
        let (index, key) = match self.job {
            Some(Job::Passing { index, next }) => return self.pass_children(index, next, keeper),
            Some(Job::Removal { index }) => (index, None),
            Some(Job::Insertion { index, key }) => (index, Some(key)),
            None => return Step::Done,
        };
        match self.step_classifier(index, key, keeper) {
            Progress::Again => {}
            Progress::Commit => return Step::Commit,
            Progress::Installed(_) => {
                self.nodes[index].is_live = true;
                self.end(index, Ok(self.nodes[index].number));
                keeper.changed(self, index);
            }
            Progress::Refused(refusal) => {
                self.end(index, Err(self.failure(&refusal, self.nodes[index].parent)));
                return self.forget(index, keeper);
            }
            Progress::Removed(_) | Progress::Idle => self.job = Some(Job::Passing { index, next: 1 }),
        }
        Step::Done
    }

    fn step_classifier(&mut self, index: u32, key: Option<KeyIndex>, keeper: &impl Keeper<T>) -> Progress {
        let Self { classifier, records, nodes, .. } = self;
        let (inserter, chain) = (nodes[index].owner, ancestors(nodes, index));
        classifier.step(&mut |inner, _| {
            let other = records[inner.slot() as usize];
            // The chain above is asked before the rights, which cost more.
            let may = |key| keeper.may_overlap(inserter, key, &nodes[other].attached);
            chain.contains(&Some(other)) || key.is_some_and(may)
        })
    }

    /// Ends an insertion.
    fn end(&mut self, index: u32, outcome: Result<u64, Failure>) {
        self.job = None;
        let owner = self.nodes[index].owner;
        if let Some(owner) = self.owners.iter_mut().find(|known| known.environment == owner) {
            owner.outcome = Some(outcome);
        }
    }

    /// Hands some children of a removed filter to its parent.
    fn pass_children(&mut self, index: u32, next: u32, keeper: &impl Keeper<T>) -> Step<T> {
        let Node { number, parent, .. } = self.nodes[index];
        let until = self.nodes.end().min(next + RECORDS_PER_STEP);
        for child in next..until {
            if self.nodes[child].parent == number && self.nodes[child].number != 0 {
                self.nodes[child].parent = parent;
                keeper.changed(self, child);
            }
        }
        if until < self.nodes.end() {
            self.job = Some(Job::Passing { index, next: until });
            return Step::Done;
        }
        self.job = None;
        self.forget(index, keeper)
    }

    fn forget(&mut self, index: u32, keeper: &impl Keeper<T>) -> Step<T> {
        let node = self.give(index);
        keeper.changed(self, index);
        Step::Gone(node)
    }

    fn give(&mut self, index: u32) -> Node<T> {
        let node = core::mem::take(&mut self.nodes[index]);
        self.nodes.give(index);
        node
    }

    /// What the classifier refused, as the inserter gets it.
    fn failure(&self, refusal: &Refusal, parent: u64) -> Failure {
        let conjunction = u64::from(refusal.conjunction.unwrap_or(0));
        match refusal.reason {
            Reason::Overlap { filter, .. } => {
                Error::Overlap.about(self.nodes[self.records[filter.slot() as usize]].number)
            }
            Reason::NotContained => Error::NotPermitted.about(ABOUT_ATOMS + conjunction),
            Reason::NoSuchFilter => Error::Gone.about(parent),
            Reason::Quota(_) => Error::OverBudget.about(Resource::Filter as u64),
            Reason::Full(_) | Reason::TooCostly | Reason::Busy => Error::Exhausted.about(Resource::Filter as u64),
            _ => Error::BadArgument.about(ABOUT_ATOMS + conjunction * 32 + u64::from(refusal.atom.unwrap_or(0))),
        }
    }
}

/// The record of the filter with a number.
#[inline(always)]
fn record<'n, T>(nodes: &'n Pool<'_, Node<T>>, number: u64) -> Option<(u32, &'n Node<T>)> {
    let index = number & 0xffff;
    nodes.get(index).filter(|node| number != ROOT && node.number == number).map(|node| (index as u32, node))
}

/// The records of the filters that a filter lies in.
fn ancestors<T>(nodes: &Pool<'_, Node<T>>, index: u32) -> [Option<u32>; FILTER_DEPTH as usize] {
    let mut number = nodes[index].parent;
    core::array::from_fn(|_| {
        let (index, parent) = record(nodes, number)?;
        number = parent.parent;
        Some(index)
    })
}
