//! The classifier: all filters of all owners, merged, and what is under way to change them.
//!
//! One insertion or removal is under way at a time. The caller of [`Classifier::step`] drives it; any environment
//! that waits for it may call: it needs nothing from its owner any more. Each step does a bounded piece of work. In
//! between, packets are classified by what is complete; a filter that is being installed may begin to accept some of
//! its packets before the last step.

use crate::account::{Account, Quota};
use crate::atom::{Atom, conjunctions};
use crate::conjunction::Conjunction;
use crate::job::{Bound, Job, Phase};
use crate::pool::{Linked, Pool};
use crate::random::Random;
use crate::refusal::{Reason, Refusal, Resource};
use crate::shape::Shapes;
use crate::specificity::Rank;
use crate::storage::{CODE_UNIT, Storage};
use crate::structure::{self, ROOT, Structure};
use crate::unlink::CodeBlocks;
use crate::words::Words;
use crate::{buddy::Buddy, limit};

/// Names a filter as long as it is installed; never used again after that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FilterId {
    pub(crate) slot: u32,
    pub(crate) serial: u64,
}

impl FilterId {
    /// Its place in the table of filters: small, but used again.
    #[must_use]
    pub fn slot(self) -> u32 {
        self.slot
    }

    /// Counts all insertions: the age of the filter.
    #[must_use]
    pub fn serial(self) -> u64 {
        self.serial
    }
}

/// What a filter must be contained in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parent {
    /// Nothing.
    Nothing,
    /// The packets that this atom holds for. It is not a shift.
    Atom(Atom),
    /// An installed filter.
    Filter(FilterId),
}

/// A filter's record.
#[derive(Clone, Copy, Debug, Default)]
pub struct Filter {
    pub(crate) owner: u32,
    pub(crate) serial: u64,
    pub(crate) stage: Stage,
    pub(crate) first_conjunction: u32,
    pub(crate) conjunctions: u32,
    pub(crate) atoms: u32,
    pub(crate) next: u32,
}

/// Where a filter is in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    #[default]
    Free,
    Installing,
    Installed,
    Removing,
}

impl Linked for Filter {
    fn link(&mut self) -> &mut u32 {
        &mut self.next
    }
}

/// The winner of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match {
    /// The filter that wins.
    pub filter: FilterId,
    /// Its owner.
    pub owner: u32,
    /// Which of its conjunctions holds and wins.
    pub conjunction: u8,
    /// By what it wins.
    pub rank: Rank,
}

/// What a step has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Nothing is under way.
    Idle,
    /// Part of the work; step again.
    Again,
    /// [`Classifier::patch`] must be put into the code arena before the next step.
    Commit,
    /// The filter is installed.
    Installed(FilterId),
    /// The filter is gone.
    Removed(FilterId),
    /// The filter was not installed; nothing has changed.
    Refused(Refusal),
}

/// Bytes that belong into the code arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patch<'p> {
    /// Where, from the start of the arena.
    pub offset: usize,
    /// What.
    pub bytes: &'p [u8],
}

/// The code arena's blocks.
#[derive(Debug)]
pub(crate) struct Arena<'a>(pub(crate) Buddy<'a>);

impl CodeBlocks for Arena<'_> {
    fn give_piece(&mut self, piece: structure::Piece) {
        if piece.offset != 0 {
            self.0.give(piece.offset / CODE_UNIT, piece.order);
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Classifier<'a> {
    pub(crate) structure: Structure<'a>,
    pub(crate) filters: Pool<'a, Filter>,
    pub(crate) accounts: &'a mut [Account],
    pub(crate) arena: Arena<'a>,
    pub(crate) staging: &'a mut [u8],
    pub(crate) incoming: &'a mut [Atom],
    pub(crate) random: Random,
    pub(crate) serial: u64,
    pub(crate) stub_units: u32,
    pub(crate) job: &'a mut Job,
}

impl<'a> Classifier<'a> {
    /// An empty classifier in this storage. `secret` seeds hashing and blinding: it must not be known
    /// to owners. Accounts are taken as they are given, with nothing in use. Step until
    /// [`Progress::Idle`] to have the entry code committed.
    ///
    /// # Errors
    /// [`Reason::Storage`] names the part of the storage that does not fit.
    pub fn new(storage: Storage<'a>, secret: u64) -> Result<Self, Refusal> {
        let wrong = |what| Refusal::whole(Reason::Storage(what));
        check_sizes(&storage)?;
        let sizes = [storage.states.len(), storage.branches.len(), storage.conjunctions.len()];
        let words = Words::new(storage.words, storage.word_map, sizes)?;
        let structure = Structure {
            states: Pool::new(storage.states),
            branches: Pool::new(storage.branches),
            conjunctions: Pool::new(storage.conjunctions),
            cells: Pool::new(storage.cells),
            tails: Pool::new(storage.tails),
            shapes: Shapes::new(storage.shapes).ok_or(wrong(Resource::Shapes))?,
            words,
        };
        let arena = Arena(Buddy::new(storage.code_map).ok_or(wrong(Resource::Code))?);
        let mut classifier = Self {
            structure,
            filters: Pool::new(storage.filters),
            accounts: storage.accounts,
            arena,
            staging: storage.staging,
            incoming: storage.incoming,
            random: Random(secret),
            serial: 0,
            stub_units: 0,
            job: storage.job,
        };
        classifier.structure.states.take().ok_or(wrong(Resource::States))?;
        classifier.write_stubs()?;
        Ok(classifier)
    }

    /// Sets what an owner may use. What it already uses stays.
    ///
    /// # Errors
    /// [`Reason::NoSuchOwner`].
    pub fn set_quota(&mut self, owner: u32, quota: Quota) -> Result<(), Refusal> {
        let account = self.accounts.get_mut(owner as usize).ok_or(Refusal::whole(Reason::NoSuchOwner))?;
        account.quota = quota;
        Ok(())
    }

    /// What an owner may use and uses.
    #[must_use]
    pub fn account(&self, owner: u32) -> Option<(Quota, Quota)> {
        self.accounts.get(owner as usize).map(|account| (account.quota, account.used))
    }

    /// Begins to install a filter: copies it and charges its owner. Step on until
    /// [`Progress::Installed`] or [`Progress::Refused`].
    ///
    /// # Errors
    /// What can be said without looking at the atoms one by one; nothing has changed.
    pub fn insert(&mut self, owner: u32, atoms: &[Atom]) -> Result<FilterId, Refusal> {
        self.insert_in(Parent::Nothing, owner, atoms)
    }

    /// The same for a filter that is contained in something.
    ///
    /// # Errors
    /// As [`Self::insert`], and [`Reason::NoSuchFilter`] about the parent.
    pub fn insert_in(&mut self, parent: Parent, owner: u32, atoms: &[Atom]) -> Result<FilterId, Refusal> {
        self.check_idle()?;
        let bound = self.bound(parent)?;
        let count = check_outline(atoms)?;
        let account = self.accounts.get_mut(owner as usize).ok_or(Refusal::whole(Reason::NoSuchOwner))?;
        if self.filters.left() == 0 {
            return Err(Refusal::whole(Reason::Full(Resource::Filters)));
        }
        account.charge(count, atoms.len() as u32)?;
        let slot = self.filters.take().unwrap_or_default();
        self.incoming[..atoms.len()].copy_from_slice(atoms);
        self.serial += 1;
        self.filters[slot] = Filter {
            owner,
            serial: self.serial,
            stage: Stage::Installing,
            atoms: atoms.len() as u32,
            conjunctions: count,
            ..Filter::default()
        };
        self.job.begin(slot, Phase::Check);
        self.job.bound = bound;
        Ok(self.id(slot))
    }

    fn bound(&self, parent: Parent) -> Result<Bound, Refusal> {
        match parent {
            Parent::Nothing => Ok(Bound::Nothing),
            Parent::Atom(atom) => {
                let checked = Conjunction::check(0, &[atom])?;
                checked.conditions().first().map(|condition| Bound::Condition(*condition)).ok_or(NO_PARENT)
            }
            Parent::Filter(filter) if self.is_installed(filter) => {
                Ok(Bound::Conjunctions(self.filters[filter.slot].first_conjunction))
            }
            Parent::Filter(_) => Err(NO_PARENT),
        }
    }

    /// Begins to remove a filter. From now on its packets are no one's: they are dropped until the
    /// removal is done. Step on until [`Progress::Removed`].
    ///
    /// # Errors
    /// [`Reason::NoSuchFilter`], [`Reason::Busy`].
    pub fn remove(&mut self, filter: FilterId) -> Result<(), Refusal> {
        if !self.is_installed(filter) {
            return Err(Refusal::whole(Reason::NoSuchFilter));
        }
        self.check_idle()?;
        self.filters[filter.slot].stage = Stage::Removing;
        self.job.begin(filter.slot, Phase::Locate);
        Ok(())
    }

    fn check_idle(&self) -> Result<(), Refusal> {
        if self.job.phase == Phase::Idle { Ok(()) } else { Err(Refusal::whole(Reason::Busy)) }
    }

    pub(crate) fn id(&self, slot: u32) -> FilterId {
        FilterId { slot, serial: self.filters[slot].serial }
    }

    /// Whether this filter is installed, and not being removed.
    #[must_use]
    pub fn is_installed(&self, filter: FilterId) -> bool {
        let in_range = filter.slot != 0 && filter.slot < self.filters.end();
        in_range
            && self.filters[filter.slot].serial == filter.serial
            && self.filters[filter.slot].stage == Stage::Installed
    }

    /// Filters that are installed, being installed or being removed.
    #[must_use]
    pub fn filter_count(&self) -> usize {
        self.filters.used() as usize
    }

    /// Tests that a packet is put to at most.
    #[must_use]
    pub fn shape_count(&self) -> usize {
        self.structure.shapes.pool.used() as usize - 1
    }

    /// The winner of this packet, by interpreting the merged structure.
    #[must_use]
    pub fn classify(&self, packet: &[u8]) -> Option<Match> {
        self.resolve(self.structure.classify(packet))
    }

    /// What an answer of the compiled code means. Any number is a valid question.
    #[must_use]
    #[inline(always)]
    pub fn resolve(&self, answer: u32) -> Option<Match> {
        if answer == 0 || answer >= self.structure.conjunctions.end() {
            return None;
        }
        let conjunction = &self.structure.conjunctions[answer];
        let filter = &self.filters[conjunction.filter];
        if !matches!(filter.stage, Stage::Installing | Stage::Installed) {
            return None;
        }
        let (number, rank) = (conjunction.number, conjunction.rank);
        Some(Match { filter: self.id(conjunction.filter), owner: filter.owner, conjunction: number, rank })
    }

    /// The words that compiled code reads.
    #[must_use]
    pub fn words(&self) -> &[u32] {
        self.structure.words.all()
    }

    /// Where in the code arena the classification of a packet begins. Changes with the filters: ask for each packet.
    #[must_use]
    pub fn entry(&self) -> usize {
        self.structure.words.get(Words::entry_of(ROOT)) as usize
    }

    /// Bytes of the code arena.
    #[must_use]
    pub fn code_size(&self) -> usize {
        self.arena.0.units() * CODE_UNIT as usize
    }

    /// Whether no record, word or code byte is in use but what an empty classifier uses.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        let structure = &self.structure;
        let pools =
            [structure.conjunctions.used(), structure.cells.used(), structure.branches.used(), structure.tails.used()];
        pools == [0; 4]
            && structure.states.used() == 1
            && self.shape_count() == 0
            && self.filters.used() == 0
            && structure.words.is_whole()
            && self.arena.0.taken() == self.stub_units
            && self.accounts.iter().all(|account| account.used == Quota::default())
    }
}

const NO_PARENT: Refusal = Refusal { conjunction: None, atom: None, reason: Reason::NoSuchFilter };

/// Checks what [`Words`] and [`Pool`] do not.
fn check_sizes(storage: &Storage<'_>) -> Result<(), Refusal> {
    let wrong = |what| Err(Refusal::whole(Reason::Storage(what)));
    let code = storage.code_map.len() / 2 * CODE_UNIT as usize;
    if !(limit::PIECE..=limit::CODE).contains(&code) {
        return wrong(Resource::Code);
    }
    if storage.staging.len() != limit::PIECE || storage.incoming.len() != limit::FILTER_ATOMS {
        return wrong(Resource::Buffers);
    }
    if storage.shapes.len() > limit::SHAPES {
        return wrong(Resource::Shapes);
    }
    if storage.conjunctions.len() > limit::ALL_CONJUNCTIONS || storage.states.len() > limit::ALL_CONJUNCTIONS {
        return wrong(Resource::Conjunctions);
    }
    let accounts_in_use = storage.accounts.iter().any(|account| account.used != Quota::default());
    if accounts_in_use { wrong(Resource::Owners) } else { Ok(()) }
}

/// Checks the order of the conjunctions and counts them.
fn check_outline(atoms: &[Atom]) -> Result<u32, Refusal> {
    if atoms.is_empty() {
        return Err(Refusal::whole(Reason::NoAtoms));
    }
    if atoms.len() > limit::FILTER_ATOMS {
        return Err(Refusal::whole(Reason::TooManyAtoms));
    }
    let mut count = 0;
    for conjunction in conjunctions(atoms) {
        if usize::from(conjunction[0].conjunction) != count {
            return Err(Refusal::in_conjunction(conjunction[0].conjunction, Reason::ConjunctionOrder));
        }
        if count == limit::CONJUNCTIONS {
            return Err(Refusal::whole(Reason::TooManyConjunctions));
        }
        count += 1;
    }
    Ok(count as u32)
}
